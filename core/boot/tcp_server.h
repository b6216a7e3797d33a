/* core/boot/tcp_server.h - the serving side of the TCP store: one thread of rank 0.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_BOOT_TCP_SERVER_H
#define KI_BOOT_TCP_SERVER_H

#include "../base/sock.h"

typedef struct ki_tcp_server ki_tcp_server;

typedef struct ki_tcp_server_options {
    int size;
    uint64_t token;        /* 0: none is asked for */
    const char *secret;    /* never NULL */
    const char *port_file; /* removed when all ranks have joined, or at the end; "": none */
} ki_tcp_server_options;

/* Serves on the listener's sockets, which it owns from here on, also on failure. */
kith_status ki_tcp_server_start(const ki_tcp_server_options *options, ki_listener *listener, ki_tcp_server **server);

/* Orderly: serves until every rank that joined has left or died, or the deadline (0: none) passes. Otherwise ends at
 * once, and the clients see rank 0 die. Waits for the thread and frees all. NULL is fine. */
void ki_tcp_server_stop(ki_tcp_server *server, bool is_orderly, int64_t deadline_ns);

#endif
