/* tests/layers/test_compute_threads.c - the same bits with one, two, three and five threads.
 *
 * A case calls a function on matrices large enough to be cut, whose sizes are no multiples of any part, and hands over
 * what came; results of more threads are compared with those of one, byte by byte.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "host_help.h"
#include "layers/compute/compute.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <string.h>

enum { ROWS = 403, COLS = 394, WIDE = 150003, BATCH = 17, MOST = 24 };

/* One run of a case: its tables, and its matrices in the order in which they were made, all of which are compared. */
typedef struct run {
    ki_compute *compute;
    const ki_compute_ops *ops;
    kith_dtype dtype;
    ki_mat made[MOST];
    int count;
    kith_status status;
} run;

/* Numbers between -1 and 1 that depend on their place and on how many matrices there are. */
static ki_mat make(run *r, kith_dtype dtype, int64_t rows, int64_t cols)
{
    ki_mat m = { calloc((size_t)(rows * cols), kith_dtype_nbytes(dtype)), rows, cols, cols, dtype };
    ki_mat f64 = { calloc((size_t)(rows * cols), sizeof(double)), rows, cols, cols, KITH_F64 };
    uint64_t word = 88172645463325252u + (uint64_t)r->count;
    for (int64_t i = 0; i < rows * cols; i++) {
        word ^= word << 13, word ^= word >> 7, word ^= word << 17;
        ((double *)f64.data)[i] = (double)(word >> 11) * 0x1p-52 - 1;
    }
    r->status |= r->ops->copy(r->compute, f64, m);
    free(f64.data);
    r->made[r->count++] = m;
    return m;
}

static kith_dtype wide_of(const run *r)
{
    return ki_accumulator_of(r->dtype);
}

static ki_mat matrix(run *r)
{
    return make(r, r->dtype, ROWS, COLS);
}

static ki_mat row(run *r, kith_dtype dtype)
{
    return make(r, dtype, 1, COLS);
}

static ki_mat column(run *r)
{
    return make(r, wide_of(r), ROWS, 1);
}

/* Numbers below `below`, -1 now and then when it may be. */
static int32_t *numbers(int32_t below, int least)
{
    static int32_t ids[ROWS];
    for (int i = 0; i < ROWS; i++)
        ids[i] = (int32_t)((i * 7919) % (below - least)) + least;
    return ids;
}

static void elements(run *r)
{
    ki_mat x = matrix(r), y = matrix(r), flat = make(r, r->dtype, 1, WIDE), flat_y = make(r, wide_of(r), 1, WIDE);
    ki_mat bias = row(r, r->dtype), grad = row(r, wide_of(r)), filled = make(r, r->dtype, 3, WIDE / 3);
    r->status |= r->ops->add(r->compute, 0.3, x, y) | r->ops->add(r->compute, 0.7, flat, flat_y) |
                 r->ops->scale(r->compute, 1.1, y) | r->ops->bias_add(r->compute, bias, y) |
                 r->ops->bias_grad(r->compute, y, grad) | r->ops->copy(r->compute, flat_y, flat) |
                 r->ops->fill(r->compute, filled, 2.5);
}

static void activations(run *r)
{
    for (int kind = KI_GELU_EXACT; kind <= KI_SILU; kind++) {
        ki_mat x = matrix(r), y = matrix(r), dx = matrix(r), bias = row(r, r->dtype);
        r->status |= r->ops->activation(r->compute, (ki_activation)kind, x, bias, y) |
                     r->ops->activation_grad(r->compute, (ki_activation)kind, x, bias, y, dx);
    }
    ki_mat gate = matrix(r), up = matrix(r), y = matrix(r), dgate = matrix(r), dup = matrix(r);
    r->status |= r->ops->gated(r->compute, KI_SILU, gate, up, y) |
                 r->ops->gated_grad(r->compute, KI_SILU, gate, up, y, dgate, dup);
}

static void dropouts(run *r)
{
    const ki_dropout dropout = { 0.3, 5, 1, 2, BATCH, 3, 6 }, off = { 0 };
    ki_mat x = matrix(r), bias = row(r, r->dtype), residual = matrix(r), y = matrix(r), dx = matrix(r), z = matrix(r);
    r->status |= r->ops->dropout_add(r->compute, &dropout, x, bias, residual, y) |
                 r->ops->dropout_grad(r->compute, &dropout, y, dx) |
                 r->ops->dropout_add(r->compute, &off, x, bias, y, z);
}

static void norms(run *r)
{
    ki_mat x = matrix(r), weight = row(r, r->dtype), bias = row(r, r->dtype), y = matrix(r), dx = matrix(r);
    ki_mat mean = column(r), rstd = column(r), weight_grad = row(r, wide_of(r)), bias_grad = row(r, wide_of(r));
    ki_mat z = matrix(r), dz = matrix(r), rms = column(r), rms_grad = row(r, wide_of(r));
    r->status |= r->ops->layer_norm(r->compute, 1e-5, x, weight, bias, y, mean, rstd) |
                 r->ops->layer_norm_grad(r->compute, x, weight, mean, rstd, y, dx, weight_grad, bias_grad) |
                 r->ops->layer_norm_grad(r->compute, x, weight, mean, rstd, y, y, weight_grad, bias_grad) |
                 r->ops->rms_norm(r->compute, 1e-5, x, weight, z, rms) |
                 r->ops->rms_norm_grad(r->compute, x, weight, rms, z, dz, rms_grad);
}

