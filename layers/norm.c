/* layers/norm.c - LayerNorm and RMSNorm over the features of a token, or of each head of it.
 *
 * Rows are normalised by themselves, so nothing is communicated. What takes care is the gradient of weight and bias:
 * with sequence parallelism a rank sees its own positions only, and a norm of heads sees its own heads only, so both
 * are summands until kith_layers_finish_grads() has added them.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "norm.h"

#include <math.h>

#define FEATURES_MOST ((int64_t)1 << 40)
#define EPSILON 1e-5

static kith_status make_param(kith_norm *norm, const char *suffix, double start, kith_param **param)
{
    kith_layers *layers = norm->layers;
    ki_param_spec spec = { .prefix = norm->name, .suffix = suffix, .dim_count = 1, .split_dim = -1 };
    spec.global_shape[0] = norm->options.features;
    spec.copies = layers->tp_size;
    spec.is_grad_partial = norm->options.is_of_heads || layers->options.is_sequence_parallel;
    kith_status status = ki_param_create(layers, &spec, param);
    if (status == KITH_OK)
        status = ki_block_use(layers, ki_block_of(*param), NULL, NULL);
    return status == KITH_OK ? kith_param_fill(*param, start) : status;
}

static kith_status make(void *layer)
{
    kith_norm *norm = layer;
    kith_norm_options *o = &norm->options;
    if (o->kind != KITH_LAYER_NORM && o->kind != KITH_RMS_NORM)
        return ki_fail(KITH_ERR_INVALID_ARG, "%s: kind %d is neither KITH_LAYER_NORM nor KITH_RMS_NORM", norm->name,
                       o->kind);
    if (o->features < 1 || o->features > FEATURES_MOST)
        return ki_fail(KITH_ERR_INVALID_ARG, "%s: features %lld: wanted 1 to 2^40", norm->name, (long long)o->features);
    if (!(o->epsilon >= 0) || !isfinite(o->epsilon))
        return ki_fail(KITH_ERR_INVALID_ARG, "%s: epsilon %g: wanted a positive number, or 0 for %g", norm->name,
                       o->epsilon, EPSILON);
    if (o->epsilon == 0)
        o->epsilon = EPSILON;
    kith_status status = make_param(norm, "weight", 1, &norm->weight);
    if (status == KITH_OK && o->kind == KITH_LAYER_NORM)
        status = make_param(norm, "bias", 0, &norm->bias);
    return status;
}

kith_status kith_norm_create(kith_layers *layers, const kith_norm_options *options, kith_norm **norm)
{
    static const kith_norm_options defaults = KITH_NORM_OPTIONS_INIT;
    static const ki_layer_type type = {
        "kith_norm_create", "norm", "KITH_NORM_OPTIONS_INIT", sizeof(kith_norm), sizeof defaults, &defaults, make
    };
    return ki_layer_create(layers, &type, options, norm);
}

kith_status ki_norm_statistics_create(const kith_norm *norm, int64_t rows, int64_t heads, ki_norm_statistics *made)
{
    kith_layers *layers = norm->layers;
    kith_status status = ki_tensor_create_2d(layers, layers->accumulator, rows, heads, &made->rstd);
    if (status == KITH_OK && norm->options.kind == KITH_LAYER_NORM)
        status = ki_tensor_create_2d(layers, layers->accumulator, rows, heads, &made->mean);
    return status;
}

void ki_norm_statistics_release(ki_norm_statistics *statistics)
{
    kith_tensor_release(&statistics->mean);
    kith_tensor_release(&statistics->rstd);
}

static ki_mat row_of(const kith_param *param, const kith_tensor *which)
{
    return param == NULL ? ki_no_mat() : ki_mat_of(which);
}

static ki_mat head_of(ki_mat mat, int64_t head, int64_t features)
{
    return ki_mat_cols(mat, head * features, features);
}

kith_status ki_norm_rows(const kith_norm *norm, ki_mat x, ki_mat y, const ki_norm_statistics *statistics)
{
    ki_compute *compute = norm->layers->compute;
    const kith_norm_options *o = &norm->options;
    ki_mat weight = ki_mat_of(&norm->weight->value);
    ki_mat bias = row_of(norm->bias, norm->bias == NULL ? NULL : &norm->bias->value);
    kith_status status = KITH_OK;
    for (int64_t h = 0; h * o->features < x.cols && status == KITH_OK; h++) {
        ki_mat from = head_of(x, h, o->features), to = head_of(y, h, o->features);
        ki_mat rstd = head_of(ki_mat_of(&statistics->rstd), h, 1);
        if (o->kind == KITH_LAYER_NORM)
            status = compute->ops->layer_norm(compute, o->epsilon, from, weight, bias, to,
                                              head_of(ki_mat_of(&statistics->mean), h, 1), rstd);
        else
            status = compute->ops->rms_norm(compute, o->epsilon, from, weight, to, rstd);
    }
    return status;
}

kith_status ki_norm_rows_grad(const kith_norm *norm, ki_mat x, const ki_norm_statistics *statistics, ki_mat dy,
                              ki_mat dx)
{
    ki_compute *compute = norm->layers->compute;
    const kith_norm_options *o = &norm->options;
    ki_mat weight = ki_mat_of(&norm->weight->value), weight_grad = ki_mat_of(&norm->weight->grad);
    ki_mat bias_grad = row_of(norm->bias, norm->bias == NULL ? NULL : &norm->bias->grad);
    kith_status status = KITH_OK;
    for (int64_t h = 0; h * o->features < x.cols && status == KITH_OK; h++) {
        ki_mat rows = head_of(x, h, o->features), from = head_of(dy, h, o->features), to = head_of(dx, h, o->features);
        ki_mat rstd = head_of(ki_mat_of(&statistics->rstd), h, 1);
        if (o->kind == KITH_LAYER_NORM)
            status = compute->ops->layer_norm_grad(compute, rows, weight, head_of(ki_mat_of(&statistics->mean), h, 1),
                                                   rstd, from, to, weight_grad, bias_grad);
        else
            status = compute->ops->rms_norm_grad(compute, rows, weight, rstd, from, to, weight_grad);
    }
    if (status == KITH_OK)
        ki_grad_added(norm->layers, ki_block_of(norm->weight));
    if (status == KITH_OK && norm->bias != NULL)
        ki_grad_added(norm->layers, ki_block_of(norm->bias));
    return status;
}

/* With sequence parallelism only shards are taken: of a whole sequence every rank would add the same gradient, and the
 * sum be tp times too large. */
