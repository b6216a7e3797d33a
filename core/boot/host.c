/* core/boot/host.c - the identity of this host: equal texts mean that processes can share memory.
 *
 * Two containers on one machine have one boot id but may have their own host names, process ids and /dev/shm. What shm
 * needs is in the text: the pid namespace (process_vm_readv addresses a process by its id) and the file system behind
 * /dev/shm (arenas are files there). Network namespaces do not matter.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "../base/mem.h"
#include "launch.h"
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* First line of a small file, "" when there is none. */
static void read_line(const char *path, char *text, size_t nbytes)
{
    text[0] = '\0';
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    ssize_t n = read(fd, text, nbytes - 1);
    close(fd);
    text[n > 0 ? n : 0] = '\0';
    text[strcspn(text, "\n")] = '\0';
}

void ki_host_identity(const ki_config *config, char *text, size_t nbytes)
{
    const char *given = ki_config_get(config, "hostid");
    char name[128] = "", boot[64], space[64] = "";
    struct stat shm;
    if (given && *given) {
        snprintf(text, nbytes, "%s", given);
        return;
    }
    if (gethostname(name, sizeof name - 1) != 0)
        name[0] = '\0';
    read_line("/proc/sys/kernel/random/boot_id", boot, sizeof boot);
    if (readlink("/proc/self/ns/pid", space, sizeof space - 1) < 0)
        space[0] = '\0';
    unsigned long long device = stat("/dev/shm", &shm) == 0 ? (unsigned long long)shm.st_dev : 0;
    snprintf(text, nbytes, "%s %s %s shm:%llx", name, boot, space, device);
}
