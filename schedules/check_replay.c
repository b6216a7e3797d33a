/* schedules/check_replay.c - do all lists run to their ends? Each rank takes its list in order and stops at an
 * action that waits for another rank; when nobody can go on, the ranks that wait for each other are the
 * counterexample.
 *
 * One run proves it for all runs: what an action waits for is that another rank has come to, or past, one place of its
 * list. Ranks never go back, so what may go on once may always go on, and the order in which ranks are tried cannot
 * matter.
 *
 *     action                          waits until
 *     send, capacity 0                the receiver has come to the receive (and the receive until the sender has come)
 *     send number k, capacity n > 0   the receiver is past the receive of message k - n of the connection
 *     receive, capacity n > 0         the sender is past the send
 *     F, no messages in the plan      the rank of the stage before is past its F
 *     B, I, no messages in the plan   the rank of the next stage is past its B or I
 *     REDUCE_TIED                     the rank of the other stage has come to its own
 *
 * An overlapped pair starts when both have what they need, and ends as one. So each place of a list is waited for by at
 * most one rank, and a table of places says who has to be woken.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "check.h"

#include "core/base/error.h"
#include "core/text.h"

#include <stdlib.h>

/* Place of another rank's list that has to be reached: come to, or (is_past) left behind. */
typedef struct wish {
    int rank;
    size_t position;
    bool is_past;
} wish;

typedef struct replay {
    ki_checker *c;
    size_t *at;     /* [ranks] position of the next action */
    wish *wishes;   /* [ranks] what it waits for; rank -1: nothing */
    size_t *offset; /* [ranks] of its list in `waiter` */
    int *waiter;    /* [actions] the rank that waits for the place, plus 1; 0: none */
    int *ready;     /* [ranks] a stack of ranks to be tried */
    int ready_count;
    size_t *forward, *backward; /* [stages * microbatches] their positions; plans without messages alone */
    size_t tied[2];             /* positions of REDUCE_TIED of first and last stage */
} replay;

static const wish no_wish = { -1, 0, false };

/* ---- what an action waits for ---- */

static wish wish_of_message(const replay *r, const kith_action *a)
{
    const ki_message_table *m = r->c->messages;
    size_t message = ki_message(r->c, a);
    bool is_send = ki_action_is_send(a->type);
    size_t capacity = (size_t)r->c->o.capacity;
    int peer = ki_message_rank(r->c, message, !is_send);
    if (!is_send)
        return (wish){ peer, m->sent[message], capacity > 0 };
    if (capacity == 0)
        return (wish){ peer, m->received[message], false };
    int connection = m->connection[ki_lane(a)];
    if (m->done[connection] < capacity)
        return no_wish;
    size_t taken = m->order[m->first[connection] + m->done[connection] - capacity];
    return (wish){ peer, m->received[taken], true };
}

static wish wish_of_compute(const replay *r, const kith_action *a)
{
    const kith_schedule *s = r->c->plan;
    bool is_backward = a->type == KITH_ACTION_B || a->type == KITH_ACTION_I;
    int source = is_backward ? a->stage + 1 : a->stage - 1;
    bool is_here = !ki_schedule_crosses(s, is_backward ? a->stage : source);
    if (s->has_messages || a->type == KITH_ACTION_W || is_here)
        return no_wish;
    const size_t *positions = is_backward ? r->backward : r->forward;
    return (wish){ s->rank_of_stage[source], positions[ki_pair(s, source, a->microbatch)], true };
}

static wish wish_of(const replay *r, const kith_action *a)
{
    const kith_schedule *s = r->c->plan;
    if (ki_action_is_message(a->type))
        return wish_of_message(r, a);
    if (ki_action_is_compute(a->type))
        return wish_of_compute(r, a);
    if (a->type == KITH_ACTION_REDUCE_TIED)
        return (wish){ s->rank_of_stage[a->stage == 0 ? s->stages - 1 : 0], r->tied[a->stage == 0 ? 1 : 0], false };
    return no_wish;
}

static bool is_granted(const replay *r, const wish *w)
{
    return w->rank < 0 || r->at[w->rank] > w->position || (r->at[w->rank] == w->position && !w->is_past);
}

/* ---- the run ---- */

static void wake(replay *r, int rank, size_t position)
{
    if (position >= r->c->plan->lists[rank].count)
        return;
    int *waiter = &r->waiter[r->offset[rank] + position];
    if (*waiter > 0)
        r->ready[r->ready_count++] = *waiter - 1;
    *waiter = 0;
}

/* How many actions of the list run as one from here. */
static size_t width_at(const ki_action_list *list, size_t at)
{
    return list->actions[at].is_overlapped ? 2 : 1;
}

static bool may_run(replay *r, int rank, size_t at, size_t width)
{
    for (size_t i = at; i < at + width; i++) {
        r->wishes[rank] = wish_of(r, &r->c->plan->lists[rank].actions[i]);
        if (!is_granted(r, &r->wishes[rank]))
            return false;
    }
    return true;
}

static void pass(replay *r, int rank, size_t width)
{
    for (size_t i = 0; i < width; i++) {
        size_t position = r->at[rank]++;
        const kith_action *a = &r->c->plan->lists[rank].actions[position];
        if (ki_action_is_message(a->type) && ki_action_is_send(a->type))
            r->c->messages->done[r->c->messages->connection[ki_lane(a)]]++;
        wake(r, rank, position);
    }
    wake(r, rank, r->at[rank]);
}

