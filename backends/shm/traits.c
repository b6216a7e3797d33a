/* backends/shm/traits.c - the 14 collectives as one thing: blocks that go from writers to readers.
 *
 * Every collective is a matrix of blocks, out of rank i into rank j, that are copied or reduced. All paths work on the
 * own row and column of it (shm_out(), shm_in()) and on the flags below; hardly anything knows a collective by name.
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
    [KITH_REDUCE_SCATTER_V] = { .is_reducing = true, .is_listed = true },
    [KITH_ALL_GATHER] = { .is_multicast = true, .is_spread = true },
    [KITH_ALL_GATHER_V] = { .is_multicast = true, .is_listed = true },
    [KITH_BROADCAST] = { .is_multicast = true, .is_root_writing = true },
    [KITH_REDUCE] = { .is_multicast = true, .is_reducing = true, .is_root_reading = true },
    [KITH_GATHER] = { .is_multicast = true, .is_root_reading = true, .is_spread = true },
    [KITH_SCATTER] = { .is_root_writing = true },
    [KITH_GATHER_V] = { .is_multicast = true, .is_root_reading = true, .has_own_sizes = true, .is_listed = true },
    [KITH_SCATTER_V] = { .is_root_writing = true, .has_own_sizes = true, .is_listed = true },
    [KITH_ALL_TO_ALL] = { .is_spread = true },
    [KITH_ALL_TO_ALL_V] = { .has_own_sizes = true, .is_listed = true },
    [KITH_BARRIER] = { .is_multicast = true },
};

/* Blocks as the arrays say; displs NULL: one behind the other. */
static void list(shm_span *spans, int size, const void *data, const size_t *counts, const size_t *displs, size_t nbytes)
{
    unsigned char *start = (unsigned char *)(uintptr_t)data;
    size_t offset = 0;
    for (int r = 0; r < size; r++) {
        spans[r] = (shm_span){ start + (displs != NULL ? displs[r] * nbytes : offset), counts[r] * nbytes };
        offset += counts[r] * nbytes;
    }
}

/* The same block for every rank. */
static void list_one(shm_span *spans, int size, const void *data, size_t nbytes)
{
    for (int r = 0; r < size; r++)
        spans[r] = (shm_span){ (unsigned char *)(uintptr_t)data, nbytes };
}

static size_t largest(const size_t *counts, int size, size_t nbytes)
{
    size_t most = 0;
    for (int r = 0; r < size; r++)
        most = counts[r] > most ? counts[r] : most;
    return most * nbytes;
}

static void list_reduce_scatter_v(shm_group *group)
{
    shm_coll *coll = &group->coll;
    const kith_be_coll *args = coll->args;
    list(group->out, group->size, args->send, args->recv_counts, NULL, args->nbytes);
    size_t own = args->recv_counts[group->rank] * args->nbytes;
    list_one(group->in, group->size, args->recv, own);
    coll->block_nbytes = largest(args->recv_counts, group->size, args->nbytes);
    const unsigned char *block = group->out[group->rank].data;
    coll->is_own_staged = args->recv == args->send && block != args->recv && block < (unsigned char *)args->recv + own;
}

/* gather_v and scatter_v: only root knows the sizes of all blocks. */
static void list_rooted(shm_group *group)
{
    const kith_be_coll *args = group->coll.args;
    list_one(group->out, group->size, args->send, args->count * args->nbytes);
    list_one(group->in, group->size, args->recv, args->count * args->nbytes);
    if (group->rank != args->root)
        return;
    if (args->kind == KITH_GATHER_V)
        list(group->in, group->size, args->recv, args->recv_counts, args->recv_displs, args->nbytes);
    else
        list(group->out, group->size, args->send, args->send_counts, args->send_displs, args->nbytes);
}

static void list_blocks(shm_group *group)
{
    shm_coll *coll = &group->coll;
    const kith_be_coll *args = coll->args;
    switch (args->kind) {
    case KITH_REDUCE_SCATTER_V:
        list_reduce_scatter_v(group);
        break;
    case KITH_ALL_GATHER_V:
        list_one(group->out, group->size, args->send, args->recv_counts[group->rank] * args->nbytes);
        list(group->in, group->size, args->recv, args->recv_counts, args->recv_displs, args->nbytes);
        coll->block_nbytes = largest(args->recv_counts, group->size, args->nbytes);
        break;
    case KITH_ALL_TO_ALL_V:
        list(group->out, group->size, args->send, args->send_counts, args->send_displs, args->nbytes);
        list(group->in, group->size, args->recv, args->recv_counts, args->recv_displs, args->nbytes);
        break;
    default:
        list_rooted(group);
        break;
    }
}

void shm_blocks_find(shm_group *group)
{
    shm_coll *coll = &group->coll;
    const kith_be_coll *args = coll->args;
    const shm_traits *traits = coll->traits;
    size_t nbytes = args->count * args->nbytes;
    coll->is_listed = traits->is_listed;
    coll->is_own_staged = false;
    coll->block_nbytes = nbytes;
    if (coll->is_listed) {
        list_blocks(group);
        return;
    }
    bool is_root = group->rank == args->root;
    coll->out_start = (unsigned char *)(uintptr_t)args->send;
    coll->in_start = args->recv;
    coll->out_stride = traits->is_multicast || (traits->is_root_writing && !is_root) ? 0 : nbytes;
    coll->in_stride = traits->is_spread && (!traits->is_root_reading || is_root) ? nbytes : 0;
    if (args->kind == KITH_BARRIER)
        coll->block_nbytes = 0;
}
