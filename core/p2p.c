/* core/p2p.c - messages: the public functions of kith/p2p.h.
 *
 * A blocking call keeps its one or two messages on the stack and polls their slots for a while, as native collectives
 * do; when that is not enough it waits with everything else of the context advancing.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "base/clock.h"
#include "base/error.h"
#include "base/mem.h"
#include "device/message.h"
#include "object.h"
#include "progress.h"
#include "request.h"
#include "trace.h"
#include <stdio.h>
#include <string.h>

/* What a caller gives, checked; size in bytes. */
static kith_status check_message(kith_group *group, const char *function, const void *buffer, size_t count,
                                 kith_dtype dtype, int peer, int tag, size_t *nbytes)
{
    KI_CHECK_GROUP(group, function);
    size_t element = kith_dtype_nbytes(dtype);
    if (element == 0)
        return ki_fail_quiet(KITH_ERR_INVALID_ARG, "%s: %d is no dtype (0 to %d)", function, (int)dtype,
                             KITH_DTYPE_COUNT - 1);
    if (peer < 0 || peer >= group->size)
        return ki_fail_quiet(KITH_ERR_INVALID_ARG, "%s: rank %d is outside the group '%s' (0 to %d)", function, peer,
                             group->name, group->size - 1);
    if (tag < 0)
        return ki_fail_quiet(KITH_ERR_INVALID_ARG, "%s: tag %d is negative (0 to %d)", function, tag, KITH_TAG_MAX);
    if (!ki_mul(count, element, nbytes) || *nbytes > PTRDIFF_MAX)
        return ki_fail_quiet(KITH_ERR_INVALID_ARG, "%s: %zu elements do not fit 64 bits of bytes", function, count);
    if (buffer == NULL && *nbytes > 0)
        return ki_fail_quiet(KITH_ERR_INVALID_ARG, "%s: the buffer is NULL", function);
    return group->status == KITH_OK && atomic_load_explicit(&group->abort_flag, memory_order_relaxed) == 0
               ? KITH_OK
               : ki_group_refuse(group, function);
}

void ki_message_describe(ki_request_kind kind, const kith_be_msg *msg, char *text, size_t nbytes)
{
    bool is_send = kind == KI_REQUEST_SEND;
    snprintf(text, nbytes, "%s of %zu B %s rank %d tag %llu", is_send ? "send" : "receive", msg->nbytes,
             is_send ? "to" : "from", msg->peer, (unsigned long long)msg->tag);
}

/* A request for a message that was checked, not posted yet. */
static kith_status make(kith_group *group, ki_request_kind kind, const char *function, const void *buffer, size_t count,
                        kith_dtype dtype, int peer, int tag, kith_request **request)
{
    size_t nbytes = 0;
    kith_status status = check_message(group, function, buffer, count, dtype, peer, tag, &nbytes);
    if (status != KITH_OK)
        return status;
    if (request == NULL)
        return ki_fail_quiet(KITH_ERR_INVALID_ARG, "%s: the pointer for the request is NULL", function);
    kith_request *made = ki_request_create(group, kind);
    if (made == NULL)
        return KITH_ERR_NO_MEMORY;
    made->msg =
        (kith_be_msg){ .peer = peer, .tag = (uint64_t)tag, .buffer = (void *)(uintptr_t)buffer, .nbytes = nbytes };
    made->dtype = dtype;
    made->op_number = -1;
    made->deadline_ns = ki_deadline_after_ms(group->timeout_ms);
    if (ki_device_is_asked() && (status = ki_device_classify_message(made)) != KITH_OK) {
        ki_request_release(made);
        return status;
    }
    *request = made;
    return KITH_OK;
}

static kith_status start(kith_group *group, ki_request_kind kind, const char *function, const void *buffer,
                         size_t count, kith_dtype dtype, int peer, int tag, kith_request **request)
{
    kith_request *made = NULL;
    kith_status status = make(group, kind, function, buffer, count, dtype, peer, tag, request != NULL ? &made : NULL);
    if (status != KITH_OK)
        return status;
    status = ki_message_post(made);
    if (status != KITH_OK) {
        ki_request_release(made);
        return status;
    }
    *request = made;
    return KITH_OK;
}

