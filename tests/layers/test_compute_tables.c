/* tests/layers/test_compute_tables.c - opening and closing tables, scratch, the dry table, refused types.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "compute_help.h"
#include "core/base/fault.h"

#include <kith/kith.h>
#include <stdlib.h>
#include <string.h>

/* Each function of the host refuses a type that it cannot compute with, by a sentence that names it. */
static void check_refused(const test_case *c)
{
    int16_t words[4] = { 1, 2, 3, 4 };
    double sum = 5;
    ki_mat integers = { words, 1, 4, 4, KITH_INT16 };
    if (c->dtype != KITH_F32)
        return;
    assert_int_equal(c->ops->fill(c->compute, integers, 1), KITH_ERR_UNSUPPORTED);
    assert_non_null(strstr(kith_error_detail(), "int16"));
    assert_int_equal(c->ops->sum_squares(c->compute, integers, &sum), KITH_ERR_UNSUPPORTED);
    assert_int_equal(c->ops->activation(c->compute, KI_SILU, integers, (ki_mat){ 0 }, integers), KITH_ERR_UNSUPPORTED);
    assert_true(words[0] == 1 && words[3] == 4 && sum == 5);
}

static void test_host(void **state)
{
    (void)state;
    test_shape(1, 1, check_refused);
    ki_compute *compute = NULL;
    assert_int_equal(ki_compute_open_host(0, &compute), KITH_OK);
    assert_string_equal(compute->ops->name, "host");
    assert_true(ki_compute_select_loops(compute, "generic"));
    assert_false(ki_compute_select_loops(compute, "neon"));
    ki_compute_close(compute);
    ki_compute_close(NULL);
}

/* Every member is there but the one that a table may lack, and none looks at a matrix: these have no memory. */
static void test_dry(void **state)
{
    (void)state;
    ki_compute *compute = NULL;
    ki_mat m = { NULL, INT64_C(1) << 20, INT64_C(1) << 20, INT64_C(1) << 20, KITH_BF16 };
    const ki_dropout dropout = { .probability = 0.1, .batch = 1 };
    const ki_adamw adamw = { .step = 1 };
    double sum = 5;
    assert_int_equal(ki_compute_open_dry(&compute), KITH_OK);
    const ki_compute_ops *ops = compute->ops;
    const void *members[sizeof *ops / sizeof(void *)];
    memcpy(members, ops, sizeof members);
    for (size_t i = 0; i < sizeof members / sizeof members[0]; i++)
        assert_true(members[i] != NULL || i == offsetof(ki_compute_ops, gemm_bias) / sizeof(void *));
    assert_string_equal(ops->name, "dry");
    assert_int_equal(ops->gemm(compute, KI_AS_IS, KI_AS_IS, 1, m, m, 0, m), KITH_OK);
    assert_int_equal(ops->layer_norm_grad(compute, m, m, m, m, m, m, m, m), KITH_OK);
    assert_int_equal(ops->dropout_add(compute, &dropout, m, m, m, m), KITH_OK);
    assert_int_equal(ops->gather_rows(compute, NULL, 0, m, m), KITH_OK);
    assert_int_equal(ops->adamw(compute, &adamw, m, m, m, m, m), KITH_OK);
    assert_int_equal(ops->sum_squares(compute, m, &sum), KITH_OK);
    assert_true(sum == 0);
    ki_compute_close(compute);
}

static void test_scratch(void **state)
{
    (void)state;
    ki_compute *compute = NULL;
    void *first, *again, *more;
    assert_int_equal(ki_compute_open_dry(&compute), KITH_OK);
    assert_int_equal(ki_compute_scratch(compute, 1000, &first), KITH_OK);
    memset(first, 1, 1000);
    assert_int_equal(ki_compute_scratch(compute, 10, &again), KITH_OK);
    assert_ptr_equal(first, again);
    assert_int_equal(ki_compute_scratch(compute, 100000, &more), KITH_OK);
    memset(more, 1, 100000);
    assert_int_equal((uintptr_t)more % 64, 0);
    setenv("KITH_FAULT", "alloc:1", 1);
    assert_int_equal(ki_fault_configure(0), KITH_OK);
    assert_int_equal(ki_compute_scratch(compute, 1000000, &more), KITH_ERR_NO_MEMORY);
    assert_non_null(strstr(kith_error_detail(), "scratch"));
    unsetenv("KITH_FAULT");
    assert_int_equal(ki_fault_configure(0), KITH_OK);
    assert_int_equal(ki_compute_scratch(compute, 10, &again), KITH_OK); /* it goes on */
    ki_compute_close(compute);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_host),
        cmocka_unit_test(test_dry),
        cmocka_unit_test(test_scratch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
