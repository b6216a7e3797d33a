/* tests/layers/checkpoint/ckpt_disk.c - folders that cannot be written, and a disk that is full: the same status on all
 * ranks, the checkpoint before stays whole, and nothing unfinished is left.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "ckpt_cases.h"

#include <dirent.h>
#include <errno.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/statvfs.h>
#include <unistd.h>

static const layout two = { "tp 2", 2, 1, 1, 1, 0, 0, 0 }, alone = { "alone", 1, 1, 1, 1, 0, 0, 0 };

/* Rank 0 removes what it has begun, so everybody is let come first. */
static void require_only(rank_info *info, const char *folder, const char *wanted)
{
    REQUIRE_OK(kith_barrier(info->world));
    DIR *opened = opendir(folder);
    REQUIRE(opened != NULL);
    for (const struct dirent *entry; (entry = readdir(opened)) != NULL;)
        if (entry->d_name[0] != '.' && strcmp(entry->d_name, wanted) != 0)
            rank_fail(__FILE__, __LINE__, "%s is left in %s", entry->d_name, folder);
    closedir(opened);
}

void case_disk_unwritable(rank_info *info)
{
    char scratch[256];
    kith_transformer_config config = tiny_gpt2();
    make_scratch(info, scratch);
    model m = make_model(info, info->size > 1 ? &two : &alone, &config, KITH_F32, WITHOUT_OPTIM);
    m.place.config = &config;
    if (info->rank == 0)
        write_file(join(scratch, "file"), "x", 1);
    REQUIRE_OK(kith_barrier(info->world));
    REQUIRE_STATUS(kith_checkpoint_save(&m.place, join(scratch, "file"), 1, NULL, 0), KITH_ERR_IO);
    REQUIRE_DETAIL("/file: cannot be made to hold checkpoints: Not a directory");
    REQUIRE_STATUS(kith_checkpoint_save(&m.place, join(scratch, "absent/deeper"), 1, NULL, 0), KITH_ERR_IO);
    REQUIRE_DETAIL("absent/deeper: cannot be made to hold checkpoints: No such file");
    REQUIRE_STATUS(kith_checkpoint_save(&m.place, "/proc/kith", 1, NULL, 0), KITH_ERR_IO);
    REQUIRE_STATUS(kith_checkpoint_save(&m.place, scratch, -1, NULL, 0), KITH_ERR_INVALID_ARG);
    REQUIRE_STATUS(kith_checkpoint_save(&m.place, NULL, 1, NULL, 0), KITH_ERR_INVALID_ARG);
    kith_checkpoint_number wrong[] = { { "a b", 1 } }, twice[] = { { "a", 1 }, { "a", 2 } };
    REQUIRE_STATUS(kith_checkpoint_save(&m.place, scratch, 1, wrong, 1), KITH_ERR_INVALID_ARG);
    REQUIRE_DETAIL("has the name 'a b'");
    REQUIRE_STATUS(kith_checkpoint_save(&m.place, scratch, 1, twice, 2), KITH_ERR_INVALID_ARG);
    REQUIRE_DETAIL("two numbers a");
    REQUIRE_STATUS(kith_checkpoint_save(NULL, scratch, 1, NULL, 0), KITH_ERR_INVALID_ARG);
    if (info->size > 1) {
        REQUIRE_STATUS(kith_checkpoint_save(&m.place, scratch, info->rank, NULL, 0), KITH_ERR_MISMATCH);
        REQUIRE_DETAIL("different values of step");
        m.place.data = info->world; /* they do not have the same parts */
        REQUIRE_STATUS(kith_checkpoint_save(&m.place, scratch, 1, NULL, 0), KITH_ERR_INVALID_ARG);
        REQUIRE_DETAIL("place.group must be all ranks");
        m.place.data = m.data;
    }
    require_only(info, scratch, "file");
    end_model(&m);
    remove_scratch(info, scratch);
}

/* Ranks that have the same parts and do not say so. */
void case_disk_twice(rank_info *info)
{
    static const layout replicas = { "dp 2", 1, 1, 2, 1, 0, 0, 0 };
    char scratch[256];
    kith_transformer_config config = tiny_gpt2();
    make_scratch(info, scratch);
    model m = make_model(info, &replicas, &config, KITH_F32, WITHOUT_OPTIM);
    m.place.config = &config;
    m.place.data = NULL;
    REQUIRE_STATUS(kith_checkpoint_save(&m.place, scratch, 1, NULL, 0), KITH_ERR_INVALID_ARG);
    REQUIRE_DETAIL("several ranks have the same elements; place.data");
    require_only(info, scratch, "nothing");
    end_model(&m);
    remove_scratch(info, scratch);
}

/* A small file system of the test's own, which needs the right to mount one. */
static int make_disk(const char *path)
{
    return mount("tmpfs", path, "tmpfs", 0, "size=4m") == 0;
}

int can_make_disk(void)
{
    char path[] = "/tmp/ckpt_XXXXXX";
    int is_made = mkdtemp(path) != NULL && make_disk(path);
    if (!is_made)
        printf("skipped: no file system of its own for the test: %s\n", strerror(errno));
    else if (umount2(path, MNT_DETACH) != 0)
        printf("%s stays mounted: %s\n", path, strerror(errno));
    rmdir(path);
    return is_made;
}

/* Leaves room for the model's file, not for the optimizer's beside it. */
static void fill_up(const rank_info *info, const char *folder)
{
    struct statvfs disk;
    size_t nbytes;
    if (info->rank != 0)
        return;
    free(read_file(join(folder, "step-00000001/optimizer.safetensors"), &nbytes));
    REQUIRE(statvfs(folder, &disk) == 0);
    size_t filler_nbytes = disk.f_bavail * disk.f_frsize - nbytes;
    char *filler = calloc(filler_nbytes, 1);
    REQUIRE(filler != NULL);
    write_file(join(folder, "filler"), filler, filler_nbytes);
    free(filler);
}

void case_disk_full(rank_info *info)
{
    char scratch[256];
    make_scratch(info, scratch);
    if (info->rank == 0)
        REQUIRE(make_disk(scratch));
    REQUIRE_OK(kith_barrier(info->world));
    kith_transformer_config config = tiny_gpt2();
    model m = make_model(info, info->size > 1 ? &two : &alone, &config, KITH_F64, WITH_ADAMW);
    m.place.config = &config;
    fill_model(&m, 1);
    REQUIRE_OK(kith_checkpoint_save(&m.place, scratch, 1, NULL, 0));
    fill_up(info, scratch);
    REQUIRE_OK(kith_barrier(info->world));
    fill_model(&m, 2);
    for (int64_t step = 1; step < 3; step++) {
        REQUIRE_STATUS(kith_checkpoint_save(&m.place, scratch, step, NULL, 0), KITH_ERR_IO);
        REQUIRE_DETAIL("No space left on device");
    }
    spoil_model(&m);
    REQUIRE_OK(kith_checkpoint_load(&m.place, join(scratch, "step-00000001"), NULL, 0));
    REQUIRE_MODEL(&m, 1);
    end_model(&m);
    REQUIRE_OK(kith_barrier(info->world));
    if (info->rank == 0)
        REQUIRE(unlink(join(scratch, "filler")) == 0);
    require_only(info, scratch, "step-00000001");
    REQUIRE_OK(kith_barrier(info->world));
    if (info->rank == 0)
        REQUIRE(umount2(scratch, MNT_DETACH) == 0);
    remove_scratch(info, scratch);
}
