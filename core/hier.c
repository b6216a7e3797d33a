/* core/hier.c - see hier.h.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "hier.h"

#include "base/error.h"
#include "coll.h"
#include "request.h"
#include <stdlib.h>
#include <string.h>

#define MAX_PHASES 3

typedef struct phase {
    kith_group *group;
    kith_coll_args args;
} phase;

struct ki_hier {
    phase phases[MAX_PHASES];
    int count, next;
    kith_request *child;
    void *acc;               /* [count] accumulators, when they differ from the user's elements */
    size_t *counts, *displs; /* [nodes] for all_gather_v among leaders */
};

/* ---- what can be done ---- */

static bool is_side_by_side(const kith_group *group)
{
    for (int i = 1; i < group->size; i++)
        if (group->node_of[i] < group->node_of[i - 1])
            return false;
    return true;
}

static bool is_float(kith_dtype dtype)
{
    return dtype == KITH_F16 || dtype == KITH_BF16 || dtype == KITH_F32 || dtype == KITH_F64 || dtype == KITH_F8E4M3 ||
           dtype == KITH_F8E5M2;
}

/* The public type of a partial result; false when there is none (128-bit sums). */
static bool partial_type(const kith_be_coll *coll, const ki_op *op, kith_dtype *dtype)
{
    bool is_signed = coll->dtype == KITH_INT8 || coll->dtype == KITH_INT16 || coll->dtype == KITH_INT32;
    if (is_float(coll->dtype))
        *dtype = coll->dtype == KITH_F64 ? KITH_F64 : KITH_F32;
    else if (op->builtin != KITH_AVG)
        *dtype = coll->dtype;
    else if (coll->dtype != KITH_INT64 && coll->dtype != KITH_UINT64)
        *dtype = is_signed ? KITH_INT64 : KITH_UINT64;
    else
        return false;
    return true;
}

bool ki_hier_can(const kith_group *group, const kith_be_coll *coll, const ki_op *op)
{
    kith_dtype partial;
    if (group->node == NULL)
        return false;
    switch (coll->kind) {
    case KITH_BARRIER:
    case KITH_BROADCAST:
        return true;
    case KITH_ALL_GATHER:
        return is_side_by_side(group);
    case KITH_ALL_REDUCE:
        if (op->builtin == KI_OP_USER) /* its function knows the user's type alone */
            return op->is_commutative && kith_dtype_nbytes(coll->dtype) >= 4;
        return partial_type(coll, op, &partial);
    default:
        return false;
    }
}

/* ---- plans ---- */

static void add(struct ki_hier *hier, kith_group *group, kith_coll_args args)
{
    if (group == NULL || group->size == 1)
        return;
    args.struct_size = sizeof args;
    hier->phases[hier->count++] = (phase){ group, args };
}

static kith_status plan_all_reduce(kith_request *request, struct ki_hier *hier)
{
    kith_group *group = request->group;
    const kith_be_coll *coll = &request->coll;
    const ki_op *op = request->reducer.op;
    kith_coll_args args = { .kind = KITH_REDUCE,
                            .send = coll->send,
                            .recv = coll->recv,
                            .count = coll->count,
                            .dtype = coll->dtype,
                            .op = request->op_number };
    if (op->builtin != KI_OP_USER && !request->reducer.is_identity) {
        partial_type(coll, op, &args.dtype);
        size_t nbytes;
        if (!ki_mul(coll->count, request->reducer.acc_nbytes, &nbytes) || (hier->acc = malloc(nbytes)) == NULL)
            return ki_fail(KITH_ERR_NO_MEMORY, "no memory for %zu accumulators", coll->count);
        request->reducer.load(&request->reducer, coll->send, hier->acc, coll->count);
        args.send = args.recv = hier->acc;
    } else if (group->node->size == 1 && coll->send != coll->recv) {
        memcpy(coll->recv, coll->send, coll->count * coll->nbytes);
    }
    if (op->builtin == KITH_AVG || op->builtin == KI_OP_PREMUL_SUM)
        args.op = KITH_SUM;
    add(hier, group->node, args);
    args.send = args.recv;
    args.kind = KITH_ALL_REDUCE;
    add(hier, group->leaders, args);
    args.kind = KITH_BROADCAST;
    add(hier, group->node, args);
    return KITH_OK;
}

static void plan_broadcast(kith_request *request, struct ki_hier *hier)
{
    kith_group *group = request->group;
    const kith_be_coll *coll = &request->coll;
    int root_node = group->node_of[coll->root];
    kith_coll_args args = { .kind = KITH_BROADCAST, .recv = coll->recv, .count = coll->count, .dtype = coll->dtype };
    kith_coll_args among = args;
    among.root = root_node;
    if (group->node_of[group->rank] == root_node) {
        kith_group_translate_rank(group, coll->root, group->node, &args.root);
        add(hier, group->node, args);
        add(hier, group->leaders, among);
    } else {
        add(hier, group->leaders, among);
        add(hier, group->node, args);
    }
}

