/* tools/train/agree.c - the newest checkpoint, and how rank 0 tells which were passed over.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "../agree.h"
#include "train.h"

#include <string.h>

/* What kith_checkpoint_newest() passes over is a warning in the library's log: "rank 0: checkpoint ...". */
static void tell_warning(void *command, kith_log_level level, const char *line)
{
    const char *text = strstr(line, "checkpoint ");
    if (level == KITH_LOG_WARN)
        ki_say((const char *)command, 0, text != NULL ? text : line);
}

kith_status train_find_newest(kith_ctx *ctx, const char *command, const char *folder, char **path, int64_t *step)
{
    kith_log_set(tell_warning, (void *)(uintptr_t)command, KITH_LOG_WARN);
    kith_status status = kith_checkpoint_newest(kith_world(ctx), folder, path, step);
    kith_log_set(NULL, NULL, KITH_LOG_NONE);
    return status;
}
