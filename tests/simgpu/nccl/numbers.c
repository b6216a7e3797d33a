/* tests/simgpu/nccl/numbers.c - elements as numbers, and their reduction in ring order.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "sim.h"

#include <math.h>
#include <string.h>

static const struct {
    const char *name;
    size_t nbytes;
} types[] = {
    { "int8", 1 },    { "uint8", 1 },   { "int32", 4 },   { "uint32", 4 },   { "int64", 8 },  { "uint64", 8 },
    { "float16", 2 }, { "float32", 4 }, { "float64", 8 }, { "bfloat16", 2 }, { "f8e4m3", 1 }, { "f8e5m2", 1 }
};

#define TYPE_COUNT ((int)(sizeof types / sizeof *types))

size_t sim_type_nbytes(ncclDataType_t type)
{
    return (int)type >= 0 && (int)type < TYPE_COUNT ? types[type].nbytes : 0;
}

const char *sim_type_name(ncclDataType_t type)
{
    return sim_type_nbytes(type) > 0 ? types[type].name : "no type";
}

const char *sim_op_name(const sim_op *op)
{
    static const char *const names[] = { "sum", "prod", "max", "min", "avg", "premul_sum" };
    return (int)op->base >= 0 && (int)op->base <= (int)ncclNumOps ? names[op->base] : "no operator";
}

const char *sim_kind_name(sim_kind kind)
{
    static const char *const names[] = { "?",        "AllReduce", "Reduce",  "Broadcast", "AllGather", "ReduceScatter",
                                         "AlltoAll", "Gather",    "Scatter", "Send",      "Recv" };
    return names[kind];
}

bool sim_type_is_float(ncclDataType_t type)
{
    return type >= ncclFloat16;
}

/* ---- small floats: sign, exponent, mantissa; e4m3 has no infinity and one NaN ---- */

typedef struct format {
    int exponent_bits, mantissa_bits, bias;
    bool has_infinity;
} format;

static format format_of(ncclDataType_t type)
{
    switch (type) {
    case ncclFloat16:
        return (format){ 5, 10, 15, true };
    case ncclBfloat16:
        return (format){ 8, 7, 127, true };
    case ncclFloat8e4m3:
        return (format){ 4, 3, 7, false };
    default:
        return (format){ 5, 2, 15, true };
    }
}

static double decode(format f, unsigned code)
{
    unsigned most = (1u << f.exponent_bits) - 1, exponent = code >> f.mantissa_bits & most;
    unsigned mantissa = code & ((1u << f.mantissa_bits) - 1);
    double sign = code >> (f.exponent_bits + f.mantissa_bits) & 1 ? -1.0 : 1.0;
    if (exponent == most && f.has_infinity)
        return mantissa != 0 ? (double)NAN : sign * (double)INFINITY;
    if (exponent == most && mantissa == (1u << f.mantissa_bits) - 1)
        return (double)NAN;
    if (exponent == 0)
        return sign * ldexp(mantissa, 1 - f.bias - f.mantissa_bits);
    return sign * ldexp(mantissa + (1u << f.mantissa_bits), (int)exponent - f.bias - f.mantissa_bits);
}

/* Nearest, ties to even. Beyond the range: infinity, or the largest where there is none. */
static unsigned encode(format f, double value)
{
    unsigned sign = signbit(value) ? 1u << (f.exponent_bits + f.mantissa_bits) : 0;
    unsigned most = (1u << f.exponent_bits) - 1, all = (1u << f.mantissa_bits) - 1;
    unsigned largest = f.has_infinity ? most << f.mantissa_bits : (most << f.mantissa_bits) + all - 1;
    double magnitude = fabs(value);
    if (isnan(value))
        return sign | (most << f.mantissa_bits) | all;
    if (isinf(value))
        return sign | largest;
    int exponent = 0;
    frexp(magnitude, &exponent);
    exponent = magnitude == 0.0 || exponent - 1 < 1 - f.bias ? 1 - f.bias : exponent - 1;
    double units = nearbyint(ldexp(magnitude, f.mantissa_bits - exponent)); /* of the last bit */
    unsigned long code = (unsigned long)units + ((unsigned long)(exponent + f.bias - 1) << f.mantissa_bits);
    return sign | (code > largest ? largest : (unsigned)code);
}

double sim_number(ncclDataType_t type, const void *at)
{
    float narrow;
    double wide;
    uint16_t half;
    switch (type) {
    case ncclFloat32:
        memcpy(&narrow, at, sizeof narrow);
        return (double)narrow;
    case ncclFloat64:
        memcpy(&wide, at, sizeof wide);
        return wide;
    case ncclFloat16:
    case ncclBfloat16:
        memcpy(&half, at, sizeof half);
        return decode(format_of(type), half);
    default:
        return decode(format_of(type), *(const unsigned char *)at);
    }
}

