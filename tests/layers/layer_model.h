/* tests/layers/layer_model.h - tiny models for tests: families, a model that is ready to run, one step of it.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef TESTS_LAYER_MODEL_H
#define TESTS_LAYER_MODEL_H

#include "layer_cases.h"

#include <kith/transformer.h>

enum { SEQUENCE = 12, BATCH = 2, VOCABULARY = 53, TOKENS = SEQUENCE * BATCH, PROJECTIONS = 8 };

typedef struct family {
    const char *name;
    kith_transformer_config config;
    double tolerance; /* relative, against f64 of PyTorch, which has rotary angles in f32 */
} family;

family gpt2(void);
family llama(void);
family mixtral(void);

typedef struct setup {
    kith_layers *layers;
    kith_transformer *transformer;
    kith_tape *tape;
    kith_transformer_loss loss;
    int64_t sequence;
} setup;

/* [SEQUENCE, BATCH] ids of the caller's memory, a function of the seed. */
kith_tensor ids_of(unsigned seed);

/* Starts parameters as golden/make_golden.py does. The tape has a microbatch of SEQUENCE * BATCH. */
setup make_setup(kith_layers *layers, const kith_transformer_options *options);
void end_setup(setup *s);

/* One microbatch forward and back, the loss divided by its tokens; gradients begin at 0 and are finished. */
void step(setup *s);

/* Gives `to` the values that `from` has rounded to its dtype. */
void round_params(kith_layers *from, kith_layers *to);

#endif
