/* tests/topology/test_place_cluster.c - sizes, the sequence of nodes, islands over several nodes, and what is said.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "core/base/fault.h"
#include "machines.h"
#include "topology/place.h"

#include <kith/mesh.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

typedef struct sizes {
    int tp, cp, ep, dp, pp;
} sizes;

static kith_status try_place(const kith_topology *t, sizes s, kith_placement **p)
{
    kith_placement_options o = KITH_PLACEMENT_OPTIONS_INIT;
    o.tp = s.tp;
    o.cp = s.cp;
    o.ep = s.ep;
    o.dp = s.dp;
    o.pp = s.pp;
    return kith_place(t, &o, p);
}

/* Every rank has a GPU of its own, and what has none is left over. */
static void check_whole(const kith_topology *t, const kith_placement *p)
{
    int total = kith_topology_gpu_count(t), *used = (int *)calloc((size_t)total, sizeof *used);
    for (int r = 0; r < kith_placement_rank_count(p); r++) {
        assert_in_range(kith_placement_gpu(p, r), 0, total - 1);
        assert_int_equal(used[kith_placement_gpu(p, r)]++, 0);
    }
    for (int i = 0; i < kith_placement_leftover_count(p); i++)
        assert_int_equal(used[kith_placement_leftover(p, i)]++, 0);
    for (int g = 0; g < total; g++)
        assert_int_equal(used[g], 1);
    free(used);
}

static kith_placement *place(const kith_topology *t, sizes s)
{
    kith_placement *p = NULL;
    if (try_place(t, s, &p) != KITH_OK)
        fail_msg("%s", kith_error_detail());
    check_whole(t, p);
    if (kith_placement_cost(p) > kith_placement_identity_cost(p) * (1 + 1e-9) ||
        kith_placement_lower_bound(p) > kith_placement_cost(p) * (1 + 1e-9))
        fail_msg("cost %g, identity %g, bound %g", kith_placement_cost(p), kith_placement_identity_cost(p),
                 kith_placement_lower_bound(p));
    return p;
}

static void expect_sizes(const kith_topology *t, sizes asked, sizes wanted)
{
    kith_placement *p = place(t, asked);
    const int all[] = { wanted.tp, wanted.cp, wanted.ep, wanted.dp, wanted.pp };
    for (int a = 0; a < 5; a++)
        if (kith_placement_axis(p, ki_axis_names[a])->size != all[a])
            fail_msg("%s: wanted %d, got %d", ki_axis_names[a], all[a], kith_placement_axis(p, ki_axis_names[a])->size);
    kith_placement_destroy(p);
}

static void expect_refused(const kith_topology *t, sizes asked, const char *word)
{
    kith_placement *p = NULL;
    assert_int_equal(try_place(t, asked, &p), KITH_ERR_INVALID_ARG);
    assert_null(p);
    if (strstr(kith_error_detail(), word) == NULL)
        fail_msg("the text lacks '%s': %s", word, kith_error_detail());
}

static bool has_note(const kith_placement *p, bool is_warning, const char *word)
{
    for (int i = 0; i < kith_placement_note_count(p); i++)
        if (kith_placement_note_is_warning(p, i) == is_warning && strstr(kith_placement_note(p, i), word) != NULL)
            return true;
    return false;
}

static void require_note(const kith_placement *p, bool is_warning, const char *word)
{
    if (has_note(p, is_warning, word))
        return;
    for (int i = 0; i < kith_placement_note_count(p); i++)
        print_message("note: %s\n", kith_placement_note(p, i));
    fail_msg("no %s has '%s'", is_warning ? "warning" : "note", word);
}

static int leaf_of(const kith_topology *t, int gpu)
{
    int node, position;
    assert_true(kith_topology_locate(t, gpu, &node, &position));
    return kith_topology_node(t, node)->leaf;
}

static int groups_in_one_leaf(const kith_topology *t, const kith_axis_report *axis)
{
    int count = 0;
    for (int g = 0; g < axis->group_count; g++) {
        int i = 1;
        while (i < axis->size &&
               leaf_of(t, axis->groups[g * axis->size + i]) == leaf_of(t, axis->groups[g * axis->size]))
            i++;
        count += i == axis->size;
    }
    return count;
}

