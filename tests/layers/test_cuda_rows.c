/* tests/layers/test_cuda_rows.c - a GPU's functions over rows: norms, losses, softmax, rows by number, ids.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "cuda_help.h"
#include <math.h>

/* ---- norms ---- */

static void check_layer_norm(const cuda_case *c)
{
    for (int with_bias = 0; with_bias < 2; with_bias++) {
        twin x = twin_random(c, c->dtype, c->rows, c->cols, 3), weight = twin_random(c, c->dtype, 1, c->cols, 1);
        twin bias = with_bias ? twin_random(c, c->dtype, 1, c->cols, 1) : twin_none();
        twin bias_grad = with_bias ? twin_random(c, c->wide, 1, c->cols, 1) : twin_none();
        twin y = twin_zeros(c, c->dtype, c->rows, c->cols), dy = twin_random(c, c->dtype, c->rows, c->cols, 1);
        twin mean = twin_zeros(c, c->wide, c->rows, 1), rstd = twin_zeros(c, c->wide, c->rows, 1);
        twin weight_grad = twin_random(c, c->wide, 1, c->cols, 1);
        cuda_both(c, "layer_norm",
                  HOST(c, layer_norm, 1e-5, x.host, weight.host, bias.host, y.host, mean.host, rstd.host),
                  GPU(c, layer_norm, 1e-5, x.device, weight.device, bias.device, y.device, mean.device, rstd.device));
        cuda_compare(c, "layer_norm", y, CUDA_SAME, 0);
        cuda_compare(c, "mean", mean, CUDA_SAME, 0);
        cuda_compare(c, "rstd", rstd, CUDA_SAME, 0);
        cuda_both(c, "layer_norm_grad",
                  HOST(c, layer_norm_grad, x.host, weight.host, mean.host, rstd.host, dy.host, dy.host,
                       weight_grad.host, bias_grad.host),
                  GPU(c, layer_norm_grad, x.device, weight.device, mean.device, rstd.device, dy.device, dy.device,
                      weight_grad.device, bias_grad.device));
        cuda_compare(c, "layer_norm_grad dx", dy, CUDA_SAME, 0);
        cuda_compare(c, "layer_norm_grad weight", weight_grad, CUDA_SAME, 0);
        if (with_bias)
            cuda_compare(c, "layer_norm_grad bias", bias_grad, CUDA_SAME, 0);
    }
}

static void check_rms_norm(const cuda_case *c)
{
    twin x = twin_random(c, c->dtype, c->rows, c->cols, 3), weight = twin_random(c, c->dtype, 1, c->cols, 1);
    twin y = twin_zeros(c, c->dtype, c->rows, c->cols), dy = twin_random(c, c->dtype, c->rows, c->cols, 1);
    twin dx = twin_zeros(c, c->dtype, c->rows, c->cols), rstd = twin_zeros(c, c->wide, c->rows, 1);
    twin weight_grad = twin_random(c, c->wide, 1, c->cols, 1);
    cuda_both(c, "rms_norm", HOST(c, rms_norm, 1e-6, x.host, weight.host, y.host, rstd.host),
              GPU(c, rms_norm, 1e-6, x.device, weight.device, y.device, rstd.device));
    cuda_compare(c, "rms_norm", y, CUDA_SAME, 0);
    cuda_compare(c, "rstd", rstd, CUDA_SAME, 0);
    cuda_both(c, "rms_norm_grad",
              HOST(c, rms_norm_grad, x.host, weight.host, rstd.host, dy.host, dx.host, weight_grad.host),
              GPU(c, rms_norm_grad, x.device, weight.device, rstd.device, dy.device, dx.device, weight_grad.device));
    cuda_compare(c, "rms_norm_grad dx", dx, CUDA_SAME, 0);
    cuda_compare(c, "rms_norm_grad weight", weight_grad, CUDA_SAME, 0);
}

static void norms(void **state)
{
    (void)state;
    cuda_everywhere(check_layer_norm);
    cuda_everywhere(check_rms_norm);
}

/* ---- losses ---- */

