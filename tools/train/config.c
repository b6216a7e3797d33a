/* tools/train/config.c - models by name, and the same model as the planner sees it.
 *
 * The built-in ones are small, so that a run of minutes on a processor shows something; whatever is larger has a
 * config.json.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "engine.h"

#include <string.h>

typedef struct builtin {
    const char *name;
    bool is_gpt2;
    int64_t hidden, inner, blocks, heads, kv_heads, vocabulary, positions, experts;
} builtin;

static const builtin builtins[] = {
    /* bytes, 4 blocks of 128, rotary positions (the default) */
    { "byte-llama", false, 128, 352, 4, 4, 2, 256, 0, 0 },
    /* bytes, 4 blocks of 32: for tests */
    { "tiny-llama", false, 32, 88, 4, 4, 2, 256, 0, 0 },
    /* bytes, 4 blocks of 128, learned positions, tied weights */
    { "byte-gpt2", true, 128, 512, 4, 4, 4, 256, 1024, 0 },
    /* bytes, 4 blocks of 32: for tests */
    { "tiny-gpt2", true, 32, 128, 4, 4, 4, 256, 64, 0 },
    /* bytes, 4 blocks of 128 with 8 experts, 2 for each token */
    { "byte-moe", false, 128, 256, 4, 4, 2, 256, 0, 8 },
    /* bytes, 2 blocks of 32 with 4 experts: for tests */
    { "tiny-moe", false, 32, 48, 2, 4, 2, 256, 0, 4 },
    /* GPT-2 of 124 million parameters, its own tokens */
    { "gpt2", true, 768, 3072, 12, 12, 12, 50257, 1024, 0 },
};
#define BUILTINS ((int)(sizeof builtins / sizeof builtins[0]))

const char *train_model_name(int index)
{
    return index >= 0 && index < BUILTINS ? builtins[index].name : NULL;
}

static kith_status fill(const builtin *b, kith_transformer_config *config)
{
    if (b->is_gpt2)
        return kith_transformer_gpt2(config, b->hidden, b->blocks, b->heads, b->vocabulary, b->positions);
    config->experts = b->experts;
    if (b->experts > 0) {
        config->top_k = 2;
        config->is_router_normalized = 1;
        config->auxiliary_weight = 0.01;
    }
    return kith_transformer_llama(config, b->hidden, b->inner, b->blocks, b->heads, b->kv_heads, b->vocabulary);
}

static bool is_path(const char *model)
{
    size_t length = strlen(model);
    return strchr(model, '/') != NULL || (length > 5 && strcmp(model + length - 5, ".json") == 0);
}

static bool unknown(const char *model, char *sentence, size_t nbytes)
{
    const char *names[BUILTINS];
    for (int i = 0; i < BUILTINS; i++)
        names[i] = builtins[i].name;
    const char *near = ki_nearest(model, names, BUILTINS);
    int used = snprintf(sentence, nbytes, "--model %s is no file (config.json) and no built-in model", model);
    if (near != NULL)
        snprintf(sentence + used, nbytes - (size_t)used, "; did you mean %s?", near);
    else
        snprintf(sentence + used, nbytes - (size_t)used,
                 "; built-in are byte-llama, byte-gpt2, byte-moe, tiny-llama, tiny-gpt2, tiny-moe and gpt2");
    return false;
}

bool train_config_find(const char *model, kith_transformer_config *config, char *sentence, size_t nbytes)
{
    model = model != NULL ? model : builtins[0].name;
    kith_status status = KITH_OK;
    int i = 0;
    while (i < BUILTINS && strcmp(model, builtins[i].name) != 0)
        i++;
    if (i < BUILTINS)
        status = fill(&builtins[i], config);
    else if (is_path(model))
        status = kith_config_read(model, config);
    else
        return unknown(model, sentence, nbytes);
    if (status != KITH_OK)
        snprintf(sentence, nbytes, "%s", kith_error_detail());
    return status == KITH_OK;
}

kith_model train_config_model(const char *name, const kith_transformer_config *config)
{
    kith_model model = { .layers = config->blocks,
                         .hidden = config->hidden,
                         .heads = config->heads,
                         .kv_heads = config->kv_heads > 0 ? config->kv_heads : config->heads,
                         .head_dim = config->head_dim,
                         .ffn = config->inner,
                         .vocab = config->vocabulary,
                         .positions = config->positions,
                         .experts = config->experts,
                         .top_k = config->top_k,
                         .moe_every = config->experts > 0,
                         .is_gated = config->is_gated,
                         .is_tied = config->is_tied,
                         .has_bias = config->has_bias,
                         .has_qkv_bias = config->has_qkv_bias,
                         .has_qk_norm = config->has_head_norms };
    snprintf(model.name, sizeof model.name, "%s", name);
    return model;
}
