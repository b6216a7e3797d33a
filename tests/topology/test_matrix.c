/* tests/topology/test_matrix.c - reading nvidia-smi topo -m: each sort of damage, and hostile texts.
 *
 * fixtures/matrix/NAME.txt is a text as someone could paste it, fixtures/matrix/NAME.want what must come out: the
 * kind and all doubts of the reader, or the refusal. In the texts \t, \r, \e, \xHH and \s (a blank) stand for bytes
 * that do not survive editors. KITH_REFRESH=1 writes the .want files again; read the difference before you keep it.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "core/text.h"
#include "topology/model.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { PATH_NBYTES = 4096, MOST_FIXTURES = 256, TEXT_NBYTES = 64 * 1024, MUTATIONS = 20000 };

static char folder[PATH_NBYTES];
static char *names[MOST_FIXTURES];
static int name_count;

/* ---- files ---- */

static size_t read_file(const char *path, char *text)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        return 0;
    size_t nbytes = fread(text, 1, TEXT_NBYTES - 1, file);
    assert_true(nbytes < TEXT_NBYTES - 1);
    text[nbytes] = '\0';
    fclose(file);
    return nbytes;
}

static size_t decode(char *text)
{
    char *to = text;
    for (const char *at = text; *at != '\0'; to++) {
        static const char letters[] = "tres\\", bytes[] = "\t\r\x1b \\";
        unsigned value;
        const char *letter = at[0] == '\\' && at[1] != '\0' ? strchr(letters, at[1]) : NULL;
        if (letter != NULL) {
            *to = bytes[letter - letters];
            at += 2;
        } else if (at[0] == '\\' && at[1] == 'x' && sscanf(at + 2, "%2x", &value) == 1) {
            *to = (char)value;
            at += 4;
        } else
            *to = *at++;
    }
    *to = '\0';
    return (size_t)(to - text);
}

static size_t read_fixture(const char *name, char *text)
{
    char path[2 * PATH_NBYTES];
    snprintf(path, sizeof path, "%s/%s.txt", folder, name);
    assert_true(read_file(path, text) > 0);
    return decode(text);
}

