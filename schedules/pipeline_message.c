/* schedules/pipeline_message.c - activations and gradients between ranks.
 *
 * A message is one send: a header of 64 bytes and the data behind it, so the size and the shape may change from
 * microbatch to microbatch, and a rank that has failed can say that there is nothing in it. The tag holds microbatch,
 * sending stage and direction, so messages of one step never meet in the wrong place; messages of two steps with the
 * same tag keep their order.
 *
 * Receives are posted at their RECV at the latest, and up to `prefetch` of each direction ahead of it while there is a
 * buffer. Sends are started when their data is ready; nobody waits for one unless its buffer is needed, or the step
 * ends.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "pipeline.h"

#include "core/base/error.h"
#include "core/base/mem.h"

#include <kith/p2p.h>
#include <string.h>

_Static_assert(KI_STAGES_MAX <= UINT16_MAX + 1, "a stage fits the header");

/* Bytes of a buffer with its header, in whole lines; 0: too large. */
size_t ki_pipe_message_stride(size_t capacity_nbytes)
{
    size_t nbytes;
    return ki_add(capacity_nbytes, 2 * KI_HEAD_NBYTES - 1, &nbytes) ? nbytes / KI_HEAD_NBYTES * KI_HEAD_NBYTES : 0;
}

/* What a callback that fills the buffer finds. */
void ki_pipe_message_attach(ki_pipe_buffer *buffer, unsigned char *memory, size_t capacity_nbytes)
{
    buffer->view = (kith_pipeline_buffer){ .data = memory + KI_HEAD_NBYTES,
                                           .capacity_nbytes = capacity_nbytes,
                                           .nbytes = capacity_nbytes };
}

int ki_pipe_message_tag(const kith_pipeline *p, int sending_stage, int microbatch, ki_pipe_direction direction)
{
    return (microbatch * p->stages + sending_stage) * KI_DIRECTIONS + (int)direction;
}

ki_pipe_direction ki_pipe_message_direction(const kith_action *a)
{
    return a->type == KITH_ACTION_SEND_F || a->type == KITH_ACTION_RECV_F ? KI_UP : KI_DOWN;
}

ki_pipe_pool *ki_pipe_message_pool(kith_pipeline *p, int boundary)
{
    return &p->pools[p->pool_of[boundary]];
}

/* ---- sends ---- */

ki_pipe_head ki_pipe_message_head(const kith_pipeline *p, const kith_action *send, const kith_pipeline_buffer *view)
{
    ki_pipe_head h = { .nbytes = p->is_failed ? 0 : view->nbytes,
                       .microbatch = send->microbatch,
                       .stage = (uint16_t)send->stage,
                       .dim_count = (uint8_t)(p->is_failed ? 0 : view->dim_count),
                       .is_empty = p->is_failed };
    memcpy(h.shape, view->shape, sizeof h.shape);
    return h;
}

kith_status ki_pipe_message_send(kith_pipeline *p, size_t at, ki_pipe_buffer *buffer)
{
    const kith_action *a = &p->actions[at];
    ki_pipe_head h = ki_pipe_message_head(p, a, &buffer->view);
    memcpy(buffer->memory, &h, sizeof h);
    size_t nbytes = (size_t)h.nbytes;
    ki_pipe_pool *pool = buffer->pool;
    ki_pipe_note_start(p, at);
    kith_status status = kith_send_start(
        p->group, buffer->memory, KI_HEAD_NBYTES + nbytes, KITH_UINT8, ki_schedule_peer(p->schedule, a),
        ki_pipe_message_tag(p, a->stage, a->microbatch, ki_pipe_message_direction(a)), &pool->sends[pool->send_count]);
    if (status != KITH_OK)
        return status;
    buffer->sent_at = at;
    pool->sent[pool->send_count++] = buffer;
    p->stats.sent_count++;
    p->stats.sent_nbytes += nbytes;
    return KITH_OK;
}

