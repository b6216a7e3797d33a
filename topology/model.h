/* topology/model.h - building a topology: what readers use, and what the public view (kith/topology.h) is made of.
 *
 * A reader gets an empty or partly filled topology and adds kinds, nodes, switches, domains and doubts. Adding never
 * returns NULL: the first failure (no memory, a limit) is kept in the topology, later additions go to a dummy, and
 * ki_topology_status() tells at the end. So readers have no error handling but for their own text.
 *
 * Memory: everything hangs on the topology's arena and ends with it. Pointers into arrays (kith_gpu * and so on) are
 * good until the next addition to the same array.
 *
 * Order inside one kind: first GPUs and NICs, then ki_kind_make_links(), then links. ki_topology_finish() comes once,
 * after joining: it derives what follows by rule (generation and bandwidth of links, hidden switches), numbers the GPUs
 * and collects doubts (lint.c).
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_TOPOLOGY_MODEL_H
#define KI_TOPOLOGY_MODEL_H

#include "core/base/error.h"
#include <kith/topology.h>
#include <stdarg.h>

/* Limits: more of anything is KITH_ERR_INVALID_ARG, so that garbage cannot eat the memory. */
#define KI_MAX_GPUS 256        /* of one node */
#define KI_MAX_NICS 512        /* of one node */
#define KI_MAX_PARTS 4096      /* NUMA nodes, packages, caches, PCI switches of one node; kinds */
#define KI_MAX_NODES (1 << 20) /* also switches and domains */
#define KI_MAX_DOUBTS 4096     /* more are counted, not kept */

typedef struct ki_arena_block ki_arena_block;

/* A kind under construction: the public view, and how much room its arrays have. */
typedef struct ki_kind {
    kith_node_kind view;
    int gpu_room, nic_room, numa_room, package_room, cache_room, switch_room;
    const char *host;   /* host name that the source tells; NULL: none */
    const char *file;   /* where it was read, for doubts */
    double nvlink_gbps; /* measured or given bandwidth of one link instead of the table's; 0: none */
    bool is_finished;   /* derived: links.c has been through it */
    bool is_linted;     /* its doubts are there already */
} ki_kind;

/* Which additions came from one file. Ranges [from, to). */
typedef struct ki_part {
    const char *name;
    const char *format;
    int kind_from, kind_to, node_from, node_to, switch_from, switch_to, domain_from, domain_to;
    bool has_made_up_nodes; /* the node names are not the source's: a file with names may replace them */
} ki_part;

struct kith_topology {
    kith_topology_options options;
    kith_status status; /* first failure */
    ki_arena_block *blocks;
    ki_kind **kinds;
    int kind_count, kind_room;
    kith_node *nodes;
    int node_count, node_room;
    kith_switch *switches;
    int switch_count, switch_room;
    kith_domain *domains;
    int domain_count, domain_room;
    kith_doubt *doubts;
    int doubt_count, doubt_room, doubt_lost;
    ki_part *parts;
    int part_count, part_room;
    int *first_gpu;        /* [node_count + 1], after finish */
    int *node_of_gpu;      /* [GPUs], after finish */
    bool is_rails_checked; /* its doubts about rails are there already */
    kith_constant *constants;
    int constant_count;
};

/* options may be NULL. The strings in options must outlive the topology's construction only. */
kith_status ki_topology_create(const kith_topology_options *options, kith_topology **topology);

/* First failure so far. */
kith_status ki_topology_status(const kith_topology *t);
/* Records a failure (keeps the first). The detail text was set by ki_fail() or ki_fail_quiet(). */
void ki_topology_set_status(kith_topology *t, kith_status status);

