/* tests/topology/test_placed_mesh.c - a mesh made with the order of a placement puts tp groups on the chosen GPUs.
 *
 * Four ranks, launched on GPUs 0 to 3 (or backwards) of a machine whose bridges join 0 with 3 and 1 with 2. Each rank
 * says on which GPU it is; members of a tp group must be on one bridge.
 *
 * And what is noticed at the start of a job: ranks that run elsewhere than the placement has them, ranks of a tp group
 * that see one GPU each.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "conformance/harness.h"
#include "core/object.h"
#include "json_machines.h"
#include "machines.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

/* ---- does each rank run where it should? ---- */

/* Two nodes of two GPUs. */
static const char two_nodes[] =
    "{\"kith_topology\": 1, \"name\": \"pair\", \"nvlink\": \"known\", \"gpus\": "
    "[{\"index\": 0, \"pci\": \"0000:1b:00.0\"}, {\"index\": 1, \"pci\": \"0000:43:00.0\"}], "
    "\"links\": [[\"X\", \"NV4\"], [\"NV4\", \"X\"]], "
    "\"nodes\": [{\"name\": \"%s\", \"kind\": 0}, {\"name\": \"b.cluster\", \"kind\": 0}]}";
static const char first_gpu[] = "0000:1b:00.0", second_gpu[] = "00000000:43:00.0";

typedef struct start {
    kith_topology *topology;
    kith_placement *placement;
    const char *host, *pci; /* where the rank runs when all is right */
} start;

static start begin(const rank_info *info, const char *first_node)
{
    char text[sizeof two_nodes + 256];
    start s = { .host = info->rank < 2 ? first_node : "b", .pci = info->rank % 2 == 0 ? first_gpu : second_gpu };
    snprintf(text, sizeof text, two_nodes, first_node);
    kith_placement_options o = KITH_PLACEMENT_OPTIONS_INIT;
    o.tp = 2;
    REQUIRE_OK(kith_topology_parse("two nodes", text, strlen(text), NULL, &s.topology));
    REQUIRE_OK(kith_place(s.topology, &o, &s.placement));
    return s;
}

static void end(start *s)
{
    kith_placement_destroy(s->placement);
    kith_topology_destroy(s->topology);
}

static void expect_seats(rank_info *info, const start *s, const char *host, const char *pci, kith_status wanted,
                         const char *words)
{
    REQUIRE_STATUS(kith_group_check_placement(info->world, s->topology, s->placement, host, pci), wanted);
    if (wanted != KITH_OK && strstr(kith_error_detail(), words) == NULL)
        rank_fail(__FILE__, __LINE__, "wanted '%s', got '%s'", words, kith_error_detail());
}

static void check_seats(rank_info *info)
{
    start s = begin(info, "a");
    int rank = info->rank;
    expect_seats(info, &s, s.host, s.pci, KITH_OK, "");
    expect_seats(info, &s, rank < 2 ? "A.cluster" : "b.cluster", s.pci, KITH_OK, "");
    expect_seats(info, &s, s.host, NULL, KITH_OK, ""); /* hosts alone */
    /* the launcher dealt ranks out one by one: 0 and 2 on a, 1 and 3 on b */
    expect_seats(info, &s, rank % 2 == 0 ? "a" : "b", rank < 2 ? first_gpu : second_gpu, KITH_ERR_MISMATCH,
                 "rank 1 runs on b, GPU 0000:1b:00.0, the placement has it on a, GPU 0000:43:00.0; 2 of 4");
    /* the hosts the other way round */
    expect_seats(info, &s, rank < 2 ? "b" : "a", s.pci, KITH_ERR_MISMATCH,
                 "rank 0 runs on b, GPU 0000:1b:00.0, the placement has it on a, GPU 0000:1b:00.0; 4 of 4");
    /* the right hosts, and a local rank that counts GPUs in another order */
    expect_seats(info, &s, s.host,
                 rank < 2    ? s.pci
                 : rank == 2 ? second_gpu
                             : first_gpu,
                 KITH_ERR_MISMATCH,
                 "rank 2 runs on b, GPU 00000000:43:00.0, the placement has it on b.cluster, GPU 0000:1b:00.0; 2 of 4");
    expect_seats(info, &s, rank == 3 ? "c" : s.host, NULL, KITH_ERR_MISMATCH,
                 "rank 3 runs on c, the placement has it on b.cluster, GPU 0000:43:00.0; 1 of 4");
    expect_seats(info, &s, rank == 3 ? "b.elsewhere" : s.host, s.pci, KITH_ERR_MISMATCH, "rank 3 runs on b.elsewhere");
    expect_seats(info, &s, s.host, s.pci, KITH_OK, ""); /* and the group can go on */
    end(&s);
}

