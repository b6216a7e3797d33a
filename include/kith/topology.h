/* kith/topology.h - what a machine is: nodes, NUMA nodes, PCI switches, GPUs, NICs, links, and the switches between
 * nodes.
 *
 *     kith_topology *t;
 *     const char *paths[] = { "gpu001-topo.txt", "topology.conf" };          // a node, and the switches between nodes
 *     if (kith_topology_load(paths, 2, NULL, &t) != KITH_OK) return fprintf(stderr, "%s\n", kith_error_detail()), 1;
 *     const kith_node_kind *kind = kith_topology_kind(t, 0);
 *     for (int i = 0; i < kind->gpu_count; i++) printf("GPU%d: NUMA %s\n", kind->gpus[i].index, ...);
 *     kith_topology_destroy(t);
 *
 * A topology is read once and never changes. Nodes that are equal share one description, a *kind*, so a cluster of
 * thousands of nodes is small. Everything here is pure: no sockets, no processes; only kith_topology_detect() looks at
 * the machine it runs on. Any number of threads may read one topology.
 *
 * Unknown is not none. A value that the source does not give is unknown (NULL, -1 or 0, as its comment says), never
 * guessed; a value that follows from a rule instead of the source is marked KITH_ASSUMED and a doubt says by which
 * rule.
 *
 * Units: bandwidth is GB/s (10^9 bytes a second) in one direction, as a collective library reaches it, from the table
 * of constants (kith_topology_constant()) or from measured values; sizes are bytes; CPU sets are lists, "0-31,64-95".
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KITH_TOPOLOGY_H
#define KITH_TOPOLOGY_H

#include <kith/status.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct kith_topology kith_topology;

/* How sure a value is. */
typedef enum kith_certainty {
    KITH_UNKNOWN = 0, /* the source does not say */
    KITH_ASSUMED = 1, /* follows from a rule; a doubt names it */
    KITH_KNOWN = 2    /* the source says so */
} kith_certainty;

/* Nearness of two devices, worst first. The names are those of `nvidia-smi topo -m`; with NVLink and xGMI the number of
 * bonded links is added ("NV4", "XGMI2"). */
typedef enum kith_link_type {
    KITH_LINK_UNKNOWN = 0, /* "?" */
    KITH_LINK_NET,         /* "NET": different nodes, over the network */
    KITH_LINK_SYS,         /* "SYS": over the link between CPU packages or NUMA nodes ("SOC" in 2017) */
    KITH_LINK_NODE,        /* "NODE": between host bridges of one NUMA node */
    KITH_LINK_PHB,         /* "PHB": through one host bridge */
    KITH_LINK_PXB,         /* "PXB": through several PCIe switches */
    KITH_LINK_PIX,         /* "PIX": through at most one PCIe switch */
    KITH_LINK_BOARD,       /* "PSB": two GPUs of one board */
    KITH_LINK_C2C,         /* "C2C": chip to chip, a GPU and its CPU */
    KITH_LINK_XGMI,        /* "XGMIn" */
    KITH_LINK_NVLINK,      /* "NVn" */
    KITH_LINK_SELF         /* "X" */
} kith_link_type;

typedef struct kith_link {
    kith_link_type type;
    int count;        /* NVLINK, XGMI: bonded links. Through a switch: the links that one GPU has into the switch */
    int generation;   /* NVLINK: version 1-5; PCI classes: PCIe generation of the slower end; 0: unknown */
    bool is_switched; /* through NVSwitch: all peers share the `count` links of a GPU */
    kith_certainty certainty;
    double gbps; /* one direction, alone on the link; 0: unknown */
} kith_link;

/* PCI address; domain has up to 32 bits. Printed as "0000:1b:00.0", with more digits of the domain where needed. */
typedef struct kith_pci_address {
    bool is_known;
    uint32_t domain;
    uint8_t bus, device, function;
} kith_pci_address;

typedef struct kith_numa {
    int os_index;
    const char *cpus;         /* NULL: unknown; "": a node without CPUs */
    int package;              /* index in kind->packages; -1: unknown */
    bool is_gpu_memory;       /* the memory of a GPU (Grace, POWER9): no place for ranks */
    int gpu;                  /* whose memory: position in kind->gpus; -1: none or unknown */
    uint64_t memory_nbytes;   /* 0: unknown */
    const char *allowed_cpus; /* what this process may use; NULL: unknown or all */
} kith_numa;

typedef struct kith_package {
    int os_index;
    const char *cpus;  /* NULL: unknown */
    const char *model; /* NULL: unknown */
} kith_package;

typedef struct kith_cache {
    int level;       /* 1, 2, 3, 4 */
    bool is_data;    /* data or unified, else instructions */
    uint64_t nbytes; /* of one */
    int count;       /* how many of them */
} kith_cache;

