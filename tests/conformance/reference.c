/* tests/conformance/reference.c - see reference.h.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "reference.h"

#include <limits.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#define NOT_A_VALUE LONG_MIN

bool ref_is_float(kith_dtype dtype)
{
    return dtype == KITH_F16 || dtype == KITH_BF16 || dtype == KITH_F32 || dtype == KITH_F64 || dtype == KITH_F8E4M3 ||
           dtype == KITH_F8E5M2;
}

bool ref_is_signed(kith_dtype dtype)
{
    return ref_is_float(dtype) || dtype == KITH_INT8 || dtype == KITH_INT16 || dtype == KITH_INT32 ||
           dtype == KITH_INT64;
}

static size_t nbytes_of(kith_dtype dtype)
{
    switch (dtype) {
    case KITH_F64:
    case KITH_INT64:
    case KITH_UINT64:
        return 8;
    case KITH_F32:
    case KITH_INT32:
    case KITH_UINT32:
        return 4;
    case KITH_F16:
    case KITH_BF16:
    case KITH_INT16:
    case KITH_UINT16:
        return 2;
    default:
        return 1;
    }
}

/* ---- small formats: sign, exponent bits, mantissa bits ---- */

typedef struct format {
    int exponent_bits, mantissa_bits;
} format;

static format format_of(kith_dtype dtype)
{
    switch (dtype) {
    case KITH_F16:
        return (format){ 5, 10 };
    case KITH_BF16:
        return (format){ 8, 7 };
    case KITH_F8E4M3:
        return (format){ 4, 3 };
    default:
        return (format){ 5, 2 };
    }
}

double ref_decode(kith_dtype dtype, unsigned code)
{
    format f = format_of(dtype);
    unsigned mantissa = code & ((1u << f.mantissa_bits) - 1);
    int exponent = (int)(code >> f.mantissa_bits & ((1u << f.exponent_bits) - 1));
    int bias = (1 << (f.exponent_bits - 1)) - 1;
    bool is_negative = (code >> (f.mantissa_bits + f.exponent_bits) & 1) != 0;
    bool has_infinity = dtype != KITH_F8E4M3;
    double value;
    if (has_infinity && exponent == (1 << f.exponent_bits) - 1)
        value = mantissa == 0 ? INFINITY : NAN;
    else if (!has_infinity && exponent == 15 && mantissa == 7)
        value = NAN;
    else if (exponent == 0)
        value = ldexp((double)mantissa, 1 - bias - f.mantissa_bits);
    else
        value = ldexp((double)(mantissa + (1u << f.mantissa_bits)), exponent - bias - f.mantissa_bits);
    return is_negative ? -value : value;
}

/* Code of an exactly representable number: the positive codes are in order, so a binary search finds it. */
static unsigned encode(kith_dtype dtype, long value)
{
    format f = format_of(dtype);
    unsigned sign = value < 0 ? 1u << (f.mantissa_bits + f.exponent_bits) : 0;
    double wanted = fabs((double)value);
    unsigned low = 0, high = (1u << (f.mantissa_bits + f.exponent_bits)) - 2;
    while (low < high) {
        unsigned middle = (low + high + 1) / 2;
        double there = ref_decode(dtype, middle);
        if (!isnan(there) && there <= wanted)
            low = middle;
        else
            high = middle - 1;
    }
    return low | sign;
}

unsigned ref_nearest(kith_dtype dtype, double value)
{
    format f = format_of(dtype);
    unsigned sign = signbit(value) ? 1u << (f.mantissa_bits + f.exponent_bits) : 0;
    unsigned infinity = ((1u << f.exponent_bits) - 1) << f.mantissa_bits, low = 0, high = infinity - 1;
    double wanted = fabs(value), limit = ldexp(1, 1 << (f.exponent_bits - 1)); /* where infinity stands in the order */
    while (low < high) {
        unsigned middle = (low + high + 1) / 2;
        if (ref_decode(dtype, middle) <= wanted)
            low = middle;
        else
            high = middle - 1;
    }
    double above = low + 1 == infinity ? limit : ref_decode(dtype, low + 1), below = ref_decode(dtype, low);
    double half = below + (above - below) / 2;
    bool is_up = wanted > half || (wanted == half && low % 2 == 1);
    return (low + (is_up ? 1 : 0)) | sign;
}

void ref_put(void *buffer, kith_dtype dtype, size_t index, long value)
{
    unsigned char *at = (unsigned char *)buffer + index * nbytes_of(dtype);
    if (dtype == KITH_F32) {
        float x = (float)value;
        memcpy(at, &x, sizeof x);
    } else if (dtype == KITH_F64) {
        double x = (double)value;
        memcpy(at, &x, sizeof x);
    } else if (ref_is_float(dtype)) {
        uint16_t code = (uint16_t)encode(dtype, value);
        uint8_t byte = (uint8_t)code;
        if (nbytes_of(dtype) == 2)
            memcpy(at, &code, 2);
        else
            *at = byte;
    } else { /* the low bytes of two's complement */
        uint64_t bits = (uint64_t)value;
        for (size_t i = 0; i < nbytes_of(dtype); i++)
            at[i] = (unsigned char)(bits >> 8 * i);
    }
}

