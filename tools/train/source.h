/* tools/train/source.h - tokens in a file: which bytes they are, and reading some of them.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_TOOLS_TRAIN_SOURCE_H
#define KI_TOOLS_TRAIN_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct train_source {
    const char *path; /* borrowed */
    int fd;
    int token_nbytes;   /* 1, 2, 4; numbers are little-endian */
    int64_t skipped;    /* bytes before the first token */
    int64_t count;      /* tokens */
    int64_t vocabulary; /* ids must be below it */
} train_source;

/* is_text: every byte is a token. Else a .bin of llm.c, or plain numbers of token_nbytes (0: as the name ends, .u16 or
 * .u32). A file of less than 16 MiB is looked through for tokens that the model does not have; in longer ones they are
 * found when they are read. False with a sentence in *error (free()); then there is nothing to close. */
bool train_source_open(train_source *source, const char *path, bool is_text, int token_nbytes, int64_t vocabulary,
                       char **error);
void train_source_close(train_source *source);

/* Reads tokens first .. first + count - 1, which must be there. */
bool train_source_read(const train_source *source, int64_t first, int64_t count, int32_t *tokens, char **error);

/* A number of the file's bytes and of what its tokens are, below 2^53. At most 1 MiB is read: all of it, or pieces from
 * the first byte to the last. */
bool train_source_hash(const train_source *source, uint64_t *hash, char **error);
/* Bytes of the file. */
int64_t train_source_nbytes(const train_source *source);

/* A sentence in *error; returns false. *error is NULL when memory is short. */
bool train_source_wrong(char **error, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
