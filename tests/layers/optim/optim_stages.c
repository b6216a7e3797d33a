/* tests/layers/optim/optim_stages.c - optimizers of a pipeline's stages: tied weights, and stages without parameters.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "optim_cases.h"

#include <math.h>

enum { WORDS = 10, FEATURES = 3 };

/* The first and the last stage, each of size / 2 ranks; each with one table. With tp 2 there are summands over tp
 * beside it, of other sizes on both stages. */
typedef struct stage {
    int is_last, tp;
    kith_group *data, *tied;
    kith_layers *layers;
    kith_param *weight;
    kith_optim *optim;
} stage;

static kith_param *make_head(kith_layers *layers, int has_more)
{
    kith_head_options options = KITH_HEAD_OPTIONS_INIT;
    options.name = "head", options.vocabulary = WORDS, options.features = FEATURES;
    kith_head *head;
    if (has_more)
        add_norm(layers, "norm", FEATURES); // behind the weight in the bucket, as what is made later comes first
    REQUIRE_OK(kith_head_create(layers, &options, &head));
    return kith_head_weight(head);
}

static kith_param *make_embedding(kith_layers *layers, int has_more)
{
    kith_embedding_options options = KITH_EMBEDDING_OPTIONS_INIT;
    options.name = "embedding", options.vocabulary = WORDS, options.features = FEATURES;
    options.positions = has_more ? 50 : 0;
    kith_embedding *embedding;
    REQUIRE_OK(kith_embedding_create(layers, &options, &embedding));
    return kith_embedding_weight(embedding);
}

static stage make_stage(rank_info *info, int tp, int is_sharded)
{
    int ranks = info->size / 2; // of a stage
    stage s = { .is_last = info->rank >= ranks, .tp = tp };
    kith_layers_options place = KITH_LAYERS_OPTIONS_INIT;
    place.dtype = KITH_F64, place.is_debug = 1, place.is_sequence_parallel = tp > 1;
    REQUIRE_OK(kith_group_split(info->world, info->rank / tp, info->rank, NULL, &place.tp));
    REQUIRE_OK(kith_group_split(info->world, s.is_last * tp + info->rank % tp, info->rank, NULL, &s.data));
    REQUIRE_OK(kith_group_split(info->world, info->rank % ranks, info->rank, NULL, &s.tied));
    REQUIRE_OK(kith_layers_create(&place, &s.layers));
    s.weight = s.is_last ? make_head(s.layers, tp > 1) : make_embedding(s.layers, tp > 1);
    load_params(s.layers, fraction);
    REQUIRE_OK(kith_param_tie(s.weight, s.tied));
    kith_optim_options options = KITH_OPTIM_OPTIONS_INIT;
    options.kind = KITH_SGD, options.is_sharded = is_sharded, options.allows_unused = 1, options.momentum = 0.9;
    options.data = s.data, options.all = info->world, options.tied = s.weight, options.tied_group = s.tied;
    REQUIRE_OK(kith_optim_create(s.layers, &options, &s.optim));
    kith_optim_bucket bucket;
    REQUIRE_OK(kith_optim_get_bucket(s.optim, 0, &bucket));
    REQUIRE(kith_optim_bucket_count(s.optim) == 1 && bucket.is_late);
    return s;
}

static void end_stage(stage *s)
{
    kith_optim_destroy(s->optim);
    REQUIRE_OK(kith_layers_destroy(s->layers));
}

/* dp 2, pp 2, gradients 1, 2, 3 and 4, each halved by the loss: 5 on all four. Summed after the reduce-scatter, parts
 * that belong to different ranks would be mixed: 4.5 and 5.5 (Megatron-LM#844). Bounds of shards differ between the
 * stages when they have other parameters beside: on eight ranks with tp 2. */
void case_tied_before_scatter(rank_info *info)
{
    int tp = info->size / 4;
    for (int is_sharded = 0; is_sharded < 2; is_sharded++) {
        stage s = make_stage(info, tp, is_sharded);
        REQUIRE_OK(kith_param_fill(s.weight, 0));
        REQUIRE_OK(kith_optim_begin(s.optim, 1));
        put_grad(s.layers, s.weight->name, (2 * s.is_last + kith_group_rank(s.data) + 1) / 2.0);
        REQUIRE_OK(kith_optim_step(s.optim, 1, NULL));
        for (int64_t i = 0; i < kith_tensor_count(&s.weight->value); i++)
            REQUIRE_NEAR(element(&s.weight->value, i), -5.0, 0);
        end_stage(&s);
    }
}

/* Copies on two stages stay equal to the bit, step after step (Megatron-LM#299). */
void case_tied_stages_stay_equal(rank_info *info)
{
    for (int is_sharded = 0; is_sharded < 2; is_sharded++) {
        stage s = make_stage(info, 1, is_sharded);
        for (int step = 0; step < 3; step++) {
            REQUIRE_OK(kith_optim_begin(s.optim, 1));
            for (int64_t i = 0; i < WORDS * FEATURES; i++)
                put_element(&s.weight->grad, i, fraction((unsigned)(7 * step + info->rank), i));
            REQUIRE_OK(kith_optim_step(s.optim, 0.1, NULL));
            double first[WORDS * FEATURES];
            for (int64_t i = 0; i < WORDS * FEATURES; i++)
                first[i] = element(&s.weight->value, i);
            REQUIRE_OK(kith_broadcast(info->world, first, WORDS * FEATURES, KITH_F64, 0));
            for (int64_t i = 0; i < WORDS * FEATURES; i++)
                REQUIRE_NEAR(element(&s.weight->value, i), first[i], 0);
        }
        end_stage(&s);
    }
}

