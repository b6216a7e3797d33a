/* tests/layers/layer_norm.c - norms: against plain arithmetic, on any layout, and sums of gradients from public
 * reports.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "layer_check.h"

#include <math.h>

enum { FEATURES = 6, BATCH = 2 };

SUBJECT_FUNCTIONS(norm)

static void make_norm(kith_layers *layers, const void *options, subject *made)
{
    kith_norm *norm;
    REQUIRE_OK(kith_norm_create(layers, options, &norm));
    made->layer = norm;
    made->forward = norm_forward, made->backward = norm_backward;
    made->in = made->out = FEATURES;
}

static kith_norm_options options_of(kith_norm_kind kind)
{
    kith_norm_options options = KITH_NORM_OPTIONS_INIT;
    options.name = "norm", options.kind = kind, options.features = FEATURES, options.epsilon = 1e-3;
    return options;
}

/* y of one rank, written out. */
static void check_values(const kith_norm_options *options)
{
    recipe how = { make_norm, options, 3, BATCH, fraction };
    subject s;
    make_subject(&how, layers_alone(KITH_F64), 0, &s);
    kith_tensor x = input_of(&s, KITH_F64, &how), y, dx;
    run_subject(&s, &x, &x, &y, &dx);
    const kith_tensor *weight = &kith_layers_find_param(s.layers, "norm.weight")->value;
    const kith_param *bias = kith_layers_find_param(s.layers, "norm.bias");
    REQUIRE((bias != NULL) == (options->kind == KITH_LAYER_NORM));
    for (int64_t r = 0; r < 3 * BATCH; r++) {
        double mean = 0, square = 0;
        for (int64_t i = 0; i < FEATURES && bias != NULL; i++)
            mean += element(&x, r * FEATURES + i) / FEATURES;
        for (int64_t i = 0; i < FEATURES; i++)
            square += pow(element(&x, r * FEATURES + i) - mean, 2) / FEATURES;
        for (int64_t i = 0; i < FEATURES; i++) {
            double wanted = (element(&x, r * FEATURES + i) - mean) / sqrt(square + 1e-3) * element(weight, i);
            wanted += bias != NULL ? element(&bias->value, i) : 0;
            double got = element(&y, r * FEATURES + i);
            if (!(fabs(got - wanted) < 1e-14))
                rank_fail(__FILE__, __LINE__, "y[%d, %d] is %.17g, wanted %.17g", (int)r, (int)i, got, wanted);
        }
    }
    kith_tensor_release(&y), kith_tensor_release(&dx);
    free(x.data);
    end_subject(&s);
}

void case_norm(rank_info *info)
{
    for (int kind = 0; kind < 2; kind++) {
        kith_norm_options options = options_of(kind == 0 ? KITH_LAYER_NORM : KITH_RMS_NORM);
        recipe how = { make_norm, &options, info->size + 1, BATCH, fraction };
        check_values(&options);
        require_layouts_agree(info, &how, KITH_F64, 1e-14, 1);
        require_layouts_agree(info, &how, KITH_F32, 1e-6, 1);
        require_layouts_agree(info, &how, KITH_BF16, 1e-6, 1);
        require_layouts_agree(info, &how, KITH_F16, 1e-6, 1);
        for (int sp = 0; sp < 2; sp++)
            require_dry_run_counts(info, &how, KITH_BF16, sp);
    }
}

void case_norm_gradients(rank_info *info)
{
    for (int kind = 0; kind < 2; kind++)
        for (int sp = 0; sp < 2; sp++) {
            kith_norm_options options = options_of(kind == 0 ? KITH_LAYER_NORM : KITH_RMS_NORM);
            recipe how = { make_norm, &options, 3, BATCH, fraction };
            require_gradients(info, &how, sp);
        }
}

/* Rows (1, -1) and gradients (k, k) of token k: the weight's is k (1, -1), of which each rank has its positions. */
void case_norm_sequence(rank_info *info)
{
    enum { TOKENS = 4 };
    double rows[2 * TOKENS], grads[2 * TOKENS], partial = 0, sum = 0;
    kith_norm_options options = KITH_NORM_OPTIONS_INIT;
    options.features = 2, options.epsilon = 1e-30; // the variance is 1
    kith_layers *layers = layers_over(info, info->size, KITH_F64, 1);
    kith_norm *norm;
    REQUIRE_OK(kith_norm_create(layers, &options, &norm));
    int64_t first, count;
    kith_split_range(TOKENS, info->size, info->rank, &first, &count);
    for (int k = 0; k < TOKENS; k++) {
        rows[2 * k] = 1, rows[2 * k + 1] = -1;
        grads[2 * k] = grads[2 * k + 1] = k + 1;
        sum += k + 1;
        partial += k >= first && k < first + count ? k + 1 : 0;
    }
    kith_tensor x = kith_tensor_view(rows + 2 * first, KITH_F64, 2, (const int64_t[]){ count, 2 });
    kith_tensor dy = kith_tensor_view(grads + 2 * first, KITH_F64, 2, (const int64_t[]){ count, 2 }), y, dx;
    kith_tape *tape = tape_of(layers, TOKENS, 1);
    REQUIRE_OK(kith_norm_forward(norm, tape, &x, &y));
    REQUIRE_OK(kith_norm_backward(norm, tape, &dy, &dx));
    const kith_param *weight = kith_layers_param(layers, 0), *bias = kith_layers_param(layers, 1);
    REQUIRE(element(&weight->grad, 0) == partial && element(&weight->grad, 1) == -partial);
    REQUIRE_OK(kith_layers_finish_grads(layers));
    REQUIRE(element(&weight->grad, 0) == sum && element(&weight->grad, 1) == -sum); // 10, -10
    REQUIRE(element(&bias->grad, 0) == sum && element(&bias->grad, 1) == sum);
    kith_tensor_release(&y), kith_tensor_release(&dx);
    kith_tape_destroy(tape);
    REQUIRE_OK(kith_layers_destroy(layers));
}

