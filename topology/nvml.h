/* topology/nvml.h - what NVIDIA's management library says of the GPUs: read whole, then put into a kind.
 *
 * The library is opened at run time and closed again; Kith needs neither it nor its header to be built. A GPU that does
 * not answer is one lost GPU and no failure.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_TOPOLOGY_NVML_H
#define KI_TOPOLOGY_NVML_H

#include "model.h"

#define KI_NVML_LIBRARY "libnvidia-ml.so.1"
enum { KI_NVML_MOST_LINKS = 36 };

typedef enum ki_nvml_peer {
    KI_NVML_PEER_UNKNOWN,
    KI_NVML_PEER_DEVICE,
    KI_NVML_PEER_SWITCH,
    KI_NVML_PEER_HIDDEN
} ki_nvml_peer;

typedef struct ki_nvml_link {
    ki_nvml_peer peer;
    kith_pci_address remote; /* PEER_DEVICE: a GPU, or a CPU's bridge */
    int generation;          /* 1-5; 0: unknown */
} ki_nvml_link;

typedef enum ki_nvml_state { KI_NVML_FINE, KI_NVML_LOST, KI_NVML_FORBIDDEN } ki_nvml_state;

typedef struct ki_nvml_gpu {
    ki_nvml_state state;
    const char *why; /* error text when it is not FINE */
    const char *name, *uuid;
    kith_pci_address pci;
    int compute_capability;
    int pcie_generation, pcie_width; /* at most; 0: unknown */
    uint64_t memory_nbytes;
    bool is_mig;
    const char *cpus, *numas; /* near it; NULL: unknown */
    int memory_numa;          /* -1: its memory is no NUMA node */
    bool has_fabric;          /* the driver says something about the fabric */
    int fabric_state;         /* 3: up */
    int fabric_status;        /* 0: no error */
    unsigned char cluster[16];
    unsigned clique;
    ki_nvml_link links[KI_NVML_MOST_LINKS]; /* those that are up */
    int link_count;
} ki_nvml_gpu;

typedef struct ki_nvml {
    const char *error; /* the library is there, but cannot be used; NULL: fine */
    int gpu_count;
    ki_nvml_gpu *gpus; /* position is NVML's index */
    int *p2p;          /* [gpu_count * gpu_count]: 0 fine, above 0 NVML's reason, -1 not known */
    int *level;        /* [gpu_count * gpu_count]: NVML's topology level (10 = PIX ... 50 = SYS); -1: not known */
} ki_nvml;

/* Reads all. *nvml is NULL when there is no such library, else it is in the arena of t. */
kith_status ki_nvml_read(kith_topology *t, const char *library_path, const ki_nvml **nvml);

/* Fills the kind's GPUs (matched by PCI address, else by index) and links; the matrices must be there. GPUs of other
 * vendors are left alone. */
void ki_nvml_describe(kith_topology *t, ki_kind *kind, const ki_nvml *nvml);

/* Position in nvml->gpus of a GPU of the kind; -1: NVML does not show it. */
int ki_nvml_find(const ki_nvml *nvml, const kith_gpu *gpu);

#endif
