/* tests/conformance/reference.h - test data whose results are exact, and what the results must be.
 *
 * Shares no code with the library. Values are small integers chosen so that every partial result, in any order, is
 * exact in the dtype; so results are compared with ==. Number formats are decoded by their definition with ldexp(),
 * and encoded by searching the decoded values.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef CONFORMANCE_REFERENCE_H
#define CONFORMANCE_REFERENCE_H

#include <kith/kith.h>
#include <stdbool.h>

bool ref_is_float(kith_dtype dtype);
bool ref_is_signed(kith_dtype dtype);

/* Contribution of a rank at an index to a reduction by op over `ranks` ranks; exact in dtype. */
long ref_input(kith_op op, kith_dtype dtype, int ranks, int rank, size_t index);

/* What the reduction gives: as a number, after wrapping to the integer dtype. */
long ref_result(kith_op op, kith_dtype dtype, int ranks, size_t index);

/* Any value for operations that only move data: differs between ranks and neighbours, exact in every dtype. */
long ref_move(kith_dtype dtype, int rank, size_t index);

/* Value of a code of f16, bf16 or fp8. */
double ref_decode(kith_dtype dtype, unsigned code);

/* The code nearest to a number, ties to even; beyond the range: infinity. f16, bf16, f8e5m2. */
unsigned ref_nearest(kith_dtype dtype, double value);

/* Element number `index` of a buffer of dtype. */
void ref_put(void *buffer, kith_dtype dtype, size_t index, long value);

/* Value of an element; floats that are no integers give a value that is never expected. */
long ref_get(const void *buffer, kith_dtype dtype, size_t index);

#endif
