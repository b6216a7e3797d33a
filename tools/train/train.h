/* tools/train/train.h - the parts of `kith train` and `kith generate`.
 *
 *     options.c       flags, checks, help text; what a job is
 *     launch.c        the command; -n starts it on n ranks (tools/launch.h)
 *     agree.c         the newest checkpoint
 *     device.c        --device
 *     text.c, data.c  sources of tokens; which of them a step takes
 *     engine.h        one rank: config.c, layout.c, job.c, model.c, step.c, numbers.c, costs.c, memory.c, saving.c,
 *                     replicas.c, train.c, log.c, json.c, trace.c, timeline.c, describe.c, report.c
 *     generate.c      `kith generate`
 *
 *     options --> launch --> (each rank) job --> model --> step, again and again --> report
 *                                          data --^              log, trace --^
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_TOOLS_TRAIN_H
#define KI_TOOLS_TRAIN_H

#include "../agree.h"
#include "../command.h"

#include <kith/checkpoint.h>
#include <kith/kith.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* ---- options.c ---- */

/* Options that a checkpoint keeps (kept.c), by the number of their bit in train_options.said; behind them other numbers
 * that it keeps. */
typedef enum train_kept {
    TRAIN_KEPT_SEQUENCE,
    TRAIN_KEPT_OPTIMIZER,
    TRAIN_KEPT_BETA1,
    TRAIN_KEPT_BETA2,
    TRAIN_KEPT_EPSILON,
    TRAIN_KEPT_MOMENTUM,
    TRAIN_KEPT_WEIGHT_DECAY,
    TRAIN_KEPT_CLIP,
    TRAIN_KEPT_RATE,
    TRAIN_KEPT_WARMUP,
    TRAIN_KEPT_DECAY,
    TRAIN_KEPT_MIN_RATE,
    TRAIN_KEPT_STEPS,
    TRAIN_KEPT_BATCH,
    TRAIN_KEPT_DTYPE,
    TRAIN_KEPT_DROPOUT,
    TRAIN_KEPT_SCALING,
    TRAIN_KEPT_VALIDATION,
    TRAIN_KEPT_MICRO_BATCH,
    TRAIN_KEPT_STAGES,
    TRAIN_KEPT_OPTIONS,
    TRAIN_KEPT_SEED = TRAIN_KEPT_OPTIONS, /* the lower half of its bits */
    TRAIN_KEPT_SEED_HIGH,
    TRAIN_KEPT_DATA_NBYTES, /* train_identity */
    TRAIN_KEPT_DATA_HASH,
    TRAIN_KEPT_DATA_TOKENS,
    TRAIN_KEPT_COUNT
} train_kept;

/* What a job is. Numbers are within their ranges after reading; what follows from the number of ranks is filled in by
 * train_options_settle(). */
typedef struct train_options {
    int rank_count;     /* -n; 0: this process is a rank already, or the only one */
    int tp, pp, dp, ep; /* 0: not said, until settled */
    bool is_sequence_parallel, is_sharded, is_auto, is_described;
    kith_schedule_kind schedule;
    bool has_schedule;
    int chunks;           /* 0: not said */
    int64_t micro_batch;  /* samples of a microbatch; 0: not said, until settled */
    int64_t microbatches; /* per pipeline and step; 0: not said, until settled */
    int64_t global_batch; /* samples of a step; 0: not said, until settled: then micro_batch * microbatches * dp * ep */
    int64_t kept_micro_batch, kept_stages; /* of the checkpoint that is resumed; 0: not known */
    int64_t sequence; /* tokens of a sample; 0: not said: the model's, at most TRAIN_SEQUENCE_DEFAULT */
    kith_recompute recompute;
    const char *backends; /* "tp=shm,pp=ucx": of kith_mesh_options; NULL: the default. A backend for all groups is in
                              the environment (KITH_BACKEND) by then */
    const char *text, *tokens, *validation; /* files; exactly one of text, tokens, but for is_described */
    int token_nbytes;                       /* of a file without a header: 2 or 4; 0: the file says */
    const char *model;   /* config.json, or the name of a built-in; NULL: the default one, or that of resume */
    const char *weights; /* safetensors; NULL: a random start from seed */
    int64_t steps;
    uint64_t seed;
    kith_optim_options optim; /* without groups; clip_norm, is_sharded, bucket_nbytes are set */
    kith_rate rate;
    double loss_scale; /* 0: dynamic; TRAIN_UNSCALED: none, which becomes dynamic for f16 */
    kith_dtype dtype;
    const char *device; /* "cuda", "cuda:1"; NULL: KITH_DEVICE, or the processors */
    bool allows_tf32;
    double dropout;                          /* -1: the model's */
    const char *json_log, *trace, *timeline; /* files; NULL: none */
    const char *save, *resume;
    int64_t save_every;         /* steps; 0: at the end only */
    int64_t validate_every;     /* steps; 0: at the end only */
    int64_t validation_batches; /* of global_batch samples each; 0: no validation */
    int keep;                   /* checkpoints; 0: all */
    int threads;                /* that a rank computes with; 0: a share of the cores */
    double timeout_s;           /* longest wait for another rank; 0: KITH_TIMEOUT_MS, as everywhere */
    bool is_debug;
    uint32_t said;       /* bit TRAIN_KEPT_...: was on the command line */
    char *backends_text; /* owned: what backends points to */
} train_options;

