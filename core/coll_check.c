/* core/coll_check.c - arguments of collectives: what is allowed, and a sentence for what is not.
 *
 * Everything here is local; nothing was sent when it fails.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "base/error.h"
#include "coll.h"
#include "op.h"
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* A stretch of memory. */
typedef struct span {
    const unsigned char *start;
    size_t nbytes;
} span;

static bool overlap(span a, span b)
{
    return a.nbytes > 0 && b.nbytes > 0 && (uintptr_t)a.start < (uintptr_t)b.start + b.nbytes &&
           (uintptr_t)b.start < (uintptr_t)a.start + a.nbytes;
}

static kith_status bad(const kith_be_coll *coll, const char *what)
{
    return ki_fail_quiet(KITH_ERR_INVALID_ARG, "%s: %s", kith_coll_name(coll->kind), what);
}

static kith_status too_long(const kith_be_coll *coll)
{
    return bad(coll, "count times size times element size does not fit 64 bits");
}

static bool uses_root(kith_coll_kind kind)
{
    return kind == KITH_BROADCAST || kind == KITH_REDUCE || kind == KITH_GATHER || kind == KITH_SCATTER ||
           kind == KITH_GATHER_V || kind == KITH_SCATTER_V;
}

static bool reduces(kith_coll_kind kind)
{
    return kind == KITH_ALL_REDUCE || kind == KITH_REDUCE_SCATTER || kind == KITH_REDUCE_SCATTER_V ||
           kind == KITH_REDUCE;
}

static kith_status check_op(const kith_group *group, const kith_be_coll *coll, kith_op number)
{
    if (number == group->recent_op && coll->dtype == group->recent_dtype)
        return KITH_OK;
    const ki_op *op = ki_op_get(group->ctx, number);
    if (op == NULL)
        return ki_fail_quiet(KITH_ERR_INVALID_ARG,
                             "%s: %d is no operator of this context (sum, prod, min, max, avg, band, bor, bxor, or one "
                             "that was created)",
                             kith_coll_name(coll->kind), (int)number);
    return ki_op_check(op, coll->dtype);
}

/* Sum of counts in bytes, and of blocks that lie at displacements: the end of the farthest. */
static bool extent(const kith_be_coll *coll, const size_t *counts, const size_t *displs, int size, size_t *nbytes)
{
    size_t farthest = 0;
    for (int i = 0; i < size; i++) {
        size_t end;
        if (!ki_add(displs != NULL ? displs[i] : farthest, counts[i], &end))
            return false;
        if (end > farthest && (counts[i] > 0 || displs == NULL))
            farthest = end;
    }
    return ki_mul(farthest, coll->nbytes, nbytes) && *nbytes <= PTRDIFF_MAX;
}

typedef struct block {
    size_t start, end;
} block;

static int by_start(const void *a, const void *b)
{
    size_t x = ((const block *)a)->start, y = ((const block *)b)->start;
    return (x > y) - (x < y);
}

/* No two blocks share an element. */
static kith_status check_blocks(const kith_be_coll *coll, const size_t *counts, const size_t *displs, int size)
{
    block few[64], *blocks = size <= 64 ? few : (block *)malloc((size_t)size * sizeof *blocks);
    if (blocks == NULL)
        return ki_fail(KITH_ERR_NO_MEMORY, "%s: no memory to check %d blocks", kith_coll_name(coll->kind), size);
    int count = 0;
    for (int i = 0; i < size; i++)
        if (counts[i] > 0)
            blocks[count++] = (block){ displs[i], displs[i] + counts[i] };
    qsort(blocks, (size_t)count, sizeof *blocks, by_start);
    kith_status status = KITH_OK;
    for (int i = 1; i < count && status == KITH_OK; i++)
        if (blocks[i].start < blocks[i - 1].end)
            status = ki_fail_quiet(KITH_ERR_INVALID_ARG, "%s: receive blocks overlap at element %zu",
                                   kith_coll_name(coll->kind), blocks[i].start);
    if (blocks != few)
        free(blocks);
    return status;
}

/* An empty block may have any displacement: it is nowhere. */
static span block_span(const kith_be_coll *coll, const void *base, const size_t *displs, const size_t *counts, int i)
{
    size_t start = counts[i] > 0 ? displs[i] * coll->nbytes : 0;
    return (span){ (const unsigned char *)base + start, counts[i] * coll->nbytes };
}

static size_t sum_before(const size_t *counts, int rank)
{
    size_t sum = 0;
    for (int i = 0; i < rank; i++)
        sum += counts[i];
    return sum;
}

