/* tests/layers/layer_moe_counts.c - what a mixture of experts communicates and keeps, dry runs, and misuse.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "layer_moe.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

/* Token n is the unit vector n % experts, which expert n % experts likes best and the one before it second best: every
 * expert gets the same number of tokens. */
static const moe_shape even = {
    "even", { sizeof(kith_moe_options), NULL, 8, 6, 8, 2, KITH_SILU, 1, 1, 0, 0.5 }, 8, 2, 0
};

static void make_even(int homes, moe_numbers *numbers)
{
    static const moe_scales scales = { 1, 1, 1, 1 };
    int64_t n = even.options.features;
    moe_numbers_create(&even, homes, fraction, scales, numbers);
    for (int64_t i = 0; i < homes * moe_tokens(&even) * n; i++)
        numbers->x[i] = i / n % n == i % n ? 1 : 0;
    for (int64_t i = 0; i < n * n; i++)
        numbers->router[i] = i / n == i % n ? 8 : i / n == (i % n + 1) % n ? 4 : 0;
}

typedef struct wanted_count {
    kith_layers_phase phase;
    kith_coll_kind kind;
    uint64_t ops, elements, nbytes;
    double wire_nbytes;
} wanted_count;

static void require_count(const kith_layers_traffic *t, wanted_count w)
{
    static const char *const phases[] = { "forward", "backward", "finish" };
    uint64_t ops = t->ops[w.phase][w.kind], elements = t->elements[w.phase][w.kind],
             nbytes = t->nbytes[w.phase][w.kind];
    double wire = t->wire_nbytes[w.phase][w.kind];
    if (ops != w.ops || elements != w.elements || nbytes != w.nbytes || fabs(wire - w.wire_nbytes) > 1e-6)
        rank_fail(__FILE__, __LINE__,
                  "%s %s: %llu operations of %llu elements, %llu bytes, %g on the wire, wanted %llu, %llu, %llu, %g",
                  phases[w.phase], kith_coll_name(w.kind), (unsigned long long)ops, (unsigned long long)elements,
                  (unsigned long long)nbytes, wire, (unsigned long long)w.ops, (unsigned long long)w.elements,
                  (unsigned long long)w.nbytes, w.wire_nbytes);
}

/* What kith/layers.h says, in f64: `activations` of 8 bytes go over tp as one all-reduce, or as a gather and a scatter.
 */
static void require_traffic(const moe_run *run, const kith_layers_traffic *t)
{
    uint64_t t_size = (uint64_t)run->grid.tp_size, ep = (uint64_t)run->grid.ep_size;
    uint64_t tokens = (uint64_t)moe_tokens(&even), h = (uint64_t)even.options.features, rows = tokens * 2;
    uint64_t experts = (uint64_t)even.options.experts, whole = tokens * h;
    uint64_t is_tp = t_size > 1, is_ep = ep > 1, is_split = is_tp && run->is_sequence_parallel,
             is_sum = is_tp && !is_split;
    double tp_wire = (double)(t_size - 1) / (double)t_size, ep_wire = (double)(ep - 1) / (double)ep;
    for (int p = 0; p < 2; p++) {
        kith_layers_phase phase = p == 0 ? KITH_PHASE_FORWARD : KITH_PHASE_BACKWARD;
        uint64_t small = p == 0 ? is_ep * (2 * experts + 1) : is_tp * rows; // balance; gradients of weights
        uint64_t ops = is_sum + (p == 0 ? is_ep : is_tp), sum = is_sum * whole;
        double small_wire = p == 0 ? ep_wire : tp_wire;
        wanted_count reduce = {
            phase,       KITH_ALL_REDUCE,   ops,
            sum + small, 8 * (sum + small), 16 * ((double)sum * tp_wire + (double)small * small_wire)
        };
        require_count(t, reduce);
        wanted_count gather = { phase,
                                KITH_ALL_GATHER,
                                is_split,
                                is_split * whole,
                                is_split * 8 * whole,
                                (double)(is_split * 8 * whole) * tp_wire };
        require_count(t, gather);
        gather.kind = KITH_REDUCE_SCATTER;
        require_count(t, gather);
        uint64_t numbers = is_ep * (2 * rows * h + (p == 0 ? experts : 2 * rows));
        wanted_count exchange = { phase,   KITH_ALL_TO_ALL_V, is_ep * (p == 0 ? 3 : 4),
                                  numbers, 8 * numbers,       (double)(8 * numbers) * ep_wire };
        require_count(t, exchange);
    }
}

