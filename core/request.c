/* core/request.c - requests: posting, waiting, collecting; the public functions of kith/request.h.
 *
 * A request is on exactly one list while it is active: its group's queue (collectives, in order) or its group's
 * messages. ctx->active_requests counts both. A request that ends keeps its status and text until test or wait
 * reports it.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "request.h"

#include "base/clock.h"
#include "base/error.h"
#include "device/message.h"
#include "device/staged.h"
#include "dispatch.h"
#include "progress.h"
#include "trace.h"
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

kith_request *ki_request_create(kith_group *group, ki_request_kind kind)
{
    kith_request *request = ki_request_alloc();
    if (request == NULL)
        return NULL;
    request->group = group;
    request->kind = kind;
    return request;
}

/* ---- lists ---- */

static void append(kith_request **head, kith_request **tail, kith_request *request)
{
    request->next = NULL;
    request->previous = *tail;
    if (*tail != NULL)
        (*tail)->next = request;
    else
        *head = request;
    *tail = request;
}

static void unlink_request(kith_request *request)
{
    kith_group *group = request->group;
    bool is_coll = request->is_queued;
    if (request->previous != NULL)
        request->previous->next = request->next;
    else if (is_coll)
        group->queue_head = request->next;
    else
        group->messages = request->next;
    if (request->next != NULL)
        request->next->previous = request->previous;
    else if (is_coll)
        group->queue_tail = request->previous;
    request->next = request->previous = NULL;
    group->ctx->active_requests--;
}

static void release(kith_request *request);

/* ---- what a failure does to the group ---- */

/* All ranks came to this status before anything of the operation was sent. */
static bool is_agreed(kith_status status)
{
    return status == KITH_ERR_MISMATCH || status == KITH_ERR_INVALID_ARG || status == KITH_ERR_UNSUPPORTED;
}

/* Only this rank sees what its device says, and NCCL tells nobody that it has failed. The transports of the host let
 * all their ranks see who is gone, late, or sends too much. */
static bool is_seen_here_alone(const kith_request *request, kith_status status)
{
    if (request->way == KI_WAY_DEVICE)
        return status != KITH_ERR_ABORTED && !is_agreed(status);
    return request->way == KI_WAY_STAGED &&
           (status == KITH_ERR_INTERNAL || status == KITH_ERR_NO_MEMORY || status == KITH_ERR_NO_RESOURCE);
}

static void fail_group(const kith_request *request, kith_status status, const char *detail)
{
    kith_group *group = request->group;
    bool was_whole = group->status == KITH_OK;
    ki_group_fail(group, status, "an earlier operation failed: %s", detail);
    if (was_whole && is_seen_here_alone(request, status))
        ki_group_tell_failure(group);
}

/* Nobody collects it: its failure is the group's. */
static void end_detached(kith_request *request)
{
    kith_group *group = request->group;
    request->is_detached = false;
    group->device->detached--;
    if (request->status != KITH_OK)
        fail_group(request, request->status, request->detail != NULL ? request->detail : "no memory for the detail");
    if (request->is_persistent)
        request->state = KI_STATE_IDLE;
    else
        release(request);
}

/* Ends an active request. The text of a failure is the thread's detail now; it is kept for whoever collects the
 * request. */
static void end(kith_request *request, kith_status status)
{
    unlink_request(request);
    request->status = status;
    request->state = KI_STATE_DONE;
    free(request->detail);
    request->detail = status != KITH_OK ? strdup(kith_error_detail()) : NULL;
    ki_trace_end_timed(request->group, request->trace_index, status);
    if (status == KITH_ERR_ABORTED) /* the transport may have seen it first */
        ki_group_notice_abort(request->group);
    if (request->is_detached)
        end_detached(request);
}

/* ---- collectives ---- */

/* Says which operation failed. A collective that failed on the way leaves the others in an unknown place. A mismatch
 * was agreed by all before anything was sent, so the group stays usable. */
static void blame_coll(kith_request *request, kith_status status, bool is_verdict)
{
    kith_group *group = request->group;
    char text[160];
    ki_request_describe(request, text, sizeof text);
    if (is_verdict) /* the same sentence on all ranks, whatever each of them called */
        ki_fail_context(status, "group '%s'", group->name);
    else
        ki_fail_context(status, "%s on group '%s'", text, group->name);
    if (!is_agreed(status))
        fail_group(request, status, kith_error_detail());
}

