/* layers/compute/arith.h - the arithmetic of one element, for the loops of the host and for the kernels of a GPU.
 *
 * Straight-line code without tables, calls or branches that matter, so that a loop over it becomes vector code and a
 * GPU runs it as it is. f32 has polynomials of its own; f64 takes libm, since it serves comparisons and not speed.
 *
 * A fused multiply-add stands where KI_FMA says so and nowhere else (sources are compiled with -ffp-contract=off).
 * So the body of a loop in vector code and its tail give the same bits, and a result does not depend on where in a
 * row an element stands. Between instruction sets with and without FMA the last bits differ.
 *
 * NaN in gives NaN out. Errors that are stated are the largest over all finite arguments, with FMA and without, and are
 * tried over all of f32 by tests/layers/test_compute_arith.c.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_LAYERS_ARITH_H
#define KI_LAYERS_ARITH_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#ifdef __CUDACC__
#define KI_ARITH static __host__ __device__ inline
#else
#define KI_ARITH static inline
#endif

#if defined(__FMA__) || defined(__CUDACC__)
#define KI_FMA(a, b, c) fmaf(a, b, c)
#else
#define KI_FMA(a, b, c) ((a) * (b) + (c))
#endif

#if defined(__GNUC__) && !defined(__clang__) && !defined(__CUDACC__)
#define KI_UNROLL(count) _Pragma(KI_UNROLL_TEXT(GCC unroll count))
#define KI_UNROLL_TEXT(text) #text
#else
#define KI_UNROLL(count) /* others do so by themselves */
#endif

#ifndef KI_VECTOR /* before a loop; loops_template.h lets compilers make vector code of it */
#define KI_VECTOR
#endif

KI_ARITH uint32_t ki_bits_of(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}

KI_ARITH float ki_float_of(uint32_t u)
{
    float x;
    memcpy(&x, &u, sizeof x);
    return x;
}

/* ---- bf16: the upper half of an f32, rounded to nearest even once ---- */

KI_ARITH float ki_widen_bf16(uint16_t x)
{
    return ki_float_of((uint32_t)x << 16);
}

KI_ARITH uint16_t ki_narrow_bf16_f32(float x)
{
    uint32_t u = ki_bits_of(x);
    uint32_t rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
    uint32_t nan = (u >> 16) | 0x40u;
    uint32_t is_nan = 0u - (uint32_t)((u & 0x7fffffffu) > 0x7f800000u);
    return (uint16_t)(rounded ^ ((rounded ^ nan) & is_nan));
}

/* To f32 rounded to odd - towards zero, and the last bit set when something was lost - which keeps a second rounding
 * from seeing a tie that is none. */
KI_ARITH float ki_narrow_odd(double x)
{
    float near = (float)x;
    uint32_t u = ki_bits_of(near);
    if (fabs((double)near) > fabs(x))
        u -= 1;
    if ((double)ki_float_of(u) != x && x == x)
        u |= 1u;
    return ki_float_of(u);
}

KI_ARITH uint16_t ki_narrow_bf16_f64(double x)
{
    return ki_narrow_bf16_f32(ki_narrow_odd(x));
}

/* ---- f16: 5 bits of exponent, subnormal numbers down to 2^-24, rounded to nearest even once; infinity from 65520 on.
 * NaN stays one, quiet, with the upper bits of its payload, as F16C has it; selections are masks, as below ---- */

KI_ARITH uint32_t ki_mask_if(int condition)
{
    return 0u - (uint32_t)condition;
}

KI_ARITH float ki_widen_f16(uint16_t x)
{
    uint32_t sign = ((uint32_t)x & 0x8000u) << 16, size = (uint32_t)x & 0x7fffu;
    uint32_t normal = (size << 13) + (112u << 23);
    normal += (112u << 23) & ki_mask_if(size >= 0x7c00u); /* infinity and NaN: the largest exponent */
    normal |= 0x400000u & ki_mask_if(size > 0x7c00u);
    uint32_t subnormal = ki_bits_of((float)(int32_t)size * 0x1p-24f);
    return ki_float_of(sign | (normal ^ ((normal ^ subnormal) & ki_mask_if(size < 0x400u))));
}

