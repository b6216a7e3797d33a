/* tests/core/reduce/reference.c - see reference.h.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "reference.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

__extension__ typedef __int128 wide;
__extension__ typedef unsigned __int128 uwide;

static double format_value(const ref_format *f, uint32_t code)
{
    int bias = (1 << (f->exponent_bits - 1)) - 1;
    uint32_t mantissa = code & ((1u << f->mantissa_bits) - 1);
    int exponent = (int)(code >> f->mantissa_bits);
    if (code > f->largest) return f->has_infinity && mantissa == 0 ? (double)INFINITY : (double)NAN;
    double m = exponent == 0 ? mantissa : mantissa + (double)(1u << f->mantissa_bits);
    return ldexp(m, (exponent == 0 ? 1 : exponent) - bias - f->mantissa_bits);
}

static void format_fill(ref_format *f, int exponent_bits, int mantissa_bits, int has_infinity, uint32_t nan)
{
    f->exponent_bits = exponent_bits;
    f->mantissa_bits = mantissa_bits;
    f->has_infinity = has_infinity;
    f->nan = nan;
    uint32_t codes = 1u << (exponent_bits + mantissa_bits);
    f->largest = has_infinity ? (((1u << exponent_bits) - 1) << mantissa_bits) - 1 : codes - 2;
    for (uint32_t code = 0; code < codes; code++)
        f->value[code] = format_value(f, code);
}

const ref_format *ref_format_of(kith_dtype dtype)
{
    static ref_format formats[4];
    static int is_filled;
    if (!is_filled) {
        format_fill(&formats[0], 5, 10, 1, 0x7e00);
        format_fill(&formats[1], 8, 7, 1, 0x7fc0);
        format_fill(&formats[2], 4, 3, 0, 0x7f);
        format_fill(&formats[3], 5, 2, 1, 0x7e);
        is_filled = 1;
    }
    switch (dtype) {
    case KITH_F16:
        return &formats[0];
    case KITH_BF16:
        return &formats[1];
    case KITH_F8E4M3:
        return &formats[2];
    case KITH_F8E5M2:
        return &formats[3];
    default:
        abort();
    }
}

static uint32_t sign_bit(const ref_format *f)
{
    return 1u << (f->exponent_bits + f->mantissa_bits);
}

double ref_widen(kith_dtype dtype, uint32_t code)
{
    const ref_format *f = ref_format_of(dtype);
    double magnitude = f->value[code & (sign_bit(f) - 1)];
    return code & sign_bit(f) ? -magnitude : magnitude;
}

/* The code that would follow the largest: its value decides where overflow begins. */
static uint32_t overflowed(const ref_format *f, double magnitude)
{
    double step = f->value[f->largest] - f->value[f->largest - 1];
    double middle = f->value[f->largest] + step / 2;
    if (magnitude < middle || (magnitude == middle && f->largest % 2 == 0)) return f->largest;
    return f->has_infinity ? f->largest + 1 : f->nan;
}

uint32_t ref_narrow(kith_dtype dtype, double x)
{
    const ref_format *f = ref_format_of(dtype);
    if (isnan(x)) return f->nan;
    uint32_t sign = signbit(x) ? sign_bit(f) : 0;
    double magnitude = fabs(x);
    if (magnitude > f->value[f->largest]) return sign | overflowed(f, magnitude);
    uint32_t low = 0, high = f->largest;
    while (high - low > 1) {
        uint32_t middle = (low + high) / 2;
        if (f->value[middle] <= magnitude)
            low = middle;
        else
            high = middle;
    }
    double below = magnitude - f->value[low], above = f->value[high] - magnitude;
    if (below == above) return sign | (low % 2 == 0 ? low : high);
    return sign | (below < above ? low : high);
}

/* ---- values while they are combined ---- */

typedef struct number {
    double f;
    wide i;
} number;

typedef struct setting {
    kith_dtype dtype;
    int op;
    double scalar;
    int p;
} setting;