static void list_message(kith_request *request)
{
    kith_group *group = request->group;
    request->is_queued = false;
    request->previous = NULL;
    request->next = group->messages;
    if (group->messages != NULL)
        group->messages->previous = request;
    group->messages = request;
    group->ctx->active_requests++;
}

static void post_on_device(kith_request *request)
{
    ki_device_post(request);
    list_message(request);
    if (request->status == KITH_OK)
        return;
    blame_coll(request, request->status, request->state == KI_STATE_CHECKING && is_agreed(request->status));
    end(request, request->status);
}

kith_status ki_coll_post(kith_request *request)
{
    kith_group *group = request->group;
    kith_status marked = KITH_OK;
    request->coll.sequence = group->sequence;
    request->state = KI_STATE_QUEUED;
    request->status = KITH_OK;
    request->is_queued = true;
    request->trace_index = ki_trace_begin(group, (int)request->coll.kind, request->coll.count, request->coll.dtype,
                                          request->op_number, request->coll.root, request->coll.sequence);
    if (request->way == KI_WAY_HOST) {
        group->sequence++;
    } else {
        marked = ki_device_mark_ready(request);
        group->sequence += request->way == KI_WAY_STAGED ? ki_staged_pieces(request) : 1;
        if (request->way == KI_WAY_DEVICE && marked == KITH_OK) {
            post_on_device(request);
            return KITH_OK;
        }
    }
    append(&group->queue_head, &group->queue_tail, request);
    group->ctx->active_requests++;
    if (marked != KITH_OK)
        ki_request_fail(request, marked);
    else if (group->queue_head == request)
        ki_coll_step(request);
    return KITH_OK;
}

/* One transition of the head: QUEUED -> (CHECKING ->) RUNNING -> ended. */
static kith_status advance(kith_request *request, bool *is_done)
{
    kith_status status = KITH_OK;
    if (request->state == KI_STATE_QUEUED) {
        status = ki_dispatch_begin(request);
        if (status != KITH_OK)
            return status;
    }
    if (request->state == KI_STATE_CHECKING) {
        bool is_checked = false;
        status = ki_dispatch_check(request, &is_checked);
        if (status != KITH_OK || !is_checked)
            return status;
        status = ki_dispatch_start(request);
        if (status != KITH_OK)
            return status;
    }
    return ki_dispatch_step(request, is_done);
}

void ki_coll_step(kith_request *request)
{
    bool is_done = false;
    kith_status status = ki_group_refuse(request->group, "operation");
    if (status == KITH_OK)
        status = advance(request, &is_done);
    if (status == KITH_OK && !is_done)
        return;
    if (status != KITH_OK) {
        bool is_verdict = request->state == KI_STATE_CHECKING && is_agreed(status);
        char detail[KI_DETAIL_NBYTES];
        snprintf(detail, sizeof detail, "%s", kith_error_detail());
        ki_dispatch_cancel(request);
        ki_fail_quiet(status, "%s", detail); /* the cause, and not what the cancelling came to */
        blame_coll(request, status, is_verdict);
    }
    ki_dispatch_finish(request);
    end(request, status);
}

/* ---- messages ---- */

static kith_status start_on_host(kith_request *request)
{
    kith_group *group = request->group;
    memset(&request->slot, 0, sizeof request->slot);
    return request->kind == KI_REQUEST_SEND ? group->backend->send_start(group->bg, &request->msg, &request->slot)
                                            : group->backend->recv_start(group->bg, &request->msg, &request->slot);
}

/* In a group with a device. */
static kith_status start_message(kith_request *request)
{
    kith_group *group = request->group;
    if (request->way == KI_WAY_HOST || request->way == KI_WAY_WAITING)
        request->way = ki_message_must_wait(group, request->kind, request->msg.peer, request->msg.tag) ? KI_WAY_WAITING
                                                                                                       : KI_WAY_HOST;
    if (request->way == KI_WAY_HOST)
        return start_on_host(request);
    request->number = group->device->message_count++;
    kith_status status = ki_device_mark_ready(request);
    if (status == KITH_OK && request->way == KI_WAY_DEVICE) {
        ki_device_post(request);
        return request->status;
    }
    if (status == KITH_OK)
        status = ki_staged_message_start(request);
    if (status != KITH_OK)
        ki_staged_message_finish(request);
    return status;
}

