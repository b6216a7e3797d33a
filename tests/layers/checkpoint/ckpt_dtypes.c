/* tests/layers/checkpoint/ckpt_dtypes.c - files of other types of numbers, and of other times: without prefix, with
 * tables that no model needs.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "ckpt_cases.h"

#include <string.h>

static const layout layouts[] = { { "alone", 1, 1, 1, 1, 0, 0, 0 }, { "dp 2, shards", 1, 1, 2, 1, 1, 0, 0 } };

static double rounded(double value, kith_dtype dtype)
{
    unsigned char memory[8];
    kith_tensor one = kith_tensor_view(memory, dtype, 1, (const int64_t[]){ 1 });
    put_element(&one, 0, value);
    return element(&one, 0);
}

/* Every value is the number of `state`, rounded to one type and then to the other. */
static void require_values(int line, const model *m, const char *state, kith_dtype first, kith_dtype second)
{
    for (size_t i = 0; i < kith_layers_param_count(m->layers); i++) {
        const kith_param *param = kith_layers_param(m->layers, i);
        for (int64_t k = 0; k < kith_tensor_count(&param->value); k++) {
            double number = number_of(m, param, state, 1, index_in_whole(param, k));
            double wanted = rounded(rounded(number, first), second), got = element(&param->value, k);
            if (got != wanted)
                rank_fail(__FILE__, line, "%s element %lld is %.17g, wanted %.17g", param->name, (long long)k, got,
                          wanted);
        }
    }
}

static void require_states(int line, const model *m, const char *state, kith_dtype first, kith_dtype second)
{
    size_t seen = 0;
    for (size_t i = 0; i < kith_optim_piece_count(m->optim); i++) {
        kith_optim_piece piece;
        REQUIRE_OK(kith_optim_get_piece(m->optim, i, &piece));
        const char *from = strcmp(piece.state, "master") == 0 ? "value" : piece.state; /* new masters */
        kith_tensor all = kith_tensor_view(piece.data, piece.dtype, 1, &piece.count);
        for (int64_t k = 0; k < piece.count && strcmp(piece.state, state) == 0; k++, seen++) {
            double number = number_of(m, piece.param, from, 1, index_in_whole(piece.param, piece.first + k));
            double wanted = rounded(rounded(number, first), second), got = element(&all, k);
            if (got != wanted)
                rank_fail(__FILE__, line, "%s.%s element %lld is %.17g, wanted %.17g", piece.param->name, state,
                          (long long)k, got, wanted);
        }
    }
    REQUIRE(seen > 100);
}

static void save(rank_info *info, const kith_transformer_config *config, kith_dtype dtype, const char *folder)
{
    model m = make_model(info, &layouts[info->size - 1], config, dtype, WITH_ADAMW);
    m.place.config = config;
    fill_model(&m, 1);
    REQUIRE_OK(kith_checkpoint_save(&m.place, folder, 1, NULL, 0));
    end_model(&m);
}

static model load(rank_info *info, const kith_transformer_config *config, kith_dtype dtype, with optim,
                  const char *path)
{
    model m = make_model(info, &layouts[info->size - 1], config, dtype, optim);
    m.place.config = config;
    spoil_model(&m);
    REQUIRE_OK(kith_checkpoint_load(&m.place, path, NULL, 0));
    return m;
}

void case_dtypes(rank_info *info)
{
    char half[256], single[256], path[300];
    kith_transformer_config config = tiny_gpt2();
    make_scratch(info, half);
    make_scratch(info, single);
    save(info, &config, KITH_BF16, half);
    save(info, &config, KITH_F32, single);
    snprintf(path, sizeof path, "%s/step-00000001", half);
    model m = load(info, &config, KITH_F32, WITHOUT_OPTIM, path);
    require_values(__LINE__, &m, "value", KITH_BF16, KITH_F32);
    end_model(&m);
    m = load(info, &config, KITH_F64, WITH_ADAMW, path); /* goes on from the masters */
    require_values(__LINE__, &m, "master", KITH_F32, KITH_F64);
    require_states(__LINE__, &m, "v", KITH_F32, KITH_F64);
    end_model(&m);
    snprintf(path, sizeof path, "%s/step-00000001", single);
    m = load(info, &config, KITH_BF16, WITH_ADAMW, path); /* with new masters */
    require_values(__LINE__, &m, "value", KITH_F32, KITH_BF16);
    require_states(__LINE__, &m, "m", KITH_F32, KITH_F32);
    require_states(__LINE__, &m, "master", KITH_F32, KITH_BF16);
    spoil_model(&m);
    REQUIRE_OK(kith_weights_load(&m.place, path));
    require_states(__LINE__, &m, "master", KITH_F32, KITH_BF16);
    end_model(&m);
    remove_scratch(info, half);
    remove_scratch(info, single);
}