static void check_loss(const cuda_case *c)
{
    const int32_t ignored = -100;
    for (int64_t numbers = 2; numbers <= 3; numbers++) {
        const double smoothing = numbers == 3 ? 0.1 : 0;
        const int64_t first = 4, vocabulary = c->cols + 9;
        twin logits = twin_random(c, c->dtype, c->rows, c->cols, 4), max = twin_zeros(c, c->wide, c->rows, 1);
        twin sums = twin_zeros(c, c->wide, c->rows, numbers), losses = twin_zeros(c, c->wide, c->rows, 1);
        twin_ids targets = ids_random(c->rows, 0, vocabulary);
        cuda_both(c, "row_max", HOST(c, row_max, logits.host, max.host), GPU(c, row_max, logits.device, max.device));
        cuda_compare(c, "row_max", max, CUDA_SAME, 0);
        cuda_both(c, "loss_sums", HOST(c, loss_sums, logits.host, targets.host, first, max.host, sums.host),
                  GPU(c, loss_sums, logits.device, targets.device, first, max.device, sums.device));
        cuda_compare(c, "loss_sums", sums, CUDA_LIBM, 32);
        if (c->cols == 0)
            continue; /* the logarithm of 0 */
        cuda_both(c, "losses", HOST(c, losses, sums.host, targets.host, ignored, smoothing, vocabulary, losses.host),
                  GPU(c, losses, sums.device, targets.device, ignored, smoothing, vocabulary, losses.device));
        cuda_compare(c, "losses", losses, CUDA_LIBM, 32);
        cuda_both(c, "loss_grad",
                  HOST(c, loss_grad, logits.host, targets.host, first, ignored, smoothing, vocabulary, 0.25, max.host,
                       sums.host, logits.host),
                  GPU(c, loss_grad, logits.device, targets.device, first, ignored, smoothing, vocabulary, 0.25,
                      max.device, sums.device, logits.device));
        cuda_compare(c, "loss_grad", logits, CUDA_LIBM, 32);
    }
}

/* Rows that are ignored, that have a NaN, an infinity, nothing but -infinity. */
static void check_odd_rows(const cuda_case *c)
{
    static const int32_t values[] = { 3, -1, 8, 0, 2 };
    twin logits = twin_random(c, c->dtype, c->rows, c->cols, 1), max = twin_zeros(c, c->wide, c->rows, 1);
    twin sums = twin_zeros(c, c->wide, c->rows, 2), losses = twin_zeros(c, c->wide, c->rows, 1);
    twin_ids targets = ids_of(c->rows, values);
    twin_set(logits, 2, 5, NAN);
    twin_set(logits, 3, 1, INFINITY);
    for (int64_t col = 0; col < c->cols; col++)
        twin_set(logits, 4, col, -INFINITY);
    cuda_both(c, "row_max", HOST(c, row_max, logits.host, max.host), GPU(c, row_max, logits.device, max.device));
    cuda_compare(c, "row_max", max, CUDA_SAME, 0);
    cuda_both(c, "loss_sums", HOST(c, loss_sums, logits.host, targets.host, 0, max.host, sums.host),
              GPU(c, loss_sums, logits.device, targets.device, 0, max.device, sums.device));
    cuda_compare(c, "loss_sums", sums, CUDA_LIBM, 32);
    cuda_both(c, "losses", HOST(c, losses, sums.host, targets.host, -1, 0, c->cols, losses.host),
              GPU(c, losses, sums.device, targets.device, -1, 0, c->cols, losses.device));
    cuda_compare(c, "losses", losses, CUDA_LIBM, 32);
    cuda_both(
        c, "loss_grad",
        HOST(c, loss_grad, logits.host, targets.host, 0, -1, 0, c->cols, 1, max.host, sums.host, logits.host),
        GPU(c, loss_grad, logits.device, targets.device, 0, -1, 0, c->cols, 1, max.device, sums.device, logits.device));
    cuda_compare(c, "loss_grad", logits, CUDA_LIBM, 32);
}

