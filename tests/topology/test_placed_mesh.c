/* tests/topology/test_placed_mesh.c - a mesh made with the order of a placement puts tp groups on the chosen GPUs.
 *
 * Four ranks, launched on GPUs 0 to 3 (or backwards) of a machine whose bridges join 0 with 3 and 1 with 2. Each rank
 * says on which GPU it is; members of a tp group must be on one bridge.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "conformance/harness.h"
#include "machines.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { RANKS = 4 };

static const char bridges[] = "X SYS SYS NV4 SYS X NV4 SYS SYS NV4 X SYS NV4 SYS SYS X";

/* Numbers that go out from every rank of a group and come back to all. */
static void gather(kith_group *group, int32_t mine, int32_t *all)
{
    REQUIRE_OK(kith_all_gather(group, &mine, all, 1, KITH_INT32));
}

typedef struct scene {
    kith_topology *topology;
    kith_placement *placement;
    int launched[RANKS];
} scene;

static scene open_scene(const char *way)
{
    scene s = { .topology = machine_of_matrix(RANKS, bridges, NULL) };
    kith_placement_options o = KITH_PLACEMENT_OPTIONS_INIT;
    for (int r = 0; r < RANKS; r++)
        s.launched[r] = strcmp(way, "backwards") == 0 ? RANKS - 1 - r : r;
    o.tp = 2;
    REQUIRE_OK(kith_place(s.topology, &o, &s.placement));
    return s;
}

static void close_scene(scene *s)
{
    kith_placement_destroy(s->placement);
    kith_topology_destroy(s->topology);
}

static const kith_mesh_axis axes[] = { { "tp", 2 }, { "dp", 2 } };

static void check_groups(rank_info *info, const scene *s, const kith_mesh_options *options)
{
    kith_mesh *mesh;
    int32_t gpus[2];
    REQUIRE_OK(kith_mesh_create(info->world, axes, 2, options, &mesh));
    gather(kith_mesh_group(mesh, "tp"), s->launched[info->rank], gpus);
    REQUIRE(gpus[0] + gpus[1] == RANKS - 1); /* {0,3} or {1,2} */
    REQUIRE(gpus[0] < gpus[1]);              /* in the placement's order */
    gather(kith_mesh_group(mesh, "dp"), s->launched[info->rank], gpus);
    REQUIRE(gpus[0] + gpus[1] != RANKS - 1);
    REQUIRE_OK(kith_mesh_destroy(mesh));
}

static void check_mesh(rank_info *info)
{
    scene s = open_scene(info->argument);
    int order[RANKS];
    kith_mesh_options options = KITH_MESH_OPTIONS_INIT;
    REQUIRE_OK(kith_placement_mesh_order(s.placement, s.launched, order));
    options.placement = order;
    check_groups(info, &s, &options);
    options.placement = NULL; /* the same by letting the ranks tell */
    options.devices = s.placement;
    options.launched_gpu = s.launched[info->rank];
    check_groups(info, &s, &options);
    close_scene(&s);
}

/* What is wrong on one rank is the same error on all, and the world can go on. */
static void check_refusals(rank_info *info)
{
    scene s = open_scene(info->argument);
    const kith_mesh_axis wide[] = { { "tp", 2 }, { "dp", 1 } };
    const int identity[RANKS] = { 0, 1, 2, 3 };
    kith_mesh *mesh = NULL;
    kith_mesh_options options = KITH_MESH_OPTIONS_INIT;
    options.devices = s.placement;
    options.launched_gpu = info->rank == 3 ? 0 : info->rank; /* GPU 0 twice, GPU 3 never */
    REQUIRE(kith_mesh_create(info->world, axes, 2, &options, &mesh) == KITH_ERR_INVALID_ARG);
    options.launched_gpu = info->rank == 2 ? -1 : info->rank; /* one does not tell */
    REQUIRE(kith_mesh_create(info->world, axes, 2, &options, &mesh) == KITH_ERR_INVALID_ARG);
    REQUIRE(strstr(kith_error_detail(), "launched_gpu") != NULL);
    options.launched_gpu = info->rank;
    options.placement = identity; /* both */
    REQUIRE(kith_mesh_create(info->world, axes, 2, &options, &mesh) == KITH_ERR_INVALID_ARG);
    options.placement = NULL;
    options.devices = info->rank == 1 ? NULL : s.placement; /* one rank without */
    REQUIRE(kith_mesh_create(info->world, axes, 2, &options, &mesh) == KITH_ERR_MISMATCH);
    options.devices = s.placement;
    REQUIRE(kith_mesh_create(info->world, wide, 2, &options, &mesh) == KITH_ERR_INVALID_ARG);
    const kith_mesh_axis turned[] = { { "dp", 2 }, { "tp", 2 } }, flat[] = { { "tp", 4 } };
    options.order = "dp-tp"; /* the right number of ranks, but other groups than were placed */
    REQUIRE(kith_mesh_create(info->world, turned, 2, &options, &mesh) == KITH_ERR_INVALID_ARG);
    options.order = NULL;
    REQUIRE(kith_mesh_create(info->world, flat, 1, &options, &mesh) == KITH_ERR_INVALID_ARG);
    options.launched_gpu = -1; /* none tells: ascending */
    check_groups(info, &s, &options);
    close_scene(&s);
}

static void run(const char *way, void (*check)(rank_info *))
{
    run_options options = { .mode = LAUNCH_FORK, .size = RANKS, .backend = "shm", .timeout_s = 60 };
    assert_int_equal(run_ranks(&options, check, way), 0);
}

static void test_ascending(void **state)
{
    (void)state;
    run("ascending", check_mesh);
}

static void test_backwards(void **state)
{
    (void)state;
    run("backwards", check_mesh);
}

static void test_refusals(void **state)
{
    (void)state;
    run("ascending", check_refusals);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_ascending), cmocka_unit_test(test_backwards),
                                        cmocka_unit_test(test_refusals) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
