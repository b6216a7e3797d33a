/* backends/shm/messages.c - sends and receives: matching, queues, completion.
 *
 * Per peer there are a list of posted receives, a list of messages that came early, and a queue of sends that wait for
 * room in the channel, each in order, so messages with the same tag match in order. A send that fits into the channel
 * is complete when it is started. Sends to the own rank never touch the arena.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "channel.h"

#define DIRECT_NBYTES 4096

/* ---- lists ---- */

static void list_append(shm_message_list *list, shm_message *message)
{
    message->next = NULL;
    message->previous = list->tail;
    if (list->tail != NULL)
        list->tail->next = message;
    else
        list->head = message;
    list->tail = message;
}

static void list_remove(shm_message_list *list, shm_message *message)
{
    if (message->previous != NULL)
        message->previous->next = message->next;
    else
        list->head = message->next;
    if (message->next != NULL)
        message->next->previous = message->previous;
    else
        list->tail = message->previous;
}

static shm_message *find_posted(const shm_channel *channel, uint64_t tag)
{
    shm_message *message = channel->posted.head;
    while (message != NULL && message->tag != tag)
        message = message->next;
    return message;
}

void shm_message_finish(shm_group *group, shm_message *message, kith_status status)
{
    message->state = SHM_MESSAGE_DONE;
    message->status = status;
    group->channels->pending--;
}

static kith_status fail_truncated(shm_group *group, int peer, size_t nbytes, size_t room)
{
    return group->host->fail(KITH_ERR_TRUNCATED,
                             "group %s: a message of %zu bytes from rank %d to rank %d does not fit into %zu",
                             group->name, nbytes, peer, group->rank, room);
}

/* ---- receiving ---- */

/* Gives a message that is there in full to its receive. */
static void deliver(shm_group *group, shm_message *recv, const unsigned char *data, size_t nbytes)
{
    recv->moved = shm_min(nbytes, recv->nbytes);
    if (recv->moved != 0)
        memcpy(recv->buffer, data, recv->moved);
    shm_message_finish(group, recv,
                       nbytes <= recv->nbytes ? KITH_OK : fail_truncated(group, recv->peer, nbytes, recv->nbytes));
}

static const unsigned char *payload_of(const shm_channels *all, const shm_channel *channel,
                                       const shm_message_line *line)
{
    if (shm_line_nbytes(line) <= SHM_LINE_INLINE)
        return line->bytes;
    return channel->in_bytes + line->body.start % all->byte_count;
}

static void append_early(shm_channel *channel, shm_early *early)
{
    early->next = NULL;
    if (channel->early != NULL)
        channel->early_last->next = early;
    else
        channel->early = early;
    channel->early_last = early;
}

static shm_early *new_early(const shm_group *group, size_t kept)
{
    return group->host->alloc(group->host->cookie, sizeof(shm_early) + kept, SHM_LINE);
}

/* Moves a line that nobody waits for into private memory. False when there is none: it stays where it is. */
static bool keep_early(shm_group *group, shm_channel *channel, const shm_message_line *line)
{
    bool is_offer = shm_line_kind_of(line) == SHM_LINE_OFFER;
    size_t nbytes = shm_line_nbytes(line), kept = is_offer ? 0 : nbytes;
    shm_early *early = new_early(group, kept);
    if (early == NULL)
        return false;
    early->tag = line->tag;
    early->nbytes = nbytes;
    early->self = NULL;
    early->is_offer = is_offer;
    if (is_offer)
        early->offer = line->offer;
    if (kept != 0)
        memcpy(early->data, payload_of(group->channels, channel, line), kept);
    append_early(channel, early);
    return true;
}

static bool handle_line(shm_group *group, shm_channel *channel, const shm_message_line *line)
{
    if (shm_line_kind_of(line) > SHM_LINE_OFFER) {
        shm_offer_line(group, channel, line);
        return true;
    }
    shm_message *recv = find_posted(channel, line->tag);
    if (recv == NULL)
        return keep_early(group, channel, line);
    if (shm_line_kind_of(line) == SHM_LINE_OFFER) {
        list_remove(&channel->posted, recv);
        if (!shm_offer_take(group, channel, &line->offer, shm_line_nbytes(line), recv))
            list_append(&channel->posted, recv);
        return true;
    }
    list_remove(&channel->posted, recv);
    deliver(group, recv, payload_of(group->channels, channel, line), shm_line_nbytes(line));
    return true;
}

/* Empties the channel from the peer. */
static bool look(shm_group *group, shm_channel *channel)
{
    bool is_news = false;
    shm_message_line *line;
    while ((line = shm_channel_peek(group->channels, channel)) != NULL && handle_line(group, channel, line)) {
        shm_channel_consume(group, channel, line);
        is_news = true;
    }
    return is_news;
}

