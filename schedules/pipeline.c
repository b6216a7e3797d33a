/* schedules/pipeline.c - the step of a pipeline, and what can be asked afterwards.
 *
 * A step is the rank's list, action by action, then the end: sends are over, all ranks have one status, and the losses
 * go round when they are shared. Plans with an OPTIMIZER_STEP agree before it, so that no rank steps alone, and once
 * more after it.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "pipeline.h"

#include "core/base/clock.h"
#include "core/base/error.h"

#include <kith/coll.h>
#include <string.h>

/* ---- times ---- */

int64_t ki_pipe_now(const kith_pipeline *p)
{
    return ki_now_ns() - p->start_ns;
}

void ki_pipe_note_start(kith_pipeline *p, size_t at)
{
    if (p->intervals != NULL)
        p->intervals[at].start = p->intervals[at].end = 1e-9 * (double)ki_pipe_now(p);
}

void ki_pipe_note_end(kith_pipeline *p, size_t at)
{
    if (p->intervals != NULL)
        p->intervals[at].end = 1e-9 * (double)ki_pipe_now(p);
}

/* ---- the step ---- */

/* After a step that went to its end every buffer is in its pool, so there is little to begin with. */
static void begin(kith_pipeline *p)
{
    p->is_running = true;
    p->is_failed = p->is_settled = p->is_tied_stage_due = false;
    ki_pipe_verdict_clear(&p->own, p->group);
    ki_pipe_verdict_clear(&p->agreed, p->group);
    for (int direction = 0; direction < KI_DIRECTIONS; direction++)
        p->receives[direction].passed = p->receives[direction].posted = 0;
    ki_pipe_ordered_reset(p);
    p->stats = (kith_pipeline_stats){ .pool_nbytes = p->pool_nbytes };
    p->in_flight = 0;
    p->live_nbytes = 0;
    p->start_ns = ki_now_ns();
    if (p->intervals != NULL)
        memset(p->intervals, 0, p->action_count * sizeof *p->intervals);
}

static kith_status run_list(kith_pipeline *p)
{
    kith_status status = KITH_OK;
    for (size_t at = 0; at < p->action_count && status == KITH_OK;) {
        status = ki_pipe_message_progress(p);
        if (status == KITH_OK)
            status = ki_pipe_action_run(p, &at);
    }
    return status == KITH_OK ? ki_pipe_message_finish_sends(p) : status;
}

/* Plans without OPTIMIZER_STEP agree here for the first time; the others again, as the optimizer may have failed. */
static kith_status agree_at_end(kith_pipeline *p)
{
    kith_status status = p->is_settled ? KITH_OK : ki_pipe_reduce_finish(p);
    if (status != KITH_OK || (p->is_settled && p->agreed.status != KITH_OK))
        return status;
    return ki_pipe_fail_agree(p);
}

static kith_status share_losses(kith_pipeline *p)
{
    if (!p->options.shares_loss || p->agreed.status != KITH_OK)
        return KITH_OK;
    return kith_broadcast(p->group, p->next_losses, (size_t)p->microbatches, KITH_F64,
                          p->schedule->rank_of_stage[p->stages - 1]);
}

static void keep_losses(kith_pipeline *p)
{
    double *old = p->losses;
    p->losses = p->next_losses;
    p->next_losses = old;
    p->has_losses = p->losses != NULL;
}

static kith_status run(kith_pipeline *p)
{
    kith_status status = run_list(p);
    if (status == KITH_OK)
        status = agree_at_end(p);
    if (status == KITH_OK)
        status = share_losses(p);
    if (status != KITH_OK)
        return ki_pipe_fail_end(p, status);
    p->stats.step_ns = ki_pipe_now(p);
    p->last_stats = p->stats;
    if (p->agreed.status != KITH_OK)
        return ki_pipe_verdict_return(&p->agreed);
    keep_losses(p);
    return KITH_OK;
}

kith_status kith_pipeline_step(kith_pipeline *p)
{
    if (p == NULL)
        return ki_fail(KITH_ERR_INVALID_ARG, "kith_pipeline_step(): pipeline is NULL");
    if (p->fatal.status != KITH_OK)
        return ki_fail_quiet(p->fatal.status, "the pipeline failed in an earlier step: %s", p->fatal.sentence);
    if (p->is_running)
        return ki_fail(KITH_ERR_BUSY, "kith_pipeline_step() was called by a callback of the same pipeline");
    begin(p);
    kith_status status = run(p);
    p->is_running = false;
    return status;
}

kith_status kith_schedule_run(const kith_schedule *schedule, kith_group *group,
                              const kith_pipeline_callbacks *callbacks, const kith_pipeline_options *options)
{
    kith_pipeline *p;
    kith_status status = kith_pipeline_create(schedule, group, callbacks, options, &p);
    if (status != KITH_OK)
        return status;
    status = kith_pipeline_step(p);
    kith_pipeline_destroy(p);
    return status;
}

/* ---- queries ---- */

int kith_pipeline_slots(const kith_pipeline *p, int stage)
{
    return p != NULL && ki_pipe_has_stage(p, stage) ? p->slots[p->schedule->chunk_of_stage[stage]] : 0;
}

kith_status kith_pipeline_loss(const kith_pipeline *p, int microbatch, double *loss)
{
    if (p == NULL || loss == NULL)
        return ki_fail(KITH_ERR_INVALID_ARG, "kith_pipeline_loss(): %s is NULL", p == NULL ? "pipeline" : "loss");
    if (microbatch < 0 || microbatch >= p->microbatches)
        return ki_fail(KITH_ERR_INVALID_ARG, "loss of microbatch %d: valid are 0 to %d", microbatch,
                       p->microbatches - 1);
    if (!p->has_losses)
        return ki_fail(KITH_ERR_INVALID_ARG, "loss of microbatch %d: %s", microbatch,
                       p->next_losses == NULL ? "this rank does not hear of losses (it has not the last stage and "
                                                "shares_loss is 0, or there is no loss callback)"
                                              : "no step has succeeded yet");
    *loss = p->losses[microbatch];
    return KITH_OK;
}

kith_status kith_pipeline_last_stats(const kith_pipeline *p, kith_pipeline_stats *stats)
{
    if (p == NULL || stats == NULL)
        return ki_fail(KITH_ERR_INVALID_ARG, "kith_pipeline_last_stats(): %s is NULL",
                       p == NULL ? "pipeline" : "stats");
    *stats = p->last_stats;
    return KITH_OK;
}

const kith_interval *kith_pipeline_intervals(const kith_pipeline *p, size_t *count)
{
    bool has_times = p != NULL && p->intervals != NULL;
    if (count != NULL)
        *count = has_times ? p->action_count : 0;
    return has_times ? p->intervals : NULL;
}

const kith_schedule *kith_pipeline_schedule(const kith_pipeline *p)
{
    return p != NULL ? p->schedule : NULL;
}
