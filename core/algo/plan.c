/* core/algo/plan.c - appending steps to a plan.
 *
 * Appending never reports: the first failure is kept in plan->status and later steps are dropped, so that algorithms
 * read as a list of steps. Memory grows by doubling and stays with the plan for its next use.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "algo.h"
#include "../base/error.h"
#include "../base/mem.h"
#include <string.h>

/* Room for need elements in *array; false when there is no memory. */
static bool grow(ki_plan *plan, void **array, size_t *capacity, size_t used, size_t need, size_t nbytes)
{
    if (need <= *capacity)
        return true;
    size_t wanted = *capacity < 32 ? 64 : *capacity * 2;
    if (wanted < need)
        wanted = need;
    void *larger = ki_calloc(plan->allocator, wanted, nbytes);
    if (!larger) {
        ki_plan_fail(plan, KITH_ERR_NO_MEMORY);
        return false;
    }
    if (used > 0)
        memcpy(larger, *array, used * nbytes);
    ki_free(plan->allocator, *array);
    *array = larger;
    *capacity = wanted;
    return true;
}

/* A zeroed step at the end, or NULL after a failure. */
static ki_step *append(ki_plan *plan, ki_step_kind kind)
{
    if (plan->status != KITH_OK)
        return NULL;
    void *steps = plan->steps;
    if (!grow(plan, &steps, &plan->step_capacity, plan->step_count, plan->step_count + 1, sizeof(ki_step)))
        return NULL;
    plan->steps = steps;
    ki_step *step = &plan->steps[plan->step_count++];
    memset(step, 0, sizeof *step);
    step->kind = kind;
    return step;
}

static ki_step *append_message(ki_plan *plan, ki_step_kind kind, int peer, size_t nbytes)
{
    if (nbytes == 0 || plan->status != KITH_OK)
        return NULL;
    void *message_step = plan->message_step;
    if (!grow(plan, &message_step, &plan->message_capacity, plan->message_count, plan->message_count + 1,
              sizeof(size_t)))
        return NULL;
    plan->message_step = message_step;
    ki_step *step = append(plan, kind);
    if (!step)
        return NULL;
    step->peer = peer;
    step->count = nbytes;
    step->message = plan->message_count;
    plan->message_step[plan->message_count++] = plan->step_count - 1;
    return step;
}

void ki_plan_fail(ki_plan *plan, kith_status status)
{
    if (plan->status == KITH_OK)
        plan->status = status;
}

void ki_plan_send(ki_plan *plan, int peer, ki_ref from, size_t nbytes)
{
    ki_step *step = append_message(plan, KI_STEP_SEND, peer, nbytes);
    if (step)
        step->a = from;
}

void ki_plan_recv(ki_plan *plan, int peer, ki_ref to, size_t nbytes)
{
    ki_step *step = append_message(plan, KI_STEP_RECV, peer, nbytes);
    if (step)
        step->dst = to;
}

size_t ki_plan_mark(const ki_plan *plan)
{
    return plan->message_count;
}

void ki_plan_wait(ki_plan *plan, size_t first, size_t last)
{
    if (last <= first)
        return;
    ki_step *step = append(plan, KI_STEP_WAIT);
    if (step) {
        step->first = first;
        step->last = last;
    }
}

void ki_plan_wait_all(ki_plan *plan)
{
    ki_plan_wait(plan, 0, plan->message_count);
}

/* Extends a copy that ends where this one begins, on both sides. Only between different buffers: a joined copy
 * inside one buffer could overlap itself. SEND and RECV may be the same memory, so one of the two must be scratch. */
static bool joins(const ki_plan *plan, ki_ref dst, ki_ref src)
{
    if (plan->step_count == 0 || dst.buf == src.buf || (dst.buf != KI_BUF_TEMP && src.buf != KI_BUF_TEMP))
        return false;
    const ki_step *last = &plan->steps[plan->step_count - 1];
    return last->kind == KI_STEP_COPY && last->dst.buf == dst.buf && last->a.buf == src.buf &&
           last->dst.offset + last->count == dst.offset && last->a.offset + last->count == src.offset;
}

