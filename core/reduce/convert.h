/* core/reduce/convert.h - one element between f32 and the small floats, as straight-line integer code.
 *
 * Every function is a chain of selects without branches or tables, so that a loop over it becomes vector code on any
 * instruction set. Narrowing rounds to nearest even in one step:
 *
 *   normal results     add half of the last kept bit less one, plus that bit (a tie then goes to even), and shift;
 *   subnormal results  add a power of two whose last mantissa bit is the target's smallest number: the addition rounds;
 *   too large          capped at the first value that rounds to infinity, or to the NaN in e4m3, which has no infinity;
 *   NaN                stays a quiet NaN with the sign and, where there is room, the upper payload bits (as F16C does).
 *
 * Widening is exact. Signalling NaNs become quiet, as the hardware conversion makes them; bf16 is a shift and keeps
 * them.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_REDUCE_CONVERT_H
#define KI_REDUCE_CONVERT_H

#include <stdint.h>

/* A GPU's compiler reads these functions too. */
#ifdef __CUDACC__
#define KI_ELEMENT static __device__ __forceinline__
#define KI_COPY_BITS memcpy
#include <string.h>
#else
#define KI_ELEMENT static inline
#define KI_COPY_BITS __builtin_memcpy
#endif

KI_ELEMENT uint32_t bits_of_f32(float x)
{
    uint32_t u;
    KI_COPY_BITS(&u, &x, sizeof u);
    return u;
}

KI_ELEMENT float f32_of_bits(uint32_t u)
{
    float x;
    KI_COPY_BITS(&x, &u, sizeof x);
    return x;
}

/* Selections with masks: compilers turn chains of ?: into branches, which no vector code is made of. */
KI_ELEMENT uint32_t when(int condition, uint32_t value)
{
    return value & (0u - (uint32_t)condition);
}

KI_ELEMENT uint32_t selected(int condition, uint32_t yes, uint32_t no)
{
    return no ^ ((yes ^ no) & (0u - (uint32_t)condition));
}

KI_ELEMENT uint32_t smaller(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

KI_ELEMENT float widen_bf16(uint16_t x)
{
    return f32_of_bits((uint32_t)x << 16);
}

KI_ELEMENT uint16_t narrow_bf16(float x)
{
    uint32_t u = bits_of_f32(x);
    uint32_t rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
    uint32_t nan = (u >> 16) | 0x40u;
    return (uint16_t)selected((u & 0x7fffffffu) > 0x7f800000u, nan, rounded);
}

KI_ELEMENT float widen_f16(uint16_t x)
{
    uint32_t sign = ((uint32_t)x & 0x8000u) << 16;
    uint32_t magnitude = (uint32_t)x & 0x7fffu;
    uint32_t normal = (magnitude << 13) + (112u << 23);
    normal += when(magnitude >= 0x7c00u, 112u << 23); /* infinity and NaN: the largest exponent */
    normal |= when(magnitude > 0x7c00u, 0x400000u);
    uint32_t subnormal = bits_of_f32((float)(int32_t)magnitude * 0x1p-24f);
    return f32_of_bits(sign | selected(magnitude < 0x400u, subnormal, normal));
}

KI_ELEMENT uint16_t narrow_f16(float x)
{
    uint32_t u = bits_of_f32(x);
    uint32_t sign = (u >> 16) & 0x8000u;
    uint32_t magnitude = u & 0x7fffffffu;
    uint32_t capped = smaller(magnitude, 0x47800000u); /* 65536, which becomes infinity */
    uint32_t normal = (capped + 0xfffu + ((capped >> 13) & 1u) - (112u << 23)) >> 13;
    uint32_t subnormal = bits_of_f32(f32_of_bits(capped) + 0.5f) - bits_of_f32(0.5f);
    uint32_t r = selected(capped < (113u << 23), subnormal, normal); /* below 2^-14 */
    r |= when(magnitude > 0x7f800000u, 0x200u | ((magnitude >> 13) & 0x3ffu));
    return (uint16_t)(sign | r);
}

KI_ELEMENT float widen_f8e5m2(uint8_t x)
{
    return widen_f16((uint16_t)((uint32_t)x << 8));
}

KI_ELEMENT uint8_t narrow_f8e5m2(float x)
{
    uint32_t u = bits_of_f32(x);
    uint32_t sign = (u >> 24) & 0x80u;
    uint32_t magnitude = u & 0x7fffffffu;
    uint32_t capped = smaller(magnitude, 0x47800000u); /* 65536, which becomes infinity */
    uint32_t normal = (capped + 0xfffffu + ((capped >> 21) & 1u) - (112u << 23)) >> 21;
    uint32_t subnormal = bits_of_f32(f32_of_bits(capped) + 128.0f) - bits_of_f32(128.0f);
    uint32_t r = selected(capped < (113u << 23), subnormal, normal); /* below 2^-14 */
    r |= when(magnitude > 0x7f800000u, 2u);
    return (uint8_t)(sign | r);
}

KI_ELEMENT float widen_f8e4m3(uint8_t x)
{
    uint32_t sign = ((uint32_t)x & 0x80u) << 24;
    uint32_t magnitude = (uint32_t)x & 0x7fu;
    uint32_t normal = (magnitude << 20) + (120u << 23);
    uint32_t subnormal = bits_of_f32((float)(int32_t)magnitude * 0x1p-9f);
    uint32_t finite = selected(magnitude < 8u, subnormal, normal);
    return f32_of_bits(sign | selected(magnitude == 0x7fu, 0x7fc00000u, finite));
}

KI_ELEMENT uint8_t narrow_f8e4m3(float x)
{
    uint32_t u = bits_of_f32(x);
    uint32_t sign = (u >> 24) & 0x80u;
    uint32_t capped = smaller(u & 0x7fffffffu, 0x43f00000u); /* 480, whose code is the NaN's */
    uint32_t normal = (capped + 0x7ffffu + ((capped >> 20) & 1u) - (120u << 23)) >> 20;
    uint32_t subnormal = bits_of_f32(f32_of_bits(capped) + 16384.0f) - bits_of_f32(16384.0f);
    uint32_t r = selected(capped < (121u << 23), subnormal, normal); /* below 2^-6 */
    return (uint8_t)(sign | r);
}

#endif
