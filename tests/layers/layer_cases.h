/* tests/layers/layer_cases.h - tests of layers that run on several ranks.
 *
 * A case is a function that runs on every rank of a world of n; it makes its groups itself. One program has them all:
 * layer_cases --case linear -n 4 [--threads]. The reference of a case is arithmetic of the test's own, in f64, or
 * the same layer on one rank where what is tested is that the layout does not matter; kernels have their own tests.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef TESTS_LAYER_CASES_H
#define TESTS_LAYER_CASES_H

#include "conformance/harness.h"

#include <kith/layers.h>

/* layer_linear.c */
void case_linear(rank_info *info);
void case_linear_exact(rank_info *info);
void case_linear_parts(rank_info *info);
void case_linear_gathered(rank_info *info);
void case_linear_traffic(rank_info *info);
void case_linear_misuse(rank_info *info);
void case_regions(rank_info *info);

/* layer_golden.c, layer_transformer.c, layer_rounding.c, layer_stages.c */
void case_transformer_gpt2(rank_info *info);
void case_transformer_llama(rank_info *info);
void case_transformer_mixtral(rank_info *info);
void case_transformer_layouts(rank_info *info);
void case_transformer_experts(rank_info *info);
void case_transformer_stages(rank_info *info);
void case_transformer_rounding(rank_info *info);
void case_transformer_traffic(rank_info *info);
void case_transformer_traffic_again(rank_info *info);

/* layer_creation.c */
void case_creation_alone(rank_info *info);
void case_creation_local(rank_info *info);
void case_creation_grid(rank_info *info);
void case_creation_mismatch(rank_info *info);

/* layer_refusals.c */
void case_transformer_refusals(rank_info *info);
void case_transformer_init(rank_info *info);
void case_transformer_both_ends(rank_info *info);

/* layer_memory.c */
void case_memory(rank_info *info);
/* layer_row.c */
void case_row(rank_info *info);

/* layer_device.c */
void case_device_late(rank_info *info);
void case_device_misuse(rank_info *info);

/* layer_norm.c */
void case_norm(rank_info *info);
void case_norm_gradients(rank_info *info);
void case_norm_heads(rank_info *info);
void case_norm_misuse(rank_info *info);
void case_norm_sequence(rank_info *info);

/* layer_dropout.c */
void case_dropout(rank_info *info);
void case_dropout_misuse(rank_info *info);

/* layer_mlp.c */
void case_mlp(rank_info *info);
void case_mlp_exact(rank_info *info);
void case_mlp_golden(rank_info *info);
void case_mlp_gradients(rank_info *info);
void case_mlp_misuse(rank_info *info);

/* layer_attention.c */
void case_attention(rank_info *info);
void case_attention_copies(rank_info *info);
void case_attention_exact(rank_info *info);
void case_attention_gradients(rank_info *info);
void case_attention_heads(rank_info *info);
void case_attention_misuse(rank_info *info);
void case_attention_uneven(rank_info *info);

/* layer_counts.c */
void case_counts(rank_info *info);
/* layer_moe.c */
void case_moe(rank_info *info);
void case_moe_data(rank_info *info);
void case_moe_exact(rank_info *info);
void case_moe_layouts(rank_info *info);
void case_moe_gradients(rank_info *info);
void case_moe_repeated(rank_info *info);
void case_moe_types(rank_info *info);

/* layer_moe_counts.c */
void case_moe_traffic(rank_info *info);
void case_moe_dry(rank_info *info);
void case_moe_misuse(rank_info *info);

/* layer_embedding.c */
void case_embedding(rank_info *info);
void case_embedding_dropout(rank_info *info);
void case_embedding_traffic(rank_info *info);
void case_embedding_misuse(rank_info *info);
void case_vocabulary_padding(rank_info *info);