void ki_plan_copy(ki_plan *plan, ki_ref dst, ki_ref src, size_t nbytes)
{
    if (nbytes == 0 || (dst.buf == src.buf && dst.offset == src.offset) || plan->status != KITH_OK)
        return;
    if (joins(plan, dst, src)) {
        plan->steps[plan->step_count - 1].count += nbytes;
        return;
    }
    ki_step *step = append(plan, KI_STEP_COPY);
    if (step) {
        step->dst = dst;
        step->a = src;
        step->count = nbytes;
    }
}

static void append_arithmetic(ki_plan *plan, ki_step_kind kind, ki_ref dst, ki_ref a, ki_ref b, size_t count)
{
    ki_step *step = count > 0 ? append(plan, kind) : NULL;
    if (step) {
        step->dst = dst;
        step->a = a;
        step->b = b;
        step->count = count;
    }
}

void ki_plan_load(ki_plan *plan, ki_ref dst, ki_ref src, size_t count)
{
    append_arithmetic(plan, KI_STEP_LOAD, dst, src, src, count);
}

void ki_plan_combine(ki_plan *plan, ki_ref dst, ki_ref left, ki_ref right, size_t count)
{
    append_arithmetic(plan, KI_STEP_COMBINE, dst, left, right, count);
}

void ki_plan_store(ki_plan *plan, ki_ref dst, ki_ref src, size_t count)
{
    append_arithmetic(plan, KI_STEP_STORE, dst, src, src, count);
}

ki_ref *ki_plan_reduce(ki_plan *plan, ki_ref dst, size_t count, int size)
{
    if (plan->status != KITH_OK)
        return NULL;
    size_t first = plan->ref_count, need = first + (size_t)size;
    void *refs = plan->refs;
    if (!grow(plan, &refs, &plan->ref_capacity, first, need, sizeof(ki_ref)))
        return NULL;
    plan->refs = refs;
    ki_step *step = append(plan, KI_STEP_REDUCE);
    if (!step)
        return NULL;
    step->dst = dst;
    step->count = count;
    step->sources = first;
    plan->ref_count = need;
    return &plan->refs[first];
}

ki_ref ki_plan_temp(ki_plan *plan, size_t count, size_t nbytes)
{
    ki_ref ref = { KI_BUF_TEMP, plan->temp_nbytes };
    size_t total;
    if (!ki_mul(count, nbytes, &total) || !ki_add(total, 63, &total) ||
        !ki_add(plan->temp_nbytes, total & ~(size_t)63, &plan->temp_nbytes)) {
        if (plan->status == KITH_OK)
            ki_fail(KITH_ERR_INVALID_ARG,
                    "the operation needs more scratch memory than can be addressed (%zu elements of %zu bytes)", count,
                    nbytes);
        ki_plan_fail(plan, KITH_ERR_INVALID_ARG);
    }
    return ref;
}

size_t *ki_plan_numbers(ki_plan *plan, size_t count)
{
    void *numbers = plan->numbers;
    if (!grow(plan, &numbers, &plan->number_capacity, 0, count, sizeof(size_t)))
        return NULL;
    plan->numbers = numbers;
    return plan->numbers;
}

void ki_plan_reset(ki_plan *plan)
{
    plan->step_count = plan->ref_count = plan->message_count = 0;
    plan->temp_nbytes = 0;
    plan->status = KITH_OK;
}

void ki_plan_fini(ki_plan *plan)
{
    ki_free(plan->allocator, plan->steps);
    ki_free(plan->allocator, plan->refs);
    ki_free(plan->allocator, plan->numbers);
    ki_free(plan->allocator, plan->message_step);
    const kith_allocator *allocator = plan->allocator;
    memset(plan, 0, sizeof *plan);
    plan->allocator = allocator;
}
