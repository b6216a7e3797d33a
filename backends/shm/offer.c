/* backends/shm/offer.c - long messages.
 *
 * The sender announces the message with a line. The receiver, once it has a receive for it, chooses the way:
 *
 *     direct   the sender's buffer is mapped here (or in this process): copy it
 *     remote   process_vm_readv is permitted: copy it through the kernel
 *     pieces   else: ask the sender to send it through the ring of bytes
 *
 * On the first two ways both ranks move pieces when both are there: a piece belongs to whoever gets its number from
 * shared.next, each side counts the bytes that it moved, and the message is complete for both when the sum is the
 * limit.
 *
 * shared.state says what became of the message with an id:
 *
 *     OFFERED --receiver--> TAKEN --both counts--> complete, receiver.closed = id: the offer can be used again
 *        '-----sender-----> WITHDRAWN
 *
 * Taking back a message that was taken: whoever cancels adds PIECES_OVER to shared.next, so that nobody gets a piece
 * any more, and waits for those that were given out, which is as long as one piece takes.
 *
 * A channel has SHM_OFFERS offers. When they are in use, perhaps by messages that are not received for long, a message
 * is announced without one and goes in pieces; so any number can be under way, in any order.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "channel.h"
#include <errno.h>
#include <string.h>

#define PIECES_OVER (UINT64_C(1) << 40)
#define STEP_NBYTES 1048576 /* moved at most in one step */
#define CANCEL_WAIT_NS 2000000000

enum { OFFERED = 1, TAKEN = 2, WITHDRAWN = 3 };

static uint64_t state_of(uint64_t id, unsigned state)
{
    return id << 2 | state;
}

static bool change_state(shm_offer *offer, uint64_t id, unsigned from, unsigned to)
{
    uint64_t expected = state_of(id, from);
    return __atomic_compare_exchange_n(&offer->shared.state, &expected, state_of(id, to), false, __ATOMIC_ACQ_REL,
                                       __ATOMIC_ACQUIRE);
}

/* ---- list of long messages under way ---- */

static void activate(shm_group *group, shm_message *message)
{
    shm_channels *all = group->channels;
    message->previous_active = NULL;
    message->next_active = all->active;
    if (all->active != NULL)
        all->active->previous_active = message;
    all->active = message;
}

static void deactivate(shm_group *group, shm_message *message)
{
    if (message->previous_active != NULL)
        message->previous_active->next_active = message->next_active;
    else
        group->channels->active = message->next_active;
    if (message->next_active != NULL)
        message->next_active->previous_active = message->previous_active;
    if (message->state == SHM_MESSAGE_OFFERED && message->index != SHM_NO_OFFER)
        group->channels->of[message->peer].is_offered[message->index] = false;
}

static shm_message *find_active(const shm_group *group, int peer, uint64_t id, shm_message_state state)
{
    shm_message *message = group->channels->active;
    while (message != NULL && (message->peer != peer || message->id != id || message->state != state))
        message = message->next_active;
    return message;
}

static void finish(shm_group *group, shm_message *message, kith_status status)
{
    deactivate(group, message);
    shm_message_finish(group, message, status);
}

static kith_status fail_withdrawn(shm_group *group, const shm_message *recv)
{
    return group->host->fail(KITH_ERR_ABORTED, "group %s: rank %d took back a message of %zu bytes to rank %d",
                             group->name, recv->peer, recv->total, group->rank);
}

static shm_offer *offer_of(shm_group *group, const shm_message *message)
{
    if (message->index == SHM_NO_OFFER)
        return NULL;
    shm_channel *channel = &group->channels->of[message->peer];
    return message->state == SHM_MESSAGE_OFFERED ? &channel->out->offers[message->index]
                                                 : &channel->in->offers[message->index];
}

/* ---- announcing ---- */

static uint32_t free_offer(shm_channel *channel)
{
    for (uint32_t i = 0; i < SHM_OFFERS; i++)
        if (!channel->is_offered[i] &&
            (channel->offered[i] == 0 || shm_load(&channel->out->offers[i].receiver.closed) == channel->offered[i]))
            return i;
    return SHM_NO_OFFER;
}

