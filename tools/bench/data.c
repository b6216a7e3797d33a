/* tools/bench/data.c - fills and counts. What the numbers are is said in bench.h.
 *
 * Element i lies in piece i / 1024. With s = (i + offset of the piece) mod P, and for a reduction t = (rank + number of
 * the piece) mod n, rank r gives
 *
 *     moved      (s + a number of the rank and the piece) mod P
 *     sum        s / n, and 1 more where t < s mod n: they add up to s
 *     avg        a = s mod A, 1 more where t = 0, 1 less where t = n - 1 and a > 0 (from 2 ranks on): n a in all
 *     prod       2 where t < s mod 7, else 1
 *     max, min   s less t, or P - 1 - s and t more, within 0 .. P - 1
 *     band, bor  s, with a bit too many on all ranks but one; with some too few
 *     bxor       s and what the other ranks, who all give the same, leave over
 *
 * t takes each value on one rank alone, so results need no rank's contribution. Limits: P is 113 (sums of int8), 17 for
 * f8e4m3, whose whole numbers are exact up to 16, 7 for f8e5m2 (8). A keeps n a within that as far as it can.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "bench.h"

#include <string.h>

#define RESULT (-1)

/* How a floating-point type is laid out. */
typedef struct float_form {
    int mantissa, bias; /* mantissa 0: an integer type */
} float_form;

static float_form form_of(kith_dtype dtype)
{
    switch (dtype) {
    case KITH_F64:
        return (float_form){ 52, 1023 };
    case KITH_F32:
        return (float_form){ 23, 127 };
    case KITH_BF16:
        return (float_form){ 7, 127 };
    case KITH_F16:
        return (float_form){ 10, 15 };
    case KITH_F8E4M3:
        return (float_form){ 3, 7 };
    case KITH_F8E5M2:
        return (float_form){ 2, 15 };
    default:
        return (float_form){ 0, 0 };
    }
}

/* The bits of a whole number that is exact in the type. */
static uint64_t bits_of(float_form form, unsigned value)
{
    if (form.mantissa == 0 || value == 0)
        return value;
    int exponent = 31 - __builtin_clz(value);
    uint64_t fraction = (uint64_t)value - (UINT64_C(1) << exponent);
    fraction =
        form.mantissa >= exponent ? fraction << (form.mantissa - exponent) : fraction >> (exponent - form.mantissa);
    return (uint64_t)(exponent + form.bias) << form.mantissa | fraction;
}

/* Little-endian hosts: the low bytes come first. */
static void store(unsigned char *to, uint64_t bits, size_t nbytes)
{
    memcpy(to, &bits, nbytes);
}

void bench_data_init(bench_data *data, bench_op op, kith_dtype dtype, kith_op redop, int size, int salt)
{
    data->dtype = dtype;
    data->op = redop;
    data->is_reduction = bench_op_is_reduction(op);
    data->size = size;
    data->salt = salt;
    data->nbytes = kith_dtype_nbytes(dtype);
    data->period = dtype == KITH_F8E5M2 ? 7 : dtype == KITH_F8E4M3 ? 17 : BENCH_PERIOD_MAX;
}

static unsigned mix(uint64_t a, uint64_t b, uint64_t c)
{
    uint64_t key = a * 0x9e3779b97f4a7c15u + b * 0xbf58476d1ce4e5b9u + c * 0x94d049bb133111ebu;
    key ^= key >> 31;
    key *= 0xd6e8feb86659fd93u;
    return (unsigned)(key >> 33);
}

static unsigned of_sum(unsigned s, unsigned t, unsigned n, bool is_result)
{
    return is_result ? s : s / n + (t < s % n);
}

static unsigned of_average(unsigned s, unsigned t, unsigned n, unsigned period, bool is_result)
{
    unsigned limit = period / n > 2 ? period / n : 2;
    unsigned a = s % limit;
    if (is_result || a == 0 || n == 1)
        return a;
    return t == 0 ? a + 1 : t == n - 1 ? a - 1 : a;
}

