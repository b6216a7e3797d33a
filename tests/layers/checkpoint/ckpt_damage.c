/* tests/layers/checkpoint/ckpt_damage.c - damaged and foreign files: the same status and a sentence on all ranks,
 * and no weight changes.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "ckpt_cases.h"

#include <string.h>
#include <unistd.h>

static const layout layouts[] = { { "alone", 1, 1, 1, 1, 0, 0, 0 },
                                  { "tp 2", 2, 1, 1, 1, 0, 0, 8 },
                                  { "dp 3, shards", 1, 1, 3, 1, 1, 0, 0 },
                                  { "tp 2 dp 2, shards", 2, 1, 2, 1, 1, 0, 0 } };

/* A model with a saved checkpoint, whose numbers are spoilt. */
typedef struct scene {
    rank_info *info;
    model m;
    char scratch[256], path[320];
} scene;

static kith_transformer_config little_gpt2(void)
{
    kith_transformer_config config = KITH_TRANSFORMER_CONFIG_INIT;
    kith_transformer_gpt2(&config, 4, 1, 4, 9, 3);
    config.inner = 5;
    return config;
}

static scene make_scene(rank_info *info)
{
    static const kith_checkpoint_number numbers[] = { { "seed", 3 } };
    scene s = { .info = info };
    kith_transformer_config config = little_gpt2();
    make_scratch(info, s.scratch);
    s.m = make_model(info, &layouts[info->size - 1], &config, KITH_F32, WITH_ADAMW);
    s.m.place.config = &config;
    fill_model(&s.m, 1);
    REQUIRE_OK(kith_checkpoint_save(&s.m.place, s.scratch, 3, numbers, 1));
    snprintf(s.path, sizeof s.path, "%s/step-00000003", s.scratch);
    spoil_model(&s.m);
    return s;
}

static void end_scene(scene *s)
{
    remove_scratch(s->info, s->scratch);
    end_model(&s->m);
}

/* Loading fails everywhere, alike, and changes nothing. */
static void require_refused(scene *s, kith_status wanted, const char *detail)
{
    kith_transformer_config config = s->m.config;
    kith_checkpoint_number numbers[] = { { "seed", 0 } };
    s->m.place.config = &config;
    kith_status status = kith_checkpoint_load(&s->m.place, s->path, numbers, 1);
    if (status != wanted || strstr(kith_error_detail(), detail) == NULL)
        rank_fail(__FILE__, __LINE__, "wanted %s with '%s', got %s: %s", kith_status_name(wanted), detail,
                  kith_status_name(status), kith_error_detail());
    REQUIRE(numbers[0].value == 0);
    REQUIRE_SPOILT(&s->m);
    REQUIRE_OK(kith_barrier(s->m.all));
}

static void require_loads(scene *s)
{
    kith_transformer_config config = s->m.config;
    s->m.place.config = &config;
    REQUIRE_OK(kith_checkpoint_load(&s->m.place, s->path, NULL, 0));
    REQUIRE_MODEL(&s->m, 1);
    spoil_model(&s->m);
}

/* Rank 0 writes another text in the place of a file; the barrier is that of the next collective. */
static void replace(const scene *s, const char *name, const char *text, size_t nbytes)
{
    if (s->info->rank == 0)
        write_file(join(s->path, name), text, nbytes);
    REQUIRE_OK(kith_barrier(s->info->world));
}

static const char *const files[] = { "config.json", "model.safetensors", "optimizer.safetensors", "kith.json" };

/* One bit of any byte. Of large files some bytes, of each region one. */
void case_damage_bits(rank_info *info)
{
    scene s = make_scene(info);
    for (size_t f = 0; f < 4; f++) {
        size_t nbytes;
        char *text = read_file(join(s.path, files[f]), &nbytes);
        REQUIRE_OK(kith_barrier(info->world));
        size_t stride = info->size == 1 ? 3 : 61;
        for (size_t at = f; at < nbytes; at += stride) {
            text[at] = (char)(text[at] ^ 1 << at % 8);
            replace(&s, files[f], text, nbytes);
            require_refused(&s, KITH_ERR_INVALID_ARG, s.path);
            text[at] = (char)(text[at] ^ 1 << at % 8);
        }
        replace(&s, files[f], text, nbytes);
        require_loads(&s);
        free(text);
    }
    end_scene(&s);
}

/* Cut to every length, or longer by a byte. */
void case_damage_cut(rank_info *info)
{
    scene s = make_scene(info);
    for (size_t f = 0; f < 4; f++) {
        size_t nbytes;
        char *text = read_file(join(s.path, files[f]), &nbytes);
        REQUIRE_OK(kith_barrier(info->world));
        for (size_t cut = 0; cut < nbytes; cut += info->size == 1 ? 7 : 97) {
            replace(&s, files[f], text, cut);
            require_refused(&s, KITH_ERR_INVALID_ARG, s.path);
        }
        replace(&s, files[f], text, nbytes + 1);
        require_refused(&s, KITH_ERR_INVALID_ARG, s.path);
        replace(&s, files[f], text, nbytes);
        require_loads(&s);
        if (info->rank == 0)
            REQUIRE(unlink(join(s.path, files[f])) == 0);
        REQUIRE_OK(kith_barrier(info->world));
        require_refused(&s, f == 3 ? KITH_ERR_IO : KITH_ERR_INVALID_ARG, files[f]);
        replace(&s, files[f], text, nbytes);
        free(text);
    }
    end_scene(&s);
}

