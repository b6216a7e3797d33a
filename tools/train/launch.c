/* tools/train/launch.c - the command itself, and -n: this program again, once for each rank.
 *
 * The ranks are started by the guard and the launcher of `kith run` (tools/run.h says who watches whom): one failed
 * rank ends the others, signals are passed on once, nothing is left behind. A rank is `kith train` with the same words
 * but without -n, so under any other launcher it is the same program, too.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "flags.h"
#include "options.h"

#include "../run.h"
#include <stdlib.h>
#include <unistd.h>

#define GRACE_NS INT64_C(5000000000) /* between SIGTERM and SIGKILL, as kith run has it */

static int train_main(int argc, char **argv);
const ki_command ki_command_train = { "train", "Train a transformer over tensor, pipeline and data parallel ranks",
                                      train_help, train_main };

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

int train_launch(const char *name, int rank_count, char *const *words)
{
    char path[4096];
    ki_run_options options = { .name = name,
                               .rank_count = rank_count,
                               .grace_ns = GRACE_NS,
                               .program = words,
                               .path = own_path(path, sizeof path) };
    return ki_run_guard(&options);
}

static int train_main(int argc, char **argv)
{
    train_options options;
    char **words = calloc((size_t)argc + 2, sizeof *words);
    if (words == NULL) {
        perror("kith train");
        return KI_EXIT_USAGE;
    }
    words[0] = "kith";
    int status = train_options_read(argc, argv, &options, words + 1);
    if (status == TRAIN_HELP) {
        fputs(train_help, stdout);
        status = KI_EXIT_OK;
    } else if (status == KI_EXIT_OK) {
        status = options.rank_count > 0 ? train_launch("train", options.rank_count, words) : train_run(&options);
    }
    train_options_free(&options);
    free(words);
    return status;
}