kith_status ki_message_post(kith_request *request)
{
    kith_group *group = request->group;
    kith_status status = ki_group_refuse(group, request->kind == KI_REQUEST_SEND ? "send" : "receive");
    if (status != KITH_OK)
        return status;
    status = group->device != NULL ? start_message(request) : start_on_host(request);
    if (status != KITH_OK && is_seen_here_alone(request, status)) /* its peer waits for it */
        fail_group(request, status, kith_error_detail());
    if (status != KITH_OK)
        return status;
    request->state = KI_STATE_RUNNING;
    request->status = KITH_OK;
    request->received = 0;
    request->trace_index = ki_trace_begin(group, request->kind == KI_REQUEST_SEND ? KI_TRACE_SEND : KI_TRACE_RECV,
                                          request->msg.nbytes, request->dtype, 0, request->msg.peer, request->msg.tag);
    list_message(request);
    ki_message_step(request);
    return KITH_OK;
}

/* What passes through the host on its way, waits for its turn, or is on the device: messages and collectives. */
static void step_on_device(kith_request *request)
{
    kith_group *group = request->group;
    bool is_done = false, is_coll = request->kind == KI_REQUEST_COLL;
    kith_status status = ki_group_refuse(group, is_coll                            ? "operation"
                                                : request->kind == KI_REQUEST_SEND ? "send"
                                                                                   : "receive");
    if (status != KITH_OK) {
        ki_request_cancel(request, status);
        return;
    }
    status =
        request->way == KI_WAY_DEVICE ? ki_device_step(request, &is_done) : ki_staged_message_step(request, &is_done);
    if (status == KITH_OK && !is_done)
        return;
    if (status != KITH_OK) {
        ki_request_fail(request, status);
        return;
    }
    if (is_coll)
        ki_dispatch_finish(request);
    else if (request->way != KI_WAY_DEVICE)
        ki_staged_message_finish(request);
    end(request, status);
}

void ki_message_step(kith_request *request)
{
    kith_group *group = request->group;
    if (request->way != KI_WAY_HOST) {
        step_on_device(request);
        return;
    }
    kith_status status = ki_group_refuse(group, request->kind == KI_REQUEST_SEND ? "send" : "receive");
    if (status != KITH_OK) {
        group->backend->msg_cancel(group->bg, &request->slot);
        end(request, status);
        return;
    }
    int is_done = 0;
    size_t nbytes = 0;
    status = group->backend->msg_test(group->bg, &request->slot, &is_done, &nbytes);
    if (status == KITH_OK && !is_done)
        return;
    if (status != KITH_OK) {
        char text[160];
        ki_request_describe(request, text, sizeof text);
        ki_fail_context(status, "%s on group '%s'", text, group->name);
    }
    request->received = nbytes;
    end(request, status);
}

/* ---- ending ---- */

void ki_request_cancel(kith_request *request, kith_status status)
{
    kith_group *group = request->group;
    char detail[KI_DETAIL_NBYTES];
    snprintf(detail, sizeof detail, "%s", kith_error_detail());
    if (request->way == KI_WAY_DEVICE && request->state == KI_STATE_RUNNING)
        ki_device_cancel(request);
    if (request->kind == KI_REQUEST_COLL) {
        if (request->way != KI_WAY_DEVICE)
            ki_dispatch_cancel(request);
        ki_dispatch_finish(request);
    } else if (request->way == KI_WAY_HOST) {
        group->backend->msg_cancel(group->bg, &request->slot);
    } else if (request->way != KI_WAY_DEVICE) {
        ki_staged_message_cancel(request);
        ki_staged_message_finish(request);
    }
    ki_fail_quiet(status, "%s", detail); /* what the cancelling came to does not matter any more */
    end(request, status);
}

