/* layers/compute/attention.h - attention in blocks: what its drivers and its loops share.
 *
 * A head's scores are never held as a whole. They are walked over in blocks, KI_QUERY_BLOCK queries against
 * KI_KEY_BLOCK keys; a block is a few products of matrices, which BLAS does, and loops over its elements, which are
 * compiled for each instruction set (loop_attention.h). Forward, each query keeps the largest score so far and the
 * sum of exp(score - that) and its output so far, which are rescaled when a larger score is found (Milakov and
 * Gimelshein, 2018; Dao, 2022). Backward, a block's probabilities are computed again as exp(score - lse). Blocks that
 * causality masks entirely are not visited; in those on the diagonal the loops run over what each row sees.
 *
 * Blocks are packed: rows lie side by side in scratch, converted to A. Products then have the same shapes, strides
 * and alignment whichever heads a call has, so that a head's result has the same bits whether it is computed alone,
 * on a rank that holds a part of the heads, or with all of them. The sizes of blocks are constants for the same
 * reason. Scratch holds the keys and values of one head (and their gradients) and a few blocks.
 *
 * A rank's threads take pairs of a sample and a key head, with scratch for each thread.
 *
 * What is not finite spreads as in any product: a NaN or infinity in v reaches all queries of a block that has its key,
 * also those that are masked from it, as 0 * NaN.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_LAYERS_ATTENTION_H
#define KI_LAYERS_ATTENTION_H

#include "compute.h"
#include "pool.h"

enum { KI_QUERY_BLOCK = 128, KI_KEY_BLOCK = 256 };

/* Where a block of scores lies. */
typedef struct ki_score_block {
    int rows, cols;
    int64_t diagonal;          /* row r sees the first diagonal + r * slope of the block's columns, if that many ... */
    int slope;                 /* ... 1 causal, 0 not */
    const ki_dropout *dropout; /* of its probabilities, NULL: off; the rest are the coordinates of its first element */
    uint32_t first_key;        /* a multiple of 4 */
    uint32_t first_query;
    uint32_t sample;
    uint32_t stream; /* site and head */
} ki_score_block;

/* The loops, for one A. Matrices are packed A: [rows, cols] or [rows, head_dim]. */
typedef struct ki_attention_loops {
    /* packed [rows, cols] = rows of a tensor of any of the three types, `stride` elements apart; and back. */
    void (*pack)(kith_dtype dtype, int64_t rows, int cols, const void *from, int64_t stride, void *packed);
    void (*unpack)(kith_dtype dtype, int64_t rows, int cols, const void *packed, void *to, int64_t stride);
    /* max = -inf, sum = 0, out = 0. */
    void (*begin)(int rows, void *max, void *sum, void *out, int head_dim);
    /* One step of softmax: scores becomes exp(score - max) with dropout, 0 where masked; max and sum [rows] are brought
     * up to date, and out [rows, head_dim], the weighted values so far, to the new max. */
    void (*step)(const ki_score_block *block, void *scores, void *max, void *sum, void *out, int head_dim);
    /* After the last step: out /= sum, lse[r * lse_stride] = max + log(sum). Rows that see none of all keys have 0 and
     * -inf. */
    void (*end)(const ki_score_block *queries, const void *max, const void *sum, void *out, int head_dim, void *lse,
                int64_t lse_stride);
    /* scores becomes the probabilities with dropout; dscores, the gradient of those, becomes the gradient of the
     * scores. dots [rows]: sum of dout * out. */
    void (*grad)(const ki_score_block *block, void *scores, void *dscores, const void *lse, int64_t lse_stride,
                 const void *dots);
    /* dots[r] = sum of a * b over row r. */
    void (*dots)(int rows, int cols, const void *a, const void *b, void *dots);
    /* y += x. */
    void (*add)(int64_t count, const void *x, void *y);
    /* Rotary (rotary.c). A row of angles is [cosines, sines], half of each. sum = a + b, or -(a + b). */
    void (*add_angles)(int half, const double *a, const double *b, bool is_inverse, void *sum);
    /* Turns the heads of one token in place. */
    void (*turn)(kith_dtype dtype, int64_t heads, int half, const void *angles, void *row);
} ki_attention_loops;

/* What the drivers of a call share. */
typedef struct ki_attention_work {
    ki_compute *compute;
    ki_compute alone; /* the same without threads, for products: a part multiplies by itself */
    const ki_attention *how;
    const ki_attention_loops *loops;
    kith_dtype real; /* A */
    size_t real_nbytes;
    int head_dim;
    char *scratch; /* of all workers: ... */
    size_t worker_nbytes;
} ki_attention_work;

/* Of a call on matrices of this type. */
ki_attention_work ki_attention_begin(ki_compute *compute, const ki_attention *how, kith_dtype dtype);

/* A matrix of A in scratch: *where is set to where it lies. */
typedef struct ki_attention_piece {
    void **where;
    int64_t rows, cols;
} ki_attention_piece;

/* Takes scratch for the pieces, up to one whose `where` is NULL, of each worker of the pool. */
kith_status ki_attention_scratch(ki_attention_work *work, const ki_attention_piece *pieces);

/* Lays a worker's pieces there, aligned to 64 bytes. */
void ki_attention_lay(const ki_attention_work *work, const ki_attention_piece *pieces, int worker);

/* Runs a part for each sample's key head, on the pool's threads if the call is worth it. */
void ki_attention_run(const ki_attention_work *work, ki_pool_fn run_part, const void *call);

/* Asserts that m is [tokens * batch, heads * head_dim]. */
void ki_attention_assert_shape(const ki_attention *how, ki_mat m, int64_t tokens, int64_t heads);

int64_t ki_attention_key_head(const ki_attention *how, int64_t head);

/* Packs tokens token .. token + rows of a sample's head; and back. */
void ki_attention_load(const ki_attention_work *work, ki_mat m, int64_t token, int64_t rows, int64_t sample,
                       int64_t head, void *packed);
void ki_attention_store(const ki_attention_work *work, const void *packed, int64_t rows, ki_mat m, int64_t token,
                        int64_t sample, int64_t head);

/* lse of a query. */
void *ki_attention_lse(const ki_attention_work *work, ki_mat lse, int64_t query, int64_t sample, int64_t head);

/* The block of queries from `query` on against all keys. *keys: how many keys the last of them sees. */
ki_score_block ki_attention_queries(const ki_attention *how, int64_t sample, int64_t head, int64_t query,
                                    int64_t *keys);

/* The part of it from `key` on. */
ki_score_block ki_attention_block(const ki_score_block *queries, int64_t keys, int64_t key);

/* Rows of a packed matrix as GEMM wants them. */
static inline ki_mat ki_attention_packed(const ki_attention_work *work, void *packed, int64_t row, int64_t rows,
                                         int64_t cols)
{
    return (ki_mat){ .data = (char *)packed + (size_t)(row * cols) * work->real_nbytes,
                     .rows = rows,
                     .cols = cols,
                     .stride = cols,
                     .dtype = work->real };
}

kith_status ki_host_attention(ki_compute *self, const ki_attention *how, ki_mat q, ki_mat k, ki_mat v, ki_mat out,
                              ki_mat lse);
kith_status ki_host_attention_grad(ki_compute *self, const ki_attention *how, ki_mat q, ki_mat k, ki_mat v, ki_mat out,
                                   ki_mat lse, ki_mat dout, ki_mat dq, ki_mat dk, ki_mat dv);
kith_status ki_host_rotary(ki_compute *self, double base, int64_t head_dim, int64_t batch, bool is_inverse, ki_mat x);

#endif
