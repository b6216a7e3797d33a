/* layers/head.c - creation of heads.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "head.h"

static kith_status check_options(const kith_head *head)
{
    const kith_head_options *o = &head->options;
    if (!(o->label_smoothing >= 0 && o->label_smoothing < 1))
        return ki_fail(KITH_ERR_INVALID_ARG, "%s: label_smoothing %g, wanted at least 0 and below 1", head->name,
                       o->label_smoothing);
    if (o->label_smoothing > 0 && o->vocabulary == 1)
        return ki_fail(KITH_ERR_INVALID_ARG, "%s: label_smoothing needs a vocabulary of at least two words",
                       head->name);
    return KITH_OK;
}

/* Each word on one rank, as an embedding has them; else the sums over ranks would count some twice. */
static kith_status take_tied(kith_head *head)
{
    const kith_head_options *o = &head->options;
    const kith_param *tied = o->tied;
    if (tied->layers != head->layers || tied->dim_count != 2 || tied->global_shape[0] != o->vocabulary ||
        tied->global_shape[1] != o->features ||
        (head->layers->tp_size > 1 && (tied->split_dim != 0 || tied->copies != 1)))
        return ki_fail(KITH_ERR_INVALID_ARG,
                       "%s: tied to %s, which is not a weight of [%lld, %lld] of these layers with its rows split over "
                       "tp, as kith_embedding_weight() is",
                       head->name, tied->name, (long long)o->vocabulary, (long long)o->features);
    head->weight = o->tied;
    head->vocabulary = ki_vocabulary_of(tied);
    return KITH_OK;
}

static kith_status make_weight(kith_head *head)
{
    const kith_head_options *o = &head->options;
    if (o->tied != NULL)
        return take_tied(head);
    kith_status status =
        ki_vocabulary_deal(head->layers, head->name, o->vocabulary, o->padding_multiple, &head->vocabulary);
    if (status == KITH_OK)
        status = ki_vocabulary_table(head->layers, head->name, &head->vocabulary, o->features, &head->weight);
    return status;
}

static kith_status make_linear(kith_head *head)
{
    kith_linear_options options = KITH_LINEAR_OPTIONS_INIT;
    options.name = head->name;
    options.in_features = head->options.features;
    options.out_features = head->options.vocabulary;
    options.tied = head->weight;
    return kith_linear_create(head->layers, &options, &head->linear);
}

static ki_cross_entropy loss_of(const kith_head *head)
{
    const kith_head_options *o = &head->options;
    double words = (double)o->vocabulary;
    ki_cross_entropy how = { .words = o->vocabulary,
                             .first = o->is_gathered ? 0 : head->vocabulary.first,
                             .ignored = o->ignored,
                             .is_split = !o->is_gathered };
    if (o->label_smoothing > 0) // the other words' share, given to the target as well
        how.smoothing = o->label_smoothing * words / (words - 1);
    return how;
}

static kith_status make(void *layer)
{
    kith_head *head = layer;
    kith_status status = check_options(head);
    if (status == KITH_OK)
        status = make_weight(head);
    if (status == KITH_OK)
        status = make_linear(head);
    if (status == KITH_OK)
        head->loss = loss_of(head);
    return status;
}

kith_status kith_head_create(kith_layers *layers, const kith_head_options *options, kith_head **head)
{
    static const kith_head_options defaults = KITH_HEAD_OPTIONS_INIT;
    static const ki_layer_type type = {
        "kith_head_create", "head", "KITH_HEAD_OPTIONS_INIT", sizeof(kith_head), sizeof defaults, &defaults, make
    };
    return ki_layer_create(layers, &type, options, head);
}

kith_param *kith_head_weight(const kith_head *head)
{
    return head == NULL ? NULL : head->weight;
}
