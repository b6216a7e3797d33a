/* topology/ibnet_tree.c - a tree out of the switches of an InfiniBand fabric.
 *
 * Leaves are the switches that hosts hang on; the others have the level of their distance to a leaf. A leaf is usually
 * linked to several spines, and a tree has one parent only: switches of one level that are reached from one switch (or
 * group) below are one group, and the group is the parent. So all spines of a pod are one switch of the tree, whose
 * name tells one of them and how many more there are, and uplink_count of a leaf is the number of its links to all of
 * them. Groups that share nothing stay apart: the planes of a rail-optimised fabric are trees of their own.
 *
 * A spine that a few hosts hang on as well (a subnet manager) stays a spine; its hosts get a leaf of its name below it.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "ibnet.h"

#include "core/text.h"
#include "grow.h"
#include <string.h>

enum { MOST_EXAMPLES = 8 };

/* Switches that are one in the tree. */
typedef struct group {
    int level;
    int device;       /* one of them, for the name */
    int device_count; /* how many */
    int parent;       /* group; -1: none */
    int uplink_count;
    double uplinks_gbps;   /* all together */
    bool has_unknown_rate; /* of an uplink */
    int index;             /* in the topology */
} group;

typedef struct tree {
    ki_ib_fabric *f;
    int *order; /* switches with a level, level after level */
    int order_count, leaf_count;
    int *joined; /* union-find over devices */
    group *groups;
    int group_count;
    int leaf_links; /* links between leaves that the tree leaves out */
    ki_name_map names;
} tree;

static void no_memory(const tree *tr)
{
    ki_topology_set_status(tr->f->t, ki_fail(KITH_ERR_NO_MEMORY, "%s: no memory for the fabric", tr->f->file));
}

static const ki_ib_port *first_port(const tree *tr, int d)
{
    return &tr->f->ports[tr->f->devices[d].first_port];
}

static bool is_switch(const tree *tr, int d)
{
    return tr->f->devices[d].kind == KI_IB_SWITCH;
}

/* ---- levels ---- */

static int host_count(const tree *tr, int d)
{
    int count = 0;
    for (int p = 0; p < tr->f->devices[d].port_count; p++)
        count += ki_ib_is_host(&tr->f->devices[first_port(tr, d)[p].peer]);
    return count;
}

/* Is it a spine although hosts hang on it? Then all its links to switches go to such with many more hosts. */
static bool is_spine_with_hosts(const tree *tr, const int *hosts, int d)
{
    int other = -1;
    bool has_several = false;
    for (int p = 0; p < tr->f->devices[d].port_count; p++) {
        int peer = first_port(tr, d)[p].peer;
        if (!is_switch(tr, peer))
            continue;
        if (hosts[peer] < 4 * hosts[d])
            return false;
        has_several = has_several || (other >= 0 && other != peer);
        other = peer;
    }
    return has_several;
}

/* Breadth first from the leaves; order[] is what was reached. */
static void set_levels(tree *tr, const int *hosts)
{
    ki_ib_fabric *f = tr->f;
    for (int d = 0; d < f->device_count; d++)
        if (is_switch(tr, d) && hosts[d] > 0 && !is_spine_with_hosts(tr, hosts, d)) {
            f->devices[d].level = 0;
            tr->order[tr->order_count++] = d;
        }
    tr->leaf_count = tr->order_count;
    for (int i = 0; i < tr->order_count; i++) {
        int d = tr->order[i];
        for (int p = 0; p < f->devices[d].port_count; p++) {
            int peer = first_port(tr, d)[p].peer;
            if (!is_switch(tr, peer) || f->devices[peer].level >= 0)
                continue;
            f->devices[peer].level = f->devices[d].level + 1;
            tr->order[tr->order_count++] = peer;
        }
    }
}

/* ---- groups ---- */

static int find(tree *tr, int d)
{
    while (tr->joined[d] != d)
        d = tr->joined[d] = tr->joined[tr->joined[d]];
    return d;
}

static void join(tree *tr, int a, int b)
{
    tr->joined[find(tr, a)] = find(tr, b);
}

