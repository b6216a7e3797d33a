/* layers/checkpoint/disk.h - files and folders, with failures that say which one and why.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_CHECKPOINT_DISK_H
#define KI_CHECKPOINT_DISK_H

#include <kith/status.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* "<folder>/<name>", malloc's. */
kith_status ki_disk_join(const char *folder, const char *name, char **path);

/* KITH_ERR_IO, also when it is no ordinary file. */
kith_status ki_disk_open(const char *path, int *fd, int64_t *nbytes);
/* Made anew, or there already. */
kith_status ki_disk_create(const char *path, int *fd);
kith_status ki_disk_open_to_write(const char *path, int *fd);
/* Closes what is not negative; KITH_ERR_IO when that tells of a write that failed before. */
kith_status ki_disk_close(const char *path, int fd);

/* All of it, at this byte of the file. */
kith_status ki_disk_read(int fd, const char *path, void *data, size_t nbytes, int64_t at);
kith_status ki_disk_write(int fd, const char *path, const void *data, size_t nbytes, int64_t at);

/* Makes the file so long, with the room for it where the file system can promise that: a full disk is found now. */
kith_status ki_disk_set_size(int fd, const char *path, int64_t nbytes);
/* On the disk, not in memory, when it returns. */
kith_status ki_disk_sync(int fd, const char *path);
kith_status ki_disk_open_folder(const char *path, int *fd);
kith_status ki_disk_sync_folder(int fd, const char *path);

/* A small file, on the disk when it returns. */
kith_status ki_disk_write_whole(const char *path, const char *text, size_t nbytes);

#endif