static kith_status plan_all_gather(kith_request *request, struct ki_hier *hier)
{
    kith_group *group = request->group;
    const kith_be_coll *coll = &request->coll;
    size_t nodes = (size_t)group->node_count, first = 0, nbytes = coll->count * coll->nbytes;
    hier->counts = (size_t *)calloc(nodes, sizeof *hier->counts);
    hier->displs = (size_t *)calloc(nodes, sizeof *hier->displs);
    if (hier->counts == NULL || hier->displs == NULL)
        return ki_fail(KITH_ERR_NO_MEMORY, "no memory for %zu hosts", nodes);
    for (int i = 0; i < group->size; i++)
        hier->counts[group->node_of[i]] += coll->count;
    for (size_t n = 1; n < nodes; n++)
        hier->displs[n] = hier->displs[n - 1] + hier->counts[n - 1];
    while (group->node_of[first] != group->node_of[group->rank])
        first++;
    unsigned char *own = (unsigned char *)coll->recv + first * nbytes;
    kith_coll_args args = {
        .kind = KITH_ALL_GATHER, .send = coll->send, .recv = own, .count = coll->count, .dtype = coll->dtype
    };
    if (group->node->size == 1 && coll->send != own)
        memmove(own, coll->send, nbytes);
    add(hier, group->node, args);
    kith_coll_args among = { .kind = KITH_ALL_GATHER_V,
                             .send = own,
                             .recv = coll->recv,
                             .dtype = coll->dtype,
                             .recv_counts = hier->counts,
                             .recv_displs = hier->displs };
    add(hier, group->leaders, among);
    kith_coll_args whole = {
        .kind = KITH_BROADCAST, .recv = coll->recv, .count = coll->count * (size_t)group->size, .dtype = coll->dtype
    };
    add(hier, group->node, whole);
    return KITH_OK;
}

static void plan_barrier(kith_request *request, struct ki_hier *hier)
{
    kith_coll_args args = { .kind = KITH_BARRIER };
    add(hier, request->group->node, args);
    add(hier, request->group->leaders, args);
    add(hier, request->group->node, args);
}

static kith_status make_plan(kith_request *request, struct ki_hier *hier)
{
    switch (request->coll.kind) {
    case KITH_ALL_REDUCE:
        return plan_all_reduce(request, hier);
    case KITH_ALL_GATHER:
        return plan_all_gather(request, hier);
    case KITH_BROADCAST:
        plan_broadcast(request, hier);
        return KITH_OK;
    default:
        plan_barrier(request, hier);
        return KITH_OK;
    }
}

/* ---- running ---- */

kith_status ki_hier_start(kith_request *request)
{
    struct ki_hier *hier = (struct ki_hier *)calloc(1, sizeof *hier);
    if (hier == NULL)
        return ki_fail(KITH_ERR_NO_MEMORY, "no memory for a hierarchical plan");
    request->hier = hier;
    return make_plan(request, hier);
}

kith_status ki_hier_step(kith_request *request, bool *is_done)
{
    struct ki_hier *hier = request->hier;
    for (;;) {
        if (hier->child != NULL) {
            if (hier->child->state != KI_STATE_DONE)
                return KITH_OK;
            kith_request *child = hier->child;
            hier->child = NULL;
            kith_status status = ki_request_collect(child);
            if (status != KITH_OK)
                return status;
        }
        if (hier->next == hier->count)
            break;
        phase *now = &hier->phases[hier->next++];
        kith_status status = ki_coll_make(now->group, &now->args, false, &hier->child);
        if (status == KITH_OK)
            status = ki_coll_post(hier->child);
        if (status != KITH_OK)
            return status;
    }
    if (hier->acc != NULL)
        request->reducer.store(&request->reducer, hier->acc, request->coll.recv, request->coll.count);
    *is_done = true;
    return KITH_OK;
}

void ki_hier_cancel(kith_request *request)
{
    struct ki_hier *hier = request->hier;
    if (hier == NULL || hier->child == NULL)
        return;
    kith_request *child = hier->child;
    hier->child = NULL;
    if (child->state != KI_STATE_DONE)
        ki_request_cancel(child, KITH_ERR_ABORTED);
    ki_request_collect(child);
}

void ki_hier_release(kith_request *request)
{
    struct ki_hier *hier = request->hier;
    if (hier == NULL)
        return;
    free(hier->acc);
    free(hier->counts);
    free(hier->displs);
    free(hier);
    request->hier = NULL;
}
