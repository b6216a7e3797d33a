/* layers/comm.c - every collective that a layer makes: counted, poisoned in debug mode, left out for one rank.
 *
 * Parts of a whole may differ by one unit (kith_split_range()); where they do not, the plain forms of the
 * collectives are used, which are faster than the forms with counts.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "layers.h"

#include "core/base/clock.h"
#include <kith/request.h>
#include <stdlib.h>

#define SIZES_ON_STACK 64

ki_comm ki_comm_tp(const kith_layers *layers)
{
    ki_comm comm = { layers->is_dry ? NULL : layers->options.tp, layers->tp_size, layers->tp_rank, KITH_LAYERS_TP,
                     false };
    return comm;
}

ki_comm ki_comm_ep(const kith_layers *layers)
{
    ki_comm comm = { layers->is_dry ? NULL : layers->options.ep, layers->ep_size, layers->ep_rank, KITH_LAYERS_EP,
                     false };
    return comm;
}

ki_comm ki_comm_data(const kith_layers *layers)
{
    kith_group *data = layers->options.data;
    if (data == NULL)
        return ki_comm_ep(layers);
    ki_comm comm = { data, kith_group_size(data), kith_group_rank(data), KITH_LAYERS_DATA, false };
    return comm;
}

/* sent: elements that leave this rank. */
static void count_sent(kith_layers *layers, kith_layers_phase phase, kith_coll_kind kind, ki_comm comm,
                       int64_t elements, double sent, kith_dtype dtype)
{
    kith_layers_traffic *traffic = &layers->traffic[comm.axis];
    size_t each = kith_dtype_nbytes(dtype);
    traffic->ops[phase][kind]++;
    traffic->elements[phase][kind] += (uint64_t)elements;
    traffic->nbytes[phase][kind] += (uint64_t)elements * each;
    traffic->wire_nbytes[phase][kind] += sent * (double)each;
}

static void count(kith_layers *layers, kith_layers_phase phase, kith_coll_kind kind, ki_comm comm, int64_t elements,
                  kith_dtype dtype)
{
    double crossings = kind == KITH_ALL_REDUCE ? 2 : 1;
    count_sent(layers, phase, kind, comm, elements, crossings * (double)elements * (comm.size - 1) / comm.size, dtype);
}

/* What arrives must not be used before it is there. */
static kith_status poison(const ki_started *started, void *data, int64_t elements, kith_dtype dtype)
{
    if (!started->layers->options.is_debug || data == NULL)
        return KITH_OK;
    return ki_space_fill(started->space, data, 0xff, (size_t)elements * kith_dtype_nbytes(dtype));
}

static void begin(kith_layers *layers, kith_layers_phase phase, kith_coll_kind kind, ki_comm comm, int64_t elements,
                  kith_dtype dtype, ki_started *started)
{
    uint64_t nbytes = (uint64_t)elements * kith_dtype_nbytes(dtype);
    const ki_space *space = comm.is_on_host ? &ki_host_space : &layers->space;
    *started = (ki_started){ NULL, space, layers, comm.axis, phase, kind, ki_now_ns(), nbytes };
}

static void end(const ki_started *started)
{
    kith_layers *layers = started->layers;
    if (layers->watch != NULL)
        layers->watch(layers->watch_arg, started->phase, started->kind, started->start_ns, ki_now_ns(),
                      started->nbytes);
}

kith_status ki_comm_all_reduce_start(kith_layers *layers, kith_layers_phase phase, ki_comm comm, void *data,
                                     int64_t elements, kith_dtype dtype, kith_op op, ki_started *started)
{
    begin(layers, phase, KITH_ALL_REDUCE, comm, elements, dtype, started);
    if (comm.size == 1)
        return KITH_OK;
    count(layers, phase, KITH_ALL_REDUCE, comm, elements, dtype);
    if (comm.group == NULL)
        return KITH_OK;
    return kith_all_reduce_start(comm.group, data, data, (size_t)elements, dtype, op, &started->request);
}

kith_status ki_comm_all_reduce(kith_layers *layers, kith_layers_phase phase, ki_comm comm, void *data, int64_t elements,
                               kith_dtype dtype, kith_op op)
{
    if (comm.size == 1)
        return KITH_OK;
    count(layers, phase, KITH_ALL_REDUCE, comm, elements, dtype);
    if (comm.group == NULL)
        return KITH_OK;
    ki_started started;
    begin(layers, phase, KITH_ALL_REDUCE, comm, elements, dtype, &started);
    kith_status status = kith_all_reduce(comm.group, data, data, (size_t)elements, dtype, op);
    layers->traffic[comm.axis].wait_ns[phase][KITH_ALL_REDUCE] += (uint64_t)(ki_now_ns() - started.start_ns);
    end(&started);
    return status;
}

/* counts: [comm.size] in elements. */
static void part_counts(ki_comm comm, int64_t units, int64_t unit, size_t *counts)
{
    for (int r = 0; r < comm.size; r++) {
        int64_t first, part;
        kith_split_range(units, comm.size, r, &first, &part);
        counts[r] = (size_t)(part * unit);
    }
}

/* Room for counts: the caller's array when it is large enough. */
static size_t *room_for(ki_comm comm, size_t *on_stack, size_t **allocated)
{
    *allocated = NULL;
    if (comm.size <= SIZES_ON_STACK)
        return on_stack;
    return *allocated = malloc((size_t)comm.size * sizeof **allocated);
}

static kith_status no_memory(void)
{
    return ki_fail(KITH_ERR_NO_MEMORY, "layers: no memory for the sizes of the parts of a tensor");
}

static size_t part_of(ki_comm comm, int64_t units, int64_t unit)
{
    int64_t first, part;
    kith_split_range(units, comm.size, comm.rank, &first, &part);
    return (size_t)(part * unit);
}

