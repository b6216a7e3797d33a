/* topology/plan_models.c - models by name. Shapes from the papers and the published config.json files; the parameter
 * counts that follow are compared with the published ones in tests/topology/test_plan_models.c.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "core/base/error.h"
#include "core/text.h"
#include <kith/plan.h>

#include <ctype.h>
#include <string.h>

#define NAME_MAX_LENGTH 63

#define GPT(NAME, LAYERS, HIDDEN, HEADS, VOCAB, POSITIONS)                                                             \
    {                                                                                                                  \
        .name = NAME, .layers = LAYERS, .hidden = HIDDEN, .heads = HEADS, .kv_heads = HEADS, .ffn = 4L * (HIDDEN),     \
        .vocab = VOCAB, .positions = POSITIONS, .moe_every = 1, .is_tied = true, .has_bias = true                      \
    }
#define LLAMA(NAME, LAYERS, HIDDEN, HEADS, KV_HEADS, FFN, VOCAB)                                                       \
    {                                                                                                                  \
        .name = NAME, .layers = LAYERS, .hidden = HIDDEN, .heads = HEADS, .kv_heads = KV_HEADS, .ffn = FFN,            \
        .vocab = VOCAB, .moe_every = 1, .is_gated = true                                                               \
    }

static const kith_model models[] = {
    GPT("gpt2", 12, 768, 12, 50257, 1024),
    GPT("gpt2-medium", 24, 1024, 16, 50257, 1024),
    GPT("gpt2-large", 36, 1280, 20, 50257, 1024),
    GPT("gpt2-xl", 48, 1600, 25, 50257, 1024),
    GPT("gpt-3-175b", 96, 12288, 96, 50257, 2048),
    GPT("megatron-22b", 48, 6144, 64, 51200, 2048),
    GPT("megatron-175b", 96, 12288, 96, 51200, 2048),
    GPT("megatron-530b", 105, 20480, 128, 51200, 2048),
    GPT("megatron-1t", 128, 25600, 160, 51200, 2048),
    LLAMA("llama-2-7b", 32, 4096, 32, 32, 11008, 32000),
    LLAMA("llama-2-13b", 40, 5120, 40, 40, 13824, 32000),
    LLAMA("llama-2-70b", 80, 8192, 64, 8, 28672, 32000),
    LLAMA("llama-3-8b", 32, 4096, 32, 8, 14336, 128256),
    LLAMA("llama-3-70b", 80, 8192, 64, 8, 28672, 128256),
    LLAMA("llama-3-405b", 126, 16384, 128, 8, 53248, 128256),
    LLAMA("mistral-7b", 32, 4096, 32, 8, 14336, 32000),
    { .name = "mixtral-8x7b",
      .layers = 32,
      .hidden = 4096,
      .heads = 32,
      .kv_heads = 8,
      .ffn = 14336,
      .vocab = 32000,
      .experts = 8,
      .top_k = 2,
      .moe_every = 1,
      .is_gated = true },
    { .name = "qwen2-7b",
      .layers = 28,
      .hidden = 3584,
      .heads = 28,
      .kv_heads = 4,
      .ffn = 18944,
      .vocab = 152064,
      .moe_every = 1,
      .is_gated = true,
      .has_qkv_bias = true },
    { .name = "qwen3-8b",
      .layers = 36,
      .hidden = 4096,
      .heads = 32,
      .kv_heads = 8,
      .head_dim = 128,
      .ffn = 12288,
      .vocab = 151936,
      .moe_every = 1,
      .is_gated = true,
      .has_qk_norm = true },
    { .name = "qwen3-30b-a3b",
      .layers = 48,
      .hidden = 2048,
      .heads = 32,
      .kv_heads = 4,
      .head_dim = 128,
      .ffn = 6144,
      .vocab = 151936,
      .experts = 128,
      .top_k = 8,
      .moe_every = 1,
      .moe_ffn = 768,
      .is_gated = true,
      .has_qk_norm = true },
};

enum { MODEL_COUNT = sizeof models / sizeof models[0] };

/* Other names of the same shapes. */
static const struct {
    const char *alias, *name;
} aliases[] = {
    { "gpt2-small", "gpt2" },           { "gpt2-124m", "gpt2" },
    { "gpt-3", "gpt-3-175b" },          { "llama-3.1-8b", "llama-3-8b" },
    { "llama-3.1-70b", "llama-3-70b" }, { "llama-3.1-405b", "llama-3-405b" },
    { "mt-nlg-530b", "megatron-530b" },
};

