/* backends/shm/traits.c - the 14 collectives as one thing: blocks that go from writers to readers.
 *
 * Every collective is a matrix of blocks, out of rank i into rank j, that are copied or reduced. All paths work on the own row
 * and column of it (group->out, group->in) and on the flags below; none knows a collective by name.
 *
 *     kind              writers   readers   blocks
 *     all_reduce        all       all       multicast, reduced
 *     reduce_scatter    all       all       one for each rank, reduced
 *     all_gather        all       all       multicast
 *     broadcast         root      others    multicast
 *     reduce            others    root      multicast, reduced
 *     gather            others    root      multicast (to one)
 *     scatter           root      others    one for each rank
 *     all_to_all        all       all       one for each rank
 *     barrier           all       all       multicast of nothing
 *
 * The own block of a rank never travels: it is copied or read in place.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "internal.h"

const shm_traits shm_traits_of[KITH_COLL_COUNT] = {
    [KITH_ALL_REDUCE] = { .is_multicast = true, .is_reducing = true },
    [KITH_REDUCE_SCATTER] = { .is_reducing = true },
    [KITH_REDUCE_SCATTER_V] = { .is_reducing = true },
    [KITH_ALL_GATHER] = { .is_multicast = true },
    [KITH_ALL_GATHER_V] = { .is_multicast = true },
    [KITH_BROADCAST] = { .is_multicast = true, .is_root_writing = true },
    [KITH_REDUCE] = { .is_multicast = true, .is_reducing = true, .is_root_reading = true },
    [KITH_GATHER] = { .is_multicast = true, .is_root_reading = true },
    [KITH_SCATTER] = { .is_root_writing = true },
    [KITH_GATHER_V] = { .is_multicast = true, .is_root_reading = true, .has_own_sizes = true },
    [KITH_SCATTER_V] = { .is_root_writing = true, .has_own_sizes = true },
    [KITH_ALL_TO_ALL] = { 0 },
    [KITH_ALL_TO_ALL_V] = { .has_own_sizes = true },
    [KITH_BARRIER] = { .is_multicast = true },
};

/* Blocks of one size, one behind the other when is_spread, else all the same. */
static void fill_equal(shm_span *spans, int size, const void *data, size_t nbytes, bool is_spread)
{
    unsigned char *at = (unsigned char *)(uintptr_t)data;
    for (int r = 0; r < size; r++) {
        spans[r] = (shm_span){ at, nbytes };
        if (is_spread)
            at += nbytes;
    }
}

/* Blocks as the arrays say; displs NULL: one behind the other. */
static void fill_listed(shm_span *spans, int size, const void *data, const size_t *counts, const size_t *displs,
                        size_t nbytes)
{
    unsigned char *start = (unsigned char *)(uintptr_t)data;
    size_t offset = 0;
    for (int r = 0; r < size; r++) {
        spans[r] = (shm_span){ start + (displs != NULL ? displs[r] * nbytes : offset), counts[r] * nbytes };
        offset += counts[r] * nbytes;
    }
}

static size_t largest(const size_t *counts, int size, size_t nbytes)
{
    size_t most = 0;
    for (int r = 0; r < size; r++)
        most = counts[r] > most ? counts[r] : most;
    return most * nbytes;
}

static void fill_reduce_scatter_v(shm_group *group)
{
    shm_coll *coll = &group->coll;
    const kith_be_coll *args = coll->args;
    fill_listed(group->out, group->size, args->send, args->recv_counts, NULL, args->nbytes);
    size_t own = args->recv_counts[group->rank] * args->nbytes;
    fill_equal(group->in, group->size, args->recv, own, false);
    coll->block_nbytes = largest(args->recv_counts, group->size, args->nbytes);
    const unsigned char *block = group->out[group->rank].data;
    coll->is_own_staged = args->recv == args->send && block != args->recv && block < (unsigned char *)args->recv + own;
}

static void fill_rooted(shm_group *group)
{
    shm_coll *coll = &group->coll;
    const kith_be_coll *args = coll->args;
    bool is_root = group->rank == args->root;
    size_t nbytes = args->count * args->nbytes;
    coll->block_nbytes = nbytes;
    fill_equal(group->out, group->size, args->send, nbytes, false);
    fill_equal(group->in, group->size, args->recv, nbytes, false);
    if (!is_root)
        return;
    if (args->kind == KITH_GATHER)
        fill_equal(group->in, group->size, args->recv, nbytes, true);
    else if (args->kind == KITH_SCATTER)
        fill_equal(group->out, group->size, args->send, nbytes, true);
    else if (args->kind == KITH_GATHER_V)
        fill_listed(group->in, group->size, args->recv, args->recv_counts, args->recv_displs, args->nbytes);
    else if (args->kind == KITH_SCATTER_V)
        fill_listed(group->out, group->size, args->send, args->send_counts, args->send_displs, args->nbytes);
}

void shm_spans_fill(shm_group *group)
{
    shm_coll *coll = &group->coll;
    const kith_be_coll *args = coll->args;
    size_t nbytes = args->count * args->nbytes;
    coll->block_nbytes = nbytes;
    coll->is_own_staged = false;
    switch (args->kind) {
    case KITH_BARRIER:
        coll->block_nbytes = 0;
        fill_equal(group->out, group->size, NULL, 0, false);
        fill_equal(group->in, group->size, NULL, 0, false);
        break;
    case KITH_ALL_REDUCE:
        fill_equal(group->out, group->size, args->send, nbytes, false);
        fill_equal(group->in, group->size, args->recv, nbytes, false);
        break;
    case KITH_REDUCE_SCATTER:
        fill_equal(group->out, group->size, args->send, nbytes, true);
        fill_equal(group->in, group->size, args->recv, nbytes, false);
        break;
    case KITH_REDUCE_SCATTER_V:
        fill_reduce_scatter_v(group);
        break;
    case KITH_ALL_GATHER:
        fill_equal(group->out, group->size, args->send, nbytes, false);
        fill_equal(group->in, group->size, args->recv, nbytes, true);
        break;
    case KITH_ALL_GATHER_V:
        fill_equal(group->out, group->size, args->send, args->recv_counts[group->rank] * args->nbytes, false);
        fill_listed(group->in, group->size, args->recv, args->recv_counts, args->recv_displs, args->nbytes);
        coll->block_nbytes = largest(args->recv_counts, group->size, args->nbytes);
        break;
    case KITH_ALL_TO_ALL:
        fill_equal(group->out, group->size, args->send, nbytes, true);
        fill_equal(group->in, group->size, args->recv, nbytes, true);
        break;
    case KITH_ALL_TO_ALL_V:
        fill_listed(group->out, group->size, args->send, args->send_counts, args->send_displs, args->nbytes);
        fill_listed(group->in, group->size, args->recv, args->recv_counts, args->recv_displs, args->nbytes);
        break;
    default:
        fill_rooted(group);
        break;
    }
}
