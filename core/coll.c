/* core/coll.c - collectives: the public functions, and the way from arguments to a request or straight to the backend.
 *
 * A blocking call builds its descriptor on the stack. When the group's queue is empty, the backend has the operation
 * natively and no check or hierarchy is wanted, it is run from there: no allocation, no list. Everything else becomes
 * a request from the pool.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "coll.h"

#include "base/clock.h"
#include "base/error.h"
#include "device/group.h"
#include "dispatch.h"
#include "kept.h"
#include "op.h"
#include "progress.h"
#include "request.h"
#include "trace.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *kith_coll_name(kith_coll_kind kind)
{
    static const char *const names[KITH_COLL_COUNT] = {
#define COLL_NAME(symbol, number, name) [number] = name,
        KITH_COLL_TABLE(COLL_NAME)
#undef COLL_NAME
    };
    return (unsigned)kind < KITH_COLL_COUNT ? names[kind] : "unknown collective";
}

static bool reduces(kith_coll_kind kind)
{
    return kind == KITH_ALL_REDUCE || kind == KITH_REDUCE_SCATTER || kind == KITH_REDUCE_SCATTER_V ||
           kind == KITH_REDUCE;
}

bool ki_coll_has_arrays(kith_coll_kind kind)
{
    return kind == KITH_REDUCE_SCATTER_V || kind == KITH_ALL_GATHER_V || kind == KITH_GATHER_V ||
           kind == KITH_SCATTER_V || kind == KITH_ALL_TO_ALL_V;
}

static bool is_rooted(kith_coll_kind kind)
{
    return kind == KITH_BROADCAST || kind == KITH_REDUCE || kind == KITH_GATHER || kind == KITH_SCATTER ||
           kind == KITH_GATHER_V || kind == KITH_SCATTER_V;
}

/* All but the arrays. Operations without them do not look at their members of args: those were zeroed in pieces of
 * other sizes, and a load across two stores that are still on their way waits for both, which costs more than all else
 * that a blocking call does. */
static inline void fill_plain(const kith_coll_args *args, kith_be_coll *coll)
{
    *coll = (kith_be_coll){
        .kind = args->kind,
        .dtype = args->kind == KITH_BARRIER ? KITH_INT8 : args->dtype,
        .op = args->op >= 0 && args->op < KITH_OP_BUILTIN_COUNT ? args->op : -1,
        .root = is_rooted(args->kind) ? args->root : 0,
        .send = args->kind == KITH_BROADCAST ? args->recv : args->send,
        .recv = args->recv,
        .count = args->kind == KITH_BARRIER ? 0 : args->count,
    };
}

void ki_coll_fill(const kith_coll_args *args, kith_be_coll *coll)
{
    fill_plain(args, coll);
    coll->send_counts = args->send_counts;
    coll->send_displs = args->send_displs;
    coll->recv_counts = args->recv_counts;
    coll->recv_displs = args->recv_displs;
}

void ki_coll_describe(const kith_ctx *ctx, const kith_be_coll *coll, kith_op op, char *text, size_t nbytes)
{
    int used = snprintf(text, nbytes, "%s", kith_coll_name(coll->kind));
    if (coll->kind != KITH_BARRIER)
        used += snprintf(text + used, nbytes - (size_t)used, " %s", kith_dtype_name(coll->dtype));
    if (coll->kind != KITH_BARRIER && !ki_coll_has_arrays(coll->kind))
        used += snprintf(text + used, nbytes - (size_t)used, " x%zu", coll->count);
    if (reduces(coll->kind))
        used += snprintf(text + used, nbytes - (size_t)used, " %s", kith_op_name(ctx, op));
    if (is_rooted(coll->kind))
        used += snprintf(text + used, nbytes - (size_t)used, " root %d", coll->root);
    snprintf(text + used, nbytes - (size_t)used, " seq %llu", (unsigned long long)coll->sequence);
}

