/* layers/checkpoint/archive.h - the tensors of one safetensors file, or of a folder with several, by name.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_CHECKPOINT_ARCHIVE_H
#define KI_CHECKPOINT_ARCHIVE_H

#include "header.h"

typedef struct ki_archive_file {
    char *path;
    int fd;
    int64_t nbytes;
    uint32_t header_crc; /* of length and JSON */
    ki_header header;
} ki_archive_file;

typedef struct ki_archive {
    const char *path; /* the caller's, for texts */
    ki_archive_file *files;
    int file_count;
    ki_stored *tensors; /* [count], sorted by name; names are the files' */
    size_t count;
} ki_archive;

/* path: a file, or a folder with model.safetensors or model.safetensors.index.json. Local. Leaves nothing behind when
 * it fails. */
kith_status ki_archive_open(const char *path, ki_archive *archive);
void ki_archive_close(ki_archive *archive);

/* NULL when there is none. */
const ki_stored *ki_archive_find(const ki_archive *archive, const char *name);

/* ---- archive_index.c: which files there are ---- */

typedef struct ki_index_entry {
    const char *tensor, *file;
} ki_index_entry;

/* A model.safetensors.index.json. */
typedef struct ki_index {
    ki_index_entry *entries; /* [count], sorted by tensor */
    size_t count;
    char *names;
} ki_index;

kith_status ki_index_parse(const char *name, const char *text, size_t nbytes, ki_index *index);
void ki_index_fini(ki_index *index);

#endif