/* The send at index i of the pool is over. */
void ki_pipe_message_end_send(kith_pipeline *p, ki_pipe_pool *pool, size_t i)
{
    ki_pipe_note_end(p, pool->sent[i]->sent_at);
    ki_pipe_pool_give(p, pool->sent[i]);
    pool->send_count--;
    pool->sends[i] = pool->sends[pool->send_count];
    pool->sent[i] = pool->sent[pool->send_count];
    pool->sends[pool->send_count] = NULL;
}

static kith_status reap(kith_pipeline *p, ki_pipe_pool *pool)
{
    if (!ki_space_is_host(&p->space))
        return ki_pipe_device_reap(p, pool, false);
    for (size_t i = pool->send_count; i-- > 0;) {
        int is_done = 0;
        kith_status status = kith_test(&pool->sends[i], &is_done);
        if (status != KITH_OK)
            return status;
        if (is_done)
            ki_pipe_message_end_send(p, pool, i);
    }
    return KITH_OK;
}

static kith_status wait_for_send(kith_pipeline *p, ki_pipe_pool *pool)
{
    if (!ki_space_is_host(&p->space))
        return ki_pipe_device_reap(p, pool, true);
    size_t i = 0;
    kith_status status = kith_wait_any(pool->sends, pool->send_count, &i);
    if (status == KITH_OK)
        ki_pipe_message_end_send(p, pool, i);
    return status;
}

kith_status ki_pipe_message_take(kith_pipeline *p, int boundary, ki_pipe_buffer **buffer)
{
    ki_pipe_pool *pool = ki_pipe_message_pool(p, boundary);
    kith_status status = pool->free == NULL ? reap(p, pool) : KITH_OK;
    while (status == KITH_OK && pool->free == NULL) {
        if (pool->send_count == 0)
            return ki_fail(KITH_ERR_INTERNAL, "the pool of %d pipeline buffers was counted too small", pool->count);
        status = wait_for_send(p, pool);
    }
    if (status == KITH_OK)
        *buffer = ki_pipe_pool_take(p, pool);
    return status;
}

kith_status ki_pipe_message_finish_sends(kith_pipeline *p)
{
    kith_status status = KITH_OK;
    for (int i = 0; i < p->pool_count; i++)
        while (status == KITH_OK && p->pools[i].send_count > 0)
            status = wait_for_send(p, &p->pools[i]);
    return status;
}

/* ---- receives ---- */

int ki_pipe_message_boundary(const kith_action *receive)
{
    return receive->type == KITH_ACTION_RECV_F ? receive->stage - 1 : receive->stage;
}

static kith_status post(kith_pipeline *p, size_t at)
{
    const kith_action *a = &p->actions[at];
    ki_pipe_direction direction = ki_pipe_message_direction(a);
    ki_pipe_pair *pair = ki_pipe_pair_at(p, a);
    int boundary = ki_pipe_message_boundary(a);
    kith_status status = ki_pipe_message_take(p, boundary, &pair->in[direction]);
    if (status != KITH_OK)
        return status;
    ki_pipe_note_start(p, at);
    int sending_stage = direction == KI_UP ? a->stage - 1 : a->stage + 1;
    return kith_recv_start(p->group, pair->in[direction]->memory,
                           KI_HEAD_NBYTES + ki_pipe_message_pool(p, boundary)->capacity_nbytes, KITH_UINT8,
                           ki_schedule_peer(p->schedule, a),
                           ki_pipe_message_tag(p, sending_stage, a->microbatch, direction), &pair->request[direction]);
}

/* Ahead of its place: on a device there is no buffer to be had for what is only announced. */
static bool can_post(kith_pipeline *p, const ki_pipe_receives *r)
{
    if (r->posted == r->count || r->posted - r->passed >= (size_t)p->options.prefetch)
        return false;
    int boundary = ki_pipe_message_boundary(&p->actions[r->at[r->posted]]);
    return !ki_space_is_host(&p->space) || ki_pipe_message_pool(p, boundary)->free != NULL;
}