/* A PCI switch or bridge that has something behind it. Parents come before children. */
typedef struct kith_pci_switch {
    int parent;      /* position in kind->switches; -1: hangs on a host bridge */
    int host_bridge; /* number of the host bridge above it; -1: unknown */
    int numa;        /* position in kind->numas; -1: unknown */
    kith_pci_address pci;
    const char *name; /* vendor, device; NULL: unknown */
    double gbps;      /* of its link upwards, one direction; 0: unknown */
} kith_pci_switch;

typedef struct kith_gpu {
    int index;          /* the number that the source gives it (nvidia-smi, NCCL "dev"), not always its position */
    const char *name;   /* "NVIDIA H100 80GB HBM3", "cuda0"; NULL: unknown */
    const char *uuid;   /* NULL: unknown */
    const char *vendor; /* "nvidia", "amd", "intel"; NULL: unknown */
    kith_pci_address pci;
    int compute_capability;          /* 90 for 9.0; NVIDIA; 0: unknown */
    const char *cpus;                /* CPUs near it; NULL: unknown */
    const int *numas;                /* OS indices of the NUMA nodes with CPUs near it */
    int numa_count;                  /* 0: unknown */
    const char *numa_text;           /* as the source writes it ("0-1"), or the single number; NULL: unknown */
    const char *numa_source;         /* where that comes from: "nvidia-smi", "hwloc", "nccl", ...; NULL: unknown */
    int memory_numa;                 /* OS index of the NUMA node that is its own memory; -1: none or unknown */
    uint64_t memory_nbytes;          /* 0: unknown */
    int pci_switch;                  /* position in kind->switches; -1: none or unknown */
    int host_bridge;                 /* number; -1: unknown */
    int pcie_generation, pcie_width; /* 0: unknown */
    double pcie_gbps;                /* of its own PCIe link, one direction; 0: unknown */
    int link_count;                  /* NVLinks or xGMI links of this GPU that are up; -1: unknown */
    bool is_mig;                     /* parent of MIG instances: no NVLink, no peer-to-peer */
    bool is_lost;                    /* there, but does not answer: its row is unknown */
    bool is_allowed;                 /* this process may use it (true when that is unknown) */
    kith_certainty fabric;           /* KNOWN: the NVLink fabric is up (NVML); ASSUMED: a link says so */
} kith_gpu;

typedef struct kith_nic {
    int index;          /* the source's number, or its position */
    const char *name;   /* as the source calls it: "NIC0", "mlx5_0" */
    const char *device; /* device name for NCCL_IB_HCA and UCX_NET_DEVICES; NULL: unknown */
    const char *fabric; /* "infiniband", "roce", "ethernet", "efa", "slingshot"; NULL: unknown */
    const char *guid;   /* NULL: unknown */
    kith_pci_address pci;
    const char *cpus; /* NULL: unknown */
    int numa;         /* OS index; -1: unknown */
    int pci_switch;   /* position in kind->switches; -1: none or unknown */
    int host_bridge;  /* number; -1: unknown */
    int port_count;   /* 0: unknown */
    double gbps;      /* all ports, one direction; 0: unknown */
    kith_certainty gbps_certainty;
} kith_nic;

/* Nodes of one kind are equal. */
typedef struct kith_node_kind {
    const char *name;         /* file or host it was read from */
    const char *format;       /* "nvidia-smi topo -m", "hwloc XML", "NCCL XML", "synthetic", "live", "kith" */
    const char *source;       /* more of it: "hwloc 2.9.0", "driver of 2017"; NULL */
    bool is_virtual;          /* a virtual machine that hides its PCIe tree */
    const char *cpu_vendor;   /* "intel", "amd", "arm", "ibm", "zhaoxin"; NULL: unknown */
    const char *cpu_model;    /* NULL: unknown */
    const char *architecture; /* "x86_64", "aarch64", "ppc64"; NULL: unknown */
    const kith_package *packages;
    int package_count; /* 0: unknown */
    const kith_numa *numas;
    int numa_count; /* 0: unknown; includes GPU memory, see kith_numa_count_with_cpus() */
    const kith_cache *caches;
    int cache_count;
    const kith_pci_switch *switches;
    int switch_count;
    const kith_gpu *gpus;
    int gpu_count;
    const kith_nic *nics;
    int nic_count;
    const kith_link *links;     /* [gpu_count * gpu_count], row: from; both directions agree (the weaker one counts) */
    const kith_link *nic_links; /* [gpu_count * nic_count]: GPU to NIC */
    kith_certainty nvlink; /* KNOWN: links (or their absence) were reported; UNKNOWN: the source leaves NVLink out */
    bool has_nvswitch;     /* GPUs are joined by NVSwitch */
    double socket_gbps;    /* between two packages, one direction; 0: unknown */
    kith_certainty socket_certainty;
} kith_node_kind;

