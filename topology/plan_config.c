/* topology/plan_config.c - the shape of a model out of a config.json as Hugging Face writes it.
 *
 * Keys mean what they mean to the model's own code: a value may be missing only where that code derives it from another
 * one (K and V heads of LLaMA, the inner size of GPT-2). Where a default of that code is a number of one model, a
 * missing key is refused, for the number would be a guess about this one.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "core/base/error.h"
#include "core/base/json_fields.h"
#include <kith/plan.h>

#include <limits.h>
#include <stdio.h>
#include <string.h>

#define LAYERS_MAX 100000
#define WIDTH_MAX (1 << 24)
#define VOCAB_MAX (1 << 28)
#define EXPERTS_MAX (1 << 16)

typedef ki_json_fields reader;

static int64_t read_width(reader *in, const char *key, int64_t fallback)
{
    return ki_json_integer(in, key, 1, WIDTH_MAX, fallback);
}

static void read_gpt2(reader *in, kith_model *model)
{
    model->layers = ki_json_integer(in, "n_layer", 1, LAYERS_MAX, -1);
    model->hidden = read_width(in, "n_embd", -1);
    model->heads = read_width(in, "n_head", -1);
    model->kv_heads = model->heads;
    model->ffn = read_width(in, "n_inner", 4 * model->hidden);
    model->vocab = ki_json_integer(in, "vocab_size", 1, VOCAB_MAX, -1);
    model->positions =
        ki_json_integer(in, ki_json_find(in, "n_positions") != NULL ? "n_positions" : "n_ctx", 1, INT_MAX, -1);
    model->is_tied = ki_json_flag(in, "tie_word_embeddings", true);
    model->has_bias = true;
    ki_json_refuse_flag(in, "add_cross_attention", "cross attention is not counted");
}

/* What LLaMA and all its descendants have. */
static void read_llama(reader *in, kith_model *model)
{
    model->layers = ki_json_integer(in, "num_hidden_layers", 1, LAYERS_MAX, -1);
    model->hidden = read_width(in, "hidden_size", -1);
    model->heads = read_width(in, "num_attention_heads", -1);
    model->ffn = read_width(in, "intermediate_size", -1);
    model->vocab = ki_json_integer(in, "vocab_size", 1, VOCAB_MAX, -1);
    model->head_dim = read_width(in, "head_dim", 0);
    model->is_gated = true;
    model->is_tied = ki_json_flag(in, "tie_word_embeddings", false);
    ki_json_refuse_flag(in, "attention_bias", "a bias on the output projection is not counted");
    ki_json_refuse_flag(in, "mlp_bias", "biases of the MLP are not counted");
}

static void read_plain(reader *in, kith_model *model)
{
    read_llama(in, model);
    model->kv_heads = read_width(in, "num_key_value_heads", model->heads);
}

static void read_mistral(reader *in, kith_model *model)
{
    read_llama(in, model);
    model->kv_heads = read_width(in, "num_key_value_heads", -1);
}

static void read_mixtral(reader *in, kith_model *model)
{
    read_mistral(in, model);
    model->experts = ki_json_integer(in, "num_local_experts", 1, EXPERTS_MAX, -1);
    model->top_k = ki_json_integer(in, "num_experts_per_tok", 1, EXPERTS_MAX, -1);
}

static void read_qwen2(reader *in, kith_model *model)
{
    read_mistral(in, model);
    model->has_qkv_bias = true;
}

static void read_qwen3(reader *in, kith_model *model)
{
    read_mistral(in, model);
    model->head_dim = read_width(in, "head_dim", -1);
    model->has_qk_norm = true;
}

static void read_qwen_moe(reader *in, kith_model *model)
{
    model->experts = ki_json_integer(in, "num_experts", 1, EXPERTS_MAX, -1);
    model->top_k = ki_json_integer(in, "num_experts_per_tok", 1, EXPERTS_MAX, -1);
    model->moe_ffn = read_width(in, "moe_intermediate_size", -1);
    model->moe_every = ki_json_integer(in, "decoder_sparse_step", 1, LAYERS_MAX, 1);
    const ki_json *dense = ki_json_find(in, "mlp_only_layers");
    if (in->status == KITH_OK && dense != NULL && (dense->type != KI_JSON_ARRAY || dense->first != NULL))
        in->status = ki_fail_quiet(KITH_ERR_UNSUPPORTED,
                                   "%s:%d: 'mlp_only_layers' is not empty: single dense layers "
                                   "are not counted",
                                   in->path, dense->line);
}

static void read_qwen2_moe(reader *in, kith_model *model)
{
    read_qwen2(in, model);
    read_qwen_moe(in, model);
    model->shared_ffn = read_width(in, "shared_expert_intermediate_size", -1);
}

static void read_qwen3_moe(reader *in, kith_model *model)
{
    read_qwen3(in, model);
    read_qwen_moe(in, model);
}