/* What is on the device cannot be taken back alone, and the peer of a message waits for it: the group ends with it. */
void ki_request_fail(kith_request *request, kith_status status)
{
    kith_group *group = request->group;
    if (request->kind == KI_REQUEST_COLL) {
        blame_coll(request, status, false);
    } else {
        char text[160];
        ki_request_describe(request, text, sizeof text);
        ki_fail_context(status, "%s on group '%s'", text, group->name);
    }
    if (request->way == KI_WAY_DEVICE || is_seen_here_alone(request, status))
        fail_group(request, status, kith_error_detail());
    ki_request_cancel(request, status);
}

void ki_group_end_requests(kith_group *group)
{
    while (group->queue_head != NULL) {
        ki_group_refuse(group, "operation");
        ki_request_cancel(group->queue_head, group->status);
    }
    while (group->messages != NULL) {
        ki_group_refuse(group, "message");
        ki_request_cancel(group->messages, group->status);
    }
}

static void unlink_persistent(kith_request *request)
{
    kith_ctx *ctx = request->group->ctx;
    if (request->previous_persistent != NULL)
        request->previous_persistent->next_persistent = request->next_persistent;
    else
        ctx->persistent = request->next_persistent;
    if (request->next_persistent != NULL)
        request->next_persistent->previous_persistent = request->previous_persistent;
}

static void release(kith_request *request)
{
    ki_dispatch_release(request);
    if (request->is_persistent)
        unlink_persistent(request);
    ki_request_release(request);
}

void ki_release_persistent(kith_ctx *ctx, const kith_group *group)
{
    for (kith_request *r = ctx->persistent, *next; r != NULL; r = next) {
        next = r->next_persistent;
        if (group == NULL || r->group == group)
            release(r);
    }
}

kith_status ki_request_collect(kith_request *request)
{
    kith_status status = request->status;
    if (status != KITH_OK)
        ki_fail_quiet(status, "%s", request->detail != NULL ? request->detail : "no memory for the detail");
    if (request->is_persistent)
        request->state = KI_STATE_IDLE;
    else
        release(request);
    return status;
}

kith_status ki_request_time_out(kith_request *request, int64_t timeout_ms, bool may_wait)
{
    kith_group *group = request->group;
    char text[160];
    kith_status status;
    ki_request_describe(request, text, sizeof text);
    if (request->kind == KI_REQUEST_COLL) {
        unsigned char *is_missing = ki_dispatch_missing(request);
        status = ki_report_timeout(group, text, is_missing, timeout_ms, may_wait);
        free(is_missing);
    } else {
        status = ki_report_message_timeout(group, text, request->kind == KI_REQUEST_SEND, request->msg.peer, timeout_ms,
                                           may_wait);
    }
    ki_trace_dump_on_timeout(group->ctx); /* while the record says that it waits */
    bool is_group_over = request->kind == KI_REQUEST_COLL || request->way == KI_WAY_DEVICE;
    bool is_to_tell = request->way == KI_WAY_DEVICE && group->status == KITH_OK;
    ki_request_cancel(request, status);
    if (is_group_over)
        ki_group_fail(group, status, "%s", request->detail != NULL ? request->detail : "an operation timed out");
    if (is_to_tell)
        ki_group_tell_failure(group);
    return ki_request_collect(request);
}

/* One round for whoever waits. What runs alone needs no walk over the groups, and while the wait spins no progress of
 * backends that are not its own. */
static void step_for(kith_request *request, const ki_waiter *waiter)
{
    kith_ctx *ctx = request->group->ctx;
    bool is_spinning = waiter->polls < ctx->spin;
    if (ctx->active_requests > 1 || (ctx->instance_count > 1 && !is_spinning)) {
        ki_ctx_step(ctx);
        return;
    }
    ki_instance *instance = request->group->instance;
    if (instance->backend->progress != NULL)
        instance->backend->progress(instance->be);
    if (request->is_queued)
        ki_coll_step(request);
    else
        ki_message_step(request);
}

