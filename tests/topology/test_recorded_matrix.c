/* tests/topology/test_recorded_matrix.c - matrices of real machines, against their right answers.
 *
 * $KITH_SHARED_DIR/topologies/SOURCES.tsv has one row for each file; the answers of matrices have a grammar:
 *
 *     NVLink: {0,1} full mesh widths NV12; {2,3} ...; NUMA affinity per GPU: 0,1,...; GPU NUMA ID 2,10,...;
 *     nearest NIC: GPU0:PXB:0+1 GPU1:SYS:5 NICs
 *
 * Answers in free prose are said again in that grammar here ("answers"), so that each file is checked by the same
 * code. A file may also be refused; then the reason is printed and counted, and the test fails when it should not
 * have been.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "topology/reader.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { PATH_NBYTES = 4096, MOST_NICS = 128 };

static int checked, refused, wrong;
static const char *file_name;

static const struct {
    const char *file, *answer;
} answers[] = {
    { "a100sxm4_8gpu_no_nvlink_runon.txt",
      "NVLink: no NVLink; NUMA affinity per GPU: 0,0,0,0,1,1,1,1; nearest NIC: GPU0:PXB:0+1 GPU1:PXB:0+1 GPU2:PXB:2+3 "
      "GPU3:PXB:2+3 GPU4:PXB:4+5 GPU5:PXB:4+5 GPU6:PXB:6+7 GPU7:PXB:6+7; CPUs GPU0 0-35,72-107; CPUs GPU7 "
      "36-71,108-143" },
    { "h100_8gpu_log_prefixed_collapsed_spaces.txt",
      "NVLink: {0,1,2,3,4,5,6,7} full mesh widths NV18; NUMA affinity per GPU: 0,0,0,0,1,1,1,1; CPUs GPU0 "
      "0-51,104-155; no NICs" },
    { "h100sxm_8gpu_9nic.txt",
      "NVLink: {0,1,2,3,4,5,6,7} full mesh widths NV18; NUMA affinity per GPU: 0,0,0,0,1,1,1,1; nearest NIC: "
      "GPU0:PIX:0 GPU1:PIX:1 GPU2:PIX:2 GPU3:PIX:3 GPU4:PIX:4 GPU5:PIX:5 GPU6:PIX:6 GPU7:PIX:7; CPUs GPU3 "
      "0-55,112-167; CPUs GPU4 56-111,168-223; CPUs GPU7 56-111,168-223" },
    { "h200_mig1g_1gpu_2nic_tab.txt", "NVLink: no NVLink; NUMA affinity per GPU: 0; nearest NIC: GPU0:NODE:0+1" },
    { "l20_2gpu_62nic.txt",
      "NVLink: no NVLink; NUMA affinity per GPU: N/A,1; nearest NIC: GPU0:NODE:62 NICs GPU1:SYS:62 NICs; CPUs GPU0 "
      "N/A; CPUs GPU1 88-91,184-187" },
    { "laptop_1gpu_blank_affinity.txt", "NVLink: no NVLink; NUMA affinity per GPU: N/A; CPUs GPU0 N/A; no NICs" },
    { "levante_topo_mp_2nic.txt",
      "NVLink: unknown; NUMA affinity per GPU: 3,1,7,5; nearest NIC: GPU0:SYS:mlx5_0+mlx5_1 GPU1:PIX:mlx5_0 "
      "GPU2:PIX:mlx5_1 GPU3:SYS:mlx5_0+mlx5_1" },
    { "mixed_3gpu_3090_4090.txt",
      "NVLink: no NVLink; NUMA affinity per GPU: N/A,N/A,N/A; CPUs GPU0 N/A; CPUs GPU2 N/A; no NICs" },
};

static void __attribute__((format(printf, 1, 2))) complain(const char *format, ...)
{
    va_list list;
    va_start(list, format);
    fprintf(stderr, "%s: ", file_name);
    vfprintf(stderr, format, list);
    fprintf(stderr, "\n");
    va_end(list);
    wrong++;
}

/* ---- the parts of an answer ---- */

