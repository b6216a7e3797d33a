/* core/boot/tcp_join.h - a client's way to the TCP store.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_BOOT_TCP_JOIN_H
#define KI_BOOT_TCP_JOIN_H

#include "tcp_url.h"

/* Connects and joins, within options->timeout_ms (0: no limit). Fills in what url->file tells. */
kith_status ki_tcp_join(const ki_store_options *options, ki_tcp_url *url, int *fd);

#endif
