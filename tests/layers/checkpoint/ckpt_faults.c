/* tests/layers/checkpoint/ckpt_faults.c - each allocation and each opening of a file fails once, on one rank alone,
 * while a checkpoint is saved and loaded.
 *
 *     ckpt_faults <ranks>
 *
 * Every time all ranks hear of it, the checkpoint before is whole, nothing unfinished is left, and no weight has
 * changed. A program of its own, as it reaches into the library to make calls fail.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "ckpt_cases.h"

#include "core/base/fault.h"
#include <dirent.h>
#include <string.h>

static const layout layouts[] = { { "alone", 1, 1, 1, 1, 0, 0, 0 },
                                  { "tp 2", 2, 1, 1, 1, 0, 0, 8 },
                                  { "dp 3, shards", 1, 1, 3, 1, 1, 0, 0 } };

typedef struct fault {
    const char *kind;
    int nth, rank;
} fault;

static void set_fault(const rank_info *info, const fault *f)
{
    char text[32] = "";
    if (f != NULL && info->rank == f->rank)
        snprintf(text, sizeof text, "%s:%d", f->kind, f->nth);
    setenv("KITH_FAULT", text, 1);
    REQUIRE_OK(ki_fault_configure(info->rank));
}

static void require_alike(const rank_info *info, kith_status status, const fault *f)
{
    int64_t both[2] = { status, -(int64_t)status };
    REQUIRE_OK(kith_all_reduce(info->world, both, both, 2, KITH_INT64, KITH_MAX));
    REQUIRE(both[0] == -both[1]);
    if (status != KITH_OK && status != KITH_ERR_NO_MEMORY && status != KITH_ERR_IO)
        rank_fail(__FILE__, __LINE__, "%s %d on rank %d: got %s: %s", f->kind, f->nth, f->rank,
                  kith_status_name(status), kith_error_detail());
    REQUIRE(status == KITH_OK || kith_error_detail()[0] != '\0');
}

static int entries_of(const char *path)
{
    DIR *folder = opendir(path);
    int count = 0;
    REQUIRE(folder != NULL);
    for (const struct dirent *entry; (entry = readdir(folder)) != NULL;)
        count += entry->d_name[0] != '.';
    closedir(folder);
    return count;
}

/* How many faults it took until saving went through. */
static int save_with_faults(rank_info *info, model *m, const char *folder, const char *path, const char *kind, int rank)
{
    kith_status status = KITH_ERR_INTERNAL;
    int nth = 0;
    while (status != KITH_OK) {
        fault f = { kind, ++nth, rank };
        fill_model(m, 2);
        set_fault(info, &f);
        status = kith_checkpoint_save(&m->place, folder, 1, NULL, 0);
        set_fault(info, NULL);
        require_alike(info, status, &f);
        REQUIRE(entries_of(folder) == 1);
        spoil_model(m);
        REQUIRE_OK(kith_checkpoint_load(&m->place, path, NULL, 0));
        REQUIRE_MODEL(m, status == KITH_OK ? 2 : 1);
    }
    fill_model(m, 1);
    REQUIRE_OK(kith_checkpoint_save(&m->place, folder, 1, NULL, 0));
    return nth;
}

static int load_with_faults(rank_info *info, model *m, const char *path, const char *kind, int rank)
{
    kith_status status = KITH_ERR_INTERNAL;
    int nth = 0, reading = 0; /* once data are read, buffers that are missing leave what was read so far */
    while (status != KITH_OK) {
        fault f = { kind, ++nth, rank };
        spoil_model(m);
        set_fault(info, &f);
        status = kith_checkpoint_load(&m->place, path, NULL, 0);
        set_fault(info, NULL);
        require_alike(info, status, &f);
        reading += status != KITH_OK && strstr(kith_error_detail(), "for a buffer of") != NULL;
        if (status != KITH_OK && reading == 0)
            REQUIRE_SPOILT(m);
    }
    REQUIRE_MODEL(m, 1);
    REQUIRE(reading <= 2);
    return nth;
}

static int newest_with_faults(rank_info *info, const char *folder, const char *kind, int rank)
{
    kith_status status = KITH_ERR_INTERNAL;
    int nth = 0;
    while (status != KITH_OK) {
        fault f = { kind, ++nth, rank };
        char *path = NULL;
        int64_t step = -1;
        set_fault(info, &f);
        status = kith_checkpoint_newest(info->world, folder, &path, &step);
        set_fault(info, NULL);
        REQUIRE((path != NULL) == (status == KITH_OK) && (step == 1) == (status == KITH_OK));
        kith_free(path);
    }
    return nth;
}

static void run(rank_info *info)
{
    char scratch[256], path[320];
    kith_transformer_config config = KITH_TRANSFORMER_CONFIG_INIT;
    kith_transformer_gpt2(&config, 4, 1, 4, 9, 3);
    make_scratch(info, scratch);
    model m = make_model(info, &layouts[info->size - 1], &config, KITH_F32, WITH_ADAMW);
    m.place.config = &config;
    fill_model(&m, 1);
    REQUIRE_OK(kith_checkpoint_save(&m.place, scratch, 1, NULL, 0));
    snprintf(path, sizeof path, "%s/step-00000001", scratch);
    for (int rank = 0; rank<info->size; rank += info->size - 1> 0 ? info->size - 1 : 1) {
        REQUIRE(save_with_faults(info, &m, scratch, path, "alloc", rank) > 20);
        REQUIRE(save_with_faults(info, &m, scratch, path, "open", rank) > 1);
        REQUIRE(load_with_faults(info, &m, path, "alloc", rank) > 20);
        REQUIRE(load_with_faults(info, &m, path, "open", rank) > 2);
        REQUIRE(newest_with_faults(info, scratch, "alloc", rank) > 1);
    }
    end_model(&m);
    remove_scratch(info, scratch);
}

int main(int argc, char **argv)
{
    run_options options = { .mode = LAUNCH_FORK, .size = argc > 1 ? atoi(argv[1]) : 2, .timeout_s = 100 };
    return run_ranks(&options, run, NULL) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
