/* layers/compute/cuda/attention.c - the table's attention: products by cuBLAS over blocks of scores, kernels between
 * them.
 *
 * A sample's scores are walked over in blocks of QUERIES queries and KEYS keys, all heads at once; softmax goes along
 * the keys as on the host (attention.h), and nothing of size sequence * sequence is kept. Blocks are as large as a
 * row fits a warp's registers and as a few dozen heads' scores fit the second-level cache, where most of what kernels
 * and products hand to each other stays. Products read heads where they lie among tokens. Heads of a group that share
 * a key head are so many batches of products, each over the key heads; an irregular kv_map is a product for each
 * head.
 *
 * Backward, probabilities are computed again from lse; gradients of keys and values are summed in A for all queries
 * of the heads that share them, block after block, and rounded once. Probabilities and their gradients go into
 * products as T.
 *
 *   dv = (p d)^T dout, dp = dout v^T, ds = p (dp d - dots), dq = scale ds k, dk = scale ds^T q
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "launch.h"
#include <assert.h>

enum { QUERIES = 512, KEYS = KI_ATTEND_COLS, ALIGNED = 256 };

static ki_kernel attend_kernel = { .in = KI_IN_ATTENTION, .name = "attend", .suffix = KI_TYPED };
static ki_kernel attend_end_kernel = { .in = KI_IN_ATTENTION, .name = "attend_end", .suffix = KI_TYPED };
static ki_kernel attend_grad_kernel = { .in = KI_IN_ATTENTION, .name = "attend_grad", .suffix = KI_TYPED };
static ki_kernel attend_dots_kernel = { .in = KI_IN_ATTENTION, .name = "attend_dots", .suffix = KI_TYPED };
static ki_kernel unpack_kernel = { .in = KI_IN_ATTENTION, .name = "unpack", .suffix = KI_TYPED };

/* One call. Matrices in scratch hold one sample's block of queries, head after head, head_rows rows for each. */
typedef struct walk {
    ki_device_compute *device;
    const ki_attention *how;
    kith_dtype dtype, real; /* T and A */
    int64_t head_rows;      /* rows of a head in scratch */
    int64_t sample, query;  /* the block of queries: where it begins ... */
    int64_t rows, keys;     /* ... how many they are, how many keys the last of them sees */
    ki_mat scores, dscores; /* A, [heads * head_rows, KEYS] */
    ki_mat stored, dstored; /* T, of the same shape; the two above where T is A */
    ki_mat max, sum, dots;  /* A, [heads * head_rows, 1] */
    ki_mat packed;          /* A, [heads * head_rows, head_dim]: outputs, gradients of queries */
    ki_mat dkeys, dvalues;  /* A, [kv_heads * kv_sequence, head_dim] */
} walk;

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* ---- scratch ---- */

typedef struct piece {
    ki_mat *where;
    int64_t rows, cols;
    kith_dtype dtype;
} piece;

static kith_status lay(const walk *w, const piece *pieces, int count)
{
    size_t total = 0;
    void *scratch;
    for (int i = 0; i < count; i++) {
        const double nbytes = (double)pieces[i].rows * (double)pieces[i].cols * 8 + (double)total;
        if (nbytes > 0x1p62)
            return ki_cuda_host->fail(KITH_ERR_INVALID_ARG, "layers: attention of %lld heads over %lld keys: too large",
                                      (long long)w->how->heads, (long long)w->how->kv_sequence);
        const size_t own = (size_t)pieces[i].rows * (size_t)pieces[i].cols * ki_nbytes_of(pieces[i].dtype);
        total += (own + ALIGNED - 1) / ALIGNED * ALIGNED;
    }
    if (total == 0)
        total = ALIGNED;
    const kith_status status = ki_device_scratch(w->device, total, &scratch);
    if (status != KITH_OK)
        return status;
    char *at = (char *)scratch;
    for (int i = 0; i < count; i++) {
        const size_t own = (size_t)pieces[i].rows * (size_t)pieces[i].cols * ki_nbytes_of(pieces[i].dtype);
        *pieces[i].where = (ki_mat){ at, pieces[i].rows, pieces[i].cols, pieces[i].cols, pieces[i].dtype };
        at += (own + ALIGNED - 1) / ALIGNED * ALIGNED;
    }
    return KITH_OK;
}

