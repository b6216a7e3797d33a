/* tests/layers/test_compute_loss.c - the pieces of cross entropy over a split vocabulary, and softmax.
 *
 * The reference is the loss of whole rows in f64. Here the vocabulary is split between two matrices and what ranks
 * would reduce is combined by hand, so that a part that thinks itself whole is found.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "compute_help.h"

#include <math.h>
#include <string.h>

enum { IGNORED = -100, PARTS_MOST = 4 };

/* A vocabulary in parts. */
typedef struct loss_data {
    int parts;
    ki_mat logits[PARTS_MOST], dlogits[PARTS_MOST], max, sums, losses;
    int64_t first[PARTS_MOST], vocabulary;
    int32_t *targets;
    double smoothing;
} loss_data;

static double logit_at(const loss_data *d, int64_t row, int64_t col)
{
    int p = 0;
    while (p + 1 < d->parts && col >= d->first[p + 1])
        p++;
    return test_at(d->logits[p], row, col - d->first[p]);
}

/* max and sums as after all_reduce: MAX, then SUM. */
static void reduce(const test_case *c, loss_data *d)
{
    d->max = test_zeros(c->wide, c->rows, 1);
    d->sums = test_zeros(c->wide, c->rows, 3);
    for (int64_t r = 0; r < c->rows; r++)
        test_set(d->max, r, 0, -INFINITY);
    for (int p = 0; p < d->parts; p++) {
        ki_mat max = test_zeros(c->wide, c->rows, 1);
        test_done(c, "row_max", c->ops->row_max(c->compute, d->logits[p], max));
        for (int64_t r = 0; r < c->rows; r++) {
            double a = test_at(d->max, r, 0), b = test_at(max, r, 0);
            test_set(d->max, r, 0, isnan(a) || isnan(b) ? NAN : fmax(a, b));
        }
    }
    for (int p = 0; p < d->parts; p++) {
        ki_mat sums = test_random(c->wide, c->rows, 3, 1);
        test_done(c, "loss_sums", c->ops->loss_sums(c->compute, d->logits[p], d->targets, d->first[p], d->max, sums));
        test_done(c, "add", c->ops->add(c->compute, 1, sums, d->sums));
    }
}

static void run(const test_case *c, loss_data *d, double scale)
{
    reduce(c, d);
    d->losses = test_zeros(c->wide, c->rows, 1);
    test_done(c, "losses",
              c->ops->losses(c->compute, d->sums, d->targets, IGNORED, d->smoothing, d->vocabulary, d->losses));
    for (int p = 0; p < d->parts; p++) {
        d->dlogits[p] = test_zeros(c->dtype, d->logits[p].rows, d->logits[p].cols);
        test_done(c, "loss_grad",
                  c->ops->loss_grad(c->compute, d->logits[p], d->targets, d->first[p], IGNORED, d->smoothing,
                                    d->vocabulary, scale, d->max, d->sums, d->dlogits[p]));
    }
}

/* The vocabulary of c->cols in two unequal parts. */
static loss_data split(const test_case *c, double deviation, double smoothing)
{
    loss_data d = { .parts = 2, .vocabulary = c->cols, .smoothing = smoothing };
    int64_t left = c->cols / 3;
    d.logits[0] = test_random(c->dtype, c->rows, left, deviation);
    d.logits[1] = test_random(c->dtype, c->rows, c->cols - left, deviation);
    d.first[1] = left;
    d.targets = (int32_t *)test_memory((size_t)c->rows * sizeof(int32_t));
    for (int64_t r = 0; r < c->rows; r++)
        d.targets[r] = r % 4 == 3 ? IGNORED : (int32_t)(test_word() % (uint32_t)(c->cols + 1)); /* cols may be 0 */
    for (int64_t r = 0; r < c->rows; r++)
        d.targets[r] = d.targets[r] == c->cols ? 0 : d.targets[r];
    return d;
}

/* log of the sum of exp(logit - top), and top. */
static double log_sum(const test_case *c, const loss_data *d, int64_t row, double *top)
{
    long double sum = 0; /* the reference must be better than what it judges */
    *top = -INFINITY;
    for (int64_t k = 0; k < c->cols; k++)
        *top = fmax(*top, logit_at(d, row, k));
    for (int64_t k = 0; k < c->cols; k++)
        sum += (long double)exp(logit_at(d, row, k) - *top);
    return (double)logl(sum);
}

