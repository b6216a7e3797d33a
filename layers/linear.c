/* layers/linear.c - creation of linear layers: who has which features.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "linear.h"

#include <stdio.h>

#define FEATURES_MOST ((int64_t)1 << 40)

static kith_status check_sizes(const kith_linear *linear)
{
    const kith_linear_options *o = &linear->options;
    if (o->kind != KITH_LINEAR_COLUMN && o->kind != KITH_LINEAR_ROW && o->kind != KITH_LINEAR_WHOLE)
        return ki_fail(KITH_ERR_INVALID_ARG, "%s: kind %d is none of COLUMN, ROW and WHOLE", linear->name, o->kind);
    if (o->in_features < 1 || o->in_features > FEATURES_MOST || o->out_features < (o->part_count > 0 ? 0 : 1) ||
        o->out_features > FEATURES_MOST)
        return ki_fail(KITH_ERR_INVALID_ARG, "%s: in_features %lld, out_features %lld: wanted 1 to 2^40", linear->name,
                       (long long)o->in_features, (long long)o->out_features);
    if (o->part_count < 0 || o->part_count > KITH_LINEAR_PARTS || (o->part_count > 0) != (o->parts != NULL) ||
        (o->part_count > 0 && (o->kind != KITH_LINEAR_COLUMN || o->out_features != 0)))
        return ki_fail(KITH_ERR_INVALID_ARG,
                       "%s: parts are for COLUMN, 1 to %d of them, and take the place of out_features (0 then)",
                       linear->name, KITH_LINEAR_PARTS);
    if ((o->is_output_gathered || o->tied != NULL) && (o->kind != KITH_LINEAR_COLUMN || o->part_count > 1))
        return ki_fail(KITH_ERR_INVALID_ARG, "%s: is_output_gathered and tied are for COLUMN with one part",
                       linear->name);
    if (o->is_input_whole && o->kind != KITH_LINEAR_ROW)
        return ki_fail(KITH_ERR_INVALID_ARG, "%s: is_input_whole is for ROW", linear->name);
    if (o->in_unit < 0 || (o->in_unit > 0 && (o->kind != KITH_LINEAR_ROW || o->in_features % o->in_unit != 0)))
        return ki_fail(KITH_ERR_INVALID_ARG, "%s: in_unit is for ROW, and in_features must be a multiple of it",
                       linear->name);
    return KITH_OK;
}

/* This rank's units of a part, and how many neighbours have the same. */
static kith_status deal(const kith_linear *linear, const kith_linear_part *part, ki_linear_share *share, int *copies)
{
    int t = linear->layers->tp_size, rank = linear->layers->tp_rank;
    if (part->units < 1 || part->unit_features < 1 || part->units > FEATURES_MOST / part->unit_features)
        return ki_fail(KITH_ERR_INVALID_ARG, "%s: part %s of %lld units of %lld features: wanted at least 1 of each",
                       linear->name, part->name, (long long)part->units, (long long)part->unit_features);
    *copies = 1;
    if (part->units >= t) {
        kith_split_range(part->units, t, rank, &share->first, &share->count);
    } else if (t % part->units == 0) {
        *copies = (int)(t / part->units);
        share->first = rank / *copies;
        share->count = 1;
    } else {
        return ki_fail(
            KITH_ERR_INVALID_ARG,
            "%s: %lld units of part %s cannot be dealt to %d tensor-parallel ranks: at least %d are needed, or "
            "a divisor of %d",
            linear->name, (long long)part->units, part->name, t, t, t);
    }
    share->features = share->count * part->unit_features;
    share->first_feature = share->first * part->unit_features;
    return KITH_OK;
}

/* A weight or a bias of all parts: memory, and the layer's view of it. */
static kith_status fuse_one(kith_layers *layers, int64_t elements, int dim_count, const int64_t *shape,
                            kith_tensor *value, kith_tensor *grad, ki_block **block)
{
    kith_status status = ki_param_memory(layers, elements, block);
    if (status != KITH_OK)
        return status;
    ki_block_view(layers, *block, 0, dim_count, shape, value, grad);
    return ki_block_use(layers, *block, value, grad);
}

