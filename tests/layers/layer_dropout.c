/* tests/layers/layer_dropout.c - masks are those of elements, whoever holds them.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "layer_check.h"

#include <string.h>

enum { SEQUENCE = 5, BATCH = 3, FEATURES = 10, TOKENS = SEQUENCE * BATCH };

static kith_dropout_options half(int site)
{
    kith_dropout_options options = KITH_DROPOUT_OPTIONS_INIT;
    options.probability = 0.5, options.site = site;
    return options;
}

static kith_tape *tape_from(kith_layers *layers, uint64_t first_sample, int64_t samples, int is_training)
{
    kith_tape *tape;
    kith_batch batch = KITH_BATCH_INIT;
    batch.sequence = SEQUENCE, batch.batch = samples;
    batch.first_sample = first_sample, batch.is_training = is_training;
    REQUIRE_OK(kith_tape_create(layers, &tape));
    REQUIRE_OK(kith_tape_begin(tape, &batch));
    return tape;
}

static double one(unsigned seed, int64_t index)
{
    (void)seed, (void)index;
    return 1;
}

/* The mask itself: y of ones is 0 where an element is dropped and 2 where it is kept. */
static kith_tensor mask_of(kith_tape *tape, const kith_dropout_options *options, int64_t rows, int64_t features)
{
    kith_tensor ones = numbers(KITH_F64, rows, features, 0, one), y;
    REQUIRE_OK(kith_dropout_forward(options, tape, &ones, NULL, NULL, &y));
    free(ones.data);
    for (int64_t i = 0; i < rows * features; i++)
        REQUIRE(element(&y, i) == 0 || element(&y, i) == 2);
    return y;
}

static void end(kith_layers *layers, kith_tape *tape)
{
    kith_tape_destroy(tape);
    REQUIRE_OK(kith_layers_destroy(layers));
}

static int is_same(const kith_tensor *a, const kith_tensor *b)
{
    return memcmp(a->data, b->data, (size_t)kith_tensor_count(a) * sizeof(double)) == 0;
}

/* Whole tensors, shards of the sequence, and shares of features have pieces of one mask. */
static void check_layouts(rank_info *info, const kith_tensor *mask)
{
    kith_dropout_options options = half(3);
    for (int sp = 0; sp < 2; sp++) {
        kith_layers *layers = layers_over(info, info->size, KITH_F64, sp);
        kith_tape *tape = tape_from(layers, 40, BATCH, 1);
        kith_tensor whole = mask_of(tape, &options, TOKENS, FEATURES); // inside a tensor-parallel region
        REQUIRE_EQUAL("mask of all tokens", &whole, mask, 0);
        int64_t first, count;
        kith_split_range(sp ? SEQUENCE : 1, sp ? info->size : 1, sp ? info->rank : 0, &first, &count);
        kith_tensor shard = mask_of(tape, &options, sp ? count * BATCH : TOKENS, FEATURES);
        kith_tensor wanted = kith_tensor_narrow(mask, 0, sp ? first * BATCH : 0, shard.shape[0]);
        REQUIRE_EQUAL("mask of a shard", &shard, &wanted, 0);
        kith_split_range(FEATURES, info->size, info->rank, &first, &count);
        options.first_feature = first;
        kith_tensor share = mask_of(tape, &options, TOKENS, count);
        options.first_feature = 0;
        for (int64_t r = 0; r < TOKENS; r++)
            for (int64_t c = 0; c < count; c++)
                REQUIRE(element(&share, r * count + c) == element(mask, r * FEATURES + first + c));
        kith_tensor_release(&whole), kith_tensor_release(&shard), kith_tensor_release(&share);
        end(layers, tape);
    }
}

/* Microbatches of other sizes, in any order: sample 41 is sample 41. */
static void check_samples(const kith_tensor *mask)
{
    kith_layers *layers = layers_alone(KITH_F64);
    kith_dropout_options options = half(3);
    for (int64_t sample = BATCH - 1; sample >= 0; sample--) {
        kith_tape *tape = tape_from(layers, 40 + (uint64_t)sample, 1, 1);
        kith_tensor own = mask_of(tape, &options, SEQUENCE, FEATURES);
        for (int64_t p = 0; p < SEQUENCE; p++)
            for (int64_t c = 0; c < FEATURES; c++)
                REQUIRE(element(&own, p * FEATURES + c) == element(mask, (p * BATCH + sample) * FEATURES + c));
        kith_tensor_release(&own);
        kith_tape_destroy(tape);
    }
    REQUIRE_OK(kith_layers_destroy(layers));
}

/* Other sites and samples have other masks; a mask drops about half. */
static void check_differences(kith_tape *tape, const kith_tensor *mask)
{
    kith_dropout_options options = half(4);
    kith_tensor other = mask_of(tape, &options, TOKENS, FEATURES);
    REQUIRE(!is_same(&other, mask));
    kith_tensor_release(&other);
    int kept = 0;
    for (int64_t i = 0; i < TOKENS * FEATURES; i++)
        kept += element(mask, i) != 0;
    REQUIRE(kept > 45 && kept < 105); // of 150: five deviations to either side
}

