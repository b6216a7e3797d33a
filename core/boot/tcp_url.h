/* core/boot/tcp_url.h - tcp://host:port[?file=/path][&token=hex], and the file that carries a port.
 *
 * The file holds one line "address port token". Rank 0 writes it under another name and renames it into place, so that
 * a reader sees all or nothing and an old file of that name is replaced, not followed. In a folder that all users may
 * write to (/tmp) a reader accepts only a file of its own user.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_BOOT_TCP_URL_H
#define KI_BOOT_TCP_URL_H

#include "store_kind.h"

typedef struct ki_tcp_url {
    char host[256];
    uint16_t port;
    char file[512]; /* "": none */
    uint64_t token; /* 0: none */
} ki_tcp_url;

/* rest: what follows "tcp://". */
kith_status ki_tcp_url_parse(const char *rest, ki_tcp_url *url);

/* What others can use. */
void ki_tcp_url_text(const ki_tcp_url *url, char *text, size_t nbytes);

kith_status ki_port_file_write(const char *path, const ki_tcp_url *url);

/* Takes host, port and token from the file. KITH_ERR_UNREACHABLE (quiet): it is not there yet, or has no valid content
 * yet. */
kith_status ki_port_file_read(const char *path, ki_tcp_url *url);

#endif