static kith_topology *tree(const int *nodes_per_leaf, int leaf_count, int gpus, bool is_shuffled)
{
    kith_topology *t = machine_new();
    machine_add_uniform(t, gpus, "NV18", 4);
    machine_add_tree(t, 0, nodes_per_leaf, leaf_count, 2, is_shuffled);
    machine_finish(t);
    return t;
}

/* ---- sizes ---- */

static void test_sizes(void **state)
{
    (void)state;
    static const int leaves[] = { 4, 4 };
    kith_topology *t = tree(leaves, 2, 8, false);
    expect_sizes(t, (sizes){ 0 }, (sizes){ 8, 1, 1, 8, 1 });
    expect_sizes(t, (sizes){ .pp = 4 }, (sizes){ 8, 1, 1, 2, 4 });
    expect_sizes(t, (sizes){ .tp = 2, .cp = 2, .pp = 2 }, (sizes){ 2, 2, 1, 8, 2 });
    expect_sizes(t, (sizes){ .dp = 32 }, (sizes){ 2, 1, 1, 32, 1 });
    expect_sizes(t, (sizes){ .tp = 3 }, (sizes){ 3, 1, 1, 16, 1 }); /* two GPUs of each node are left over */
    expect_sizes(t, (sizes){ .tp = 16 }, (sizes){ 16, 1, 1, 4, 1 });
    expect_refused(t, (sizes){ .tp = 3, .dp = 21 }, "dp up to 16");
    expect_refused(t, (sizes){ .tp = 8, .dp = 9 }, "64 GPUs");
    expect_refused(t, (sizes){ .tp = 7, .pp = 9 }, "tp 1, 2, 3, 4");
    expect_refused(t, (sizes){ .tp = 65 }, "tp 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, ... up to 64");
    expect_refused(t, (sizes){ .tp = -1 }, "tp is -1");
    expect_refused(t, (sizes){ .tp = 65536, .dp = 65536, .pp = 65536 }, "64 GPUs");
    kith_topology_destroy(t);
}

static void test_orders(void **state)
{
    (void)state;
    static const int leaves[] = { 2, 2 };
    kith_topology *t = tree(leaves, 2, 4, false);
    kith_placement_options o = KITH_PLACEMENT_OPTIONS_INIT;
    kith_placement *p = NULL;
    o.tp = 2;
    o.pp = 2;
    o.order = "tp-pp-dp";
    assert_int_equal(kith_place(t, &o, &p), KITH_OK);
    assert_string_equal(kith_placement_order(p), "tp-pp-dp-cp-ep");
    const kith_axis_report *pp = kith_placement_axis(p, "pp");
    assert_int_equal(pp->groups[0], 0);
    assert_int_equal(pp->groups[1], 2); /* both stages in one node */
    kith_placement_destroy(p);
    static const char *const wrong[] = { "tp-xx", "tp-tp-pp", "dp", "tp--pp" };
    for (int i = 0; i < 4; i++) {
        o.order = wrong[i];
        p = NULL;
        assert_int_equal(kith_place(t, &o, &p), KITH_ERR_INVALID_ARG);
        assert_null(p);
    }
    kith_topology_destroy(t);
}

/* The groups are those of a mesh with the same sizes and order. */
static void test_groups_as_in_mesh(void **state)
{
    (void)state;
    static const int leaves[] = { 4, 4 };
    kith_topology *t = tree(leaves, 2, 8, true);
    const kith_mesh_axis axes[] = { { "tp", 2 }, { "cp", 2 }, { "ep", 1 }, { "dp", 4 }, { "pp", 4 } };
    kith_placement *p = place(t, (sizes){ 2, 2, 1, 4, 4 });
    for (int a = 0; a < 5; a++) {
        int groups[64], size, count;
        const kith_axis_report *axis = kith_placement_axis(p, axes[a].name);
        assert_int_equal(kith_mesh_enumerate(axes, 5, NULL, axes[a].name, 64, groups, &size, &count), KITH_OK);
        for (int i = 0; i < 64; i++)
            if (axis->groups[i] != kith_placement_gpu(p, groups[i]))
                fail_msg("%s: entry %d: wanted GPU %d, got %d", axes[a].name, i, kith_placement_gpu(p, groups[i]),
                         axis->groups[i]);
    }
    kith_placement_destroy(p);
    kith_topology_destroy(t);
}

/* ---- the sequence of nodes ---- */

