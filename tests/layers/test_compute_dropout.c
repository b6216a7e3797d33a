/* tests/layers/test_compute_dropout.c - the generator, and masks exactly by the documented rule.
 *
 * Known answers are Random123's (kat_vectors, philox4x32 10); where its header is installed, random counters are
 * compared with it too. The reference of masks asks the generator for each element by itself.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "compute_help.h"
#include "layers/compute/philox.h"

#include <math.h>
#include <string.h>

#ifdef KITH_HAVE_RANDOM123
#include <Random123/philox.h>
#endif

static const ki_mat none;

static void expect_words(const uint32_t counter[4], const uint32_t key[2], const uint32_t wanted[4])
{
    ki_philox_key k = ki_philox_key_of((uint64_t)key[1] << 32 | key[0]);
    uint32_t got[4];
    memcpy(got, counter, sizeof got);
    ki_philox(k, &got[0], &got[1], &got[2], &got[3]);
    for (int i = 0; i < 4; i++)
        if (got[i] != wanted[i])
            fail_msg("philox(%08x %08x %08x %08x, %08x %08x): word %d: wanted %08x, got %08x", counter[0], counter[1],
                     counter[2], counter[3], key[0], key[1], i, wanted[i], got[i]);
}

static void test_known_answers(void **state)
{
    static const uint32_t rows[3][10] = {
        { 0, 0, 0, 0, 0, 0, 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8 },
        { 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff, 0x408f276d, 0x41c83b0e, 0xa20bc7c6,
          0x6d5451fd },
        { 0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344, 0xa4093822, 0x299f31d0, 0xd16cfe09, 0x94fdcceb, 0x5001e420,
          0x24126ea1 },
    };
    (void)state;
    for (int i = 0; i < 3; i++)
        expect_words(rows[i], rows[i] + 4, rows[i] + 6);
}

static void test_random123(void **state)
{
    (void)state;
#ifdef KITH_HAVE_RANDOM123
    for (int i = 0; i < 10000; i++) {
        uint32_t words[6];
        for (int j = 0; j < 6; j++)
            words[j] = test_word();
        philox4x32_ctr_t counter = { { words[0], words[1], words[2], words[3] } };
        philox4x32_key_t key = { { words[4], words[5] } };
        philox4x32_ctr_t wanted = philox4x32(counter, key);
        expect_words(words, words + 4, wanted.v);
    }
#else
    print_message("skipped: built without Random123\n");
    skip();
#endif
}

static void test_row_of_words(void **state)
{
    uint32_t words[4 * 37];
    ki_philox_key key = ki_philox_key_of(UINT64_C(0x0123456789abcdef));
    (void)state;
    ki_philox_row(key, UINT32_MAX - 5, 2, 3, 4, 37, words); /* the counter goes round */
    for (uint32_t i = 0; i < 37; i++) {
        uint32_t w[4] = { UINT32_MAX - 5 + i, 2, 3, 4 };
        ki_philox(key, &w[0], &w[1], &w[2], &w[3]);
        assert_memory_equal(w, words + 4 * i, sizeof w);
    }
}

/* ---- masks ---- */

static bool is_kept(const ki_dropout *d, int64_t row, int64_t col)
{
    uint32_t feature = d->first_feature + (uint32_t)col;
    uint32_t w[4] = { feature / 4, d->first_position + (uint32_t)(row / d->batch),
                      d->first_sample + (uint32_t)(row % d->batch), d->site };
    ki_philox(ki_philox_key_of(d->seed), &w[0], &w[1], &w[2], &w[3]);
    return (double)w[feature % 4] >= nearbyint(d->probability * 4294967296.0);
}

static const ki_dropout plain = { .probability = 0.3,
                                  .seed = UINT64_C(0x123456789abcdef0),
                                  .site = 5,
                                  .first_sample = 10,
                                  .batch = 3,
                                  .first_position = 100,
                                  .first_feature = 6 };

static void check_dropout(const test_case *c)
{
    ki_mat x = test_random(c->dtype, c->rows, c->cols, 1), bias = test_random(c->dtype, 1, c->cols, 1);
    ki_mat residual = test_random(c->dtype, c->rows, c->cols, 1), y = test_zeros(c->dtype, c->rows, c->cols);
    ki_mat dx = test_zeros(c->dtype, c->rows, c->cols);
    test_done(c, "dropout_add", c->ops->dropout_add(c->compute, &plain, x, bias, residual, y));
    test_done(c, "dropout_grad", c->ops->dropout_grad(c->compute, &plain, x, dx));
    for (int64_t r = 0; r < c->rows; r++)
        for (int64_t k = 0; k < c->cols; k++) {
            double factor = is_kept(&plain, r, k) ? 1 / 0.7 : 0;
            double value = (test_at(x, r, k) + test_at(bias, 0, k)) * factor + test_at(residual, r, k);
            test_near(c, "dropout_add", y, r, k, value, 12, 2);
            test_near(c, "dropout_grad", dx, r, k, test_at(x, r, k) * factor, 8, 2);
        }
}

