/* tools/bench.c - `kith bench`: hands over to the benchmark program kith-bench, which is built and installed next to
 * the command.
 *
 * A program of its own because it carries its cases and baselines with it; here is only the door.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "command.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define BENCH_NAME "kith-bench"

/* Path of a program in the folder that holds this command; false when that folder cannot be told. */
static bool sibling_path(const char *name, char *path, size_t path_nbytes)
{
    char self[PATH_MAX];
    ssize_t nbytes = readlink("/proc/self/exe", self, sizeof(self) - 1);
    if (nbytes <= 0) return false;
    self[nbytes] = '\0';
    char *slash = strrchr(self, '/');
    if (slash == NULL) return false;
    *slash = '\0';
    int written = snprintf(path, path_nbytes, "%s/%s", self, name);
    return written > 0 && (size_t)written < path_nbytes;
}

static int run_bench(int argc, char **argv)
{
    (void)argc;
    char path[PATH_MAX];
    if (!sibling_path(BENCH_NAME, path, sizeof(path))) {
        fprintf(stderr, "kith bench: cannot tell where this command lies: %s\n", strerror(errno));
        return 127;
    }
    static char name[] = BENCH_NAME;
    argv[0] = name;
    execv(path, argv);
    int cause = errno;
    fprintf(stderr, "kith bench: cannot start %s: %s%s\n", path, strerror(cause),
            cause == ENOENT ? " (it was not built or installed)" : "");
    return cause == ENOENT ? 127 : 126;
}

const ki_command ki_command_bench = {
    "bench",
    "Measure collectives and messages (the program kith-bench)",
    "Usage: kith bench [options of kith-bench]\n"
    "Starts kith-bench, which lies next to this command; 'kith bench -- --help' or 'kith-bench --help' tells its "
    "options.\n",
    run_bench,
};
