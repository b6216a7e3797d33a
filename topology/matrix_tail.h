/* topology/matrix_tail.h - the end of a GPU's row, and all that it can mean.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_TOPOLOGY_MATRIX_TAIL_H
#define KI_TOPOLOGY_MATRIX_TAIL_H

#include "matrix.h"

enum { KI_TAIL_ITEMS = 6, KI_TAIL_READINGS = 16 };

typedef struct ki_tail_item {
    ki_slice text;
    bool is_na;
    int tabs; /* before it */
} ki_tail_item;

typedef struct ki_reading {
    ki_slice cpus, numa, memory_numa;
} ki_reading;

typedef struct ki_tail {
    int gpu; /* position */
    ki_tail_item items[KI_TAIL_ITEMS];
    int item_count;
    ki_reading readings[KI_TAIL_READINGS];
    int reading_count;
    bool must_be_parted;  /* its first list is no list as it stands */
    bool is_without_numa; /* CPUs, and an empty place where the NUMA node should stand */
    int same_as;          /* an earlier row with the same tail; -1: none */
    int chosen;
} ki_tail;

/* Lists what the end of the row of a GPU (a position) can mean. Where that is certain, tail->chosen is its number. */
kith_status ki_matrix_read_tail(const ki_matrix *m, int gpu, ki_tail *tail);

/* Lists of numbers in a line: equal text (both may be missing), any number in both, how many numbers (raises *last to
 * the highest). */
bool ki_list_is_equal(ki_slice a, ki_slice b);
bool ki_list_intersects(ki_slice a, ki_slice b);
int ki_list_count(ki_slice list, int *last);

#endif
