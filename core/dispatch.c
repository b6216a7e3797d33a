/* core/dispatch.c - see dispatch.h.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "dispatch.h"

#include "base/error.h"
#include "check.h"
#include "device/arithmetic.h"
#include "device/staged.h"
#include "hier.h"
#include "op.h"
#include "progress.h"
#include "request.h"
#include "trace.h"
#include <stdlib.h>
#include <string.h>

/* Tags of messages: the two top bits tell who they belong to. */
#define TAG_COLL (UINT64_C(1) << 62)

int ki_op_column(const ki_op *op)
{
    if (op == NULL)
        return 0;
    if (op->builtin < KITH_OP_BUILTIN_COUNT)
        return op->builtin;
    if (op->builtin == KI_OP_PREMUL_SUM)
        return KITH_OP_BUILTIN_COUNT + 2;
    return op->is_commutative ? KITH_OP_BUILTIN_COUNT : KITH_OP_BUILTIN_COUNT + 1;
}

bool ki_dispatch_is_native(const kith_group *group, const kith_be_coll *coll, const ki_op *op, bool is_device)
{
    const ki_native(*table)[KI_QUERY_OPS] = is_device ? group->device->native : group->native;
    const ki_native *native = &table[coll->kind][ki_op_column(op)];
    uint32_t dtypes = group->is_exact ? native->exact_dtypes : native->dtypes;
    return (dtypes >> coll->dtype & 1) != 0;
}

/* Nothing to move, on any rank: everyone is done at once, whether the operation is queued or not. Where counts come in
 * arrays, one rank's zero says nothing about the others. */
bool ki_coll_is_empty(const kith_be_coll *coll)
{
    switch (coll->kind) {
    case KITH_ALL_REDUCE:
    case KITH_REDUCE_SCATTER:
    case KITH_ALL_GATHER:
    case KITH_BROADCAST:
    case KITH_REDUCE:
    case KITH_GATHER:
    case KITH_SCATTER:
    case KITH_ALL_TO_ALL:
        return coll->count == 0;
    default:
        return false;
    }
}

kith_status ki_dispatch_path(const kith_group *group, const kith_be_coll *coll, const ki_op *op,
                             const ki_algo_args *args, ki_path *path, const ki_algo **algo)
{
    bool is_forced = ki_select_forced(group->ctx->select, coll->kind) != NULL;
    *algo = NULL;
    if (group->size == 1 || ki_coll_is_empty(coll))
        *path = KI_PATH_LOCAL;
    else if (!is_forced && !coll->is_device && ki_hier_can(group, coll, op))
        *path = KI_PATH_HIER;
    else if (!is_forced && ki_dispatch_is_native(group, coll, op, coll->is_device))
        *path = KI_PATH_NATIVE;
    else {
        *path = KI_PATH_ALGO;
        return ki_select_find(group->ctx->select, args, algo);
    }
    return KITH_OK;
}

/* ---- local ---- */

static void move(void *to, const void *from, size_t nbytes)
{
    if (nbytes > 0 && to != from)
        memmove(to, from, nbytes);
}

void ki_dispatch_local(const kith_be_coll *coll, const ki_reducer *reducer)
{
    unsigned char *recv = (unsigned char *)coll->recv;
    const unsigned char *send = (const unsigned char *)coll->send;
    size_t count = coll->count;
    switch (coll->kind) {
    case KITH_REDUCE_SCATTER_V:
        count = coll->recv_counts[0];
        /* fall through */
    case KITH_ALL_REDUCE:
    case KITH_REDUCE_SCATTER:
    case KITH_REDUCE:
        if (count > 0)
            reducer->base.reduce(&reducer->base, &coll->send, 1, &coll->recv, 1, count, 0);
        break;
    case KITH_ALL_GATHER:
    case KITH_GATHER:
    case KITH_SCATTER:
    case KITH_ALL_TO_ALL:
        move(recv, send, count * coll->nbytes);
        break;
    case KITH_ALL_GATHER_V:
    case KITH_GATHER_V:
        move(recv + coll->recv_displs[0] * coll->nbytes, send, coll->recv_counts[0] * coll->nbytes);
        break;
    case KITH_SCATTER_V:
        move(recv, send + coll->send_displs[0] * coll->nbytes, coll->send_counts[0] * coll->nbytes);
        break;
    case KITH_ALL_TO_ALL_V:
        move(recv + coll->recv_displs[0] * coll->nbytes, send + coll->send_displs[0] * coll->nbytes,
             coll->send_counts[0] * coll->nbytes);
        break;
    case KITH_BROADCAST:
    case KITH_BARRIER:
        break;
    }
}

/* ---- requests ---- */

void ki_dispatch_fill(kith_request *request)
{
    kith_group *group = request->group;
    request->args = (ki_algo_args){
        .rank = group->rank,
        .size = group->size,
        .coll = &request->coll,
        .reducer = request->coll.reducer != NULL ? &request->reducer : NULL,
        .order = &group->order,
        .node_of = group->node_count > 1 ? group->node_of : NULL,
        .segment_nbytes = ki_config_nbytes(group->ctx->config, "segment_nbytes"),
        .radix = (int)ki_config_int(group->ctx->config, "radix"),
    };
}