/* After forward: what the tape keeps, and y. */
static void require_memory(const moe_run *run)
{
    int64_t tokens = moe_tokens(&even), h = even.options.features, experts = even.options.experts,
            ep = run->grid.ep_size;
    int64_t first, inner, local, positions = even.sequence;
    kith_split_range(even.options.inner_features, run->grid.tp_size, run->grid.tp_rank, &first, &inner);
    kith_split_range(experts, (int)ep, run->grid.ep_rank, &first, &local);
    if (run->is_sequence_parallel)
        kith_split_range(even.sequence, run->grid.tp_size, run->grid.tp_rank, &first, &positions);
    int64_t own = positions * even.batch, rows = 2 * tokens * ep * local / experts;
    int64_t numbers = 2 * own * h                               // x and y
                      + tokens * experts + 2 * tokens + experts // probabilities, weights, gradient of the balance
                      + rows * h + rows * 2 * inner;            // inputs, gate and up
    int64_t integers = 4 * 2 * 2 * tokens + 8 * (experts + ep * local);
    kith_layers_memory memory;
    kith_layers_get_memory(run->layers, &memory);
    if (memory.tensors != (uint64_t)(8 * numbers + integers))
        rank_fail(__FILE__, __LINE__, "%llu bytes are kept, wanted %llu", (unsigned long long)memory.tensors,
                  (unsigned long long)(8 * numbers + integers));
}

static void check_traffic(const moe_grid *grid, int is_sequence_parallel)
{
    moe_numbers numbers;
    moe_run run;
    kith_layers_traffic traffic;
    make_even(grid->ep_size, &numbers);
    moe_run_create(grid, &even, &numbers, KITH_F64, is_sequence_parallel, &run);
    kith_layers_reset_traffic(run.layers);
    moe_run_forward(&run, &even, &numbers);
    require_memory(&run);
    moe_run_backward(&run, &even, &numbers, 1);
    kith_layers_get_traffic(run.layers, &traffic);
    require_traffic(&run, &traffic);
    moe_run_destroy(&run);
    moe_numbers_destroy(&numbers);
}

/* Experts that do not divide evenly get parts that do not either; then only totals are as above. */
void case_moe_traffic(rank_info *info)
{
    for (int tp = 1; tp <= info->size; tp++) {
        if (info->size % tp != 0)
            continue;
        moe_grid grid = moe_grid_of(info, tp);
        for (int is_split = 0; is_split < 2 && even.options.experts % grid.ep_size == 0; is_split++)
            check_traffic(&grid, is_split);
    }
}

/* ---- dry runs ---- */

typedef struct figures {
    kith_layers_traffic traffic;
    kith_layers_memory memory;
    int64_t dropped;
} figures;

static void measure(kith_layers *layers, const moe_shape *shape, const kith_tensor *x, const kith_tensor *dy,
                    kith_moe *moe, figures *out)
{
    kith_tensor y, dx;
    kith_tape *tape = tape_of(layers, shape->sequence, shape->batch);
    kith_layers_reset_traffic(layers);
    REQUIRE_OK(kith_moe_forward(moe, tape, x, &y, NULL, &out->dropped));
    REQUIRE_OK(kith_moe_backward(moe, tape, dy, 1, &dx));
    REQUIRE_OK(kith_layers_finish_grads(layers));
    kith_layers_get_traffic(layers, &out->traffic);
    kith_layers_get_memory(layers, &out->memory);
    kith_tensor_release(&y);
    kith_tensor_release(&dx);
    kith_tape_destroy(tape);
}

static void measure_dry(const moe_grid *grid, const moe_shape *shape, int is_sequence_parallel, figures *out)
{
    kith_layers_options options = KITH_LAYERS_OPTIONS_INIT;
    options.dtype = KITH_F64;
    options.dry_tp = grid->tp_size, options.dry_ep = grid->ep_size;
    options.is_sequence_parallel = is_sequence_parallel;
    kith_layers *layers;
    kith_moe *moe;
    REQUIRE_OK(kith_layers_create(&options, &layers));
    kith_moe_options of_moe = shape->options;
    of_moe.name = "moe";
    REQUIRE_OK(kith_moe_create(layers, &of_moe, &moe));
    int64_t first, positions = shape->sequence;
    if (is_sequence_parallel)
        kith_split_range(shape->sequence, grid->tp_size, 0, &first, &positions);
    kith_tensor x =
        kith_tensor_view(NULL, KITH_F64, 2, (const int64_t[]){ positions * shape->batch, shape->options.features });
    measure(layers, shape, &x, &x, moe, out);
    REQUIRE_OK(kith_layers_destroy(layers));
}

