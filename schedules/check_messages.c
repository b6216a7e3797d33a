/* schedules/check_messages.c - the two ends of each connection: what is sent first is received first.
 *
 * That each message has one send and one receive, on the right ranks, is known from the walk of the lists. What is
 * left is order. A lane of its own must be received in the order in which it is sent; where all that a rank sends to
 * another shares one connection, that has to hold for all of it together, since a receive takes what comes next.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "check.h"

#include <stdlib.h>

kith_action ki_message_end(const ki_checker *c, size_t message, bool is_send)
{
    size_t lane = message / (size_t)c->plan->microbatches;
    int microbatch = (int)(message % (size_t)c->plan->microbatches);
    bool is_forward = lane % 2 == 0;
    int boundary = (int)(lane / 2);
    kith_action_type type = is_forward ? (is_send ? KITH_ACTION_SEND_F : KITH_ACTION_RECV_F)
                                       : (is_send ? KITH_ACTION_SEND_B : KITH_ACTION_RECV_B);
    return (kith_action){ type, is_forward == is_send ? boundary : boundary + 1, microbatch, -1, 0 };
}

int ki_message_rank(const ki_checker *c, size_t message, bool is_send)
{
    kith_action end = ki_message_end(c, message, is_send);
    return c->plan->rank_of_stage[end.stage];
}

typedef struct lane_key {
    int sender, receiver, lane;
} lane_key;

static int compare_keys(const void *left, const void *right)
{
    const lane_key *a = left, *b = right;
    if (a->sender != b->sender)
        return a->sender < b->sender ? -1 : 1;
    if (a->receiver != b->receiver)
        return a->receiver < b->receiver ? -1 : 1;
    return (a->lane > b->lane) - (a->lane < b->lane);
}

/* The lanes that carry something, those between the same two ranks side by side. Returns how many. */
static int list_lanes(const ki_checker *c, lane_key *keys)
{
    int count = 0;
    for (int lane = 0; lane < c->messages->lanes; lane++) {
        size_t message = (size_t)lane * (size_t)c->plan->microbatches;
        bool is_used = ki_schedule_crosses(c->plan, lane / 2) && (lane % 2 == 0 || c->plan->has_backward);
        c->messages->connection[lane] = -1;
        if (is_used)
            keys[count++] = (lane_key){ ki_message_rank(c, message, true), ki_message_rank(c, message, false), lane };
    }
    qsort(keys, (size_t)count, sizeof *keys, compare_keys);
    return count;
}

static void join_lanes(ki_checker *c, const lane_key *keys, int count)
{
    ki_message_table *m = c->messages;
    for (int i = 0; i < count; i++) {
        bool is_same = i > 0 && keys[i].sender == keys[i - 1].sender && keys[i].receiver == keys[i - 1].receiver;
        if (!(is_same && c->o.is_one_channel))
            m->first[m->connections++] = (size_t)i * (size_t)c->plan->microbatches;
        m->connection[keys[i].lane] = m->connections - 1;
    }
}

static kith_status make_connections(ki_checker *c)
{
    ki_message_table *m = c->messages;
    m->lanes = 2 * (c->plan->stages - 1);
    size_t lanes = (size_t)m->lanes, messages = lanes * (size_t)c->plan->microbatches;
    lane_key *keys = ki_schedule_zeroed(lanes, sizeof *keys);
    m->connection = ki_schedule_zeroed(lanes, sizeof *m->connection);
    m->first = ki_schedule_zeroed(lanes, sizeof *m->first);
    m->done = ki_schedule_zeroed(lanes, sizeof *m->done);
    m->order = ki_schedule_zeroed(messages, sizeof *m->order);
    m->sent = ki_schedule_zeroed(messages, sizeof *m->sent);
    m->received = ki_schedule_zeroed(messages, sizeof *m->received);
    bool has_all = keys != NULL && m->connection != NULL && m->first != NULL && m->done != NULL && m->order != NULL &&
                   m->sent != NULL && m->received != NULL;
    if (has_all)
        join_lanes(c, keys, list_lanes(c, keys));
    free(keys);
    return has_all ? KITH_OK : ki_schedule_no_memory("the check");
}

void ki_checker_messages_fini(ki_checker *c)
{
    ki_message_table *m = c->messages;
    if (m == NULL)
        return;
    free(m->connection);
    free(m->first);
    free(m->order);
    free(m->done);
    free(m->sent);
    free(m->received);
    free(m);
    c->messages = NULL;
}

static kith_status take_send(ki_checker *c, const ki_place *p)
{
    ki_message_table *m = c->messages;
    size_t message = ki_message(c, p->action);
    int connection = m->connection[ki_lane(p->action)];
    m->sent[message] = p->position;
    m->order[m->first[connection] + m->done[connection]++] = message;
    return KITH_OK;
}

static kith_status take_receive(ki_checker *c, const ki_place *p)
{
    ki_message_table *m = c->messages;
    size_t message = ki_message(c, p->action);
    int connection = m->connection[ki_lane(p->action)];
    m->received[message] = p->position;
    size_t comes = m->order[m->first[connection] + m->done[connection]++];
    if (comes == message)
        return KITH_OK;
    kith_action other = ki_message_end(c, comes, true);
    int sender = ki_message_rank(c, comes, true);
    char text[64];
    ki_checker_mark_place(c, sender, m->sent[comes]);
    return ki_checker_refuse(c, p, "would get another message: the next one from rank %d is %s, sent at position %zu",
                             sender, kith_action_text(&other, text, sizeof text), m->sent[comes]);
}

/* Calls take for each send, or receive, of the plan. */
static kith_status for_each_end(ki_checker *c, bool is_send, ki_checker_rule take)
{
    for (int i = 0; i < c->messages->connections; i++)
        c->messages->done[i] = 0;
    for (int rank = 0; rank < c->plan->ranks; rank++) {
        const ki_action_list *list = &c->plan->lists[rank];
        for (size_t i = 0; i < list->count; i++) {
            ki_place place = { rank, i, &list->actions[i] };
            if (!ki_action_is_message(place.action->type) || ki_action_is_send(place.action->type) != is_send)
                continue;
            kith_status status = take(c, &place);
            if (status != KITH_OK)
                return status;
        }
    }
    return KITH_OK;
}

kith_status ki_checker_messages(ki_checker *c)
{
    if (!c->plan->has_messages)
        return KITH_OK;
    c->messages = ki_schedule_zeroed(1, sizeof *c->messages);
    if (c->messages == NULL)
        return ki_schedule_no_memory("the check");
    kith_status status = make_connections(c);
    if (status == KITH_OK)
        status = for_each_end(c, true, take_send);
    return status == KITH_OK ? for_each_end(c, false, take_receive) : status;
}
