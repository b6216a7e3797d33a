/* layers/checkpoint/convert.c - see convert.h. Between different types each number goes through a double, which holds
 * all others exactly; so there is one rounding, whatever the pair.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "convert.h"

#include <math.h>
#include <string.h>

bool ki_is_float(kith_dtype dtype)
{
    return dtype == KITH_F16 || dtype == KITH_BF16 || dtype == KITH_F32 || dtype == KITH_F64;
}

static double from_bf16(uint16_t half)
{
    uint32_t bits = (uint32_t)half << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return (double)value;
}

/* As a float with the same digits, whose exponent is too small by 112, subnormal ones included. */
static double from_f16(uint16_t half)
{
    uint32_t bits = (uint32_t)(half & 0x7fff) << 13;
    float value;
    memcpy(&value, &bits, sizeof value);
    double size = (half & 0x7c00) != 0x7c00 ? (double)value * 0x1p112 : half & 1023 ? (double)NAN : HUGE_VAL;
    return half & 0x8000 ? -size : size;
}

/* The nearest number with `digits` bits of fraction and exponents from `lowest` on, as sign, exponent and fraction side
 * by side. rint() rounds to even; a fraction that is rounded up to the next power carries into the exponent. */
static uint16_t to_half(double value, int digits, int lowest, int highest)
{
    int width = 15 - digits, exponent;
    uint16_t sign = signbit(value) ? 0x8000 : 0, infinity = (uint16_t)(((1 << width) - 1) << digits);
    if (isnan(value))
        return (uint16_t)(sign | infinity | 1 << (digits - 1));
    double size = fabs(value);
    if (size == 0)
        return sign;
    (void)frexp(size, &exponent);
    exponent = isinf(value) ? highest + 1 : exponent - 1; /* size is in [2^exponent, 2^(exponent + 1)) */
    if (exponent > highest)
        return sign | infinity;
    int scale = exponent < lowest ? lowest : exponent;
    int32_t steps = (int32_t)rint(ldexp(size, digits - scale)); /* below 2^digits: subnormal */
    int32_t biased = scale - lowest;                            /* of the exponent, less one for the leading digit */
    return (uint16_t)(sign | (uint16_t)((biased << digits) + steps));
}

/* Most numbers come from an f32, whose upper half is the answer, rounded. */
static uint16_t to_bf16(double value)
{
    float single = (float)value;
    uint32_t bits;
    if ((double)single != value)
        return to_half(value, 7, -126, 127);
    memcpy(&bits, &single, sizeof bits);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static double load(const char *at, kith_dtype dtype)
{
    uint16_t half;
    float single;
    double value;
    switch (dtype) {
    case KITH_F64:
        memcpy(&value, at, sizeof value);
        return value;
    case KITH_F32:
        memcpy(&single, at, sizeof single);
        return (double)single;
    default:
        memcpy(&half, at, sizeof half);
        return dtype == KITH_BF16 ? from_bf16(half) : from_f16(half);
    }
}

static void store(double value, char *at, kith_dtype dtype)
{
    float single = (float)value;
    uint16_t half;
    switch (dtype) {
    case KITH_F64:
        memcpy(at, &value, sizeof value);
        return;
    case KITH_F32:
        memcpy(at, &single, sizeof single);
        return;
    default:
        half = dtype == KITH_BF16 ? to_bf16(value) : to_half(value, 10, -14, 15);
        memcpy(at, &half, sizeof half);
    }
}

static void copy(const char *from, int64_t from_step, char *to, int64_t to_step, size_t nbytes, int64_t count)
{
    if (from_step == (int64_t)nbytes && to_step == (int64_t)nbytes) {
        memcpy(to, from, (size_t)count * nbytes);
        return;
    }
    for (int64_t i = 0; i < count; i++) /* constant sizes are single instructions */
        switch (nbytes) {
        case 2:
            memcpy(to + i * to_step, from + i * from_step, 2);
            break;
        case 4:
            memcpy(to + i * to_step, from + i * from_step, 4);
            break;
        default:
            memcpy(to + i * to_step, from + i * from_step, 8);
        }
}

void ki_convert(const void *from, kith_dtype from_dtype, int64_t from_stride, void *to, kith_dtype to_dtype,
                int64_t to_stride, int64_t count)
{
    int64_t from_step = from_stride * (int64_t)kith_dtype_nbytes(from_dtype);
    int64_t to_step = to_stride * (int64_t)kith_dtype_nbytes(to_dtype);
    if (count < 1)
        return;
    if (from_dtype == to_dtype) {
        copy(from, from_step, to, to_step, kith_dtype_nbytes(to_dtype), count);
        return;
    }
    for (int64_t i = 0; i < count; i++)
        store(load((const char *)from + i * from_step, from_dtype), (char *)to + i * to_step, to_dtype);
}