static void require_same_figures(const figures *dry, const figures *real)
{
    REQUIRE(memcmp(&dry->traffic, &real->traffic, offsetof(kith_layers_traffic, wait_ns)) == 0);
    const uint64_t got[] = { dry->memory.parameters, dry->memory.grads, dry->memory.tensors, dry->memory.tensors_peak };
    const uint64_t wanted[] = { real->memory.parameters, real->memory.grads, real->memory.tensors,
                                real->memory.tensors_peak };
    static const char *const names[] = { "parameters", "grads", "tensors", "tensors_peak" };
    for (int i = 0; i < 4; i++)
        if (got[i] != wanted[i])
            rank_fail(__FILE__, __LINE__, "%s of a dry run: %llu bytes, of a real one %llu", names[i],
                      (unsigned long long)got[i], (unsigned long long)wanted[i]);
}

static void check_dry(rank_info *info, const moe_grid *grid, int is_sequence_parallel)
{
    moe_numbers numbers;
    moe_run run;
    figures real, dry;
    make_even(grid->ep_size, &numbers);
    moe_run_create(grid, &even, &numbers, KITH_F64, is_sequence_parallel, &run);
    int64_t h = even.options.features;
    kith_tensor whole = kith_tensor_view(numbers.x + grid->ep_rank * moe_tokens(&even) * h, KITH_F64, 2,
                                         (const int64_t[]){ moe_tokens(&even), h });
    kith_tensor x = shard_of(run.layers, &whole, even.sequence, even.batch, is_sequence_parallel);
    measure(run.layers, &even, &x, &x, run.moe, &real);
    measure_dry(grid, &even, is_sequence_parallel, &dry);
    if (info->rank == 0)
        require_same_figures(&dry, &real);
    moe_run_destroy(&run);
    moe_numbers_destroy(&numbers);
}

/* More experts than any machine here could hold: 256 of 7168 x 2048, 8 of them for each of 4096 tokens, capacity 1. */
static void check_large(void)
{
    static const moe_grid grid = { NULL, NULL, 8, 64, 0, 0, 0, NULL };
    static const moe_shape large = {
        "large", { sizeof(kith_moe_options), NULL, 7168, 2048, 256, 8, KITH_SILU, 1, 1, 1, 0 }, 4096, 1, 0
    };
    figures dry;
    measure_dry(&grid, &large, 1, &dry);
    uint64_t parameters = 8 * (256 * 7168 + UINT64_C(4) * 3 * 7168 * 2048 / 8);
    REQUIRE(dry.memory.parameters == parameters && dry.dropped == 0);
    REQUIRE(dry.traffic.elements[KITH_PHASE_FORWARD][KITH_ALL_TO_ALL_V] == 256 + 2 * UINT64_C(4096) * 8 * 7168);
}

void case_moe_dry(rank_info *info)
{
    for (int tp = 1; tp <= info->size; tp *= 2) {
        moe_grid grid = moe_grid_of(info, tp);
        for (int is_split = 0; is_split < 2; is_split++)
            check_dry(info, &grid, is_split);
    }
    check_large();
}

/* ---- misuse ---- */

static void require_refused(kith_layers *layers, kith_moe_options options, const char *text)
{
    kith_moe *moe;
    REQUIRE_STATUS(kith_moe_create(layers, &options, &moe), KITH_ERR_INVALID_ARG);
    REQUIRE_DETAIL(text);
}

static void check_options(kith_layers *layers)
{
    kith_moe_options good = even.options, bad;
    bad = good, bad.top_k = 9, require_refused(layers, bad, "wanted 1 to the number of experts, 8");
    bad = good, bad.top_k = 0, require_refused(layers, bad, "top_k 0");
    bad = good, bad.experts = 0, require_refused(layers, bad, "0 experts");
    bad = good, bad.features = 0, require_refused(layers, bad, "features 0");
    bad = good, bad.features = INT64_MAX, require_refused(layers, bad, "wanted 1 to 2^31 - 1");
    bad = good, bad.inner_features = 0, require_refused(layers, bad, "0 inner features");
    bad = good, bad.capacity_factor = -1, require_refused(layers, bad, "capacity_factor -1");
    bad = good, bad.auxiliary_weight = NAN, require_refused(layers, bad, "auxiliary_weight nan");
    bad = good, bad.activation = (kith_activation)7, require_refused(layers, bad, "activation 7");
    bad = good, bad.struct_size = 0, require_refused(layers, bad, "KITH_MOE_OPTIONS_INIT");
    if (kith_layers_tp_size(layers) > 1)
        bad = good, bad.inner_features = 1, require_refused(layers, bad, "cannot be dealt to");
}

