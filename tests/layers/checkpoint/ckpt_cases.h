/* tests/layers/checkpoint/ckpt_cases.h - checkpoints of models in every layout, on several ranks.
 *
 * Every element of every parameter and of every state has a number that follows from its name and its place in the
 * whole, so a rank can tell by itself whether it got what it should.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef TESTS_CKPT_CASES_H
#define TESTS_CKPT_CASES_H

#include "layers/layer_model.h"

#include <kith/checkpoint.h>

typedef struct layout {
    const char *name;
    int tp, pp, dp; /* tp * pp * dp ranks, in this order from the inside: tp, dp, pp */
    int ep;         /* of the dp ranks */
    int is_sharded, is_sequence_parallel;
    int64_t vocabulary_multiple;
} layout;

/* A model in a layout on this rank; on ranks that the layout does not need, nothing (is_in 0). */
typedef struct model {
    int is_in;
    layout l;
    kith_transformer_config config;
    kith_group *all, *tp, *data, *ep, *expert_data, *tied;
    kith_layers *layers;
    kith_transformer *transformer;
    kith_optim *optim; /* NULL: none */
    kith_checkpoint_place place;
} model;

typedef enum with { WITHOUT_OPTIM, WITH_ADAMW, WITH_SGD } with;

/* Collective over the world. Values are zeros and ones, as layers start. */
model make_model(rank_info *info, const layout *l, const kith_transformer_config *config, kith_dtype dtype, with optim);
void end_model(model *m);

/* Gives every element its number (seed 1, 2, ...: another one); states too. */
void fill_model(model *m, unsigned seed);
/* NaN everywhere. */
void spoil_model(model *m);
/* Fails this rank when an element has another number, or padding is not zero. */
void require_model(const char *file, int line, const model *m, unsigned seed);
#define REQUIRE_MODEL(m, seed) require_model(__FILE__, __LINE__, m, seed)
/* Fails when an element is not NaN. */
void require_spoilt(const char *file, int line, const model *m);
#define REQUIRE_SPOILT(m) require_spoilt(__FILE__, __LINE__, m)

/* The number of an element of a parameter's "value" or of a state, by its index in the whole. */
double number_of(const model *m, const kith_param *param, const char *state, unsigned seed, int64_t index);
/* Index in the whole of element `flat` of this rank's part; -1: it is padding. */
int64_t index_in_whole(const kith_param *param, int64_t flat);

/* A folder of the test's own, the same on all ranks; removed with all in it. Collective. */
void make_scratch(rank_info *info, char path[256]);
void remove_scratch(rank_info *info, const char *path);

/* Fails when two files differ. */
void require_equal_files(const char *file, int line, const char *a, const char *b);

/* The whole of a file, with a zero behind it; free(). */
char *read_file(const char *path, size_t *nbytes);
void write_file(const char *path, const void *data, size_t nbytes);
int mkdir_of(const char *path);

/* "a/b" in a static buffer, of which there are eight. */
const char *join(const char *a, const char *b);

/* Families of tiny models; all sizes are odd in some way. */
kith_transformer_config tiny_gpt2(void);
kith_transformer_config tiny_llama(void);
kith_transformer_config tiny_mixtral(void);
kith_transformer_config tiny_qwen2(void);
kith_transformer_config tiny_qwen3(void);

/* Those of which golden/ has what Hugging Face writes. */
kith_transformer_config golden_gpt2(void);
kith_transformer_config golden_llama(void);
kith_transformer_config golden_mixtral(void);
kith_transformer_config golden_qwen2(void);

/* ---- cases ---- */

/* ckpt_golden.c */
void case_golden(rank_info *info);

/* ckpt_layouts.c */
void case_layouts_gpt2(rank_info *info);
void case_layouts_llama(rank_info *info);
void case_layouts_mixtral(rank_info *info);
void case_layouts_bf16(rank_info *info);
void case_layouts_wide(rank_info *info);

/* ckpt_dtypes.c */
void case_dtypes(rank_info *info);
void case_old_files(rank_info *info);

/* ckpt_damage.c */
void case_damage_bits(rank_info *info);
void case_damage_cut(rank_info *info);
void case_damage_foreign(rank_info *info);
void case_damage_weights(rank_info *info);
void case_damage_header(rank_info *info);
void case_damage_index(rank_info *info);

/* ckpt_disk.c */
void case_disk_unwritable(rank_info *info);
void case_disk_twice(rank_info *info);
void case_disk_full(rank_info *info);
int can_make_disk(void);

#endif
