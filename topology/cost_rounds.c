/* topology/cost_rounds.c - the algorithms of core/algo, priced out of the plans that would run.
 *
 * Each rank's plan is emitted as for a real operation and walked without moving a byte: a message starts when both ends
 * have posted it, and is over one round later; a wait takes a rank to the round after the last message it waits for.
 * Messages that start in the same round move together. So whatever an algorithm keeps in flight, leaves out for odd
 * sizes or sends twice is in the price, and a new algorithm needs no line here.
 *
 * The k-th send from a to b is the k-th receive of b from a (core/algo/algo.h), so both ends are found by sorting.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "cost.h"

#include "core/base/error.h"
#include "core/base/mem.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_EVENTS = 1 << 22, OPEN = -1, ELEMENT_NBYTES = 4 };

/* A step that is a message or a wait. */
typedef struct event {
    int peer;    /* -1: a wait for the messages [first, last) of the rank */
    int message; /* number of the message among all ranks' of the same direction, after matching */
    unsigned first, last;
    bool is_send;
} event;

/* Both ends of a message. */
typedef struct message {
    int from, to;
    double nbytes;
    int sent, received; /* round in which the end was posted; OPEN: not yet */
} message;

typedef struct end {
    int from, to;
    unsigned order; /* events are appended rank by rank: sorting by it keeps each rank's order */
} end;

typedef struct walk {
    int size;
    event *events;
    size_t event_count, event_room;
    size_t *first;      /* [size + 1] events of a rank */
    size_t *message_of; /* event of each rank's k-th message: at [first[rank] + k] */
    message *messages;
    size_t message_count;
    double *nbytes; /* of each event that is a send */
    size_t *at;     /* [size] where a rank is */
    int *clock;     /* [size] */
} walk;

/* ---- reading plans ---- */

static event *add_event(walk *w)
{
    if (w->event_count == w->event_room) {
        size_t room = w->event_room == 0 ? 1024 : 2 * w->event_room;
        event *events = (event *)ki_calloc(NULL, room, sizeof *events);
        double *nbytes = (double *)ki_calloc(NULL, room, sizeof *nbytes);
        if (events != NULL && nbytes != NULL && w->event_count > 0) {
            memcpy(events, w->events, w->event_count * sizeof *events);
            memcpy(nbytes, w->nbytes, w->event_count * sizeof *nbytes);
        }
        if (events == NULL || nbytes == NULL) {
            ki_free(NULL, events);
            ki_free(NULL, nbytes);
            return NULL;
        }
        ki_free(NULL, w->events);
        ki_free(NULL, w->nbytes);
        w->events = events;
        w->nbytes = nbytes;
        w->event_room = room;
    }
    return &w->events[w->event_count++];
}

static kith_status read_plan(walk *w, const ki_plan *plan)
{
    for (size_t i = 0; i < plan->step_count; i++) {
        const ki_step *step = &plan->steps[i];
        if (step->kind > KI_STEP_WAIT)
            continue;
        event *e = w->event_count < MOST_EVENTS ? add_event(w) : NULL;
        if (e == NULL)
            return w->event_count < MOST_EVENTS
                       ? KITH_ERR_NO_MEMORY
                       : ki_fail_quiet(KITH_ERR_UNSUPPORTED, "cost: more than %d messages and waits", MOST_EVENTS);
        if (step->kind == KI_STEP_WAIT) {
            *e = (event){ .peer = -1, .first = (unsigned)step->first, .last = (unsigned)step->last };
        } else {
            *e = (event){ .peer = step->peer, .is_send = step->kind == KI_STEP_SEND };
            w->nbytes[w->event_count - 1] = (double)step->count;
        }
    }
    return KITH_OK;
}

/* What the algorithms look at: sums of f32, whose partial results are as long as the values. */
typedef struct operation {
    kith_be_coll coll;
    ki_op op;
    ki_reducer reducer;
    ki_order order;
} operation;

