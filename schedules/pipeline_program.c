/* schedules/pipeline_program.c - walks a rank's list once, before anything runs.
 *
 * A rank takes its list in order whatever the clock says, so that much is known beforehand: which call is the last for
 * its stage and microbatch, in which slot the trainer keeps what that pair saves, and how many buffers are lent at
 * once. Counted is the plan as it is written: a receive takes its buffer at its RECV, a send gives it back at its SEND.
 * What may be early (receives) or late (sends) comes on top, `prefetch` buffers for each sort of message.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "pipeline.h"

#include "core/base/error.h"
#include "core/base/fault.h"

#include <stdlib.h>
#include <string.h>

static kith_status no_memory(void)
{
    return ki_fail(KITH_ERR_NO_MEMORY, "no memory for the program of a pipeline rank");
}

static int chunks_of(const kith_schedule *s, int rank)
{
    int chunks = 0;
    while (chunks < s->chunks && s->stage_of_chunk[rank * s->chunks + chunks] >= 0)
        chunks++;
    return chunks;
}

static size_t pair_index(const kith_pipeline *p, const kith_action *a)
{
    return (size_t)a->chunk * (size_t)p->microbatches + (size_t)a->microbatch;
}

/* ---- pairs: messages, last calls, slots ---- */

static void find_messages(kith_pipeline *p)
{
    for (size_t at = 0; at < p->action_count; at++) {
        const kith_action *a = &p->actions[at];
        if (!ki_action_is_message(a->type))
            continue;
        ki_pipe_pair *pair = ki_pipe_pair_at(p, a);
        ki_pipe_direction direction = a->type == KITH_ACTION_SEND_F || a->type == KITH_ACTION_RECV_F ? KI_UP : KI_DOWN;
        if (ki_action_is_send(a->type)) {
            pair->sent_at[direction] = at;
        } else {
            pair->received_at[direction] = at;
            p->receives[direction].count++;
        }
    }
}

static kith_status list_receives(kith_pipeline *p)
{
    for (int direction = 0; direction < KI_DIRECTIONS; direction++) {
        ki_pipe_receives *r = &p->receives[direction];
        r->at = ki_pipe_zeroed(r->count, sizeof *r->at);
        if (r->at == NULL)
            return no_memory();
        r->count = 0;
    }
    for (size_t at = 0; at < p->action_count; at++) {
        kith_action_type type = p->actions[at].type;
        if (type == KITH_ACTION_RECV_F || type == KITH_ACTION_RECV_B) {
            ki_pipe_receives *r = &p->receives[type == KITH_ACTION_RECV_F ? KI_UP : KI_DOWN];
            r->at[r->count++] = at;
        }
    }
    return KITH_OK;
}

static void find_last_calls(kith_pipeline *p, unsigned char *is_seen)
{
    for (size_t at = p->action_count; at-- > 0;) {
        const kith_action *a = &p->actions[at];
        if (!ki_pipe_is_call(a->type))
            continue;
        size_t pair = pair_index(p, a);
        p->is_last_call[at] = !is_seen[pair];
        is_seen[pair] = 1;
    }
}

/* Slots given back are used again first. free_slots: [chunks * microbatches], a stack for each chunk. */
static void give_slots(kith_pipeline *p, int *free_slots)
{
    size_t stride = (size_t)p->microbatches;
    for (size_t i = 0; i < (size_t)p->chunks; i++)
        p->slots[i] = 0;
    int *depth = free_slots + (size_t)p->chunks * stride;
    for (size_t at = 0; at < p->action_count; at++) {
        const kith_action *a = &p->actions[at];
        if (!ki_pipe_is_call(a->type))
            continue;
        ki_pipe_pair *pair = ki_pipe_pair_at(p, a);
        int *stack = free_slots + (size_t)a->chunk * stride;
        if (pair->slot < 0)
            pair->slot = depth[a->chunk] > 0 ? stack[--depth[a->chunk]] : p->slots[a->chunk]++;
        if (p->is_last_call[at])
            stack[depth[a->chunk]++] = pair->slot;
    }
}

