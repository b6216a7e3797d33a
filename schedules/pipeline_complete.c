/* schedules/pipeline_complete.c - a plan that has messages and nothing else of a step gets the rest.
 *
 * Files have words for computation, messages, REDUCE_GRAD, UNSHARD and RESHARD. A plan from there would run, and no
 * input would be loaded, no gradient zeroed and no optimizer step taken. So where LOAD_INPUT, LOAD_TARGET, ZERO_GRAD,
 * REDUCE_TIED and OPTIMIZER_STEP are missing altogether, loads, zeroing and step come in as kith_schedule_lower()
 * places them, and REDUCE_GRAD where there is none; messages stay as they stand. A plan that has one of these words was
 * written by somebody who knows them - to add up gradients over several steps, say - and stays as it is.
 *
 * None of what is added waits for another rank, so messages that agreed before agree afterwards.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "pipeline.h"

#include <stdlib.h>

typedef struct completion {
    const kith_schedule *from;
    kith_schedule *to;
    int *backwards_left; /* [stages] B and W that have not come */
    bool has_reduce;     /* `from` has */
} completion;

static bool has_type(const kith_schedule *s, kith_action_type first, kith_action_type last)
{
    for (int rank = 0; rank < s->ranks; rank++)
        for (size_t i = 0; i < s->lists[rank].count; i++)
            if (s->lists[rank].actions[i].type >= first && s->lists[rank].actions[i].type <= last)
                return true;
    return false;
}

static bool is_complete(const kith_schedule *s)
{
    return has_type(s, KITH_ACTION_LOAD_INPUT, KITH_ACTION_LOAD_TARGET) ||
           has_type(s, KITH_ACTION_ZERO_GRAD, KITH_ACTION_ZERO_GRAD) ||
           has_type(s, KITH_ACTION_REDUCE_TIED, KITH_ACTION_OPTIMIZER_STEP);
}

static kith_status load(completion *c, int rank, const kith_action *a)
{
    kith_status status = KITH_OK;
    if (a->type == KITH_ACTION_F && a->stage == 0)
        status = ki_schedule_add(c->to, rank, KITH_ACTION_LOAD_INPUT, a->stage, a->microbatch);
    if (a->type == KITH_ACTION_F && ki_schedule_is_last(c->from, a->stage) && status == KITH_OK)
        status = ki_schedule_add(c->to, rank, KITH_ACTION_LOAD_TARGET, a->stage, a->microbatch);
    return status;
}

static kith_status reduce(completion *c, int rank, const kith_action *a)
{
    bool gives_grad = a->type == KITH_ACTION_B || a->type == KITH_ACTION_W;
    if (c->has_reduce || !gives_grad || --c->backwards_left[a->stage] != 0)
        return KITH_OK;
    return ki_schedule_add(c->to, rank, KITH_ACTION_REDUCE_GRAD, a->stage, -1);
}

/* What stands before the second of an overlapped pair would part it. */
static kith_status copy_list(completion *c, int rank)
{
    const ki_action_list *list = &c->from->lists[rank];
    kith_status status = KITH_OK;
    for (size_t i = 0; i < list->count && status == KITH_OK; i++) {
        const kith_action *a = &list->actions[i];
        status = load(c, rank, a);
        if (status == KITH_OK)
            status = ki_schedule_add_action(c->to, rank, a);
        if (status == KITH_OK)
            status = reduce(c, rank, a);
    }
    return status;
}

static kith_status complete(completion *c)
{
    const kith_schedule *s = c->from;
    kith_status status = KITH_OK;
    for (int stage = 0; stage < s->stages; stage++)
        c->backwards_left[stage] = s->microbatches;
    for (int rank = 0; rank < s->ranks && status == KITH_OK; rank++) {
        if (s->has_backward)
            status = ki_schedule_add(c->to, rank, KITH_ACTION_ZERO_GRAD, -1, -1);
        if (status == KITH_OK)
            status = copy_list(c, rank);
        if (status == KITH_OK && s->has_backward)
            status = ki_schedule_add(c->to, rank, KITH_ACTION_OPTIMIZER_STEP, -1, -1);
    }
    return status;
}

kith_status ki_pipe_complete(const kith_schedule *s, kith_schedule **completed)
{
    *completed = NULL;
    if (is_complete(s))
        return KITH_OK;
    completion c = { .from = s,
                     .has_reduce = has_type(s, KITH_ACTION_REDUCE_GRAD, KITH_ACTION_REDUCE_GRAD),
                     .backwards_left = ki_pipe_zeroed((size_t)s->stages, sizeof *c.backwards_left) };
    kith_status status = c.backwards_left == NULL ? ki_schedule_no_memory("the counts")
                                                  : ki_schedule_new(s->kind, s->ranks, s->stages, s->rank_of_stage,
                                                                    KITH_STAGES_LOOP, s->microbatches, &c.to);
    if (status == KITH_OK)
        status = complete(&c);
    free(c.backwards_left);
    if (status == KITH_OK)
        *completed = c.to;
    else
        kith_schedule_destroy(c.to);
    return status;
}