static void test_natural_order(void **state)
{
    (void)state;
    static const char *const sorted[] = { "a", "n1", "n2", "n10", "n10a", "n010b", "p" };
    for (int i = 0; i < 7; i++)
        for (int j = 0; j < 7; j++) {
            int got = ki_natural_compare(sorted[i], sorted[j]);
            if ((got > 0) - (got < 0) != (i > j) - (i < j))
                fail_msg("%s and %s: %d", sorted[i], sorted[j], got);
        }
}

/* Names go round over the switches, so the order of the numbers cuts every group; the right sequence cuts none. */
static void test_shuffled_nodes(void **state)
{
    (void)state;
    static const int leaves[] = { 4, 4, 4, 4 };
    kith_topology *t = tree(leaves, 4, 8, true);
    kith_placement *p = place(t, (sizes){ 8, 1, 1, 4, 4 });
    const kith_axis_report *dp = kith_placement_axis(p, "dp");
    assert_int_equal(groups_in_one_leaf(t, dp), dp->group_count);
    require_note(p, false, "ordered by switch");
    kith_placement_destroy(p);
    kith_topology_destroy(t);
}

/* In order already: nothing is changed. */
static void test_regular_tree(void **state)
{
    (void)state;
    static const int leaves[] = { 4, 4, 4, 4 };
    kith_topology *t = tree(leaves, 4, 8, false);
    kith_placement *p = place(t, (sizes){ 8, 1, 1, 4, 4 });
    for (int r = 0; r < 128; r++)
        assert_int_equal(kith_placement_gpu(p, r), r);
    require_note(p, false, "order of the numbers is kept");
    kith_placement_destroy(p);
    kith_topology_destroy(t);
}

/* Racks of 9 nodes and groups of 4: two whole groups in each rack, and the odd nodes together. */
static void test_uneven_racks(void **state)
{
    (void)state;
    static const int leaves[] = { 9, 9, 9, 9 };
    kith_topology *t = tree(leaves, 4, 8, false);
    kith_placement *p = place(t, (sizes){ 8, 1, 1, 4, 9 });
    const kith_axis_report *dp = kith_placement_axis(p, "dp");
    int whole = groups_in_one_leaf(t, dp);
    if (whole < 64) /* 8 of 9 groups, for each of 8 positions in the node */
        fail_msg("wanted 64 of %d dp groups inside a switch, got %d", dp->group_count, whole);
    kith_placement_destroy(p);
    kith_topology_destroy(t);
}

static void test_16_and_5(void **state)
{
    (void)state;
    static const int leaves[] = { 16, 5 };
    kith_topology *t = tree(leaves, 2, 8, true);
    kith_placement *p = place(t, (sizes){ 8, 1, 1, 4, 5 });
    const kith_axis_report *dp = kith_placement_axis(p, "dp");
    assert_int_equal(groups_in_one_leaf(t, dp), dp->group_count); /* four groups there, one here, a node over */
    assert_int_equal(kith_placement_leftover_count(p), 8);
    require_note(p, true, "8 of 168 GPUs have no rank");
    kith_placement_destroy(p);
    kith_topology_destroy(t);
}

/* Swaps find what the greedy fill cannot know: counted bytes never grow by them. */
static void test_local_search(void **state)
{
    (void)state;
    static const int leaves[] = { 3, 5, 2, 7, 4, 3 };
    kith_topology *t = tree(leaves, 6, 2, true);
    kith_placement *p = place(t, (sizes){ 2, 1, 1, 6, 4 });
    ki_cut before, after;
    int islands_of_rank[48], identity[48], leaf_groups = groups_in_one_leaf(t, kith_placement_axis(p, "dp"));
    ki_axis_flow hop[5] = { { 0, false }, { 0, false }, { 0, false }, { 1, false }, { 1, false } };
    ki_islands islands;
    ki_distances d;
    assert_int_equal(ki_islands_make(t, &islands), KITH_OK);
    assert_int_equal(ki_distances_make(t, &d), KITH_OK);
    for (int r = 0; r < 48; r++) {
        islands_of_rank[r] = kith_placement_gpu(p, r) / 2;
        identity[r] = r / 2;
    }
    assert_int_equal(ki_cut_count(&islands, &d, &p->sizes, hop, identity, &before), KITH_OK);
    assert_int_equal(ki_cut_count(&islands, &d, &p->sizes, hop, islands_of_rank, &after), KITH_OK);
    if (after.bytes >= before.bytes || after.at_least > after.bytes || after.at_least != before.at_least)
        fail_msg("%g (at least %g) instead of %g (at least %g), %d groups in a leaf", after.bytes, after.at_least,
                 before.bytes, before.at_least, leaf_groups);
    ki_distances_fini(&d);
    ki_islands_fini(&islands);
    kith_placement_destroy(p);
    kith_topology_destroy(t);
}