void shm_offer_make(shm_group *group, shm_channel *channel, shm_message *send)
{
    shm_message_line *line = shm_channel_line(group->channels, channel);
    send->id = ++channel->long_count;
    send->index = free_offer(channel);
    send->state = SHM_MESSAGE_OFFERED;
    line->tag = send->tag;
    line->kind_nbytes = shm_kind_nbytes(SHM_LINE_OFFER, send->nbytes);
    line->offer.address = (uint64_t)(uintptr_t)send->buffer;
    line->offer.region = shm_region_find(group, send->buffer, send->nbytes, &line->offer.offset);
    line->offer.index = send->index;
    line->offer.id = send->id;
    if (send->index != SHM_NO_OFFER) {
        shm_offer *offer = &channel->out->offers[send->index];
        channel->offered[send->index] = send->id;
        channel->is_offered[send->index] = true;
        offer->sender.moved = 0;
        __atomic_store_n(&offer->shared.next, 0, __ATOMIC_RELAXED);
        shm_store(&offer->shared.state, state_of(send->id, OFFERED));
    }
    activate(group, send);
    shm_channel_publish(group, channel, line);
}

/* ---- taking ---- */

/* Where this rank finds a buffer of the peer; NULL when it cannot. */
static unsigned char *find_far(shm_group *group, int peer, uint64_t address, uint32_t region, uint64_t offset,
                               bool wants_remote, shm_way *way)
{
    *way = SHM_WAY_DIRECT;
    if (group->peers[peer].is_here)
        return (unsigned char *)(uintptr_t)address;
    if (region != 0)
        return shm_region_at(group, region, peer, offset);
    if (group->has_remote && wants_remote) {
        *way = SHM_WAY_REMOTE;
        return (unsigned char *)(uintptr_t)address;
    }
    *way = SHM_WAY_PIECES;
    return NULL;
}

/* Through the rings or through the kernel? Decides for both sides, and may make the message a trial. */
static void choose_way(shm_group *group, shm_channel *channel, const shm_offer_note *note, shm_message *recv)
{
    bool is_timed = false, wants_remote = group->instance->settings.is_cma_forced;
    if (group->has_remote && !wants_remote && note->region == 0)
        wants_remote = shm_trial_message(channel->trials, recv->total, &is_timed);
    recv->far_side = find_far(group, recv->peer, note->address, note->region, note->offset, wants_remote, &recv->way);
    recv->started_ns = is_timed ? shm_now_ns() : 0;
}

static size_t choose_piece(shm_way way, size_t nbytes)
{
    size_t least = way == SHM_WAY_REMOTE ? 65536 : 8192, most = way == SHM_WAY_REMOTE ? 524288 : 262144;
    size_t piece = shm_round_up(nbytes / 4, 4096);
    return piece < least ? least : shm_min(piece, most);
}

static void write_acceptance(shm_group *group, shm_offer *offer, const shm_message *recv)
{
    offer->receiver.moved = 0;
    offer->receiver.limit = recv->limit;
    offer->receiver.piece_nbytes = recv->piece_nbytes;
    offer->receiver.way = (uint32_t)recv->way;
    offer->receiver.address = (uint64_t)(uintptr_t)recv->buffer;
    offer->receiver.region = shm_region_find(group, recv->buffer, recv->limit, &offer->receiver.offset);
    shm_store(&offer->receiver.taken, recv->id);
    shm_wake(group);
}

bool shm_offer_take(shm_group *group, shm_channel *channel, const shm_offer_note *note, size_t nbytes,
                    shm_message *recv)
{
    shm_offer *offer = note->index != SHM_NO_OFFER ? &channel->in->offers[note->index] : NULL;
    if (offer != NULL && !change_state(offer, note->id, OFFERED, TAKEN))
        return false;
    recv->id = note->id;
    recv->index = note->index;
    recv->total = nbytes;
    recv->limit = shm_min(recv->total, recv->nbytes);
    recv->moved = 0;
    recv->is_requested = false;
    recv->way = SHM_WAY_PIECES;
    recv->started_ns = 0;
    if (offer != NULL)
        choose_way(group, channel, note, recv);
    recv->piece_nbytes = choose_piece(recv->way, recv->limit);
    recv->state = SHM_MESSAGE_TAKING;
    activate(group, recv);
    if (offer != NULL)
        write_acceptance(group, offer, recv);
    shm_offer_step(group, recv);
    return true;
}