/* ---- pools ---- */

size_t ki_pipe_program_boundary_nbytes(const kith_pipeline *p, int boundary)
{
    const size_t *each = p->options.message_nbytes_of;
    return each != NULL ? each[boundary] : p->options.message_nbytes;
}

static void find_pool(kith_pipeline *p, int boundary)
{
    size_t nbytes = ki_pipe_program_boundary_nbytes(p, boundary);
    int pool = 0;
    while (pool < p->pool_count && p->pools[pool].capacity_nbytes != nbytes)
        pool++;
    if (pool == p->pool_count)
        p->pools[p->pool_count++].capacity_nbytes = nbytes;
    p->pool_of[boundary] = pool;
}

static void find_pools(kith_pipeline *p)
{
    for (int boundary = 0; boundary < p->stages; boundary++)
        p->pool_of[boundary] = -1;
    for (int boundary = 0; boundary + 1 < p->stages; boundary++)
        if (ki_pipe_has_stage(p, boundary) || ki_pipe_has_stage(p, boundary + 1))
            find_pool(p, boundary);
}

/* How many buffers of each pool are lent, along the list. */
typedef struct tally {
    int *now, *most; /* [pool_count] */
    int *messages;   /* [pool_count * 4] of each sort */
} tally;

static void lend(const kith_pipeline *p, tally *t, int boundary)
{
    if (boundary < 0)
        return;
    int pool = p->pool_of[boundary];
    t->now[pool]++;
    t->most[pool] = t->now[pool] > t->most[pool] ? t->now[pool] : t->most[pool];
}

static void give_back(const kith_pipeline *p, tally *t, int boundary)
{
    if (boundary >= 0)
        t->now[p->pool_of[boundary]]--;
}

/* The boundary over which a message goes. */
static int boundary_of(const kith_action *a)
{
    return a->type == KITH_ACTION_SEND_F || a->type == KITH_ACTION_RECV_B ? a->stage : a->stage - 1;
}

static void count_message(const kith_pipeline *p, tally *t, const kith_action *a)
{
    int boundary = boundary_of(a);
    if (ki_action_is_send(a->type))
        give_back(p, t, boundary);
    else
        lend(p, t, boundary);
    t->messages[p->pool_of[boundary] * 4 + (int)a->type - KITH_ACTION_SEND_F]++;
}

static void count_lent(const kith_pipeline *p, tally *t)
{
    for (size_t at = 0; at < p->action_count; at++) {
        const kith_action *a = &p->actions[at];
        bool is_second = at > 0 && ki_pipe_is_paired(p, at - 1);
        if (!is_second)
            lend(p, t, ki_pipe_fills(p, a));
        if (ki_pipe_is_paired(p, at))
            lend(p, t, ki_pipe_fills(p, a + 1));
        if (ki_action_is_message(a->type))
            count_message(p, t, a);
        if (!p->is_last_call[at])
            continue;
        give_back(p, t, a->stage - 1);
        if (p->schedule->has_backward && a->stage + 1 < p->stages)
            give_back(p, t, a->stage);
    }
}

static kith_status size_pools(kith_pipeline *p)
{
    size_t count = (size_t)p->pool_count;
    int *memory = ki_pipe_zeroed(count * 6, sizeof *memory);
    if (memory == NULL)
        return no_memory();
    tally t = { memory, memory + count, memory + 2 * count };
    count_lent(p, &t);
    for (size_t i = 0; i < count; i++) {
        p->pools[i].count = t.most[i];
        for (size_t sort = 0; sort < 4; sort++) {
            int messages = t.messages[i * 4 + sort];
            p->pools[i].count += messages < p->options.prefetch ? messages : p->options.prefetch;
        }
    }
    free(memory);
    return KITH_OK;
}

