/* tests/conformance/cases_choice.c - which algorithm runs, how one is told, and settings that differ between ranks.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "cases.h"

#include <stdlib.h>
#include <string.h>

static void join(rank_info *info, const kith_setting *settings, size_t count, kith_status wanted)
{
    kith_init_options options = KITH_INIT_OPTIONS_INIT;
    options.settings = settings;
    options.setting_count = count;
    REQUIRE_STATUS(join_ranks(info, &options, &info->ctx), wanted);
    info->world = wanted == KITH_OK ? kith_world(info->ctx) : NULL;
}

static void expect_algorithm(const rank_info *info, kith_coll_kind kind, size_t count, const char *wanted)
{
    const char *name = NULL;
    REQUIRE_OK(kith_coll_algorithm(info->world, kind, count, KITH_F32, KITH_SUM, &name, NULL));
    if (strcmp(name, wanted) != 0)
        rank_fail(__FILE__, __LINE__, "%s of %zu: wanted %s, got %s", kith_coll_name(kind), count, wanted, name);
}

static void expect_sum(const rank_info *info, size_t count)
{
    int *x = (int *)calloc(count, sizeof *x), n = info->size;
    for (size_t i = 0; i < count; i++)
        x[i] = (int)i + info->rank;
    REQUIRE_OK(kith_all_reduce(info->world, x, x, count, KITH_INT32, KITH_SUM));
    for (size_t i = 0; i < count; i++)
        REQUIRE(x[i] == n * (int)i + n * (n - 1) / 2);
    free(x);
}

/* ---- forced and impossible: an error on all ranks, before anything is sent, and no other algorithm instead ---- */

static void case_forced_impossible(rank_info *info)
{
    static const kith_setting settings[] = { { "algo", "all_gather=neighbor_exchange,all_reduce=ring" },
                                             { "deterministic", "off" } };
    int x = info->rank, all[64];
    const char *name = "untouched";
    REQUIRE(info->size % 2 == 1 && info->size > 1 && info->size <= 63);
    join(info, settings, 2, KITH_OK);
    for (int i = 0; i < 64; i++)
        all[i] = -1;
    REQUIRE_STATUS(kith_all_gather(info->world, &x, all, 1, KITH_INT32), KITH_ERR_UNSUPPORTED);
    REQUIRE_DETAIL("neighbor_exchange");
    REQUIRE_DETAIL("bruck"); /* one of those that can */
    REQUIRE(all[0] == -1);
    REQUIRE_STATUS(kith_coll_algorithm(info->world, KITH_ALL_GATHER, 1, KITH_INT32, KITH_SUM, &name, NULL),
                   KITH_ERR_UNSUPPORTED);
    REQUIRE(strcmp(name, "untouched") == 0);
    REQUIRE_STATUS(kith_coll_query(info->world, KITH_ALL_GATHER, KITH_INT32, KITH_SUM), KITH_ERR_UNSUPPORTED);
    REQUIRE_OK(kith_coll_query(info->world, KITH_ALL_GATHER_V, KITH_INT32, KITH_SUM));
    REQUIRE_OK(kith_group_status(info->world)); /* nothing was sent: the group lives */
    expect_algorithm(info, KITH_ALL_REDUCE, 100, "ring");
    expect_sum(info, 1000);
    REQUIRE_OK(kith_finalize(info->ctx));
}

static int run_forced_impossible(run_options *options)
{
    options->joins_itself = true;
    return run_ranks(options, case_forced_impossible, NULL);
}

/* An order that the algorithm does not keep, and a mode that asks for it: not possible either. */
static void case_forced_order(rank_info *info)
{
    static const kith_setting settings[] = { { "algo", "all_reduce=ring" }, { "deterministic", "on" } };
    float x = 1;
    REQUIRE(info->size > 2);
    join(info, settings, 2, KITH_OK);
    REQUIRE_STATUS(kith_all_reduce(info->world, &x, &x, 1, KITH_F32, KITH_SUM), KITH_ERR_UNSUPPORTED);
    REQUIRE_DETAIL("ring");
    REQUIRE_DETAIL("deterministic");
    REQUIRE(x == 1);
    REQUIRE_OK(kith_finalize(info->ctx));
}

static int run_forced_order(run_options *options)
{
    options->joins_itself = true;
    return run_ranks(options, case_forced_order, NULL);
}

/* ---- told ---- */

