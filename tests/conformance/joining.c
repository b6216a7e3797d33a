/* tests/conformance/joining.c - kith_init() when something is wrong: every rank gets the same status and a sentence.
 *
 *     joining [--case NAME]     all cases without the option
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#define _GNU_SOURCE
#include "harness.h"

#include <sched.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static kith_status init_with(rank_info *info, const kith_setting *settings, size_t count, int64_t connect_ms)
{
    kith_init_options options = KITH_INIT_OPTIONS_INIT;
    options.settings = settings;
    options.setting_count = count;
    options.connect_timeout_ms = connect_ms;
    return join_ranks(info, &options, &info->ctx);
}

/* Settings that must agree do not: all ranks hear which one. */
static void case_settings_differ(rank_info *info)
{
    const kith_setting a = { "algo", info->rank == 1 ? "ring" : "" };
    REQUIRE_STATUS(init_with(info, &a, 1, 0), KITH_ERR_MISMATCH);
    REQUIRE_DETAIL("algo=");
}

/* One rank's own settings are wrong before it can meet the others: it says so at once, the others name it at their
 * deadline. */
static void case_bad_setting(rank_info *info)
{
    const kith_setting bad = { "hier", info->rank == 1 ? "sideways" : "auto" };
    kith_status status = init_with(info, &bad, 1, 1500);
    if (info->rank == 1) {
        REQUIRE(status == KITH_ERR_INVALID_ARG);
        REQUIRE_DETAIL("auto");
    } else {
        REQUIRE(status == KITH_ERR_TIMEOUT);
        REQUIRE_DETAIL("missing world rank 1");
    }
}

static void case_unknown_setting(rank_info *info)
{
    const kith_setting bad = { "algoo", "ring" };
    REQUIRE_STATUS(init_with(info, &bad, 1, 1000), KITH_ERR_INVALID_ARG);
    REQUIRE_DETAIL("\"algo\"");
}

static void case_missing_rank(rank_info *info)
{
    if (info->rank == info->size - 1)
        return;
    REQUIRE_STATUS(init_with(info, NULL, 0, 1000), KITH_ERR_TIMEOUT);
    REQUIRE_DETAIL("did not come within 1000 ms");
    REQUIRE_DETAIL("missing world rank 2");
}

static void case_no_interface(rank_info *info)
{
    const kith_setting bad = { "ifname", "nope" };
    REQUIRE_STATUS(init_with(info, &bad, 1, 2000), KITH_ERR_INVALID_ARG);
    REQUIRE_DETAIL("KITH_IFNAME");
    REQUIRE_DETAIL("nope");
}

static void case_forced_unknown_algorithm(rank_info *info)
{
    const kith_setting bad = { "algo", "all_reduce=teleport" };
    REQUIRE_STATUS(init_with(info, &bad, 1, 1000), KITH_ERR_INVALID_ARG);
    REQUIRE_DETAIL("teleport");
    REQUIRE_DETAIL("rabenseifner");
}

static void case_backend_unknown(rank_info *info)
{
    kith_init_options options = KITH_INIT_OPTIONS_INIT;
    options.backend = info->rank == 0 ? "warp" : NULL;
    REQUIRE_STATUS(join_ranks(info, &options, &info->ctx), KITH_ERR_INVALID_ARG);
    REQUIRE_DETAIL("warp");
}

/* Shared memory that one rank cannot get is everybody's error, at once. */
static void case_fault_on_one_rank(rank_info *info)
{
    setenv("KITH_FAULT", "shm:1@1", 1);
    kith_status status = init_with(info, NULL, 0, 5000);
    unsetenv("KITH_FAULT");
    REQUIRE_STATUS(status, KITH_ERR_NO_RESOURCE);
    REQUIRE_DETAIL("refused by KITH_FAULT");
}

static void use_group(rank_info *info)
{
    kith_group *group = NULL;
    enum { COUNT = 300000 };
    float *x = (float *)malloc(COUNT * sizeof *x);
    REQUIRE_OK(kith_group_dup(kith_world(info->ctx), NULL, &group));
    for (int repeat = 0; repeat < 3; repeat++) {
        for (int i = 0; i < COUNT; i++)
            x[i] = (float)(i % 100 + info->rank);
        REQUIRE_OK(kith_all_reduce(group, x, x, COUNT, KITH_F32, KITH_SUM));
        for (int i = 0; i < COUNT; i++)
            REQUIRE(x[i] == (float)(info->size * (i % 100) + info->size * (info->size - 1) / 2));
    }
    free(x);
}

static int folder_entries(const char *folder)
{
    char command[600];
    snprintf(command, sizeof command, "ls -A '%s' | wc -l", folder);
    FILE *pipe = popen(command, "r");
    int count = -1;
    if (pipe == NULL || fscanf(pipe, "%d", &count) != 1)
        count = -1;
    if (pipe != NULL)
        pclose(pipe);
    return count;
}

static char tiny_folder[] = "/tmp/kith-tiny-XXXXXX";

/* A 1 MiB file system for shared memory and no process_vm_readv: everything still works, nothing is left behind. */
static void case_tiny_shm(rank_info *info)
{
    const kith_setting settings[] = { { "shm_memfd", "off" }, { "shm_dir", tiny_folder }, { "shm_cma", "off" } };
    REQUIRE_OK(init_with(info, settings, 3, 0));
    use_group(info);
    REQUIRE(folder_entries(tiny_folder) == 0);
    REQUIRE_OK(kith_finalize(info->ctx));
}