/* ---- where things lie ---- */

/* Heads that one batch of products does: heads head, head + step, ... with key heads kv_head, kv_head + 1, ... */
typedef struct heads {
    int64_t head, step, kv_head, count;
} heads;

static int64_t batches_of(const ki_attention *how)
{
    return how->kv_map != NULL ? how->heads : how->kv_heads > 0 ? how->heads / how->kv_heads : 0;
}

static heads batch_of(const ki_attention *how, int64_t i)
{
    if (how->kv_map != NULL)
        return (heads){ i, 1, how->kv_map[i], 1 };
    return (heads){ i, how->heads / how->kv_heads, 0, how->kv_heads };
}

static ki_mat moved(ki_mat m, int64_t elements, int64_t rows, int64_t cols, int64_t stride)
{
    m.data = (char *)m.data + elements * (int64_t)ki_nbytes_of(m.dtype);
    m.rows = rows;
    m.cols = cols;
    m.stride = stride;
    return m;
}

/* Tokens token .. + rows of a head, where they lie. */
static ki_mat tokens_of(const walk *w, ki_mat m, int64_t token, int64_t rows, int64_t head)
{
    const int64_t first = (token * w->how->batch + w->sample) * m.stride + head * w->how->head_dim;
    return moved(m, first, rows, w->how->head_dim, w->how->batch * m.stride);
}

/* The block's rows of a head in scratch. */
static ki_mat rows_of(const walk *w, ki_mat m, int64_t head, int64_t cols)
{
    return moved(m, head * w->head_rows * m.stride, w->rows, cols, m.stride);
}

/* Keys key .. + rows of a key head's gradients. */
static ki_mat keys_of(const walk *w, ki_mat m, int64_t key, int64_t rows, int64_t kv_head)
{
    return moved(m, (kv_head * w->how->kv_sequence + key) * m.stride, rows, m.cols, m.stride);
}

static ki_scores block_of(const walk *w, int64_t key, int64_t cols)
{
    const ki_attention *how = w->how;
    return (ki_scores){
        .heads = how->heads,
        .rows = w->rows,
        .cols = cols,
        .head_rows = w->head_rows,
        .diagonal = (how->is_causal ? w->query + 1 + how->kv_sequence - how->sequence : how->kv_sequence) - key,
        .slope = how->is_causal,
        .first_key = (uint32_t)key,
        .first_query = how->dropout.first_position + (uint32_t)w->query,
        .sample = how->dropout.first_sample + (uint32_t)w->sample,
        .stream = how->dropout.site * 65536u + how->first_head,
        .dropout = how->dropout,
    };
}

static ki_tokens place_of(const walk *w, int64_t first)
{
    return (ki_tokens){ first, w->how->batch, w->sample, w->how->head_dim };
}

static kith_status launch_rows(const walk *w, ki_kernel *kernel, int64_t rows, const void *args)
{
    return ki_launch(w->device, kernel, w->dtype, w->dtype, ki_grid_of_rows(rows), args);
}

/* Begins a block of queries. */
static void begin_queries(walk *w, int64_t query)
{
    const ki_attention *how = w->how;
    const int64_t beyond = how->kv_sequence - how->sequence;
    w->query = query;
    w->rows = smaller(QUERIES, how->sequence - query);
    w->keys = how->is_causal ? smaller(query + w->rows + beyond, how->kv_sequence) : how->kv_sequence;
    if (w->keys < 0)
        w->keys = 0;
}