/* A name for every collective and size, equal on all ranks; forced ones by their own name. */
static void case_algorithm_told(rank_info *info)
{
    static const size_t counts[] = { 0, 1, 1000, 100000, 10000000 };
    for (int kind = 0; kind < KITH_COLL_COUNT; kind++) {
        for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
            const char *name = NULL;
            char mine[64] = "", first[64];
            int is_deterministic = -1;
            REQUIRE_OK(kith_coll_algorithm(info->world, (kith_coll_kind)kind, counts[c], KITH_BF16, KITH_SUM, &name,
                                           &is_deterministic));
            REQUIRE(name != NULL && name[0] != '\0' && (is_deterministic == 0 || is_deterministic == 1));
            snprintf(mine, sizeof mine, "%s %d", name, is_deterministic);
            memcpy(first, mine, sizeof first);
            REQUIRE_OK(kith_broadcast(info->world, first, sizeof first, KITH_UINT8, 0));
            REQUIRE(strcmp(first, mine) == 0);
        }
    }
    const char *name = NULL;
    REQUIRE_STATUS(kith_coll_algorithm(info->world, KITH_ALL_REDUCE, 1, KITH_F32, KITH_BAND, &name, NULL),
                   KITH_ERR_UNSUPPORTED);
    REQUIRE_STATUS(kith_coll_algorithm(info->world, KITH_ALL_REDUCE, 1, KITH_F32, KITH_SUM, NULL, NULL),
                   KITH_ERR_INVALID_ARG);
    REQUIRE_STATUS(
        kith_coll_algorithm(info->world, (kith_coll_kind)KITH_COLL_COUNT, 1, KITH_F32, KITH_SUM, &name, NULL),
        KITH_ERR_INVALID_ARG);
}

/* ---- different on one rank ---- */

/* The tables of two ranks differ: nobody gets a group. */
static char table_path[300];

static void case_table_differs(rank_info *info)
{
    const kith_setting setting = { "algo_table", info->rank == 1 ? table_path : "" };
    join(info, &setting, 1, KITH_ERR_MISMATCH);
    REQUIRE_DETAIL("disagree");
}

static int run_table_differs(run_options *options)
{
    char folder[256];
    case_folder_make(folder, sizeof folder);
    snprintf(table_path, sizeof table_path, "%s/table.json", folder);
    FILE *file = fopen(table_path, "w");
    if (file == NULL)
        abort();
    fputs("{ \"version\": 1, \"rules\": [ { \"collective\": \"all_reduce\", \"algorithm\": \"linear\" } ] }", file);
    fclose(file);
    options->joins_itself = true;
    int failed = run_ranks(options, case_table_differs, NULL);
    case_folder_remove(folder);
    return failed;
}

/* What one rank's machine is like does not change what is chosen nor a bit of the result: other kernels, other
 * stores, other waiting. */
static void case_machines_differ(rank_info *info)
{
    enum { COUNT = 70001 };
    static const kith_setting other[] = { { "kernels", "generic" }, { "stream_nbytes", "1k" }, { "spin", "0" } };
    join(info, other, info->rank % 2 == 1 ? 3 : 0, KITH_OK);
    float *x = (float *)malloc(COUNT * sizeof *x), *first = (float *)malloc(COUNT * sizeof *first);
    for (int i = 0; i < COUNT; i++)
        x[i] = (float)((i * 7919 + info->rank * 104729) % 1000003) * (i % 3 == 0 ? 1e-3f : 1e4f);
    REQUIRE_OK(kith_all_reduce(info->world, x, x, COUNT, KITH_F32, KITH_AVG));
    memcpy(first, x, COUNT * sizeof *x);
    REQUIRE_OK(kith_broadcast(info->world, first, COUNT, KITH_F32, 0));
    REQUIRE(memcmp(first, x, COUNT * sizeof *x) == 0);
    free(x);
    free(first);
    REQUIRE_OK(kith_finalize(info->ctx));
}

static int run_machines_differ(run_options *options)
{
    options->joins_itself = true;
    return run_ranks(options, case_machines_differ, NULL);
}

/* Options of a group that one rank alone gives wrongly, or otherwise: all hear of it, and soon. */
static void case_group_options_differ(rank_info *info)
{
    kith_group *group = NULL;
    kith_group_options options = KITH_GROUP_OPTIONS_INIT;
    bool is_odd = info->rank == 1;
    REQUIRE(info->size >= 2);
    options.struct_size = is_odd ? 3 : sizeof options;
    REQUIRE_STATUS(kith_group_dup(info->world, &options, &group), KITH_ERR_INVALID_ARG);
    REQUIRE_DETAIL("struct_size");
    REQUIRE_STATUS(kith_group_split(info->world, 0, 0, &options, &group), KITH_ERR_INVALID_ARG);
    options.struct_size = sizeof options;
    options.timeout_ms = is_odd ? 5000 : 6000;
    REQUIRE_STATUS(kith_group_dup(info->world, &options, &group), KITH_ERR_MISMATCH);
    options.timeout_ms = 0;
    options.is_check = is_odd;
    REQUIRE_STATUS(kith_group_dup(info->world, &options, &group), KITH_ERR_MISMATCH);
    REQUIRE_STATUS(is_odd ? kith_group_split(info->world, 0, 0, NULL, &group)
                          : kith_group_dup(info->world, NULL, &group),
                   KITH_ERR_MISMATCH);
    REQUIRE_DETAIL("at the same time");
    REQUIRE(group == NULL);
    kith_mesh *mesh = NULL;
    kith_mesh_options mesh_options = KITH_MESH_OPTIONS_INIT;
    const kith_mesh_axis axis = { "tp", 0 };
    mesh_options.struct_size = is_odd ? 1 : sizeof mesh_options;
    REQUIRE_STATUS(kith_mesh_create(info->world, &axis, 1, &mesh_options, &mesh), KITH_ERR_INVALID_ARG);
    mesh_options.struct_size = sizeof mesh_options;
    mesh_options.backends = is_odd ? "pt=shm" : NULL;
    REQUIRE_STATUS(kith_mesh_create(info->world, &axis, 1, &mesh_options, &mesh), KITH_ERR_INVALID_ARG);
    REQUIRE_DETAIL("'pt'");
    REQUIRE(mesh == NULL);
    expect_sum(info, 10);
}

