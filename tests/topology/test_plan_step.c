/* tests/topology/test_plan_step.c - FLOPs, bubbles, step times, checks and the search, against published figures.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "core/base/json.h"
#include "plan_expect.h"
#include "topology/plan_parts.h"

/* Korthikanti et al. 2022, table 5: seconds of an iteration on A100s, and the share of 312 TFLOP/s in percent. */
static void test_published_mfu(void **state)
{
    static const struct {
        const char *name;
        int64_t batch;
        double gpus, step_s, percent;
    } rows[] = {
        { "megatron-22b", 4, 8, 1.10, 41.5 },
        { "megatron-175b", 64, 64, 13.75, 51.4 },
        { "megatron-530b", 280, 280, 37.83, 56.0 },
        { "megatron-1t", 512, 512, 71.49, 56.3 },
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        kith_plan_options o = options_of(1, 1, 1, 2048);
        o.global_batch = rows[i].batch;
        kith_plan plan = make_named(rows[i].name, &o);
        double percent = 100 * plan.model_flops / (rows[i].step_s * rows[i].gpus * 312e12);
        if (fabs(percent - rows[i].percent) > 0.2) /* 1.10 s is known to half a percent */
            fail_msg("%s: wanted %.1f %%, got %.2f %%", rows[i].name, rows[i].percent, percent);
    }
}

/* 72 B l s h^2 (1 + s/(6h) + V/(12lh)), Narayanan et al. 2021, without recomputation. */
static void test_flops_formula(void **state)
{
    (void)state;
    kith_model m = named("megatron-175b");
    kith_plan_options o = options_of(1, 1, 3, 1024);
    double l = 96, h = 12288, s = 1024, vocab = 51200;
    expect_near("flops", make(&m, &o).model_flops, 72 * 3 * l * s * h * h * (1 + s / (6 * h) + vocab / (12 * l * h)),
                1e-14);
    kith_plan mixtral = make_named("mixtral-8x7b", &o);
    double active = kith_model_active_parameters(&mixtral.model) - 32000.0 * 4096 - 65 * 4096; /* no embedding, norms */
    expect_near("active", mixtral.model_flops, 3 * 1024 * (6 * active + 12.0 * 32 * 1024 * 4096), 1e-14);
}

/* All ranks together do the work of the model once, and once more forward with full recomputation. */
static void test_compute(void **state)
{
    (void)state;
    kith_plan_options o = options_of(8, 1, 2, 2048);
    o.peak_tflops = 100;
    o.efficiency = 0.25;
    kith_plan plan = make_named("llama-2-70b", &o);
    kith_model model = named("llama-2-70b");
    model.vocab = plan.padded_vocab; /* the head works on padded words */
    double work = make(&model, &o).model_flops;
    expect_near("compute", plan.compute_s * 8 * 25e12, work, 1e-12);
    expect_near("no recompute", plan.recompute_s, 0, 0);
    o.recompute = KITH_RECOMPUTE_SELECTIVE;
    double core = 4.0 * 2048 * 8192 * 80 * 2 * 2048;
    expect_near("selective", make_named("llama-2-70b", &o).recompute_s * 8 * 25e12, core, 1e-12);
    o.recompute = KITH_RECOMPUTE_FULL;
    double head = 2.0 * 8192 * (double)plan.padded_vocab * 2 * 2048;
    expect_near("full", make_named("llama-2-70b", &o).recompute_s * 8 * 25e12, work / 3 - head, 1e-12);
}

static double bubble(kith_schedule_kind schedule, int pp, int chunks, double microbatches, double *in_stage)
{
    const ki_layout_pipe pipe = { schedule, pp, chunks, microbatches, { 10, 12, 8 } };
    ki_layout_figures figures;
    assert_int_equal(ki_layout_run_pipe(&pipe, NULL, &figures), KITH_OK);
    *in_stage = figures.bubble_in_stage * microbatches * 30;
    return figures.bubble * microbatches * 30;
}

