/* tests/layers/test_compute_norm.c - LayerNorm and RMSNorm: values, statistics, gradients.
 *
 * Gradients are compared with the formula for f32 and bf16, and for f64 with finite differences of sum(dy * y), which
 * know nothing of the formula.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "compute_help.h"

#include <math.h>
#include <stdlib.h>

static const double epsilon = 1e-5;

/* One row in f64: mean (0 for RMSNorm), 1 / sqrt(spread + epsilon). */
typedef struct statistics {
    double mean, rstd;
} statistics;

static statistics row_statistics(ki_mat x, int64_t row, bool is_centered)
{
    long double n = (long double)x.cols, mean = 0, spread = 0; /* better than what they judge */
    for (int64_t k = 0; k < x.cols && is_centered; k++)
        mean += test_at(x, row, k) / n;
    for (int64_t k = 0; k < x.cols; k++)
        spread += (test_at(x, row, k) - mean) * (test_at(x, row, k) - mean) / n;
    return (statistics){ (double)mean, (double)(1 / sqrtl(spread + (long double)epsilon)) };
}

typedef struct norm_data {
    ki_mat x, weight, bias, y, mean, rstd, dy, dx, weight_grad, bias_grad;
} norm_data;

static norm_data make(const test_case *c)
{
    return (norm_data){
        .x = test_random(c->dtype, c->rows, c->cols, 2),
        .weight = test_random(c->dtype, 1, c->cols, 1),
        .bias = test_random(c->dtype, 1, c->cols, 1),
        .y = test_zeros(c->dtype, c->rows, c->cols),
        .mean = test_zeros(c->wide, c->rows, 1),
        .rstd = test_zeros(c->wide, c->rows, 1),
        .dy = test_random(c->dtype, c->rows, c->cols, 1),
        .dx = test_zeros(c->dtype, c->rows, c->cols),
        .weight_grad = test_random(c->wide, 1, c->cols, 1),
        .bias_grad = test_random(c->wide, 1, c->cols, 1),
    };
}

static kith_status forward(const test_case *c, const norm_data *d, bool is_centered)
{
    if (is_centered)
        return c->ops->layer_norm(c->compute, epsilon, d->x, d->weight, d->bias, d->y, d->mean, d->rstd);
    return c->ops->rms_norm(c->compute, epsilon, d->x, d->weight, d->y, d->rstd);
}

static kith_status backward(const test_case *c, const norm_data *d, bool is_centered, ki_mat dx)
{
    if (is_centered)
        return c->ops->layer_norm_grad(c->compute, d->x, d->weight, d->mean, d->rstd, d->dy, dx, d->weight_grad,
                                       d->bias_grad);
    return c->ops->rms_norm_grad(c->compute, d->x, d->weight, d->rstd, d->dy, dx, d->weight_grad);
}

static void check_values(const test_case *c, const norm_data *d, bool is_centered)
{
    for (int64_t r = 0; r < c->rows && c->cols > 0; r++) {
        statistics s = row_statistics(d->x, r, is_centered);
        if (is_centered)
            test_near(c, "mean", d->mean, r, 0, s.mean, 4, 8);
        /* rows of one column have nothing but epsilon under the root */
        test_near(c, "rstd", d->rstd, r, 0, s.rstd, s.rstd * (1 + s.rstd), 32);
        for (int64_t k = 0; k < c->cols; k++) {
            double w = test_at(d->weight, 0, k), xhat = (test_at(d->x, r, k) - s.mean) * s.rstd;
            double wanted = xhat * w + (is_centered ? test_at(d->bias, 0, k) : 0);
            test_near(c, "norm", d->y, r, k, wanted, (1 + fabs(w)) * (1 + fabs(xhat)) * (1 + s.rstd), 32);
        }
    }
}