/* Nothing can be made out of a group that was aborted, and nobody waits to hear it. */
static void case_creation_after_abort(rank_info *info)
{
    kith_group *group = NULL, *child = NULL;
    kith_mesh *mesh = NULL;
    const kith_mesh_axis axis = { "tp", 0 };
    const int first = 0;
    void *memory = NULL;
    REQUIRE_OK(kith_group_dup(info->world, NULL, &group));
    REQUIRE_OK(kith_barrier(info->world));
    if (info->rank == 0) { /* alone: the others never come */
        REQUIRE_OK(kith_group_abort(group));
        REQUIRE_STATUS(kith_group_dup(group, NULL, &child), KITH_ERR_ABORTED);
        REQUIRE_STATUS(kith_group_split(group, 0, 0, NULL, &child), KITH_ERR_ABORTED);
        REQUIRE_STATUS(kith_group_create(group, &first, 1, NULL, &child), KITH_ERR_ABORTED);
        REQUIRE_STATUS(kith_mesh_create(group, &axis, 1, NULL, &mesh), KITH_ERR_ABORTED);
        REQUIRE_STATUS(kith_mem_alloc(group, 4096, &memory), KITH_ERR_ABORTED);
        REQUIRE(child == NULL && mesh == NULL && memory == NULL);
    }
    REQUIRE_OK(kith_barrier(info->world));
    REQUIRE_OK(kith_group_destroy(group));
}

/* Groups over different backends of one context take turns. What a backend has taken from a finished operation must
 * leave while its rank already waits in the other group: nobody has a deadline here. */
static void case_backends_take_turns(rank_info *info)
{
    enum { COUNT = 1 << 16, ROUNDS = 40, BURST = 48, BLOCK = 1 << 10 };
    kith_group *group = NULL;
    kith_group_options options = KITH_GROUP_OPTIONS_INIT;
    options.backend = "shm";
    options.timeout_ms = 0;
    uint16_t *values = (uint16_t *)calloc(COUNT, sizeof *values);
    REQUIRE(values != NULL);
    REQUIRE_OK(kith_group_dup(info->world, &options, &group));
    for (int round = 0; round < ROUNDS; round++) {
        const int root = round % info->size;
        values[0] = values[COUNT - 1] = info->rank == root ? 0x3f80 : 0; /* 1 */
        REQUIRE_OK(kith_all_reduce(info->world, values, values, COUNT, KITH_BF16, KITH_SUM)); /* MPI has no bf16 */
        REQUIRE(values[0] == 0x3f80 && values[COUNT - 1] == 0x3f80);
        REQUIRE_OK(kith_barrier(group));
        for (int from = 0; from < info->size; from++)
            for (int i = 0; i < BURST && from != root; i++) {
                if (info->rank == from)
                    REQUIRE_OK(kith_send(info->world, values + i * BLOCK, BLOCK, KITH_BF16, root, i));
                else if (info->rank == root)
                    REQUIRE_OK(kith_recv(info->world, values + i * BLOCK, BLOCK, KITH_BF16, from, i, NULL));
            }
        REQUIRE_OK(kith_barrier(group));
    }
    free(values);
    REQUIRE_OK(kith_group_destroy(group));
}

const conformance_case cases_choice[] = {
    { "forced_impossible", NULL, run_forced_impossible },
    { "forced_order", NULL, run_forced_order },
    { "algorithm_told", case_algorithm_told, NULL },
    { "table_differs", NULL, run_table_differs },
    { "machines_differ", NULL, run_machines_differ },
    { "group_options_differ", case_group_options_differ, NULL },
    { "creation_after_abort", case_creation_after_abort, NULL },
    { "backends_take_turns", case_backends_take_turns, NULL },
    { NULL, NULL, NULL },
};
