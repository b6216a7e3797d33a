/* tests/schedules/simulate_reference.c - see simulate_reference.h.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "simulate_reference.h"

#include <string.h>

int reference_unit_at(const list *l, int at)
{
    return l->actions[at].is_overlapped ? 2 : 1;
}

static bool has_come(const reference *r, bool is_forward, int stage, int microbatch)
{
    double arrival = r->arrival[is_forward][stage][microbatch];
    return arrival >= 0 && arrival <= r->now;
}

static bool may_start(const reference *r, const kith_action *a)
{
    const plan *p = r->p;
    switch (a->type) {
    case KITH_ACTION_F:
        return a->stage == 0 || has_come(r, true, a->stage - 1, a->microbatch);
    case KITH_ACTION_B:
    case KITH_ACTION_I:
        return r->made.f[a->stage][a->microbatch] &&
               (a->stage == p->stages - 1 || has_come(r, false, a->stage + 1, a->microbatch));
    case KITH_ACTION_W:
        return r->made.inputs[a->stage][a->microbatch];
    case KITH_ACTION_RECOMPUTE:
        return r->made.f[a->stage][a->microbatch];
    default:
        return true;
    }
}

static double backward_cost(const kith_stage_cost *c)
{
    return c->b >= 0 ? c->b : c->i + c->w;
}

static double cost(const reference *r, const kith_action *a)
{
    const kith_stage_cost *c = &r->p->costs[a->stage < 0 ? 0 : a->stage];
    switch (a->type) {
    case KITH_ACTION_F:
        return c->f;
    case KITH_ACTION_B:
        return backward_cost(c);
    case KITH_ACTION_I:
        return c->i;
    case KITH_ACTION_W:
        return c->w;
    case KITH_ACTION_RECOMPUTE:
        return c->recompute >= 0 ? c->recompute : c->f;
    default:
        return 0;
    }
}

static double pair_cost(const reference *r, const kith_action *a, const kith_action *b)
{
    const kith_stage_cost *first = &r->p->costs[a->stage], *second = &r->p->costs[b->stage];
    if (first->fb < 0 && second->fb < 0)
        return cost(r, a) + cost(r, b);
    double mean = ((first->fb >= 0 ? first->fb : first->f + backward_cost(first)) +
                   (second->fb >= 0 ? second->fb : second->f + backward_cost(second))) /
                  2;
    double w = a->type == KITH_ACTION_I ? first->w : b->type == KITH_ACTION_I ? second->w : 0;
    return mean > w ? mean - w : 0;
}

static void end_of_action(reference *r, int rank, const kith_action *a)
{
    const plan *p = r->p;
    bool is_forward = a->type == KITH_ACTION_F;
    if (is_forward)
        r->made.f[a->stage][a->microbatch] = true;
    else if (a->type == KITH_ACTION_B || a->type == KITH_ACTION_I)
        r->made.inputs[a->stage][a->microbatch] = true;
    else
        return;
    int next = a->stage + (is_forward ? 1 : -1);
    if (next < 0 || next >= p->stages)
        return;
    if (p->rank_of_stage[next] == rank) {
        r->arrival[is_forward][a->stage][a->microbatch] = r->now;
        return;
    }
    connection *way = &r->ways[rank][p->rank_of_stage[next]];
    way->queue[way->count++] = (message){ r->now, is_forward, a->stage, a->microbatch };
    r->sent_count[rank]++;
    r->sent_nbytes[rank] += p->costs[is_forward ? a->stage : next].message_nbytes;
}

/* All that can happen now; true when something did. */
static bool step_rank(reference *r, int rank)
{
    const list *l = &r->p->lists[rank];
    int at = r->cursor[rank];
    if (at == l->count)
        return false;
    int unit = reference_unit_at(l, at);
    if (!r->is_running[rank]) {
        for (int i = 0; i < unit; i++)
            if (!may_start(r, &l->actions[at + i]))
                return false;
        double lasts = unit == 2 ? pair_cost(r, &l->actions[at], &l->actions[at + 1]) : cost(r, &l->actions[at]);
        r->is_running[rank] = true;
        r->until[rank] = r->now + lasts;
        for (int i = 0; i < unit; i++)
            r->at[rank][at + i] = (kith_interval){ r->now, r->until[rank] };
        return true;
    }
    if (r->until[rank] > r->now)
        return false;
    r->is_running[rank] = false;
    r->cursor[rank] += unit;
    for (int i = 0; i < unit; i++)
        end_of_action(r, rank, &l->actions[at + i]);
    return true;
}

static bool step_connection(reference *r, connection *way)
{
    if (way->sent == way->count || way->free_from > r->now)
        return false;
    const message *m = &way->queue[way->sent++];
    const kith_stage_cost *c = &r->p->costs[m->is_forward ? m->stage : m->stage - 1];
    way->free_from = r->now + c->send;
    r->arrival[m->is_forward][m->stage][m->microbatch] = way->free_from + c->latency;
    return true;
}

static void sooner(double *next, double now, double time)
{
    if (time > now && (*next < 0 || time < *next))
        *next = time;
}

/* The next moment at which something ends or arrives; negative: never. */
static double next_event(const reference *r)
{
    double next = -1;
    for (int rank = 0; rank < r->p->ranks; rank++) {
        if (r->is_running[rank])
            sooner(&next, r->now, r->until[rank]);
        for (int to = 0; to < r->p->ranks; to++)
            sooner(&next, r->now, r->ways[rank][to].free_from);
    }
    for (int way = 0; way < 2; way++)
        for (int s = 0; s < r->p->stages; s++)
            for (int k = 0; k < r->p->microbatches; k++)
                sooner(&next, r->now, r->arrival[way][s][k]);
    return next;
}

bool run_reference(reference *r, const plan *p)
{
    memset(r, 0, sizeof *r);
    r->p = p;
    for (int s = 0; s < STAGES; s++)
        for (int k = 0; k < MICROBATCHES; k++)
            r->arrival[0][s][k] = r->arrival[1][s][k] = -1;
    for (; r->now >= 0; r->now = next_event(r)) {
        bool is_moving = true;
        while (is_moving) {
            is_moving = false;
            for (int rank = 0; rank < p->ranks; rank++) {
                is_moving = step_rank(r, rank) || is_moving;
                for (int to = 0; to < p->ranks; to++)
                    is_moving = step_connection(r, &r->ways[rank][to]) || is_moving;
            }
        }
    }
    for (int rank = 0; rank < p->ranks; rank++)
        if (r->cursor[rank] < p->lists[rank].count)
            return false;
    return true;
}