/* Below 2^-14 a sum with 0.5 does the rounding: their last bit is that of the smallest subnormal number. */
KI_ARITH uint16_t ki_narrow_f16_f32(float x)
{
    uint32_t u = ki_bits_of(x), sign = (u >> 16) & 0x8000u, size = u & 0x7fffffffu;
    uint32_t above = ki_mask_if(size > 0x47800000u), capped = size ^ ((size ^ 0x47800000u) & above); /* 65536 */
    uint32_t normal = (capped + 0xfffu + ((capped >> 13) & 1u) - (112u << 23)) >> 13;
    uint32_t subnormal = ki_bits_of(ki_float_of(capped) + 0.5f) - ki_bits_of(0.5f);
    uint32_t r = normal ^ ((normal ^ subnormal) & ki_mask_if(capped < (113u << 23)));
    r |= (0x200u | ((size >> 13) & 0x3ffu)) & ki_mask_if(size > 0x7f800000u);
    return (uint16_t)(sign | r);
}

KI_ARITH uint16_t ki_narrow_f16_f64(double x)
{
    return ki_narrow_f16_f32(ki_narrow_odd(x));
}

/* ---- exponential ---- */

/* x where it is not above (below) a bound; NaN stays. With masks: compilers turn two ?: in a row into a knot. */
KI_ARITH float ki_at_most(float x, float bound)
{
    uint32_t above = 0u - (uint32_t)(x > bound);
    return ki_float_of((ki_bits_of(x) & ~above) | (ki_bits_of(bound) & above));
}

KI_ARITH float ki_at_least(float x, float bound)
{
    uint32_t below = 0u - (uint32_t)(x < bound);
    return ki_float_of((ki_bits_of(x) & ~below) | (ki_bits_of(bound) & below));
}

/* e^x, error below 1.1 ulp (subnormal results: 1.5). x = n ln 2 + r; e^r by a polynomial; 2^n by two factors, so that
 * overflow and subnormal results come by themselves. Polynomials here are summed in pairs: shorter chains. */
KI_ARITH float ki_exp_f32(float x)
{
    const float to_integer = 12582912.0f; /* 1.5 * 2^23: added to a number, it leaves the nearest integer */
    float bounded = ki_at_least(ki_at_most(x, 89.0f), -110.0f);
    float shifted = KI_FMA(bounded, 1.44269504f, to_integer);
    float n = shifted - to_integer;
    float r = KI_FMA(n, -0.693359375f, bounded); /* ln 2 in two parts; the first has 9 bits, so n times it is exact */
    r = KI_FMA(n, 2.12194440e-4f, r);
    float r2 = r * r; /* (e^r - 1 - r) / r^2 on [-0.35, 0.35], Chebyshev */
    float q = KI_FMA(KI_FMA(1.39269268e-3f, r, 8.36377405e-3f), r2, KI_FMA(4.16665487e-2f, r, 1.66665733e-1f));
    float power = KI_FMA(r2, KI_FMA(q, r, 0.5f), r) + 1.0f;
    uint32_t k = ki_bits_of(shifted) - ki_bits_of(to_integer);
    uint32_t half = (uint32_t)((int32_t)k >> 1);
    return power * ki_float_of((half + 127u) << 23) * ki_float_of((k - half + 127u) << 23);
}

KI_ARITH double ki_exp_f64(double x)
{
    return exp(x);
}

KI_ARITH float ki_sigmoid_f32(float x)
{
    return 1.0f / (1.0f + ki_exp_f32(-x));
}

KI_ARITH double ki_sigmoid_f64(double x)
{
    return 1.0 / (1.0 + exp(-x));
}

/* ---- the normal distribution ---- */

/* The share of it below x, (1 + erf(x / sqrt 2)) / 2. Absolute error below 1.2e-7, relative below 3e-5 down to x = -7.
 * The tail beyond |x| is exp(t q(t)) / 2 with t = |x| / sqrt 2 and t q(t) near log(erfc(t)), so small values of gelu
 * left of zero do not drown in a subtraction from 1. Beyond the fit (t > 5) the polynomial falls on. */
