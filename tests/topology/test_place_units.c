/* tests/topology/test_place_units.c - whole tp groups over nodes, axes in other orders, other numbers of GPUs, switches
 * of what is left over, and traffic that compute hides.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "machines.h"
#include <kith/plan.h>

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { TP, CP, EP, DP, PP };

static const char bridges4[] = "4 A6000 in pairs of bridges";
static const char two_of_pairs[] = "2 nodes of 4 H100 PCIe in pairs of bridges, 2 NICs of NDR";

static kith_topology *load(const char *words)
{
    kith_topology *t = NULL;
    if (kith_topology_load(&words, 1, NULL, &t) != KITH_OK)
        fail_msg("%s: %s", words, kith_error_detail());
    return t;
}

static kith_placement_options layout(int tp, int cp, int dp, int pp)
{
    kith_placement_options o = KITH_PLACEMENT_OPTIONS_INIT;
    o.tp = tp;
    o.cp = cp;
    o.dp = dp;
    o.pp = pp;
    return o;
}

static kith_placement *place(const kith_topology *t, const kith_placement_options *o)
{
    kith_placement *p = NULL;
    if (kith_place(t, o, &p) != KITH_OK)
        fail_msg("%s", kith_error_detail());
    return p;
}

static double cost_of(const kith_topology *t, const kith_placement_options *o)
{
    kith_placement *p = place(t, o);
    double cost = kith_placement_cost(p), bound = kith_placement_lower_bound(p);
    if (cost > kith_placement_identity_cost(p) * (1 + 1e-9) || bound > cost * (1 + 1e-9))
        fail_msg("cost %g, in the order of the numbers %g, at least %g", cost, kith_placement_identity_cost(p), bound);
    kith_placement_destroy(p);
    return cost;
}

/* ---- units ---- */

static double price(const kith_topology *t, const int *groups, int count)
{
    kith_cost cost;
    if (kith_cost_collective(t, KITH_COST_ALL_REDUCE, NULL, groups, 2, count, 64.0 * 1024 * 1024, &cost) != KITH_OK)
        fail_msg("%s", kith_error_detail());
    return cost.time_s;
}

/* Both pipelines stay in their node's pairs when the second tp group of each node belongs to the other replica. */
static void units_change_nodes(void **state)
{
    (void)state;
    static const int tp[] = { 0, 1, 4, 5, 2, 3, 6, 7 }, dp[] = { 0, 4, 1, 5, 2, 6, 3, 7 };
    static const int pp[] = { 0, 2, 1, 3, 4, 6, 5, 7 };
    kith_topology *t = load(two_of_pairs);
    double one = 64 * price(t, tp, 4),
           wanted = fmin(one + 8 * price(t, dp, 4) + price(t, pp, 4), one + 8 * price(t, pp, 4) + price(t, dp, 4));
    kith_placement_options o = layout(2, 1, 2, 2);
    double got = cost_of(t, &o);
    if (got > wanted * (1 + 1e-6))
        fail_msg("wanted at most %g s, got %g s", wanted, got);
    kith_topology_destroy(t);
}

/* The order of the axes only says how ranks are counted: with the same traffic it must not cost. */
static void order_of_axes_does_not_matter(void **state)
{
    (void)state;
    static const char *const orders[] = { "tp-cp-ep-dp-pp", "tp-cp-ep-pp-dp", "tp-dp-cp-pp-ep",
                                          "tp-dp-pp-cp-ep", "tp-pp-cp-dp-ep", "tp-pp-dp-cp-ep" };
    static const char *const machines[] = { two_of_pairs, "4 nodes of 4 A100 on NVSwitch, 2 NICs of HDR",
                                            "3 nodes of 8 GPUs on PCIe, 2 NICs of HDR",
                                            "32 nodes of 4 H100 PCIe in pairs of bridges, 2 NICs of NDR" };
    static const int sizes[][4] = { { 2, 1, 2, 2 }, { 2, 2, 2, 2 }, { 2, 1, 3, 4 }, { 2, 4, 8, 2 } };
    static const kith_axis_traffic traffic[KITH_PLACEMENT_AXES] = { { KITH_COST_ALL_REDUCE, 64, 32e6, 0 },
                                                                    { KITH_COST_SHIFT, 16, 16e6, 0 },
                                                                    { KITH_COST_ALL_TO_ALL, 0, 0, 0 },
                                                                    { KITH_COST_ALL_REDUCE, 1, 512e6, 0 },
                                                                    { KITH_COST_SEND_RECV, 16, 16e6, 0 } };
    for (size_t m = 0; m < sizeof machines / sizeof machines[0]; m++) {
        kith_topology *t = load(machines[m]);
        double least = INFINITY, most = 0;
        for (size_t i = 0; i < sizeof orders / sizeof orders[0]; i++) {
            kith_placement_options o = layout(sizes[m][0], sizes[m][1], sizes[m][2], sizes[m][3]);
            o.order = orders[i];
            o.traffic = traffic;
            double cost = cost_of(t, &o);
            least = fmin(least, cost);
            most = fmax(most, cost);
        }
        if (most > least * 1.01)
            fail_msg("%s: wanted one cost for all orders, got %g to %g s", machines[m], least, most);
        kith_topology_destroy(t);
    }
}

