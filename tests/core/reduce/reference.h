/* tests/core/reduce/reference.h - what reductions shall give, one element at a time, without the library's code.
 *
 * Small floats are tables of all their values as doubles; narrowing searches the table for the nearest value. f32
 * arithmetic is done in double and rounded once more, which is exact for one operation (53 >= 2 * 24 + 2 bits).
 * Integers are __int128. The order of combination is written as kith/coll.h tells it.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef TEST_REDUCE_REFERENCE_H
#define TEST_REDUCE_REFERENCE_H

#include <core/reduce/reduce.h>
#include <stdint.h>

/* A float format of at most 16 bits. */
typedef struct ref_format {
    int exponent_bits, mantissa_bits;
    int has_infinity;
    uint32_t nan;        /* the canonical one */
    double value[32768]; /* of each code with the sign clear; ascending up to `largest` */
    uint32_t largest;    /* code of the largest finite value */
} ref_format;

/* dtype must be f16, bf16, f8e4m3 or f8e5m2. */
const ref_format *ref_format_of(kith_dtype dtype);
double ref_widen(kith_dtype dtype, uint32_t code);
/* Nearest, ties to even. A NaN gives the format's canonical one. */
uint32_t ref_narrow(kith_dtype dtype, double x);

/* The reduction of p raw elements, their bits in the low bits of each word. */
uint64_t ref_reduce(kith_dtype dtype, int op, double scalar, int p, const uint64_t *raw);

int ref_is_float(kith_dtype dtype);

/* Random numbers: splitmix64. */
uint64_t ref_random(uint64_t *state);
/* A raw element: mostly moderate values, sometimes zeros, extremes, infinities, NaNs, arbitrary bits. */
uint64_t ref_random_raw(kith_dtype dtype, uint64_t *state);

uint64_t ref_get(const void *base, size_t nbytes, size_t index);
void ref_put(void *base, size_t nbytes, size_t index, uint64_t raw);

#endif