static kith_status make_operation(kith_coll_kind kind, int size, const int *node_of, double nbytes, operation *o)
{
    bool is_whole = kind == KITH_ALL_REDUCE || kind == KITH_BROADCAST || kind == KITH_REDUCE;
    double count = fmax(ceil(nbytes / ELEMENT_NBYTES / (is_whole ? 1 : size)), 1);
    *o = (operation){ .op = { .builtin = KITH_SUM, .is_commutative = true } };
    if (count > 1e15)
        return ki_fail_quiet(KITH_ERR_INVALID_ARG, "cost: %g bytes are too many", nbytes);
    static char memory[2]; /* only compared: send and receive buffers are different ones */
    o->coll = (kith_be_coll){ .kind = kind,
                              .dtype = KITH_F32,
                              .op = KITH_SUM,
                              .send = &memory[0],
                              .recv = kind == KITH_BROADCAST ? &memory[0] : &memory[1],
                              .count = (size_t)count,
                              .nbytes = ELEMENT_NBYTES };
    kith_status status = ki_order_create(size, node_of, &o->order);
    if (status == KITH_OK)
        ki_reducer_init(&o->reducer, KITH_F32, &o->op, &o->order);
    o->coll.reducer = &o->reducer.base;
    return status;
}

static kith_status emit_all(walk *w, const ki_algo *algo, operation *o, const int *node_of)
{
    bool is_reduction = algo->kind == KITH_ALL_REDUCE || algo->kind == KITH_REDUCE_SCATTER || algo->kind == KITH_REDUCE;
    ki_algo_args args = { .size = w->size,
                          .coll = &o->coll,
                          .reducer = is_reduction ? &o->reducer : NULL,
                          .order = &o->order,
                          .node_of = node_of };
    if (!ki_algo_is_possible(algo, &args))
        return ki_fail_quiet(KITH_ERR_UNSUPPORTED, "cost: %s cannot be with %d ranks", algo->name, w->size);
    ki_plan plan = { 0 };
    kith_status status = KITH_OK;
    for (args.rank = 0; args.rank < w->size && status == KITH_OK; args.rank++) {
        w->first[args.rank] = w->event_count;
        status = ki_algo_emit(algo, &args, &plan);
        if (status == KITH_OK)
            status = read_plan(w, &plan);
    }
    w->first[w->size] = w->event_count;
    ki_plan_fini(&plan);
    return status;
}

/* ---- matching ---- */

static int compare_ends(const void *a, const void *b)
{
    const end *x = (const end *)a, *y = (const end *)b;
    if (x->from != y->from)
        return x->from < y->from ? -1 : 1;
    if (x->to != y->to)
        return x->to < y->to ? -1 : 1;
    return x->order < y->order ? -1 : x->order > y->order;
}

/* Ends of one direction, sorted; event numbers in order. */
static size_t list_ends(const walk *w, bool is_send, end *ends)
{
    size_t count = 0;
    for (int rank = 0; rank < w->size; rank++)
        for (size_t i = w->first[rank]; i < w->first[rank + 1]; i++) {
            const event *e = &w->events[i];
            if (e->peer >= 0 && e->is_send == is_send)
                ends[count++] = (end){ is_send ? rank : e->peer, is_send ? e->peer : rank, (unsigned)i };
        }
    qsort(ends, count, sizeof *ends, compare_ends);
    return count;
}

