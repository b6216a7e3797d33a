/* tests/layers/attention_help.h - attention written plainly in f64, and matrices of any type to compare with it.
 *
 * The reference holds all scores of a head, looks at one element at a time, and draws its own Philox words.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_TESTS_ATTENTION_HELP_H
#define KI_TESTS_ATTENTION_HELP_H

#include "layers/compute/compute.h"

/* Inputs, results and gradients as dense f64. lse is [sequence * batch, heads]. */
typedef struct attention_values {
    double *q, *k, *v, *out, *lse, *dout, *dq, *dk, *dv;
} attention_values;

/* The columns of a matrix: query heads, key heads, or one column for each query head. */
typedef enum attention_shape { OF_QUERIES, OF_KEYS, OF_HEADS } attention_shape;

/* How many values a matrix of this shape has. */
size_t attention_count(const ki_attention *how, attention_shape shape);

/* q, k, v and dout are drawn from [-1, 1) with this seed and rounded to dtype, the rest is 0. */
attention_values attention_draw(const ki_attention *how, kith_dtype dtype, uint64_t seed);
void attention_free(attention_values *values);

/* out and lse of q, k, v. */
void attention_reference(const ki_attention *how, attention_values *values);
/* dq, dk, dv of q, k, v, dout. */
void attention_reference_grad(const ki_attention *how, attention_values *values);

/* What the reference multiplies a probability by: 0 or 1 / (1 - probability). head: of this call. */
double attention_factor(const ki_attention *how, int64_t sample, int64_t head, int64_t query, int64_t key);

/* Computes out, lse, dq, dk and dv of the inputs with matrices of dtype whose rows have `gap` more elements than
 * columns; these must stay as they are. */
void attention_compute(ki_compute *compute, const ki_attention *how, kith_dtype dtype, int gap,
                       attention_values *values);

/* Fails with the first element that is further than tolerance * (1 + |wanted|) from what is wanted. NaN equals NaN, and
 * infinities equal themselves. */
void expect_values(const char *what, const double *wanted, const double *got, size_t count, double tolerance);

#endif