static kith_status fuse(kith_linear *linear)
{
    int64_t shape[2] = { linear->out, linear->in }, elements;
    if (__builtin_mul_overflow(linear->out, linear->in, &elements))
        return ki_fail(KITH_ERR_NO_MEMORY, "%s: a weight of [%lld, %lld] is too large", linear->name,
                       (long long)linear->out, (long long)linear->in);
    kith_status status =
        fuse_one(linear->layers, elements, 2, shape, &linear->weight, &linear->weight_grad, &linear->weight_block);
    if (status == KITH_OK && linear->options.has_bias)
        status =
            fuse_one(linear->layers, linear->out, 1, shape, &linear->bias, &linear->bias_grad, &linear->bias_block);
    return status;
}

/* Fills in how a weight or a bias is split, but for what is the same in both. */
static ki_param_spec spec_of(const kith_linear *linear, const kith_linear_part *part, const ki_linear_share *share,
                             int copies)
{
    int t = linear->layers->tp_size;
    ki_param_spec spec = { .prefix = linear->name, .split_dim = -1, .copies = t };
    spec.global_shape[0] = part->units * part->unit_features;
    if (linear->options.kind == KITH_LINEAR_COLUMN && t > 1) {
        spec.split_dim = 0;
        spec.first = share->first_feature;
        spec.count = share->features;
        spec.copies = copies;
        spec.is_grad_partial = copies > 1;
    }
    return spec;
}

static kith_status make_weight(kith_linear *linear, const kith_linear_part *part, int64_t row, int copies,
                               ki_linear_share *share)
{
    ki_param_spec spec = spec_of(linear, part, share, copies);
    const kith_layers *layers = linear->layers;
    char suffix[128];
    snprintf(suffix, sizeof suffix, "%s%sweight", part->name, part->name[0] != '\0' ? "." : "");
    spec.suffix = suffix;
    spec.dim_count = 2;
    spec.global_shape[1] = linear->options.in_features;
    if (linear->options.kind == KITH_LINEAR_ROW && layers->tp_size > 1) {
        spec.split_dim = 1;
        spec.first = linear->first_in;
        spec.count = linear->in;
        spec.copies = 1;
    } else if (linear->options.kind == KITH_LINEAR_WHOLE) {
        spec.is_grad_partial = linear->is_sequence_split;
    }
    spec.is_matrix = true;
    spec.block = linear->weight_block;
    spec.first_element = row * linear->in;
    return ki_param_create(linear->layers, &spec, &share->weight);
}

static kith_status make_bias(kith_linear *linear, const kith_linear_part *part, int64_t row, int copies,
                             ki_linear_share *share)
{
    ki_param_spec spec = spec_of(linear, part, share, copies);
    char suffix[128];
    snprintf(suffix, sizeof suffix, "%s%sbias", part->name, part->name[0] != '\0' ? "." : "");
    spec.suffix = suffix;
    spec.dim_count = 1;
    if (linear->options.kind != KITH_LINEAR_COLUMN) // each rank sees the gradients of its own positions
        spec.is_grad_partial = linear->is_sequence_split;
    spec.block = linear->bias_block;
    spec.first_element = row;
    return ki_param_create(linear->layers, &spec, &share->bias);
}

/* The parts as the caller named them, or the one that he did not name. */
static kith_linear_part part_of(const kith_linear_options *options, int index)
{
    kith_linear_part whole = { "", options->out_features, 1 };
    kith_linear_part part = options->part_count > 0 ? options->parts[index] : whole;
    if (part.name == NULL)
        part.name = "";
    return part;
}

static kith_status share_out(kith_linear *linear, int *copies)
{
    const kith_linear_options *o = &linear->options;
    linear->in = o->in_features;
    if (o->kind != KITH_LINEAR_COLUMN) {
        linear->out = o->out_features;
        ki_linear_share all = { 0, o->out_features, 0, o->out_features, NULL, NULL };
        linear->shares[0] = all;
        copies[0] = linear->layers->tp_size;
        if (o->kind == KITH_LINEAR_WHOLE)
            return KITH_OK;
        int64_t unit = o->in_unit > 0 ? o->in_unit : 1, units = o->in_features / unit;
        if (units < linear->layers->tp_size)
            return ki_fail(
                KITH_ERR_INVALID_ARG,
                "%s: %lld units of %lld input features cannot be dealt to %d tensor-parallel ranks: at least "
                "one for each is needed",
                linear->name, (long long)units, (long long)unit, linear->layers->tp_size);
        kith_split_range(units, linear->layers->tp_size, linear->layers->tp_rank, &linear->first_in, &linear->in);
        linear->first_in *= unit, linear->in *= unit;
        return KITH_OK;
    }
    kith_status status = KITH_OK;
    for (int i = 0; i < linear->share_count && status == KITH_OK; i++) {
        kith_linear_part part = part_of(o, i);
        status = deal(linear, &part, &linear->shares[i], &copies[i]);
        linear->out += linear->shares[i].features;
    }
    return status;
}

