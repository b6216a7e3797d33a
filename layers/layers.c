/* layers/layers.c - the place where a rank's layers live.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "layers.h"

#include "core/base/fault.h"
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

static kith_status check_options(const kith_layers_options *options)
{
    if (options->dtype != KITH_F32 && options->dtype != KITH_F64 && options->dtype != KITH_BF16 &&
        options->dtype != KITH_F16)
        return ki_fail(KITH_ERR_INVALID_ARG, "kith_layers_create: dtype %s, wanted f32, f64, bf16 or f16",
                       kith_dtype_name(options->dtype));
    bool is_dry = options->dry_tp != 0 || options->dry_ep != 0;
    if (options->dry_tp < 0 || options->dry_ep < 0)
        return ki_fail(KITH_ERR_INVALID_ARG, "kith_layers_create: dry_tp and dry_ep must not be negative");
    if (is_dry && (options->tp != NULL || options->ep != NULL || options->data != NULL))
        return ki_fail(KITH_ERR_INVALID_ARG, "kith_layers_create: a dry run (dry_tp, dry_ep) takes no groups");
    if (is_dry && (options->device != NULL || options->stream != NULL))
        return ki_fail(KITH_ERR_INVALID_ARG, "kith_layers_create: a dry run (dry_tp, dry_ep) takes no device");
    if (options->blas_threads < -1 || options->blas_threads > 1024)
        return ki_fail(KITH_ERR_INVALID_ARG, "kith_layers_create: blas_threads %d, wanted -1, 0 or 1 .. 1024",
                       options->blas_threads);
    return KITH_OK;
}

/* The cores that this process may use, divided among the ranks of its host. */
static int share_of_cores(const kith_layers_options *options)
{
    cpu_set_t usable;
    int cores = sched_getaffinity(0, sizeof usable, &usable) == 0 ? CPU_COUNT(&usable) : 1;
    const kith_group *any = options->tp != NULL ? options->tp : options->ep != NULL ? options->ep : options->data;
    int ranks = any == NULL ? 1 : kith_local_size(kith_group_ctx(any));
    return cores > ranks && ranks > 0 ? cores / ranks : 1;
}

static kith_status open_compute(kith_layers *layers)
{
    if (layers->is_dry)
        return ki_compute_open_dry(&layers->compute);
    if (!ki_space_is_host(&layers->space)) {
        kith_status status =
            ki_space_open_compute(&layers->space, layers->options.allows_tf32 != 0, &layers->compute);
        if (status == KITH_OK) {
            layers->compute->wait = ki_space_wait;
            layers->compute->space = &layers->space;
        }
        return status;
    }
    int threads = layers->options.blas_threads;
    if (threads == 0)
        threads = share_of_cores(&layers->options);
    return ki_compute_open_host(threads < 0 ? 0 : threads, &layers->compute);
}

static void find_ranks(kith_layers *layers)
{
    const kith_layers_options *options = &layers->options;
    layers->is_dry = options->dry_tp > 0 || options->dry_ep > 0;
    layers->tp_size = options->tp != NULL ? kith_group_size(options->tp) : options->dry_tp > 0 ? options->dry_tp : 1;
    layers->ep_size = options->ep != NULL ? kith_group_size(options->ep) : options->dry_ep > 0 ? options->dry_ep : 1;
    layers->tp_rank = options->tp != NULL ? kith_group_rank(options->tp) : 0;
    layers->ep_rank = options->ep != NULL ? kith_group_rank(options->ep) : 0;
}

/* One status for all ranks; they have gone the same way up to here, whatever happened to them. */
static kith_status agree(const kith_layers_options *options, kith_status status)
{
    const ki_number numbers[] = { { "dtype", (int64_t)options->dtype },
                                  { "is_sequence_parallel", options->is_sequence_parallel },
                                  { "is_debug", options->is_debug },
                                  { "seed", (int64_t)options->seed },
                                  { "device (on some ranks alone)", options->device != NULL },
                                  { "allows_tf32", options->allows_tf32 != 0 } };
    return ki_agree_on(options->tp, options->ep, status, "kith_layers_create", numbers,
                       sizeof numbers / sizeof numbers[0]);
}

/* What was made after `until`, latest first. */
static void destroy_owned(kith_layers *layers, const ki_owned *until)
{
    while (layers->owned != until) {
        ki_owned *owned = layers->owned;
        layers->owned = owned->next;
        if (owned->destroy != NULL)
            owned->destroy(owned->object);
        free(owned->object);
        free(owned);
    }
}

/* What the layers send is ordered with what they compute. */
static kith_status join_groups(kith_layers *layers)
{
    kith_group *const groups[] = { layers->options.tp, layers->options.ep, layers->options.data };
    kith_status status = KITH_OK;
    for (int i = 0; i < 3 && status == KITH_OK; i++)
        status = ki_space_join(&layers->space, groups[i]);
    return status;
}

