/* tests/layers/layer_moe.c - mixtures of experts against plain loops, on every grid of a world's ranks.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "layer_moe.h"

#include <math.h>
#include <string.h>

#define OPTIONS(features, inner, experts, top_k, act, gated, normalized, capacity, auxiliary)                          \
    {                                                                                                                  \
        sizeof(kith_moe_options), NULL, features, inner, experts, top_k, act, gated, normalized, capacity, auxiliary   \
    }

static const moe_shape shapes[] = {
    { "Mixtral", OPTIONS(6, 8, 4, 2, KITH_SILU, 1, 1, 0, 0.25), 5, 2, 0 },
    { "Switch", OPTIONS(5, 7, 4, 1, KITH_GELU, 0, 0, 1, 0.5), 6, 2, 0 },
    { "uneven", OPTIONS(4, 5, 5, 3, KITH_GELU_TANH, 1, 0, 0, 0), 5, 1, 0 },
    { "tight", OPTIONS(4, 6, 5, 2, KITH_SILU, 1, 1, 0.6, 0.125), 4, 3, 0 },
    { "few experts", OPTIONS(3, 4, 2, 2, KITH_SILU, 0, 0, 0.75, 0.125), 4, 1, 0 },
    { "ties", OPTIONS(4, 4, 6, 2, KITH_SILU, 1, 1, 0, 0.25), 5, 1, 1 },
    { "one token", OPTIONS(4, 4, 4, 2, KITH_SILU, 1, 0, 1, 0.25), 1, 1, 0 },
    { "one expert", OPTIONS(4, 4, 1, 1, KITH_GELU, 0, 0, 0, 0.25), 4, 1, 0 },
};

static const moe_scales ordinary = { 1, 1, 0.7, 0.7 };

/* The ways to cut a world: every tp that divides it, with and without sequence parallelism. */
typedef void (*grid_check)(const moe_grid *grid, const moe_shape *shape, int is_sequence_parallel);

static void on_grids(rank_info *info, const moe_shape *all, size_t count, grid_check check)
{
    for (int tp = 1; tp <= info->size; tp++) {
        if (info->size % tp != 0)
            continue;
        moe_grid grid = moe_grid_of(info, tp);
        for (size_t s = 0; s < count; s++)
            for (int is_split = 0; is_split < (tp > 1 ? 2 : 1); is_split++)
                if (all[s].options.inner_features >= tp && (!is_split || all[s].sequence >= tp))
                    check(&grid, &all[s], is_split);
    }
}

static void check_reference(const moe_grid *grid, const moe_shape *shape, int is_sequence_parallel)
{
    moe_numbers numbers;
    moe_run run;
    moe_numbers_create(shape, grid->ep_size, fraction, ordinary, &numbers);
    moe_reference(shape, grid->ep_size, 0.5, &numbers);
    for (int is_later = 0; is_later < 2; is_later++) {
        moe_run_create(grid, shape, &numbers, KITH_F64, is_sequence_parallel, &run);
        REQUIRE_OK(kith_tape_set_split_backward(run.tape, is_later));
        moe_run_forward(&run, shape, &numbers);
        moe_run_backward(&run, shape, &numbers, 0.5);
        MOE_REQUIRE_REFERENCE(&run, shape, &numbers, 1e-12);
        moe_run_destroy(&run);
    }
    moe_numbers_destroy(&numbers);
}

void case_moe(rank_info *info)
{
    on_grids(info, shapes, sizeof shapes / sizeof shapes[0], check_reference);
}

/* Experts on every rank: the balance is still that of the whole batch, and all gradients are summands. */
void case_moe_data(rank_info *info)
{
    moe_grid grid = moe_grid_of(info, 1);
    grid.is_data = 1;
    for (size_t s = 0; s < sizeof shapes / sizeof shapes[0]; s++)
        check_reference(&grid, &shapes[s], 0);
}

/* Whole numbers in, and what is applied to them is 0 or far from 0, where GELU is max(x, 0) to the last bit. Weights
 * are 1 (one choice, normalized), 1/2 (two of equal logits) or 1/4 (of four): every sum is exact, so the bits do not
 * depend on the layout, and are those of the plain loops. */
