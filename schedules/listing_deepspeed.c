/* schedules/listing_deepspeed.c - a plan as the instructions that DeepSpeed's pipeline engine takes, a list for each
 * step.
 *
 * DeepSpeed counts in steps that all ranks take together: in one step a rank exchanges what earlier steps made, then
 * computes one forward or backward. A step may be closed by a barrier, so both ends of a message must stand in the same
 * step. We get steps in two passes over the plan, each forward and backward being one step long: first everything as
 * soon as possible, then forwards as late as that allows, so that a rank does not hold activations for longer than it
 * must; both ends of a message go into the step of the computation that needs it. For 1F1B this is DeepSpeed's own
 * schedule: F of stage s and microbatch i in step s + 2i, B in 2p - 1 - s + 2i, 2(m + p - 1) steps.
 *
 * Within a step gradients travel before activations on all ranks. Messages run along a line of stages, so blocking
 * sends and receives in that order end.
 *
 * Instructions name a buffer instead of a microbatch: microbatch mod buffers, where a rank has max(2, what it holds at
 * most), or more when that would give one buffer to two microbatches at once.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "exchange.h"

#include "core/base/error.h"
#include "core/base/fault.h"

#include <stdlib.h>

/* Times of F and B of each stage and microbatch, in steps. */
typedef struct clockwork {
    const kith_schedule *s;
    int *f, *b; /* [stages * microbatches], -1: not yet */
    int steps;
} clockwork;

static int *time_of(const clockwork *w, const kith_action *a)
{
    return &(a->type == KITH_ACTION_F ? w->f : w->b)[ki_pair(w->s, a->stage, a->microbatch)];
}

/* What a computation needs from another: the stage before it for F; for B the stage after it, or its own F. */
static int ready_after(const clockwork *w, const kith_action *a)
{
    if (a->type == KITH_ACTION_F)
        return a->stage == 0 ? -1 : w->f[ki_pair(w->s, a->stage - 1, a->microbatch)];
    bool is_last = a->stage + 1 == w->s->stages;
    return is_last ? w->f[ki_pair(w->s, a->stage, a->microbatch)] : w->b[ki_pair(w->s, a->stage + 1, a->microbatch)];
}

static bool needs_another(const kith_action *a)
{
    return a->type == KITH_ACTION_B || a->stage > 0;
}

/* As soon as possible. next: [ranks] zeroed, positions in the lists; clock: [ranks] -1. False: the plan stands
 * still. */
static bool run_early(clockwork *w, size_t *next, int *clock)
{
    bool is_moving = true;
    while (is_moving) {
        is_moving = false;
        for (int rank = 0; rank < w->s->ranks; rank++) {
            const ki_action_list *list = &w->s->lists[rank];
            for (; next[rank] < list->count; next[rank]++) {
                const kith_action *a = &list->actions[next[rank]];
                if (!ki_action_is_compute(a->type))
                    continue;
                int after = ready_after(w, a);
                if (needs_another(a) && after < 0)
                    break;
                clock[rank] = (after > clock[rank] ? after : clock[rank]) + 1;
                *time_of(w, a) = clock[rank];
                w->steps = clock[rank] + 1 > w->steps ? clock[rank] + 1 : w->steps;
                is_moving = true;
            }
        }
    }
    for (int rank = 0; rank < w->s->ranks; rank++)
        if (next[rank] < w->s->lists[rank].count)
            return false;
    return true;
}

/* The latest step in which the results of a computation are needed; steps when nobody needs them. */
static int needed_before(const clockwork *w, const kith_action *a)
{
    bool is_last = a->stage + 1 == w->s->stages;
    if (a->type == KITH_ACTION_B)
        return a->stage == 0 ? w->steps : w->b[ki_pair(w->s, a->stage - 1, a->microbatch)];
    if (!is_last)
        return w->f[ki_pair(w->s, a->stage + 1, a->microbatch)];
    return w->s->has_backward ? w->b[ki_pair(w->s, a->stage, a->microbatch)] : w->steps;
}