/* Both stages have the sum of all gradients; the norm counts it once, not sqrt(2) times. */
void case_norm_counts_tied_once(rank_info *info)
{
    for (int is_sharded = 0; is_sharded < 2; is_sharded++) {
        stage s = make_stage(info, 1, is_sharded);
        REQUIRE_OK(kith_optim_begin(s.optim, 1));
        put_grad(s.layers, s.weight->name, 1);
        double norm;
        REQUIRE_OK(kith_optim_reduce(s.optim, &norm));
        REQUIRE_NEAR(norm, info->size * sqrt(WORDS * FEATURES), 1e-15);
        end_stage(&s);
    }
}

/* Two stages of one model in one process share the weight: one copy, two uses, nothing to send; and the training is
 * that of the whole model. */
void case_two_stages_of_one_rank(rank_info *info)
{
    (void)info;
    family f = gpt2();
    kith_optim_options options = KITH_OPTIM_OPTIONS_INIT;
    kith_layers *layers = layers_alone(KITH_F64);
    kith_transformer_options half = KITH_TRANSFORMER_OPTIONS_INIT;
    half.config = &f.config, half.block_count = 1, half.has_head = 0;
    kith_transformer *first, *last;
    REQUIRE_OK(kith_transformer_create(layers, &half, &first));
    half.first_block = 1, half.has_embedding = 0, half.has_head = 1;
    REQUIRE_OK(kith_transformer_create(layers, &half, &last));
    training whole = train_alone(&f, KITH_F64, &options);
    round_params(whole.s.layers, layers);
    kith_optim *optim;
    REQUIRE_OK(kith_optim_create(layers, &options, &optim));
    kith_tape *tapes[] = { tape_of(layers, SEQUENCE, BATCH), tape_of(layers, SEQUENCE, BATCH) };
    kith_tensor ids = ids_of(1), targets = ids_of(2), x, dx;
    REQUIRE_OK(kith_optim_begin(optim, 1));
    REQUIRE_OK(kith_transformer_forward(first, tapes[0], &ids, NULL, &x, NULL));
    REQUIRE_OK(kith_transformer_forward(last, tapes[1], &x, &targets, NULL, NULL));
    REQUIRE_OK(kith_transformer_backward(last, tapes[1], NULL, 1.0 / TOKENS, 1, &dx));
    REQUIRE_OK(kith_transformer_backward(first, tapes[0], &dx, 1, 1, NULL));
    REQUIRE_OK(kith_optim_step(optim, 0.01, NULL));
    REQUIRE_OK(kith_optim_begin(whole.optim, 1));
    step(&whole.s);
    REQUIRE_OK(kith_optim_step(whole.optim, 0.01, NULL));
    for (size_t i = 0; i < kith_layers_param_count(layers); i++) {
        const kith_param *param = kith_layers_param(layers, i);
        REQUIRE_EQUAL(param->name, &param->value, &kith_layers_find_param(whole.s.layers, param->name)->value, 0);
    }
    kith_tensor_release(&x), kith_tensor_release(&dx);
    free(ids.data), free(targets.data);
    kith_tape_destroy(tapes[0]), kith_tape_destroy(tapes[1]);
    kith_optim_destroy(optim);
    REQUIRE_OK(kith_layers_destroy(layers));
    end_training(&whole);
}

/* A stage without parameters takes part in the norm, and the step completes (DeepSpeed#1522). */
void case_empty_stage(rank_info *info)
{
    kith_layers *layers = layers_alone(KITH_F64);
    int is_empty = info->rank >= info->size / 2;
    kith_optim_options options = KITH_OPTIM_OPTIONS_INIT;
    REQUIRE_OK(kith_group_split(info->world, is_empty, info->rank, NULL, &options.data));
    options.all = info->world, options.allows_unused = 1, options.is_sharded = 1;
    if (!is_empty)
        add_norm(layers, "norm", 5);
    kith_optim *optim;
    REQUIRE_OK(kith_optim_create(layers, &options, &optim));
    REQUIRE(kith_optim_bucket_count(optim) == (size_t)!is_empty);
    REQUIRE_OK(kith_optim_begin(optim, 3));
    if (!is_empty)
        put_grad(layers, "norm.weight", 2);
    kith_optim_result result;
    REQUIRE_OK(kith_optim_step(optim, 0.1, &result));
    REQUIRE_NEAR(result.grad_norm, info->size * sqrt(5), 1e-15);
    REQUIRE(result.step == 1);
    kith_optim_destroy(optim);
    REQUIRE_OK(kith_layers_destroy(layers));
}