kith_status ki_comm_all_gather_start(kith_layers *layers, kith_layers_phase phase, ki_comm comm, const void *own,
                                     void *whole, int64_t units, int64_t unit, kith_dtype dtype, ki_started *started)
{
    begin(layers, phase, KITH_ALL_GATHER, comm, units * unit, dtype, started);
    size_t mine = part_of(comm, units, unit);
    if (comm.size == 1)
        return own == whole || whole == NULL
                   ? KITH_OK
                   : ki_space_copy(started->space, whole, own, mine * kith_dtype_nbytes(dtype));
    count(layers, phase, KITH_ALL_GATHER, comm, units * unit, dtype);
    if (comm.group == NULL)
        return KITH_OK;
    kith_status status = poison(started, whole, units * unit, dtype);
    if (status != KITH_OK)
        return status;
    if (units % comm.size == 0)
        return kith_all_gather_start(comm.group, own, whole, mine, dtype, &started->request);
    size_t on_stack[SIZES_ON_STACK], *allocated;
    size_t *counts = room_for(comm, on_stack, &allocated);
    if (counts == NULL)
        return no_memory();
    part_counts(comm, units, unit, counts);
    status = kith_all_gather_v_start(comm.group, own, whole, counts, NULL, dtype, &started->request);
    free(allocated);
    return status;
}

kith_status ki_comm_reduce_scatter_start(kith_layers *layers, kith_layers_phase phase, ki_comm comm, const void *whole,
                                         void *own, int64_t units, int64_t unit, kith_dtype dtype, ki_started *started)
{
    begin(layers, phase, KITH_REDUCE_SCATTER, comm, units * unit, dtype, started);
    size_t mine = part_of(comm, units, unit);
    if (comm.size == 1)
        return own == whole || own == NULL ? KITH_OK
                                           : ki_space_copy(started->space, own, whole, mine * kith_dtype_nbytes(dtype));
    count(layers, phase, KITH_REDUCE_SCATTER, comm, units * unit, dtype);
    if (comm.group == NULL)
        return KITH_OK;
    kith_status status = poison(started, own, (int64_t)mine, dtype);
    if (status != KITH_OK)
        return status;
    if (units % comm.size == 0)
        return kith_reduce_scatter_start(comm.group, whole, own, mine, dtype, KITH_SUM, &started->request);
    size_t on_stack[SIZES_ON_STACK], *allocated;
    size_t *counts = room_for(comm, on_stack, &allocated);
    if (counts == NULL)
        return no_memory();
    part_counts(comm, units, unit, counts);
    status = kith_reduce_scatter_v_start(comm.group, whole, own, counts, dtype, KITH_SUM, &started->request);
    free(allocated);
    return status;
}

kith_status ki_comm_poll(ki_started *started)
{
    int is_done = 0;
    if (started->request == NULL)
        return KITH_OK;
    kith_status status = kith_test(&started->request, &is_done);
    if (is_done)
        end(started);
    return status;
}

kith_status ki_comm_wait(ki_started *started)
{
    if (started->request == NULL)
        return KITH_OK;
    int64_t start_ns = ki_now_ns();
    kith_status status = ki_space_end(started->space, &started->request);
    kith_layers_traffic *traffic = &started->layers->traffic[started->axis];
    traffic->wait_ns[started->phase][started->kind] += (uint64_t)(ki_now_ns() - start_ns);
    end(started);
    return status;
}

void ki_comm_settle(ki_started *started)
{
    if (started->request != NULL)
        ki_comm_wait(started);
}

static int64_t sum_of(const int64_t *counts, int n)
{
    int64_t sum = 0;
    for (int r = 0; r < n; r++)
        sum += counts[r];
    return sum;
}

kith_status ki_comm_all_to_all_v_start(kith_layers *layers, kith_layers_phase phase, ki_comm comm, const void *send,
                                       const int64_t *send_counts, void *recv, const int64_t *recv_counts,
                                       kith_dtype dtype, ki_started *started)
{
    int64_t sent = sum_of(send_counts, comm.size), received = sum_of(recv_counts, comm.size);
    begin(layers, phase, KITH_ALL_TO_ALL_V, comm, sent, dtype, started);
    if (comm.size == 1)
        return recv == NULL ? KITH_OK
                            : ki_space_copy(started->space, recv, send, (size_t)sent * kith_dtype_nbytes(dtype));
    count_sent(layers, phase, KITH_ALL_TO_ALL_V, comm, sent, (double)(sent - send_counts[comm.rank]), dtype);
    if (comm.group == NULL)
        return KITH_OK;
    kith_status status = poison(started, recv, received, dtype);
    if (status != KITH_OK)
        return status;
    size_t *counts = malloc(2 * (size_t)comm.size * sizeof *counts);
    if (counts == NULL)
        return no_memory();
    for (int r = 0; r < comm.size; r++) {
        counts[r] = (size_t)send_counts[r];
        counts[comm.size + r] = (size_t)recv_counts[r];
    }
    status = kith_all_to_all_v_start(comm.group, send, counts, NULL, recv, counts + comm.size, NULL, dtype,
                                     &started->request);
    free(counts);
    return status;
}

kith_status ki_comm_all_to_all_v(kith_layers *layers, kith_layers_phase phase, ki_comm comm, const void *send,
                                 const int64_t *send_counts, void *recv, const int64_t *recv_counts, kith_dtype dtype)
{
    ki_started started;
    kith_status status =
        ki_comm_all_to_all_v_start(layers, phase, comm, send, send_counts, recv, recv_counts, dtype, &started);
    return status == KITH_OK ? ki_comm_wait(&started) : status;
}
