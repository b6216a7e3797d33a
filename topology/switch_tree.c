/* topology/switch_tree.c - see switch_tree.h.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "switch_tree.h"

#include "grow.h"
#include "sets.h"
#include <string.h>

typedef struct ki_tree_switch {
    const char *name;
    int line;
    int parent, parent_line; /* -1: none */
    int child_count, node_count;
    int level;
    int first_child, next_sibling; /* -1: none */
    int index;                     /* in the topology; -1: not added yet */
} ki_tree_switch;

typedef struct ki_tree_edge {
    int parent;
    const char *child;
    int line;
} ki_tree_edge;

typedef struct ki_tree_host {
    int owner;
    int node;
    int line;
} ki_tree_host;

#define GROW(array, count, room) ki_grow((void **)&(array), count, &(room), sizeof *(array))

static kith_status no_memory(const ki_switch_tree *tree)
{
    return ki_fail(KITH_ERR_NO_MEMORY, "%s: no memory for the tree of switches", tree->file);
}

void ki_switch_tree_open(ki_switch_tree *tree, kith_topology *t, const char *file, ki_node_book *book)
{
    *tree = (ki_switch_tree){ .t = t, .file = file, .book = book };
}

void ki_switch_tree_close(ki_switch_tree *tree)
{
    ki_name_map_fini(&tree->names);
    free(tree->switches);
    free(tree->edges);
    free(tree->hosts);
}

kith_status ki_switch_tree_declare(ki_switch_tree *tree, const char *name, size_t length, int line, int *number)
{
    int before = ki_name_map_get(&tree->names, name, length);
    if (length == 0)
        return ki_fail_quiet(KITH_ERR_INVALID_ARG, "%s:%d: a switch has no name", tree->file, line);
    if (before >= 0)
        return ki_fail_quiet(KITH_ERR_INVALID_ARG, "%s:%d: switch %s is there twice, first in line %d", tree->file,
                             line, tree->switches[before].name, tree->switches[before].line);
    if (tree->switch_count >= KI_MAX_NODES)
        return ki_fail_quiet(KITH_ERR_INVALID_ARG, "%s:%d: more than %d switches", tree->file, line, KI_MAX_NODES);
    const char *copy = ki_topology_dup_n(tree->t, name, length);
    if (tree->t->status != KITH_OK)
        return tree->t->status;
    if (!GROW(tree->switches, tree->switch_count, tree->switch_room) ||
        !ki_name_map_put(&tree->names, copy, length, tree->switch_count))
        return no_memory(tree);
    tree->switches[tree->switch_count] = (ki_tree_switch){
        .name = copy, .line = line, .parent = -1, .first_child = -1, .next_sibling = -1, .index = -1
    };
    *number = tree->switch_count++;
    return KITH_OK;
}

/* ---- lists ---- */

typedef struct addition {
    ki_switch_tree *tree;
    int number, line;
} addition;

static kith_status add_child(void *arg, const char *name)
{
    const addition *a = (const addition *)arg;
    ki_switch_tree *tree = a->tree;
    if (!GROW(tree->edges, tree->edge_count, tree->edge_room))
        return no_memory(tree);
    tree->edges[tree->edge_count++] = (ki_tree_edge){ a->number, ki_topology_dup(tree->t, name), a->line };
    tree->switches[a->number].child_count++;
    return tree->t->status;
}

static kith_status add_node(void *arg, const char *name)
{
    const addition *a = (const addition *)arg;
    ki_switch_tree *tree = a->tree;
    int node = ki_node_book_add(tree->book, name);
    if (node < 0)
        return tree->t->status;
    if (!GROW(tree->hosts, tree->host_count, tree->host_room))
        return no_memory(tree);
    tree->hosts[tree->host_count++] = (ki_tree_host){ a->number, node, a->line };
    tree->switches[a->number].node_count++;
    return KITH_OK;
}

static kith_status add_list(ki_switch_tree *tree, int number, const char *list, size_t length, int line,
                            ki_host_fn each, int most)
{
    addition a = { tree, number, line };
    if (length == 0)
        return ki_fail_quiet(KITH_ERR_INVALID_ARG, "%s:%d: switch %s has an empty list", tree->file, line,
                             tree->switches[number].name);
    kith_status status = ki_hostlist_each(list, length, most, each, &a);
    return status == KITH_ERR_INVALID_ARG ? ki_fail_context(status, "%s:%d", tree->file, line) : status;
}

kith_status ki_switch_tree_add_children(ki_switch_tree *tree, int number, const char *list, size_t length, int line)
{
    return add_list(tree, number, list, length, line, add_child, KI_MAX_NODES - tree->edge_count);
}

kith_status ki_switch_tree_add_nodes(ki_switch_tree *tree, int number, const char *list, size_t length, int line)
{
    return add_list(tree, number, list, length, line, add_node, KI_MAX_NODES - tree->host_count);
}

/* ---- checks ---- */

