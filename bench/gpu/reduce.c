/* bench/gpu/reduce.c - see reduce.h.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "reduce.h"

#include <string.h>

const size_t *reduce_sizes(const gpu *g, int *count)
{
    static const size_t sizes[] = {
        8, 1 << 10, 16 << 10, 256 << 10, 1 << 20, (size_t)4 << 20, (size_t)16 << 20, (size_t)64 << 20, (size_t)256 << 20
    };
    *count = g->is_quick ? 3 : (int)(sizeof sizes / sizeof sizes[0]);
    return sizes;
}

static float given(int rank, size_t i)
{
    return (float)((i * 7 + (size_t)rank * 3) % 1001);
}

void reduce_fill(reduce *r, float *local, bool is_on_card)
{
    const size_t nbytes = r->count * sizeof *local;
    for (size_t i = 0; i < r->count; i++)
        local[i] = given(r->rank, i);
    if (is_on_card) {
        gpu_put(r->g, r->send, local, nbytes);
        must(kith_stream_fill(r->g->stream, r->recv, 0, nbytes), "fill");
        must(kith_stream_synchronize(r->g->stream), "fill");
        return;
    }
    memcpy(r->send, local, nbytes);
    memset(r->recv, 0, nbytes);
}

void reduce_check(const reduce *r, float *local, bool is_on_card, const char *what)
{
    const float *found = r->recv;
    if (is_on_card) {
        gpu_get(r->g, local, r->recv, r->count * sizeof *local);
        found = local;
    }
    for (size_t i = 0; i < r->count; i++) {
        float wanted = 0;
        for (int rank = 0; rank < r->size; rank++)
            wanted += given(rank, i);
        if (found[i] != wanted)
            give_up("%s of %zu numbers, rank %d: element %zu is %g and should be %g", what, r->count, r->rank, i,
                    (double)found[i], (double)wanted);
    }
}

void reduce_largest(const reduce *r, double *numbers, int count)
{
    must(kith_all_reduce(r->world, numbers, numbers, (size_t)count, KITH_F64, KITH_MAX), "times of all ranks");
}
