/* tests/backends/shm/reducer.c - reductions for the harness: few types, plain loops, the documented order.
 *
 * The tests do not share the library's kernels: what they check is which elements the backend combines, with whom and
 * in which order. The op HARNESS_FIRST_MINUS is a - b, neither commutative nor associative, so a wrong order shows.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "harness.h"
#include <string.h>

#define BLOCK 128 /* elements at once, so that compilers make vectors of the loops */

static void load(double *to, const unsigned char *from, size_t count, kith_dtype dtype)
{
    for (size_t i = 0; i < count; i++) {
        float single;
        if (dtype == KITH_F32) {
            memcpy(&single, from + i * sizeof single, sizeof single);
            to[i] = single;
        } else {
            to[i] = from[i];
        }
    }
}

static void store(unsigned char *to, const double *from, size_t count, kith_dtype dtype)
{
    for (size_t i = 0; i < count; i++) {
        float single = (float)from[i];
        if (dtype == KITH_F32)
            memcpy(to + i * sizeof single, &single, sizeof single);
        else
            to[i] = (unsigned char)(unsigned)from[i];
    }
}

static void combine(double *out, const double *left, const double *right, int op)
{
    for (int i = 0; i < BLOCK; i++)
        out[i] = op == KITH_SUM ? left[i] + right[i] : left[i] - right[i];
}

/* The order of kith/coll.h; the result stands in the first. */
static void combine_all(double (*values)[BLOCK], int count, int op)
{
    int power = 1, left = 0;
    while (power * 2 <= count)
        power *= 2;
    for (int i = 0; i < count; left++) {
        if (left < count - power) {
            combine(values[left], values[i], values[i + 1], op);
            i += 2;
        } else {
            memmove(values[left], values[i++], sizeof values[0]);
        }
    }
    for (; left > 1; left /= 2)
        for (int i = 0; i < left / 2; i++)
            combine(values[i], values[2 * i], values[2 * i + 1], op);
}

static void reduce(const kith_be_reducer *self, const void *const *src, int src_count, void *const *dst, int dst_count,
                   size_t count, unsigned flags)
{
    static _Thread_local double values[HARNESS_RANKS][BLOCK];
    kith_dtype dtype = (kith_dtype)self->int_scalar;
    (void)flags;
    for (size_t at = 0; at < count; at += BLOCK) {
        size_t part = count - at < BLOCK ? count - at : BLOCK;
        for (int r = 0; r < src_count; r++)
            load(values[r], (const unsigned char *)src[r] + at * self->nbytes, part, dtype);
        combine_all(values, src_count, (int)self->scalar);
        for (int k = 0; k < dst_count; k++)
            store((unsigned char *)dst[k] + at * self->nbytes, values[0], part, dtype);
    }
}

void harness_reducer(kith_be_reducer *reducer, kith_dtype dtype, int op)
{
    *reducer = (kith_be_reducer){ .reduce = reduce,
                                  .nbytes = dtype == KITH_F32 ? 4 : 1,
                                  .is_commutative = op != HARNESS_FIRST_MINUS,
                                  .scalar = op,
                                  .int_scalar = dtype };
}