/* Appends "{0,1} full mesh widths NV12" of one island. */
static void describe_island(const kith_node_kind *kind, const int *island, int number, char *text, size_t nbytes)
{
    int members = 0, pairs = 0, linked = 0, widths[64] = { 0 };
    size_t used = strlen(text);
    for (int i = 0; i < kind->gpu_count; i++) {
        if (island[i] != number)
            continue;
        used += (size_t)snprintf(text + used, nbytes - used, "%s%d", members++ == 0 ? "{" : ",", kind->gpus[i].index);
        for (int j = 0; j < i; j++) {
            const kith_link *link = &kind->links[i * kind->gpu_count + j];
            if (island[j] != number)
                continue;
            pairs++;
            if (link->type == KITH_LINK_NVLINK && link->count < 64) {
                linked++;
                widths[link->count]++;
            }
        }
    }
    used += (size_t)snprintf(text + used, nbytes - used, "}");
    if (members == 1)
        return;
    used += (size_t)snprintf(text + used, nbytes - used, "%s widths ",
                             pairs == linked ? " full mesh" : " connected, not full mesh,");
    bool is_first = true;
    for (int w = 0; w < 64; w++)
        if (widths[w] > 0) {
            used += (size_t)snprintf(text + used, nbytes - used, "%sNV%d", is_first ? "" : "/", w);
            is_first = false;
        }
}

static void describe_nvlink(const kith_node_kind *kind, char *text, size_t nbytes)
{
    int island[KI_MAX_GPUS];
    int count = kith_nvlink_islands(kind, island);
    text[0] = '\0';
    if (count <= 0) {
        snprintf(text, nbytes, "%s", count < 0 ? "unknown" : "no NVLink");
        return;
    }
    for (int i = 0; i < count; i++) {
        if (i > 0)
            snprintf(text + strlen(text), nbytes - strlen(text), "; ");
        describe_island(kind, island, i, text, nbytes);
    }
}

static void check_nvlink(const kith_node_kind *kind, const char *wanted)
{
    char got[1024];
    describe_nvlink(kind, got, sizeof got);
    if (strcmp(got, wanted) != 0)
        complain("NVLink: wanted %s, got %s", wanted, got);
}

static void check_numas(const kith_node_kind *kind, const char *wanted)
{
    char got[1024] = "";
    for (int i = 0; i < kind->gpu_count; i++)
        snprintf(got + strlen(got), sizeof got - strlen(got), "%s%s", i > 0 ? "," : "",
                 kind->gpus[i].numa_text != NULL ? kind->gpus[i].numa_text : "N/A");
    if (strcmp(wanted, "column absent") == 0) {
        for (int i = 0; i < kind->gpu_count; i++)
            if (kind->gpus[i].numa_count != 0)
                complain("NUMA: wanted none, got %s", got);
    } else if (strcmp(got, wanted) != 0)
        complain("NUMA: wanted %s, got %s", wanted, got);
}

static void check_memory_numas(const kith_node_kind *kind, const char *wanted)
{
    char got[1024] = "";
    for (int i = 0; i < kind->gpu_count; i++)
        snprintf(got + strlen(got), sizeof got - strlen(got), "%s%d", i > 0 ? "," : "", kind->gpus[i].memory_numa);
    if (strcmp(got, wanted) != 0)
        complain("GPU NUMA ID: wanted %s, got %s", wanted, got);
}

/* "PXB:0+1", or "SYS:5 NICs" when `is_counted`. */
static void describe_nics(const kith_node_kind *kind, int gpu, bool is_counted, char *text, size_t nbytes)
{
    int nics[MOST_NICS];
    kith_link_type type = KITH_LINK_UNKNOWN;
    int count = kith_nearest_nics(kind, gpu, nics, MOST_NICS, &type);
    size_t used = (size_t)snprintf(text, nbytes, "%s:", kith_link_type_name(type));
    if (is_counted) {
        snprintf(text + used, nbytes - used, "%d NICs", count);
        return;
    }
    for (int i = 0; i < count && i < MOST_NICS; i++) {
        const char *name = kind->nics[nics[i]].name;
        used += (size_t)snprintf(text + used, nbytes - used, "%s%s", i > 0 ? "+" : "",
                                 strncmp(name, "NIC", 3) == 0 ? name + 3 : name);
    }
}