static const moe_shape exact_shapes[] = {
    { "one choice", OPTIONS(5, 7, 3, 1, KITH_GELU, 0, 1, 0, 0), 4, 2, 0 },
    { "one choice, full", OPTIONS(5, 6, 4, 1, KITH_GELU, 1, 1, 1, 0), 4, 2, 0 },
    { "halves", OPTIONS(4, 6, 4, 2, KITH_GELU, 1, 1, 0, 0), 4, 1, 1 },
    { "quarters", OPTIONS(4, 6, 4, 3, KITH_GELU, 0, 0, 0.5, 2), 4, 1, 1 },
};

static void check_exact(const moe_grid *grid, const moe_shape *shape, int is_sequence_parallel)
{
    static const moe_scales scales = { 1, 1, 64, 1 };
    moe_numbers numbers;
    moe_run run;
    moe_numbers_create(shape, grid->ep_size, whole_number, scales, &numbers);
    moe_reference(shape, grid->ep_size, 4, &numbers);
    bool is_auxiliary_exact = (grid->ep_size * moe_tokens(shape) & (grid->ep_size * moe_tokens(shape) - 1)) == 0;
    if (shape->options.auxiliary_weight == 0 || is_auxiliary_exact) {
        moe_run_create(grid, shape, &numbers, KITH_F64, is_sequence_parallel, &run);
        moe_run_forward(&run, shape, &numbers);
        moe_run_backward(&run, shape, &numbers, 4);
        MOE_REQUIRE_REFERENCE(&run, shape, &numbers, 0);
        moe_run_destroy(&run);
    }
    moe_numbers_destroy(&numbers);
}

void case_moe_exact(rank_info *info)
{
    on_grids(info, exact_shapes, sizeof exact_shapes / sizeof exact_shapes[0], check_exact);
}

/* A batch of all homes on one rank, by the same layer: as the reference of a run on a grid. */
static void one_rank(const moe_shape *shape, int homes, moe_numbers *numbers)
{
    moe_shape all = *shape;
    moe_run run;
    all.sequence *= homes;
    moe_run_create(NULL, &all, numbers, KITH_F64, 0, &run);
    moe_run_forward(&run, &all, numbers);
    moe_run_backward(&run, &all, numbers, 0.5);
    memcpy(numbers->y, run.y.data, (size_t)kith_tensor_count(&run.y) * sizeof(double));
    memcpy(numbers->dx, run.dx.data, (size_t)kith_tensor_count(&run.dx) * sizeof(double));
    numbers->auxiliary = run.auxiliary;
    for (int64_t e = 0; e < shape->options.experts; e++) {
        static const char *const names[] = { "gate", "up", "down" };
        double *const grads[] = { numbers->dgate, numbers->dup, numbers->ddown };
        for (int m = 0; m < 3; m++) {
            char name[64];
            snprintf(name, sizeof name, "moe.experts.%lld.%s.weight", (long long)e, names[m]);
            const kith_param *param = kith_layers_find_param(run.layers, name);
            size_t count = (size_t)(shape->options.features * shape->options.inner_features);
            if (param != NULL)
                memcpy(grads[m] + (size_t)e * count, param->grad.data, count * sizeof(double));
        }
    }
    const kith_param *router = kith_layers_find_param(run.layers, "moe.router.weight");
    memcpy(numbers->drouter, router->grad.data, (size_t)kith_tensor_count(&router->grad) * sizeof(double));
    moe_run_destroy(&run);
}

static void check_layout(const moe_grid *grid, const moe_shape *shape, int is_sequence_parallel)
{
    moe_numbers numbers;
    moe_run run;
    if (shape->options.capacity_factor > 0) // which is of each home, so another one
        return;
    moe_numbers_create(shape, grid->ep_size, fraction, ordinary, &numbers);
    one_rank(shape, grid->ep_size, &numbers);
    moe_run_create(grid, shape, &numbers, KITH_F64, is_sequence_parallel, &run);
    moe_run_forward(&run, shape, &numbers);
    moe_run_backward(&run, shape, &numbers, 0.5);
    MOE_REQUIRE_REFERENCE(&run, shape, &numbers, 1e-12);
    moe_run_destroy(&run);
    moe_numbers_destroy(&numbers);
}

/* Expert gradients are not ep times too large, and the auxiliary loss is not the mean of the ranks' own. */
void case_moe_layouts(rank_info *info)
{
    on_grids(info, shapes, sizeof shapes / sizeof shapes[0], check_layout);
}

