/* tools/train/launch.c - the command itself, and -n (tools/launch.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "../flags.h"
#include "options.h"

#include "../launch.h"
#include <stdlib.h>

static int train_main(int argc, char **argv);
const ki_command ki_command_train = { "train", "Train a transformer over tensor, pipeline and data parallel ranks",
                                      train_help, train_main };

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
    if (status == KI_FLAGS_HELP) {
        fputs(train_help, stdout);
        status = KI_EXIT_OK;
    } else if (status == KI_EXIT_OK) {
        status = options.rank_count > 0 ? ki_launch("train", options.rank_count, words) : train_run(&options);
    }
    train_options_free(&options);
    free(words);
    return status;
}
