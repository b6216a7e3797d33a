/* tests/layers/compute_help.h - what the tests of layers/compute share: every instruction set, type and shape, matrices
 * with gaps between their rows, and comparison with numbers in f64.
 *
 * A check fills matrices with test_random(), calls the table, computes the same plainly in f64 from the values that the
 * matrices really hold, and compares. Gaps have a pattern that must survive.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef TESTS_LAYERS_COMPUTE_HELP_H
#define TESTS_LAYERS_COMPUTE_HELP_H

#include "layers/compute/compute.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

typedef struct test_case {
    ki_compute *compute;
    const ki_compute_ops *ops;
    kith_dtype dtype, wide; /* T and A(T) */
    int64_t rows, cols;
} test_case;

/* Runs check for each instruction set that runs here, f32, f64 and bf16, and the sizes of test_rows and test_cols. */
void test_everywhere(void (*check)(const test_case *c));

/* The same for one shape. */
void test_shape(int64_t rows, int64_t cols, void (*check)(const test_case *c));

/* [rows, cols] with a gap of three elements after each row, data zero; freed by test_everywhere() after the check. */
ki_mat test_zeros(kith_dtype dtype, int64_t rows, int64_t cols);
/* Normal numbers of this deviation, rounded to dtype; another seed, other numbers. */
ki_mat test_random(kith_dtype dtype, int64_t rows, int64_t cols, double deviation);
/* Whole numbers from -most to most. */
ki_mat test_integers(kith_dtype dtype, int64_t rows, int64_t cols, int most);
ki_mat test_copy_of(ki_mat m);
void test_set(ki_mat m, int64_t row, int64_t col, double value);
double test_at(ki_mat m, int64_t row, int64_t col);

/* Memory that is freed with the matrices. */
void *test_memory(size_t nbytes);

/* Random 32-bit word. */
uint32_t test_word(void);

/* Fails with `what`, the case and the place unless got is wanted, within `units` roundings of A(T) times `scale` and
 * one rounding of what it is stored in. NaN wants NaN, an infinity itself. Looks at one element. */
void test_near(const test_case *c, const char *what, ki_mat got, int64_t row, int64_t col, double wanted, double scale,
               double units);

/* Fails unless the status is KITH_OK and no gap of any matrix was written to. */
void test_done(const test_case *c, const char *what, kith_status status);

/* Fails unless both matrices hold the same bits. */
void test_same(const test_case *c, const char *what, ki_mat a, ki_mat b);

#endif
