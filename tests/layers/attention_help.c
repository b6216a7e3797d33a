/* tests/layers/attention_help.c - attention_help.h.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "attention_help.h"

#include "layers/compute/arith.h"
#include <kith/status.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- values ---- */

static int64_t columns(const ki_attention *how, attention_shape shape)
{
    return shape == OF_HEADS ? how->heads : how->head_dim * (shape == OF_QUERIES ? how->heads : how->kv_heads);
}

static int64_t rows(const ki_attention *how, attention_shape shape)
{
    return how->batch * (shape == OF_KEYS ? how->kv_sequence : how->sequence);
}

size_t attention_count(const ki_attention *how, attention_shape shape)
{
    return (size_t)(rows(how, shape) * columns(how, shape));
}

static double *zeros(const ki_attention *how, attention_shape shape)
{
    double *values = (double *)calloc(attention_count(how, shape) + 1, sizeof(double));
    assert_non_null(values);
    return values;
}

/* Halves by dropping bits: what is drawn only has to be representable. */
static double rounded(double value, kith_dtype dtype)
{
    float f = (float)value;
    uint32_t bits;
    if (dtype == KITH_F64)
        return value;
    memcpy(&bits, &f, sizeof bits);
    bits &= dtype == KITH_BF16 ? 0xffff0000u : dtype == KITH_F16 ? 0xffffe000u : 0xffffffffu;
    if (dtype == KITH_F16 && fabsf(f) < 0x1p-14f)
        return 0;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static double *drawn(const ki_attention *how, attention_shape shape, kith_dtype dtype, uint64_t *state)
{
    double *values = zeros(how, shape);
    for (size_t i = 0; i < attention_count(how, shape); i++) {
        *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        values[i] = rounded((double)(*state >> 11) * 0x1p-52 - 1, dtype);
    }
    return values;
}

attention_values attention_draw(const ki_attention *how, kith_dtype dtype, uint64_t seed)
{
    attention_values a = { .out = zeros(how, OF_QUERIES),
                           .lse = zeros(how, OF_HEADS),
                           .dq = zeros(how, OF_QUERIES),
                           .dk = zeros(how, OF_KEYS),
                           .dv = zeros(how, OF_KEYS) };
    a.q = drawn(how, OF_QUERIES, dtype, &seed);
    a.k = drawn(how, OF_KEYS, dtype, &seed);
    a.v = drawn(how, OF_KEYS, dtype, &seed);
    a.dout = drawn(how, OF_QUERIES, dtype, &seed);
    return a;
}

void attention_free(attention_values *a)
{
    double *all[] = { a->q, a->k, a->v, a->out, a->lse, a->dout, a->dq, a->dk, a->dv };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        free(all[i]);
}

void expect_values(const char *what, const double *wanted, const double *got, size_t count, double tolerance)
{
    for (size_t i = 0; i < count; i++) {
        if (wanted[i] == got[i] || (isnan(wanted[i]) && isnan(got[i])))
            continue;
        if (!(fabs(wanted[i] - got[i]) <= tolerance * (1 + fabs(wanted[i]))))
            fail_msg("%s: element %zu of %zu: wanted %.17g, got %.17g", what, i, count, wanted[i], got[i]);
    }
}

/* ---- the reference ---- */

/* Word key % 4 of counter (key / 4, query, sample, stream), as Salmon et al. write Philox4x32-10. */
static uint32_t philox_word(uint64_t seed, uint32_t key, uint32_t query, uint32_t sample, uint32_t stream)
{
    uint32_t x[4] = { key / 4, query, sample, stream };
    uint32_t k[2] = { (uint32_t)seed, (uint32_t)(seed >> 32) };
    for (int round = 0; round < 10; round++) {
        const uint64_t a = UINT64_C(0xD2511F53) * x[0], b = UINT64_C(0xCD9E8D57) * x[2];
        const uint32_t next[4] = { (uint32_t)(b >> 32) ^ x[1] ^ k[0], (uint32_t)b, (uint32_t)(a >> 32) ^ x[3] ^ k[1],
                                   (uint32_t)a };
        memcpy(x, next, sizeof x);
        k[0] += 0x9E3779B9;
        k[1] += 0xBB67AE85;
    }
    return x[key % 4];
}

double attention_factor(const ki_attention *how, int64_t sample, int64_t head, int64_t query, int64_t key)
{
    const ki_dropout *d = &how->dropout;
    if (d->probability == 0)
        return 1;
    const uint32_t word =
        philox_word(d->seed, (uint32_t)key, d->first_position + (uint32_t)query, d->first_sample + (uint32_t)sample,
                    d->site * 65536 + how->first_head + (uint32_t)head);
    return (double)word >= floor(d->probability * 4294967296.0 + 0.5) ? 1 / (1 - d->probability) : 0;
}

/* One row of one head at a time. */
typedef struct row {
    const ki_attention *how;
    int64_t sample, head, query;
    int64_t keys; /* that it sees */
    double *p;    /* probabilities, without dropout */
    double lse;
} row;

static size_t query_at(const row *r)
{
    const ki_attention *how = r->how;
    return (size_t)(((r->query * how->batch + r->sample) * how->heads + r->head) * how->head_dim);
}

static size_t key_at(const row *r, int64_t key)
{
    const ki_attention *how = r->how;
    const int64_t head = how->kv_map != NULL ? how->kv_map[r->head] : r->head * how->kv_heads / how->heads;
    return (size_t)(((key * how->batch + r->sample) * how->kv_heads + head) * how->head_dim);
}

static double dot(const double *a, const double *b, int64_t count)
{
    double sum = 0;
    for (int64_t i = 0; i < count; i++)
        sum += a[i] * b[i];
    return sum;
}

static void softmax(const attention_values *a, row *r)
{
    const ki_attention *how = r->how;
    double max = -INFINITY, sum = 0;
    r->keys = how->kv_sequence;
    if (how->is_causal && r->query + how->kv_sequence - how->sequence + 1 < r->keys)
        r->keys = r->query + how->kv_sequence - how->sequence + 1;
    for (int64_t j = 0; j < r->keys; j++) {
        r->p[j] = how->scale * dot(a->q + query_at(r), a->k + key_at(r, j), how->head_dim);
        max = r->p[j] > max ? r->p[j] : max;
    }
    for (int64_t j = 0; j < r->keys; j++)
        sum += r->p[j] = exp(r->p[j] - max);
    for (int64_t j = 0; j < r->keys; j++)
        r->p[j] /= sum;
    r->lse = r->keys > 0 ? max + log(sum) : -INFINITY;
}

static void forward_row(attention_values *a, const row *r)
{
    const ki_attention *how = r->how;
    double *out = a->out + query_at(r);
    for (int64_t i = 0; i < how->head_dim; i++)
        out[i] = 0;
    for (int64_t j = 0; j < r->keys; j++)
        for (int64_t i = 0; i < how->head_dim; i++)
            out[i] += r->p[j] * attention_factor(how, r->sample, r->head, r->query, j) * a->v[key_at(r, j) + (size_t)i];
    a->lse[(r->query * how->batch + r->sample) * how->heads + r->head] = r->lse;
}

/* The derivative of softmax by its definition: dp_j / ds_l = p_j (delta_jl - p_l). */
static void backward_row(attention_values *a, const row *r)
{
    const ki_attention *how = r->how;
    const double *dout = a->dout + query_at(r);
    double along = 0; /* sum of p_j dp_j */
    for (int64_t j = 0; j < r->keys; j++)
        along += r->p[j] * attention_factor(how, r->sample, r->head, r->query, j) *
                 dot(dout, a->v + key_at(r, j), how->head_dim);
    for (int64_t j = 0; j < r->keys; j++) {
        const double factor = attention_factor(how, r->sample, r->head, r->query, j);
        const size_t at = key_at(r, j);
        const double ds = r->p[j] * (factor * dot(dout, a->v + at, how->head_dim) - along);
        for (size_t i = 0; i < (size_t)how->head_dim; i++) {
            a->dv[at + i] += r->p[j] * factor * dout[i];
            a->dk[at + i] += how->scale * ds * a->q[query_at(r) + i];
            a->dq[query_at(r) + i] += how->scale * ds * a->k[at + i];
        }
    }
}

static void each_row(const ki_attention *how, attention_values *a, bool is_backward)
{
    row r = { .how = how, .p = (double *)calloc((size_t)how->kv_sequence + 1, sizeof(double)) };
    assert_non_null(r.p);
    for (r.head = 0; r.head < how->heads; r.head++)
        for (r.sample = 0; r.sample < how->batch; r.sample++)
            for (r.query = 0; r.query < how->sequence; r.query++) {
                softmax(a, &r);
                if (is_backward)
                    backward_row(a, &r);
                else
                    forward_row(a, &r);
            }
    free(r.p);
}

void attention_reference(const ki_attention *how, attention_values *a)
{
    each_row(how, a, false);
}

void attention_reference_grad(const ki_attention *how, attention_values *a)
{
    memset(a->dq, 0, attention_count(how, OF_QUERIES) * sizeof(double));
    memset(a->dk, 0, attention_count(how, OF_KEYS) * sizeof(double));
    memset(a->dv, 0, attention_count(how, OF_KEYS) * sizeof(double));
    each_row(how, a, true);
}

/* ---- what is tested ---- */

enum { GAP_BYTE = 0x5a };

static void put(ki_mat m, int64_t r, int64_t c, double value)
{
    const int64_t at = r * m.stride + c;
    const float f = (float)value;
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    if (m.dtype == KITH_F64)
        ((double *)m.data)[at] = value;
    else if (m.dtype == KITH_F32)
        ((float *)m.data)[at] = f;
    else
        ((uint16_t *)m.data)[at] = m.dtype == KITH_F16 ? ki_narrow_f16_f32(f) : (uint16_t)(bits >> 16);
}

static double get(ki_mat m, int64_t r, int64_t c)
{
    const int64_t at = r * m.stride + c;
    if (m.dtype == KITH_F64)
        return ((double *)m.data)[at];
    if (m.dtype == KITH_F32)
        return ((float *)m.data)[at];
    const uint16_t half = ((uint16_t *)m.data)[at];
    return m.dtype == KITH_F16 ? ki_widen_f16(half) : ki_widen_bf16(half);
}

/* values NULL: results, which hold nonsense before they are written. */
static ki_mat matrix(const ki_attention *how, attention_shape shape, kith_dtype dtype, int gap, const double *values)
{
    ki_mat m = { .rows = rows(how, shape), .cols = columns(how, shape), .dtype = dtype };
    m.stride = m.cols + gap;
    const size_t nbytes = (size_t)(m.rows * m.stride) * kith_dtype_nbytes(dtype);
    m.data = malloc(nbytes + 1);
    assert_non_null(m.data);
    memset(m.data, GAP_BYTE, nbytes);
    for (int64_t r = 0; r < m.rows && values != NULL; r++)
        for (int64_t c = 0; c < m.cols; c++)
            put(m, r, c, values[r * m.cols + c]);
    return m;
}

static void take(const char *what, ki_mat m, double *values)
{
    const size_t nbytes = kith_dtype_nbytes(m.dtype);
    for (int64_t r = 0; r < m.rows; r++) {
        for (int64_t c = 0; c < m.cols; c++)
            values[r * m.cols + c] = get(m, r, c);
        const unsigned char *gap = (const unsigned char *)m.data + (size_t)(r * m.stride + m.cols) * nbytes;
        for (size_t i = 0; i < (size_t)(m.stride - m.cols) * nbytes; i++)
            if (gap[i] != GAP_BYTE)
                fail_msg("%s: behind row %d: wanted untouched memory, got 0x%02x", what, (int)r, gap[i]);
    }
    free(m.data);
}

void attention_compute(ki_compute *compute, const ki_attention *how, kith_dtype dtype, int gap, attention_values *a)
{
    const ki_mat q = matrix(how, OF_QUERIES, dtype, gap, a->q), k = matrix(how, OF_KEYS, dtype, gap, a->k);
    const ki_mat v = matrix(how, OF_KEYS, dtype, gap, a->v), dout = matrix(how, OF_QUERIES, dtype, gap, a->dout);
    const ki_mat out = matrix(how, OF_QUERIES, dtype, gap, NULL), dq = matrix(how, OF_QUERIES, dtype, gap, NULL);
    const ki_mat dk = matrix(how, OF_KEYS, dtype, gap, NULL), dv = matrix(how, OF_KEYS, dtype, gap, NULL);
    const ki_mat lse = matrix(how, OF_HEADS, ki_accumulator_of(dtype), gap, NULL);
    if (compute->ops->attention(compute, how, q, k, v, out, lse) != KITH_OK)
        fail_msg("attention: %s", kith_error_detail());
    if (compute->ops->attention_grad(compute, how, q, k, v, out, lse, dout, dq, dk, dv) != KITH_OK)
        fail_msg("attention_grad: %s", kith_error_detail());
    take("q", q, a->q);
    take("k", k, a->k);
    take("v", v, a->v);
    take("dout", dout, a->dout);
    take("out", out, a->out);
    take("lse", lse, a->lse);
    take("dq", dq, a->dq);
    take("dk", dk, a->dk);
    take("dv", dv, a->dv);
}
