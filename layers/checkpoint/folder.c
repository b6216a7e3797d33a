/* layers/checkpoint/folder.c - a checkpoint under its .part name, and its renaming. See folder.h.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#define _GNU_SOURCE /* renameat2() */
#include "folder.h"

#include "core/base/error.h"
#include "core/base/fault.h"
#include "disk.h"
#include "remove.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define TRIES 1000

static kith_status refuse(const char *path, const char *what)
{
    return ki_fail(KITH_ERR_IO, "%s: %s: %s", path, what, strerror(errno));
}

kith_status ki_folder_path(const char *folder, int64_t step, const char *end, char **path)
{
    char name[96];
    snprintf(name, sizeof name, "step-%08lld%s", (long long)step, end);
    return ki_disk_join(folder, name, path);
}

static bool is_there(const char *path)
{
    struct stat info;
    return lstat(path, &info) == 0;
}

/* ---- making ---- */

static kith_status make_folder(const char *folder)
{
    struct stat info;
    if (mkdir(folder, 0777) == 0)
        return KITH_OK;
    int why = errno;
    if (why == EEXIST && stat(folder, &info) == 0 && S_ISDIR(info.st_mode))
        return KITH_OK;
    errno = why == EEXIST ? ENOTDIR : why;
    return refuse(folder, "cannot be made to hold checkpoints");
}

/* The lock is held until this process closes the folder or dies; where there are no locks it may be pruned, that is
 * all. False when another job took the folder for one that was left behind, between our making and our locking it. */
static bool take_lock(const ki_draft *draft)
{
    struct stat ours, there;
    if (flock(draft->lock, LOCK_EX | LOCK_NB) != 0)
        return errno != EWOULDBLOCK;
    return fstat(draft->lock, &ours) == 0 && lstat(draft->path, &there) == 0 && ours.st_ino == there.st_ino;
}

/* Made and locked. */
static kith_status make_path(ki_draft *draft, bool *is_taken)
{
    *is_taken = false;
    if (mkdir(draft->path, 0777) != 0) {
        *is_taken = errno == EEXIST;
        return *is_taken ? KITH_OK : refuse(draft->path, "cannot be made");
    }
    kith_status status = ki_disk_open_folder(draft->path, &draft->lock);
    if (status == KITH_OK && !take_lock(draft)) {
        *is_taken = true;
        close(draft->lock);
        draft->lock = -1;
    }
    if (status != KITH_OK)
        (void)rmdir(draft->path);
    return status;
}

/* A number that no other job has, which would write the same step here. */
static kith_status make_draft(ki_draft *draft)
{
    for (int i = 0; i < TRIES; i++) {
        char end[64];
        bool is_taken = false;
        snprintf(end, sizeof end, ".%ld-%d.part", (long)getpid(), i);
        kith_status status = ki_folder_path(draft->folder, draft->step, end, &draft->path);
        if (status == KITH_OK)
            status = make_path(draft, &is_taken);
        if (status == KITH_OK && !is_taken)
            return KITH_OK;
        free(draft->path);
        draft->path = NULL;
        if (status != KITH_OK)
            return status;
    }
    return ki_fail(KITH_ERR_IO, "%s: has %d unfinished checkpoints of step %lld; remove them", draft->folder, TRIES,
                   (long long)draft->step);
}

kith_status ki_draft_create(const char *folder, int64_t step, ki_draft *draft)
{
    ki_draft made = { .step = step, .lock = -1, .parent = -1 };
    kith_status status = make_folder(folder);
    if (status == KITH_OK) {
        made.folder = ki_fault(KI_FAULT_ALLOC) ? NULL : strdup(folder);
        status = made.folder != NULL ? ki_disk_open_folder(folder, &made.parent)
                                     : ki_fail(KITH_ERR_NO_MEMORY, "%s: no memory for its name", folder);
    }
    if (status == KITH_OK)
        status = make_draft(&made);
    if (status == KITH_OK)
        *draft = made;
    else
        ki_draft_end(&made);
    return status;
}

/* ---- renaming ---- */

/* Neither of two names may be missing longer than between two calls, and then the old one is found by its other
 * name. */
static kith_status change_places(const ki_draft *draft, const char *final)
{
    char *old;
    kith_status status = ki_folder_path(draft->folder, draft->step, ".old", &old);
    if (status != KITH_OK)
        return status;
    if (is_there(old) && is_there(final))
        status = ki_remove_folder(old);
    if (status == KITH_OK && rename(final, old) != 0)
        status = refuse(final, "cannot be renamed");
    if (status == KITH_OK && rename(draft->path, final) != 0) {
        status = refuse(draft->path, "cannot be renamed");
        (void)rename(old, final);
    }
    if (status == KITH_OK)
        status = ki_disk_sync_folder(draft->parent, draft->folder);
    if (status == KITH_OK)
        (void)ki_remove_folder(old);
    free(old);
    return status;
}

/* Nobody has the name; one that was put aside when somebody was killed is too old now. */
static kith_status take_name(const ki_draft *draft, const char *final)
{
    char *old;
    kith_status status = ki_folder_path(draft->folder, draft->step, ".old", &old);
    if (status != KITH_OK)
        return status;
    if (rename(draft->path, final) != 0)
        status = refuse(draft->path, "cannot be renamed");
    else if (is_there(old))
        (void)ki_remove_folder(old);
    free(old);
    return status;
}

/* After an exchange the one before has the .part name, and goes with it. */
static kith_status exchange(const ki_draft *draft, const char *final, bool can_exchange)
{
    if (!is_there(final))
        return take_name(draft, final);
    if (can_exchange && renameat2(AT_FDCWD, draft->path, AT_FDCWD, final, RENAME_EXCHANGE) == 0)
        return KITH_OK;
    if (can_exchange && errno != EINVAL && errno != ENOSYS)
        return refuse(draft->path, "cannot take the place of the checkpoint before");
    return change_places(draft, final);
}

kith_status ki_draft_publish(ki_draft *draft, bool can_exchange)
{
    char *final;
    kith_status status = ki_folder_path(draft->folder, draft->step, "", &final);
    if (status != KITH_OK)
        return status;
    status = ki_disk_sync_folder(draft->lock, draft->path);
    if (status == KITH_OK)
        status = exchange(draft, final, can_exchange);
    if (status == KITH_OK)
        status = ki_disk_sync_folder(draft->parent, draft->folder);
    free(final);
    return status;
}

void ki_draft_end(ki_draft *draft)
{
    if (draft->path != NULL && is_there(draft->path))
        (void)ki_remove_folder(draft->path);
    if (draft->lock >= 0)
        close(draft->lock);
    if (draft->parent >= 0)
        close(draft->parent);
    free(draft->folder);
    free(draft->path);
    *draft = (ki_draft){ .lock = -1, .parent = -1 };
}
