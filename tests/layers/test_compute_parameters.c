/* tests/layers/test_compute_parameters.c - initial weights, norm of gradients, AdamW, SGD.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "compute_help.h"

#include <math.h>

static const ki_mat none;

/* ---- normal ---- */

/* A part of a matrix has the numbers that the whole has at its place, whatever the block. */
static void check_parts(const test_case *c)
{
    const int64_t rows = c->rows + 3, cols = c->cols + 5;
    ki_mat whole = test_zeros(c->dtype, rows, cols), part = test_zeros(c->dtype, c->rows, c->cols);
    test_done(c, "normal", c->ops->normal(c->compute, 7, 3, 0, 0, cols, 0.02, whole));
    test_done(c, "normal", c->ops->normal(c->compute, 7, 3, 3, 5, cols, 0.02, part));
    for (int64_t r = 0; r < c->rows; r++)
        for (int64_t k = 0; k < c->cols; k++)
            test_near(c, "normal of a part", part, r, k, test_at(whole, r + 3, k + 5), 0, 0);
}

/* Mean, variance and kurtosis of 70000 numbers; seeds and sites differ; neighbours are not correlated. */
static void check_moments(const test_case *c)
{
    ki_mat y = test_zeros(c->dtype, c->rows, c->cols), other = test_zeros(c->dtype, c->rows, c->cols);
    double n = (double)(c->rows * c->cols), sums[5] = { 0 };
    test_done(c, "normal", c->ops->normal(c->compute, 1, 0, 0, 0, c->cols, 2, y));
    test_done(c, "normal", c->ops->normal(c->compute, 1, 1, 0, 0, c->cols, 2, other));
    for (int64_t r = 0; r < c->rows; r++)
        for (int64_t k = 0; k < c->cols; k++) {
            double z = test_at(y, r, k) / 2;
            sums[0] += z / n;
            sums[1] += z * z / n;
            sums[2] += z * z * z * z / n;
            sums[3] += z * test_at(other, r, k) / 2 / n;
            sums[4] += k > 0 ? z * test_at(y, r, k - 1) / 2 / n : 0;
        }
    static const double wanted[5] = { 0, 1, 3, 0, 0 }, deviations[5] = { 1, 1.42, 9.8, 1, 1 };
    for (int i = 0; i < 5; i++)
        if (fabs(sums[i] - wanted[i]) > 5 * deviations[i] / sqrt(n) + 1e-3 * (c->dtype == KITH_BF16))
            fail_msg("normal: moment %d: wanted %g, got %g", i, wanted[i], sums[i]);
}

/* ---- sums ---- */

static void check_sum_squares(const test_case *c)
{
    ki_mat x = test_random(c->dtype, c->rows, c->cols, 1);
    double sum = -1, wanted = 0;
    test_done(c, "sum_squares", c->ops->sum_squares(c->compute, x, &sum));
    for (int64_t r = 0; r < c->rows; r++)
        for (int64_t k = 0; k < c->cols; k++)
            wanted += test_at(x, r, k) * test_at(x, r, k);
    if (!(fabs(sum - wanted) <= 1e-13 * wanted))
        fail_msg("sum_squares: wanted %.17g, got %.17g", wanted, sum);
}

/* ---- optimizers ---- */

typedef struct step_data {
    ki_mat grad, m, v, weight, stored;
    ki_mat old_m, old_v, old_weight;
} step_data;

static step_data make(const test_case *c)
{
    step_data d = {
        .grad = test_random(c->wide, c->rows, c->cols, 1),
        .m = test_random(c->wide, c->rows, c->cols, 0.1),
        .v = test_random(c->wide, c->rows, c->cols, 0.1),
        .weight = test_random(c->wide, c->rows, c->cols, 1),
        .stored = test_random(c->dtype, c->rows, c->cols, 1),
    };
    for (int64_t r = 0; r < c->rows; r++)
        for (int64_t k = 0; k < c->cols; k++)
            test_set(d.v, r, k, fabs(test_at(d.v, r, k)));
    d.old_m = test_copy_of(d.m);
    d.old_v = test_copy_of(d.v);
    d.old_weight = test_copy_of(d.weight);
    return d;
}