kith_status ki_request_wait(kith_request *request, int64_t timeout_ms, size_t *received)
{
    kith_ctx *ctx = request->group->ctx;
    ki_waiter waiter;
    bool is_default = timeout_ms == KITH_TIMEOUT_DEFAULT;
    int64_t limit = is_default ? request->group->timeout_ms : timeout_ms;
    ki_waiter_init(&waiter, ctx, limit);
    if (is_default && request->deadline_ns != 0)
        waiter.deadline_ns = request->deadline_ns, waiter.timeout_ms = 0;
    for (;;) {
        if (request->state == KI_STATE_DONE) {
            if (received != NULL && request->status == KITH_OK)
                *received = request->kind == KI_REQUEST_RECV ? request->received : 0;
            return ki_request_collect(request);
        }
        step_for(request, &waiter);
        if (request->state != KI_STATE_DONE && ki_waiter_pause(&waiter) != KITH_OK)
            return ki_request_time_out(request, limit, true);
    }
}

/* ---- public ---- */

kith_status ki_request_check_handle(kith_request **request, const char *function)
{
    if (request == NULL)
        return ki_fail_quiet(KITH_ERR_INVALID_ARG, "%s: the pointer to the request is NULL", function);
    if (*request != NULL && !ki_request_is_valid(*request))
        return ki_fail_quiet(KITH_ERR_INVALID_ARG, "%s: the request was already completed, or is not a request",
                             function);
    if (*request != NULL && (*request)->state == KI_STATE_IDLE)
        return ki_fail_quiet(KITH_ERR_INVALID_ARG, "%s: the persistent request was not started", function);
    return KITH_OK;
}

/* Non-persistent requests are gone after collecting: the caller's handle goes with them. */
static void forget(kith_request **request, bool is_persistent)
{
    if (!is_persistent)
        *request = NULL;
}

kith_status kith_test(kith_request **request, int *is_done)
{
    kith_status status = ki_request_check_handle(request, "kith_test");
    if (status != KITH_OK)
        return status;
    if (is_done == NULL)
        return ki_fail_quiet(KITH_ERR_INVALID_ARG, "kith_test: is_done is NULL");
    if (*request == NULL) {
        *is_done = 1;
        return KITH_OK;
    }
    kith_request *r = *request;
    if (r->state != KI_STATE_DONE) {
        kith_ctx *ctx = r->group->ctx;
        ki_ctx_step(ctx);
        if (r->state != KI_STATE_DONE) {
            int64_t now = ki_now_ns();
            if (now >= ctx->next_event_ns) {
                ctx->next_event_ns = now + 5000000;
                ki_ctx_poll_events(ctx);
            }
            if (r->deadline_ns != 0 && now >= r->deadline_ns) {
                bool keeps = r->is_persistent;
                status = ki_request_time_out(r, r->group->timeout_ms, false);
                forget(request, keeps);
                *is_done = 1;
                return status;
            }
        }
    }
    *is_done = r->state == KI_STATE_DONE;
    if (!*is_done) {
        if (r->group->ctx->spin == 0) /* the rank that is waited for may want this processor */
            sched_yield();
        return KITH_OK;
    }
    forget(request, r->is_persistent);
    return ki_request_collect(r);
}

kith_status kith_wait_timeout(kith_request **request, int64_t timeout_ms)
{
    kith_status status = ki_request_check_handle(request, "kith_wait");
    if (status != KITH_OK || *request == NULL)
        return status;
    if (timeout_ms < KITH_TIMEOUT_DEFAULT)
        return ki_fail_quiet(KITH_ERR_INVALID_ARG, "kith_wait_timeout: timeout %lld ms is negative",
                             (long long)timeout_ms);
    kith_request *r = *request;
    forget(request, r->is_persistent);
    return ki_request_wait(r, timeout_ms, NULL);
}

kith_status kith_wait_received(kith_request **request, size_t *nbytes)
{
    kith_status status = ki_request_check_handle(request, "kith_wait_received");
    if (status != KITH_OK)
        return status;
    if (*request == NULL) {
        if (nbytes != NULL)
            *nbytes = 0;
        return KITH_OK;
    }
    kith_request *r = *request;
    forget(request, r->is_persistent);
    return ki_request_wait(r, KITH_TIMEOUT_DEFAULT, nbytes);
}

kith_status kith_wait(kith_request **request)
{
    return kith_wait_timeout(request, KITH_TIMEOUT_DEFAULT);
}