/* Two stages on two leaves: a ring goes over the spine and back, a pipeline only there. */
static void test_chain_crosses_once(void **state)
{
    (void)state;
    static const int leaves[] = { 1, 1 };
    kith_topology *t = tree(leaves, 2, 8, false);
    kith_placement *p = place(t, (sizes){ 8, 1, 1, 1, 2 });
    int island_of_rank[16];
    ki_islands islands;
    ki_distances d;
    ki_cut cut;
    assert_int_equal(ki_islands_make(t, &islands), KITH_OK);
    assert_int_equal(ki_distances_make(t, &d), KITH_OK);
    for (int r = 0; r < 16; r++)
        island_of_rank[r] = r / 8;
    for (int is_chain = 0; is_chain < 2; is_chain++) {
        ki_axis_flow flows[5] = { [KI_PP] = { 1, is_chain == 1 } };
        assert_int_equal(ki_cut_count(&islands, &d, &p->sizes, flows, island_of_rank, &cut), KITH_OK);
        int wanted = is_chain == 1 ? 8 : 16;
        if ((int)cut.bytes != wanted || (int)cut.at_least != wanted)
            fail_msg("chain %d: wanted %d, got %g, at least %g", is_chain, wanted, cut.bytes, cut.at_least);
    }
    ki_distances_fini(&d);
    ki_islands_fini(&islands);
    kith_placement_destroy(p);
    kith_topology_destroy(t);
}

/* All nodes of a kind take their GPUs in the same order, so equal positions meet. */
static void test_same_order_in_all_nodes(void **state)
{
    (void)state;
    static const int leaves[] = { 2, 2 };
    kith_topology *t = machine_new();
    machine_add_kind(t, 4, "X SYS SYS NV4 SYS X NV4 SYS SYS NV4 X SYS NV4 SYS SYS X", NULL);
    machine_add_tree(t, 0, leaves, 2, 2, false);
    machine_finish(t);
    kith_placement *p = place(t, (sizes){ .tp = 2 });
    for (int r = 0; r < 16; r++)
        assert_int_equal(kith_placement_gpu(p, r) % 4, kith_placement_gpu(p, r % 4));
    assert_int_equal(kith_placement_gpu(p, 1), 3);
    assert_true(kith_placement_cost(p) < kith_placement_identity_cost(p));
    kith_placement_destroy(p);
    kith_topology_destroy(t);
}

/* Nodes of 8 and of 4 GPUs: groups of 4 fit into both. */
static void test_two_kinds(void **state)
{
    (void)state;
    static const int leaves[] = { 2 };
    kith_topology *t = machine_new();
    machine_add_uniform(t, 4, "NV6", 2);
    machine_add_uniform(t, 8, "NV18", 4);
    machine_add_tree(t, 0, leaves, 1, 1, false);
    machine_add_tree(t, 1, leaves, 1, 1, false);
    machine_finish(t);
    kith_placement *p = place(t, (sizes){ 4, 1, 1, 6, 1 });
    assert_false(kith_placement_axis(p, "tp")->leaves_nvlink);
    kith_placement_destroy(p);
    p = place(t, (sizes){ .tp = 8 }); /* only the big nodes hold one; the small ones together would leave NVLink */
    assert_int_equal(kith_placement_axis(p, "dp")->size, 2);
    assert_int_equal(kith_placement_leftover_count(p), 8);
    assert_false(kith_placement_axis(p, "tp")->leaves_nvlink);
    kith_placement_destroy(p);
    kith_topology_destroy(t);
}

/* ---- NVLink over nodes ---- */

static kith_topology *racks(int rack_count, int nodes, bool is_nvlink)
{
    kith_topology *t = machine_new();
    machine_add_uniform(t, 4, "NV18", 2);
    for (int r = 0; r < rack_count; r++)
        ki_topology_add_domain(t, "rack", is_nvlink)->gbps = 700;
    for (int n = 0; n < rack_count * nodes; n++)
        ki_topology_add_node(t, ki_topology_format(t, "n%d", n), 0)->domain = n % rack_count;
    machine_finish(t);
    return t;
}

