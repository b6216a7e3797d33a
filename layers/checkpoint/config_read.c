/* layers/checkpoint/config_read.c - what a model computes, out of a config.json as Hugging Face writes it.
 *
 * The shape is what the planner reads (kith_model_parse()); here comes what a planner does not need: positions, norms,
 * activation. A key that is missing means what it means to transformers. What layers would compute differently is
 * refused.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "family.h"

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/json_fields.h"
#include <kith/checkpoint.h>

#include <stdlib.h>
#include <string.h>

#define FILE_MOST ((size_t)16 << 20)

/* kith_model_parse() has refused what it does not know; without a type it tells by the same key. */
static const ki_family *family_of(ki_json_fields *in)
{
    const char *otherwise = ki_json_find(in, "n_embd") != NULL ? "gpt2" : "llama";
    const char *type = ki_json_text(in, "model_type", otherwise);
    const ki_family *family = in->status == KITH_OK ? ki_family_named(type) : NULL;
    if (in->status == KITH_OK && family == NULL)
        in->status =
            ki_fail_quiet(KITH_ERR_UNSUPPORTED,
                          "%s: 'model_type' %.40s can be planned, but there are no layers for it; there are for "
                          "gpt2, llama, mistral, mixtral, qwen2, qwen3",
                          in->path, type);
    return family;
}

static void read_shape(const kith_model *model, kith_transformer_config *config)
{
    config->hidden = model->hidden;
    config->inner = model->ffn;
    config->blocks = model->layers;
    config->heads = model->heads;
    config->kv_heads = model->kv_heads;
    config->head_dim = model->head_dim;
    config->vocabulary = model->vocab;
    config->positions = model->positions;
    config->is_gated = model->is_gated;
    config->is_tied = model->is_tied;
    config->has_bias = model->has_bias;
    config->has_qkv_bias = model->has_qkv_bias;
    config->has_head_norms = model->has_qk_norm;
    config->experts = model->experts;
    config->top_k = model->top_k;
    config->is_router_normalized = model->experts > 0;
}

static void read_activation(ki_json_fields *in, const char *key, const ki_family *family,
                            kith_transformer_config *config)
{
    const char *name = ki_json_text(in, key, family->activation);
    if (in->status == KITH_OK && !ki_activation_find(name, &config->activation))
        in->status = ki_fail_quiet(KITH_ERR_UNSUPPORTED,
                                   "%s: '%s' is %.40s; layers have gelu, gelu_new, gelu_pytorch_tanh, silu", in->path,
                                   key, name);
}

static void refuse(ki_json_fields *in, const char *key, const char *what)
{
    if (in->status == KITH_OK)
        in->status = ki_fail_quiet(KITH_ERR_UNSUPPORTED, "%s: '%s' %s", in->path, key, what);
}

static void read_gpt2(ki_json_fields *in, const ki_family *family, kith_transformer_config *config)
{
    config->norm = KITH_LAYER_NORM;
    config->rotary_base = 0;
    config->norm_epsilon = ki_json_number(in, "layer_norm_epsilon", 1e-30, 1, family->norm_epsilon);
    config->dropout = ki_json_number(in, "resid_pdrop", 0, 0.999, config->dropout);
    config->attention_dropout = ki_json_number(in, "attn_pdrop", 0, 0.999, config->attention_dropout);
    read_activation(in, "activation_function", family, config);
    if (!ki_json_flag(in, "scale_attn_weights", true))
        refuse(in, "scale_attn_weights", "is false: layers divide by the square root of the head's size");
    ki_json_refuse_flag(in, "scale_attn_by_inverse_layer_idx", "layers do not divide by the number of the block");
}

/* Rotary positions that are scaled for longer texts are other positions. */
static void check_scaling(ki_json_fields *in, const char *key)
{
    const ki_json *scaling = ki_json_find(in, key);
    if (scaling == NULL || in->status != KITH_OK)
        return;
    ki_json_fields inside = { in->path, scaling, KITH_OK };
    if (scaling->type != KI_JSON_OBJECT) {
        in->status =
            ki_fail_quiet(KITH_ERR_INVALID_ARG, "%s:%d: '%s' must be an object or null", in->path, scaling->line, key);
        return;
    }
    const char *type = ki_json_text(&inside, "type", "default");
    type = ki_json_text(&inside, "rope_type", type);
    in->status = inside.status;
    if (in->status == KITH_OK && strcmp(type, "default") != 0)
        refuse(in, key, "asks for scaled rotary positions, which layers do not have; wanted null or \"default\"");
}

static double read_rotary_base(ki_json_fields *in, const ki_family *family)
{
    double base = ki_json_number(in, "rope_theta", 1, 1e15, family->rotary_base);
    const ki_json *parameters = ki_json_find(in, "rope_parameters"); /* as transformers 5 writes it */
    check_scaling(in, "rope_scaling");
    check_scaling(in, "rope_parameters");
    if (parameters != NULL && in->status == KITH_OK) {
        ki_json_fields inside = { in->path, parameters, KITH_OK };
        base = ki_json_number(&inside, "rope_theta", 1, 1e15, base);
        in->status = inside.status;
    }
    if (ki_json_number(in, "partial_rotary_factor", 0, 1, 1) != 1)
        refuse(in, "partial_rotary_factor", "is not 1: layers rotate whole heads");
    return base;
}

