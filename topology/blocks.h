/* topology/blocks.h - named groups of nodes in files: blocks of Slurm, NVLink domains of cluster models.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_TOPOLOGY_BLOCKS_H
#define KI_TOPOLOGY_BLOCKS_H

#include "node_book.h"

typedef struct ki_blocks {
    kith_topology *t;
    const char *file;
    ki_node_book *book;
    ki_name_map names; /* to the domain's index in the topology */
    int first_line;    /* of the first block */
} ki_blocks;

void ki_blocks_open(ki_blocks *blocks, kith_topology *t, const char *file, ki_node_book *book);
/* A block of the scheduler: a name that is there already is refused. */
kith_status ki_blocks_declare(ki_blocks *blocks, const char *name, size_t length, int line, int *domain);
/* An NVLink domain: found by name, else added. */
kith_status ki_blocks_find_nvlink(ki_blocks *blocks, const char *name, size_t length, int line, int *domain);
/* A host list. A node that is in another domain already is refused. */
kith_status ki_blocks_add_nodes(ki_blocks *blocks, int domain, const char *list, size_t length, int line);
/* Tells what was assumed about blocks; base_count is Slurm's smallest block size, 0: not given. */
void ki_blocks_finish(ki_blocks *blocks, int base_count);
void ki_blocks_close(ki_blocks *blocks);

#endif
