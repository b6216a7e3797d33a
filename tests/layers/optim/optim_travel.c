/* tests/layers/optim/optim_travel.c - buckets that travel while backward computes, and steps that are not whole.
 *
 * Public reports behind it: a parameter that a step does not use keeps its bucket from ever starting, and the job hangs
 * or trains on stale weights (Megatron-LM#1150, #558, #663).
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "optim_cases.h"

static size_t early_of(const kith_optim *optim)
{
    size_t early = 0;
    for (size_t b = 0; b < kith_optim_bucket_count(optim); b++) {
        kith_optim_bucket bucket;
        REQUIRE_OK(kith_optim_get_bucket(optim, b, &bucket));
        early += (size_t)bucket.was_early;
    }
    return early;
}

/* Of a model without summands all buckets start in the last microbatch's backward, and weights are those of a step that
 * waits; with sequence parallelism the late ones wait. A second step's forward sees the first one's weights. */
void case_travels_early(rank_info *info)
{
    family f = gpt2();
    for (int is_sharded = 0; is_sharded < 2; is_sharded++) {
        grid_layers grid = layers_on_grid(info, 1, KITH_F32, 0, 0), other = layers_on_grid(info, 1, KITH_F32, 0, 0);
        kith_optim_options options = options_of(info, &grid);
        options.is_sharded = is_sharded;
        training t = make_training(&grid, &f, &options);
        options.is_deferred = 1, options.data = other.data;
        training late = make_training(&other, &f, &options);
        size_t buckets = kith_optim_bucket_count(t.optim);
        REQUIRE(buckets > 4);
        for (int split = 0; split < 2; split++) {
            REQUIRE_OK(kith_tape_set_split_backward(t.s.tape, split));
            REQUIRE_OK(kith_tape_set_split_backward(late.s.tape, split));
            train(&t, 2 * split, 2, 2 * info->size), train(&late, 2 * split, 2, 2 * info->size);
            REQUIRE(early_of(t.optim) == buckets && early_of(late.optim) == 0);
            REQUIRE_SAME_VALUES(grid.layers, other.layers);
        }
        kith_optim_traffic traffic;
        kith_optim_get_traffic(t.optim, &traffic);
        REQUIRE((is_sharded ? traffic.reduce_scatters : traffic.all_reduces) == 4 * buckets);
        REQUIRE(traffic.all_gathers == (is_sharded ? 4 * buckets : 0));
        kith_optim_reset_traffic(t.optim);
        kith_optim_get_traffic(t.optim, &traffic);
        REQUIRE(traffic.all_reduces == 0 && traffic.reduce_scatter_nbytes == 0);
        end_training(&t), end_training(&late);
    }
}

/* Two layers in one bucket, of which one rank does not use the second. */
typedef struct pair {
    grid_layers grid;
    kith_linear *used, *unused;
    kith_optim *optim;
    kith_tape *tape;
} pair;

static pair make_pair(rank_info *info, int allows_unused, int is_sharded)
{
    pair p = { .grid = layers_on_grid(info, 1, KITH_F64, 0, 0) };
    p.used = add_linear(p.grid.layers, "used", KITH_LINEAR_WHOLE, 2, 3, 1);
    p.unused = add_linear(p.grid.layers, "unused", KITH_LINEAR_WHOLE, 4, 5, 0);
    kith_optim_options options = options_of(info, &p.grid);
    options.kind = KITH_SGD, options.weight_decay = 0, options.clip_norm = 0;
    options.allows_unused = allows_unused, options.is_sharded = is_sharded;
    options.bucket_nbytes = is_sharded ? 1 << 20 : 1;
    REQUIRE_OK(kith_optim_create(p.grid.layers, &options, &p.optim));
    p.tape = tape_of(p.grid.layers, 1, 1);
    return p;
}

static void end_pair(pair *p)
{
    kith_optim_destroy(p->optim);
    kith_tape_destroy(p->tape);
    REQUIRE_OK(kith_layers_destroy(p->grid.layers));
}

