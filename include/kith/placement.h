/* kith/placement.h - where ranks go, and what their collectives cost there.
 *
 *     kith_placement_options o = KITH_PLACEMENT_OPTIONS_INIT;
 *     o.tp = 2;
 *     kith_placement *p;
 *     if (kith_place(topology, &o, &p) != KITH_OK) return fprintf(stderr, "%s\n", kith_error_detail()), 1;
 *     for (int r = 0; r < kith_placement_rank_count(p); r++) printf("rank %d: GPU %d\n", r, kith_placement_gpu(p, r));
 *     kith_placement_destroy(p);
 *
 * Ranks are laid out along axes as in kith/mesh.h (order "tp-cp-ep-dp-pp", the first varies fastest); a placement is
 * the GPU of each rank. Inside a node the groups of the innermost axis are found exactly (up to 16 GPUs): first the
 * widest worst link that a ring over the group needs, then the largest sum of links inside the groups, then the
 * smallest numbers; so the order of the numbers is kept where nothing is gained. All nodes of one kind get the same
 * order inside, so that equal positions meet on the same rail. Nodes are ordered by switch. GPUs that are left over
 * are named, never taken into a group silently. GPUs that do not answer (is_lost), or that this job may not use, never
 * get a rank; MIG parents do when nothing else is left.
 *
 * Pure, like kith/topology.h. Global GPU numbers are those of kith_topology_first_gpu().
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KITH_PLACEMENT_H
#define KITH_PLACEMENT_H

#include <kith/topology.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- what one collective costs ---- */

typedef enum kith_cost_op {
    KITH_COST_ALL_REDUCE,
    KITH_COST_REDUCE_SCATTER,
    KITH_COST_ALL_GATHER,
    KITH_COST_ALL_TO_ALL,
    KITH_COST_SEND_RECV,
    KITH_COST_BROADCAST,
    KITH_COST_SHIFT /* each rank to the next, the last to the first: ring attention */
} kith_cost_op;

typedef struct kith_cost {
    double time_s;          /* alpha + bytes / bandwidth */
    double latency_s;       /* the alpha part */
    double gbps;            /* bus bandwidth as nccl-tests counts it, latency left out: of a ring what a rank gets of
                               the slowest link that it crosses, sharing considered */
    kith_link_type slowest; /* class of that link */
    int slowest_from, slowest_to; /* global GPUs whose hop is the slowest; -1: a group of one */
    const char *algorithm;        /* "ring", "hierarchical", ...; static */
    bool is_shared;               /* a NIC, an uplink or a socket link is divided among several users */
} kith_cost;

/* Cost of one collective that all groups run at the same time. groups holds group_count * group_size global GPU
 * numbers, each group in ring order. nbytes is the size of the whole vector as in nccl-tests: the buffer of
 * all_reduce and broadcast, what all ranks together hold for all_gather and reduce_scatter, what one rank sends for
 * all_to_all, the message for send_recv (a chain, as the stages of a pipeline: each rank to the next of its group, the
 * last one sends nothing). algorithm: a name out of kith_cost_algorithm_name(), or NULL for the best ("none" for groups
 * of one). The cost is that of the slowest group. KITH_ERR_INVALID_ARG for GPUs that are not there or twice in a group,
 * sizes below 1, nbytes that is no number from 0 to 1e15, a name that does not exist; KITH_ERR_UNSUPPORTED when the
 * algorithm cannot be for these groups or has too many messages to be priced, or no bandwidth is known on the way.
 * Formulas: docs/topology.md. */
KITH_API kith_status kith_cost_collective(const kith_topology *topology, kith_cost_op op, const char *algorithm,
                                          const int *groups, int group_size, int group_count, double nbytes,
                                          kith_cost *cost);
/* Algorithms that can be asked for, NULL past the end: "ring", "recursive_doubling", "rabenseifner", ... */
KITH_API const char *kith_cost_algorithm_name(kith_cost_op op, int index);

/* ---- placement ---- */

#define KITH_PLACEMENT_AXES 5 /* tp, cp, ep, dp, pp: in this order in arrays */

/* Traffic of one training step and rank, for weighing axes against each other: calls and bytes of one call (as nbytes
 * above). All zero: the order of axes alone counts; a step has one all_reduce of 64 MiB on the outermost axis and eight
 * times as many on each axis further in. kith_plan_traffic() fills it for a model. */
typedef struct kith_axis_traffic {
    kith_cost_op op;
    double calls;
    double nbytes;
    double hidden_s; /* of all calls together: so long compute hides it, and only what is longer costs time; 0: all of
                        it does */
} kith_axis_traffic;

typedef struct kith_placement_options {
    size_t struct_size;
    int tp, cp, ep, dp,
        pp;            /* sizes; 0: choose. tp 0: as many as an island holds; cp, ep, pp 0: 1; dp 0: what remains */
    const char *order; /* NULL: "tp-cp-ep-dp-pp" */
    const kith_axis_traffic *traffic; /* KITH_PLACEMENT_AXES entries; NULL: see above */
    bool keep_order;                  /* no permutation: only price the order of the numbers */
    void (*progress)(void *arg, const char *what, double fraction);
    void *progress_arg;
} kith_placement_options;

