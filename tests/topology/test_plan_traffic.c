/* tests/topology/test_plan_traffic.c - how often ranks talk in a step, and with how many bytes, against counts in
 * Megatron-LM's layers and volumes of its papers (Shoeybi et al. 2019, Narayanan et al. 2021, Korthikanti et al. 2022).
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "plan_expect.h"
#include "topology/plan_parts.h"

/* Sum over the rows that match; NULL matches everything. */
typedef struct sum {
    double ops, group_ops, wire_nbytes, message_nbytes;
} sum;

static bool is_match(const char *wanted, const char *got)
{
    return wanted == NULL || strcmp(wanted, got) == 0;
}

static sum add_up(const kith_plan *plan, const char *axis, const char *phase, const char *op, bool is_overlapped)
{
    sum all = { 0, 0, 0, 0 };
    for (int i = 0; i < plan->row_count; i++) {
        const kith_plan_traffic_row *row = &plan->rows[i];
        if (!is_match(axis, row->axis) || !is_match(phase, row->phase) || !is_match(op, row->op) ||
            row->is_overlapped != is_overlapped)
            continue;
        all.ops += row->ops;
        all.group_ops += row->group_ops;
        all.wire_nbytes += row->ops * row->wire_nbytes;
        all.message_nbytes += row->ops * row->message_nbytes;
    }
    return all;
}

static const kith_plan_traffic_row *row_of(const kith_plan *plan, const char *what)
{
    for (int i = 0; i < plan->row_count; i++)
        if (strcmp(plan->rows[i].what, what) == 0)
            return &plan->rows[i];
    fail_msg("there is no row '%s'", what);
    return NULL;
}

/* Two layers without learned positions. */
static kith_model small(void)
{
    kith_model model = { .name = "small",
                         .layers = 2,
                         .hidden = 64,
                         .heads = 8,
                         .kv_heads = 8,
                         .ffn = 256,
                         .vocab = 1000,
                         .is_gated = true };
    return model;
}

/* 2 layers, fused cross entropy: 7 collectives forward, 5 backward; all but the cross entropy's have b s h elements. */
static void test_tensor_parallel_counts(void **state)
{
    (void)state;
    kith_model model = small();
    kith_plan_options o = options_of(2, 1, 3, 16);
    kith_plan plan = make(&model, &o);
    expect_near("forward", add_up(&plan, "tp", "forward", "all_reduce", false).ops, 7, 0);
    expect_near("backward", add_up(&plan, "tp", "backward", "all_reduce", false).ops, 5, 0);
    expect_near("all", add_up(&plan, NULL, NULL, NULL, false).ops, 12, 0);
    double tokens = 3 * 16, nbytes = tokens * 64 * 2;
    expect_near("bytes forward", add_up(&plan, "tp", "forward", NULL, false).message_nbytes, 5 * nbytes + 12 * tokens,
                0);
    expect_near("bytes backward", add_up(&plan, "tp", "backward", NULL, false).message_nbytes, 5 * nbytes, 0);
    o.recompute = KITH_RECOMPUTE_SELECTIVE;
    plan = make(&model, &o);
    expect_near("selective", add_up(&plan, "tp", NULL, NULL, false).ops, 12, 0);
    o.recompute = KITH_RECOMPUTE_FULL;
    plan = make(&model, &o);
    expect_near("full", add_up(&plan, "tp", NULL, NULL, false).ops, 16, 0);
    expect_near("again", add_up(&plan, "tp", "recompute", "all_reduce", false).ops, 4, 0);
    o.microbatches = 5;
    plan = make(&model, &o);
    expect_near("five microbatches", add_up(&plan, "tp", NULL, NULL, false).ops, 80, 0);
}

static void test_one_rank_is_silent(void **state)
{
    (void)state;
    for (int i = 0; kith_model_name(i) != NULL; i++) {
        kith_plan_options o = KITH_PLAN_OPTIONS_INIT;
        o.sequence_parallel = true;
        o.recompute = KITH_RECOMPUTE_FULL;
        o.zero = 3;
        kith_plan plan = make_named(kith_model_name(i), &o);
        expect_near(plan.model.name, plan.row_count, 0, 0);
        expect_near(plan.model.name, plan.forward_table.bytes, 0, 0);
    }
}