static const struct {
    const char *type;
    void (*read)(reader *in, kith_model *model);
} families[] = {
    { "gpt2", read_gpt2 },   { "llama", read_plain }, { "mistral", read_mistral },     { "mixtral", read_mixtral },
    { "qwen2", read_qwen2 }, { "qwen3", read_qwen3 }, { "qwen2_moe", read_qwen2_moe }, { "qwen3_moe", read_qwen3_moe },
};

enum { FAMILY_COUNT = sizeof families / sizeof families[0] };

/* The kind of model; without "model_type" the keys of GPT-2 and of plain LLaMA are enough to tell. */
static int find_family(reader *in)
{
    const ki_json *type = ki_json_find(in, "model_type");
    if (type == NULL)
        return ki_json_find(in, "n_embd") != NULL ? 0 : 1;
    for (int i = 0; i < FAMILY_COUNT && type->type == KI_JSON_STRING; i++)
        if (strcmp(families[i].type, type->text) == 0)
            return i;
    char known[160] = "";
    for (size_t i = 0, used = 0; i < FAMILY_COUNT && used < sizeof known; i++)
        used += (size_t)snprintf(known + used, sizeof known - used, "%s%s", i > 0 ? ", " : "", families[i].type);
    in->status = ki_fail_quiet(KITH_ERR_UNSUPPORTED, "%s:%d: 'model_type' %.40s is not known; known: %s", in->path,
                               type->line, type->type == KI_JSON_STRING ? type->text : "is no text and", known);
    return -1;
}

static kith_status check_sizes(const reader *in, const kith_model *model)
{
    if (model->head_dim == 0 && model->hidden % model->heads != 0)
        return ki_fail_quiet(KITH_ERR_INVALID_ARG,
                             "%s: the hidden size %lld is no multiple of the %lld heads, and "
                             "'head_dim' is missing",
                             in->path, (long long)model->hidden, (long long)model->heads);
    if (model->kv_heads > model->heads || model->heads % model->kv_heads != 0)
        return ki_fail_quiet(KITH_ERR_INVALID_ARG, "%s: the %lld heads are no multiple of the %lld heads of K and V",
                             in->path, (long long)model->heads, (long long)model->kv_heads);
    if (model->top_k > model->experts)
        return ki_fail_quiet(KITH_ERR_INVALID_ARG, "%s: a token takes %lld experts, there are only %lld", in->path,
                             (long long)model->top_k, (long long)model->experts);
    if (model->moe_every > model->layers)
        return ki_fail_quiet(KITH_ERR_INVALID_ARG, "%s: 'decoder_sparse_step' %lld is more than the %lld layers",
                             in->path, (long long)model->moe_every, (long long)model->layers);
    return KITH_OK;
}

/* File name, and the folder it is in where the file has the usual name: "llama/config.json" is "llama". */
static void name_of(const char *path, char *name, size_t nbytes)
{
    const char *end = path + strlen(path);
    if (end - path > 12 && strcmp(end - 12, "/config.json") == 0)
        end -= 12;
    const char *begin = end;
    while (begin > path && begin[-1] != '/')
        begin--;
    snprintf(name, nbytes, "%.*s", (int)(end - begin < 63 ? end - begin : 63), begin);
    for (char *c = name; *c != '\0'; c++) /* a cut may leave half a character */
        if ((unsigned char)*c < 0x20 || (unsigned char)*c > 0x7e)
            *c = '?';
}

static kith_status read_tree(const char *path, const ki_json *root, kith_model *model)
{
    reader in = { path, root, KITH_OK };
    kith_model read = { .moe_every = 1 };
    if (root->type != KI_JSON_OBJECT)
        return ki_fail_quiet(KITH_ERR_INVALID_ARG, "%s: a model's configuration is an object, this is %s", path,
                             ki_json_type_name(root->type));
    int family = find_family(&in);
    if (family >= 0)
        families[family].read(&in, &read);
    if (in.status == KITH_OK)
        in.status = check_sizes(&in, &read);
    if (in.status != KITH_OK)
        return in.status;
    name_of(path, read.name, sizeof read.name);
    *model = read;
    return KITH_OK;
}

kith_status kith_model_parse(const char *name, const char *text, size_t nbytes, kith_model *model)
{
    ki_json *root = NULL;
    if (text == NULL || model == NULL)
        return ki_fail_quiet(KITH_ERR_INVALID_ARG, "plan: the text of the configuration is NULL");
    name = name != NULL ? name : "config.json";
    kith_status status = ki_json_parse(NULL, name, text, nbytes, &root);
    if (status == KITH_OK)
        status = read_tree(name, root, model);
    ki_json_free(NULL, root);
    return status;
}

kith_status kith_model_read(const char *path, kith_model *model)
{
    ki_json *root = NULL;
    if (path == NULL || model == NULL)
        return ki_fail_quiet(KITH_ERR_INVALID_ARG, "plan: the path of the configuration is NULL");
    kith_status status = ki_json_read(NULL, path, &root);
    if (status == KITH_OK)
        status = read_tree(path, root, model);
    ki_json_free(NULL, root);
    return status;
}
