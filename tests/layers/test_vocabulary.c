/* tests/layers/test_vocabulary.c - padded vocabularies, and embedding and head when memory runs out.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "core/base/fault.h"
#include "layers/vocabulary.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum { WORDS = 5, FEATURES = 2, TOKENS = 3 };

/* Megatron's sizes for GPT-2's vocabulary and others, and what cannot be. */
static void test_padded(void **state)
{
    (void)state;
    static const struct {
        int64_t words, multiple;
        int tp;
        int64_t wanted;
    } rows[] = {
        { 50257, 128, 1, 50304 },
        { 50257, 128, 2, 50432 },
        { 50257, 128, 8, 51200 },
        { 32000, 128, 8, 32768 },
        { 128256, 128, 8, 129024 },
        { 1, 1, 1, 1 },
        { 7, 1, 3, 9 },
        { INT64_C(1) << 31, 1, 1, INT64_C(1) << 31 },
        { INT64_C(1) << 31, 1, 3, -1 },
        { (INT64_C(1) << 31) + 1, 1, 1, -1 },
        { 0, 128, 1, -1 },
        { -1, 128, 1, -1 },
        { 10, 0, 1, -1 },
        { 10, -128, 1, -1 },
        { 10, 128, 0, -1 },
        { INT64_MAX, INT64_MAX, INT32_MAX, -1 },
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        int64_t got = kith_vocabulary_padded(rows[i].words, rows[i].multiple, rows[i].tp);
        if (got != rows[i].wanted)
            fail_msg("%lld words, multiple %lld, %d ranks: %lld, wanted %lld", (long long)rows[i].words,
                     (long long)rows[i].multiple, rows[i].tp, (long long)got, (long long)rows[i].wanted);
    }
}

static kith_layers *dry(int tp)
{
    kith_layers_options options = KITH_LAYERS_OPTIONS_INIT;
    options.dry_tp = tp;
    kith_layers *layers;
    assert_int_equal(kith_layers_create(&options, &layers), KITH_OK);
    return layers;
}

/* The parts of all ranks, one after the other, are the words, each once; with padding all have the same size. */
static void test_deal(void **state)
{
    (void)state;
    for (int64_t words = 1; words < 20; words++)
        for (int tp = 1; tp < 6; tp++)
            for (int64_t multiple = 0; multiple < 5; multiple++) {
                kith_layers *layers = dry(tp);
                int64_t next = 0, rows = 0;
                for (layers->tp_rank = 0; layers->tp_rank < tp; layers->tp_rank++) {
                    ki_vocabulary v;
                    assert_int_equal(ki_vocabulary_deal(layers, "words", words, multiple, &v), KITH_OK);
                    assert_int_equal(v.first, next);
                    assert_true(v.count >= 0 && v.count <= v.rows);
                    assert_true(multiple == 0 ? v.rows == v.count : v.rows * tp == v.padded && v.rows % multiple == 0);
                    next += v.count, rows += v.rows;
                    assert_int_equal(v.padded, multiple == 0 ? words : kith_vocabulary_padded(words, multiple, tp));
                }
                layers->tp_rank = 0;
                assert_int_equal(next, words);
                assert_int_equal(rows, multiple == 0 ? words : kith_vocabulary_padded(words, multiple, tp));
                assert_int_equal(kith_layers_destroy(layers), KITH_OK);
            }
}

/* The N-th allocation from now on fails; 0: none. */
static void fail_allocation(int number)
{
    char text[32];
    snprintf(text, sizeof text, "alloc:%d", number);
    if (number > 0)
        setenv("KITH_FAULT", text, 1);
    else
        unsetenv("KITH_FAULT");
    assert_int_equal(ki_fault_configure(0), KITH_OK);
}

typedef struct model {
    kith_layers *layers;
    kith_embedding *embedding;
    kith_head *head;
    kith_tape *tape;
} model;

static kith_status create(model *m)
{
    kith_embedding_options e = KITH_EMBEDDING_OPTIONS_INIT;
    e.vocabulary = WORDS, e.features = FEATURES, e.positions = TOKENS, e.padding_multiple = 4, e.dropout = 0.5;
    kith_head_options h = KITH_HEAD_OPTIONS_INIT;
    h.vocabulary = WORDS, h.features = FEATURES, h.is_gathered = 1, h.padding_multiple = 4;
    size_t params = 0;
    kith_status status = kith_embedding_create(m->layers, &e, &m->embedding);
    if (status == KITH_OK) {
        params = kith_layers_param_count(m->layers);
        status = kith_head_create(m->layers, &h, &m->head);
    }
    if (status != KITH_OK) // what failed has left no parameter
        assert_int_equal(kith_layers_param_count(m->layers), params);
    return status;
}

static kith_status run(model *m)
{
    static int32_t ids[TOKENS] = { 0, WORDS - 1, 1 };
    kith_tensor tokens = kith_tensor_view(ids, KITH_INT32, 1, (const int64_t[]){ TOKENS });
    kith_tensor x = { 0 }, losses = { 0 }, dx = { 0 };
    kith_status status = kith_embedding_forward(m->embedding, m->tape, &tokens, &x);
    if (status == KITH_OK)
        status = kith_head_forward(m->head, m->tape, &x, &tokens, &losses, NULL, NULL);
    if (status == KITH_OK)
        status = kith_head_backward(m->head, m->tape, 1, &dx);
    if (status == KITH_OK)
        status = kith_embedding_backward(m->embedding, m->tape, &dx);
    kith_tensor_release(&x), kith_tensor_release(&losses), kith_tensor_release(&dx);
    return status;
}

static void begin(model *m)
{
    kith_layers_options options = KITH_LAYERS_OPTIONS_INIT;
    options.is_debug = 1;
    kith_batch batch = KITH_BATCH_INIT;
    batch.sequence = TOKENS, batch.batch = 1;
    assert_int_equal(kith_layers_create(&options, &m->layers), KITH_OK);
    assert_int_equal(kith_tape_create(m->layers, &m->tape), KITH_OK);
    assert_int_equal(kith_tape_begin(m->tape, &batch), KITH_OK);
}

static void end(model *m)
{
    kith_tape_destroy(m->tape);
    assert_int_equal(kith_layers_destroy(m->layers), KITH_OK); // not KITH_ERR_BUSY: no tensor is left
}

/* Whichever allocation fails, the status says so, and all that was taken is given back. */
static void walk(kith_status (*what)(model *m), bool is_creation, int least)
{
    kith_status status = KITH_ERR_NO_MEMORY;
    int number = 0;
    while (status != KITH_OK) {
        model m = { 0 };
        begin(&m);
        if (!is_creation)
            assert_int_equal(create(&m), KITH_OK);
        fail_allocation(++number);
        status = what(&m);
        fail_allocation(0);
        if (status != KITH_OK)
            assert_int_equal(status, KITH_ERR_NO_MEMORY);
        end(&m);
    }
    assert_true(number > least);
}

static void test_creation_without_memory(void **state)
{
    (void)state;
    walk(create, true, 8);
}

static void test_pass_without_memory(void **state)
{
    (void)state;
    walk(run, false, 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_padded),
        cmocka_unit_test(test_deal),
        cmocka_unit_test(test_creation_without_memory),
        cmocka_unit_test(test_pass_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
