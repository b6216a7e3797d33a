/* tests/layers/test_compute_attention.c - attention and its gradients in blocks against a plain reference in f64: odd
 * sizes, shared key heads, masks, dropout, all storage types, every instruction set that runs here.
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

#include <kith/status.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const instruction_sets[] = { "generic", "avx2", "avx512" };
enum { INSTRUCTION_SETS = 3 };

static const kith_dtype dtypes[] = { KITH_F32, KITH_F64, KITH_BF16, KITH_F16 };
enum { DTYPES = 4 };

/* Of an output that is of order 1: sums in f32, in f64, one rounding to 8 bits. */
static double tolerance_of(kith_dtype dtype)
{
    return dtype == KITH_F64 ? 1e-13 : dtype == KITH_F32 ? 4e-6 : 5e-3;
}

/* The gradients of bf16 are taken at a rounded `out`, whose error reaches each of a row's scores. */
static double grad_tolerance_of(kith_dtype dtype)
{
    return dtype == KITH_F64 ? 1e-12 : dtype == KITH_F32 ? 2e-5 : 2e-2;
}

static void describe(char *text, size_t nbytes, const ki_attention *how, kith_dtype dtype, const char *isa,
                     const char *what)
{
    snprintf(text, nbytes, "%s, batch %d, %d queries, %d keys, heads %d / %d of %d%s%s, %s, %s", what, (int)how->batch,
             (int)how->sequence, (int)how->kv_sequence, (int)how->heads, (int)how->kv_heads, (int)how->head_dim,
             how->is_causal ? ", causal" : "", how->dropout.probability > 0 ? ", dropout" : "", kith_dtype_name(dtype),
             isa);
}

static void expect_attention(const ki_attention *how, kith_dtype dtype, const char *isa, const attention_values *wanted,
                             const attention_values *got)
{
    const struct {
        const char *name;
        attention_shape shape;
        const double *wanted, *got;
        double tolerance;
    } all[] = {
        { "out", OF_QUERIES, wanted->out, got->out, tolerance_of(dtype) },
        { "lse", OF_HEADS, wanted->lse, got->lse, dtype == KITH_F64 ? 1e-13 : 2e-6 },
        { "dq", OF_QUERIES, wanted->dq, got->dq, grad_tolerance_of(dtype) },
        { "dk", OF_KEYS, wanted->dk, got->dk, grad_tolerance_of(dtype) },
        { "dv", OF_KEYS, wanted->dv, got->dv, grad_tolerance_of(dtype) },
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        char text[200];
        describe(text, sizeof text, how, dtype, isa, all[i].name);
        expect_values(text, all[i].wanted, all[i].got, attention_count(how, all[i].shape), all[i].tolerance);
    }
}

static void try_case(const ki_attention *how, int gap)
{
    for (int d = 0; d < DTYPES; d++) {
        attention_values wanted = attention_draw(how, dtypes[d], 1), got = attention_draw(how, dtypes[d], 1);
        attention_reference(how, &wanted);
        attention_reference_grad(how, &wanted);
        for (int i = 0; i < INSTRUCTION_SETS; i++) {
            if (!ki_compute_select_loops(compute, instruction_sets[i]))
                continue;
            attention_compute(compute, how, dtypes[d], gap, &got);
            expect_attention(how, dtypes[d], instruction_sets[i], &wanted, &got);
        }
        attention_free(&wanted);
        attention_free(&got);
    }
}

static ki_attention shape(int64_t batch, int64_t sequence, int64_t kv_sequence, int64_t heads, int64_t kv_heads,
                          int64_t head_dim)
{
    return (ki_attention){
        .batch = batch,
        .sequence = sequence,
        .kv_sequence = kv_sequence,
        .heads = heads,
        .kv_heads = kv_heads,
        .head_dim = head_dim,
        .scale = 1 / sqrt((double)head_dim),
        .first_head = 5,
        .dropout = { .seed = UINT64_C(0x123456789abcdef0), .site = 3, .first_sample = 7, .first_position = 11 },
    };
}

/* Without and with causality, without and with dropout. */
static void try_shape(ki_attention how, int gap)
{
    for (int variant = 0; variant < 4; variant++) {
        how.is_causal = variant & 1;
        how.dropout.probability = variant & 2 ? 0.3 : 0;
        how.dropout.batch = (uint32_t)how.batch;
        try_case(&how, gap);
    }
}