static void losses(run *r)
{
    const int32_t *targets = numbers(2 * COLS, -1);
    ki_mat logits = matrix(r), max = column(r), sums = make(r, wide_of(r), ROWS, 3), loss = column(r), dx = matrix(r);
    ki_mat share = make(r, wide_of(r), ROWS, COLS), dshare = make(r, wide_of(r), ROWS, COLS);
    r->status |= r->ops->row_max(r->compute, logits, max) |
                 r->ops->loss_sums(r->compute, logits, targets, 5, max, sums) |
                 r->ops->losses(r->compute, sums, targets, -1, 0.1, 2 * COLS, loss) |
                 r->ops->loss_grad(r->compute, logits, targets, 5, -1, 0.1, 2 * COLS, 0.01, max, sums, dx) |
                 r->ops->softmax(r->compute, logits, share) | r->ops->softmax_grad(r->compute, share, dshare, dx);
}

static void rows_by_number(run *r)
{
    ki_mat table = make(r, r->dtype, 61, COLS), y = matrix(r), grad = make(r, wide_of(r), 61, COLS);
    ki_mat weights = column(r), picked = matrix(r), all = matrix(r), dots = column(r);
    const int32_t *ids = numbers(61, 0);
    r->status |= r->ops->gather_rows(r->compute, ids, 3, table, y) | r->ops->scatter_rows(r->compute, ids, 3, y, grad) |
                 r->ops->pick_rows(r->compute, NULL, weights, y, all) | r->ops->row_dots(r->compute, y, all, dots);
    ids = numbers(61, -1);
    r->status |= r->ops->pick_rows(r->compute, ids, weights, table, picked) |
                 r->ops->add_rows(r->compute, ids, weights, picked, grad);
}

static void parameters(run *r)
{
    const kith_dtype wide = wide_of(r);
    for (int is_flat = 0; is_flat < 2; is_flat++) {
        const int64_t rows = is_flat ? 1 : ROWS, cols = is_flat ? WIDE : COLS;
        ki_mat grad = make(r, wide, rows, cols), m = make(r, wide, rows, cols), v = make(r, wide, rows, cols);
        ki_mat weight = make(r, wide, rows, cols), stored = make(r, r->dtype, rows, cols);
        ki_mat drawn = make(r, r->dtype, rows, cols), sum = make(r, KITH_F64, 1, 2);
        const ki_adamw how = { 1e-3, 0.9, 0.95, 1e-8, 0.1, 3, 0.5 };
        r->status |= r->ops->sum_squares(r->compute, grad, (double *)sum.data) |
                     r->ops->sum_squares(r->compute, stored, (double *)sum.data + 1) | r->ops->scale(r->compute, 0, v) |
                     r->ops->adamw(r->compute, &how, grad, m, v, weight, stored) |
                     r->ops->sgd(r->compute, 0.1, 0.9, 0.01, 0.5, grad, m, weight, stored) |
                     r->ops->normal(r->compute, 9, 2, 5, 3, 2 * WIDE, 0.02, drawn);
    }
}

static void attend(run *r, const ki_attention *how)
{
    const int64_t tokens = how->batch * how->sequence, keys = how->batch * how->kv_sequence;
    const int64_t cols = how->heads * how->head_dim, kv_cols = how->kv_heads * how->head_dim;
    ki_mat q = make(r, r->dtype, tokens, cols), k = make(r, r->dtype, keys, kv_cols);
    ki_mat v = make(r, r->dtype, keys, kv_cols), out = make(r, r->dtype, tokens, cols);
    ki_mat lse = make(r, wide_of(r), tokens, how->heads), dout = make(r, r->dtype, tokens, cols);
    ki_mat dq = make(r, r->dtype, tokens, cols), dk = make(r, r->dtype, keys, kv_cols);
    ki_mat dv = make(r, r->dtype, keys, kv_cols);
    r->status |= r->ops->rotary(r->compute, 1e4, how->head_dim, how->batch, false, q) |
                 r->ops->attention(r->compute, how, q, k, v, out, lse) |
                 r->ops->attention_grad(r->compute, how, q, k, v, out, lse, dout, dq, dk, dv);
}

static void attention(run *r)
{
    ki_attention how = { .batch = 3, .sequence = 203, .kv_sequence = 303, .heads = 4, .kv_heads = 2, .head_dim = 40 };
    how.scale = 0.2;
    how.is_causal = true;
    attend(r, &how);
    how.dropout = (ki_dropout){ .probability = 0.2, .seed = 4, .site = 2, .batch = 1 };
    attend(r, &how);
}

