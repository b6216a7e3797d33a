/* tests/layers/optim/optim_help.c - what the cases of optimizers share.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "optim_cases.h"

#include <string.h>

grid_layers layers_on_grid(rank_info *info, int tp, kith_dtype dtype, int is_sequence_parallel, int has_experts)
{
    grid_layers grid = { .tp = tp, .dp = info->size / tp };
    kith_group *group;
    REQUIRE_OK(kith_group_split(info->world, info->rank / tp, info->rank, NULL, &group));
    REQUIRE_OK(kith_group_split(info->world, info->rank % tp, info->rank, NULL, &grid.data));
    grid.data_rank = kith_group_rank(grid.data);
    kith_layers_options options = KITH_LAYERS_OPTIONS_INIT;
    options.dtype = dtype;
    options.tp = group;
    options.ep = has_experts ? grid.data : NULL;
    options.is_sequence_parallel = is_sequence_parallel;
    put_on_device(info, &options);
    options.is_debug = 1;
    options.seed = 42;
    REQUIRE_OK(kith_layers_create(&options, &grid.layers));
    return grid;
}

kith_optim_options options_of(rank_info *info, const grid_layers *grid)
{
    kith_optim_options options = KITH_OPTIM_OPTIONS_INIT;
    options.weight_decay = 0.1;
    options.clip_norm = 0.5;
    options.bucket_nbytes = 4096;
    options.data = grid->data;
    options.all = info->world;
    return options;
}

training make_training(const grid_layers *grid, const family *f, const kith_optim_options *options)
{
    kith_transformer_options transformer = KITH_TRANSFORMER_OPTIONS_INIT;
    transformer.config = &f->config;
    training t = { .s = make_setup(grid->layers, &transformer), .dp = grid->dp, .data_rank = grid->data_rank };
    REQUIRE_OK(kith_optim_create(grid->layers, options, &t.optim));
    return t;
}

void end_training(training *t)
{
    kith_optim_destroy(t->optim);
    end_setup(&t->s);
}

training train_alone(const family *f, kith_dtype dtype, const kith_optim_options *options)
{
    grid_layers grid = { .layers = layers_alone(dtype), .tp = 1, .dp = 1 };
    kith_optim_options alone = *options;
    alone.data = alone.expert_data = alone.all = alone.tied_group = NULL;
    alone.is_sharded = 0;
    return make_training(&grid, f, &alone);
}

/* [SEQUENCE, count], each sample a function of its number. */
static kith_tensor ids_of_samples(int step, int first, int count, unsigned which)
{
    int32_t *ids = malloc((size_t)(SEQUENCE * count) * sizeof *ids);
    REQUIRE(ids != NULL);
    for (int i = 0; i < SEQUENCE; i++)
        for (int s = 0; s < count; s++)
            ids[i * count + s] = (int32_t)(scrambled(which, (step * 100 + first + s) * SEQUENCE + i) % VOCABULARY);
    return kith_tensor_view(ids, KITH_INT32, 2, (const int64_t[]){ SEQUENCE, count });
}

void run_samples(setup *s, int step, int first, int count, double scale)
{
    kith_tensor ids = ids_of_samples(step, first, count, 1), targets = ids_of_samples(step, first, count, 2);
    kith_batch batch = KITH_BATCH_INIT;
    batch.sequence = SEQUENCE, batch.batch = count, batch.first_sample = (uint64_t)(step * 100 + first);
    REQUIRE_OK(kith_tape_begin(s->tape, &batch));
    REQUIRE_OK(kith_transformer_forward(s->transformer, s->tape, &ids, &targets, NULL, &s->loss));
    REQUIRE_OK(kith_transformer_backward(s->transformer, s->tape, NULL, scale, 1, NULL));
    REQUIRE_OK(kith_tape_weight_grads(s->tape));
    free(ids.data), free(targets.data);
}

