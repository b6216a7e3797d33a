/* tests/core/algo/trial.h - one collective on simulated ranks: exact input, serial reference, comparison.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef TRIAL_H
#define TRIAL_H

#include "core/algo/algo.h"
#include "fake.h"

typedef enum trial_place { OUT_OF_PLACE, IN_PLACE, IN_PLACE_START /* reduce_scatter: recv == send */ } trial_place;

/* Operators beyond the built-in ones: composition of affine maps mod 2^32 packed in 64 bits: associative, not
 * commutative. */
#define OP_AFFINE KI_OP_USER

typedef struct trial_case {
    const ki_algo *algo;
    int size, root;
    size_t count;
    kith_dtype dtype;
    int op;
    trial_place place;
    fake_mode mode;
    uint64_t seed;
    size_t segment_nbytes;
    int radix;
    const int *node_of; /* [size] or NULL */
    bool is_order_data; /* floats whose sum depends on the order, instead of exact data */
} trial_case;

/* Runs it and compares with the reference; the reference of reductions is the documented tree, evaluated by the
 * test's own code in double precision arithmetic rounded at each step to f32 (or f64). Fails the running test on any
 * difference. */
void trial_run(const trial_case *trial);

/* A text for failures and for narrowing down. */
const char *trial_text(const trial_case *trial);

/* Counts of v-forms: uneven, some zero, total about size * count. */
size_t trial_v_count(const trial_case *trial, int rank);

#endif