kith_status kith_send_start(kith_group *group, const void *buffer, size_t count, kith_dtype dtype, int to, int tag,
                            kith_request **request)
{
    return start(group, KI_REQUEST_SEND, "kith_send_start", buffer, count, dtype, to, tag, request);
}

kith_status kith_recv_start(kith_group *group, void *buffer, size_t count, kith_dtype dtype, int from, int tag,
                            kith_request **request)
{
    return start(group, KI_REQUEST_RECV, "kith_recv_start", buffer, count, dtype, from, tag, request);
}

static kith_status init(kith_group *group, ki_request_kind kind, const char *function, const void *buffer, size_t count,
                        kith_dtype dtype, int peer, int tag, kith_request **request)
{
    kith_request *made = NULL;
    kith_status status = make(group, kind, function, buffer, count, dtype, peer, tag, request != NULL ? &made : NULL);
    if (status != KITH_OK)
        return status;
    made->is_persistent = true;
    made->next_persistent = group->ctx->persistent;
    if (made->next_persistent != NULL)
        made->next_persistent->previous_persistent = made;
    group->ctx->persistent = made;
    *request = made;
    return KITH_OK;
}

kith_status kith_send_init(kith_group *group, const void *buffer, size_t count, kith_dtype dtype, int to, int tag,
                           kith_request **request)
{
    return init(group, KI_REQUEST_SEND, "kith_send_init", buffer, count, dtype, to, tag, request);
}

kith_status kith_recv_init(kith_group *group, void *buffer, size_t count, kith_dtype dtype, int from, int tag,
                           kith_request **request)
{
    return init(group, KI_REQUEST_RECV, "kith_recv_init", buffer, count, dtype, from, tag, request);
}

/* ---- blocking ---- */

/* A message of a blocking call: it lives on the stack. */
typedef struct short_message {
    ki_request_kind kind;
    kith_dtype dtype;
    kith_be_msg msg;
    kith_be_slot slot;
    uint32_t record;
    int is_over;
    kith_status status;
    size_t received;
} short_message;

static inline short_message short_of(ki_request_kind kind, const void *buffer, size_t nbytes, kith_dtype dtype,
                                     int peer, int tag)
{
    return (short_message){
        .kind = kind,
        .dtype = dtype,
        .msg = { .peer = peer, .tag = (uint64_t)tag, .buffer = (void *)(uintptr_t)buffer, .nbytes = nbytes }
    };
}

static kith_status time_out(kith_group *group, const short_message *m)
{
    char text[160];
    ki_message_describe(m->kind, &m->msg, text, sizeof text);
    kith_status status =
        ki_report_message_timeout(group, text, m->kind == KI_REQUEST_SEND, m->msg.peer, group->timeout_ms, true);
    ki_trace_dump_on_timeout(group->ctx);
    return status;
}

static inline void end_short(kith_group *group, short_message *m, kith_status status)
{
    m->is_over = 1;
    m->status = status;
    ki_trace_end(group, m->record, status);
    if (__builtin_expect(status == KITH_ERR_ABORTED, 0)) /* the transport may have seen it first */
        ki_group_notice_abort(group);
}

static inline void start_short(kith_group *group, short_message *m)
{
    const kith_backend *backend = group->backend;
    bool is_send = m->kind == KI_REQUEST_SEND;
    m->record = ki_trace_begin(group, is_send ? KI_TRACE_SEND : KI_TRACE_RECV, m->msg.nbytes, m->dtype, 0, m->msg.peer,
                               m->msg.tag);
    kith_status status =
        is_send ? backend->send_start(group->bg, &m->msg, &m->slot) : backend->recv_start(group->bg, &m->msg, &m->slot);
    if (status != KITH_OK)
        end_short(group, m, status);
}

static void add_context(const kith_group *group, const short_message *m, kith_status status)
{
    char text[160];
    ki_message_describe(m->kind, &m->msg, text, sizeof text);
    ki_fail_context(status, "%s on group '%s'", text, group->name);
}