/* layer_head.c, layer_head_counts.c */
void case_head(rank_info *info);
void case_head_exact(rank_info *info);
void case_head_golden(rank_info *info);
void case_head_nan(rank_info *info);
void case_head_logits(rank_info *info);
void case_head_misuse(rank_info *info);
void case_head_traffic(rank_info *info);
void case_head_memory(rank_info *info);

/* layer_tied.c; the last two on an even number of ranks */
void case_head_differences(rank_info *info);
void case_tied(rank_info *info);
void case_tied_stages(rank_info *info);
void case_tied_mismatch(rank_info *info);

/* layer_place.c */
void case_place_misuse(rank_info *info);
void case_place_memory(rank_info *info);
void case_place_finish(rank_info *info);

/* layer_steps.c */
void case_steps_microbatches(rank_info *info);
void case_steps_lengths(rank_info *info);
void case_steps_norm(rank_info *info);

/* ---- helpers (layer_help.c) ---- */

/* Layers over the first `tp` ranks of the world, f64 unless said otherwise, in debug mode; NULL on other ranks, which
 * must call it, too. */
kith_layers *layers_over(rank_info *info, int tp, kith_dtype dtype, int is_sequence_parallel);

/* One rank's own: the reference that no layout has touched. */
kith_layers *layers_alone(kith_dtype dtype);

kith_tape *tape_of(kith_layers *layers, int64_t sequence, int64_t batch);

/* 64 pseudo-random bits of (seed, index). */
uint64_t scrambled(unsigned seed, int64_t index);
unsigned seed_of_name(const char *name);

/* Small whole numbers, a function of (seed, index): sums of products stay exact in every dtype. */
double whole_number(unsigned seed, int64_t index);
/* In [-1, 1), likewise. */
double fraction(unsigned seed, int64_t index);

/* A tensor of the caller's memory, [rows, cols], element (r, c) = make(seed, r * cols + c); free(tensor.data). */
kith_tensor numbers(kith_dtype dtype, int64_t rows, int64_t cols, unsigned seed,
                    double (*make)(unsigned seed, int64_t index));

/* Where the world's context has a device (KITH_DEVICE), layers_over() and its like compute on it, while references of
 * layers_alone() stay on the host: a case then compares the two. All of a rank's layers work in one stream, in which
 * tests read as well. put_on_device(): options of layers that do not come from layers_over(). */
void put_on_device(rank_info *info, kith_layers_options *options);
void end_device(void);
/* The same numbers where layers compute: a view, or a copy; kith_tensor_release() it. */
kith_tensor brought(kith_layers *layers, const kith_tensor *tensor);
/* The same numbers as memory of the host, in the caller's memory: free(data). */
kith_tensor on_host(const kith_tensor *tensor);

/* Element i of a contiguous tensor, wherever it is. */
double element(const kith_tensor *tensor, int64_t i);
void put_element(const kith_tensor *tensor, int64_t i, double value);

/* Loads every parameter of layers from numbers that depend on its name alone. */
void load_params(kith_layers *layers, double (*make)(unsigned seed, int64_t index));

/* Fails the rank unless all elements agree: |got - wanted| <= tolerance * (1 + |wanted|); 0: to the bit. */
void require_equal(const char *file, int line, const char *what, const kith_tensor *got, const kith_tensor *wanted,
                   double tolerance);
#define REQUIRE_EQUAL(what, got, wanted, tolerance) require_equal(__FILE__, __LINE__, what, got, wanted, tolerance)

/* Gathers every gradient of `layers` and compares it with that of the same name of `alone`. */
void require_same_grads(const char *file, int line, kith_layers *layers, kith_layers *alone, double tolerance);
#define REQUIRE_SAME_GRADS(layers, alone, tolerance) require_same_grads(__FILE__, __LINE__, layers, alone, tolerance)

/* The part of a whole [tokens, features] that this rank has: rows of its positions with sequence parallelism, else all.
 * A view. */
kith_tensor shard_of(kith_layers *layers, const kith_tensor *whole, int64_t sequence, int64_t batch,
                     int is_sequence_parallel);

#endif