void ki_request_describe(const kith_request *request, char *text, size_t nbytes)
{
    if (request->kind == KI_REQUEST_COLL)
        ki_coll_describe(request->group->ctx, &request->coll, request->op_number, text, nbytes);
    else
        ki_message_describe(request->kind, &request->msg, text, nbytes);
}

/* ---- requests ---- */

/* Displacements of blocks one after the other. False on overflow. */
static bool prefix_sums(const size_t *counts, int size, size_t *displs)
{
    size_t sum = 0;
    for (int i = 0; i < size; i++) {
        displs[i] = sum;
        if (!ki_add(sum, counts[i], &sum))
            return false;
    }
    return true;
}

/* Copies one pair of arrays into the request and computes missing displacements. */
static bool keep_pair(kith_request *request, int slot, const size_t **counts, const size_t **displs)
{
    size_t size = (size_t)request->group->size;
    if (*counts == NULL)
        return true;
    size_t *own_counts = request->arrays + (size_t)slot * 2 * size, *own_displs = own_counts + size;
    memcpy(own_counts, *counts, size * sizeof *own_counts);
    if (*displs != NULL)
        memcpy(own_displs, *displs, size * sizeof *own_displs);
    else if (!prefix_sums(own_counts, request->group->size, own_displs))
        return false;
    *counts = own_counts;
    *displs = own_displs;
    return true;
}

static kith_status keep_arrays(kith_request *request)
{
    size_t need = 4 * (size_t)request->group->size;
    if (request->arrays_capacity < need) {
        size_t *arrays = (size_t *)realloc(request->arrays, need * sizeof *arrays);
        if (arrays == NULL)
            return ki_fail(KITH_ERR_NO_MEMORY, "no memory for the counts of %d ranks", request->group->size);
        request->arrays = arrays;
        request->arrays_capacity = need;
    }
    if (!keep_pair(request, 0, &request->coll.send_counts, &request->coll.send_displs) ||
        !keep_pair(request, 1, &request->coll.recv_counts, &request->coll.recv_displs))
        return ki_fail_quiet(KITH_ERR_INVALID_ARG, "%s: the sum of the counts does not fit 64 bits",
                             kith_coll_name(request->coll.kind));
    return KITH_OK;
}

static kith_status fill_request(kith_request *request, const kith_coll_args *args)
{
    kith_group *group = request->group;
    ki_coll_fill(args, &request->coll);
    request->op_number = reduces(args->kind) ? args->op : -1;
    kith_status status = KITH_OK;
    if (ki_coll_has_arrays(args->kind))
        status = keep_arrays(request);
    if (status == KITH_OK)
        status = ki_coll_check(group, &request->coll, args->op);
    if (status == KITH_OK && args->kind == KITH_ALL_GATHER_V)
        request->coll.count = request->coll.recv_counts[group->rank];
    if (status == KITH_OK && args->kind == KITH_REDUCE_SCATTER_V)
        request->coll.count = request->coll.recv_counts[group->rank];
    if (status != KITH_OK || !reduces(args->kind))
        return status;
    ki_reducer_init(&request->reducer, request->coll.dtype, ki_op_get(group->ctx, args->op), &group->order);
    request->coll.reducer = &request->reducer.base;
    request->coll.is_premul_sum = request->reducer.op->builtin == KI_OP_PREMUL_SUM;
    return KITH_OK;
}

kith_status ki_coll_make(kith_group *group, const kith_coll_args *args, bool is_persistent, kith_request **request)
{
    kith_request *made = ki_request_create(group, KI_REQUEST_COLL);
    if (made == NULL)
        return KITH_ERR_NO_MEMORY;
    made->is_persistent = is_persistent;
    kith_status status = fill_request(made, args);
    if (status != KITH_OK && (!group->is_check || is_persistent || group->size == 1)) {
        ki_request_release(made);
        return status;
    }
    if (status != KITH_OK) {
        made->argument_status = status;
        made->detail = strdup(kith_error_detail());
    }
    ki_op_use(group->ctx, made->op_number);
    made->deadline_ns = ki_deadline_after_ms(group->timeout_ms);
    *request = made;
    return KITH_OK;
}

