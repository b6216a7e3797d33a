/* topology/switch_tree.h - a tree of switches that a file declares piece by piece, in any order: which children a
 * switch has, which nodes hang on it. When all is read, ki_switch_tree_build() checks that it is a forest and adds the
 * switches to the topology, parents first.
 *
 * What no file may say is refused with its line: a switch declared twice, a child that nobody declares, a child of two
 * parents, a loop, a node on two leaves, a switch with both switches and nodes, or with neither.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_TOPOLOGY_SWITCH_TREE_H
#define KI_TOPOLOGY_SWITCH_TREE_H

#include "node_book.h"

typedef struct ki_switch_tree {
    kith_topology *t;
    const char *file;
    ki_node_book *book;
    ki_name_map names;
    struct ki_tree_switch *switches;
    struct ki_tree_edge *edges; /* parent to the name of a child, in the order of the file */
    struct ki_tree_host *hosts; /* switch to node */
    int switch_count, switch_room, edge_count, edge_room, host_count, host_room;
} ki_switch_tree;

void ki_switch_tree_open(ki_switch_tree *tree, kith_topology *t, const char *file, ki_node_book *book);
/* A switch. *number is for the calls below. */
kith_status ki_switch_tree_declare(ki_switch_tree *tree, const char *name, size_t length, int line, int *number);
/* Host lists of child switches and of nodes; may be called several times for one switch. */
kith_status ki_switch_tree_add_children(ki_switch_tree *tree, int number, const char *list, size_t length, int line);
kith_status ki_switch_tree_add_nodes(ki_switch_tree *tree, int number, const char *list, size_t length, int line);
kith_status ki_switch_tree_build(ki_switch_tree *tree);
void ki_switch_tree_close(ki_switch_tree *tree);

#endif
