/* examples/place.c - ranks on the GPUs of a machine that is described: tensor-parallel pairs on the widest links.
 *
 *     kith run -n 4 -- place                                  four A6000 with bridges that skip their neighbours
 *     kith run -n 8 -- place gpu001-topo.txt                  any description that kith topo reads
 *
 * Every rank reads the same description, computes the same placement, and says on which GPU it was started; the mesh
 * then gives it the position that is to have this GPU. Checks that each tensor-parallel group is one of the
 * placement's.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "example.h"
#include <string.h>

/* GPUs 0 and 3, and 1 and 2, are bridged: neighbours by number would talk over PCIe. */
static const char bridged[] =
    "{\"kith_topology\": 1, \"name\": \"bridged\", \"nvlink\": \"known\",\n"
    " \"gpus\": [{\"index\": 0, \"name\": \"A6000\"}, {\"index\": 1, \"name\": \"A6000\"},\n"
    "          {\"index\": 2, \"name\": \"A6000\"}, {\"index\": 3, \"name\": \"A6000\"}],\n"
    " \"links\": [[\"X\", \"NODE\", \"SYS\", \"NV4\"], [\"NODE\", \"X\", \"NV4\", \"SYS\"],\n"
    "           [\"SYS\", \"NV4\", \"X\", \"NODE\"], [\"NV4\", \"SYS\", \"NODE\", \"X\"]]}";

static kith_topology *read_machine(int argc, char **argv)
{
    kith_topology *topology;
    const char *const *paths = (const char *const *)(argv + 1);
    if (argc > 1)
        must(kith_topology_load(paths, (size_t)(argc - 1), NULL, &topology), "kith_topology_load");
    else
        must(kith_topology_parse("bridged", bridged, strlen(bridged), NULL, &topology), "kith_topology_parse");
    return topology;
}

/* Do the members of my group, by their GPUs, stand as a group in the report? Launched rank r runs on GPU r here. */
static int is_placed(const kith_group *group, const kith_axis_report *tp)
{
    for (int g = 0; g < tp->group_count; g++) {
        int same = 0;
        for (int i = 0; i < tp->size; i++)
            same += kith_group_world_rank(group, i) == tp->groups[g * tp->size + i];
        if (same == tp->size) return 1;
    }
    return 0;
}

int main(int argc, char **argv)
{
    kith_ctx *ctx;
    must(kith_init(NULL, &ctx), "kith_init");
    int size = kith_size(ctx), rank = kith_rank(ctx), is_right = 1;
    kith_topology *topology = read_machine(argc, argv);
    int gpus = kith_topology_gpu_count(topology);
    if (size != gpus) {
        if (rank == 0) printf("the machine has %d GPUs; start as many ranks\n", gpus);
    } else {
        kith_placement_options options = KITH_PLACEMENT_OPTIONS_INIT;
        kith_placement *placement;
        options.tp = gpus % 2 == 0 ? 2 : 1;
        must(kith_place(topology, &options, &placement), "kith_place");

        kith_mesh *mesh;
        kith_mesh_options placed = KITH_MESH_OPTIONS_INIT;
        const kith_mesh_axis axes[] = { { "tp", options.tp }, { "dp", 0 } };
        placed.devices = placement;
        placed.launched_gpu = rank; /* a trainer asks kith_topology_find_gpu() for its device's PCI address */
        must(kith_mesh_create(kith_world(ctx), axes, 2, &placed, &mesh), "kith_mesh_create");

        kith_group *tp = kith_mesh_group(mesh, "tp");
        is_right = is_placed(tp, kith_placement_axis(placement, "tp"));
        printf("GPU %d: tensor rank %d with GPU %d\n", rank, kith_group_rank(tp),
               kith_group_world_rank(tp, (kith_group_rank(tp) + 1) % kith_group_size(tp)));
        kith_placement_destroy(placement);
    }
    must(kith_agree(kith_world(ctx), is_right ? KITH_OK : KITH_ERR_INTERNAL), "a group is not where it was placed");
    kith_topology_destroy(topology);
    kith_finalize(ctx);
    return 0;
}