static int compare_names(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static int list_fixtures(void **state)
{
    (void)state;
    const char *source = getenv("KITH_SOURCE_DIR");
    snprintf(folder, sizeof folder, "%s/tests/topology/fixtures/matrix", source != NULL ? source : ".");
    DIR *dir = opendir(folder);
    assert_non_null(dir);
    for (struct dirent *entry = readdir(dir); entry != NULL; entry = readdir(dir)) {
        char *dot = strrchr(entry->d_name, '.');
        if (dot == NULL || strcmp(dot, ".txt") != 0)
            continue;
        assert_true(name_count < MOST_FIXTURES);
        names[name_count++] = strndup(entry->d_name, (size_t)(dot - entry->d_name));
    }
    closedir(dir);
    qsort(names, (size_t)name_count, sizeof *names, compare_names);
    return name_count > 0 ? 0 : -1;
}

static int free_fixtures(void **state)
{
    (void)state;
    for (int i = 0; i < name_count; i++)
        free(names[i]);
    return 0;
}

/* ---- a kind as text ---- */

static void add_link(ki_text *out, const kith_link *link)
{
    char name[16];
    ki_text_add(out, " %s", kith_link_name(link, name, sizeof name));
}

static void add_gpu(ki_text *out, const kith_node_kind *kind, int g)
{
    const kith_gpu *gpu = &kind->gpus[g];
    ki_text_add(out, "GPU%d", gpu->index);
    if (gpu->name != NULL)
        ki_text_add(out, " %s %s", gpu->name, gpu->uuid != NULL ? gpu->uuid : "-");
    ki_text_add(out, "%s%s:", gpu->is_mig ? " mig" : "", gpu->is_lost ? " lost" : "");
    for (int i = 0; i < kind->gpu_count; i++)
        add_link(out, &kind->links[g * kind->gpu_count + i]);
    ki_text_add(out, " |");
    for (int i = 0; i < kind->nic_count; i++)
        add_link(out, &kind->nic_links[g * kind->nic_count + i]);
    ki_text_add(out, " | cpus %s numa %s (%d) memory %d switch %d\n", gpu->cpus != NULL ? gpu->cpus : "?",
                gpu->numa_text != NULL ? gpu->numa_text : "?", gpu->numa_count, gpu->memory_numa, gpu->pci_switch);
}

/* Doubts that say what follows by rule are not the reader's. */
static bool is_of_reader(const char *code)
{
    return strcmp(code, "pcie-assumed") != 0 && strcmp(code, "nvlink-generation") != 0;
}

static void add_kind(ki_text *out, const kith_topology *t)
{
    static const char *const certainties[] = { "unknown", "assumed", "known" };
    const kith_node_kind *kind = kith_topology_kind(t, 0);
    ki_text_add(out, "%s, %s, NVLink is %s\n", kind->format, kind->source != NULL ? kind->source : "no source",
                certainties[kind->nvlink]);
    for (int i = 0; i < kind->gpu_count; i++)
        add_gpu(out, kind, i);
    for (int i = 0; i < kind->nic_count; i++)
        ki_text_add(out, "NIC %d %s: device %s switch %d\n", kind->nics[i].index, kind->nics[i].name,
                    kind->nics[i].device != NULL ? kind->nics[i].device : "?", kind->nics[i].pci_switch);
    for (int i = 0; i < kind->switch_count; i++)
        ki_text_add(out, "switch %d: parent %d\n", i, kind->switches[i].parent);
    for (int i = 0; i < kind->numa_count; i++)
        ki_text_add(out, "NUMA node %d: cpus %s%s\n", kind->numas[i].os_index,
                    kind->numas[i].cpus != NULL ? kind->numas[i].cpus : "?",
                    kind->numas[i].is_gpu_memory ? " (memory of a GPU)" : "");
    for (int i = 0; i < kith_topology_doubt_count(t); i++) {
        const kith_doubt *doubt = kith_topology_doubt(t, i);
        if (is_of_reader(doubt->code))
            ki_text_add(out, "doubt %s, line %d, gpu %d: %s\n", doubt->code, doubt->line, doubt->gpu, doubt->text);
    }
}

/* Reads a text and says what came out. */
static void describe(ki_text *out, const char *name, const char *text, size_t nbytes)
{
    kith_topology *t = NULL;
    kith_status status = kith_topology_parse(name, text, nbytes, NULL, &t);
    if (status != KITH_OK) {
        ki_text_add(out, "%s: %s\n", kith_status_name(status), kith_error_detail());
        return;
    }
    if (ki_topology_check(t) != KITH_OK)
        ki_text_add(out, "does not hold together: %s\n", kith_error_detail());
    add_kind(out, t);
    kith_topology_destroy(t);
}

/* ---- fixtures ---- */

static void refresh(const char *path, const char *text)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void test_fixtures(void **state)
{
    (void)state;
    static char text[TEXT_NBYTES], want[TEXT_NBYTES];
    int wrong = 0;
    for (int i = 0; i < name_count; i++) {
        char path[2 * PATH_NBYTES];
        ki_text got = { 0 };
        size_t nbytes = read_fixture(names[i], text);
        describe(&got, names[i], text, nbytes);
        snprintf(path, sizeof path, "%s/%s.want", folder, names[i]);
        if (getenv("KITH_REFRESH") != NULL)
            refresh(path, ki_text_chars(&got));
        if (read_file(path, want) == 0 || strcmp(want, ki_text_chars(&got)) != 0) {
            fprintf(stderr, "%s: wanted\n%sgot\n%s\n", names[i], want, ki_text_chars(&got));
            wrong++;
        }
        want[0] = '\0';
        ki_text_fini(&got);
    }
    assert_int_equal(wrong, 0);
}

/* What the caller says about the GPUs counts where the text does not: no NVLink on a model that has none. */
static void test_model_of_caller(void **state)
{
    (void)state;
    static char text[TEXT_NBYTES];
    size_t nbytes = read_fixture("topo_mp", text);
    kith_topology_options options = KITH_TOPOLOGY_OPTIONS_INIT;
    kith_topology *t = NULL;
    int island[KI_MAX_GPUS];
    options.gpu = "L40S";
    assert_int_equal(kith_topology_parse("topo.txt", text, nbytes, &options, &t), KITH_OK);
    assert_int_equal(kith_topology_kind(t, 0)->nvlink, KITH_KNOWN);
    assert_int_equal(kith_nvlink_islands(kith_topology_kind(t, 0), island), 0);
    kith_topology_destroy(t);
    options.gpu = "A100";
    assert_int_equal(kith_topology_parse("topo.txt", text, nbytes, &options, &t), KITH_OK);
    assert_int_equal(kith_topology_kind(t, 0)->nvlink, KITH_UNKNOWN);
    assert_int_equal(kith_nvlink_islands(kith_topology_kind(t, 0), island), -1);
    kith_topology_destroy(t);
}

/* ---- large and hostile ---- */

/* A matrix of `gpus` GPUs and `nics` NICs, all SYS. */
static void write_matrix(ki_text *out, int gpus, int nics)
{
    for (int row = -1; row < gpus + nics; row++) {
        if (row >= 0)
            ki_text_add(out, row < gpus ? "GPU%d" : "NIC%d", row < gpus ? row : row - gpus);
        for (int i = 0; i < gpus + nics; i++) {
            if (row < 0)
                ki_text_add(out, i < gpus ? "\tGPU%d" : "\tNIC%d", i < gpus ? i : i - gpus);
            else
                ki_text_add(out, i == row ? "\t X " : "\tSYS");
        }
        ki_text_add(out, row < 0 ? "\tCPU Affinity\tNUMA Affinity\n" : row < gpus ? "\t0-7\t0\n" : "\n");
    }
}

static void test_limits(void **state)
{
    (void)state;
    static const struct {
        int gpus, nics;
        kith_status status;
    } sizes[] = { { KI_MAX_GPUS, 0, KITH_OK },
                  { 2, KI_MAX_NICS, KITH_OK },
                  { KI_MAX_GPUS + 1, 0, KITH_ERR_INVALID_ARG },
                  { 1, KI_MAX_NICS + 1, KITH_ERR_INVALID_ARG } };
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        ki_text text = { 0 };
        kith_topology *t = NULL;
        write_matrix(&text, sizes[i].gpus, sizes[i].nics);
        kith_status status = kith_topology_parse("large.txt", text.chars, text.length, NULL, &t);
        if (status != sizes[i].status)
            fail_msg("%d GPUs, %d NICs: wanted %d, got %d (%s)", sizes[i].gpus, sizes[i].nics, sizes[i].status, status,
                     kith_error_detail());
        if (status == KITH_OK) {
            assert_int_equal(kith_topology_kind(t, 0)->gpu_count, sizes[i].gpus);
            assert_int_equal(kith_topology_kind(t, 0)->nic_count, sizes[i].nics);
        }
        kith_topology_destroy(t);
        ki_text_fini(&text);
    }
}