#define KITH_PLACEMENT_OPTIONS_INIT                                                                                    \
    {                                                                                                                  \
        sizeof(kith_placement_options), 0, 0, 0, 0, 0, NULL, NULL, false, NULL, NULL                                   \
    }

typedef struct kith_placement kith_placement;

/* What an axis got. Borrowed from the placement. */
typedef struct kith_axis_report {
    const char *name;
    int size, group_count;
    const int *groups;                        /* [group_count * size] global GPUs, in the order of ranks */
    const int *rings;                         /* the same groups in the best ring order */
    kith_link bottleneck;                     /* narrowest link that the ring of any group needs */
    int bottleneck_group;                     /* which group */
    int bottleneck_from, bottleneck_to;       /* global GPUs; -1 with groups of one */
    kith_cost cost;                           /* of one call (traffic, or 64 MiB all_reduce) */
    kith_cost identity_cost;                  /* the same in the order of the numbers */
    double step_s, identity_step_s;           /* calls * time, less what compute hides of it */
    double bytes_by_type[KITH_LINK_SELF + 1]; /* per step, all ranks together, over each class of link (ring) */
    bool leaves_nvlink;                       /* a group needs a link that is not NVLink (or xGMI) */
    int64_t equally_good;                     /* tp inside a node: how many partitions are as good; 0: not counted */
} kith_axis_report;

/* Finds a placement. KITH_ERR_INVALID_ARG when the sizes do not fit the machine (the text says which would). The
 * placement remembers the topology, which must outlive it where the two are printed or exported together. */
KITH_API kith_status kith_place(const kith_topology *topology, const kith_placement_options *options,
                                kith_placement **placement);
KITH_API void kith_placement_destroy(kith_placement *placement);

/* Of NULL all that follows to the notes is 0, -1 for a GPU, NULL for a pointer, false. */
KITH_API int kith_placement_rank_count(const kith_placement *placement);
/* Global GPU of a rank; -1 outside. */
KITH_API int kith_placement_gpu(const kith_placement *placement, int rank);
KITH_API const kith_axis_report *kith_placement_axis(const kith_placement *placement, const char *name);
KITH_API const char *kith_placement_order(const kith_placement *placement);
/* GPUs without a rank, ascending. */
KITH_API int kith_placement_leftover_count(const kith_placement *placement);
KITH_API int kith_placement_leftover(const kith_placement *placement, int index);
/* Sum of step_s over the axes, chosen and in the order of the numbers; INFINITY where a link of unknown bandwidth is
 * needed. lower_bound: what no placement of these sizes can beat, the bytes that one group of each axis must move over
 * the widest links that the machine has for so many GPUs; it leaves out latencies and what groups share, so that the
 * cost of the best placement is often above it. */
KITH_API double kith_placement_cost(const kith_placement *placement);
KITH_API double kith_placement_identity_cost(const kith_placement *placement);
KITH_API double kith_placement_lower_bound(const kith_placement *placement);
/* One sentence for each decision ("tp groups {0,3} {1,2}: NV2 instead of NV1 in the order of numbers"),
 * and warnings. */
KITH_API int kith_placement_note_count(const kith_placement *placement);
KITH_API const char *kith_placement_note(const kith_placement *placement, int index);
KITH_API bool kith_placement_note_is_warning(const kith_placement *placement, int index);

/* For kith_mesh_options.placement: entry i is the launched rank that takes mesh position i, when rank r was launched on
 * GPU launched_gpu[r] (global; NULL: ranks were launched on GPUs in ascending order). order receives
 * kith_placement_rank_count() entries. KITH_ERR_INVALID_ARG when a GPU of the placement has no rank. */
KITH_API kith_status kith_placement_mesh_order(const kith_placement *placement, const int *launched_gpu, int *order);

/* Machine and placement as text or JSON (the keys: docs/topology.md). Caller's: kith_free(). KITH_ERR_INVALID_ARG for
 * another topology than the placement was found on; so does kith_placement_export(). */
KITH_API kith_status kith_placement_print(const kith_topology *topology, const kith_placement *placement,
                                          kith_format format, char **text);

/* The answer in the form of another tool. */
typedef enum kith_export {
    KITH_EXPORT_RANKFILE,    /* Open MPI: rank N=host slot=cpus */
    KITH_EXPORT_HOSTFILE,    /* Open MPI, MPICH: host slots=n */
    KITH_EXPORT_SLURM,       /* SLURM_HOSTFILE: one host a line and rank */
    KITH_EXPORT_ENVIRONMENT, /* per rank: CUDA_VISIBLE_DEVICES, NCCL_IB_HCA, UCX_NET_DEVICES, ... */
    KITH_EXPORT_MEGATRON,    /* sizes and order string of Megatron-Core */
    KITH_EXPORT_KITH         /* for `kith run --placement` */
} kith_export;
KITH_API kith_status kith_placement_export(const kith_topology *topology, const kith_placement *placement,
                                           kith_export form, char **text);

#ifdef __cplusplus
}
#endif
#endif