static void check_row_grad(const test_case *c, const norm_data *d, bool is_centered, int64_t r)
{
    statistics s = row_statistics(d->x, r, is_centered);
    long double n = (long double)c->cols, g_mean = 0, g_xhat_mean = 0;
    for (int64_t k = 0; k < c->cols; k++) {
        double g = test_at(d->dy, r, k) * test_at(d->weight, 0, k);
        g_mean += is_centered ? g / n : 0;
        g_xhat_mean += g * (test_at(d->x, r, k) - s.mean) * s.rstd / n;
    }
    for (int64_t k = 0; k < c->cols; k++) {
        double g = test_at(d->dy, r, k) * test_at(d->weight, 0, k), xhat = (test_at(d->x, r, k) - s.mean) * s.rstd;
        double wanted = s.rstd * (g - (double)g_mean - xhat * (double)g_xhat_mean);
        test_near(c, "dx", d->dx, r, k, wanted, s.rstd * (4 + fabs(g)) * (1 + fabs(xhat)) * (1 + s.rstd), 32);
    }
}

static void check_parameter_grads(const test_case *c, const norm_data *d, const norm_data *before, bool is_centered)
{
    for (int64_t k = 0; k < c->cols; k++) {
        double weight = test_at(before->weight_grad, 0, k), bias = test_at(before->bias_grad, 0, k), size = 2;
        for (int64_t r = 0; r < c->rows; r++) {
            statistics s = row_statistics(d->x, r, is_centered);
            double dy = test_at(d->dy, r, k), xhat = (test_at(d->x, r, k) - s.mean) * s.rstd;
            weight += dy * xhat;
            bias += is_centered ? dy : 0;
            size += fabs(dy) * (1 + fabs(xhat)) * (1 + s.rstd);
        }
        test_near(c, "weight_grad", d->weight_grad, 0, k, weight, size, 32);
        test_near(c, "bias_grad", d->bias_grad, 0, k, bias, size, 32);
    }
}

static void check_norm(const test_case *c, bool is_centered)
{
    norm_data d = make(c), before = d;
    before.weight_grad = test_copy_of(d.weight_grad);
    before.bias_grad = test_copy_of(d.bias_grad);
    test_done(c, "norm", forward(c, &d, is_centered));
    test_done(c, "norm gradient", backward(c, &d, is_centered, d.dx));
    check_values(c, &d, is_centered);
    for (int64_t r = 0; r < c->rows; r++)
        check_row_grad(c, &d, is_centered, r);
    if (c->rows * c->cols < 2000) /* the reference takes every row for every column */
        check_parameter_grads(c, &d, &before, is_centered);
    test_done(c, "norm gradient", backward(c, &d, is_centered, d.dy));
    test_same(c, "norm gradient in place", d.dx, d.dy);
}

static void check_layer_norm(const test_case *c)
{
    check_norm(c, true);
}

static void check_rms_norm(const test_case *c)
{
    check_norm(c, false);
}

/* sum(dy * y) */
static double product(const test_case *c, const norm_data *d, bool is_centered)
{
    double sum = 0;
    test_done(c, "norm", forward(c, d, is_centered));
    for (int64_t r = 0; r < c->rows; r++)
        for (int64_t k = 0; k < c->cols; k++)
            sum += test_at(d->dy, r, k) * test_at(d->y, r, k);
    return sum;
}

static double difference(const test_case *c, const norm_data *d, bool is_centered, ki_mat of, int64_t row, int64_t col)
{
    const double h = 1e-5, at = test_at(of, row, col);
    test_set(of, row, col, at + h);
    double above = product(c, d, is_centered);
    test_set(of, row, col, at - h);
    double below = product(c, d, is_centered);
    test_set(of, row, col, at);
    return (above - below) / (2 * h);
}

