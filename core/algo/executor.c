/* core/algo/executor.c - runs a plan over a backend's messages: the only place that waits and resumes.
 *
 * Steps run in order. A send or receive is started and goes on by itself; a WAIT that is not satisfied ends the call,
 * and the next call resumes there. While anything else is done, messages in flight are polled, oldest first: backends
 * may need the polls to move bytes.
 *
 *   message:  not started -> in flight (has a slot) -> done (slot back on the stack)
 *   oldest_open: every message before it is done; started: every message from it on is not started.
 *
 * Memory (steps, slots, scratch) is taken in ki_executor_start() and kept, so a request that is used again allocates
 * nothing. Which slots are needed is found by walking the plan's waits once.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "../base/error.h"
#include "../base/mem.h"
#include "algo.h"
#include <string.h>

/* What is copied or reduced between two polls; where the host only says what is to be done, it is more. */
static const size_t piece_nbytes = (size_t)1 << 20, large_piece_nbytes = (size_t)1 << 26;

static void *at(const ki_executor *executor, ki_ref ref, size_t more)
{
    const kith_be_coll *coll = executor->args->coll;
    unsigned char *base = executor->site_temp != NULL ? executor->site_temp : executor->temp;
    if (ref.buf == KI_BUF_SEND)
        base = (unsigned char *)(uintptr_t)coll->send; /* written only where it is recv too */
    else if (ref.buf == KI_BUF_RECV)
        base = coll->recv;
    return base + ref.offset + more;
}

static bool is_elsewhere(const ki_executor *executor, ki_ref ref)
{
    return executor->transport.site != NULL && (ref.buf != KI_BUF_TEMP || executor->site_temp != NULL);
}

/* ---- start ---- */

/* Messages in flight together at most. slot_of serves as "has been waited for". */
static size_t count_slots(ki_executor *executor)
{
    const ki_plan *plan = &executor->plan;
    size_t open = 0, most = 0, oldest = 0, started = 0;
    for (size_t i = 0; i < plan->step_count; i++) {
        const ki_step *step = &plan->steps[i];
        if (step->kind == KI_STEP_SEND || step->kind == KI_STEP_RECV) {
            executor->slot_of[started++] = 0;
            if (++open > most)
                most = open;
        } else if (step->kind == KI_STEP_WAIT) {
            for (size_t m = step->first > oldest ? step->first : oldest; m < step->last; m++) {
                open -= executor->slot_of[m] != KI_SLOT_DONE;
                executor->slot_of[m] = KI_SLOT_DONE;
            }
            while (oldest < started && executor->slot_of[oldest] == KI_SLOT_DONE)
                oldest++;
        }
    }
    return most;
}

static bool reserve(ki_executor *executor, void **array, size_t *capacity, size_t need, size_t nbytes)
{
    if (need <= *capacity)
        return true;
    const kith_allocator *allocator = executor->plan.allocator;
    ki_free(allocator, *array);
    *array = ki_calloc(allocator, need, nbytes);
    *capacity = *array ? need : 0;
    return *array != NULL;
}

static bool reserve_slots(ki_executor *executor, size_t need)
{
    if (need > executor->slot_capacity) {
        const kith_allocator *allocator = executor->plan.allocator;
        ki_free(allocator, executor->slots);
        ki_free(allocator, executor->free_slots);
        executor->slots = ki_calloc(allocator, need, sizeof(kith_be_slot));
        executor->free_slots = ki_calloc(allocator, need, sizeof(uint32_t));
        executor->slot_capacity = executor->slots && executor->free_slots ? need : 0;
        if (executor->slot_capacity == 0)
            return false;
    }
    executor->free_count = executor->slot_capacity;
    for (size_t i = 0; i < executor->slot_capacity; i++)
        executor->free_slots[i] = (uint32_t)(executor->slot_capacity - 1 - i); /* lowest on top */
    return true;
}

