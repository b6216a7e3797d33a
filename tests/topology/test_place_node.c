/* tests/topology/test_place_node.c - groups inside one node: known machines, and brute force for many small ones.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "machines.h"
#include "topology/place.h"

#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static kith_placement *place(const kith_topology *t, int tp, int dp)
{
    kith_placement_options o = KITH_PLACEMENT_OPTIONS_INIT;
    kith_placement *p = NULL;
    o.tp = tp;
    o.dp = dp;
    if (kith_place(t, &o, &p) != KITH_OK)
        fail_msg("tp %d, dp %d: %s", tp, dp, kith_error_detail());
    if (kith_placement_cost(p) > kith_placement_identity_cost(p) ||
        kith_placement_lower_bound(p) > kith_placement_cost(p) * (1 + 1e-9))
        fail_msg("cost %g, identity %g, bound %g", kith_placement_cost(p), kith_placement_identity_cost(p),
                 kith_placement_lower_bound(p));
    return p;
}

static void expect(const kith_topology *t, int tp, const char *groups, const char *link, int64_t equally_good)
{
    kith_placement *p = place(t, tp, 0);
    const kith_axis_report *axis = kith_placement_axis(p, "tp");
    char got[256] = "", name[16];
    for (int i = 0; i < axis->size * axis->group_count; i++)
        snprintf(got + strlen(got), sizeof got - strlen(got), "%s%d",
                 i == 0                ? ""
                 : i % axis->size == 0 ? " "
                                       : ",",
                 axis->groups[i]);
    kith_link_name(&axis->bottleneck, name, sizeof name);
    if (strcmp(got, groups) != 0 || strcmp(name, link) != 0 || axis->equally_good != equally_good)
        fail_msg("tp %d: wanted %s, %s, %lld; got %s, %s, %lld", tp, groups, link, (long long)equally_good, got, name,
                 (long long)axis->equally_good);
    kith_placement_destroy(p);
}

/* Bridges join 0 with 3 and 1 with 2, each pair over both sockets. */
static void test_bridges_over_sockets(void **state)
{
    (void)state;
    static const int numas[] = { 0, 0, 1, 1 };
    kith_topology *t = machine_of_matrix(4, "X NODE SYS NV4  NODE X NV4 SYS  SYS NV4 X NODE  NV4 SYS NODE X", numas);
    expect(t, 2, "0,3 1,2", "NV4", 1);
    expect(t, 4, "0,1,2,3", "NODE", 1);
    kith_topology_destroy(t);
}

static const char cube_mesh[] = "X NV1 NV1 NV2 NV2 SYS SYS SYS  NV1 X NV2 NV1 SYS NV2 SYS SYS "
                                "NV1 NV2 X NV2 SYS SYS NV1 SYS  NV2 NV1 NV2 X SYS SYS SYS NV1 "
                                "NV2 SYS SYS SYS X NV1 NV1 NV2  SYS NV2 SYS SYS NV1 X NV2 NV1 "
                                "SYS SYS NV1 SYS NV1 NV2 X NV2  SYS SYS SYS NV1 NV2 NV1 NV2 X";

/* Taking the heaviest links first may leave two GPUs without NVLink here. */
static void test_cube_mesh(void **state)
{
    (void)state;
    static const int numas[] = { 0, 0, 0, 0, 1, 1, 1, 1 };
    kith_topology *t = machine_of_matrix(8, cube_mesh, numas);
    expect(t, 2, "0,3 1,2 4,7 5,6", "NV2", 2);
    expect(t, 4, "0,1,2,3 4,5,6,7", "NV1", 1);
    kith_topology_destroy(t);
}

/* Ten GPUs, five on each socket: one pair must cross in pairs of numbers, none has to where pairs are chosen. */
static void test_ten_gpus(void **state)
{
    (void)state;
    char matrix[600] = "";
    for (int i = 0; i < 10; i++)
        for (int j = 0; j < 10; j++)
            strcat(matrix, i == j ? "X " : i / 5 == j / 5 ? "PIX " : "SYS ");
    kith_topology *t = machine_of_matrix(10, matrix, NULL);
    expect(t, 5, "0,1,2,3,4 5,6,7,8,9", "PIX", 1);
    expect(t, 2, "0,1 2,3 4,5 6,7 8,9", "SYS",
           225);                        /* one pair must cross: 5 * 5 choices, 3 * 3 pairings of the rest */
    kith_placement *p = place(t, 2, 4); /* four pairs: nobody has to */
    assert_int_equal(kith_placement_axis(p, "tp")->bottleneck.type, KITH_LINK_PIX);
    assert_int_equal(kith_placement_leftover_count(p), 2);
    kith_placement_destroy(p);
    kith_topology_destroy(t);
}

