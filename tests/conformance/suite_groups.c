/* tests/conformance/suite_groups.c - groups of every shape: world, half, reversed, odd and even, lists, size one,
 * split rules, dup, meshes; ranks are always ranks of the group.
 *
 * Buffers lie where memory.h says, but for agreements and scalars, which are values of the host by their signatures.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "harness.h"
#include "memory.h"

#include <string.h>

typedef struct cells {
    long sum;
    int told, mine, theirs;
} cells;

static void check_ring(const rank_info *info, kith_group *group, cells *c)
{
    int rank = kith_group_rank(group), size = kith_group_size(group);
    int to = (rank + 1) % size, from = (rank + size - 1) % size;
    c->mine = info->rank;
    c->theirs = -1;
    memory_push();
    REQUIRE_OK(kith_sendrecv(group, memory_at(&c->mine), 1, to, 3, memory_at(&c->theirs), 1, from, 3, KITH_INT32));
    memory_pull();
    REQUIRE(c->theirs == kith_group_world_rank(group, from));
}

/* Sum of world ranks over the group, broadcast from each end, ring of messages, all by group ranks. */
static void exercise(const rank_info *info, kith_group *group)
{
    int rank = kith_group_rank(group), size = kith_group_size(group);
    cells *c = (cells *)memory_alloc(sizeof *c);
    long wanted = 0;
    if (memory_is_device() && size > 1) /* alone there is nobody to be carried to */
        REQUIRE_TEXT(kith_group_device_backend(group), kith_group_device_backend(info->world));
    for (int i = 0; i < size; i++)
        wanted += kith_group_world_rank(group, i);
    REQUIRE(kith_group_world_rank(group, rank) == info->rank);
    REQUIRE(kith_group_rank_of_world(group, info->rank) == rank);
    c->sum = info->rank;
    memory_push();
    REQUIRE_OK(kith_all_reduce(group, memory_at(&c->sum), memory_at(&c->sum), 1, KITH_INT64, KITH_SUM));
    memory_pull();
    REQUIRE(c->sum == wanted);
    for (int root = 0; root<size; root += size> 1 ? size - 1 : 1) {
        c->told = rank == root ? 1000 + info->rank : -1;
        memory_push();
        REQUIRE_OK(kith_broadcast(group, memory_at(&c->told), 1, KITH_INT32, root));
        memory_pull();
        REQUIRE(c->told == 1000 + kith_group_world_rank(group, root));
    }
    check_ring(info, group, c);
    REQUIRE_OK(kith_barrier(group));
    memory_free(c);
}

static void test_lists(const rank_info *info)
{
    int n = info->size, list[64];
    kith_group *group = NULL;
    for (int shape = 0; shape < 5; shape++) {
        int count = 0;
        for (int i = 0; i < n; i++) {
            if (shape == 0 || (shape == 1 && i < (n + 1) / 2) || (shape == 3 && i % 2 == 0))
                list[count++] = i;
            else if (shape == 2)
                list[count++] = n - 1 - i;
            else if (shape == 4 && i == n - 1)
                list[count++] = i;
        }
        bool is_member = false;
        for (int i = 0; i < count; i++)
            is_member = is_member || list[i] == info->rank;
        REQUIRE_OK(kith_group_create(info->world, list, (size_t)count, NULL, &group));
        REQUIRE((group != NULL) == is_member);
        if (group != NULL)
            exercise(info, group);
        REQUIRE_OK(kith_group_destroy(group));
    }
}

/* World 6, {4,1,5}: broadcast from group rank 1 comes from world rank 1; a message to group rank 2 reaches world rank
 * 5. */
