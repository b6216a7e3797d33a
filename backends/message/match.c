/* backends/message/match.c - the queues of posted receives and of messages nobody asked for yet.
 *
 * Both are hash tables over (peer, tag) with KI_MSG_BUCKETS lists; inside a list the order of posting, or of sending,
 * is kept, and the first entry with the same peer and tag is taken. That is all there is to "first in first out
 * inside a tag".
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "message.h"

#include <string.h>

static size_t bucket_of(int peer, uint64_t tag)
{
    uint64_t mixed = (tag ^ ((uint64_t)(unsigned)peer << 40)) * 0x9E3779B97F4A7C15u;
    return (size_t)(mixed >> 58);
}

/* Small operations that follow one another meet messages of the next one again and again: their parcels are kept. */
static ki_parcel *get_parcel(ki_msg_engine *engine, size_t nbytes)
{
    ki_parcel *spare = engine->spare_parcels;
    size_t room = nbytes <= KI_PARCEL_SHORT_NBYTES ? KI_PARCEL_SHORT_NBYTES : nbytes;
    if (spare == NULL || nbytes > KI_PARCEL_SHORT_NBYTES)
        return (ki_parcel *)engine->host->alloc(engine->host->cookie, sizeof *spare + room, 16);
    engine->spare_parcels = (ki_parcel *)(void *)spare->link.next;
    engine->spare_count--;
    return spare;
}

ki_parcel *ki_parcel_create(ki_msg_group *group, const ki_msg_header *header, const void *payload, size_t nbytes)
{
    ki_parcel *parcel = get_parcel(group->engine, nbytes);
    if (parcel == NULL)
        return NULL;
    ki_link_init(&parcel->link);
    parcel->header = *header;
    parcel->local = NULL;
    parcel->nbytes = nbytes;
    if (nbytes > 0)
        memcpy(parcel->payload, payload, nbytes);
    return parcel;
}

void ki_parcel_free(ki_msg_group *group, ki_parcel *parcel)
{
    ki_msg_engine *engine = group->engine;
    if (parcel->nbytes > KI_PARCEL_SHORT_NBYTES || engine->spare_count == KI_PARCEL_SPARE_MOST) {
        engine->host->free(engine->host->cookie, parcel);
        return;
    }
    parcel->link.next = (ki_link *)(void *)engine->spare_parcels;
    engine->spare_parcels = parcel;
    engine->spare_count++;
}

void ki_msg_engine_fini(ki_msg_engine *engine)
{
    while (engine->spare_parcels != NULL) {
        ki_parcel *parcel = engine->spare_parcels;
        engine->spare_parcels = (ki_parcel *)(void *)parcel->link.next;
        engine->host->free(engine->host->cookie, parcel);
    }
    engine->spare_count = 0;
}

ki_msg_op *ki_posted_take(ki_msg_group *group, int peer, uint64_t tag)
{
    ki_link *head = &group->posted[bucket_of(peer, tag)];
    for (ki_link *link = head->next; link != head; link = link->next) {
        ki_msg_op *op = (ki_msg_op *)(void *)link;
        if (op->tag == tag && op->peer == peer) {
            ki_link_remove(link);
            return op;
        }
    }
    return NULL;
}

void ki_posted_add(ki_msg_op *op, bool at_head)
{
    ki_link *head = &op->group->posted[bucket_of(op->peer, op->tag)];
    op->state = KI_MSG_POSTED;
    ki_link_insert(at_head ? head->next : head, &op->link);
}

ki_parcel *ki_unexpected_take(ki_msg_group *group, int peer, uint64_t tag)
{
    ki_link *head = &group->unexpected[bucket_of(peer, tag)];
    for (ki_link *link = head->next; link != head; link = link->next) {
        ki_parcel *parcel = (ki_parcel *)(void *)link;
        if (parcel->header.tag == tag && parcel->header.source == (uint32_t)peer) {
            ki_link_remove(link);
            return parcel;
        }
    }
    return NULL;
}

void ki_unexpected_add(ki_msg_group *group, ki_parcel *parcel)
{
    ki_link_insert(&group->unexpected[bucket_of((int)parcel->header.source, parcel->header.tag)], &parcel->link);
}

bool ki_unexpected_drop(ki_msg_group *group, int peer, uint64_t sequence, const ki_msg_op *local)
{
    for (size_t bucket = 0; bucket < KI_MSG_BUCKETS; bucket++) {
        ki_link *head = &group->unexpected[bucket];
        for (ki_link *link = head->next; link != head; link = link->next) {
            ki_parcel *parcel = (ki_parcel *)(void *)link;
            bool is_it = local != NULL ? parcel->local == local
                                       : parcel->local == NULL && parcel->header.source == (uint32_t)peer &&
                                             parcel->header.sequence == sequence;
            if (is_it) {
                ki_link_remove(link);
                ki_parcel_free(group, parcel);
                return true;
            }
        }
    }
    return false;
}