static void check_nics(const kith_node_kind *kind, const char *wanted)
{
    int gpu = 0;
    for (const char *at = wanted; *at != '\0'; gpu++) {
        const char *next = strstr(at + 1, " GPU");
        char one[256], got[1024], full[1300];
        size_t length = next != NULL ? (size_t)(next - at) : strlen(at);
        assert_true(length < sizeof one);
        memcpy(one, at, length);
        one[length] = '\0';
        if (gpu >= kind->gpu_count) {
            complain("nearest NIC: wanted %s, got %d GPUs", one, kind->gpu_count);
            return;
        }
        describe_nics(kind, gpu, strstr(one, " NICs") != NULL, got, sizeof got);
        snprintf(full, sizeof full, "GPU%d:%s", kind->gpus[gpu].index, got);
        if (strcmp(full, one) != 0)
            complain("nearest NIC: wanted %s, got %s", one, full);
        at += length + (next != NULL);
    }
    if (gpu != kind->gpu_count)
        complain("nearest NIC: the answer has %d GPUs, got %d", gpu, kind->gpu_count);
}

/* "CPUs GPU4 56-111,168-223" */
static void check_cpus(const kith_node_kind *kind, const char *wanted)
{
    int gpu = 0;
    char cpus[256];
    if (sscanf(wanted, "GPU%d %255s", &gpu, cpus) != 2 || gpu < 0 || gpu >= kind->gpu_count) {
        complain("the answer '%s' cannot be read", wanted);
        return;
    }
    const char *got = kind->gpus[gpu].cpus != NULL ? kind->gpus[gpu].cpus : "N/A";
    if (strcmp(got, cpus) != 0)
        complain("CPUs of GPU%d: wanted %s, got %s", gpu, cpus, got);
}

/* ---- one file ---- */

static const char *after(const char *text, const char *word)
{
    return strncmp(text, word, strlen(word)) == 0 ? text + strlen(word) : NULL;
}

static bool check_part(const kith_node_kind *kind, const char *part)
{
    const char *rest;
    if ((rest = after(part, "NUMA affinity per GPU: ")) != NULL)
        check_numas(kind, rest);
    else if ((rest = after(part, "GPU NUMA ID ")) != NULL)
        check_memory_numas(kind, rest);
    else if ((rest = after(part, "nearest NIC: ")) != NULL)
        check_nics(kind, rest);
    else if ((rest = after(part, "CPUs ")) != NULL)
        check_cpus(kind, rest);
    else if (strcmp(part, "no NICs") == 0) {
        if (kind->nic_count != 0)
            complain("wanted no NICs, got %d", kind->nic_count);
    } else
        return false;
    return true;
}

/* Islands are parts of their own behind the first: collected into one text again. */
static void check_answer(const kith_node_kind *kind, const char *answer)
{
    char copy[4096], nvlink[1024] = "";
    bool has_numas = false;
    assert_true(strlen(answer) < sizeof copy);
    strcpy(copy, answer);
    for (char *save = NULL, *part = strtok_r(copy, ";", &save); part != NULL; part = strtok_r(NULL, ";", &save)) {
        part += strspn(part, " ");
        const char *rest = after(part, "NVLink: ");
        if (rest != NULL || *part == '{') {
            if (nvlink[0] != '\0')
                strcat(nvlink, "; ");
            strcat(nvlink, rest != NULL ? rest : part);
        } else if (!check_part(kind, part))
            complain("the answer '%s' is not understood; give it in the table of this test", part);
        has_numas = has_numas || after(part, "NUMA affinity") != NULL;
    }
    if (nvlink[0] == '\0' || !has_numas)
        complain("the answer says nothing about NVLink or NUMA nodes; give it in the table of this test");
    check_nvlink(kind, nvlink);
}

static void check_file(const char *folder, const char *file, const char *answer)
{
    char path[2 * PATH_NBYTES];
    const char *paths[] = { path };
    kith_topology *t = NULL;
    snprintf(path, sizeof path, "%s/%s", folder, file);
    file_name = strrchr(file, '/') + 1;
    for (size_t i = 0; i < sizeof answers / sizeof answers[0]; i++)
        if (strcmp(answers[i].file, file_name) == 0)
            answer = answers[i].answer;
    checked++;
    if (kith_topology_load(paths, 1, NULL, &t) != KITH_OK) {
        refused++;
        complain("refused: %s", kith_error_detail());
        return;
    }
    if (ki_topology_check(t) != KITH_OK)
        complain("does not hold together: %s", kith_error_detail());
    check_answer(kith_topology_kind(t, 0), answer);
    printf("%-48s %d doubts:", file_name, kith_topology_doubt_count(t));
    for (int i = 0; i < kith_topology_doubt_count(t); i++)
        printf(" %s", kith_topology_doubt(t, i)->code);
    printf("\n");
    kith_topology_destroy(t);
}