/* -1, 0 or 1, by place. */
static void make_whole(ki_mat m)
{
    for (int64_t i = 0; i < m.rows * m.cols; i++) {
        const int value = (int)((i * 7 + i / m.cols) % 3) - 1;
        if (m.dtype == KITH_F64)
            ((double *)m.data)[i] = value;
        else if (m.dtype == KITH_F32)
            ((float *)m.data)[i] = (float)value;
        else
            ((uint16_t *)m.data)[i] = value == 0 ? 0 : value > 0 ? 0x3f80 : 0xbf80;
    }
}

/* Of whole numbers: that parts make up the whole must hold with any BLAS, whatever it does with bits. */
static void products(run *r)
{
    ki_mat a = matrix(r), b = make(r, r->dtype, COLS, 301), c = make(r, r->dtype, ROWS, 301),
           turned = make(r, r->dtype, 301, ROWS);
    ki_mat few = make(r, r->dtype, 5, COLS), wide = make(r, r->dtype, COLS, 2003), few_y = make(r, wide_of(r), 5, 2003);
    ki_mat x[] = { a, b, c, few, wide, few_y };
    for (int i = 0; i < 6; i++)
        make_whole(x[i]);
    r->status |= r->ops->gemm(r->compute, KI_AS_IS, KI_AS_IS, 1, a, b, 1, c) |
                 r->ops->gemm(r->compute, KI_TRANSPOSED, KI_TRANSPOSED, 1, b, a, 0, turned) |
                 r->ops->gemm(r->compute, KI_AS_IS, KI_AS_IS, 2, few, wide, 1, few_y);
}

static void (*const cases[])(run *r) = { elements,       activations, dropouts,  norms,   losses,
                                         rows_by_number, parameters,  attention, products };
static const char *const names[] = { "elements", "activations", "dropouts",  "norms",   "losses",
                                     "rows",     "parameters",  "attention", "products" };

static run run_case(size_t number, kith_dtype dtype, int threads)
{
    run r = { .dtype = dtype };
    if (ki_compute_open_host(threads, &r.compute) != KITH_OK)
        fail_msg("%s", kith_error_detail());
    r.ops = r.compute->ops;
    cases[number](&r);
    ki_compute_close(r.compute);
    return r;
}

static void release(run *r)
{
    for (int i = 0; i < r->count; i++)
        free(r->made[i].data);
}

/* "": alike, else where they are not. */
static void compare(const run *one, const run *more, char *where, size_t nbytes)
{
    where[0] = '\0';
    for (int i = 0; i < one->count && where[0] == '\0'; i++) {
        const size_t width = kith_dtype_nbytes(one->made[i].dtype);
        const char *a = (const char *)one->made[i].data, *b = (const char *)more->made[i].data;
        for (int64_t e = 0; e < one->made[i].rows * one->made[i].cols && where[0] == '\0'; e++)
            if (memcmp(a + (size_t)e * width, b + (size_t)e * width, width) != 0)
                snprintf(where, nbytes, "matrix %d, row %lld, column %lld", i, (long long)(e / one->made[i].cols),
                         (long long)(e % one->made[i].cols));
    }
}

static void same_bits(void **state)
{
    static const kith_dtype dtypes[] = { KITH_F32, KITH_F64, KITH_BF16 };
    static const int threads[] = { 2, 3, 5 };
    (void)state;
    for (size_t number = 0; number < sizeof cases / sizeof cases[0]; number++) {
        for (size_t d = 0; d < 3; d++) {
            run one = run_case(number, dtypes[d], 1);
            assert_int_equal(one.status, KITH_OK);
            for (size_t t = 0; t < 3; t++) {
                char where[100];
                run more = run_case(number, dtypes[d], threads[t]);
                assert_int_equal(more.status, KITH_OK);
                compare(&one, &more, where, sizeof where);
                if (where[0] != '\0')
                    fail_msg("%s of %s: %d threads give other bits than one: %s", names[number],
                             kith_dtype_name(dtypes[d]), threads[t], where);
                release(&more);
            }
            release(&one);
        }
    }
}

static void *be_rank(void *argument)
{
    run *r = (run *)argument;
    *r = run_case(7, KITH_F32, 2);
    return NULL;
}

/* Ranks that are threads, with two threads each, in the BLAS at the same time. */
static void ranks_side_by_side(void **state)
{
    (void)state;
    pthread_t ranks[4];
    run runs[4], one = run_case(7, KITH_F32, 1);
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&ranks[i], NULL, be_rank, &runs[i]), 0);
    for (int i = 0; i < 4; i++) {
        char where[100];
        pthread_join(ranks[i], NULL);
        compare(&one, &runs[i], where, sizeof where);
        assert_string_equal(where, "");
        release(&runs[i]);
    }
    release(&one);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(same_bits), cmocka_unit_test(ranks_side_by_side) };
    return cmocka_run_group_tests(tests, open_host, close_host);
}
