/* schedules/pipeline_fail.c - one status on all ranks, and what happens when there cannot be one.
 *
 * Agreement goes over the pipeline first and over dp_group then: every group of the second kind has one rank of each
 * pipeline, so after both all ranks of all pipelines hold the lowest status of any. It costs two small collectives.
 *
 * When a group fails there is nothing left to agree with. Ranks that wait for this one must hear of it, on dp_group
 * too, whose other members may all be well; so the groups that still work are aborted. Afterwards nothing is under way
 * and nobody writes to the buffers.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "pipeline.h"

#include "core/base/error.h"

#include <stdio.h>
#include <string.h>

/* Anything that is no failing status of the table counts as an invalid argument. */
static kith_status clean_status(kith_status status)
{
    bool is_known = (int)status < 0 && strcmp(kith_status_name(status), kith_status_name((kith_status)1)) != 0;
    return status == KITH_OK || is_known ? status : KITH_ERR_INVALID_ARG;
}

static void describe(const kith_pipeline *p, kith_status given, const char *what, const kith_stage_call *call)
{
    kith_status status = clean_status(given);
    if (what == NULL) /* the sentence is there */
        return;
    if (call != NULL)
        ki_fail(status, "%s of stage %d, microbatch %d, on rank %d of the pipeline returned %d (%s)", what, call->stage,
                call->microbatch, p->rank, (int)given, kith_status_name(status));
    else
        ki_fail(status, "%s on rank %d of the pipeline returned %d (%s)", what, p->rank, (int)given,
                kith_status_name(status));
}

void ki_pipe_fail_note(kith_pipeline *p, kith_status status, const char *what, const kith_stage_call *call)
{
    if (status == KITH_OK || p->own_status != KITH_OK)
        return;
    describe(p, status, what, call);
    p->own_status = clean_status(status);
    p->is_failed = true;
    snprintf(p->detail, KI_DETAIL_NBYTES, "%s", kith_error_detail());
}

/* Over one group. What a group answers while it works is the agreement; else its failure is returned. */
static kith_status agree_over(kith_group *group, kith_status mine, kith_status *agreed)
{
    *agreed = kith_agree(group, mine);
    return *agreed == KITH_OK ? KITH_OK : kith_group_status(group);
}

kith_status ki_pipe_fail_agree_over(kith_group *group, kith_group *dp_group, kith_status mine, kith_status *agreed)
{
    kith_status status = agree_over(group, mine, agreed);
    if (status == KITH_OK && dp_group != NULL)
        status = agree_over(dp_group, *agreed, agreed);
    return status;
}

kith_status ki_pipe_fail_agree(kith_pipeline *p, kith_status mine)
{
    kith_status status = ki_pipe_fail_agree_over(p->group, p->options.dp_group, mine, &p->agreed);
    bool has_own_sentence = mine == p->agreed && p->detail[0] != '\0';
    if (status == KITH_OK && p->agreed != KITH_OK && !has_own_sentence)
        snprintf(p->detail, KI_DETAIL_NBYTES, "%s", kith_error_detail());
    return status;
}

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
        for (int direction = 0; direction < KI_DIRECTIONS; direction++)
            kith_wait(&p->pairs[i].request[direction]);
    for (int i = 0; p->pools != NULL && i < p->pool_count; i++)
        for (size_t j = 0; j < p->pools[i].send_count; j++)
            kith_wait(&p->pools[i].sends[j]);
    for (size_t i = 0; p->reductions != NULL && i < p->options.bucket_count; i++)
        kith_wait(&p->reductions[i]);
    kith_wait(&p->tied_request);
}

kith_status ki_pipe_fail_end(kith_pipeline *p, kith_status status)
{
    snprintf(p->detail, KI_DETAIL_NBYTES, "%s", kith_error_detail());
    p->fatal = status;
    ki_pipe_fail_abort(p->tied_group);
    ki_pipe_fail_abort(p->group);
    ki_pipe_fail_abort(p->options.dp_group);
    drain(p);
    return ki_fail_quiet(status, "%s", p->detail);
}
