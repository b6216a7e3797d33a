/* core/algo/list.c - finding algorithms, asking what they can do, and the one door through which plans are made.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "algo.h"
#include "list.h"
#include "../base/error.h"
#include "../base/mem.h"
#include <string.h>

static const ki_algo *const all[] = {
#define KI_ALGO_ADDRESS(kind, symbol) &symbol,
    KI_ALGO_TABLE(KI_ALGO_ADDRESS)
#undef KI_ALGO_ADDRESS
};

enum { ALL_COUNT = sizeof all / sizeof *all };

/* The table is sorted by collective. */
const ki_algo *const *ki_algo_list(kith_coll_kind kind, size_t *count)
{
    size_t first = 0;
    while (first < ALL_COUNT && all[first]->kind != kind)
        first++;
    size_t last = first;
    while (last < ALL_COUNT && all[last]->kind == kind)
        last++;
    *count = last - first;
    return all + first;
}

const ki_algo *ki_algo_find(kith_coll_kind kind, const char *name)
{
    for (size_t i = 0; i < ALL_COUNT; i++)
        if (all[i]->kind == kind && strcmp(all[i]->name, name) == 0)
            return all[i];
    return NULL;
}

bool ki_algo_is_possible(const ki_algo *algo, const ki_algo_args *args)
{
    if (algo->needs_commutative && args->reducer && !args->reducer->base.is_commutative)
        return false;
    return !algo->is_possible || algo->is_possible(args);
}

/* Integers: every built-in operator is exact (sums wrap, averages divide the exact sum once), so any order gives the
 * same bits. */
static bool is_exact(const kith_be_coll *coll)
{
    return coll->op >= 0 && coll->dtype <= KITH_UINT64;
}

bool ki_algo_is_deterministic(const ki_algo *algo, const ki_algo_args *args)
{
    if (!args->reducer || args->size <= 2 || is_exact(args->coll))
        return algo->is_deterministic || !args->reducer || is_exact(args->coll);
    return algo->is_deterministic && (!algo->needs_flat_order || ki_order_is_flat(args->order));
}

bool ki_order_is_flat(const ki_order *order)
{
    int q = 1, i = 0;
    while (q <= order->size / 2)
        q *= 2;
    int e = order->size - q;
    for (int place = 0; place < q; place++) {
        int rank = place < e ? 2 * place : place + e;
        if (i >= order->length || order->program[i++] != rank)
            return false;
        if (place < e && (i + 2 > order->length || order->program[i++] != rank + 1 || order->program[i++] >= 0))
            return false;
        for (int done = place + 1; done % 2 == 0; done /= 2) /* subtrees that end with this place */
            if (i >= order->length || order->program[i++] >= 0)
                return false;
    }
    return i == order->length;
}

/* ---- sizes ---- */

/* The end of the furthest block. SIZE_MAX when it overflows. */
static size_t extent_v(const size_t *counts, const size_t *displs, int size)
{
    size_t extent = 0, end;
    for (int r = 0; r < size; r++) {
        if (!ki_add(displs ? displs[r] : extent, counts[r], &end))
            return SIZE_MAX;
        if (counts[r] > 0 && end > extent)
            extent = end;
    }
    return extent;
}

static size_t times(size_t a, size_t b)
{
    size_t product;
    return ki_mul(a, b, &product) ? product : SIZE_MAX;
}

void ki_coll_extents(const ki_algo_args *args, size_t *send_count, size_t *recv_count)
{
    const kith_be_coll *coll = args->coll;
    size_t count = coll->count, all_count = times(count, (size_t)args->size);
    bool is_root = args->rank == coll->root;
    size_t send = count, recv = count;
    switch (coll->kind) {
    case KITH_ALL_REDUCE:
    case KITH_BROADCAST:
        break;
    case KITH_REDUCE_SCATTER:
        send = all_count;
        break;
    case KITH_REDUCE_SCATTER_V:
        send = extent_v(coll->recv_counts, NULL, args->size);
        recv = coll->recv_counts[args->rank];
        break;
    case KITH_ALL_GATHER:
        recv = all_count;
        break;
    case KITH_ALL_GATHER_V:
        send = coll->recv_counts[args->rank];
        recv = extent_v(coll->recv_counts, coll->recv_displs, args->size);
        break;
    case KITH_REDUCE:
        recv = is_root ? count : 0;
        break;
    case KITH_GATHER:
        recv = is_root ? all_count : 0;
        break;
    case KITH_GATHER_V:
        recv = is_root ? extent_v(coll->recv_counts, coll->recv_displs, args->size) : 0;
        break;
    case KITH_SCATTER:
        send = is_root ? all_count : 0;
        break;
    case KITH_SCATTER_V:
        send = is_root ? extent_v(coll->send_counts, coll->send_displs, args->size) : 0;
        break;
    case KITH_ALL_TO_ALL:
        send = recv = all_count;
        break;
    case KITH_ALL_TO_ALL_V:
        send = extent_v(coll->send_counts, coll->send_displs, args->size);
        recv = extent_v(coll->recv_counts, coll->recv_displs, args->size);
        break;
    case KITH_BARRIER:
        send = recv = 0;
        break;
    }
    *send_count = send;
    *recv_count = recv;
}

/* With this, no offset that an algorithm computes can overflow: they stay below 16 times all the data in
 * accumulators. Scratch is added up with checks besides. */
static kith_status check_sizes(const ki_algo_args *args)
{
    const kith_be_coll *coll = args->coll;
    size_t send, recv, total, nbytes = coll->nbytes;
    ki_coll_extents(args, &send, &recv);
    if (args->reducer && args->reducer->acc_nbytes > nbytes)
        nbytes = args->reducer->acc_nbytes;
    total = times(send > recv ? send : recv, nbytes);
    if (coll->kind == KITH_ALL_REDUCE || coll->kind == KITH_REDUCE || coll->kind == KITH_BROADCAST)
        total = times(total, (size_t)args->size);
    if (total <= SIZE_MAX / 16)
        return KITH_OK;
    return ki_fail(KITH_ERR_INVALID_ARG,
                   "%s: counts of %zu and %zu elements on %d ranks are more bytes than can be addressed",
                   kith_coll_name(coll->kind), send, recv, args->size);
}

kith_status ki_algo_emit(const ki_algo *algo, const ki_algo_args *args, ki_plan *plan)
{
    ki_plan_reset(plan);
    kith_status status = check_sizes(args);
    if (status != KITH_OK)
        return plan->status = status;
    algo->emit(args, plan);
    ki_plan_wait_all(plan);
    return plan->status;
}
