/* tests/layers/optim/test_rate.c - learning rates and loss scales by hand.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <kith/optim.h>
#include <math.h>

static void near(double got, double wanted)
{
    if (!(fabs(got - wanted) <= 1e-15))
        fail_msg("the rate is %.17g, wanted %.17g", got, wanted);
}

static void test_warm_up(void **state)
{
    (void)state;
    for (int kind = 0; kind < 3; kind++) {
        kith_rate rate = { (kith_rate_kind)kind, 0.8, 0.1, 4, 12 };
        near(kith_rate_at(&rate, 0), 0.2);
        near(kith_rate_at(&rate, 2), 0.6);
        near(kith_rate_at(&rate, 3), 0.8);
        near(kith_rate_at(&rate, 4), 0.8);
    }
}

static void test_way_down(void **state)
{
    (void)state;
    kith_rate rate = { KITH_RATE_LINEAR, 0.8, 0.1, 4, 12 };
    near(kith_rate_at(&rate, 6), 0.8 - 0.7 / 4);
    near(kith_rate_at(&rate, 12), 0.1);
    near(kith_rate_at(&rate, INT64_MAX), 0.1);
    rate.kind = KITH_RATE_COSINE;
    near(kith_rate_at(&rate, 8), 0.45); // half way
    near(kith_rate_at(&rate, 6), 0.1 + 0.35 * (1 + sqrt(0.5)));
    near(kith_rate_at(&rate, 11), 0.1 + 0.35 * (1 + cos(3.14159265358979323846 * 7 / 8)));
    near(kith_rate_at(&rate, 12), 0.1);
    near(kith_rate_at(&rate, 13), 0.1);
    rate.kind = KITH_RATE_CONSTANT;
    near(kith_rate_at(&rate, 1000), 0.8);
}

/* No warm-up; no way down; a warm-up that is longer than the training. */
static void test_edges(void **state)
{
    (void)state;
    kith_rate rate = { KITH_RATE_COSINE, 1, 0.5, 0, 4 };
    near(kith_rate_at(&rate, 0), 1);
    rate.steps = 0;
    near(kith_rate_at(&rate, 0), 0.5);
    rate.warmup = 10;
    near(kith_rate_at(&rate, 4), 0.5);
    near(kith_rate_at(&rate, 10), 0.5);
    rate.steps = INT64_MIN;
    near(kith_rate_at(&rate, INT64_MAX), 0.5);
    assert_true(isnan(kith_rate_at(NULL, 0)));
    assert_true(isnan(kith_rate_at(&rate, -1)));
    rate.kind = (kith_rate_kind)9;
    assert_true(isnan(kith_rate_at(&rate, 10)));
}

static void test_names(void **state)
{
    (void)state;
    assert_string_equal(kith_rate_kind_name(KITH_RATE_COSINE), "cosine");
    assert_string_equal(kith_rate_kind_name(KITH_RATE_CONSTANT), "constant");
    assert_null(kith_rate_kind_name((kith_rate_kind)3));
    assert_string_equal(kith_optim_kind_name(KITH_ADAMW), "adamw");
    assert_string_equal(kith_optim_kind_name(KITH_SGD), "sgd");
    assert_null(kith_optim_kind_name((kith_optim_kind)2));
    assert_null(kith_optim_kind_name((kith_optim_kind)-1));
}

static void test_loss_scale(void **state)
{
    (void)state;
    kith_loss_scale scale = KITH_LOSS_SCALE_INIT;
    assert_true(scale.scale == 65536);
    scale.growth_interval = 3;
    assert_int_equal(kith_loss_scale_update(&scale, INFINITY), 0);
    assert_true(scale.scale == 32768);
    for (int i = 0; i < 2; i++)
        assert_int_equal(kith_loss_scale_update(&scale, 1), 1);
    assert_true(scale.scale == 32768);
    assert_int_equal(kith_loss_scale_update(&scale, NAN), 0); // in a row: the count begins again
    assert_true(scale.scale == 16384);
    for (int i = 0; i < 3; i++)
        assert_int_equal(kith_loss_scale_update(&scale, 1), 1);
    assert_true(scale.scale == 32768);
    assert_int_equal(scale.good_steps, 0);
    scale.scale = 0x1p1023;
    for (int i = 0; i < 9; i++)
        assert_int_equal(kith_loss_scale_update(&scale, 1), 1);
    assert_true(scale.scale == 0x1p1023); // never infinite
    assert_int_equal(kith_loss_scale_update(NULL, 1), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_warm_up), cmocka_unit_test(test_way_down),
                                        cmocka_unit_test(test_edges), cmocka_unit_test(test_names),
                                        cmocka_unit_test(test_loss_scale) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
