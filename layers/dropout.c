/* layers/dropout.c - y = residual + dropout(x + bias).
 *
 * A mask is a function of (seed, site, sample, position, feature) in the whole model's numbering (compute.h). So it is
 * the same on all ranks that hold an element and for every layout, another where features are split, and the same again
 * when a forward is repeated; there is nothing to save and no state to restore.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "dropout.h"

#define COORDINATES ((uint64_t)1 << 32) // each is a word of the generator's counter

kith_status ki_dropout_check(const char *what, double probability, int site)
{
    if (!(probability >= 0 && probability < 1))
        return ki_fail(KITH_ERR_INVALID_ARG, "%s: dropout probability %g, wanted 0 <= probability < 1", what,
                       probability);
    if (site < 0 || site >= KI_DROPOUT_SITES)
        return ki_fail(KITH_ERR_INVALID_ARG, "%s: dropout site %d, wanted 0 to %d", what, site, KI_DROPOUT_SITES - 1);
    return KITH_OK;
}

kith_status ki_dropout_make(const kith_tape *tape, const char *what, double probability, int site, ki_dropout *dropout)
{
    const kith_batch *batch = &tape->batch;
    bool is_on = batch->is_training != 0 && probability > 0;
    if (is_on && batch->first_sample > COORDINATES - (uint64_t)batch->batch)
        return ki_fail(KITH_ERR_INVALID_ARG,
                       "%s: first_sample of the microbatch is %llu: dropout numbers samples below 2^32", what,
                       (unsigned long long)batch->first_sample);
    memset(dropout, 0, sizeof *dropout);
    dropout->probability = is_on ? probability : 0;
    dropout->seed = tape->layers->options.seed;
    dropout->site = (uint32_t)site;
    dropout->first_sample = (uint32_t)batch->first_sample;
    dropout->batch = (uint32_t)batch->batch;
    return KITH_OK;
}

/* Rows are this rank's positions or all of them; the shape tells, as with several ranks the two differ. */
static kith_status find_rows(const kith_tape *tape, const char *function, const kith_tensor *x, ki_dropout *dropout)
{
    int64_t rows = ki_rows(x);
    if (rows == ki_tape_tokens(tape))
        dropout->first_position = 0;
    else if (rows == ki_tape_local_tokens(tape))
        dropout->first_position = (uint32_t)tape->first_position;
    else
        return ki_fail(KITH_ERR_INVALID_ARG,
                       "%s: a tensor of %lld rows, wanted the %lld tokens of the microbatch or this rank's %lld",
                       function, (long long)rows, (long long)ki_tape_tokens(tape),
                       (long long)ki_tape_local_tokens(tape));
    return KITH_OK;
}

static kith_status find_mask(const kith_dropout_options *options, const kith_tape *tape, const char *function,
                             const kith_tensor *x, ki_dropout *dropout)
{
    kith_status status = ki_dropout_check(function, options->probability, options->site);
    if (status == KITH_OK)
        status = ki_dropout_make(tape, function, options->probability, options->site, dropout);
    if (status == KITH_OK)
        status = find_rows(tape, function, x, dropout);
    if (status != KITH_OK)
        return status;
    if (options->first_feature < 0 || (uint64_t)options->first_feature > COORDINATES - 1 ||
        (uint64_t)options->first_feature + (uint64_t)ki_features(x) > COORDINATES)
        return ki_fail(KITH_ERR_INVALID_ARG, "%s: features from %lld on, %lld of them: wanted at least 0, below 2^32",
                       function, (long long)options->first_feature, (long long)ki_features(x));
    dropout->first_feature = (uint32_t)options->first_feature;
    return KITH_OK;
}

static kith_status take_options(const char *function, const kith_dropout_options *options, const kith_tape *tape,
                                kith_dropout_options *taken)
{
    *taken = (kith_dropout_options)KITH_DROPOUT_OPTIONS_INIT;
    if (options == NULL || tape == NULL)
        return ki_fail(KITH_ERR_INVALID_ARG, "%s: options and tape must not be NULL", function);
    if (!ki_options_copy(taken, sizeof *taken, options, sizeof options->struct_size))
        return ki_fail(KITH_ERR_INVALID_ARG, "%s: options were not made with KITH_DROPOUT_OPTIONS_INIT", function);
    return KITH_OK;
}