/* ---- another model's ---- */

static void refuse_model(scene *s, const kith_transformer_config *config, kith_dtype dtype, with optim,
                         const char *detail)
{
    model other = make_model(s->info, &s->m.l, config, dtype, optim);
    model mine = s->m;
    spoil_model(&other);
    s->m = other;
    require_refused(s, KITH_ERR_INVALID_ARG, detail);
    s->m = mine;
    end_model(&other);
}

void case_damage_foreign(rank_info *info)
{
    scene s = make_scene(info);
    kith_transformer_config config = little_gpt2();
    config.vocabulary = 10;
    refuse_model(&s, &config, KITH_F32, WITH_ADAMW, "has vocabulary 9, this one 10");
    config = little_gpt2(), config.norm_epsilon = 1e-6;
    refuse_model(&s, &config, KITH_F32, WITH_ADAMW, "has norm_epsilon");
    config = little_gpt2(), config.is_tied = 0;
    refuse_model(&s, &config, KITH_F32, WITH_ADAMW, "has is_tied 1, this one 0");
    kith_transformer_llama(&config, 8, 5, 1, 4, 4, 9);
    config.positions = 0, config.has_bias = 0, config.is_tied = 0;
    refuse_model(&s, &config, KITH_F32, WITH_ADAMW, "has hidden 4, this one 8");
    config = little_gpt2();
    refuse_model(&s, &config, KITH_F32, WITH_SGD, ".v is none of this model's");
    kith_checkpoint_number absent[] = { { "epoch", 5 } };
    s.m.place.config = &config;
    REQUIRE_STATUS(kith_checkpoint_load(&s.m.place, s.path, absent, 1), KITH_ERR_INVALID_ARG);
    REQUIRE_DETAIL("has no number epoch");
    REQUIRE(absent[0].value == 5);
    kith_checkpoint_number some[] = { { "epoch", 5 }, { "seed", 0 } }; /* what the file lacks stays rank 0's */
    some[0].value += info->rank;
    REQUIRE_OK(kith_checkpoint_read_numbers(s.m.place.group, s.path, some, 2));
    REQUIRE(some[0].value == 5 && some[1].value == 3);
    REQUIRE_STATUS(kith_checkpoint_read_numbers(s.m.place.group, NULL, some, 2), KITH_ERR_INVALID_ARG);
    REQUIRE_STATUS(kith_checkpoint_read_numbers(s.m.place.group, s.scratch, some, 2), KITH_ERR_IO);
    REQUIRE_DETAIL("kith.json");
    REQUIRE(some[0].value == 5 && some[1].value == 3);
    model bare = make_model(info, &s.m.l, &config, KITH_F32, WITHOUT_OPTIM);
    bare.place.config = &config;
    spoil_model(&bare);
    REQUIRE_OK(kith_checkpoint_load(&bare.place, s.path, NULL, 0)); /* weights alone, as was asked */
    REQUIRE_MODEL(&bare, 1);
    REQUIRE_OK(kith_checkpoint_save(&bare.place, s.scratch, 3, NULL, 0));
    require_refused(&s, KITH_ERR_INVALID_ARG, "has no number seed");
    s.m.place.config = &config;
    REQUIRE_STATUS(kith_checkpoint_load(&s.m.place, s.path, NULL, 0), KITH_ERR_INVALID_ARG);
    REQUIRE_DETAIL("leave place.optim NULL");
    end_model(&bare);
    end_scene(&s);
}

/* ---- files of the world ---- */

static void refuse_weights(scene *s, const char *path, kith_status wanted, const char *detail)
{
    kith_transformer_config config = s->m.config;
    s->m.place.config = &config;
    kith_status status = kith_weights_load(&s->m.place, path);
    if (status != wanted || strstr(kith_error_detail(), detail) == NULL)
        rank_fail(__FILE__, __LINE__, "wanted %s with '%s', got %s: %s", kith_status_name(wanted), detail,
                  kith_status_name(status), kith_error_detail());
    REQUIRE_SPOILT(&s->m);
    REQUIRE_OK(kith_barrier(s->m.all));
}

/* A safetensors file of a header and zeros. */
static size_t write_tensors(char *file, const char *header, size_t data_nbytes)
{
    uint64_t nbytes = strlen(header);
    memcpy(file, &nbytes, 8);
    memcpy(file + 8, header, nbytes);
    memset(file + 8 + nbytes, 0, data_nbytes);
    return 8 + nbytes + data_nbytes;
}

