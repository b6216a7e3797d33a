/* tests/layers/layer_model.c - tiny models for tests.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "layer_model.h"

#include <string.h>

family gpt2(void)
{
    family f = { "gpt2", KITH_TRANSFORMER_CONFIG_INIT, 1e-9 };
    kith_transformer_gpt2(&f.config, 24, 2, 4, VOCABULARY, 16);
    return f;
}

family llama(void)
{
    family f = { "llama", KITH_TRANSFORMER_CONFIG_INIT, 1e-5 };
    kith_transformer_llama(&f.config, 24, 40, 3, 4, 2, VOCABULARY);
    return f;
}

family mixtral(void)
{
    family f = { "mixtral", KITH_TRANSFORMER_CONFIG_INIT, 1e-5 };
    kith_transformer_llama(&f.config, 24, 20, 2, 4, 2, VOCABULARY);
    f.config.experts = 4;
    f.config.top_k = 2;
    f.config.is_router_normalized = 1;
    return f;
}

/* As make_golden.py starts a model. */
static void start_params(kith_layers *layers)
{
    for (size_t i = 0; i < kith_layers_param_count(layers); i++) {
        kith_param *param = kith_layers_param(layers, i);
        int is_matrix = param->dim_count == 2;
        size_t nbytes = strlen(param->name);
        double base = strstr(param->name, "norm") != NULL && strcmp(param->name + nbytes - 6, "weight") == 0 ? 1 : 0;
        kith_tensor whole = numbers(KITH_F64, param->global_shape[0], is_matrix ? param->global_shape[1] : 1,
                                    seed_of_name(param->name), fraction);
        double *values = whole.data;
        for (int64_t e = 0; e < kith_tensor_count(&whole); e++)
            values[e] = is_matrix ? 0.3 * values[e] : base + 0.1 * values[e];
        kith_tensor shaped = kith_tensor_reshape(&whole, param->dim_count, param->global_shape);
        REQUIRE_OK(kith_param_load(param, &shaped));
        free(whole.data);
    }
}

void round_params(kith_layers *from, kith_layers *to)
{
    for (size_t i = 0; i < kith_layers_param_count(from); i++) {
        kith_param *param = kith_layers_param(from, i);
        kith_tensor whole = kith_tensor_view(NULL, param->value.dtype, param->dim_count, param->global_shape);
        whole.data = malloc((size_t)kith_tensor_count(&whole) * kith_dtype_nbytes(whole.dtype));
        REQUIRE_OK(kith_param_gather(param, KITH_PARAM_VALUE, &whole));
        REQUIRE_OK(kith_param_load(kith_layers_find_param(to, param->name), &whole));
        free(whole.data);
    }
}

kith_tensor ids_of(unsigned seed)
{
    int32_t *ids = malloc(TOKENS * sizeof *ids);
    REQUIRE(ids != NULL);
    for (int i = 0; i < TOKENS; i++)
        ids[i] = (int32_t)(scrambled(seed, i) % VOCABULARY);
    return kith_tensor_view(ids, KITH_INT32, 2, (const int64_t[]){ SEQUENCE, BATCH });
}

setup make_setup(kith_layers *layers, const kith_transformer_options *options)
{
    setup s = { .layers = layers, .sequence = SEQUENCE };
    REQUIRE_OK(kith_transformer_create(layers, options, &s.transformer));
    start_params(layers);
    s.tape = tape_of(layers, SEQUENCE, BATCH);
    return s;
}

void end_setup(setup *s)
{
    kith_tape_destroy(s->tape);
    REQUIRE_OK(kith_layers_destroy(s->layers));
}

void step(setup *s)
{
    kith_tensor ids = ids_of(1), targets = ids_of(2);
    REQUIRE_OK(kith_layers_zero_grads(s->layers));
    REQUIRE_OK(kith_transformer_forward(s->transformer, s->tape, &ids, &targets, NULL, &s->loss));
    REQUIRE(s->loss.count == TOKENS);
    REQUIRE_OK(kith_transformer_backward(s->transformer, s->tape, NULL, 1.0 / TOKENS, 1, NULL));
    REQUIRE(kith_tape_depth(s->tape) == 0);
    REQUIRE_OK(kith_tape_weight_grads(s->tape));
    REQUIRE_OK(kith_layers_finish_grads(s->layers));
    free(ids.data), free(targets.data);
}