static kith_status check_args(kith_group *group, const kith_coll_args *args, const void *out, const char *function)
{
    KI_CHECK_GROUP(group, function);
    if (args == NULL || args->struct_size != sizeof *args)
        return ki_fail_quiet(KITH_ERR_INVALID_ARG, "%s: args is NULL or struct_size is not that of KITH_COLL_ARGS_INIT",
                             function);
    if ((unsigned)args->kind >= KITH_COLL_COUNT)
        return ki_fail_quiet(KITH_ERR_INVALID_ARG, "%s: %d is no collective (0 to %d)", function, (int)args->kind,
                             KITH_COLL_COUNT - 1);
    if (out == NULL)
        return ki_fail_quiet(KITH_ERR_INVALID_ARG, "%s: the pointer for the request is NULL", function);
    return group->status == KITH_OK && atomic_load_explicit(&group->abort_flag, memory_order_relaxed) == 0
               ? KITH_OK
               : ki_group_refuse(group, kith_coll_name(args->kind));
}

/* The same, for buffers that may be a device's. In check mode the others hear of what is wrong with them. */
static kith_status make_any(kith_group *group, const kith_coll_args *args, bool is_persistent, kith_request **request)
{
    kith_status status = ki_coll_make(group, args, is_persistent, request);
    if (status != KITH_OK || !ki_device_is_asked() || (*request)->argument_status != KITH_OK)
        return status;
    kith_request *made = *request;
    status = ki_device_classify(made);
    if (status == KITH_OK)
        return KITH_OK;
    made->way = KI_WAY_HOST;
    if (!group->is_check || is_persistent || group->size == 1) {
        ki_op_unuse(group->ctx, made->op_number);
        ki_request_release(made);
        return status;
    }
    made->argument_status = status;
    made->detail = strdup(kith_error_detail());
    return KITH_OK;
}

kith_status kith_coll_start(kith_group *group, const kith_coll_args *args, kith_request **request)
{
    kith_status status = check_args(group, args, request, "kith_coll_start");
    kith_request *made = NULL;
    if (status == KITH_OK)
        status = make_any(group, args, false, &made);
    if (status != KITH_OK)
        return status;
    *request = made;
    return ki_coll_post(made);
}

kith_status kith_coll_init(kith_group *group, const kith_coll_args *args, kith_request **request)
{
    kith_status status = check_args(group, args, request, "kith_coll_init");
    kith_request *made = NULL;
    if (status == KITH_OK)
        status = make_any(group, args, true, &made);
    if (status != KITH_OK)
        return status;
    made->next_persistent = group->ctx->persistent;
    if (made->next_persistent != NULL)
        made->next_persistent->previous_persistent = made;
    group->ctx->persistent = made;
    *request = made;
    return KITH_OK;
}

/* ---- blocking ---- */

/* The descriptor can be run from the stack. */
static bool is_direct(const kith_group *group, const kith_be_coll *coll, const ki_op *op)
{
    const ki_native *native = &group->native[coll->kind][ki_op_column(op)];
    uint32_t dtypes = group->is_exact ? native->exact_dtypes : native->dtypes;
    return (dtypes >> coll->dtype & 1) != 0 && !ki_coll_has_arrays(coll->kind);
}

/* The reducer of a checked operation. Trainers repeat one operator on one dtype, so that of the last call is kept;
 * `own` is used for operators that may be destroyed. */
static const ki_reducer *find_reducer(kith_group *group, const kith_be_coll *coll, kith_op op, ki_reducer *own)
{
    if (op == group->recent_op && coll->dtype == group->recent_dtype)
        return &group->recent;
    bool is_kept = op < KITH_OP_BUILTIN_COUNT;
    ki_reducer *reducer = is_kept ? &group->recent : own;
    ki_reducer_init(reducer, coll->dtype, ki_op_get(group->ctx, op), &group->order);
    if (is_kept) {
        group->recent_op = op;
        group->recent_dtype = coll->dtype;
    }
    return reducer;
}

