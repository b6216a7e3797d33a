/* schedules/pipeline_agree.c - one status on all ranks, with the sentence of the rank that it came from.
 *
 * Agreement goes over the pipeline first and over dp_group then: every group of the second kind has one rank of each
 * pipeline, so after both all ranks of all pipelines hold the lowest status of any, and of equal ones that of the
 * lowest world rank. Who brings a status over dp_group has often heard of it himself; so a verdict carries the world
 * rank that it began with, and its sentence.
 *
 * While all is well this is one small all_reduce for each group. Only after a failure two more operations find a rank
 * that has the sentence and tell it to the others.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "pipeline.h"

#include <kith/coll.h>

/* Negative when something failed; the lowest status first, then the lowest rank. */
static int64_t key_of(const ki_pipe_verdict *v)
{
    return (int64_t)v->status * (INT64_C(1) << 32) + v->world_rank;
}

kith_status ki_pipe_agree_over(kith_group *group, ki_pipe_verdict *v)
{
    int64_t mine = key_of(v), lowest = mine;
    kith_status status = kith_all_reduce(group, &lowest, &lowest, 1, KITH_INT64, KITH_MIN);
    if (status != KITH_OK || lowest >= 0)
        return status;
    int64_t teller = mine == lowest ? kith_group_rank(group) : INT64_MAX;
    status = kith_all_reduce(group, &teller, &teller, 1, KITH_INT64, KITH_MIN);
    if (status == KITH_OK)
        status = kith_broadcast(group, v->sentence, sizeof v->sentence, KITH_UINT8, (int)teller);
    if (status != KITH_OK)
        return status;
    v->world_rank = (int)(lowest & 0xffffffff);
    v->status = (kith_status)((lowest - v->world_rank) / (INT64_C(1) << 32));
    return KITH_OK;
}

kith_status ki_pipe_agree(kith_group *group, kith_group *dp_group, ki_pipe_verdict *v)
{
    kith_status status = ki_pipe_agree_over(group, v);
    return status == KITH_OK && dp_group != NULL ? ki_pipe_agree_over(dp_group, v) : status;
}
