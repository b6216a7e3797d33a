/* layers/checkpoint/disk.c - see disk.h.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#define _GNU_SOURCE /* fallocate() */
#include "disk.h"

#include "core/base/error.h"
#include "core/base/fault.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Linux moves at most 2 GiB a call anyway. */
#define MOST_AT_ONCE ((size_t)1 << 30)

kith_status ki_disk_join(const char *folder, const char *name, char **path)
{
    size_t room = strlen(folder) + strlen(name) + 2;
    char *made = ki_fault(KI_FAULT_ALLOC) ? NULL : malloc(room);
    if (made == NULL)
        return ki_fail(KITH_ERR_NO_MEMORY, "%s: no memory for the name of a file in it", folder);
    size_t length = strlen(folder);
    snprintf(made, room, "%s%s%s", folder, length > 0 && folder[length - 1] == '/' ? "" : "/", name);
    *path = made;
    return KITH_OK;
}

static kith_status refuse(const char *path, const char *what)
{
    return ki_fail_quiet(KITH_ERR_IO, "%s: %s: %s", path, what, strerror(errno));
}

static int open_file(const char *path, int flags)
{
    if (ki_fault(KI_FAULT_OPEN)) {
        errno = EMFILE;
        return -1;
    }
    int fd;
    do
        fd = open(path, flags | O_CLOEXEC, 0666);
    while (fd < 0 && errno == EINTR);
    return fd;
}

kith_status ki_disk_open(const char *path, int *fd, int64_t *nbytes)
{
    struct stat info;
    int opened = open_file(path, O_RDONLY | O_NONBLOCK); /* a pipe must not stop us */
    if (opened < 0)
        return refuse(path, "cannot be opened");
    if (fstat(opened, &info) != 0 || !S_ISREG(info.st_mode)) {
        close(opened);
        return ki_fail_quiet(KITH_ERR_IO, "%s: is no ordinary file", path);
    }
    *fd = opened;
    *nbytes = info.st_size;
    return KITH_OK;
}

kith_status ki_disk_create(const char *path, int *fd)
{
    int opened = open_file(path, O_RDWR | O_CREAT | O_TRUNC);
    if (opened < 0)
        return refuse(path, "cannot be made");
    *fd = opened;
    return KITH_OK;
}

kith_status ki_disk_open_to_write(const char *path, int *fd)
{
    int opened = open_file(path, O_RDWR);
    if (opened < 0)
        return refuse(path, "cannot be opened for writing; do all ranks see the same folder?");
    *fd = opened;
    return KITH_OK;
}

kith_status ki_disk_close(const char *path, int fd)
{
    return fd < 0 || close(fd) == 0 ? KITH_OK : refuse(path, "cannot be written to its end");
}

kith_status ki_disk_read(int fd, const char *path, void *data, size_t nbytes, int64_t at)
{
    char *to = data;
    while (nbytes > 0) {
        ssize_t got = pread(fd, to, nbytes < MOST_AT_ONCE ? nbytes : MOST_AT_ONCE, at);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return refuse(path, "cannot be read");
        if (got == 0)
            return ki_fail_quiet(KITH_ERR_IO, "%s: ends at byte %lld, though it was longer when it was opened", path,
                                 (long long)at);
        to += got;
        at += got;
        nbytes -= (size_t)got;
    }
    return KITH_OK;
}

kith_status ki_disk_write(int fd, const char *path, const void *data, size_t nbytes, int64_t at)
{
    const char *from = data;
    while (nbytes > 0) {
        ssize_t put = pwrite(fd, from, nbytes < MOST_AT_ONCE ? nbytes : MOST_AT_ONCE, at);
        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0)
            return refuse(path, "cannot be written");
        from += put;
        at += put;
        nbytes -= (size_t)put;
    }
    return KITH_OK;
}

/* Not posix_fallocate(), which writes to every block where the file system cannot promise room. */
kith_status ki_disk_set_size(int fd, const char *path, int64_t nbytes)
{
    int failed;
    if (nbytes == 0)
        return KITH_OK;
    do
        failed = fallocate(fd, 0, 0, nbytes) == 0 ? 0 : errno;
    while (failed == EINTR);
    if (failed == 0)
        return KITH_OK;
    errno = failed;
    if (failed == ENOSPC || failed == EFBIG || failed == EDQUOT) {
        char what[64];
        snprintf(what, sizeof what, "no room for its %lld bytes", (long long)nbytes);
        return refuse(path, what);
    }
    return ftruncate(fd, nbytes) == 0 ? KITH_OK : refuse(path, "cannot be made as long as it must be");
}

kith_status ki_disk_sync(int fd, const char *path)
{
    return fsync(fd) == 0 ? KITH_OK : refuse(path, "cannot be brought to the disk");
}

kith_status ki_disk_open_folder(const char *path, int *fd)
{
    int opened = open_file(path, O_RDONLY | O_DIRECTORY);
    if (opened < 0)
        return refuse(path, "cannot be opened");
    *fd = opened;
    return KITH_OK;
}

/* Where folders cannot be synchronised (EINVAL on some file systems) their entries are written anyway. */
kith_status ki_disk_sync_folder(int fd, const char *path)
{
    return fsync(fd) == 0 || errno == EINVAL ? KITH_OK : refuse(path, "cannot be brought to the disk");
}

kith_status ki_disk_write_whole(const char *path, const char *text, size_t nbytes)
{
    int fd = -1;
    kith_status status = ki_disk_create(path, &fd);
    if (status != KITH_OK)
        return status;
    status = ki_disk_write(fd, path, text, nbytes, 0);
    if (status == KITH_OK)
        status = ki_disk_sync(fd, path);
    kith_status closed = ki_disk_close(path, fd);
    return status == KITH_OK ? closed : status;
}