static void test_unsorted(const rank_info *info)
{
    if (info->size < 6)
        return;
    const int list[3] = { 4, 1, 5 };
    kith_group *group = NULL;
    REQUIRE_OK(kith_group_create(info->world, list, 3, NULL, &group));
    if (group == NULL)
        return;
    int *value = (int *)memory_alloc(sizeof *value), rank = -1;
    *value = info->rank * 10;
    memory_push();
    REQUIRE_OK(kith_broadcast(group, memory_at(value), 1, KITH_INT32, 1));
    memory_pull();
    REQUIRE(*value == 10);
    *value = info->rank * 100;
    memory_push();
    if (info->rank == 4)
        REQUIRE_OK(kith_send(group, memory_at(value), 1, KITH_INT32, 2, 0));
    if (info->rank == 5)
        REQUIRE_OK(kith_recv(group, memory_at(value), 1, KITH_INT32, 0, 0, NULL));
    memory_pull();
    REQUIRE(*value == (info->rank == 1 ? 100 : 400));
    memory_free(value);
    REQUIRE_OK(kith_group_translate_rank(group, 2, info->world, &rank));
    REQUIRE(rank == 5);
    REQUIRE_STATUS(kith_group_translate_rank(info->world, 0, group, &rank), KITH_ERR_INVALID_ARG);
    REQUIRE_OK(kith_group_destroy(group));
}

/* Colors {0,1,0,none,1}, keys {2,0,1,0,0}: order by key, then by old rank; "none" gets NULL. */
static void test_split(const rank_info *info)
{
    static const int colors[5] = { 0, 1, 0, KITH_NO_COLOR, 1 }, keys[5] = { 2, 0, 1, 0, 0 };
    static const int zero[2] = { 2, 0 }, one[2] = { 1, 4 };
    if (info->size < 5)
        return;
    kith_group *group = (kith_group *)&group;
    int color = info->rank < 5 ? colors[info->rank] : KITH_NO_COLOR, key = info->rank < 5 ? keys[info->rank] : 0;
    REQUIRE_OK(kith_group_split(info->world, color, key, NULL, &group));
    REQUIRE((group == NULL) == (color == KITH_NO_COLOR));
    for (int i = 0; group != NULL && i < 2; i++)
        REQUIRE(kith_group_world_rank(group, i) == (color == 0 ? zero[i] : one[i]));
    if (group != NULL)
        exercise(info, group);
    REQUIRE_OK(kith_group_destroy(group));
}

static void test_bad_creation(const rank_info *info)
{
    kith_group *group = NULL;
    int list[2] = { 0, 0 };
    REQUIRE_STATUS(kith_group_create(info->world, list, 0, NULL, &group), KITH_ERR_INVALID_ARG);
    if (info->size > 1)
        REQUIRE_STATUS(kith_group_create(info->world, list, 2, NULL, &group), KITH_ERR_INVALID_ARG);
    list[0] = info->size;
    REQUIRE_STATUS(kith_group_create(info->world, list, 1, NULL, &group), KITH_ERR_INVALID_ARG);
    /* one bad rank is everybody's error */
    list[0] = info->rank == info->size - 1 ? -1 : 0;
    REQUIRE_STATUS(kith_group_create(info->world, list, 1, NULL, &group), KITH_ERR_INVALID_ARG);
    REQUIRE_STATUS(kith_group_split(info->world, -5, 0, NULL, &group), KITH_ERR_INVALID_ARG);
    kith_group_options options = KITH_GROUP_OPTIONS_INIT;
    options.backend = "no_such_backend";
    REQUIRE_STATUS(kith_group_dup(info->world, &options, &group), KITH_ERR_INVALID_ARG);
    if (info->size > 1) { /* ranks that disagree */
        list[0] = info->rank == 0 ? 0 : 1;
        REQUIRE_STATUS(kith_group_create(info->world, list, 1, NULL, &group), KITH_ERR_MISMATCH);
    }
    exercise(info, info->world); /* still fine after all that */
}