/* y may be x or the residual, dx may be dy. */
static void check_in_place(const test_case *c)
{
    ki_mat x = test_random(c->dtype, c->rows, c->cols, 1), residual = test_random(c->dtype, c->rows, c->cols, 1);
    ki_mat y = test_zeros(c->dtype, c->rows, c->cols), copy = test_copy_of(x), residual_copy = test_copy_of(residual);
    test_done(c, "dropout_add", c->ops->dropout_add(c->compute, &plain, x, none, residual, y));
    test_done(c, "dropout_add", c->ops->dropout_add(c->compute, &plain, x, none, residual_copy, residual_copy));
    test_same(c, "dropout_add in its residual", y, residual_copy);
    test_done(c, "dropout_add", c->ops->dropout_add(c->compute, &plain, copy, none, residual, copy));
    test_same(c, "dropout_add in place", y, copy);
    test_done(c, "dropout_grad", c->ops->dropout_grad(c->compute, &plain, x, y));
    test_done(c, "dropout_grad", c->ops->dropout_grad(c->compute, &plain, x, x));
    test_same(c, "dropout_grad in place", y, x);
}

/* What one rank has of a matrix gets the mask that the whole has there: columns from 5, positions from 2. */
static void check_parts(const test_case *c)
{
    const int64_t rows = c->rows + 2 * plain.batch, cols = c->cols + 5;
    ki_mat ones = test_zeros(c->dtype, rows, cols), whole = test_zeros(c->dtype, rows, cols), part = ones;
    ki_mat y = test_zeros(c->dtype, c->rows, c->cols);
    ki_dropout moved = plain;
    (void)c->ops->fill(c->compute, ones, 1);
    part.rows = c->rows;
    part.cols = c->cols;
    moved.first_feature += 5;
    moved.first_position += 2;
    test_done(c, "dropout_add", c->ops->dropout_add(c->compute, &plain, ones, none, none, whole));
    test_done(c, "dropout_add", c->ops->dropout_add(c->compute, &moved, part, none, none, y));
    for (int64_t r = 0; r < c->rows; r++)
        for (int64_t k = 0; k < c->cols; k++)
            test_near(c, "mask of a part", y, r, k, test_at(whole, r + 2 * plain.batch, k + 5), 0, 0);
}

/* Off: an addition, a copy. Nearly 1: nothing is kept. What is dropped is 0 also when it is NaN. */
static void check_limits(const test_case *c)
{
    ki_mat x = test_random(c->dtype, c->rows, c->cols, 1), residual = test_random(c->dtype, c->rows, c->cols, 1);
    ki_mat y = test_zeros(c->dtype, c->rows, c->cols);
    ki_dropout off = plain, all = plain;
    off.probability = 0;
    all.probability = 1 - 0x1p-40;
    test_done(c, "dropout_add", c->ops->dropout_add(c->compute, &off, x, none, none, y));
    test_same(c, "dropout_add without dropout", x, y);
    test_done(c, "dropout_add", c->ops->dropout_add(c->compute, &off, x, none, residual, y));
    for (int64_t k = 0; k < c->cols; k++)
        test_near(c, "dropout_add as addition", y, 0, k, test_at(x, 0, k) + test_at(residual, 0, k), 8, 1);
    (void)c->ops->fill(c->compute, x, NAN);
    test_done(c, "dropout_add", c->ops->dropout_add(c->compute, &all, x, none, residual, y));
    test_same(c, "dropout_add of all", residual, y);
}

/* The share that is kept is the one that was asked for. */
static void check_share(const test_case *c)
{
    ki_mat x = test_zeros(c->dtype, c->rows, c->cols);
    double sum, n = (double)(c->rows * c->cols);
    (void)c->ops->fill(c->compute, x, 1);
    test_done(c, "dropout_add", c->ops->dropout_add(c->compute, &plain, x, none, none, x));
    test_done(c, "sum_squares", c->ops->sum_squares(c->compute, x, &sum));
    double kept = sum * 0.7 * 0.7 / n;
    if (fabs(kept - 0.7) > 5 * sqrt(0.21 / n) + 0.01 * (c->dtype == KITH_BF16))
        fail_msg("dropout of 0.3 keeps %g", kept);
}

static void test_masks(void **state)
{
    (void)state;
    test_everywhere(check_dropout);
    test_everywhere(check_parts);
}

static void test_in_place(void **state)
{
    (void)state;
    test_everywhere(check_in_place);
}

static void test_limits(void **state)
{
    (void)state;
    test_shape(1, 700, check_limits);
    test_shape(200, 700, check_share);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_known_answers), cmocka_unit_test(test_random123), cmocka_unit_test(test_row_of_words),
        cmocka_unit_test(test_masks),         cmocka_unit_test(test_in_place),  cmocka_unit_test(test_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