static uint64_t seed = 20260101;

static size_t below(size_t limit)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return limit == 0 ? 0 : (size_t)(seed >> 33) % limit;
}

static size_t line_end(const char *text, size_t nbytes, size_t at)
{
    while (at < nbytes && text[at] != '\n')
        at++;
    return at < nbytes ? at + 1 : nbytes;
}

/* Removes [from, to). */
static size_t cut(char *text, size_t nbytes, size_t from, size_t to)
{
    memmove(text + from, text + to, nbytes - to);
    return nbytes - (to - from);
}

static size_t insert(char *text, size_t nbytes, size_t at, const char *piece, size_t length)
{
    if (nbytes + length >= TEXT_NBYTES)
        return nbytes;
    memmove(text + at + length, text + at, nbytes - at);
    memcpy(text + at, piece, length);
    return nbytes + length;
}

/* Removes the blanks at or behind `at`, so that neighbours are glued. */
static size_t glue(char *text, size_t nbytes, size_t at)
{
    while (at < nbytes && text[at] != ' ' && text[at] != '\t')
        at++;
    size_t to = at;
    while (to < nbytes && (text[to] == ' ' || text[to] == '\t'))
        to++;
    return cut(text, nbytes, at, to);
}

static size_t double_line(char *text, size_t nbytes, size_t at)
{
    static char copy[TEXT_NBYTES];
    while (at > 0 && text[at - 1] != '\n')
        at--;
    size_t length = line_end(text, nbytes, at) - at;
    memcpy(copy, text + at, length);
    return insert(text, nbytes, at, copy, length);
}

