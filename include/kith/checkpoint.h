/* kith/checkpoint.h - models in files that others read, too: safetensors with Hugging Face's names and config.json.
 *
 *     kith_transformer_config config = KITH_TRANSFORMER_CONFIG_INIT;
 *     kith_config_read("model/config.json", &config);
 *     ...
 *     kith_weights_load(&place, "model/model.safetensors");       // or the folder, also with an index of several files
 *
 *     kith_checkpoint_number numbers[] = { { "step", 100 }, { "seed", 42 } };
 *     kith_checkpoint_save(&place, "run", 100, numbers, 2);       // run/step-00000100, whole or not there
 *     ...
 *     kith_checkpoint_newest(world, "run", &path, &step);
 *     kith_checkpoint_load(&place, path, numbers, 2);
 *
 * A checkpoint is a folder:
 *
 *     config.json           the model, as transformers reads it
 *     model.safetensors     weights under Hugging Face's names, without padding
 *     optimizer.safetensors moments and masters, "<name of the parameter>.<state>", in the parameter's global shape
 *     kith.json             numbers of the trainer, and the CRC-32 (zlib's) of every tensor of both files, of their
 *                           headers, of config.json and of itself
 *
 * Everything is stored by its place in the whole model, so any layout loads what any other has saved. All ranks write
 * their parts of the same files at the same time, and read only what they need: the folder must be one that all of them
 * see. A folder that was not written to its end never has the name of a checkpoint: it is written as
 * "step-00000100.<n>.part", brought to the disk, and renamed; whatever is killed when, the one before stays whole.
 *
 * All functions with a group fail together: every rank gets the same status, the one that knows why its sentence, and
 * the others the same with that rank's number before it. One thread at a time, the one of the layers.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KITH_CHECKPOINT_H
#define KITH_CHECKPOINT_H

#include <kith/optim.h>
#include <kith/transformer.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- config.json ---- */

/* Reads a config.json of Hugging Face's families gpt2, llama, mistral, mixtral, qwen2, qwen3 into a config made with
 * KITH_TRANSFORMER_CONFIG_INIT; fields that a config.json does not speak of (label_smoothing, capacity_factor) stay.
 * A key that is missing means what it means to transformers. KITH_ERR_INVALID_ARG names the key that is missing or
 * absurd; KITH_ERR_UNSUPPORTED a family, activation, scaling of rotary positions or sliding window that layers do not
 * compute. What inference has no use for is taken where it stands: dropout is GPT-2's resid_pdrop, attention_dropout
 * and auxiliary_weight (router_aux_loss_coef) have keys of their own. Local. */
KITH_API kith_status kith_config_read(const char *path, kith_transformer_config *config);
KITH_API kith_status kith_config_parse(const char *name, const char *text, size_t nbytes,
                                       kith_transformer_config *config);
/* The text of a config.json that transformers reads. KITH_ERR_UNSUPPORTED where no family there has this shape. dtype:
 * of the weights beside it. Caller's: kith_free(). Local. */
KITH_API kith_status kith_config_print(const kith_transformer_config *config, kith_dtype dtype, char **text);

/* ---- what is saved and loaded ---- */

/* Fill with KITH_CHECKPOINT_PLACE_INIT. */
typedef struct kith_checkpoint_place {
    size_t struct_size;
    kith_group *group;       /* all ranks that train the model; NULL: this one alone */
    kith_group *data;        /* as in kith_optim_options: those with the same parts; NULL: this one alone */
    kith_group *expert_data; /* likewise */
    kith_layers *layers;     /* with all of this rank's stages */
    const kith_transformer_config *config; /* of the whole model */
    kith_optim *optim;                     /* NULL: weights alone */
} kith_checkpoint_place;

#define KITH_CHECKPOINT_PLACE_INIT                                                                                     \
    {                                                                                                                  \
        sizeof(kith_checkpoint_place), NULL, NULL, NULL, NULL, NULL, NULL                                              \
    }

