/* core/boot/tcp_serving.h - what the TCP store's server does for its members: requests, events, deaths.
 *
 * Used by the loop in tcp_server.c, on its thread alone.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_BOOT_TCP_SERVING_H
#define KI_BOOT_TCP_SERVING_H

#include "tcp_connection.h"

typedef struct ki_serving {
    int size;
    ki_table *table;
    ki_connection *connections;
} ki_serving;

void ki_serving_add(ki_serving *serving, ki_connection *c);
void ki_serving_remove(ki_serving *serving, ki_connection *c);

/* One frame of a member, whole and sane. A frame that breaks the protocol sets is_broken. */
void ki_serving_handle(ki_serving *serving, ki_connection *c, const ki_wire_frame *frame, const unsigned char *key,
                       const unsigned char *value);

/* A member left or died: notes it, ends the gathers that wait for it, and tells the others of a death. */
void ki_serving_rank_gone(ki_serving *serving, int rank, ki_rank_state state);

/* A new member learns who died before it came. */
void ki_serving_tell_past_deaths(ki_serving *serving, ki_connection *c);

#endif