/* Idle times with F, I, W = 10, 12, 8 and 8 microbatches by the formulas of docs/schedules.md, and by hand. */
static void test_bubbles(void **state)
{
    static const struct {
        kith_schedule_kind schedule;
        int pp, chunks;
        double idle, in_stage;
    } cases[] = {
        { KITH_SCHEDULE_NAIVE, 4, 1, 3 * 8 * 30, 3 * 8 * 30 },
        { KITH_SCHEDULE_GPIPE, 4, 1, 90, 90 },
        { KITH_SCHEDULE_1F1B, 4, 1, 90, 90 },
        { KITH_SCHEDULE_INTERLEAVED, 4, 2, 45, 45 },
        { KITH_SCHEDULE_ZB_H1, 4, 1, 42, 42 },
        { KITH_SCHEDULE_ZB_H1, 8, 1, 98, 98 },
        { KITH_SCHEDULE_ZB_H2, 4, 1, 30, 18 },
        { KITH_SCHEDULE_LOOPED_BFS, 4, 2, 45, 45 },
        { KITH_SCHEDULE_INTERLEAVED_ZB, 4, 2, 21, 21 },
        { KITH_SCHEDULE_1F1B, 1, 1, 0, 0 },
        { KITH_SCHEDULE_NAIVE, 1, 1, 0, 0 },
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        double in_stage, idle = bubble(cases[i].schedule, cases[i].pp, cases[i].chunks, 8, &in_stage);
        expect_near(kith_schedule_kind_name(cases[i].schedule), idle, cases[i].idle, 1e-12);
        expect_near(kith_schedule_kind_name(cases[i].schedule), in_stage, cases[i].in_stage, 1e-12);
    }
    kith_plan_options o = options_of(1, 4, 1, 512);
    o.microbatches = 12;
    expect_near("(p-1)/m", make_named("gpt2", &o).bubble, 3.0 / 12, 1e-14);
    expect_near("the step", make_named("gpt2", &o).steps[0].bubble_s,
                0.25 * (make_named("gpt2", &o).steps[0].compute_s + make_named("gpt2", &o).steps[0].communication_s),
                1e-14);
}

static void test_step_adds_up(void **state)
{
    (void)state;
    kith_plan_options o = options_of(4, 4, 1, 2048);
    o.dp = 8;
    o.microbatches = 16;
    kith_plan plan = make_named("llama-2-7b", &o);
    for (int link = 0; link < KITH_PLAN_LINKS; link++) {
        const kith_plan_step *step = &plan.steps[link];
        expect_near("sum", step->compute_s + step->communication_s + step->bubble_s + step->once_s, step->total_s,
                    1e-14);
        expect_near("step", plan.step_s[link], step->total_s, 0);
        assert_true(step->communication_s > 0 && step->once_s >= 0);
    }
    assert_true(plan.step_s[KITH_PLAN_NVLINK] < plan.step_s[KITH_PLAN_PCIE]);
    expect_near("no machine", plan.placed_step_s, -1, 0);
    expect_near("tokens", plan.tokens_per_s, 16 * 8 * 2048 / plan.step_s[KITH_PLAN_NVLINK], 1e-14);
    expect_near("mfu", plan.mfu, plan.model_flops / (plan.step_s[KITH_PLAN_NVLINK] * 312e12 * 128), 1e-14);
    assert_true(plan.is_peak_assumed && plan.mfu < 0.5);
}

/* Gradients that are longer than what hides them cost the rest. */
static void test_overlap(void **state)
{
    (void)state;
    kith_plan_options o = options_of(1, 1, 1, 128);
    o.dp = 16;
    kith_plan plan = make_named("llama-2-7b", &o);
    for (int link = 0; link < KITH_PLAN_LINKS; link++)
        expect_near("not hidden", plan.steps[link].once_s, fmax(plan.rows[0].time_s[link] - plan.compute_s, 0), 1e-14);
    assert_true(plan.steps[KITH_PLAN_IB].once_s > 0);
    o.sequence = 4096;
    o.micro_batch = 8;
    expect_near("hidden", make_named("llama-2-7b", &o).steps[KITH_PLAN_NVLINK].once_s, 0, 0);
}

