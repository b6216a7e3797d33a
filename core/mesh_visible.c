/* core/mesh_visible.c - ranks of one tp group that see one GPU each.
 *
 * Launchers hide from each rank the GPUs of the others: by a mask, or by a control group. Then CUDA cannot open a
 * peer's memory, and libraries that talk over NVLink or IPC fall back to the host's memory without an error. Kith
 * cannot ask the runtime, so the masks tell, or the application does; a control group shows in the latter alone.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "mesh.h"

#include "base/log.h"
#include "object.h"
#include <stdlib.h>
#include <string.h>

/* Entries of a mask; it ends at the first that is none. */
static int count_entries(const char *mask)
{
    int count = 0;
    while (*mask != '\0') {
        mask += strspn(mask, " ");
        size_t length = strcspn(mask, ",");
        if (length == 0 || *mask == '-')
            break;
        count++;
        mask += length + (mask[length] == ',');
    }
    return count;
}

/* HIP's mask counts in what ROCr's leaves, so the smaller one holds. */
int ki_visible_gpu_count(void)
{
    static const char *const names[] = { "CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES",
                                         "ZE_AFFINITY_MASK" };
    int least = 0;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const char *mask = getenv(names[i]);
        int count = mask != NULL ? count_entries(mask) : 0;
        if (count > 0 && (least == 0 || count < least))
            least = count;
    }
    return least;
}

/* Has the rank a neighbour in its group on the same host? */
static bool has_neighbour(const kith_mesh *mesh, const int *positions, int count, int rank)
{
    for (int i = 0; i < count; i++) {
        int other = mesh->placement[positions[i]];
        if (other != rank && mesh->base->node_of[other] == mesh->base->node_of[rank])
            return true;
    }
    return false;
}

void ki_mesh_warn_visible(const kith_mesh *mesh, const int *visible, int *room)
{
    int lone = 0, axis = ki_grid_axis(&mesh->grid, "tp");
    if (mesh->rank != 0 || axis < 0)
        return;
    unsigned mask = 1u << axis;
    int count = mesh->grid.sizes[axis];
    for (int rank = 0; rank < mesh->grid.world && count > 1; rank++) {
        if (visible[rank] != 1)
            continue;
        ki_grid_members(&mesh->grid, mask, mesh->position_of[rank], room);
        lone += has_neighbour(mesh, room, count, rank);
    }
    if (lone > 0)
        ki_log(
            KITH_LOG_WARN,
            "mesh: tp is %d, and %d of %d ranks see one GPU alone while a rank of their tp group is on the same host: "
            "peer-to-peer and IPC between them may be off; let each rank see all GPUs of its node",
            count, lone, mesh->grid.world);
}
