/* tests/layers/layer_vocabulary.h - what the cases of embedding and head share.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef TESTS_LAYER_VOCABULARY_H
#define TESTS_LAYER_VOCABULARY_H

#include "layer_cases.h"

enum { WORDS = 7, FEATURES = 3, SEQUENCE = 5, SAMPLES = 2, TOKENS = SEQUENCE * SAMPLES };

/* Ids of [SEQUENCE, SAMPLES] with repetitions, in [0, words). The caller's: static memory. */
kith_tensor some_ids(unsigned seed, int32_t words);

/* All of a parameter, in f64, on every rank; to be freed. */
double *whole_of(kith_param *param, kith_param_which which);

/* Fails unless |got - wanted| <= tolerance * (1 + |wanted|) for each. */
void require_numbers(const char *file, int line, const char *what, const double *got, const double *wanted,
                     int64_t count, double tolerance);
#define REQUIRE_NUMBERS(what, got, wanted, count, tolerance)                                                           \
    require_numbers(__FILE__, __LINE__, what, got, wanted, count, tolerance)

/* Elements of a tensor in f64; to be freed. */
double *doubles_of(const kith_tensor *tensor);

/* A place as layers_over() makes them, but dry: what rank 0 of tp ranks counts. */
kith_layers *dry_layers(int tp, kith_dtype dtype, int is_sequence_parallel);

/* Fails unless both have counted the same messages and, on rank 0, the same bytes of memory. */
void require_same_counts(const char *file, int line, const kith_layers *layers, const kith_layers *dry);
#define REQUIRE_SAME_COUNTS(layers, dry) require_same_counts(__FILE__, __LINE__, layers, dry)

/* Ends a tape and its layers, of which nothing may be left. */
void end_layers(kith_layers *layers, kith_tape *tape);

/* Words and loss in f64, written out: logits = x w^T, dlogits, dw, dx of scale * sum of losses. */
typedef struct plain_head {
    int64_t tokens, words, features;
    const double *x, *w;    /* [tokens, features], [words, features] */
    const int32_t *targets; /* [tokens] */
    int32_t ignored;
    double smoothing;
} plain_head;

/* Each result may be NULL. Returns the sum of the losses. */
double plain_head_run(const plain_head *how, double scale, double *losses, double *dlogits, double *dw, double *dx);

#endif