/* send may be own, and nothing else of recv; the same the other way round for scatter-like operations. */
static kith_status check_pair(const kith_be_coll *coll, span small, span whole, const unsigned char *own,
                              bool may_start)
{
    if (small.nbytes > 0 && small.start == NULL)
        return bad(coll, "a buffer is NULL");
    if (whole.nbytes > 0 && whole.start == NULL)
        return bad(coll, "a buffer is NULL");
    if (!overlap(small, whole) || small.start == own || (may_start && small.start == whole.start))
        return KITH_OK;
    return bad(coll, "send and receive buffers overlap in another way than in place (see kith/coll.h)");
}

static kith_status check_equal_blocks(const kith_group *group, const kith_be_coll *coll)
{
    size_t part, whole;
    if (!ki_mul(coll->count, coll->nbytes, &part) || !ki_mul(part, (size_t)group->size, &whole) || whole > PTRDIFF_MAX)
        return too_long(coll);
    const unsigned char *send = (const unsigned char *)coll->send, *recv = (const unsigned char *)coll->recv;
    size_t own = part * (size_t)group->rank;
    bool is_root = group->rank == coll->root;
    switch (coll->kind) {
    case KITH_ALL_REDUCE:
        return check_pair(coll, (span){ send, part }, (span){ recv, part }, recv, false);
    case KITH_REDUCE:
        return check_pair(coll, (span){ send, part }, (span){ recv, is_root ? part : 0 }, recv, false);
    case KITH_REDUCE_SCATTER:
        return check_pair(coll, (span){ recv, part }, (span){ send, whole }, send + own, true);
    case KITH_ALL_GATHER:
        return check_pair(coll, (span){ send, part }, (span){ recv, whole }, recv + own, false);
    case KITH_GATHER:
        return check_pair(coll, (span){ send, part }, (span){ recv, is_root ? whole : 0 }, recv + own, false);
    case KITH_SCATTER:
        return check_pair(coll, (span){ recv, part }, (span){ send, is_root ? whole : 0 }, send + own, false);
    case KITH_ALL_TO_ALL:
        return check_pair(coll, (span){ send, whole }, (span){ recv, whole }, recv, false);
    case KITH_BROADCAST:
        return part > 0 && recv == NULL ? bad(coll, "the buffer is NULL") : KITH_OK;
    default:
        return KITH_OK;
    }
}

/* One buffer against blocks of the other. own: index of the block that it may be, -1: none. */
static kith_status check_against_blocks(const kith_be_coll *coll, span one, const void *base, const size_t *counts,
                                        const size_t *displs, int size, int own)
{
    for (int i = 0; i < size; i++) {
        span other = block_span(coll, base, displs, counts, i);
        if (overlap(one, other) && !(i == own && one.start == other.start))
            return bad(coll, "send and receive buffers overlap in another way than in place (see kith/coll.h)");
    }
    return KITH_OK;
}

static kith_status check_gather_v(const kith_group *group, const kith_be_coll *coll, size_t send_count)
{
    size_t nbytes, part;
    if (coll->recv_counts == NULL)
        return bad(coll, "recv_counts is NULL");
    if (!extent(coll, coll->recv_counts, coll->recv_displs, group->size, &nbytes) ||
        !ki_mul(send_count, coll->nbytes, &part))
        return too_long(coll);
    if (coll->recv_counts[group->rank] != send_count)
        return ki_fail_quiet(KITH_ERR_INVALID_ARG, "%s: this rank sends %zu elements but recv_counts[%d] is %zu",
                             kith_coll_name(coll->kind), send_count, group->rank, coll->recv_counts[group->rank]);
    if ((nbytes > 0 && coll->recv == NULL) || (part > 0 && coll->send == NULL))
        return bad(coll, "a buffer is NULL");
    kith_status status = check_blocks(coll, coll->recv_counts, coll->recv_displs, group->size);
    if (status != KITH_OK)
        return status;
    return check_against_blocks(coll, (span){ (const unsigned char *)coll->send, part }, coll->recv, coll->recv_counts,
                                coll->recv_displs, group->size, group->rank);
}