int ref_is_float(kith_dtype dtype)
{
    return dtype == KITH_F16 || dtype == KITH_BF16 || dtype == KITH_F32 || dtype == KITH_F64 || dtype == KITH_F8E4M3 ||
           dtype == KITH_F8E5M2;
}

static int is_signed(kith_dtype dtype)
{
    return dtype == KITH_INT8 || dtype == KITH_INT16 || dtype == KITH_INT32 || dtype == KITH_INT64;
}

/* The value modulo 2^bits, in the range of the dtype. */
static wide wrapped(kith_dtype dtype, wide x)
{
    int bits = (int)(8 * kith_dtype_nbytes(dtype));
    uwide modulus = (uwide)1 << bits;
    wide r = (wide)((uwide)x % modulus);
    return is_signed(dtype) && r >= (wide)(modulus / 2) ? r - (wide)modulus : r;
}

/* f32 for all floats but f64. */
static double rounded(kith_dtype dtype, double x)
{
    return dtype == KITH_F64 ? x : (double)(float)x;
}

static number decoded(kith_dtype dtype, uint64_t raw)
{
    number n = { 0, 0 };
    float single;
    uint32_t low = (uint32_t)raw;
    if (dtype == KITH_F64) {
        memcpy(&n.f, &raw, sizeof n.f);
    } else if (dtype == KITH_F32) {
        memcpy(&single, &low, sizeof single);
        n.f = (double)single;
    } else if (ref_is_float(dtype)) {
        n.f = ref_widen(dtype, low);
    } else {
        n.i = wrapped(dtype, (wide)raw);
    }
    return n;
}

static uint64_t encoded(kith_dtype dtype, number n)
{
    uint64_t raw = 0;
    if (dtype == KITH_F64) {
        if (isnan(n.f)) return UINT64_C(0x7ff8000000000000);
        memcpy(&raw, &n.f, sizeof n.f);
    } else if (dtype == KITH_F32) {
        if (isnan(n.f)) return 0x7fc00000;
        float single = (float)n.f;
        uint32_t low;
        memcpy(&low, &single, sizeof low);
        raw = low;
    } else if (ref_is_float(dtype)) {
        raw = ref_narrow(dtype, n.f);
    } else {
        raw = (uint64_t)n.i;
        if (kith_dtype_nbytes(dtype) < 8) raw &= (UINT64_C(1) << (8 * kith_dtype_nbytes(dtype))) - 1;
    }
    return raw;
}

static double combined_float(const setting *s, double a, double b)
{
    switch (s->op) {
    case KITH_PROD:
        return rounded(s->dtype, a * b);
    case KITH_MIN:
        return isnan(a) || isnan(b) ? (double)NAN : a < b ? a : b;
    case KITH_MAX:
        return isnan(a) || isnan(b) ? (double)NAN : a > b ? a : b;
    default:
        return rounded(s->dtype, a + b);
    }
}

static wide combined_integer(const setting *s, wide a, wide b)
{
    switch (s->op) {
    case KITH_PROD:
        return wrapped(s->dtype, (wide)((uwide)a * (uwide)b));
    case KITH_MIN:
        return a < b ? a : b;
    case KITH_MAX:
        return a > b ? a : b;
    case KITH_AVG:
        return a + b;
    case KITH_BAND:
        return a & b;
    case KITH_BOR:
        return a | b;
    case KITH_BXOR:
        return a ^ b;
    default:
        return wrapped(s->dtype, a + b);
    }
}

static number combined(const setting *s, number a, number b)
{
    number r = { 0, 0 };
    if (ref_is_float(s->dtype))
        r.f = combined_float(s, a.f, b.f);
    else
        r.i = combined_integer(s, a.i, b.i);
    return r;
}