static void test_nvlink_domains(void **state)
{
    (void)state;
    kith_topology *t = racks(2, 18, true); /* names alternate between the racks */
    expect_sizes(t, (sizes){ 0 }, (sizes){ 72, 1, 1, 2, 1 });
    kith_placement *p = place(t, (sizes){ 8, 1, 1, 18, 1 });
    assert_false(kith_placement_axis(p, "tp")->leaves_nvlink);
    kith_placement_destroy(p);
    p = place(t, (sizes){ 4, 1, 16, 2, 1 }); /* an expert group in each rack */
    assert_false(kith_placement_axis(p, "ep")->leaves_nvlink);
    assert_false(has_note(p, true, "NVLink domain"));
    kith_placement_destroy(p);
    p = place(t, (sizes){ 4, 1, 36, 1, 1 }); /* cannot be: one group over both */
    assert_true(kith_placement_axis(p, "ep")->leaves_nvlink);
    require_note(p, true, "ep groups go over more than one NVLink domain");
    require_note(p, true, "leave NVLink");
    kith_placement_destroy(p);
    kith_topology_destroy(t);
}

static void hide_all_but_first(kith_topology *t)
{
    kith_gpu *gpus = (kith_gpu *)(uintptr_t)kith_topology_kind(t, 0)->gpus;
    for (int g = 1; g < kith_topology_kind(t, 0)->gpu_count; g++)
        gpus[g].is_allowed = false;
}

/* As a step of a job sees its nodes where each rank gets one GPU. */
static void test_one_visible_gpu(void **state)
{
    (void)state;
    static const int leaves[] = { 2, 2 };
    kith_topology *t = tree(leaves, 2, 8, false);
    kith_placement *p = place(t, (sizes){ 2, 1, 1, 2, 1 });
    assert_false(has_note(p, true, "sees one of"));
    kith_placement_destroy(p);
    hide_all_but_first(t);
    p = place(t, (sizes){ 2, 1, 1, 2, 1 });
    require_note(p, true, "tp is 2, and this process sees one of 8 GPUs of");
    kith_placement_destroy(p);
    p = place(t, (sizes){ 1, 1, 1, 4, 1 }); /* without tp it does not matter so much */
    assert_false(has_note(p, true, "sees one of"));
    kith_placement_destroy(p);
    kith_topology_destroy(t);
}

static void test_tp_over_nodes(void **state)
{
    (void)state;
    static const int leaves[] = { 2, 2 };
    kith_topology *t = tree(leaves, 2, 8, false);
    kith_placement *p = place(t, (sizes){ 16, 1, 1, 2, 1 });
    const kith_axis_report *tp = kith_placement_axis(p, "tp");
    assert_true(tp->leaves_nvlink);
    assert_int_equal(tp->bottleneck.type, KITH_LINK_NET);
    assert_int_equal(groups_in_one_leaf(t, tp), 2);
    require_note(p, true, "tp groups of 16 leave NVLink");
    require_note(p, true, "times less");
    kith_placement_destroy(p);
    kith_topology_destroy(t);
}

/* ---- reports ---- */

static void test_bytes_by_link(void **state)
{
    (void)state;
    static const int leaves[] = { 2 };
    kith_topology *t = tree(leaves, 1, 8, false);
    kith_axis_traffic traffic[KITH_PLACEMENT_AXES] = {
        [KI_TP] = { KITH_COST_ALL_REDUCE, 10, 8e6, 0 }, [KI_DP] = { KITH_COST_REDUCE_SCATTER, 1, 4e6, 0 }
    };
    kith_placement_options o = KITH_PLACEMENT_OPTIONS_INIT;
    kith_placement *p = NULL;
    o.tp = 8;
    o.traffic = traffic;
    assert_int_equal(kith_place(t, &o, &p), KITH_OK);
    const kith_axis_report *tp = kith_placement_axis(p, "tp"), *dp = kith_placement_axis(p, "dp");
    /* tp: 16 ranks * 10 calls * 2 * 7/8 * 8e6; dp: 16 ranks * 1/2 * 4e6 */
    assert_true(tp->bytes_by_type[KITH_LINK_NVLINK] == 16 * 10 * 14e6 && tp->bytes_by_type[KITH_LINK_NET] == 0);
    assert_true(dp->bytes_by_type[KITH_LINK_NET] == 16 * 2e6 && dp->bytes_by_type[KITH_LINK_NVLINK] == 0);
    assert_true(tp->step_s == 10 * tp->cost.time_s && dp->step_s == dp->cost.time_s);
    assert_int_equal(kith_placement_axis(p, "pp")->bottleneck_from, -1);
    kith_placement_destroy(p);
    traffic[KI_TP] = (kith_axis_traffic){ KITH_COST_ALL_TO_ALL, 1, 16e6, 0 };
    o.tp = 16; /* each rank to 7 others inside, 8 outside */
    assert_int_equal(kith_place(t, &o, &p), KITH_OK);
    tp = kith_placement_axis(p, "tp");
    assert_true(tp->bytes_by_type[KITH_LINK_NVLINK] == 16 * 7e6 && tp->bytes_by_type[KITH_LINK_NET] == 16 * 8e6);
    kith_placement_destroy(p);
    traffic[KI_TP].calls = -1;
    p = NULL;
    assert_int_equal(kith_place(t, &o, &p), KITH_ERR_INVALID_ARG);
    assert_null(p);
    kith_topology_destroy(t);
}

