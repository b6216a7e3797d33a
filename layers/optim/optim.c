/* layers/optim/optim.c - creation of optimizers, and small questions.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "optim.h"

#include "core/base/fault.h"
#include <math.h>

static bool is_share(double value)
{
    return value >= 0 && value < 1;
}

static bool is_size(double value)
{
    return isfinite(value) && value >= 0;
}

static kith_status check_numbers(const kith_optim_options *o)
{
    if (kith_optim_kind_name(o->kind) == NULL)
        return ki_fail(KITH_ERR_INVALID_ARG, "kith_optim_create: kind %d is neither KITH_ADAMW nor KITH_SGD",
                       (int)o->kind);
    if (!is_share(o->beta1) || !is_share(o->beta2) || !is_share(o->momentum))
        return ki_fail(KITH_ERR_INVALID_ARG,
                       "kith_optim_create: beta1 %g, beta2 %g, momentum %g: wanted at least 0 and below 1", o->beta1,
                       o->beta2, o->momentum);
    if (!is_size(o->epsilon) || !is_size(o->weight_decay) || !is_size(o->clip_norm))
        return ki_fail(KITH_ERR_INVALID_ARG,
                       "kith_optim_create: epsilon %g, weight_decay %g, clip_norm %g: wanted finite numbers, not "
                       "negative",
                       o->epsilon, o->weight_decay, o->clip_norm);
    if (o->kind == KITH_ADAMW && o->epsilon == 0) // a weight without a gradient would become 0 / 0
        return ki_fail(KITH_ERR_INVALID_ARG, "kith_optim_create: epsilon 0, wanted a positive number");
    return KITH_OK;
}

/* ---- groups ---- */

static ki_comm comm_of(kith_group *group)
{
    ki_comm alone = { NULL, 1, 0, KITH_LAYERS_DATA, false };
    ki_comm comm = { group, 1, 0, KITH_LAYERS_DATA, false };
    if (group == NULL || kith_group_size(group) < 2)
        return alone;
    comm.size = kith_group_size(group);
    comm.rank = kith_group_rank(group);
    return comm;
}

/* The ranks that train the model, when the caller did not say. */
static kith_status find_all(kith_optim *optim)
{
    const kith_optim_options *o = &optim->options;
    optim->all = comm_of(o->all);
    if (o->all != NULL)
        return KITH_OK;
    ki_comm tp = ki_comm_tp(optim->layers);
    if ((tp.size > 1 && optim->data.size > 1) || o->tied_group != NULL)
        return ki_fail(KITH_ERR_INVALID_ARG,
                       "kith_optim_create: all must be given, the ranks that train the model: there are %d ranks of tp "
                       "and %d of data%s",
                       tp.size, optim->data.size, o->tied_group != NULL ? ", and other stages" : "");
    optim->all = tp.size > 1 && !optim->layers->is_dry ? tp : optim->data;
    return KITH_OK;
}

static kith_status check_groups(const kith_optim *optim)
{
    const kith_optim_options *o = &optim->options;
    const kith_layers *layers = optim->layers;
    int ep = layers->ep_size, data = optim->data.size, expert_data = optim->expert_data.size;
    if (!layers->is_dry && (int64_t)ep * expert_data != data)
        return ki_fail(
            KITH_ERR_INVALID_ARG,
            "kith_optim_create: data has %d ranks and expert_data %d, with %d ranks of ep: data is all ranks "
            "with other data, which are ep times expert_data",
            data, expert_data, ep);
    if (!layers->is_dry && optim->all.size < data * layers->tp_size)
        return ki_fail(KITH_ERR_INVALID_ARG,
                       "kith_optim_create: all has %d ranks, fewer than %d of tp times %d of data", optim->all.size,
                       layers->tp_size, data);
    if ((o->tied == NULL) != (o->tied_group == NULL) || (o->tied != NULL && o->tied->layers != layers))
        return ki_fail(KITH_ERR_INVALID_ARG,
                       "kith_optim_create: tied is a parameter of these layers, and tied_group the ranks that have it; "
                       "both or none");
    return KITH_OK;
}

static kith_status find_groups(kith_optim *optim)
{
    const kith_optim_options *o = &optim->options;
    if (optim->layers->is_dry && (o->data || o->expert_data || o->all || o->tied || o->tied_group))
        return ki_fail(KITH_ERR_INVALID_ARG, "kith_optim_create: in a dry run of layers there are no groups");
    optim->data = comm_of(o->data);
    optim->expert_data = comm_of(o->expert_data);
    if (o->expert_data == NULL && optim->layers->ep_size == 1)
        optim->expert_data = optim->data;
    return find_all(optim);
}

/* ---- creation ---- */

static kith_status check_layers(const kith_layers *layers)
{
    if (layers->grad_hook.added != NULL)
        return ki_fail(KITH_ERR_BUSY, "kith_optim_create: the layers have an optimizer already");
    if (layers->live_saved > 0 || layers->pending_weights > 0)
        return ki_fail(KITH_ERR_BUSY,
                       "kith_optim_create: tapes of the layers hold what %lld forward functions left and %lld weights "
                       "that are to be done; begin after backward",
                       (long long)layers->live_saved, (long long)layers->pending_weights);
    return KITH_OK;
}

