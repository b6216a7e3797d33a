/* core/algo/all_gather.c - all_gather and all_gather_v, which differ in the blocks' places only.
 *
 * linear: everybody to everybody, one round. ring: p-1 rounds between neighbours. recursive_doubling (p a power of 2):
 * spans of 1, 2, 4, ... blocks between partners at that distance. neighbor_exchange (p even): pairs of blocks between
 * neighbours on alternating sides, p/2 rounds. bruck: any p in ceil(log2 p) rounds, packed in scratch.
 *
 * With counts of their own, blocks need not be neighbours in memory: spans are then sent block by block (bruck:
 * packed), so that displacements, which need not agree between ranks, do not decide about messages.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "list.h"
#include "parts.h"

static ki_blocks blocks_of(const ki_algo_args *args)
{
    const kith_be_coll *coll = args->coll;
    if (coll->kind == KITH_ALL_GATHER_V)
        return ki_blocks_v(KI_BUF_RECV, coll->recv_counts, coll->recv_displs, coll->nbytes);
    return ki_blocks_equal(KI_BUF_RECV, coll->count, coll->nbytes);
}

static void place_own(const ki_algo_args *args, ki_plan *plan, const ki_blocks *blocks)
{
    ki_plan_copy(plan, ki_block_at(blocks, args->rank), ki_at(KI_BUF_SEND, 0), ki_block_nbytes(blocks, args->rank));
}

static void emit_linear(const ki_algo_args *args, ki_plan *plan)
{
    ki_blocks blocks = blocks_of(args);
    for (int k = 1; k < args->size; k++) {
        int to = ki_wrap(args->rank + k, args->size), from = ki_wrap(args->rank - k, args->size);
        ki_plan_recv(plan, from, ki_block_at(&blocks, from), ki_block_nbytes(&blocks, from));
        ki_plan_send(plan, to, ki_at(KI_BUF_SEND, 0), ki_block_nbytes(&blocks, args->rank));
    }
    place_own(args, plan, &blocks);
}

static void emit_ring(const ki_algo_args *args, ki_plan *plan)
{
    ki_blocks blocks = blocks_of(args);
    place_own(args, plan, &blocks);
    ki_ring_gather(plan, &blocks, args->size, args->rank, ki_wrap(args->rank - 1, args->size),
                   ki_wrap(args->rank + 1, args->size));
}

/* count blocks from first, as one message where they are neighbours for certain. */
static void move_span(ki_plan *plan, const ki_blocks *blocks, bool is_send, int peer, int first, int count)
{
    int message = blocks->counts ? 1 : count;
    for (int i = first; i < first + count; i += message) {
        size_t nbytes = ki_block_nbytes(blocks, i) * (size_t)message;
        if (is_send)
            ki_plan_send(plan, peer, ki_block_at(blocks, i), nbytes);
        else
            ki_plan_recv(plan, peer, ki_block_at(blocks, i), nbytes);
    }
}

static void swap_spans(ki_plan *plan, const ki_blocks *blocks, int peer, int give, int take, int count)
{
    size_t start = ki_plan_mark(plan);
    move_span(plan, blocks, false, peer, take, count);
    move_span(plan, blocks, true, peer, give, count);
    ki_plan_wait(plan, start, ki_plan_mark(plan));
}

static bool is_power_of_2(const ki_algo_args *args)
{
    return (args->size & (args->size - 1)) == 0;
}

static void emit_doubling(const ki_algo_args *args, ki_plan *plan)
{
    ki_blocks blocks = blocks_of(args);
    place_own(args, plan, &blocks);
    for (int mask = 1; mask < args->size; mask *= 2) {
        int mine = args->rank & ~(mask - 1);
        swap_spans(plan, &blocks, args->rank ^ mask, mine, mine ^ mask, mask);
    }
}

static bool is_even(const ki_algo_args *args)
{
    return args->size % 2 == 0;
}

/* Even ranks begin to the right, odd ones to the left. From round 1 on, the pair of blocks that came last goes to
 * the other side. */