static kith_status run_queued(kith_group *group, const kith_coll_args *args)
{
    if (ki_kept_may(group, args))
        return ki_kept_run(group, args);
    kith_request *request = NULL;
    kith_status status = ki_coll_make(group, args, false, &request);
    if (status != KITH_OK)
        return status;
    ki_coll_post(request);
    return ki_request_wait(request, KITH_TIMEOUT_DEFAULT, NULL);
}

/* A blocking call on device memory: returns when it is done, or ordered in the group's stream. */
static kith_status run_on_device(kith_group *group, const kith_coll_args *args)
{
    kith_request *request = NULL;
    kith_status status = ki_group_refuse(group, kith_coll_name(args->kind));
    if (status == KITH_OK)
        status = make_any(group, args, false, &request);
    if (status != KITH_OK)
        return status;
    ki_coll_post(request);
    return ki_device_finish(request, NULL);
}

static kith_status run(kith_group *group, const kith_coll_args *args)
{
    KI_CHECK_GROUP(group, kith_coll_name(args->kind));
    if (ki_device_is_asked() && args->kind != KITH_BARRIER) {
        bool is_device = false;
        kith_status touched = ki_device_touches(group, args->send, args->recv, &is_device);
        if (touched != KITH_OK && !group->is_check)
            return touched;
        if (touched != KITH_OK || is_device)
            return run_on_device(group, args);
    }
    if (!group->is_fast || group->queue_head != NULL ||
        atomic_load_explicit(&group->abort_flag, memory_order_relaxed) != 0) {
        kith_status refused = ki_group_refuse(group, kith_coll_name(args->kind));
        return refused != KITH_OK ? refused : run_queued(group, args);
    }
    if (ki_coll_has_arrays(args->kind))
        return run_queued(group, args);
    kith_be_coll coll;
    ki_reducer own;
    const ki_reducer *reducer = NULL;
    fill_plain(args, &coll);
    kith_status status = ki_coll_check(group, &coll, args->op);
    if (status != KITH_OK)
        return status;
    if (coll.count == 0 && coll.kind != KITH_BARRIER) { /* as the queue does it (dispatch.c) */
        group->sequence++;
        return KITH_OK;
    }
    if (reduces(args->kind)) {
        reducer = find_reducer(group, &coll, args->op, &own);
        coll.reducer = &reducer->base;
        coll.is_premul_sum = reducer->op->builtin == KI_OP_PREMUL_SUM;
    }
    if (group->size == 1) {
        group->sequence++;
        ki_dispatch_local(&coll, reducer);
        return KITH_OK;
    }
    if (!is_direct(group, &coll, reducer != NULL ? reducer->op : NULL))
        return run_queued(group, args);
    return ki_dispatch_run_native(group, &coll, args->op);
}

/* ---- the public functions: one line of arguments each, in a blocking and a starting form ---- */

#define COLL(name, PARAMETERS, MEMBERS)                                                                                \
    kith_status kith_##name(kith_group *group, PARAMETERS)                                                             \
    {                                                                                                                  \
        const kith_coll_args args = { .struct_size = sizeof args, MEMBERS };                                           \
        return run(group, &args);                                                                                      \
    }                                                                                                                  \
    kith_status kith_##name##_start(kith_group *group, PARAMETERS, kith_request **request)                             \
    {                                                                                                                  \
        const kith_coll_args args = { .struct_size = sizeof args, MEMBERS };                                           \
        return kith_coll_start(group, &args, request);                                                                 \
    }

#define P(...) __VA_ARGS__

COLL(all_reduce, P(const void *send, void *recv, size_t count, kith_dtype dtype, kith_op op),
     P(.kind = KITH_ALL_REDUCE, .send = send, .recv = recv, .count = count, .dtype = dtype, .op = op))