/* Gives an early message to a receive that is being posted. */
static bool take_early(shm_group *group, shm_channel *channel, shm_message *recv)
{
    shm_early *previous = NULL, *early = channel->early;
    while (early != NULL) {
        shm_early *next = early->next;
        bool is_taken = false, is_over = false;
        if (early->tag == recv->tag) {
            is_over = true; /* taken, or withdrawn by its sender */
            if (early->is_offer) {
                is_taken = shm_offer_take(group, channel, &early->offer, early->nbytes, recv);
            } else if (early->self != NULL) {
                deliver(group, recv, early->self->buffer, early->nbytes);
                shm_message_finish(group, early->self, KITH_OK);
                is_taken = true;
            } else {
                deliver(group, recv, early->data, early->nbytes);
                is_taken = true;
            }
        }
        if (is_over) {
            *(previous != NULL ? &previous->next : &channel->early) = next;
            if (channel->early_last == early)
                channel->early_last = previous;
            shm_delete(group->host, early);
        } else {
            previous = early;
        }
        if (is_taken)
            return true;
        early = next;
    }
    return false;
}

kith_status shm_recv_start(void *group_, const kith_be_msg *msg, kith_be_slot *slot)
{
    shm_group *group = group_;
    shm_channel *channel = &group->channels->of[msg->peer];
    shm_message *recv = (shm_message *)(void *)slot;
    recv->buffer = msg->buffer;
    recv->nbytes = msg->nbytes;
    recv->tag = msg->tag;
    recv->peer = msg->peer;
    recv->state = SHM_MESSAGE_POSTED;
    group->channels->pending++;
    if (channel->early == NULL || !take_early(group, channel, recv))
        list_append(&channel->posted, recv);
    return KITH_OK;
}

/* ---- sending ---- */

static void write_eager(shm_group *group, shm_channel *channel, shm_message *send)
{
    shm_channels *all = group->channels;
    shm_message_line *line = shm_channel_line(all, channel);
    line->tag = send->tag;
    line->kind_nbytes = shm_kind_nbytes(SHM_LINE_EAGER, send->nbytes);
    unsigned char *to = line->bytes;
    if (send->nbytes > SHM_LINE_INLINE)
        to = shm_channel_body(all, channel, send->nbytes, line);
    if (send->nbytes != 0)
        memcpy(to, send->buffer, send->nbytes);
    shm_channel_publish(group, channel, line);
    shm_message_finish(group, send, KITH_OK);
}

/* Long messages are offered, those from mapped buffers earlier, since the receiver takes them without staging. */
static bool is_offered(shm_group *group, const shm_message *send)
{
    uint64_t offset;
    if (send->nbytes > group->channels->eager_nbytes)
        return true;
    return send->nbytes >= DIRECT_NBYTES &&
           (group->peers[send->peer].is_here || shm_region_find(group, send->buffer, send->nbytes, &offset) != 0);
}

/* Writes a send into the channel. False when there is no room yet. */
static bool try_send(shm_group *group, shm_channel *channel, shm_message *send)
{
    shm_channels *all = group->channels;
    bool is_long = is_offered(group, send);
    if (!shm_channel_has_room(all, channel, is_long || send->nbytes <= SHM_LINE_INLINE ? 0 : send->nbytes))
        return false;
    if (is_long)
        shm_offer_make(group, channel, send);
    else
        write_eager(group, channel, send);
    return true;
}

static bool send_queued(shm_group *group, shm_channel *channel)
{
    bool is_news = false;
    while (channel->queue.head != NULL && try_send(group, channel, channel->queue.head)) {
        list_remove(&channel->queue, channel->queue.head);
        group->channels->queued--;
        is_news = true;
    }
    return is_news;
}

/* To the own rank: straight into a posted receive, else it waits as an early message. */
static kith_status send_to_self(shm_group *group, shm_channel *channel, shm_message *send)
{
    shm_message *recv = find_posted(channel, send->tag);
    if (recv != NULL) {
        list_remove(&channel->posted, recv);
        deliver(group, recv, send->buffer, send->nbytes);
        shm_message_finish(group, send, KITH_OK);
        return KITH_OK;
    }
    bool is_kept = send->nbytes <= group->channels->eager_nbytes;
    shm_early *early = new_early(group, is_kept ? send->nbytes : 0);
    if (early == NULL) {
        group->channels->pending--;
        return group->host->fail(KITH_ERR_NO_MEMORY, "no memory for a message of rank %d to itself", group->rank);
    }
    early->tag = send->tag;
    early->nbytes = send->nbytes;
    early->is_offer = false;
    early->self = is_kept ? NULL : send;
    append_early(channel, early);
    send->state = SHM_MESSAGE_SELF;
    if (is_kept) {
        if (send->nbytes != 0)
            memcpy(early->data, send->buffer, send->nbytes);
        shm_message_finish(group, send, KITH_OK);
    }
    return KITH_OK;
}