static void test_peak(void **state)
{
    static const struct {
        int nbytes;
        double tflops;
    } cases[] = { { 2, 989 }, { 1, 1978 }, { 4, 494.5 } };
    (void)state;
    for (int i = 0; i < 3; i++) {
        kith_plan_options o = KITH_PLAN_OPTIONS_INIT;
        o.gpu = "H100";
        o.parameter_nbytes = cases[i].nbytes;
        kith_plan plan = make_named("gpt2", &o);
        expect_near("peak", plan.options.peak_tflops, cases[i].tflops, 0);
        assert_false(plan.is_peak_assumed);
    }
}

static void expect_bad(const char *name, kith_plan_options o, const char *words)
{
    kith_plan plan;
    kith_model model = named(name);
    expect_refused(words, kith_plan_make(NULL, &model, &o, &plan), KITH_ERR_INVALID_ARG, words);
}

static void test_refusals(void **state)
{
    (void)state;
    kith_plan_options o = KITH_PLAN_OPTIONS_INIT;
    expect_bad("gpt2", options_of(5, 1, 1, 0),
               "tp 5 does not divide the number of heads of 12; valid: 1, 2, 3, 4, 6, 12");
    expect_bad("qwen2-7b", options_of(7, 1, 1, 0), "tp 7 neither divides the 4 K and V heads");
    expect_bad("gpt2", options_of(1, 5, 1, 0), "pp 5 does not divide the number of layers of 12");
    expect_bad("gpt2", options_of(1, 1, 1, 2048), "learned positions");
    expect_bad("gpt2", options_of(-1, 1, 1, 0), "tp is -1");
    expect_bad("gpt2", options_of(1, 1, -7, 0), "the microbatch is -7");
    o.ep = 2;
    expect_bad("gpt2", o, "no experts");
    o.ep = 3;
    expect_bad("mixtral-8x7b", o, "ep 3 does not divide the number of experts of 8; valid: 1, 2, 4, 8");
    o = options_of(1, 1, 1, 1000);
    o.cp = 3;
    expect_bad("llama-2-7b", o, "2 * cp = 6 does not divide the sequence of 1000");
    o = options_of(1, 4, 1, 0);
    o.schedule = KITH_SCHEDULE_INTERLEAVED;
    o.chunks = 5;
    expect_bad("llama-2-7b", o, "pp * chunks = 20 does not divide");
    o = options_of(1, 1, 2, 0);
    o.dp = 4;
    o.global_batch = 12;
    expect_bad("llama-2-7b", o, "a global batch of 12 sequences is not microbatch 2");
    o = options_of(2, 1, 1, 0);
    o.order = "tp-tp";
    expect_bad("gpt2", o, "order 'tp-tp'");
    o.order = "dp-pp";
    expect_bad("gpt2", o, "order 'dp-pp'");
    o.order = "tp-";
    expect_bad("gpt2", o, "order 'tp-'");
    o = options_of(1, 1, 1, 0);
    o.gpu = "Voodoo 2";
    expect_bad("gpt2", o, "GPU 'Voodoo 2' is not known");
    o = options_of(1, 1, 1, 0);
    o.struct_size = 0;
    expect_bad("gpt2", o, "KITH_PLAN_OPTIONS_INIT");
    o = options_of(1 << 20, 1 << 20, INT64_MAX, INT64_MAX);
    o.dp = o.ep = o.cp = INT32_MAX;
    o.microbatches = INT64_MAX;
    expect_bad("gpt2", o, "cp is ");
}

