/* tests/topology/test_plan_memory.c - memory of a rank against published tables: activations (Korthikanti et al. 2022),
 * ZeRO (Rajbhandari et al. 2020), microbatches in flight (Narayanan et al. 2021, Qi et al. 2023).
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "plan_expect.h"
#include "topology/plan_parts.h"

typedef struct shape {
    const char *name;
    int64_t hidden, heads, sequence, micro_batch;
    int tp;
} shape;

static kith_model gpt_of(const shape *s)
{
    kith_model model = { .name = "gpt",
                         .layers = 4,
                         .hidden = s->hidden,
                         .heads = s->heads,
                         .kv_heads = s->heads,
                         .ffn = 4 * s->hidden,
                         .vocab = 51200,
                         .positions = s->sequence,
                         .is_tied = true,
                         .has_bias = true };
    return model;
}

static double layer_of(const shape *s, int tp, bool has_sp, kith_recompute recompute)
{
    kith_model model = gpt_of(s);
    kith_plan_options o = options_of(tp, 1, s->micro_batch, s->sequence);
    o.sequence_parallel = has_sp;
    o.recompute = recompute;
    return make(&model, &o).memory.activations_per_layer;
}

/* The table of activation memory of one layer, to the printed digit: MiB with tp 8, tp + sp, tp + selective, all three,
 * full recomputation. */
static void test_activation_table(void **state)
{
    static const struct {
        shape s;
        double unit, tp, sp, selective, both, full;
    } rows[] = {
        { { "22B", 6144, 64, 2048, 4, 8 }, 1 << 20, 1264, 844, 624, 204, 96 },
        { { "175B", 12288, 96, 2048, 1, 8 }, 1 << 20, 552, 342, 312, 102, 48 },
        { { "530B", 20480, 128, 2048, 1, 8 }, 1 << 20, 840, 490, 520, 170, 80 },
        { { "tiny", 16, 4, 8, 2, 2 }, 1, 6912, 5632, 5632, 4352, 512 },
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const shape *s = &rows[i].s;
        double unit = rows[i].unit;
        expect_near(s->name, layer_of(s, s->tp, false, KITH_RECOMPUTE_NONE) / unit, rows[i].tp, 0);
        expect_near(s->name, layer_of(s, s->tp, true, KITH_RECOMPUTE_NONE) / unit, rows[i].sp, 0);
        expect_near(s->name, layer_of(s, s->tp, false, KITH_RECOMPUTE_SELECTIVE) / unit, rows[i].selective, 0);
        expect_near(s->name, layer_of(s, s->tp, true, KITH_RECOMPUTE_SELECTIVE) / unit, rows[i].both, 0);
        expect_near(s->name, layer_of(s, s->tp, false, KITH_RECOMPUTE_FULL) / unit, rows[i].full, 0);
        double sbh = (double)(s->sequence * s->micro_batch * s->hidden);
        double core = 5 * (double)s->heads * (double)s->sequence / (double)s->hidden;
        expect_near(s->name, layer_of(s, 1, false, KITH_RECOMPUTE_NONE), sbh * (34 + core), 1e-15);
    }
}

/* Behind the layers with p = 1 and sequence parallelism: s b h / t + 4 s b h / t (1 + V/h). */
static void test_ends(void **state)
{
    static const shape s = { "22B", 6144, 64, 2048, 4, 8 };
    (void)state;
    kith_model model = gpt_of(&s);
    kith_plan_options o = options_of(8, 1, 4, 2048);
    o.sequence_parallel = true;
    kith_plan plan = make(&model, &o);
    double sbh = 2048.0 * 4 * 6144;
    expect_near("ends", plan.memory.activations - 4 * plan.memory.activations_per_layer,
                sbh / 8 + 4 * sbh / 8 * (1 + 51200.0 / 6144), 1e-12);
}

