/* tools/train/generate.h - the parts of `kith generate`.
 *
 *     generate.c   flags, help; prompt and output
 *     infer.c      the model over its ranks: from the tokens so far to the next
 *     sample.c     from logits to a token
 *
 * The whole sequence is computed again for every token: there is no cache of keys and values. That is fine for looking
 * at what a small model has learned, and it is no way to serve one.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_TOOLS_TRAIN_GENERATE_H
#define KI_TOOLS_TRAIN_GENERATE_H

#include "train.h"

#define GENERATE_FAILED 1 /* exit status */

typedef struct generate_options {
    int rank_count;                                   /* -n; 0: this process is a rank already, or the only one */
    int tp;                                           /* 0: not said */
    const char *checkpoint, *model;                   /* folders; exactly one */
    const char *prompt, *prompt_file, *prompt_tokens; /* at most one */
    int64_t tokens;                                   /* to generate */
    int64_t sequence;                                 /* that the model sees at once */
    double temperature;                               /* 0: the likeliest token */
    bool is_greedy;
    int64_t top_k; /* 0: all */
    uint64_t seed;
    int dtype;          /* which of f32, f64, bf16, f16 */
    const char *device; /* as in kith train */
    int threads;
    double timeout_s;
} generate_options;

/* ---- infer.c ---- */

typedef struct generator generator;

/* Joins the job, and loads the model over all its ranks. NULL after a sentence on stderr (of one rank), and the exit
 * status in *status: that of wrong usage when the number of ranks is another than was said. Collective. */
generator *generator_create(const generate_options *options, int *status);
/* is_failed: without the others. NULL is fine. */
void generator_destroy(generator *self, bool is_failed);
int generator_rank(const generator *self);
int64_t generator_vocabulary(const generator *self);
/* All ranks go on when is_fine on all; else the lowest where it is not writes its sentence to stderr. has_failed: as in
 * ki_agree_over(). Collective. */
bool generator_agree(generator *self, bool is_fine, const char *sentence, bool *has_failed);
/* The token that follows tokens[count], the same on all ranks: number `number` that was generated. Collective. */
bool generator_next(generator *self, const int32_t *tokens, int64_t count, int64_t number, int32_t *next);

/* ---- sample.c ---- */

/* One of count tokens by their logits. temperature 0: the likeliest, of equals the first. top_k > 0: of the top_k
 * likeliest. uniform: in [0, 1), decides. scratch: [count]. -1 where a logit is no finite number. */
int64_t train_sample(const double *logits, int64_t count, double temperature, int64_t top_k, double uniform,
                     double *scratch);
/* In [0, 1), a function of both. */
double train_uniform(uint64_t seed, uint64_t number);

#endif