/* One node of the cluster. */
typedef struct kith_node {
    const char *name; /* host name; made up ("node0") when the source has none */
    int kind;         /* index for kith_topology_kind() */
    int leaf;         /* its switch: index for kith_topology_switch(); -1: unknown. With rails: that of its first NIC */
    int domain;       /* NVLink domain that spans nodes: index for kith_topology_domain(); -1: none or unknown */
    const int *rails; /* leaf of each NIC, -1 unknown; NULL: all on `leaf` */
    int rail_count;   /* entries of rails: NICs that the fabric shows; may be fewer than kind->nic_count, 0 with NULL */
    bool is_allowed;  /* part of what this job may use */
} kith_node;

/* A switch between nodes. Parents come before children. */
typedef struct kith_switch {
    const char *name;
    int parent;       /* index; -1: a root. A fabric where a leaf has several spines has one virtual root above them */
    int level;        /* 0: leaf, has nodes */
    int uplink_count; /* links to the level above, all together; 0: unknown */
    double uplink_gbps; /* of one of them, on average; 0: unknown */
} kith_switch;

/* GPUs of several nodes that are joined by NVLink (NVL72), or a Slurm block. */
typedef struct kith_domain {
    const char *name;
    bool is_nvlink; /* false: only a block of the scheduler */
    double gbps;    /* NVLink of one GPU into the domain; 0: unknown */
    int node_count;
} kith_domain;

/* Something that may be wrong, or that was assumed. Codes are stable words: see docs/topology.md. */
typedef struct kith_doubt {
    const char *code;
    const char *text;   /* one sentence: what, where, what was done about it */
    const char *file;   /* where; NULL: none */
    int line;           /* 0: none */
    int kind;           /* -1: not about a kind */
    int gpu;            /* position in the kind's GPUs; -1: not about one */
    bool is_assumption; /* nothing is wrong: a value that the source lacks was filled in by a rule */
} kith_doubt;

typedef struct kith_topology_options {
    size_t struct_size;
    const char *constants_path; /* JSON that replaces rows of the table of constants; NULL: none */
    const char *gpu;            /* model of the GPUs where the source does not say ("H100", "A100"); NULL.
                                   KITH_ERR_INVALID_ARG for one that is not known */
    const char *nodes;          /* only these nodes ("gpu[001-016]"), as a job was given; NULL: all */
    int node_count;             /* with a description of one node and no switches: how many of them; 0: 1 */
} kith_topology_options;

#define KITH_TOPOLOGY_OPTIONS_INIT                                                                                     \
    {                                                                                                                  \
        sizeof(kith_topology_options), NULL, NULL, NULL, 0                                                             \
    }

/* Whether options.gpu may be this name: KITH_OK, or KITH_ERR_INVALID_ARG with what is known. Pure. */
KITH_API kith_status kith_gpu_check(const char *name);

/* Looks at this machine: hwloc (all of it, what the process may use marked), and NVML when its library is there.
 * KITH_ERR_UNSUPPORTED when Kith was built without hwloc. */
KITH_API kith_status kith_topology_detect(const kith_topology_options *options, kith_topology **topology);

/* Reads files and joins them. Each is recognized by its content: hwloc XML, `nvidia-smi topo -m`, NCCL topology XML,
 * Slurm topology.conf or topology.yaml, ibnetdiscover, topograph models, the fabric query of nvidia-smi, or what
 * kith_topology_print() wrote as JSON. A path that is no file but reads like "4 nodes of 8 H100 on NVSwitch, 8 NICs" is
 * a synthetic machine; "-" is standard input, "live" this machine. Descriptions of one node are spread over the nodes
 * of a switch tree by name, else to all. KITH_ERR_INVALID_ARG with file, line and reason when a file is damaged so
 * that its meaning is not certain, KITH_ERR_UNSUPPORTED when it is none of these, KITH_ERR_IO. */
KITH_API kith_status kith_topology_load(const char *const *paths, size_t path_count,
                                        const kith_topology_options *options, kith_topology **topology);

/* The same from memory; name stands in texts. text needs no ending NUL. */
KITH_API kith_status kith_topology_parse(const char *name, const char *text, size_t nbytes,
                                         const kith_topology_options *options, kith_topology **topology);

/* NULL is fine. All pointers that were borrowed from it end here. */
KITH_API void kith_topology_destroy(kith_topology *topology);

/* Counts, and borrowed descriptions (NULL outside the range). Of NULL, here and below, counts are 0, descriptions NULL,
 * numbers -1, links unknown. */