static long from_double(double x)
{
    return fabs(x) <= 1e15 && x == (double)(long)x ? (long)x : NOT_A_VALUE; /* NaN is not below anything */
}

static long wrap(kith_dtype dtype, uint64_t bits)
{
    switch (dtype) {
    case KITH_INT8:
        return (int8_t)bits;
    case KITH_UINT8:
        return (uint8_t)bits;
    case KITH_INT16:
        return (int16_t)bits;
    case KITH_UINT16:
        return (uint16_t)bits;
    case KITH_INT32:
        return (int32_t)bits;
    case KITH_UINT32:
        return (uint32_t)bits;
    default:
        return (long)bits;
    }
}

long ref_get(const void *buffer, kith_dtype dtype, size_t index)
{
    const unsigned char *at = (const unsigned char *)buffer + index * nbytes_of(dtype);
    if (dtype == KITH_F32) {
        float x;
        memcpy(&x, at, sizeof x);
        return from_double((double)x);
    }
    if (dtype == KITH_F64) {
        double x;
        memcpy(&x, at, sizeof x);
        return from_double(x);
    }
    uint64_t bits = 0;
    for (size_t i = 0; i < nbytes_of(dtype); i++)
        bits |= (uint64_t)at[i] << 8 * i;
    return ref_is_float(dtype) ? from_double(ref_decode(dtype, (unsigned)bits)) : wrap(dtype, bits);
}

/* ---- values ---- */

static unsigned mix(size_t index, unsigned salt)
{
    uint64_t x = (uint64_t)index * 0x9e3779b97f4a7c15u + (uint64_t)salt * 0xbf58476d1ce4e5b9u;
    x ^= x >> 29;
    return (unsigned)(x * 0x94d049bb133111ebu >> 40);
}

/* Deviations of ranks from a common value that add up to nothing. */
static long balanced(int ranks, int rank, bool is_signed)
{
    if (!is_signed || rank / 2 * 2 + 1 >= ranks)
        return 0;
    return rank % 2 == 0 ? 1 : -1;
}

long ref_input(kith_op op, kith_dtype dtype, int ranks, int rank, size_t index)
{
    bool is_tiny = dtype == KITH_F8E4M3 || dtype == KITH_F8E5M2;
    switch (op) {
    case KITH_SUM: /* at most 8 ones in fp8: exact with two mantissa bits; e5m2 holds 0..8 */
        return is_tiny ? (long)(mix(index, (unsigned)rank) % 16 == 0)
                       : (long)(mix(index, (unsigned)rank) % 13) - (ref_is_signed(dtype) ? 6 : 0);
    case KITH_PROD: /* one rank of four gives 2 */
        return mix(index, 7) % 4 == (unsigned)rank % 4 ? 2 : 1;
    case KITH_MIN:
    case KITH_MAX:
        return is_tiny ? (long)(mix(index, (unsigned)rank) % 5)
                       : (long)(mix(index, (unsigned)rank) % 100) - (ref_is_signed(dtype) ? 50 : 0);
    case KITH_AVG:
        return (long)(mix(index, 3) % 4) + 2 + balanced(ranks, rank, ref_is_signed(dtype));
    default:
        return wrap(dtype, (uint64_t)mix(index, (unsigned)rank) * 0x10001u * (index + 1));
    }
}

long ref_result(kith_op op, kith_dtype dtype, int ranks, size_t index)
{
    long result = ref_input(op, dtype, ranks, 0, index);
    for (int r = 1; r < ranks; r++) {
        long x = ref_input(op, dtype, ranks, r, index);
        switch (op) {
        case KITH_SUM:
        case KITH_AVG:
            result += x;
            break;
        case KITH_PROD:
            result *= x;
            break;
        case KITH_MIN:
            result = x < result ? x : result;
            break;
        case KITH_MAX:
            result = x > result ? x : result;
            break;
        case KITH_BAND:
            result &= x;
            break;
        case KITH_BOR:
            result |= x;
            break;
        default:
            result ^= x;
            break;
        }
    }
    if (op == KITH_AVG)
        result /= ranks;
    return ref_is_float(dtype) ? result : wrap(dtype, (uint64_t)result);
}

long ref_move(kith_dtype dtype, int rank, size_t index)
{
    bool is_tiny = dtype == KITH_F8E4M3 || dtype == KITH_F8E5M2;
    return (long)(mix(index, (unsigned)rank + 17u) % (is_tiny ? 5 : 120));
}