static kith_status get_memory(ki_executor *executor)
{
    const ki_plan *plan = &executor->plan;
    void *slot_of = executor->slot_of, *temp = executor->temp, *sources = (void *)(uintptr_t)executor->sources;
    bool is_ok = reserve(executor, &slot_of, &executor->slot_of_capacity, plan->message_count, sizeof(uint32_t));
    executor->slot_of = slot_of;
    const ki_transport *transport = &executor->transport;
    if (transport->site != NULL && transport->site->temp != NULL) {
        kith_status status = transport->site->temp(transport->site_arg, plan->temp_nbytes, &temp);
        if (status != KITH_OK)
            return status;
        executor->site_temp = temp;
    } else {
        is_ok = is_ok && reserve(executor, &temp, &executor->temp_capacity, plan->temp_nbytes, 1);
        executor->temp = temp;
    }
    size_t source_count = plan->ref_count > 0 ? (size_t)executor->args->size : 0;
    is_ok = is_ok && reserve(executor, &sources, &executor->source_capacity, source_count, sizeof(void *));
    executor->sources = sources;
    return is_ok && reserve_slots(executor, count_slots(executor)) ? KITH_OK : KITH_ERR_NO_MEMORY;
}

static void rewind_to_start(ki_executor *executor, const ki_transport *transport)
{
    executor->transport = *transport;
    executor->site_temp = NULL;
    executor->next = executor->next_done = 0;
    executor->oldest_open = executor->started = 0;
}

static kith_status accept(ki_executor *executor, kith_status status)
{
#ifdef KI_CHECK_PLANS
    if (status == KITH_OK)
        status = ki_plan_check(&executor->plan, executor->args);
#endif
    if (status != KITH_OK)
        executor->plan.step_count = executor->plan.message_count = 0;
    return status;
}

kith_status ki_executor_start(ki_executor *executor, const ki_algo *algo, const ki_algo_args *args,
                              const ki_transport *transport)
{
    executor->args = args;
    rewind_to_start(executor, transport);
    kith_status status = ki_algo_emit(algo, args, &executor->plan);
    if (status == KITH_OK)
        status = get_memory(executor);
    return accept(executor, status);
}

/* All slots came back when the plan ended; the scratch may be with somebody else meanwhile. */
kith_status ki_executor_restart(ki_executor *executor, const ki_transport *transport)
{
    void *temp = executor->temp;
    rewind_to_start(executor, transport);
    bool has_temp = reserve(executor, &temp, &executor->temp_capacity, executor->plan.temp_nbytes, 1);
    executor->temp = temp;
    return accept(executor, has_temp ? KITH_OK : KITH_ERR_NO_MEMORY);
}

/* ---- messages ---- */

static kith_status start_message(ki_executor *executor, const ki_step *step)
{
    const ki_transport *transport = &executor->transport;
    uint32_t number = executor->free_slots[executor->free_count - 1];
    kith_be_slot *slot = &executor->slots[number];
    memset(slot, 0, sizeof *slot);
    bool is_send = step->kind == KI_STEP_SEND;
    ki_ref buffer = is_send ? step->a : step->dst;
    kith_be_msg msg = { .peer = step->peer,
                        .tag = transport->tag,
                        .buffer = at(executor, buffer, 0),
                        .nbytes = step->count,
                        .is_device = is_elsewhere(executor, buffer) };
    kith_status status = is_send ? transport->backend->send_start(transport->group, &msg, slot)
                                 : transport->backend->recv_start(transport->group, &msg, slot);
    if (status != KITH_OK)
        return status;
    executor->free_count--;
    executor->slot_of[step->message] = number;
    executor->started = step->message + 1;
    return KITH_OK;
}

static kith_status finish_message(ki_executor *executor, size_t message, size_t nbytes)
{
    const ki_step *step = &executor->plan.steps[executor->plan.message_step[message]];
    executor->free_slots[executor->free_count++] = executor->slot_of[message];
    executor->slot_of[message] = KI_SLOT_DONE;
    while (executor->oldest_open < executor->started && executor->slot_of[executor->oldest_open] == KI_SLOT_DONE)
        executor->oldest_open++;
    if (step->kind == KI_STEP_RECV && nbytes != step->count)
        return ki_fail(KITH_ERR_MISMATCH, "%s: rank %d sent %zu bytes where rank %d expects %zu: their counts differ",
                       kith_coll_name(executor->args->coll->kind), step->peer, nbytes, executor->args->rank,
                       step->count);
    return KITH_OK;
}

