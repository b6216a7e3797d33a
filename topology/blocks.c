/* topology/blocks.c - see blocks.h.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "blocks.h"

#include "grow.h"
#include "sets.h"
#include <string.h>

void ki_blocks_open(ki_blocks *blocks, kith_topology *t, const char *file, ki_node_book *book)
{
    *blocks = (ki_blocks){ .t = t, .file = file, .book = book };
}

void ki_blocks_close(ki_blocks *blocks)
{
    ki_name_map_fini(&blocks->names);
}

static kith_status add_domain(ki_blocks *blocks, const char *name, size_t length, bool is_nvlink, int *domain)
{
    const char *copy = ki_topology_dup_n(blocks->t, name, length);
    int index = blocks->t->domain_count;
    ki_topology_add_domain(blocks->t, copy, is_nvlink);
    if (blocks->t->status != KITH_OK)
        return blocks->t->status;
    if (!ki_name_map_put(&blocks->names, copy, length, index))
        return ki_fail(KITH_ERR_NO_MEMORY, "%s: no memory for names of blocks", blocks->file);
    *domain = index;
    return KITH_OK;
}

kith_status ki_blocks_declare(ki_blocks *blocks, const char *name, size_t length, int line, int *domain)
{
    if (length == 0)
        return ki_fail_quiet(KITH_ERR_INVALID_ARG, "%s:%d: a block has no name", blocks->file, line);
    if (ki_name_map_get(&blocks->names, name, length) >= 0)
        return ki_fail_quiet(KITH_ERR_INVALID_ARG, "%s:%d: block %.*s is there twice", blocks->file, line,
                             length > 80 ? 80 : (int)length, name);
    if (blocks->first_line == 0)
        blocks->first_line = line;
    return add_domain(blocks, name, length, false, domain);
}

kith_status ki_blocks_find_nvlink(ki_blocks *blocks, const char *name, size_t length, int line, int *domain)
{
    if (length == 0)
        return ki_fail_quiet(KITH_ERR_INVALID_ARG, "%s:%d: an NVLink domain has no name", blocks->file, line);
    *domain = ki_name_map_get(&blocks->names, name, length);
    return *domain >= 0 ? KITH_OK : add_domain(blocks, name, length, true, domain);
}

typedef struct addition {
    ki_blocks *blocks;
    int domain, line;
} addition;

static kith_status add_node(void *arg, const char *name)
{
    const addition *a = (const addition *)arg;
    kith_topology *t = a->blocks->t;
    int n = ki_node_book_add(a->blocks->book, name);
    if (n < 0)
        return t->status;
    if (t->nodes[n].domain >= 0)
        return ki_fail_quiet(KITH_ERR_INVALID_ARG, "node %s is in %s and in %s; valid: one block", name,
                             t->domains[t->nodes[n].domain].name, t->domains[a->domain].name);
    t->nodes[n].domain = a->domain;
    return KITH_OK;
}

kith_status ki_blocks_add_nodes(ki_blocks *blocks, int domain, const char *list, size_t length, int line)
{
    addition a = { blocks, domain, line };
    if (length == 0)
        return ki_fail_quiet(KITH_ERR_INVALID_ARG, "%s:%d: block %s has no nodes", blocks->file, line,
                             blocks->t->domains[domain].name);
    kith_status status = ki_hostlist_each(list, length, KI_MAX_NODES, add_node, &a);
    return status == KITH_ERR_INVALID_ARG ? ki_fail_context(status, "%s:%d", blocks->file, line) : status;
}

/* Slurm leaves room in blocks that are smaller than the base size; it may also be a slip of the pen. */
static void doubt_short_blocks(ki_blocks *blocks, int base_count)
{
    kith_topology *t = blocks->t;
    int first = t->domain_count - (int)blocks->names.count, short_count = 0, example = -1;
    int *counts = (int *)ki_array((size_t)t->domain_count, sizeof *counts);
    if (counts == NULL) {
        ki_topology_set_status(t, ki_fail(KITH_ERR_NO_MEMORY, "%s: no memory for sizes of blocks", blocks->file));
        return;
    }
    for (int n = 0; n < t->node_count; n++)
        if (t->nodes[n].domain >= first)
            counts[t->nodes[n].domain]++;
    for (int d = first; d < t->domain_count; d++)
        if (counts[d] != base_count) {
            short_count++;
            example = example < 0 ? d : example;
        }
    if (short_count > 0)
        ki_topology_doubt(t, -1, -1, blocks->file, blocks->first_line, "block-size",
                          "%d of %zu blocks do not have the %d nodes of the smallest block size, for instance %s with "
                          "%d; they are taken as written",
                          short_count, blocks->names.count, base_count, t->domains[example].name, counts[example]);
    free(counts);
}

void ki_blocks_finish(ki_blocks *blocks, int base_count)
{
    if (blocks->names.count == 0)
        return;
    ki_topology_doubt(blocks->t, -1, -1, blocks->file, blocks->first_line, "block-domain",
                      "blocks of the scheduler often are NVLink domains, but the file does not say so; they are taken "
                      "as groups of nodes only");
    if (base_count > 0)
        doubt_short_blocks(blocks, base_count);
}