static ki_transport transport_of(const kith_request *request)
{
    return (ki_transport){ .backend = request->group->backend,
                           .group = request->group->bg,
                           .tag = TAG_COLL | request->coll.sequence };
}

kith_status ki_dispatch_begin(kith_request *request)
{
    if (request->is_planned && !request->group->is_check) {
        ki_transport transport = transport_of(request);
        request->state = KI_STATE_RUNNING;
        return ki_executor_restart(&request->executor, &transport);
    }
    ki_dispatch_fill(request);
    request->path = KI_PATH_LOCAL;
    if (request->group->is_check && request->group->size > 1) {
        request->state = KI_STATE_CHECKING;
        return ki_check_start(request);
    }
    return ki_dispatch_start(request);
}

kith_status ki_dispatch_start_part(kith_request *part)
{
    ki_dispatch_fill(part);
    return ki_dispatch_start(part);
}

kith_status ki_dispatch_check(kith_request *request, bool *is_done)
{
    return ki_check_step(request, is_done);
}

static kith_status start_algo(kith_request *request)
{
    ki_transport transport = transport_of(request);
    if (request->coll.is_device) {
        transport.site = request->coll.reducer != NULL ? &ki_device_reduces : &ki_device_moves;
        transport.site_arg = request;
    }
    kith_status status = ki_executor_start(&request->executor, request->algo, &request->args, &transport);
    request->is_planned = status == KITH_OK && request->is_persistent && transport.site == NULL;
    return status;
}

kith_status ki_dispatch_start(kith_request *request)
{
    kith_group *group = request->group;
    const ki_op *op = request->coll.reducer != NULL ? request->reducer.op : NULL;
    kith_status status = KITH_OK;
    if (request->way == KI_WAY_STAGED)
        request->path = KI_PATH_STAGED;
    else
        status = ki_dispatch_path(group, &request->coll, op, &request->args, &request->path, &request->algo);
    if (status != KITH_OK)
        return status;
    request->state = KI_STATE_RUNNING;
    switch (request->path) {
    case KI_PATH_LOCAL:
        ki_dispatch_local(&request->coll, &request->reducer);
        return KITH_OK;
    case KI_PATH_NATIVE:
        memset(&request->slot, 0, sizeof request->slot);
        return group->coll_backend->coll_start(group->coll_bg, &request->coll, &request->slot);
    case KI_PATH_ALGO:
        return start_algo(request);
    case KI_PATH_HIER:
        return ki_hier_start(request);
    case KI_PATH_STAGED:
        return ki_staged_start(request);
    }
    return ki_fail(KITH_ERR_INTERNAL, "unknown path %d", (int)request->path);
}

kith_status ki_dispatch_step(kith_request *request, bool *is_done)
{
    kith_group *group = request->group;
    int done = 0;
    kith_status status = KITH_OK;
    switch (request->path) {
    case KI_PATH_LOCAL:
        *is_done = true;
        return KITH_OK;
    case KI_PATH_NATIVE:
        status = group->coll_backend->coll_test(group->coll_bg, &request->slot, &done);
        *is_done = done != 0;
        return status;
    case KI_PATH_ALGO:
        return ki_executor_step(&request->executor, is_done);
    case KI_PATH_HIER:
        return ki_hier_step(request, is_done);
    case KI_PATH_STAGED:
        return ki_staged_step(request, is_done);
    }
    return KITH_OK;
}

void ki_dispatch_cancel(kith_request *request)
{
    kith_group *group = request->group;
    if (request->state == KI_STATE_CHECKING)
        ki_check_cancel(request);
    if (request->state != KI_STATE_RUNNING)
        return;
    if (request->path == KI_PATH_NATIVE)
        group->coll_backend->coll_cancel(group->coll_bg, &request->slot);
    else if (request->path == KI_PATH_ALGO) {
        request->is_planned = false;
        ki_executor_cancel(&request->executor);
    } else if (request->path == KI_PATH_HIER)
        ki_hier_cancel(request);
    else if (request->path == KI_PATH_STAGED)
        ki_staged_cancel(request);
}

void ki_dispatch_finish(kith_request *request)
{
    ki_check_release(request);
    ki_hier_release(request);
    if (request->way == KI_WAY_STAGED)
        ki_staged_finish(request);
    if (!request->is_persistent)
        ki_op_unuse(request->group->ctx, request->op_number);
}

void ki_dispatch_release(kith_request *request)
{
    if (request->is_persistent && ki_group_is_valid(request->group))
        ki_op_unuse(request->group->ctx, request->op_number);
}

unsigned char *ki_dispatch_missing(kith_request *request)
{
    kith_group *group = request->group;
    bool is_staged = request->state == KI_STATE_RUNNING && request->way == KI_WAY_STAGED;
    if (is_staged && ki_staged_inner(request) != NULL)
        return ki_dispatch_missing(ki_staged_inner(request));
    unsigned char *mask = (unsigned char *)calloc((size_t)group->size, 1);
    if (mask == NULL)
        return NULL;
    /* Only a backend that sees everybody's arrival knows; what a plan waits for may itself be waiting. */
    if (request->state == KI_STATE_RUNNING && request->path == KI_PATH_NATIVE &&
        group->coll_backend->coll_missing != NULL) {
        group->coll_backend->coll_missing(group->coll_bg, &request->slot, mask);
        return mask;
    }
    free(mask);
    return NULL;
}

