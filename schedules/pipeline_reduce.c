/* schedules/pipeline_reduce.c - gradients over dp_group, and of a weight that the first and the last stage share.
 *
 * Reductions are started at their place in the list and waited for before the optimizer steps, so they run beside the
 * rest of the backward passes. All ranks of a group must start collectives in the same order. The sum of tied weights
 * ends whenever the other end comes; a reduction over dp_group that needs it cannot start before. So that the order on
 * dp_group does not depend on the clock, the buckets of a tied stage go last, always. To wait for the sum in the list
 * would be worse than slow: the rank of the last stage may have chunks that the first stage waits for.
 *
 * A rank that has failed takes part: its peers wait for it.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "pipeline.h"

#include "core/base/error.h"

#include <kith/coll.h>

static kith_status start_buckets(kith_pipeline *p, int stage)
{
    kith_status status = KITH_OK;
    for (size_t i = 0; i < p->options.bucket_count && status == KITH_OK; i++) {
        const kith_grad_bucket *b = &p->options.buckets[i];
        if (b->stage == stage)
            status = kith_all_reduce_start(p->options.dp_group, b->grad, b->grad, b->count, b->dtype, p->options.dp_op,
                                           &p->reductions[i]);
    }
    return status;
}

kith_status ki_pipe_reduce_start(kith_pipeline *p, int stage)
{
    if (p->callbacks.reduce != NULL) {
        ki_pipe_fail_watch(p);
        ki_pipe_fail_callback(p, p->callbacks.reduce(p->callbacks.user, stage), "reduce", NULL);
    }
    if (p->options.dp_group == NULL)
        return KITH_OK;
    if (p->tied_request != NULL && stage == p->tied_stage) {
        p->is_tied_stage_due = true;
        return KITH_OK;
    }
    return start_buckets(p, stage);
}

kith_status ki_pipe_reduce_tied_start(kith_pipeline *p, int stage)
{
    const kith_grad_bucket *tied = p->options.tied;
    if (p->tied_group == NULL || stage != p->tied_stage)
        return KITH_OK;
    return kith_all_reduce_start(p->tied_group, tied->grad, tied->grad, tied->count, tied->dtype, KITH_SUM,
                                 &p->tied_request);
}

kith_status ki_pipe_reduce_finish(kith_pipeline *p)
{
    kith_status status = ki_space_end(&p->space, &p->tied_request);
    if (status == KITH_OK && p->is_tied_stage_due)
        status = start_buckets(p, p->tied_stage);
    for (size_t i = 0; i < p->options.bucket_count && status == KITH_OK; i++)
        status = ki_space_end(&p->space, &p->reductions[i]);
    if (status == KITH_OK && p->has_reduce && p->callbacks.reduce_finish != NULL) {
        ki_pipe_fail_watch(p);
        ki_pipe_fail_callback(p, p->callbacks.reduce_finish(p->callbacks.user), "reduce_finish", NULL);
    }
    return status;
}
