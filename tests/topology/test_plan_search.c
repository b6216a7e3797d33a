/* tests/topology/test_plan_search.c - plans and the search for layouts on machines that not every layout fits.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "machine.h"
#include "plan_expect.h"

#include <stddef.h>

enum { ROOM = 256 };
static kith_plan plans[ROOM];

static kith_topology *machine(const char *description)
{
    kith_topology *topology;
    if (kith_topology_load(&description, 1, NULL, &topology) != KITH_OK)
        fail_msg("%s", kith_error_detail());
    return topology;
}

static int search(const kith_topology *topology, const kith_model *model, const kith_plan_options *options, int room)
{
    int count = -1, tried = -1;
    if (kith_plan_search(topology, model, options, 0, plans, room, &count, &tried) != KITH_OK)
        fail_msg("%s", kith_error_detail());
    assert_in_range(count, 0, tried);
    for (int i = 1; i < count; i++)
        expect_not_above("order", plans[i - 1].placed_step_s, plans[i].placed_step_s);
    return count;
}

static bool is_found(const kith_plan_options *o, int count)
{
    for (int i = 0; i < count; i++) {
        const kith_plan_options *found = &plans[i].options;
        if (found->tp == o->tp && found->cp == o->cp && found->dp == o->dp && found->pp == o->pp)
            return true;
    }
    return false;
}

/* Makes every layout of `world` ranks on its own: the search has found those that can be made, and no others. */
static void expect_all_found(const kith_topology *topology, const kith_model *model, kith_plan_options o, int world,
                             int count)
{
    int made = 0, refused = 0;
    o.global_batch = world;
    for (o.tp = 1; o.tp <= world; o.tp++)
        for (o.cp = 1; o.cp * o.tp <= world; o.cp++)
            for (o.pp = 1; o.pp * o.cp * o.tp <= world; o.pp++) {
                kith_plan plan;
                o.dp = world / (o.tp * o.cp * o.pp);
                if (o.tp * o.cp * o.pp * o.dp != world || kith_plan_make(NULL, model, &o, &plan) != KITH_OK)
                    continue;
                bool is_made = kith_plan_make(topology, model, &o, &plan) == KITH_OK && plan.memory.fits;
                made += is_made;
                refused += !is_made;
                if (is_made != is_found(&o, count))
                    fail_msg("tp %d, cp %d, dp %d, pp %d: wanted %d, got %d", o.tp, o.cp, o.dp, o.pp, is_made,
                             !is_made);
            }
    assert_int_equal(made, count);
    assert_true(made > 1 && refused > 0);
}

/* Groups of four do not divide nodes of six: such layouts are passed over. */
static void test_what_does_not_fit_nodes_is_passed_over(void **state)
{
    (void)state;
    kith_topology *topology = machine("2 nodes of 6 A100 on NVSwitch, 6 NICs");
    kith_model model = named("llama-2-7b");
    kith_plan_options o = options_of(0, 0, 1, 3072);
    o.gpu_memory_nbytes = 1e15;
    expect_all_found(topology, &model, o, 12, search(topology, &model, &o, ROOM));
    kith_topology_destroy(topology);
}

/* Every layout that fits into memory is refused by the machine: the reason is told. */
static void test_why_nothing_can_be_placed(void **state)
{
    (void)state;
    int count, tried;
    kith_topology *topology = machine("2 nodes of 6 A100 on NVSwitch, 6 NICs");
    kith_model model = named("llama-2-7b");
    kith_plan_options o = options_of(4, 1, 1, 2048);
    expect_refused("tp 4", kith_plan_search(topology, &model, &o, 12, plans, ROOM, &count, &tried),
                   KITH_ERR_INVALID_ARG, "tp 4 x dp 3 do not fit");
    kith_topology_destroy(topology);
}

/* Nothing says how fast GPUs are linked: a single one has a plan, for more the reason is told. */
static void test_links_of_unknown_bandwidth(void **state)
{
    (void)state;
    const machine_spec spec = { .gpu = "NVIDIA H100", .nodes = 1, .gpus = 4, .nvlinks = 6, .is_direct = true };
    int count, tried;
    kith_topology *topology = machine_create(&spec);
    assert_non_null(topology);
    kith_link *links = (kith_link *)kith_topology_kind(topology, 0)->links;
    for (int i = 0; i < 16; i++)
        links[i].gbps = 0;
    kith_model model = named("gpt2");
    kith_plan_options o = options_of(0, 0, 1, 1024);
    expect_refused("four", kith_plan_search(topology, &model, &o, 4, plans, ROOM, &count, &tried), KITH_ERR_UNSUPPORTED,
                   "no bandwidth is known");
    assert_int_equal(kith_plan_search(topology, &model, &o, 1, plans, ROOM, &count, &tried), KITH_OK);
    assert_int_equal(count, 1);
    kith_topology_destroy(topology);
}