/* ---- products, for all heads ---- */

/* scores = scale * rows of m times keys of n, transposed. */
static kith_status multiply_scores(const walk *w, double scale, ki_mat m, ki_mat n, int64_t key, int64_t cols,
                                   ki_mat scores)
{
    kith_status status = KITH_OK;
    for (int64_t i = 0; i < batches_of(w->how) && status == KITH_OK; i++) {
        const heads h = batch_of(w->how, i);
        status = ki_multiply(
            w->device, KI_AS_IS, KI_TRANSPOSED, scale, tokens_of(w, m, w->query, w->rows, h.head),
            tokens_of(w, n, key, cols, h.kv_head), 0, rows_of(w, scores, h.head, cols),
            (ki_batch){ h.count, h.step * w->how->head_dim, w->how->head_dim, h.step * w->head_rows * scores.stride });
    }
    return status;
}

/* packed = scale * scores (T) times keys of n (+ packed). */
static kith_status multiply_keys(const walk *w, double scale, ki_mat scores, ki_mat n, int64_t key, int64_t cols)
{
    kith_status status = KITH_OK;
    for (int64_t i = 0; i < batches_of(w->how) && status == KITH_OK; i++) {
        const heads h = batch_of(w->how, i);
        const int64_t rows = h.step * w->head_rows;
        status = ki_multiply(w->device, KI_AS_IS, KI_AS_IS, scale, rows_of(w, scores, h.head, cols),
                             tokens_of(w, n, key, cols, h.kv_head), key == 0 ? 0 : 1,
                             rows_of(w, w->packed, h.head, w->how->head_dim),
                             (ki_batch){ h.count, rows * scores.stride, w->how->head_dim, rows * w->packed.stride });
    }
    return status;
}

/* sums of key heads += scale * scores (T), transposed, times rows of m. */
static kith_status multiply_queries(const walk *w, double scale, ki_mat scores, ki_mat m, int64_t key, int64_t cols,
                                    ki_mat sums)
{
    kith_status status = KITH_OK;
    for (int64_t i = 0; i < batches_of(w->how) && status == KITH_OK; i++) {
        const heads h = batch_of(w->how, i);
        status = ki_multiply(w->device, KI_TRANSPOSED, KI_AS_IS, scale, rows_of(w, scores, h.head, cols),
                             tokens_of(w, m, w->query, w->rows, h.head), 1, keys_of(w, sums, key, cols, h.kv_head),
                             (ki_batch){ h.count, h.step * w->head_rows * scores.stride, h.step * w->how->head_dim,
                                         w->how->kv_sequence * sums.stride });
    }
    return status;
}

/* ---- forward ---- */

static kith_status attend_block(const walk *w, ki_mat q, ki_mat k, ki_mat v, int64_t key)
{
    const int64_t cols = smaller(KEYS, w->keys - key);
    const ki_attend_args args = {
        .block = block_of(w, key, cols),
        .scores = w->scores,
        .probabilities = w->stored,
        .max = w->max,
        .sum = w->sum,
        .out = w->packed,
        .is_first = key == 0,
    };
    kith_status status = multiply_scores(w, w->how->scale, q, k, key, cols, w->scores);
    if (status == KITH_OK)
        status = launch_rows(w, &attend_kernel, w->how->heads * w->rows, &args);
    return status == KITH_OK ? multiply_keys(w, 1, w->stored, v, key, cols) : status;
}

static kith_status attend_queries(const walk *w, ki_mat q, ki_mat k, ki_mat v, ki_mat out, ki_mat lse)
{
    kith_status status = KITH_OK;
    for (int64_t key = 0; key < w->keys && status == KITH_OK; key += KEYS)
        status = attend_block(w, q, k, v, key);
    const ki_attend_end_args args = {
        .block = block_of(w, 0, w->keys),
        .tokens = place_of(w, w->query),
        .max = w->max,
        .sum = w->sum,
        .out = w->packed,
        .to = out,
        .lse = lse,
        .is_empty = w->keys == 0,
    };
    return status == KITH_OK ? launch_rows(w, &attend_end_kernel, w->how->heads * w->rows, &args) : status;
}