static void test_dup_and_handles(const rank_info *info)
{
    kith_group *dup = NULL;
    REQUIRE_OK(kith_group_dup(info->world, NULL, &dup));
    exercise(info, dup);
    REQUIRE_OK(kith_group_destroy(dup));
    REQUIRE_STATUS(kith_group_destroy(dup), KITH_ERR_INVALID_ARG);
    REQUIRE_STATUS(kith_barrier(dup), KITH_ERR_INVALID_ARG);
    REQUIRE_STATUS(kith_barrier(NULL), KITH_ERR_INVALID_ARG);
    REQUIRE_OK(kith_group_destroy(NULL));
    REQUIRE_STATUS(kith_group_destroy(info->world), KITH_ERR_INVALID_ARG);
}

static void test_mesh(const rank_info *info)
{
    if (info->size % 4 != 0)
        return;
    const kith_mesh_axis axes[] = { { "tp", 2 }, { "pp", 2 }, { "dp", 0 } };
    kith_mesh_options options = KITH_MESH_OPTIONS_INIT;
    options.products = "tp-pp,dp-tp";
    kith_mesh *mesh = NULL;
    REQUIRE_OK(kith_mesh_create(info->world, axes, 3, &options, &mesh));
    static const char *const names[] = { "tp", "pp", "dp", "tp-pp", "pp-tp", "dp-tp", "tp-dp" };
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        kith_group *group = kith_mesh_group(mesh, names[i]);
        REQUIRE(group != NULL && kith_group_size(group) == kith_mesh_size(mesh, names[i]));
        exercise(info, group);
    }
    REQUIRE(kith_mesh_coord(mesh, "tp") == info->rank % 2);
    REQUIRE(kith_mesh_coord(mesh, "pp") == info->rank / 2 / (info->size / 4));
    kith_group *embed = kith_mesh_group(mesh, "embed");
    REQUIRE(embed != NULL && kith_group_size(embed) == 2);
    exercise(info, embed);
    REQUIRE(kith_mesh_group(mesh, "cp-pp") == NULL && kith_mesh_group(mesh, "xx") == NULL);
    REQUIRE_OK(kith_mesh_destroy(mesh));
    const kith_mesh_axis bad[] = { { "tp", 3 }, { "pp", 5 } };
    REQUIRE_STATUS(kith_mesh_create(info->world, bad, 2, NULL, &mesh), KITH_ERR_INVALID_ARG);
}

/* A fresh group on which only two ranks talk. */
static void test_two_of_four(const rank_info *info)
{
    if (info->size < 4)
        return;
    kith_group *group = NULL;
    int *value = (int *)memory_alloc(sizeof *value);
    *value = info->rank;
    memory_push();
    REQUIRE_OK(kith_group_dup(info->world, NULL, &group));
    if (info->rank == 1)
        REQUIRE_OK(kith_send(group, memory_at(value), 1, KITH_INT32, 3, 9));
    if (info->rank == 3)
        REQUIRE_OK(kith_recv(group, memory_at(value), 1, KITH_INT32, 1, 9, NULL));
    memory_pull();
    REQUIRE(*value == (info->rank == 3 ? 1 : info->rank));
    memory_free(value);
    REQUIRE_OK(kith_group_destroy(group));
}

static void test_agree(const rank_info *info)
{
    REQUIRE_OK(kith_agree(info->world, KITH_OK));
    kith_status mine = info->rank == info->size - 1 ? KITH_ERR_IO : KITH_OK;
    REQUIRE_STATUS(kith_agree(info->world, mine), KITH_ERR_IO);
    double x = info->rank;
    REQUIRE_OK(kith_all_reduce_scalar(info->world, &x, KITH_MAX));
    REQUIRE(x == info->size - 1);
}

void suite_groups(rank_info *info)
{
    REQUIRE(info->size <= 64);
    memory_begin(info);
    exercise(info, info->world);
    test_lists(info);
    test_unsorted(info);
    test_split(info);
    test_dup_and_handles(info);
    test_mesh(info);
    test_two_of_four(info);
    test_agree(info);
    test_bad_creation(info);
    memory_end();
}
