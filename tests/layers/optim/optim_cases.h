/* tests/layers/optim/optim_cases.h - tests of optimizers that run on several ranks: a program like layer_cases.
 *
 * Public reports behind some of them are named where they are tried.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef TESTS_OPTIM_CASES_H
#define TESTS_OPTIM_CASES_H

#include "layer_model.h"

#include <kith/optim.h>

/* optim_relocation.c; experts on an even number of ranks */
void case_relocation(rank_info *info);
void case_relocation_twice(rank_info *info);
void case_relocation_experts(rank_info *info);

/* optim_buckets.c */
void case_buckets_golden(rank_info *info);
void case_buckets_families(rank_info *info);
void case_table(rank_info *info);
void case_dry_run(rank_info *info);

/* optim_golden.c */
void case_golden(rank_info *info);

/* optim_equal.c; the grid on four ranks, experts on an even number */
void case_sharded_equals_whole(rank_info *info);
void case_ranks_equal_microbatches(rank_info *info);
void case_grid_equals_one_rank(rank_info *info);
void case_experts_equal_one_rank(rank_info *info);
void case_odd_sizes(rank_info *info);

/* optim_travel.c; on two ranks or more */
void case_travels_early(rank_info *info);
void case_unused_is_named(rank_info *info);
void case_wrong_steps(rank_info *info);
void case_gives_up(rank_info *info);
void case_idle_experts(rank_info *info);

/* optim_norm.c */
void case_norm_counts_replicated_once(rank_info *info);
void case_norm_counts_experts_once(rank_info *info);
void case_norm_of_stale_shards(rank_info *info);
void case_summands_are_summed_once(rank_info *info);
void case_skipping(rank_info *info);

/* optim_stages.c */
void case_tied_before_scatter(rank_info *info);
void case_tied_stages_stay_equal(rank_info *info);
void case_norm_counts_tied_once(rank_info *info);
void case_two_stages_of_one_rank(rank_info *info);
void case_empty_stage(rank_info *info);

/* optim_state.c */
void case_pieces(rank_info *info);
void case_masters(rank_info *info);
void case_hashes(rank_info *info);

/* optim_misuse.c */
void case_misuse(rank_info *info);
void case_mismatch(rank_info *info);

/* ---- helpers (optim_help.c) ---- */

/* Layers on a grid of ranks: neighbours are tp, ranks of the same place in tp have other data. ep: as data, or NULL. */
typedef struct grid_layers {
    kith_layers *layers;
    kith_group *data;
    int tp, dp, data_rank;
} grid_layers;
grid_layers layers_on_grid(rank_info *info, int tp, kith_dtype dtype, int is_sequence_parallel, int has_experts);

/* AdamW with decay and clipping, small buckets, groups of the grid. */
kith_optim_options options_of(rank_info *info, const grid_layers *grid);

/* A model with its optimizer. */
typedef struct training {
    setup s;
    kith_optim *optim;
    int dp, data_rank;
    kith_optim_result result; /* of the last step */
} training;

training make_training(const grid_layers *grid, const family *f, const kith_optim_options *options);
void end_training(training *t);

/* One rank with all samples. */
training train_alone(const family *f, kith_dtype dtype, const kith_optim_options *options);

/* Samples of a step as one microbatch: forward and back, the loss times scale. */
void run_samples(setup *s, int step, int first, int count, double scale);

/* Steps [first, first + count) with `samples` samples each, of which every rank of data has a run of equal length. */
void train(training *t, int first, int count, int samples);

/* Values of all parameters to the bit, or within a tolerance of a model on one rank. */
void require_same_values(const char *file, int line, kith_layers *got, kith_layers *wanted);
#define REQUIRE_SAME_VALUES(got, wanted) require_same_values(__FILE__, __LINE__, got, wanted)
void require_near_values(const char *file, int line, kith_layers *got, kith_layers *alone, double tolerance);
#define REQUIRE_NEAR_VALUES(got, alone, tolerance) require_near_values(__FILE__, __LINE__, got, alone, tolerance)

/* All ranks of group have the same values to the bit. */
void require_same_hash(const char *file, int line, kith_group *group, kith_layers *layers);
#define REQUIRE_SAME_HASH(group, layers) require_same_hash(__FILE__, __LINE__, group, layers)

/* A layer whose whole weight is [rows, cols], by itself. */
kith_linear *add_linear(kith_layers *layers, const char *name, kith_linear_kind kind, int64_t rows, int64_t cols,
                        int has_bias);
/* An RMS norm of so many elements. */
kith_norm *add_norm(kith_layers *layers, const char *name, int64_t elements);

/* Fills this rank's part of a gradient. */
void put_grad(kith_layers *layers, const char *name, double value);

#define REQUIRE_NEAR(got, wanted, tolerance)                                                                           \
    do {                                                                                                               \
        double got_ = (got), wanted_ = (wanted), most_ = (tolerance) * (1 + (wanted_ < 0 ? -wanted_ : wanted_));       \
        if (!(got_ - wanted_ <= most_ && wanted_ - got_ <= most_))                                                     \
            rank_fail(__FILE__, __LINE__, "%s is %.17g, wanted %.17g", #got, got_, wanted_);                           \
    } while (0)

#endif