COLL(reduce_scatter, P(const void *send, void *recv, size_t recv_count, kith_dtype dtype, kith_op op),
     P(.kind = KITH_REDUCE_SCATTER, .send = send, .recv = recv, .count = recv_count, .dtype = dtype, .op = op))
COLL(reduce_scatter_v, P(const void *send, void *recv, const size_t *recv_counts, kith_dtype dtype, kith_op op),
     P(.kind = KITH_REDUCE_SCATTER_V, .send = send, .recv = recv, .recv_counts = recv_counts, .dtype = dtype, .op = op))
COLL(all_gather, P(const void *send, void *recv, size_t send_count, kith_dtype dtype),
     P(.kind = KITH_ALL_GATHER, .send = send, .recv = recv, .count = send_count, .dtype = dtype))
COLL(all_gather_v, P(const void *send, void *recv, const size_t *recv_counts, const size_t *displs, kith_dtype dtype),
     P(.kind = KITH_ALL_GATHER_V, .send = send, .recv = recv, .recv_counts = recv_counts, .recv_displs = displs,
       .dtype = dtype))
COLL(broadcast, P(void *buffer, size_t count, kith_dtype dtype, int root),
     P(.kind = KITH_BROADCAST, .recv = buffer, .count = count, .dtype = dtype, .root = root))
COLL(reduce, P(const void *send, void *recv, size_t count, kith_dtype dtype, kith_op op, int root),
     P(.kind = KITH_REDUCE, .send = send, .recv = recv, .count = count, .dtype = dtype, .op = op, .root = root))
COLL(gather, P(const void *send, void *recv, size_t send_count, kith_dtype dtype, int root),
     P(.kind = KITH_GATHER, .send = send, .recv = recv, .count = send_count, .dtype = dtype, .root = root))
COLL(scatter, P(const void *send, void *recv, size_t recv_count, kith_dtype dtype, int root),
     P(.kind = KITH_SCATTER, .send = send, .recv = recv, .count = recv_count, .dtype = dtype, .root = root))
COLL(gather_v,
     P(const void *send, size_t send_count, void *recv, const size_t *recv_counts, const size_t *displs,
       kith_dtype dtype, int root),
     P(.kind = KITH_GATHER_V, .send = send, .count = send_count, .recv = recv, .recv_counts = recv_counts,
       .recv_displs = displs, .dtype = dtype, .root = root))
COLL(scatter_v,
     P(const void *send, const size_t *send_counts, const size_t *displs, void *recv, size_t recv_count,
       kith_dtype dtype, int root),
     P(.kind = KITH_SCATTER_V, .send = send, .send_counts = send_counts, .send_displs = displs, .recv = recv,
       .count = recv_count, .dtype = dtype, .root = root))
COLL(all_to_all, P(const void *send, void *recv, size_t count, kith_dtype dtype),
     P(.kind = KITH_ALL_TO_ALL, .send = send, .recv = recv, .count = count, .dtype = dtype))
COLL(all_to_all_v,
     P(const void *send, const size_t *send_counts, const size_t *send_displs, void *recv, const size_t *recv_counts,
       const size_t *recv_displs, kith_dtype dtype),
     P(.kind = KITH_ALL_TO_ALL_V, .send = send, .send_counts = send_counts, .send_displs = send_displs, .recv = recv,
       .recv_counts = recv_counts, .recv_displs = recv_displs, .dtype = dtype))

kith_status kith_barrier(kith_group *group)
{
    const kith_coll_args args = { .struct_size = sizeof args, .kind = KITH_BARRIER };
    return run(group, &args);
}

kith_status kith_barrier_start(kith_group *group, kith_request **request)
{
    const kith_coll_args args = { .struct_size = sizeof args, .kind = KITH_BARRIER };
    return kith_coll_start(group, &args, request);
}

kith_status kith_all_reduce_scalar(kith_group *group, double *value, kith_op op)
{
    if (value == NULL)
        return ki_fail_quiet(KITH_ERR_INVALID_ARG, "kith_all_reduce_scalar: value is NULL");
    return kith_all_reduce(group, value, value, 1, KITH_F64, op);
}

