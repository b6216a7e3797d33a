/* tests/layers/test_transformer_failures.c - a step of a transformer that runs out of memory, at every allocation.
 *
 * The tape is as deep as before a forward that failed, and empty after a backward that failed; no tensor is left, and
 * the step that follows gives the gradients of one that never failed. With every kind of recomputation.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/base/fault.h"
#include <kith/transformer.h>

enum { SEQUENCE = 3, WORDS = 7 };

static void fail_allocation(int nth)
{
    char text[32];
    snprintf(text, sizeof text, "alloc:%d", nth);
    setenv("KITH_FAULT", nth > 0 ? text : "", 1);
    assert_int_equal(ki_fault_configure(0), KITH_OK);
}

typedef struct model {
    kith_layers *layers;
    kith_transformer *transformer;
    kith_tape *tape;
} model;

static model make(const kith_transformer_options *options, int is_split)
{
    model m;
    kith_layers_options place = KITH_LAYERS_OPTIONS_INIT;
    place.dtype = KITH_F64, place.is_debug = 1;
    assert_int_equal(kith_layers_create(&place, &m.layers), KITH_OK);
    assert_int_equal(kith_transformer_create(m.layers, options, &m.transformer), KITH_OK);
    assert_int_equal(kith_transformer_init(m.transformer, 1, 0.3), KITH_OK);
    assert_int_equal(kith_tape_create(m.layers, &m.tape), KITH_OK);
    assert_int_equal(kith_tape_set_split_backward(m.tape, is_split), KITH_OK);
    return m;
}

static void end(model *m)
{
    kith_tape_destroy(m->tape);
    assert_int_equal(kith_layers_destroy(m->layers), KITH_OK);
}

/* One step in which the n-th allocation fails; 0: none. */
static kith_status step(model *m, int nth)
{
    int32_t words[SEQUENCE] = { 1, 5, 2 };
    kith_tensor ids = kith_tensor_view(words, KITH_INT32, 2, (const int64_t[]){ SEQUENCE, 1 });
    kith_batch batch = KITH_BATCH_INIT;
    batch.sequence = SEQUENCE, batch.batch = 1;
    assert_int_equal(kith_layers_zero_grads(m->layers), KITH_OK);
    assert_int_equal(kith_tape_begin(m->tape, &batch), KITH_OK);
    fail_allocation(nth);
    kith_status status = kith_transformer_forward(m->transformer, m->tape, &ids, &ids, NULL, NULL);
    if (status == KITH_OK)
        status = kith_transformer_backward(m->transformer, m->tape, NULL, 1, 1, NULL);
    fail_allocation(0);
    kith_layers_memory memory;
    kith_layers_get_memory(m->layers, &memory);
    assert_int_equal(kith_tape_depth(m->tape), 0);
    if (status != KITH_OK)
        assert_int_equal(memory.tensors, 0);
    if (status == KITH_OK)
        status = kith_tape_weight_grads(m->tape);
    return status;
}

static void require_same_grads(const model *got, const model *wanted)
{
    for (size_t i = 0; i < kith_layers_param_count(got->layers); i++) {
        const kith_param *a = kith_layers_param(got->layers, i), *b = kith_layers_param(wanted->layers, i);
        assert_memory_equal(a->grad.data, b->grad.data, (size_t)kith_tensor_count(&a->grad) * sizeof(double));
    }
}

static void fail_everywhere(kith_recompute recompute, int is_from_start, int is_split)
{
    kith_transformer_config config = KITH_TRANSFORMER_CONFIG_INIT;
    assert_int_equal(kith_transformer_gpt2(&config, 4, 3, 2, WORDS, SEQUENCE), KITH_OK);
    config.dropout = 0.1;
    kith_transformer_options options = KITH_TRANSFORMER_OPTIONS_INIT;
    options.config = &config, options.recompute = recompute, options.is_from_start = is_from_start;
    model whole = make(&options, is_split);
    assert_int_equal(step(&whole, 0), KITH_OK);
    kith_status status = KITH_ERR_NO_MEMORY;
    int nth = 0;
    while (status != KITH_OK) {
        model m = make(&options, is_split); // without memory of steps before
        status = step(&m, ++nth);
        assert_true(status == KITH_OK || status == KITH_ERR_NO_MEMORY);
        assert_int_equal(step(&m, 0), KITH_OK);
        require_same_grads(&m, &whole);
        end(&m);
    }
    assert_true(nth > 10); // all of them, not the first few
    end(&whole);
}

static void keeping_all(void **state)
{
    (void)state;
    fail_everywhere(KITH_RECOMPUTE_NONE, 0, 0);
}

static void weights_later(void **state)
{
    (void)state;
    fail_everywhere(KITH_RECOMPUTE_NONE, 0, 1);
}

static void in_runs(void **state)
{
    (void)state;
    fail_everywhere(KITH_RECOMPUTE_FULL, 0, 0);
}

static void from_start(void **state)
{
    (void)state;
    fail_everywhere(KITH_RECOMPUTE_FULL, 1, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keeping_all),
        cmocka_unit_test(weights_later),
        cmocka_unit_test(in_runs),
        cmocka_unit_test(from_start),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