/* ---- moving ---- */

static bool move(shm_group *group, shm_message *message, size_t start, size_t nbytes)
{
    bool is_send = message->state == SHM_MESSAGE_OFFERED;
    unsigned char *near = message->buffer + start, *far = message->far_side + start;
    if (message->way == SHM_WAY_REMOTE)
        return is_send ? shm_remote_write(group, message->peer, far, near, nbytes)
                       : shm_remote_read(group, message->peer, near, far, nbytes);
    shm_copy(group, is_send ? far : near, is_send ? near : far, nbytes, message->limit);
    return true;
}

/* The piece counts as moved, so that both sides come to an end, and both learn before that it was not. */
static void fail_piece(shm_group *group, shm_message *message, shm_offer *offer)
{
    if (message->status == KITH_OK)
        message->status =
            group->host->fail(KITH_ERR_PEER_FAILED, "group %s: rank %d: %s with rank %d failed: %s", group->name,
                              group->rank, "process_vm_readv or process_vm_writev", message->peer, strerror(errno));
    shm_store(message->state == SHM_MESSAGE_OFFERED ? &offer->sender.failed : &offer->receiver.failed, message->id);
}

/* The status of a message both of whose sides are through. */
static kith_status status_of_both(shm_group *group, const shm_message *message, const uint64_t *failed_there)
{
    if (message->status != KITH_OK || shm_load(failed_there) != message->id)
        return message->status;
    return group->host->fail(KITH_ERR_PEER_FAILED,
                             "group %s: rank %d: the kernel refused rank %d to copy a message between both",
                             group->name, group->rank, message->peer);
}

/* Takes numbers of pieces and moves them. True when it got one. */
static bool move_pieces(shm_group *group, shm_message *message, shm_offer *offer, uint64_t *moved)
{
    bool is_news = false;
    for (size_t work = 0; work < STEP_NBYTES; work += message->piece_nbytes) {
        uint64_t number = __atomic_fetch_add(&offer->shared.next, 1, __ATOMIC_ACQ_REL);
        if (number >= PIECES_OVER || number * message->piece_nbytes >= message->limit)
            break;
        size_t start = (size_t)number * message->piece_nbytes;
        size_t nbytes = shm_min(message->piece_nbytes, message->limit - start);
        if (!move(group, message, start, nbytes))
            fail_piece(group, message, offer);
        shm_store(moved, *moved + nbytes);
        is_news = true;
    }
    if (is_news)
        shm_wake(group);
    return is_news;
}

static bool has_pieces_left(const shm_message *message, const shm_offer *offer)
{
    uint64_t next = __atomic_load_n(&offer->shared.next, __ATOMIC_ACQUIRE);
    return next < PIECES_OVER && next * message->piece_nbytes < message->limit;
}

static void end_recv(shm_group *group, shm_message *recv, shm_offer *offer)
{
    kith_status status = recv->status;
    if (offer != NULL) {
        status = status_of_both(group, recv, &offer->sender.failed); /* closed, the offer may be another message's */
        shm_store(&offer->receiver.closed, recv->id);
        shm_wake(group);
    }
    if (recv->started_ns != 0 && recv->way != SHM_WAY_DIRECT && status == KITH_OK && recv->total == recv->limit)
        shm_trial_message_ended(group->channels->of[recv->peer].trials, recv->total, recv->way == SHM_WAY_REMOTE,
                                shm_now_ns() - recv->started_ns);
    if (status == KITH_OK && recv->total > recv->limit)
        status = group->host->fail(KITH_ERR_TRUNCATED,
                                   "group %s: a message of %zu bytes from rank %d to rank %d does not fit into %zu",
                                   group->name, recv->total, recv->peer, group->rank, recv->nbytes);
    recv->moved = recv->limit;
    finish(group, recv, status);
}

