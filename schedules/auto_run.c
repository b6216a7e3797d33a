/* schedules/auto_run.c - list scheduling of F, I and W over ranks, on a clock.
 *
 * Ranks decide in the order of time. At its turn a rank starts what its rules say, and the arrival of what that makes
 * is known from then on, on the rank that waits for it: so a rank knows what has come, and also what is on its way and
 * when it will be there, and can judge whether a W fits before it. Ranks that wait for nothing known sleep until a
 * message is announced. A heap holds the ranks by the time of their next turn; each action costs O(log p).
 *
 * Memory: F takes activation_nbytes, I gives them back and takes weight_nbytes, W gives these back. F leaves room for
 * the I of everything in flight, so I can always go once all W are done, and the run cannot block itself.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "auto.h"

#include "core/base/error.h"
#include "core/base/fault.h"
#include "core/base/mem.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct ki_auto_rank {
    int forwards, backwards, weights; /* done, which is also the microbatch that is next */
    double held_nbytes;
    double turn; /* when it decides next; infinite: asleep */
    bool is_computing;
    char last; /* 'F' or 'I', the later one */
    double start, end;
    double down_free, up_free; /* when its connection to the next, and to the previous rank has room */
    size_t count;              /* letters */
    int place;                 /* in the heap */
} ki_auto_rank;

static void *array(size_t count, size_t more, size_t nbytes)
{
    size_t all;
    if (!ki_mul(count, more, &all) || !ki_mul(all, nbytes, &nbytes) || ki_fault(KI_FAULT_ALLOC))
        return NULL;
    return malloc(nbytes);
}

kith_status ki_auto_run_init(ki_auto_run *run, const ki_auto_problem *problem)
{
    size_t ranks = (size_t)problem->ranks, microbatches = (size_t)problem->microbatches;
    *run = (ki_auto_run){ 0 };
    run->input_at = array(ranks, microbatches, sizeof *run->input_at);
    run->gradient_at = array(ranks, microbatches, sizeof *run->gradient_at);
    run->letters = array(ranks, 3 * microbatches, 1);
    run->ranks = array(ranks, 1, sizeof *run->ranks);
    run->heap = array(ranks, 1, sizeof *run->heap);
    if (run->input_at != NULL && run->gradient_at != NULL && run->letters != NULL && run->ranks != NULL &&
        run->heap != NULL)
        return KITH_OK;
    ki_auto_run_fini(run);
    return ki_fail(KITH_ERR_NO_MEMORY, "no memory to plan %d microbatches on %d ranks", problem->microbatches,
                   problem->ranks);
}

void ki_auto_run_fini(ki_auto_run *run)
{
    free(run->input_at);
    free(run->gradient_at);
    free(run->letters);
    free(run->ranks);
    free(run->heap);
    *run = (ki_auto_run){ 0 };
}

/* ---- the heap of turns ---- */

static bool is_before(const ki_auto_run *run, int a, int b)
{
    double left = run->ranks[a].turn, right = run->ranks[b].turn;
    return left < right || (left == right && a < b);
}

static void put(ki_auto_run *run, int place, int rank)
{
    run->heap[place] = rank;
    run->ranks[rank].place = place;
}

/* Gives a rank its next turn and moves it to where it belongs. */
static void set_turn(ki_auto_run *run, int rank, double turn)
{
    run->ranks[rank].turn = turn;
    int place = run->ranks[rank].place;
    for (; place > 0 && is_before(run, rank, run->heap[(place - 1) / 2]); place = (place - 1) / 2)
        put(run, place, run->heap[(place - 1) / 2]);
    for (int child = 2 * place + 1; child < run->heap_count; child = 2 * place + 1) {
        if (child + 1 < run->heap_count && is_before(run, run->heap[child + 1], run->heap[child]))
            child++;
        if (!is_before(run, run->heap[child], rank))
            break;
        put(run, place, run->heap[child]);
        place = child;
    }
    put(run, place, rank);
}

