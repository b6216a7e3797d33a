/* tests/layers/layer_refusals.c - what a transformer refuses costs no message and leaves the tape as it was; and
 * transformers that share a kith_layers.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "layer_model.h"

#include <math.h>
#include <string.h>

static uint64_t messages(const kith_layers *layers)
{
    kith_layers_traffic t;
    kith_layers_get_traffic(layers, &t);
    uint64_t sum = 0;
    for (int phase = 0; phase < KITH_PHASES; phase++)
        for (int kind = 0; kind < KITH_COLL_COUNT; kind++)
            sum += t.ops[phase][kind];
    return sum;
}

void case_transformer_refusals(rank_info *info)
{
    family f = gpt2();
    kith_transformer_options options = KITH_TRANSFORMER_OPTIONS_INIT;
    options.config = &f.config;
    setup s = make_setup(layers_over(info, info->size, KITH_F64, 0), &options);
    kith_tensor good = ids_of(1), bad = ids_of(2);
    ((int32_t *)bad.data)[3] = VOCABULARY;
    REQUIRE_OK(kith_transformer_forward(s.transformer, s.tape, &good, &good, NULL, NULL));
    size_t depth = kith_tape_depth(s.tape);
    uint64_t before = messages(s.layers);
    REQUIRE_STATUS(kith_transformer_forward(s.transformer, s.tape, &good, &bad, NULL, NULL), KITH_ERR_INVALID_ARG);
    REQUIRE_DETAIL("targets");
    REQUIRE_STATUS(kith_transformer_forward(s.transformer, s.tape, &bad, &good, NULL, NULL), KITH_ERR_INVALID_ARG);
    REQUIRE_DETAIL("ids");
    REQUIRE_STATUS(kith_transformer_backward(s.transformer, s.tape, NULL, 1, NAN, NULL), KITH_ERR_INVALID_ARG);
    REQUIRE_STATUS(kith_transformer_backward(s.transformer, s.tape, NULL, INFINITY, 1, NULL), KITH_ERR_INVALID_ARG);
    REQUIRE(messages(s.layers) == before && kith_tape_depth(s.tape) == depth);
    REQUIRE_OK(kith_transformer_backward(s.transformer, s.tape, NULL, 1, 1, NULL));
    REQUIRE(kith_tape_depth(s.tape) == 0);
    free(good.data), free(bad.data);
    end_setup(&s);
}

/* A layer of the caller's on the same place keeps its values. */
void case_transformer_init(rank_info *info)
{
    kith_layers *layers = layers_over(info, info->size, KITH_F64, 0);
    kith_linear_options options = KITH_LINEAR_OPTIONS_INIT;
    options.name = "mine", options.in_features = options.out_features = 8;
    kith_linear *linear;
    REQUIRE_OK(kith_linear_create(layers, &options, &linear));
    kith_param *weight = kith_linear_weight(linear, 0);
    REQUIRE_OK(kith_param_fill(weight, 7));
    family f = gpt2();
    kith_transformer_options transformer_options = KITH_TRANSFORMER_OPTIONS_INIT;
    transformer_options.config = &f.config;
    kith_transformer *transformer;
    REQUIRE_OK(kith_transformer_create(layers, &transformer_options, &transformer));
    memset(&f, 0xff, sizeof f); // needed for creation only
    REQUIRE_OK(kith_transformer_init(transformer, 1, 0.02));
    for (int64_t i = 0; i < kith_tensor_count(&weight->value); i++)
        REQUIRE(element(&weight->value, i) == 7);
    const kith_param *up = kith_layers_find_param(layers, "blocks.1.mlp.up.weight");
    REQUIRE(element(&up->value, 0) != 0 && fabs(element(&up->value, 0)) < 0.2);
    REQUIRE_OK(kith_layers_destroy(layers));
}

/* ---- both ends of a tied model on one place, as in a V of stages ---- */

static setup stage_of(kith_layers *layers, const family *f, int is_first)
{
    kith_transformer_options options = KITH_TRANSFORMER_OPTIONS_INIT;
    options.config = &f->config;
    options.first_block = !is_first, options.block_count = 1;
    options.has_embedding = is_first, options.has_head = !is_first;
    return make_setup(layers, &options);
}

void case_transformer_both_ends(rank_info *info)
{
    family f = gpt2();
    f.config.dropout = 0.1;
    kith_transformer_options options = KITH_TRANSFORMER_OPTIONS_INIT;
    options.config = &f.config;
    setup alone = make_setup(layers_alone(KITH_F64), &options);
    step(&alone);
    kith_layers *layers = layers_over(info, info->size, KITH_F64, 0);
    setup first = stage_of(layers, &f, 1), last = stage_of(layers, &f, 0);
    REQUIRE(kith_layers_find_param(layers, "head.weight") == NULL);
    REQUIRE(kith_layers_param_count(layers) == kith_layers_param_count(alone.layers));
    kith_tensor ids = ids_of(1), targets = ids_of(2), x = { 0 }, dx = { 0 };
    REQUIRE_OK(kith_transformer_forward(first.transformer, first.tape, &ids, NULL, &x, NULL));
    REQUIRE_OK(kith_transformer_forward(last.transformer, last.tape, &x, &targets, NULL, &last.loss));
    REQUIRE(fabs(last.loss.sum - alone.loss.sum) <= 1e-12 * alone.loss.sum);
    REQUIRE_OK(kith_transformer_backward(last.transformer, last.tape, NULL, 1.0 / TOKENS, 1, &dx));
    REQUIRE_OK(kith_transformer_backward(first.transformer, first.tape, &dx, 1, 1, NULL));
    REQUIRE_OK(kith_layers_finish_grads(layers));
    REQUIRE_SAME_GRADS(layers, alone.layers, 1e-12);
    kith_tensor_release(&x), kith_tensor_release(&dx);
    free(ids.data), free(targets.data);
    kith_tape_destroy(first.tape);
    end_setup(&last);
    end_setup(&alone);
    // the other way round the head has a weight already when the embedding comes
    layers = layers_over(info, info->size, KITH_F64, 0);
    last = stage_of(layers, &f, 0);
    options.block_count = 1, options.has_head = 0;
    kith_transformer *late;
    REQUIRE_STATUS(kith_transformer_create(layers, &options, &late), KITH_ERR_INVALID_ARG);
    REQUIRE_DETAIL("the one with the embedding is created first");
    end_setup(&last);
}