static kith_status check_scatter_v(const kith_group *group, const kith_be_coll *coll)
{
    size_t nbytes, part;
    if (coll->send_counts == NULL)
        return bad(coll, "send_counts is NULL");
    if (!extent(coll, coll->send_counts, coll->send_displs, group->size, &nbytes) ||
        !ki_mul(coll->count, coll->nbytes, &part))
        return too_long(coll);
    if (coll->send_counts[group->rank] != coll->count)
        return ki_fail_quiet(KITH_ERR_INVALID_ARG, "%s: this rank receives %zu elements but send_counts[%d] is %zu",
                             kith_coll_name(coll->kind), coll->count, group->rank, coll->send_counts[group->rank]);
    if ((nbytes > 0 && coll->send == NULL) || (part > 0 && coll->recv == NULL))
        return bad(coll, "a buffer is NULL");
    return check_against_blocks(coll, (span){ (const unsigned char *)coll->recv, part }, coll->send, coll->send_counts,
                                coll->send_displs, group->size, group->rank);
}

static kith_status check_all_to_all_v(const kith_group *group, const kith_be_coll *coll)
{
    size_t sent, received;
    if (coll->send_counts == NULL || coll->recv_counts == NULL)
        return bad(coll, "send_counts or recv_counts is NULL");
    if (!extent(coll, coll->send_counts, coll->send_displs, group->size, &sent) ||
        !extent(coll, coll->recv_counts, coll->recv_displs, group->size, &received))
        return too_long(coll);
    if ((sent > 0 && coll->send == NULL) || (received > 0 && coll->recv == NULL))
        return bad(coll, "a buffer is NULL");
    if (coll->send_counts[group->rank] != coll->recv_counts[group->rank])
        return ki_fail_quiet(KITH_ERR_INVALID_ARG, "%s: rank %d sends itself %zu elements but expects %zu",
                             kith_coll_name(coll->kind), group->rank, coll->send_counts[group->rank],
                             coll->recv_counts[group->rank]);
    kith_status status = check_blocks(coll, coll->recv_counts, coll->recv_displs, group->size);
    for (int i = 0; status == KITH_OK && i < group->size; i++)
        status = check_against_blocks(coll, block_span(coll, coll->send, coll->send_displs, coll->send_counts, i),
                                      coll->recv, coll->recv_counts, coll->recv_displs, group->size, -1);
    return status;
}

static kith_status check_reduce_scatter_v(const kith_group *group, const kith_be_coll *coll)
{
    size_t nbytes;
    if (coll->recv_counts == NULL)
        return bad(coll, "recv_counts is NULL");
    if (!extent(coll, coll->recv_counts, NULL, group->size, &nbytes))
        return too_long(coll);
    size_t own = sum_before(coll->recv_counts, group->rank) * coll->nbytes;
    const unsigned char *send = (const unsigned char *)coll->send;
    span mine = { (const unsigned char *)coll->recv, coll->recv_counts[group->rank] * coll->nbytes };
    return check_pair(coll, mine, (span){ send, nbytes }, send + own, true);
}

kith_status ki_coll_check(const kith_group *group, kith_be_coll *coll, kith_op op)
{
    coll->nbytes = kith_dtype_nbytes(coll->dtype);
    if (coll->nbytes == 0)
        return ki_fail_quiet(KITH_ERR_INVALID_ARG, "%s: %d is no dtype (0 to %d)", kith_coll_name(coll->kind),
                             (int)coll->dtype, KITH_DTYPE_COUNT - 1);
    if (uses_root(coll->kind) && (coll->root < 0 || coll->root >= group->size))
        return ki_fail_quiet(KITH_ERR_INVALID_ARG, "%s: root %d is outside the group '%s' (0 to %d)",
                             kith_coll_name(coll->kind), coll->root, group->name, group->size - 1);
    if (reduces(coll->kind)) {
        kith_status status = check_op(group, coll, op);
        if (status != KITH_OK)
            return status;
    }
    switch (coll->kind) {
    case KITH_ALL_GATHER_V:
        return check_gather_v(group, coll, coll->recv_counts != NULL ? coll->recv_counts[group->rank] : 0);
    case KITH_GATHER_V:
        return group->rank == coll->root               ? check_gather_v(group, coll, coll->count)
               : coll->count > 0 && coll->send == NULL ? bad(coll, "the send buffer is NULL")
                                                       : KITH_OK;
    case KITH_SCATTER_V:
        return group->rank == coll->root               ? check_scatter_v(group, coll)
               : coll->count > 0 && coll->recv == NULL ? bad(coll, "the receive buffer is NULL")
                                                       : KITH_OK;
    case KITH_ALL_TO_ALL_V:
        return check_all_to_all_v(group, coll);
    case KITH_REDUCE_SCATTER_V:
        return check_reduce_scatter_v(group, coll);
    case KITH_BARRIER:
        return KITH_OK;
    default:
        return check_equal_blocks(group, coll);
    }
}