/* ---- finite differences ---- */

typedef struct slope {
    const moe_grid *grid;
    const moe_shape *shape;
    moe_numbers *numbers;
    moe_run *run;
    double auxiliary_scale;
} slope;

/* The loss of the whole batch, on every rank. */
static double loss_of(const slope *s)
{
    const moe_shape *shape = s->shape;
    double sum = 0;
    moe_run_load(s->run, shape, s->numbers);
    moe_run_forward(s->run, shape, s->numbers);
    const double *dy = s->numbers->dy + s->grid->ep_rank * moe_tokens(shape) * shape->options.features;
    for (int64_t i = 0; i < kith_tensor_count(&s->run->y); i++)
        sum += dy[i] * element(&s->run->y, i);
    kith_tensor_release(&s->run->y);
    REQUIRE_OK(kith_all_reduce(s->grid->ep, &sum, &sum, 1, KITH_F64, KITH_SUM));
    return sum + s->auxiliary_scale * s->run->auxiliary;
}

static void check_slope(const slope *s, const char *what, double *value, double grad)
{
    const double step = 1e-5;
    double at = *value;
    *value = at + step;
    double above = loss_of(s);
    *value = at - step;
    double below = loss_of(s);
    *value = at;
    double wanted = (above - below) / (2 * step);
    if (!(fabs(grad - wanted) <= 1e-6 * fmax(1, fabs(wanted))))
        rank_fail(__FILE__, __LINE__, "%s, %s: the gradient is %.12g, the slope %.12g", s->shape->name, what, grad,
                  wanted);
}

/* numbers: with gradients of the layer's own, gathered from all ranks. */
static void gather_grads(moe_run *run, const moe_shape *shape, moe_numbers *numbers)
{
    const kith_moe_options *o = &shape->options;
    int64_t tokens = moe_tokens(shape) * o->features, router = o->experts * o->features;
    memcpy(numbers->dx + run->grid.ep_rank * tokens, run->dx.data, (size_t)tokens * sizeof(double));
    kith_param *param = kith_layers_find_param(run->layers, "moe.router.weight");
    memcpy(numbers->drouter, param->grad.data, (size_t)router * sizeof(double));
    for (int64_t e = 0; e < o->experts; e++) {
        char name[64];
        snprintf(name, sizeof name, "moe.experts.%lld.down.weight", (long long)e);
        param = kith_layers_find_param(run->layers, name);
        if (param == NULL)
            continue;
        kith_tensor whole =
            kith_tensor_view(numbers->ddown + e * o->features * o->inner_features, KITH_F64, 2, param->global_shape);
        REQUIRE_OK(kith_param_gather(param, KITH_PARAM_GRAD, &whole));
        snprintf(name, sizeof name, "moe.experts.%lld.up.weight", (long long)e);
        param = kith_layers_find_param(run->layers, name);
        whole = kith_tensor_view(numbers->dup + e * o->features * o->inner_features, KITH_F64, 2, param->global_shape);
        REQUIRE_OK(kith_param_gather(param, KITH_PARAM_GRAD, &whole));
    }
    double *const all[] = { numbers->dx, numbers->drouter, numbers->ddown, numbers->dup };
    int64_t counts[] = { run->grid.ep_size * tokens, router, router * o->inner_features, router * o->inner_features };
    for (int i = 0; i < 4; i++)
        REQUIRE_OK(kith_all_reduce(run->grid.ep, all[i], all[i], (size_t)counts[i], KITH_F64, KITH_SUM));
}

