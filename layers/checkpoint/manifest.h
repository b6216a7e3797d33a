/* layers/checkpoint/manifest.h - kith.json: what a checkpoint is, and the sums of all that is in it.
 *
 *     {"crc32": "5e1f03aa",
 *     "format": 1,
 *     "step": 100,
 *     "optimizer_steps": 100,                                   -1: no optimizer
 *     "numbers": {"seed": {"value": 42, "bits": "4045000000000000"}, ...},
 *     "files": [
 *     {"name": "config.json", "nbytes": 612, "crc32": "0a41b2c3", "tensors": {}},
 *     {"name": "model.safetensors", "nbytes": 174296, "crc32": "99ee01f4", "tensors": {"lm_head.weight": "d1b9...",
 * ...}},
 *     ...]}
 *
 * The first sum is of all bytes behind its line, a file's of the file, or of its header where it has tensors. The
 * file is written last, so a folder that has it whole is whole; and only Kith writes it, so it is read in exactly
 * this form.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_CHECKPOINT_MANIFEST_H
#define KI_CHECKPOINT_MANIFEST_H

#include <kith/checkpoint.h>
#include <stdbool.h>
#include <stdint.h>

#define KI_MANIFEST_NAME "kith.json"
#define KI_CONFIG_NAME "config.json"
#define KI_MODEL_NAME "model.safetensors"
#define KI_OPTIMIZER_NAME "optimizer.safetensors"

enum { KI_MANIFEST_FILES = 3, KI_MANIFEST_NUMBERS = 4096, KI_NUMBER_NAME = 64 };

typedef struct ki_sum {
    const char *name;
    uint32_t crc;
} ki_sum;

typedef struct ki_manifest_file {
    const char *name;
    int64_t nbytes;
    uint32_t crc;
    const ki_sum *sums; /* [count], sorted by name */
    size_t count;
} ki_manifest_file;

typedef struct ki_manifest {
    int64_t step;
    int64_t optimizer_steps;
    const kith_checkpoint_number *numbers; /* [number_count] */
    size_t number_count;
    ki_manifest_file files[KI_MANIFEST_FILES];
    size_t file_count;
    char *memory; /* of names, when it was read */
    ki_sum *sums; /* likewise */
    kith_checkpoint_number *read_numbers;
} ki_manifest;

kith_status ki_manifest_print(const ki_manifest *manifest, char **text, size_t *nbytes);
/* name: for texts. KITH_ERR_INVALID_ARG: damaged, or of a later version. */
kith_status ki_manifest_parse(const char *name, const char *text, size_t nbytes, ki_manifest *manifest);
void ki_manifest_fini(ki_manifest *manifest);

/* The one of a folder, whose files are there with their sizes. */
kith_status ki_manifest_read(const char *folder, ki_manifest *manifest);

/* NULL: there is no such file. */
const ki_manifest_file *ki_manifest_find(const ki_manifest *manifest, const char *name);

/* Letters, digits, '_' and '.', 1 to 63. */
bool ki_is_number_name(const char *name);

#endif