static void check_differences(const test_case *c)
{
    if (c->dtype != KITH_F64)
        return;
    for (int is_centered = 0; is_centered <= 1; is_centered++) {
        norm_data d = make(c);
        (void)c->ops->fill(c->compute, d.weight_grad, 0);
        (void)c->ops->fill(c->compute, d.bias_grad, 0);
        test_done(c, "norm", forward(c, &d, is_centered));
        test_done(c, "norm gradient", backward(c, &d, is_centered, d.dx));
        const double units = 1e-8 / 0x1p-53;
        for (int64_t k = 0; k < c->cols; k++) {
            for (int64_t r = 0; r < c->rows; r++)
                test_near(c, "dx by differences", d.dx, r, k, difference(c, &d, is_centered, d.x, r, k), 1, units);
            test_near(c, "weight_grad by differences", d.weight_grad, 0, k,
                      difference(c, &d, is_centered, d.weight, 0, k), 1, units);
            if (is_centered)
                test_near(c, "bias_grad by differences", d.bias_grad, 0, k,
                          difference(c, &d, is_centered, d.bias, 0, k), 1, units);
        }
    }
}

/* A row far from zero: the variance of x + 1000 is that of x. Squares minus squares would lose it in f32. */
static void check_offset(const test_case *c)
{
    if (c->dtype == KITH_BF16 || c->dtype == KITH_F16)
        return;
    norm_data d = make(c);
    for (int64_t k = 0; k < c->cols; k++)
        test_set(d.x, 0, k, 1000 + (double)(k % 2));
    test_done(c, "layer_norm", c->ops->layer_norm(c->compute, 0, d.x, d.weight, d.bias, d.y, d.mean, d.rstd));
    test_near(c, "rstd of an alternating row", d.rstd, 0, 0, 2, 2, 64);
    test_near(c, "mean of an alternating row", d.mean, 0, 0, 1000.5, 1000, 2);
}

static void check_nan(const test_case *c)
{
    norm_data d = make(c);
    test_set(d.x, 1, 2, NAN);
    test_done(c, "layer_norm", forward(c, &d, true));
    for (int64_t k = 0; k < c->cols; k++) {
        test_near(c, "row with NaN", d.y, 1, k, NAN, 0, 0);
        assert_false(isnan(test_at(d.y, 0, k)) || isnan(test_at(d.y, 2, k)));
    }
}

/* A row's result does not depend on how many rows there are, nor on where they start. */
static void check_rows_alone(const test_case *c)
{
    norm_data d = make(c), alone = make(c);
    test_done(c, "layer_norm", forward(c, &d, true));
    for (int64_t r = 0; r < c->rows; r++) {
        ki_mat x = d.x, y = alone.y, mean = alone.mean, rstd = alone.rstd;
        size_t nbytes = kith_dtype_nbytes(c->dtype), wide = kith_dtype_nbytes(c->wide);
        x.rows = y.rows = mean.rows = rstd.rows = 1;
        x.data = (char *)x.data + (size_t)(r * x.stride) * nbytes;
        y.data = (char *)y.data + (size_t)(r * y.stride) * nbytes;
        mean.data = (char *)mean.data + (size_t)(r * mean.stride) * wide;
        rstd.data = (char *)rstd.data + (size_t)(r * rstd.stride) * wide;
        test_done(c, "layer_norm", c->ops->layer_norm(c->compute, epsilon, x, d.weight, d.bias, y, mean, rstd));
    }
    test_same(c, "rows one by one", d.y, alone.y);
    test_same(c, "statistics one by one", d.rstd, alone.rstd);
}

static void test_layer_norm(void **state)
{
    (void)state;
    test_everywhere(check_layer_norm);
}

static void test_rms_norm(void **state)
{
    (void)state;
    test_everywhere(check_rms_norm);
}

static void test_differences(void **state)
{
    (void)state;
    test_shape(3, 17, check_differences);
}

static void test_extremes(void **state)
{
    (void)state;
    test_shape(1, 1000, check_offset);
    test_shape(3, 33, check_nan);
    test_shape(5, 600, check_rows_alone);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layer_norm),
        cmocka_unit_test(test_rms_norm),
        cmocka_unit_test(test_differences),
        cmocka_unit_test(test_extremes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