/* A weight that is shared by heads sees only the heads of its rank: a summand without sequence parallelism, too. */
void case_norm_heads(rank_info *info)
{
    static const double parts[4][2] = { { 0.1200, 0.0400 }, { 0.0197, -0.0077 }, { 1, 2 }, { -0.5, 0.25 } };
    double rows[4] = { 1, 1, -1, 1 }, grads[4], sum[2] = { 0, 0 };
    for (int i = 0; i < 2; i++) { // two heads, the second with -1 in its first feature
        grads[i] = parts[info->rank][i];
        grads[2 + i] = 0.5;
        for (int r = 0; r < info->size; r++)
            sum[i] += parts[r][i] + (i == 0 ? -0.5 : 0.5);
    }
    kith_norm_options options = KITH_NORM_OPTIONS_INIT;
    options.kind = KITH_RMS_NORM, options.features = 2, options.epsilon = 1e-30, options.is_of_heads = 1;
    kith_layers *layers = layers_over(info, info->size, KITH_F64, 0);
    kith_norm *norm;
    REQUIRE_OK(kith_norm_create(layers, &options, &norm));
    kith_tensor x = kith_tensor_view(rows, KITH_F64, 2, (const int64_t[]){ 1, 4 });
    kith_tensor dy = kith_tensor_view(grads, KITH_F64, 2, (const int64_t[]){ 1, 4 }), y, dx;
    kith_tape *tape = tape_of(layers, 1, 1);
    REQUIRE_OK(kith_norm_forward(norm, tape, &x, &y));
    REQUIRE_EQUAL("y of heads of length 1", &y, &x, 1e-15);
    REQUIRE_OK(kith_norm_backward(norm, tape, &dy, &dx));
    REQUIRE_OK(kith_layers_finish_grads(layers));
    const kith_param *weight = kith_layers_param(layers, 0);
    for (int i = 0; i < 2; i++) // 0.1397 and 0.0323 from the first heads of two ranks
        if (!(fabs(element(&weight->grad, i) - sum[i]) < 1e-15))
            rank_fail(__FILE__, __LINE__, "gradient %d is %.17g, wanted %.17g", i, element(&weight->grad, i), sum[i]);
    kith_tensor_release(&y), kith_tensor_release(&dx);
    kith_tensor odd = kith_tensor_view(rows, KITH_F64, 2, (const int64_t[]){ 1, 3 });
    REQUIRE_STATUS(kith_norm_forward(norm, tape, &odd, &y), KITH_ERR_INVALID_ARG);
    REQUIRE_DETAIL("wanted a multiple of the 2");
    kith_tape_destroy(tape);
    REQUIRE_OK(kith_layers_destroy(layers));
}

/* Refused with a sentence, at no cost: backward can be tried again. */
void case_norm_misuse(rank_info *info)
{
    kith_layers *layers = layers_over(info, info->size, KITH_F64, 1);
    kith_norm_options options = options_of(KITH_LAYER_NORM);
    kith_norm *norm;
    options.features = 0;
    REQUIRE_STATUS(kith_norm_create(layers, &options, &norm), KITH_ERR_INVALID_ARG);
    REQUIRE_DETAIL("features 0: wanted 1 to 2^40");
    options.features = FEATURES, options.epsilon = -1;
    REQUIRE_STATUS(kith_norm_create(layers, &options, &norm), KITH_ERR_INVALID_ARG);
    REQUIRE(kith_layers_param_count(layers) == 0);
    options.epsilon = 0;
    REQUIRE_OK(kith_norm_create(layers, &options, &norm)); // the name is free again
    int64_t tokens = 2 * info->size;
    kith_tape *tape = tape_of(layers, tokens, 1);
    kith_tensor x = numbers(KITH_F64, tokens, FEATURES, 1, fraction), y, dx;
    kith_tensor mine = shard_of(layers, &x, tokens, 1, 1);
    if (info->size > 1) { // a whole sequence: its gradient would be counted by every rank
        REQUIRE_STATUS(kith_norm_forward(norm, tape, &x, &y), KITH_ERR_INVALID_ARG);
        REQUIRE_DETAIL("rows (all dimensions but the last), wanted 2");
    }
    REQUIRE_OK(kith_norm_forward(norm, tape, &mine, &y));
    kith_tensor less = kith_tensor_narrow(&mine, 0, 0, 1);
    REQUIRE_STATUS(kith_norm_backward(norm, tape, &less, &dx), KITH_ERR_INVALID_ARG);
    REQUIRE(kith_tape_depth(tape) == 1);
    REQUIRE_OK(kith_norm_backward(norm, tape, &mine, NULL));
    kith_tensor_release(&y);
    free(x.data);
    kith_tape_destroy(tape);
    REQUIRE_OK(kith_layers_destroy(layers));
}
