/* tests/layers/layer_steps.c - several microbatches in a step, and one norm of all gradients.
 *
 * Public reports behind it: gradients that depended on the number of microbatches, gradients that were wiped between
 * microbatches of other lengths, and norms that counted what several ranks have once for each of them.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "layer_model.h"

#include <math.h>

/* `sequence` positions of samples [first, first + count) of ids_of(seed). */
static kith_tensor some_of(unsigned seed, int64_t sequence, int64_t first, int64_t count)
{
    kith_tensor all = ids_of(seed);
    int32_t *ids = all.data;
    for (int64_t p = 0; p < sequence; p++)
        for (int64_t i = 0; i < count; i++)
            ids[p * count + i] = ids[p * BATCH + first + i];
    return kith_tensor_view(ids, KITH_INT32, 2, (const int64_t[]){ sequence, count });
}

/* Forward and back; gradients are added to. */
static void run(setup *s, int64_t sequence, int64_t first, int64_t count, double scale)
{
    kith_batch batch = KITH_BATCH_INIT;
    batch.sequence = sequence, batch.batch = count, batch.first_sample = (uint64_t)first;
    kith_tensor ids = some_of(1, sequence, first, count), targets = some_of(2, sequence, first, count);
    REQUIRE_OK(kith_tape_begin(s->tape, &batch));
    REQUIRE_OK(kith_transformer_forward(s->transformer, s->tape, &ids, &targets, NULL, &s->loss));
    REQUIRE_OK(kith_transformer_backward(s->transformer, s->tape, NULL, scale, 1, NULL));
    free(ids.data), free(targets.data);
}

static setup make(kith_layers *layers)
{
    family f = gpt2();
    kith_transformer_options options = KITH_TRANSFORMER_OPTIONS_INIT;
    options.config = &f.config;
    f.config.dropout = 0.1;
    return make_setup(layers, &options);
}

/* One microbatch of two samples, two of one, and the second before the first. */
void case_steps_microbatches(rank_info *info)
{
    setup whole = make(layers_alone(KITH_F64));
    run(&whole, SEQUENCE, 0, BATCH, 1.0 / TOKENS);
    for (int order = 0; order < 2; order++) {
        setup parts = make(layers_over(info, info->size, KITH_F64, order));
        for (int i = 0; i < BATCH; i++)
            run(&parts, SEQUENCE, order == 0 ? i : BATCH - 1 - i, 1, 1.0 / TOKENS);
        REQUIRE_OK(kith_layers_finish_grads(parts.layers));
        REQUIRE_SAME_GRADS(parts.layers, whole.layers, 1e-12);
        end_setup(&parts);
    }
    end_setup(&whole);
}

/* Twelve positions, then seven: the gradient is the sum of what each gives by itself. */
void case_steps_lengths(rank_info *info)
{
    static const int64_t lengths[] = { SEQUENCE, 7 };
    setup both = make(layers_over(info, info->size, KITH_F64, 1)), sum = make(layers_alone(KITH_F64));
    setup one = make(layers_alone(KITH_F64));
    for (int i = 0; i < 2; i++) {
        run(&both, lengths[i], 0, BATCH, 0.5);
        REQUIRE_OK(kith_layers_zero_grads(one.layers));
        run(&one, lengths[i], 0, BATCH, 0.5);
        for (size_t p = 0; p < kith_layers_param_count(one.layers); p++) {
            const kith_tensor *from = &kith_layers_param(one.layers, p)->grad;
            double *to = kith_layers_param(sum.layers, p)->grad.data;
            for (int64_t e = 0; e < kith_tensor_count(from); e++)
                to[e] += element(from, e);
        }
    }
    REQUIRE_OK(kith_layers_finish_grads(both.layers));
    REQUIRE_SAME_GRADS(both.layers, sum.layers, 1e-12);
    end_setup(&both);
    end_setup(&one);
    end_setup(&sum);
}

/* Over the ranks of tp, each element once. */
static double norm_of(rank_info *info, kith_layers *layers, int is_split)
{
    double squares = 0;
    for (size_t p = 0; p < kith_layers_param_count(layers); p++) {
        const kith_param *param = kith_layers_param(layers, p);
        for (int64_t e = 0; e < kith_tensor_count(&param->grad) && param->is_counted; e++)
            squares += element(&param->grad, e) * element(&param->grad, e);
    }
    if (is_split)
        REQUIRE_OK(kith_all_reduce_scalar(info->world, &squares, KITH_SUM));
    return sqrt(squares);
}

/* Parts 3 and 4 on two ranks, 12 on both: 13, and not sqrt(9 + 16 + 2 * 144). */
static void check_small_norm(rank_info *info)
{
    kith_layers *layers = layers_over(info, info->size, KITH_F64, 0);
    kith_linear_options linear_options = KITH_LINEAR_OPTIONS_INIT;
    linear_options.in_features = 1, linear_options.out_features = 2;
    kith_norm_options norm_options = KITH_NORM_OPTIONS_INIT;
    norm_options.kind = KITH_RMS_NORM, norm_options.features = 1;
    kith_linear *linear;
    kith_norm *norm;
    REQUIRE_OK(kith_linear_create(layers, &linear_options, &linear));
    REQUIRE_OK(kith_norm_create(layers, &norm_options, &norm));
    ((double *)kith_layers_param(layers, 0)->grad.data)[0] = info->rank == 0 ? 3 : 4;
    ((double *)kith_layers_param(layers, 1)->grad.data)[0] = 12;
    REQUIRE(norm_of(info, layers, 1) == 13);
    REQUIRE_OK(kith_layers_destroy(layers));
}

void case_steps_norm(rank_info *info)
{
    if (info->size == 2)
        check_small_norm(info);
    setup alone = make(layers_alone(KITH_F64)), split = make(layers_over(info, info->size, KITH_F64, 1));
    run(&alone, SEQUENCE, 0, BATCH, 1.0 / TOKENS);
    run(&split, SEQUENCE, 0, BATCH, 1.0 / TOKENS);
    REQUIRE_OK(kith_layers_finish_grads(split.layers));
    double wanted = norm_of(info, alone.layers, 0), got = norm_of(info, split.layers, 1);
    if (!(fabs(got - wanted) <= 1e-12 * wanted))
        rank_fail(__FILE__, __LINE__, "the norm of all gradients is %.17g, on one rank %.17g", got, wanted);
    end_setup(&alone);
    end_setup(&split);
}