static void check_row(const test_case *c, const loss_data *d, int64_t r, double scale)
{
    double top, log_of_sum = log_sum(c, d, r, &top), n = (double)c->cols, wanted = 0, size = 1 + log_of_sum;
    bool is_ignored = d->targets[r] == IGNORED;
    for (int64_t k = 0; k < c->cols && !is_ignored; k++) {
        double share = (k == d->targets[r] ? 1 - d->smoothing : 0) + d->smoothing / n;
        if (share == 0) /* 0 times -infinity is no part of a loss */
            continue;
        wanted -= share * (logit_at(d, r, k) - top - log_of_sum);
        size += share * fabs(logit_at(d, r, k) - top);
    }
    test_near(c, "loss", d->losses, r, 0, wanted, size, 32);
    for (int p = 0; p < d->parts; p++)
        for (int64_t k = 0; k < d->logits[p].cols; k++) {
            double probability = exp(test_at(d->logits[p], r, k) - top - log_of_sum);
            double share = (k + d->first[p] == d->targets[r] ? 1 - d->smoothing : 0) + d->smoothing / n;
            test_near(c, "dlogits", d->dlogits[p], r, k, is_ignored ? 0 : scale * (probability - share), 1,
                      32 * (1 + fabs(top)));
        }
}

static void check_loss(const test_case *c)
{
    for (int i = 0; i < 2; i++) {
        loss_data d = split(c, 2, i * 0.1);
        if (c->cols == 0)
            continue;
        run(c, &d, 0.25);
        for (int64_t r = 0; r < c->rows; r++)
            check_row(c, &d, r, 0.25);
    }
}

/* Logits of a thousand times the size stay finite, in place gives the same bits. */
static void check_large(const test_case *c)
{
    loss_data d = split(c, 2000, 0.1);
    run(c, &d, 1);
    for (int64_t r = 0; r < c->rows; r++)
        check_row(c, &d, r, 1);
    test_done(c, "loss_grad",
              c->ops->loss_grad(c->compute, d.logits[1], d.targets, d.first[1], IGNORED, d.smoothing, d.vocabulary, 1,
                                d.max, d.sums, d.logits[1]));
    test_same(c, "loss_grad in place", d.logits[1], d.dlogits[1]);
}

/* -infinity is a probability of 0; NaN spoils its own row; a part without columns is fine. */
static void check_special(const test_case *c)
{
    loss_data d = split(c, 1, 0);
    d.targets[0] = 1;
    d.targets[1] = d.targets[2] = 0;
    test_set(d.logits[1], 0, 0, -INFINITY);
    test_set(d.logits[1], 1, 3, NAN);
    run(c, &d, 1);
    check_row(c, &d, 0, 1);
    check_row(c, &d, 2, 1);
    test_near(c, "dlogits at -infinity", d.dlogits[1], 0, 0, 0, 0, 0);
    test_near(c, "max of a row with NaN", d.max, 1, 0, NAN, 0, 0);
    test_near(c, "loss of a row with NaN", d.losses, 1, 0, NAN, 0, 0);
    test_near(c, "dlogits of a row with NaN", d.dlogits[0], 1, 0, NAN, 0, 0);
    ki_mat nothing = test_zeros(c->dtype, c->rows, 0), max = test_zeros(c->wide, c->rows, 1);
    ki_mat sums = test_random(c->wide, c->rows, 3, 1);
    test_done(c, "row_max", c->ops->row_max(c->compute, nothing, max));
    test_near(c, "max of nothing", max, 0, 0, -INFINITY, 0, 0);
    test_done(c, "loss_sums", c->ops->loss_sums(c->compute, nothing, d.targets, 5, d.max, sums));
    for (int64_t i = 0; i < 3; i++)
        test_near(c, "sums of nothing", sums, 0, i, 0, 0, 0);
}

/* ---- figures from elsewhere ---- */

static loss_data golden(const test_case *c, int parts, int64_t cols, double smoothing)
{
    loss_data d = { .parts = parts, .vocabulary = parts * cols, .smoothing = smoothing };
    for (int p = 0; p < parts; p++) {
        d.logits[p] = test_zeros(c->dtype, c->rows, cols);
        d.first[p] = p * cols;
    }
    d.targets = (int32_t *)test_memory((size_t)c->rows * sizeof(int32_t));
    return d;
}

static void expect(const char *what, double got, double wanted, double tolerance)
{
    if (!(fabs(got - wanted) <= tolerance))
        fail_msg("%s: wanted %.9g, got %.9g", what, wanted, got);
}

/* Four parts of 32 logits 0 .. 7 again and again, target 2 i: the losses of Megatron-LM's test. */
static void check_megatron(const test_case *c)
{
    static const double wanted[4] = { 10.2309, 8.2309, 6.2309, 4.2309 };
    loss_data d = golden(c, 4, 32, 0);
    for (int64_t r = 0; r < c->rows; r++)
        d.targets[r] = (int32_t)(2 * r);
    for (int p = 0; p < 4; p++)
        for (int64_t r = 0; r < c->rows; r++)
            for (int64_t k = 0; k < 32; k++)
                test_set(d.logits[p], r, k, (double)(k % 8));
    run(c, &d, 1);
    double all = 0;
    for (int i = 0; i < 8; i++)
        all += exp(i);
    for (int64_t r = 0; r < c->rows; r++) {
        expect("cross entropy", test_at(d.losses, r, 0), wanted[r % 4], 5e-5);
        expect("cross entropy", test_at(d.losses, r, 0), log(16 * all) - (double)(2 * r % 8), 1e-5);
    }
}