static void use(pair *p, kith_linear *linear, int64_t rows, int64_t cols)
{
    double x[8] = { 1, 1, 1, 1, 1, 1, 1, 1 };
    kith_tensor input = kith_tensor_view(x, KITH_F64, 2, (const int64_t[]){ 1, cols });
    kith_tensor dy = kith_tensor_view(x, KITH_F64, 2, (const int64_t[]){ 1, rows }), y;
    REQUIRE_OK(kith_linear_forward(linear, p->tape, &input, &y));
    REQUIRE_OK(kith_linear_backward(linear, p->tape, &dy, NULL));
    kith_tensor_release(&y);
}

static void check_used_and_go_on(rank_info *info, pair *p, int allows_unused)
{
    kith_optim_result result = { 0 };
    REQUIRE_OK(kith_optim_begin(p->optim, 1));
    use(p, p->used, 2, 3);
    if (info->rank != 1)
        use(p, p->unused, 4, 5);
    kith_status status = kith_optim_step(p->optim, 1, &result);
    const kith_param *used = kith_linear_weight(p->used, 0), *unused = kith_linear_weight(p->unused, 0);
    REQUIRE_STATUS(status, allows_unused ? KITH_OK : KITH_ERR_INVALID_ARG);
    if (!allows_unused)
        REQUIRE_DETAIL("unused.weight");
    REQUIRE(element(&used->value, 0) == (allows_unused ? -info->size : 0));
    REQUIRE(element(&unused->value, 0) == (allows_unused ? 1 - info->size : 0));
    REQUIRE(kith_optim_steps(p->optim) == allows_unused);
    REQUIRE_OK(kith_optim_begin(p->optim, 1)); // and all goes on
    use(p, p->used, 2, 3), use(p, p->unused, 4, 5);
    REQUIRE_OK(kith_optim_step(p->optim, 1, &result));
    REQUIRE(element(&unused->value, 0) == (allows_unused ? 1 - 2 * info->size : -info->size));
}

/* An error on all ranks that names it, or zeros by option; never a hang. */
void case_unused_is_named(rank_info *info)
{
    for (int i = 0; i < 4; i++) {
        pair p = make_pair(info, i & 1, i >> 1);
        check_used_and_go_on(info, &p, i & 1);
        end_pair(&p);
    }
}

/* Whatever else is wrong with a step, on one rank or on all: a sentence on all ranks, nothing is updated, and the next
 * step is a step. */
void case_wrong_steps(rank_info *info)
{
    pair p = make_pair(info, 1, 0); // more often than announced, which would be too late for a bucket on its way
    REQUIRE_OK(kith_optim_begin(p.optim, 1));
    use(&p, p.used, 2, 3), use(&p, p.used, 2, 3), use(&p, p.unused, 4, 5);
    REQUIRE_STATUS(kith_optim_step(p.optim, 1, NULL), KITH_ERR_INVALID_ARG);
    REQUIRE_DETAIL("(2 times, wanted 1): used.weight, used.bias");
    REQUIRE_OK(kith_optim_begin(p.optim, 2)); // less often, allowed or not
    use(&p, p.used, 2, 3), use(&p, p.used, 2, 3), use(&p, p.unused, 4, 5);
    REQUIRE_STATUS(kith_optim_step(p.optim, 1, NULL), KITH_ERR_INVALID_ARG);
    REQUIRE_DETAIL("(1 times, wanted 2): unused.weight");
    REQUIRE_OK(kith_optim_begin(p.optim, 1)); // a rate that is wrong on one rank
    use(&p, p.used, 2, 3), use(&p, p.unused, 4, 5);
    REQUIRE_STATUS(kith_optim_step(p.optim, info->rank == 1 ? -1 : 1, NULL), KITH_ERR_INVALID_ARG);
    REQUIRE_DETAIL("learning_rate -1");
    REQUIRE_OK(kith_optim_begin(p.optim, 1)); // zeroed when nothing has left, and when something has
    use(&p, p.used, 2, 3);
    REQUIRE_OK(kith_layers_zero_grads(p.grid.layers));
    use(&p, p.used, 2, 3), use(&p, p.unused, 4, 5);
    REQUIRE_OK(kith_optim_step(p.optim, 1, NULL));
    REQUIRE(element(&kith_linear_weight(p.used, 0)->value, 0) == -info->size);
    REQUIRE_OK(kith_optim_begin(p.optim, 1));
    use(&p, p.unused, 4, 5);
    REQUIRE_OK(kith_layers_zero_grads(p.grid.layers));
    use(&p, p.used, 2, 3), use(&p, p.unused, 4, 5);
    REQUIRE_STATUS(kith_optim_step(p.optim, 1, NULL), KITH_ERR_INVALID_ARG);
    REQUIRE_DETAIL("zeroed in the middle");
    REQUIRE_OK(kith_tape_set_split_backward(p.tape, 1)); // weights that were put off and forgotten
    REQUIRE_OK(kith_optim_begin(p.optim, 1));
    use(&p, p.used, 2, 3), use(&p, p.unused, 4, 5);
    REQUIRE_STATUS(kith_optim_step(p.optim, 1, NULL), KITH_ERR_INVALID_ARG);
    REQUIRE_DETAIL("kith_tape_weight_grads()");
    REQUIRE_OK(kith_tape_weight_grads(p.tape));
    end_pair(&p);
}