static bool step_recv(shm_group *group, shm_message *recv)
{
    shm_offer *offer = offer_of(group, recv);
    if (recv->way == SHM_WAY_PIECES) {
        shm_channel *channel = &group->channels->of[recv->peer];
        if (offer == NULL && !recv->is_requested && shm_channel_has_room(group->channels, channel, 0)) {
            shm_message_line *line = shm_channel_line(group->channels, channel);
            line->tag = recv->id;
            line->kind_nbytes = shm_kind_nbytes(SHM_LINE_REQUEST, recv->limit);
            shm_channel_publish(group, channel, line);
            recv->is_requested = true;
            return true;
        }
        if (recv->moved == recv->limit && (offer != NULL || recv->is_requested)) {
            end_recv(group, recv, offer);
            return true;
        }
        if (offer != NULL && shm_load(&offer->sender.withdrawn) == recv->id)
            finish(group, recv, fail_withdrawn(group, recv));
        return recv->state == SHM_MESSAGE_DONE;
    }
    bool is_news = has_pieces_left(recv, offer) && move_pieces(group, recv, offer, &offer->receiver.moved);
    if (offer->receiver.moved + shm_load(&offer->sender.moved) == recv->limit) {
        end_recv(group, recv, offer);
        return true;
    }
    if (shm_load(&offer->sender.withdrawn) == recv->id) {
        shm_store(&offer->receiver.closed, recv->id);
        finish(group, recv, fail_withdrawn(group, recv));
        return true;
    }
    return is_news;
}

static bool send_pieces(shm_group *group, shm_message *send)
{
    shm_channels *all = group->channels;
    shm_channel *channel = &all->of[send->peer];
    size_t most = (size_t)all->byte_count / 4;
    bool is_news = false;
    for (size_t work = 0; send->moved < send->limit && work < STEP_NBYTES; work += most) {
        size_t nbytes = shm_min(most, send->limit - send->moved);
        if (!shm_channel_has_room(all, channel, nbytes))
            return is_news;
        shm_message_line *line = shm_channel_line(all, channel);
        unsigned char *to = shm_channel_body(all, channel, nbytes, line);
        memcpy(to, send->buffer + send->moved, nbytes);
        line->tag = send->id;
        line->kind_nbytes = shm_kind_nbytes(SHM_LINE_PIECE, nbytes);
        shm_channel_publish(group, channel, line);
        send->moved += nbytes;
        is_news = true;
    }
    if (send->moved == send->limit) {
        finish(group, send, KITH_OK);
        return true;
    }
    return is_news;
}

/* Has the receiver taken it? Then reads how. */
static bool is_taken(shm_group *group, shm_message *send, shm_offer *offer)
{
    if (send->way != 0)
        return true;
    if (offer == NULL || shm_load(&offer->receiver.taken) != send->id)
        return false;
    send->limit = (size_t)offer->receiver.limit;
    send->piece_nbytes = (size_t)offer->receiver.piece_nbytes;
    send->way = (shm_way)offer->receiver.way;
    send->moved = 0;
    if (send->way != SHM_WAY_PIECES) {
        shm_way way;
        send->far_side = find_far(group, send->peer, offer->receiver.address, offer->receiver.region,
                                  offer->receiver.offset, send->way == SHM_WAY_REMOTE, &way);
        if (way != send->way)
            send->far_side = NULL; /* the receiver does it alone */
    }
    return true;
}

static bool step_send(shm_group *group, shm_message *send)
{
    shm_offer *offer = offer_of(group, send);
    if (!is_taken(group, send, offer))
        return false;
    if (send->way == SHM_WAY_PIECES)
        return send_pieces(group, send);
    bool is_news =
        send->far_side != NULL && has_pieces_left(send, offer) && move_pieces(group, send, offer, &offer->sender.moved);
    if (offer->sender.moved + shm_load(&offer->receiver.moved) == send->limit ||
        shm_load(&offer->receiver.closed) == send->id) {
        finish(group, send, status_of_both(group, send, &offer->receiver.failed));
        return true;
    }
    return is_news;
}

bool shm_offer_step(shm_group *group, shm_message *message)
{
    return message->state == SHM_MESSAGE_OFFERED ? step_send(group, message) : step_recv(group, message);
}

