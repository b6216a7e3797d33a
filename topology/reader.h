/* topology/reader.h - what reads one sort of file. The table of all readers is in load.c.
 *
 * probe() looks at the beginning of the text and answers how likely it is of its sort: 0 no, 100 certainly. It must be
 * cheap and must not trust anything. read() adds to the topology (model.h); when the text is damaged so that its
 * meaning is not certain it fails with "file:line: reason". What was read right in spite of damage is told in doubts.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_TOPOLOGY_READER_H
#define KI_TOPOLOGY_READER_H

#include "model.h"

typedef struct ki_source {
    const char *name; /* for texts: the path, or what the caller said */
    const char *text; /* NUL-terminated for convenience, but may hold NULs inside */
    size_t nbytes;
} ki_source;

typedef struct ki_reader {
    const char *format;
    int (*probe)(const ki_source *source);
    kith_status (*read)(const ki_source *source, kith_topology *t);
} ki_reader;

extern const ki_reader ki_reader_matrix;    /* nvidia-smi topo -m */
extern const ki_reader ki_reader_fabric;    /* nvidia-smi --query-gpu=fabric.* */
extern const ki_reader ki_reader_hwloc;     /* hwloc XML */
extern const ki_reader ki_reader_nccl;      /* NCCL topology XML */
extern const ki_reader ki_reader_slurm;     /* topology.conf */
extern const ki_reader ki_reader_yaml;      /* Slurm topology.yaml, topograph models */
extern const ki_reader ki_reader_ibnet;     /* ibnetdiscover */
extern const ki_reader ki_reader_synthetic; /* "4 nodes of 8 GPUs on NVSwitch, 8 NICs" */
extern const ki_reader ki_reader_json;      /* what kith_topology_print() writes */

/* detect.c: this machine, as one kind. */
kith_status ki_detect_live(kith_topology *t);

/* load.c: several texts from memory, joined like files. What kith_topology_parse() does with one. */
kith_status ki_topology_read_sources(const ki_source *sources, size_t count, const kith_topology_options *options,
                                     kith_topology **topology);

/* join.c: joins what the parts gave: kinds to nodes, nodes to switches and domains. */
kith_status ki_topology_join(kith_topology *t);

/* Does the whole text look like this? For probes: a case-sensitive search in the first `limit` bytes. */
bool ki_source_has(const ki_source *source, const char *word, size_t limit);

#endif