static void check_softmax(const cuda_case *c)
{
    for (int of_wide = 0; of_wide < 2; of_wide++) {
        twin x = twin_random(c, of_wide ? c->wide : c->dtype, c->rows, c->cols, 2);
        twin y = twin_zeros(c, c->wide, c->rows, c->cols), dy = twin_random(c, c->wide, c->rows, c->cols, 1);
        twin dx = twin_zeros(c, of_wide ? c->wide : c->dtype, c->rows, c->cols);
        cuda_both(c, "softmax", HOST(c, softmax, x.host, y.host), GPU(c, softmax, x.device, y.device));
        cuda_compare(c, "softmax", y, CUDA_LIBM, 16);
        cuda_both(c, "softmax_grad", HOST(c, softmax_grad, y.host, dy.host, dx.host),
                  GPU(c, softmax_grad, y.device, dy.device, dx.device));
        cuda_compare(c, "softmax_grad", dx, CUDA_LIBM, 32);
    }
}

static void losses(void **state)
{
    (void)state;
    cuda_everywhere(check_loss);
    cuda_shape(5, 9, 3, check_odd_rows);
    cuda_everywhere(check_softmax);
}

/* ---- rows by number ---- */

static void check_embedding(const cuda_case *c)
{
    const int64_t words = 11, first = 2;
    twin table = twin_random(c, c->dtype, words, c->cols, 1), y = twin_random(c, c->dtype, c->rows, c->cols, 1);
    twin grad = twin_random(c, c->wide, words, c->cols, 1);
    twin_ids ids = ids_random(c->rows, 0, first + words + 2);
    cuda_both(c, "gather_rows", HOST(c, gather_rows, ids.host, first, table.host, y.host),
              GPU(c, gather_rows, ids.device, first, table.device, y.device));
    cuda_compare(c, "gather_rows", y, CUDA_SAME, 0);
    cuda_both(c, "scatter_rows", HOST(c, scatter_rows, ids.host, first, y.host, grad.host),
              GPU(c, scatter_rows, ids.device, first, y.device, grad.device));
    cuda_compare(c, "scatter_rows", grad, CUDA_SAME, 0);
}

static void check_picks(const cuda_case *c)
{
    const int64_t sources = 6;
    for (int way = 0; way < 3; way++) {
        twin x = twin_random(c, c->dtype, way == 2 ? c->rows : sources, c->cols, 1);
        twin y = twin_random(c, c->dtype, c->rows, c->cols, 1);
        twin weights = way > 0 ? twin_random(c, c->wide, c->rows, 1, 1) : twin_none();
        twin_ids rows = ids_random(c->rows, -1, sources);
        const int32_t *host_rows = way == 2 ? NULL : rows.host, *device_rows = way == 2 ? NULL : rows.device;
        cuda_both(c, "pick_rows", HOST(c, pick_rows, host_rows, weights.host, x.host, y.host),
                  GPU(c, pick_rows, device_rows, weights.device, x.device, y.device));
        cuda_compare(c, "pick_rows", y, CUDA_SAME, 0);
        twin sum = twin_random(c, way == 1 ? c->wide : c->dtype, sources, c->cols, 1);
        cuda_both(c, "add_rows", HOST(c, add_rows, rows.host, weights.host, y.host, sum.host),
                  GPU(c, add_rows, rows.device, weights.device, y.device, sum.device));
        /* f16 is rounded at each addition, its twin of f32 at the end. */
        cuda_compare(c, "add_rows", sum, c->dtype == KITH_F16 && way != 1 ? CUDA_NEAR : CUDA_SAME, 1e5);
    }
}

