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

typedef struct head {
    uint64_t nbytes; /* behind the header */
    int32_t microbatch;
    uint16_t stage; /* that sends */
    uint8_t dim_count;
    uint8_t is_empty; /* a rank has failed: there is nothing behind */
    int64_t shape[KITH_SHAPE_DIMS];
} head;

enum { HEAD_NBYTES = 64 };
_Static_assert(sizeof(head) == HEAD_NBYTES, "the data behind the header is aligned to 64 bytes");
_Static_assert(KI_STAGES_MAX <= UINT16_MAX + 1, "a stage fits the header");

/* Bytes of a buffer with its header, in whole lines; 0: too large. */
size_t ki_pipe_message_stride(size_t capacity_nbytes)
{
    size_t nbytes;
    return ki_add(capacity_nbytes, 2 * HEAD_NBYTES - 1, &nbytes) ? nbytes / HEAD_NBYTES * HEAD_NBYTES : 0;
}

/* What a callback that fills the buffer finds. */
void ki_pipe_message_attach(ki_pipe_buffer *buffer, unsigned char *memory, size_t capacity_nbytes)
{
    buffer->view = (kith_pipeline_buffer){ .data = memory + HEAD_NBYTES,
                                           .capacity_nbytes = capacity_nbytes,
                                           .nbytes = capacity_nbytes };
}

static int tag_of(const kith_pipeline *p, int sending_stage, int microbatch, ki_pipe_direction direction)
{
    return (microbatch * p->stages + sending_stage) * KI_DIRECTIONS + (int)direction;
}

static ki_pipe_direction direction_of(const kith_action *a)
{
    return a->type == KITH_ACTION_SEND_F || a->type == KITH_ACTION_RECV_F ? KI_UP : KI_DOWN;
}

static ki_pipe_pool *pool_of(kith_pipeline *p, int boundary)
{
    return &p->pools[p->pool_of[boundary]];
}

/* ---- sends ---- */

kith_status ki_pipe_message_send(kith_pipeline *p, size_t at, ki_pipe_buffer *buffer)
{
    const kith_action *a = &p->actions[at];
    const kith_pipeline_buffer *view = &buffer->view;
    head h = { .nbytes = p->is_failed ? 0 : view->nbytes,
               .microbatch = a->microbatch,
               .stage = (uint16_t)a->stage,
               .dim_count = (uint8_t)(p->is_failed ? 0 : view->dim_count),
               .is_empty = p->is_failed };
    memcpy(h.shape, view->shape, sizeof h.shape);
    memcpy(buffer->memory, &h, sizeof h);
    size_t nbytes = (size_t)h.nbytes;
    ki_pipe_pool *pool = buffer->pool;
    ki_pipe_note_start(p, at);
    kith_status status =
        kith_send_start(p->group, buffer->memory, HEAD_NBYTES + nbytes, KITH_UINT8, ki_schedule_peer(p->schedule, a),
                        tag_of(p, a->stage, a->microbatch, direction_of(a)), &pool->sends[pool->send_count]);
    if (status != KITH_OK)
        return status;
    buffer->sent_at = at;
    pool->sent[pool->send_count++] = buffer;
    p->stats.sent_count++;
    p->stats.sent_nbytes += nbytes;
    return KITH_OK;
}

/* The send at index i of the pool is over. */
static void end_send(kith_pipeline *p, ki_pipe_pool *pool, size_t i)
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
    for (size_t i = pool->send_count; i-- > 0;) {
        int is_done = 0;
        kith_status status = kith_test(&pool->sends[i], &is_done);
        if (status != KITH_OK)
            return status;
        if (is_done)
            end_send(p, pool, i);
    }
    return KITH_OK;
}

static kith_status wait_for_send(kith_pipeline *p, ki_pipe_pool *pool)
{
    size_t i = 0;
    kith_status status = kith_wait_any(pool->sends, pool->send_count, &i);
    if (status == KITH_OK)
        end_send(p, pool, i);
    return status;
}

kith_status ki_pipe_message_take(kith_pipeline *p, int boundary, ki_pipe_buffer **buffer)
{
    ki_pipe_pool *pool = pool_of(p, boundary);
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

static int boundary_below(const kith_action *receive)
{
    return receive->type == KITH_ACTION_RECV_F ? receive->stage - 1 : receive->stage;
}

static kith_status post(kith_pipeline *p, size_t at)
{
    const kith_action *a = &p->actions[at];
    ki_pipe_direction direction = direction_of(a);
    ki_pipe_pair *pair = ki_pipe_pair_at(p, a);
    int boundary = boundary_below(a);
    kith_status status = ki_pipe_message_take(p, boundary, &pair->in[direction]);
    if (status != KITH_OK)
        return status;
    ki_pipe_note_start(p, at);
    int sending_stage = direction == KI_UP ? a->stage - 1 : a->stage + 1;
    return kith_recv_start(p->group, pair->in[direction]->memory, HEAD_NBYTES + pool_of(p, boundary)->capacity_nbytes,
                           KITH_UINT8, ki_schedule_peer(p->schedule, a),
                           tag_of(p, sending_stage, a->microbatch, direction), &pair->request[direction]);
}

static kith_status post_ahead(kith_pipeline *p, ki_pipe_receives *r)
{
    kith_status status = KITH_OK;
    while (status == KITH_OK && r->posted < r->count && r->posted - r->passed < (size_t)p->options.prefetch &&
           pool_of(p, boundary_below(&p->actions[r->at[r->posted]]))->free != NULL)
        status = post(p, r->at[r->posted++]);
    return status;
}

kith_status ki_pipe_message_pass_receive(kith_pipeline *p, size_t at)
{
    ki_pipe_receives *r = &p->receives[direction_of(&p->actions[at])];
    kith_status status = r->posted == r->passed ? post(p, r->at[r->posted++]) : KITH_OK;
    r->passed++;
    return status;
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

/* Puts what the header says where callbacks see it. */
static kith_status read_head(kith_pipeline *p, const kith_action *a, ki_pipe_buffer *buffer, size_t received_nbytes)
{
    head h;
    memcpy(&h, buffer->memory, sizeof h);
    int sending_stage = a->type == KITH_ACTION_RECV_F ? a->stage - 1 : a->stage + 1;
    if (received_nbytes < HEAD_NBYTES || h.nbytes != received_nbytes - HEAD_NBYTES || h.microbatch != a->microbatch ||
        h.stage != sending_stage || h.dim_count > KITH_SHAPE_DIMS)
        return ki_fail(KITH_ERR_INTERNAL, "stage %d, microbatch %d: a message of %zu bytes is not one of this pipeline",
                       a->stage, a->microbatch, received_nbytes);
    buffer->view.nbytes = (size_t)h.nbytes;
    buffer->view.dim_count = h.dim_count;
    memcpy(buffer->view.shape, h.shape, sizeof h.shape);
    p->is_failed = p->is_failed || h.is_empty;
    p->stats.received_count++;
    return KITH_OK;
}

kith_status ki_pipe_message_wait(kith_pipeline *p, ki_pipe_pair *pair, ki_pipe_direction direction)
{
    if (pair->request[direction] == NULL)
        return KITH_OK;
    size_t nbytes = 0, at = pair->received_at[direction];
    kith_status status = kith_wait_received(&pair->request[direction], &nbytes);
    if (status != KITH_OK)
        return status;
    ki_pipe_note_end(p, at);
    return read_head(p, &p->actions[at], pair->in[direction], nbytes);
}