/* A LLaMA layer term by term: no dropout, narrow K and V, gate, up and product; softmax kept once. */
static void test_llama_layer(void **state)
{
    (void)state;
    kith_plan_options o = options_of(8, 1, 1, 4096);
    double h = 8192, kv = 1024, ffn = 28672, tokens = 4096, scores = 64 * 4096;
    kith_plan plan = make_named("llama-2-70b", &o);
    double split = 2 * (2 * h + 2 * kv + 3 * ffn);
    expect_near("tp", plan.memory.activations_per_layer, tokens * (8 * h + (split + 2 * scores) / 8), 1e-15);
    o.flash_attention = true;
    plan = make_named("llama-2-70b", &o);
    expect_near("flash", plan.memory.activations_per_layer, tokens * (8 * h + (split + 4 * 64) / 8), 1e-15);
    double whole = plan.memory.activations_per_layer;
    o.sequence_parallel = true;
    plan = make_named("llama-2-70b", &o);
    expect_near("sp", plan.memory.activations_per_layer, tokens * (8 * h + split + 4 * 64) / 8, 1e-15);
    expect_near("what sp saves", 1 - plan.memory.activations_per_layer / whole, 0.65, 0.08); /* "about 70 %" */
}

/* Fewer K and V heads than ranks: each rank has one whole head. */
static void test_copied_heads(void **state)
{
    (void)state;
    kith_plan_options o = options_of(8, 1, 1, 2048);
    kith_model model = named("llama-2-70b");
    double eight = make(&model, &o).memory.weights;
    model.kv_heads = 4; /* half the heads, but a rank has one either way */
    expect_near("weights", make(&model, &o).memory.weights, eight, 0);
}

/* Figure 1 of the ZeRO paper: 7.5 billion parameters on 64 GPUs, 120, 31.4, 16.6 and 1.9 GB. */
static void test_zero(void **state)
{
    static const double gb[] = { 120, 31.4, 16.6, 1.9 };
    (void)state;
    for (int zero = 0; zero <= 3; zero++) {
        kith_plan_options o = KITH_PLAN_OPTIONS_INIT;
        o.dp = 64;
        kith_plan whole = make_named("gpt2", &o);
        o.zero = zero;
        kith_plan plan = make_named("gpt2", &o);
        double states = plan.memory.weights + plan.memory.gradients + plan.memory.optimizer;
        double params = whole.memory.weights / 2;
        expect_near("bytes of 7.5 billion parameters", round(states / params * 7.5 * 10) / 10, gb[zero], 0);
    }
}

static void test_states_by_precision(void **state)
{
    (void)state;
    kith_plan_options o = KITH_PLAN_OPTIONS_INIT;
    double params = make_named("llama-2-7b", &o).memory.weights / 2;
    expect_near("padded parameters", params, 6738415616, 0); /* 32000 is a multiple of 128 */
    o.parameter_nbytes = 4;
    kith_plan f32 = make_named("llama-2-7b", &o);
    expect_near("f32", f32.memory.weights + f32.memory.gradients + f32.memory.optimizer, 16 * params, 0);
    o.parameter_nbytes = 1;
    kith_plan fp8 = make_named("llama-2-7b", &o);
    expect_near("fp8", fp8.memory.weights + fp8.memory.gradients + fp8.memory.optimizer, 15 * params, 0);
}

static ki_layout_figures run(kith_schedule_kind schedule, int pp, int chunks, double microbatches)
{
    const ki_layout_pipe pipe = { schedule, pp, chunks, microbatches, { 1, 1, 1 } };
    ki_layout_figures figures;
    assert_int_equal(ki_layout_run_pipe(&pipe, NULL, &figures), KITH_OK);
    return figures;
}

/* Of 4 ranks: the first, the fullest between, the last; in chunks. */
static void expect_in_flight(const char *what, kith_schedule_kind schedule, int chunks, double microbatches,
                             const double *wanted)
{
    ki_layout_figures figures = run(schedule, 4, chunks, microbatches);
    for (int i = 0; i < KI_PIPE_RANKS; i++)
        expect_near(what, figures.in_flight[i] * chunks, wanted[i], 0);
}