/* y = residual + dropout(x + bias), and back by the same mask. */
static void check_sums(kith_layers *layers, kith_tape *tape, const kith_tensor *mask)
{
    kith_linear_options linear_options = KITH_LINEAR_OPTIONS_INIT;
    linear_options.kind = KITH_LINEAR_ROW, linear_options.in_features = 4, linear_options.out_features = FEATURES;
    linear_options.has_bias = 1;
    kith_linear *linear;
    REQUIRE_OK(kith_linear_create(layers, &linear_options, &linear));
    load_params(layers, whole_number);
    const kith_param *bias = kith_linear_bias(linear, 0);
    kith_dropout_options options = half(3);
    kith_tensor x = numbers(KITH_F64, TOKENS, FEATURES, 1, whole_number), y, dx;
    kith_tensor residual = numbers(KITH_F64, TOKENS, FEATURES, 2, whole_number);
    REQUIRE_OK(kith_dropout_forward(&options, tape, &x, bias, &residual, &y));
    REQUIRE_OK(kith_dropout_backward(&options, tape, &x, &dx));
    REQUIRE(kith_tape_depth(tape) == 0);
    for (int64_t i = 0; i < TOKENS * FEATURES; i++) {
        double sum = element(&x, i) + element(&bias->value, i % FEATURES);
        REQUIRE(element(&y, i) == element(&residual, i) + element(mask, i) * sum);
        REQUIRE(element(&dx, i) == element(mask, i) * element(&x, i));
    }
    kith_tensor_release(&y), kith_tensor_release(&dx);
    free(x.data), free(residual.data);
}

void case_dropout(rank_info *info)
{
    kith_layers *alone = layers_alone(KITH_F64);
    kith_tape *tape = tape_from(alone, 40, BATCH, 1);
    kith_dropout_options options = half(3);
    kith_tensor mask = mask_of(tape, &options, TOKENS, FEATURES), again = mask_of(tape, &options, TOKENS, FEATURES);
    REQUIRE(is_same(&mask, &again)); // as when a forward is computed again
    kith_tensor_release(&again);
    check_layouts(info, &mask);
    check_samples(&mask);
    check_differences(tape, &mask);
    check_sums(alone, tape, &mask);
    kith_tensor_release(&mask);
    end(alone, tape);
}

/* Without training nothing is dropped; wrong arguments are sentences. */
void case_dropout_misuse(rank_info *info)
{
    kith_layers *layers = layers_over(info, info->size, KITH_F64, 0);
    kith_dropout_options options = half(3);
    kith_tensor x = numbers(KITH_F64, TOKENS, FEATURES, 1, fraction), y, dx;
    kith_tape *tape = tape_from(layers, 0, BATCH, 0);
    REQUIRE_OK(kith_dropout_forward(&options, tape, &x, NULL, NULL, &y));
    REQUIRE_EQUAL("y of an evaluation", &y, &x, 0);
    kith_tensor_release(&y);
    REQUIRE_STATUS(kith_dropout_backward(&options, tape, &x, &dx), KITH_ERR_INVALID_ARG);
    REQUIRE_DETAIL("is_training 0");
    kith_tape_destroy(tape);
    tape = tape_from(layers, UINT32_MAX - 1, BATCH, 1);
    REQUIRE_STATUS(kith_dropout_forward(&options, tape, &x, NULL, NULL, &y), KITH_ERR_INVALID_ARG);
    REQUIRE_DETAIL("below 2^32");
    kith_tape_destroy(tape);
    tape = tape_from(layers, 0, BATCH, 1);
    options.probability = 1;
    REQUIRE_STATUS(kith_dropout_forward(&options, tape, &x, NULL, NULL, &y), KITH_ERR_INVALID_ARG);
    REQUIRE_DETAIL("wanted 0 <= probability < 1");
    options = half(65536);
    REQUIRE_STATUS(kith_dropout_forward(&options, tape, &x, NULL, NULL, &y), KITH_ERR_INVALID_ARG);
    options = half(3);
    kith_tensor less = kith_tensor_narrow(&x, 0, 0, 2);
    REQUIRE_STATUS(kith_dropout_forward(&options, tape, &less, NULL, NULL, &y), KITH_ERR_INVALID_ARG);
    REQUIRE_DETAIL("a tensor of 2 rows, wanted the 15 tokens");
    REQUIRE_STATUS(kith_dropout_forward(&options, tape, &x, NULL, &less, &y), KITH_ERR_INVALID_ARG);
    if (info->size > 1) {
        kith_tensor partial = x;
        partial.layout = KITH_PARTIAL;
        REQUIRE_STATUS(kith_dropout_forward(&options, tape, &partial, NULL, NULL, &y), KITH_ERR_INVALID_ARG);
        REQUIRE_DETAIL("is partial");
    }
    free(x.data);
    end(layers, tape);
}
