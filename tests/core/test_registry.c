/* tests/core/test_registry.c - modules from KITH_BACKEND_PATH: good ones are found, each wrong one says what is wrong.
 *
 * The modules are those of tests/core/modules; files that are no modules at all are written here.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "core/base/json.h"
#include "core/registry.h"

#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static char folder[] = "/tmp/kith-registry-XXXXXX";

static void write_file(const char *name, const char *content)
{
    char path[200];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(content, file);
    fclose(file);
}

static int set_up(void **state)
{
    char path[PATH_MAX];
    (void)state;
    if (mkdtemp(folder) == NULL)
        return -1;
    write_file("libkith_garbage.so", "this is not a shared object\n");
    write_file("libkith_empty.so", "");
    write_file("libother_x.so", "not ours");
    write_file("libkith_.so", "no name");
    write_file("libkith_old.so.1", "another suffix");
    write_file("kith_x.so", "no prefix");
    snprintf(path, sizeof path, "::%s:/nonexistent/folder:%s/../modules:%s:", TEST_MODULES, TEST_MODULES, folder);
    return setenv("KITH_BACKEND_PATH", path, 1);
}

static int tear_down(void **state)
{
    char command[100];
    (void)state;
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command);
}

static void assert_has(const char *text, const char *part)
{
    if (strstr(text, part) == NULL)
        fail_msg("the text lacks \"%s\": %s", part, text);
}

static void expect_refused(const char *name, const char *why)
{
    const kith_backend *backend = (const kith_backend *)folder;
    for (int again = 0; again < 2; again++) { /* the reason stays */
        assert_int_equal(ki_registry_find(name, &backend), KITH_ERR_UNSUPPORTED);
        assert_has(kith_error_detail(), why);
        assert_has(kith_error_detail(), name);
        assert_ptr_equal(backend, folder);
    }
    assert_true(ki_registry_has(name));
}

static void test_wrong_modules(void **state)
{
    (void)state;
    expect_refused("abi", "backend interface 2, this library has 1");
    expect_refused("renamed", "the module calls itself 'somebody', its file is named for 'renamed'");
    expect_refused("short", "table of 40 bytes is shorter than");
    expect_refused("null", "kith_backend_v1() returned NULL");
    expect_refused("partial", "send_start");
    expect_refused("nosymbol", "no function kith_backend_v1 in it");
    expect_refused("absent", "no such device in this machine");
    expect_refused("garbage", "libkith_garbage.so");
    expect_refused("empty", "libkith_empty.so");
}

static void test_unknown_name(void **state)
{
    (void)state;
    const kith_backend *backend = NULL;
    assert_int_equal(ki_registry_find("warp", &backend), KITH_ERR_INVALID_ARG);
    assert_has(kith_error_detail(), "there is no backend 'warp'");
    assert_has(kith_error_detail(), "shm");
    assert_has(kith_error_detail(), "plain");
    assert_false(ki_registry_has("warp"));
    assert_false(ki_registry_has("other"));
    assert_false(ki_registry_has("x"));
    assert_false(ki_registry_has(""));
    assert_false(ki_registry_has("old"));
    assert_null(backend);
}

/* What a module leaves out is there afterwards, and does what its absence means. */
static void test_completed(void **state)
{
    (void)state;
    const kith_backend *backend = NULL;
    kith_be_query query = {
        .kind = KITH_ALL_REDUCE, .dtype = KITH_F32, .op = KITH_SUM, .is_reducer_commutative = 1
    };
    kith_be_answer answer = { 1, 1, "x" };
    assert_int_equal(ki_registry_find("plain", &backend), KITH_OK);
    assert_string_equal(backend->name, "plain");
    assert_int_equal(backend->query(NULL, &query, &answer), KITH_OK);
    assert_true(answer.is_native == 0 && answer.is_deterministic == 0);
    assert_int_equal(backend->is_drained(NULL), 1);
    backend->group_destroy(NULL);
    backend->group_abort(NULL);
    backend->close(NULL);
    backend->coll_cancel(NULL, NULL);
    assert_true(backend->coll_start == NULL && backend->progress == NULL && backend->mem_alloc == NULL);
    const kith_backend *again = NULL;
    assert_int_equal(ki_registry_find("plain", &again), KITH_OK);
    assert_ptr_equal(again, backend);
}

/* Of two variants the usable one; both are asked. */
static void test_variants(void **state)
{
    (void)state;
    const kith_backend *backend = NULL;
    assert_int_equal(ki_registry_find("pair", &backend), KITH_OK);
    assert_string_equal(backend->variant, "here");
}

