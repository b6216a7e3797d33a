/* tests/topology/simgrid/plans.c - see plans.h.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "plans.h"

#include "waits.h"
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ELEMENT_NBYTES = 4 };

static void stop(const char *what, const char *detail)
{
    fprintf(stderr, "ranks: %s %s\n", what, detail);
    abort();
}

static kith_coll_kind kind_of(const char *op)
{
    for (int kind = 0; kind < KITH_COLL_COUNT; kind++)
        if (strcmp(kith_coll_name((kith_coll_kind)kind), op) == 0)
            return (kith_coll_kind)kind;
    stop("no operation", op);
    return KITH_BARRIER;
}

/* The messages and waits of the whole plan. Their numbers stay, since no message is left out. */
static void emit_messages(const ki_algo_args *args, ki_plan *out)
{
    const sim_plan *plan = (const sim_plan *)(const void *)((const char *)args - offsetof(sim_plan, args));
    const ki_ref shared = { KI_BUF_SEND, 0 };
    ki_plan whole = { 0 };
    if (ki_algo_emit(plan->whole, args, &whole) != KITH_OK)
        stop("no plan for", plan->whole->name);
    for (size_t i = 0; i < whole.step_count; i++) {
        const ki_step *step = &whole.steps[i];
        int peer = plan->places != NULL ? plan->places[step->peer] : step->peer;
        if (step->kind == KI_STEP_SEND)
            ki_plan_send(out, peer, shared, step->count);
        else if (step->kind == KI_STEP_RECV)
            ki_plan_recv(out, peer, shared, step->count);
        else if (step->kind == KI_STEP_WAIT)
            ki_plan_wait(out, step->first, step->last);
    }
    if (out->message_count != whole.message_count)
        stop("messages were lost of", plan->whole->name);
    ki_plan_fini(&whole);
}

void sim_plan_init(sim_plan *plan, const char *op, const char *algorithm, double nbytes, int rank, int size,
                   const int *places, void *shared)
{
    kith_coll_kind kind = kind_of(op);
    bool is_whole = kind == KITH_ALL_REDUCE || kind == KITH_BROADCAST;
    bool is_reduction = kind == KITH_ALL_REDUCE || kind == KITH_REDUCE_SCATTER;
    ki_op sum = { .builtin = KITH_SUM, .is_commutative = true };
    *plan = (sim_plan){ .whole = ki_algo_find(kind, algorithm), .places = places };
    if (plan->whole == NULL || ki_order_create(size, NULL, &plan->order) != KITH_OK)
        stop("no algorithm", algorithm);
    ki_reducer_init(&plan->reducer, KITH_F32, &sum, &plan->order);
    plan->algo = *plan->whole;
    plan->algo.emit = emit_messages;
    /* Other memory than send, or the plan would be the one of a call in place; never touched, see emit_messages(). */
    void *recv = kind == KITH_BROADCAST ? shared : (char *)shared + 1;
    plan->coll = (kith_be_coll){ .kind = kind,
                                 .dtype = KITH_F32,
                                 .op = KITH_SUM,
                                 .send = shared,
                                 .recv = recv,
                                 .count = (size_t)(nbytes / ELEMENT_NBYTES / (is_whole ? 1 : size)),
                                 .nbytes = ELEMENT_NBYTES,
                                 .reducer = &plan->reducer.base };
    plan->args = (ki_algo_args){ .rank = rank,
                                 .size = size,
                                 .coll = &plan->coll,
                                 .reducer = is_reduction ? &plan->reducer : NULL,
                                 .order = &plan->order };
}

void sim_plan_fini(sim_plan *plan)
{
    ki_executor_fini(&plan->executor);
    ki_order_destroy(&plan->order);
}

/* Goes on with all plans as far as that is possible without waiting. True when all are at their end. */
static bool advance(sim_plan *plans, int count, const kith_backend *backend, void *instance)
{
    bool is_done = true;
    unsigned long events;
    do {
        events = waits_events();
        is_done = true;
        backend->progress(instance);
        for (int k = 0; k < count; k++) {
            if (!plans[k].is_done && ki_executor_step(&plans[k].executor, &plans[k].is_done) != KITH_OK)
                stop("a message failed in", plans[k].whole->name);
            is_done = is_done && plans[k].is_done;
        }
    } while (!is_done && events != waits_events());
    return is_done;
}

void sim_plans_run(sim_plan *plans, int count, const kith_backend *backend, void *instance, void *group)
{
    for (int k = 0; k < count; k++) {
        ki_transport transport = { .backend = backend, .group = group, .tag = (uint64_t)k };
        plans[k].is_done = false;
        if (ki_executor_start(&plans[k].executor, &plans[k].algo, &plans[k].args, &transport) != KITH_OK)
            stop("no start of", plans[k].whole->name);
    }
    while (!advance(plans, count, backend, instance))
        if (!waits_for_any())
            stop("nothing is under way in", plans[0].whole->name);
}