static unsigned of_bits(kith_op op, unsigned s, unsigned t, unsigned n, bool is_result)
{
    unsigned others = s >> 1;
    if (is_result)
        return s;
    if (op == KITH_BAND)
        return t == 0 ? s : s | 1u << (t % 7);
    if (op == KITH_BOR)
        return t == 0 ? s : s & ~(1u << (t % 7));
    if (t != 0)
        return others;
    return (n - 1) % 2 == 1 ? s ^ others : s;
}

/* What a rank whose turn is t gives where the element's number is s; RESULT: what comes of all. */
static unsigned reduced_value(const bench_data *data, unsigned s, unsigned t, bool is_result)
{
    unsigned n = (unsigned)data->size, top = (unsigned)data->period - 1;
    switch (data->op) {
    case KITH_SUM:
        return of_sum(s, t, n, is_result);
    case KITH_AVG:
        return of_average(s, t, n, top + 1, is_result);
    case KITH_PROD:
        return is_result ? 1u << (s % 7 < n ? s % 7 : n) : 1u + (t < s % 7);
    case KITH_MAX:
        return is_result ? s : s - (t < s ? t : s);
    case KITH_MIN:
        return is_result ? s : s + (t < top - s ? t : top - s);
    default:
        return of_bits(data->op, s, t, n, is_result);
    }
}

/* Makes data->piece of one piece, as of rank. */
static void make_piece(bench_data *data, int rank, size_t piece, size_t count)
{
    float_form form = form_of(data->dtype);
    unsigned period = (unsigned)data->period, salt = (unsigned)data->salt;
    unsigned offset = mix(piece, salt, 7) % period;
    unsigned turn = (unsigned)(((size_t)(rank < 0 ? 0 : rank) + piece) % (size_t)data->size);
    unsigned own = data->is_reduction ? 0 : mix(piece, (uint64_t)rank + 1, salt) % period;
    size_t made = count < period ? count : period;
    for (unsigned i = 0; i < made; i++) {
        unsigned s = (i + offset) % period;
        unsigned value = data->is_reduction ? reduced_value(data, s, turn, rank < 0) : (s + own) % period;
        store(data->piece + i * data->nbytes, bits_of(form, value), data->nbytes);
    }
    while (made < count) { /* copies of a whole number of periods */
        size_t more = made < count - made ? made : count - made;
        memcpy(data->piece + made * data->nbytes, data->piece, more * data->nbytes);
        made += more;
    }
}

/* The part of the piece at `first` that lies within count elements; makes it. */
static const unsigned char *next_part(bench_data *data, int rank, size_t first, size_t count, size_t *taken)
{
    size_t in_piece = first % BENCH_PIECE, left = BENCH_PIECE - in_piece;
    *taken = left < count ? left : count;
    make_piece(data, rank, first / BENCH_PIECE, in_piece + *taken);
    return data->piece + in_piece * data->nbytes;
}

void bench_data_fill(bench_data *data, int rank, size_t first, size_t count, void *to)
{
    unsigned char *at = to;
    for (size_t taken; count > 0; first += taken, count -= taken) {
        const unsigned char *part = next_part(data, rank, first, count, &taken);
        memcpy(at, part, taken * data->nbytes);
        at += taken * data->nbytes;
    }
}

size_t bench_data_count_wrong(bench_data *data, int rank, size_t first, size_t count, const void *got)
{
    const unsigned char *at = got;
    size_t wrong = 0, nbytes = data->nbytes;
    for (size_t taken; count > 0; first += taken, count -= taken) {
        const unsigned char *part = next_part(data, rank, first, count, &taken);
        if (memcmp(at, part, taken * nbytes) != 0)
            for (size_t i = 0; i < taken; i++)
                wrong += memcmp(at + i * nbytes, part + i * nbytes, nbytes) != 0;
        at += taken * nbytes;
    }
    return wrong;
}