/* Enough rows that they are sorted in several blocks: few destinations, many, one for all, and none. */
static void check_many_rows(const cuda_case *c)
{
    static const int32_t destinations[] = { 3, 401, 1 };
    for (size_t i = 0; i < sizeof destinations / sizeof destinations[0]; i++) {
        const int64_t words = destinations[i];
        twin dy = twin_random(c, c->dtype, c->rows, c->cols, 1), grad = twin_random(c, c->wide, words, c->cols, 1);
        twin_ids ids = ids_random(c->rows, 0, words + 3);
        cuda_both(c, "scatter_rows", HOST(c, scatter_rows, ids.host, 2, dy.host, grad.host),
                  GPU(c, scatter_rows, ids.device, 2, dy.device, grad.device));
        cuda_compare(c, "scatter_rows", grad, CUDA_SAME, 0);
        twin_ids rows = ids_random(c->rows, words == 1 ? -1 : 0, words == 1 ? 0 : words);
        cuda_both(c, "add_rows", HOST(c, add_rows, rows.host, twin_none().host, dy.host, grad.host),
                  GPU(c, add_rows, rows.device, twin_none().device, dy.device, grad.device));
        cuda_compare(c, "add_rows", grad, CUDA_SAME, 0);
    }
}

static void check_dots(const cuda_case *c)
{
    twin a = twin_random(c, c->dtype, c->rows, c->cols, 1), b = twin_random(c, c->dtype, c->rows, c->cols, 1);
    twin dots = twin_zeros(c, c->wide, c->rows, 1);
    cuda_both(c, "row_dots", HOST(c, row_dots, a.host, b.host, dots.host),
              GPU(c, row_dots, a.device, b.device, dots.device));
    cuda_compare(c, "row_dots", dots, CUDA_SAME, 0);
}

static void check_top_k(const cuda_case *c)
{
    const int64_t k = c->cols < 3 ? c->cols : 3;
    twin x = twin_random(c, c->wide, c->rows, c->cols, 1), values = twin_zeros(c, c->wide, c->rows, k);
    twin_ids columns = ids_of(c->rows * k, NULL);
    if (c->rows > 2 && c->cols > 6) { /* ties, and a NaN */
        twin_set(x, 0, 2, 9), twin_set(x, 0, 5, 9), twin_set(x, 0, 1, 9);
        twin_set(x, 1, 6, NAN), twin_set(x, 1, 3, INFINITY);
    }
    cuda_both(c, "top_k", HOST(c, top_k, x.host, k, values.host, columns.host),
              GPU(c, top_k, x.device, k, values.device, columns.device));
    cuda_compare(c, "top_k", values, CUDA_SAME, 0);
    ids_same(c, "top_k columns", columns);
}

static void rows(void **state)
{
    (void)state;
    cuda_everywhere(check_embedding);
    cuda_everywhere(check_picks);
    cuda_shape(257, 8, 0, check_many_rows);
    cuda_shape(1500, 3, 1, check_many_rows);
    cuda_shape(1025, 16, 16, check_many_rows);
    cuda_everywhere(check_dots);
    cuda_everywhere(check_top_k);
}

/* ---- ids ---- */

static void check_same_ids(const cuda_case *c, twin_ids ids, int64_t limit, int32_t ignored)
{
    ki_ids_found wanted, got = { 77, 77, 77 };
    cuda_both(c, "check_ids", HOST(c, check_ids, ids.host, ids.count, limit, ignored, &wanted),
              GPU(c, check_ids, ids.device, ids.count, limit, ignored, &got));
    assert_int_equal(got.counted, wanted.counted);
    assert_int_equal(got.row, wanted.row);
    assert_int_equal(got.id, wanted.id);
}

static void check_ids(const cuda_case *c)
{
    check_same_ids(c, ids_random(0, 0, 5), 5, 0);
    check_same_ids(c, ids_random(3000, 0, 5), 5, 3);
    check_same_ids(c, ids_random(3000, -2, 5), 5, -1);
    check_same_ids(c, ids_random(1, 9, 10), 5, 0);
    twin_ids late = ids_random(2900, 0, 100);
    late.host[2899] = 100;
    check_same_ids(c, ids_of(late.count, late.host), 100, 0);
}

static void ids(void **state)
{
    (void)state;
    cuda_shape(1, 1, 0, check_ids);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(norms),
        cmocka_unit_test(losses),
        cmocka_unit_test(rows),
        cmocka_unit_test(ids),
    };
    return cmocka_run_group_tests(tests, cuda_setup, cuda_teardown);
}