/* Loads weights from a safetensors file, or from a folder with model.safetensors or model.safetensors.index.json, under
 * Hugging Face's names (with the prefix "transformer." or "model.", or without); f64, f32, bf16 and f16 are converted.
 * Rows that are missing for a padded vocabulary are zero. Masks and tables of rotary positions of old files, and a tied
 * head that is stored once more, are passed over. With optim its masters follow. A damaged file (sizes, offsets,
 * overlaps, a header that is no JSON) or a foreign one (a tensor is missing, has another shape, or is one that this
 * model has no place for) is KITH_ERR_INVALID_ARG with file, tensor and what was wanted, on all ranks, and no weight
 * has changed. KITH_ERR_IO: a file cannot be read; of a disk that fails while numbers are read, some weights may be
 * new. Collective over group, blocks. */
KITH_API kith_status kith_weights_load(const kith_checkpoint_place *place, const char *path);

/* ---- checkpoints ---- */

/* A number of the trainer: its step, its seed, how many samples it has seen. */
typedef struct kith_checkpoint_number {
    const char *name; /* of letters, digits, '_' and '.', at most 63 */
    double value;     /* kept to the bit; whole numbers up to 2^53 */
} kith_checkpoint_number;

/* Writes folder/step-<step in 8 digits>, and makes folder where it is missing. An older checkpoint of the same step is
 * replaced. Unfinished ones in folder whose writers have died are removed first, where the file system has locks that
 * say so. Of parts that several ranks have each writes some. KITH_ERR_IO says which file and why (full disk, no
 * permission), and what was there before is whole. KITH_ERR_INVALID_ARG names an element that no rank has, or several
 * (the groups are wrong); KITH_ERR_MISMATCH what differs between ranks: step, numbers, config, steps of the optimizer.
 * KITH_ERR_UNSUPPORTED: as of kith_config_print(). Collective over group, blocks. */
KITH_API kith_status kith_checkpoint_save(const kith_checkpoint_place *place, const char *folder, int64_t step,
                                          const kith_checkpoint_number *numbers, size_t count);

/* Reads weights, and with optim its state and step count; without, weights alone. Every checksum is compared before
 * anything changes: KITH_ERR_INVALID_ARG names the damaged file or tensor, or what of the configuration is another
 * model's. numbers: values are filled in by name; one that the file lacks is KITH_ERR_INVALID_ARG. So is a checkpoint
 * without the state that optim keeps, with how to go on (optim NULL). The dtype may change: f32 and f64 weights begin
 * as the masters of a bf16 checkpoint, and bf16 weights of another get new masters. KITH_ERR_IO as of
 * kith_weights_load(). Collective over group, blocks. */
KITH_API kith_status kith_checkpoint_load(const kith_checkpoint_place *place, const char *path,
                                          kith_checkpoint_number *numbers, size_t count);

/* Numbers of a checkpoint before there is anything to load it into. values are filled in by name; a number that the
 * file lacks (an older trainer wrote it) keeps the value that rank 0 has given. KITH_ERR_IO when kith.json cannot
 * be read, KITH_ERR_INVALID_ARG when it is damaged. Rank 0's work; group NULL: this rank alone. Collective, blocks. */
KITH_API kith_status kith_checkpoint_read_numbers(kith_group *group, const char *path, kith_checkpoint_number *numbers,
                                                  size_t count);

/* The checkpoint with the highest step of a folder that has kith.json and all files whole in their size; a path that is
 * itself a checkpoint is the answer. Damaged ones that are passed over for it are told to the log (kith_log_set()) as
 * warnings, with what is wrong with them. *path is the caller's: kith_free(). KITH_ERR_INVALID_ARG when there is none.
 * All ranks get rank 0's answer. group NULL: this rank alone. Collective, blocks. */
KITH_API kith_status kith_checkpoint_newest(kith_group *group, const char *folder, char **path, int64_t *step);

/* Removes all but `keep` whole checkpoints, and unfinished ones that nobody is writing. The one of step `stays` is kept
 * whatever else is there (a run that went on from an older checkpoint finds higher steps); -1: none is special. The
 * others are those with the highest steps. What is damaged is not counted, and stays. keep 0: nothing is removed. Rank
 * 0's work; group NULL: this rank alone. Collective, blocks. */
KITH_API kith_status kith_checkpoint_prune(kith_group *group, const char *folder, int keep, int64_t stays);

#ifdef __cplusplus
}
#endif
#endif