/* ---- questions ---- */

static kith_status check_question(const kith_group *group, kith_coll_kind kind, kith_dtype dtype, kith_op op)
{
    if ((unsigned)kind >= KITH_COLL_COUNT || kith_dtype_nbytes(dtype) == 0)
        return ki_fail_quiet(KITH_ERR_INVALID_ARG, "kith_coll_query: no such collective (%d) or dtype (%d)", (int)kind,
                             (int)dtype);
    if (!reduces(kind))
        return KITH_OK;
    const ki_op *made = ki_op_get(group->ctx, op);
    if (made == NULL)
        return ki_fail_quiet(KITH_ERR_INVALID_ARG, "kith_coll_query: %d is no operator of this context", (int)op);
    kith_status status = ki_op_check(made, dtype);
    return status == KITH_ERR_INVALID_ARG
               ? ki_fail_quiet(KITH_ERR_UNSUPPORTED, "%s is not defined on %s", made->name, kith_dtype_name(dtype))
               : status;
}

/* What would run, and whether it keeps the documented order. */
static kith_status find_path(const kith_group *group, kith_coll_kind kind, size_t count, kith_dtype dtype, kith_op op,
                             const char **name, bool *is_exact)
{
    ki_reducer reducer;
    const kith_coll_args asked = { .kind = kind, .count = count, .dtype = dtype, .op = op };
    kith_be_coll coll;
    ki_coll_fill(&asked, &coll);
    coll.nbytes = kith_dtype_nbytes(dtype);
    const ki_op *made = reduces(kind) ? ki_op_get(group->ctx, op) : NULL;
    if (made != NULL) {
        ki_reducer_init(&reducer, dtype, made, &group->order);
        coll.reducer = &reducer.base;
    }
    ki_algo_args args = { .rank = group->rank,
                          .size = group->size,
                          .coll = &coll,
                          .order = &group->order,
                          .reducer = made != NULL ? &reducer : NULL,
                          .node_of = group->node_count > 1 ? group->node_of : NULL };
    ki_path path;
    const ki_algo *algo = NULL;
    const ki_native *native = &group->native[kind][ki_op_column(made)];
    kith_status status = ki_dispatch_path(group, &coll, made, &args, &path, &algo);
    if (status != KITH_OK)
        return status;
    *is_exact = path == KI_PATH_NATIVE ? (native->exact_dtypes >> dtype & 1) != 0
                                       : path != KI_PATH_ALGO || ki_algo_is_deterministic(algo, &args);
    *name = path == KI_PATH_LOCAL    ? "local"
            : path == KI_PATH_HIER   ? "hierarchical"
            : path == KI_PATH_NATIVE ? (native->algorithm != NULL ? native->algorithm : group->coll_backend->name)
                                     : algo->name;
    return KITH_OK;
}

kith_status kith_coll_query(kith_group *group, kith_coll_kind kind, kith_dtype dtype, kith_op op)
{
    const char *name;
    bool is_exact;
    KI_CHECK_GROUP(group, "kith_coll_query");
    kith_status status = check_question(group, kind, dtype, op);
    return status == KITH_OK ? find_path(group, kind, 1, dtype, op, &name, &is_exact) : status;
}

kith_status kith_coll_algorithm(kith_group *group, kith_coll_kind kind, size_t count, kith_dtype dtype, kith_op op,
                                const char **name, int *is_deterministic)
{
    bool is_exact;
    KI_CHECK_GROUP(group, "kith_coll_algorithm");
    kith_status status = check_question(group, kind, dtype, op);
    if (status == KITH_OK && name == NULL)
        status = ki_fail_quiet(KITH_ERR_INVALID_ARG, "kith_coll_algorithm: name is NULL");
    if (status == KITH_OK)
        status = find_path(group, kind, count, dtype, op, name, &is_exact);
    if (status == KITH_OK && is_deterministic != NULL)
        *is_deterministic = is_exact;
    return status;
}
