/* core/device/sides.c - see sides.h.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "sides.h"

static size_t sum(const size_t *counts, int size)
{
    size_t all = 0;
    for (int i = 0; i < size; i++)
        all += counts[i];
    return all;
}

ki_side ki_side_send(const kith_request *request)
{
    const kith_be_coll *coll = &request->coll;
    size_t size = (size_t)request->group->size;
    bool is_root = request->group->rank == coll->root;
    ki_side s = { (unsigned char *)(uintptr_t)coll->send, coll->count, NULL, NULL };
    switch (coll->kind) {
    case KITH_REDUCE_SCATTER:
    case KITH_ALL_TO_ALL:
        s.count = coll->count * size;
        break;
    case KITH_REDUCE_SCATTER_V:
        s.count = sum(coll->recv_counts, request->group->size);
        break;
    case KITH_SCATTER:
        s.count = is_root ? coll->count * size : 0;
        break;
    case KITH_BROADCAST:
        s.count = is_root ? coll->count : 0;
        break;
    case KITH_SCATTER_V:
    case KITH_ALL_TO_ALL_V:
        if (coll->kind == KITH_SCATTER_V && !is_root) {
            s.count = 0;
            break;
        }
        s.counts = coll->send_counts;
        s.displs = coll->send_displs;
        s.count = sum(coll->send_counts, request->group->size);
        break;
    case KITH_BARRIER:
        s.count = 0;
        break;
    default: /* all_reduce, reduce, all_gather, gather, and their _v: what this rank gives */
        break;
    }
    return s;
}

ki_side ki_side_recv(const kith_request *request)
{
    const kith_be_coll *coll = &request->coll;
    size_t size = (size_t)request->group->size;
    bool is_root = request->group->rank == coll->root;
    ki_side s = { (unsigned char *)coll->recv, coll->count, NULL, NULL };
    switch (coll->kind) {
    case KITH_ALL_GATHER:
    case KITH_ALL_TO_ALL:
        s.count = coll->count * size;
        break;
    case KITH_GATHER:
        s.count = is_root ? coll->count * size : 0;
        break;
    case KITH_REDUCE:
        s.count = is_root ? coll->count : 0;
        break;
    case KITH_BROADCAST:
        s.count = is_root ? 0 : coll->count;
        break;
    case KITH_GATHER_V:
    case KITH_ALL_GATHER_V:
    case KITH_ALL_TO_ALL_V:
        if (coll->kind == KITH_GATHER_V && !is_root) {
            s.count = 0;
            break;
        }
        s.counts = coll->recv_counts;
        s.displs = coll->recv_displs;
        s.count = sum(coll->recv_counts, request->group->size);
        break;
    case KITH_BARRIER:
        s.count = 0;
        break;
    default: /* all_reduce, reduce_scatter, scatter, and their _v: what this rank gets */
        break;
    }
    return s;
}