/* The 2e lowest in pairs, then neighbours with neighbours until one is left. */
static number in_order(const setting *s, number *v)
{
    int q = 1;
    while (2 * q <= s->p)
        q *= 2;
    int e = s->p - q;
    for (int i = 0; i < e; i++)
        v[i] = combined(s, v[2 * i], v[2 * i + 1]);
    for (int i = e; i < q; i++)
        v[i] = v[i + e];
    for (; q > 1; q /= 2) {
        for (int i = 0; i < q / 2; i++)
            v[i] = combined(s, v[2 * i], v[2 * i + 1]);
    }
    return v[0];
}

uint64_t ref_reduce(kith_dtype dtype, int op, double scalar, int p, const uint64_t *raw)
{
    setting s = { dtype, op, scalar, p };
    number v[128];
    if (p == 1 && op != KI_OP_PREMUL_SUM) return raw[0];
    for (int r = 0; r < p; r++) {
        v[r] = decoded(dtype, raw[r]);
        if (op == KI_OP_PREMUL_SUM && ref_is_float(dtype))
            v[r].f = rounded(dtype, v[r].f * rounded(dtype, scalar));
        else if (op == KI_OP_PREMUL_SUM)
            v[r].i = wrapped(dtype, (wide)((uwide)v[r].i * (uwide)(wide)scalar));
        else if (op == KITH_AVG && dtype == KITH_BF16)
            v[r].f /= 128; /* the sum of 128 ranks stays inside f32 */
    }
    number result = in_order(&s, v);
    if (op == KITH_AVG && ref_is_float(dtype))
        result.f = rounded(dtype, result.f / p * (dtype == KITH_BF16 ? 128 : 1));
    else if (op == KITH_AVG)
        result.i = result.i / p;
    return encoded(dtype, result);
}

/* ---- data ---- */

uint64_t ref_random(uint64_t *state)
{
    uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static double special_float(uint64_t r)
{
    static const double values[] = { 0.0,
                                     -0.0,
                                     (double)INFINITY,
                                     -(double)INFINITY,
                                     (double)NAN,
                                     65504,
                                     -65504,
                                     57344,
                                     -448,
                                     448,
                                     1.0,
                                     -1.0,
                                     0x1p-24,
                                     0x1p-9,
                                     1e-40,
                                     -1e-40,
                                     3.3e38,
                                     -3e38,
                                     0x1p-149,
                                     464 };
    return values[r % (sizeof values / sizeof values[0])];
}

uint64_t ref_random_raw(kith_dtype dtype, uint64_t *state)
{
    uint64_t kind = ref_random(state) % 64, bits = ref_random(state);
    size_t nbytes = kith_dtype_nbytes(dtype);
    uint64_t mask = nbytes == 8 ? UINT64_MAX : (UINT64_C(1) << (8 * nbytes)) - 1;
    if (kind == 0 || (!ref_is_float(dtype) && kind < 48)) return bits & mask;
    number n = { 0, 0 };
    if (ref_is_float(dtype)) {
        double mantissa = 1.0 + (double)(bits >> 12) * 0x1p-52;
        n.f = kind < 6 ? special_float(bits) : ldexp(bits & 1 ? -mantissa : mantissa, (int)(bits >> 1 & 7) - 4);
        return encoded(dtype, n);
    }
    /* Extremes and small numbers. */
    static const int small[] = { 0, 1, -1, 2, -3, 7 };
    uint64_t top = (mask >> 1) + 1;
    return (kind % 2 ? (uint64_t)(int64_t)small[bits % 6] : bits & 1 ? top : top - 1 + (bits & 2)) & mask;
}

uint64_t ref_get(const void *base, size_t nbytes, size_t index)
{
    uint64_t raw = 0; /* little endian, as the library's build for x86-64 is */
    memcpy(&raw, (const unsigned char *)base + index * nbytes, nbytes);
    return raw;
}

void ref_put(void *base, size_t nbytes, size_t index, uint64_t raw)
{
    memcpy((unsigned char *)base + index * nbytes, &raw, nbytes);
}