static void emit_neighbor(const ki_algo_args *args, ki_plan *plan)
{
    ki_blocks blocks = blocks_of(args);
    int rank = args->rank, size = args->size;
    place_own(args, plan, &blocks);
    bool is_left = rank % 2 == 0;
    int sides[2] = { ki_wrap(rank + (is_left ? 1 : -1), size), ki_wrap(rank - (is_left ? 1 : -1), size) };
    int step = is_left ? 2 : -2, pair = rank & ~1;
    int taken[2] = { pair, pair };
    swap_spans(plan, &blocks, sides[0], rank, sides[0], 1);
    for (int i = 1; i < size / 2; i++) {
        int side = i % 2;
        int take = ki_wrap(taken[side] + (side == 0 ? step : -step), size);
        swap_spans(plan, &blocks, sides[side], pair, take, 2);
        taken[side] = pair = take;
    }
}

/* Scratch holds the blocks of rank, rank + 1, ... one after the other: starts[i] bytes. Round "have": the first
 * blocks go to rank - have, which misses them; the ones that this rank misses come from rank + have. */
static void emit_bruck(const ki_algo_args *args, ki_plan *plan)
{
    ki_blocks blocks = blocks_of(args);
    int rank = args->rank, size = args->size;
    size_t *starts = ki_plan_numbers(plan, (size_t)size + 1);
    if (!starts)
        return;
    starts[0] = 0;
    for (int i = 0; i < size; i++)
        starts[i + 1] = starts[i] + ki_block_nbytes(&blocks, ki_wrap(rank + i, size));
    ki_ref all = ki_plan_temp(plan, starts[size], 1);
    ki_plan_copy(plan, all, ki_at(KI_BUF_SEND, 0), starts[1]);
    for (int have = 1; have < size; have *= 2) {
        int take = have < size - have ? have : size - have;
        size_t start = ki_plan_mark(plan);
        ki_plan_recv(plan, ki_wrap(rank + have, size), ki_plus(all, starts[have], 1),
                     starts[have + take] - starts[have]);
        ki_plan_send(plan, ki_wrap(rank - have, size), all, starts[take]);
        ki_plan_wait(plan, start, ki_plan_mark(plan));
    }
    for (int i = 0; i < size; i++) {
        int r = ki_wrap(rank + i, size);
        ki_ref from = i == 0 ? ki_at(KI_BUF_SEND, 0) : ki_plus(all, starts[i], 1);
        ki_plan_copy(plan, ki_block_at(&blocks, r), from, ki_block_nbytes(&blocks, r));
    }
}

#define KI_ALL_GATHER(kind_, suffix)                                                                                   \
    const ki_algo ki_all_gather##suffix##_linear = {                                                                   \
        .name = "linear",                                                                                              \
        .kind = kind_,                                                                                                 \
        .is_deterministic = true,                                                                                      \
        .cost = "(p-1)a in 1 round + (p-1)/p n b",                                                                     \
        .emit = emit_linear,                                                                                           \
    };                                                                                                                 \
    const ki_algo ki_all_gather##suffix##_ring = {                                                                     \
        .name = "ring",                                                                                                \
        .kind = kind_,                                                                                                 \
        .is_deterministic = true,                                                                                      \
        .cost = "(p-1)a + (p-1)/p n b",                                                                                \
        .emit = emit_ring,                                                                                             \
    };                                                                                                                 \
    const ki_algo ki_all_gather##suffix##_recursive_doubling = {                                                       \
        .name = "recursive_doubling",                                                                                  \
        .kind = kind_,                                                                                                 \
        .is_deterministic = true,                                                                                      \
        .cost = "log2(p) a + (p-1)/p n b",                                                                             \
        .is_possible = is_power_of_2,                                                                                  \
        .emit = emit_doubling,                                                                                         \
    };                                                                                                                 \
    const ki_algo ki_all_gather##suffix##_neighbor_exchange = {                                                        \
        .name = "neighbor_exchange",                                                                                   \
        .kind = kind_,                                                                                                 \
        .is_deterministic = true,                                                                                      \
        .cost = "p/2 a + (p-1)/p n b",                                                                                 \
        .is_possible = is_even,                                                                                        \
        .emit = emit_neighbor,                                                                                         \
    };                                                                                                                 \
    const ki_algo ki_all_gather##suffix##_bruck = {                                                                    \
        .name = "bruck",                                                                                               \
        .kind = kind_,                                                                                                 \
        .is_deterministic = true,                                                                                      \
        .cost = "log2(p) a + (p-1)/p n b + a copy of n",                                                               \
        .emit = emit_bruck,                                                                                            \
    };

KI_ALL_GATHER(KITH_ALL_GATHER, )
KI_ALL_GATHER(KITH_ALL_GATHER_V, _v)
