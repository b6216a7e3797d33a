/* topology/node_book.h - nodes by name, so that several files may speak of one node: a tree of switches tells its leaf,
 * a list of blocks its domain.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_TOPOLOGY_NODE_BOOK_H
#define KI_TOPOLOGY_NODE_BOOK_H

#include "model.h"
#include "name_map.h"

typedef struct ki_node_book {
    kith_topology *t;
    ki_name_map map;
} ki_node_book;

/* Knows the nodes that earlier files named; made-up names (of a synthetic machine) do not count. */
kith_status ki_node_book_open(ki_node_book *book, kith_topology *t);
/* Index in t->nodes of the node with that name, which is added when there is none (kind -1). -1: the topology's status
 * tells why not. */
int ki_node_book_add(ki_node_book *book, const char *name);
void ki_node_book_close(ki_node_book *book);

#endif
