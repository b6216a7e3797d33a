/* kith/mesh.h - a group laid out along named axes: tensor, context, expert, data, pipeline.
 *
 * order lists the axes, the first varying fastest, as in Megatron: with "tp-cp-ep-dp-pp" and sizes t,c,e,d,p the rank
 * at (it,ic,ie,id,ip) is it + t*(ic + c*(ie + e*(id + d*ip))). Axes left out of sizes have size 1; one size may be 0
 * and is computed. Axis names are any words of letters and digits, not only these five.
 *
 *     kith_mesh_axis axes[] = { { "tp", 2 }, { "pp", 4 }, { "dp", 0 } };
 *     kith_mesh_create(world, axes, 3, NULL, &mesh);              // world 16: dp becomes 2
 *     kith_group *tp = kith_mesh_group(mesh, "tp");               // [0,1] on ranks 0 and 1
 *     kith_group *both = kith_mesh_group(mesh, "tp-pp");          // product of two axes, in the mesh's order
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KITH_MESH_H
#define KITH_MESH_H

#include <kith/group.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct kith_mesh kith_mesh;
struct kith_placement; /* kith/placement.h */
struct kith_topology;  /* kith/topology.h */

typedef struct kith_mesh_axis {
    const char *name;
    int size; /* 0: what remains; at most one */
} kith_mesh_axis;

#define KITH_MESH_DEFAULT_ORDER "tp-cp-ep-dp-pp"
#define KITH_MESH_MAX_AXES 8

typedef struct kith_mesh_options {
    size_t struct_size;
    const char *order;    /* NULL: KITH_MESH_DEFAULT_ORDER if it has all axes, else the order of the array */
    const char *products; /* comma-separated products to make besides the single axes, "tp-pp,dp-cp"; NULL: none */
    const char *backends; /* comma-separated "axis=backend", "tp=shm,dp=ucx"; NULL: the group's default */
    const int *placement; /* placement[i] = rank of `base` that takes mesh position i; NULL: identity; copied */
    int64_t timeout_ms;   /* as in kith_group_options */
    const struct kith_placement *devices; /* instead of placement: which GPU each mesh position is to have, out of
                                             kith_place(); the same on all ranks; needed during the call only */
    int launched_gpu; /* with devices: global number of the GPU that this rank was started on, out of
                         kith_topology_find_gpu(); -1 on all ranks: they were started on the placement's GPUs in
                         ascending order */
    int visible_gpus; /* how many GPUs this process sees (cudaGetDeviceCount()); 0: as CUDA_VISIBLE_DEVICES,
                         ROCR_VISIBLE_DEVICES and the like say. Only for a warning, see kith_mesh_create() */
} kith_mesh_options;

#define KITH_MESH_OPTIONS_INIT                                                                                         \
    {                                                                                                                  \
        sizeof(kith_mesh_options), NULL, NULL, NULL, NULL, 0, NULL, -1, 0                                              \
    }

/* Makes the mesh and the groups of every axis, of the products, and "embed" (first and last rank of the pp axis) when
 * there is an axis pp with more than one rank. Collective over base, blocks. The product of the sizes must be base's
 * size. With options.devices every rank tells on which GPU it runs, and takes the position that has this GPU; all ranks
 * get the same error when a GPU of the placement has no rank or two. Where ranks of one group along an axis tp share a
 * host and see one GPU each, rank 0 of base logs a warning: peer-to-peer between them may be off. */
KITH_API kith_status kith_mesh_create(kith_group *base, const kith_mesh_axis *axes, size_t axis_count,
                                      const kith_mesh_options *options, kith_mesh **mesh);

/* Does each rank run where the placement has it? Launchers put ranks on hosts in an order of their own - by name, by
 * address - and nothing fails then: groups only become slow. For the start of a job that was launched by a rankfile or
 * a list of hosts of kith_placement_export(); where ranks may take any place, kith_mesh_options.devices puts them in
 * order instead. Rank r of base tells the host and the GPU it runs on, and they must be those of rank r in the
 * placement. host: as the topology names the node, with or without what follows the first dot; NULL: gethostname().
 * pci: address of the rank's GPU ("0000:1b:00.0", as cudaDeviceGetPCIBusId() writes it); NULL, or where the topology
 * has no addresses: hosts alone are compared. topology: the one that the placement was found on. Collective over base,
 * blocks. KITH_ERR_MISMATCH on all ranks when one runs elsewhere, or has another placement; the text names the first
 * such rank, where it runs and where it should, and says how many there are. KITH_ERR_INVALID_ARG, too, is all ranks'
 * answer. */
KITH_API kith_status kith_group_check_placement(kith_group *base, const struct kith_topology *topology,
                                                const struct kith_placement *placement, const char *host,
                                                const char *pci);

/* Destroys the mesh and its groups. Collective like kith_group_destroy(). NULL is fine. A second call on the same
 * handle is KITH_ERR_INVALID_ARG until 16 more meshes were destroyed: then it may name a new one. */
KITH_API kith_status kith_mesh_destroy(kith_mesh *mesh);

/* The calling rank's group along an axis, a product that was asked for ("tp-pp"; any order of the words), or "embed".
 * Borrowed from the mesh: kith_group_destroy() refuses it. NULL when there is none; for "embed" also on stages
 * between. */
KITH_API kith_group *kith_mesh_group(const kith_mesh *mesh, const char *axes);

/* Size of an axis, or product of sizes for "a-b"; -1 when unknown. */
KITH_API int kith_mesh_size(const kith_mesh *mesh, const char *axes);

/* Coordinate of the calling rank on an axis; -1 when unknown. */
KITH_API int kith_mesh_coord(const kith_mesh *mesh, const char *axis);

/* Coordinate of any rank of base on an axis; -1 when unknown. */
KITH_API int kith_mesh_coord_of(const kith_mesh *mesh, const char *axis, int base_rank);

/* Pure arithmetic, no communication: the groups of "axes" in a mesh of these sizes. groups receives axis-group after
 * axis-group, each in mesh order, world entries in all; group_size and group_count (product = world) are written.
 * order as in the options. For planning, reports and tests. */
KITH_API kith_status kith_mesh_enumerate(const kith_mesh_axis *axes, size_t axis_count, const char *order,
                                         const char *group_axes, int world, int *groups, int *group_size,
                                         int *group_count);

#ifdef __cplusplus
}
#endif
#endif
