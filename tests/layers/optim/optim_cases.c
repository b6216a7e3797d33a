/* tests/layers/optim/optim_cases.c - runs one case on n ranks; see case_main.h, optim_cases.h.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "optim_cases.h"

#include "case_main.h"

static const named_case cases[] = {
    { "relocation", case_relocation },
    { "relocation_twice", case_relocation_twice },
    { "relocation_experts", case_relocation_experts },
    { "buckets_golden", case_buckets_golden },
    { "buckets_families", case_buckets_families },
    { "table", case_table },
    { "dry_run", case_dry_run },
    { "golden", case_golden },
    { "sharded_equals_whole", case_sharded_equals_whole },
    { "ranks_equal_microbatches", case_ranks_equal_microbatches },
    { "grid_equals_one_rank", case_grid_equals_one_rank },
    { "experts_equal_one_rank", case_experts_equal_one_rank },
    { "odd_sizes", case_odd_sizes },
    { "travels_early", case_travels_early },
    { "unused_is_named", case_unused_is_named },
    { "wrong_steps", case_wrong_steps },
    { "gives_up", case_gives_up },
    { "idle_experts", case_idle_experts },
    { "norm_counts_replicated_once", case_norm_counts_replicated_once },
    { "norm_counts_experts_once", case_norm_counts_experts_once },
    { "norm_of_stale_shards", case_norm_of_stale_shards },
    { "summands_are_summed_once", case_summands_are_summed_once },
    { "skipping", case_skipping },
    { "tied_before_scatter", case_tied_before_scatter },
    { "tied_stages_stay_equal", case_tied_stages_stay_equal },
    { "norm_counts_tied_once", case_norm_counts_tied_once },
    { "two_stages_of_one_rank", case_two_stages_of_one_rank },
    { "empty_stage", case_empty_stage },
    { "pieces", case_pieces },
    { "masters", case_masters },
    { "hashes", case_hashes },
    { "misuse", case_misuse },
    { "mismatch", case_mismatch },
};

int main(int argc, char **argv)
{
    return case_main(argc, argv, "optim_cases", cases, sizeof cases / sizeof cases[0]);
}