static walk begin(ki_compute *self, const ki_attention *how, kith_dtype dtype)
{
    return (walk){
        .device = ki_device_of(self),
        .how = how,
        .dtype = dtype,
        .real = ki_accumulator_of(dtype),
        .head_rows = smaller(QUERIES, how->sequence),
    };
}

static void assert_shape(const ki_attention *how, ki_mat m, int64_t tokens, int64_t of_heads)
{
    (void)how, (void)m, (void)tokens, (void)of_heads; /* a build without assertions */
    assert(m.rows == tokens * how->batch && m.cols == of_heads * how->head_dim && m.stride >= m.cols);
    assert(how->kv_map != NULL || (how->kv_heads > 0 && how->heads % how->kv_heads == 0));
}

static kith_status attention(ki_compute *self, const ki_attention *how, ki_mat q, ki_mat k, ki_mat v, ki_mat out,
                             ki_mat lse)
{
    walk w = begin(self, how, q.dtype);
    const int64_t rows = how->heads * w.head_rows;
    const piece pieces[] = {
        { &w.scores, rows, KEYS, w.real },          { &w.max, rows, 1, w.real },        { &w.sum, rows, 1, w.real },
        { &w.packed, rows, how->head_dim, w.real }, { &w.stored, rows, KEYS, q.dtype },
    };
    assert_shape(how, q, how->sequence, how->heads);
    assert_shape(how, k, how->kv_sequence, how->kv_heads);
    kith_status status = ki_expect("attention", q.dtype, 3, (const ki_mat[]){ k, v, out });
    if (status == KITH_OK)
        status = ki_expect("attention", w.real, 1, &lse);
    if (status == KITH_OK)
        status = lay(&w, pieces, w.real == q.dtype ? 4 : 5);
    if (w.real == q.dtype)
        w.stored = w.scores;
    for (w.sample = 0; w.sample < how->batch && status == KITH_OK; w.sample++)
        for (int64_t query = 0; query < how->sequence && status == KITH_OK; query += QUERIES) {
            begin_queries(&w, query);
            status = attend_queries(&w, q, k, v, out, lse);
        }
    return status;
}

/* ---- backward ---- */

typedef struct gradients {
    ki_mat q, k, v, out, lse, dout, dq, dk, dv;
} gradients;

static kith_status grad_block(const walk *w, const gradients *g, int64_t key)
{
    const int64_t cols = smaller(KEYS, w->keys - key);
    const ki_attend_grad_args args = {
        .block = block_of(w, key, cols),
        .tokens = place_of(w, w->query),
        .scores = w->scores,
        .dscores = w->dscores,
        .probabilities = w->stored,
        .dstored = w->dstored,
        .lse = g->lse,
        .dots = w->dots,
    };
    kith_status status = multiply_scores(w, w->how->scale, g->q, g->k, key, cols, w->scores);
    if (status == KITH_OK)
        status = multiply_scores(w, 1, g->dout, g->v, key, cols, w->dscores);
    if (status == KITH_OK)
        status = launch_rows(w, &attend_grad_kernel, w->how->heads * w->rows, &args);
    if (status == KITH_OK)
        status = multiply_queries(w, 1, w->stored, g->dout, key, cols, w->dvalues);
    if (status == KITH_OK)
        status = multiply_queries(w, w->how->scale, w->dstored, g->q, key, cols, w->dkeys);
    return status == KITH_OK ? multiply_keys(w, w->how->scale, w->dstored, g->k, key, cols) : status;
}