static int add_group(tree *tr, int level, int device)
{
    group *g = &tr->groups[tr->group_count];
    *g = (group){ .level = level, .device = device, .parent = -1, .index = -1 };
    return tr->group_count++;
}

/* Gives the switches order[from..to) of one level their groups, by what joins them. */
static void number_groups(tree *tr, int from, int to)
{
    for (int i = from; i < to; i++) {
        ki_ib_device *root = &tr->f->devices[find(tr, tr->order[i])];
        if (root->group < 0)
            root->group = add_group(tr, root->level, tr->order[i]);
        tr->f->devices[tr->order[i]].group = root->group;
        tr->groups[root->group].device_count++;
    }
}

static void count_uplink(group *g, const ki_ib_port *port)
{
    g->uplink_count++;
    g->uplinks_gbps += port->gbps;
    g->has_unknown_rate = g->has_unknown_rate || port->gbps <= 0;
}

/* Looks at the links of the switches order[from..to): those upwards join the ends above, which are one group then. */
static void join_above(tree *tr, int from, int to, int *first_above)
{
    for (int i = from; i < to; i++) {
        const ki_ib_device *device = &tr->f->devices[tr->order[i]];
        group *g = &tr->groups[device->group];
        for (int p = 0; p < device->port_count; p++) {
            const ki_ib_port *port = &first_port(tr, tr->order[i])[p];
            const ki_ib_device *peer = &tr->f->devices[port->peer];
            if (peer->kind != KI_IB_SWITCH || peer->level != device->level + 1)
                continue;
            if (first_above[device->group] < 0)
                first_above[device->group] = port->peer;
            join(tr, port->peer, first_above[device->group]);
            count_uplink(g, port);
        }
    }
}

/* Links inside one level above the leaves join, too. */
static void join_beside(tree *tr, int from, int to)
{
    for (int i = from; i < to; i++)
        for (int p = 0; p < tr->f->devices[tr->order[i]].port_count; p++) {
            int peer = first_port(tr, tr->order[i])[p].peer;
            if (is_switch(tr, peer) && tr->f->devices[peer].level == tr->f->devices[tr->order[i]].level)
                join(tr, peer, tr->order[i]);
        }
}

static void make_groups(tree *tr, int *first_above)
{
    int from = 0;
    while (from < tr->order_count) {
        int to = from, level = tr->f->devices[tr->order[from]].level;
        while (to < tr->order_count && tr->f->devices[tr->order[to]].level == level)
            to++;
        if (level > 0)
            join_beside(tr, from, to);
        number_groups(tr, from, to);
        join_above(tr, from, to, first_above);
        from = to;
    }
    for (int g = 0; g < tr->group_count; g++)
        if (first_above[g] >= 0)
            tr->groups[g].parent = tr->f->devices[first_above[g]].group;
}

/* Leaves without a spine that are linked to each other: their links get a switch of their own. Links between leaves
 * that have spines are counted only. */
static void join_leaves(tree *tr)
{
    int pair_count = 0;
    for (int i = 0; i < tr->leaf_count; i++)
        for (int p = 0; p < tr->f->devices[tr->order[i]].port_count; p++) {
            const ki_ib_port *port = &first_port(tr, tr->order[i])[p];
            const ki_ib_device *leaf = &tr->f->devices[tr->order[i]], *peer = &tr->f->devices[port->peer];
            if (peer->kind != KI_IB_SWITCH || peer->level != 0)
                continue;
            group *g = &tr->groups[leaf->group];
            if (g->parent >= 0 || tr->groups[peer->group].parent >= 0) {
                pair_count++;
                continue;
            }
            join(tr, port->peer, tr->order[i]);
            count_uplink(g, port);
        }
    tr->leaf_links = pair_count / 2;
    int leaves = tr->leaf_count;
    for (int i = 0; i < leaves; i++) {
        ki_ib_device *leaf = &tr->f->devices[tr->order[i]];
        if (tr->groups[leaf->group].parent >= 0 || tr->groups[leaf->group].uplink_count == 0)
            continue;
        group *top = &tr->groups[tr->f->devices[find(tr, tr->order[i])].group];
        int parent = top->index >= 0 ? top->index : add_group(tr, 1, tr->order[i]);
        top->index = parent; /* until the switches are added, the number of the group above */
        tr->groups[leaf->group].parent = parent;
        tr->groups[parent].device_count++;
    }
    for (int g = 0; g < tr->group_count; g++)
        tr->groups[g].index = -1;
}

