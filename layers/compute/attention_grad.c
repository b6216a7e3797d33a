/* layers/compute/attention_grad.c - gradients of attention, with probabilities computed again from lse.
 *
 * With p the probabilities, d what dropout multiplies them by and D = sum of dout * out over a row (which is the sum of
 * p * d * dp over its keys): dv = (p d)^T dout, dp = dout v^T, ds = p (dp d - D), dq = scale ds k, dk = scale ds^T q.
 *
 * Query heads that share a key head are taken in ascending order, each one's dk and dv are complete before they are
 * added to the sum.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "attention.h"
#include "gemm.h"
#include <assert.h>
#include <string.h>

/* One call. Scratch, packed; of one (sample, key head) and one block of queries at a time. */
typedef struct backward {
    ki_attention_work work;
    ki_mat q, k, v, out, lse, dout, dq, dk, dv;
    void *keys, *values;              /* [kv_sequence, head_dim] */
    void *dkeys, *dvalues;            /* of one query head */
    void *sum_dkeys, *sum_dvalues;    /* of those that share the key head */
    void *queries, *douts, *dqueries; /* [KI_QUERY_BLOCK, head_dim] */
    void *dots;                       /* [KI_QUERY_BLOCK] */
    void *scores, *dscores;           /* [KI_QUERY_BLOCK, KI_KEY_BLOCK] */
} backward;

enum { PIECES = 13 };

static void list_pieces(backward *b, ki_attention_piece pieces[PIECES])
{
    const int64_t head_dim = b->work.how->head_dim, keys = b->work.how->kv_sequence;
    const ki_attention_piece all[PIECES] = { { &b->keys, keys, head_dim },
                                             { &b->values, keys, head_dim },
                                             { &b->dkeys, keys, head_dim },
                                             { &b->dvalues, keys, head_dim },
                                             { &b->sum_dkeys, keys, head_dim },
                                             { &b->sum_dvalues, keys, head_dim },
                                             { &b->queries, KI_QUERY_BLOCK, head_dim },
                                             { &b->douts, KI_QUERY_BLOCK, head_dim },
                                             { &b->dqueries, KI_QUERY_BLOCK, head_dim },
                                             { &b->dots, KI_QUERY_BLOCK, 1 },
                                             { &b->scores, KI_QUERY_BLOCK, KI_KEY_BLOCK },
                                             { &b->dscores, KI_QUERY_BLOCK, KI_KEY_BLOCK },
                                             { NULL, 0, 0 } };
    memcpy(pieces, all, sizeof all);
}

static kith_status step(backward *b, const ki_score_block *block, int64_t key, const void *lse)
{
    ki_attention_work *work = &b->work;
    ki_compute *compute = &work->alone;
    const int rows = block->rows, cols = block->cols, head_dim = work->head_dim;
    const double scale = work->how->scale;
    const ki_mat queries = ki_attention_packed(work, b->queries, 0, rows, head_dim);
    const ki_mat douts = ki_attention_packed(work, b->douts, 0, rows, head_dim);
    const ki_mat dqueries = ki_attention_packed(work, b->dqueries, 0, rows, head_dim);
    const ki_mat keys = ki_attention_packed(work, b->keys, key, cols, head_dim);
    const ki_mat values = ki_attention_packed(work, b->values, key, cols, head_dim);
    const ki_mat dkeys = ki_attention_packed(work, b->dkeys, key, cols, head_dim);
    const ki_mat dvalues = ki_attention_packed(work, b->dvalues, key, cols, head_dim);
    const ki_mat scores = ki_attention_packed(work, b->scores, 0, rows, cols);
    const ki_mat dscores = ki_attention_packed(work, b->dscores, 0, rows, cols);
    kith_status status = ki_gemm(compute, KI_AS_IS, KI_TRANSPOSED, scale, queries, keys, 0, scores);
    if (status == KITH_OK)
        status = ki_gemm(compute, KI_AS_IS, KI_TRANSPOSED, 1, douts, values, 0, dscores);
    if (status != KITH_OK)
        return status;
    work->loops->grad(block, b->scores, b->dscores, lse, work->how->batch * b->lse.stride, b->dots);
    status = ki_gemm(compute, KI_TRANSPOSED, KI_AS_IS, 1, scores, douts, 1, dvalues);
    if (status == KITH_OK)
        status = ki_gemm(compute, KI_TRANSPOSED, KI_AS_IS, scale, dscores, queries, 1, dkeys);
    if (status == KITH_OK)
        status = ki_gemm(compute, KI_AS_IS, KI_AS_IS, scale, dscores, keys, 1, dqueries);
    return status;
}

