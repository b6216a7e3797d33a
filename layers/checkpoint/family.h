/* layers/checkpoint/family.h - the families of models that Hugging Face has and Kith computes: which one a
 * configuration is, and what its parameters are called there.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_CHECKPOINT_FAMILY_H
#define KI_CHECKPOINT_FAMILY_H

#include <kith/transformer.h>
#include <stdbool.h>

/* Sizes of tensors, by what they count. */
typedef enum ki_size {
    KI_NONE, /* no second dimension */
    KI_HIDDEN,
    KI_INNER,
    KI_QUERIES, /* heads * head_dim */
    KI_KEYS,    /* key heads * head_dim */
    KI_HEAD,    /* head_dim */
    KI_WORDS,
    KI_POSITIONS,
    KI_EXPERTS
} ki_size;

/* When a parameter is there. */
typedef enum ki_when {
    KI_ALWAYS,
    KI_WITH_QKV_BIAS,
    KI_WITH_HEAD_NORMS,
    KI_WITH_OWN_HEAD, /* not tied */
    KI_WHEN_DENSE,
    KI_WITH_EXPERTS
} ki_when;

/* One parameter and its place. '#' stands for the number of a block, '@' for that of an expert. Rows that follow each
 * other with the same tensor are parts of it, one after the other. */
typedef struct ki_name_row {
    const char *param;  /* Kith's: [rows, cols] */
    const char *tensor; /* Hugging Face's, without the family's prefix where has_prefix is set */
    ki_size rows, cols;
    ki_when when;
    bool has_prefix;
    bool is_transposed; /* [cols, rows] there */
} ki_name_row;

typedef struct ki_family {
    const char *type;         /* "llama" */
    const char *architecture; /* "LlamaForCausalLM" */
    const char *prefix;       /* "model.": of all tensors of the model but for the head; may be missing in a file */
    const ki_name_row *rows;  /* ends with param NULL */
    double norm_epsilon;      /* what a config.json means that does not say it */
    double rotary_base;
    const char *activation;
    double auxiliary_weight;
} ki_family;

/* By "model_type"; NULL: it is none of them. */
const ki_family *ki_family_named(const char *type);

/* Zeros that stand for another value become that value. */
kith_transformer_config ki_config_full(const kith_transformer_config *config);

/* The family with this shape. KITH_ERR_UNSUPPORTED says what no family has; KITH_ERR_INVALID_ARG which size is absurd.
 * config: as ki_config_full() made it. */
kith_status ki_family_find(const char *function, const kith_transformer_config *config, const ki_family **family);

/* Where layers of a configuration go that embedders made with a later or an earlier header. */
kith_status ki_config_take(const char *function, const kith_transformer_config *given, kith_transformer_config *taken);

/* "gelu_new" and so on, and back; NULL and false: there is none. */
const char *ki_activation_name(kith_activation activation);
bool ki_activation_find(const char *name, kith_activation *activation);

/* Tensors that some files have and no model needs: masks, tables of rotary positions. */
bool ki_is_leftover(const char *tensor);

/* ---- config_read.c ---- */

/* KITH_ERR_INVALID_ARG names a value of the configuration that is not what a config.json says. */
kith_status ki_config_compare(const char *path, const kith_transformer_config *config);

#endif