/* All that a rank does by itself. */
static kith_status make(kith_optim *optim)
{
    kith_status status = check_groups(optim);
    if (status == KITH_OK)
        status = ki_space_join(&optim->layers->space, optim->data.group);
    if (status == KITH_OK)
        status = ki_space_join(&optim->layers->space, optim->expert_data.group);
    if (status == KITH_OK)
        status = check_numbers(&optim->options);
    if (status == KITH_OK)
        status = check_layers(optim->layers);
    if (status == KITH_OK)
        status = ki_optim_make_buckets(optim);
    if (status == KITH_OK)
        status = ki_optim_make_state(optim);
    return status;
}

static void destroy(kith_optim *optim)
{
    ki_optim_free_state(optim);
    ki_optim_leave_buckets(optim);
    ki_free(NULL, optim);
}

static void hook(kith_optim *optim)
{
    optim->layers->grad_hook = (ki_grad_hook){ ki_optim_grad_added, ki_optim_grads_zeroed, optim };
}

kith_status kith_optim_create(kith_layers *layers, const kith_optim_options *options, kith_optim **out)
{
    if (layers == NULL || options == NULL || out == NULL)
        return ki_fail(KITH_ERR_INVALID_ARG, "kith_optim_create: layers, options and optim must not be NULL");
    kith_optim scratch = { .layers = layers, .options = KITH_OPTIM_OPTIONS_INIT, .param_count = layers->param_count };
    if (!ki_options_copy(&scratch.options, sizeof scratch.options, options, sizeof options->struct_size))
        return ki_fail(KITH_ERR_INVALID_ARG, "kith_optim_create: options were not made with KITH_OPTIM_OPTIONS_INIT");
    if (scratch.options.bucket_nbytes == 0)
        scratch.options.bucket_nbytes = ((kith_optim_options)KITH_OPTIM_OPTIONS_INIT).bucket_nbytes;
    kith_status status = find_groups(&scratch);
    if (status != KITH_OK)
        return status; // nobody to agree with is known
    kith_optim *optim = (kith_optim *)ki_calloc(NULL, 1, sizeof *optim);
    status = optim == NULL ? KITH_ERR_NO_MEMORY : KITH_OK;
    if (optim != NULL) {
        *optim = scratch;
        status = make(optim);
    }
    status = ki_optim_agree(optim != NULL ? optim : &scratch, status);
    if (status == KITH_OK)
        status = ki_layers_make_copies(layers, 0); // rather than in the first step
    if (status == KITH_OK) {
        hook(optim);
        *out = optim;
    } else if (optim != NULL) {
        destroy(optim);
    }
    return status;
}

void kith_optim_destroy(kith_optim *optim)
{
    if (optim == NULL)
        return;
    ki_optim_settle(optim);
    memset(&optim->layers->grad_hook, 0, sizeof optim->layers->grad_hook);
    destroy(optim);
}

/* ---- questions ---- */

int64_t kith_optim_steps(const kith_optim *optim)
{
    return optim == NULL ? -1 : optim->steps;
}

kith_status kith_optim_set_steps(kith_optim *optim, int64_t steps)
{
    if (optim == NULL || steps < 0)
        return ki_fail(KITH_ERR_INVALID_ARG, "kith_optim_set_steps: optim must not be NULL, steps not negative");
    optim->steps = steps;
    return KITH_OK;
}

size_t kith_optim_bucket_count(const kith_optim *optim)
{
    return optim == NULL ? 0 : optim->bucket_count;
}

kith_status kith_optim_get_bucket(const kith_optim *optim, size_t index, kith_optim_bucket *bucket)
{
    if (optim == NULL || bucket == NULL || index >= optim->bucket_count)
        return ki_fail(KITH_ERR_INVALID_ARG, "kith_optim_get_bucket: there is no bucket %zu of %zu", index,
                       kith_optim_bucket_count(optim));
    const ki_bucket *from = &optim->buckets[index];
    *bucket = (kith_optim_bucket){ .param_count = from->param_count,
                                   .params = from->params,
                                   .elements = from->elements,
                                   .shard_first = from->state_first,
                                   .shard_count = from->state_count,
                                   .is_late = from->is_late,
                                   .is_expert = from->is_expert,
                                   .was_early = from->was_early,
                                   .reduce_start_ns = from->reduce_ns[0],
                                   .reduce_end_ns = from->reduce_ns[1],
                                   .gather_start_ns = from->gather_ns[0],
                                   .gather_end_ns = from->gather_ns[1] };
    return KITH_OK;
}

void kith_optim_get_traffic(const kith_optim *optim, kith_optim_traffic *traffic)
{
    if (optim != NULL && traffic != NULL)
        *traffic = optim->traffic;
}

void kith_optim_reset_traffic(kith_optim *optim)
{
    if (optim != NULL)
        memset(&optim->traffic, 0, sizeof optim->traffic);
}

uint64_t kith_optim_memory(const kith_optim *optim)
{
    return optim == NULL ? 0 : optim->memory_nbytes;
}
