/* core/reduce/elements.h - operators and conversions on one element: the arithmetic of reductions, for the host's loops
 * (kernels_template.h) and for kernels of a GPU (core/device/cuda/reduce).
 *
 * Names are <operator>_<type>. Integer arithmetic is done in unsigned types and wraps. Float operators return the
 * canonical NaN whenever the result is a NaN. min and max return the right operand when both are equal, which decides
 * between -0 and +0.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_REDUCE_ELEMENTS_H
#define KI_REDUCE_ELEMENTS_H

#include "convert.h"
#include <stdint.h>

#ifdef __CUDACC__
#define KI_UNORDERED(a, b) ((a) != (a) || (b) != (b))
#define KI_NAN_f32 __int_as_float(0x7fc00000)
#define KI_NAN_f64 __longlong_as_double(0x7ff8000000000000ll)
#else
#define KI_UNORDERED(a, b) __builtin_isunordered(a, b)
#define KI_NAN_f32 __builtin_nanf("")
#define KI_NAN_f64 __builtin_nan("")
#endif

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int8_t i8;
typedef int16_t i16;
typedef int32_t i32;
typedef int64_t i64;
__extension__ typedef __int128 i128;
__extension__ typedef unsigned __int128 u128;
typedef float f32;
typedef double f64;

#define FLOAT_OPS(T, NAN_VALUE)                                                                                        \
    KI_ELEMENT T sum_##T(T a, T b)                                                                                     \
    {                                                                                                                  \
        T r = a + b;                                                                                                   \
        return r != r ? NAN_VALUE : r;                                                                                 \
    }                                                                                                                  \
    KI_ELEMENT T prod_##T(T a, T b)                                                                                    \
    {                                                                                                                  \
        T r = a * b;                                                                                                   \
        return r != r ? NAN_VALUE : r;                                                                                 \
    }                                                                                                                  \
    KI_ELEMENT T min_##T(T a, T b)                                                                                     \
    {                                                                                                                  \
        T r = a < b ? a : b;                                                                                           \
        return KI_UNORDERED(a, b) ? NAN_VALUE : r;                                                                     \
    }                                                                                                                  \
    KI_ELEMENT T max_##T(T a, T b)                                                                                     \
    {                                                                                                                  \
        T r = a > b ? a : b;                                                                                           \
        return KI_UNORDERED(a, b) ? NAN_VALUE : r;                                                                     \
    }
/* Inside a sum or product of several a NaN stays some NaN; it is enough to make the last one canonical. */
#define FLOAT_PLAIN_OPS(T)                                                                                             \
    KI_ELEMENT T plain_sum_##T(T a, T b)                                                                               \
    {                                                                                                                  \
        return a + b;                                                                                                  \
    }                                                                                                                  \
    KI_ELEMENT T plain_prod_##T(T a, T b)                                                                              \
    {                                                                                                                  \
        return a * b;                                                                                                  \
    }
FLOAT_PLAIN_OPS(f32)
FLOAT_PLAIN_OPS(f64)
FLOAT_OPS(f32, KI_NAN_f32)
FLOAT_OPS(f64, KI_NAN_f64)

/* W: an unsigned type at least as wide as int, so that nothing is promoted to a signed one. */
#define UNSIGNED_OPS(T, W)                                                                                             \
    KI_ELEMENT T sum_##T(T a, T b)                                                                                     \
    {                                                                                                                  \
        return (T)((W)a + (W)b);                                                                                       \
    }                                                                                                                  \
    KI_ELEMENT T prod_##T(T a, T b)                                                                                    \
    {                                                                                                                  \
        return (T)((W)a * (W)b);                                                                                       \
    }                                                                                                                  \
    KI_ELEMENT T band_##T(T a, T b)                                                                                    \
    {                                                                                                                  \
        return (T)((W)a & (W)b);                                                                                       \
    }                                                                                                                  \
    KI_ELEMENT T bor_##T(T a, T b)                                                                                     \
    {                                                                                                                  \
        return (T)((W)a | (W)b);                                                                                       \
    }                                                                                                                  \
    KI_ELEMENT T bxor_##T(T a, T b)                                                                                    \
    {                                                                                                                  \
        return (T)((W)a ^ (W)b);                                                                                       \
    }
UNSIGNED_OPS(u8, u32)
UNSIGNED_OPS(u16, u32)
UNSIGNED_OPS(u32, u32)
UNSIGNED_OPS(u64, u64)

#define ORDER_OPS(T)                                                                                                   \
    KI_ELEMENT T min_##T(T a, T b)                                                                                     \
    {                                                                                                                  \
        return a < b ? a : b;                                                                                          \
    }                                                                                                                  \
    KI_ELEMENT T max_##T(T a, T b)                                                                                     \
    {                                                                                                                  \
        return a > b ? a : b;                                                                                          \
    }
ORDER_OPS(u8)
ORDER_OPS(u16)
ORDER_OPS(u32)
ORDER_OPS(u64)
ORDER_OPS(i8)
ORDER_OPS(i16)
ORDER_OPS(i32)
ORDER_OPS(i64)

/* Exact sums for avg. |sum| <= 2^31 ranks * 2^32 fits i64 except at the extreme of both, which no group reaches. */
KI_ELEMENT i64 sum_i64(i64 a, i64 b)
{
    return (i64)((u64)a + (u64)b);
}

KI_ELEMENT i128 sum_i128(i128 a, i128 b)
{
    return (i128)((u128)a + (u128)b);
}

/* bf16 reaches as far as f32, so a sum may pass the end of both while the average does not. Contributions to an average
 * are made smaller by a power of two, at least the number of ranks: exactly, because the subnormals of f32 have 16 bits
 * more than those of bf16. The bits of a result that never left f32's range stay the same. */
KI_ELEMENT f32 bf16_share(unsigned ranks)
{
    unsigned bits = 0;
    while ((u64)1 << bits < ranks)
        bits++;
    return f32_of_bits((127u - bits) << 23);
}

#endif