/* Two tokens for eight experts: those that got none have a gradient of zero, which is complete. */
void case_idle_experts(rank_info *info)
{
    for (int split = 0; split < 2; split++) {
        grid_layers grid = layers_on_grid(info, 1, KITH_F64, 0, 1);
        kith_moe_options shape = KITH_MOE_OPTIONS_INIT;
        shape.name = "moe", shape.features = 2, shape.inner_features = 3, shape.experts = 8, shape.top_k = 1;
        kith_moe *moe;
        REQUIRE_OK(kith_moe_create(grid.layers, &shape, &moe));
        load_params(grid.layers, fraction);
        kith_optim_options options = options_of(info, &grid);
        options.bucket_nbytes = 1;
        kith_optim *optim;
        REQUIRE_OK(kith_optim_create(grid.layers, &options, &optim));
        kith_tape *tape = tape_of(grid.layers, 2, 1);
        REQUIRE_OK(kith_tape_set_split_backward(tape, split));
        double numbers[] = { 1, 2, 1, 2 };
        kith_tensor x = kith_tensor_view(numbers, KITH_F64, 2, (const int64_t[]){ 2, 2 }), y;
        REQUIRE_OK(kith_optim_begin(optim, 1));
        REQUIRE_OK(kith_moe_forward(moe, tape, &x, &y, NULL, NULL));
        kith_tensor_release(&y);
        REQUIRE_OK(kith_moe_backward(moe, tape, &x, 1, NULL));
        REQUIRE_OK(kith_tape_weight_grads(tape));
        kith_optim_result result;
        REQUIRE_OK(kith_optim_step(optim, 0.1, &result));
        REQUIRE(result.grad_norm > 0);
        kith_optim_destroy(optim);
        kith_tape_destroy(tape);
        REQUIRE_OK(kith_layers_destroy(grid.layers));
    }
}

/* A step that was given up in the middle, by ranks at different points, can be begun again. */
void case_gives_up(rank_info *info)
{
    for (int is_sharded = 0; is_sharded < 2; is_sharded++) {
        pair p = make_pair(info, 0, is_sharded);
        REQUIRE_OK(kith_optim_begin(p.optim, 1));
        if (info->rank == 0)
            use(&p, p.unused, 4, 5); // its bucket travels, and waits for the others
        REQUIRE_OK(kith_optim_begin(p.optim, 1));
        use(&p, p.used, 2, 3), use(&p, p.unused, 4, 5);
        REQUIRE_OK(kith_optim_step(p.optim, 1, NULL));
        REQUIRE(element(&kith_linear_weight(p.unused, 0)->value, 0) == -info->size);
        REQUIRE_OK(kith_optim_begin(p.optim, 1));
        if (info->rank == 0)
            use(&p, p.unused, 4, 5);
        end_pair(&p); // the same at the end
    }
}
