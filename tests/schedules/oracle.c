/* tests/schedules/oracle.c - see oracle.h.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "oracle.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum value { EMPTY, INPUT, TARGET, ACTIVATION, SAVED, DROPPED, GRADIENT, FOR_WEIGHTS } value;

typedef struct cell {
    value input;    /* of F: the microbatch or the activation of the stage before */
    value target;   /* of the loss */
    value output;   /* the activation, until the backward */
    value saved;    /* what the backward needs: SAVED, or DROPPED until it is computed again */
    value gradient; /* that came from the next stage */
    value passed;   /* gradient for the stage before, until it has gone */
    value pending;  /* what W needs */
    int forwards;
    int added; /* times that it was added to the gradients of the stage */
} cell;

typedef struct message {
    value what;
    int stage, microbatch; /* who takes it */
} message;

typedef struct queue {
    message held[2 * ORACLE_STAGES * ORACLE_MICROBATCHES + 64]; /* all of a right plan, and some more */
    size_t first, last;
} queue;

typedef struct oracle {
    const draft *d;
    const kith_schedule_check_options *o;
    bool has_messages, has_backward;
    int counts[KITH_ACTION_TYPE_COUNT];
    bool has_shards[ORACLE_STAGES], has_recompute[ORACLE_STAGES];
    cell cells[ORACLE_STAGES][ORACLE_MICROBATCHES];
    bool is_stale[ORACLE_STAGES], has_parameters[ORACLE_STAGES];
    int reduced[ORACLE_STAGES], tied[ORACLE_STAGES];
    int zeroed[64], stepped[64], in_flight[64];
    size_t at[64];
    queue *queues; /* [2 * stages] a lane each, or [ranks * ranks] */
    const char *why;
} oracle;

/* The outcome of trying an action. */
typedef enum outcome { WAITS, DONE, WRONG } outcome;

static outcome wrong(oracle *x, const char *why)
{
    if (x->why == NULL)
        x->why = why;
    return WRONG;
}

/* Takes what has to be in the slot out of it. */
static bool take(value *slot, value expected)
{
    bool is_there = *slot == expected;
    *slot = EMPTY;
    return is_there;
}

static bool put(value *slot, value what)
{
    bool was_empty = *slot == EMPTY;
    *slot = what;
    return was_empty;
}

static int rank_of(const oracle *x, int stage)
{
    return x->d->rank_of_stage[stage];
}

/* ---- computation ---- */

static bool is_split(const oracle *x, int from, int to)
{
    return from >= 0 && to < x->d->stages && rank_of(x, from) != rank_of(x, to);
}

/* Data of another rank that a plan of computation alone has not made yet: the action waits. */
static bool has_come(const oracle *x, const kith_action *a)
{
    const cell *c = &x->cells[a->stage][a->microbatch];
    if (x->has_messages)
        return true;
    if (a->type == KITH_ACTION_F && is_split(x, a->stage - 1, a->stage))
        return c->input != EMPTY || c->forwards > 0;
    if ((a->type == KITH_ACTION_B || a->type == KITH_ACTION_I) && is_split(x, a->stage, a->stage + 1))
        return c->gradient != EMPTY || c->forwards == 0 || c->saved == EMPTY;
    return true;
}

static outcome forward(oracle *x, int rank, const kith_action *a)
{
    cell *c = &x->cells[a->stage][a->microbatch];
    bool has_own_input = a->stage == 0 && x->counts[KITH_ACTION_LOAD_INPUT] == 0;
    bool is_last = a->stage == x->d->stages - 1;
    if (c->forwards++ > 0)
        return wrong(x, "forward twice");
    if (!has_own_input && !take(&c->input, a->stage == 0 ? INPUT : ACTIVATION))
        return wrong(x, "forward without input");
    if (is_last && x->counts[KITH_ACTION_LOAD_TARGET] > 0 && !take(&c->target, TARGET))
        return wrong(x, "loss without target");
    bool goes_by_itself = !is_last && (!x->has_messages || !is_split(x, a->stage, a->stage + 1));
    if (goes_by_itself && !put(&x->cells[a->stage + 1][a->microbatch].input, ACTIVATION))
        return wrong(x, "input twice");
    c->output = is_last ? EMPTY : ACTIVATION;
    c->saved = x->has_recompute[a->stage] ? DROPPED : SAVED;
    int bound = x->o->in_flight_bounds != NULL ? x->o->in_flight_bounds[rank] : x->o->in_flight_bound;
    if (++x->in_flight[rank] > bound && bound > 0)
        return wrong(x, "too many in flight");
    x->in_flight[rank] -= x->has_backward ? 0 : 1;
    return DONE;
}