enum { ALIAS_COUNT = sizeof aliases / sizeof aliases[0] };

const char *kith_model_name(int index)
{
    return index >= 0 && index < MODEL_COUNT ? models[index].name : NULL;
}

/* Letters and digits alone, small ones. */
static void normalize(const char *name, char *plain)
{
    size_t length = 0;
    for (; *name != '\0' && length < NAME_MAX_LENGTH; name++)
        if (isalnum((unsigned char)*name))
            plain[length++] = (char)tolower((unsigned char)*name);
    plain[length] = '\0';
}

static bool is_same(const char *plain, const char *name)
{
    char other[NAME_MAX_LENGTH + 1];
    normalize(name, other);
    return strcmp(plain, other) == 0;
}

/* Edits between two normalized names; one row of the usual table at a time. */
static size_t edit_distance(const char *a, const char *b)
{
    size_t row[NAME_MAX_LENGTH + 2];
    size_t length = strlen(b);
    for (size_t j = 0; j <= length; j++)
        row[j] = j;
    for (size_t i = 1; a[i - 1] != '\0'; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= length; j++) {
            size_t replaced = diagonal + (a[i - 1] != b[j - 1]);
            size_t inserted = (row[j] < row[j - 1] ? row[j] : row[j - 1]) + 1;
            diagonal = row[j];
            row[j] = replaced < inserted ? replaced : inserted;
        }
    }
    return row[length];
}

/* Nearest names, or all of them where none is near. */
static kith_status unknown_name(const char *name, const char *plain)
{
    ki_text near = { 0 }, all = { 0 };
    for (int i = 0; i < MODEL_COUNT; i++) {
        char other[NAME_MAX_LENGTH + 1];
        normalize(models[i].name, other);
        bool is_part = strlen(plain) >= 4 && (strstr(plain, other) != NULL || strstr(other, plain) != NULL);
        if (is_part || edit_distance(plain, other) <= 2)
            ki_text_add(&near, near.length > 0 ? ", %s" : "%s", models[i].name);
        ki_text_add(&all, i > 0 ? ", %s" : "%s", models[i].name);
    }
    kith_status status = near.length > 0
                             ? ki_fail_quiet(KITH_ERR_INVALID_ARG, "plan: there is no model '%.60s'; did you mean %s?",
                                             name, ki_text_chars(&near))
                             : ki_fail_quiet(KITH_ERR_INVALID_ARG, "plan: there is no model '%.60s'; there are: %s",
                                             name, ki_text_chars(&all));
    ki_text_fini(&near);
    ki_text_fini(&all);
    return status;
}

kith_status kith_model_named(const char *name, kith_model *model)
{
    char plain[NAME_MAX_LENGTH + 1];
    if (name == NULL || model == NULL)
        return ki_fail_quiet(KITH_ERR_INVALID_ARG, "plan: the model's name is NULL");
    normalize(name, plain);
    const char *wanted = NULL;
    for (int i = 0; i < MODEL_COUNT && strlen(name) <= NAME_MAX_LENGTH; i++)
        if (is_same(plain, models[i].name))
            wanted = models[i].name;
    for (int i = 0; i < ALIAS_COUNT && wanted == NULL; i++)
        if (is_same(plain, aliases[i].alias))
            wanted = aliases[i].name;
    for (int i = 0; i < MODEL_COUNT && wanted != NULL; i++) {
        if (strcmp(models[i].name, wanted) != 0)
            continue;
        *model = models[i];
        return KITH_OK;
    }
    return unknown_name(name, plain);
}