static void check_adamw(const test_case *c)
{
    const ki_adamw how = { 1e-2, 0.9, 0.95, 1e-6, 0.1, 3, 0.5 };
    step_data d = make(c);
    test_done(c, "adamw", c->ops->adamw(c->compute, &how, d.grad, d.m, d.v, d.weight, d.stored));
    for (int64_t r = 0; r < c->rows; r++)
        for (int64_t k = 0; k < c->cols; k++) {
            double g = how.grad_scale * test_at(d.grad, r, k);
            double m = how.beta1 * test_at(d.old_m, r, k) + (1 - how.beta1) * g;
            double v = how.beta2 * test_at(d.old_v, r, k) + (1 - how.beta2) * g * g;
            double m_hat = m / (1 - pow(how.beta1, 3)), v_hat = v / (1 - pow(how.beta2, 3));
            double w = test_at(d.old_weight, r, k) * (1 - how.learning_rate * how.weight_decay);
            w -= how.learning_rate * m_hat / (sqrt(v_hat) + how.epsilon);
            test_near(c, "adamw m", d.m, r, k, m, 1, 4);
            test_near(c, "adamw v", d.v, r, k, v, 1, 4);
            test_near(c, "adamw weight", d.weight, r, k, w, 4, 8);
            test_near(c, "adamw stored", d.stored, r, k, test_at(d.weight, r, k), 0, 0);
        }
}

static void check_sgd(const test_case *c)
{
    step_data d = make(c);
    test_done(c, "sgd", c->ops->sgd(c->compute, 0.1, 0.9, 0.01, 2, d.grad, d.m, d.weight, d.stored));
    for (int64_t r = 0; r < c->rows; r++)
        for (int64_t k = 0; k < c->cols; k++) {
            double w = test_at(d.old_weight, r, k);
            double m = 0.9 * test_at(d.old_m, r, k) + 2 * test_at(d.grad, r, k) + 0.01 * w;
            test_near(c, "sgd m", d.m, r, k, m, 8, 4);
            test_near(c, "sgd weight", d.weight, r, k, w - 0.1 * m, 8, 4);
            test_near(c, "sgd stored", d.stored, r, k, test_at(d.weight, r, k), 0, 0);
        }
    d.old_weight = test_copy_of(d.weight);
    test_done(c, "sgd", c->ops->sgd(c->compute, 0.1, 0.9, 0.01, 2, d.grad, none, d.weight, none));
    for (int64_t r = 0; r < c->rows; r++)
        for (int64_t k = 0; k < c->cols; k++) {
            double w = test_at(d.old_weight, r, k);
            w -= 0.1 * (2 * test_at(d.grad, r, k) + 0.01 * w);
            test_near(c, "sgd without momentum", d.weight, r, k, w, 8, 4);
        }
}

/* The first step of f(w) = w^2 / 2 from 1: the bias corrections make it exactly
 * the rate. */
static void check_adamw_steps(const test_case *c)
{
    ki_adamw how = { 0.1, 0.9, 0.999, 0, 0, 1, 1 };
    ki_mat m = test_zeros(c->wide, 1, 1), v = test_zeros(c->wide, 1, 1), w = test_zeros(c->wide, 1, 1);
    test_set(w, 0, 0, 1);
    test_done(c, "adamw", c->ops->adamw(c->compute, &how, w, m, v, w, none));
    test_near(c, "the first step", w, 0, 0, 0.9, 1, 4);
    test_near(c, "m", m, 0, 0, 0.1, 1, 1);
    test_near(c, "v", v, 0, 0, 0.001, 1, 1);
}

static void test_normal(void **state)
{
    (void)state;
    test_everywhere(check_parts);
    test_shape(100, 700, check_moments);
}

static void test_sum_squares(void **state)
{
    (void)state;
    test_everywhere(check_sum_squares);
}

static void test_adamw(void **state)
{
    (void)state;
    test_everywhere(check_adamw);
    test_shape(1, 1, check_adamw_steps);
}

static void test_sgd(void **state)
{
    (void)state;
    test_everywhere(check_sgd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_normal),
        cmocka_unit_test(test_sum_squares),
        cmocka_unit_test(test_adamw),
        cmocka_unit_test(test_sgd),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