static kith_status check_contents(const ki_switch_tree *tree)
{
    for (int i = 0; i < tree->switch_count; i++) {
        const ki_tree_switch *s = &tree->switches[i];
        if ((s->child_count > 0) == (s->node_count > 0))
            return ki_fail_quiet(KITH_ERR_INVALID_ARG, "%s:%d: switch %s has %s; valid: one of the two", tree->file,
                                 s->line, s->name,
                                 s->node_count > 0 ? "both switches and nodes" : "neither switches nor nodes");
    }
    return KITH_OK;
}

/* Children by name become children by number. */
static kith_status resolve(ki_switch_tree *tree)
{
    for (int i = tree->edge_count - 1; i >= 0; i--) { /* backwards: lists of siblings grow at their head */
        const ki_tree_edge *edge = &tree->edges[i];
        int number = ki_name_map_get(&tree->names, edge->child, strlen(edge->child));
        if (number < 0)
            return ki_fail_quiet(KITH_ERR_INVALID_ARG, "%s:%d: switch %s is listed under %s, but nothing declares it",
                                 tree->file, edge->line, edge->child, tree->switches[edge->parent].name);
        ki_tree_switch *child = &tree->switches[number];
        if (child->parent >= 0)
            return ki_fail_quiet(KITH_ERR_INVALID_ARG,
                                 "%s:%d: switch %s is listed under %s and again under %s in line %d", tree->file,
                                 edge->line, child->name, tree->switches[edge->parent].name,
                                 tree->switches[child->parent].name, child->parent_line);
        child->parent = edge->parent;
        child->parent_line = edge->line;
        child->next_sibling = tree->switches[edge->parent].first_child;
        tree->switches[edge->parent].first_child = number;
    }
    return KITH_OK;
}

/* Numbers of the switches, parents before children, breadth first: order[] and how many can be reached from roots. */
static int sort_parents_first(const ki_switch_tree *tree, int *order)
{
    int count = 0;
    for (int i = 0; i < tree->switch_count; i++)
        if (tree->switches[i].parent < 0)
            order[count++] = i;
    for (int i = 0; i < count; i++)
        for (int c = tree->switches[order[i]].first_child; c >= 0; c = tree->switches[c].next_sibling)
            order[count++] = c;
    return count;
}

static kith_status refuse_loop(const ki_switch_tree *tree, const int *order, int count)
{
    bool *is_reached = (bool *)ki_array((size_t)tree->switch_count, sizeof *is_reached);
    if (is_reached == NULL)
        return no_memory(tree);
    for (int i = 0; i < count; i++)
        is_reached[order[i]] = true;
    int lost = 0;
    while (is_reached[lost])
        lost++;
    free(is_reached);
    const ki_tree_switch *s = &tree->switches[lost];
    return ki_fail_quiet(KITH_ERR_INVALID_ARG, "%s:%d: switch %s is above or below itself: the switches form a loop",
                         tree->file, s->line, s->name);
}

/* ---- adding to the topology ---- */

static void emit(ki_switch_tree *tree, const int *order)
{
    for (int i = tree->switch_count - 1; i >= 0; i--) {
        const ki_tree_switch *s = &tree->switches[order[i]];
        if (s->parent >= 0 && tree->switches[s->parent].level <= s->level)
            tree->switches[s->parent].level = s->level + 1;
    }
    for (int i = 0; i < tree->switch_count && tree->t->status == KITH_OK; i++) {
        ki_tree_switch *s = &tree->switches[order[i]];
        s->index = tree->t->switch_count;
        ki_topology_add_switch(tree->t, s->name, s->parent < 0 ? -1 : tree->switches[s->parent].index)->level =
            s->level;
    }
}

static kith_status place_nodes(ki_switch_tree *tree)
{
    for (int i = 0; i < tree->host_count; i++) {
        const ki_tree_host *host = &tree->hosts[i];
        kith_node *node = &tree->t->nodes[host->node];
        if (node->leaf >= 0)
            return ki_fail_quiet(KITH_ERR_INVALID_ARG, "%s:%d: node %s is on switch %s and on %s; valid: one leaf",
                                 tree->file, host->line, node->name, tree->t->switches[node->leaf].name,
                                 tree->switches[host->owner].name);
        node->leaf = tree->switches[host->owner].index;
    }
    return KITH_OK;
}

kith_status ki_switch_tree_build(ki_switch_tree *tree)
{
    kith_status status = check_contents(tree);
    if (status == KITH_OK)
        status = resolve(tree);
    if (status != KITH_OK || tree->switch_count == 0)
        return status;
    int *order = (int *)ki_array((size_t)tree->switch_count, sizeof *order);
    if (order == NULL)
        return no_memory(tree);
    int count = sort_parents_first(tree, order);
    if (count < tree->switch_count) {
        status = refuse_loop(tree, order, count);
    } else {
        emit(tree, order);
        status = tree->t->status == KITH_OK ? place_nodes(tree) : tree->t->status;
    }
    free(order);
    return status;
}
