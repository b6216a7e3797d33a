/* tests/layers/layer_check.h - what every layer must do, tried on one that a case brings.
 *
 * A subject is a layer behind two functions of one shape. A case says how to make it; the checks here make it on one
 * rank and on several, with and without sequence parallelism, and in a dry run, and compare.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef TESTS_LAYER_CHECK_H
#define TESTS_LAYER_CHECK_H

#include "layer_cases.h"

typedef struct subject {
    kith_layers *layers;
    void *layer;
    kith_status (*forward)(void *layer, kith_tape *tape, const kith_tensor *x, kith_tensor *y);
    kith_status (*backward)(void *layer, kith_tape *tape, const kith_tensor *dy, kith_tensor *dx);
    int64_t in, out; /* features of x and y */
    int64_t sequence, batch;
    uint64_t first_sample;
    int is_sequence_parallel, is_split_backward;
} subject;

/* The two functions of a layer type, for a subject. */
#define SUBJECT_FUNCTIONS(type)                                                                                        \
    static kith_status type##_forward(void *layer, kith_tape *tape, const kith_tensor *x, kith_tensor *y)              \
    {                                                                                                                  \
        return kith_##type##_forward(layer, tape, x, y);                                                               \
    }                                                                                                                  \
    static kith_status type##_backward(void *layer, kith_tape *tape, const kith_tensor *dy, kith_tensor *dx)           \
    {                                                                                                                  \
        return kith_##type##_backward(layer, tape, dy, dx);                                                            \
    }

/* How to make one, and of what size. */
typedef struct recipe {
    void (*make)(kith_layers *layers, const void *options, subject *made); /* fills in layer, functions, in, out */
    const void *options;
    int64_t sequence, batch;
    double (*numbers)(unsigned seed, int64_t index); /* of parameters, x and dy */
} recipe;

/* Makes it on layers and loads its parameters. */
void make_subject(const recipe *how, kith_layers *layers, int is_sequence_parallel, subject *made);
/* REQUIREs that nothing is left. */
void end_subject(subject *made);

/* Whole x or dy. free(data). */
kith_tensor input_of(const subject *s, kith_dtype dtype, const recipe *how);
kith_tensor output_grad_of(const subject *s, kith_dtype dtype, const recipe *how);

/* Zeroes gradients, then forward and backward of this rank's part of whole x and dy, and the sums of gradients. y and
 * dx are references. */
void run_subject(subject *s, const kith_tensor *x, const kith_tensor *dy, kith_tensor *y, kith_tensor *dx);

/* On all ranks as on one: y, dx and every gradient, with and without sequence parallelism and split backward. In
 * evaluation the same y when is_same_in_evaluation (no dropout), and nothing kept. */
void require_layouts_agree(rank_info *info, const recipe *how, kith_dtype dtype, double tolerance,
                           int is_same_in_evaluation);

/* dx and the gradient of every parameter against central differences in f64: relative 1e-6 of the largest. */
void require_gradients(rank_info *info, const recipe *how, int is_sequence_parallel);

/* A dry run as rank 0 counts the messages and bytes of rank 0's real one. */
void require_dry_run_counts(rank_info *info, const recipe *how, kith_dtype dtype, int is_sequence_parallel);

#endif
