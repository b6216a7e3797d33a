/* topology/rails.c - do NICs in the same position of equal nodes hang on the same leaf?
 *
 * In a rail-optimised fabric NIC i of all nodes that stand together goes to one leaf, and collectives rely on it: they
 * talk from GPU i to GPU i. A cable in the wrong port breaks that without any error. Nodes stand together when they
 * share leaves, directly or through others. For each position the leaf that most of them have is taken as meant. Nodes
 * with another number of NICs in the fabric (managers, storage) are compared among themselves.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "core/text.h"
#include "grow.h"
#include "model.h"

enum { MOST_EXAMPLES = 8 };

/* One NIC of one node, as sorted for counting. */
typedef struct rail {
    int kind, group, rail_count, position, leaf, node;
} rail;

typedef struct finding {
    ki_text list;
    int count;
} finding;

static int find(int *joined, int leaf)
{
    while (joined[leaf] != leaf)
        leaf = joined[leaf] = joined[joined[leaf]];
    return leaf;
}

static int compare_rails(const void *a, const void *b)
{
    const rail *x = (const rail *)a, *y = (const rail *)b;
    const int keys[][2] = { { x->kind, y->kind },         { x->group, y->group }, { x->rail_count, y->rail_count },
                            { x->position, y->position }, { x->leaf, y->leaf },   { x->node, y->node } };
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        if (keys[i][0] != keys[i][1])
            return keys[i][0] < keys[i][1] ? -1 : 1;
    return 0;
}

static void join_leaves(const kith_topology *t, int *joined)
{
    for (int s = 0; s < t->switch_count; s++)
        joined[s] = s;
    for (int n = 0; n < t->node_count; n++) {
        const kith_node *node = &t->nodes[n];
        int first = -1;
        for (int i = 0; i < node->rail_count; i++) {
            if (node->rails[i] < 0)
                continue;
            first = first < 0 ? node->rails[i] : first;
            joined[find(joined, node->rails[i])] = find(joined, first);
        }
    }
}

static size_t collect(const kith_topology *t, int *joined, rail *rails)
{
    size_t count = 0;
    for (int n = 0; n < t->node_count; n++)
        for (int i = 0; i < t->nodes[n].rail_count; i++) {
            int leaf = t->nodes[n].rails[i];
            if (leaf >= 0)
                rails[count++] = (rail){ t->nodes[n].kind, find(joined, leaf), t->nodes[n].rail_count, i, leaf, n };
        }
    return count;
}

/* How many from rails[from] on are of nodes that compare, in the same position (and on the same leaf). */
static size_t run_of(const rail *rails, size_t from, size_t count, bool is_same_leaf)
{
    size_t to = from + 1;
    while (to < count && rails[to].kind == rails[from].kind && rails[to].group == rails[from].group &&
           rails[to].rail_count == rails[from].rail_count && rails[to].position == rails[from].position &&
           (!is_same_leaf || rails[to].leaf == rails[from].leaf))
        to++;
    return to - from;
}

/* rails[0..count) are one position of nodes that stand together: which leaf is meant, who differs? */
static void look(const kith_topology *t, const rail *rails, size_t count, finding *found)
{
    size_t meant = 0, most = 0;
    for (size_t from = 0, run; from < count; from += run) {
        run = run_of(rails, from, count, true);
        if (run > most) {
            most = run;
            meant = from;
        }
    }
    for (size_t i = 0; i < count; i++) {
        if (rails[i].leaf == rails[meant].leaf || ++found->count > MOST_EXAMPLES)
            continue;
        ki_text_add(&found->list, "%sNIC %d of %s is on %s (%zu of %zu are on %s)", found->count > 1 ? "; " : "",
                    rails[i].position, t->nodes[rails[i].node].name, t->switches[rails[i].leaf].name, most, count,
                    t->switches[rails[meant].leaf].name);
    }
}

static void tell(kith_topology *t, int kind, finding *found)
{
    if (found->count > 0)
        ki_topology_doubt(
            t, kind, -1, NULL, 0, "rail-crossed",
            "%d NICs hang on another leaf than the NICs in the same position of the nodes beside them, so "
            "traffic of one rail crosses the spines (NCCL_CROSS_NIC=0 keeps rings on rails): %s%s",
            found->count, ki_text_chars(&found->list), found->count > MOST_EXAMPLES ? "; ..." : "");
    ki_text_fini(&found->list);
    found->count = 0;
}

static void check(kith_topology *t, int *joined, rail *rails)
{
    finding found = { { 0 }, 0 };
    join_leaves(t, joined);
    size_t count = collect(t, joined, rails);
    if (count > 0)
        qsort(rails, count, sizeof *rails, compare_rails);
    for (size_t from = 0, run; from < count; from += run) {
        run = run_of(rails, from, count, false);
        look(t, rails + from, run, &found);
        if (from + run == count || rails[from + run].kind != rails[from].kind)
            tell(t, rails[from].kind, &found);
    }
}

void ki_topology_check_rails(kith_topology *t)
{
    size_t count = 0;
    for (int n = 0; n < t->node_count; n++)
        count += (size_t)t->nodes[n].rail_count;
    if (count == 0)
        return;
    rail *rails = (rail *)ki_array(count, sizeof *rails);
    int *joined = (int *)ki_array((size_t)t->switch_count, sizeof *joined);
    if (rails != NULL && joined != NULL)
        check(t, joined, rails);
    else
        ki_topology_set_status(t, ki_fail(KITH_ERR_NO_MEMORY, "topology: no memory for %zu rails", count));
    free(joined);
    free(rails);
}