/* ---- blocking native collectives ---- */

static kith_status fail_native(kith_group *group, const kith_be_coll *coll, kith_op op, kith_status status)
{
    char text[160];
    ki_coll_describe(group->ctx, coll, op, text, sizeof text);
    ki_fail_context(status, "%s on group '%s'", text, group->name);
    if (status != KITH_ERR_UNSUPPORTED)
        ki_group_fail(group, status, "an earlier operation failed: %s", kith_error_detail());
    return status;
}

static kith_status time_out_native(kith_group *group, const kith_be_coll *coll, kith_op op, kith_be_slot *slot)
{
    char text[160];
    unsigned char *mask = NULL;
    ki_coll_describe(group->ctx, coll, op, text, sizeof text);
    if (group->coll_backend->coll_missing != NULL && (mask = (unsigned char *)calloc((size_t)group->size, 1)) != NULL)
        group->coll_backend->coll_missing(group->coll_bg, slot, mask);
    kith_status status = ki_report_timeout(group, text, mask, group->timeout_ms, true);
    free(mask);
    group->coll_backend->coll_cancel(group->coll_bg, slot);
    ki_group_fail(group, status, "%s", kith_error_detail());
    ki_trace_dump_on_timeout(group->ctx);
    return status;
}

/* The first polls are done by the caller; here everything else of the context advances too. */
static kith_status wait_native(kith_group *group, const kith_be_coll *coll, kith_op op, kith_be_slot *slot)
{
    kith_ctx *ctx = group->ctx;
    ki_waiter waiter;
    ki_waiter_init(&waiter, ctx, group->timeout_ms);
    waiter.polls = ctx->spin;
    for (;;) {
        int is_done = 0;
        kith_status status = group->coll_backend->coll_test(group->coll_bg, slot, &is_done);
        if (status != KITH_OK) {
            group->coll_backend->coll_cancel(group->coll_bg, slot);
            return fail_native(group, coll, op, status);
        }
        if (is_done)
            return KITH_OK;
        if (ctx->active_requests > 0 || !group->coll_backend->is_test_enough || ctx->instance_count > 1)
            ki_ctx_step(ctx);
        if (ki_group_refuse(group, kith_coll_name(coll->kind)) != KITH_OK) {
            group->coll_backend->coll_cancel(group->coll_bg, slot);
            return group->status;
        }
        if (ki_waiter_pause(&waiter) != KITH_OK)
            return time_out_native(group, coll, op, slot);
    }
}

/* Inside coll_run nothing else goes on. Other backends of the context may have to: what MPI has taken from a finished
 * operation leaves only while MPI is called, and a peer that waits for it never comes here. A backend that needs more
 * than its tests is left alone: ranks that have different backends would call what does not match
 * (mpi_native=blocking). */
static bool may_run(const kith_group *group)
{
    const kith_ctx *ctx = group->ctx;
    return group->coll_backend->coll_run != NULL && group->timeout_ms == 0 && ctx->active_requests == 0 &&
           (ctx->instance_count == 1 || !group->coll_backend->is_test_enough);
}

kith_status ki_dispatch_run_native(kith_group *group, kith_be_coll *coll, kith_op op)
{
    kith_ctx *ctx = group->ctx;
    const kith_backend *backend = group->coll_backend;
    coll->sequence = group->sequence++;
    uint32_t record = ki_trace_begin(group, (int)coll->kind, coll->count, coll->dtype, coll->reducer != NULL ? op : -1,
                                     coll->root, coll->sequence);
    kith_status status = KITH_OK;
    if (may_run(group)) {
        status = backend->coll_run(group->coll_bg, coll);
        if (status != KITH_ERR_UNSUPPORTED) {
            if (status != KITH_OK)
                fail_native(group, coll, op, status);
            ki_trace_end(group, record, status);
            return status;
        }
    }
    kith_be_slot slot;
    memset(&slot, 0, sizeof slot);
    status = backend->coll_start(group->coll_bg, coll, &slot);
    if (status != KITH_OK) {
        fail_native(group, coll, op, status);
        ki_trace_end(group, record, status);
        return status;
    }
    int is_done = 0;
    for (int i = 0, spin = ctx->spin; i <= spin; i++) {
        status = backend->coll_test(group->coll_bg, &slot, &is_done);
        if (is_done || status != KITH_OK)
            break;
        if (!backend->is_test_enough && backend->progress != NULL)
            backend->progress(group->coll_instance->be);
    }
    if (status != KITH_OK) {
        backend->coll_cancel(group->coll_bg, &slot);
        fail_native(group, coll, op, status);
    } else if (!is_done) {
        status = wait_native(group, coll, op, &slot);
    }
    ki_trace_end(group, record, status);
    return status;
}