KITH_API int kith_topology_kind_count(const kith_topology *topology);
KITH_API const kith_node_kind *kith_topology_kind(const kith_topology *topology, int index);
KITH_API int kith_topology_node_count(const kith_topology *topology);
KITH_API const kith_node *kith_topology_node(const kith_topology *topology, int index);
KITH_API int kith_topology_switch_count(const kith_topology *topology);
KITH_API const kith_switch *kith_topology_switch(const kith_topology *topology, int index);
KITH_API int kith_topology_domain_count(const kith_topology *topology);
KITH_API const kith_domain *kith_topology_domain(const kith_topology *topology, int index);
KITH_API int kith_topology_doubt_count(const kith_topology *topology);
KITH_API const kith_doubt *kith_topology_doubt(const kith_topology *topology, int index);

/* GPUs of the whole cluster are numbered node after node: the global number of GPU g (a position) of node n is
 * kith_topology_first_gpu(t, n) + g. */
KITH_API int kith_topology_gpu_count(const kith_topology *topology);
KITH_API int kith_topology_first_gpu(const kith_topology *topology, int node);
/* Node and position of a global number. False when there is no such GPU. */
KITH_API bool kith_topology_locate(const kith_topology *topology, int global_gpu, int *node, int *gpu);

/* Global number of the GPU with this PCI address ("0000:1b:00.0", as cudaDeviceGetPCIBusId() and NVML write it) on a
 * node. Ordinals of CUDA and minors of device files are no such thing: masks change them. node: as in the topology,
 * with or without what follows the first dot; NULL: the only one. -1: no such node or GPU, or addresses are unknown. */
KITH_API int kith_topology_find_gpu(const kith_topology *topology, const char *node, const char *pci);

/* The link between any two GPUs of the cluster (global numbers). */
KITH_API kith_link kith_topology_link(const kith_topology *topology, int from, int to);

/* "NV18", "PIX", ...; at least 16 bytes. Returns buffer. */
KITH_API const char *kith_link_name(const kith_link *link, char *buffer, size_t nbytes);
KITH_API const char *kith_link_type_name(kith_link_type type);
/* "0000:1b:00.0" or "?"; at least 24 bytes. Returns buffer. */
KITH_API const char *kith_pci_text(const kith_pci_address *address, char *buffer, size_t nbytes);

/* NUMA nodes with CPUs: places for ranks. 0: unknown. */
KITH_API int kith_numa_count_with_cpus(const kith_node_kind *kind);

/* Nearest NICs of a GPU (by position): all that share the best class. Writes at most capacity positions of NICs, sets
 * *type, returns how many there are (0: no NIC, or unknown). nics may be NULL with capacity 0, to only count. */
KITH_API int kith_nearest_nics(const kith_node_kind *kind, int gpu, int *nics, int capacity, kith_link_type *type);

/* Islands: GPUs that NVLink (or xGMI) joins, directly or through others. island[gpu_count] receives a number for each
 * GPU. Returns how many islands there are, single GPUs included; 0 when there is no such link at all; -1 when NVLink is
 * unknown. */
KITH_API int kith_nvlink_islands(const kith_node_kind *kind, int *island);

typedef enum kith_format { KITH_FORMAT_TEXT, KITH_FORMAT_JSON } kith_format;

/* The machine as a readable text, or as JSON that kith_topology_parse() reads back unchanged (docs/topology.md lists
 * the keys). *text is the caller's: kith_free(). */
KITH_API kith_status kith_topology_print(const kith_topology *topology, kith_format format, char **text);

/* Compares two descriptions of nodes that should be equal (kind 0 of each): devices, numbers, nearness, links, CPU
 * sets. *text receives one line for each difference, "" when there is none; *count how many. Free with kith_free(). */
KITH_API kith_status kith_topology_diff(const kith_topology *a, const kith_topology *b, char **text, int *count);

/* The table of constants: what a link of each sort carries, and where the figure comes from. */
typedef struct kith_constant {
    const char *key; /* "nvlink4", "pcie5", "hdr", "upi-skx", ... */
    const char *meaning;
    double raw_gbps;       /* as the standard or the vendor says, one direction, one link (PCIe: x16) */
    double effective_gbps; /* as a collective library reaches it; what costs are computed with */
    double latency_us;     /* of one step over it */
    const char *source;
    bool is_replaced; /* by constants_path or a measured value */
} kith_constant;
KITH_API int kith_topology_constant_count(const kith_topology *topology);
/* topology NULL: the built-in table. NULL outside the range. */
KITH_API const kith_constant *kith_topology_constant(const kith_topology *topology, int index);

#ifdef __cplusplus
}
#endif
#endif