/* Over nodes the search is a heuristic that begins from the numbers: other numbers may cost a little more. */
static void numbers_matter_little(void **state)
{
    (void)state;
    enum { SEEDS = 8, GPUS = 8 };
    static const char cube[] =
        "X NV1 NV1 NV2 NV2 SYS SYS SYS NV1 X NV2 NV1 SYS NV2 SYS SYS NV1 NV2 X NV2 SYS SYS NV1 SYS "
        "NV2 NV1 NV2 X SYS SYS SYS NV1 NV2 SYS SYS SYS X NV1 NV1 NV2 SYS NV2 SYS SYS NV1 X NV2 NV1 "
        "SYS SYS NV1 SYS NV1 NV2 X NV2 SYS SYS SYS NV1 NV2 NV1 NV2 X";
    static const kith_axis_traffic traffic[KITH_PLACEMENT_AXES] = { { KITH_COST_ALL_REDUCE, 64, 32e6, 0 },
                                                                    { KITH_COST_SHIFT, 16, 16e6, 0 },
                                                                    { KITH_COST_ALL_TO_ALL, 0, 0, 0 },
                                                                    { KITH_COST_ALL_REDUCE, 1, 512e6, 0 },
                                                                    { KITH_COST_SEND_RECV, 16, 16e6, 0 } };
    static const int sizes[][4] = { { 2, 1, 2, 4 }, { 4, 1, 2, 2 }, { 2, 2, 2, 2 }, { 1, 2, 2, 2 } };
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        double least = INFINITY, most = 0;
        for (unsigned seed = 0; seed < SEEDS; seed++) {
            int numbers[GPUS];
            kith_topology *t = machine_new();
            machine_add_kind(t, GPUS, cube, NULL);
            for (int n = 0; n < 3; n++)
                ki_topology_add_node(t, ki_topology_format(t, "n%d", n), 0);
            machine_finish(t);
            machine_shuffle(numbers, GPUS, seed);
            machine_renumber(t, 0, numbers);
            kith_placement_options o = layout(sizes[s][0], sizes[s][1], sizes[s][2], sizes[s][3]);
            o.traffic = traffic;
            double cost = cost_of(t, &o);
            least = fmin(least, cost);
            most = fmax(most, cost);
            kith_topology_destroy(t);
        }
        if (most > least * 1.1)
            fail_msg("tp %d cp %d dp %d pp %d: wanted 10 %% at most between numberings, got %g to %g s", sizes[s][0],
                     sizes[s][1], sizes[s][2], sizes[s][3], least, most);
    }
}

/* ---- what is left over ---- */

/* Five nodes of two GPUs on three leaves; in the order of the file. */
static kith_topology *make_leaves(const int *order)
{
    static const int leaf_of[] = { 0, 2, 0, 0, 1 };
    static const int uplinks[] = { 1, 2, 4 }, gbps[] = { 25, 6, 12 };
    kith_topology *t = machine_new();
    machine_add_uniform(t, 2, "NV12", 2);
    ki_topology_add_switch(t, "root", -1)->level = 1;
    for (int l = 0; l < 3; l++) {
        kith_switch *leaf = ki_topology_add_switch(t, ki_topology_format(t, "leaf%d", l), 0);
        leaf->uplink_count = uplinks[l];
        leaf->uplink_gbps = gbps[l];
    }
    for (int i = 0; i < 5; i++)
        ki_topology_add_node(t, ki_topology_format(t, "n%d", order[i]), 0)->leaf = 1 + leaf_of[order[i]];
    machine_finish(t);
    return t;
}