static kith_status match(walk *w)
{
    end *sends = (end *)ki_calloc(NULL, w->event_count + 1, sizeof *sends);
    end *receives = (end *)ki_calloc(NULL, w->event_count + 1, sizeof *receives);
    w->messages = (message *)ki_calloc(NULL, w->event_count / 2 + 1, sizeof *w->messages);
    w->message_of = (size_t *)ki_calloc(NULL, w->event_count + 1, sizeof *w->message_of);
    kith_status status = KITH_ERR_NO_MEMORY;
    if (sends != NULL && receives != NULL && w->messages != NULL && w->message_of != NULL) {
        w->message_count = list_ends(w, true, sends);
        status = list_ends(w, false, receives) == w->message_count ? KITH_OK : KITH_ERR_INTERNAL;
        for (size_t i = 0; i < w->message_count && status == KITH_OK; i++) {
            if (sends[i].from != receives[i].from || sends[i].to != receives[i].to)
                status = KITH_ERR_INTERNAL;
            w->events[sends[i].order].message = w->events[receives[i].order].message = (int)i;
            w->messages[i] = (message){ sends[i].from, sends[i].to, w->nbytes[sends[i].order], OPEN, OPEN };
        }
    }
    if (status == KITH_ERR_INTERNAL)
        status = ki_fail(KITH_ERR_INTERNAL, "cost: sends and receives of a plan do not match");
    for (int rank = 0; rank < w->size && status == KITH_OK; rank++) {
        size_t k = w->first[rank];
        for (size_t i = w->first[rank]; i < w->first[rank + 1]; i++)
            if (w->events[i].peer >= 0)
                w->message_of[k++] = (size_t)w->events[i].message;
    }
    ki_free(NULL, sends);
    ki_free(NULL, receives);
    return status;
}

/* ---- walking ---- */

static int start_of(const message *m)
{
    return m->sent > m->received ? m->sent : m->received;
}

/* Takes a rank as far as it comes. False when it did not move. */
static bool advance(walk *w, int rank)
{
    size_t from = w->at[rank];
    for (; w->at[rank] < w->first[rank + 1]; w->at[rank]++) {
        event *e = &w->events[w->at[rank]];
        if (e->peer >= 0) {
            message *m = &w->messages[e->message];
            *(e->is_send ? &m->sent : &m->received) = w->clock[rank];
            continue;
        }
        for (; e->first < e->last; e->first++) { /* those before are over for good */
            const message *m = &w->messages[w->message_of[w->first[rank] + e->first]];
            if (m->sent == OPEN || m->received == OPEN)
                return w->at[rank] > from;
            if (start_of(m) + 1 > w->clock[rank])
                w->clock[rank] = start_of(m) + 1;
        }
    }
    return w->at[rank] > from;
}

static kith_status run(walk *w)
{
    bool is_moving = true, is_done = false;
    while (is_moving && !is_done) {
        is_moving = false;
        is_done = true;
        for (int rank = 0; rank < w->size; rank++) {
            is_moving |= advance(w, rank);
            is_done &= w->at[rank] == w->first[rank + 1];
        }
    }
    return is_done ? KITH_OK : ki_fail(KITH_ERR_INTERNAL, "cost: a plan waits for itself");
}

static int compare_rounds(const void *a, const void *b)
{
    const ki_round_message *x = (const ki_round_message *)a, *y = (const ki_round_message *)b;
    return x->round != y->round ? (x->round < y->round ? -1 : 1)
           : x->from != y->from ? x->from - y->from
                                : x->to - y->to;
}

/* scale: the plan moves whole elements. */
static kith_status collect(const walk *w, double scale, ki_rounds *rounds)
{
    rounds->messages = (ki_round_message *)ki_calloc(NULL, w->message_count + 1, sizeof *rounds->messages);
    if (rounds->messages == NULL)
        return KITH_ERR_NO_MEMORY;
    rounds->count = w->message_count;
    rounds->repeat = 1;
    for (size_t i = 0; i < w->message_count; i++) {
        const message *m = &w->messages[i];
        rounds->messages[i] = (ki_round_message){ start_of(m), m->from, m->to, m->nbytes * scale };
    }
    qsort(rounds->messages, rounds->count, sizeof *rounds->messages, compare_rounds);
    return KITH_OK;
}

static void walk_fini(walk *w)
{
    void *const arrays[] = { w->events, w->first, w->message_of, w->messages, w->nbytes, w->at, w->clock };
    for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; i++)
        ki_free(NULL, arrays[i]);
}

