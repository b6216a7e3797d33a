/* layers/checkpoint/folder_list.c - which checkpoints a folder has: the newest, those that are too many, and what is
 * left of jobs that were killed while they saved.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "core/base/error.h"
#include "core/base/fault.h"
#include "core/base/log.h"
#include "disk.h"
#include "folder.h"
#include "manifest.h"
#include "remove.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

typedef enum kind { NO_CHECKPOINT, CHECKPOINT, OLD, PART } kind;

typedef struct found {
    int64_t step;
    kind kind;
    char name[64];
} found;

typedef struct list {
    found *items; /* [count], highest step first, of one step the one with the plain name first */
    size_t count, room;
} list;

/* "step-<8 digits or more>" and an end. */
static kind kind_of(const char *name, int64_t *step)
{
    const char *digits = name + 5;
    if (strncmp(name, "step-", 5) != 0)
        return NO_CHECKPOINT;
    size_t count = strspn(digits, "0123456789"), nbytes = strlen(name);
    if (count < 8 || count > 18 || nbytes >= sizeof((found *)0)->name)
        return NO_CHECKPOINT;
    *step = strtoll(digits, NULL, 10);
    const char *end = digits + count;
    if (*end == '\0')
        return CHECKPOINT;
    if (strcmp(end, ".old") == 0)
        return OLD;
    return *end == '.' && strcmp(name + nbytes - 5, ".part") == 0 ? PART : NO_CHECKPOINT;
}

static int by_step(const void *a, const void *b)
{
    const found *left = a, *right = b;
    if (left->step != right->step)
        return left->step > right->step ? -1 : 1;
    return (int)left->kind - (int)right->kind;
}

static kith_status add(list *all, const char *folder, const found *item)
{
    if (all->count == all->room) {
        size_t room = all->room == 0 ? 16 : 2 * all->room;
        found *grown = ki_fault(KI_FAULT_ALLOC) ? NULL : realloc(all->items, room * sizeof *grown);
        if (grown == NULL)
            return ki_fail(KITH_ERR_NO_MEMORY, "%s: no memory for a list of its checkpoints", folder);
        all->items = grown;
        all->room = room;
    }
    all->items[all->count++] = *item;
    return KITH_OK;
}

static kith_status look(const char *folder, list *all)
{
    DIR *opened = opendir(folder);
    kith_status status = KITH_OK;
    if (opened == NULL)
        return ki_fail_quiet(errno == ENOENT ? KITH_ERR_INVALID_ARG : KITH_ERR_IO,
                             "%s: cannot be looked through for checkpoints: %s", folder, strerror(errno));
    for (const struct dirent *entry; status == KITH_OK && (entry = readdir(opened)) != NULL;) {
        found item = { .kind = NO_CHECKPOINT };
        item.kind = kind_of(entry->d_name, &item.step);
        if (item.kind == NO_CHECKPOINT)
            continue;
        snprintf(item.name, sizeof item.name, "%.63s", entry->d_name);
        status = add(all, folder, &item);
    }
    closedir(opened);
    if (all->count > 0)
        qsort(all->items, all->count, sizeof *all->items, by_step);
    return status;
}

typedef enum condition { ABSENT, DAMAGED, WHOLE } condition;

/* Damage is an answer, whose detail says what it is; what keeps us from looking is none, as an older checkpoint
 * would be taken then. */
static kith_status look_at(const char *path, condition *its, int64_t *step)
{
    ki_manifest manifest;
    char *file;
    *its = ABSENT;
    kith_status status = ki_disk_join(path, KI_MANIFEST_NAME, &file);
    if (status != KITH_OK)
        return status;
    bool is_there = access(file, F_OK) == 0;
    free(file);
    if (!is_there) {
        (void)ki_fail_quiet(KITH_ERR_INVALID_ARG, "%s has no " KI_MANIFEST_NAME, path);
        return KITH_OK;
    }
    status = ki_manifest_read(path, &manifest);
    if (status != KITH_OK) {
        *its = DAMAGED;
        return status == KITH_ERR_INVALID_ARG ? KITH_OK : status;
    }
    *its = WHOLE;
    *step = manifest.step;
    ki_manifest_fini(&manifest);
    return KITH_OK;
}

/* ---- the newest ---- */

static kith_status choose(const char *folder, const list *all, char **path, int64_t *step)
{
    size_t damaged = 0;
    for (size_t i = 0; i < all->count; i++) {
        char *candidate;
        if (all->items[i].kind == PART)
            continue;
        kith_status status = ki_disk_join(folder, all->items[i].name, &candidate);
        if (status != KITH_OK)
            return status;
        condition its;
        status = look_at(candidate, &its, step);
        if (status == KITH_OK && its == WHOLE) {
            *path = candidate;
            return KITH_OK;
        }
        if (status == KITH_OK)
            ki_log(KITH_LOG_WARN, "checkpoint %s is passed over: %s", candidate, kith_error_detail());
        free(candidate);
        if (status != KITH_OK)
            return status;
        damaged++;
    }
    if (damaged > 0)
        return ki_fail_context(KITH_ERR_INVALID_ARG, "%s: has no whole checkpoint; the oldest", folder);
    return ki_fail_quiet(KITH_ERR_INVALID_ARG, "%s: has no checkpoint (step-<number>, with " KI_MANIFEST_NAME ")",
                         folder);
}

