/* layers/checkpoint/family.c - see family.h.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "family.h"

#include "core/base/error.h"
#include "core/base/mem.h"

#include <math.h>
#include <string.h>

/* GPT-2's linear layers are [in, out], and q, k and v are one of them. */
static const ki_name_row gpt2_rows[] = {
    { "embedding.weight", "wte.weight", KI_WORDS, KI_HIDDEN, KI_ALWAYS, true, false },
    { "embedding.positions", "wpe.weight", KI_POSITIONS, KI_HIDDEN, KI_ALWAYS, true, false },
    { "blocks.#.norm1.weight", "h.#.ln_1.weight", KI_HIDDEN, KI_NONE, KI_ALWAYS, true, false },
    { "blocks.#.norm1.bias", "h.#.ln_1.bias", KI_HIDDEN, KI_NONE, KI_ALWAYS, true, false },
    { "blocks.#.attention.q.weight", "h.#.attn.c_attn.weight", KI_QUERIES, KI_HIDDEN, KI_ALWAYS, true, true },
    { "blocks.#.attention.k.weight", "h.#.attn.c_attn.weight", KI_KEYS, KI_HIDDEN, KI_ALWAYS, true, true },
    { "blocks.#.attention.v.weight", "h.#.attn.c_attn.weight", KI_KEYS, KI_HIDDEN, KI_ALWAYS, true, true },
    { "blocks.#.attention.q.bias", "h.#.attn.c_attn.bias", KI_QUERIES, KI_NONE, KI_ALWAYS, true, false },
    { "blocks.#.attention.k.bias", "h.#.attn.c_attn.bias", KI_KEYS, KI_NONE, KI_ALWAYS, true, false },
    { "blocks.#.attention.v.bias", "h.#.attn.c_attn.bias", KI_KEYS, KI_NONE, KI_ALWAYS, true, false },
    { "blocks.#.attention.out.weight", "h.#.attn.c_proj.weight", KI_HIDDEN, KI_QUERIES, KI_ALWAYS, true, true },
    { "blocks.#.attention.out.bias", "h.#.attn.c_proj.bias", KI_HIDDEN, KI_NONE, KI_ALWAYS, true, false },
    { "blocks.#.norm2.weight", "h.#.ln_2.weight", KI_HIDDEN, KI_NONE, KI_ALWAYS, true, false },
    { "blocks.#.norm2.bias", "h.#.ln_2.bias", KI_HIDDEN, KI_NONE, KI_ALWAYS, true, false },
    { "blocks.#.mlp.up.weight", "h.#.mlp.c_fc.weight", KI_INNER, KI_HIDDEN, KI_ALWAYS, true, true },
    { "blocks.#.mlp.up.bias", "h.#.mlp.c_fc.bias", KI_INNER, KI_NONE, KI_ALWAYS, true, false },
    { "blocks.#.mlp.down.weight", "h.#.mlp.c_proj.weight", KI_HIDDEN, KI_INNER, KI_ALWAYS, true, true },
    { "blocks.#.mlp.down.bias", "h.#.mlp.c_proj.bias", KI_HIDDEN, KI_NONE, KI_ALWAYS, true, false },
    { "norm.weight", "ln_f.weight", KI_HIDDEN, KI_NONE, KI_ALWAYS, true, false },
    { "norm.bias", "ln_f.bias", KI_HIDDEN, KI_NONE, KI_ALWAYS, true, false },
    { "head.weight", "lm_head.weight", KI_WORDS, KI_HIDDEN, KI_WITH_OWN_HEAD, false, false },
    { NULL, NULL, KI_NONE, KI_NONE, KI_ALWAYS, false, false },
};

