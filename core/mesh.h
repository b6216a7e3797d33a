/* core/mesh.h - the arithmetic of meshes, without communication.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_MESH_H
#define KI_MESH_H

#include <kith/mesh.h>
#include <stdbool.h>

#define KI_AXIS_NAME 16

/* Axes in the mesh's order, the first fastest. */
typedef struct ki_grid {
    int axis_count;
    int world;
    char names[KITH_MESH_MAX_AXES][KI_AXIS_NAME];
    int sizes[KITH_MESH_MAX_AXES];
} ki_grid;

/* Checks names, sizes, order; computes the size that is 0. */
kith_status ki_grid_init(const kith_mesh_axis *axes, size_t axis_count, const char *order, int world, ki_grid *grid);

/* "tp-pp" -> bit per axis of the grid. KITH_ERR_INVALID_ARG names the word that is no axis. */
kith_status ki_grid_mask(const ki_grid *grid, const char *axes, unsigned *mask);

/* Number of positions along the axes of mask. */
int ki_grid_extent(const ki_grid *grid, unsigned mask);

int ki_grid_coord(const ki_grid *grid, int position, int axis);

/* Number of the axis with that name; -1: none. */
int ki_grid_axis(const ki_grid *grid, const char *name);

/* Positions of the group of `position` along mask, in the mesh's order: members[extent]. */
void ki_grid_members(const ki_grid *grid, unsigned mask, int position, int *members);

/* mesh_visible.c: how many GPUs this process sees, as the masks of GPU runtimes say; 0: none says so. */
int ki_visible_gpu_count(void);
struct kith_mesh;
/* Rank 0 logs a warning when ranks of one tp group share a host and see one GPU each. visible: of each rank of base;
 * room: a number for each rank. */
void ki_mesh_warn_visible(const struct kith_mesh *mesh, const int *visible, int *room);

#endif
