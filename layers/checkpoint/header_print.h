/* layers/checkpoint/header_print.h - the header of a file that is to hold all entries of a catalog.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_CHECKPOINT_HEADER_PRINT_H
#define KI_CHECKPOINT_HEADER_PRINT_H

#include "catalog.h"
#include "header.h"

typedef struct ki_printed {
    char *text;         /* [nbytes] the first bytes of the file: length and JSON */
    size_t nbytes;      /* a multiple of eight */
    ki_stored *tensors; /* [entry_count] of the catalog; names are the catalog's */
    int64_t file_nbytes;
} ki_printed;

/* All numbers are of one dtype. */
kith_status ki_header_print(const ki_catalog *catalog, kith_dtype dtype, ki_printed *printed);
void ki_printed_fini(ki_printed *printed);

#endif
