/* topology/join.c - several files together: descriptions of nodes (kinds) meet nodes that only have names.
 *
 * - Nodes with names and no kind (from a switch tree) get the kind whose host or file has their name, else the only
 *   kind there is. Several kinds that fit no name are an error, not a guess. No kind at all gives nodes of unknown
 *   content, with a doubt.
 * - Kinds that no node uses become nodes: options.node_count of the only one, else one each.
 * - Nodes with made-up names (synthetic) give way to nodes with real ones: their kind is what they leave.
 * - A domain that has no nodes (from a fabric query on one node) takes all nodes where there is nothing but them; in a
 *   cluster with switches or other domains it is left out, with a doubt.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "reader.h"
#include "sets.h"

#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Nodes that a file with real names replaces. */
static void drop_made_up_nodes(kith_topology *t)
{
    int named = 0;
    for (int p = 0; p < t->part_count; p++)
        if (!t->parts[p].has_made_up_nodes)
            named += t->parts[p].node_to - t->parts[p].node_from;
    if (named == 0)
        return;
    int kept = 0;
    for (int p = 0; p < t->part_count; p++)
        for (int n = t->parts[p].node_from; n < t->parts[p].node_to; n++)
            if (!t->parts[p].has_made_up_nodes)
                t->nodes[kept++] = t->nodes[n];
    t->node_count = kept;
}

/* "dir/gpu001.xml" or "gpu001-topo.txt" is named after the node gpu001. */
static bool is_named_after(const char *path, const char *node)
{
    const char *slash = strrchr(path, '/');
    const char *base = slash != NULL ? slash + 1 : path;
    size_t length = strlen(node);
    return strncmp(base, node, length) == 0 && base[length] != '\0' && strchr(".-_", base[length]) != NULL;
}

static bool is_description_of(const ki_kind *kind, const char *node)
{
    return (kind->host != NULL && strcmp(kind->host, node) == 0) || is_named_after(kind->file, node) ||
           strcmp(kind->view.name, node) == 0;
}

static int kind_of(const kith_topology *t, const char *node)
{
    for (int k = 0; k < t->kind_count; k++)
        if (is_description_of(t->kinds[k], node))
            return k;
    return t->kind_count == 1 ? 0 : -1;
}

static kith_status give_kinds(kith_topology *t)
{
    bool is_unknown = t->kind_count == 0;
    for (int n = 0; n < t->node_count; n++) {
        if (t->nodes[n].kind >= 0)
            continue;
        if (is_unknown && t->kind_count == 0) {
            ki_kind *kind = ki_topology_add_kind(t, "unknown", "none");
            ki_topology_doubt(t, ki_kind_index(t, kind), -1, NULL, 0, "node-unknown",
                              "what the nodes have inside is not described; add a file of one node");
        }
        t->nodes[n].kind = kind_of(t, t->nodes[n].name);
        if (t->nodes[n].kind < 0)
            return ki_fail_quiet(KITH_ERR_INVALID_ARG,
                                 "topology: %d descriptions of nodes, and none is of node %s; name a file after the "
                                 "node (%s.txt), or give one description for all",
                                 t->kind_count, t->nodes[n].name, t->nodes[n].name);
    }
    return t->status;
}

static const char *node_name(kith_topology *t, int k, int i, int count)
{
    if (count == 1 && t->kinds[k]->host != NULL)
        return t->kinds[k]->host;
    return ki_topology_format(t, "node%d", i);
}

/* Kith's own JSON brings its doubts along, under the name of the file that they were found in. */
static bool is_told(const kith_topology *t, int kind, const char *code)
{
    for (int i = 0; i < t->doubt_count; i++)
        if (t->doubts[i].kind == kind && strcmp(t->doubts[i].code, code) == 0)
            return true;
    return false;
}

/* Kinds that no node has: all of them become nodes when there is no node yet; else they describe none. */
static void make_nodes(kith_topology *t)
{
    bool *is_used = (bool *)ki_topology_alloc(t, (size_t)t->kind_count + 1, sizeof *is_used);
    bool had_nodes = t->node_count > 0;
    if (is_used == NULL)
        return;
    for (int n = 0; n < t->node_count; n++)
        is_used[t->nodes[n].kind] = true;
    for (int k = 0; k < t->kind_count; k++) {
        if (is_used[k])
            continue;
        if (had_nodes) {
            if (!is_told(t, k, "description-unused"))
                ki_topology_doubt(t, k, -1, t->kinds[k]->file, 0, "description-unused",
                                  "%s describes none of the nodes; it is left out of account", t->kinds[k]->file);
            continue;
        }
        int count = t->kind_count == 1 && t->options.node_count > 0 ? t->options.node_count : 1;
        for (int i = 0; i < count && t->status == KITH_OK; i++)
            ki_topology_add_node(t, node_name(t, k, t->node_count, count), k);
    }
}