static void put_number(ncclDataType_t type, void *at, double value)
{
    float narrow = (float)value;
    uint16_t half;
    switch (type) {
    case ncclFloat32:
        memcpy(at, &narrow, sizeof narrow);
        break;
    case ncclFloat64:
        memcpy(at, &value, sizeof value);
        break;
    case ncclFloat16:
    case ncclBfloat16:
        half = (uint16_t)encode(format_of(type), value);
        memcpy(at, &half, sizeof half);
        break;
    default:
        *(unsigned char *)at = (unsigned char)encode(format_of(type), value);
        break;
    }
}

int64_t sim_integer(ncclDataType_t type, const void *at)
{
    uint64_t bits = 0;
    memcpy(&bits, at, sim_type_nbytes(type));
    switch (type) {
    case ncclInt8:
        return (int8_t)bits;
    case ncclInt32:
        return (int32_t)bits;
    default:
        return (int64_t)bits;
    }
}

/* ---- reduction ---- */

/* The accumulator of all floats but f64 is an f32. */
static double rounded(ncclDataType_t type, double value)
{
    return type == ncclFloat64 ? value : (double)(float)value;
}

static double prepare(const sim_op *op, ncclDataType_t type, double value, int size)
{
    if (op->base == ncclAvg) /* as NCCL: by the reciprocal, before */
        return rounded(type, value * rounded(type, 1.0 / size));
    return op->base == ncclNumOps ? rounded(type, value * op->scalar) : value;
}

static double combine(const sim_op *op, ncclDataType_t type, double a, double b)
{
    switch (op->base) {
    case ncclProd:
        return rounded(type, a * b);
    case ncclMax:
        return a > b ? a : b;
    case ncclMin:
        return a < b ? a : b;
    default:
        return rounded(type, a + b);
    }
}

static void reduce_floats(const sim_op *op, ncclDataType_t type, const unsigned char *const *from, int size, int last,
                          unsigned char *out, size_t count)
{
    size_t nbytes = sim_type_nbytes(type);
    for (size_t i = 0; i < count; i++) {
        int first = (last + 1) % size;
        double sum = prepare(op, type, sim_number(type, from[first] + i * nbytes), size);
        for (int k = 2; k <= size; k++)
            sum =
                combine(op, type, sum, prepare(op, type, sim_number(type, from[(last + k) % size] + i * nbytes), size));
        put_number(type, out + i * nbytes, sum);
    }
}

static bool is_signed(ncclDataType_t type)
{
    return type == ncclInt8 || type == ncclInt32 || type == ncclInt64;
}

static uint64_t combine_integers(const sim_op *op, bool is_signed_type, uint64_t a, uint64_t b)
{
    bool is_less = is_signed_type ? (int64_t)a < (int64_t)b : a < b;
    switch (op->base) {
    case ncclProd:
        return a * b;
    case ncclMax:
        return is_less ? b : a;
    case ncclMin:
        return is_less ? a : b;
    default:
        return a + b;
    }
}

static void reduce_integers(const sim_op *op, ncclDataType_t type, const unsigned char *const *from, int size, int last,
                            unsigned char *out, size_t count)
{
    size_t nbytes = sim_type_nbytes(type);
    for (size_t i = 0; i < count; i++) {
        uint64_t sum = 0;
        for (int k = 1; k <= size; k++) {
            uint64_t value = (uint64_t)sim_integer(type, from[(last + k) % size] + i * nbytes);
            value = op->base == ncclNumOps ? value * (uint64_t)op->int_scalar : value;
            sum = k == 1 ? value : combine_integers(op, is_signed(type), sum, value);
        }
        if (op->base == ncclAvg)
            sum = is_signed(type) ? (uint64_t)((int64_t)sum / size) : sum / (uint64_t)size;
        memcpy(out + i * nbytes, &sum, nbytes);
    }
}

/* What training uses most. */
static void sum_f32(const void *const *from, int size, int last, float *out, size_t count)
{
    const float *next[SIM_RANKS];
    for (int k = 0; k < size; k++)
        next[k] = (const float *)from[(last + 1 + k) % size];
    for (size_t i = 0; i < count; i++) {
        float sum = next[0][i];
        for (int k = 1; k < size; k++)
            sum += next[k][i];
        out[i] = sum;
    }
}

static bool is_aligned(const void *const *from, int size, const void *out)
{
    uintptr_t bits = (uintptr_t)out;
    for (int r = 0; r < size; r++)
        bits |= (uintptr_t)from[r];
    return bits % sizeof(float) == 0;
}

void sim_reduce(const sim_op *op, ncclDataType_t type, const void *const *from, int size, int last, void *out,
                size_t count)
{
    const unsigned char *bytes[SIM_RANKS];
    for (int r = 0; r < size; r++)
        bytes[r] = (const unsigned char *)from[r];
    if (type == ncclFloat32 && op->base == ncclSum && is_aligned(from, size, out))
        sum_f32(from, size, last, (float *)out, count);
    else if (sim_type_is_float(type))
        reduce_floats(op, type, bytes, size, last, (unsigned char *)out, count);
    else
        reduce_integers(op, type, bytes, size, last, (unsigned char *)out, count);
}
