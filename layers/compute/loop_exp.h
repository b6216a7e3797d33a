/* layers/compute/loop_exp.h - exp() as straight-line code, for the many probabilities of attention; for loops and for
 * the kernels of a GPU.
 *
 * x = n ln 2 + r with |r| <= ln 2 / 2; a polynomial in r, and n put into the exponent. The error is about one unit in
 * the last place. Arguments are scores less the largest of them or less the logarithm of their sum, so they are 0 or
 * a rounding error above it. Far below 0 the exponent of 2^n becomes 0 as n is cut, and with it the result:
 * probabilities under the smallest normal number are 0. Above the range (a caller's lse that does not belong to its
 * scores) the result is a number that means nothing. NaN stays NaN.
 *
 * Knowing its arguments makes it cheaper than ki_exp_f32() of arith.h, which has the whole range; f64 becomes vector
 * code, too.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_LAYERS_LOOP_EXP_H
#define KI_LAYERS_LOOP_EXP_H

#include "arith.h"

#if defined(__FMA__) || defined(__CUDACC__)
#define KI_EXP_FMA_F64(a, b, c) fma(a, b, c)
#else
#define KI_EXP_FMA_F64(a, b, c) ((a) * (b) + (c))
#endif

KI_ARITH float ki_exp_below_f32(float x)
{
    const float ln2_high = 0x1.62e4p-1f, ln2_low = 0x1.7f7d1cp-20f; /* n * ln2_high is exact */
    const float round = 0x1.8p23f;                                  /* adding it rounds to an integer in the low bits */
    float cut = -88.0f > x ? -88.0f : x;
    float shifted = KI_FMA(cut, 0x1.715476p0f, round);
    float n = shifted - round;
    float r = KI_FMA(-n, ln2_low, KI_FMA(-n, ln2_high, cut));
    float p = KI_FMA(r, 1.0f / 720, 1.0f / 120);
    p = KI_FMA(p, r, 1.0f / 24);
    p = KI_FMA(p, r, 1.0f / 6);
    p = KI_FMA(p, r, 0.5f);
    p = KI_FMA(p, r, 1.0f);
    p = KI_FMA(p, r, 1.0f);
    return p * ki_float_of((ki_bits_of(shifted) << 23) + 0x3f800000u);
}

KI_ARITH double ki_exp_below_f64(double x)
{
    const double ln2_high = 0x1.62e42feep-1, ln2_low = 0x1.a39ef35793c76p-33;
    const double round = 0x1.8p52;
    double cut = -709.0 > x ? -709.0 : x;
    double shifted = KI_EXP_FMA_F64(cut, 0x1.71547652b82fep0, round);
    double n = shifted - round;
    double r = KI_EXP_FMA_F64(-n, ln2_low, KI_EXP_FMA_F64(-n, ln2_high, cut));
    double p = KI_EXP_FMA_F64(r, 1.0 / 6227020800, 1.0 / 479001600);
    p = KI_EXP_FMA_F64(p, r, 1.0 / 39916800);
    p = KI_EXP_FMA_F64(p, r, 1.0 / 3628800);
    p = KI_EXP_FMA_F64(p, r, 1.0 / 362880);
    p = KI_EXP_FMA_F64(p, r, 1.0 / 40320);
    p = KI_EXP_FMA_F64(p, r, 1.0 / 5040);
    p = KI_EXP_FMA_F64(p, r, 1.0 / 720);
    p = KI_EXP_FMA_F64(p, r, 1.0 / 120);
    p = KI_EXP_FMA_F64(p, r, 1.0 / 24);
    p = KI_EXP_FMA_F64(p, r, 1.0 / 6);
    p = KI_EXP_FMA_F64(p, r, 0.5);
    p = KI_EXP_FMA_F64(p, r, 1.0);
    p = KI_EXP_FMA_F64(p, r, 1.0);
    uint64_t bits;
    double power;
    memcpy(&bits, &shifted, sizeof bits);
    bits = (bits << 52) + UINT64_C(0x3ff0000000000000);
    memcpy(&power, &bits, sizeof power);
    return p * power;
}

#endif
