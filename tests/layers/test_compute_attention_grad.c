/* tests/layers/test_compute_attention_grad.c - gradients of attention against finite differences, and that a head has
 * the same bits whether it is computed alone or with others.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "attention_help.h"
#include "host_help.h"
#include "layers/compute/arith.h"

#include <kith/status.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static double loss(const ki_attention *how, attention_values *a)
{
    double sum = 0;
    attention_compute(compute, how, KITH_F64, 0, a);
    for (size_t i = 0; i < attention_count(how, OF_QUERIES); i++)
        sum += a->out[i] * a->dout[i];
    return sum;
}

/* Central differences: an error of step^2 and of rounding / step. */
static void expect_differences(const char *what, const ki_attention *how, attention_values *a, double *x,
                               const double *gradient, size_t count)
{
    const double step = 1e-5;
    for (size_t i = 0; i < count; i++) {
        const double at = x[i], wanted = gradient[i];
        x[i] = at + step;
        const double above = loss(how, a);
        x[i] = at - step;
        const double below = loss(how, a);
        x[i] = at;
        const double got = (above - below) / (2 * step);
        if (!(fabs(got - wanted) <= 1e-6 * (fabs(wanted) + 1e-3)))
            fail_msg("%s: element %zu: the difference is %.12g, the gradient %.12g", what, i, got, wanted);
    }
}

static double *copy_of(const double *x, size_t count)
{
    double *copy = (double *)malloc(count * sizeof *x);
    assert_non_null(copy);
    memcpy(copy, x, count * sizeof *x);
    return copy;
}

static void test_differences(void **state)
{
    (void)state;
    for (int variant = 0; variant < 4; variant++) {
        const ki_attention how = {
            .batch = 2,
            .sequence = 4,
            .kv_sequence = 6,
            .heads = 4,
            .kv_heads = 2,
            .head_dim = 3,
            .scale = 0.7,
            .is_causal = variant & 1,
            .dropout = { .probability = variant & 2 ? 0.4 : 0, .seed = 9, .batch = 2 },
        };
        const size_t queries = attention_count(&how, OF_QUERIES), keys = attention_count(&how, OF_KEYS);
        attention_values a = attention_draw(&how, KITH_F64, 5);
        attention_compute(compute, &how, KITH_F64, 0, &a);
        double *dq = copy_of(a.dq, queries), *dk = copy_of(a.dk, keys), *dv = copy_of(a.dv, keys);
        expect_differences("dq", &how, &a, a.q, dq, queries);
        expect_differences("dk", &how, &a, a.k, dk, keys);
        expect_differences("dv", &how, &a, a.v, dv, keys);
        free(dq);
        free(dk);
        free(dv);
        attention_free(&a);
    }
}

/* ---- heads apart ---- */

enum { BATCH = 2, TOKENS = 300, HEADS = 6, KV_HEADS = 3, HEAD_DIM = 20, FIRST_HEAD = 40 };

typedef struct head_matrices {
    ki_mat q, k, v, out, lse, dout, dq, dk, dv;
} head_matrices;

static ki_mat dense(int64_t cols, kith_dtype dtype)
{
    ki_mat m = { .rows = BATCH * TOKENS, .cols = cols, .stride = cols, .dtype = dtype };
    m.data = calloc((size_t)(m.rows * m.cols), kith_dtype_nbytes(dtype));
    assert_non_null(m.data);
    return m;
}

/* Columns of m. */
static ki_mat part(ki_mat m, int64_t first, int64_t cols)
{
    m.data = (char *)m.data + (size_t)first * kith_dtype_nbytes(m.dtype);
    m.cols = cols;
    return m;
}

static head_matrices make_matrices(kith_dtype dtype)
{
    const int64_t cols = HEADS * HEAD_DIM, kv_cols = KV_HEADS * HEAD_DIM;
    return (head_matrices){ .q = dense(cols, dtype),
                            .k = dense(kv_cols, dtype),
                            .v = dense(kv_cols, dtype),
                            .out = dense(cols, dtype),
                            .lse = dense(HEADS, ki_accumulator_of(dtype)),
                            .dout = dense(cols, dtype),
                            .dq = dense(cols, dtype),
                            .dk = dense(kv_cols, dtype),
                            .dv = dense(kv_cols, dtype) };
}