static kith_status grad_queries(const walk *w, const gradients *g)
{
    const ki_attend_dots_args dots = {
        .tokens = place_of(w, w->query),
        .heads = w->how->heads,
        .rows = w->rows,
        .head_rows = w->head_rows,
        .out = g->out,
        .dout = g->dout,
        .dots = w->dots,
    };
    const ki_unpack_args unpack = { place_of(w, w->query), w->how->heads, w->rows, w->head_rows, w->packed, g->dq };
    kith_status status = launch_rows(w, &attend_dots_kernel, w->how->heads * w->rows, &dots);
    if (status == KITH_OK && w->keys == 0)
        status =
            ki_zero(w->device, w->packed.data, (size_t)w->packed.rows * (size_t)w->packed.cols * ki_nbytes_of(w->real));
    for (int64_t key = 0; key < w->keys && status == KITH_OK; key += KEYS)
        status = grad_block(w, g, key);
    return status == KITH_OK ? launch_rows(w, &unpack_kernel, w->how->heads * w->rows, &unpack) : status;
}

static kith_status store_keys(const walk *w, ki_mat sums, ki_mat to)
{
    const int64_t keys = w->how->kv_sequence;
    const ki_unpack_args args = { place_of(w, 0), w->how->kv_heads, keys, keys, sums, to };
    return launch_rows(w, &unpack_kernel, w->how->kv_heads * keys, &args);
}

static kith_status grad_sample(walk *w, const gradients *g)
{
    const size_t nbytes = (size_t)w->dkeys.rows * (size_t)w->dkeys.cols * ki_nbytes_of(w->real);
    kith_status status = ki_zero(w->device, w->dkeys.data, nbytes);
    if (status == KITH_OK)
        status = ki_zero(w->device, w->dvalues.data, nbytes);
    for (int64_t query = 0; query < w->how->sequence && status == KITH_OK; query += QUERIES) {
        begin_queries(w, query);
        status = grad_queries(w, g);
    }
    if (status == KITH_OK)
        status = store_keys(w, w->dkeys, g->dk);
    return status == KITH_OK ? store_keys(w, w->dvalues, g->dv) : status;
}

static kith_status attention_grad(ki_compute *self, const ki_attention *how, ki_mat q, ki_mat k, ki_mat v, ki_mat out,
                                  ki_mat lse, ki_mat dout, ki_mat dq, ki_mat dk, ki_mat dv)
{
    walk w = begin(self, how, q.dtype);
    const gradients g = { q, k, v, out, lse, dout, dq, dk, dv };
    const int64_t rows = how->heads * w.head_rows, keys = how->kv_heads * how->kv_sequence;
    const piece pieces[] = {
        { &w.scores, rows, KEYS, w.real },
        { &w.dscores, rows, KEYS, w.real },
        { &w.dots, rows, 1, w.real },
        { &w.packed, rows, how->head_dim, w.real },
        { &w.dkeys, keys, how->head_dim, w.real },
        { &w.dvalues, keys, how->head_dim, w.real },
        { &w.stored, rows, KEYS, q.dtype },
        { &w.dstored, rows, KEYS, q.dtype },
    };
    assert_shape(how, q, how->sequence, how->heads);
    assert_shape(how, k, how->kv_sequence, how->kv_heads);
    kith_status status = ki_expect("attention_grad", q.dtype, 7, (const ki_mat[]){ k, v, out, dout, dq, dk, dv });
    if (status == KITH_OK)
        status = ki_expect("attention_grad", w.real, 1, &lse);
    if (status == KITH_OK)
        status = lay(&w, pieces, w.real == q.dtype ? 6 : 8);
    if (w.real == q.dtype) {
        w.stored = w.scores;
        w.dstored = w.dscores;
    }
    for (w.sample = 0; w.sample < how->batch && status == KITH_OK; w.sample++)
        status = grad_sample(&w, &g);
    return status;
}

void ki_fill_attention(ki_compute_ops *ops)
{
    ops->attention = attention;
    ops->attention_grad = attention_grad;
}