/* ---- lines ---- */

static void take_piece(shm_group *group, shm_channel *channel, const shm_message_line *line)
{
    shm_message *recv = find_active(group, channel->peer, line->tag, SHM_MESSAGE_TAKING);
    size_t nbytes = shm_line_nbytes(line);
    if (recv == NULL || nbytes > recv->limit - recv->moved)
        return; /* of a receive that was cancelled */
    memcpy(recv->buffer + recv->moved, channel->in_bytes + line->body.start % group->channels->byte_count, nbytes);
    recv->moved += nbytes;
    shm_offer_step(group, recv);
}

static void answer_request(shm_group *group, shm_channel *channel, const shm_message_line *line)
{
    shm_message *send = find_active(group, channel->peer, line->tag, SHM_MESSAGE_OFFERED);
    if (send != NULL) {
        send->way = SHM_WAY_PIECES;
        send->limit = shm_line_nbytes(line);
        send->moved = 0;
        send_pieces(group, send);
    } else if (shm_channel_has_room(group->channels, channel, 0)) {
        shm_message_line *answer = shm_channel_line(group->channels, channel);
        answer->tag = line->tag;
        answer->kind_nbytes = shm_kind_nbytes(SHM_LINE_WITHDRAWN, 0);
        shm_channel_publish(group, channel, answer);
    }
}

void shm_offer_line(shm_group *group, shm_channel *channel, const shm_message_line *line)
{
    shm_message *recv;
    switch (shm_line_kind_of(line)) {
    case SHM_LINE_PIECE:
        take_piece(group, channel, line);
        break;
    case SHM_LINE_REQUEST:
        answer_request(group, channel, line);
        break;
    default:
        recv = find_active(group, channel->peer, line->tag, SHM_MESSAGE_TAKING);
        if (recv != NULL)
            finish(group, recv, fail_withdrawn(group, recv));
        break;
    }
}

/* ---- cancel ---- */

/* Until the pieces that were given out have been moved. A peer that is stopped in the middle of one cannot be waited
 * for. */
static void wait_for_pieces(shm_group *group, const shm_message *message, shm_offer *offer, uint64_t given)
{
    uint64_t bytes = given * message->piece_nbytes;
    bytes = bytes < message->limit ? bytes : message->limit;
    int64_t until = shm_now_ns() + CANCEL_WAIT_NS;
    while (shm_load(&offer->sender.moved) + shm_load(&offer->receiver.moved) < bytes && shm_now_ns() < until &&
           shm_peer_is_alive(group, message->peer))
        shm_pause();
}

static void cancel_shared(shm_group *group, shm_message *message, shm_offer *offer)
{
    uint64_t given = __atomic_fetch_add(&offer->shared.next, PIECES_OVER, __ATOMIC_ACQ_REL);
    if (given < PIECES_OVER)
        wait_for_pieces(group, message, offer, given);
}

static void cancel_send(shm_group *group, shm_message *send, shm_offer *offer)
{
    if (offer == NULL)
        return;
    if (change_state(offer, send->id, OFFERED, WITHDRAWN)) {
        group->channels->of[send->peer].offered[send->index] = 0;
        return;
    }
    int64_t until = shm_now_ns() + CANCEL_WAIT_NS;
    while (!is_taken(group, send, offer) && shm_now_ns() < until && shm_peer_is_alive(group, send->peer))
        shm_pause();
    if (send->way == SHM_WAY_DIRECT || send->way == SHM_WAY_REMOTE)
        cancel_shared(group, send, offer);
    shm_store(&offer->sender.withdrawn, send->id);
}

void shm_offer_cancel(shm_group *group, shm_message *message)
{
    shm_offer *offer = offer_of(group, message);
    if (message->state == SHM_MESSAGE_OFFERED) {
        cancel_send(group, message, offer);
    } else if (offer != NULL) {
        if (message->way != SHM_WAY_PIECES)
            cancel_shared(group, message, offer);
        shm_store(&offer->receiver.closed, message->id);
    }
    shm_wake(group);
    deactivate(group, message);
}
