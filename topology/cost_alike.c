/* topology/cost_alike.c - nodes that do the same are priced once.
 *
 * Groups that stay inside their nodes meet nobody from another node. So of nodes of one kind whose groups have the same
 * members in the same order one stands for all: on 512 nodes, each with its tp groups, 511 need not be looked at. The
 * price is the same to the last bit, as the first of the nodes is kept.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "cost.h"

#include "core/base/mem.h"
#include "model.h"
#include <string.h>

enum { MOST_CLASSES = 32 }; /* of nodes; what belongs to none of them is priced by itself */

/* Nodes that are alike. */
typedef struct node_class {
    int kind, node; /* node: the first */
    uint64_t groups;
} node_class;

/* -1: the group is on several nodes. */
static int node_of_group(const ki_cost_case *c, int g)
{
    const int *group = c->groups + (size_t)g * (size_t)c->size;
    int node = 0, other, gpu;
    ki_locate(c->t, group[0], &node, &gpu);
    for (int i = 1; i < c->size; i++) {
        ki_locate(c->t, group[i], &other, &gpu);
        if (other != node)
            return -1;
    }
    return node;
}

/* Groups inside several nodes. */
static bool is_worth_it(const ki_cost_case *c)
{
    int first = node_of_group(c, 0);
    bool has_others = false;
    for (int g = 1; g < c->group_count && first >= 0; g++) {
        int node = node_of_group(c, g);
        if (node < 0)
            return false;
        has_others = has_others || node != first;
    }
    return has_others;
}

static uint64_t mix(uint64_t x) /* splitmix64 */
{
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

/* hash: of each node, over its groups as they follow each other; 0: has none. */
static void hash_nodes(const ki_cost_case *c, uint64_t *hash)
{
    size_t all = (size_t)c->group_count * (size_t)c->size;
    for (size_t i = 0; i < all; i++) {
        int node = 0, gpu;
        ki_locate(c->t, c->groups[i], &node, &gpu);
        hash[node] = mix(hash[node] + 0x9e3779b97f4a7c15u + (uint64_t)gpu) | 1;
    }
}

/* Is the node the first of its class, or in none? */
static bool stands_for_itself(const ki_cost_case *c, const uint64_t *hash, int node, node_class *classes, int *count)
{
    int kind = c->t->nodes[node].kind;
    for (int i = 0; i < *count; i++)
        if (classes[i].kind == kind && classes[i].groups == hash[node])
            return classes[i].node == node;
    if (*count < MOST_CLASSES)
        classes[(*count)++] = (node_class){ kind, node, hash[node] };
    return true;
}

kith_status ki_cost_unlike(ki_cost_case *c, int **kept)
{
    *kept = NULL;
    if (c->group_count == 1 || !is_worth_it(c))
        return KITH_OK;
    size_t n = (size_t)c->size;
    uint64_t *hash = (uint64_t *)ki_calloc(NULL, (size_t)c->t->node_count, sizeof *hash);
    int *groups = (int *)ki_calloc(NULL, (size_t)c->group_count * n, sizeof *groups);
    if (hash == NULL || groups == NULL) {
        ki_free(NULL, hash);
        ki_free(NULL, groups);
        return KITH_ERR_NO_MEMORY;
    }
    node_class classes[MOST_CLASSES];
    int class_count = 0, count = 0;
    hash_nodes(c, hash);
    for (int g = 0; g < c->group_count; g++)
        if (stands_for_itself(c, hash, node_of_group(c, g), classes, &class_count))
            memcpy(groups + (size_t)count++ * n, c->groups + (size_t)g * n, n * sizeof *groups);
    ki_free(NULL, hash);
    c->groups = *kept = groups;
    c->group_count = count;
    return KITH_OK;
}