static ki_expected expected(const kith_norm *norm, const kith_tape *tape)
{
    kith_dtype dtype = norm->layers->dtype;
    if (norm->options.is_of_heads) {
        ki_expected heads = { -1, -1, dtype, KITH_SPLIT, -1 };
        return heads;
    }
    ki_expected whole = { -1, norm->options.features, dtype, KITH_REPLICATED, 0 };
    if (norm->layers->options.is_sequence_parallel) {
        whole.rows = ki_tape_local_tokens(tape);
        whole.layout = KITH_SPLIT;
    }
    return whole;
}

static kith_status check_heads(const kith_norm *norm, const kith_tensor *x)
{
    if (ki_features(x) % norm->options.features == 0)
        return KITH_OK;
    return ki_fail(KITH_ERR_INVALID_ARG, "kith_norm_forward: x has %lld features, wanted a multiple of the %lld of %s",
                   (long long)ki_features(x), (long long)norm->options.features, norm->name);
}

kith_status kith_norm_forward(kith_norm *norm, kith_tape *tape, const kith_tensor *x, kith_tensor *y)
{
    static const char function[] = "kith_norm_forward";
    if (norm == NULL || y == NULL)
        return ki_fail(KITH_ERR_INVALID_ARG, "%s: norm and y must not be NULL", function);
    ki_norm_statistics statistics = { 0 };
    kith_tensor made = { 0 };
    kith_status status;
    KI_OR_GOTO(end, ki_tape_enter(tape, norm->layers, function, KITH_PHASE_FORWARD));
    ki_expected input = expected(norm, tape);
    KI_OR_GOTO(end, ki_expect(norm->layers, "kith_norm_forward: x", x, &input));
    KI_OR_GOTO(end, check_heads(norm, x));
    KI_OR_GOTO(end, ki_norm_statistics_create(norm, ki_rows(x), ki_features(x) / norm->options.features, &statistics));
    KI_OR_GOTO(end, ki_tensor_create_like(norm->layers, x, ki_features(x), &made));
    KI_OR_GOTO(end, ki_norm_rows(norm, ki_mat_of(x), ki_mat_of(&made), &statistics));
    ki_saved saved = { .owner = norm, .name = norm->name };
    KI_OR_GOTO(end, ki_saved_keep(&saved, 0, x));
    saved.tensors[1] = statistics.rstd, saved.tensors[2] = statistics.mean; // the tape's from here on
    memset(&statistics, 0, sizeof statistics);
    KI_OR_GOTO(end, ki_tape_push(tape, &saved));
    KI_OR_GOTO(end, kith_tensor_retain(&made, y));
end:
    ki_norm_statistics_release(&statistics);
    kith_tensor_release(&made);
    return status;
}

kith_status kith_norm_backward(kith_norm *norm, kith_tape *tape, const kith_tensor *dy, kith_tensor *dx)
{
    static const char function[] = "kith_norm_backward";
    if (norm == NULL)
        return ki_fail(KITH_ERR_INVALID_ARG, "%s: norm must not be NULL", function);
    ki_saved saved = { 0 };
    kith_tensor made = { 0 };
    kith_status status;
    const ki_saved *top = NULL;
    KI_OR_GOTO(end, ki_tape_enter(tape, norm->layers, function, KITH_PHASE_BACKWARD));
    KI_OR_GOTO(end, ki_tape_peek(tape, norm, norm->name, &top));
    ki_expected output = expected(norm, tape);
    output.rows = ki_rows(&top->tensors[0]);
    output.features = ki_features(&top->tensors[0]);
    KI_OR_GOTO(end, ki_expect(norm->layers, "kith_norm_backward: dy", dy, &output));
    KI_OR_GOTO(end, ki_tape_pop(tape, norm, norm->name, &saved));
    KI_OR_GOTO(end, ki_tensor_create_like(norm->layers, dy, ki_features(dy), &made));
    ki_norm_statistics statistics = { .rstd = saved.tensors[1], .mean = saved.tensors[2] };
    KI_OR_GOTO(end,
               ki_norm_rows_grad(norm, ki_mat_of(&saved.tensors[0]), &statistics, ki_mat_of(dy), ki_mat_of(&made)));
    if (dx != NULL)
        KI_OR_GOTO(end, kith_tensor_retain(&made, dx));
end:
    ki_saved_release(&saved);
    kith_tensor_release(&made);
    return status;
}