/* LLaMA and its descendants. */
static const ki_name_row llama_rows[] = {
    { "embedding.weight", "embed_tokens.weight", KI_WORDS, KI_HIDDEN, KI_ALWAYS, true, false },
    { "blocks.#.norm1.weight", "layers.#.input_layernorm.weight", KI_HIDDEN, KI_NONE, KI_ALWAYS, true, false },
    { "blocks.#.attention.q.weight", "layers.#.self_attn.q_proj.weight", KI_QUERIES, KI_HIDDEN, KI_ALWAYS, true,
      false },
    { "blocks.#.attention.k.weight", "layers.#.self_attn.k_proj.weight", KI_KEYS, KI_HIDDEN, KI_ALWAYS, true, false },
    { "blocks.#.attention.v.weight", "layers.#.self_attn.v_proj.weight", KI_KEYS, KI_HIDDEN, KI_ALWAYS, true, false },
    { "blocks.#.attention.q.bias", "layers.#.self_attn.q_proj.bias", KI_QUERIES, KI_NONE, KI_WITH_QKV_BIAS, true,
      false },
    { "blocks.#.attention.k.bias", "layers.#.self_attn.k_proj.bias", KI_KEYS, KI_NONE, KI_WITH_QKV_BIAS, true, false },
    { "blocks.#.attention.v.bias", "layers.#.self_attn.v_proj.bias", KI_KEYS, KI_NONE, KI_WITH_QKV_BIAS, true, false },
    { "blocks.#.attention.q_norm.weight", "layers.#.self_attn.q_norm.weight", KI_HEAD, KI_NONE, KI_WITH_HEAD_NORMS,
      true, false },
    { "blocks.#.attention.k_norm.weight", "layers.#.self_attn.k_norm.weight", KI_HEAD, KI_NONE, KI_WITH_HEAD_NORMS,
      true, false },
    { "blocks.#.attention.out.weight", "layers.#.self_attn.o_proj.weight", KI_HIDDEN, KI_QUERIES, KI_ALWAYS, true,
      false },
    { "blocks.#.norm2.weight", "layers.#.post_attention_layernorm.weight", KI_HIDDEN, KI_NONE, KI_ALWAYS, true, false },
    { "blocks.#.mlp.gate.weight", "layers.#.mlp.gate_proj.weight", KI_INNER, KI_HIDDEN, KI_WHEN_DENSE, true, false },
    { "blocks.#.mlp.up.weight", "layers.#.mlp.up_proj.weight", KI_INNER, KI_HIDDEN, KI_WHEN_DENSE, true, false },
    { "blocks.#.mlp.down.weight", "layers.#.mlp.down_proj.weight", KI_HIDDEN, KI_INNER, KI_WHEN_DENSE, true, false },
    { "blocks.#.moe.router.weight", "layers.#.block_sparse_moe.gate.weight", KI_EXPERTS, KI_HIDDEN, KI_WITH_EXPERTS,
      true, false },
    { "blocks.#.moe.experts.@.gate.weight", "layers.#.block_sparse_moe.experts.@.w1.weight", KI_INNER, KI_HIDDEN,
      KI_WITH_EXPERTS, true, false },
    { "blocks.#.moe.experts.@.up.weight", "layers.#.block_sparse_moe.experts.@.w3.weight", KI_INNER, KI_HIDDEN,
      KI_WITH_EXPERTS, true, false },
    { "blocks.#.moe.experts.@.down.weight", "layers.#.block_sparse_moe.experts.@.w2.weight", KI_HIDDEN, KI_INNER,
      KI_WITH_EXPERTS, true, false },
    { "norm.weight", "norm.weight", KI_HIDDEN, KI_NONE, KI_ALWAYS, true, false },
    { "head.weight", "lm_head.weight", KI_WORDS, KI_HIDDEN, KI_WITH_OWN_HEAD, false, false },
    { NULL, NULL, KI_NONE, KI_NONE, KI_ALWAYS, false, false },
};

/* The defaults are those of the configuration classes of transformers. */
static const ki_family families[] = {
    { "gpt2", "GPT2LMHeadModel", "transformer.", gpt2_rows, 1e-5, 0, "gelu_new", 0 },
    { "llama", "LlamaForCausalLM", "model.", llama_rows, 1e-6, 10000, "silu", 0 },
    { "mistral", "MistralForCausalLM", "model.", llama_rows, 1e-6, 10000, "silu", 0 },
    { "mixtral", "MixtralForCausalLM", "model.", llama_rows, 1e-5, 1000000, "silu", 0.001 },
    { "qwen2", "Qwen2ForCausalLM", "model.", llama_rows, 1e-6, 10000, "silu", 0 },
    { "qwen3", "Qwen3ForCausalLM", "model.", llama_rows, 1e-6, 10000, "silu", 0 },
};
enum { FAMILY_COUNT = sizeof families / sizeof families[0] };

const ki_family *ki_family_named(const char *type)
{
    for (int i = 0; i < FAMILY_COUNT; i++)
        if (strcmp(families[i].type, type) == 0)
            return &families[i];
    return NULL;
}

kith_status ki_config_take(const char *function, const kith_transformer_config *given, kith_transformer_config *taken)
{
    if (given == NULL || !ki_options_copy(taken, sizeof *taken, given, sizeof given->struct_size))
        return ki_fail(KITH_ERR_INVALID_ARG, "%s: config is NULL or was not made with KITH_TRANSFORMER_CONFIG_INIT",
                       function);
    return KITH_OK;
}

kith_transformer_config ki_config_full(const kith_transformer_config *config)
{
    kith_transformer_config full = *config;
    if (full.kv_heads == 0)
        full.kv_heads = full.heads;
    if (full.head_dim == 0 && full.heads > 0)
        full.head_dim = full.hidden / full.heads;
    if (full.norm_epsilon == 0)
        full.norm_epsilon = 1e-5;
    full.is_tied = full.is_tied != 0;
    return full;
}