static void check_gradients(const moe_grid *grid, const moe_shape *shape, int is_sequence_parallel)
{
    const kith_moe_options *o = &shape->options;
    moe_numbers numbers;
    moe_run run;
    if (is_sequence_parallel) // the loss above sums whole y; shards are compared with the plain loops
        return;
    moe_numbers_create(shape, grid->ep_size, fraction, ordinary, &numbers);
    moe_run_create(grid, shape, &numbers, KITH_F64, 0, &run);
    moe_run_forward(&run, shape, &numbers);
    moe_run_backward(&run, shape, &numbers, 1.5);
    gather_grads(&run, shape, &numbers);
    kith_tensor_release(&run.y);
    slope s = { grid, shape, &numbers, &run, 1.5 };
    for (int64_t i = 0; i < o->experts * o->features; i++)
        check_slope(&s, "router", &numbers.router[i], numbers.drouter[i]);
    for (int64_t i = 0; i < grid->ep_size * moe_tokens(shape) * o->features; i += 3)
        check_slope(&s, "x", &numbers.x[i], numbers.dx[i]);
    for (int64_t i = 0; i < o->experts * o->features * o->inner_features; i += 5) {
        check_slope(&s, "up", &numbers.up[i], numbers.dup[i]);
        check_slope(&s, "down", &numbers.down[i], numbers.ddown[i]);
    }
    moe_run_destroy(&run);
    moe_numbers_destroy(&numbers);
}

void case_moe_gradients(rank_info *info)
{
    static const moe_shape small[] = {
        { "normalized", OPTIONS(3, 4, 3, 2, KITH_SILU, 1, 1, 0, 0.25), 3, 1, 0 },
        { "full", OPTIONS(3, 4, 4, 2, KITH_GELU, 0, 0, 0.75, 0.5), 4, 1, 0 },
    };
    on_grids(info, small, 2, check_gradients);
}

/* ---- the same bits each time; other types ---- */

static void check_repeated(const moe_grid *grid, const moe_shape *shape, int is_sequence_parallel)
{
    moe_numbers numbers;
    moe_run first, again;
    moe_numbers_create(shape, grid->ep_size, fraction, ordinary, &numbers);
    moe_run *const runs[] = { &first, &again };
    for (int i = 0; i < 2; i++) {
        moe_run_create(grid, shape, &numbers, KITH_F32, is_sequence_parallel, runs[i]);
        moe_run_forward(runs[i], shape, &numbers);
        moe_run_backward(runs[i], shape, &numbers, 0.5);
    }
    REQUIRE_EQUAL("y", &again.y, &first.y, 0);
    REQUIRE_EQUAL("dx", &again.dx, &first.dx, 0);
    REQUIRE(memcmp(&first.auxiliary, &again.auxiliary, sizeof first.auxiliary) == 0);
    for (size_t i = 0; i < kith_layers_param_count(first.layers); i++) {
        const kith_tensor *a = &kith_layers_param(first.layers, i)->grad,
                          *b = &kith_layers_param(again.layers, i)->grad;
        int64_t rows = a->shape[0];
        for (int64_t r = 0; r < rows; r++) {
            kith_tensor row_a = kith_tensor_narrow(a, 0, r, 1), row_b = kith_tensor_narrow(b, 0, r, 1);
            REQUIRE_EQUAL(kith_layers_param(first.layers, i)->name, &row_b, &row_a, 0);
        }
    }
    moe_run_destroy(&first);
    moe_run_destroy(&again);
    moe_numbers_destroy(&numbers);
}

void case_moe_repeated(rank_info *info)
{
    on_grids(info, shapes, sizeof shapes / sizeof shapes[0], check_repeated);
}

/* Numbers that bf16 has, too, so that the reference starts from the same ones. */
static double coarse(unsigned seed, int64_t index)
{
    return floor(fraction(seed, index) * 64) / 64;
}

static void check_types(const moe_grid *grid, const moe_shape *shape, int is_sequence_parallel)
{
    static const struct type {
        kith_dtype dtype;
        double tolerance;
    } types[] = { { KITH_F32, 1e-5 }, { KITH_BF16, 4e-2 } };
    static const moe_scales scales = { 1, 1, 0.5, 0.5 };
    moe_numbers numbers;
    moe_run run;
    moe_numbers_create(shape, grid->ep_size, coarse, scales, &numbers);
    moe_reference(shape, grid->ep_size, 0.5, &numbers);
    for (int i = 0; i < 2; i++) {
        moe_run_create(grid, shape, &numbers, types[i].dtype, is_sequence_parallel, &run);
        moe_run_forward(&run, shape, &numbers);
        moe_run_backward(&run, shape, &numbers, 0.5);
        MOE_REQUIRE_REFERENCE(&run, shape, &numbers, types[i].tolerance);
        moe_run_destroy(&run);
    }
    moe_numbers_destroy(&numbers);
}

void case_moe_types(rank_info *info)
{
    on_grids(info, shapes, 4, check_types);
}
