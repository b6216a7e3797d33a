/* core/reduce/kernels_ops.h - operators and conversions on one element, the text that the loops of kernels_template.h
 * repeat.
 *
 * Names are <operator>_<type>. Integer arithmetic is done in unsigned types and wraps. Float operators return the
 * canonical NaN whenever the result is a NaN. min and max return the right operand when both are equal, which decides
 * between -0 and +0.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_REDUCE_KERNELS_OPS_H
#define KI_REDUCE_KERNELS_OPS_H

#include "convert.h"
#include <stddef.h>
#include <stdint.h>

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

/* Elements in the caller's memory: any alignment, any declared type. */
#define MEMORY_TYPE(T) typedef T T##_mem __attribute__((aligned(1), may_alias))
MEMORY_TYPE(u8);
MEMORY_TYPE(u16);
MEMORY_TYPE(u32);
MEMORY_TYPE(u64);
MEMORY_TYPE(i8);
MEMORY_TYPE(i16);
MEMORY_TYPE(i32);
MEMORY_TYPE(i64);
MEMORY_TYPE(i128);
MEMORY_TYPE(f32);
MEMORY_TYPE(f64);

/* Promises the compiler that iterations do not depend on each other (sources and destinations are equal or disjoint).
 */
#ifdef __clang__
#pragma clang diagnostic ignored "-Wpass-failed" /* not every loop is worth vector code on every instruction set */
#define INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#define UNROLLED INDEPENDENT /* it does so by itself */
#else
#define INDEPENDENT _Pragma("GCC ivdep")
#ifdef KI_CHECKED_BUILD
#define UNROLLED INDEPENDENT
#else
#define UNROLLED INDEPENDENT _Pragma("GCC unroll 4")
#endif
#endif

#define FLOAT_OPS(T, NAN_VALUE)                                                                                        \
    static inline T sum_##T(T a, T b)                                                                                  \
    {                                                                                                                  \
        T r = a + b;                                                                                                   \
        return r != r ? NAN_VALUE : r;                                                                                 \
    }                                                                                                                  \
    static inline T prod_##T(T a, T b)                                                                                 \
    {                                                                                                                  \
        T r = a * b;                                                                                                   \
        return r != r ? NAN_VALUE : r;                                                                                 \
    }                                                                                                                  \
    static inline T min_##T(T a, T b)                                                                                  \
    {                                                                                                                  \
        T r = a < b ? a : b;                                                                                           \
        return __builtin_isunordered(a, b) ? NAN_VALUE : r;                                                            \
    }                                                                                                                  \
    static inline T max_##T(T a, T b)                                                                                  \
    {                                                                                                                  \
        T r = a > b ? a : b;                                                                                           \
        return __builtin_isunordered(a, b) ? NAN_VALUE : r;                                                            \
    }
/* Inside a sum or product of several a NaN stays some NaN; it is enough to make the last one canonical. */
#define FLOAT_PLAIN_OPS(T)                                                                                             \
    static inline T plain_sum_##T(T a, T b)                                                                            \
    {                                                                                                                  \
        return a + b;                                                                                                  \
    }                                                                                                                  \
    static inline T plain_prod_##T(T a, T b)                                                                           \
    {                                                                                                                  \
        return a * b;                                                                                                  \
    }
FLOAT_PLAIN_OPS(f32)
FLOAT_PLAIN_OPS(f64)
FLOAT_OPS(f32, __builtin_nanf(""))
FLOAT_OPS(f64, __builtin_nan(""))

/* W: an unsigned type at least as wide as int, so that nothing is promoted to a signed one. */
#define UNSIGNED_OPS(T, W)                                                                                             \
    static inline T sum_##T(T a, T b)                                                                                  \
    {                                                                                                                  \
        return (T)((W)a + (W)b);                                                                                       \
    }                                                                                                                  \
    static inline T prod_##T(T a, T b)                                                                                 \
    {                                                                                                                  \
        return (T)((W)a * (W)b);                                                                                       \
    }                                                                                                                  \
    static inline T band_##T(T a, T b)                                                                                 \
    {                                                                                                                  \
        return (T)((W)a & (W)b);                                                                                       \
    }                                                                                                                  \
    static inline T bor_##T(T a, T b)                                                                                  \
    {                                                                                                                  \
        return (T)((W)a | (W)b);                                                                                       \
    }                                                                                                                  \
    static inline T bxor_##T(T a, T b)                                                                                 \
    {                                                                                                                  \
        return (T)((W)a ^ (W)b);                                                                                       \
    }
UNSIGNED_OPS(u8, u32)
UNSIGNED_OPS(u16, u32)
UNSIGNED_OPS(u32, u32)
UNSIGNED_OPS(u64, u64)

#define ORDER_OPS(T)                                                                                                   \
    static inline T min_##T(T a, T b)                                                                                  \
    {                                                                                                                  \
        return a < b ? a : b;                                                                                          \
    }                                                                                                                  \
    static inline T max_##T(T a, T b)                                                                                  \
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
static inline i64 sum_i64(i64 a, i64 b)
{
    return (i64)((u64)a + (u64)b);
}

static inline i128 sum_i128(i128 a, i128 b)
{
    return (i128)((u128)a + (u128)b);
}

#endif
