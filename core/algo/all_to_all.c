/* core/algo/all_to_all.c - all_to_all and all_to_all_v.
 *
 * linear: in round k a rank sends to rank + k and receives from rank - k, many rounds in flight. pairwise: the same,
 * one round after the other. bruck: ceil(log2 p) rounds of packed blocks, each block travelling along the bits of its
 * distance; for small blocks.
 *
 * In place, what is sent moves to scratch first, because the block that arrives stands where another one leaves.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "list.h"
#include "parts.h"

enum { WINDOW = 32 };

static ki_blocks sent_blocks(const ki_algo_args *args)
{
    const kith_be_coll *coll = args->coll;
    if (coll->kind == KITH_ALL_TO_ALL_V)
        return ki_blocks_v(KI_BUF_SEND, coll->send_counts, coll->send_displs, coll->nbytes);
    return ki_blocks_equal(KI_BUF_SEND, coll->count, coll->nbytes);
}

static ki_blocks received_blocks(const ki_algo_args *args)
{
    const kith_be_coll *coll = args->coll;
    if (coll->kind == KITH_ALL_TO_ALL_V)
        return ki_blocks_v(KI_BUF_RECV, coll->recv_counts, coll->recv_displs, coll->nbytes);
    return ki_blocks_equal(KI_BUF_RECV, coll->count, coll->nbytes);
}

static void emit_rounds(const ki_algo_args *args, ki_plan *plan, int every)
{
    const kith_be_coll *coll = args->coll;
    int rank = args->rank, size = args->size;
    ki_blocks sent = sent_blocks(args), received = received_blocks(args);
    size_t moved = 0;
    if (coll->kind == KITH_ALL_TO_ALL && coll->send == coll->recv) {
        ki_ref copy = ki_plan_temp(plan, coll->count * coll->nbytes, (size_t)size);
        ki_plan_copy(plan, copy, ki_at(KI_BUF_SEND, 0), coll->count * coll->nbytes * (size_t)size);
        sent.buf = KI_BUF_TEMP;
        moved = copy.offset;
    } else {
        ki_plan_copy(plan, ki_block_at(&received, rank), ki_block_at(&sent, rank), ki_block_nbytes(&received, rank));
    }
    ki_window window = ki_window_of(plan, every);
    for (int k = 1; k < size; k++) {
        int to = ki_wrap(rank + k, size), from = ki_wrap(rank - k, size);
        ki_plan_recv(plan, from, ki_block_at(&received, from), ki_block_nbytes(&received, from));
        ki_plan_send(plan, to, ki_plus(ki_block_at(&sent, to), moved, 1), ki_block_nbytes(&sent, to));
        ki_window_next(&window);
    }
}

static void emit_linear(const ki_algo_args *args, ki_plan *plan)
{
    emit_rounds(args, plan, WINDOW);
}

static void emit_pairwise(const ki_algo_args *args, ki_plan *plan)
{
    emit_rounds(args, plan, 1);
}

/* Moves the blocks whose distance has this bit between their places and a packed span. */
static size_t pack(ki_plan *plan, ki_ref places, ki_ref packed, int size, int bit, size_t block, bool is_unpack)
{
    size_t count = 0;
    for (int i = bit; i < size; i++) {
        if (!(i & bit))
            continue;
        ki_ref place = ki_plus(places, (size_t)i, block), slot = ki_plus(packed, count++, block);
        ki_plan_copy(plan, is_unpack ? place : slot, is_unpack ? slot : place, block);
    }
    return count;
}

/* places[i]: the block that still has to travel the distances of the bits of i; at the end, what came from rank - i. */
static void emit_bruck(const ki_algo_args *args, ki_plan *plan)
{
    int rank = args->rank, size = args->size;
    size_t block = args->coll->count * args->coll->nbytes;
    ki_ref places = ki_plan_temp(plan, (size_t)size, block);
    ki_ref out = ki_plan_temp(plan, (size_t)(size / 2 + 1), block),
           in = ki_plan_temp(plan, (size_t)(size / 2 + 1), block);
    for (int i = 0; i < size; i++)
        ki_plan_copy(plan, ki_plus(places, (size_t)i, block),
                     ki_at(KI_BUF_SEND, (size_t)ki_wrap(rank + i, size) * block), block);
    for (int bit = 1; bit < size; bit *= 2) {
        size_t count = pack(plan, places, out, size, bit, block, false), start = ki_plan_mark(plan);
        ki_plan_recv(plan, ki_wrap(rank - bit, size), in, count * block);
        ki_plan_send(plan, ki_wrap(rank + bit, size), out, count * block);
        ki_plan_wait(plan, start, ki_plan_mark(plan));
        pack(plan, places, in, size, bit, block, true);
    }
    for (int i = 0; i < size; i++)
        ki_plan_copy(plan, ki_at(KI_BUF_RECV, (size_t)ki_wrap(rank - i, size) * block),
                     ki_plus(places, (size_t)i, block), block);
}

const ki_algo ki_all_to_all_linear = {
    .name = "linear",
    .kind = KITH_ALL_TO_ALL,
    .is_deterministic = true,
    .cost = "(p-1)a, 32 in flight, + (p-1)/p n b",
    .emit = emit_linear,
};

const ki_algo ki_all_to_all_pairwise = {
    .name = "pairwise",
    .kind = KITH_ALL_TO_ALL,
    .is_deterministic = true,
    .cost = "(p-1)a + (p-1)/p n b",
    .emit = emit_pairwise,
};

const ki_algo ki_all_to_all_bruck = {
    .name = "bruck",
    .kind = KITH_ALL_TO_ALL,
    .is_deterministic = true,
    .cost = "log2(p) a + log2(p) n/2 b + copies",
    .emit = emit_bruck,
};

const ki_algo ki_all_to_all_v_linear = {
    .name = "linear",
    .kind = KITH_ALL_TO_ALL_V,
    .is_deterministic = true,
    .cost = "(p-1)a, 32 in flight, + (p-1)/p n b",
    .emit = emit_linear,
};

const ki_algo ki_all_to_all_v_pairwise = {
    .name = "pairwise",
    .kind = KITH_ALL_TO_ALL_V,
    .is_deterministic = true,
    .cost = "(p-1)a + (p-1)/p n b",
    .emit = emit_pairwise,
};