kith_status ki_rounds_of_plan(const ki_algo *algo, int size, const int *node_of, double nbytes, ki_rounds *rounds)
{
    operation o;
    *rounds = (ki_rounds){ 0 };
    kith_status status = make_operation(algo->kind, size, node_of, nbytes, &o);
    if (status != KITH_OK)
        return status;
    walk w = { .size = size,
               .first = (size_t *)ki_calloc(NULL, (size_t)size + 1, sizeof *w.first),
               .at = (size_t *)ki_calloc(NULL, (size_t)size, sizeof *w.at),
               .clock = (int *)ki_calloc(NULL, (size_t)size, sizeof *w.clock) };
    status = w.first != NULL && w.at != NULL && w.clock != NULL ? KITH_OK : KITH_ERR_NO_MEMORY;
    if (status == KITH_OK)
        status = emit_all(&w, algo, &o, node_of);
    if (status == KITH_OK)
        status = match(&w);
    for (int rank = 0; status == KITH_OK && rank < size; rank++)
        w.at[rank] = w.first[rank];
    if (status == KITH_OK)
        status = run(&w);
    bool is_whole = algo->kind == KITH_ALL_REDUCE || algo->kind == KITH_BROADCAST || algo->kind == KITH_REDUCE;
    double moved = (double)o.coll.count * ELEMENT_NBYTES * (is_whole ? 1 : size);
    if (status == KITH_OK)
        status = collect(&w, nbytes / moved, rounds);
    walk_fini(&w);
    ki_order_destroy(&o.order);
    return status;
}

void ki_rounds_fini(ki_rounds *rounds)
{
    ki_free(NULL, rounds->messages);
    *rounds = (ki_rounds){ 0 };
}

/* ---- prices ---- */

/* Times of one round for all groups: each waits for its own slowest message. Returns the longest time so far. */
static double price_round(const ki_cost_case *c, const ki_round_message *m, size_t count, double *time_s,
                          double *latency_s, ki_price *price)
{
    double longest_s = 0;
    ki_flows_clear(c->flows);
    for (int g = 0; g < c->group_count; g++)
        for (size_t i = 0; i < count; i++) {
            const int *group = c->groups + (size_t)g * (size_t)c->size;
            ki_flows_add(c->flows, group[m[i].from], group[m[i].to], m[i].nbytes);
        }
    for (int g = 0; g < c->group_count; g++) {
        const int *group = c->groups + (size_t)g * (size_t)c->size;
        double most_s = 0, most_transfer_s = 0; /* of messages that may differ */
        for (size_t i = 0; i < count; i++) {
            int from = group[m[i].from], to = group[m[i].to];
            ki_hop_time hop = ki_flows_time(c->flows, from, to, m[i].nbytes);
            ki_price_see(price, &hop, from, to, 1);
            most_s = fmax(most_s, hop.latency_s + hop.transfer_s);
            most_transfer_s = fmax(most_transfer_s, hop.transfer_s);
        }
        time_s[g] += most_s;
        latency_s[g] += most_s - most_transfer_s;
        longest_s = time_s[g] > longest_s ? time_s[g] : longest_s;
    }
    return longest_s;
}

/* Most plans lose against a ring by far: they end at the limit, after a few of their rounds. Messages over links of
 * unknown bandwidth count as if they took no time, so what comes out then is the least it can be. */
static kith_status price_rounds(const ki_cost_case *c, const ki_rounds *rounds, ki_price *price)
{
    double *time_s = (double *)ki_calloc(NULL, (size_t)c->group_count, 2 * sizeof *time_s), longest_s = 0;
    double *latency_s = time_s != NULL ? time_s + c->group_count : NULL;
    bool has_memory = time_s != NULL;
    kith_status status = has_memory ? KITH_OK : KITH_ERR_NO_MEMORY;
    for (size_t i = 0, last; has_memory && i < rounds->count && longest_s * rounds->repeat < c->limit_s; i = last) {
        for (last = i + 1; last < rounds->count && rounds->messages[last].round == rounds->messages[i].round; last++)
            ;
        longest_s = price_round(c, rounds->messages + i, last - i, time_s, latency_s, price);
        status = c->flows->status;
    }
    for (int g = 0; has_memory && g < c->group_count; g++)
        if (time_s[g] * rounds->repeat > price->time_s) {
            price->time_s = time_s[g] * rounds->repeat;
            price->latency_s = latency_s[g] * rounds->repeat;
        }
    ki_free(NULL, time_s);
    return status;
}