static outcome backward(oracle *x, int rank, const kith_action *a)
{
    cell *c = &x->cells[a->stage][a->microbatch];
    bool is_last = a->stage == x->d->stages - 1;
    if (!take(&c->saved, SAVED))
        return wrong(x, "backward without activation");
    if (!is_last && !take(&c->gradient, GRADIENT))
        return wrong(x, "backward without gradient");
    c->output = EMPTY;
    x->in_flight[rank]--;
    if (a->type == KITH_ACTION_B)
        c->added++;
    else
        c->pending = FOR_WEIGHTS;
    if (a->stage == 0)
        return DONE;
    if (x->has_messages && is_split(x, a->stage - 1, a->stage))
        c->passed = GRADIENT;
    else if (!put(&x->cells[a->stage - 1][a->microbatch].gradient, GRADIENT))
        return wrong(x, "gradient twice");
    return DONE;
}

static outcome compute(oracle *x, int rank, const kith_action *a)
{
    cell *c = &x->cells[a->stage][a->microbatch];
    if (x->has_shards[a->stage] && !x->has_parameters[a->stage])
        return wrong(x, "computation without parameters");
    switch (a->type) {
    case KITH_ACTION_F:
        return forward(x, rank, a);
    case KITH_ACTION_W:
        c->added++;
        return take(&c->pending, FOR_WEIGHTS) ? DONE : wrong(x, "W without I");
    case KITH_ACTION_RECOMPUTE:
        if (!take(&c->saved, DROPPED))
            return wrong(x, "nothing to recompute");
        c->saved = SAVED;
        return DONE;
    default:
        return backward(x, rank, a);
    }
}

/* ---- messages ---- */

static bool is_send(const kith_action *a)
{
    return a->type == KITH_ACTION_SEND_F || a->type == KITH_ACTION_SEND_B;
}

static bool is_message(const kith_action *a)
{
    return is_send(a) || a->type == KITH_ACTION_RECV_F || a->type == KITH_ACTION_RECV_B;
}

/* The stage at the other end. */
static int other_stage(const kith_action *a)
{
    return a->type == KITH_ACTION_SEND_F || a->type == KITH_ACTION_RECV_B ? a->stage + 1 : a->stage - 1;
}

static queue *queue_of(oracle *x, const kith_action *a)
{
    int other = other_stage(a), sender = is_send(a) ? a->stage : other, receiver = is_send(a) ? other : a->stage;
    if (x->o->is_one_channel)
        return &x->queues[rank_of(x, sender) * x->d->ranks + rank_of(x, receiver)];
    return &x->queues[2 * sender + (receiver > sender)];
}

static outcome take_out(oracle *x, const kith_action *a, message *m)
{
    bool is_forward = a->type == KITH_ACTION_SEND_F;
    cell *c = &x->cells[a->stage][a->microbatch];
    *m = (message){ is_forward ? ACTIVATION : GRADIENT, other_stage(a), a->microbatch };
    if (is_forward)
        return c->output == ACTIVATION ? DONE : wrong(x, "no activation to send");
    return take(&c->passed, GRADIENT) ? DONE : wrong(x, "no gradient to send");
}