KI_ARITH float ki_normal_cdf_f32(float x)
{
    float t = ki_at_most(fabsf(x) * 0.707106781f, 12.0f); /* where the tail is 0 */
    float t2 = t * t, t4 = t2 * t2;                       /* weighted minimax on [0, 5] */
    float q01 = KI_FMA(-6.36586130e-1f, t, -1.12838113f), q23 = KI_FMA(1.96305029e-2f, t, -1.02963760e-1f);
    float q45 = KI_FMA(-1.18605467e-3f, t, -4.84225690e-4f), q67 = KI_FMA(-8.01445640e-5f, t, 4.37894691e-4f);
    float q89 = KI_FMA(-3.18183680e-7f, t, 7.78525919e-6f);
    float q = KI_FMA(t4, KI_FMA(t4, q89, KI_FMA(t2, q67, q45)), KI_FMA(t2, q23, q01));
    float tail = 0.5f * ki_exp_f32(t * q);
    return x > 0.0f ? 1.0f - tail : tail;
}

KI_ARITH double ki_normal_cdf_f64(double x)
{
    return 0.5 * erfc(-0.70710678118654752440 * x);
}

KI_ARITH float ki_normal_density_f32(float x)
{
    return 0.398942280f * ki_exp_f32(-0.5f * x * x);
}

KI_ARITH double ki_normal_density_f64(double x)
{
    return 0.39894228040143267794 * exp(-0.5 * x * x);
}

/* ---- names for both types ---- */

KI_ARITH float ki_sqrt_f32(float x)
{
    return sqrtf(x);
}

KI_ARITH double ki_sqrt_f64(double x)
{
    return sqrt(x);
}

KI_ARITH float ki_log_f32(float x) /* once a row: libm's */
{
    return logf(x);
}

KI_ARITH double ki_log_f64(double x)
{
    return log(x);
}

/* ---- activations and their slopes, for both types ---- */

/* tanh(u) = 2 sigmoid(2 u) - 1, so the tanh form is x sigmoid(2 u): no difference of numbers that are nearly equal.
 * 2 u = x (KI_GELU_1 + KI_GELU_3 x^2). Slopes are constant to the last bit beyond +-32, where x^2 could overflow. */
#define KI_GELU_1 1.5957691216057307117597842397375
#define KI_GELU_3 (0.044715 * KI_GELU_1)

#define KI_ACTIVATIONS(real, type)                                                                                     \
    KI_ARITH real ki_silu_##type(real x)                                                                               \
    {                                                                                                                  \
        return x * ki_sigmoid_##type(x);                                                                               \
    }                                                                                                                  \
    KI_ARITH real ki_silu_slope_##type(real x)                                                                         \
    {                                                                                                                  \
        real s = ki_sigmoid_##type(x);                                                                                 \
        return s + x * s * ((real)1 - s);                                                                              \
    }                                                                                                                  \
    KI_ARITH real ki_gelu_##type(real x)                                                                               \
    {                                                                                                                  \
        return x * ki_normal_cdf_##type(x);                                                                            \
    }                                                                                                                  \
    KI_ARITH real ki_gelu_slope_##type(real x)                                                                         \
    {                                                                                                                  \
        return ki_normal_cdf_##type(x) + x * ki_normal_density_##type(x);                                              \
    }                                                                                                                  \
    KI_ARITH real ki_gelu_tanh_##type(real x)                                                                          \
    {                                                                                                                  \
        return x * ki_sigmoid_##type(x * ((real)KI_GELU_1 + (real)KI_GELU_3 * (x * x)));                               \
    }                                                                                                                  \
    KI_ARITH real ki_gelu_tanh_slope_##type(real x)                                                                    \
    {                                                                                                                  \
        real b = x > (real)32 ? (real)32 : x < (real)-32 ? (real)-32 : x;                                              \
        real s = ki_sigmoid_##type(b * ((real)KI_GELU_1 + (real)KI_GELU_3 * (b * b)));                                 \
        return s + s * ((real)1 - s) * (b * ((real)KI_GELU_1 + (real)(3 * KI_GELU_3) * (b * b)));                      \
    }

KI_ACTIVATIONS(float, f32)
KI_ACTIVATIONS(double, f64)

#endif