static void test_keep_order(void **state)
{
    (void)state;
    kith_topology *t = machine_of_matrix(4, "X SYS SYS NV4 SYS X NV4 SYS SYS NV4 X SYS NV4 SYS SYS X", NULL);
    kith_placement_options o = KITH_PLACEMENT_OPTIONS_INIT;
    kith_placement *p = NULL;
    o.tp = 2;
    o.keep_order = true;
    assert_int_equal(kith_place(t, &o, &p), KITH_OK);
    for (int r = 0; r < 4; r++)
        assert_int_equal(kith_placement_gpu(p, r), r);
    assert_true(kith_placement_axis(p, "tp")->leaves_nvlink);
    kith_placement_destroy(p);
    kith_topology_destroy(t);
}

/* Allocations fail, the early ones one by one, later ones further apart: an error, nothing leaked (sanitizers look),
 * nothing written. */
static void test_no_memory(void **state)
{
    (void)state;
    static const int leaves[] = { 3, 2 };
    kith_topology *t = tree(leaves, 2, 8, true);
    kith_placement *p = NULL;
    int failures = 0;
    for (int nth = 1; p == NULL && nth < 1000000; nth += 1 + nth / 64) {
        char rule[32];
        snprintf(rule, sizeof rule, "alloc:%d", nth);
        setenv("KITH_FAULT", rule, 1);
        assert_int_equal(ki_fault_configure(0), KITH_OK);
        kith_status status = try_place(t, (sizes){ 2, 2, 1, 4, 2 }, &p);
        assert_int_equal(status, p != NULL ? KITH_OK : KITH_ERR_NO_MEMORY);
        failures += p == NULL;
    }
    unsetenv("KITH_FAULT");
    assert_int_equal(ki_fault_configure(0), KITH_OK);
    assert_true(p != NULL && failures > 20);
    kith_placement_destroy(p);
    kith_topology_destroy(t);
}

static void test_null(void **state)
{
    (void)state;
    assert_int_equal(kith_placement_rank_count(NULL), 0);
    assert_int_equal(kith_placement_gpu(NULL, 0), -1);
    assert_null(kith_placement_axis(NULL, "tp"));
    assert_null(kith_placement_order(NULL));
    assert_int_equal(kith_placement_leftover_count(NULL), 0);
    assert_int_equal(kith_placement_leftover(NULL, 0), -1);
    assert_true(kith_placement_cost(NULL) == 0 && kith_placement_identity_cost(NULL) == 0);
    assert_true(kith_placement_lower_bound(NULL) == 0);
    assert_int_equal(kith_placement_note_count(NULL), 0);
    assert_null(kith_placement_note(NULL, 0));
    assert_false(kith_placement_note_is_warning(NULL, 0));
}