/* Five of eight GPUs of a machine with bridges: the pairs that are whole are used, the odd one is named. */
static void test_five_of_eight(void **state)
{
    (void)state;
    kith_topology *t = machine_of_matrix(5,
                                         "X SYS SYS SYS NV12  SYS X SYS NV12 SYS  SYS SYS X SYS SYS "
                                         "SYS NV12 SYS X SYS  NV12 SYS SYS SYS X",
                                         NULL);
    expect(t, 2, "0,4 1,3", "NV12", 1);
    kith_placement *p = place(t, 2, 0);
    assert_int_equal(kith_placement_leftover_count(p), 1);
    assert_int_equal(kith_placement_leftover(p, 0), 2);
    assert_int_equal(kith_placement_leftover(p, 1), -1);
    kith_placement_destroy(p);
    kith_topology_destroy(t);
}

/* Five GPUs, GPU 1 split by MIG or lost. */
static kith_topology *machine_with_broken(bool is_lost)
{
    kith_topology *t = machine_new();
    ki_kind *kind = machine_add_uniform(t, 5, "NV6", 0);
    kith_gpu *gpu = (kith_gpu *)(uintptr_t)&kind->view.gpus[1];
    gpu->is_mig = !is_lost;
    gpu->is_lost = is_lost;
    ki_topology_add_node(t, "node0", 0);
    machine_finish(t);
    for (int g = 0; g < 5 && is_lost; g++)
        if (g != 1)
            ki_kind_set_link(kind, 1, g, KITH_LINK_UNKNOWN, 0, KITH_UNKNOWN);
    return t;
}

static void require_warning(const kith_placement *p, const char *part)
{
    for (int i = 0; i < kith_placement_note_count(p); i++)
        if (kith_placement_note_is_warning(p, i) && strstr(kith_placement_note(p, i), part) != NULL)
            return;
    fail_msg("no warning has '%s'", part);
}

/* A GPU that is split by MIG is the one that is left over; it is used when the sizes need it. */
static void test_mig_parent_is_last(void **state)
{
    (void)state;
    kith_topology *t = machine_with_broken(false);
    expect(t, 2, "0,2 3,4", "NV6", 3);
    kith_placement *p = place(t, 1, 5);
    require_warning(p, "GPU 1");
    kith_placement_destroy(p);
    kith_topology_destroy(t);
}

/* A GPU that does not answer never gets a rank, in no order of ranks; sizes that need it are refused. */
static void test_lost_gpu_is_not_used(void **state)
{
    (void)state;
    kith_topology *t = machine_with_broken(true);
    expect(t, 2, "0,2 3,4", "NV6", 3);
    for (int keeps_order = 0; keeps_order < 2; keeps_order++) {
        kith_placement_options o = KITH_PLACEMENT_OPTIONS_INIT;
        kith_placement *p = NULL;
        o.tp = 1;
        o.keep_order = keeps_order == 1;
        if (kith_place(t, &o, &p) != KITH_OK)
            fail_msg("%s", kith_error_detail());
        assert_int_equal(kith_placement_rank_count(p), 4);
        for (int r = 0; r < 4; r++)
            assert_int_not_equal(kith_placement_gpu(p, r), 1);
        assert_int_equal(kith_placement_leftover_count(p), 1);
        assert_int_equal(kith_placement_leftover(p, 0), 1);
        require_warning(p, "1 of 5 GPUs have no rank: 1; 1 of them does not answer");
        kith_placement_destroy(p);
        o.dp = 5;
        assert_int_equal(kith_place(t, &o, &p), KITH_ERR_INVALID_ARG);
        if (strstr(kith_error_detail(), "the 4 GPUs that may be used and answer") == NULL)
            fail_msg("got: %s", kith_error_detail());
    }
    kith_topology_destroy(t);
}

