/* tools/train/agree.c - how ranks come to one end: all go on, or the lowest that cannot says why and all leave; and how
 * rank 0 tells which checkpoints were passed over.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "../progress.h"
#include "train.h"

#include <string.h>

void train_say(const char *command, int rank, const char *sentence)
{
    ki_progress_end();
    if (rank > 0)
        fprintf(stderr, "kith %s: rank %d: %s\n", command, rank, sentence);
    else
        fprintf(stderr, "kith %s: %s\n", command, sentence);
}

bool train_agree_over(kith_ctx *ctx, const char *command, bool is_fine, const char *sentence, bool *has_failed)
{
    int size = kith_size(ctx), rank = kith_rank(ctx);
    double lowest = is_fine ? size : rank, failures = *has_failed;
    if (kith_all_reduce_scalar(kith_world(ctx), &lowest, KITH_MIN) != KITH_OK) { // nobody else can be told
        train_say(command, rank, is_fine ? kith_error_detail() : sentence);
        *has_failed = true;
        return false;
    }
    if (lowest == size)
        return true;
    if (lowest == rank && sentence[0] != '\0')
        train_say(command, rank, sentence);
    // Also because whoever starts ranks ends all when one leaves: not before it is told why.
    kith_status status = kith_all_reduce_scalar(kith_world(ctx), &failures, KITH_SUM);
    *has_failed = status != KITH_OK || failures > 0;
    return false;
}

/* What kith_checkpoint_newest() passes over is a warning in the library's log: "rank 0: checkpoint ...". */
static void tell_warning(void *command, kith_log_level level, const char *line)
{
    const char *text = strstr(line, "checkpoint ");
    if (level == KITH_LOG_WARN)
        train_say((const char *)command, 0, text != NULL ? text : line);
}

kith_status train_find_newest(kith_ctx *ctx, const char *command, const char *folder, char **path, int64_t *step)
{
    kith_log_set(tell_warning, (void *)(uintptr_t)command, KITH_LOG_WARN);
    kith_status status = kith_checkpoint_newest(kith_world(ctx), folder, path, step);
    kith_log_set(NULL, NULL, KITH_LOG_NONE);
    return status;
}