/* The one domain that came without nodes: a fabric query tells it of the node that it ran on. With one description all
 * nodes are taken for that node's equals; with several domains, or names that differ, that would be a guess. */
static kith_status give_domains(kith_topology *t)
{
    bool *has_nodes = (bool *)ki_topology_alloc(t, (size_t)t->domain_count + 1, sizeof *has_nodes);
    int loose = -1, count = 0;
    if (has_nodes == NULL)
        return t->status;
    for (int n = 0; n < t->node_count; n++)
        if (t->nodes[n].domain >= 0)
            has_nodes[t->nodes[n].domain] = true;
    for (int d = 0; d < t->domain_count; d++)
        if (!has_nodes[d]) {
            loose = d;
            count++;
        }
    if (count == 0)
        return KITH_OK;
    if (count > 1)
        return ki_fail_quiet(KITH_ERR_INVALID_ARG,
                             "topology: %d NVLink domains (%s is one) are described without their nodes; which node is "
                             "in which is not said",
                             count, t->domains[loose].name);
    bool is_cluster = t->switch_count > 0 || t->domain_count > 1;
    int given = 0;
    for (int n = 0; n < t->node_count; n++)
        if (t->nodes[n].domain < 0 && !is_cluster) {
            t->nodes[n].domain = loose;
            given++;
        }
    if (is_cluster)
        ki_topology_doubt(
            t, -1, -1, NULL, 0, "domain-unplaced",
            "NVLink domain %s was asked from one node, and which other nodes are in it is not said; it is "
            "left out",
            t->domains[loose].name);
    else if (given > 1)
        ki_topology_doubt(t, -1, -1, NULL, 0, "domain-assumed",
                          "NVLink domain %s was asked from one node; all %d nodes are taken to be in it",
                          t->domains[loose].name, given);
    return t->status;
}

/* Made-up names of several descriptions may be the same: then all made-up nodes are numbered through. Real names must
 * be unique, or one host would get the ranks of two. */