static outcome put_in(oracle *x, const kith_action *a, const message *m)
{
    bool is_forward = a->type == KITH_ACTION_RECV_F;
    cell *c = &x->cells[a->stage][a->microbatch];
    if (m->what != (is_forward ? ACTIVATION : GRADIENT) || m->stage != a->stage || m->microbatch != a->microbatch)
        return wrong(x, "another message");
    return put(is_forward ? &c->input : &c->gradient, m->what) ? DONE : wrong(x, "received twice");
}

static const kith_action *head_of(const oracle *x, int rank)
{
    return x->at[rank] < x->d->lists[rank].count ? &x->d->lists[rank].actions[x->at[rank]] : NULL;
}

/* What another rank stands at, if that can be an end of an exchange; else it says itself what is wrong with it. */
static const kith_action *partner_of(const oracle *x, int rank)
{
    const kith_action *head = head_of(x, rank);
    bool may_be = head != NULL && !head->is_overlapped && head->stage >= 0 && rank_of(x, head->stage) == rank;
    return may_be ? head : NULL;
}

/* The sender moves both ends. */
static outcome meet(oracle *x, const kith_action *a)
{
    if (!is_send(a))
        return WAITS;
    int peer = rank_of(x, other_stage(a));
    const kith_action *head = partner_of(x, peer);
    bool has_other = head != NULL && is_message(head) && !is_send(head) && other_stage(head) >= 0 &&
                     other_stage(head) < x->d->stages;
    if (!has_other || queue_of(x, head) != queue_of(x, a))
        return WAITS;
    message m;
    outcome result = take_out(x, a, &m);
    if (result == DONE)
        result = put_in(x, head, &m);
    x->at[peer]++;
    return result;
}

static outcome exchange(oracle *x, int rank, const kith_action *a)
{
    int other = other_stage(a);
    if (other < 0 || other >= x->d->stages || rank_of(x, other) == rank)
        return wrong(x, "message to nobody");
    if (x->o->capacity == 0)
        return meet(x, a);
    queue *q = queue_of(x, a);
    if (q->last == sizeof q->held / sizeof q->held[0])
        return wrong(x, "far too many messages");
    if (!is_send(a)) {
        if (q->first == q->last)
            return WAITS;
        return put_in(x, a, &q->held[q->first++]);
    }
    if (q->last - q->first >= (size_t)x->o->capacity)
        return WAITS;
    return take_out(x, a, &q->held[q->last++]);
}

/* ---- the step ---- */

static bool has_all_gradients(const oracle *x, int stage)
{
    bool has_all = !x->is_stale[stage];
    for (int m = 0; m < x->d->microbatches; m++)
        has_all = has_all && x->cells[stage][m].added == 1;
    return has_all;
}

static bool is_tied(const oracle *x, int stage)
{
    return x->counts[KITH_ACTION_REDUCE_TIED] > 0 && (stage == 0 || stage == x->d->stages - 1);
}

static outcome zero(oracle *x, int rank)
{
    if (x->zeroed[rank]++ > 0)
        return wrong(x, "zeroed twice");
    for (int stage = 0; stage < x->d->stages; stage++) {
        if (rank_of(x, stage) != rank)
            continue;
        x->is_stale[stage] = false;
        for (int m = 0; m < x->d->microbatches; m++) {
            const cell *c = &x->cells[stage][m];
            if (c->added > 0 || c->pending != EMPTY)
                return wrong(x, "gradients dropped");
        }
    }
    return x->has_backward ? DONE : wrong(x, "nothing to zero");
}

static outcome reduce(oracle *x, const kith_action *a)
{
    if (!has_all_gradients(x, a->stage) || x->reduced[a->stage]++ > 0)
        return wrong(x, "reduced too early, or twice");
    return is_tied(x, a->stage) && x->tied[a->stage] == 0 ? wrong(x, "reduced before the tied sum") : DONE;
}

