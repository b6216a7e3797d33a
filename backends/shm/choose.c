/* backends/shm/choose.c - which way a larger collective goes when that depends on where the ranks' buffers lie.
 *
 * Every rank publishes a descriptor of its buffers in its cell's first line, with what it allows (shm_reach): the
 * least that a rank allows decides. All mapped: direct. Else, where the kernel permits it and it is faster (trial.c):
 * remote. Else as if there were no descriptors. A rank that allows too little for what could still come of it knows
 * the answer and goes on at once; the others wait for all descriptors. So all come to the same answer, and only those
 * wait that may gain from it.
 *
 * Up to eager_nbytes the other way is through the cells: a rank that is not mapped puts its bytes behind the descriptor
 * before it publishes; one that is does so when it has found that not all are (about.payload says when).
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "internal.h"

enum { PHASE_PUBLISH, PHASE_DESCRIPTORS, PHASE_TAKE };

/* Equal on all ranks, since regions are made and freed in the same order everywhere. */
static bool can_map(const shm_group *group)
{
    return group->instance->settings.use_mapped && (group->is_one_process || group->region_count > 0);
}

size_t shm_share_nbytes(const shm_group *group)
{
    size_t block = group->coll.block_nbytes, ranks = (size_t)group->size;
    if (group->coll.traits->is_multicast)
        return block;
    return block > SIZE_MAX / ranks ? SIZE_MAX : block * (ranks - 1);
}

bool shm_choose_applies(const shm_group *group)
{
    const shm_coll *coll = &group->coll;
    if (coll->traits->has_own_sizes)
        return false;
    return can_map(group) ? shm_share_nbytes(group) > group->direct_nbytes : group->coll.wants_remote;
}

/* The memory between the lowest and the highest byte of the blocks. */
static shm_span hull(const shm_group *group, bool is_out)
{
    uintptr_t low = UINTPTR_MAX, high = 0;
    for (int r = 0; r < group->size; r++) {
        shm_span block = is_out ? shm_out(group, r) : shm_in(group, r);
        if (block.nbytes == 0)
            continue;
        uintptr_t start = (uintptr_t)block.data, end = start + block.nbytes;
        low = start < low ? start : low;
        high = end > high ? end : high;
    }
    return low < high ? (shm_span){ (unsigned char *)low, high - low } : (shm_span){ NULL, 0 };
}

/* Finds the region of one buffer; false when the others have not mapped it. */
static bool describe(shm_group *group, const void *start, shm_span needed, uint64_t *where, uint32_t *region)
{
    *region = 0;
    if (needed.nbytes == 0 || group->is_one_process)
        return true;
    uint64_t offset = 0, before = (uint64_t)((uintptr_t)needed.data - (uintptr_t)start);
    *region = shm_region_find(group, needed.data, needed.nbytes, &offset);
    *where = offset - before;
    return *region != 0 && before <= offset;
}

/* In these in-place forms a rank would overwrite what others still have to read. */
static bool is_order_free(const shm_group *group)
{
    const kith_be_coll *args = group->coll.args;
    bool is_scatter = args->kind == KITH_REDUCE_SCATTER || args->kind == KITH_REDUCE_SCATTER_V;
    if (is_scatter)
        return args->send != args->recv || shm_out(group, group->rank).data == args->recv;
    return args->kind != KITH_ALL_TO_ALL || args->send != args->recv;
}

static shm_reach write_descriptor(shm_group *group, shm_cell *cell)
{
    const shm_coll *coll = &group->coll;
    const kith_be_coll *args = coll->args;
    bool gives = coll->is_writer || coll->has_own || coll->traits->is_reducing;
    shm_span none = { NULL, 0 }, send = gives ? hull(group, true) : none;
    shm_span recv = coll->is_reader || coll->has_own ? hull(group, false) : none;
    bool is_mapped = describe(group, args->send, send, &cell->about.send_offset, &cell->about.send_region);
    is_mapped = describe(group, args->recv, recv, &cell->about.recv_offset, &cell->about.recv_region) && is_mapped;
    is_mapped = is_mapped && can_map(group);
    cell->about.send = (uint64_t)(uintptr_t)args->send;
    cell->about.recv = (uint64_t)(uintptr_t)args->recv;
    shm_reach reach = !is_order_free(group) ? SHM_REACH_NONE : is_mapped ? SHM_REACH_MAPPED : SHM_REACH_REMOTE;
    cell->about.reach = reach;
    return reach;
}