static size_t mutate(char *text, size_t nbytes)
{
    static const char *const pieces[] = { "\n", "N/A",   "GPU0", "X",  "9",      "-",    ",",   "\x1b[4m", "NIC7",
                                          " ",  "NV999", "ERR!", "\t", "\r\n\r", "GPU9", "MIG", "999999",  "Affinity" };
    size_t at = below(nbytes), width = 1 + below(20);
    switch (below(7)) {
    case 0:
        return at;
    case 1:
        return cut(text, nbytes, at, at + width < nbytes ? at + width : nbytes);
    case 2:
        return glue(text, nbytes, at);
    case 3:
        return double_line(text, nbytes, at);
    case 4:
        return cut(text, nbytes, at, line_end(text, nbytes, at));
    case 5:
        text[at] = (char)below(256);
        return nbytes;
    default: {
        const char *piece = pieces[below(sizeof pieces / sizeof pieces[0])];
        return insert(text, nbytes, at, piece, strlen(piece));
    }
    }
}

static void test_mutations(void **state)
{
    (void)state;
    static char text[TEXT_NBYTES];
    int accepted = 0;
    for (int i = 0; i < MUTATIONS; i++) {
        size_t nbytes = read_fixture(names[below((size_t)name_count)], text);
        for (size_t times = 1 + below(4); times > 0 && nbytes > 0; times--)
            nbytes = mutate(text, nbytes);
        kith_topology *t = NULL;
        kith_status status = kith_topology_parse("mutated", text, nbytes, NULL, &t);
        if (status != KITH_OK) {
            assert_true(status == KITH_ERR_INVALID_ARG || status == KITH_ERR_UNSUPPORTED);
            continue;
        }
        accepted++;
        if (ki_topology_check(t) != KITH_OK)
            fail_msg("mutation %d does not hold together: %s", i, kith_error_detail());
        kith_topology_destroy(t);
    }
    printf("%d of %d mutated texts were accepted\n", accepted, MUTATIONS);
    assert_in_range(accepted, MUTATIONS / 100, MUTATIONS - MUTATIONS / 100);
}

/* What must not change: cells, CPUs, NUMA nodes. Names and doubts may. */
static void add_meaning(ki_text *out, const kith_topology *t)
{
    const kith_node_kind *kind = kith_topology_kind(t, 0);
    for (int g = 0; g < kind->gpu_count; g++) {
        const kith_gpu *gpu = &kind->gpus[g];
        ki_text_add(out, "GPU%d:", gpu->index);
        for (int i = 0; i < kind->gpu_count; i++)
            add_link(out, &kind->links[g * kind->gpu_count + i]);
        for (int i = 0; i < kind->nic_count; i++)
            add_link(out, &kind->nic_links[g * kind->nic_count + i]);
        ki_text_add(out, " | %s | %s | %d\n", gpu->cpus != NULL ? gpu->cpus : "?",
                    gpu->numa_text != NULL ? gpu->numa_text : "?", gpu->memory_numa);
    }
}

/* Reads a text that lost blanks; it may be refused, but not mean something else. Returns whether it was read. */
static bool expect_meaning(const char *name, const char *text, size_t nbytes, const char *meaning,
                           kith_certainty nvlink)
{
    kith_topology *t = NULL;
    ki_text got = { 0 };
    if (kith_topology_parse(name, text, nbytes, NULL, &t) != KITH_OK)
        return false;
    add_meaning(&got, t);
    if (strcmp(ki_text_chars(&got), meaning) != 0)
        fail_msg("%s: wanted\n%sgot\n%sfrom\n%.*s", name, meaning, got.chars, (int)nbytes, text);
    if (kith_topology_kind(t, 0)->nvlink > nvlink)
        fail_msg("%s: NVLink was not so certain before:\n%.*s", name, (int)nbytes, text);
    ki_text_fini(&got);
    kith_topology_destroy(t);
    return true;
}

static void test_lost_blanks(void **state)
{
    (void)state;
    static char text[TEXT_NBYTES], glued[TEXT_NBYTES];
    int read = 0, tried = 0;
    for (int i = 0; i < name_count; i++) {
        size_t nbytes = read_fixture(names[i], text);
        kith_topology *t = NULL;
        ki_text meaning = { 0 };
        if (kith_topology_parse(names[i], text, nbytes, NULL, &t) != KITH_OK)
            continue;
        add_meaning(&meaning, t);
        kith_certainty nvlink = kith_topology_kind(t, 0)->nvlink;
        kith_topology_destroy(t);
        for (int k = 0; k < 60; k++, tried++) {
            size_t length = nbytes;
            memcpy(glued, text, nbytes);
            for (size_t times = 1 + below(12); times > 0; times--)
                length = glue(glued, length, below(length));
            read += expect_meaning(names[i], glued, length, ki_text_chars(&meaning), nvlink);
        }
        ki_text_fini(&meaning);
    }
    printf("%d of %d texts that lost blanks were read\n", read, tried);
    assert_true(read > tried / 2);
}

