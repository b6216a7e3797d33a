/* tests/backends/shm/reducer.c - reductions for the harness: few types, plain loops, the documented order.
 *
 * The tests do not share the library's kernels: what they check is which elements the backend combines, with whom and
 * in which order. The op HARNESS_FIRST_MINUS is a - b, neither commutative nor associative, so a wrong order shows.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "harness.h"
#include <string.h>

static double load(const void *data, size_t index, kith_dtype dtype)
{
    switch (dtype) {
    case KITH_F32: {
        float value;
        memcpy(&value, (const unsigned char *)data + index * 4, 4);
        return value;
    }
    case KITH_F64: {
        double value;
        memcpy(&value, (const unsigned char *)data + index * 8, 8);
        return value;
    }
    default:
        return ((const unsigned char *)data)[index];
    }
}

static void store(void *data, size_t index, kith_dtype dtype, double value)
{
    float single = (float)value;
    if (dtype == KITH_F32)
        memcpy((unsigned char *)data + index * 4, &single, 4);
    else if (dtype == KITH_F64)
        memcpy((unsigned char *)data + index * 8, &value, 8);
    else
        ((unsigned char *)data)[index] = (unsigned char)(unsigned)value;
}

static double combine(double left, double right, int op)
{
    switch (op) {
    case KITH_SUM:
        return left + right;
    case KITH_MAX:
        return left > right ? left : right;
    case KITH_MIN:
        return left < right ? left : right;
    default:
        return left - right;
    }
}

/* The order of kith/coll.h. */
static double combine_all(const double *values, int count, int op)
{
    double merged[HARNESS_RANKS];
    int power = 1;
    while (power * 2 <= count)
        power *= 2;
    int pairs = count - power, left = 0;
    for (int i = 0; i < count;) {
        if (left < pairs) {
            merged[left++] = combine(values[i], values[i + 1], op);
            i += 2;
        } else {
            merged[left++] = values[i++];
        }
    }
    for (; left > 1; left /= 2)
        for (int i = 0; i < left / 2; i++)
            merged[i] = combine(merged[2 * i], merged[2 * i + 1], op);
    return merged[0];
}

static void reduce(const kith_be_reducer *self, const void *const *src, int src_count, void *const *dst, int dst_count,
                   size_t count, unsigned flags)
{
    kith_dtype dtype = (kith_dtype)self->int_scalar;
    (void)flags;
    for (size_t i = 0; i < count; i++) {
        double values[HARNESS_RANKS];
        for (int r = 0; r < src_count; r++)
            values[r] = load(src[r], i, dtype);
        double result = combine_all(values, src_count, (int)self->scalar);
        for (int k = 0; k < dst_count; k++)
            store(dst[k], i, dtype, result);
    }
}

void harness_reducer(kith_be_reducer *reducer, kith_dtype dtype, int op)
{
    *reducer = (kith_be_reducer){ .reduce = reduce,
                                  .nbytes = dtype == KITH_F32   ? 4
                                            : dtype == KITH_F64 ? 8
                                                                : 1,
                                  .is_commutative = op != HARNESS_FIRST_MINUS,
                                  .scalar = op,
                                  .int_scalar = dtype };
}
