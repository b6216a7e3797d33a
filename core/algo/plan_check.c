/* core/algo/plan_check.c - verifies a plan: a bug in an algorithm shows here, not as a rare wrong bit.
 *
 * The plan is walked with a list of the messages in flight. Checked: peers; offsets inside buffers; only recv and
 * scratch are written; no step touches what a message in flight receives into, or writes what one is sending; operands
 * overlap only where core/reduce allows it; every message is waited for. SEND and RECV are compared by address, so
 * in-place calls are seen; nothing is read, so counts may be beyond memory.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "algo.h"
#include "../base/error.h"
#include "../base/mem.h"

/* A range of user memory or of scratch; both are measured in bytes from their own zero. */
typedef struct memory_area {
    bool is_temp;
    uintptr_t first, last;
} memory_area;

typedef struct message_flight {
    memory_area area;
    bool is_send;
    size_t message;
} message_flight;

typedef struct plan_checker {
    const ki_plan *plan;
    const ki_algo_args *args;
    size_t send_nbytes, recv_nbytes;
    size_t at; /* step */
    message_flight *flights;
    size_t flight_count;
    kith_status status;
} plan_checker;

static void complain(plan_checker *checker, const char *what)
{
    if (checker->status == KITH_OK)
        checker->status = ki_fail(KITH_ERR_INTERNAL, "plan of %s, rank %d of %d, step %zu: %s",
                                  kith_coll_name(checker->args->coll->kind), checker->args->rank, checker->args->size,
                                  checker->at, what);
}

static memory_area area_of(plan_checker *checker, ki_ref ref, size_t nbytes)
{
    const kith_be_coll *coll = checker->args->coll;
    size_t limit = checker->plan->temp_nbytes, end;
    uintptr_t base = 0;
    if (ref.buf == KI_BUF_SEND) {
        limit = checker->send_nbytes;
        base = (uintptr_t)coll->send;
    } else if (ref.buf == KI_BUF_RECV) {
        limit = checker->recv_nbytes;
        base = (uintptr_t)coll->recv;
    }
    if (!ki_add(ref.offset, nbytes, &end) || end > limit)
        complain(checker, ref.buf == KI_BUF_TEMP   ? "beyond scratch"
                          : ref.buf == KI_BUF_SEND ? "beyond send"
                                                   : "beyond recv");
    memory_area area = { ref.buf == KI_BUF_TEMP, base + ref.offset, base + ref.offset + nbytes };
    return area;
}

static bool overlaps(const memory_area *a, const memory_area *b)
{
    return a->is_temp == b->is_temp && a->first < b->last && b->first < a->last;
}

static bool is_same(const memory_area *a, const memory_area *b)
{
    return a->is_temp == b->is_temp && a->first == b->first;
}

static void check_read(plan_checker *checker, const memory_area *area)
{
    for (size_t i = 0; i < checker->flight_count; i++)
        if (!checker->flights[i].is_send && overlaps(&checker->flights[i].area, area))
            complain(checker, "reads what is being received");
}

static void check_write(plan_checker *checker, ki_ref ref, const memory_area *area)
{
    if (ref.buf == KI_BUF_SEND)
        complain(checker, "writes to send");
    for (size_t i = 0; i < checker->flight_count; i++)
        if (overlaps(&checker->flights[i].area, area))
            complain(checker,
                     checker->flights[i].is_send ? "writes what is being sent" : "writes what is being received");
}

static void check_message(plan_checker *checker, const ki_step *step)
{
    bool is_send = step->kind == KI_STEP_SEND;
    ki_ref ref = is_send ? step->a : step->dst;
    memory_area area = area_of(checker, ref, step->count);
    if (step->peer < 0 || step->peer >= checker->args->size || step->peer == checker->args->rank)
        complain(checker, "peer is no other rank of the group");
    if (is_send)
        check_read(checker, &area);
    else
        check_write(checker, ref, &area);
    message_flight flight = { area, is_send, step->message };
    checker->flights[checker->flight_count++] = flight;
}

static void check_wait(plan_checker *checker, const ki_step *step)
{
    size_t kept = 0;
    for (size_t i = 0; i < checker->flight_count; i++)
        if (checker->flights[i].message < step->first || checker->flights[i].message >= step->last)
            checker->flights[kept++] = checker->flights[i];
    checker->flight_count = kept;
}

static void check_operand(plan_checker *checker, ki_ref ref, size_t nbytes, const memory_area *dst, bool may_be_same)
{
    memory_area area = area_of(checker, ref, nbytes);
    check_read(checker, &area);
    if (overlaps(&area, dst) && !(may_be_same && is_same(&area, dst)))
        complain(checker, "operand overlaps the result");
}

static void check_local(plan_checker *checker, const ki_step *step)
{
    const ki_reducer *reducer = checker->args->reducer;
    size_t raw = step->count * (reducer ? reducer->base.nbytes : 1),
           acc = step->count * (reducer ? reducer->acc_nbytes : 1);
    bool is_identity = reducer && reducer->is_identity;
    bool is_copy = step->kind == KI_STEP_COPY;
    size_t dst_nbytes = is_copy ? step->count : step->kind == KI_STEP_LOAD || step->kind == KI_STEP_COMBINE ? acc : raw;
    if (!is_copy && !reducer) {
        complain(checker, "arithmetic without a reducer");
        return;
    }
    memory_area dst = area_of(checker, step->dst, dst_nbytes);
    if (is_copy || (is_identity && (step->kind == KI_STEP_LOAD || step->kind == KI_STEP_STORE))) {
        memory_area source = area_of(checker, step->a, dst_nbytes);
        if (is_same(&source, &dst))
            return; /* the executor leaves it out */
    }
    check_write(checker, step->dst, &dst);
    if (is_copy) {
        check_operand(checker, step->a, step->count, &dst, true);
    } else if (step->kind == KI_STEP_REDUCE) {
        for (int r = 0; r < checker->args->size; r++)
            check_operand(checker, checker->plan->refs[step->sources + (size_t)r], raw, &dst, true);
    } else {
        bool is_combine = step->kind == KI_STEP_COMBINE;
        check_operand(checker, step->a, step->kind == KI_STEP_LOAD ? raw : acc, &dst, is_combine || is_identity);
        if (is_combine)
            check_operand(checker, step->b, acc, &dst, true);
    }
}

kith_status ki_plan_check(const ki_plan *plan, const ki_algo_args *args)
{
    plan_checker checker = { .plan = plan, .args = args };
    ki_coll_extents(args, &checker.send_nbytes, &checker.recv_nbytes);
    checker.send_nbytes *= args->coll->nbytes;
    checker.recv_nbytes *= args->coll->nbytes;
    checker.flights = ki_calloc(plan->allocator, plan->message_count, sizeof(message_flight));
    if (!checker.flights)
        return KITH_ERR_NO_MEMORY;
    for (checker.at = 0; checker.at < plan->step_count; checker.at++) {
        const ki_step *step = &plan->steps[checker.at];
        if (step->kind == KI_STEP_SEND || step->kind == KI_STEP_RECV)
            check_message(&checker, step);
        else if (step->kind == KI_STEP_WAIT)
            check_wait(&checker, step);
        else
            check_local(&checker, step);
    }
    if (checker.flight_count > 0)
        complain(&checker, "the plan ends with messages in flight");
    ki_free(plan->allocator, checker.flights);
    return checker.status;
}
