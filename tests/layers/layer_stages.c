/* tests/layers/layer_stages.c - a model's experts over ranks with other data, and a model over two stages.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "layer_model.h"

#include <math.h>

/* ---- experts over ranks with other data ---- */

/* A world of tp * 2: each half has one of the two samples and two of the four experts. */
static kith_layers *layers_with_experts(rank_info *info, int tp, int is_sequence_parallel, kith_group **ep)
{
    kith_group *group;
    REQUIRE_OK(kith_group_split(info->world, info->rank / tp, info->rank, NULL, &group));
    REQUIRE_OK(kith_group_split(info->world, info->rank % tp, info->rank, NULL, ep));
    kith_layers_options options = KITH_LAYERS_OPTIONS_INIT;
    options.dtype = KITH_F64;
    options.tp = group;
    options.ep = *ep;
    options.is_sequence_parallel = is_sequence_parallel;
    options.is_debug = 1;
    options.seed = 42;
    kith_layers *layers;
    REQUIRE_OK(kith_layers_create(&options, &layers));
    return layers;
}

/* This rank's sample of ids [SEQUENCE, BATCH]. */
static kith_tensor sample_of(unsigned seed, int sample)
{
    kith_tensor all = ids_of(seed);
    int32_t *ids = all.data;
    for (int i = 0; i < SEQUENCE; i++)
        ids[i] = ids[i * BATCH + sample];
    return kith_tensor_view(ids, KITH_INT32, 2, (const int64_t[]){ SEQUENCE, 1 });
}

/* Dense gradients are summands over the ranks with other data; an expert's are whole where it is. */
static void compare_expert_grads(kith_layers *layers, kith_layers *alone, kith_group *ep)
{
    for (size_t i = 0; i < kith_layers_param_count(layers); i++) {
        kith_param *param = kith_layers_param(layers, i);
        kith_tensor whole = kith_tensor_view(NULL, param->grad.dtype, param->dim_count, param->global_shape);
        size_t count = (size_t)kith_tensor_count(&whole);
        whole.data = malloc(count * sizeof(double));
        REQUIRE_OK(kith_param_gather(param, KITH_PARAM_GRAD, &whole));
        if (!param->is_expert)
            REQUIRE_OK(kith_all_reduce(ep, whole.data, whole.data, count, KITH_F64, KITH_SUM));
        REQUIRE_EQUAL(param->name, &whole, &kith_layers_find_param(alone, param->name)->grad, 1e-12);
        free(whole.data);
    }
}

void case_transformer_experts(rank_info *info)
{
    int tp = info->size / 2, sample = info->rank / tp;
    for (int sp = 0; sp < 2; sp++) {
        kith_transformer_options options = KITH_TRANSFORMER_OPTIONS_INIT;
        family f = mixtral();
        f.config.dropout = f.config.attention_dropout = 0.1;
        f.config.auxiliary_weight = 0.01;
        options.config = &f.config;
        setup alone = make_setup(layers_alone(KITH_F64), &options);
        step(&alone);
        kith_group *ep;
        setup s = make_setup(layers_with_experts(info, tp, sp, &ep), &options);
        kith_batch batch = KITH_BATCH_INIT;
        batch.sequence = SEQUENCE, batch.batch = 1, batch.first_sample = (uint64_t)sample;
        REQUIRE_OK(kith_tape_begin(s.tape, &batch));
        kith_tensor ids = sample_of(1, sample), targets = sample_of(2, sample);
        REQUIRE_OK(kith_transformer_forward(s.transformer, s.tape, &ids, &targets, NULL, &s.loss));
        REQUIRE_OK(kith_transformer_backward(s.transformer, s.tape, NULL, 1.0 / TOKENS, 1, NULL));
        REQUIRE_OK(kith_layers_finish_grads(s.layers));
        double sum = s.loss.sum;
        REQUIRE_OK(kith_all_reduce_scalar(ep, &sum, KITH_SUM));
        REQUIRE(fabs(sum - alone.loss.sum) <= 1e-12 * alone.loss.sum);
        REQUIRE(fabs(s.loss.auxiliary - alone.loss.auxiliary) <= 1e-12);
        compare_expert_grads(s.layers, alone.layers, ep);
        free(ids.data), free(targets.data);
        end_setup(&s);
        end_setup(&alone);
    }
}

/* ---- two stages of a pipeline, by hand ---- */

/* Rank 0 has the embedding and the first block, rank 1 the rest with the tied head: the whole model's loss and
 * gradients. */
void case_transformer_stages(rank_info *info)
{
    int is_first = info->rank == 0;
    kith_transformer_options options = KITH_TRANSFORMER_OPTIONS_INIT;
    family f = gpt2();
    f.config.dropout = 0.1;
    options.config = &f.config;
    setup alone = make_setup(layers_alone(KITH_F64), &options);
    step(&alone);
    options.first_block = is_first ? 0 : 1;
    options.block_count = 1;
    options.has_embedding = is_first;
    options.has_head = !is_first;
    setup s = make_setup(layers_alone(KITH_F64), &options);
    kith_param *table = kith_layers_find_param(s.layers, is_first ? "embedding.weight" : "head.weight");
    REQUIRE_OK(kith_param_load(table, &kith_layers_find_param(alone.layers, "embedding.weight")->value));
    kith_tensor ids = ids_of(1), targets = ids_of(2), x = { 0 }, dx = { 0 };
    size_t count = TOKENS * (size_t)f.config.hidden;
    kith_tensor other = numbers(KITH_F64, TOKENS, f.config.hidden, 1, fraction);
    if (is_first) {
        REQUIRE_OK(kith_transformer_forward(s.transformer, s.tape, &ids, NULL, &x, &s.loss));
        REQUIRE_OK(kith_broadcast(info->world, x.data, count, KITH_F64, 0));
        REQUIRE_OK(kith_broadcast(info->world, other.data, count, KITH_F64, 1));
        REQUIRE_OK(kith_transformer_backward(s.transformer, s.tape, &other, 1, 1, NULL));
    } else {
        REQUIRE_OK(kith_broadcast(info->world, other.data, count, KITH_F64, 0));
        REQUIRE_OK(kith_transformer_forward(s.transformer, s.tape, &other, &targets, NULL, &s.loss));
        REQUIRE(fabs(s.loss.sum - alone.loss.sum) <= 1e-12 * alone.loss.sum);
        REQUIRE_OK(kith_transformer_backward(s.transformer, s.tape, NULL, 1.0 / TOKENS, 1, &dx));
        REQUIRE_OK(kith_broadcast(info->world, dx.data, count, KITH_F64, 1));
    }
    REQUIRE_OK(kith_param_sum_tied(table, info->world));
    for (size_t i = 0; i < kith_layers_param_count(s.layers); i++) {
        kith_param *param = kith_layers_param(s.layers, i);
        const char *name = param == table ? "embedding.weight" : param->name;
        REQUIRE_EQUAL(name, &param->grad, &kith_layers_find_param(alone.layers, name)->grad, 1e-12);
    }
    kith_tensor_release(&x), kith_tensor_release(&dx);
    free(ids.data), free(targets.data), free(other.data);
    end_setup(&s);
    end_setup(&alone);
}