static void case_tiny_shm_killed(rank_info *info)
{
    const kith_setting settings[] = { { "shm_memfd", "off" }, { "shm_dir", tiny_folder } };
    REQUIRE_OK(init_with(info, settings, 2, 0));
    use_group(info);
    REQUIRE_OK(kith_barrier(kith_world(info->ctx)));
    kill(getpid(), 9);
}

/* Every allocation of the start fails once, on one rank: an error or success everywhere, no hang, no crash. */
static void case_failing_allocations(rank_info *info)
{
    setenv("KITH_FAULT", info->argument, 1);
    kith_status status = init_with(info, NULL, 0, 2000);
    unsetenv("KITH_FAULT");
    if (status != KITH_OK) {
        REQUIRE(kith_error_detail()[0] != '\0');
        return;
    }
    REQUIRE_OK(kith_finalize(info->ctx));
}

static int run_allocations(run_options *options)
{
    for (int n = 1; n <= 60; n += 1 + n / 12) {
        char argument[32];
        snprintf(argument, sizeof argument, "alloc:%d@1", n);
        if (run_ranks(options, case_failing_allocations, argument) > 0) {
            fprintf(stderr, "joining: with KITH_FAULT=%s\n", argument);
            return 1;
        }
    }
    return 0;
}

/* And of making groups: the ranks that have memory do not wait for the one that has not. Joining, which comes first,
 * may be what fails. */
static void case_failing_groups(rank_info *info)
{
    static const kith_mesh_axis axes[] = { { "tp", 2 }, { "pp", 2 } };
    kith_mesh_options options = KITH_MESH_OPTIONS_INIT;
    options.products = "tp-pp";
    kith_mesh *mesh = NULL;
    kith_group *half = NULL;
    setenv("KITH_FAULT", info->argument, 1);
    kith_status status = init_with(info, NULL, 0, 4000);
    unsetenv("KITH_FAULT");
    if (status != KITH_OK)
        return;
    kith_status made = kith_mesh_create(kith_world(info->ctx), axes, 2, &options, &mesh);
    if (made == KITH_OK)
        made = kith_group_split(kith_world(info->ctx), info->rank % 2, 0, NULL, &half);
    if (made != KITH_OK && made != KITH_ERR_NO_MEMORY)
        rank_fail(__FILE__, __LINE__, "wanted success or %s, got %s: %s", kith_status_name(KITH_ERR_NO_MEMORY),
                  kith_status_name(made), kith_error_detail());
    int64_t all = made;
    REQUIRE_OK(kith_all_reduce(kith_world(info->ctx), &all, &all, 1, KITH_INT64, KITH_MIN));
    REQUIRE(all == made);
    REQUIRE_OK(kith_finalize(info->ctx));
}

static int run_groups(run_options *options)
{
    int size = options->size, failed = 0;
    options->size = 4;
    for (int n = 16; n <= 130 && failed == 0; n += 1 + n / 40) {
        char argument[32];
        snprintf(argument, sizeof argument, "alloc:%d@%d", n, n % 4);
        failed = run_ranks(options, case_failing_groups, argument);
        if (failed > 0)
            fprintf(stderr, "joining: groups with KITH_FAULT=%s\n", argument);
    }
    options->size = size;
    return failed;
}

/* Needs a mount: only root can. */
static int run_tiny(run_options *options)
{
    if (mkdtemp(tiny_folder) == NULL || unshare(CLONE_NEWNS) != 0 ||
        mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("tmpfs", tiny_folder, "tmpfs", 0, "size=1M") != 0) {
        fprintf(stderr, "case tiny_shm SKIPPED: a tmpfs of 1 MiB cannot be mounted here\n");
        rmdir(tiny_folder);
        return 0;
    }
    int failed = run_ranks(options, case_tiny_shm, NULL);
    options->may_die = true;
    failed += run_ranks(options, case_tiny_shm_killed, NULL);
    if (folder_entries(tiny_folder) != 0) {
        fprintf(stderr, "FAILED files are left in %s after all ranks were killed\n", tiny_folder);
        failed++;
    }
    options->may_die = false;
    umount(tiny_folder);
    rmdir(tiny_folder);
    return failed;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        rank_function function;
    } cases[] = {
        { "settings_differ", case_settings_differ }, { "bad_setting", case_bad_setting },
        { "unknown_setting", case_unknown_setting }, { "missing_rank", case_missing_rank },
        { "no_interface", case_no_interface },       { "forced_unknown_algorithm", case_forced_unknown_algorithm },
        { "backend_unknown", case_backend_unknown }, { "fault_on_one_rank", case_fault_on_one_rank },
    };
    run_options options = { .mode = LAUNCH_FORK, .size = 3, .timeout_s = 60, .joins_itself = true };
    const char *only = argc == 3 ? argv[2] : NULL;
    int failed = 0;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        if (only != NULL && strcmp(only, cases[i].name) != 0)
            continue;
        if (run_ranks(&options, cases[i].function, NULL) > 0) {
            fprintf(stderr, "joining: case %s failed\n", cases[i].name);
            failed++;
        }
    }
    if (only == NULL || strcmp(only, "tiny_shm") == 0)
        failed += run_tiny(&options);
    if (only == NULL || strcmp(only, "failing_allocations") == 0)
        failed += run_allocations(&options);
    if (only == NULL || strcmp(only, "failing_groups") == 0)
        failed += run_groups(&options);
    return failed > 0;
}
