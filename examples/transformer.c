/* examples/transformer.c - trains a tiny GPT-2 with tensor and data parallelism, beside the same on one rank.
 *
 *     kith run -n 4 -- transformer
 *
 * On a multiple of four ranks two halves of the job have two samples each (data parallel), and the ranks of a half
 * share every layer (tensor parallel); on other numbers all ranks share the layers. One more trainer has the whole
 * model and all samples on every rank: its losses are what the others' are compared with.
 *
 * A step is: zero gradients; forward and backward; kith_layers_finish_grads(), which sums what is a summand over tp;
 * the caller's own sum over the ranks with other data; the update, to which every parameter is a run of numbers.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "example.h"

#include <kith/transformer.h>
#include <math.h>

enum { SEQUENCE = 8, SAMPLES = 4, VOCABULARY = 31, STEPS = 5 };

typedef struct trainer {
    kith_layers *layers;
    kith_transformer *transformer;
    kith_tape *tape;
    kith_group *dp;   /* ranks with other samples and the same parts of the parameters; NULL: none */
    int first, count; /* of the samples */
} trainer;

static trainer make_trainer(kith_group *tp, kith_group *dp)
{
    trainer t = { .dp = dp, .count = SAMPLES };
    if (dp != NULL) {
        t.count = SAMPLES / kith_group_size(dp);
        t.first = t.count * kith_group_rank(dp);
    }
    kith_layers_options place = KITH_LAYERS_OPTIONS_INIT;
    place.tp = tp, place.dtype = KITH_F64;
    must(kith_layers_create(&place, &t.layers), "kith_layers_create");

    kith_transformer_config config = KITH_TRANSFORMER_CONFIG_INIT;
    must(kith_transformer_gpt2(&config, 16, 2, 4, VOCABULARY, SEQUENCE), "kith_transformer_gpt2");
    config.dropout = 0.1; // the same elements fall out in every layout
    kith_transformer_options options = KITH_TRANSFORMER_OPTIONS_INIT;
    options.config = &config;
    must(kith_transformer_create(t.layers, &options, &t.transformer), "kith_transformer_create");
    must(kith_transformer_init(t.transformer, 1234, 0.2), "kith_transformer_init");
    must(kith_tape_create(t.layers, &t.tape), "kith_tape_create");
    return t;
}

static void end_trainer(trainer *t)
{
    kith_tape_destroy(t->tape);
    must(kith_layers_destroy(t->layers), "kith_layers_destroy");
}

/* Every sample counts up in steps of its own; the target is the next word. Token = position * samples + sample. */
static int32_t word(int sample, int position)
{
    return (int32_t)((sample * 11 + position * (sample + 2)) % VOCABULARY);
}

/* The sum of all samples' losses, on every rank. */
static double forward_and_backward(trainer *t)
{
    int32_t words[SEQUENCE * SAMPLES], next[SEQUENCE * SAMPLES];
    for (int i = 0; i < SEQUENCE * t->count; i++) {
        words[i] = word(t->first + i % t->count, i / t->count);
        next[i] = word(t->first + i % t->count, i / t->count + 1);
    }
    const int64_t shape[] = { SEQUENCE, t->count };
    kith_tensor ids = kith_tensor_view(words, KITH_INT32, 2, shape);
    kith_tensor targets = kith_tensor_view(next, KITH_INT32, 2, shape);
    kith_batch batch = KITH_BATCH_INIT;
    batch.sequence = SEQUENCE, batch.batch = t->count, batch.first_sample = (uint64_t)t->first;
    kith_transformer_loss loss;
    must(kith_tape_begin(t->tape, &batch), "kith_tape_begin");
    must(kith_transformer_forward(t->transformer, t->tape, &ids, &targets, NULL, &loss), "kith_transformer_forward");
    must(kith_transformer_backward(t->transformer, t->tape, NULL, 1.0 / (SEQUENCE * SAMPLES), 1, NULL),
         "kith_transformer_backward");
    must(kith_layers_finish_grads(t->layers), "kith_layers_finish_grads");
    if (t->dp != NULL)
        must(kith_all_reduce_scalar(t->dp, &loss.sum, KITH_SUM), "kith_all_reduce_scalar");
    return loss.sum;
}

/* Gradients are summands over the ranks with other data. (An expert's would be whole over ep already, where param->
 * is_expert says so, and be summed over the ranks outside of ep only.) */
static void sum_over_data(trainer *t)
{
    for (size_t i = 0; t->dp != NULL && i < kith_layers_param_count(t->layers); i++) {
        kith_tensor *grad = &kith_layers_param(t->layers, i)->grad;
        must(kith_all_reduce(t->dp, grad->data, grad->data, (size_t)kith_tensor_count(grad), grad->dtype, KITH_SUM),
             "kith_all_reduce");
    }
}

/* Each rank updates its parts. Copies of a part have the same gradient, so they stay the same. */
static void update(trainer *t, double rate)
{
    for (size_t i = 0; i < kith_layers_param_count(t->layers); i++) {
        kith_param *param = kith_layers_param(t->layers, i);
        double *value = (double *)param->value.data;
        const double *grad = (const double *)param->grad.data;
        for (int64_t e = 0; e < kith_tensor_count(&param->value); e++)
            value[e] -= rate * grad[e];
    }
}

static double step(trainer *t)
{
    must(kith_layers_zero_grads(t->layers), "kith_layers_zero_grads");
    double loss = forward_and_backward(t);
    sum_over_data(t);
    update(t, 0.2);
    return loss;
}

int main(void)
{
    kith_ctx *ctx;
    must(kith_init(NULL, &ctx), "kith_init");
    int size = kith_size(ctx), rank = kith_rank(ctx), halves = size % 4 == 0 ? 2 : 1, tp_size = size / halves;
    kith_group *tp, *dp = NULL;
    must(kith_group_split(kith_world(ctx), rank / tp_size, rank, NULL, &tp), "kith_group_split");
    if (halves > 1)
        must(kith_group_split(kith_world(ctx), rank % tp_size, rank, NULL, &dp), "kith_group_split");

    trainer split = make_trainer(tp, dp), alone = make_trainer(NULL, NULL);
    double first = 0, last = 0;
    int wrong = 0;
    for (int s = 0; s < STEPS; s++) {
        double wanted = step(&alone);
        last = step(&split);
        first = s == 0 ? last : first;
        wrong += !(fabs(last - wanted) <= 1e-9 * wanted);
        if (rank == 0)
            printf("step %d: loss %.10g on %d x %d ranks, %.10g on one\n", s, last, halves, tp_size, wanted);
    }
    end_trainer(&split), end_trainer(&alone);
    kith_finalize(ctx);
    return wrong != 0 || !(last < first);
}