/* Tests every message in flight once, oldest first. */
static kith_status poll(ki_executor *executor)
{
    const ki_transport *transport = &executor->transport;
    for (size_t m = executor->oldest_open; m < executor->started; m++) {
        if (executor->slot_of[m] == KI_SLOT_DONE)
            continue;
        int is_done = 0;
        size_t nbytes = 0;
        kith_status status =
            transport->backend->msg_test(transport->group, &executor->slots[executor->slot_of[m]], &is_done, &nbytes);
        if (status != KITH_OK) { /* the message has ended, its slot is the core's again */
            executor->free_slots[executor->free_count++] = executor->slot_of[m];
            executor->slot_of[m] = KI_SLOT_DONE;
            return status;
        }
        if (is_done && (status = finish_message(executor, m, nbytes)) != KITH_OK)
            return status;
    }
    return KITH_OK;
}

static bool is_satisfied(const ki_executor *executor, const ki_step *step)
{
    for (size_t m = step->first > executor->oldest_open ? step->first : executor->oldest_open; m < step->last; m++)
        if (executor->slot_of[m] != KI_SLOT_DONE)
            return false;
    return true;
}

/* ---- local work ---- */

static void reduce_piece(ki_executor *executor, const ki_step *step, size_t done, size_t count)
{
    const kith_be_reducer *reducer = &executor->args->reducer->base;
    for (int r = 0; r < executor->args->size; r++)
        executor->sources[r] = at(executor, executor->plan.refs[step->sources + (size_t)r], done * reducer->nbytes);
    void *dst = at(executor, step->dst, done * reducer->nbytes);
    reducer->reduce(reducer, executor->sources, executor->args->size, &dst, 1, count, 0);
}

static kith_status copy_piece(const ki_executor *executor, const ki_step *step, size_t done, size_t count)
{
    const ki_transport *transport = &executor->transport;
    void *to = at(executor, step->dst, done);
    const void *from = at(executor, step->a, done);
    if (is_elsewhere(executor, step->dst) || is_elsewhere(executor, step->a))
        return transport->site->copy(transport->site_arg, to, from, count);
    memcpy(to, from, count);
    return KITH_OK;
}

static kith_status compute_there(ki_executor *executor, const ki_step *step, size_t done, size_t count)
{
    const ki_transport *transport = &executor->transport;
    const ki_reducer *reducer = executor->args->reducer;
    size_t raw = done * reducer->base.nbytes, acc = done * reducer->acc_nbytes;
    if (step->kind == KI_STEP_REDUCE) {
        for (int r = 0; r < executor->args->size; r++)
            executor->sources[r] = at(executor, executor->plan.refs[step->sources + (size_t)r], raw);
        return transport->site->reduce(transport->site_arg, reducer, executor->sources, at(executor, step->dst, raw),
                                       count);
    }
    const void *a = at(executor, step->a, step->kind == KI_STEP_LOAD ? raw : acc);
    const void *b = step->kind == KI_STEP_COMBINE ? at(executor, step->b, acc) : NULL;
    void *out = at(executor, step->dst, step->kind == KI_STEP_STORE ? raw : acc);
    return transport->site->compute(transport->site_arg, reducer, step->kind, a, b, out, count);
}

/* done and count in the step's unit: bytes for copies, elements else. */
static kith_status run_piece(ki_executor *executor, const ki_step *step, size_t done, size_t count)
{
    const ki_reducer *reducer = executor->args->reducer;
    size_t raw = reducer ? done * reducer->base.nbytes : 0, acc = reducer ? done * reducer->acc_nbytes : 0;
    if (step->kind != KI_STEP_COPY && executor->transport.site != NULL)
        return compute_there(executor, step, done, count);
    switch (step->kind) {
    case KI_STEP_COPY:
        return copy_piece(executor, step, done, count);
    case KI_STEP_LOAD:
        reducer->load(reducer, at(executor, step->a, raw), at(executor, step->dst, acc), count);
        break;
    case KI_STEP_COMBINE:
        reducer->combine(reducer, at(executor, step->a, acc), at(executor, step->b, acc), at(executor, step->dst, acc),
                         count);
        break;
    case KI_STEP_STORE:
        reducer->store(reducer, at(executor, step->a, acc), at(executor, step->dst, raw), count);
        break;
    case KI_STEP_REDUCE:
        reduce_piece(executor, step, done, count);
        break;
    case KI_STEP_SEND:
    case KI_STEP_RECV:
    case KI_STEP_WAIT:
        break; /* not local */
    }
    return KITH_OK;
}

