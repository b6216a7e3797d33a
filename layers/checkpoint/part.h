/* layers/checkpoint/part.h - from the elements that a rank has in memory to their places in a file, run by run.
 *
 * A rank's part of a parameter is a rectangle of the whole, of which it may be asked to write some rows, or has, with a
 * sharded optimizer, some elements in the order of rows. In the file a row of the rectangle is one run of neighbours;
 * where the file has the matrix transposed, a column is.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_CHECKPOINT_PART_H
#define KI_CHECKPOINT_PART_H

#include "catalog.h"

typedef struct ki_part {
    const kith_param *param;
    const ki_slot *slot;
    const ki_entry *entry;
    kith_dtype dtype;     /* in memory */
    char *data;           /* of element `first` */
    int64_t row_stride;   /* in elements */
    int64_t first, count; /* elements of the rank's part, row by row */
} ki_part;

/* Neighbours in the file. */
typedef struct ki_stretch {
    int64_t at; /* element of the entry */
    int64_t count;
    char *data;
    int64_t stride; /* in memory, in elements */
} ki_stretch;

typedef kith_status (*ki_stretch_fn)(void *arg, const ki_part *part, const ki_stretch *run);

/* All real elements of the part; padding is left out. Ends with the first failure. */
kith_status ki_part_walk(const ki_part *part, ki_stretch_fn each, void *arg);

/* All of a parameter's values on this rank; row by row, or of 1-D ones element by element, that is `units` of
 * `unit` elements. */
ki_part ki_part_of(const kith_param *param, const ki_slot *slot, const ki_entry *entry);
void ki_part_units(const kith_param *param, int64_t *units, int64_t *unit);
/* Units [first, first + count) of it. */
ki_part ki_part_narrow(const ki_part *part, int64_t first, int64_t count);

/* Zeroes what lies beyond the whole. */
kith_status ki_part_zero_padding(const kith_param *param);

#endif