static int compare_names(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static bool has_twins(kith_topology *t, const char **twin)
{
    const char **names = (const char **)ki_topology_alloc(t, (size_t)t->node_count + 1, sizeof *names);
    if (names == NULL)
        return false;
    for (int n = 0; n < t->node_count; n++)
        names[n] = t->nodes[n].name;
    qsort(names, (size_t)t->node_count, sizeof *names, compare_names);
    for (int n = 1; n < t->node_count; n++)
        if (strcmp(names[n], names[n - 1]) == 0) {
            *twin = names[n];
            return true;
        }
    return false;
}

static kith_status name_apart(kith_topology *t)
{
    const char *twin = NULL;
    bool all_made_up = true; /* else drop_made_up_nodes() has left real ones only, and the parts' ranges are past */
    if (!has_twins(t, &twin))
        return t->status;
    for (int p = 0; p < t->part_count; p++)
        all_made_up = all_made_up && (t->parts[p].has_made_up_nodes || t->parts[p].node_from == t->parts[p].node_to);
    for (int p = 0; p < t->part_count && all_made_up; p++)
        for (int n = t->parts[p].node_from; t->parts[p].has_made_up_nodes && n < t->parts[p].node_to; n++)
            t->nodes[n].name = ki_topology_format(t, "node%d", n);
    if (has_twins(t, &twin))
        return ki_fail_quiet(KITH_ERR_INVALID_ARG, "topology: node %s is described twice", twin);
    return t->status;
}

/* Slurm calls the racks of NVLink domains blocks, and nothing in its file says so. Trays whose GPUs are of a rack-scale
 * sort (GB200 and alike: few GPUs, all on NVSwitch) make the block a domain; elsewhere it stays a block. */
static void judge_blocks(kith_topology *t)
{
    int count = 0, first = -1;
    const char *word = NULL;
    for (int n = 0; n < t->node_count; n++) {
        if (t->nodes[n].domain < 0 || t->domains[t->nodes[n].domain].is_nvlink)
            continue;
        const kith_node_kind *kind = &t->kinds[t->nodes[n].kind]->view;
        const char *name = kind->gpu_count > 0 ? kind->gpus[0].name : NULL;
        const ki_gpu_model *model = ki_gpu_model_find(name != NULL ? name : t->options.gpu, 0);
        if (model == NULL || strncmp(model->word, "GB", 2) != 0 || model->nvlink_generation == 0)
            continue;
        t->domains[t->nodes[n].domain].is_nvlink = true;
        first = first < 0 ? n : first;
        word = model->word;
        count++;
    }
    if (count > 0)
        ki_topology_doubt(t, t->nodes[first].kind, -1, NULL, 0, "block-domain",
                          "the blocks of %d nodes are taken as NVLink domains, because the nodes have %s", count, word);
}

/* The fabric shows channel adapters by name, the node's description NICs by position. They are matched only when there
 * are as many; else all NICs of the node count as being on its first leaf. */
static void match_rails(kith_topology *t)
{
    int unmatched = 0, first = -1;
    for (int n = 0; n < t->node_count; n++) {
        int nic_count = t->kinds[t->nodes[n].kind]->view.nic_count;
        if (t->nodes[n].rails == NULL || nic_count == 0 || nic_count == t->nodes[n].rail_count)
            continue;
        first = first < 0 ? n : first;
        unmatched++;
        t->nodes[n].rails = NULL;
        t->nodes[n].rail_count = 0;
    }
    if (unmatched > 0)
        ki_topology_doubt(t, t->nodes[first].kind, -1, NULL, 0, "rails-unmatched",
                          "%d nodes (the first is %s) have another number of NICs in the fabric than in their "
                          "description (%d); which is on which rail is unknown, all count as on the first leaf",
                          unmatched, t->nodes[first].name, t->kinds[t->nodes[first].kind]->view.nic_count);
}

/* ---- options.nodes: only these ---- */

typedef struct selection {
    kith_topology *t;
    void *tree; /* names of nodes, for finding them */
    int found;
    bool *is_kept;
} selection;

static int compare_nodes(const void *a, const void *b)
{
    return strcmp(((const kith_node *)a)->name, ((const kith_node *)b)->name);
}

static kith_status keep(void *arg, const char *name)
{
    selection *s = (selection *)arg;
    kith_node wanted = { .name = name };
    const kith_node *const *node = (const kith_node *const *)tfind(&wanted, &s->tree, compare_nodes);
    if (node == NULL)
        return ki_fail_quiet(KITH_ERR_INVALID_ARG, "topology: there is no node %s", name);
    s->is_kept[*node - s->t->nodes] = true;
    s->found++;
    return KITH_OK;
}

static void keep_tree(void *node)
{
    (void)node; /* the nodes are the topology's */
}

static kith_status select_nodes(kith_topology *t)
{
    if (t->options.nodes == NULL)
        return KITH_OK;
    selection s = { .t = t, .is_kept = (bool *)ki_topology_alloc(t, (size_t)t->node_count + 1, sizeof(bool)) };
    if (s.is_kept == NULL)
        return t->status;
    kith_status status = KITH_OK;
    for (int n = 0; n < t->node_count && status == KITH_OK; n++)
        if (tsearch(&t->nodes[n], &s.tree, compare_nodes) == NULL)
            status = ki_fail(KITH_ERR_NO_MEMORY, "topology: no memory for the names of %d nodes", t->node_count);
    if (status == KITH_OK)
        status = ki_hostlist_each(t->options.nodes, strlen(t->options.nodes), KI_MAX_NODES, keep, &s);
    tdestroy(s.tree, keep_tree);
    if (status != KITH_OK)
        return status;
    int kept = 0;
    for (int n = 0; n < t->node_count; n++)
        if (s.is_kept[n])
            t->nodes[kept++] = t->nodes[n];
    t->node_count = kept;
    return kept > 0 ? KITH_OK : ki_fail_quiet(KITH_ERR_INVALID_ARG, "topology: the list of nodes is empty");
}

kith_status ki_topology_join(kith_topology *t)
{
    drop_made_up_nodes(t);
    kith_status status = give_kinds(t);
    if (status != KITH_OK)
        return status;
    make_nodes(t);
    status = name_apart(t);
    if (status == KITH_OK)
        status = give_domains(t);
    if (status != KITH_OK)
        return status;
    judge_blocks(t);
    match_rails(t);
    status = select_nodes(t);
    if (status == KITH_OK && t->node_count == 0)
        status = ki_fail_quiet(KITH_ERR_INVALID_ARG, "topology: the files describe no node");
    return status != KITH_OK ? status : t->status;
}