static kith_status differentiate(backward *b, int64_t sample, int64_t head, int64_t query)
{
    const ki_attention_work *work = &b->work;
    int64_t keys;
    const ki_score_block queries = ki_attention_queries(work->how, sample, head, query, &keys);
    const void *lse = ki_attention_lse(work, b->lse, query, sample, head);
    ki_attention_load(work, b->q, query, queries.rows, sample, head, b->queries);
    ki_attention_load(work, b->out, query, queries.rows, sample, head, b->dqueries);
    ki_attention_load(work, b->dout, query, queries.rows, sample, head, b->douts);
    work->loops->dots(queries.rows, work->head_dim, b->douts, b->dqueries, b->dots);
    memset(b->dqueries, 0, (size_t)queries.rows * (size_t)work->head_dim * work->real_nbytes);
    for (int64_t key = 0; key < keys; key += KI_KEY_BLOCK) {
        const ki_score_block block = ki_attention_block(&queries, keys, key);
        kith_status status = step(b, &block, key, lse);
        if (status != KITH_OK)
            return status;
    }
    ki_attention_store(work, b->dqueries, queries.rows, b->dq, query, sample, head);
    return KITH_OK;
}

/* dq of one head; its dk and dv are added to the sums. */
static kith_status differentiate_head(backward *b, int64_t sample, int64_t head)
{
    const ki_attention_work *work = &b->work;
    const int64_t keys = work->how->kv_sequence;
    const size_t nbytes = (size_t)keys * (size_t)work->head_dim * work->real_nbytes;
    memset(b->dkeys, 0, nbytes);
    memset(b->dvalues, 0, nbytes);
    kith_status status = KITH_OK;
    for (int64_t query = 0; query < work->how->sequence && status == KITH_OK; query += KI_QUERY_BLOCK)
        status = differentiate(b, sample, head, query);
    if (status != KITH_OK)
        return status;
    work->loops->add(keys * work->head_dim, b->dkeys, b->sum_dkeys);
    work->loops->add(keys * work->head_dim, b->dvalues, b->sum_dvalues);
    return KITH_OK;
}

/* All queries of the heads that share a key head, then that head's dk and dv. */
static kith_status differentiate_key_head(backward *b, int64_t sample, int64_t kv_head)
{
    const ki_attention_work *work = &b->work;
    const ki_attention *how = work->how;
    const size_t nbytes = (size_t)how->kv_sequence * (size_t)work->head_dim * work->real_nbytes;
    ki_attention_load(work, b->k, 0, how->kv_sequence, sample, kv_head, b->keys);
    ki_attention_load(work, b->v, 0, how->kv_sequence, sample, kv_head, b->values);
    memset(b->sum_dkeys, 0, nbytes);
    memset(b->sum_dvalues, 0, nbytes);
    kith_status status = KITH_OK;
    for (int64_t head = 0; head < how->heads && status == KITH_OK; head++)
        if (ki_attention_key_head(how, head) == kv_head)
            status = differentiate_head(b, sample, head);
    if (status != KITH_OK)
        return status;
    ki_attention_store(work, b->sum_dkeys, how->kv_sequence, b->dk, 0, sample, kv_head);
    ki_attention_store(work, b->sum_dvalues, how->kv_sequence, b->dv, 0, sample, kv_head);
    return KITH_OK;
}

/* A part of the pool's: one sample's key head. Shapes were looked at before: nothing in it fails. */
static void differentiate_part(const void *call, int64_t part, int worker)
{
    backward mine = *(const backward *)call;
    ki_attention_piece pieces[PIECES];
    list_pieces(&mine, pieces);
    ki_attention_lay(&mine.work, pieces, worker);
    const int64_t kv_heads = mine.work.how->kv_heads;
    (void)differentiate_key_head(&mine, part / kv_heads, part % kv_heads);
}

kith_status ki_host_attention_grad(ki_compute *self, const ki_attention *how, ki_mat q, ki_mat k, ki_mat v, ki_mat out,
                                   ki_mat lse, ki_mat dout, ki_mat dq, ki_mat dk, ki_mat dv)
{
    backward b = {
        .work = ki_attention_begin(self, how, q.dtype),
        .q = q,
        .k = k,
        .v = v,
        .out = out,
        .lse = lse,
        .dout = dout,
        .dq = dq,
        .dk = dk,
        .dv = dv,
    };
    ki_attention_assert_shape(how, q, how->sequence, how->heads);
    ki_attention_assert_shape(how, k, how->kv_sequence, how->kv_heads);
    ki_attention_assert_shape(how, v, how->kv_sequence, how->kv_heads);
    ki_attention_assert_shape(how, out, how->sequence, how->heads);
    ki_attention_assert_shape(how, dout, how->sequence, how->heads);
    ki_attention_assert_shape(how, dq, how->sequence, how->heads);
    ki_attention_assert_shape(how, dk, how->kv_sequence, how->kv_heads);
    ki_attention_assert_shape(how, dv, how->kv_sequence, how->kv_heads);
    assert(lse.dtype == b.work.real && lse.rows == q.rows && lse.cols == how->heads);
    ki_attention_piece pieces[PIECES];
    list_pieces(&b, pieces);
    kith_status status = ki_attention_scratch(&b.work, pieces);
    if (status == KITH_OK)
        ki_attention_run(&b.work, differentiate_part, &b);
    return status;
}
