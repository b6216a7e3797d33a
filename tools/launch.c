/* tools/launch.c - see launch.h.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "launch.h"

#include "run.h"
#include <unistd.h>

#define GRACE_NS INT64_C(5000000000) /* between SIGTERM and SIGKILL, as kith run has it */

/* The file of this process. A path that does not fit, or has been replaced, can still be executed through the link. */
static const char *own_path(char *path, size_t nbytes)
{
    ssize_t used = readlink("/proc/self/exe", path, nbytes - 1);
    if (used > 0 && (size_t)used < nbytes - 1) {
        path[used] = '\0';
        if (access(path, X_OK) == 0)
            return path;
    }
    return "/proc/self/exe";
}

int ki_launch(const char *name, int rank_count, char *const *words)
{
    char path[4096];
    ki_run_options options = { .name = name,
                               .rank_count = rank_count,
                               .grace_ns = GRACE_NS,
                               .program = words,
                               .path = own_path(path, sizeof path) };
    return ki_run_guard(&options);
}