/* ---- names ---- */

/* "MF0;leaf-01:MQM9701/U1" is leaf-01; with a board of a chassis ("/L03/U1") the board belongs to the name. */
static const char *name_of(tree *tr, int d)
{
    const ki_ib_device *device = &tr->f->devices[d];
    const char *from = device->description.chars, *end = from + device->description.length;
    const char *semicolon = (const char *)memchr(from, ';', (size_t)(end - from));
    const char *colon = (const char *)memrchr(from, ':', (size_t)(end - from));
    const char *name;
    if (semicolon != NULL && colon != NULL && colon > semicolon + 1) {
        const char *slash = (const char *)memchr(colon, '/', (size_t)(end - colon));
        int board = slash != NULL && end - slash > 3 ? (int)(end - slash) : 0;
        name = ki_topology_format(tr->f->t, "%.*s%.*s", (int)(colon - semicolon - 1), semicolon + 1, board,
                                  slash != NULL ? slash : "");
    } else {
        name = ki_topology_dup_n(tr->f->t, from, (size_t)(end - from));
    }
    if (name[0] == '\0' || ki_name_map_get(&tr->names, name, strlen(name)) >= 0)
        name = ki_topology_format(tr->f->t, "%s%s%.*s", name, name[0] != '\0' ? " " : "", (int)device->id.length,
                                  device->id.chars);
    if (!ki_name_map_put(&tr->names, name, strlen(name), d))
        no_memory(tr);
    return name;
}

static const char *name_of_group(tree *tr, const group *g)
{
    kith_topology *t = tr->f->t;
    if (g->device_count == 1)
        return name_of(tr, g->device);
    if (tr->f->devices[g->device].level == 0)
        return ki_topology_format(t, "links between %d leaves", g->device_count);
    return ki_topology_format(t, "%s and %d more", name_of(tr, g->device), g->device_count - 1);
}

/* ---- adding to the topology ---- */

static void emit_group(tree *tr, int number)
{
    kith_topology *t = tr->f->t;
    group *g = &tr->groups[number];
    g->index = t->switch_count;
    kith_switch *s = ki_topology_add_switch(t, name_of_group(tr, g), g->parent >= 0 ? tr->groups[g->parent].index : -1);
    s->level = g->level;
    s->uplink_count = g->uplink_count;
    s->uplink_gbps = g->uplink_count > 0 && !g->has_unknown_rate ? g->uplinks_gbps / g->uplink_count : 0;
}

/* Groups are numbered level after level from below; parents come first when it goes backwards. The group above leaves
 * without spines has the highest number and comes first, too. */
static void emit(tree *tr)
{
    kith_topology *t = tr->f->t;
    for (int g = tr->group_count - 1; g >= tr->leaf_count && t->status == KITH_OK; g--)
        emit_group(tr, g);
    for (int g = 0; g < tr->leaf_count && t->status == KITH_OK; g++) {
        emit_group(tr, g);
        tr->f->devices[tr->groups[g].device].leaf = tr->groups[g].index;
    }
}

static void add_leaves_of_spines(tree *tr, const int *hosts)
{
    kith_topology *t = tr->f->t;
    for (int d = 0; d < tr->f->device_count && t->status == KITH_OK; d++) {
        ki_ib_device *device = &tr->f->devices[d];
        if (device->kind != KI_IB_SWITCH || hosts[d] == 0 || device->level == 0)
            continue;
        int above = device->group >= 0 ? tr->groups[device->group].index : -1;
        device->leaf = t->switch_count;
        ki_topology_add_switch(t, name_of(tr, d), above);
        ki_topology_doubt(t, -1, -1, tr->f->file, device->line, "host-on-spine",
                          "%d channel adapters of hosts hang on %s, which is no leaf but a switch above leaves",
                          hosts[d], t->switches[device->leaf].name);
    }
}

/* ---- doubts ---- */

