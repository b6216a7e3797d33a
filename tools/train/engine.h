/* tools/train/engine.h - one rank of a training job, from its place in the layout to the numbers of a step.
 *
 *     config.c     a model by name or config.json
 *     layout.c     tp, pp, dp, ep and what they divide; --auto
 *     job.c        context, mesh, groups, plans of the pipeline, what is predicted; how failures are told
 *     model.c      layers, this rank's stages, weights, optimizer
 *     step.c       one step: callbacks of the pipeline around the stages
 *     numbers.c    what a step was and cost, summed over the ranks
 *     memory.c     bytes of a rank, counted before and after
 *     saving.c     checkpoints: what the next step depends on
 *     kept.c       options that a checkpoint keeps, and what a run that is resumed makes of them
 *     replicas.c   whether copies of the weights have stayed the same
 *     train.c      the loop
 *     log.c        progress line, JSON lines
 *     costs.c      what stages take, and the plan with that
 *     trace.c      what ran when, on all ranks
 *     timeline.c   a picture of the last step
 *     describe.c   --describe
 *     report.c     closing table
 *
 * Each layer of the list uses those above it. All ranks go the same way through all of it: set-up is a list of phases,
 * after each of which the ranks agree (train_agree()), and the lowest that failed says why.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_TOOLS_TRAIN_ENGINE_H
#define KI_TOOLS_TRAIN_ENGINE_H

#include "../progress.h"
#include "train.h"

#define TRAIN_FAILED 1 /* exit status of a run that could not go on; KI_EXIT_USAGE: one that could not begin */

enum { TRAIN_SENTENCE = 1024 };

/* ---- config.c ---- */

/* Names of the built-in models; NULL past the end. */
const char *train_model_name(int index);
/* model: a name, or the path of a config.json; NULL: the default. config was made with KITH_TRANSFORMER_CONFIG_INIT.
 * False with a sentence. */
bool train_config_find(const char *model, kith_transformer_config *config, char *sentence, size_t nbytes);
/* The same model as the planner sees it. */
kith_model train_config_model(const char *name, const kith_transformer_config *config);

/* ---- layout.c ---- */

typedef struct train_layout {
    int world, tp, pp, dp, ep;
    kith_schedule_kind schedule;
    int chunks, stages;
    int64_t microbatches; /* of each pipeline in a step */
    int64_t micro_batch;  /* samples of a microbatch */
    int64_t sequence;
    char why[256]; /* with --auto: what was chosen, and out of what; else "" */
} train_layout;

/* Samples of a step, all ranks. */
int64_t train_layout_samples(const train_layout *layout);
/* Number in its step of the first sample that rank `data` (of dp * ep) takes in a microbatch. The samples of microbatch
 * m are the same set whatever the number of data-parallel ranks that share it. */
int64_t train_layout_sample(const train_layout *layout, int data, int64_t microbatch);
/* What the options ask for on `world` ranks; what they leave open is filled in. False with a sentence. */
bool train_layout_find(train_options *options, const kith_transformer_config *config, int world, train_layout *layout,
                       char *sentence, size_t nbytes);
/* Options of the planner for it. */
kith_plan_options train_layout_plan(const train_options *options, const train_layout *layout);

/* ---- job.c ---- */

typedef struct train_job {
    train_options options; /* settled */
    char model_name[256];
    kith_transformer_config config;
    train_layout layout;
    kith_ctx *ctx;
    kith_device *device; /* that this rank computes on, the context's; NULL: the processors */
    kith_group *world;
    kith_mesh *mesh;
    kith_group *tp, *pp, *dp, *ep, *data; /* data: dp and ep together, all with other samples */
    kith_group *embed;                    /* first and last rank of the pipeline; NULL: neither, or one rank */
    char backends[256];                   /* of the mesh */
    int rank;                             /* of world */
    int pp_rank, data_rank;
    kith_schedule *schedule, *evaluation; /* computation alone */
    kith_plan plan;                       /* prediction */
    bool has_plan;
    char no_plan[TRAIN_SENTENCE];                  /* why not */
    char *resumed;                                 /* checkpoint that it goes on from; NULL: none. kith_free() */
    kith_checkpoint_number kept[TRAIN_KEPT_COUNT]; /* of that checkpoint; NAN: it has none */
    train_identity identity;                       /* of the data */
    bool is_resumed_in_place;                      /* it is the one of its step in the folder that is saved to */
    char sentence[TRAIN_SENTENCE];                 /* what went wrong here; "": nothing */
    bool has_failed; /* not for what the user asked for: a rank died, memory or a file system failed. Of this rank; of
                        any after a train_agree() that says no */
} train_job;