void case_damage_weights(rank_info *info)
{
    scene s = make_scene(info);
    char small[512];
    size_t nbytes, made;
    const char *model_path = join(s.scratch, "w.safetensors");
    char path[600];
    snprintf(path, sizeof path, "%s", model_path);
    refuse_weights(&s, path, KITH_ERR_IO, "cannot be opened");
    refuse_weights(&s, s.scratch, KITH_ERR_IO, "has neither model.safetensors nor");
    char *text = read_file(join(s.path, "model.safetensors"), &nbytes);
    REQUIRE_OK(kith_barrier(info->world));
    for (size_t cut = 0; cut < nbytes; cut += info->size == 1 ? 5 : 101) {
        if (info->rank == 0)
            write_file(path, text, cut);
        REQUIRE_OK(kith_barrier(info->world));
        refuse_weights(&s, path, KITH_ERR_INVALID_ARG, "damaged or foreign");
    }
    made = write_tensors(small, "{}", 0);
    if (info->rank == 0)
        write_file(path, small, made);
    REQUIRE_OK(kith_barrier(info->world));
    refuse_weights(&s, path, KITH_ERR_INVALID_ARG, "is missing; wanted with shape [12]");
    memset(text, 0xff, 8); /* a header of 2^64 bytes */
    if (info->rank == 0)
        write_file(path, text, nbytes);
    REQUIRE_OK(kith_barrier(info->world));
    refuse_weights(&s, path, KITH_ERR_INVALID_ARG, "a header of 18446744073709551615 bytes");
    free(text);
    end_scene(&s);
}

/* Swaps a word of the header for one of the same length. */
static void change(char *text, const char *from, const char *to)
{
    char *at = strstr(text + 8, from);
    REQUIRE(at != NULL && strlen(from) == strlen(to));
    memcpy(at, to, strlen(to));
}

static void try_header(scene *s, const char *from, const char *to, const char *detail)
{
    size_t nbytes;
    char *text = read_file(join(s->path, "model.safetensors"), &nbytes), path[600];
    snprintf(path, sizeof path, "%s/w.safetensors", s->scratch);
    change(text, from, to);
    if (s->info->rank == 0)
        write_file(path, text, nbytes);
    REQUIRE_OK(kith_barrier(s->info->world));
    refuse_weights(s, path, KITH_ERR_INVALID_ARG, detail);
    free(text);
}

void case_damage_header(rank_info *info)
{
    scene s = make_scene(info);
    try_header(&s, "h.0.ln_1.bias", "h.0.ln_9.bias", "tensor transformer.h.0.ln_1.bias is missing");
    try_header(&s, "\"shape\":[4, 12]", "\"shape\":[12, 4]", "has shape [12, 4], this model wants [4, 12]");
    try_header(&s, "\"shape\":[9, 4]", "\"shape\":[  36]", "has shape [36], this model wants [9, 4]");
    try_header(&s, "\"dtype\":\"F32\"", "\"dtype\":\"I32\"", "is of I32, wanted F64, F32, BF16 or F16");
    try_header(&s, "\"shape\":[9, 4]", "\"shape\":[9, 5]", "bytes, but [9, 5] of F32 is 180");
    end_scene(&s);
}

/* Several files, and what their index says. */
void case_damage_index(rank_info *info)
{
    scene s = make_scene(info);
    char folder[300], path[400], other[512];
    snprintf(folder, sizeof folder, "%s/many", s.scratch);
    const struct {
        const char *index, *detail;
        kith_status status;
    } cases[] = {
        { "{\"weight_map\":{\"a\":\"gone.safetensors\"}}", "gone.safetensors: cannot be opened", KITH_ERR_IO },
        { "{\"weight_map\":{\"a\":\"b.safetensors\"}}", "tensor a is not in b.safetensors", KITH_ERR_INVALID_ARG },
        { "{\"weight_map\":{\"a\":\"/etc/passwd\"}}", "of the same folder", KITH_ERR_INVALID_ARG },
        { "{\"weight_map\":{\"b\":\"b.safetensors\",\"c\":\"c.safetensors\"}}", "tensor b is in",
          KITH_ERR_INVALID_ARG },
        { "{\"weight_map\":{\"b\":\"b.safetensors\"}}", "is missing", KITH_ERR_INVALID_ARG },
        { "{\"weight_map\":{\"b\":\"b.safetensors\"}", "expected '}'", KITH_ERR_INVALID_ARG },
        { "nothing", "expected '{'", KITH_ERR_INVALID_ARG },
        { "", "expected '{'", KITH_ERR_INVALID_ARG },
    };
    size_t made = write_tensors(other, "{\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4);
    if (info->rank == 0) {
        REQUIRE(mkdir_of(folder) == 0);
        write_file(join(folder, "b.safetensors"), other, made);
        write_file(join(folder, "c.safetensors"), other, made);
    }
    snprintf(path, sizeof path, "%s/model.safetensors.index.json", folder);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        if (info->rank == 0)
            write_file(path, cases[i].index, strlen(cases[i].index));
        REQUIRE_OK(kith_barrier(info->world));
        refuse_weights(&s, folder, cases[i].status, cases[i].detail);
    }
    end_scene(&s);
}