/* Sizes up to 2^31 are multiplied in pairs below. */
static kith_status check_sizes(const char *function, const kith_transformer_config *c)
{
    const struct {
        const char *name;
        int64_t value, least;
    } sizes[] = { { "hidden", c->hidden, 1 },         { "inner", c->inner, 1 },         { "blocks", c->blocks, 0 },
                  { "heads", c->heads, 1 },           { "kv_heads", c->kv_heads, 1 },   { "head_dim", c->head_dim, 1 },
                  { "vocabulary", c->vocabulary, 1 }, { "positions", c->positions, 0 }, { "experts", c->experts, 0 } };
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        if (sizes[i].value < sizes[i].least || sizes[i].value > INT64_C(1) << 31)
            return ki_fail(KITH_ERR_INVALID_ARG, "%s: %s of the configuration is %lld, wanted %lld to 2^31", function,
                           sizes[i].name, (long long)sizes[i].value, (long long)sizes[i].least);
    if (c->heads > INT64_C(1) << 20 || c->head_dim > INT64_C(1) << 20)
        return ki_fail(KITH_ERR_INVALID_ARG, "%s: heads and head_dim may be at most 2^20", function);
    return KITH_OK;
}

/* What keeps a configuration from being of this family; NULL: nothing. */
static const char *why_not_gpt2(const kith_transformer_config *c)
{
    if (c->positions == 0 || c->rotary_base != 0)
        return "GPT-2 has learned positions and no rotary ones";
    if (!c->has_bias || c->is_gated || c->has_head_norms || c->experts > 0)
        return "GPT-2 has biases, a plain feed-forward layer, no norms of heads and no experts";
    if (c->kv_heads != c->heads || c->head_dim * c->heads != c->hidden)
        return "GPT-2 has as many key heads as heads, which together are as wide as hidden";
    return NULL;
}

static const char *why_not_llama(const kith_transformer_config *c)
{
    if (c->positions != 0 || !(c->rotary_base > 0))
        return "families with RMS norms have rotary positions and no learned ones";
    if (c->has_bias || !c->is_gated)
        return "families with RMS norms have a gated feed-forward layer, and no biases but of q, k and v";
    if (c->experts > 0 && (c->has_qkv_bias || c->has_head_norms))
        return "Mixtral, the family with experts, has no biases and no norms of heads";
    if (c->experts > 0 && (!c->is_router_normalized || c->top_k < 1))
        return "Mixtral, the family with experts, divides the weights of the chosen ones by their sum";
    if (c->has_qkv_bias && c->has_head_norms)
        return "there are biases of q, k, v (Qwen2) or norms of heads (Qwen3), not both";
    return NULL;
}

kith_status ki_family_find(const char *function, const kith_transformer_config *config, const ki_family **family)
{
    kith_status status = check_sizes(function, config);
    if (status != KITH_OK)
        return status;
    bool is_gpt2 = config->norm == KITH_LAYER_NORM;
    const char *why = is_gpt2 ? why_not_gpt2(config) : why_not_llama(config);
    if (why == NULL && ki_activation_name(config->activation) == NULL)
        why = "the activation is none of layers'";
    if (why != NULL)
        return ki_fail(KITH_ERR_UNSUPPORTED, "%s: no family of Hugging Face's has this shape: %s", function, why);
    *family = ki_family_named(is_gpt2                  ? "gpt2"
                              : config->experts > 0    ? "mixtral"
                              : config->has_qkv_bias   ? "qwen2"
                              : config->has_head_norms ? "qwen3"
                                                       : "llama");
    return KITH_OK;
}

/* The first name of each is the one that is written. */
static const struct {
    const char *name;
    kith_activation activation;
} activations[] = {
    { "gelu", KITH_GELU }, { "gelu_new", KITH_GELU_TANH }, { "gelu_pytorch_tanh", KITH_GELU_TANH },
    { "silu", KITH_SILU }, { "swish", KITH_SILU },
};
enum { ACTIVATION_COUNT = sizeof activations / sizeof activations[0] };

const char *ki_activation_name(kith_activation activation)
{
    for (int i = 0; i < ACTIVATION_COUNT; i++)
        if (activations[i].activation == activation)
            return activations[i].name;
    return NULL;
}

bool ki_activation_find(const char *name, kith_activation *activation)
{
    for (int i = 0; i < ACTIVATION_COUNT; i++)
        if (strcmp(activations[i].name, name) == 0) {
            *activation = activations[i].activation;
            return true;
        }
    return false;
}

bool ki_is_leftover(const char *tensor)
{
    static const char *const ends[] = { ".attn.bias", ".attn.masked_bias", ".rotary_emb.inv_freq" };
    size_t nbytes = strlen(tensor);
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        size_t end = strlen(ends[i]);
        if (nbytes > end && strcmp(tensor + nbytes - end, ends[i]) == 0)
            return true;
    }
    return false;
}