/* L layers: forward AG 2L+1, RS 2L+1 (embedding), AR 2; backward RS 2L+1, AG 2L+1, and 2L+1 that hide; AR 1 at end. */
static void test_sequence_parallel_counts(void **state)
{
    (void)state;
    kith_model model = small();
    kith_plan_options o = options_of(4, 1, 3, 16);
    o.sequence_parallel = true;
    kith_plan plan = make(&model, &o);
    expect_near("forward AG", add_up(&plan, "tp", "forward", "all_gather", false).ops, 5, 0);
    expect_near("forward RS", add_up(&plan, "tp", "forward", "reduce_scatter", false).ops, 5, 0);
    expect_near("forward AR", add_up(&plan, "tp", "forward", "all_reduce", false).ops, 2, 0);
    expect_near("backward AG", add_up(&plan, "tp", "backward", "all_gather", false).ops, 5, 0);
    expect_near("backward RS", add_up(&plan, "tp", "backward", "reduce_scatter", false).ops, 5, 0);
    expect_near("hidden AG", add_up(&plan, "tp", "backward", "all_gather", true).ops, 5, 0);
    expect_near("at the end", add_up(&plan, "tp", "step", "all_reduce", false).ops, 1, 0);
    expect_near("norms", row_of(&plan, "gradients of norms and biases")->message_nbytes, (2 * 2 + 1) * 64 * 2, 0);
    model.positions = 32; /* learned positions: all_reduce and a local split instead */
    plan = make(&model, &o);
    expect_near("forward AR", add_up(&plan, "tp", "forward", "all_reduce", false).ops, 3, 0);
    expect_near("forward RS", add_up(&plan, "tp", "forward", "reduce_scatter", false).ops, 4, 0);
    expect_near("backward AG", add_up(&plan, "tp", "backward", "all_gather", false).ops, 5, 0);
}

/* An all_reduce is a reduce_scatter and an all_gather: the same bytes. */
static void test_sequence_parallel_moves_the_same(void **state)
{
    static const char *const names[] = { "llama-2-7b", "llama-3-70b", "mistral-7b", "qwen3-8b" };
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        for (int tp = 2; tp <= 8; tp *= 2)
            for (int pp = 1; pp <= 4; pp *= 4) {
                kith_plan_options o = options_of(tp, pp, 2, 1024);
                o.microbatches = 3;
                o.recompute = tp == 4 ? KITH_RECOMPUTE_FULL : KITH_RECOMPUTE_NONE;
                kith_plan whole = make_named(names[i], &o);
                o.sequence_parallel = true;
                kith_plan split = make_named(names[i], &o);
                static const char *const phases[] = { "forward", "backward", "recompute" };
                double before = 0, after = 0;
                for (int p = 0; p < 3; p++) {
                    before += add_up(&whole, "tp", phases[p], NULL, false).wire_nbytes;
                    after += add_up(&split, "tp", phases[p], NULL, false).wire_nbytes;
                }
                expect_near(names[i], after, before, 1e-14);
            }
}

/* 8 b s h (t-1)/t elements for each layer: GPT-3, s 2048, b 1, t 8. Pipeline messages b s h, divided by t with SP. */
static void test_published_volumes(void **state)
{
    (void)state;
    kith_plan_options o = options_of(8, 8, 1, 2048);
    kith_plan plan = make_named("gpt-3-175b", &o);
    const kith_plan_traffic_row *forward = row_of(&plan, "row-parallel outputs");
    const kith_plan_traffic_row *backward = row_of(&plan, "column-parallel input gradients");
    double layers = 96 / 8;
    double elements = (forward->ops * forward->wire_nbytes + backward->ops * backward->wire_nbytes) / 2 / layers;
    expect_near("tp elements of a layer", elements, 176160768, 0);
    expect_near("pp elements", row_of(&plan, "activations")->message_nbytes / 2, 25165824, 0);
    o.sequence_parallel = true;
    plan = make_named("gpt-3-175b", &o);
    expect_near("pp elements, sp", row_of(&plan, "activations")->message_nbytes / 2, 3145728, 0);
}