kith_status shm_send_start(void *group_, const kith_be_msg *msg, kith_be_slot *slot)
{
    shm_group *group = group_;
    shm_channel *channel = &group->channels->of[msg->peer];
    shm_message *send = (shm_message *)(void *)slot;
    send->buffer = msg->buffer;
    send->nbytes = msg->nbytes;
    send->tag = msg->tag;
    send->peer = msg->peer;
    group->channels->pending++;
    if (msg->peer == group->rank)
        return send_to_self(group, channel, send);
    if (channel->queue.head == NULL && try_send(group, channel, send))
        return KITH_OK;
    send->state = SHM_MESSAGE_QUEUED;
    list_append(&channel->queue, send);
    group->channels->queued++;
    return KITH_OK;
}

/* ---- progress ---- */

static bool step_active(shm_group *group)
{
    bool is_news = false;
    for (shm_message *message = group->channels->active, *next; message != NULL; message = next) {
        next = message->next_active;
        is_news |= shm_offer_step(group, message);
    }
    return is_news;
}

bool shm_messages_progress(shm_group *group)
{
    shm_channels *all = group->channels;
    bool is_news = false;
    if (group->size > 1) {
        all->next_look = (all->next_look + 1) % group->size;
        is_news = look(group, &all->of[all->next_look]);
    }
    if (all->pending == 0)
        return is_news;
    for (int r = 0; r < group->size; r++) {
        shm_channel *channel = &all->of[r];
        if (channel->posted.head != NULL || all->active != NULL)
            is_news |= look(group, channel);
        if (channel->queue.head != NULL)
            is_news |= send_queued(group, channel);
    }
    if (all->active != NULL)
        is_news |= step_active(group);
    return is_news;
}

bool shm_messages_pending(const shm_group *group)
{
    return group->channels != NULL && group->channels->pending > 0;
}

kith_status shm_msg_test(void *group_, kith_be_slot *slot, int *is_done, size_t *nbytes)
{
    shm_group *group = group_;
    shm_message *message = (shm_message *)(void *)slot;
    if (message->state != SHM_MESSAGE_DONE) {
        shm_channel *channel = &group->channels->of[message->peer];
        if (message->state == SHM_MESSAGE_POSTED && look(group, channel))
            group->polls = 0;
        if (message->state != SHM_MESSAGE_DONE && (message->state != SHM_MESSAGE_POSTED || group->polls % 8 == 7) &&
            shm_messages_progress(group))
            group->polls = 0;
    }
    if (message->state == SHM_MESSAGE_DONE) {
        *is_done = 1;
        if (nbytes != NULL)
            *nbytes = message->moved;
        return message->status;
    }
    kith_status status = shm_group_check(group);
    if (status != KITH_OK) /* the operation is over: its slot must not stay in a list */
        shm_msg_cancel(group, slot);
    *is_done = status != KITH_OK;
    return status;
}

/* ---- cancel ---- */

static void drop_self(shm_group *group, shm_channel *channel, const shm_message *send)
{
    shm_early *previous = NULL, *early = channel->early;
    while (early != NULL && early->self != send) {
        previous = early;
        early = early->next;
    }
    if (early == NULL)
        return;
    *(previous != NULL ? &previous->next : &channel->early) = early->next;
    if (channel->early_last == early)
        channel->early_last = previous;
    shm_delete(group->host, early);
}

void shm_msg_cancel(void *group_, kith_be_slot *slot)
{
    shm_group *group = group_;
    shm_message *message = (shm_message *)(void *)slot;
    shm_channel *channel = &group->channels->of[message->peer];
    switch ((shm_message_state)message->state) {
    case SHM_MESSAGE_DONE:
        return;
    case SHM_MESSAGE_QUEUED:
        list_remove(&channel->queue, message);
        group->channels->queued--;
        break;
    case SHM_MESSAGE_POSTED:
        list_remove(&channel->posted, message);
        break;
    case SHM_MESSAGE_SELF:
        drop_self(group, channel, message);
        break;
    case SHM_MESSAGE_OFFERED:
    case SHM_MESSAGE_TAKING:
        shm_offer_cancel(group, message);
        break;
    }
    shm_message_finish(group, message, KITH_ERR_ABORTED);
}