static inline bool test_short(kith_group *group, short_message *m)
{
    int is_done = 0;
    if (m->is_over)
        return true;
    kith_status status = group->backend->msg_test(group->bg, &m->slot, &is_done, &m->received);
    if (__builtin_expect(status != KITH_OK, 0))
        add_context(group, m, status);
    if (is_done || status != KITH_OK)
        end_short(group, m, status);
    return m->is_over;
}

static inline bool test_all_short(kith_group *group, short_message *list, int count)
{
    bool are_over = true;
    for (int i = 0; i < count; i++)
        are_over = test_short(group, &list[i]) && are_over;
    return are_over;
}

static void cancel_all_short(kith_group *group, short_message *list, int count, kith_status status)
{
    for (int i = 0; i < count; i++) {
        if (list[i].is_over)
            continue;
        group->backend->msg_cancel(group->bg, &list[i].slot);
        end_short(group, &list[i], status);
    }
}

/* Between two rounds of tests: the context goes on, time passes. Anything but KITH_OK ends all that still runs. */
static kith_status pause_short(kith_group *group, const short_message *list, int count, ki_waiter *waiter)
{
    const kith_backend *backend = group->backend;
    int first = 0;
    while (first < count - 1 && list[first].is_over)
        first++;
    if (waiter->polls < group->ctx->spin) {
        if (!backend->is_test_enough && backend->progress != NULL)
            backend->progress(group->instance->be);
    } else {
        ki_ctx_step(group->ctx);
        kith_status status = ki_group_refuse(group, list[first].kind == KI_REQUEST_SEND ? "send" : "receive");
        if (status != KITH_OK)
            return status;
    }
    return ki_waiter_pause(waiter) == KITH_OK ? KITH_OK : time_out(group, &list[first]);
}

/* Runs messages from the stack. The first failure in the list's order is returned; one message's failure does not end
 * the others. */
static inline kith_status run_short(kith_group *group, short_message *list, int count)
{
    ki_waiter waiter;
    for (int i = 0; i < count; i++) {
        start_short(group, &list[i]);
        if (list[i].is_over) { /* the rest would wait for what the peer may never learn of */
            cancel_all_short(group, list, i, list[i].status);
            return list[i].status;
        }
    }
    ki_waiter_init(&waiter, group->ctx, group->timeout_ms);
    while (!test_all_short(group, list, count)) {
        kith_status status = pause_short(group, list, count, &waiter);
        if (status != KITH_OK)
            cancel_all_short(group, list, count, status);
    }
    for (int i = 0; i < count; i++)
        if (list[i].status != KITH_OK)
            return list[i].status;
    return KITH_OK;
}

/* ---- blocking, on device memory ---- */

/* Some of it may be a device's, or have to wait for its turn behind such a one. */
static bool is_special(const kith_group *group, const short_message *list, int count)
{
    bool is_device = false;
    for (int i = 0; ki_device_is_asked() && i < count; i++)
        if (ki_device_touches(group, list[i].msg.buffer, NULL, &is_device) != KITH_OK || is_device ||
            ki_message_must_wait(group, list[i].kind, list[i].msg.peer, list[i].msg.tag))
            return true;
    return false;
}

/* As requests. All are posted, as one where the device's backend has that, before any is waited for. */
static kith_status run_requests(kith_group *group, const char *function, short_message *list, int count)
{
    kith_request *requests[2] = { NULL, NULL };
    kith_status status = ki_device_batch_begin(group);
    int started = 0;
    for (; status == KITH_OK && started < count; started++) {
        const short_message *m = &list[started];
        status = start(group, m->kind, function, m->msg.buffer, m->msg.nbytes, KITH_UINT8, m->msg.peer, (int)m->msg.tag,
                       &requests[started]);
        if (status != KITH_OK)
            break;
    }
    kith_status ended = ki_device_batch_end(group);
    if (status == KITH_OK)
        status = ended;
    for (int i = 0; i < started; i++) {
        if (status != KITH_OK && requests[i]->state != KI_STATE_DONE)
            ki_request_cancel(requests[i], status);
        kith_status one = ki_device_finish(requests[i], &list[i].received);
        status = status == KITH_OK ? one : status;
    }
    return status;
}