/* Every pair is SYS: sockets decide, and they are not in the order of the numbers. */
static void test_sockets_decide(void **state)
{
    (void)state;
    static const int numas[] = { 0, 1, 0, 1 };
    char matrix[] = "X SYS SYS SYS SYS X SYS SYS SYS SYS X SYS SYS SYS SYS X";
    kith_topology *t = machine_of_matrix(4, matrix, numas);
    expect(t, 2, "0,2 1,3", "SYS", 3);
    kith_topology_destroy(t);
    t = machine_of_matrix(4, "X NV6 NV6 NV6 NV6 X NV6 NV6 NV6 NV6 X NV6 NV6 NV6 NV6 X", numas);
    expect(t, 2, "0,1 2,3", "NV6", 3); /* over NVLink they do not */
    kith_topology_destroy(t);
}

static void test_allowed_gpus(void **state)
{
    (void)state;
    kith_topology *t = machine_new();
    ki_kind *kind = machine_add_uniform(t, 4, "PIX", 0);
    ((kith_gpu *)(uintptr_t)&kind->view.gpus[0])->is_allowed = false;
    ki_topology_add_node(t, "node0", 0);
    machine_finish(t);
    expect(t, 3, "1,2,3", "PIX", 1);
    kith_topology_destroy(t);
}

/* ---- against brute force ---- */

static unsigned next_random(unsigned *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 8;
}

static void random_values(unsigned *seed, int n, int levels, int *value)
{
    for (int i = 0; i < n; i++)
        for (int j = 0; j <= i; j++)
            value[i * n + j] = value[j * n + i] = i == j ? 0 : (int)(next_random(seed) % (unsigned)levels) * 100;
}

static void test_brute_force(void **state)
{
    (void)state;
    unsigned seed = 1;
    for (int round = 0; round < 300; round++) {
        int n = 2 + round % 7, value[64], groups[8];
        random_values(&seed, n, 2 + round % 5, value);
        for (int k = 1; k <= n; k++)
            for (int count = 1; count * k <= n; count++) {
                ki_partition_problem problem = { n, k, count, value, NULL, 0, NULL };
                ki_partition got;
                assert_int_equal(ki_partition_solve(&problem, groups, &got), KITH_OK);
                brute_answer wanted = brute_force(value, n, k, count);
                if (got.worst != wanted.worst || got.sum != wanted.sum || got.equally_good != wanted.ways)
                    fail_msg("round %d, %d groups of %d out of %d: wanted %d, %lld, %lld; got %d, %lld, %lld", round,
                             count, k, n, wanted.worst, (long long)wanted.sum, (long long)wanted.ways, got.worst,
                             (long long)got.sum, (long long)got.equally_good);
            }
    }
}

/* Other numbers for the same GPUs: another answer, as good. */
static void test_permutation(void **state)
{
    (void)state;
    unsigned seed = 7;
    for (int round = 0; round < 60; round++) {
        enum { n = 12 };
        int value[n * n], other[n * n], order[n], groups[n], k = 2 + round % 3;
        random_values(&seed, n, 6, value);
        for (int i = 0; i < n; i++)
            order[i] = i;
        for (int i = n - 1; i > 0; i--) {
            int j = (int)(next_random(&seed) % (unsigned)(i + 1)), unit = order[i];
            order[i] = order[j];
            order[j] = unit;
        }
        for (int i = 0; i < n * n; i++)
            other[i] = value[order[i / n] * n + order[i % n]];
        ki_partition_problem a = { n, k, n / k, value, NULL, 0, NULL }, b = { n, k, n / k, other, NULL, 0, NULL };
        ki_partition one, two;
        assert_int_equal(ki_partition_solve(&a, groups, &one), KITH_OK);
        assert_int_equal(ki_partition_solve(&b, groups, &two), KITH_OK);
        if (one.worst != two.worst || one.sum != two.sum || one.equally_good != two.equally_good)
            fail_msg("round %d: %d, %lld, %lld and %d, %lld, %lld", round, one.worst, (long long)one.sum,
                     (long long)one.equally_good, two.worst, (long long)two.sum, (long long)two.equally_good);
    }
}