static void hide_two(kith_topology *t, ki_kind *kind)
{
    (void)t;
    kith_gpu *gpus = (kith_gpu *)kind->view.gpus;
    gpus[3].is_allowed = gpus[7].is_allowed = false;
}

/* What remains for dp is what the placement gives it, and the search lays out as many ranks. */
static void expect_ranks(const kith_topology *topology, int tp, int wanted)
{
    kith_placement_options placing = KITH_PLACEMENT_OPTIONS_INIT;
    kith_placement *placement;
    kith_plan plan;
    kith_model model = named("llama-2-7b");
    kith_plan_options o = options_of(tp, 1, 1, 2048);
    o.gpu_memory_nbytes = 1e15;
    placing.tp = tp;
    assert_int_equal(kith_place(topology, &placing, &placement), KITH_OK);
    assert_int_equal(kith_placement_rank_count(placement), wanted);
    kith_placement_destroy(placement);
    if (kith_plan_make(topology, &model, &o, &plan) != KITH_OK)
        fail_msg("%s", kith_error_detail());
    assert_int_equal(plan.world, wanted);
    assert_true(search(topology, &model, &o, ROOM) > 0);
    assert_int_equal(plans[0].world, wanted);
}

static void test_only_what_can_be_used_counts(void **state)
{
    (void)state;
    kith_topology *topology = machine("2 nodes of 5 A100 on NVSwitch, 5 NICs");
    expect_ranks(topology, 2, 8);
    expect_ranks(topology, 1, 10);
    kith_topology_destroy(topology);
    const machine_spec spec = {
        .gpu = "NVIDIA H100", .nodes = 2, .gpus = 8, .nics = 8, .nvlinks = 18, .nic_gbps = 400, .edit = hide_two
    };
    topology = machine_create(&spec);
    assert_non_null(topology);
    expect_ranks(topology, 2, 12);
    expect_ranks(topology, 4, 8);
    kith_topology_destroy(topology);
}

/* 12 of 16 GPUs where dp is to be 3. */
static void test_given_axes_come_out_even(void **state)
{
    (void)state;
    kith_topology *topology = machine("2 nodes of 8 H100 on NVSwitch, 8 NICs");
    kith_model model = named("llama-2-7b");
    kith_plan_options o = options_of(2, 0, 1, 2048);
    o.dp = 3;
    assert_true(search(topology, &model, &o, ROOM) > 0);
    assert_int_equal(plans[0].world, 12);
    assert_int_equal(plans[0].options.dp, 3);
    kith_topology_destroy(topology);
}

/* Only the most promising layouts are placed: the best of them is the best of all. */
static void expect_same_best(const char *description, const char *name)
{
    kith_topology *topology = machine(description);
    kith_model model = named(name);
    kith_plan_options o = options_of(0, 0, 1, 4096);
    o.zero = 1;
    o.flash_attention = true;
    o.global_batch = 256;
    o.gpu_memory_nbytes = 80e9;
    assert_true(search(topology, &model, &o, ROOM) > 24); /* all of them */
    double best_s = plans[0].placed_step_s;
    for (int room = 1; room <= 3; room += 2) {
        assert_int_equal(search(topology, &model, &o, room), room);
        expect_near(description, plans[0].placed_step_s, best_s, 1e-12);
    }
    kith_topology_destroy(topology);
}

static void test_best_of_few_is_best_of_all(void **state)
{
    (void)state;
    expect_same_best("8 nodes of 8 H100 on NVSwitch, 8 NICs", "llama-2-70b");
    expect_same_best("8 nodes of 8 H100 on NVSwitch, 1 NIC", "llama-2-13b");
    expect_same_best("8 nodes of 4 A100 on NVSwitch, 2 NICs", "llama-2-7b");
    expect_same_best("4 nodes of 8 A100 on NVSwitch, 1 NIC", "mixtral-8x7b");
}

/* A program that was built with an older header has shorter options: what it does not know keeps its default. */
static void test_shorter_options(void **state)
{
    (void)state;
    kith_model model = named("gpt2");
    kith_plan_options o = options_of(2, 1, 1, 1024);
    kith_plan plan;
    int count, tried;
    o.gpu = "no such GPU";
    o.struct_size = offsetof(kith_plan_options, gpu);
    assert_int_equal(kith_plan_make(NULL, &model, &o, &plan), KITH_OK);
    assert_int_equal(plan.options.tp, 2);
    assert_null(plan.options.gpu);
    assert_int_equal(plan.options.struct_size, sizeof o);
    assert_int_equal(kith_plan_search(NULL, &model, &o, 4, plans, ROOM, &count, &tried), KITH_OK);
    assert_int_equal(plans[0].options.tp, 2);
    o.struct_size = 0;
    expect_refused("no size", kith_plan_make(NULL, &model, &o, &plan), KITH_ERR_INVALID_ARG, "KITH_PLAN_OPTIONS_INIT");
    expect_refused("no size", kith_plan_search(NULL, &model, &o, 4, plans, ROOM, &count, &tried), KITH_ERR_INVALID_ARG,
                   "KITH_PLAN_OPTIONS_INIT");
}