typedef struct seen {
    int plain, pair, shm, total;
} seen;

static void count(void *arg, const char *name, const char *path, const kith_backend *backend, kith_status status,
                  const char *reason)
{
    seen *s = (seen *)arg;
    char real[PATH_MAX];
    s->total++;
    s->plain += strcmp(name, "plain") == 0;
    s->pair += strcmp(name, "pair") == 0;
    s->shm += strcmp(name, "shm") == 0;
    assert_true(status == KITH_OK ? backend != NULL : reason[0] != '\0');
    if (path[0] != '\0') /* one file has one path, however its folder was reached */
        assert_string_equal(realpath(path, real), path);
}

static void test_each_once(void **state)
{
    (void)state;
    seen s = { 0, 0, 0, 0 };
    ki_registry_each(count, &s);
    assert_int_equal(s.plain, 1);
    assert_int_equal(s.pair, 2);
    assert_int_equal(s.shm, 1);
    assert_true(s.total >= 13);
    char names[1000], few[12];
    ki_registry_names(names, sizeof names);
    assert_has(names, "shm");
    char *first = strstr(names, "pair");
    assert_non_null(first);
    assert_null(strstr(first + 1, "pair"));
    ki_registry_names(few, sizeof few); /* as many as there is room for */
    assert_true(strlen(few) < sizeof few);
}

static const ki_json *backend_of(const ki_json *root, const char *name)
{
    const ki_json *list = ki_json_member(root, "backends");
    assert_non_null(list);
    for (const ki_json *b = list->first; b != NULL; b = b->next)
        if (strcmp(ki_json_member(b, "name")->text, name) == 0)
            return b;
    fail_msg("no backend %s", name);
    return NULL;
}

/* The same reasons in what `kith info` prints. */
static void test_information(void **state)
{
    (void)state;
    static const char *const wanted[][2] = {
        { "abi", "backend interface 2" }, { "renamed", "calls itself" },  { "short", "40 bytes" },
        { "null", "returned NULL" },      { "partial", "is missing" },    { "nosymbol", "no function" },
        { "garbage", "libkith_garbage" }, { "absent", "no such device" },
    };
    char *text = NULL;
    ki_json *root = NULL;
    assert_int_equal(kith_info_json(&text), KITH_OK);
    if (ki_json_parse(NULL, "info", text, strlen(text), &root) != KITH_OK)
        fail_msg("%s", kith_error_detail());
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
        const ki_json *b = backend_of(root, wanted[i][0]);
        assert_int_equal(ki_json_member(b, "available")->type, KI_JSON_BOOL);
        assert_false(ki_json_member(b, "available")->boolean);
        assert_has(ki_json_member(b, "reason")->text, wanted[i][1]);
    }
    const ki_json *pair = backend_of(root, "pair"), *modules = ki_json_member(pair, "modules");
    assert_true(ki_json_member(pair, "available")->boolean);
    assert_string_equal(ki_json_member(pair, "variant")->text, "here");
    assert_non_null(modules->first->next);
    assert_null(modules->first->next->next);
    ki_json_free(NULL, root);
    kith_free(text);
}

/* A program that asks for a module gets the module's own sentence, and settings reach it. */
static void test_joining_over_a_module(void **state)
{
    (void)state;
    kith_ctx *ctx = NULL;
    const kith_setting setting = { "module_depth", "11" };
    kith_init_options options = KITH_INIT_OPTIONS_INIT;
    options.size = 1;
    options.backend = "plain";
    assert_int_equal(kith_init(&options, &ctx), KITH_ERR_NO_RESOURCE);
    assert_has(kith_error_detail(), "setting module_depth is 7");
    options.settings = &setting;
    options.setting_count = 1;
    assert_int_equal(kith_init(&options, &ctx), KITH_ERR_NO_RESOURCE);
    assert_has(kith_error_detail(), "setting module_depth is 11");
    options.backend = "short";
    assert_int_not_equal(kith_init(&options, &ctx), KITH_OK);
    options.setting_count = 0;
    assert_int_equal(kith_init(&options, &ctx), KITH_ERR_UNSUPPORTED);
    assert_has(kith_error_detail(), "table of 40 bytes");
    assert_null(ctx);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wrong_modules),
        cmocka_unit_test(test_unknown_name),
        cmocka_unit_test(test_completed),
        cmocka_unit_test(test_variants),
        cmocka_unit_test(test_each_once),
        cmocka_unit_test(test_information),
        cmocka_unit_test(test_joining_over_a_module),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