kith_status kith_wait_all(kith_request **requests, size_t count)
{
    if (requests == NULL && count > 0)
        return ki_fail_quiet(KITH_ERR_INVALID_ARG, "kith_wait_all: the array is NULL");
    kith_status first = KITH_OK;
    char detail[KI_DETAIL_NBYTES] = "";
    for (size_t i = 0; i < count; i++) {
        kith_status status = kith_wait(&requests[i]);
        if (first == KITH_OK && status != KITH_OK) {
            first = status;
            snprintf(detail, sizeof detail, "%s", kith_error_detail());
        }
    }
    return first == KITH_OK ? KITH_OK : ki_fail_quiet(first, "%s", detail);
}

/* The first entry that ended; count when none did. has_active: there is an entry at all. */
static size_t find_done(kith_request **requests, size_t count, kith_request **active)
{
    *active = NULL;
    for (size_t i = 0; i < count; i++) {
        if (requests[i] == NULL)
            continue;
        *active = requests[i];
        if (requests[i]->state == KI_STATE_DONE)
            return i;
    }
    return count;
}

kith_status kith_wait_any(kith_request **requests, size_t count, size_t *index)
{
    if ((requests == NULL && count > 0) || index == NULL)
        return ki_fail_quiet(KITH_ERR_INVALID_ARG, "kith_wait_any: the array or index is NULL");
    for (size_t i = 0; i < count; i++) {
        kith_status status = ki_request_check_handle(&requests[i], "kith_wait_any");
        if (status != KITH_OK)
            return status;
    }
    kith_request *active;
    size_t found = find_done(requests, count, &active);
    if (active == NULL) {
        *index = count;
        return KITH_OK;
    }
    kith_ctx *ctx = active->group->ctx;
    ki_waiter waiter;
    ki_waiter_init(&waiter, ctx, active->group->timeout_ms);
    while (found == count) {
        ki_ctx_step(ctx);
        found = find_done(requests, count, &active);
        if (found == count && ki_waiter_pause(&waiter) != KITH_OK) {
            found = (size_t)-1;
            break;
        }
    }
    if (found == (size_t)-1) { /* deadline: the last entry stands for all */
        for (found = 0; requests[found] != active; found++) {
        }
        *index = found;
        kith_request *late = requests[found];
        forget(&requests[found], late->is_persistent);
        return ki_request_time_out(late, late->group->timeout_ms, true);
    }
    *index = found;
    kith_request *r = requests[found];
    forget(&requests[found], r->is_persistent);
    return ki_request_collect(r);
}

kith_status kith_request_start(kith_request *request)
{
    if (!ki_request_is_valid(request) || !request->is_persistent)
        return ki_fail_quiet(KITH_ERR_INVALID_ARG, "kith_request_start: not a persistent request");
    if (request->is_detached)
        ki_device_drain(request->group); /* ordered into a stream, and not done there yet */
    if (request->state != KI_STATE_IDLE)
        return ki_fail_quiet(KITH_ERR_BUSY, "kith_request_start: the request is running, or was not waited for");
    kith_status status = ki_group_refuse(request->group, "kith_request_start");
    if (status != KITH_OK)
        return status;
    request->has_order = false;
    request->deadline_ns = ki_deadline_after_ms(request->group->timeout_ms);
    return request->kind == KI_REQUEST_COLL ? ki_coll_post(request) : ki_message_post(request);
}

kith_status kith_request_received(const kith_request *request, size_t *nbytes)
{
    if (!ki_request_is_valid(request) || request->kind != KI_REQUEST_RECV || nbytes == NULL)
        return ki_fail_quiet(KITH_ERR_INVALID_ARG, "kith_request_received: not a receive, or nbytes is NULL");
    *nbytes = request->received;
    return KITH_OK;
}

kith_status kith_request_free(kith_request **request)
{
    if (request == NULL || *request == NULL)
        return KITH_OK;
    if (!ki_request_is_valid(*request) || !(*request)->is_persistent)
        return ki_fail_quiet(KITH_ERR_INVALID_ARG, "kith_request_free: not a persistent request");
    if ((*request)->is_detached)
        ki_device_drain((*request)->group);
    if ((*request)->state != KI_STATE_IDLE)
        return ki_fail_quiet(KITH_ERR_BUSY, "kith_request_free: the request is running, or was not waited for");
    release(*request);
    *request = NULL;
    return KITH_OK;
}