/* Where the ranks' buffers are for this one. */
static void find_far(shm_group *group, bool is_mapped)
{
    for (int r = 0; r < group->size; r++) {
        const shm_cell *cell = shm_cell_of(group, r, group->coll.number);
        group->far_send[r] = (unsigned char *)(uintptr_t)cell->about.send;
        group->far_recv[r] = (unsigned char *)(uintptr_t)cell->about.recv;
        if (!is_mapped || group->is_one_process)
            continue;
        if (cell->about.send_region != 0)
            group->far_send[r] = shm_region_at(group, cell->about.send_region, r, cell->about.send_offset);
        if (cell->about.recv_region != 0)
            group->far_recv[r] = shm_region_at(group, cell->about.recv_region, r, cell->about.recv_offset);
    }
    group->far_send[group->rank] = (unsigned char *)(uintptr_t)group->coll.args->send;
    group->far_recv[group->rank] = group->coll.args->recv;
}

/* False while a descriptor is missing. */
static bool has_descriptors(shm_group *group, shm_reach *least)
{
    shm_coll *coll = &group->coll;
    for (int r = coll->next_peer; r < group->size; r++) {
        coll->next_peer = r;
        if (shm_load(&shm_cell_of(group, r, coll->number)->flag) != coll->number)
            return false;
    }
    *least = SHM_REACH_MAPPED;
    for (int r = 0; r < group->size; r++) {
        shm_reach reach = (shm_reach)shm_cell_of(group, r, coll->number)->about.reach;
        *least = reach < *least ? reach : *least;
    }
    return true;
}

static void publish(shm_group *group)
{
    shm_store(&shm_cell_of(group, group->rank, group->coll.number)->flag, group->coll.number);
    shm_wake(group);
}

/* Nobody works in others' buffers. The descriptor may be out already; storing the flag again does no harm. */
static void go_staged(shm_group *group)
{
    shm_coll *coll = &group->coll;
    coll->next_peer = 0;
    if (shm_cells_fits(group)) {
        if (coll->is_writer)
            shm_cells_fill(group);
        coll->phase = PHASE_TAKE;
        shm_store(&shm_cell_of(group, group->rank, coll->number)->about.payload, coll->number);
        publish(group);
    } else {
        publish(group);
        shm_choose_unmapped(group);
    }
}

static void start(shm_group *group)
{
    shm_coll *coll = &group->coll;
    shm_cell *cell = shm_cell_of(group, group->rank, coll->number);
    cell->about.payload = 0;
    shm_reach reach = write_descriptor(group, cell);
    if (reach == SHM_REACH_MAPPED || (reach == SHM_REACH_REMOTE && group->coll.wants_remote)) {
        coll->phase = PHASE_DESCRIPTORS;
        publish(group);
    } else {
        go_staged(group);
    }
}

static void decide(shm_group *group, shm_reach least)
{
    bool is_mapped = least == SHM_REACH_MAPPED && can_map(group);
    if (is_mapped || (least != SHM_REACH_NONE && group->coll.wants_remote)) {
        find_far(group, is_mapped);
        shm_direct_begin(group, !is_mapped);
    } else {
        go_staged(group);
    }
}

bool shm_choose_step(shm_group *group)
{
    shm_coll *coll = &group->coll;
    if (coll->phase == PHASE_PUBLISH) {
        if (!shm_cells_ready(group))
            return false;
        start(group);
    }
    if (coll->path == SHM_PATH_CHOOSE && coll->phase == PHASE_DESCRIPTORS) {
        shm_reach least;
        if (!has_descriptors(group, &least))
            return false;
        decide(group, least);
    }
    return coll->path == SHM_PATH_CHOOSE ? shm_cells_take(group) : shm_path_step(group);
}