/* Without a name it is this machine's. */
static void check_own_host(rank_info *info)
{
    char name[256] = "";
    REQUIRE(gethostname(name, sizeof name - 1) == 0);
    start s = begin(info, name);
    expect_seats(info, &s, info->rank < 2 ? NULL : "b", s.pci, KITH_OK, "");
    expect_seats(info, &s, NULL, s.pci, KITH_ERR_MISMATCH, "rank 2 runs on ");
    end(&s);
}

/* What is wrong on one rank is everybody's answer. */
static void check_seat_refusals(rank_info *info)
{
    start s = begin(info, "a"), other = begin(info, "a");
    kith_placement_options o = KITH_PLACEMENT_OPTIONS_INIT;
    kith_placement *fewer;
    const bool is_last = info->rank == 3;
    o.tp = 2;
    o.dp = 1;
    REQUIRE_OK(kith_place(s.topology, &o, &fewer));
    expect_seats(info, &s, s.host, is_last ? "first" : s.pci, KITH_ERR_INVALID_ARG, "'first' is no PCI address");
    expect_seats(info, &s, is_last ? "" : s.host, s.pci, KITH_ERR_INVALID_ARG, "the host has 0 characters");
    kith_placement *mine = s.placement;
    s.placement = is_last ? fewer : mine;
    expect_seats(info, &s, s.host, s.pci, KITH_ERR_INVALID_ARG, "the placement has 2 ranks, the group 4");
    s.placement = is_last ? NULL : mine;
    expect_seats(info, &s, s.host, s.pci, KITH_ERR_INVALID_ARG, "is NULL");
    s.placement = is_last ? other.placement : mine;
    expect_seats(info, &s, s.host, s.pci, KITH_ERR_INVALID_ARG, "found on another topology");
    s.placement = mine;
    expect_seats(info, &s, s.host, s.pci, KITH_OK, "");
    kith_placement_destroy(fewer);
    end(&other);
    end(&s);
}

/* All run where their own placement has them, and these differ. */
static void check_different_placements(rank_info *info)
{
    scene s = open_scene("ascending");
    kith_placement_options o = KITH_PLACEMENT_OPTIONS_INIT;
    kith_placement *kept;
    o.tp = 2;
    o.keep_order = true;
    REQUIRE_OK(kith_place(s.topology, &o, &kept));
    const char *host = kith_topology_node(s.topology, 0)->name;
    const kith_placement *mine = info->rank == 2 ? kept : s.placement;
    REQUIRE_OK(kith_group_check_placement(info->world, s.topology, s.placement, host, NULL));
    REQUIRE_STATUS(kith_group_check_placement(info->world, s.topology, mine, host, NULL), KITH_ERR_MISMATCH);
    REQUIRE(strstr(kith_error_detail(), "ranks 0 and 2 have different placements") != NULL);
    kith_placement_destroy(kept);
    close_scene(&s);
}

/* ---- ranks that see one GPU ---- */

static int warnings;

static void count_warnings(void *arg, kith_log_level level, const char *line)
{
    (void)arg;
    warnings += level == KITH_LOG_WARN && strstr(line, "see one GPU alone") != NULL;
}

static void expect_warning(rank_info *info, const kith_mesh_axis *sizes, int visible, bool is_wanted)
{
    kith_mesh *mesh;
    kith_mesh_options options = KITH_MESH_OPTIONS_INIT;
    options.visible_gpus = visible;
    warnings = 0;
    REQUIRE_OK(kith_mesh_create(info->world, sizes, 2, &options, &mesh));
    int wanted = is_wanted && info->rank == 0;
    if (warnings != wanted)
        rank_fail(__FILE__, __LINE__, "tp %d, %d visible: wanted %d warnings, got %d", sizes[0].size, visible, wanted,
                  warnings);
    REQUIRE_OK(kith_mesh_destroy(mesh));
}