static kith_status post_next(kith_pipeline *p, ki_pipe_receives *r)
{
    size_t at = r->at[r->posted++];
    return ki_space_is_host(&p->space) ? post(p, at) : ki_pipe_device_post_head(p, at);
}

static kith_status post_ahead(kith_pipeline *p, ki_pipe_receives *r)
{
    kith_status status = KITH_OK;
    while (status == KITH_OK && can_post(p, r))
        status = post_next(p, r);
    return status;
}

kith_status ki_pipe_message_pass_receive(kith_pipeline *p, size_t at)
{
    ki_pipe_receives *r = &p->receives[ki_pipe_message_direction(&p->actions[at])];
    kith_status status = r->posted == r->passed ? post_next(p, r) : KITH_OK;
    r->passed++;
    return status == KITH_OK && !ki_space_is_host(&p->space) ? ki_pipe_device_receive(p, at) : status;
}

kith_status ki_pipe_message_progress(kith_pipeline *p)
{
    kith_progress(p->ctx);
    kith_status status = kith_group_status(p->group); /* a rank without messages hears of an abort here */
    if (status != KITH_OK)
        return ki_fail_quiet(status, "group '%s' cannot be used any more: %s", kith_group_name(p->group),
                             kith_status_sentence(status));
    for (int i = 0; i < p->pool_count && status == KITH_OK; i++)
        status = reap(p, &p->pools[i]);
    for (int direction = 0; direction < KI_DIRECTIONS && status == KITH_OK; direction++)
        status = post_ahead(p, &p->receives[direction]);
    return status;
}

kith_status ki_pipe_message_read_head(kith_pipeline *p, const kith_action *a, const ki_pipe_head *h, size_t data_nbytes,
                                      ki_pipe_buffer *buffer)
{
    int sending_stage = a->type == KITH_ACTION_RECV_F ? a->stage - 1 : a->stage + 1;
    if (h->nbytes != data_nbytes || h->microbatch != a->microbatch || h->stage != sending_stage ||
        h->dim_count > KITH_SHAPE_DIMS)
        return ki_fail(KITH_ERR_INTERNAL, "stage %d, microbatch %d: a message of %zu bytes is not one of this pipeline",
                       a->stage, a->microbatch, KI_HEAD_NBYTES + data_nbytes);
    buffer->view.nbytes = (size_t)h->nbytes;
    buffer->view.dim_count = h->dim_count;
    memcpy(buffer->view.shape, h->shape, sizeof h->shape);
    p->is_failed = p->is_failed || h->is_empty;
    p->stats.received_count++;
    return KITH_OK;
}

/* Its data are there, or, on a device, come before whatever is put into the stream from now on. */
static kith_status end_receive(kith_pipeline *p, ki_pipe_pair *pair, ki_pipe_direction direction)
{
    ki_pipe_head h;
    size_t nbytes = 0;
    ki_pipe_buffer *buffer = pair->in[direction];
    const kith_action *a = &p->actions[pair->received_at[direction]];
    if (!ki_space_is_host(&p->space))
        return ki_space_end(&p->space, &pair->request[direction]);
    kith_status status = kith_wait_received(&pair->request[direction], &nbytes);
    if (status != KITH_OK)
        return status;
    memcpy(&h, buffer->memory, sizeof h);
    if (nbytes < KI_HEAD_NBYTES)
        h.nbytes = UINT64_MAX; // a header that was cut
    return ki_pipe_message_read_head(p, a, &h, nbytes - KI_HEAD_NBYTES, buffer);
}

kith_status ki_pipe_message_wait(kith_pipeline *p, ki_pipe_pair *pair, ki_pipe_direction direction)
{
    if (pair->request[direction] == NULL)
        return KITH_OK;
    kith_status status = end_receive(p, pair, direction);
    ki_pipe_note_end(p, pair->received_at[direction]);
    return status;
}