static char shared[PATH_NBYTES];

static void test_all(void **state)
{
    (void)state;
    char path[PATH_NBYTES + 32];
    snprintf(path, sizeof path, "%s/SOURCES.tsv", shared);
    FILE *list = fopen(path, "r");
    assert_non_null(list);
    char *line = NULL;
    size_t room = 0;
    while (getline(&line, &room, list) > 0) {
        char *fields[5] = { NULL };
        char *at = line;
        for (int i = 0; i < 5; i++)
            fields[i] = strsep(&at, "\t\n");
        if (fields[3] != NULL && strncmp(fields[0], "nvidia_smi_topo/", 16) == 0)
            check_file(shared, fields[0], fields[3]);
    }
    free(line);
    fclose(list);
    printf("%d matrices, %d refused, %d things wrong\n", checked, refused, wrong);
    assert_true(checked > 0);
    assert_int_equal(refused, 0);
    assert_int_equal(wrong, 0);
}

/* Messages instead of a matrix: "<exit status> TAB <message>". */
static void test_messages(void **state)
{
    (void)state;
    char path[PATH_NBYTES + 64];
    snprintf(path, sizeof path, "%s/other/nvidia_smi_error_outputs.txt", shared);
    FILE *list = fopen(path, "r");
    assert_non_null(list);
    char *line = NULL;
    size_t room = 0;
    int count = 0;
    while (getline(&line, &room, list) > 0) {
        char *tab = strchr(line, '\t');
        kith_topology *t = NULL;
        if (line[0] == '#' || tab == NULL)
            continue;
        assert_int_equal(kith_topology_parse("topo.txt", tab + 1, strlen(tab + 1), NULL, &t), KITH_ERR_INVALID_ARG);
        tab[1 + strcspn(tab + 1, "\n")] = '\0';
        if (strstr(kith_error_detail(), tab + 1) == NULL)
            fail_msg("wanted the message '%s' in '%s'", tab + 1, kith_error_detail());
        count++;
    }
    free(line);
    fclose(list);
    assert_true(count > 0);
}

/* Forms of the fabric query, each behind a line "# case: ...". */
static void test_fabric(void **state)
{
    (void)state;
    static const struct {
        const char *domain, *doubt;
    } wanted[] = { { "50000000-0000-0000-0000-000000000001.32766", NULL }, { NULL, NULL }, { NULL, "fabric-not-up" } };
    static char text[64 * 1024];
    char path[PATH_NBYTES + 64];
    snprintf(path, sizeof path, "%s/other/fabric_clique_queries.txt", shared);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    size_t count = 0;
    for (char *at = strstr(text, "# case"), *next; at != NULL; at = next, count++) {
        kith_topology *t = NULL;
        next = strstr(at + 1, "# case");
        ki_source source = { "fabric.csv", at, next != NULL ? (size_t)(next - at) : strlen(at) };
        assert_true(count < sizeof wanted / sizeof wanted[0]);
        assert_true(ki_reader_fabric.probe(&source) > 0);
        assert_int_equal(ki_topology_create(NULL, &t), KITH_OK);
        assert_int_equal(ki_reader_fabric.read(&source, t), KITH_OK);
        assert_int_equal(t->domain_count, wanted[count].domain != NULL);
        if (wanted[count].domain != NULL)
            assert_string_equal(t->domains[0].name, wanted[count].domain);
        assert_int_equal(t->doubt_count, wanted[count].doubt != NULL);
        if (wanted[count].doubt != NULL)
            assert_string_equal(t->doubts[0].code, wanted[count].doubt);
        kith_topology_destroy(t);
    }
    assert_int_equal(count, sizeof wanted / sizeof wanted[0]);
}

int main(void)
{
    const char *folder = getenv("KITH_SHARED_DIR");
    if (folder == NULL) {
        printf("skipped: KITH_SHARED_DIR is not set\n");
        return 77;
    }
    snprintf(shared, sizeof shared, "%s/topologies", folder);
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_all), cmocka_unit_test(test_messages),
                                        cmocka_unit_test(test_fabric) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