static void tell(const tree *tr, const char *code, ki_text *list, int count, const char *what)
{
    if (count > 0)
        ki_topology_doubt(tr->f->t, -1, -1, tr->f->file, 0, code, "%d of %d leaves %s: %s%s", count, tr->leaf_count,
                          what, ki_text_chars(list), count > MOST_EXAMPLES ? ", ..." : "");
    ki_text_fini(list);
}

static void tell_oversubscribed(const tree *tr)
{
    ki_text list = { 0 };
    int count = 0;
    for (int g = 0; g < tr->leaf_count; g++) {
        const group *leaf = &tr->groups[g];
        double down = 0;
        for (int p = 0; p < tr->f->devices[leaf->device].port_count; p++) {
            const ki_ib_port *port = &first_port(tr, leaf->device)[p];
            down += ki_ib_is_host(&tr->f->devices[port->peer]) ? port->gbps : 0;
        }
        if (leaf->uplinks_gbps <= 0 || leaf->has_unknown_rate || down <= leaf->uplinks_gbps * 1.001 ||
            count++ >= MOST_EXAMPLES)
            continue;
        ki_text_add(&list, "%s%s (%.2f:1)", count > 1 ? ", " : "", tr->f->t->switches[leaf->index].name,
                    down / leaf->uplinks_gbps);
    }
    tell(tr, "oversubscribed", &list, count, "have less bandwidth upwards than to their hosts");
}

static void tell_missing_uplinks(const tree *tr)
{
    ki_text list = { 0 };
    int count = 0;
    int *most = (int *)ki_array((size_t)tr->group_count, sizeof *most);
    if (most == NULL) {
        no_memory(tr);
        return;
    }
    for (int g = 0; g < tr->leaf_count; g++)
        if (tr->groups[g].parent >= 0 && tr->groups[g].uplink_count > most[tr->groups[g].parent])
            most[tr->groups[g].parent] = tr->groups[g].uplink_count;
    for (int g = 0; g < tr->leaf_count; g++) {
        const group *leaf = &tr->groups[g];
        if (leaf->parent < 0 || leaf->uplink_count == most[leaf->parent] || count++ >= MOST_EXAMPLES)
            continue;
        ki_text_add(&list, "%s%s (%d of %d)", count > 1 ? ", " : "", tr->f->t->switches[leaf->index].name,
                    leaf->uplink_count, most[leaf->parent]);
    }
    free(most);
    tell(tr, "uplink-missing", &list, count, "have fewer links upwards than others beside them");
}

/* ---- the whole ---- */

static void build(tree *tr, int *hosts, int *first_above)
{
    kith_topology *t = tr->f->t;
    for (int d = 0; d < tr->f->device_count; d++) {
        hosts[d] = is_switch(tr, d) ? host_count(tr, d) : 0;
        tr->joined[d] = d;
        first_above[d] = -1;
    }
    set_levels(tr, hosts);
    make_groups(tr, first_above);
    join_leaves(tr);
    emit(tr);
    add_leaves_of_spines(tr, hosts);
    if (t->status != KITH_OK)
        return;
    tell_oversubscribed(tr);
    tell_missing_uplinks(tr);
    if (tr->leaf_links > 0)
        ki_topology_doubt(t, -1, -1, tr->f->file, 0, "leaf-to-leaf",
                          "%d links join leaves directly; a tree cannot show them, and they are left out",
                          tr->leaf_links);
}

kith_status ki_ib_add_switches(ki_ib_fabric *f)
{
    size_t count = (size_t)f->device_count + 1;
    tree tr = { .f = f };
    tr.order = (int *)ki_array(count, sizeof(int));
    tr.joined = (int *)ki_array(count, sizeof(int));
    tr.groups = (group *)ki_array(2 * count, sizeof(group));
    int *hosts = (int *)ki_array(count, sizeof(int)), *first_above = (int *)ki_array(count, sizeof(int));
    if (tr.order != NULL && tr.joined != NULL && tr.groups != NULL && hosts != NULL && first_above != NULL)
        build(&tr, hosts, first_above);
    else
        no_memory(&tr);
    free(first_above);
    free(hosts);
    free(tr.groups);
    free(tr.joined);
    free(tr.order);
    ki_name_map_fini(&tr.names);
    return f->t->status;
}