static void test_search(void **state)
{
    (void)state;
    enum { ROOM = 64 };
    static kith_plan plans[ROOM];
    kith_plan_options o = options_of(0, 0, 1, 2048);
    o.gpu = "A100";
    o.zero = 1;
    kith_model model = named("llama-2-13b");
    int count = -1, tried = -1;
    assert_int_equal(kith_plan_search(NULL, &model, &o, 16, plans, ROOM, &count, &tried), KITH_OK);
    assert_true(count > 0 && count < tried); /* 13 billion parameters do not fit without splitting */
    for (int i = 0; i < count; i++) {
        const kith_plan_options *found = &plans[i].options;
        assert_true(plans[i].memory.fits && plans[i].memory.total <= 40e9);
        assert_int_equal(found->tp * found->cp * found->ep * found->dp * found->pp, 16);
        assert_int_equal(found->global_batch, 16);
        if (i > 0)
            expect_not_above("order", plans[i - 1].step_s[0], plans[i].step_s[0]);
    }
    /* Every layout that fits, made one by one, is no faster. */
    int fitting = 0;
    for (int tp = 1; tp <= 16; tp *= 2)
        for (int pp = 1; tp * pp <= 16; pp *= 2)
            for (int cp = 1; tp * pp * cp <= 16; cp *= 2) {
                kith_plan_options one = o;
                kith_plan plan;
                one.tp = tp;
                one.pp = pp;
                one.cp = cp;
                one.dp = 16 / (tp * pp * cp);
                one.global_batch = 16;
                if (kith_plan_make(NULL, &model, &one, &plan) != KITH_OK || !plan.memory.fits)
                    continue;
                fitting++;
                expect_not_above("best", plans[0].step_s[0], plan.step_s[0]);
            }
    assert_int_equal(fitting, count);
}

static void test_search_keeps_what_is_given(void **state)
{
    (void)state;
    kith_plan plans[3];
    kith_plan_options o = options_of(2, 0, 1, 1024);
    o.ep = 4;
    kith_model model = named("mixtral-8x7b");
    int count, tried;
    assert_int_equal(kith_plan_search(NULL, &model, &o, 32, plans, 3, &count, &tried), KITH_OK);
    assert_int_equal(count, 3);
    assert_true(tried > 3);
    for (int i = 0; i < count; i++)
        assert_true(plans[i].options.tp == 2 && plans[i].options.ep == 4);
    o.gpu_memory_nbytes = 1e9;
    assert_int_equal(kith_plan_search(NULL, &model, &o, 32, plans, 3, &count, &tried), KITH_OK);
    assert_int_equal(count, 0);
    o.tp = 7;
    expect_refused("tp 7", kith_plan_search(NULL, &model, &o, 32, plans, 3, &count, &tried), KITH_ERR_INVALID_ARG,
                   "tp 7 does not divide world 32");
    expect_refused("no ranks", kith_plan_search(NULL, &model, &o, 0, plans, 3, &count, &tried), KITH_ERR_INVALID_ARG,
                   "0 ranks");
}

static kith_topology *machine(const char *description)
{
    kith_topology *topology;
    if (kith_topology_load(&description, 1, NULL, &topology) != KITH_OK)
        fail_msg("%s", kith_error_detail());
    return topology;
}

