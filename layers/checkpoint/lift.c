/* layers/checkpoint/lift.c - see lift.h.
 *
 * Parts are contiguous in memory, padding included, so a piece is a run of elements. Where the file has the matrix
 * transposed it is whole rows.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "lift.h"

#include "core/base/fault.h"
#include "layers/layers.h"

#include <stdlib.h>

#define PIECE_NBYTES ((int64_t)32 << 20)

typedef enum way { OUT, IN } way;

static int64_t elements_of_piece(const ki_part *part)
{
    int64_t units, unit, most = PIECE_NBYTES / (int64_t)kith_dtype_nbytes(part->dtype);
    ki_part_units(part->param, &units, &unit);
    if (unit > most)
        return unit;
    return part->count < most ? part->count : most / unit * unit;
}

static kith_status walk_piece(const ki_space *space, const ki_part *part, ki_part piece, way which, ki_stretch_fn each,
                              void *arg)
{
    size_t width = kith_dtype_nbytes(part->dtype), nbytes = (size_t)piece.count * width;
    void *there = part->data + (piece.first - part->first) * (int64_t)width;
    if (which == IN)
        memset(piece.data, 0, nbytes);
    kith_status status = which == OUT ? ki_space_copy_out(space, piece.data, there, nbytes) : KITH_OK;
    if (status == KITH_OK)
        status = ki_part_walk(&piece, each, arg);
    if (status == KITH_OK && which == IN)
        status = ki_space_copy_in(space, there, piece.data, nbytes);
    return status;
}

static kith_status walk(const ki_part *part, way which, ki_stretch_fn each, void *arg)
{
    const ki_space *space = &part->param->layers->space;
    if (ki_space_is_host(space) || part->count == 0)
        return ki_part_walk(part, each, arg);
    int64_t most = elements_of_piece(part), end = part->first + part->count;
    size_t nbytes = (size_t)most * kith_dtype_nbytes(part->dtype);
    ki_part piece = *part;
    piece.data = ki_fault(KI_FAULT_ALLOC) ? NULL : malloc(nbytes);
    if (piece.data == NULL)
        return ki_fail(KITH_ERR_NO_MEMORY, "checkpoint: no memory for %zu bytes of %s on the host", nbytes,
                       part->param->name);
    kith_status status = KITH_OK;
    for (; piece.first < end && status == KITH_OK; piece.first += piece.count) {
        piece.count = end - piece.first < most ? end - piece.first : most;
        status = walk_piece(space, part, piece, which, each, arg);
    }
    free(piece.data);
    return status;
}

kith_status ki_lift_out(const ki_part *part, ki_stretch_fn each, void *arg)
{
    return walk(part, OUT, each, arg);
}

kith_status ki_lift_in(const ki_part *part, ki_stretch_fn each, void *arg)
{
    return walk(part, IN, each, arg);
}