/* Moves forwards as late as they can be; times only grow, so the passes end. */
static void delay_forwards(clockwork *w)
{
    bool is_moving = true;
    while (is_moving) {
        is_moving = false;
        for (int rank = w->s->ranks - 1; rank >= 0; rank--) {
            const ki_action_list *list = &w->s->lists[rank];
            int later = w->steps; /* the rank's next computation */
            for (size_t i = list->count; i-- > 0;) {
                const kith_action *a = &list->actions[i];
                if (!ki_action_is_compute(a->type))
                    continue;
                int before = needed_before(w, a);
                int latest = (before < later ? before : later) - 1;
                if (a->type == KITH_ACTION_F) {
                    is_moving = is_moving || latest != *time_of(w, a);
                    *time_of(w, a) = latest;
                }
                later = *time_of(w, a);
            }
        }
    }
}

/* True when no two microbatches of the rank share a buffer at one time. owner: [microbatches], room. */
static bool buffers_suffice(const clockwork *w, int rank, int buffers, int *owner)
{
    const ki_action_list *list = &w->s->lists[rank];
    for (int i = 0; i < buffers; i++)
        owner[i] = -1;
    for (size_t i = 0; i < list->count; i++) {
        const kith_action *a = &list->actions[i];
        int *mine = a->microbatch >= 0 ? &owner[a->microbatch % buffers] : NULL;
        if (a->type == KITH_ACTION_F && *mine >= 0 && w->s->has_backward)
            return false;
        if (a->type == KITH_ACTION_F)
            *mine = a->microbatch;
        if (a->type == KITH_ACTION_B)
            *mine = -1;
    }
    return true;
}

static int count_buffers(const clockwork *w, int rank, int *owner)
{
    kith_in_flight held;
    kith_schedule_in_flight(w->s, rank, &held);
    int buffers = held.activations > 2 ? held.activations : 2;
    while (buffers < w->s->microbatches && !buffers_suffice(w, rank, buffers, owner))
        buffers++;
    return buffers;
}

/* What happens in one step of one rank; each at most once, as each neighbour computes once a step. */
typedef struct instructions {
    int send_grad, recv_grad, send_activation, recv_activation; /* microbatch, -1: none */
    const kith_action *compute;
} instructions;

/* Spreads a rank's list over the steps. Whatever is sent is needed, in a step that exists. */
static void fill_steps(const clockwork *w, int rank, instructions *at)
{
    int last = w->s->stages - 1;
    for (int step = 0; step < w->steps; step++)
        at[step] = (instructions){ -1, -1, -1, -1, NULL };
    for (size_t i = 0; i < w->s->lists[rank].count; i++) {
        const kith_action *a = &w->s->lists[rank].actions[i];
        if (!ki_action_is_compute(a->type))
            continue;
        int mine = *time_of(w, a), need = needed_before(w, a);
        at[mine].compute = a;
        if (a->type == KITH_ACTION_F && a->stage > 0)
            at[mine].recv_activation = a->microbatch;
        if (a->type == KITH_ACTION_F && a->stage < last)
            at[need].send_activation = a->microbatch;
        if (a->type == KITH_ACTION_B && a->stage < last)
            at[mine].recv_grad = a->microbatch;
        if (a->type == KITH_ACTION_B && a->stage > 0)
            at[need].send_grad = a->microbatch;
    }
}

static const char *say(ki_text *out, const char *separator, const char *word, int microbatch, int buffers)
{
    if (microbatch < 0)
        return separator;
    ki_text_add(out, "%s%s(buffer_id=%d)", separator, word, microbatch % buffers);
    return ", ";
}

