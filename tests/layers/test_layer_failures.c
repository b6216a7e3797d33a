/* tests/layers/test_layer_failures.c - no allocation of a layer is one whose failure leaves something behind.
 *
 * A small model is made and run forward and backward with the n-th allocation failing, for every n until nothing fails.
 * Each time the status is KITH_ERR_NO_MEMORY, the tape is as deep as before the call, or what the layer had on it is
 * gone, and the place can be destroyed, which it refuses while a tensor is left.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "core/base/fault.h"
#include <kith/layers.h>

enum { FEATURES = 6, TOKENS = 6, STAGES = 4, HELD = 16 };

typedef struct model {
    kith_layers *layers;
    kith_tape *tape;
    kith_norm *norm;
    kith_attention *attention;
    kith_mlp *mlp, *gated;
    kith_tensor held[HELD]; /* outputs so far */
    int held_count;
} model;

static void fail_allocation(int nth)
{
    char text[32];
    snprintf(text, sizeof text, "alloc:%d", nth);
    setenv("KITH_FAULT", nth > 0 ? text : "", 1);
    assert_int_equal(ki_fault_configure(0), KITH_OK);
}

static kith_status make_layers(model *m)
{
    kith_layers_options options = KITH_LAYERS_OPTIONS_INIT;
    options.dtype = KITH_F64, options.is_debug = 1;
    kith_norm_options norm = KITH_NORM_OPTIONS_INIT;
    norm.features = FEATURES;
    kith_attention_options attention = KITH_ATTENTION_OPTIONS_INIT;
    attention.features = FEATURES, attention.heads = 4, attention.kv_heads = 2, attention.head_dim = 4;
    attention.has_head_norms = attention.is_core_recomputed = attention.has_bias = 1;
    attention.rotary_base = 10000;
    kith_mlp_options mlp = KITH_MLP_OPTIONS_INIT;
    mlp.features = FEATURES, mlp.inner_features = 7, mlp.has_bias = 1;
    kith_mlp_options gated = mlp;
    gated.is_gated = 1;
    kith_status status = kith_layers_create(&options, &m->layers);
    if (status == KITH_OK)
        status = kith_norm_create(m->layers, &norm, &m->norm);
    if (status == KITH_OK)
        status = kith_attention_create(m->layers, &attention, &m->attention);
    if (status == KITH_OK)
        status = kith_mlp_create(m->layers, &mlp, &m->mlp);
    if (status == KITH_OK)
        status = kith_mlp_create(m->layers, &gated, &m->gated);
    return status;
}

static kith_status begin(model *m)
{
    kith_batch batch = KITH_BATCH_INIT;
    batch.sequence = TOKENS / 2, batch.batch = 2;
    kith_status status = kith_tape_create(m->layers, &m->tape);
    if (status == KITH_OK)
        status = kith_tape_begin(m->tape, &batch);
    return status == KITH_OK ? kith_tape_set_split_backward(m->tape, 1) : status;
}

static kith_status forward_stage(model *m, int stage, const kith_tensor *x, kith_tensor *y)
{
    kith_dropout_options dropout = KITH_DROPOUT_OPTIONS_INIT;
    dropout.probability = 0.1;
    if (stage == 0)
        return kith_norm_forward(m->norm, m->tape, x, y);
    if (stage == 1)
        return kith_attention_forward(m->attention, m->tape, x, y);
    if (stage == 2)
        return kith_mlp_forward(m->mlp, m->tape, x, y);
    return stage == 3 ? kith_mlp_forward(m->gated, m->tape, x, y)
                      : kith_dropout_forward(&dropout, m->tape, x, NULL, x, y);
}

static kith_status backward_stage(model *m, int stage, const kith_tensor *dy, kith_tensor *dx)
{
    kith_dropout_options dropout = KITH_DROPOUT_OPTIONS_INIT;
    dropout.probability = 0.1;
    if (stage == 0)
        return kith_norm_backward(m->norm, m->tape, dy, dx);
    if (stage == 1)
        return kith_attention_backward(m->attention, m->tape, dy, dx);
    if (stage == 2)
        return kith_mlp_backward(m->mlp, m->tape, dy, dx);
    return stage == 3 ? kith_mlp_backward(m->gated, m->tape, dy, dx) : kith_dropout_backward(&dropout, m->tape, dy, dx);
}

