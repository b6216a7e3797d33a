/* tests/layers/test_moe_faults.c - every allocation of a mixture of experts fails once, and nothing is left.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/base/fault.h"
#include <kith/layers.h>
#include <stdio.h>
#include <stdlib.h>

enum { TOKENS = 6, FEATURES = 4 };

static kith_status run_tape(kith_moe *moe, kith_tape *tape, int is_split)
{
    double x[TOKENS * FEATURES], dy[TOKENS * FEATURES];
    for (int i = 0; i < TOKENS * FEATURES; i++)
        x[i] = i % 5 - 2, dy[i] = 1;
    const int64_t shape[] = { TOKENS, FEATURES };
    kith_tensor whole_x = kith_tensor_view(x, KITH_F64, 2, shape), whole_dy = kith_tensor_view(dy, KITH_F64, 2, shape);
    kith_tensor y = { 0 }, dx = { 0 };
    kith_batch batch = KITH_BATCH_INIT;
    batch.sequence = TOKENS, batch.batch = 1;
    kith_tape_set_split_backward(tape, is_split);
    kith_status status = kith_tape_begin(tape, &batch);
    if (status == KITH_OK)
        status = kith_moe_forward(moe, tape, &whole_x, &y, NULL, NULL);
    if (status == KITH_OK)
        status = kith_moe_backward(moe, tape, &whole_dy, 1, &dx);
    if (status == KITH_OK)
        status = kith_tape_weight_grads(tape);
    kith_tensor_release(&y);
    kith_tensor_release(&dx);
    return status;
}

static kith_status run(int is_split, int is_normalized)
{
    kith_layers_options options = KITH_LAYERS_OPTIONS_INIT;
    options.dtype = KITH_F64;
    options.is_debug = 1;
    kith_layers *layers = NULL;
    kith_status status = kith_layers_create(&options, &layers);
    if (status != KITH_OK)
        return status;
    kith_moe_options of_moe = KITH_MOE_OPTIONS_INIT;
    of_moe.features = FEATURES, of_moe.inner_features = 3, of_moe.experts = 3, of_moe.top_k = 2;
    of_moe.is_gated = 1, of_moe.is_normalized = is_normalized, of_moe.auxiliary_weight = 1;
    kith_moe *moe;
    kith_tape *tape = NULL;
    status = kith_moe_create(layers, &of_moe, &moe);
    if (status == KITH_OK)
        status = kith_tape_create(layers, &tape);
    if (status == KITH_OK)
        status = run_tape(moe, tape, is_split);
    kith_tape_destroy(tape);
    assert_int_equal(kith_layers_destroy(layers), KITH_OK);
    return status;
}

static void test_each_allocation(void **state)
{
    (void)state;
    for (int way = 0; way < 4; way++) {
        kith_status status = KITH_ERR_NO_MEMORY;
        int failed = 0;
        while (status != KITH_OK && failed < 500) {
            char fault[32];
            snprintf(fault, sizeof fault, "alloc:%d", ++failed);
            setenv("KITH_FAULT", fault, 1);
            assert_int_equal(ki_fault_configure(0), KITH_OK);
            status = run(way & 1, way >> 1);
            if (status != KITH_OK)
                assert_int_equal(status, KITH_ERR_NO_MEMORY);
        }
        unsetenv("KITH_FAULT");
        ki_fault_configure(0);
        assert_int_equal(status, KITH_OK);
        assert_true(failed > 20);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_each_allocation) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