/* The search keeps to its bound, and beats or meets the order of the numbers. */
static void test_many_units(void **state)
{
    (void)state;
    unsigned seed = 3;
    for (int round = 0; round < 20; round++) {
        enum { n = 24 };
        int value[n * n], groups[n], used[n] = { 0 };
        random_values(&seed, n, round == 0 ? 1 : 5, value);
        ki_partition_problem problem = { n, 4, n / 4, value, NULL, 0, NULL };
        ki_partition got;
        assert_int_equal(ki_partition_solve(&problem, groups, &got), KITH_OK);
        int64_t sum = 0;
        for (int i = 0; i < n; i++) {
            assert_in_range(groups[i], 0, n - 1);
            assert_int_equal(used[groups[i]]++, 0);
            for (int j = i / 4 * 4; j < i; j++)
                sum += value[groups[i] * n + groups[j]];
        }
        if (got.is_exact || sum != got.sum || got.sum > got.sum_bound || got.worst > got.worst_bound)
            fail_msg("round %d: sum %lld said %lld, bound %lld; worst %d, bound %d", round, (long long)sum,
                     (long long)got.sum, (long long)got.sum_bound, got.worst, got.worst_bound);
    }
}

/* Pairs of a large box whose partners are far apart in number: the search finds them all. */
static void test_many_bridges(void **state)
{
    (void)state;
    enum { n = 32 };
    static int value[n * n];
    int groups[n];
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++)
            value[i * n + j] = i == j ? 0 : i + j == n - 1 ? 8000 : 1000;
    ki_partition_problem problem = { n, 2, n / 2, value, NULL, 0, NULL };
    ki_partition got;
    assert_int_equal(ki_partition_solve(&problem, groups, &got), KITH_OK);
    assert_int_equal(got.worst, 8000);
    assert_int_equal(got.sum, got.sum_bound);
}

/* ---- rings ---- */

static void test_rings(void **state)
{
    (void)state;
    unsigned seed = 11;
    for (int round = 0; round < 200; round++) {
        int n = 2 + round % 7, value[64], ring[8], used[8] = { 0 }, narrowest = INT_MAX;
        random_values(&seed, n, 4, value);
        int got = ki_ring_order(value, n, ring);
        for (int i = 0; i < n; i++) {
            assert_int_equal(used[ring[i]]++, 0);
            int link = value[ring[i] * n + ring[(i + 1) % n]];
            narrowest = link < narrowest ? link : narrowest;
        }
        brute_answer wanted = brute_force(value, n, n, 1);
        if (got != wanted.worst || narrowest != wanted.worst)
            fail_msg("round %d: wanted %d, said %d, got %d", round, wanted.worst, got, narrowest);
    }
    int same[36], ring[6];
    for (int i = 0; i < 36; i++)
        same[i] = 100;
    ki_ring_order(same, 6, ring);
    for (int i = 0; i < 6; i++)
        assert_int_equal(ring[i], i);
}

/* Narrowing a link never makes the best placement cheaper. */
static void test_removing_links(void **state)
{
    (void)state;
    kith_topology *whole = machine_of_matrix(8, cube_mesh, NULL);
    kith_placement *p = place(whole, 2, 0);
    double cost = kith_placement_cost(p);
    kith_placement_destroy(p);
    kith_topology_destroy(whole);
    for (int i = 0; i < 8; i++)
        for (int j = 0; j < i; j++) {
            kith_topology *t = machine_new();
            ki_kind *kind = machine_add_kind(t, 8, cube_mesh, NULL);
            ki_kind_set_link(kind, i, j, KITH_LINK_SYS, 0, KITH_KNOWN);
            ki_topology_add_node(t, "node0", 0);
            machine_finish(t);
            p = place(t, 2, 0);
            if (kith_placement_cost(p) < cost * (1 - 1e-9))
                fail_msg("without %d-%d: %g instead of %g", i, j, kith_placement_cost(p), cost);
            kith_placement_destroy(p);
            kith_topology_destroy(t);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bridges_over_sockets),
        cmocka_unit_test(test_cube_mesh),
        cmocka_unit_test(test_ten_gpus),
        cmocka_unit_test(test_five_of_eight),
        cmocka_unit_test(test_mig_parent_is_last),
        cmocka_unit_test(test_lost_gpu_is_not_used),
        cmocka_unit_test(test_sockets_decide),
        cmocka_unit_test(test_allowed_gpus),
        cmocka_unit_test(test_brute_force),
        cmocka_unit_test(test_permutation),
        cmocka_unit_test(test_many_units),
        cmocka_unit_test(test_many_bridges),
        cmocka_unit_test(test_rings),
        cmocka_unit_test(test_removing_links),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
