/* tests/tools/train/test_train_settle.c - sizes of axes and batches, from the number of ranks.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "tools/train/train.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

typedef struct sizes {
    int tp, pp, dp, ep;
    int64_t micro_batch, microbatches, global_batch;
} sizes;

static char *settle(int world, sizes said, sizes *got)
{
    train_options o = { .tp = said.tp,
                        .pp = said.pp,
                        .dp = said.dp,
                        .ep = said.ep,
                        .micro_batch = said.micro_batch,
                        .microbatches = said.microbatches,
                        .global_batch = said.global_batch };
    char *sentence = train_options_settle(&o, world);
    *got = (sizes){ o.tp, o.pp, o.dp, o.ep, o.micro_batch, o.microbatches, o.global_batch };
    return sentence;
}

static void becomes(int world, sizes said, sizes wanted)
{
    sizes got;
    char *sentence = settle(world, said, &got);
    if (sentence != NULL)
        fail_msg("%d ranks: wanted sizes, got: %s", world, sentence);
    if (memcmp(&got, &wanted, sizeof got) != 0)
        fail_msg("%d ranks: wanted tp %d pp %d dp %d ep %d, %lld x %lld, %lld; got %d %d %d %d, %lld x %lld, %lld",
                 world, wanted.tp, wanted.pp, wanted.dp, wanted.ep, (long long)wanted.micro_batch,
                 (long long)wanted.microbatches, (long long)wanted.global_batch, got.tp, got.pp, got.dp, got.ep,
                 (long long)got.micro_batch, (long long)got.microbatches, (long long)got.global_batch);
    sentence = settle(world, got, &wanted); /* what is settled stays */
    assert_null(sentence);
    assert_memory_equal(&got, &wanted, sizeof got);
}

static void refused(int world, sizes said, const char *wanted)
{
    sizes got;
    char *sentence = settle(world, said, &got);
    if (sentence == NULL || strcmp(sentence, wanted) != 0)
        fail_msg("wanted: %s\ngot:    %s", wanted, sentence == NULL ? "no refusal" : sentence);
    free(sentence);
}

/* The layouts that ranks allow train on the same 16 samples. */
static void test_the_global_batch_stays(void **state)
{
    (void)state;
    becomes(1, (sizes){ 0 }, (sizes){ 1, 1, 1, 1, 4, 4, 16 });
    becomes(4, (sizes){ 0 }, (sizes){ 1, 1, 4, 1, 4, 1, 16 });
    becomes(4, (sizes){ .tp = 2, .pp = 2 }, (sizes){ 2, 2, 1, 1, 4, 4, 16 });
    becomes(4, (sizes){ .pp = 4 }, (sizes){ 1, 4, 1, 1, 4, 4, 16 });
    becomes(8, (sizes){ .pp = 4 }, (sizes){ 1, 4, 2, 1, 2, 4, 16 });
    becomes(16, (sizes){ .pp = 4 }, (sizes){ 1, 4, 4, 1, 1, 4, 16 });
    becomes(3, (sizes){ .pp = 3 }, (sizes){ 1, 3, 1, 1, 4, 4, 16 }); /* no divisor of 16 is a multiple of 3 */
    becomes(4, (sizes){ .ep = 2 }, (sizes){ 1, 1, 2, 2, 4, 1, 16 });
    becomes(16, (sizes){ 0 }, (sizes){ 1, 1, 16, 1, 1, 1, 16 });
    becomes(2, (sizes){ .dp = 2 }, (sizes){ 1, 1, 2, 1, 4, 2, 16 });
}