/* Per rank and step of a 70 billion parameter model: T 8, P 4, 16 microbatches of one sequence of 4096. */
static void test_worked_example(void **state)
{
    (void)state;
    kith_plan_options o = options_of(8, 4, 1, 4096);
    o.dp = 64;
    o.microbatches = 16;
    o.sequence_parallel = true;
    kith_plan plan = make_named("llama-2-70b", &o);
    double tp = 0;
    for (int i = 0; i < plan.row_count; i++)
        if (plan.rows[i].stage < 0 && strcmp(plan.rows[i].axis, "tp") == 0 && strcmp(plan.rows[i].phase, "step") != 0 &&
            !plan.rows[i].is_overlapped)
            tp += plan.rows[i].ops * plan.rows[i].wire_nbytes;
    expect_near("tp: 150 GB", tp, 20 * 4 * 16 * 1.75 * 64 * 1048576.0, 1e-14);
    expect_near("pp: 0.27 GB", row_of(&plan, "activations")->wire_nbytes * 16 * 2, 0.27e9, 0.01);
    expect_near("dp: 8.8 GB", row_of(&plan, "gradients")->wire_nbytes, 8.8e9, 0.03);
    /* One all_reduce of 64 MiB: 0.32 ms on NVLink, 2.45 ms on PCIe 5 and on one NDR port, and latency. */
    double nbytes = 64 * 1048576.0, latency = 14e-6;
    expect_near("nvlink", ki_layout_link_time(NULL, KITH_PLAN_NVLINK, "all_reduce", 8, nbytes), 0.3167e-3 + 14 * 3.4e-6,
                1e-3);
    expect_near("pcie", ki_layout_link_time(NULL, KITH_PLAN_PCIE, "all_reduce", 8, nbytes), 2.4467e-3 + 14 * 5.7e-6,
                1e-3);
    expect_near("ib", ki_layout_link_time(NULL, KITH_PLAN_IB, "all_reduce", 8, nbytes), 2.4467e-3 + 14 * latency, 1e-3);
}

/* The table of the lecture notes: b 4, s 4096, tp 8. */
static void test_forward_table(void **state)
{
    (void)state;
    kith_plan_options o = options_of(8, 1, 4, 4096);
    kith_plan plan = make_named("llama-2-70b", &o);
    const kith_forward_table *table = &plan.forward_table;
    expect_near("ops", table->ops, 160, 0);
    expect_near("bytes of one", table->bytes_per_op, 512 * 1048576.0, 0);
    expect_near("bytes", table->bytes, 80 * 1073741824.0, 0);
    expect_near("nvlink", table->time_s[KITH_PLAN_NVLINK], 0.0954, 1e-3);
    expect_near("pcie", table->time_s[KITH_PLAN_PCIE], 1.342, 1e-3);
    expect_near("ratio", table->time_s[KITH_PLAN_PCIE] / table->time_s[KITH_PLAN_NVLINK], 14.0625, 1e-12);
    assert_string_equal(kith_plan_link_name(KITH_PLAN_IB), "ib");
    assert_string_equal(kith_plan_link_name(KITH_PLAN_LINKS), "?");
}

static void test_padded_vocabulary(void **state)
{
    static const struct {
        int64_t vocab;
        int tp;
        int64_t padded;
    } cases[] = {
        { 50257, 1, 50304 }, { 50257, 2, 50432 }, { 50257, 8, 51200 }, { 32000, 8, 32768 }, { 128256, 8, 129024 }
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        kith_model model = small();
        model.vocab = cases[i].vocab;
        kith_plan_options o = options_of(cases[i].tp, 1, 1, 16);
        expect_near("vocabulary", (double)make(&model, &o).padded_vocab, (double)cases[i].padded, 0);
    }
}

/* Messages of the whole pipeline: 2m(p-1), 2m(pv-1) interleaved, 2m(2p-2) for V schedules. */
static void test_pipeline_messages(void **state)
{
    static const struct {
        kith_schedule_kind schedule;
        int pp, chunks;
        double all, busiest;
    } cases[] = {
        { KITH_SCHEDULE_NAIVE, 4, 1, 3, 1 },       { KITH_SCHEDULE_GPIPE, 4, 1, 3, 1 },
        { KITH_SCHEDULE_1F1B, 2, 1, 1, 1 },        { KITH_SCHEDULE_ZB_H2, 8, 1, 7, 1 },
        { KITH_SCHEDULE_INTERLEAVED, 4, 2, 7, 2 }, { KITH_SCHEDULE_INTERLEAVED, 2, 4, 7, 4 },
        { KITH_SCHEDULE_ZB_V, 4, 2, 6, 2 },        { KITH_SCHEDULE_ZB_V, 2, 2, 2, 1 },
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        kith_model model = small();
        model.layers = 16;
        kith_plan_options o = options_of(1, cases[i].pp, 1, 16);
        o.schedule = cases[i].schedule;
        o.chunks = cases[i].chunks;
        o.microbatches = 8;
        kith_plan plan = make(&model, &o);
        sum hidden = add_up(&plan, "pp", NULL, "send_recv", true), open = add_up(&plan, "pp", NULL, "send_recv", false);
        expect_near("all messages", hidden.group_ops + open.group_ops, 2 * 8 * cases[i].all, 0);
        expect_near("of the busiest rank", hidden.ops + open.ops, 2 * 8 * cases[i].busiest, 0);
    }
}