static void test_null_topology(void **state)
{
    (void)state;
    int node = 7, gpu = 7;
    kith_link_type type = KITH_LINK_NVLINK;
    assert_int_equal(kith_topology_kind_count(NULL) + kith_topology_node_count(NULL), 0);
    assert_int_equal(kith_topology_switch_count(NULL) + kith_topology_domain_count(NULL), 0);
    assert_int_equal(kith_topology_doubt_count(NULL) + kith_topology_gpu_count(NULL), 0);
    assert_true(kith_topology_kind(NULL, 0) == NULL && kith_topology_node(NULL, 0) == NULL);
    assert_true(kith_topology_switch(NULL, 0) == NULL && kith_topology_domain(NULL, 0) == NULL);
    assert_null(kith_topology_doubt(NULL, 0));
    assert_int_equal(kith_topology_first_gpu(NULL, 0), -1);
    assert_false(kith_topology_locate(NULL, 0, &node, &gpu));
    assert_int_equal(kith_topology_link(NULL, 0, 1).type, KITH_LINK_UNKNOWN);
    assert_int_equal(kith_numa_count_with_cpus(NULL), 0);
    assert_int_equal(kith_nearest_nics(NULL, 0, NULL, 0, &type), 0);
    assert_int_equal(type, KITH_LINK_UNKNOWN);
    assert_int_equal(kith_nvlink_islands(NULL, &gpu), 0);
}

/* The same without memory of its own, for callers on which nothing may fail. */
static void test_mesh_order_without_memory(void **state)
{
    (void)state;
    kith_topology *t = machine_of_matrix(4, "X SYS SYS NV4 SYS X NV4 SYS SYS NV4 X SYS NV4 SYS SYS X", NULL);
    kith_placement *p = place(t, (sizes){ .tp = 2 });
    static const int launched[] = { 3, 2, 1, 0 }, wanted[] = { 3, 0, 2, 1 }, twice[] = { 0, 1, 2, 2 };
    int order[4], scratch[9] = { [8] = -77 };
    setenv("KITH_FAULT", "alloc:1", 1);
    assert_int_equal(ki_fault_configure(0), KITH_OK);
    kith_status status = ki_placement_mesh_order(p, launched, order, scratch);
    unsetenv("KITH_FAULT");
    ki_fault_configure(0);
    assert_int_equal(status, KITH_OK);
    assert_memory_equal(order, wanted, sizeof order);
    assert_int_equal(ki_placement_mesh_order(p, twice, order, scratch), KITH_ERR_INVALID_ARG);
    assert_int_equal(scratch[8], -77);
    kith_placement_destroy(p);
    kith_topology_destroy(t);
}

static void test_mesh_order(void **state)
{
    (void)state;
    kith_topology *t = machine_of_matrix(4, "X SYS SYS NV4 SYS X NV4 SYS SYS NV4 X SYS NV4 SYS SYS X", NULL);
    kith_placement *p = place(t, (sizes){ .tp = 2 });
    static const int plain[] = { 0, 3, 1, 2 }, launched[] = { 3, 2, 1, 0 }, wanted[] = { 3, 0, 2, 1 };
    static const int twice[] = { 0, 1, 2, 2 }, missing[] = { 0, 1, 2, 7 };
    int order[4] = { -1, -1, -1, -1 };
    assert_int_equal(kith_placement_mesh_order(p, NULL, order), KITH_OK);
    assert_memory_equal(order, plain, sizeof order);
    assert_int_equal(kith_placement_mesh_order(p, launched, order), KITH_OK);
    assert_memory_equal(order, wanted, sizeof order);
    assert_int_equal(kith_placement_mesh_order(p, twice, order), KITH_ERR_INVALID_ARG);
    assert_int_equal(kith_placement_mesh_order(p, missing, order), KITH_ERR_INVALID_ARG);
    assert_memory_equal(order, wanted, sizeof order); /* written only on success */
    kith_placement_destroy(p);
    kith_topology_destroy(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_orders),
        cmocka_unit_test(test_groups_as_in_mesh),
        cmocka_unit_test(test_natural_order),
        cmocka_unit_test(test_shuffled_nodes),
        cmocka_unit_test(test_regular_tree),
        cmocka_unit_test(test_uneven_racks),
        cmocka_unit_test(test_16_and_5),
        cmocka_unit_test(test_local_search),
        cmocka_unit_test(test_chain_crosses_once),
        cmocka_unit_test(test_same_order_in_all_nodes),
        cmocka_unit_test(test_two_kinds),
        cmocka_unit_test(test_nvlink_domains),
        cmocka_unit_test(test_tp_over_nodes),
        cmocka_unit_test(test_one_visible_gpu),
        cmocka_unit_test(test_bytes_by_link),
        cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_keep_order),
        cmocka_unit_test(test_mesh_order),
        cmocka_unit_test(test_mesh_order_without_memory),
        cmocka_unit_test(test_null),
        cmocka_unit_test(test_null_topology),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
