/* tests/layers/checkpoint/test_ckpt_folder.c - which checkpoints a folder has, how one gets its name, how they go.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#define _GNU_SOURCE /* nftw() */
#include "layers/checkpoint/disk.h"
#include "layers/checkpoint/folder.h"
#include "layers/checkpoint/manifest.h"
#include <ftw.h>
#include <kith/kith.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[256];

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *where)
{
    (void)info, (void)kind, (void)where;
    return remove(path);
}

static int make_scratch(void **state)
{
    (void)state;
    const char *base = getenv("TMPDIR");
    snprintf(folder, sizeof folder, "%.200s/ckpt_XXXXXX", base != NULL ? base : "/tmp");
    return mkdtemp(folder) == NULL;
}

static int remove_scratch(void **state)
{
    (void)state;
    return nftw(folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static const char *in_folder(const char *name)
{
    static char paths[4][512];
    static int next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    return path;
}

static bool is_there(const char *name)
{
    return access(in_folder(name), F_OK) == 0;
}

/* A file and the manifest: a whole checkpoint, which its number tells from others. */
static void write_manifest(const char *path, int64_t step, double mark)
{
    kith_checkpoint_number number = { "mark", mark };
    ki_manifest manifest = { .step = step, .optimizer_steps = -1, .numbers = &number, .number_count = 1 };
    manifest.files[0] = (ki_manifest_file){ .name = "data", .nbytes = 3 };
    manifest.file_count = 1;
    char *text, file[600];
    size_t nbytes;
    snprintf(file, sizeof file, "%s/data", path);
    assert_int_equal(ki_manifest_print(&manifest, &text, &nbytes), KITH_OK);
    assert_int_equal(ki_disk_write_whole(file, "abc", 3), KITH_OK);
    snprintf(file, sizeof file, "%s/kith.json", path);
    assert_int_equal(ki_disk_write_whole(file, text, nbytes), KITH_OK);
    free(text);
}

static void save(int64_t step, double mark, bool can_exchange)
{
    ki_draft draft;
    assert_int_equal(ki_draft_create(folder, step, &draft), KITH_OK);
    assert_non_null(strstr(draft.path, ".part"));
    write_manifest(draft.path, step, mark);
    assert_int_equal(ki_draft_publish(&draft, can_exchange), KITH_OK);
    ki_draft_end(&draft);
}

static double mark_of(const char *path)
{
    ki_manifest manifest;
    assert_int_equal(ki_manifest_read(path, &manifest), KITH_OK);
    double mark = manifest.numbers[0].value;
    ki_manifest_fini(&manifest);
    return mark;
}

static void require_newest(const char *name, int64_t wanted_step, double mark)
{
    char *path = NULL;
    int64_t step = -1;
    if (ki_folder_newest(folder, &path, &step) != KITH_OK)
        fail_msg("wanted %s, got: %s", name, kith_error_detail());
    assert_string_equal(path, in_folder(name));
    assert_int_equal(step, wanted_step);
    assert_true(mark_of(path) == mark);
    free(path);
}

static void test_publish(void **state)
{
    (void)state;
    for (int can_exchange = 0; can_exchange < 2; can_exchange++)
        for (int i = 0; i < 3; i++) {
            save(5 + can_exchange, i, can_exchange);
            require_newest(can_exchange ? "step-00000006" : "step-00000005", 5 + can_exchange, i);
            assert_false(is_there("step-00000005.old") || is_there("step-00000006.old"));
        }
}

static void test_newest(void **state)
{
    (void)state;
    char *path = NULL;
    int64_t step = -1;
    assert_int_equal(ki_folder_newest(folder, &path, &step), KITH_ERR_INVALID_ARG);
    assert_non_null(strstr(kith_error_detail(), "has no checkpoint"));
    assert_int_equal(ki_folder_newest(in_folder("absent"), &path, &step), KITH_ERR_INVALID_ARG);
    static const char *const others[] = { "step-9",
                                          "step-00000099x",
                                          "step-00000098.part",
                                          "step-00000097.part",
                                          "step-00000096.1.part",
                                          "step-000000000000000000099",
                                          "epoch-00000001",
                                          "step-" };
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        assert_int_equal(mkdir(in_folder(others[i]), 0777), 0);
    write_manifest(in_folder("step-00000097.part"), 97, 0); /* whole, but for its name */
    assert_int_equal(ki_disk_write_whole(in_folder("step-00000095"), "a file", 6), KITH_OK);
    assert_int_equal(mkdir(in_folder("step-00000094"), 0777), 0); /* without a manifest */
    assert_int_equal(ki_folder_newest(folder, &path, &step), KITH_ERR_INVALID_ARG);
    assert_non_null(strstr(kith_error_detail(), "has no whole checkpoint"));
    save(3, 1, true);
    save(12, 2, true);
    require_newest("step-00000012", 12, 2);
    assert_int_equal(truncate(in_folder("step-00000012/data"), 2), 0);
    require_newest("step-00000003", 3, 1);
    assert_int_equal(ki_folder_newest(in_folder("step-00000003"), &path, &step), KITH_OK); /* is one itself */
    assert_int_equal(step, 3);
    free(path);
    assert_int_equal(ki_folder_newest(in_folder("step-00000012"), &path, &step), KITH_ERR_INVALID_ARG);
    assert_non_null(strstr(kith_error_detail(), "step-00000012/data: damaged: has 2 bytes, was written with 3"));
}

/* A file system that cannot exchange names has a moment with the old one under its other name alone. */
static void test_old(void **state)
{
    (void)state;
    save(4, 1, true);
    assert_int_equal(rename(in_folder("step-00000004"), in_folder("step-00000004.old")), 0);
    require_newest("step-00000004.old", 4, 1);
    save(4, 2, false);
    require_newest("step-00000004", 4, 2);
    assert_false(is_there("step-00000004.old"));
    assert_int_equal(mkdir(in_folder("step-00000004.old"), 0777), 0);
    write_manifest(in_folder("step-00000004.old"), 4, 1);
    save(4, 3, false);
    require_newest("step-00000004", 4, 3);
    assert_false(is_there("step-00000004.old"));
}

static void test_prune(void **state)
{
    (void)state;
    for (int step = 1; step < 6; step++)
        save(step, step, true);
    ki_draft draft;
    assert_int_equal(ki_draft_create(folder, 7, &draft), KITH_OK); /* somebody is at it */
    assert_int_equal(mkdir(in_folder("step-00000008.1-0.part"), 0777), 0);
    assert_int_equal(unlink(in_folder("step-00000005/kith.json")), 0);
    assert_int_equal(ki_folder_prune(folder, 2, -1), KITH_OK);
    assert_true(is_there("step-00000003") && is_there("step-00000004"));
    assert_false(is_there("step-00000001") || is_there("step-00000002"));
    assert_true(is_there("step-00000005")); /* damaged: not counted, and left to be looked at */
    assert_false(is_there("step-00000008.1-0.part"));
    assert_int_equal(access(draft.path, F_OK), 0);
    char *part = strdup(draft.path);
    ki_draft_end(&draft);
    assert_int_equal(access(part, F_OK), -1);
    free(part);
    assert_int_equal(ki_folder_prune(folder, 1, -1), KITH_OK);
    require_newest("step-00000004", 4, 4);
    assert_false(is_there("step-00000003"));
}

/* A run that went on from an older one saves below others. */
static void test_prune_stays(void **state)
{
    (void)state;
    static const int steps[] = { 5, 6, 7, 10 };
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++)
        save(steps[i], 1, true);
    assert_int_equal(ki_folder_prune(folder, 2, 7), KITH_OK);
    assert_true(is_there("step-00000007") && is_there("step-00000010"));
    assert_false(is_there("step-00000005") || is_there("step-00000006"));
    assert_int_equal(ki_folder_prune(folder, 1, 7), KITH_OK);
    assert_true(is_there("step-00000007"));
    assert_false(is_there("step-00000010"));
}

/* What killed jobs left goes, what somebody is at stays. */
static void test_clear(void **state)
{
    (void)state;
    ki_draft draft;
    save(1, 1, true);
    assert_int_equal(ki_draft_create(folder, 7, &draft), KITH_OK);
    assert_int_equal(mkdir(in_folder("step-00000008.1-0.part"), 0777), 0);
    assert_int_equal(mkdir(in_folder("mine.part"), 0777), 0);
    assert_int_equal(ki_folder_clear(folder), KITH_OK);
    assert_int_equal(ki_folder_clear(in_folder("absent")), KITH_OK);
    assert_false(is_there("step-00000008.1-0.part"));
    assert_true(is_there("mine.part") && is_there("step-00000001"));
    assert_int_equal(access(draft.path, F_OK), 0);
    ki_draft_end(&draft);
}

/* Folders inside are not ours. */
static void test_not_ours(void **state)
{
    (void)state;
    save(1, 1, true);
    save(2, 1, true);
    assert_int_equal(mkdir(in_folder("step-00000001/mine"), 0777), 0);
    assert_int_equal(ki_folder_prune(folder, 1, -1), KITH_ERR_IO);
    assert_non_null(strstr(kith_error_detail(), "cannot be removed"));
    require_newest("step-00000002", 2, 1);
}

static void test_two_jobs(void **state)
{
    (void)state;
    ki_draft a, b;
    assert_int_equal(ki_draft_create(folder, 1, &a), KITH_OK);
    assert_int_equal(ki_draft_create(folder, 1, &b), KITH_OK);
    assert_string_not_equal(a.path, b.path);
    write_manifest(a.path, 1, 1);
    write_manifest(b.path, 1, 2);
    assert_int_equal(ki_draft_publish(&a, true), KITH_OK);
    ki_draft_end(&a);
    require_newest("step-00000001", 1, 1);
    assert_int_equal(ki_draft_publish(&b, true), KITH_OK);
    ki_draft_end(&b);
    require_newest("step-00000001", 1, 2);
}

static void test_manifest(void **state)
{
    (void)state;
    static const ki_sum sums[] = { { "a", 1 }, { "b\\c", 0xffffffff } };
    const kith_checkpoint_number numbers[] = { { "one", 1 },        { "third", 1.0 / 3 }, { "nan", NAN },
                                               { "least", 5e-324 }, { "minus", -0.0 },    { "far", -INFINITY } };
    ki_manifest manifest = { .step = 123456789012, .optimizer_steps = 7, .numbers = numbers, .number_count = 6 }, read;
    manifest.files[0] = (ki_manifest_file){ .name = "x", .nbytes = 10, .crc = 0xabcdef01 };
    manifest.files[1] = (ki_manifest_file){ .name = "y", .nbytes = 20, .crc = 2, .sums = sums, .count = 1 };
    manifest.file_count = 2;
    char *text;
    size_t nbytes;
    assert_int_equal(ki_manifest_print(&manifest, &text, &nbytes), KITH_OK);
    assert_int_equal(ki_manifest_parse("m", text, nbytes, &read), KITH_OK);
    assert_true(read.step == manifest.step && read.optimizer_steps == 7 && read.number_count == 6);
    for (int i = 0; i < 6; i++) {
        assert_string_equal(read.numbers[i].name, numbers[i].name);
        assert_memory_equal(&read.numbers[i].value, &numbers[i].value, sizeof(double));
    }
    assert_true(read.file_count == 2 && read.files[0].crc == 0xabcdef01 && read.files[1].nbytes == 20);
    assert_true(ki_manifest_find(&read, "y")->count == 1 && ki_manifest_find(&read, "z") == NULL);
    assert_string_equal(read.files[1].sums[0].name, "a");
    ki_manifest_fini(&read);
    for (size_t at = 0; at < nbytes; at++)
        for (int bit = 0; bit < 8; bit++) {
            text[at] = (char)(text[at] ^ 1 << bit);
            assert_int_equal(ki_manifest_parse("m", text, nbytes, &read), KITH_ERR_INVALID_ARG);
            text[at] = (char)(text[at] ^ 1 << bit);
        }
    for (size_t cut = 0; cut < nbytes; cut++)
        assert_int_equal(ki_manifest_parse("m", text, cut, &read), KITH_ERR_INVALID_ARG);
    free(text);
}

int main(void)
{
#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, make_scratch, remove_scratch)
    const struct CMUnitTest tests[] = {
        IN_FOLDER(test_publish),  IN_FOLDER(test_newest),      IN_FOLDER(test_old),
        IN_FOLDER(test_prune),    IN_FOLDER(test_prune_stays), IN_FOLDER(test_clear),
        IN_FOLDER(test_not_ours), IN_FOLDER(test_two_jobs),    cmocka_unit_test(test_manifest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