static void check_calls(moe_run *run)
{
    kith_tensor y, dx, wrong = numbers(KITH_F64, 3, even.options.features, 1, fraction);
    kith_tape *tape = tape_of(run->layers, even.sequence, even.batch);
    REQUIRE_STATUS(kith_moe_forward(run->moe, tape, &wrong, &y, NULL, NULL), KITH_ERR_INVALID_ARG);
    REQUIRE_DETAIL("has 3 rows");
    REQUIRE_STATUS(kith_moe_forward(run->moe, NULL, &wrong, &y, NULL, NULL), KITH_ERR_INVALID_ARG);
    REQUIRE_STATUS(kith_moe_forward(NULL, tape, &wrong, &y, NULL, NULL), KITH_ERR_INVALID_ARG);
    REQUIRE_STATUS(kith_moe_backward(NULL, tape, &wrong, 1, &dx), KITH_ERR_INVALID_ARG);
    kith_tensor dy = numbers(KITH_F64, moe_tokens(&even), even.options.features, 1, fraction);
    REQUIRE_STATUS(kith_moe_backward(run->moe, tape, &dy, 1, &dx), KITH_ERR_INVALID_ARG);
    REQUIRE_DETAIL("the tape has nothing for it");
    kith_tape_destroy(tape);
    free(wrong.data);
    free(dy.data);
}

/* Without training nothing is kept. */
static void check_evaluation(moe_run *run, const moe_numbers *n)
{
    kith_tape *tape;
    kith_batch batch = KITH_BATCH_INIT;
    batch.sequence = even.sequence, batch.batch = even.batch, batch.is_training = 0;
    REQUIRE_OK(kith_tape_create(run->layers, &tape));
    REQUIRE_OK(kith_tape_begin(tape, &batch));
    kith_tensor y, x = kith_tensor_view(n->x, KITH_F64, 2, (const int64_t[]){ moe_tokens(&even), 8 });
    REQUIRE_OK(kith_moe_forward(run->moe, tape, &x, &y, NULL, NULL));
    kith_tensor_release(&y);
    kith_layers_memory memory;
    kith_layers_get_memory(run->layers, &memory);
    REQUIRE(kith_tape_depth(tape) == 0 && memory.tensors == 0);
    kith_tape_destroy(tape);
}

/* A token of NaN spoils its own output alone. */
static void check_nan(moe_run *run, moe_numbers *n)
{
    double kept = n->x[3];
    n->x[3] = NAN;
    moe_run_forward(run, &even, n);
    n->x[3] = kept;
    for (int64_t i = 0; i < kith_tensor_count(&run->y); i++)
        if (isnan(element(&run->y, i)) != (i < even.options.features))
            rank_fail(__FILE__, __LINE__, "y: element %lld is %g where token 0 is NaN", (long long)i,
                      element(&run->y, i));
    kith_tensor_release(&run->y);
}

/* The ranks of tp have other tokens, by mistake. */
static void check_other_tokens(moe_run *run)
{
    kith_tensor y,
        x = numbers(KITH_F64, moe_tokens(&even), even.options.features, (unsigned)run->grid.tp_rank, fraction);
    kith_tape *tape = tape_of(run->layers, even.sequence, even.batch);
    REQUIRE_STATUS(kith_moe_forward(run->moe, tape, &x, &y, NULL, NULL), KITH_ERR_MISMATCH);
    REQUIRE_DETAIL("chose different experts");
    kith_tape_destroy(tape);
    free(x.data);
}

void case_moe_misuse(rank_info *info)
{
    moe_numbers numbers;
    moe_run run;
    moe_grid grid = moe_grid_of(info, info->size);
    make_even(grid.ep_size, &numbers);
    moe_run_create(&grid, &even, &numbers, KITH_F64, 0, &run);
    check_options(run.layers);
    check_calls(&run);
    check_evaluation(&run, &numbers);
    check_nan(&run, &numbers);
    kith_tape_destroy(run.tape);
    if (grid.tp_size > 1)
        check_other_tokens(&run);
    REQUIRE_OK(kith_tape_create(run.layers, &run.tape));
    moe_run_destroy(&run);
    moe_numbers_destroy(&numbers);
}