/* The heads of `kv_count` key heads from kv_first on. */
static head_matrices heads_of(const head_matrices *m, int64_t kv_first, int64_t kv_count)
{
    const int64_t group = HEADS / KV_HEADS, first = kv_first * group, count = kv_count * group;
    return (head_matrices){ .q = part(m->q, first * HEAD_DIM, count * HEAD_DIM),
                            .k = part(m->k, kv_first * HEAD_DIM, kv_count * HEAD_DIM),
                            .v = part(m->v, kv_first * HEAD_DIM, kv_count * HEAD_DIM),
                            .out = part(m->out, first * HEAD_DIM, count * HEAD_DIM),
                            .lse = part(m->lse, first, count),
                            .dout = part(m->dout, first * HEAD_DIM, count * HEAD_DIM),
                            .dq = part(m->dq, first * HEAD_DIM, count * HEAD_DIM),
                            .dk = part(m->dk, kv_first * HEAD_DIM, kv_count * HEAD_DIM),
                            .dv = part(m->dv, kv_first * HEAD_DIM, kv_count * HEAD_DIM) };
}

static void run_heads(const head_matrices *m, int64_t kv_first)
{
    const ki_attention how = {
        .batch = BATCH,
        .sequence = TOKENS,
        .kv_sequence = TOKENS,
        .heads = m->lse.cols,
        .kv_heads = m->k.cols / HEAD_DIM,
        .head_dim = HEAD_DIM,
        .scale = 0.3,
        .is_causal = true,
        .dropout = { .probability = 0.2, .seed = 4, .batch = BATCH },
        .first_head = (uint32_t)(FIRST_HEAD + kv_first * (HEADS / KV_HEADS)),
    };
    if (compute->ops->attention(compute, &how, m->q, m->k, m->v, m->out, m->lse) != KITH_OK ||
        compute->ops->attention_grad(compute, &how, m->q, m->k, m->v, m->out, m->lse, m->dout, m->dq, m->dk, m->dv) !=
            KITH_OK)
        fail_msg("%s", kith_error_detail());
}

static void draw_matrix(ki_mat m, uint32_t seed)
{
    for (int64_t i = 0; i < m.rows * m.cols; i++) {
        seed = seed * 1664525u + 1013904223u;
        const float f = (float)(seed >> 8) / 8388608.0f - 1;
        uint32_t bits;
        memcpy(&bits, &f, sizeof bits);
        if (m.dtype == KITH_F64)
            ((double *)m.data)[i] = f;
        else if (m.dtype == KITH_F32)
            ((float *)m.data)[i] = f;
        else
            ((uint16_t *)m.data)[i] = m.dtype == KITH_F16 ? ki_narrow_f16_f32(f) : (uint16_t)(bits >> 16);
    }
}

static void expect_same_bits(const char *what, ki_mat wanted, ki_mat got)
{
    const size_t nbytes = (size_t)(wanted.rows * wanted.cols) * kith_dtype_nbytes(wanted.dtype);
    const unsigned char *a = (const unsigned char *)wanted.data, *b = (const unsigned char *)got.data;
    for (size_t i = 0; i < nbytes; i++)
        if (a[i] != b[i])
            fail_msg("%s of %s: byte %zu of %zu: wanted 0x%02x, got 0x%02x", what, kith_dtype_name(wanted.dtype), i,
                     nbytes, a[i], b[i]);
}

static void release(const head_matrices *m)
{
    const ki_mat all[] = { m->q, m->k, m->v, m->out, m->lse, m->dout, m->dq, m->dk, m->dv };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        free(all[i].data);
}

/* Key heads in parts of 1 and 2 give what all of them give at once: what ranks of a tensor-parallel group compute. */
static void test_heads_apart(void **state)
{
    static const kith_dtype dtypes[] = { KITH_F32, KITH_F64, KITH_BF16, KITH_F16 };
    (void)state;
    for (int d = 0; d < 4; d++) {
        head_matrices whole = make_matrices(dtypes[d]), parts = make_matrices(dtypes[d]);
        for (int set = 0; set < 2; set++) {
            const head_matrices *m = set == 0 ? &whole : &parts;
            draw_matrix(m->q, 1);
            draw_matrix(m->k, 2);
            draw_matrix(m->v, 3);
            draw_matrix(m->dout, 4);
        }
        run_heads(&whole, 0);
        const head_matrices first = heads_of(&parts, 0, 1), rest = heads_of(&parts, 1, 2);
        run_heads(&rest, 1);
        run_heads(&first, 0);
        expect_same_bits("out", whole.out, parts.out);
        expect_same_bits("lse", whole.lse, parts.lse);
        expect_same_bits("dq", whole.dq, parts.dq);
        expect_same_bits("dk", whole.dk, parts.dk);
        expect_same_bits("dv", whole.dv, parts.dv);
        release(&whole);
        release(&parts);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_differences),
        cmocka_unit_test(test_heads_apart),
    };
    return cmocka_run_group_tests(tests, open_host, close_host);
}