/* ---- what a rank does ---- */

/* A message that is ready at `ready` and arrives on a rank that may be asleep. */
static void announce(ki_auto_run *run, const kith_stage_cost *cost, double ready, double *free_at, int to,
                     double *arrival)
{
    double leaves = ready > *free_at ? ready : *free_at;
    *free_at = leaves + cost->send;
    *arrival = leaves + cost->send + cost->latency;
    ki_auto_rank *peer = &run->ranks[to];
    if (!peer->is_computing && *arrival < peer->turn)
        set_turn(run, to, *arrival);
}

static void start(ki_auto_run *run, const ki_auto_problem *problem, int r, char letter, double now)
{
    ki_auto_rank *rank = &run->ranks[r];
    const kith_stage_cost *cost = &problem->stages[r];
    size_t m = (size_t)problem->microbatches;
    double end = now + (letter == 'F' ? cost->f : letter == 'I' ? cost->i : cost->w);
    rank->start = rank->count == 0 ? now : rank->start;
    rank->end = end;
    run->letters[(size_t)r * 3 * m + rank->count++] = letter;
    rank->is_computing = true;
    if (letter == 'F') {
        size_t k = (size_t)rank->forwards++;
        rank->held_nbytes += cost->activation_nbytes;
        rank->last = letter;
        if (r + 1 < problem->ranks)
            announce(run, cost, end, &rank->down_free, r + 1, &run->input_at[(size_t)(r + 1) * m + k]);
        else
            run->gradient_at[(size_t)r * m + k] = end;
    } else if (letter == 'I') {
        size_t k = (size_t)rank->backwards++;
        rank->held_nbytes += cost->weight_nbytes - cost->activation_nbytes;
        rank->last = letter;
        if (r > 0)
            announce(run, cost, end, &rank->up_free, r - 1, &run->gradient_at[(size_t)(r - 1) * m + k]);
    } else {
        rank->weights++;
        rank->held_nbytes -= cost->weight_nbytes;
    }
    set_turn(run, r, end);
}

/* What a rank could do at its turn. Times are infinite for what is not known, not there or not allowed. */
typedef struct choice {
    double forward_at, backward_at;
    bool has_weights, is_blocked; /* blocked: something has come that memory has no room for, unless a W makes some */
} choice;

static choice look(const ki_auto_run *run, const ki_auto_problem *problem, const ki_auto_rules *rules, int r)
{
    const ki_auto_rank *rank = &run->ranks[r];
    const kith_stage_cost *cost = &problem->stages[r];
    size_t row = (size_t)r * (size_t)problem->microbatches;
    double room = problem->bound * (1 + 1e-9) - rank->held_nbytes;
    int in_flight = rank->forwards - rank->backwards;
    double most = rules->hand > 0 ? problem->microbatches : 1 + rules->ahead * (problem->ranks - 1 - r);
    choice c = { INFINITY, INFINITY, rank->weights < rank->backwards, false };
    if (rank->forwards < problem->microbatches && in_flight < most)
        c.forward_at = run->input_at[row + (size_t)rank->forwards];
    if (in_flight > 0)
        c.backward_at = run->gradient_at[row + (size_t)rank->backwards];
    if (cost->activation_nbytes + ki_auto_reserve(cost) > room) {
        c.is_blocked = c.forward_at <= rank->turn;
        c.forward_at = INFINITY;
    }
    if (cost->weight_nbytes - cost->activation_nbytes > room) {
        c.is_blocked = c.is_blocked || c.backward_at <= rank->turn;
        c.backward_at = INFINITY;
    }
    return c;
}

/* The order of zb-h1 (c = 1) and zb-h2 (2): F k, I k - ahead and W k - ahead - lag come in step k; see looped.h. */
static char next_by_hand(const ki_auto_rank *rank, int m, int ahead, int lag)
{
    int backward = rank->backwards + ahead, weights = rank->weights + ahead + lag;
    if (rank->forwards < m && rank->forwards <= backward && rank->forwards <= weights)
        return 'F';
    return rank->backwards < m && backward <= weights ? 'I' : 'W';
}

