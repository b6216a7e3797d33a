/* layers/checkpoint/deposit.h - one safetensors file, written by all ranks at once.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_CHECKPOINT_DEPOSIT_H
#define KI_CHECKPOINT_DEPOSIT_H

#include "header_print.h"
#include "holding.h"
#include "manifest.h"
#include "stream.h"

typedef struct ki_deposit {
    const char *name;     /* of the file; static */
    const char *function; /* for texts */
    kith_group *group;
    const ki_catalog *catalog;
    ki_printed printed;
    char *path;
    int fd;
    ki_stream stream;
    int64_t *counts; /* [entry_count] elements that were written */
    uint32_t *sums;  /* [entry_count] */
    ki_sum *named;   /* [entry_count] the same with names */
} ki_deposit;

/* Rank 0 makes the file in the folder, with header and size; all open it. Collective. */
kith_status ki_deposit_open(const ki_holding *holding, const char *folder, const char *name, const ki_catalog *catalog,
                            kith_dtype dtype, ki_deposit *deposit);
/* Local; the parts must be of the catalog. */
kith_status ki_deposit_write(ki_deposit *deposit, const ki_part *part);
/* Brings it to the disk, looks whether every element was written once, and reads the sums back. mine: of the writes.
 * Collective. */
kith_status ki_deposit_finish(ki_deposit *deposit, kith_status mine, ki_manifest_file *file);
/* What finish() gave goes with it. */
void ki_deposit_close(ki_deposit *deposit);

#endif