/* Forward through all stages, and back. */
static kith_status run(model *m, const kith_tensor *x)
{
    size_t depths[STAGES + 1];
    kith_status status = KITH_OK;
    const kith_tensor *at = x;
    for (int stage = 0; stage <= STAGES && status == KITH_OK; stage++) {
        kith_tensor *y = &m->held[m->held_count];
        depths[stage] = kith_tape_depth(m->tape);
        status = forward_stage(m, stage, at, y);
        if (status != KITH_OK)
            assert_int_equal(kith_tape_depth(m->tape), depths[stage]);
        m->held_count += status == KITH_OK;
        at = y;
    }
    for (int stage = STAGES; stage >= 0 && status == KITH_OK; stage--) {
        kith_tensor *dx = &m->held[m->held_count];
        status = backward_stage(m, stage, at, dx);
        assert_int_equal(kith_tape_depth(m->tape), depths[stage]);
        m->held_count += status == KITH_OK;
        at = dx;
    }
    return status == KITH_OK ? kith_tape_weight_grads(m->tape) : status;
}

/* What a caller does when he gives up. */
static void end(model *m)
{
    for (int i = 0; i < m->held_count; i++)
        kith_tensor_release(&m->held[i]);
    kith_tape_destroy(m->tape);
    kith_status status = kith_layers_destroy(m->layers);
    if (status != KITH_OK)
        print_error("wanted ok, got %s\n", kith_error_detail());
    assert_int_equal(status, KITH_OK);
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    double numbers[TOKENS * FEATURES];
    for (int i = 0; i < TOKENS * FEATURES; i++)
        numbers[i] = (i * 7 % 11 - 5) / 5.0;
    kith_tensor x = kith_tensor_view(numbers, KITH_F64, 2, (const int64_t[]){ TOKENS, FEATURES });
    kith_status status = KITH_ERR_NO_MEMORY;
    int nth = 0;
    while (status != KITH_OK) {
        model m = { 0 };
        fail_allocation(++nth);
        status = make_layers(&m);
        if (status == KITH_OK)
            status = begin(&m);
        if (status == KITH_OK)
            status = run(&m, &x);
        fail_allocation(0);
        if (status != KITH_OK && status != KITH_ERR_NO_MEMORY)
            print_error("allocation %d: wanted no memory, got %s\n", nth, kith_error_detail());
        assert_true(status == KITH_OK || status == KITH_ERR_NO_MEMORY);
        end(&m);
    }
    assert_true(nth > 100); // all of them, not the first few
}

/* A creation that failed can be tried again under the same name, and no parameter is left of the first try. */
static void creation_can_be_repeated(void **state)
{
    (void)state;
    kith_layers *layers;
    kith_attention_options options = KITH_ATTENTION_OPTIONS_INIT;
    options.name = "attention", options.features = FEATURES, options.heads = 2;
    assert_int_equal(kith_layers_create(NULL, &layers), KITH_OK);
    kith_status status = KITH_ERR_NO_MEMORY;
    int nth = 0;
    while (status != KITH_OK) {
        kith_attention *attention;
        fail_allocation(++nth);
        status = kith_attention_create(layers, &options, &attention);
        fail_allocation(0);
        kith_layers_memory memory;
        kith_layers_get_memory(layers, &memory);
        assert_int_equal(kith_layers_param_count(layers), status == KITH_OK ? 4 : 0);
        assert_int_equal(memory.parameters, status == KITH_OK ? 4 * FEATURES * FEATURES * sizeof(float) : 0);
    }
    assert_true(nth > 10);
    assert_int_equal(kith_layers_destroy(layers), KITH_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(creation_can_be_repeated),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