/* A window that no text is longer than is none. In Mistral's configuration a missing one is 4096, in others none;
 * Qwen's is in use only where another key says so. */
static void check_window(ki_json_fields *in, const ki_family *family)
{
    bool is_qwen = strncmp(family->type, "qwen", 4) == 0;
    int64_t absent = strcmp(family->type, "mistral") == 0 ? 4096 : 0;
    const ki_json *there = ki_json_member(in->root, "sliding_window");
    bool is_null = there != NULL && there->type == KI_JSON_NULL;
    if (is_qwen && !ki_json_flag(in, "use_sliding_window", false))
        return;
    int64_t window = is_null ? 0 : ki_json_integer(in, "sliding_window", 0, INT64_C(1) << 40, absent);
    int64_t longest = ki_json_integer(in, "max_position_embeddings", 1, INT64_C(1) << 40, INT64_C(1) << 40);
    if (in->status == KITH_OK && window > 0 && window < longest)
        in->status = ki_fail_quiet(KITH_ERR_UNSUPPORTED,
                                   "%s: a 'sliding_window' of %lld positions%s: layers attend to all; where texts are "
                                   "no longer than that, write null",
                                   in->path, (long long)window, there == NULL ? " (what a missing one means)" : "");
}

static void read_llama(ki_json_fields *in, const ki_family *family, kith_transformer_config *config)
{
    config->norm = KITH_RMS_NORM;
    config->norm_epsilon = ki_json_number(in, "rms_norm_eps", 1e-30, 1, family->norm_epsilon);
    config->rotary_base = read_rotary_base(in, family);
    config->attention_dropout = ki_json_number(in, "attention_dropout", 0, 0.999, config->attention_dropout);
    if (config->experts > 0)
        config->auxiliary_weight = ki_json_number(in, "router_aux_loss_coef", 0, 1e6, family->auxiliary_weight);
    read_activation(in, "hidden_act", family, config);
    check_window(in, family);
}

static kith_status read_tree(const char *name, const ki_json *root, const kith_model *model,
                             kith_transformer_config *config)
{
    ki_json_fields in = { name, root, KITH_OK };
    const ki_family *family = family_of(&in);
    if (family == NULL)
        return in.status;
    read_shape(model, config);
    if (strcmp(family->type, "gpt2") == 0)
        read_gpt2(&in, family, config);
    else
        read_llama(&in, family, config);
    return in.status;
}

kith_status kith_config_parse(const char *name, const char *text, size_t nbytes, kith_transformer_config *config)
{
    kith_transformer_config read = KITH_TRANSFORMER_CONFIG_INIT;
    kith_model model;
    ki_json *root = NULL;
    if (text == NULL)
        return ki_fail(KITH_ERR_INVALID_ARG, "kith_config_parse: text must not be NULL");
    name = name != NULL ? name : "config.json";
    kith_status status = ki_config_take("kith_config_parse", config, &read);
    if (status == KITH_OK)
        status = kith_model_parse(name, text, nbytes, &model);
    if (status == KITH_OK)
        status = ki_json_parse(NULL, name, text, nbytes, &root);
    if (status == KITH_OK)
        status = read_tree(name, root, &model, &read);
    ki_json_free(NULL, root);
    if (status == KITH_OK) {
        size_t given = config->struct_size;
        memcpy(config, &read, given < sizeof read ? given : sizeof read);
        config->struct_size = given;
    }
    return status;
}

kith_status kith_config_read(const char *path, kith_transformer_config *config)
{
    char *text = NULL;
    size_t nbytes = 0;
    if (path == NULL)
        return ki_fail(KITH_ERR_INVALID_ARG, "kith_config_read: path must not be NULL");
    kith_status status = ki_file_read(path, FILE_MOST, &text, &nbytes);
    if (status == KITH_OK)
        status = kith_config_parse(path, text, nbytes, config);
    free(text);
    return status;
}

/* ---- is it this model? ---- */

kith_status ki_config_compare(const char *path, const kith_transformer_config *config)
{
    kith_transformer_config read = KITH_TRANSFORMER_CONFIG_INIT;
    kith_status status = kith_config_read(path, &read);
    if (status != KITH_OK)
        return status;
    kith_transformer_config there = ki_config_full(&read), here = ki_config_full(config);
    const struct {
        const char *name;
        double there, here;
    } values[] = {
#define BOTH(field) { #field, (double)there.field, (double)here.field }
        BOTH(hidden),     BOTH(inner),   BOTH(blocks),       BOTH(heads),     BOTH(kv_heads),    BOTH(head_dim),
        BOTH(vocabulary), BOTH(norm),    BOTH(norm_epsilon), BOTH(positions), BOTH(rotary_base), BOTH(activation),
        BOTH(top_k),      BOTH(experts), BOTH(is_gated),     BOTH(is_tied),
#undef BOTH
    };
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++)
        if (values[i].there != values[i].here)
            return ki_fail_quiet(KITH_ERR_INVALID_ARG, "%s: the model there has %s %.17g, this one %.17g", path,
                                 values[i].name, values[i].there, values[i].here);
    return KITH_OK;
}
