/* layers/moe.h - what a mixture of experts is inside; shared by moe*.c alone.
 *
 *     moe.c            creation: who has which experts, and which part of them
 *     moe_forward.c    the way of a microbatch through the layer
 *     moe_backward.c   the way back
 *     moe_router.c     logits, choices and their weights; gradients of the router
 *     moe_balance.c    the load-balancing loss
 *     moe_routing.c    which choices an expert takes, and in which order rows travel
 *     moe_dispatch.c   rows to their experts and home again
 *     moe_experts.c    the feed-forward layers
 *     moe_saved.c      what forward keeps for backward
 *
 * Words. A choice is one of the top_k experts of a token: number token * top_k + place. A row is a choice that its
 * expert takes, on its way: home is the rank of ep that has the token, the row works where its expert lives. Rows leave
 * home sorted by (expert, token), and experts see theirs sorted by (source rank, token), so a sum over the rows of an
 * expert is formed in the same order however the tokens were dealt to ranks.
 *
 * Over tp. All ranks see all tokens of the microbatch (with sequence parallelism they are gathered first), and each
 * computes the router for all of them: the choices must be the same on all, and so the same GEMM runs on all. Inside an
 * expert the inner features are split, so what comes home is a summand over tp; it is reduced once, after the rows of a
 * token were added. The all-to-all runs on every rank of tp, with the ranks of ep that have the same place in tp.
 *
 * Weights are applied at home, after the experts. Their gradient is <dy, expert(x)>, which needs the expert's output;
 * rather than keeping that (top_k rows of a token), backward uses <dy, W a> = <W^T dy, a> with the inner activation a,
 * where both factors are at hand on the expert's rank. So in backward dy travels to the expert unweighted with its
 * weight beside it, and the dot product, a summand over tp, travels home.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_LAYERS_MOE_H
#define KI_LAYERS_MOE_H

#include "layers.h"

/* A weight with its gradient. */
typedef struct ki_moe_matrix {
    kith_tensor value, grad;
    ki_block *block;
} ki_moe_matrix;

/* An expert of this rank. */
typedef struct ki_expert {
    ki_moe_matrix in;  /* gate above up, or up alone: [in_rows, features] */
    ki_moe_matrix out; /* down: [features, inner] */
} ki_expert;

struct kith_moe {
    kith_layers *layers;
    const char *name;
    kith_moe_options options;
    ki_activation activation;
    ki_moe_matrix router;                /* [experts, features] */
    ki_expert *experts;                  /* [expert_count] */
    int64_t first_expert, expert_count;  /* of this rank of ep */
    int64_t first_inner, inner, in_rows; /* of this rank of tp; in_rows: inner, twice that when gated */
};

/* Where the choices of a microbatch go. In dry runs there are no choices, and all experts are taken to get as many. */
typedef struct ki_routing {
    int64_t tokens, choices;
    int64_t sent, received; /* rows that leave this home, rows that work here */
    kith_tensor chosen;     /* int32 [2, choices]: expert of each choice, then its row or -1; on the host, as counts */
    kith_tensor counts; /* int64 [1, experts + ep * expert_count]: rows to each expert, then those from each rank for
                               each expert that is here */
} ki_routing;

/* The same as lists for kernels, made when they are needed. NULL in dry runs. */
typedef struct ki_routing_lists {
    kith_tensor memory;
    const int32_t *row_of_choice;             /* [choices] */
    int32_t *token_of_row, *choice_of_row;    /* [sent] */
    int32_t *arrival_of_row, *row_of_arrival; /* [received]: rows that work here, in the order of experts and in the
                                                 order of arrival; not used when ki_moe_is_sorting() is false */
} ki_routing_lists;

static inline int32_t *ki_expert_of_choice(const ki_routing *routing)
{
    return (int32_t *)routing->chosen.data;
}

static inline int32_t *ki_row_of_choice(const ki_routing *routing)
{
    int32_t *experts = ki_expert_of_choice(routing);
    return experts == NULL ? NULL : experts + routing->choices;
}

/* Rows arrive by rank and then by expert: with one of either, that is the order of experts. */
static inline bool ki_moe_is_sorting(const kith_moe *moe)
{
    return moe->layers->ep_size > 1 && moe->expert_count > 1;
}

/* ---- moe_router.c ---- */

/* x: all tokens. Fills in the experts of routing's choices. weights: A, [tokens, top_k]. probabilities: A, [tokens,
 * experts], or no tensor when nothing needs them. */
kith_status ki_moe_choose(kith_moe *moe, ki_mat x, ki_routing *routing, kith_tensor *weights,
                          kith_tensor *probabilities);

