/* core/device/sides.h - what this rank gives to a collective and what it gets: the memory that a staged one copies.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_DEVICE_SIDES_H
#define KI_DEVICE_SIDES_H

#include "group.h"

/* One side of an operation: one run of elements, or blocks where counts is not NULL. */
typedef struct ki_side {
    unsigned char *base;
    size_t count;
    const size_t *counts, *displs;
} ki_side;

ki_side ki_side_send(const kith_request *request);
ki_side ki_side_recv(const kith_request *request);

#endif