/* Logits 0 .. 7 in two parts, target 3. PyTorch's smoothing gives a tenth to all eight, Megatron-LM's to the seven
 * others, which is PyTorch's with 0.1 * 8 / 7. Smoothing over a part alone gives 4.66 or 4.13. */
static void check_smoothing(const test_case *c)
{
    static const double smoothings[2] = { 0.1, 0.1 * 8 / 7 }, wanted[2] = { 4.408340, 4.401197 };
    for (int i = 0; i < 2; i++) {
        loss_data d = golden(c, 2, 4, smoothings[i]);
        d.targets[0] = 3;
        for (int64_t k = 0; k < 8; k++)
            test_set(d.logits[k / 4], 0, k % 4, (double)k);
        run(c, &d, 1);
        expect("smoothed cross entropy", test_at(d.losses, 0, 0), wanted[i], 2e-6);
    }
}

/* Four logits 0 in two parts, target 0: a part without the target has a gradient too. */
static void check_other_part(const test_case *c)
{
    loss_data d = golden(c, 2, 2, 0);
    run(c, &d, 1);
    expect("dlogits of the target", test_at(d.dlogits[0], 0, 0), -0.75, 0);
    expect("dlogits beside it", test_at(d.dlogits[0], 0, 1), 0.25, 0);
    expect("dlogits of the other part", test_at(d.dlogits[1], 0, 0), 0.25, 0);
    expect("dlogits of the other part", test_at(d.dlogits[1], 0, 1), 0.25, 0);
}

/* ---- softmax ---- */

static void check_softmax(const test_case *c)
{
    ki_mat x = test_random(c->dtype, c->rows, c->cols, 3), y = test_zeros(c->wide, c->rows, c->cols);
    ki_mat dy = test_random(c->wide, c->rows, c->cols, 1), dx = test_zeros(c->dtype, c->rows, c->cols);
    ki_mat wide_dx = test_zeros(c->wide, c->rows, c->cols);
    test_done(c, "softmax", c->ops->softmax(c->compute, x, y));
    test_done(c, "softmax_grad", c->ops->softmax_grad(c->compute, y, dy, dx));
    test_done(c, "softmax_grad", c->ops->softmax_grad(c->compute, y, dy, wide_dx));
    for (int64_t r = 0; r < c->rows; r++) {
        double top = -INFINITY, sum, size = 1;
        long double exact = 0, dot = 0;
        for (int64_t k = 0; k < c->cols; k++)
            top = fmax(top, test_at(x, r, k));
        for (int64_t k = 0; k < c->cols; k++)
            exact += (long double)exp(test_at(x, r, k) - top);
        sum = (double)exact;
        for (int64_t k = 0; k < c->cols; k++) {
            dot += (long double)test_at(dy, r, k) * (long double)exp(test_at(x, r, k) - top) / exact;
            size += fabs(test_at(dy, r, k)) * exp(test_at(x, r, k) - top) / sum;
        }
        for (int64_t k = 0; k < c->cols; k++) {
            double p = exp(test_at(x, r, k) - top) / sum, d = p * (test_at(dy, r, k) - (double)dot);
            test_near(c, "softmax", y, r, k, p, p * (1 + fabs(top - test_at(x, r, k))), 16);
            test_near(c, "softmax_grad", dx, r, k, d, p * (size + fabs(test_at(dy, r, k))) * 8, 16);
            test_near(c, "softmax_grad as A", wide_dx, r, k, d, p * (size + fabs(test_at(dy, r, k))) * 8, 16);
        }
    }
}

static void test_loss(void **state)
{
    (void)state;
    test_everywhere(check_loss);
}

static void test_extremes(void **state)
{
    (void)state;
    test_shape(5, 700, check_large);
    test_shape(3, 33, check_special);
}

static void test_golden(void **state)
{
    (void)state;
    test_shape(16, 128, check_megatron);
    test_shape(1, 8, check_smoothing);
    test_shape(1, 4, check_other_part);
}

static void test_softmax(void **state)
{
    (void)state;
    test_everywhere(check_softmax);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_loss),
        cmocka_unit_test(test_extremes),
        cmocka_unit_test(test_golden),
        cmocka_unit_test(test_softmax),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
