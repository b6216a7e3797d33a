/* core/kept.c - see kept.h.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "kept.h"

#include "coll.h"
#include "request.h"
#include <string.h>

bool ki_kept_may(const kith_group *group, const kith_coll_args *args)
{
    return group->size > 1 && group->queue_head == NULL && !group->is_check && group->node == NULL &&
           group->leaders == NULL && !ki_coll_has_arrays(args->kind) && args->op < KITH_OP_BUILTIN_COUNT;
}

/* From the descriptor, where what the collective does not have is always the same. */
static ki_kept_key key_of(const kith_be_coll *coll)
{
    return (ki_kept_key){ .count = coll->count,
                          .kind = coll->kind,
                          .dtype = coll->dtype,
                          .op = coll->op,
                          .root = coll->root,
                          .is_in_place = coll->send == coll->recv };
}

static bool is_same(const ki_kept_key *a, const ki_kept_key *b)
{
    return a->count == b->count && a->kind == b->kind && a->dtype == b->dtype && a->op == b->op && a->root == b->root &&
           a->is_in_place == b->is_in_place;
}

/* Brings the plan to the front. NULL when there is none. */
static kith_request *find(ki_kept *kept, const ki_kept_key *key)
{
    int i = 0;
    while (i < kept->count && !is_same(&kept->plans[i].key, key))
        i++;
    if (i == kept->count)
        return NULL;
    if (i > 0) {
        ki_kept_plan found = kept->plans[i];
        memmove(&kept->plans[1], &kept->plans[0], (size_t)i * sizeof kept->plans[0]);
        kept->plans[0] = found;
    }
    return kept->plans[0].request;
}

static void forget_first(ki_kept *kept)
{
    kept->count--;
    memmove(&kept->plans[0], &kept->plans[1], (size_t)kept->count * sizeof kept->plans[0]);
}

static void insert(ki_kept *kept, const ki_kept_key *key, kith_request *request)
{
    if (kept->count == KI_KEPT_MOST)
        ki_request_release(kept->plans[--kept->count].request);
    memmove(&kept->plans[1], &kept->plans[0], (size_t)kept->count * sizeof kept->plans[0]);
    kept->plans[0] = (ki_kept_plan){ *key, request };
    kept->count++;
}

/* ---- scratch ---- */

static void lend_temp(ki_kept *kept, ki_executor *executor)
{
    if (executor->temp_capacity >= kept->temp_capacity)
        return;
    ki_free(executor->plan.allocator, executor->temp);
    executor->temp = kept->temp;
    executor->temp_capacity = kept->temp_capacity;
    kept->temp = NULL;
    kept->temp_capacity = 0;
}

/* Long scratch stays with its request, in the pool. */
static void take_temp(ki_kept *kept, ki_executor *executor)
{
    if (executor->temp_capacity > KI_KEPT_TEMP_NBYTES)
        return;
    if (executor->temp_capacity > kept->temp_capacity) {
        unsigned char *shorter = kept->temp;
        kept->temp = executor->temp;
        kept->temp_capacity = executor->temp_capacity;
        executor->temp = shorter;
    }
    ki_free(executor->plan.allocator, executor->temp);
    executor->temp = NULL;
    executor->temp_capacity = 0;
}

static size_t plan_nbytes(const ki_executor *executor)
{
    const ki_plan *plan = &executor->plan;
    return plan->step_capacity * sizeof(ki_step) + plan->ref_capacity * sizeof(ki_ref) +
           plan->number_capacity * sizeof(size_t) + plan->message_capacity * sizeof(size_t) +
           executor->slot_capacity * (sizeof(kith_be_slot) + sizeof(uint32_t)) +
           executor->slot_of_capacity * sizeof(uint32_t) + executor->source_capacity * sizeof(void *);
}

static bool is_worth_keeping(const kith_request *request)
{
    return request->is_planned && request->executor.temp_capacity <= KI_KEPT_TEMP_NBYTES &&
           plan_nbytes(&request->executor) <= KI_KEPT_PLAN_NBYTES;
}

/* ---- running ---- */

/* The deadline begins at the first pause of the wait: most calls never come to one. */
static kith_status post_and_wait(kith_request *request)
{
    request->deadline_ns = 0;
    ki_coll_post(request);
    return ki_request_wait(request, KITH_TIMEOUT_DEFAULT, NULL);
}

static kith_status run_kept(kith_group *group, const kith_be_coll *coll, kith_request *request)
{
    ki_kept *kept = group->kept;
    request->coll.send = coll->send;
    request->coll.recv = coll->recv;
    lend_temp(kept, &request->executor);
    kith_status status = post_and_wait(request);
    take_temp(kept, &request->executor);
    if (status != KITH_OK) { /* cancelled: its plan is gone */
        forget_first(kept);
        ki_request_release(request);
    }
    return status;
}

static kith_status run_new(kith_group *group, const kith_coll_args *args)
{
    ki_kept *kept = group->kept;
    kith_request *request = NULL;
    kith_status status = ki_coll_make(group, args, true, &request);
    if (status != KITH_OK)
        return status;
    ki_kept_key key = key_of(&request->coll);
    lend_temp(kept, &request->executor);
    status = post_and_wait(request);
    take_temp(kept, &request->executor);
    if (status == KITH_OK && is_worth_keeping(request))
        insert(kept, &key, request);
    else
        ki_request_release(request);
    return status;
}

kith_status ki_kept_run(kith_group *group, const kith_coll_args *args)
{
    if (group->kept == NULL) {
        group->kept = (ki_kept *)ki_calloc(&group->ctx->allocator, 1, sizeof *group->kept);
        if (group->kept == NULL)
            return KITH_ERR_NO_MEMORY;
    }
    kith_be_coll coll;
    ki_coll_fill(args, &coll);
    ki_kept_key key = key_of(&coll);
    kith_request *request = find(group->kept, &key);
    if (request == NULL)
        return run_new(group, args);
    kith_status status = ki_coll_check(group, &coll, args->op);
    return status == KITH_OK ? run_kept(group, &coll, request) : status;
}

void ki_kept_release(kith_group *group)
{
    ki_kept *kept = group->kept;
    if (kept == NULL)
        return;
    for (int i = 0; i < kept->count; i++)
        ki_request_release(kept->plans[i].request);
    ki_free(NULL, kept->temp); /* an executor's, whose plan has no allocator of its own in a request */
    ki_free(&group->ctx->allocator, kept);
    group->kept = NULL;
}
