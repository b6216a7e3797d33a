/* tests/layers/checkpoint/ckpt_golden.c - what Kith writes beside what Hugging Face transformers wrote of the same
 * model: every tensor's name, shape and bytes, and the configuration.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "ckpt_cases.h"

#include <string.h>

static const struct family_golden {
    const char *name;
    kith_transformer_config (*make)(void);
} families[] = {
    { "gpt2", golden_gpt2 }, { "llama", golden_llama }, { "mixtral", golden_mixtral }, { "qwen2", golden_qwen2 }
};

/* CRC-32 bit by bit: the test's own. */
static uint32_t crc32_of(const unsigned char *data, size_t nbytes)
{
    uint32_t crc = 0xffffffff;
    for (size_t i = 0; i < nbytes; i++) {
        crc ^= data[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc & 1 ? crc >> 1 ^ 0xedb88320 : crc >> 1;
    }
    return ~crc;
}

/* Looks a tensor up in the header by its text, as nothing else has the form "name":{...}. */
static void require_tensor(const char *file, const char *name, const char *shape, uint32_t crc)
{
    char wanted[256], got_shape[64];
    long long begin, end;
    uint64_t header_nbytes;
    memcpy(&header_nbytes, file, sizeof header_nbytes);
    snprintf(wanted, sizeof wanted, "\"%s\":{", name);
    const char *at = strstr(file + 8, wanted);
    if (at == NULL)
        rank_fail(__FILE__, __LINE__, "there is no tensor %s", name);
    int read = sscanf(at + strlen(wanted), "\"dtype\":\"F64\",\"shape\":%63[^]]],\"data_offsets\":[%lld,%lld]}",
                      got_shape, &begin, &end);
    if (read != 3)
        rank_fail(__FILE__, __LINE__, "%s: %.120s is not as expected", name, at);
    char packed[64];
    size_t used = 0;
    for (const char *c = got_shape; *c != '\0'; c++)
        if (*c != ' ')
            packed[used++] = *c;
    snprintf(packed + used, sizeof packed - used, "]");
    if (strcmp(packed, shape) != 0)
        rank_fail(__FILE__, __LINE__, "%s has the shape %s, in Hugging Face's file %s", name, packed, shape);
    uint32_t got = crc32_of((const unsigned char *)file + 8 + header_nbytes + begin, (size_t)(end - begin));
    if (got != crc)
        rank_fail(__FILE__, __LINE__, "%s has the sum %08x, in Hugging Face's file %08x", name, got, crc);
}

/* All lines of the golden file, and no tensor more. */
static void compare_tensors(const char *golden, const char *written)
{
    size_t nbytes, tensors = 0, mine = 0;
    char *file = read_file(written, &nbytes), *lines = read_file(golden, &nbytes);
    for (char *line = strtok(lines, "\n"); line != NULL; line = strtok(NULL, "\n")) {
        char name[128], shape[64];
        unsigned crc;
        if (line[0] == '#')
            continue;
        REQUIRE(sscanf(line, "%127s %63s %8x", name, shape, &crc) == 3);
        require_tensor(file, name, shape, crc);
        tensors++;
    }
    for (const char *at = file + 8; (at = strstr(at, "\"dtype\"")) != NULL; at++)
        mine++;
    REQUIRE(tensors > 10 && mine == tensors);
    free(file);
    free(lines);
}

static void require_same_config(const kith_transformer_config *a, const kith_transformer_config *b)
{
    REQUIRE(a->hidden == b->hidden && a->inner == b->inner && a->blocks == b->blocks && a->heads == b->heads);
    REQUIRE((a->kv_heads != 0 ? a->kv_heads : a->heads) == (b->kv_heads != 0 ? b->kv_heads : b->heads));
    REQUIRE(a->vocabulary == b->vocabulary && a->positions == b->positions && a->rotary_base == b->rotary_base);
    REQUIRE(a->norm == b->norm && a->activation == b->activation && a->is_gated == b->is_gated);
    REQUIRE((a->norm_epsilon != 0 ? a->norm_epsilon : 1e-5) == (b->norm_epsilon != 0 ? b->norm_epsilon : 1e-5));
    REQUIRE(a->has_bias == b->has_bias && a->has_qkv_bias == b->has_qkv_bias && a->is_tied == b->is_tied);
    REQUIRE(a->experts == b->experts && a->top_k == b->top_k && a->is_router_normalized == b->is_router_normalized);
}

/* Weights start as golden/make_golden.py has them. */
void case_golden(rank_info *info)
{
    char scratch[256];
    make_scratch(info, scratch);
    for (size_t i = 0; i < sizeof families / sizeof families[0]; i++) {
        kith_transformer_config config = families[i].make(), read = KITH_TRANSFORMER_CONFIG_INIT;
        kith_transformer_options options = KITH_TRANSFORMER_OPTIONS_INIT;
        const char *folder = join(scratch, families[i].name);
        char golden[512];
        options.config = &config;
        setup s = make_setup(layers_over(info, info->size, KITH_F64, 0), &options);
        kith_checkpoint_place place = KITH_CHECKPOINT_PLACE_INIT;
        place.group = info->world;
        place.layers = s.layers;
        place.config = &config;
        REQUIRE_OK(kith_checkpoint_save(&place, folder, 1, NULL, 0));
        snprintf(golden, sizeof golden, "%s/tests/layers/checkpoint/golden/%s", getenv("KITH_SOURCE_DIR"),
                 families[i].name);
        char path[600];
        snprintf(path, sizeof path, "%s.txt", golden);
        compare_tensors(path, join(folder, "step-00000001/model.safetensors"));
        snprintf(path, sizeof path, "%s.json", golden);
        REQUIRE_OK(kith_config_read(path, &read));
        require_same_config(&read, &config);
        REQUIRE_OK(kith_config_read(join(folder, "step-00000001/config.json"), &read));
        require_same_config(&read, &config);
        end_setup(&s);
    }
    remove_scratch(info, scratch);
}