/* A group inside a node: the plan's price is that of the collective on its GPUs. Between nodes it is dearer. */
static void test_placed(void **state)
{
    (void)state;
    kith_topology *topology = machine("2 nodes of 8 H100 on NVSwitch, 8 NICs");
    kith_model model = named("llama-2-7b");
    kith_plan_options o = options_of(8, 1, 1, 2048);
    o.microbatches = 32; /* with few of them the gradients would weigh more than tp */
    kith_plan plan;
    assert_int_equal(kith_plan_make(topology, &model, &o, &plan), KITH_OK);
    assert_int_equal(plan.options.dp, 2); /* what remains */
    expect_near("peak", plan.options.peak_tflops, 989, 0);
    expect_near("memory", plan.memory.capacity, 80e9, 0);
    static const int gpus[] = { 0, 1, 2, 3, 4, 5, 6, 7 };
    for (int i = 0; i < plan.row_count; i++) {
        const kith_plan_traffic_row *row = &plan.rows[i];
        kith_cost cost;
        if (strcmp(row->axis, "tp") != 0)
            continue;
        assert_int_equal(
            kith_cost_collective(topology, KITH_COST_ALL_REDUCE, NULL, gpus, 8, 1, row->message_nbytes, &cost),
            KITH_OK);
        expect_near(row->what, row->placed_s, row->ops * cost.time_s, 1e-12);
    }
    expect_near("step", plan.placed_step_s, plan.steps[KITH_PLAN_LINKS].total_s, 0);
    assert_true(plan.placed_step_s > plan.steps[KITH_PLAN_LINKS].compute_s);
    double inside = plan.placed_step_s;
    o.order = "dp-tp-cp-ep-pp"; /* another way to count ranks; tp stays inside */
    assert_int_equal(kith_plan_make(topology, &model, &o, &plan), KITH_OK);
    expect_near("counted otherwise", plan.placed_step_s, inside, 1e-9);
    o.keep_order = true; /* a node apart */
    assert_int_equal(kith_plan_make(topology, &model, &o, &plan), KITH_OK);
    assert_true(plan.placed_step_s > inside);
    o.keep_order = false;
    o.order = NULL;
    o.pp = 4;
    expect_refused("too many", kith_plan_make(topology, &model, &o, &plan), KITH_ERR_INVALID_ARG,
                   "tp 8 x pp 4 are more ranks than the 16 GPUs that may be used");
    kith_topology_destroy(topology);
}

/* Rows of products of axes, of the ends of pipelines, of parts of a group: each gets a price. */
static void test_placed_groups(void **state)
{
    (void)state;
    kith_topology *topology = machine("4 nodes of 8 H100 on NVSwitch, 8 NICs");
    kith_model model = named("mixtral-8x7b");
    model.kv_heads = 2;
    model.is_tied = true;
    kith_plan_options o = options_of(4, 2, 1, 2048);
    o.cp = 2;
    o.ep = 2;
    o.sequence_parallel = true;
    for (o.zero = 0; o.zero <= 3; o.zero += 3) {
        kith_plan plan;
        if (kith_plan_make(topology, &model, &o, &plan) != KITH_OK)
            fail_msg("%s", kith_error_detail());
        assert_int_equal(plan.options.dp, 1);
        bool has_product = false, has_ends = false, has_part = false;
        for (int i = 0; i < plan.row_count; i++) {
            const kith_plan_traffic_row *row = &plan.rows[i];
            if (!(row->placed_s > 0))
                fail_msg("%s has no price", row->what);
            has_product = has_product || strcmp(row->group, "cp-ep") == 0;
            has_ends = has_ends || strcmp(row->group, "embed") == 0;
            has_part = has_part || (strcmp(row->group, "tp") == 0 && row->group_size == 2);
        }
        assert_true(has_product && has_ends && has_part);
    }
    kith_topology_destroy(topology);
}

static void test_placed_search(void **state)
{
    (void)state;
    enum { ROOM = 64 };
    static kith_plan plans[ROOM];
    kith_topology *topology = machine("2 nodes of 8 H100 on NVSwitch, 8 NICs");
    kith_model model = named("llama-2-13b");
    kith_plan_options o = options_of(0, 0, 1, 2048);
    o.zero = 1;
    int count, tried;
    assert_int_equal(kith_plan_search(topology, &model, &o, 0, plans, ROOM, &count, &tried), KITH_OK);
    assert_true(count > 1);
    for (int i = 0; i < count; i++) {
        kith_plan again;
        assert_true(plans[i].memory.fits && plans[i].memory.capacity == 80e9 && plans[i].world == 16);
        if (i > 0)
            expect_not_above("order", plans[i - 1].placed_step_s, plans[i].placed_step_s);
        kith_plan_options one = plans[i].options;
        assert_int_equal(kith_plan_make(topology, &model, &one, &again), KITH_OK);
        expect_near("the same again", again.placed_step_s, plans[i].placed_step_s, 0);
    }
    kith_topology_destroy(topology);
}

