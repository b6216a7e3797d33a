/* layers/checkpoint/header.h - the header of a safetensors file.
 *
 *     8 bytes            length n of the header, little-endian
 *     n bytes            {"__metadata__": {"format": "pt"}, "<name>": {"dtype": "F32", "shape": [2, 3],
 *                        "data_offsets": [0, 24]}, ...}, offsets counted from the end of the header
 *     the data           each tensor's numbers in row-major order, without holes
 *
 * A header is believed only where everything fits: shape, type and offsets of each tensor, no two on the same bytes, no
 * byte that is nobody's, and the end of the last tensor at the end of the file.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_CHECKPOINT_HEADER_H
#define KI_CHECKPOINT_HEADER_H

#include <kith/dtype.h>
#include <stdbool.h>
#include <stdint.h>

enum { KI_STORED_DIMS = 8, KI_HEADER_PREFIX = 8, KI_HEADER_MOST = 100000000 };

/* A tensor in a file. */
typedef struct ki_stored {
    const char *name;
    const char *type; /* "BF16"; static */
    kith_dtype dtype; /* of the types that numbers of layers may come from (convert.h); else -1 */
    int dim_count;
    int64_t shape[KI_STORED_DIMS];
    int64_t begin, end; /* bytes [begin, end) of the file */
    int file;           /* which of a archive's files (archive.h) */
} ki_stored;

typedef struct ki_header {
    ki_stored *tensors; /* [count], sorted by name */
    size_t count;
    char *names; /* memory of all names */
} ki_header;

/* text: [nbytes], the JSON. file_nbytes: of the whole file. KITH_ERR_INVALID_ARG says what is wrong with which tensor,
 * and leaves nothing behind. */
kith_status ki_header_parse(const char *file, const char *text, size_t nbytes, int64_t file_nbytes, ki_header *header);
void ki_header_fini(ki_header *header);

/* "F32" for KITH_F32; NULL where there is none. */
const char *ki_stored_type(kith_dtype dtype);

/* "[2, 3]". Returns text. */
enum { KI_SHAPE_NBYTES = 192 };
const char *ki_shape_text(const int64_t *shape, int dim_count, char text[KI_SHAPE_NBYTES]);

#endif