/* Moves both ends, as the exchange that it is. */
static outcome reduce_tied(oracle *x, int rank, const kith_action *a)
{
    int last = x->d->stages - 1;
    if ((a->stage != 0 && a->stage != last) || rank_of(x, 0) == rank_of(x, last))
        return wrong(x, "no tied weight");
    if (!has_all_gradients(x, a->stage) || x->tied[a->stage] > 0 || x->reduced[a->stage] > 0)
        return wrong(x, "tied sum too early, too late or twice");
    int other = a->stage == 0 ? last : 0, peer = rank_of(x, other);
    const kith_action *head = partner_of(x, peer);
    if (head == NULL || head->type != KITH_ACTION_REDUCE_TIED || head->stage != other)
        return WAITS;
    if (!has_all_gradients(x, other) || x->tied[other]++ > 0 || x->reduced[other] > 0)
        return wrong(x, "tied sum too early, too late or twice");
    x->tied[a->stage]++;
    x->at[peer]++;
    return rank == peer ? wrong(x, "tied to itself") : DONE;
}

static outcome step(oracle *x, int rank)
{
    if (x->stepped[rank]++ > 0)
        return wrong(x, "stepped twice");
    for (int stage = 0; stage < x->d->stages; stage++) {
        if (rank_of(x, stage) != rank)
            continue;
        bool is_reduced = x->counts[KITH_ACTION_REDUCE_GRAD] == 0 || x->reduced[stage] == 1;
        if (!has_all_gradients(x, stage) || !is_reduced || (is_tied(x, stage) && x->tied[stage] == 0))
            return wrong(x, "step with wrong gradients");
    }
    return DONE;
}

static outcome shard(oracle *x, const kith_action *a)
{
    bool is_gather = a->type == KITH_ACTION_UNSHARD;
    bool was_there = x->has_parameters[a->stage];
    x->has_parameters[a->stage] = is_gather;
    return was_there == is_gather ? wrong(x, "parameters gathered or given up twice") : DONE;
}

static outcome load(oracle *x, const kith_action *a)
{
    bool is_input = a->type == KITH_ACTION_LOAD_INPUT;
    cell *c = &x->cells[a->stage][a->microbatch];
    if (a->stage != (is_input ? 0 : x->d->stages - 1))
        return wrong(x, "load of a stage that has none");
    return put(is_input ? &c->input : &c->target, is_input ? INPUT : TARGET) ? DONE : wrong(x, "loaded twice");
}

/* ---- the run ---- */

static outcome try_action(oracle *x, int rank, const kith_action *a)
{
    if (a->stage >= 0 && rank_of(x, a->stage) != rank)
        return wrong(x, "wrong rank");
    switch (a->type) {
    case KITH_ACTION_IDLE:
        return DONE;
    case KITH_ACTION_LOAD_INPUT:
    case KITH_ACTION_LOAD_TARGET:
        return load(x, a);
    case KITH_ACTION_ZERO_GRAD:
        return zero(x, rank);
    case KITH_ACTION_REDUCE_GRAD:
        return reduce(x, a);
    case KITH_ACTION_REDUCE_TIED:
        return reduce_tied(x, rank, a);
    case KITH_ACTION_OPTIMIZER_STEP:
        return step(x, rank);
    case KITH_ACTION_UNSHARD:
    case KITH_ACTION_RESHARD:
        return shard(x, a);
    default:
        break;
    }
    if (is_message(a))
        return exchange(x, rank, a);
    return has_come(x, a) ? compute(x, rank, a) : WAITS;
}

/* Both of a pair start at once, so both have to be able to. */
static outcome try_pair(oracle *x, int rank, const kith_action *a)
{
    const kith_action *end = x->d->lists[rank].actions + x->d->lists[rank].count;
    if (a->type != KITH_ACTION_F || a + 1 == end || (a[1].type != KITH_ACTION_B && a[1].type != KITH_ACTION_I) ||
        a[1].microbatch == a->microbatch || a[1].is_overlapped)
        return wrong(x, "no pair");
    if (rank_of(x, a->stage) != rank || rank_of(x, a[1].stage) != rank)
        return wrong(x, "wrong rank");
    if (!has_come(x, a) || !has_come(x, a + 1))
        return WAITS;
    outcome first = compute(x, rank, a);
    return first == DONE ? compute(x, rank, a + 1) : first;
}