/* Rows of padding are left out, so their outputs do not exist. */
static kith_status tie(kith_linear *linear)
{
    const kith_linear_options *o = &linear->options;
    const kith_layers *layers = linear->layers;
    kith_param *tied = o->tied;
    if (tied->layers != layers || tied->dim_count != 2 || tied->global_shape[0] != o->out_features ||
        tied->global_shape[1] != o->in_features || (layers->tp_size > 1 && tied->split_dim != 0))
        return ki_fail(KITH_ERR_INVALID_ARG,
                       "%s: tied to %s, which is not a weight of [%lld, %lld] of these layers, split by rows",
                       linear->name, tied->name, (long long)o->out_features, (long long)o->in_features);
    if (o->has_bias || (o->is_output_gathered && tied->padded > o->out_features))
        return ki_fail(KITH_ERR_INVALID_ARG,
                       "%s: a layer whose weight is tied has no bias, and no gathered output when the weight is padded",
                       linear->name);
    int64_t rows = tied->value.shape[0] - tied->padding;
    linear->weight = kith_tensor_narrow(&tied->value, 0, 0, rows);
    linear->weight_grad = kith_tensor_narrow(&tied->grad, 0, 0, rows);
    linear->in = o->in_features;
    linear->out = rows;
    ki_linear_share all = { tied->first, rows, tied->first, rows, tied, NULL };
    linear->shares[0] = all;
    linear->weight_block = ki_block_of(tied);
    return ki_block_use(linear->layers, linear->weight_block, &linear->weight, &linear->weight_grad);
}

static kith_status make(void *layer)
{
    kith_linear *linear = layer;
    int copies[KITH_LINEAR_PARTS];
    kith_status status = check_sizes(linear);
    linear->share_count = linear->options.part_count > 0 ? linear->options.part_count : 1;
    linear->is_sequence_split = linear->layers->options.is_sequence_parallel && !linear->options.is_inside;
    if (status == KITH_OK && linear->options.tied != NULL)
        return tie(linear);
    if (status == KITH_OK)
        status = share_out(linear, copies);
    if (status == KITH_OK)
        status = fuse(linear);
    int64_t row = 0;
    for (int i = 0; i < linear->share_count && status == KITH_OK; i++) {
        kith_linear_part part = part_of(&linear->options, i);
        status = make_weight(linear, &part, row, copies[i], &linear->shares[i]);
        if (status == KITH_OK && linear->options.has_bias)
            status = make_bias(linear, &part, row, copies[i], &linear->shares[i]);
        row += linear->shares[i].features;
    }
    linear->options.parts = NULL; // the caller's, needed for creation only
    return status;
}

kith_status kith_linear_create(kith_layers *layers, const kith_linear_options *options, kith_linear **linear)
{
    static const kith_linear_options defaults = KITH_LINEAR_OPTIONS_INIT;
    static const ki_layer_type type = { "kith_linear_create",
                                        "linear",
                                        "KITH_LINEAR_OPTIONS_INIT",
                                        sizeof(kith_linear),
                                        sizeof defaults,
                                        &defaults,
                                        make };
    return ki_layer_create(layers, &type, options, linear);
}

static bool has_part(const kith_linear *linear, int part)
{
    return linear != NULL && part >= 0 && part < linear->share_count;
}

kith_status kith_linear_units(const kith_linear *linear, int part, int64_t *first, int64_t *count)
{
    if (!has_part(linear, part) || first == NULL || count == NULL)
        return ki_fail(KITH_ERR_INVALID_ARG, "kith_linear_units: there is no part %d", part);
    *first = linear->shares[part].first;
    *count = linear->shares[part].count;
    return KITH_OK;
}

kith_param *kith_linear_weight(const kith_linear *linear, int part)
{
    return has_part(linear, part) ? linear->shares[part].weight : NULL;
}

kith_param *kith_linear_bias(const kith_linear *linear, int part)
{
    return has_part(linear, part) ? linear->shares[part].bias : NULL;
}