/* Groups do not go on with a stream that is gone. */
static void leave_groups(const kith_layers *layers)
{
    kith_group *const groups[] = { layers->options.tp, layers->options.ep, layers->options.data };
    for (int i = 0; layers->space.owns_stream && i < 3; i++)
        if (groups[i] != NULL && kith_group_status(groups[i]) == KITH_OK)
            (void)kith_group_set_stream(groups[i], NULL);
}

static void destroy(kith_layers *layers)
{
    if (layers == NULL)
        return;
    ki_space_settle(&layers->space);
    destroy_owned(layers, NULL);
    while (layers->copies != NULL) {
        ki_copies *copies = layers->copies;
        layers->copies = copies->next;
        kith_group_destroy(copies->group);
        free(copies);
    }
    ki_buffers_free(layers);
    if (!layers->space.is_stuck) // it waits for its work
        ki_compute_close(layers->compute);
    leave_groups(layers);
    ki_space_close(&layers->space);
    free(layers->params);
    free(layers);
}

static kith_status make(const kith_layers_options *options, kith_layers **out)
{
    kith_status status = check_options(options);
    if (status != KITH_OK)
        return status;
    kith_layers *layers = ki_fault(KI_FAULT_ALLOC) ? NULL : calloc(1, sizeof *layers);
    if (layers == NULL)
        return ki_fail(KITH_ERR_NO_MEMORY, "kith_layers_create: no memory");
    layers->options = *options;
    layers->dtype = options->dtype;
    layers->accumulator = ki_accumulator_of(options->dtype);
    find_ranks(layers);
    status = ki_space_open("kith_layers_create", options->device, options->stream, &layers->space);
    if (status == KITH_OK)
        status = open_compute(layers);
    if (status == KITH_OK)
        status = join_groups(layers);
    if (status != KITH_OK)
        destroy(layers);
    else
        *out = layers;
    return status;
}

kith_status kith_layers_create(const kith_layers_options *options, kith_layers **layers)
{
    kith_layers_options taken = KITH_LAYERS_OPTIONS_INIT;
    if (options != NULL && !ki_options_copy(&taken, sizeof taken, options, sizeof options->struct_size))
        return ki_fail(KITH_ERR_INVALID_ARG, "kith_layers_create: options were not made with KITH_LAYERS_OPTIONS_INIT");
    kith_layers *made = NULL;
    kith_status status = layers != NULL ? make(&taken, &made)
                                        : ki_fail(KITH_ERR_INVALID_ARG, "kith_layers_create: layers must not be NULL");
    status = agree(&taken, status);
    if (status != KITH_OK)
        destroy(made);
    else
        *layers = made;
    return status;
}

kith_status kith_layers_destroy(kith_layers *layers)
{
    if (layers == NULL)
        return KITH_OK;
    if (layers->grad_hook.added != NULL)
        return ki_fail(KITH_ERR_BUSY, "kith_layers_destroy: an optimizer of the layers is still there");
    if (layers->live_tapes > 0 || layers->live_buffers > 0)
        return ki_fail(KITH_ERR_BUSY, "kith_layers_destroy: %lld tapes and %lld tensors are still there",
                       (long long)layers->live_tapes, (long long)layers->live_buffers);
    destroy(layers);
    return KITH_OK;
}

kith_stream *kith_layers_stream(const kith_layers *layers)
{
    return layers == NULL ? NULL : layers->space.stream;
}

kith_status kith_layers_synchronize(kith_layers *layers)
{
    if (layers == NULL)
        return ki_fail(KITH_ERR_INVALID_ARG, "kith_layers_synchronize: layers must not be NULL");
    return ki_space_wait(&layers->space);
}

int kith_layers_tp_size(const kith_layers *layers)
{
    return layers == NULL ? -1 : layers->tp_size;
}

int kith_layers_tp_rank(const kith_layers *layers)
{
    return layers == NULL ? -1 : layers->tp_rank;
}

static void add_traffic(kith_layers_traffic *sum, const kith_layers_traffic *one)
{
    for (int phase = 0; phase < KITH_PHASES; phase++)
        for (int kind = 0; kind < KITH_TRAFFIC_KINDS; kind++) {
            sum->ops[phase][kind] += one->ops[phase][kind];
            sum->elements[phase][kind] += one->elements[phase][kind];
            sum->nbytes[phase][kind] += one->nbytes[phase][kind];
            sum->wire_nbytes[phase][kind] += one->wire_nbytes[phase][kind];
            sum->wait_ns[phase][kind] += one->wait_ns[phase][kind];
        }
}