/* ---- files of other times ---- */

/* The same file with other text in place of the header's, and more data behind; returns its bytes. */
static size_t rewrite(char *file, const char *header, const char *data, size_t data_nbytes, size_t more_nbytes)
{
    uint64_t nbytes = strlen(header);
    memcpy(file, &nbytes, 8);
    memcpy(file + 8, header, nbytes);
    memcpy(file + 8 + nbytes, data, data_nbytes);
    memset(file + 8 + nbytes + data_nbytes, 0, more_nbytes);
    return 8 + nbytes + data_nbytes + more_nbytes;
}

/* Without "transformer.", as the first GPT-2 files were, with masks, and with the tied head once more. */
static void make_old(const char *from, const char *to)
{
    size_t nbytes, used = 0;
    uint64_t header_nbytes;
    char *text = read_file(from, &nbytes), *header = malloc(2 * nbytes), *file = malloc(3 * nbytes);
    memcpy(&header_nbytes, text, 8);
    size_t data_nbytes = nbytes - 8 - header_nbytes;
    for (size_t i = 0; i < header_nbytes; i++) {
        if (strncmp(text + 8 + i, "\"transformer.", 13) == 0) {
            header[used++] = '"';
            i += 12;
            continue;
        }
        header[used++] = text[8 + i];
    }
    while (header[used - 1] != '}')
        used--;
    size_t at = data_nbytes;
    snprintf(header + used - 1, 2 * nbytes - used,
             ",\"h.0.attn.bias\":{\"dtype\":\"U8\",\"shape\":[1,1,4,4],\"data_offsets\":[%zu,%zu]},"
             "\"h.0.attn.masked_bias\":{\"dtype\":\"F32\",\"shape\":[],\"data_offsets\":[%zu,%zu]},"
             "\"lm_head.weight\":{\"dtype\":\"F16\",\"shape\":[53,24],\"data_offsets\":[%zu,%zu]}}",
             at, at + 16, at + 16, at + 20, at + 20, at + 20 + 53 * 24 * 2);
    size_t made = rewrite(file, header, text + 8 + header_nbytes, data_nbytes, 20 + 53 * 24 * 2);
    write_file(to, file, made);
    free(text);
    free(header);
    free(file);
}

void case_old_files(rank_info *info)
{
    char scratch[256], old[300];
    kith_transformer_config config = tiny_gpt2();
    make_scratch(info, scratch);
    save(info, &config, KITH_F32, scratch);
    snprintf(old, sizeof old, "%s/old.safetensors", scratch);
    if (info->rank == 0)
        make_old(join(scratch, "step-00000001/model.safetensors"), old);
    REQUIRE_OK(kith_barrier(info->world));
    model m = make_model(info, &layouts[info->size - 1], &config, KITH_F32, WITHOUT_OPTIM);
    m.place.config = &config;
    spoil_model(&m);
    REQUIRE_OK(kith_weights_load(&m.place, old));
    REQUIRE_MODEL(&m, 1);
    end_model(&m);
    config.is_tied = 0; /* then the head is one of the model's, and it is zeros */
    m = make_model(info, &layouts[info->size - 1], &config, KITH_F32, WITHOUT_OPTIM);
    m.place.config = &config;
    REQUIRE_OK(kith_weights_load(&m.place, old));
    REQUIRE(element(&kith_layers_find_param(m.layers, "head.weight")->value, 5) == 0);
    end_model(&m);
    remove_scratch(info, scratch);
}