kith_status ki_folder_newest(const char *folder, char **path, int64_t *step)
{
    list all = { 0 };
    condition its;
    kith_status status = look_at(folder, &its, step);
    if (status != KITH_OK)
        return status;
    if (its == DAMAGED)
        return KITH_ERR_INVALID_ARG;
    if (its == WHOLE) {
        *path = ki_fault(KI_FAULT_ALLOC) ? NULL : strdup(folder);
        return *path != NULL ? KITH_OK : ki_fail(KITH_ERR_NO_MEMORY, "%s: no memory for its name", folder);
    }
    status = look(folder, &all);
    if (status == KITH_OK)
        status = choose(folder, &all, path, step);
    free(all.items);
    return status;
}

/* ---- too many ---- */

typedef enum writer { NO_WRITER, WRITER, UNKNOWN_WRITER } writer;

/* Whoever still writes it holds the lock. Where there is nobody it is ours then until *fd is closed, so that who has
 * just made it does not take it for his. */
static writer find_writer(const char *path, int *fd)
{
    *fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (*fd < 0)
        return UNKNOWN_WRITER;
    if (flock(*fd, LOCK_EX | LOCK_NB) == 0)
        return NO_WRITER;
    return errno == EWOULDBLOCK ? WRITER : UNKNOWN_WRITER;
}

/* Under a .part name first, which nobody takes for a checkpoint while it goes. */
static kith_status remove_checkpoint(const char *folder, const char *name)
{
    char *path = NULL, *part = NULL, end[96];
    snprintf(end, sizeof end, "%.63s.removed.part", name);
    kith_status status = ki_disk_join(folder, name, &path);
    if (status == KITH_OK)
        status = ki_disk_join(folder, end, &part);
    if (status == KITH_OK && rename(path, part) != 0)
        status = ki_fail(KITH_ERR_IO, "%s: cannot be renamed to remove it: %s", path, strerror(errno));
    if (status == KITH_OK)
        status = ki_remove_folder(part);
    free(path);
    free(part);
    return status;
}

/* is_sure: only when the lock says that nobody writes it; else also where there are no locks. */
static kith_status remove_part(const char *folder, const char *name, bool is_sure)
{
    char *path;
    int fd;
    kith_status status = ki_disk_join(folder, name, &path);
    if (status != KITH_OK)
        return status;
    writer who = find_writer(path, &fd);
    if (who == NO_WRITER || (who == UNKNOWN_WRITER && !is_sure))
        status = ki_remove_folder(path);
    if (fd >= 0)
        close(fd);
    free(path);
    return status;
}

static kith_status look_at_item(const char *folder, const found *item, condition *its)
{
    char *path;
    int64_t step;
    kith_status status = ki_disk_join(folder, item->name, &path);
    if (status != KITH_OK)
        return status;
    status = look_at(path, its, &step);
    free(path);
    return status;
}

/* Takes the place of `stays` off what may be kept beside it, if it is there. */
static kith_status reserve(const char *folder, const list *all, int64_t stays, int *keep)
{
    for (size_t i = 0; i < all->count; i++) {
        condition its;
        if (all->items[i].step != stays || all->items[i].kind != CHECKPOINT)
            continue;
        kith_status status = look_at_item(folder, &all->items[i], &its);
        *keep -= status == KITH_OK && its == WHOLE;
        return status;
    }
    return KITH_OK;
}

/* Checkpoints that are not whole are not counted, and stay: somebody may want to look at them. An .old one is too
 * many as soon as there is a newer one that is whole. */
static kith_status thin_out(const char *folder, const list *all, int keep, int64_t stays)
{
    kith_status status = reserve(folder, all, stays, &keep);
    int whole = 0;
    for (size_t i = 0; i < all->count && status == KITH_OK; i++) {
        const found *item = &all->items[i];
        condition its;
        if (item->kind == CHECKPOINT && item->step == stays)
            continue;
        if (item->kind == PART) {
            status = remove_part(folder, item->name, false);
            continue;
        }
        status = look_at_item(folder, item, &its);
        if (status == KITH_OK && its == WHOLE && ++whole > keep)
            status = remove_checkpoint(folder, item->name);
    }
    return status;
}

kith_status ki_folder_prune(const char *folder, int keep, int64_t stays)
{
    list all = { 0 };
    kith_status status = look(folder, &all);
    if (status == KITH_OK)
        status = thin_out(folder, &all, keep, stays);
    free(all.items);
    return status;
}

/* What cannot be looked at or removed is in nobody's way: who saves next sees what it means for that. */
kith_status ki_folder_clear(const char *folder)
{
    list all = { 0 };
    kith_status status = look(folder, &all);
    for (size_t i = 0; status != KITH_ERR_NO_MEMORY && i < all.count; i++)
        if (all.items[i].kind == PART)
            status = remove_part(folder, all.items[i].name, true);
    free(all.items);
    return status == KITH_ERR_NO_MEMORY ? status : KITH_OK;
}