#define TRAIN_SEQUENCE_DEFAULT 128
#define TRAIN_UNSCALED (-1.0)

/* False, with a sentence, when flags of the optimizer and its rate contradict one another; with --resume that is known
 * when what was not said has been taken from the checkpoint. */
bool train_options_fit(const train_options *options, char *sentence, size_t nbytes);

/* Fills in tp, pp, dp, ep, micro_batch, microbatches and global_batch for this number of ranks. Without world (0),
 * sizes that were not said are 1. What is settled stays as it is in a second call. With is_auto, and a size open,
 * the batch alone is settled, as for one pipeline: who then chooses tp, pp, dp and ep makes micro_batch and
 * microbatches 0, or what the planner took, and calls again. NULL, or one sentence that says what does not fit and
 * which values would: the caller's, free(). */
char *train_options_settle(train_options *options, int world);

/* ---- agree.c ---- */

/* kith_checkpoint_newest(); what it passes over is told on stderr. Collective over the world. */
kith_status train_find_newest(kith_ctx *ctx, const char *command, const char *folder, char **path, int64_t *step);
/* ---- device.c ---- */

/* KI_EXIT_OK, or that of wrong usage after a sentence. device NULL: none was given, and KITH_DEVICE is
 * checked. */
int train_device_check(const ki_command *command, const char *device);
/* What kith_init() is told of it. */
const char *train_device_wanted(const char *device);
/* "cuda:0, NVIDIA H200"; "processors" for NULL. */
void train_device_name(kith_device *device, char *name, size_t nbytes);
/* Prints the lines of --describe, which opens none for good. */
void train_device_describe(const char *wanted, int ranks);

/* ---- train.c ---- */

/* What each rank runs. Returns the exit status; sentences about failures are on stderr by then. */
int train_run(const train_options *options);

/* ---- text.c, data.c: which tokens a step takes ----
 *
 * A source is a row of tokens in a file. Its last tenth (or --validation) is kept for validation. Sample j of step s
 * begins at a place that depends on the seed, s, j and the size of the global batch alone - not on the layout - so all
 * layouts train on the same batches; samples of a step are different ones while the file has enough. A rank reads its
 * own samples only. text.c reads tokens out of a file, data.c chooses them.
 *
 * Functions return 0, or -1 and a sentence with the file's name in *error: the caller's, free(); NULL when memory is
 * short. */
typedef struct train_data train_data;

/* Uses the files, seed, global_batch and sequence (both above 0) of options. vocabulary: what ids must stay below, that
 * of the model. */
int train_data_open(const train_options *options, int64_t vocabulary, train_data **data, char **error);
void train_data_close(train_data *data);
/* Tokens that training and validation choose from. */
int64_t train_data_tokens(const train_data *data);
int64_t train_data_validation_tokens(const train_data *data);
/* Different samples that validation has: more are the same again. */
int64_t train_data_validation_samples(const train_data *data);
/* Which data they are: what a checkpoint keeps of them. Numbers are whole. */
typedef struct train_identity {
    double nbytes; /* of the file to train on */
    double hash;   /* of its tokens: all of a small file, some from everywhere of a large one */
    double tokens; /* that training chooses from */
} train_identity;
int train_data_identify(const train_data *data, train_identity *identity, char **error);
/* Fills inputs and targets, both [sequence, samples], with samples first .. first + samples - 1 of the global batch
 * of a step. targets are the tokens that follow. */
int train_data_batch(const train_data *data, int64_t step, int64_t first, int64_t samples, int32_t *inputs,
                     int32_t *targets, char **error);
/* The same for validation: samples first .. first + samples - 1 in the order of the file, one after the other. */
int train_data_validation(const train_data *data, int64_t first, int64_t samples, int32_t *inputs, int32_t *targets,
                          char **error);

#endif
