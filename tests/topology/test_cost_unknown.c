/* tests/topology/test_cost_unknown.c - an unknown bandwidth: a collective has a price where it cannot matter, and
 * none where the algorithm that needs it might be the cheapest.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "machines.h"
#include <kith/placement.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#define MIB 1048576.0

static const int four[] = { 0, 1, 2, 3 };

/* As a direct link of a generation that the table does not have. */
static void make_unknown(kith_topology *t, int a, int b)
{
    const kith_node_kind *kind = kith_topology_kind(t, 0);
    kith_link *links = (kith_link *)(uintptr_t)kind->links;
    const kith_link unknown = { .type = KITH_LINK_NVLINK, .count = 1, .certainty = KITH_KNOWN };
    links[a * kind->gpu_count + b] = links[b * kind->gpu_count + a] = unknown;
}

/* A square of wide links with narrow diagonals; that of 0 and 2 may be unknown, or both. */
static kith_topology *square(int unknown_count)
{
    kith_topology *t = machine_of_matrix(4, "X NV2 SYS NV2 NV2 X NV2 SYS SYS NV2 X NV2 NV2 SYS NV2 X", NULL);
    for (int i = 0; i < unknown_count; i++)
        make_unknown(t, i, i + 2);
    return t;
}

static kith_status price(const kith_topology *t, kith_cost_op op, const char *algorithm, kith_cost *cost)
{
    return kith_cost_collective(t, op, algorithm, four, 4, 1, 64 * MIB, cost);
}

/* Over the other diagonal alone every algorithm but rings takes longer than these: what the first one carries does not
 * matter, though these algorithms by themselves cannot be priced. No ring is put on the unknown diagonal, so the price
 * lies between that of rings over all known links and of rings over the sides alone. */
static void what_loses_anyway_does_not_matter(void **state)
{
    (void)state;
    kith_topology *t = square(1), *known = square(0), *sides = square(2);
    static const kith_cost_op ops[] = { KITH_COST_ALL_REDUCE, KITH_COST_REDUCE_SCATTER, KITH_COST_ALL_GATHER };
    for (int i = 0; i < 3; i++) {
        kith_cost got, wanted, most;
        if (price(known, ops[i], NULL, &wanted) != KITH_OK)
            fail_msg("%s", kith_error_detail());
        if (price(t, ops[i], NULL, &got) != KITH_OK)
            fail_msg("operation %d: wanted %s in %g s, got: %s", (int)ops[i], wanted.algorithm, wanted.time_s,
                     kith_error_detail());
        if (price(sides, ops[i], "multi_ring", &most) != KITH_OK)
            fail_msg("%s", kith_error_detail());
        if (strcmp(got.algorithm, wanted.algorithm) != 0 || got.time_s < wanted.time_s ||
            got.time_s > most.time_s * (1 + 1e-9))
            fail_msg("operation %d: wanted %s in %g to %g s, got %s in %g s", (int)ops[i], wanted.algorithm,
                     wanted.time_s, most.time_s, got.algorithm, got.time_s);
    }
    kith_cost cost;
    assert_int_equal(price(t, KITH_COST_ALL_REDUCE, "rabenseifner", &cost), KITH_ERR_UNSUPPORTED);
    kith_topology_destroy(sides);
    kith_topology_destroy(known);
    kith_topology_destroy(t);
}

/* With both diagonals unknown, halving would win if they were wide. Whether the ring is the cheapest is not known, and
 * neither is the price. */
static void what_might_win_does_matter(void **state)
{
    (void)state;
    kith_topology *t = square(2);
    kith_cost cost = { .time_s = -1 };
    assert_int_equal(price(t, KITH_COST_ALL_REDUCE, "ring", &cost), KITH_OK);
    cost.time_s = -1;
    assert_int_equal(price(t, KITH_COST_ALL_REDUCE, NULL, &cost), KITH_ERR_UNSUPPORTED);
    assert_true(cost.time_s < 0); /* written only on success */
    if (strstr(kith_error_detail(), "no bandwidth is known between GPU") == NULL)
        fail_msg("wanted the two GPUs, got: %s", kith_error_detail());
    kith_topology_destroy(t);
}

/* Two groups at once: the first has all links, the second lacks one that may matter. */
static void any_group_counts(void **state)
{
    (void)state;
    static const int groups[] = { 0, 1, 2, 3 };
    kith_topology *t = machine_of_matrix(4, "X NV2 SYS SYS NV2 X SYS SYS SYS SYS X NV2 SYS SYS NV2 X", NULL);
    kith_cost cost;
    make_unknown(t, 2, 3);
    assert_int_equal(kith_cost_collective(t, KITH_COST_ALL_REDUCE, NULL, groups, 2, 1, MIB, &cost), KITH_OK);
    assert_int_equal(kith_cost_collective(t, KITH_COST_ALL_REDUCE, NULL, groups, 2, 2, MIB, &cost),
                     KITH_ERR_UNSUPPORTED);
    kith_topology_destroy(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(what_loses_anyway_does_not_matter),
                                        cmocka_unit_test(what_might_win_does_matter),
                                        cmocka_unit_test(any_group_counts) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