static bool has_doubt(const kith_topology *t, const char *code)
{
    for (int i = 0; i < kith_topology_doubt_count(t); i++)
        if (strcmp(kith_topology_doubt(t, i)->code, code) == 0)
            return true;
    return false;
}

/* A text that ends early is refused, or means the same, or a doubt says that the last number may be cut, or that only
 * the rows of GPUs are there (rows of NICs could say that a NIC is further away). */
static void test_cut_texts(void **state)
{
    (void)state;
    static char text[TEXT_NBYTES];
    for (int i = 0; i < name_count; i++) {
        size_t nbytes = read_fixture(names[i], text);
        kith_topology *t = NULL;
        ki_text meaning = { 0 };
        if (kith_topology_parse(names[i], text, nbytes, NULL, &t) != KITH_OK)
            continue;
        add_meaning(&meaning, t);
        kith_topology_destroy(t);
        size_t legend = (size_t)(strstr(text, "Legend") != NULL ? strstr(text, "Legend") - text : (long)nbytes);
        for (size_t length = 0; length < nbytes; length += length < legend ? 1 : 31) {
            ki_text got = { 0 };
            if (kith_topology_parse(names[i], text, length, NULL, &t) != KITH_OK)
                continue;
            add_meaning(&got, t);
            if (strcmp(ki_text_chars(&got), meaning.chars) != 0 && !has_doubt(t, "text-ends") &&
                !has_doubt(t, "nic-rows-missing"))
                fail_msg("%s: wanted\n%sgot\n%sfrom\n%.*s", names[i], meaning.chars, got.chars, (int)length, text);
            ki_text_fini(&got);
            kith_topology_destroy(t);
        }
        ki_text_fini(&meaning);
    }
}

/* Texts that could take long: many readings of glued lists, many almost-headers, one endless line. */
static void test_slow_texts(void **state)
{
    (void)state;
    kith_topology *t = NULL;
    ki_text many = { 0 }, almost = { 0 };
    ki_text_add(&many, "\tGPU0");
    for (int i = 1; i < 40; i++)
        ki_text_add(&many, "\tGPU%d", i);
    ki_text_add(&many, "\tCPU Affinity\tNUMA Affinity\n");
    for (int row = 0; row < 40; row++) {
        ki_text_add(&many, "GPU%d", row);
        for (int i = 0; i < 40; i++)
            ki_text_add(&many, i == row ? " X" : " SYS");
        ki_text_add(&many, " ");
        for (int i = 0; i < 1000; i++)
            ki_text_add(&many, "%d,", 2 * i);
        ki_text_add(&many, "%d\n", 123456 + row % 30 * 1111);
    }
    assert_int_equal(kith_topology_parse("many", many.chars, many.length, NULL, &t), KITH_ERR_INVALID_ARG);
    for (int i = 0; i < 200000; i++)
        ki_text_add(&almost, "GPU0 GPU1 Affinity\n");
    assert_int_equal(kith_topology_parse("almost", almost.chars, almost.length, NULL, &t), KITH_ERR_INVALID_ARG);
    for (size_t i = 0; i < almost.length; i++)
        almost.chars[i] = almost.chars[i] == '\n' ? ' ' : almost.chars[i];
    assert_int_equal(kith_topology_parse("endless", almost.chars, almost.length, NULL, &t), KITH_ERR_INVALID_ARG);
    ki_text_fini(&many);
    ki_text_fini(&almost);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fixtures),  cmocka_unit_test(test_model_of_caller), cmocka_unit_test(test_limits),
        cmocka_unit_test(test_mutations), cmocka_unit_test(test_lost_blanks),     cmocka_unit_test(test_slow_texts),
        cmocka_unit_test(test_cut_texts),
    };
    return cmocka_run_group_tests(tests, list_fixtures, free_fixtures);
}