static kith_status run_any(kith_group *group, const char *function, short_message *list, int count)
{
    return is_special(group, list, count) ? run_requests(group, function, list, count) : run_short(group, list, count);
}

kith_status kith_send(kith_group *group, const void *buffer, size_t count, kith_dtype dtype, int to, int tag)
{
    size_t nbytes = 0;
    kith_status status = check_message(group, "kith_send", buffer, count, dtype, to, tag, &nbytes);
    if (status != KITH_OK)
        return status;
    short_message m = short_of(KI_REQUEST_SEND, buffer, nbytes, dtype, to, tag);
    return run_any(group, "kith_send", &m, 1);
}

kith_status kith_recv(kith_group *group, void *buffer, size_t count, kith_dtype dtype, int from, int tag,
                      size_t *received)
{
    size_t nbytes = 0;
    kith_status status = check_message(group, "kith_recv", buffer, count, dtype, from, tag, &nbytes);
    if (status != KITH_OK)
        return status;
    short_message m = short_of(KI_REQUEST_RECV, buffer, nbytes, dtype, from, tag);
    status = run_any(group, "kith_recv", &m, 1);
    if (status == KITH_OK && received != NULL)
        *received = m.received / kith_dtype_nbytes(dtype);
    return status;
}

kith_status kith_sendrecv(kith_group *group, const void *send, size_t send_count, int to, int send_tag, void *recv,
                          size_t recv_count, int from, int recv_tag, kith_dtype dtype)
{
    size_t sent = 0, taken = 0;
    kith_status status = check_message(group, "kith_sendrecv", send, send_count, dtype, to, send_tag, &sent);
    if (status == KITH_OK)
        status = check_message(group, "kith_sendrecv", recv, recv_count, dtype, from, recv_tag, &taken);
    if (status != KITH_OK)
        return status;
    uintptr_t a = (uintptr_t)send, b = (uintptr_t)recv;
    if (sent > 0 && taken > 0 && a < b + taken && b < a + sent)
        return ki_fail_quiet(KITH_ERR_INVALID_ARG, "kith_sendrecv: the buffers overlap");
    /* The other rank waits for what is sent; a message to this rank itself is best met by its receive. */
    int at = to == group->rank ? 1 : 0;
    short_message both[2];
    both[at] = short_of(KI_REQUEST_SEND, send, sent, dtype, to, send_tag);
    both[1 - at] = short_of(KI_REQUEST_RECV, recv, taken, dtype, from, recv_tag);
    return run_any(group, "kith_sendrecv", both, 2);
}

kith_status kith_batch_start(kith_group *group, const kith_p2p_args *members, size_t count, kith_request **requests)
{
    KI_CHECK_GROUP(group, "kith_batch_start");
    if (count > 0 && (members == NULL || requests == NULL))
        return ki_fail_quiet(KITH_ERR_INVALID_ARG, "kith_batch_start: members or requests is NULL");
    for (size_t i = 0; i < count; i++) {
        size_t nbytes;
        kith_status status = check_message(group, "kith_batch_start", members[i].buffer, members[i].count,
                                           members[i].dtype, members[i].peer, members[i].tag, &nbytes);
        if (status != KITH_OK)
            return ki_fail_context(status, "member %zu", i);
    }
    size_t started = 0;
    kith_status status = ki_device_batch_begin(group);
    if (status != KITH_OK)
        return status;
    for (; started < count; started++) {
        const kith_p2p_args *m = &members[started];
        kith_request **request = &requests[started];
        status = m->is_send ? kith_send_start(group, m->buffer, m->count, m->dtype, m->peer, m->tag, request)
                            : kith_recv_start(group, m->buffer, m->count, m->dtype, m->peer, m->tag, request);
        if (status != KITH_OK)
            break;
    }
    kith_status ended = ki_device_batch_end(group);
    if (status == KITH_OK)
        status = ended;
    while (status != KITH_OK && started-- > 0) { /* none was started, as promised */
        if (requests[started]->state != KI_STATE_DONE)
            ki_request_cancel(requests[started], status);
        ki_request_collect(requests[started]);
        requests[started] = NULL;
    }
    return status;
}
