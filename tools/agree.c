/* tools/agree.c - see agree.h.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "agree.h"
#include "progress.h"

#include <kith/coll.h>
#include <kith/status.h>
#include <stdio.h>

void ki_say(const char *command, int rank, const char *sentence)
{
    ki_progress_end();
    if (rank > 0)
        fprintf(stderr, "kith %s: rank %d: %s\n", command, rank, sentence);
    else
        fprintf(stderr, "kith %s: %s\n", command, sentence);
}

bool ki_agree_over(kith_ctx *ctx, const char *command, bool is_fine, const char *sentence, bool *has_failed)
{
    int size = kith_size(ctx), rank = kith_rank(ctx);
    double lowest = is_fine ? size : rank, failures = *has_failed;
    if (kith_all_reduce_scalar(kith_world(ctx), &lowest, KITH_MIN) != KITH_OK) { // nobody else can be told
        ki_say(command, rank, is_fine ? kith_error_detail() : sentence);
        *has_failed = true;
        return false;
    }
    if (lowest == size)
        return true;
    if (lowest == rank && sentence[0] != '\0')
        ki_say(command, rank, sentence);
    // Also because whoever starts ranks ends all when one leaves: not before it is told why.
    kith_status status = kith_all_reduce_scalar(kith_world(ctx), &failures, KITH_SUM);
    *has_failed = status != KITH_OK || failures > 0;
    return false;
}