static void test_in_flight(void **state)
{
    (void)state;
    expect_in_flight("1f1b, m 8", KITH_SCHEDULE_1F1B, 1, 8, (const double[]){ 4, 3, 1 });
    expect_in_flight("1f1b, m 2", KITH_SCHEDULE_1F1B, 1, 2, (const double[]){ 2, 2, 1 });
    expect_in_flight("gpipe", KITH_SCHEDULE_GPIPE, 1, 8, (const double[]){ 8, 8, 8 });
    expect_in_flight("naive", KITH_SCHEDULE_NAIVE, 1, 8, (const double[]){ 1, 1, 1 });
    expect_in_flight("interleaved", KITH_SCHEDULE_INTERLEAVED, 2, 8, (const double[]){ 11, 9, 5 });
    expect_in_flight("looped-bfs", KITH_SCHEDULE_LOOPED_BFS, 2, 800, (const double[]){ 1600, 1600, 1600 });
    expect_in_flight("zb-v", KITH_SCHEDULE_ZB_V, 2, 8, (const double[]){ 8, 8, 8 });
    expect_near("zb-h2", run(KITH_SCHEDULE_ZB_H2, 4, 1, 16).in_flight[KI_FIRST_RANK], 7, 0);
    expect_near("auto", run(KITH_SCHEDULE_AUTO, 4, 1, 16).in_flight[KI_FIRST_RANK], 4, 0);
    /* layers' worth of the first rank over p: the paper's 1 + (p-1)/(pv) */
    for (int v = 1; v <= 4; v++)
        expect_near("first rank", run(KITH_SCHEDULE_INTERLEAVED, 8, v, 64).in_flight[KI_FIRST_RANK] / 8,
                    1 + 7.0 / (8 * v), 1e-15);
}

/* The fullest rank: first stage where many microbatches are in flight, last where the head is heavier. */
static void test_fullest_rank(void **state)
{
    (void)state;
    kith_plan_options o = options_of(1, 8, 1, 2048);
    o.microbatches = 8;
    assert_int_equal(make_named("llama-2-7b", &o).memory.stage, 0);
    o.schedule = KITH_SCHEDULE_NAIVE;
    kith_plan plan = make_named("llama-3-8b", &o);
    assert_int_equal(plan.memory.stage, 7);
    expect_near("in flight", plan.memory.in_flight, 1, 0);
}

static void test_capacity(void **state)
{
    (void)state;
    kith_plan_options o = KITH_PLAN_OPTIONS_INIT;
    kith_plan plan = make_named("llama-2-7b", &o);
    assert_true(plan.memory.fits && plan.memory.capacity == 0);
    o.gpu = "H100";
    plan = make_named("llama-2-7b", &o);
    expect_near("H100", plan.memory.capacity, 80e9, 0);
    assert_false(plan.memory.fits);
    o.gpu_memory_nbytes = plan.memory.total;
    assert_true(make_named("llama-2-7b", &o).memory.fits);
    o.gpu_memory_nbytes = nextafter(plan.memory.total, 0);
    assert_false(make_named("llama-2-7b", &o).memory.fits);
}

static void expect_never_more(kith_plan_options o, const char *name, double *before, const char *what)
{
    kith_plan plan = make_named(name, &o);
    expect_near("sum", plan.memory.weights + plan.memory.gradients + plan.memory.optimizer + plan.memory.activations,
                plan.memory.total, 1e-15);
    expect_not_above(what, plan.memory.total, *before);
    *before = plan.memory.total;
}

/* More ZeRO, more recomputation, sequence parallelism: never more memory. */
static void test_order(void **state)
{
    static const char *const names[] = { "gpt2-medium", "llama-2-70b", "mixtral-8x7b", "qwen3-30b-a3b" };
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        for (int tp = 1; tp <= 4; tp *= 2) {
            kith_plan_options o = options_of(tp, 4, 2, 1024);
            o.dp = 4;
            o.microbatches = 8;
            double before = INFINITY;
            for (o.zero = 0; o.zero <= 3; o.zero++)
                expect_never_more(o, names[i], &before, "zero");
            o.zero = 1;
            before = INFINITY;
            for (int how = KITH_RECOMPUTE_NONE; how <= KITH_RECOMPUTE_FULL; how++) {
                o.recompute = (kith_recompute)how;
                expect_never_more(o, names[i], &before, "recompute");
            }
            o.recompute = KITH_RECOMPUTE_NONE;
            before = INFINITY;
            expect_never_more(o, names[i], &before, "tp");
            o.sequence_parallel = true;
            expect_never_more(o, names[i], &before, "sp");
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_activation_table),
        cmocka_unit_test(test_ends),
        cmocka_unit_test(test_llama_layer),
        cmocka_unit_test(test_copied_heads),
        cmocka_unit_test(test_zero),
        cmocka_unit_test(test_states_by_precision),
        cmocka_unit_test(test_in_flight),
        cmocka_unit_test(test_fullest_rank),
        cmocka_unit_test(test_capacity),
        cmocka_unit_test(test_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
