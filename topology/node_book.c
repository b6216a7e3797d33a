/* topology/node_book.c - see node_book.h.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "node_book.h"

#include <string.h>

static bool put(ki_node_book *book, int node)
{
    const char *name = book->t->nodes[node].name;
    if (ki_name_map_get(&book->map, name, strlen(name)) >= 0)
        return true;
    if (ki_name_map_put(&book->map, name, strlen(name), node))
        return true;
    ki_topology_set_status(book->t, ki_fail(KITH_ERR_NO_MEMORY, "topology: no memory for names of nodes"));
    return false;
}

kith_status ki_node_book_open(ki_node_book *book, kith_topology *t)
{
    *book = (ki_node_book){ .t = t };
    for (int p = 0; p < t->part_count - 1; p++)
        for (int n = t->parts[p].node_from; n < t->parts[p].node_to && !t->parts[p].has_made_up_nodes; n++)
            if (!put(book, n))
                return t->status;
    return t->status;
}

int ki_node_book_add(ki_node_book *book, const char *name)
{
    int node = ki_name_map_get(&book->map, name, strlen(name));
    if (node >= 0)
        return node;
    ki_topology_add_node(book->t, name, -1);
    node = book->t->node_count - 1;
    return book->t->status == KITH_OK && put(book, node) ? node : -1;
}

void ki_node_book_close(ki_node_book *book)
{
    ki_name_map_fini(&book->map);
}