static void test_small_shapes(void **state)
{
    (void)state;
    try_shape(shape(1, 1, 1, 1, 1, 1), 0);
    try_shape(shape(2, 1, 9, 2, 1, 8), 3);
    try_shape(shape(3, 3, 3, 4, 2, 8), 1);
    try_shape(shape(1, 5, 5, 4, 4, 1), 0);
    try_shape(shape(1, 65, 65, 2, 1, 8), 0);
    try_shape(shape(2, 7, 65, 2, 2, 80), 5);
}

static void test_sizes_around_a_block(void **state)
{
    (void)state;
    try_shape(shape(1, 127, 127, 2, 1, 64), 0);
    try_shape(shape(1, 129, 257, 1, 1, 8), 2);
    ki_attention how = shape(1, 150, 600, 1, 1, 4);
    how.is_causal = true; /* blocks below, on and right of the diagonal */
    try_case(&how, 0);
}

static void test_rows_without_keys(void **state)
{
    (void)state;
    ki_attention how = shape(2, 140, 6, 2, 1, 8);
    how.is_causal = true; /* the first 134 queries see nothing: a whole block of them and a part of one */
    try_case(&how, 0);
    how.kv_sequence = 0;
    try_case(&how, 0);
    how.sequence = 0;
    how.kv_sequence = 5;
    try_case(&how, 0);
}

static void test_map_of_key_heads(void **state)
{
    (void)state;
    ki_attention how = shape(1, 9, 12, 4, 3, 8);
    how.kv_map = (const int32_t[]){ 2, 0, 2, 0 }; /* key head 1 has no queries: its gradients are 0 */
    try_shape(how, 0);
}

/* With v the identity, out is the probabilities: 0 exactly where the reference's words say so. */
static void test_mask_of_dropout(void **state)
{
    (void)state;
    ki_attention how = shape(1, 50, 60, 1, 1, 60);
    size_t dropped = 0;
    how.dropout.probability = 0.25;
    how.dropout.batch = 1;
    attention_values a = attention_draw(&how, KITH_F32, 3);
    for (int64_t i = 0; i < 60 * 60; i++)
        a.v[i] = i / 60 == i % 60;
    attention_compute(compute, &how, KITH_F32, 0, &a);
    for (int64_t query = 0; query < 50; query++)
        for (int64_t key = 0; key < 60; key++) {
            const bool is_kept = attention_factor(&how, 0, 0, query, key) != 0;
            dropped += !is_kept;
            if ((a.out[query * 60 + key] != 0) != is_kept)
                fail_msg("query %d, key %d: wanted %s, got a probability of %g", (int)query, (int)key,
                         is_kept ? "a number" : "0", a.out[query * 60 + key]);
        }
    if (dropped < 650 || dropped > 850) /* 750 +- 4 deviations */
        fail_msg("wanted about 750 of 3000 dropped, got %zu", dropped);
    attention_free(&a);
}

/* Scores of +-1000 are one-hot probabilities; exp() of them as they are would be infinite. */
static void test_large_scores(void **state)
{
    (void)state;
    for (int causal = 0; causal < 2; causal++) {
        ki_attention how = shape(1, 130, 300, 1, 1, 16);
        how.scale = 1000;
        how.is_causal = causal == 1;
        attention_values wanted = attention_draw(&how, KITH_F64, 1), got = attention_draw(&how, KITH_F64, 1);
        attention_reference(&how, &wanted);
        attention_reference_grad(&how, &wanted);
        attention_compute(compute, &how, KITH_F64, 0, &got);
        expect_values("out, scores x 1000", wanted.out, got.out, attention_count(&how, OF_QUERIES), 1e-9);
        expect_values("dv, scores x 1000", wanted.dv, got.dv, attention_count(&how, OF_KEYS), 1e-9);
        expect_values("dq, scores x 1000", wanted.dq, got.dq, attention_count(&how, OF_QUERIES), 1e-7);
        attention_compute(compute, &how, KITH_F32, 0, &got);
        for (size_t i = 0; i < attention_count(&how, OF_QUERIES); i++)
            if (!(fabs(got.out[i]) <= 1.0001) || !isfinite(got.dq[i]))
                fail_msg("element %zu: wanted finite numbers, out at most 1, got out %g, dq %g", i, got.out[i],
                         got.dq[i]);
        attention_free(&wanted);
        attention_free(&got);
    }
}