/* Arena. Zeroed; never NULL unless nbytes overflowed or memory ran out (then status is set). */
void *ki_topology_alloc(kith_topology *t, size_t count, size_t nbytes);
const char *ki_topology_dup(kith_topology *t, const char *text); /* NULL stays NULL */
const char *ki_topology_dup_n(kith_topology *t, const char *text, size_t length);
const char *ki_topology_format(kith_topology *t, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Adding. New elements are zeroed, with -1 where the header says "-1: unknown". */
ki_kind *ki_topology_add_kind(kith_topology *t, const char *name, const char *format);
kith_gpu *ki_kind_add_gpu(kith_topology *t, ki_kind *kind);
kith_nic *ki_kind_add_nic(kith_topology *t, ki_kind *kind);
kith_numa *ki_kind_add_numa(kith_topology *t, ki_kind *kind);
kith_package *ki_kind_add_package(kith_topology *t, ki_kind *kind);
kith_cache *ki_kind_add_cache(kith_topology *t, ki_kind *kind);
kith_pci_switch *ki_kind_add_switch(kith_topology *t, ki_kind *kind);
/* Makes the matrices when all GPUs and NICs are there: all unknown, X on the diagonal. */
void ki_kind_make_links(kith_topology *t, ki_kind *kind);
/* Borrowed cells, to be written. ki_kind_set_link() writes both directions. */
kith_link *ki_kind_link(ki_kind *kind, int from, int to);
kith_link *ki_kind_nic_link(ki_kind *kind, int gpu, int nic);
void ki_kind_set_link(ki_kind *kind, int a, int b, kith_link_type type, int count, kith_certainty certainty);
/* numa_text and the list of NUMA nodes of a GPU out of a list like "0-1" or "0,5-11" or one number. */
void ki_gpu_set_numas(kith_topology *t, kith_gpu *gpu, const char *text, const char *source);

kith_node *ki_topology_add_node(kith_topology *t, const char *name, int kind);
kith_switch *ki_topology_add_switch(kith_topology *t, const char *name, int parent);
kith_domain *ki_topology_add_domain(kith_topology *t, const char *name, bool is_nvlink);

/* kind, gpu -1 and file NULL, line 0 where not about one. code: a word of docs/topology.md. */
void ki_topology_doubt(kith_topology *t, int kind, int gpu, const char *file, int line, const char *code,
                       const char *format, ...) __attribute__((format(printf, 7, 8)));

/* query.c: the first kind of node in use where this process sees one GPU of several that answer; NULL: none. */
const kith_node_kind *ki_topology_lone_gpu(const kith_topology *t);
/* query.c: do two names mean one host? */
bool ki_is_same_host(const char *a, const char *b);

/* Index of a kind that was added. */
int ki_kind_index(const kith_topology *t, const ki_kind *kind);

/* Derives, numbers, checks. Returns the topology's status. */
kith_status ki_topology_finish(kith_topology *t);

/* links.c: generations, hidden switches, bandwidths of one kind. */
void ki_kind_derive_links(kith_topology *t, int kind);
/* rails.c: do NICs with the same position in nodes of one kind hang on the same leaf? Doubts where not. */
void ki_topology_check_rails(kith_topology *t);
/* lint.c: doubts about the whole. */
void ki_topology_lint(kith_topology *t);
/* check.c: does the model hold together (indices in range, matrices symmetric, parents first)? For tests and debug
 * builds; KITH_ERR_INTERNAL names what does not. */
kith_status ki_topology_check(const kith_topology *t);
kith_status ki_kind_check(const kith_node_kind *kind);

/* constants.c */
kith_status ki_constants_load(kith_topology *t);
/* Replaces rows by the members of a JSON object. */
struct ki_json;
kith_status ki_constants_replace(kith_topology *t, const char *name, const struct ki_json *constants);
/* The row of a key; the built-in table when t is NULL. NULL: no such key. */
const kith_constant *ki_constant(const kith_topology *t, const char *key);
double ki_constant_gbps(const kith_topology *t, const char *key);
/* "nvlink4" for generation 4; the sm86 bridge is "nvlink3-bridge". NULL: unknown generation. */
const char *ki_nvlink_key(int generation, bool is_bridge);
/* PCIe: GB/s of a link of that generation and width (x16 row scaled), 0 when either is 0 or out of range. */
double ki_pcie_gbps(const kith_topology *t, int generation, int width);
/* Generation out of "16.0 GT/s PCIe", "8 GT/s"; 0: unknown. */
int ki_pcie_generation(const char *speed);

/* gpu_models.c: what a GPU's name or compute capability tells. NULL: not known. */
typedef struct ki_gpu_model {
    const char *word;      /* part of the name, "H100" */
    int nvlink_generation; /* 0: no NVLink */
    int nvlink_count;      /* of one GPU at most */
    bool is_bridge;        /* sm86 bridge: 4 slow links to one other GPU */
    bool is_sxm_likely;    /* NVLink is expected (SXM or superchip) when the name says SXM or nothing else */
    int pcie_generation;
    double memory_gb; /* smallest variant, 10^9 bytes */
    double tflops;    /* dense bf16/f16 */
    int compute_capability;
} ki_gpu_model;
const ki_gpu_model *ki_gpu_model_find(const char *name, int compute_capability);
/* KITH_ERR_INVALID_ARG for a name that is of no model here; NULL is fine. */
kith_status ki_gpu_model_check(const char *name);

#endif