/* Runs a rank until it waits or is at its end. */
static void run_rank(replay *r, int rank)
{
    const ki_action_list *list = &r->c->plan->lists[rank];
    while (r->at[rank] < list->count) {
        size_t width = width_at(list, r->at[rank]);
        if (!may_run(r, rank, r->at[rank], width)) {
            r->waiter[r->offset[r->wishes[rank].rank] + r->wishes[rank].position] = rank + 1;
            return;
        }
        pass(r, rank, width);
    }
    r->wishes[rank] = no_wish;
}

/* ---- the counterexample ---- */

static void add_wait(const replay *r, int rank, ki_text *text)
{
    const kith_schedule *s = r->c->plan;
    const wish *w = &r->wishes[rank];
    const kith_action *a = &s->lists[rank].actions[r->at[rank]];
    char here[64], with[64], there[64];
    kith_action_text(a, here, sizeof here);
    kith_action_text(a->is_overlapped ? a + 1 : a, with, sizeof with);
    kith_action_text(&s->lists[w->rank].actions[w->position], there, sizeof there);
    ki_text_add(text, "rank %d at position %zu (%s%s%s) for %s at position %zu of rank %d", rank, r->at[rank], here,
                a->is_overlapped ? " with " : "", a->is_overlapped ? with : "", there, w->position, w->rank);
}

/* Whoever a rank waits for has not come to its end either, so the walk meets a rank again, and from there on it is the
 * cycle. */
static int rank_on_cycle(const replay *r, int start)
{
    int slow = start, fast = start;
    do {
        slow = r->wishes[slow].rank;
        fast = r->wishes[r->wishes[fast].rank].rank;
    } while (slow != fast);
    return slow;
}

static kith_status refuse_cycle(replay *r, int stalled)
{
    enum { SHOWN = 6 };
    int start = rank_on_cycle(r, stalled), rank = start, count = 0;
    ki_text text = { 0 };
    do {
        ki_checker_mark_place(r->c, rank, r->at[rank]);
        if (count < SHOWN) {
            ki_text_add(&text, "%s", count > 0 ? "; " : "");
            add_wait(r, rank, &text);
        }
        count++;
        rank = r->wishes[rank].rank;
    } while (rank != start);
    if (count > SHOWN)
        ki_text_add(&text, "; and so on over %d ranks", count);
    r->c->stand = r->at;
    r->at = NULL;
    kith_status status = text.is_failed ? ki_schedule_no_memory("the check")
                                        : ki_fail_quiet(KITH_ERR_INVALID_ARG, "%d ranks wait for each other: %s", count,
                                                        ki_text_chars(&text));
    ki_text_fini(&text);
    return status;
}

/* ---- its memory ---- */

static void note_positions(replay *r)
{
    for (int rank = 0; rank < r->c->plan->ranks; rank++)
        for (size_t i = 0; i < r->c->plan->lists[rank].count; i++) {
            const kith_action *a = &r->c->plan->lists[rank].actions[i];
            if (a->type == KITH_ACTION_REDUCE_TIED)
                r->tied[a->stage == 0 ? 0 : 1] = i;
            else if (r->forward != NULL && a->type == KITH_ACTION_F)
                r->forward[ki_pair(r->c->plan, a->stage, a->microbatch)] = i;
            else if (r->forward != NULL && (a->type == KITH_ACTION_B || a->type == KITH_ACTION_I))
                r->backward[ki_pair(r->c->plan, a->stage, a->microbatch)] = i;
        }
}

static kith_status init(replay *r, ki_checker *c)
{
    const kith_schedule *s = c->plan;
    size_t ranks = (size_t)s->ranks, total = 0, pairs = (size_t)s->stages * (size_t)s->microbatches;
    r->c = c;
    r->at = ki_schedule_zeroed(ranks, sizeof *r->at);
    r->wishes = ki_schedule_zeroed(ranks, sizeof *r->wishes);
    r->offset = ki_schedule_zeroed(ranks, sizeof *r->offset);
    r->ready = ki_schedule_zeroed(ranks, sizeof *r->ready);
    if (r->at == NULL || r->wishes == NULL || r->offset == NULL || r->ready == NULL)
        return ki_schedule_no_memory("the check");
    for (int rank = 0; rank < s->ranks; rank++) {
        r->offset[rank] = total;
        total += s->lists[rank].count;
    }
    r->waiter = ki_schedule_zeroed(total, sizeof *r->waiter);
    if (r->waiter == NULL)
        return ki_schedule_no_memory("the check");
    if (!s->has_messages) {
        r->forward = ki_schedule_zeroed(pairs, sizeof *r->forward);
        r->backward = ki_schedule_zeroed(pairs, sizeof *r->backward);
        if (r->forward == NULL || r->backward == NULL)
            return ki_schedule_no_memory("the check");
    }
    note_positions(r);
    return KITH_OK;
}

static void fini(replay *r)
{
    free(r->at);
    free(r->wishes);
    free(r->offset);
    free(r->waiter);
    free(r->ready);
    free(r->forward);
    free(r->backward);
}

static kith_status run_all(replay *r)
{
    for (int i = 0; r->c->messages != NULL && i < r->c->messages->connections; i++)
        r->c->messages->done[i] = 0;
    for (int rank = r->c->plan->ranks - 1; rank >= 0; rank--)
        r->ready[r->ready_count++] = rank;
    while (r->ready_count > 0)
        run_rank(r, r->ready[--r->ready_count]);
    for (int rank = 0; rank < r->c->plan->ranks; rank++)
        if (r->at[rank] < r->c->plan->lists[rank].count)
            return refuse_cycle(r, rank);
    return KITH_OK;
}

kith_status ki_checker_replay(ki_checker *c)
{
    replay r = { 0 };
    kith_status status = init(&r, c);
    if (status == KITH_OK)
        status = run_all(&r);
    fini(&r);
    return status;
}