static void switch_left_over_is_chosen_by_cost(void **state)
{
    (void)state;
    static const int sizes[][4] = { { 2, 1, 2, 2 }, { 2, 1, 4, 1 }, { 1, 2, 2, 2 }, { 2, 1, 3, 1 }, { 1, 1, 2, 4 } };
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        double wanted = 0;
        for (unsigned seed = 0; seed < 12; seed++) {
            int order[5];
            machine_shuffle(order, 5, seed);
            kith_topology *t = make_leaves(order);
            kith_placement_options o = layout(sizes[s][0], sizes[s][1], sizes[s][2], sizes[s][3]);
            double got = cost_of(t, &o);
            wanted = seed == 0 ? got : wanted;
            if (got > wanted * (1 + 1e-6) || wanted > got * (1 + 1e-6))
                fail_msg("tp %d cp %d dp %d pp %d: wanted %g s, with the order of seed %u got %g s", sizes[s][0],
                         sizes[s][1], sizes[s][2], sizes[s][3], wanted, seed, got);
            kith_topology_destroy(t);
        }
    }
}

/* ---- what compute hides ---- */

/* Heavy gradients pull replicas onto the bridges, unless compute hides them. */
static void hidden_traffic_does_not_weigh(void **state)
{
    (void)state;
    kith_topology *t = load(bridges4);
    for (int is_hidden = 0; is_hidden < 2; is_hidden++) {
        kith_axis_traffic traffic[KITH_PLACEMENT_AXES] = {
            [TP] = { KITH_COST_ALL_REDUCE, 32, 64e6, 0 },
            [DP] = { KITH_COST_ALL_REDUCE, 1, 20e9, is_hidden == 1 ? 100 : 0 },
        };
        kith_placement_options o = layout(2, 1, 2, 1);
        o.traffic = traffic;
        kith_placement *p = place(t, &o);
        bool leaves = kith_placement_axis(p, "tp")->leaves_nvlink;
        double step_s = kith_placement_axis(p, "dp")->step_s;
        if (leaves != (is_hidden == 0) || (is_hidden == 1 && step_s > 0))
            fail_msg("hidden %d: tp %s NVLink, dp takes %g s", is_hidden, leaves ? "leaves" : "stays on", step_s);
        kith_placement_destroy(p);
    }
    kith_topology_destroy(t);
}

static void seconds_hidden_are_checked(void **state)
{
    (void)state;
    kith_topology *t = load(bridges4);
    kith_axis_traffic traffic[KITH_PLACEMENT_AXES] = { [TP] = { KITH_COST_ALL_REDUCE, 1, 64e6, -1 } };
    kith_placement_options o = layout(2, 1, 2, 1);
    kith_placement *p = NULL;
    o.traffic = traffic;
    assert_int_equal(kith_place(t, &o, &p), KITH_ERR_INVALID_ARG);
    assert_non_null(strstr(kith_error_detail(), "-1 s hidden"));
    kith_topology_destroy(t);
}

static kith_plan_options plan_layout(int tp, int dp, int pp, int batch, int microbatches)
{
    kith_plan_options o = KITH_PLAN_OPTIONS_INIT;
    o.tp = tp;
    o.dp = dp;
    o.pp = pp;
    o.micro_batch = batch;
    o.microbatches = microbatches;
    o.flash_attention = true;
    return o;
}

static kith_plan make_plan(const kith_topology *t, const kith_plan_options *o, kith_placement **p)
{
    kith_model model;
    kith_plan plan;
    assert_int_equal(kith_model_named("llama-2-7b", &model), KITH_OK);
    if (kith_plan_make_placed(t, &model, o, &plan, p) != KITH_OK)
        fail_msg("%s", kith_error_detail());
    return plan;
}

