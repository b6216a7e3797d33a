/* schedules/pipeline_device.c - messages whose data lie on a device.
 *
 * The header travels by itself, from host to host, and the data follow it, from device to device and ordered with the
 * stages' stream. A receiver reads the header before it asks for the data, so it asks for as many bytes as are sent -
 * NCCL wants that - and for none when a rank has failed. Hosts run ahead of their devices: a header comes as soon as
 * the sender's host is there, long before the data are computed.
 *
 * Data of one group may go through one queue, where each transfer waits for the one before on both ends (NCCL's do). So
 * they are started at their SEND and RECV, in the order of the list. kith_schedule_check() has played the plan through
 * with ranks that wait in every SEND and every RECV for the other end, which is that queue.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "pipeline.h"

#include "core/base/error.h"

#include <kith/p2p.h>

kith_status ki_pipe_device_check(const kith_pipeline *p)
{
    const kith_pipeline_options *o = &p->options;
    if ((o->device == NULL) != (o->stream == NULL))
        return ki_fail(KITH_ERR_INVALID_ARG, "options.device and options.stream of a pipeline go together");
    if (o->device == NULL)
        return KITH_OK;
    if (o->is_ordered)
        return ki_fail(KITH_ERR_UNSUPPORTED, "is_ordered adds up gradients on the host: not with a device");
    if (4 * (int64_t)p->stages * p->microbatches - 1 > KITH_TAG_MAX)
        return ki_fail(KITH_ERR_INVALID_ARG,
                       "%d stages and %d microbatches need %lld tags on a device: messages have %lld",
                       p->stages, p->microbatches, 4 * (long long)p->stages * p->microbatches,
                       (long long)KITH_TAG_MAX + 1);
    return KITH_OK;
}

/* ---- tags: headers have those of messages on the host, data those behind ---- */

static int tag_of_data(const kith_pipeline *p, int tag)
{
    return KI_DIRECTIONS * p->stages * p->microbatches + tag;
}

static int tag_of_receive(const kith_pipeline *p, const kith_action *a)
{
    ki_pipe_direction direction = ki_pipe_message_direction(a);
    return ki_pipe_message_tag(p, direction == KI_UP ? a->stage - 1 : a->stage + 1, a->microbatch, direction);
}

/* ---- sends ---- */

kith_status ki_pipe_device_send(kith_pipeline *p, size_t at)
{
    const kith_action *a = &p->actions[at];
    ki_pipe_direction direction = ki_pipe_message_direction(a);
    ki_pipe_pair *pair = ki_pipe_pair_at(p, a);
    ki_pipe_buffer *buffer = pair->out[direction];
    if (buffer == NULL)
        return ki_fail(KITH_ERR_INTERNAL, "stage %d, microbatch %d: a SEND before there is a result", a->stage,
                       a->microbatch);
    pair->out[direction] = NULL;
    ki_pipe_pool *pool = buffer->pool;
    buffer->head = ki_pipe_message_head(p, a, &buffer->view);
    buffer->sent_at = at;
    size_t nbytes = (size_t)buffer->head.nbytes, index = pool->send_count++;
    pool->sent[index] = buffer;
    int peer = ki_schedule_peer(p->schedule, a), tag = ki_pipe_message_tag(p, a->stage, a->microbatch, direction);
    ki_pipe_note_start(p, at);
    kith_status status =
        kith_send_start(p->group, &buffer->head, sizeof buffer->head, KITH_UINT8, peer, tag, &buffer->head_request);
    if (status == KITH_OK && nbytes > 0)
        status = kith_send_start(p->group, buffer->view.data, nbytes, KITH_UINT8, peer, tag_of_data(p, tag),
                                 &pool->sends[index]);
    p->stats.sent_count++;
    p->stats.sent_nbytes += nbytes;
    return status;
}

static kith_status test_send(ki_pipe_pool *pool, size_t i, bool *is_over)
{
    int is_told = 0, is_sent = 0;
    kith_status status = kith_test(&pool->sent[i]->head_request, &is_told);
    if (status == KITH_OK)
        status = kith_test(&pool->sends[i], &is_sent);
    *is_over = is_told && is_sent;
    return status;
}

/* The one that stands first in the list ends first. */
static kith_status wait_for_first(kith_pipeline *p, ki_pipe_pool *pool)
{
    size_t first = 0;
    for (size_t i = 1; i < pool->send_count; i++)
        if (pool->sent[i]->sent_at < pool->sent[first]->sent_at)
            first = i;
    kith_status status = kith_wait(&pool->sent[first]->head_request);
    if (status == KITH_OK)
        status = kith_wait(&pool->sends[first]);
    if (status == KITH_OK)
        ki_pipe_message_end_send(p, pool, first);
    return status;
}

kith_status ki_pipe_device_reap(kith_pipeline *p, ki_pipe_pool *pool, bool is_waiting)
{
    size_t before = pool->send_count;
    for (size_t i = before; i-- > 0;) {
        bool is_over;
        kith_status status = test_send(pool, i, &is_over);
        if (status != KITH_OK)
            return status;
        if (is_over)
            ki_pipe_message_end_send(p, pool, i);
    }
    return is_waiting && pool->send_count == before ? wait_for_first(p, pool) : KITH_OK;
}

/* ---- receives ---- */

kith_status ki_pipe_device_post_head(kith_pipeline *p, size_t at)
{
    const kith_action *a = &p->actions[at];
    ki_pipe_direction direction = ki_pipe_message_direction(a);
    ki_pipe_pair *pair = ki_pipe_pair_at(p, a);
    ki_pipe_note_start(p, at);
    return kith_recv_start(p->group, &pair->head[direction], sizeof pair->head[direction], KITH_UINT8,
                           ki_schedule_peer(p->schedule, a), tag_of_receive(p, a), &pair->head_request[direction]);
}

kith_status ki_pipe_device_receive(kith_pipeline *p, size_t at)
{
    const kith_action *a = &p->actions[at];
    ki_pipe_direction direction = ki_pipe_message_direction(a);
    ki_pipe_pair *pair = ki_pipe_pair_at(p, a);
    const ki_pipe_head *head = &pair->head[direction];
    int boundary = ki_pipe_message_boundary(a);
    size_t nbytes = 0;
    kith_status status = kith_wait_received(&pair->head_request[direction], &nbytes);
    if (status == KITH_OK)
        status = ki_pipe_message_take(p, boundary, &pair->in[direction]);
    if (status != KITH_OK)
        return status;
    size_t capacity_nbytes = ki_pipe_message_pool(p, boundary)->capacity_nbytes;
    bool is_whole = nbytes == sizeof *head && head->nbytes <= capacity_nbytes;
    size_t data_nbytes = is_whole ? (size_t)head->nbytes : SIZE_MAX;
    status = ki_pipe_message_read_head(p, a, head, data_nbytes, pair->in[direction]);
    if (status != KITH_OK || data_nbytes == 0)
        return status;
    return kith_recv_start(p->group, pair->in[direction]->view.data, data_nbytes, KITH_UINT8,
                           ki_schedule_peer(p->schedule, a), tag_of_data(p, tag_of_receive(p, a)),
                           &pair->request[direction]);
}