static void test_tied_embedding(void **state)
{
    (void)state;
    kith_plan_options o = options_of(2, 4, 1, 1024);
    kith_plan plan = make_named("gpt2", &o);
    const kith_plan_traffic_row *row = row_of(&plan, "gradients of the tied embedding");
    expect_near("bytes", row->message_nbytes, 50432.0 / 2 * 768 * 2, 0);
    assert_string_equal(row->group, "embed");
    assert_int_equal(row->group_size, 2);
    o.schedule = KITH_SCHEDULE_ZB_V; /* both ends are on one rank */
    o.pp = 2;
    plan = make_named("gpt2", &o);
    expect_near("zb-v", add_up(&plan, "pp", "step", NULL, false).ops, 0, 0);
    o.pp = 1;
    plan = make_named("gpt2", &o);
    expect_near("one stage", add_up(&plan, "pp", NULL, NULL, false).ops, 0, 0);
}

/* Ring attention: K and V cp - 1 hops forward; with their gradients backward: 2 * 2 b s/c h_kv, and twice that. */
static void test_context_parallel(void **state)
{
    (void)state;
    kith_plan_options o = options_of(2, 1, 3, 4096);
    o.cp = 4;
    kith_plan plan = make_named("llama-3-8b", &o);
    double block = 2 * 3 * (4096.0 / 4) * (4 * 128) * 2; /* K and V, 4 heads of a rank, 2 bytes */
    sum forward = add_up(&plan, "cp", "forward", "shift", true);
    sum backward = add_up(&plan, "cp", "backward", "shift", true);
    expect_near("hops", forward.ops, 32 * 3, 0);
    expect_near("forward", forward.wire_nbytes, 32 * 3 * block, 0);
    expect_near("backward", backward.wire_nbytes, 2 * 32 * 3 * block, 0);
    assert_string_equal(row_of(&plan, "gradients")->group, "cp"); /* equal weights, different tokens */
    o.recompute = KITH_RECOMPUTE_SELECTIVE;
    plan = make_named("llama-3-8b", &o);
    expect_near("again", add_up(&plan, "cp", "recompute", "shift", true).ops, 32 * 3, 0);
}

/* Four all_to_alls for each layer with experts, of top_k b s h elements, over t with sequence parallelism. */
static void test_expert_parallel(void **state)
{
    (void)state;
    kith_plan_options o = options_of(2, 1, 1, 2048);
    o.ep = 4;
    o.dp = 2;
    o.sequence_parallel = true;
    kith_plan plan = make_named("mixtral-8x7b", &o);
    sum all = add_up(&plan, "ep", NULL, "all_to_all", false);
    expect_near("calls", all.ops, 4 * 32, 0);
    expect_near("bytes", all.message_nbytes, 4 * 32 * 2 * 2048.0 * 4096 * 2 / 2, 0);
    expect_near("global batch", (double)plan.options.global_batch, 2 * 4, 0); /* ep splits the batch, too */
    const kith_plan_traffic_row *dense = row_of(&plan, "gradients"), *experts = row_of(&plan, "gradients of experts");
    assert_string_equal(dense->group, "dp-ep");
    assert_int_equal(dense->group_size, 8);
    assert_string_equal(experts->group, "dp");
    assert_int_equal(experts->group_size, 2);
    expect_near("experts of a rank", experts->message_nbytes, 2 * 32 * 2 * 3.0 * 4096 * 14336 / 2, 0);
    expect_near("expert inputs", row_of(&plan, "expert inputs")->message_nbytes, 2 * 2048.0 * 4096 * 2, 0);
}

static void test_zero_traffic(void **state)
{
    (void)state;
    kith_plan_options o = KITH_PLAN_OPTIONS_INIT;
    o.dp = 8;
    o.microbatches = 4;
    double nbytes = 2 * 6738415616.0, wire = 7.0 / 8 * nbytes;
    kith_plan plan = make_named("llama-2-7b", &o);
    expect_near("zero 0", add_up(&plan, "dp", "step", "all_reduce", true).wire_nbytes, 2 * wire, 0);
    o.zero = 1;
    plan = make_named("llama-2-7b", &o);
    expect_near("zero 1 RS", add_up(&plan, "dp", "step", "reduce_scatter", true).wire_nbytes, wire, 0);
    expect_near("zero 1 AG", add_up(&plan, "dp", "step", "all_gather", true).wire_nbytes, wire, 0);
    o.zero = 2; /* no whole gradients are kept from microbatch to microbatch */
    plan = make_named("llama-2-7b", &o);
    expect_near("zero 2 RS", add_up(&plan, "dp", "backward", "reduce_scatter", true).wire_nbytes, 4 * wire, 0);
    expect_near("zero 2 AG", add_up(&plan, "dp", "step", "all_gather", true).wire_nbytes, wire, 0);
    o.zero = 3; /* half as much again as zero 0, each microbatch */
    plan = make_named("llama-2-7b", &o);
    expect_near("zero 3", add_up(&plan, "dp", NULL, NULL, true).wire_nbytes, 4 * 3 * wire, 1e-14);
}

