/* tests/topology/test_place_align.c - the order of members inside groups: neighbours of a pipeline on good links, and
 * equal positions of two groups facing each other, whatever numbers the GPUs have.
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

enum { GPUS = 8 };

/* A DGX-1V: 0 is SYS. */
static const int cube[GPUS][GPUS] = {
    { 0, 1, 1, 2, 2, 0, 0, 0 }, { 1, 0, 2, 1, 0, 2, 0, 0 }, { 1, 2, 0, 2, 0, 0, 1, 0 }, { 2, 1, 2, 0, 0, 0, 0, 1 },
    { 2, 0, 0, 0, 0, 1, 1, 2 }, { 0, 2, 0, 0, 1, 0, 2, 1 }, { 0, 0, 1, 0, 1, 2, 0, 2 }, { 0, 0, 0, 1, 2, 1, 2, 0 },
};

/* The same machine with GPU i called number[i]. */
static kith_topology *cube_with_numbers(const int *number)
{
    char text[GPUS * GPUS * 4 + 1] = "";
    int old[GPUS];
    for (int i = 0; i < GPUS; i++)
        old[number[i]] = i;
    for (int i = 0, used = 0; i < GPUS; i++)
        for (int j = 0; j < GPUS; j++) {
            int links = cube[old[i]][old[j]];
            used += i == j      ? sprintf(text + used, "X ")
                    : links > 0 ? sprintf(text + used, "NV%d ", links)
                                : sprintf(text + used, "SYS ");
        }
    return machine_of_matrix(GPUS, text, NULL);
}

static double placed_cost(const int *number, int tp, int cp, int pp, kith_link_type *slowest)
{
    kith_topology *t = cube_with_numbers(number);
    kith_placement_options options = KITH_PLACEMENT_OPTIONS_INIT;
    const kith_axis_traffic traffic[KITH_PLACEMENT_AXES] = {
        { KITH_COST_ALL_REDUCE, 8, 64e6, 0 }, { KITH_COST_SHIFT, 8, 16e6, 0 },     { KITH_COST_ALL_TO_ALL, 0, 0, 0 },
        { KITH_COST_ALL_REDUCE, 1, 64e6, 0 }, { KITH_COST_SEND_RECV, 8, 16e6, 0 },
    };
    kith_placement *p = NULL;
    options.tp = tp;
    options.cp = cp;
    options.pp = pp;
    options.traffic = traffic;
    if (kith_place(t, &options, &p) != KITH_OK)
        fail_msg("%s", kith_error_detail());
    *slowest = KITH_LINK_NVLINK;
    for (const char *const *name = (const char *const[]){ "tp", "cp", "dp", "pp", NULL }; *name != NULL; name++) {
        const kith_axis_report *axis = kith_placement_axis(p, *name);
        if (axis->size > 1 && axis->bottleneck.type < *slowest)
            *slowest = axis->bottleneck.type;
    }
    double cost = kith_placement_cost(p);
    assert_true(cost <= kith_placement_identity_cost(p));
    kith_placement_destroy(p);
    kith_topology_destroy(t);
    return cost;
}

static const int as_they_are[GPUS] = { 0, 1, 2, 3, 4, 5, 6, 7 };
static const int renumbered[][GPUS] = {
    { 3, 6, 1, 0, 7, 2, 5, 4 },
    { 1, 5, 4, 0, 6, 2, 7, 3 },
    { 7, 6, 5, 4, 3, 2, 1, 0 },
    { 0, 2, 4, 6, 1, 3, 5, 7 },
};

/* In the order of the numbers 3 and 4, neighbours of a pipeline of eight, have no NVLink. */
static void neighbours_are_on_nvlink(void **state)
{
    (void)state;
    kith_link_type slowest;
    for (size_t i = 0; i < sizeof renumbered / sizeof renumbered[0]; i++) {
        placed_cost(renumbered[i], 1, 1, 8, &slowest);
        assert_int_equal(slowest, KITH_LINK_NVLINK);
        placed_cost(renumbered[i], 1, 8, 1, &slowest);
        assert_int_equal(slowest, KITH_LINK_NVLINK);
    }
    placed_cost(as_they_are, 1, 1, 8, &slowest);
    assert_int_equal(slowest, KITH_LINK_NVLINK);
}

/* Two quads of four: each GPU has one NVLink partner in the other quad, and data parallel pairs are these. */
static void quads_face_each_other(void **state)
{
    (void)state;
    kith_link_type slowest;
    placed_cost(as_they_are, 4, 1, 1, &slowest);
    assert_int_equal(slowest, KITH_LINK_NVLINK);
    for (size_t i = 0; i < sizeof renumbered / sizeof renumbered[0]; i++) {
        placed_cost(renumbered[i], 4, 1, 1, &slowest);
        if (slowest != KITH_LINK_NVLINK)
            fail_msg("numbering %zu: an axis needs %s", i, kith_link_type_name(slowest));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(neighbours_are_on_nvlink),
                                        cmocka_unit_test(quads_face_each_other) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
