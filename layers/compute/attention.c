/* layers/compute/attention.c - where heads and blocks of attention lie.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "attention.h"
#include "core/base/error.h"
#include "core/base/mem.h"
#include "loops.h"
#include <assert.h>
#include <limits.h>

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static void assert_heads(const ki_attention *how)
{
    (void)how; /* a build without assertions */
    assert(how->kv_map != NULL || (how->kv_heads > 0 && how->heads % how->kv_heads == 0));
    for (int64_t head = 0; head < how->heads && how->kv_map != NULL; head++)
        assert(how->kv_map[head] >= 0 && how->kv_map[head] < how->kv_heads);
}

ki_attention_work ki_attention_begin(ki_compute *compute, const ki_attention *how, kith_dtype dtype)
{
    const kith_dtype real = ki_accumulator_of(dtype);
    assert_heads(how);
    ki_compute alone = *compute;
    alone.pool = NULL;
    return (ki_attention_work){
        .compute = compute,
        .alone = alone,
        .how = how,
        .loops = real == KITH_F64 ? &compute->loops->attention_f64 : &compute->loops->attention_f32,
        .real = real,
        .real_nbytes = kith_dtype_nbytes(real),
        .head_dim = (int)how->head_dim,
    };
}

/* In multiples of 64. False when it is too large for this machine. */
static bool piece_nbytes(const ki_attention_work *work, const ki_attention_piece *piece, size_t *nbytes)
{
    if (!ki_mul((size_t)piece->rows, (size_t)piece->cols, nbytes) || !ki_mul(*nbytes, work->real_nbytes, nbytes) ||
        !ki_add(*nbytes, 63, nbytes))
        return false;
    *nbytes &= ~(size_t)63;
    return true;
}

kith_status ki_attention_scratch(ki_attention_work *work, const ki_attention_piece *pieces)
{
    size_t all = 0;
    bool fits = work->how->head_dim <= INT_MAX;
    for (const ki_attention_piece *piece = pieces; fits && piece->where != NULL; piece++) {
        size_t nbytes;
        fits = piece_nbytes(work, piece, &nbytes) && ki_add(all, nbytes, &all);
    }
    work->worker_nbytes = all;
    if (!fits || !ki_mul(all, (size_t)ki_pool_threads(work->compute->pool), &all))
        return ki_fail(KITH_ERR_INVALID_ARG, "layers: attention over %lld keys of %d: too large for this machine",
                       (long long)work->how->kv_sequence, work->head_dim);
    void *scratch;
    kith_status status = ki_compute_scratch(work->compute, all, &scratch);
    if (status == KITH_OK)
        work->scratch = (char *)scratch;
    return status;
}

void ki_attention_lay(const ki_attention_work *work, const ki_attention_piece *pieces, int worker)
{
    char *at = work->scratch + (size_t)worker * work->worker_nbytes;
    for (const ki_attention_piece *piece = pieces; piece->where != NULL; piece++) {
        size_t nbytes = 0;
        (void)piece_nbytes(work, piece, &nbytes);
        *piece->where = at;
        at += nbytes;
    }
}

void ki_attention_run(const ki_attention_work *work, ki_pool_fn run_part, const void *call)
{
    const ki_attention *how = work->how;
    const double scores = (double)how->batch * (double)how->heads * (double)how->sequence * (double)how->kv_sequence;
    ki_pool_run(ki_pool_if_worth(work->compute->pool, scores * 8), how->batch * how->kv_heads, run_part, call);
}

void ki_attention_assert_shape(const ki_attention *how, ki_mat m, int64_t tokens, int64_t heads)
{
    (void)how, (void)m, (void)tokens, (void)heads; /* a build without assertions */
    assert(m.rows == tokens * how->batch && m.cols == heads * how->head_dim && m.stride >= m.cols);
}

int64_t ki_attention_key_head(const ki_attention *how, int64_t head)
{
    return how->kv_map != NULL ? how->kv_map[head] : head / (how->heads / how->kv_heads);
}

/* The element of a token's head, and how many elements on the next token's is. */
static void *place(const ki_attention *how, ki_mat m, int64_t token, int64_t sample, int64_t head, int64_t *stride)
{
    *stride = how->batch * m.stride;
    const int64_t element = token * *stride + sample * m.stride + head * how->head_dim;
    return (char *)m.data + (size_t)element * kith_dtype_nbytes(m.dtype);
}

void ki_attention_load(const ki_attention_work *work, ki_mat m, int64_t token, int64_t rows, int64_t sample,
                       int64_t head, void *packed)
{
    int64_t stride;
    const void *from = place(work->how, m, token, sample, head, &stride);
    work->loops->pack(m.dtype, rows, work->head_dim, from, stride, packed);
}

void ki_attention_store(const ki_attention_work *work, const void *packed, int64_t rows, ki_mat m, int64_t token,
                        int64_t sample, int64_t head)
{
    int64_t stride;
    void *to = place(work->how, m, token, sample, head, &stride);
    work->loops->unpack(m.dtype, rows, work->head_dim, packed, to, stride);
}

void *ki_attention_lse(const ki_attention_work *work, ki_mat lse, int64_t query, int64_t sample, int64_t head)
{
    return (char *)lse.data + (size_t)((query * work->how->batch + sample) * lse.stride + head) * work->real_nbytes;
}

ki_score_block ki_attention_queries(const ki_attention *how, int64_t sample, int64_t head, int64_t query, int64_t *keys)
{
    ki_score_block block = {
        .rows = (int)smaller(KI_QUERY_BLOCK, how->sequence - query),
        .cols = 1,
        .diagonal = how->is_causal ? query + 1 + how->kv_sequence - how->sequence : how->kv_sequence,
        .slope = how->is_causal,
        .dropout = how->dropout.probability > 0 ? &how->dropout : NULL,
        .first_query = how->dropout.first_position + (uint32_t)query,
        .sample = how->dropout.first_sample + (uint32_t)sample,
        .stream = how->dropout.site * 65536u + how->first_head + (uint32_t)head,
    };
    const int64_t last = block.diagonal + block.slope * (block.rows - 1);
    *keys = last < 0 ? 0 : smaller(last, how->kv_sequence);
    return block;
}

ki_score_block ki_attention_block(const ki_score_block *queries, int64_t keys, int64_t key)
{
    ki_score_block block = *queries;
    block.cols = (int)smaller(KI_KEY_BLOCK, keys - key);
    block.diagonal -= key;
    block.first_key = (uint32_t)key;
    return block;
}
