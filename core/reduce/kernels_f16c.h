/* core/reduce/kernels_f16c.h - f16 with the conversion instructions of F16C, eight elements at a time. The compiler
 * does not find them in the loops of kernels_template.h. The bits are those of convert.h: round to nearest even
 * whatever the thread's rounding mode is, NaNs quiet with their upper payload.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_REDUCE_KERNELS_F16C_H
#define KI_REDUCE_KERNELS_F16C_H

#include "kernels_ops.h"
#include <immintrin.h>

typedef __m256 f32x8;

static inline f32x8 widen_8(const u16_mem *from)
{
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)from));
}

static inline __m128i narrow_8(f32x8 x)
{
    return _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

static inline void store_8(u16_mem *to, __m128i x)
{
    _mm_storeu_si128((__m128i *)(void *)to, x);
}

static inline f32x8 broadcast_8(f32 x)
{
    return _mm256_set1_ps(x);
}

/* The operators of kernels_ops.h. minps and maxps return the right operand unless the left one is strictly less or
 * greater. */
static inline f32x8 canonical_8(f32x8 x, f32x8 is_nan)
{
    return _mm256_blendv_ps(x, _mm256_set1_ps(__builtin_nanf("")), is_nan);
}

static inline f32x8 sum_8(f32x8 a, f32x8 b)
{
    f32x8 r = _mm256_add_ps(a, b);
    return canonical_8(r, _mm256_cmp_ps(r, r, _CMP_UNORD_Q));
}

static inline f32x8 prod_8(f32x8 a, f32x8 b)
{
    f32x8 r = _mm256_mul_ps(a, b);
    return canonical_8(r, _mm256_cmp_ps(r, r, _CMP_UNORD_Q));
}

static inline f32x8 min_8(f32x8 a, f32x8 b)
{
    return canonical_8(_mm256_min_ps(a, b), _mm256_cmp_ps(a, b, _CMP_UNORD_Q));
}

static inline f32x8 max_8(f32x8 a, f32x8 b)
{
    return canonical_8(_mm256_max_ps(a, b), _mm256_cmp_ps(a, b, _CMP_UNORD_Q));
}

static inline f32x8 half_sum_8(f32x8 a, f32x8 b)
{
    return _mm256_mul_ps(sum_8(a, b), broadcast_8(0.5f));
}

/* Each loop: VALUE_8 for eight elements, VALUE for the rest. `scalar` is a vector in the first and a number in the
 * second. */
#define F16C_PAIR(NAME, PARAMETER, VALUE_8, VALUE)                                                                     \
    static void pair_##NAME(const ki_reducer *self, const void *left, const void *right, void *first, void *second,    \
                            size_t count)                                                                              \
    {                                                                                                                  \
        const f32 scalar = PARAMETER;                                                                                  \
        const f32x8 scalars = broadcast_8(scalar);                                                                     \
        const u16_mem *l = left, *r = right;                                                                           \
        u16_mem *o = first, *o2 = second;                                                                              \
        size_t i = 0;                                                                                                  \
        (void)self, (void)scalars;                                                                                     \
        for (; count - i >= 8; i += 8) {                                                                               \
            __m128i result = narrow_8(VALUE_8(widen_8(l + i), widen_8(r + i)));                                        \
            store_8(o + i, result);                                                                                    \
            if (o2 != NULL) store_8(o2 + i, result);                                                                   \
        }                                                                                                              \
        for (; i < count; i++) {                                                                                       \
            u16 result = narrow_f16(VALUE(widen_f16(l[i]), widen_f16(r[i])));                                          \
            o[i] = result;                                                                                             \
            if (o2 != NULL) o2[i] = result;                                                                            \
        }                                                                                                              \
    }

#define F16C_LOAD(NAME, PARAMETER, VALUE_8, VALUE)                                                                     \
    static void load_##NAME(const ki_reducer *self, const void *raw, void *acc, size_t count)                          \
    {                                                                                                                  \
        const f32 scalar = PARAMETER;                                                                                  \
        const f32x8 scalars = broadcast_8(scalar);                                                                     \
        const u16_mem *in = raw;                                                                                       \
        f32_mem *out = acc;                                                                                            \
        size_t i = 0;                                                                                                  \
        (void)self, (void)scalars;                                                                                     \
        for (; count - i >= 8; i += 8)                                                                                 \
            _mm256_storeu_ps((float *)acc + i, VALUE_8(widen_8(in + i)));                                              \
        for (; i < count; i++)                                                                                         \
            out[i] = VALUE(widen_f16(in[i]));                                                                          \
    }

#define F16C_STORE(NAME, PARAMETER, VALUE_8, VALUE)                                                                    \
    static void store_##NAME(const ki_reducer *self, const void *acc, void *raw, size_t count)                         \
    {                                                                                                                  \
        const f32 scalar = PARAMETER;                                                                                  \
        const f32x8 scalars = broadcast_8(scalar);                                                                     \
        const f32_mem *in = acc;                                                                                       \
        u16_mem *out = raw;                                                                                            \
        size_t i = 0;                                                                                                  \
        (void)self, (void)scalars;                                                                                     \
        for (; count - i >= 8; i += 8)                                                                                 \
            store_8(out + i, narrow_8(VALUE_8(_mm256_loadu_ps((const float *)acc + i))));                              \
        for (; i < count; i++)                                                                                         \
            out[i] = narrow_f16(VALUE(in[i]));                                                                         \
    }

#define SAME(x) (x)
#define HALF_SUM(x, y) (sum_f32(x, y) * 0.5f)
#define TIMES_8(x) prod_8(x, scalars)
#define TIMES(x) prod_f32(x, scalar)
#define TIMES_SUM_8(x, y) sum_8(TIMES_8(x), TIMES_8(y))
#define TIMES_SUM(x, y) sum_f32(TIMES(x), TIMES(y))
#define OVER_8(x) _mm256_div_ps(x, scalars)
#define OVER(x) ((x) / scalar)

F16C_LOAD(f16, 0, SAME, SAME)
F16C_LOAD(avg_f16, 0, SAME, SAME)
F16C_LOAD(premul_f16, (f32)self->base.scalar, TIMES_8, TIMES)
F16C_STORE(f16, 0, SAME, SAME)
F16C_STORE(avg_f16, (f32)self->order->size, OVER_8, OVER)
F16C_PAIR(sum_f16, 0, sum_8, sum_f32)
F16C_PAIR(prod_f16, 0, prod_8, prod_f32)
F16C_PAIR(min_f16, 0, min_8, min_f32)
F16C_PAIR(max_f16, 0, max_8, max_f32)
F16C_PAIR(avg_f16, 0, half_sum_8, HALF_SUM)
F16C_PAIR(premul_f16, (f32)self->base.scalar, TIMES_SUM_8, TIMES_SUM)

#endif
