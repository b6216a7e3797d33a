/* core/boot/tcp_serving.c - requests of the TCP store's members (see wire.h for what they look like).
 *
 * A request that cannot be answered yet is noted in its connection, which may have one open at a time; whatever changes
 * the table looks through the connections for those it can answer now. With a few hundred connections that is cheaper
 * than any index.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "tcp_serving.h"
#include "../base/error.h"
#include "../base/mem.h"

void ki_serving_add(ki_serving *serving, ki_connection *c)
{
    c->next = serving->connections;
    c->previous = NULL;
    if (c->next)
        c->next->previous = c;
    serving->connections = c;
}

void ki_serving_remove(ki_serving *serving, ki_connection *c)
{
    if (c->previous)
        c->previous->next = c->next;
    else
        serving->connections = c->next;
    if (c->next)
        c->next->previous = c->previous;
}

/* ---- answers ---- */

static void reply(ki_connection *c, uint32_t id, kith_status status, int dead_rank, ki_blob *value)
{
    unsigned char head[sizeof(ki_wire_frame) + KI_STORE_KEY_NBYTES];
    const char *text = status != KITH_OK && status != KITH_ERR_TIMEOUT && dead_rank < 0 ? kith_error_detail() : "";
    size_t text_nbytes = strnlen(text, KI_STORE_KEY_NBYTES - 1);
    ki_wire_frame frame = { .op = KI_WIRE_REPLY,
                            .id = id,
                            .a = status,
                            .b = dead_rank,
                            .key_nbytes = (uint32_t)text_nbytes,
                            .value_nbytes = value ? value->nbytes : 0 };
    memcpy(head, &frame, sizeof frame);
    memcpy(head + sizeof frame, text, text_nbytes);
    ki_connection_send(c, head, sizeof frame + text_nbytes, value);
}

static void end_wait(ki_connection *c, kith_status status, int dead_rank, ki_blob *value)
{
    ki_free(NULL, c->wait_key);
    c->wait_key = NULL;
    c->wait_gather = NULL;
    reply(c, c->wait_id, status, dead_rank, value);
}

static void send_event(ki_connection *c, ki_event_kind kind, int rank, uint64_t value)
{
    ki_wire_frame frame = { .op = KI_WIRE_EVENT, .a = (int32_t)kind, .b = rank, .arg = value };
    ki_connection_send(c, &frame, sizeof frame, NULL);
}

static void tell_others(ki_serving *serving, ki_event_kind kind, int rank, uint64_t value)
{
    for (ki_connection *c = serving->connections; c; c = c->next) {
        if (c->state == KI_CONNECTION_MEMBER && c->rank != rank)
            send_event(c, kind, rank, value);
    }
}

/* ---- requests ---- */

static void handle_set(ki_serving *serving, ki_connection *c, const ki_wire_frame *frame, const char *key,
                       const unsigned char *value)
{
    kith_status s = ki_table_set(serving->table, key, value, (size_t)frame->value_nbytes);
    reply(c, frame->id, s, -1, NULL);
    for (ki_connection *w = serving->connections; s == KITH_OK && w; w = w->next) {
        if (w->wait_key && strcmp(w->wait_key, key) == 0)
            end_wait(w, KITH_OK, -1, ki_table_get(serving->table, key));
    }
}

static void handle_get(ki_serving *serving, ki_connection *c, const ki_wire_frame *frame, const char *key)
{
    ki_blob *value = ki_table_get(serving->table, key);
    if (value) {
        reply(c, frame->id, KITH_OK, -1, value);
        return;
    }
    c->wait_id = frame->id;
    c->wait_key = ki_strdup(NULL, key);
    if (!c->wait_key)
        reply(c, frame->id, KITH_ERR_NO_MEMORY, -1, NULL);
}

static void settle(ki_serving *serving, ki_gather *g)
{
    bool is_complete = ki_gather_is_complete(g);
    if (!is_complete && g->dead_rank < 0)
        return;
    for (ki_connection *w = serving->connections; w; w = w->next) {
        if (w->wait_gather == g && is_complete)
            end_wait(w, KITH_OK, -1, g->result);
        else if (w->wait_gather == g)
            end_wait(w, KITH_ERR_PEER_FAILED, g->dead_rank, NULL);
    }
    if (is_complete)
        ki_table_forget(serving->table, g);
}