void train(training *t, int first, int count, int samples)
{
    int own = samples / t->dp;
    for (int step = first; step < first + count; step++) {
        REQUIRE_OK(kith_optim_begin(t->optim, own));
        for (int i = 0; i < own; i++)
            run_samples(&t->s, step, t->data_rank * own + i, 1, 1.0 / (samples * SEQUENCE));
        REQUIRE_OK(kith_optim_step(t->optim, 0.01, &t->result));
        REQUIRE(t->result.step == step + 1 && !t->result.is_skipped);
    }
}

void require_same_values(const char *file, int line, kith_layers *got, kith_layers *wanted)
{
    REQUIRE(kith_layers_param_count(got) == kith_layers_param_count(wanted));
    for (size_t i = 0; i < kith_layers_param_count(got); i++) {
        const kith_param *a = kith_layers_param(got, i), *b = kith_layers_param(wanted, i);
        size_t each = kith_dtype_nbytes(a->value.dtype);
        kith_tensor of_a = on_host(&a->value), of_b = on_host(&b->value);
        const char *left = of_a.data, *right = of_b.data;
        for (int64_t e = 0; e < kith_tensor_count(&a->value); e++)
            if (memcmp(left + (size_t)e * each, right + (size_t)e * each, each) != 0)
                rank_fail(file, line, "%s: element %lld is %.17g, wanted %.17g to the bit", a->name, (long long)e,
                          element(&of_a, e), element(&of_b, e));
        free(of_a.data), free(of_b.data);
    }
}

void require_near_values(const char *file, int line, kith_layers *got, kith_layers *alone, double tolerance)
{
    for (size_t i = 0; i < kith_layers_param_count(got); i++) {
        kith_param *param = kith_layers_param(got, i);
        const kith_param *reference = kith_layers_find_param(alone, param->name);
        kith_tensor whole = kith_tensor_view(NULL, param->value.dtype, param->dim_count, param->global_shape);
        whole.data = calloc((size_t)kith_tensor_count(&whole) + 1, kith_dtype_nbytes(whole.dtype));
        REQUIRE(whole.data != NULL && reference != NULL);
        REQUIRE_OK(kith_param_gather(param, KITH_PARAM_VALUE, &whole));
        require_equal(file, line, param->name, &whole, &reference->value, tolerance);
        free(whole.data);
    }
}

void require_same_hash(const char *file, int line, kith_group *group, kith_layers *layers)
{
    uint64_t mine = kith_layers_hash_values(layers), first = mine;
    REQUIRE_OK(kith_broadcast(group, &first, 1, KITH_UINT64, 0));
    if (mine != first)
        rank_fail(file, line, "the hash of values is %016llx, rank 0's is %016llx", (unsigned long long)mine,
                  (unsigned long long)first);
}

kith_linear *add_linear(kith_layers *layers, const char *name, kith_linear_kind kind, int64_t rows, int64_t cols,
                        int has_bias)
{
    kith_linear_options options = KITH_LINEAR_OPTIONS_INIT;
    options.name = name, options.kind = kind, options.out_features = rows, options.in_features = cols;
    options.has_bias = has_bias;
    kith_linear *linear;
    REQUIRE_OK(kith_linear_create(layers, &options, &linear));
    return linear;
}

kith_norm *add_norm(kith_layers *layers, const char *name, int64_t elements)
{
    kith_norm_options options = KITH_NORM_OPTIONS_INIT;
    options.name = name, options.kind = KITH_RMS_NORM, options.features = elements;
    kith_norm *norm;
    REQUIRE_OK(kith_norm_create(layers, &options, &norm));
    return norm;
}

void put_grad(kith_layers *layers, const char *name, double value)
{
    const kith_param *param = kith_layers_find_param(layers, name);
    REQUIRE(param != NULL);
    for (int64_t i = 0; i < kith_tensor_count(&param->grad); i++)
        put_element(&param->grad, i, value);
}