/* One action or pair of a rank. */
static outcome advance(oracle *x, int rank)
{
    const kith_action *a = head_of(x, rank);
    if (a == NULL)
        return WAITS;
    outcome result = a->is_overlapped ? try_pair(x, rank, a) : try_action(x, rank, a);
    if (result == DONE)
        x->at[rank] += a->is_overlapped ? 2 : 1;
    return result;
}

static bool has_run(oracle *x, uint64_t seed)
{
    for (int idle = 0; idle < x->d->ranks;) {
        int first = (int)random_below(&seed, (unsigned)x->d->ranks);
        idle = 0;
        for (int i = 0; i < x->d->ranks; i++) {
            outcome result = advance(x, (first + i) % x->d->ranks);
            if (result == WRONG)
                return false;
            if (result == DONE)
                break;
            idle++;
        }
    }
    for (int rank = 0; rank < x->d->ranks; rank++)
        if (head_of(x, rank) != NULL)
            return wrong(x, "ranks wait for each other") == DONE;
    return true;
}

static bool cell_is_right(oracle *x, int stage, const cell *c)
{
    bool is_empty = c->input == EMPTY && c->target == EMPTY && c->gradient == EMPTY && c->passed == EMPTY &&
                    c->pending == EMPTY && c->output == EMPTY;
    if (!x->has_backward)
        return c->forwards == 1 && c->input == EMPTY && c->target == EMPTY && !x->has_recompute[stage] &&
               c->gradient == EMPTY;
    return is_empty && c->saved == EMPTY && c->added == 1;
}

static bool ends_right(oracle *x)
{
    for (int stage = 0; stage < x->d->stages; stage++) {
        for (int m = 0; m < x->d->microbatches; m++)
            if (!cell_is_right(x, stage, &x->cells[stage][m]))
                return wrong(x, "something is left over or missing") == DONE;
        if (x->is_stale[stage] || (x->counts[KITH_ACTION_REDUCE_GRAD] > 0 && x->reduced[stage] == 0) ||
            (is_tied(x, stage) && x->tied[stage] == 0))
            return wrong(x, "stale or unreduced gradients") == DONE;
    }
    for (int rank = 0; rank < x->d->ranks; rank++)
        if (x->counts[KITH_ACTION_OPTIMIZER_STEP] > 0 && x->stepped[rank] == 0)
            return wrong(x, "no step") == DONE;
    return true;
}

static void look_around(oracle *x)
{
    for (int rank = 0; rank < x->d->ranks; rank++)
        for (size_t i = 0; i < x->d->lists[rank].count; i++) {
            const kith_action *a = &x->d->lists[rank].actions[i];
            x->counts[a->type]++;
            x->has_messages = x->has_messages || is_message(a);
            x->has_backward = x->has_backward || (a->type >= KITH_ACTION_B && a->type <= KITH_ACTION_W);
            if (a->type == KITH_ACTION_RECOMPUTE)
                x->has_recompute[a->stage] = true;
            if (a->type == KITH_ACTION_UNSHARD || a->type == KITH_ACTION_RESHARD)
                x->has_shards[a->stage] = true;
        }
    for (int stage = 0; stage < x->d->stages; stage++)
        x->is_stale[stage] = x->counts[KITH_ACTION_ZERO_GRAD] > 0;
}

bool oracle_accepts(const draft *plan, const kith_schedule_check_options *options, uint64_t seed, const char **why)
{
    oracle *x = calloc(1, sizeof *x);
    int queues = plan->ranks * plan->ranks > 2 * plan->stages ? plan->ranks * plan->ranks : 2 * plan->stages;
    x->d = plan;
    x->o = options;
    x->queues = calloc((size_t)queues, sizeof *x->queues);
    look_around(x);
    bool is_right = has_run(x, seed) && ends_right(x);
    for (int i = 0; i < queues && is_right; i++)
        if (x->queues[i].first != x->queues[i].last)
            is_right = wrong(x, "a message that nobody takes") == DONE;
    *why = x->why != NULL ? x->why : "";
    free(x->queues);
    free(x);
    return is_right;
}