/* balance: of ki_moe_balance(), or no tensor. dlogits: T, [tokens, experts]. */
kith_status ki_moe_choose_grad(kith_moe *moe, const ki_routing *routing, const kith_tensor *weights,
                               const kith_tensor *probabilities, const kith_tensor *dweights,
                               const kith_tensor *balance, double balance_scale, kith_tensor *dlogits);

/* ---- moe_balance.c ---- */

/* *loss: the same on all ranks of data. gradient: A, [1, experts]: of every token's probabilities. */
kith_status ki_moe_balance(kith_moe *moe, kith_tape *tape, const ki_routing *routing, const kith_tensor *probabilities,
                           kith_tensor *gradient, double *loss);

/* ---- moe_routing.c ---- */

kith_status ki_routing_create(kith_moe *moe, int64_t tokens, ki_routing *routing);
void ki_routing_release(ki_routing *routing);

/* The experts are chosen: who is taken, and which row he gets. *dropped: choices that no expert took. */
kith_status ki_routing_deal(kith_moe *moe, ki_routing *routing, int64_t *dropped);

/* Tells the ranks of ep how many rows will come. */
kith_status ki_routing_exchange(kith_moe *moe, kith_tape *tape, ki_routing *routing);

/* Rows from here to an expert (its global number); rows of rank `source` of ep for expert `index` of this rank; and of
 * all ranks for it. */
int64_t ki_routing_rows_to(const kith_moe *moe, const ki_routing *routing, int64_t expert);
int64_t ki_routing_rows_from(const kith_moe *moe, const ki_routing *routing, int source, int64_t index);
int64_t ki_routing_rows_of(const kith_moe *moe, const ki_routing *routing, int64_t index);

kith_status ki_routing_list(kith_moe *moe, const ki_routing *routing, ki_routing_lists *lists);

/* ---- moe_dispatch.c ---- */

/* Rows on their way home. What is sent is kept until they are there. */
typedef struct ki_trip {
    kith_tensor sending, arriving;
    ki_started started;
} ki_trip;

/* rows: [sent, any]; arrived: [received, any], in the order of experts. */
kith_status ki_moe_dispatch(kith_moe *moe, kith_tape *tape, const ki_routing *routing, const ki_routing_lists *lists,
                            const kith_tensor *rows, kith_tensor *arrived);
/* The way back: rows [received, any] of experts to [sent, any]. */
kith_status ki_moe_return_start(kith_moe *moe, kith_tape *tape, const ki_routing *routing,
                                const ki_routing_lists *lists, const kith_tensor *rows, ki_trip *trip);
kith_status ki_trip_end(ki_trip *trip, kith_tensor *arrived);
/* Waits for a trip that nobody ended. */
void ki_trip_settle(ki_trip *trip);

/* Shape and dtype of a tensor without its memory. */
static inline kith_tensor ki_moe_shape_of(const kith_tensor *tensor)
{
    kith_tensor shape = *tensor;
    shape.data = NULL;
    shape.buffer = NULL;
    return shape;
}

/* sum: T, shaped as `like`: to each token its rows, times weights ([sent, 1], NULL: 1). A summand over tp. */
kith_status ki_moe_combine(kith_moe *moe, const ki_routing_lists *lists, const kith_tensor *rows,
                           const kith_tensor *weights, const kith_tensor *like, kith_tensor *sum);

/* ---- moe_experts.c ---- */

/* inputs: [received, features]; hidden: what activations are applied to, [received, in_rows]; outputs: [received,
 * features], a summand over tp. */
kith_status ki_moe_experts_forward(kith_moe *moe, const ki_routing *routing, const kith_tensor *inputs,
                                   kith_tensor *hidden, kith_tensor *outputs);

/* dy: [received, features], without weights (A, [received, 1]). dinputs (NULL: not wanted) and dots: A, [received, 1],
 * the weights' gradients: summands over tp. Gradients of the experts' weights are noted on the tape. */
kith_status ki_moe_experts_backward(kith_moe *moe, kith_tape *tape, const ki_routing *routing,
                                    const kith_tensor *inputs, const kith_tensor *hidden, const kith_tensor *dy,
                                    const kith_tensor *weights, kith_tensor *dinputs, kith_tensor *dots);

/* Notes grad += dy^T x of a matrix of the layer. */
kith_status ki_moe_note_weights(kith_tape *tape, const ki_moe_matrix *matrix, const kith_tensor *x,
                                const kith_tensor *dy);

/* Some rows of a tensor of two dimensions, for who keeps references. */
kith_tensor ki_moe_rows(const kith_tensor *tensor, int64_t first, int64_t count);

#endif
