/* layers/checkpoint/remove.c - see remove.h. kith.json goes first: what is left after a kill is not taken for a
 * checkpoint.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "remove.h"

#include "core/base/error.h"
#include "manifest.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

static kith_status refuse(const char *path, const char *what)
{
    return ki_fail_quiet(KITH_ERR_IO, "%s: %s: %s", path, what, strerror(errno));
}

kith_status ki_remove_folder(const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *folder = fd >= 0 ? fdopendir(fd) : NULL;
    if (folder == NULL) {
        kith_status status = refuse(path, "cannot be opened to remove it");
        if (fd >= 0)
            close(fd);
        return status;
    }
    (void)unlinkat(fd, KI_MANIFEST_NAME, 0);
    for (const struct dirent *entry; (entry = readdir(folder)) != NULL;)
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            (void)unlinkat(fd, entry->d_name, 0); /* what stays is told by rmdir() */
    closedir(folder);
    return rmdir(path) == 0 ? KITH_OK : refuse(path, "cannot be removed");
}