void kith_layers_get_traffic(const kith_layers *layers, kith_layers_traffic *traffic)
{
    if (layers == NULL || traffic == NULL)
        return;
    memset(traffic, 0, sizeof *traffic);
    for (int axis = 0; axis < KITH_LAYERS_AXES; axis++)
        add_traffic(traffic, &layers->traffic[axis]);
}

void kith_layers_get_axis_traffic(const kith_layers *layers, kith_layers_axis axis, kith_layers_traffic *traffic)
{
    if (layers != NULL && traffic != NULL && (unsigned)axis < KITH_LAYERS_AXES)
        *traffic = layers->traffic[axis];
}

void kith_layers_reset_traffic(kith_layers *layers)
{
    if (layers != NULL)
        memset(layers->traffic, 0, sizeof layers->traffic);
}

void kith_layers_set_watch(kith_layers *layers, kith_layers_watch_fn watch, void *arg)
{
    if (layers != NULL) {
        layers->watch = watch;
        layers->watch_arg = arg;
    }
}

void kith_layers_get_memory(const kith_layers *layers, kith_layers_memory *memory)
{
    if (layers != NULL && memory != NULL)
        *memory = layers->memory;
}

void kith_layers_reset_memory_peak(kith_layers *layers)
{
    if (layers != NULL)
        layers->memory.tensors_peak = layers->memory.tensors;
}

kith_status ki_layers_own(kith_layers *layers, size_t nbytes, void (*destroy_object)(void *object), void *object_out)
{
    void *object = ki_fault(KI_FAULT_ALLOC) ? NULL : calloc(1, nbytes);
    ki_owned *owned = object == NULL ? NULL : calloc(1, sizeof *owned);
    if (owned == NULL) {
        free(object);
        return ki_fail(KITH_ERR_NO_MEMORY, "layers: no memory for %zu bytes of a layer", nbytes);
    }
    owned->object = object;
    owned->destroy = destroy_object;
    owned->next = layers->owned;
    layers->owned = owned;
    memcpy(object_out, &object, sizeof object);
    return KITH_OK;
}

ki_mark ki_layers_mark(const kith_layers *layers)
{
    ki_mark mark = { layers->owned, layers->param_count, layers->memory.parameters, layers->memory.grads };
    return mark;
}

void ki_layers_take_back(kith_layers *layers, const ki_mark *mark)
{
    ki_space_settle(&layers->space);
    destroy_owned(layers, mark->owned);
    layers->param_count = mark->param_count;
    layers->memory.parameters = mark->parameters;
    layers->memory.grads = mark->grads;
}

kith_status ki_layers_name(kith_layers *layers, const char *prefix, const char *kind, const char **name)
{
    char made[64];
    if (prefix == NULL) {
        snprintf(made, sizeof made, "%s%d", kind, layers->unnamed++);
        prefix = made;
    }
    char *kept = NULL;
    kith_status status = ki_layers_own(layers, strlen(prefix) + 1, NULL, &kept);
    if (status != KITH_OK)
        return status;
    memcpy(kept, prefix, strlen(prefix) + 1);
    *name = kept;
    return KITH_OK;
}

kith_status ki_layers_join_name(kith_layers *layers, const char *prefix, const char *suffix, const char **name)
{
    size_t nbytes = strlen(prefix) + strlen(suffix) + 2;
    char *kept = NULL;
    kith_status status = ki_layers_own(layers, nbytes, NULL, &kept);
    if (status != KITH_OK)
        return status;
    snprintf(kept, nbytes, "%s.%s", prefix, suffix);
    *name = kept;
    return KITH_OK;
}

static kith_status begin(kith_layers *layers, const ki_layer_type *type, const void *options, ki_layer *layer)
{
    void *taken = &layer->options;
    memcpy(taken, type->defaults, type->options_nbytes);
    if (!ki_options_copy(taken, type->options_nbytes, options, sizeof(size_t)))
        return ki_fail(KITH_ERR_INVALID_ARG, "%s: options were not made with %s", type->function, type->init);
    layer->layers = layers;
    kith_status status = ki_layers_name(layers, layer->options.name, type->kind, &layer->name);
    layer->options.name = layer->name;
    return status;
}

kith_status ki_layer_create(kith_layers *layers, const ki_layer_type *type, const void *options, void *layer_out)
{
    if (layers == NULL || options == NULL || layer_out == NULL)
        return ki_fail(KITH_ERR_INVALID_ARG, "%s: layers, options and %s must not be NULL", type->function, type->kind);
    ki_mark mark = ki_layers_mark(layers);
    void *made = NULL;
    kith_status status = ki_layers_own(layers, type->nbytes, NULL, &made);
    if (status != KITH_OK)
        return status;
    status = begin(layers, type, options, made);
    if (status == KITH_OK)
        status = type->make(made);
    if (status == KITH_OK)
        memcpy(layer_out, &made, sizeof made);
    else
        ki_layers_take_back(layers, &mark);
    return status;
}
