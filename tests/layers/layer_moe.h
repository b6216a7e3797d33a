/* tests/layers/layer_moe.h - mixtures of experts in tests: the numbers of a whole batch, and the same by plain loops.
 *
 * A batch is dealt to `homes`, ranks of ep with `tokens` tokens each; home h has rows [h * tokens, (h + 1) * tokens) of
 * x. Tokens are SEQUENCE positions of BATCH samples, or one token.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef TESTS_LAYER_MOE_H
#define TESTS_LAYER_MOE_H

#include "layer_cases.h"

typedef struct moe_shape {
    const char *name;
    kith_moe_options options;
    int64_t sequence, batch; /* of each home */
    int is_router_zero;      /* every token is a tie */
} moe_shape;

/* All in f64, [homes * tokens, features] and so on; experts one after the other. */
typedef struct moe_numbers {
    double *x, *dy;
    double *router, *gate, *up, *down; /* gate NULL when not gated */
    double *y, *dx;                    /* ... and what comes out */
    double *drouter, *dgate, *dup, *ddown;
    double auxiliary;
    int64_t *dropped; /* [homes] */
} moe_numbers;

static inline int64_t moe_tokens(const moe_shape *shape)
{
    return shape->sequence * shape->batch;
}

/* Inputs from make(), times the scale of each kind; outputs are zero. */
typedef struct moe_scales {
    double x, router, in, down;
} moe_scales;

void moe_numbers_create(const moe_shape *shape, int homes, double (*make)(unsigned seed, int64_t index),
                        moe_scales scales, moe_numbers *numbers);
void moe_numbers_destroy(moe_numbers *numbers);

/* Fills in the outputs: a loop over homes, tokens and choices, each expert applied to each token by itself. The loss is
 * the sum of dy * y, plus auxiliary_scale times the auxiliary loss. */
void moe_reference(const moe_shape *shape, int homes, double auxiliary_scale, moe_numbers *numbers);

/* ---- the layer itself (layer_moe_run.c) ---- */

/* The ranks of a world as ep rows of tp columns. */
typedef struct moe_grid {
    kith_group *tp, *ep;
    int tp_size, ep_size, tp_rank, ep_rank;
    int is_data;     /* every rank has all experts: ep is the group `data` of the layers, and they have no ep */
    rank_info *info; /* NULL: a reference, on the host */
} moe_grid;

moe_grid moe_grid_of(rank_info *info, int tp);

typedef struct moe_run {
    kith_layers *layers;
    kith_moe *moe;
    kith_tape *tape;
    moe_grid grid;
    kith_dtype dtype;
    int is_sequence_parallel;
    kith_tensor y, dx;
    double auxiliary;
    int64_t dropped;
} moe_run;

/* Layers on the grid, in debug mode, with one mixture that has the numbers' weights. NULL grid: one rank. */
void moe_run_create(const moe_grid *grid, const moe_shape *shape, const moe_numbers *numbers, kith_dtype dtype,
                    int is_sequence_parallel, moe_run *run);
void moe_run_load(moe_run *run, const moe_shape *shape, const moe_numbers *numbers);

/* Forward of this home's tokens, and backward. */
void moe_run_forward(moe_run *run, const moe_shape *shape, const moe_numbers *numbers);
void moe_run_backward(moe_run *run, const moe_shape *shape, const moe_numbers *numbers, double auxiliary_scale);

/* Releases y and dx; nothing may be left. */
void moe_run_destroy(moe_run *run);

/* Compares y, dx, the auxiliary loss, what was dropped and every gradient, the router's summed over ep. */
void moe_require_reference(const char *file, int line, moe_run *run, const moe_shape *shape, const moe_numbers *wanted,
                           double tolerance);
#define MOE_REQUIRE_REFERENCE(run, shape, wanted, tolerance)                                                           \
    moe_require_reference(__FILE__, __LINE__, run, shape, wanted, tolerance)

#endif