static void test_what_is_said_holds(void **state)
{
    (void)state;
    becomes(2, (sizes){ .micro_batch = 2 }, (sizes){ 1, 1, 2, 1, 2, 4, 16 });
    becomes(2, (sizes){ .micro_batch = 3 }, (sizes){ 1, 1, 2, 1, 3, 3, 18 });
    becomes(2, (sizes){ .microbatches = 8, .dp = 2 }, (sizes){ 1, 1, 2, 1, 1, 8, 16 });
    becomes(2, (sizes){ .microbatches = 8, .pp = 2 }, (sizes){ 1, 2, 1, 1, 2, 8, 16 });
    becomes(3, (sizes){ 0 }, (sizes){ 1, 1, 3, 1, 3, 2, 18 });
    becomes(1, (sizes){ .micro_batch = 5, .microbatches = 7 }, (sizes){ 1, 1, 1, 1, 5, 7, 35 });
    becomes(2, (sizes){ .micro_batch = 5, .microbatches = 7 }, (sizes){ 1, 1, 2, 1, 5, 7, 70 });
    becomes(2, (sizes){ .global_batch = 12 }, (sizes){ 1, 1, 2, 1, 3, 2, 12 });
    becomes(2, (sizes){ .global_batch = 24, .microbatches = 2 }, (sizes){ 1, 1, 2, 1, 6, 2, 24 });
    becomes(0, (sizes){ .tp = 2, .dp = 2 }, (sizes){ 2, 1, 2, 1, 4, 2, 16 });
}

static void test_sizes_that_do_not_fit(void **state)
{
    (void)state;
    refused(
        4, (sizes){ .tp = 3 },
        "tp 3 x pp 1 x ep 1 are 3 ranks, and there are 4: start a multiple of 3 with -n, or give sizes whose product "
        "is one of 1, 2, 4");
    refused(
        1, (sizes){ .tp = 2 },
        "tp 2 x pp 1 x ep 1 are 2 ranks, and there is 1: start a multiple of 2 with -n, or give sizes whose product "
        "is one of 1");
    refused(4, (sizes){ .tp = 2, .pp = 2, .dp = 2 },
            "tp 2 x pp 2 x dp 2 x ep 1 are 8 ranks, and there are 4: start as many with -n, or give --dp 1");
    refused(4, (sizes){ .tp = 3, .dp = 1 },
            "tp 3 x pp 1 x dp 1 x ep 1 are 3 ranks, and there are 4: start as many with -n");
    refused(1, (sizes){ .tp = 1 << 20, .pp = 1 << 20, .ep = 1 << 20 },
            "tp 1048576 x pp 1048576 x ep 1048576 are more ranks than can be");
    refused(4, (sizes){ .global_batch = 10 }, "--global-batch 10 cannot be dealt to dp 4: valid are multiples of 4");
    refused(4, (sizes){ .global_batch = 10, .ep = 2 },
            "--global-batch 10 cannot be dealt to dp 2 x ep 2: valid are multiples of 4");
    refused(2, (sizes){ .global_batch = 16, .micro_batch = 3 },
            "--global-batch 16 cannot be dealt to --batch 3 x dp 2: valid are multiples of 6");
    refused(2, (sizes){ .global_batch = 10, .micro_batch = 4, .microbatches = 3 },
            "--global-batch 10: --batch 4 x --microbatches 3 x dp 2 are 24 samples; leave one of them out");
    refused(2, (sizes){ .micro_batch = 1 << 20, .microbatches = 1 << 20 },
            "a step of --batch 1048576 x --microbatches 1048576 x dp 2 has more than 1073741824 samples");
}

/* --auto: before the planner has chosen, only the batch is settled. */
static void test_auto(void **state)
{
    (void)state;
    train_options o = { .is_auto = true };
    assert_null(train_options_settle(&o, 8));
    assert_int_equal(o.tp, 0);
    assert_int_equal(o.global_batch, 16);
    o.tp = 2, o.pp = 2, o.dp = 2, o.ep = 1;
    o.micro_batch = o.microbatches = 0;
    assert_null(train_options_settle(&o, 8));
    assert_int_equal(o.micro_batch * o.microbatches, 8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_global_batch_stays),
        cmocka_unit_test(test_what_is_said_holds),
        cmocka_unit_test(test_sizes_that_do_not_fit),
        cmocka_unit_test(test_auto),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