/* Does the frame hold what it says? */
static bool is_gather_sane(const ki_wire_frame *frame, size_t *ranks_nbytes)
{
    size_t contribution = (size_t)frame->arg, total;
    if (frame->b <= 0 || frame->b > KI_STORE_GATHER_RANKS || frame->a < 0 || frame->a >= frame->b)
        return false;
    if (!ki_mul(contribution, (size_t)frame->b, &total) || total > KI_STORE_VALUE_NBYTES)
        return false;
    *ranks_nbytes = frame->flags & KI_WIRE_HAS_RANKS ? (size_t)frame->b * sizeof(int32_t) : 0;
    return frame->value_nbytes == contribution + *ranks_nbytes;
}

static void handle_gather(ki_serving *serving, ki_connection *c, const ki_wire_frame *frame, const char *key,
                          const unsigned char *value)
{
    size_t ranks_nbytes;
    ki_gather *g = NULL;
    int *ranks = NULL;
    if (!is_gather_sane(frame, &ranks_nbytes)) {
        c->is_broken = true;
        return;
    }
    size_t nbytes = (size_t)frame->arg;
    kith_status s = KITH_OK;
    if (ranks_nbytes > 0) {
        ranks = ki_calloc(NULL, 1, ranks_nbytes);
        if (ranks)
            memcpy(ranks, value + nbytes, ranks_nbytes);
        else
            s = KITH_ERR_NO_MEMORY;
    }
    if (s == KITH_OK)
        s = ki_table_contribute(serving->table, key, frame->a, frame->b, ranks, value, nbytes, &g);
    ki_free(NULL, ranks);
    if (s != KITH_OK) {
        reply(c, frame->id, s, -1, NULL);
        return;
    }
    c->wait_id = frame->id;
    c->wait_gather = g;
    settle(serving, g);
}

static void handle_cancel(ki_connection *c, const ki_wire_frame *frame)
{
    ki_blob *mask = NULL;
    bool is_open = (c->wait_key || c->wait_gather) && c->wait_id == frame->id;
    if (!is_open) {
        reply(c, frame->id, KITH_ERR_TIMEOUT, -1, NULL);
        return;
    }
    if (c->wait_gather) {
        mask = ki_blob_create(NULL, (size_t)c->wait_gather->count);
        if (mask)
            ki_gather_missing(c->wait_gather, mask->data);
    }
    end_wait(c, KITH_ERR_TIMEOUT, -1, mask);
    ki_blob_unref(mask);
}

static void handle_announce(ki_serving *serving, ki_connection *c, const ki_wire_frame *frame)
{
    if (frame->a < KI_EVENT_RANK_DIED || frame->a > KI_EVENT_FAILURE)
        c->is_broken = true;
    else
        tell_others(serving, (ki_event_kind)frame->a, c->rank, frame->arg);
}

void ki_serving_handle(ki_serving *serving, ki_connection *c, const ki_wire_frame *frame, const unsigned char *key,
                       const unsigned char *value)
{
    char key_text[KI_STORE_KEY_NBYTES];
    memcpy(key_text, key, frame->key_nbytes);
    key_text[frame->key_nbytes] = '\0';
    bool is_request = frame->op == KI_WIRE_SET || frame->op == KI_WIRE_GET || frame->op == KI_WIRE_GATHER;
    if (is_request &&
        (c->wait_key || c->wait_gather || !key_text[0] || frame->value_nbytes > 2 * KI_STORE_VALUE_NBYTES)) {
        c->is_broken = true;
        return;
    }
    if (frame->op == KI_WIRE_SET)
        handle_set(serving, c, frame, key_text, value);
    else if (frame->op == KI_WIRE_GET)
        handle_get(serving, c, frame, key_text);
    else if (frame->op == KI_WIRE_GATHER)
        handle_gather(serving, c, frame, key_text, value);
    else if (frame->op == KI_WIRE_CANCEL)
        handle_cancel(c, frame);
    else if (frame->op == KI_WIRE_ANNOUNCE)
        handle_announce(serving, c, frame);
    else
        c->is_broken = true;
}

/* ---- ranks ---- */

void ki_serving_rank_gone(ki_serving *serving, int rank, ki_rank_state state)
{
    ki_table_set_rank_state(serving->table, rank, state);
    if (state == KI_RANK_DIED) /* first: who gets the failure below finds the event in its queue */
        tell_others(serving, KI_EVENT_RANK_DIED, rank, 0);
    for (ki_connection *w = serving->connections; w; w = w->next) {
        if (w->wait_gather && w->wait_gather->dead_rank >= 0)
            end_wait(w, KITH_ERR_PEER_FAILED, w->wait_gather->dead_rank, NULL);
    }
}

void ki_serving_tell_past_deaths(ki_serving *serving, ki_connection *c)
{
    for (int rank = 0; rank < serving->size; rank++) {
        if (ki_table_rank_state(serving->table, rank) == KI_RANK_DIED)
            send_event(c, KI_EVENT_RANK_DIED, rank, 0);
    }
}