/* ---- gradients in order ---- */

/* How many microbatches of each chunk hold their gradients at once, until their turn. is_waiting: [pairs], zeroed. */
static void size_ordered(kith_pipeline *p, unsigned char *is_waiting, int *held)
{
    for (size_t at = 0; at < p->action_count; at++) {
        const kith_action *a = &p->actions[at];
        if (a->type != KITH_ACTION_B && a->type != KITH_ACTION_W)
            continue;
        ki_pipe_ordered *o = &p->ordered[a->chunk];
        unsigned char *waiting = is_waiting + (size_t)a->chunk * (size_t)p->microbatches;
        int *now = &held[a->chunk];
        (*now)++;
        o->need = *now > o->need ? *now : o->need;
        waiting[a->microbatch] = 1;
        for (; o->turn < p->microbatches && waiting[o->turn]; o->turn++)
            (*now)--;
    }
}

/* ---- all of it ---- */

static kith_status allocate(kith_pipeline *p)
{
    size_t chunks = (size_t)p->chunks, pairs = chunks * (size_t)p->microbatches;
    p->is_last_call = ki_pipe_zeroed(p->action_count, sizeof *p->is_last_call);
    p->slots = ki_pipe_zeroed(chunks, sizeof *p->slots);
    p->pairs = ki_pipe_zeroed(pairs, sizeof *p->pairs);
    p->pool_of = ki_pipe_zeroed((size_t)p->stages, sizeof *p->pool_of);
    p->pools = ki_pipe_zeroed(2 * chunks, sizeof *p->pools); /* each stage has two boundaries */
    if (p->options.is_ordered)
        p->ordered = ki_pipe_zeroed(chunks, sizeof *p->ordered);
    if (p->is_last_call == NULL || p->slots == NULL || p->pairs == NULL || p->pool_of == NULL || p->pools == NULL ||
        (p->options.is_ordered && p->ordered == NULL))
        return no_memory();
    for (size_t i = 0; i < pairs; i++) {
        ki_pipe_pair *pair = &p->pairs[i];
        pair->slot = -1;
        for (int direction = 0; direction < KI_DIRECTIONS; direction++)
            pair->received_at[direction] = pair->sent_at[direction] = KI_NO_ACTION;
    }
    return KITH_OK;
}

static void find_scopes(kith_pipeline *p)
{
    p->tied_stage = -1;
    for (size_t at = 0; at < p->action_count; at++) {
        p->has_step = p->has_step || p->actions[at].type == KITH_ACTION_OPTIMIZER_STEP;
        p->has_reduce = p->has_reduce || p->actions[at].type == KITH_ACTION_REDUCE_GRAD;
        if (p->actions[at].type == KITH_ACTION_REDUCE_TIED)
            p->tied_stage = p->actions[at].stage;
    }
}

kith_status ki_pipe_program_build(kith_pipeline *p)
{
    p->actions = kith_schedule_actions(p->schedule, p->rank, &p->action_count);
    p->chunks = chunks_of(p->schedule, p->rank);
    kith_status status = allocate(p);
    if (status != KITH_OK)
        return status;
    size_t pairs = (size_t)p->chunks * (size_t)p->microbatches;
    unsigned char *marks = ki_pipe_zeroed(2 * pairs, sizeof *marks);
    int *numbers = ki_pipe_zeroed(pairs + 2 * (size_t)p->chunks, sizeof *numbers);
    if (marks == NULL || numbers == NULL) {
        status = no_memory();
    } else {
        find_scopes(p);
        find_messages(p);
        find_last_calls(p, marks);
        give_slots(p, numbers);
        find_pools(p);
        if (p->ordered != NULL)
            size_ordered(p, marks + pairs, numbers + pairs + (size_t)p->chunks);
        status = list_receives(p);
    }
    free(marks);
    free(numbers);
    return status == KITH_OK ? size_pools(p) : status;
}