static void check_visible(rank_info *info)
{
    static const kith_mesh_axis split[] = { { "tp", 2 }, { "dp", 2 } }, whole[] = { { "tp", 1 }, { "dp", 4 } };
    char own[2] = { (char)('0' + info->rank), '\0' };
    unsetenv("CUDA_VISIBLE_DEVICES");
    unsetenv("ROCR_VISIBLE_DEVICES");
    unsetenv("HIP_VISIBLE_DEVICES");
    unsetenv("ZE_AFFINITY_MASK");
    kith_log_set(count_warnings, NULL, KITH_LOG_WARN);
    expect_warning(info, split, 0, false); /* nothing says so */
    expect_warning(info, split, 1, true);
    expect_warning(info, split, 4, false);
    expect_warning(info, whole, 1, false); /* nobody talks to a peer here that often */
    setenv("CUDA_VISIBLE_DEVICES", own, 1);
    expect_warning(info, split, 0, true);
    expect_warning(info, split, 4, false); /* the application knows better */
    setenv("CUDA_VISIBLE_DEVICES", "0,1,2,3", 1);
    expect_warning(info, split, 0, false);
    setenv("CUDA_VISIBLE_DEVICES", "", 1);
    expect_warning(info, split, 0, false); /* no GPU at all: a job of CPUs */
    unsetenv("CUDA_VISIBLE_DEVICES");
    setenv("ROCR_VISIBLE_DEVICES", "0,1,2,3", 1);
    setenv("HIP_VISIBLE_DEVICES", own, 1);
    expect_warning(info, split, 0, true);
    kith_log_set(NULL, NULL, KITH_LOG_NONE);
}

static void test_ranks_tell_where_they_run(void **state)
{
    (void)state;
    const run_options options = { .mode = LAUNCH_FORK, .size = RANKS, .backend = "shm", .timeout_s = 60 };
    assert_int_equal(run_ranks(&options, check_seats, NULL), 0);
    assert_int_equal(run_ranks(&options, check_own_host, NULL), 0);
    assert_int_equal(run_ranks(&options, check_seat_refusals, NULL), 0);
    assert_int_equal(run_ranks(&options, check_different_placements, NULL), 0);
}

static void test_ranks_that_see_one_gpu(void **state)
{
    (void)state;
    run_options options = { .mode = LAUNCH_FORK, .size = RANKS, .backend = "shm", .timeout_s = 60 };
    assert_int_equal(run_ranks(&options, check_visible, NULL), 0);
}

/* Ranks on different hosts have no peer-to-peer to lose. */
static void test_ranks_of_different_hosts(void **state)
{
    (void)state;
    static const kith_mesh_axis sizes[] = { { "dp", 2 }, { "tp", 2 } };
    int order[] = { 0, 1, 2, 3 }, visible[] = { 1, 1, 1, 1 }, room[RANKS];
    int nodes[][RANKS] = { { 0, 1, 2, 3 }, { 0, 0, 1, 1 }, { 0, 1, 0, 2 } }; /* tp groups are 0, 2 and 1, 3 */
    static const int wanted[] = { 0, 0, 1 };
    for (int i = 0; i < 3; i++) {
        kith_group base = { .node_of = nodes[i] };
        kith_mesh mesh = { .base = &base, .placement = order, .position_of = order };
        assert_int_equal(ki_grid_init(sizes, 2, "dp-tp", RANKS, &mesh.grid), KITH_OK);
        warnings = 0;
        kith_log_set(count_warnings, NULL, KITH_LOG_WARN);
        ki_mesh_warn_visible(&mesh, visible, room);
        kith_log_set(NULL, NULL, KITH_LOG_NONE);
        assert_int_equal(warnings, wanted[i]);
    }
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
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_ascending),
                                        cmocka_unit_test(test_backwards),
                                        cmocka_unit_test(test_refusals),
                                        cmocka_unit_test(test_ranks_tell_where_they_run),
                                        cmocka_unit_test(test_ranks_that_see_one_gpu),
                                        cmocka_unit_test(test_ranks_of_different_hosts) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