/* A partial sum has neither its bias once nor a residual once; any other layout will do. */
static kith_status check_input(const kith_tape *tape, const char *what, const kith_tensor *x)
{
    const kith_layers *layers = tape->layers;
    ki_expected input = { -1, -1, layers->dtype, KITH_LAYOUT_UNKNOWN, 0 };
    kith_status status = ki_expect(layers, what, x, &input);
    if (status == KITH_OK && layers->options.is_debug && layers->tp_size > 1 && x->layout == KITH_PARTIAL)
        return ki_fail(KITH_ERR_INVALID_ARG, "%s is partial over the tensor-parallel ranks, wanted replicated or split",
                       what);
    return status;
}

static kith_status check_addends(const kith_tape *tape, const kith_tensor *x, const kith_param *bias,
                                 const kith_tensor *residual)
{
    kith_layers *layers = tape->layers;
    if (bias != NULL &&
        (bias->layers != layers || bias->dim_count != 1 || kith_tensor_count(&bias->value) != ki_features(x)))
        return ki_fail(KITH_ERR_INVALID_ARG,
                       "kith_dropout_forward: bias %s is not one of %lld elements of these layers", bias->name,
                       (long long)ki_features(x));
    if (residual == NULL)
        return KITH_OK;
    ki_expected like = { ki_rows(x), ki_features(x), x->dtype, x->layout, x->split_dim };
    if (x->layout == KITH_SPLIT && x->split_dim == x->dim_count - 1)
        like.split_dim = -1;
    return ki_expect(layers, "kith_dropout_forward: residual", residual, &like);
}

kith_status kith_dropout_forward(const kith_dropout_options *options, kith_tape *tape, const kith_tensor *x,
                                 const kith_param *bias, const kith_tensor *residual, kith_tensor *y)
{
    static const char function[] = "kith_dropout_forward";
    if (y == NULL)
        return ki_fail(KITH_ERR_INVALID_ARG, "%s: y must not be NULL", function);
    kith_dropout_options taken;
    ki_dropout mask;
    kith_tensor made = { 0 };
    kith_status status;
    KI_OR_GOTO(end, take_options(function, options, tape, &taken));
    KI_OR_GOTO(end, ki_tape_enter(tape, tape->layers, function, KITH_PHASE_FORWARD));
    KI_OR_GOTO(end, check_input(tape, "kith_dropout_forward: x", x));
    KI_OR_GOTO(end, check_addends(tape, x, bias, residual));
    KI_OR_GOTO(end, find_mask(&taken, tape, function, x, &mask));
    KI_OR_GOTO(end, ki_tensor_create_like(tape->layers, x, ki_features(x), &made));
    ki_compute *compute = tape->layers->compute;
    ki_mat bias_row = bias != NULL ? ki_mat_of(&bias->value) : ki_no_mat();
    ki_mat beside = residual != NULL ? ki_mat_of(residual) : ki_no_mat();
    KI_OR_GOTO(end, compute->ops->dropout_add(compute, &mask, ki_mat_of(x), bias_row, beside, ki_mat_of(&made)));
    KI_OR_GOTO(end, kith_tensor_retain(&made, y));
end:
    kith_tensor_release(&made);
    return status;
}

kith_status kith_dropout_backward(const kith_dropout_options *options, kith_tape *tape, const kith_tensor *dy,
                                  kith_tensor *dx)
{
    static const char function[] = "kith_dropout_backward";
    if (dx == NULL)
        return ki_fail(KITH_ERR_INVALID_ARG, "%s: dx must not be NULL: there is nothing else to compute", function);
    kith_dropout_options taken;
    ki_dropout mask;
    kith_tensor made = { 0 };
    kith_status status;
    KI_OR_GOTO(end, take_options(function, options, tape, &taken));
    KI_OR_GOTO(end, ki_tape_enter(tape, tape->layers, function, KITH_PHASE_BACKWARD));
    KI_OR_GOTO(end, check_input(tape, "kith_dropout_backward: dy", dy));
    KI_OR_GOTO(end, find_mask(&taken, tape, function, dy, &mask));
    if (tape->batch.is_training == 0) {
        status = ki_fail(KITH_ERR_INVALID_ARG, "%s: the microbatch has is_training 0", function);
        goto end;
    }
    if (mask.probability == 0 && dy->buffer != NULL) { // dy itself, if it lives as long as dx may
        KI_OR_GOTO(end, kith_tensor_retain(dy, dx));
        goto end;
    }
    ki_compute *compute = tape->layers->compute;
    KI_OR_GOTO(end, ki_tensor_create_like(tape->layers, dy, ki_features(dy), &made));
    KI_OR_GOTO(end, compute->ops->dropout_grad(compute, &mask, ki_mat_of(dy), ki_mat_of(&made)));
    KI_OR_GOTO(end, kith_tensor_retain(&made, dx));
end:
    kith_tensor_release(&made);
    return status;
}
