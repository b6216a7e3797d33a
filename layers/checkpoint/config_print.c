/* layers/checkpoint/config_print.c - a config.json that transformers reads.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "family.h"

#include "core/base/error.h"
#include "core/base/mem.h"
#include "core/text.h"
#include <kith/checkpoint.h>

#include <string.h>

static void add_key(ki_text *text, const char *key)
{
    ki_text_add(text, "%s\n  \"%s\": ", text->length > 1 ? "," : "", key);
}

static void add_whole(ki_text *text, const char *key, int64_t value)
{
    add_key(text, key);
    ki_text_add(text, "%lld", (long long)value);
}

static void add_number(ki_text *text, const char *key, double value)
{
    add_key(text, key);
    ki_text_add_number(text, value);
}

static void add_text(ki_text *text, const char *key, const char *value)
{
    add_key(text, key);
    ki_text_add_json(text, value);
}

static void add_flag(ki_text *text, const char *key, int value)
{
    add_key(text, key);
    ki_text_add(text, value ? "true" : "false");
}

static void add_gpt2(ki_text *text, const kith_transformer_config *c)
{
    add_text(text, "activation_function", ki_activation_name(c->activation));
    add_number(text, "attn_pdrop", c->attention_dropout);
    add_number(text, "embd_pdrop", c->dropout);
    add_number(text, "layer_norm_epsilon", c->norm_epsilon);
    add_whole(text, "n_ctx", c->positions);
    add_whole(text, "n_embd", c->hidden);
    add_whole(text, "n_head", c->heads);
    if (c->inner == 4 * c->hidden)
        add_text(text, "n_inner", NULL);
    else
        add_whole(text, "n_inner", c->inner);
    add_whole(text, "n_layer", c->blocks);
    add_whole(text, "n_positions", c->positions);
    add_number(text, "resid_pdrop", c->dropout);
}

/* Rotary positions have no end, so max_position_embeddings says nothing of the weights; transformers keeps tables of
 * that length, which grow. */
static void add_llama(ki_text *text, const kith_transformer_config *c)
{
    add_number(text, "attention_dropout", c->attention_dropout);
    add_whole(text, "head_dim", c->head_dim);
    add_text(text, "hidden_act", ki_activation_name(c->activation));
    add_whole(text, "hidden_size", c->hidden);
    add_whole(text, "intermediate_size", c->inner);
    add_whole(text, "max_position_embeddings", 32768);
    add_whole(text, "num_attention_heads", c->heads);
    add_whole(text, "num_hidden_layers", c->blocks);
    add_whole(text, "num_key_value_heads", c->kv_heads);
    add_number(text, "rms_norm_eps", c->norm_epsilon);
    add_text(text, "rope_scaling", NULL);
    add_number(text, "rope_theta", c->rotary_base);
    if (c->experts > 0) {
        add_whole(text, "num_experts_per_tok", c->top_k);
        add_whole(text, "num_local_experts", c->experts);
        add_number(text, "router_aux_loss_coef", c->auxiliary_weight);
        add_text(text, "sliding_window", NULL);
    }
}

static const char *torch_name(kith_dtype dtype)
{
    return dtype == KITH_F64    ? "float64"
           : dtype == KITH_F32  ? "float32"
           : dtype == KITH_BF16 ? "bfloat16"
           : dtype == KITH_F16  ? "float16"
                                : NULL;
}

kith_status kith_config_print(const kith_transformer_config *config, kith_dtype dtype, char **text)
{
    kith_transformer_config taken = KITH_TRANSFORMER_CONFIG_INIT;
    const ki_family *family = NULL;
    ki_text out = { 0 };
    if (text == NULL || torch_name(dtype) == NULL)
        return ki_fail(KITH_ERR_INVALID_ARG,
                       "kith_config_print: text must not be NULL, dtype f64, f32, bf16 or f16; it is %s",
                       kith_dtype_name(dtype));
    kith_status status = ki_config_take("kith_config_print", config, &taken);
    taken = ki_config_full(&taken);
    if (status == KITH_OK)
        status = ki_family_find("kith_config_print", &taken, &family);
    if (status != KITH_OK)
        return status;
    ki_text_add(&out, "{");
    add_key(&out, "architectures");
    ki_text_add(&out, "[\n    \"%s\"\n  ]", family->architecture);
    add_text(&out, "model_type", family->type);
    add_text(&out, "bos_token_id", NULL);
    add_text(&out, "eos_token_id", NULL);
    if (taken.norm == KITH_LAYER_NORM)
        add_gpt2(&out, &taken);
    else
        add_llama(&out, &taken);
    add_flag(&out, "tie_word_embeddings", taken.is_tied);
    add_text(&out, "torch_dtype", torch_name(dtype));
    add_flag(&out, "use_cache", 1);
    add_whole(&out, "vocab_size", taken.vocabulary);
    ki_text_add(&out, "\n}\n");
    if (out.is_failed) {
        ki_text_fini(&out);
        return ki_fail(KITH_ERR_NO_MEMORY, "kith_config_print: no memory for the text");
    }
    *text = out.chars;
    return KITH_OK;
}