static double number_at(const ki_json *value, const char *const *path, int depth)
{
    for (int i = 0; i < depth; i++)
        value = ki_json_member(value, path[i]);
    if (value == NULL || value->type != KI_JSON_NUMBER)
        fail_msg("there is no number %s %s", path[0], depth > 1 ? path[depth - 1] : "");
    return value->number;
}

#define AT(root, ...)                                                                                                  \
    number_at(root, (const char *const[]){ __VA_ARGS__ }, sizeof((const char *[]){ __VA_ARGS__ }) / sizeof(char *))

static void test_json(void **state)
{
    (void)state;
    kith_plan_options o = options_of(8, 1, 4, 4096);
    kith_plan plan = make_named("llama-2-70b", &o);
    snprintf(plan.model.name, sizeof plan.model.name, "a \"name\"\\");
    char *text;
    ki_json *root;
    assert_int_equal(kith_plan_print(&plan, KITH_FORMAT_JSON, &text), KITH_OK);
    assert_int_equal(ki_json_parse(NULL, "plan", text, strlen(text), &root), KITH_OK);
    expect_near("ops", AT(root, "axes", "tp", "ops"), 160, 0);
    expect_near("bytes_per_op", AT(root, "axes", "tp", "bytes_per_op"), 536870912, 0);
    expect_near("bytes", AT(root, "axes", "tp", "bytes"), 85899345920, 0);
    expect_near("time", AT(root, "axes", "tp", "time_s", "nvlink"), 85899345920 / 900e9, 0);
    expect_near("exact ops", AT(root, "axes", "tp", "step", "ops"), 324, 0);
    expect_near("dp", AT(root, "axes", "dp", "ops"), 0, 0);
    expect_near("memory", AT(root, "memory", "total"), plan.memory.total, 0);
    expect_near("step", AT(root, "step_s"), plan.step_s[0], 0);
    assert_string_equal(ki_json_member(ki_json_member(root, "model"), "name")->text, "a \"name\"\\");
    ki_json_free(NULL, root);
    free(text);
}

/* No report is wider than 100 columns. */
static void test_text_is_narrow(void **state)
{
    (void)state;
    for (int i = 0; kith_model_name(i) != NULL; i++)
        for (int way = 0; way < 4; way++) {
            kith_model model = named(kith_model_name(i));
            kith_plan_options o = options_of(model.heads % 4 == 0 ? 4 : 1, way > 1 ? 3 : 2, 64, 1024);
            o.pp = model.layers % o.pp == 0 ? o.pp : 1;
            o.dp = 1024;
            o.ep = model.experts > 0 ? 8 : 1;
            o.zero = way;
            o.microbatches = 100000;
            o.sequence_parallel = way % 2 == 1;
            o.recompute = (kith_recompute)(way % 3);
            o.gpu_memory_nbytes = way == 2 ? 1e9 : 1e15;
            kith_plan plan = make(&model, &o);
            char *text;
            assert_int_equal(kith_plan_print(&plan, KITH_FORMAT_TEXT, &text), KITH_OK);
            for (char *line = strtok(text, "\n"); line != NULL; line = strtok(NULL, "\n"))
                if (strlen(line) > 100)
                    fail_msg("%s: %zu columns: %s", model.name, strlen(line), line);
            free(text);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_published_mfu),  cmocka_unit_test(test_flops_formula),
        cmocka_unit_test(test_compute),        cmocka_unit_test(test_bubbles),
        cmocka_unit_test(test_step_adds_up),   cmocka_unit_test(test_overlap),
        cmocka_unit_test(test_peak),           cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_search),         cmocka_unit_test(test_search_keeps_what_is_given),
        cmocka_unit_test(test_placed),         cmocka_unit_test(test_placed_groups),
        cmocka_unit_test(test_placed_search),  cmocka_unit_test(test_json),
        cmocka_unit_test(test_text_is_narrow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