/* Copies of K and V heads, and norms of single heads, whose gradients are sums over tp. */
static void test_replicated_gradients(void **state)
{
    (void)state;
    kith_plan_options o = options_of(16, 1, 1, 2048);
    kith_plan plan = make_named("llama-2-70b", &o);
    const kith_plan_traffic_row *row = row_of(&plan, "gradients of copied K and V");
    assert_int_equal(row->group_size, 2);
    expect_near("K and V", row->message_nbytes, 80 * 2 * 8192.0 * 128 * 2, 0);
    o.tp = 8;
    plan = make_named("llama-2-70b", &o);
    expect_near("no copies", add_up(&plan, "tp", "step", NULL, false).ops, 0, 0);
    plan = make_named("qwen3-8b", &o);
    expect_near("Q and K norms", row_of(&plan, "gradients of Q and K norms")->message_nbytes, 36 * 2 * 128.0 * 2, 0);
}

/* Traffic for a placement: all bytes of the rows, none for axes of one rank; and there is always room for all rows. */
static void test_axis_traffic(void **state)
{
    static const char *const axes[] = { "tp", "cp", "ep", "dp", "pp" };
    (void)state;
    kith_plan_options o = options_of(16, 2, 1, 2048);
    o.cp = o.ep = o.dp = 2;
    o.sequence_parallel = true;
    o.recompute = KITH_RECOMPUTE_FULL;
    for (o.zero = 0; o.zero <= 3; o.zero++) {
        kith_model model = named("mixtral-8x7b");
        model.moe_every = 2;
        model.shared_ffn = 1024;
        model.is_tied = model.has_qk_norm = true;
        kith_plan plan = make(&model, &o);
        assert_true(plan.row_count < KITH_PLAN_MAX_ROWS);
        kith_axis_traffic traffic[KITH_PLACEMENT_AXES];
        kith_plan_traffic(&plan, traffic);
        for (int axis = 0; axis < KITH_PLACEMENT_AXES; axis++) {
            double wire = add_up(&plan, axes[axis], NULL, NULL, false).wire_nbytes +
                          add_up(&plan, axes[axis], NULL, NULL, true).wire_nbytes;
            const char *op = traffic[axis].op == KITH_COST_ALL_REDUCE ? "all_reduce" : "all_gather";
            if (traffic[axis].op == KITH_COST_SEND_RECV)
                op = "send_recv";
            if (traffic[axis].op == KITH_COST_SHIFT)
                op = "shift";
            int size = axis == 0 ? o.tp : axis == 3 ? 8 : 2;
            assert_true(wire > 0);
            if (axis != 3) /* with zero, the heaviest of dp may be the experts' smaller group */
                expect_near(axes[axis], traffic[axis].calls * ki_layout_wire(op, size, traffic[axis].nbytes), wire,
                            1e-12);
        }
    }
    kith_plan_options alone = KITH_PLAN_OPTIONS_INIT;
    kith_plan plan = make_named("gpt2", &alone);
    kith_axis_traffic traffic[KITH_PLACEMENT_AXES];
    kith_plan_traffic(&plan, traffic);
    for (int axis = 0; axis < KITH_PLACEMENT_AXES; axis++)
        expect_near(axes[axis], traffic[axis].calls, 0, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tensor_parallel_counts),
        cmocka_unit_test(test_one_rank_is_silent),
        cmocka_unit_test(test_sequence_parallel_counts),
        cmocka_unit_test(test_sequence_parallel_moves_the_same),
        cmocka_unit_test(test_published_volumes),
        cmocka_unit_test(test_worked_example),
        cmocka_unit_test(test_forward_table),
        cmocka_unit_test(test_padded_vocabulary),
        cmocka_unit_test(test_pipeline_messages),
        cmocka_unit_test(test_tied_embedding),
        cmocka_unit_test(test_context_parallel),
        cmocka_unit_test(test_expert_parallel),
        cmocka_unit_test(test_zero_traffic),
        cmocka_unit_test(test_replicated_gradients),
        cmocka_unit_test(test_axis_traffic),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