/* Copying memory onto itself: in-place calls, and accumulators that stand in the receive buffer. */
static bool is_nothing(const ki_executor *executor, const ki_step *step)
{
    bool is_copy = step->kind == KI_STEP_COPY || ((step->kind == KI_STEP_LOAD || step->kind == KI_STEP_STORE) &&
                                                  executor->args->reducer->is_identity);
    return is_copy && at(executor, step->dst, 0) == at(executor, step->a, 0);
}

static size_t piece_of(const ki_executor *executor, const ki_step *step)
{
    size_t most = executor->transport.site != NULL ? large_piece_nbytes : piece_nbytes;
    if (step->kind == KI_STEP_COPY)
        return most;
    size_t nbytes = executor->args->reducer->acc_nbytes;
    if (step->kind == KI_STEP_REDUCE)
        nbytes *= (size_t)executor->args->size;
    return most / nbytes + 1;
}

static kith_status run_local(ki_executor *executor, const ki_step *step)
{
    if (is_nothing(executor, step))
        return KITH_OK;
    size_t piece = piece_of(executor, step);
    while (executor->next_done < step->count) {
        size_t left = step->count - executor->next_done, count = left < piece ? left : piece;
        kith_status status = run_piece(executor, step, executor->next_done, count);
        executor->next_done += count;
        if (status == KITH_OK && count < left)
            status = poll(executor);
        if (status != KITH_OK)
            return status;
    }
    executor->next_done = 0;
    return KITH_OK;
}

/* ---- running ---- */

kith_status ki_executor_step(ki_executor *executor, bool *is_done)
{
    const ki_plan *plan = &executor->plan;
    kith_status status = KITH_OK;
    bool has_polled = false;
    *is_done = false;
    while (status == KITH_OK && executor->next < plan->step_count) {
        const ki_step *step = &plan->steps[executor->next];
        if (step->kind == KI_STEP_SEND || step->kind == KI_STEP_RECV) {
            status = start_message(executor, step);
        } else if (step->kind == KI_STEP_WAIT) {
            if (!is_satisfied(executor, step)) {
                if (has_polled)
                    return KITH_OK;
                has_polled = true;
                status = poll(executor);
                continue;
            }
        } else {
            status = run_local(executor, step);
        }
        has_polled = false;
        executor->next++;
    }
    *is_done = status == KITH_OK;
    return status;
}

void ki_executor_cancel(ki_executor *executor)
{
    const ki_transport *transport = &executor->transport;
    for (size_t m = executor->oldest_open; m < executor->started; m++) {
        if (executor->slot_of[m] == KI_SLOT_DONE)
            continue;
        transport->backend->msg_cancel(transport->group, &executor->slots[executor->slot_of[m]]);
        executor->slot_of[m] = KI_SLOT_DONE;
    }
    executor->started = executor->oldest_open = 0;
    executor->next = executor->plan.step_count = executor->plan.message_count = 0;
}

/* Marks the peers of messages of one kind in flight; false when there are none. */
static bool mark_open(const ki_executor *executor, ki_step_kind kind, unsigned char *is_missing)
{
    bool has_any = false;
    for (size_t m = executor->oldest_open; m < executor->started; m++) {
        const ki_step *step = &executor->plan.steps[executor->plan.message_step[m]];
        if (executor->slot_of[m] == KI_SLOT_DONE || step->kind != kind)
            continue;
        is_missing[step->peer] = 1;
        has_any = true;
    }
    return has_any;
}

void ki_executor_missing(const ki_executor *executor, unsigned char *is_missing)
{
    if (!mark_open(executor, KI_STEP_RECV, is_missing))
        mark_open(executor, KI_STEP_SEND, is_missing); /* only sends are open: nobody takes them */
}

void ki_executor_fini(ki_executor *executor)
{
    const kith_allocator *allocator = executor->plan.allocator;
    ki_free(allocator, executor->temp);
    ki_free(allocator, executor->slots);
    ki_free(allocator, executor->free_slots);
    ki_free(allocator, executor->slot_of);
    ki_free(allocator, (void *)(uintptr_t)executor->sources);
    ki_plan_fini(&executor->plan);
    memset(executor, 0, sizeof *executor);
    executor->plan.allocator = allocator;
}