/* False, with the sentence kept for train_agree(). */
bool train_wrong(train_job *job, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The same for memory that is short, which is no wrong usage: "no memory for ...". */
bool train_no_memory(train_job *job, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The same with the library's sentence when status is not KITH_OK. */
bool train_check(train_job *job, kith_status status);
/* All ranks agree whether a phase went well. False when it failed on some rank: then the lowest of these has written
 * its sentence to stderr, unless it is empty: said before. Sentences are gone then. Collective over the world. */
bool train_agree(train_job *job, bool is_fine);
/* Writes "kith train: ..." to stderr, on a line of its own. */
void train_tell(const train_job *job, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Phases. train_job_join(): the context; the others need it. */
bool train_job_join(train_job *job);
bool train_job_lay_out(train_job *job);
bool train_job_connect(train_job *job); /* collective */
bool train_job_schedule(train_job *job);
void train_job_predict(train_job *job);
/* is_failed: without the others. */
void train_job_leave(train_job *job, bool is_failed);

/* ---- model.c ---- */

enum { TRAIN_CHUNKS = 64 };

typedef struct train_model {
    kith_layers *layers;
    int stage_count;          /* of this rank */
    int stages[TRAIN_CHUNKS]; /* their numbers, ascending */
    kith_transformer *transformers[TRAIN_CHUNKS];
    kith_param *tied; /* a weight that a stage on another rank has, too; NULL: none */
    kith_optim *optim;
} train_model;

/* Phases: layers; this rank's stages on them; their weights; those that two ranks share; the optimizer. Of each, what
 * is collective comes first, or is all of it: a rank that fails alone is at the agreement behind it, with all others.
 * */
bool train_model_make(train_job *job, train_model *model);     /* collective */
bool train_model_build(train_job *job, train_model *model);    /* local */
bool train_model_fill(train_job *job, train_model *model);     /* collective */
bool train_model_tie(train_job *job, train_model *model);      /* collective over job->embed */
bool train_model_optimize(train_job *job, train_model *model); /* collective */
void train_model_fini(train_model *model);
/* Stages of one rank on layers that are there: for dry runs, too. pp_rank: of which rank. */
kith_status train_model_stages(const train_job *job, int pp_rank, kith_layers *layers, train_model *model);
/* What a checkpoint is saved from and loaded into. */
kith_checkpoint_place train_model_place(const train_job *job, const train_model *model);

/* ---- step.c ---- */

/* Where a stage keeps one microbatch. */
typedef struct train_slot {
    kith_tape *tape;
    int32_t *inputs, *targets; /* [sequence, micro_batch]; NULL where the stage needs none */
} train_slot;

/* What computing took, stage by stage. (costs.c) */
typedef enum train_cost { TRAIN_COST_F, TRAIN_COST_B, TRAIN_COST_I, TRAIN_COST_W, TRAIN_COSTS } train_cost;

typedef struct train_costs {
    int stages;
    double *sums; /* [stages][TRAIN_COSTS][2]: seconds, how often */
} train_costs;

typedef struct train_engine {
    train_job *job;
    train_model *model;
    train_data *data;
    kith_pipeline *pipeline, *evaluation;
    train_slot *slots[TRAIN_CHUNKS]; /* [slot_counts[chunk]] */
    int slot_counts[TRAIN_CHUNKS];
    int32_t *spare; /* [sequence, micro_batch]: ids that nobody wants */
    int64_t step;   /* steps that were made */
    int64_t batch;  /* of validation */
    bool is_evaluating;
    kith_loss_scale scale; /* 1 without loss scaling */
    double *losses;        /* [microbatches] sum of this rank's tokens, on the last stage */
    double auxiliary;      /* of this rank's stages, all microbatches */
    int64_t dropped;
    int64_t made, skipped; /* steps of this run; of them, those whose gradient was not finite */
    double rate, grad_norm;
    kith_optim_result optim_result;
    double start_s, reduced_from_s;    /* train_now_s() at its start, and when the optimizer's part began */
    double step_s, reduce_s, update_s; /* how long all of it took; sums and norm; update and gathering */
    struct train_trace *trace;         /* NULL: nobody looks */
    bool waits_for_device;             /* after every stage, so that times are those of the device */
    train_costs costs;                 /* of the last step; of all ranks once its numbers were collected */
} train_engine;

bool train_engine_make(train_job *job, train_model *model, train_data *data, train_engine *engine); /* collective */
void train_engine_fini(train_engine *engine);
/* One step of training, and what it cost here. Collective. */
kith_status train_engine_step(train_engine *engine);
/* Forward alone over batch `index` of validation: engine->losses. Collective. */
kith_status train_engine_evaluate(train_engine *engine, int64_t index);

/* ---- costs.c: what computing took, stage by stage, on average ---- */

bool train_costs_make(train_job *job, train_costs *costs);
void train_costs_fini(train_costs *costs);
/* Adds the last step of this rank. */
void train_costs_add(const train_engine *engine, train_costs *costs);
/* Adds other ones. */
void train_costs_merge(train_costs *costs, const train_costs *others);
size_t train_costs_count(const train_costs *costs); /* of sums */
void train_costs_clear(train_costs *costs);
/* The plan, simulated with these costs, in units of `unit_s` seconds; messages take no time. */
kith_status train_costs_simulate(const train_job *job, const train_costs *costs, double unit_s,
                                 kith_simulation **simulation);
/* Of it, how long a rank is idle (mean of the ranks), and how long all of it takes (may be NULL). */
kith_status train_costs_bubble(const train_job *job, const train_costs *costs, double *bubble_s, double *makespan_s);

/* ---- trace.c: when what ran ---- */

typedef struct train_trace train_trace;

/* Keeps what the last steps of this rank did, in memory that does not grow. NULL when memory is short. */
train_trace *train_trace_create(train_engine *engine);
void train_trace_destroy(train_trace *trace);
void train_trace_begin(train_trace *trace);
void train_trace_end(train_trace *trace);
/* What all ranks kept, brought together and written by rank 0. Collective. False with a sentence in the job. */
bool train_trace_write(train_trace *trace, const char *path);

/* ---- timeline.c ---- */

/* The last step as it was measured on the pipeline of rank 0, above the plan with measured costs, as SVG. Collective
 * over the world. False with a sentence in the job. */
bool train_timeline_write(const train_engine *engine, const train_costs *costs, const char *path);

/* ---- numbers.c ---- */

typedef struct train_count {
    double forward, backward, step; /* operations by the phase they were made in; step: at its end */
    double nbytes;                  /* of whole tensors and messages */
} train_count;

typedef enum train_time {
    TRAIN_FORWARD, /* computing, without waiting for other ranks of tp */
    TRAIN_BACKWARD,
    TRAIN_TP,        /* waiting for other ranks of tp and ep */
    TRAIN_BUBBLE,    /* standing still in the pipeline as its plan has it, with what the stages took in this step */
    TRAIN_PP,        /* and beyond that: messages, the sum of the tied weight, microbatches that took longer */
    TRAIN_DP,        /* waiting for sums over data-parallel ranks, and for gathered weights */
    TRAIN_OPTIMIZER, /* norm and update */
    TRAIN_OTHER,     /* loading, zeroing, agreeing */
    TRAIN_TIMES
} train_time;
const char *train_time_name(train_time time); /* "forward", ...; NULL past the end */

/* A step as it is told. All but times are those of one pipeline: sums over its stages; times are means of all ranks. */
typedef struct train_numbers {
    int64_t step; /* 1 for the first */
    double loss;  /* mean of all tokens */
    double auxiliary;
    double dropped; /* share of token choices that no expert took */
    double grad_norm, rate, scale;
    bool is_skipped, is_stopping;
    double tokens, seconds;
    train_count tp[KITH_COLL_COUNT], ep[KITH_COLL_COUNT], messages, tied, dp[KITH_COLL_COUNT]; /* tied: all-reduces */
    double time_s[TRAIN_TIMES];
    bool has_validation;
    double validation;
} train_numbers;

/* is_stopping: this rank was told to stop; on return whether any was. Collective over the world. */
kith_status train_numbers_collect(train_engine *engine, bool is_stopping, train_numbers *numbers);
/* Mean loss of the validation batches. Collective. */
kith_status train_numbers_validate(train_engine *engine, int64_t batches, double *loss);

/* ---- memory.c: bytes of a rank ---- */

typedef struct train_memory {
    double parameters, grads, optimizer, activations, messages; /* activations: at their peak */
} train_memory;

/* What this rank will take, counted by a dry run of its stages as rank 0 of its tp. False where that is not possible:
 * the sentence of the job says why. */
bool train_memory_predict(train_job *job, train_memory *memory);
/* What it took. */
void train_memory_measure(const train_engine *engine, train_memory *memory);

/* ---- describe.c ---- */

/* What --describe prints: parameters, groups, plan, placement. Local; false with a sentence in the job. */
bool train_describe(train_job *job);

/* ---- report.c ---- */

/* Sums over steps, for means. */
typedef struct train_totals {
    int64_t steps;
    double seconds, time_s[TRAIN_TIMES];
} train_totals;

/* The closing table on standard output: what was measured beside what was predicted. Rank 0 writes; collective. */
kith_status train_report(const train_engine *engine, const train_costs *costs, const train_totals *totals,
                         const train_numbers *last, const train_memory *predicted);

/* ---- kept.c: the options of a run that its checkpoints keep ---- */

/* Names; values are NAN. */
void train_kept_name(kith_checkpoint_number *numbers);
/* Those of this job. numbers: [TRAIN_KEPT_COUNT] */
void train_kept_fill(const train_job *job, kith_checkpoint_number *numbers);
/* What was not said becomes what job->kept has of it. False when the rest does not go with it. Local. */
bool train_kept_take(train_job *job);
/* Whether it is the same run that goes on; what was changed on purpose is told by rank 0. Local. */
bool train_kept_compare(train_job *job);

/* ---- saving.c ---- */

/* The checkpoint that --resume means, if any: job->resumed; options that were not said are as in it. Damaged ones that
 * are passed over are told. Collective. */
bool train_find_checkpoint(train_job *job);
/* Makes the folder of --save where it is missing. False when nothing can be saved there. Local. */
bool train_try_saving(train_job *job);
/* Goes on from it: weights, optimizer, step. Collective. */
bool train_resume(train_engine *engine);
/* Writes one, and removes those that are too old. Collective. */
kith_status train_save(const train_engine *engine);

/* ---- replicas.c ---- */

/* True when ranks that should have the same weights have them; else that has been told. hash: of this rank's.
 * Collective over the world. */
bool train_compare_replicas(train_job *job, const train_model *model, uint64_t *hash);

/* ---- log.c: what rank 0 tells while it runs ---- */

typedef struct train_log {
    const train_job *job;
    FILE *json;       /* NULL: none */
    bool is_speaking; /* rank 0 */
    bool is_terminal; /* one line is rewritten */
    bool has_line, was_skipped;
    bool has_failed;    /* it, or standard output, could not be written; that has been told */
    int64_t first_step; /* steps that were made before this run */
    double start_s, shown_s;
} train_log;

bool train_log_open(train_job *job, train_log *log);
/* What a run goes on from; the first object of the JSON log. */
void train_log_start(train_log *log, const train_memory *predicted);
void train_log_step(train_log *log, const train_numbers *numbers);
/* The last one. last without a loss (NAN): no step was made. why: "done", "stopped by a signal". */
void train_log_end(train_log *log, const train_numbers *last, const char *why, uint64_t hash);
/* Ends the line on a terminal, so that something else can be written, and sees whether output arrives. */
void train_log_pause(train_log *log);
void train_log_close(train_log *log);
double train_now_s(void);
/* Closes; false, with errno, when something that was written did not arrive. */
bool train_file_close(FILE *file);
/* Whether a file can be written that is written at the end only. False with a sentence. flag: "--trace". */
bool train_file_try(train_job *job, const char *flag, const char *path);

#endif