/* Other groups can only take bandwidth away, so the first one alone is a bound, for little work. */
static kith_status price_within_limit(const ki_cost_case *c, const ki_rounds *rounds, ki_price *price)
{
    if (c->group_count > 1 && isfinite(c->limit_s)) {
        ki_cost_case first = *c;
        ki_price bound = KI_PRICE_NONE;
        first.group_count = 1;
        kith_status status = price_rounds(&first, rounds, &bound);
        bool goes_on = status == KITH_OK || status == KITH_ERR_UNSUPPORTED;
        if (!goes_on || bound.time_s >= c->limit_s) {
            *price = bound;
            return status;
        }
    }
    return price_rounds(c, rounds, price);
}

/* Hosts of the first group's ranks, numbered as they appear: plans that know hosts see those of one group. number: of
 * each node, zeros before and after. */
static void number_hosts(const ki_cost_case *c, int *number, int *hosts)
{
    int count = 0, node = 0, gpu;
    for (int i = 0; i < c->size; i++) {
        ki_locate(c->t, c->groups[i], &node, &gpu);
        if (number[node] == 0)
            number[node] = ++count;
        hosts[i] = number[node] - 1;
    }
    for (int i = 0; i < c->size; i++) {
        ki_locate(c->t, c->groups[i], &node, &gpu);
        number[node] = 0;
    }
}

kith_status ki_price_plan(const ki_cost_case *c, ki_price *price)
{
    const ki_algo *algo = ki_algo_find(c->kind, c->algorithm);
    if (algo == NULL)
        return ki_fail(KITH_ERR_INTERNAL, "cost: core/algo has no %s", c->algorithm);
    size_t nodes = (size_t)kith_topology_node_count(c->t);
    int *hosts = (int *)ki_calloc(NULL, (size_t)c->size + nodes, sizeof *hosts);
    if (hosts == NULL)
        return KITH_ERR_NO_MEMORY;
    number_hosts(c, hosts + c->size, hosts);
    const ki_rounds *known = ki_rounds_recall(c, algo, hosts);
    ki_rounds rounds = { 0 };
    kith_status status = KITH_OK;
    if (known == NULL) {
        status = ki_rounds_of_plan(algo, c->size, hosts, c->nbytes, &rounds);
        known = &rounds;
    }
    if (status == KITH_OK)
        status = price_within_limit(c, known, price);
    if (known == &rounds && (status != KITH_OK || !ki_rounds_remember(c, algo, hosts, &rounds)))
        ki_rounds_fini(&rounds);
    ki_free(NULL, hosts);
    return status;
}

/* Pairwise exchange: in round k each rank sends to the one k after it, and two rounds are in flight. Of many distances
 * some stand for their neighbours. */
enum { MOST_PAIRS = 64 };

kith_status ki_price_pairwise(const ki_cost_case *c, ki_price *price)
{
    int distances = c->size - 1, pairs = (distances + 1) / 2, priced = pairs < MOST_PAIRS ? pairs : MOST_PAIRS;
    size_t n = (size_t)c->size, count = 0;
    ki_rounds rounds = { .messages =
                             (ki_round_message *)ki_calloc(NULL, 2 * n * (size_t)priced, sizeof *rounds.messages) };
    if (rounds.messages == NULL)
        return KITH_ERR_NO_MEMORY;
    for (int p = 0; p < priced; p++) {
        int first = 2 * (int)((int64_t)p * pairs / priced) + 1;
        for (int k = first; k <= first + 1 && k <= distances; k++)
            for (int from = 0; from < c->size; from++)
                rounds.messages[count++] =
                    (ki_round_message){ p, from, (int)(((int64_t)from + k) % c->size), c->nbytes / c->size };
    }
    rounds.count = count;
    rounds.repeat = (double)pairs / priced;
    kith_status status = price_within_limit(c, &rounds, price);
    ki_rounds_fini(&rounds);
    return status;
}
