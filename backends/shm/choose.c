/* backends/shm/choose.c - which way a larger collective goes when that depends on where the ranks' buffers lie.
 *
 * Every rank publishes a descriptor of its buffers in its cell's first line. A rank whose own buffers are not mapped knows
 * enough: the operation is not direct, and it goes on at once. A rank whose buffers are mapped waits for all descriptors: all
 * mapped, direct; else as the others. So all come to the same answer, and only those wait that may gain from it.
 *
 * Up to eager_nbytes the other way is through the cells: a rank that is not mapped puts its bytes behind the descriptor
 * before it publishes; one that is does so when it has found that not all are (about.payload says when).
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "internal.h"

enum { PHASE_PUBLISH, PHASE_DESCRIPTORS, PHASE_TAKE };

bool shm_choose_applies(const shm_group *group)
{
    const shm_coll *coll = &group->coll;
    bool can_map = group->instance->settings.use_mapped && (group->is_one_process || group->region_count > 0);
    if (coll->traits->has_own_sizes || !(can_map || group->has_remote))
        return false;
    size_t nbytes = coll->traits->is_multicast ? coll->block_nbytes : coll->block_nbytes * (size_t)(group->size - 1);
    return nbytes > (can_map ? group->direct_nbytes : group->eager_nbytes);
}

/* The memory between the lowest and the highest byte of the blocks. */
static shm_span hull(const shm_span *spans, int count)
{
    uintptr_t low = UINTPTR_MAX, high = 0;
    for (int r = 0; r < count; r++) {
        if (spans[r].nbytes == 0)
            continue;
        uintptr_t start = (uintptr_t)spans[r].data, end = start + spans[r].nbytes;
        low = start < low ? start : low;
        high = end > high ? end : high;
    }
    return low < high ? (shm_span){ (unsigned char *)low, high - low } : (shm_span){ NULL, 0 };
}

/* Describes one buffer; false when the others cannot reach it. */
static bool describe(shm_group *group, const void *start, shm_span needed, uint64_t *where, uint32_t *region)
{
    *where = (uint64_t)(uintptr_t)start;
    *region = 0;
    if (needed.nbytes == 0 || group->is_one_process)
        return true;
    uint64_t offset;
    *region = shm_region_find(group, needed.data, needed.nbytes, &offset);
    if (*region == 0)
        return false;
    *where = offset - (uint64_t)((uintptr_t)needed.data - (uintptr_t)start);
    return true;
}

/* In these in-place forms a rank would overwrite what others still have to read. */
static bool is_order_free(const shm_group *group)
{
    const kith_be_coll *args = group->coll.args;
    bool is_scatter = args->kind == KITH_REDUCE_SCATTER || args->kind == KITH_REDUCE_SCATTER_V;
    if (is_scatter)
        return args->send != args->recv || group->out[group->rank].data == args->recv;
    return args->kind != KITH_ALL_TO_ALL || args->send != args->recv;
}

static bool write_descriptor(shm_group *group, shm_cell *cell)
{
    const shm_coll *coll = &group->coll;
    const kith_be_coll *args = coll->args;
    bool gives = coll->is_writer || coll->has_own || coll->traits->is_reducing;
    shm_span none = { NULL, 0 }, send = gives ? hull(group->out, group->size) : none;
    shm_span recv = coll->is_reader || coll->has_own ? hull(group->in, group->size) : none;
    bool is_mapped = describe(group, args->send, send, &cell->about.send, &cell->about.send_region);
    is_mapped = describe(group, args->recv, recv, &cell->about.recv, &cell->about.recv_region) && is_mapped;
    is_mapped = is_mapped && group->instance->settings.use_mapped && is_order_free(group);
    if (!is_mapped) {
        cell->about.send = (uint64_t)(uintptr_t)args->send;
        cell->about.recv = (uint64_t)(uintptr_t)args->recv;
    }
    cell->about.is_mapped = is_mapped;
    return is_mapped;
}

/* Where the ranks' buffers are for this one. */
static void find_far(shm_group *group, bool is_direct)
{
    for (int r = 0; r < group->size; r++) {
        const shm_cell *cell = shm_cell_of(group, r, group->coll.number);
        group->far_send[r] = (unsigned char *)(uintptr_t)cell->about.send;
        group->far_recv[r] = (unsigned char *)(uintptr_t)cell->about.recv;
        if (!is_direct || r == group->rank || group->is_one_process)
            continue;
        if (cell->about.send_region != 0)
            group->far_send[r] = shm_region_at(group, cell->about.send_region, r, 0) + cell->about.send;
        if (cell->about.recv_region != 0)
            group->far_recv[r] = shm_region_at(group, cell->about.recv_region, r, 0) + cell->about.recv;
    }
    group->far_send[group->rank] = (unsigned char *)(uintptr_t)group->coll.args->send;
    group->far_recv[group->rank] = group->coll.args->recv;
}

/* False while a descriptor is missing. */
static bool has_descriptors(shm_group *group, bool *is_all_mapped)
{
    shm_coll *coll = &group->coll;
    for (int r = coll->next_peer; r < group->size; r++) {
        coll->next_peer = r;
        if (shm_load(&shm_cell_of(group, r, coll->number)->flag) != coll->number)
            return false;
    }
    *is_all_mapped = true;
    for (int r = 0; r < group->size; r++)
        *is_all_mapped = *is_all_mapped && shm_cell_of(group, r, coll->number)->about.is_mapped;
    return true;
}

/* Goes on without mapped buffers. is_published: the descriptor is out already. */
static void go_otherwise(shm_group *group, bool is_published)
{
    shm_coll *coll = &group->coll;
    shm_cell *cell = shm_cell_of(group, group->rank, coll->number);
    coll->next_peer = 0;
    if (shm_cells_fits(group)) {
        if (coll->is_writer)
            shm_cells_fill(group);
        coll->phase = PHASE_TAKE;
        shm_store(&cell->about.payload, coll->number);
    }
    if (!is_published)
        shm_store(&cell->flag, coll->number);
    shm_wake(group);
    if (coll->phase != PHASE_TAKE)
        shm_choose_unmapped(group);
}

bool shm_choose_step(shm_group *group)
{
    shm_coll *coll = &group->coll;
    shm_cell *cell = shm_cell_of(group, group->rank, coll->number);
    if (coll->phase == PHASE_PUBLISH) {
        if (!shm_cells_ready(group))
            return false;
        cell->about.payload = 0;
        if (!write_descriptor(group, cell)) {
            go_otherwise(group, false);
        } else {
            shm_store(&cell->flag, coll->number);
            shm_wake(group);
            coll->phase = PHASE_DESCRIPTORS;
        }
    }
    if (coll->path == SHM_PATH_CHOOSE && coll->phase == PHASE_DESCRIPTORS) {
        bool is_all_mapped;
        if (!has_descriptors(group, &is_all_mapped))
            return false;
        if (is_all_mapped) {
            find_far(group, true);
            shm_direct_begin(group);
        } else {
            go_otherwise(group, true);
        }
    }
    if (coll->path == SHM_PATH_CHOOSE)
        return shm_cells_take(group);
    return shm_path_step(group);
}
