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
    int launched_gpu; /* with devices: global number of the GPU that this rank was started on; -1 on all ranks: they
                         were started on the placement's GPUs in ascending order */
} kith_mesh_options;

#define KITH_MESH_OPTIONS_INIT                                                                                         \
    {                                                                                                                  \
        sizeof(kith_mesh_options), NULL, NULL, NULL, NULL, 0, NULL, -1                                                 \
    }

/* Makes the mesh and the groups of every axis, of the products, and "embed" (first and last rank of the pp axis) when
 * there is an axis pp with more than one rank. Collective over base, blocks. The product of the sizes must be base's
 * size. With options.devices every rank tells on which GPU it runs, and takes the position that has this GPU; all ranks
 * get the same error when a GPU of the placement has no rank or two. */
KITH_API kith_status kith_mesh_create(kith_group *base, const kith_mesh_axis *axes, size_t axis_count,
                                      const kith_mesh_options *options, kith_mesh **mesh);

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