/* A NaN in q is the trouble of its row alone; one in k reaches all who see it; infinities do not crash. */
static void test_not_finite(void **state)
{
    (void)state;
    const ki_attention how = shape(1, 6, 6, 1, 1, 4);
    attention_values a = attention_draw(&how, KITH_F32, 1);
    a.q[2 * 4 + 1] = NAN;
    attention_compute(compute, &how, KITH_F32, 0, &a);
    for (int64_t i = 0; i < 24; i++)
        if (isnan(a.out[i]) != (i / 4 == 2) || isnan(a.dq[i]) != (i / 4 == 2))
            fail_msg("NaN in row 2 of q: row %d has out %g, dq %g", (int)i / 4, a.out[i], a.dq[i]);
    a.q[2 * 4 + 1] = 0;
    a.k[0] = NAN;
    attention_compute(compute, &how, KITH_F32, 0, &a);
    for (int64_t i = 0; i < 24; i++)
        if (!isnan(a.out[i]) || !isnan(a.dq[i]))
            fail_msg("NaN in k: wanted NaN everywhere, got out %g, dq %g in row %d", a.out[i], a.dq[i], (int)i / 4);
    /* a score of -inf is a probability of 0; one of +inf has none */
    for (int64_t i = 0; i < 24; i++)
        a.q[i] = i / 4 == 3 ? -1 : 1;
    a.k[0] = -INFINITY;
    attention_compute(compute, &how, KITH_F32, 0, &a);
    for (int64_t row = 0; row < 6; row++)
        if (isnan(a.out[row * 4]) != (row == 3))
            fail_msg("-inf in k: row %d has out %g", (int)row, a.out[row * 4]);
    attention_free(&a);
}

/* Scores of -inf in all of the first blocks: what follows is the softmax of the other keys. */
static void test_minus_infinity_first(void **state)
{
    enum { HIDDEN = 512, KEYS = 530, DIM = 4 }; /* HIDDEN: whole blocks */
    (void)state;
    const ki_attention how = shape(1, 2, KEYS, 1, 1, DIM), rest = shape(1, 2, KEYS - HIDDEN, 1, 1, DIM);
    attention_values a = attention_draw(&how, KITH_F32, 1), b = attention_draw(&rest, KITH_F32, 2);
    for (int64_t i = 0; i < 2 * DIM; i++)
        a.q[i] = b.q[i] = i % DIM == 0 ? 1 : 0.5;
    for (int64_t i = 0; i < HIDDEN * DIM; i++)
        a.k[i] = i % DIM == 0 ? -INFINITY : 1;
    memcpy(b.k, a.k + HIDDEN * DIM, (KEYS - HIDDEN) * DIM * sizeof(double));
    memcpy(b.v, a.v + HIDDEN * DIM, (KEYS - HIDDEN) * DIM * sizeof(double));
    attention_reference(&rest, &b);
    attention_compute(compute, &how, KITH_F32, 0, &a);
    expect_values("out behind scores of -inf", b.out, a.out, 2 * DIM, tolerance_of(KITH_F32));
    expect_values("lse behind scores of -inf", b.lse, a.lse, 2, tolerance_of(KITH_F32));
    attention_free(&a);
    attention_free(&b);
}

static void test_what_is_refused(void **state)
{
    (void)state;
    ki_attention how = shape(1, 1, 1, 1, 1, 1);
    uint16_t half = 0;
    float lse = 0;
    const ki_mat m = { &half, 1, 1, 1, KITH_F8E4M3 }, l = { &lse, 1, 1, 1, KITH_F32 };
    assert_int_equal(compute->ops->attention(compute, &how, m, m, m, m, l), KITH_ERR_UNSUPPORTED);
    assert_non_null(strstr(kith_error_detail(), "f8e4m3"));
    /* sizes that no memory has, which must not wrap around to small ones */
    how.kv_sequence = INT64_MAX / 2;
    how.head_dim = 16;
    const ki_mat q = { &lse, 1, 16, 16, KITH_F32 }, k = { &lse, how.kv_sequence, 16, 16, KITH_F32 };
    assert_int_equal(compute->ops->attention(compute, &how, q, k, k, q, l), KITH_ERR_INVALID_ARG);
    assert_non_null(strstr(kith_error_detail(), "too large"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_small_shapes),      cmocka_unit_test(test_sizes_around_a_block),
        cmocka_unit_test(test_rows_without_keys), cmocka_unit_test(test_map_of_key_heads),
        cmocka_unit_test(test_mask_of_dropout),   cmocka_unit_test(test_large_scores),
        cmocka_unit_test(test_not_finite),        cmocka_unit_test(test_minus_infinity_first),
        cmocka_unit_test(test_what_is_refused),
    };
    return cmocka_run_group_tests(tests, open_host, close_host);
}
