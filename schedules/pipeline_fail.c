/* schedules/pipeline_fail.c - what a callback that failed leaves behind, and what happens when a group fails.
 *
 * A failure of a callback is noted with the world rank, the place and - where the callback failed in the library, or
 * said why by its means - that sentence; pipeline_agree.c makes it everybody's.
 *
 * When a group fails there is nothing left to agree with. Ranks that wait for this one must hear of it, on dp_group
 * too, whose other members may all be well; so the groups that still work are aborted. Afterwards nothing is under way
 * and nobody writes to the buffers.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "pipeline.h"

#include "core/base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Anything that is no failing status of the table counts as an invalid argument. */
static kith_status clean_status(kith_status status)
{
    bool is_known = (int)status < 0 && strcmp(kith_status_name(status), kith_status_name((kith_status)1)) != 0;
    return status == KITH_OK || is_known ? status : KITH_ERR_INVALID_ARG;
}

/* ---- verdicts ---- */

void ki_pipe_verdict_clear(ki_pipe_verdict *v, kith_group *group)
{
    v->status = KITH_OK;
    v->world_rank = kith_group_world_rank(group, kith_group_rank(group));
    v->sentence[0] = '\0';
}

void ki_pipe_verdict_take(ki_pipe_verdict *v, kith_status status)
{
    if (status == KITH_OK || v->status != KITH_OK)
        return;
    v->status = clean_status(status);
    snprintf(v->sentence, sizeof v->sentence, "world rank %d: %.*s", v->world_rank, KI_DETAIL_NBYTES - 32,
             kith_error_detail());
}

void ki_pipe_verdict_share(ki_pipe_verdict *v, kith_group *group, kith_status status, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(v->sentence, sizeof v->sentence, format, arguments);
    va_end(arguments);
    v->status = ki_fail(status, "%s", v->sentence);
    v->world_rank = kith_group_world_rank(group, 0);
}

kith_status ki_pipe_verdict_return(const ki_pipe_verdict *v)
{
    return v->status == KITH_OK ? KITH_OK : ki_fail_quiet(v->status, "%s", v->sentence);
}

/* ---- callbacks ---- */

void ki_pipe_fail_watch(kith_pipeline *p)
{
    kith_status last;
    p->failures_before = ki_error_count(&last);
}

/* The sentence that came up in the callback, if it goes with what the callback returned. */
static void find_cause(const kith_pipeline *p, kith_status returned, char *cause, size_t nbytes)
{
    kith_status last;
    bool is_news = ki_error_count(&last) != p->failures_before;
    if (is_news && last == returned)
        snprintf(cause, nbytes, ": %s", kith_error_detail());
}

void ki_pipe_fail_callback(kith_pipeline *p, kith_status returned, const char *what, const kith_stage_call *call)
{
    if (returned == KITH_OK || p->own.status != KITH_OK)
        return;
    kith_status status = clean_status(returned);
    char cause[KI_DETAIL_NBYTES] = "", place[64] = "";
    find_cause(p, returned, cause, sizeof cause);
    if (call != NULL)
        snprintf(place, sizeof place, " of stage %d, microbatch %d,", call->stage, call->microbatch);
    ki_fail(status, "%s%s on rank %d of group '%s' returned %d (%s)%s", what, place, p->rank, kith_group_name(p->group),
            (int)returned, kith_status_name(status), cause);
    ki_pipe_fail_note(p, status);
}

void ki_pipe_fail_note(kith_pipeline *p, kith_status status)
{
    ki_pipe_verdict_take(&p->own, status);
    p->is_failed = p->is_failed || status != KITH_OK;
}

kith_status ki_pipe_fail_agree(kith_pipeline *p)
{
    p->agreed = p->own;
    return ki_pipe_agree(p->group, p->options.dp_group, &p->agreed);
}

/* ---- groups ---- */

void ki_pipe_fail_abort(kith_group *group)
{
    if (group != NULL && kith_group_status(group) == KITH_OK)
        kith_group_abort(group);
}

/* Each ends at once: its group has failed. */
static void drain(kith_pipeline *p)
{
    size_t pairs = (size_t)p->chunks * (size_t)p->microbatches;
    for (size_t i = 0; p->pairs != NULL && i < pairs; i++)
        for (int direction = 0; direction < KI_DIRECTIONS; direction++) {
            kith_wait(&p->pairs[i].head_request[direction]);
            kith_wait(&p->pairs[i].request[direction]);
        }
    for (int i = 0; p->pools != NULL && i < p->pool_count; i++)
        for (size_t j = 0; j < p->pools[i].send_count; j++) {
            kith_wait(&p->pools[i].sent[j]->head_request);
            kith_wait(&p->pools[i].sends[j]);
        }
    for (size_t i = 0; p->reductions != NULL && i < p->options.bucket_count; i++)
        kith_wait(&p->reductions[i]);
    kith_wait(&p->tied_request);
}

kith_status ki_pipe_fail_end(kith_pipeline *p, kith_status status)
{
    p->fatal.status = status;
    snprintf(p->fatal.sentence, sizeof p->fatal.sentence, "%s", kith_error_detail());
    ki_pipe_fail_abort(p->tied_group);
    ki_pipe_fail_abort(p->group);
    ki_pipe_fail_abort(p->options.dp_group);
    drain(p);
    return ki_pipe_verdict_return(&p->fatal);
}