static void hide_all_but_first(kith_topology *t, ki_kind *kind)
{
    (void)t;
    for (int g = 1; g < kind->view.gpu_count; g++)
        ((kith_gpu *)kind->view.gpus)[g].is_allowed = false;
}

static bool has_note(const kith_plan *plan, const char *words)
{
    for (int i = 0; i < plan->note_count; i++)
        if (strstr(plan->notes[i], words) != NULL)
            return true;
    return false;
}

/* A process that sees one GPU of its node, as ranks do that a launcher binds to one each. */
static void test_one_visible_gpu(void **state)
{
    (void)state;
    machine_spec spec = { .gpu = "NVIDIA H100", .nodes = 2, .gpus = 4, .nics = 4, .nvlinks = 18, .nic_gbps = 48 };
    kith_model model = named("gpt2");
    kith_plan plan;
    for (int is_hidden = 0; is_hidden < 2; is_hidden++)
        for (int tp = 1; tp <= 2; tp++) {
            kith_plan_options o = options_of(tp, 1, 1, 1024);
            spec.edit = is_hidden ? hide_all_but_first : NULL;
            kith_topology *topology = machine_create(&spec);
            assert_non_null(topology);
            assert_int_equal(kith_plan_make(topology, &model, &o, &plan), KITH_OK);
            assert_int_equal(has_note(&plan, "sees one GPU of its node"), is_hidden && tp > 1);
            kith_topology_destroy(topology);
        }
}

/* What was told: all of it must be in order. Asks to stop at the stop_at-th time. */
typedef struct told {
    int count, stop_at;
    const char *what;
    double fraction;
    bool has_placed;
} told;

static int listen_to(void *arg, const char *what, double fraction)
{
    told *t = (told *)arg;
    if (!(fraction >= 0 && fraction <= 1))
        fail_msg("%s: wanted a fraction from 0 to 1, got %g", what, fraction);
    if (t->what != NULL && strcmp(t->what, what) == 0)
        expect_not_above(what, t->fraction, fraction);
    else if (t->has_placed)
        fail_msg("'%s' was told after 'placing'", what);
    t->what = what;
    t->fraction = fraction;
    t->has_placed = strcmp(what, "placing") == 0;
    return ++t->count == t->stop_at ? 1 : 0;
}

static void test_progress_is_told(void **state)
{
    (void)state;
    kith_topology *topology = machine("2 nodes of 8 H100 on NVSwitch, 8 NICs");
    kith_model model = named("llama-2-7b");
    kith_plan_options o = options_of(0, 0, 1, 2048);
    told heard = { .stop_at = -1 };
    kith_plan plan;
    o.progress = listen_to;
    o.progress_arg = &heard;
    assert_true(search(topology, &model, &o, 3) == 3);
    assert_true(heard.has_placed && heard.fraction == 1);
    assert_true(heard.count > 24); /* each of those that are placed tells several times */
    assert_null(plans[0].options.progress);
    heard = (told){ .stop_at = -1 };
    o.tp = 2;
    assert_int_equal(kith_plan_make(topology, &model, &o, &plan), KITH_OK);
    assert_true(heard.has_placed && heard.fraction == 1 && heard.count > 2);
    assert_null(plan.options.progress);
    kith_topology_destroy(topology);
}

/* Wherever it is asked for, the work ends there, and nothing is told afterwards. */
static void test_progress_can_stop(void **state)
{
    (void)state;
    kith_topology *topology = machine("2 nodes of 2 H100 on NVSwitch, 2 NICs");
    kith_model model = named("gpt2");
    kith_plan_options o = options_of(0, 0, 1, 1024);
    told all = { .stop_at = -1 };
    o.progress = listen_to;
    o.progress_arg = &all;
    assert_true(search(topology, &model, &o, 3) > 0);
    for (int at = 1; at <= all.count; at++) {
        told heard = { .stop_at = at };
        int count = -1, tried = -1;
        o.progress_arg = &heard;
        expect_refused("stop", kith_plan_search(topology, &model, &o, 4, plans, 3, &count, &tried), KITH_ERR_ABORTED,
                       "asked to stop");
        assert_int_equal(heard.count, at);
        assert_int_equal(count, -1);
    }
    kith_topology_destroy(topology);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_does_not_fit_nodes_is_passed_over),
        cmocka_unit_test(test_why_nothing_can_be_placed),
        cmocka_unit_test(test_links_of_unknown_bandwidth),
        cmocka_unit_test(test_only_what_can_be_used_counts),
        cmocka_unit_test(test_given_axes_come_out_even),
        cmocka_unit_test(test_best_of_few_is_best_of_all),
        cmocka_unit_test(test_shorter_options),
        cmocka_unit_test(test_one_visible_gpu),
        cmocka_unit_test(test_progress_is_told),
        cmocka_unit_test(test_progress_can_stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
