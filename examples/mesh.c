/* examples/mesh.c - tensor, pipeline and data parallel groups of one job.
 *
 *     kith run -n 4 -- mesh             tp 2, pp 2, dp what remains
 *
 * Prints, for each rank, where it stands and who is in its groups; then adds up world ranks along each axis and checks
 * the sum against the coordinates.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "example.h"
#include <string.h>

static const char *const axis_names[] = { "tp", "pp", "dp" };
#define AXIS_COUNT (sizeof axis_names / sizeof axis_names[0])

/* Members of a group as "[0 1]". */
static void print_members(const kith_group *group, char *text, size_t text_nbytes)
{
    size_t used = 0;
    for (int r = 0; r < kith_group_size(group) && used < text_nbytes; r++)
        used += (size_t)snprintf(text + used, text_nbytes - used, "%s%d", r == 0 ? "[" : " ",
                                 kith_group_world_rank(group, r));
    if (used < text_nbytes) snprintf(text + used, text_nbytes - used, "]");
}

/* 1 when the sum of world ranks along the axis is what the members' numbers give. */
static int is_sum_right(kith_group *group)
{
    int64_t mine = kith_group_world_rank(group, kith_group_rank(group)), sum = 0, wanted = 0;
    for (int r = 0; r < kith_group_size(group); r++)
        wanted += kith_group_world_rank(group, r);
    must(kith_all_reduce(group, &mine, &sum, 1, KITH_INT64, KITH_SUM), "kith_all_reduce");
    return sum == wanted;
}

int main(void)
{
    kith_ctx *ctx;
    must(kith_init(NULL, &ctx), "kith_init");

    const kith_mesh_axis axes[] = { { "tp", kith_size(ctx) % 2 == 0 ? 2 : 1 },
                                    { "pp", kith_size(ctx) % 4 == 0 ? 2 : 1 },
                                    { "dp", 0 } };
    kith_mesh *mesh;
    must(kith_mesh_create(kith_world(ctx), axes, AXIS_COUNT, NULL, &mesh), "kith_mesh_create");

    char line[512];
    size_t used = (size_t)snprintf(line, sizeof line, "rank %d:", kith_rank(ctx));
    int is_right = 1;
    for (size_t a = 0; a < AXIS_COUNT; a++) {
        char members[96];
        kith_group *group = kith_mesh_group(mesh, axis_names[a]);
        print_members(group, members, sizeof members);
        used += (size_t)snprintf(line + used, sizeof line - used, " %s %d/%d %s", axis_names[a],
                                 kith_mesh_coord(mesh, axis_names[a]), kith_mesh_size(mesh, axis_names[a]), members);
        is_right &= is_sum_right(group);
    }
    printf("%s\n", line);

    must(kith_agree(kith_world(ctx), is_right ? KITH_OK : KITH_ERR_INTERNAL), "a sum is wrong");
    must(kith_mesh_destroy(mesh), "kith_mesh_destroy");
    must(kith_finalize(ctx), "kith_finalize");
    return EXIT_SUCCESS;
}