static char choose_by_hand(const ki_auto_run *run, const ki_auto_problem *problem, int c, int r, const choice *ready)
{
    const ki_auto_rank *rank = &run->ranks[r];
    int m = problem->microbatches;
    int ahead = c * (problem->ranks - 1 - r), lag = c * r;
    char letter = next_by_hand(rank, m, ahead < m ? ahead : m, lag < m ? lag : m);
    bool is_ready = letter == 'F'   ? ready->forward_at <= rank->turn
                    : letter == 'I' ? ready->backward_at <= rank->turn
                                    : rank->weights < m;
    return is_ready ? letter : 0;
}

/* A time to wait for: what has come already is none. */
static double later(double time, double now)
{
    return time > now ? time : INFINITY;
}

/* 'F', 'I', 'W', or 0 to wait. */
static char choose(const ki_auto_run *run, const ki_auto_problem *problem, const ki_auto_rules *rules, int r,
                   const choice *c)
{
    const ki_auto_rank *rank = &run->ranks[r];
    double now = rank->turn;
    bool has_forward = c->forward_at <= now, has_backward = c->backward_at <= now;
    if (c->has_weights && rank->backwards - rank->weights > rules->lag * r + 1)
        return 'W';
    if (has_forward && has_backward) {
        bool is_forward = rules->prefer == KI_AUTO_FORWARD || (rules->prefer == KI_AUTO_TURNS && rank->last == 'I');
        return is_forward ? 'F' : 'I';
    }
    if (has_backward)
        return 'I';
    if (has_forward && c->backward_at - now >= rules->patience * problem->stages[r].f)
        return 'F';
    double next = fmin(later(c->forward_at, now), later(c->backward_at, now));
    bool fits = next - now >= rules->fill * problem->stages[r].w;
    return c->has_weights && (c->is_blocked || fits) ? 'W' : 0;
}

static void clear(ki_auto_run *run, const ki_auto_problem *problem)
{
    size_t pairs = (size_t)problem->ranks * (size_t)problem->microbatches;
    for (size_t i = 0; i < pairs; i++)
        run->input_at[i] = run->gradient_at[i] = INFINITY;
    for (int k = 0; k < problem->microbatches; k++)
        run->input_at[k] = 0;
    memset(run->ranks, 0, (size_t)problem->ranks * sizeof *run->ranks);
    run->heap_count = problem->ranks;
    for (int r = 0; r < problem->ranks; r++) {
        run->ranks[r].turn = r == 0 ? 0 : INFINITY; /* in this order a heap already */
        put(run, r, r);
    }
}

static bool finish(ki_auto_run *run, const ki_auto_problem *problem)
{
    run->span = run->makespan = 0;
    for (int r = 0; r < problem->ranks; r++) {
        const ki_auto_rank *rank = &run->ranks[r];
        if (rank->weights < problem->microbatches)
            return false;
        run->span = fmax(run->span, rank->end - rank->start);
        run->makespan = fmax(run->makespan, rank->end);
    }
    return true;
}

bool ki_auto_run_go(ki_auto_run *run, const ki_auto_problem *problem, const ki_auto_rules *rules)
{
    clear(run, problem);
    for (;;) {
        int r = run->heap[0];
        double now = run->ranks[r].turn;
        if (isinf(now))
            return finish(run, problem);
        run->ranks[r].is_computing = false;
        choice c = look(run, problem, rules, r);
        char letter =
            rules->hand > 0 ? choose_by_hand(run, problem, rules->hand, r, &c) : choose(run, problem, rules, r, &c);
        if (letter != 0)
            start(run, problem, r, letter, now);
        else
            set_turn(run, r, fmin(later(c.forward_at, now), later(c.backward_at, now)));
    }
}