/* No step is longer than with the GPUs in the order of their numbers. */
static void no_step_is_longer_than_in_order(void **state)
{
    (void)state;
    static const char *const machines[] = { bridges4, two_of_pairs, "8 V100 in a cube mesh, 4 NICs of EDR",
                                            "2 nodes of 4 A6000 in pairs of bridges, 1 NICs of HDR" };
    static const int sizes[][5] = { { 2, 2, 1, 3, 1 }, { 2, 2, 1, 1, 1 }, { 2, 1, 2, 1, 8 },
                                    { 2, 2, 2, 1, 8 }, { 4, 2, 1, 1, 2 }, { 2, 4, 1, 2, 2 } };
    for (size_t m = 0; m < sizeof machines / sizeof machines[0]; m++) {
        kith_topology *t = load(machines[m]);
        for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
            kith_plan_options o = plan_layout(sizes[s][0], sizes[s][1], sizes[s][2], sizes[s][3], sizes[s][4]);
            kith_placement *p = NULL;
            if (o.tp * o.dp * o.pp > kith_topology_gpu_count(t))
                continue;
            double got = make_plan(t, &o, &p).placed_step_s;
            kith_placement_destroy(p);
            o.keep_order = true;
            double wanted = make_plan(t, &o, &p).placed_step_s;
            for (int r = 0; r < kith_placement_rank_count(p); r++)
                assert_int_equal(kith_placement_gpu(p, r), r);
            kith_placement_destroy(p);
            if (got > wanted * (1 + 1e-9))
                fail_msg("%s, tp %d dp %d pp %d: wanted at most %g s, got %g s", machines[m], o.tp, o.dp, o.pp, wanted,
                         got);
        }
        kith_topology_destroy(t);
    }
}

/* Gradients hide behind three sequences' compute: the tp groups keep their bridges. */
static void groups_keep_their_bridges(void **state)
{
    (void)state;
    kith_topology *t = load(bridges4);
    kith_plan_options o = plan_layout(2, 2, 1, 3, 1);
    kith_placement *p = NULL;
    make_plan(t, &o, &p);
    assert_false(kith_placement_axis(p, "tp")->leaves_nvlink);
    kith_placement_destroy(p);
    kith_topology_destroy(t);
}

/* A search places quickly, and what it shows as well as kith_plan_make() does. */
static void search_shows_full_placements(void **state)
{
    (void)state;
    enum { SHOWN = 3 };
    kith_topology *t = load("48 nodes of 8 H100 on NVSwitch, 4 NICs of NDR");
    kith_plan plans[SHOWN];
    kith_model model;
    int count, tried;
    kith_plan_options o = KITH_PLAN_OPTIONS_INIT;
    o.global_batch = 384;
    o.tp = 8;
    o.flash_attention = true;
    assert_int_equal(kith_model_named("llama-2-70b", &model), KITH_OK);
    if (kith_plan_search(t, &model, &o, 0, plans, SHOWN, &count, &tried) != KITH_OK)
        fail_msg("%s", kith_error_detail());
    assert_int_equal(count, SHOWN);
    for (int i = 0; i < count; i++) {
        kith_plan alone;
        assert_int_equal(kith_plan_make(t, &model, &plans[i].options, &alone), KITH_OK);
        double wanted = alone.placed_step_s, got = plans[i].placed_step_s;
        if (got > wanted * (1 + 1e-9) || wanted > got * (1 + 1e-9))
            fail_msg("place %d: wanted %g s, got %g s", i + 1, wanted, got);
        assert_true(i == 0 || plans[i - 1].placed_step_s <= got);
    }
    kith_topology_destroy(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(units_change_nodes),
                                        cmocka_unit_test(order_of_axes_does_not_matter),
                                        cmocka_unit_test(numbers_matter_little),
                                        cmocka_unit_test(switch_left_over_is_chosen_by_cost),
                                        cmocka_unit_test(hidden_traffic_does_not_weigh),
                                        cmocka_unit_test(seconds_hidden_are_checked),
                                        cmocka_unit_test(no_step_is_longer_than_in_order),
                                        cmocka_unit_test(groups_keep_their_bridges),
                                        cmocka_unit_test(search_shows_full_placements) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
