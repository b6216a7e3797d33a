/* layers/compute/attention_forward.c - attention: per block of queries, softmax over blocks of keys.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "attention.h"
#include "gemm.h"
#include <assert.h>
#include <string.h>

/* One call. Scratch, packed; of one (sample, key head) and one block of queries at a time. */
typedef struct forward {
    ki_attention_work work;
    ki_mat q, k, v, out, lse;
    void *keys, *values;     /* [kv_sequence, head_dim] */
    void *queries, *outputs; /* [KI_QUERY_BLOCK, head_dim] */
    void *max, *sum;         /* [KI_QUERY_BLOCK] */
    void *scores;            /* [KI_QUERY_BLOCK, KI_KEY_BLOCK] */
} forward;

enum { PIECES = 8 };

static void list_pieces(forward *f, ki_attention_piece pieces[PIECES])
{
    const int64_t head_dim = f->work.how->head_dim, keys = f->work.how->kv_sequence;
    const ki_attention_piece all[PIECES] = { { &f->keys, keys, head_dim },
                                             { &f->values, keys, head_dim },
                                             { &f->queries, KI_QUERY_BLOCK, head_dim },
                                             { &f->outputs, KI_QUERY_BLOCK, head_dim },
                                             { &f->max, KI_QUERY_BLOCK, 1 },
                                             { &f->sum, KI_QUERY_BLOCK, 1 },
                                             { &f->scores, KI_QUERY_BLOCK, KI_KEY_BLOCK },
                                             { NULL, 0, 0 } };
    memcpy(pieces, all, sizeof all);
}

/* One block of keys: the outputs and the sums so far are brought up to date. */
static kith_status step(forward *f, const ki_score_block *block, int64_t key)
{
    ki_attention_work *work = &f->work;
    const ki_mat queries = ki_attention_packed(work, f->queries, 0, block->rows, work->head_dim);
    const ki_mat keys = ki_attention_packed(work, f->keys, key, block->cols, work->head_dim);
    const ki_mat values = ki_attention_packed(work, f->values, key, block->cols, work->head_dim);
    const ki_mat outputs = ki_attention_packed(work, f->outputs, 0, block->rows, work->head_dim);
    const ki_mat scores = ki_attention_packed(work, f->scores, 0, block->rows, block->cols);
    kith_status status = ki_gemm(&work->alone, KI_AS_IS, KI_TRANSPOSED, work->how->scale, queries, keys, 0, scores);
    if (status != KITH_OK)
        return status;
    work->loops->step(block, f->scores, f->max, f->sum, f->outputs, work->head_dim);
    return ki_gemm(&work->alone, KI_AS_IS, KI_AS_IS, 1, scores, values, 1, outputs);
}

static kith_status attend(forward *f, int64_t sample, int64_t head, int64_t query)
{
    const ki_attention_work *work = &f->work;
    int64_t keys, lse_stride = work->how->batch * f->lse.stride;
    const ki_score_block queries = ki_attention_queries(work->how, sample, head, query, &keys);
    ki_attention_load(work, f->q, query, queries.rows, sample, head, f->queries);
    work->loops->begin(queries.rows, f->max, f->sum, f->outputs, work->head_dim);
    for (int64_t key = 0; key < keys; key += KI_KEY_BLOCK) {
        const ki_score_block block = ki_attention_block(&queries, keys, key);
        kith_status status = step(f, &block, key);
        if (status != KITH_OK)
            return status;
    }
    work->loops->end(&queries, f->max, f->sum, f->outputs, work->head_dim,
                     ki_attention_lse(work, f->lse, query, sample, head), lse_stride);
    ki_attention_store(work, f->outputs, queries.rows, f->out, query, sample, head);
    return KITH_OK;
}

/* All queries of the heads that share a key head. */
static kith_status attend_key_head(forward *f, int64_t sample, int64_t kv_head)
{
    const ki_attention *how = f->work.how;
    bool is_loaded = false;
    for (int64_t head = 0; head < how->heads; head++) {
        if (ki_attention_key_head(how, head) != kv_head)
            continue;
        if (!is_loaded) {
            ki_attention_load(&f->work, f->k, 0, how->kv_sequence, sample, kv_head, f->keys);
            ki_attention_load(&f->work, f->v, 0, how->kv_sequence, sample, kv_head, f->values);
            is_loaded = true;
        }
        for (int64_t query = 0; query < how->sequence; query += KI_QUERY_BLOCK) {
            kith_status status = attend(f, sample, head, query);
            if (status != KITH_OK)
                return status;
        }
    }
    return KITH_OK;
}

/* A part of the pool's: one sample's key head. Shapes were looked at before: nothing in it fails. */
static void attend_part(const void *call, int64_t part, int worker)
{
    forward mine = *(const forward *)call;
    ki_attention_piece pieces[PIECES];
    list_pieces(&mine, pieces);
    ki_attention_lay(&mine.work, pieces, worker);
    const int64_t kv_heads = mine.work.how->kv_heads;
    (void)attend_key_head(&mine, part / kv_heads, part % kv_heads);
}

kith_status ki_host_attention(ki_compute *self, const ki_attention *how, ki_mat q, ki_mat k, ki_mat v, ki_mat out,
                              ki_mat lse)
{
    forward f = { .work = ki_attention_begin(self, how, q.dtype), .q = q, .k = k, .v = v, .out = out, .lse = lse };
    ki_attention_assert_shape(how, q, how->sequence, how->heads);
    ki_attention_assert_shape(how, k, how->kv_sequence, how->kv_heads);
    ki_attention_assert_shape(how, v, how->kv_sequence, how->kv_heads);
    ki_attention_assert_shape(how, out, how->sequence, how->heads);
    assert(lse.dtype == f.work.real && lse.rows == q.rows && lse.cols == how->heads);
    ki_attention_piece pieces[PIECES];
    list_pieces(&f, pieces);
    kith_status status = ki_attention_scratch(&f.work, pieces);
    if (status == KITH_OK)
        ki_attention_run(&f.work, attend_part, &f);
    return status;
}