static void write_step(const clockwork *w, const instructions *at, int buffers, bool is_end, ki_text *out)
{
    const char *separator = "";
    const kith_action *a = at->compute;
    bool is_forward = a != NULL && a->type == KITH_ACTION_F;
    bool loads = is_forward && (a->stage == 0 || a->stage + 1 == w->s->stages);
    ki_text_add(out, "[");
    separator = say(out, separator, "SendGrad", at->send_grad, buffers);
    separator = say(out, separator, "RecvGrad", at->recv_grad, buffers);
    separator = say(out, separator, "RecvActivation", at->recv_activation, buffers);
    separator = say(out, separator, "SendActivation", at->send_activation, buffers);
    separator = say(out, separator, "LoadMicroBatch", loads ? a->microbatch : -1, buffers);
    separator = say(out, separator, "ForwardPass", is_forward ? a->microbatch : -1, buffers);
    separator = say(out, separator, "BackwardPass", a != NULL && !is_forward ? a->microbatch : -1, buffers);
    if (is_end && w->s->has_backward)
        ki_text_add(out, "%sReduceTiedGrads(), ReduceGrads(), OptimizerStep()", separator);
    ki_text_add(out, "]\n");
}

static kith_status write_all(clockwork *w, ki_text *out)
{
    instructions *at = ki_fault(KI_FAULT_ALLOC) ? NULL : calloc((size_t)w->steps, sizeof *at);
    int *owner = ki_fault(KI_FAULT_ALLOC) ? NULL : calloc((size_t)w->s->microbatches + 2, sizeof *owner);
    kith_status status = KITH_OK;
    if (at == NULL || owner == NULL)
        status = ki_fail(KITH_ERR_NO_MEMORY, "no memory to list a plan");
    for (int rank = 0; rank < w->s->ranks && status == KITH_OK; rank++) {
        int buffers = count_buffers(w, rank, owner);
        fill_steps(w, rank, at);
        ki_text_add(out, "# stage %d of %d: %d step%s, %d buffer%s\n", rank, w->s->stages, w->steps,
                    w->steps == 1 ? "" : "s", buffers, buffers == 1 ? "" : "s");
        for (int step = 0; step < w->steps; step++)
            write_step(w, &at[step], buffers, step + 1 == w->steps, out);
    }
    free(at);
    free(owner);
    return status;
}

static kith_status run_clock(clockwork *w)
{
    size_t *next = ki_fault(KI_FAULT_ALLOC) ? NULL : calloc((size_t)w->s->ranks, sizeof *next);
    int *clock = ki_fault(KI_FAULT_ALLOC) ? NULL : malloc((size_t)w->s->ranks * sizeof *clock);
    kith_status status = KITH_OK;
    if (next == NULL || clock == NULL) {
        status = ki_fail(KITH_ERR_NO_MEMORY, "no memory to list a plan");
    } else {
        for (int rank = 0; rank < w->s->ranks; rank++)
            clock[rank] = -1;
        if (!run_early(w, next, clock))
            status = ki_fail(KITH_ERR_INVALID_ARG, "the plan cannot run to its end: see kith_schedule_check()");
        else
            delay_forwards(w);
    }
    free(next);
    free(clock);
    return status;
}

kith_status ki_write_deepspeed(const kith_schedule *s, ki_text *out, size_t *dropped)
{
    *dropped = 0; /* what is no computation is said by the listing's own rules */
    size_t pairs = (size_t)s->stages * (size_t)s->microbatches;
    clockwork w = { s, NULL, NULL, 0 };
    w.f = ki_fault(KI_FAULT_ALLOC) ? NULL : malloc(pairs * sizeof *w.f);
    w.b = ki_fault(KI_FAULT_ALLOC) ? NULL : malloc(pairs * sizeof *w.b);
    kith_status status = KITH_OK;
    if (w.f == NULL || w.b == NULL) {
        status = ki_fail(KITH_ERR_NO_MEMORY, "no memory to list a plan");
    } else {
        for (size_t i = 0; i < pairs; i++)
            w.f[i] = w.b[i] = -1;
        status = run_clock(&w);
    }
    if (status == KITH_OK)
        status = write_all(&w, out);
    free(w.f);
    free(w.b);
    return status;
}
