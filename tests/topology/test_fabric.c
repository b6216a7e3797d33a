/* tests/topology/test_fabric.c - the fabric query of nvidia-smi: which NVLink domain a node belongs to.
 *
 * Each fixture is loaded together with a matrix (fixtures/matrix/gpu_memory.txt), whose node gets the domain.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "topology/model.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { PATH_NBYTES = 4096, ROUNDS = 5000 };

static void path_of(char *path, const char *name)
{
    const char *source = getenv("KITH_SOURCE_DIR");
    snprintf(path, PATH_NBYTES, "%s/tests/topology/fixtures/%s", source != NULL ? source : ".", name);
}

static kith_status load(const char *name, kith_topology **t)
{
    char matrix[PATH_NBYTES], fabric[PATH_NBYTES];
    const char *paths[] = { matrix, fabric };
    path_of(matrix, "matrix/gpu_memory.txt");
    path_of(fabric, name);
    return kith_topology_load(paths, 2, NULL, t);
}

static void test_domains(void **state)
{
    (void)state;
    static const struct {
        const char *file, *domain;
    } cases[] = { { "fabric/domain.csv", "5000abcd-0000-0000-0000-000000000001.32766" },
                  { "fabric/no_header.csv", "5000abcd-0000-0000-0000-000000000001.7" },
                  { "fabric/more_columns.csv", "5000abcd-0000-0000-0000-000000000002.3" } };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        kith_topology *t = NULL;
        if (load(cases[i].file, &t) != KITH_OK)
            fail_msg("%s: %s", cases[i].file, kith_error_detail());
        assert_int_equal(kith_topology_domain_count(t), 1);
        assert_string_equal(kith_topology_domain(t, 0)->name, cases[i].domain);
        assert_true(kith_topology_domain(t, 0)->is_nvlink);
        assert_int_equal(kith_topology_domain(t, 0)->node_count, 1);
        assert_int_equal(kith_topology_node(t, 0)->domain, 0);
        kith_topology_destroy(t);
    }
}

static int count_doubts(const kith_topology *t, const char *code)
{
    int count = 0;
    for (int i = 0; i < kith_topology_doubt_count(t); i++)
        count += strcmp(kith_topology_doubt(t, i)->code, code) == 0;
    return count;
}

static void test_no_domain(void **state)
{
    (void)state;
    static const struct {
        const char *file;
        int doubts;
    } cases[] = { { "fabric/none.csv", 0 }, { "fabric/not_up.csv", 1 } };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        kith_topology *t = NULL;
        if (load(cases[i].file, &t) != KITH_OK)
            fail_msg("%s: %s", cases[i].file, kith_error_detail());
        assert_int_equal(kith_topology_domain_count(t), 0);
        assert_int_equal(kith_topology_node(t, 0)->domain, -1);
        assert_int_equal(count_doubts(t, "fabric-not-up"), cases[i].doubts);
        kith_topology_destroy(t);
    }
}

static void test_refused(void **state)
{
    (void)state;
    static const struct {
        const char *file, *where;
    } cases[] = { { "fabric/two_cliques.csv", "two_cliques.csv:2: " },
                  { "fabric/one_without.csv", "one_without.csv:2: " },
                  { "fabric/damaged.csv", "damaged.csv:2: " },
                  { "fabric/empty.csv", "empty.csv:1: " } };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        kith_topology *t = NULL;
        assert_int_equal(load(cases[i].file, &t), KITH_ERR_INVALID_ARG);
        if (strstr(kith_error_detail(), cases[i].where) == NULL)
            fail_msg("wanted '%s' in '%s'", cases[i].where, kith_error_detail());
    }
}

/* Bytes changed and lines cut: no crash, and never more than one domain. */
static void test_mutations(void **state)
{
    (void)state;
    static const char text[] = "index, fabric.clusterUuid, fabric.cliqueId\n"
                               "0, 5000abcd-0000-0000-0000-000000000001, 7\n"
                               "1, 5000abcd-0000-0000-0000-000000000001, 7\n";
    uint32_t seed = 7;
    for (int i = 0; i < ROUNDS; i++) {
        char copy[sizeof text];
        kith_topology *t = NULL;
        memcpy(copy, text, sizeof text);
        for (int k = 0; k < 3; k++) {
            seed = seed * 1664525u + 1013904223u;
            copy[(seed >> 8) % (sizeof text - 1)] = "0,-\nAf.\t"[seed >> 29];
        }
        size_t nbytes = sizeof text - 1 - (seed >> 16) % 40;
        if (kith_topology_parse("fabric", copy, nbytes, NULL, &t) == KITH_OK)
            assert_int_equal(kith_topology_domain_count(t), 1);
        kith_topology_destroy(t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_domains), cmocka_unit_test(test_no_domain),
                                        cmocka_unit_test(test_refused), cmocka_unit_test(test_mutations) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
