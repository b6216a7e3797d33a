/* backends/shm/cells.c - small collectives: one exchange of cells.
 *
 * A writer puts its bytes into its cell of this collective and then the collective's number into the cell's first
 * word; up to SHM_INLINE_NBYTES travel in that same line, so the hand-over of one line is the whole operation. A
 * reader takes the bytes straight from the cells of all writers.
 *
 * When may a cell be written again? Cell s % SHM_CELLS still holds collective s - SHM_CELLS, which every rank must
 * have finished. A rank that has seen the cells of all others for collective t knows that they finished t - 1: in
 * collectives where all write and all read (symmetric ones) that is enough, and finished_min = t - 1 is remembered. In
 * others a rank says so in its word `done`. Every SHM_CELLS successive collectives hold either a symmetric one or
 * nothing but `done` stores, so one of the two always tells what is needed.
 *
 * Collectives with sizes that only the two ranks of a pair know (gather_v, scatter_v, all_to_all_v) first publish a
 * table of their sizes, with the bytes behind it where they fit. Having read all tables, every rank knows how many
 * rounds of the staged path the rest needs.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "internal.h"

/* Copies few bytes without the call; ranges do not overlap. */
static inline void copy_small(unsigned char *to, const unsigned char *from, size_t nbytes)
{
    if (nbytes >= 8 && nbytes <= 16) {
        uint64_t head, tail;
        memcpy(&head, from, 8);
        memcpy(&tail, from + nbytes - 8, 8);
        memcpy(to, &head, 8);
        memcpy(to + nbytes - 8, &tail, 8);
    } else if (nbytes == 4) {
        memcpy(to, from, 4);
    } else if (nbytes != 0) {
        memcpy(to, from, nbytes);
    }
}

bool shm_cells_ready(shm_group *group)
{
    uint64_t number = group->coll.number;
    if (__builtin_expect(number <= group->finished_min + SHM_CELLS, 1))
        return true;
    uint64_t least = UINT64_MAX;
    for (int r = 0; r < group->size; r++) {
        uint64_t done = r == group->rank ? UINT64_MAX : shm_load(&group->blocks[r].done.value);
        least = done < least ? done : least;
    }
    if (least > group->finished_min)
        group->finished_min = least;
    return number <= group->finished_min + SHM_CELLS;
}

/* Bytes that `writer` puts into its cell. */
static size_t cell_nbytes(const shm_group *group, int writer)
{
    const shm_coll *coll = &group->coll;
    if (coll->traits->is_multicast)
        return writer == group->rank ? shm_out(group, writer).nbytes : shm_in(group, writer).nbytes;
    if (coll->args->kind != KITH_REDUCE_SCATTER_V)
        return (size_t)(group->size - 1) * coll->block_nbytes;
    shm_span last = shm_out(group, group->size - 1);
    return (size_t)(last.data + last.nbytes - shm_out(group, 0).data) - shm_out(group, writer).nbytes;
}

/* Where in the cell of `writer` the block for this rank starts. */
static size_t cell_offset(const shm_group *group, int writer)
{
    const shm_coll *coll = &group->coll;
    if (coll->traits->is_multicast)
        return 0;
    if (coll->args->kind != KITH_REDUCE_SCATTER_V)
        return (size_t)shm_place(writer, group->rank) * coll->block_nbytes;
    size_t before = (size_t)(shm_out(group, group->rank).data - shm_out(group, 0).data);
    return writer < group->rank ? before - shm_out(group, writer).nbytes : before;
}

bool shm_cells_fits(const shm_group *group)
{
    const shm_coll *coll = &group->coll;
    if (coll->traits->is_multicast)
        return coll->block_nbytes <= group->eager_nbytes;
    if (coll->args->kind != KITH_REDUCE_SCATTER_V)
        return coll->block_nbytes <= group->eager_nbytes / (size_t)(group->size - 1);
    shm_span last = shm_out(group, group->size - 1);
    return (size_t)(last.data + last.nbytes - shm_out(group, 0).data) <= group->eager_nbytes;
}

/* Behind a descriptor there is no room in the line. */
static unsigned char *payload_of(const shm_group *group, int writer)
{
    shm_cell *cell = shm_cell_of(group, writer, group->coll.number);
    if (group->coll.path == SHM_PATH_CHOOSE)
        return (unsigned char *)cell + SHM_LINE;
    return shm_cell_payload(cell, cell_nbytes(group, writer));
}

static void copy_own(shm_group *group)
{
    if (!group->coll.has_own)
        return;
    shm_span out = shm_out(group, group->rank), in = shm_in(group, group->rank);
    if (out.data != in.data && out.nbytes != 0)
        memmove(in.data, out.data, shm_min(out.nbytes, in.nbytes));
}

void shm_cells_fill(shm_group *group)
{
    shm_coll *coll = &group->coll;
    unsigned char *to = payload_of(group, group->rank);
    if (coll->traits->is_multicast) {
        copy_small(to, shm_out(group, group->rank).data, shm_out(group, group->rank).nbytes);
    } else {
        for (int r = 0; r < group->size; r++) {
            if (r == group->rank)
                continue;
            copy_small(to, shm_out(group, r).data, shm_out(group, r).nbytes);
            to += shm_out(group, r).nbytes;
        }
    }
}

static bool is_writer(const shm_group *group, int rank)
{
    const shm_coll *coll = &group->coll;
    if (coll->traits->is_root_writing)
        return rank == coll->args->root;
    return !coll->traits->is_root_reading || rank != coll->args->root;
}

static bool is_symmetric(const shm_coll *coll)
{
    return !coll->traits->is_root_writing && !coll->traits->is_root_reading;
}

static void reduce_cells(shm_group *group)
{
    shm_coll *coll = &group->coll;
    shm_span in = shm_in(group, group->rank);
    for (int r = 0; r < group->size; r++)
        if (r != group->rank)
            group->sources[r] = payload_of(group, r) + cell_offset(group, r);
    group->sources[group->rank] = shm_out(group, group->rank).data;
    if (coll->is_own_staged) {
        memcpy(group->scratch, shm_out(group, group->rank).data, in.nbytes);
        group->sources[group->rank] = group->scratch;
    }
    group->targets[0] = in.data;
    const kith_be_reducer *reducer = coll->args->reducer;
    if (in.nbytes != 0)
        reducer->reduce(reducer, group->sources, group->size, group->targets, 1, in.nbytes / reducer->nbytes, 0);
}

/* Takes from every writer whose cell is there, in rank order. True when all are done with. */
static bool take_cells(shm_group *group)
{
    shm_coll *coll = &group->coll;
    for (int r = coll->next_peer; r < group->size; r++) {
        if (r != group->rank && is_writer(group, r)) {
            shm_cell *cell = shm_cell_of(group, r, coll->number);
            if (shm_load(&cell->flag) != coll->number ||
                (coll->path == SHM_PATH_CHOOSE && shm_load(&cell->about.payload) != coll->number)) {
                coll->next_peer = r;
                return false;
            }
            if (!coll->traits->is_reducing)
                copy_small(shm_in(group, r).data, payload_of(group, r) + cell_offset(group, r),
                           shm_in(group, r).nbytes);
        }
    }
    coll->next_peer = group->size;
    if (coll->traits->is_reducing)
        reduce_cells(group);
    return true;
}

bool shm_cells_step(shm_group *group)
{
    shm_coll *coll = &group->coll;
    if (coll->phase == 0) {
        if (coll->is_writer) {
            if (!shm_cells_ready(group))
                return false;
            shm_cells_fill(group);
            shm_store(&shm_cell_of(group, group->rank, coll->number)->flag, coll->number);
            shm_wake(group);
        }
        copy_own(group);
        coll->phase = 1;
    }
    if (coll->is_reader && !take_cells(group))
        return false;
    if (is_symmetric(coll)) {
        group->finished_min = coll->number - 1;
    } else {
        shm_store(&group->blocks[group->rank].done.value, coll->number);
        shm_wake(group);
    }
    return true;
}

bool shm_cells_take(shm_group *group)
{
    if (group->coll.is_reader && !take_cells(group))
        return false;
    copy_own(group);
    shm_store(&group->blocks[group->rank].done.value, group->coll.number);
    shm_wake(group);
    return true;
}

/* ---- tables of sizes ---- */

static int table_entries(const shm_group *group)
{
    return group->coll.traits->is_multicast ? 1 : group->size;
}

static void publish_table(shm_group *group)
{
    shm_coll *coll = &group->coll;
    shm_cell *cell = shm_cell_of(group, group->rank, coll->number);
    uint64_t *table = (uint64_t *)((unsigned char *)cell + SHM_LINE);
    int entries = table_entries(group);
    unsigned char *to = (unsigned char *)(table + entries);
    size_t room = (size_t)group->sizes.cell_nbytes - (size_t)entries * sizeof(uint64_t);
    bool is_inline = true;
    for (int r = 0; r < entries; r++) {
        int reader = entries == 1 ? coll->args->root : r;
        size_t nbytes = reader == group->rank ? 0 : shm_out(group, reader).nbytes;
        table[r] = nbytes;
        is_inline = is_inline && nbytes <= room;
        room -= is_inline ? nbytes : 0;
    }
    for (int r = 0; is_inline && r < entries; r++) {
        if (table[r] != 0)
            memcpy(to, group->out[entries == 1 ? coll->args->root : r].data, table[r]);
        to += table[r];
    }
    cell->about.is_inline = is_inline;
    shm_store(&cell->flag, coll->number);
    shm_wake(group);
}

/* Compares what `writer` sends with what is expected here, and takes it when it is there already. */
static void take_table(shm_group *group, int writer)
{
    shm_coll *coll = &group->coll;
    shm_cell *cell = shm_cell_of(group, writer, coll->number);
    const uint64_t *table = (const uint64_t *)((unsigned char *)cell + SHM_LINE);
    int entries = table_entries(group);
    for (int r = 0; !cell->about.is_inline && r < entries; r++)
        coll->block_nbytes = table[r] > coll->block_nbytes ? (size_t)table[r] : coll->block_nbytes;
    if (!coll->is_reader || writer == group->rank)
        return;
    shm_span *in = &group->in[writer];
    size_t sent = (size_t)table[entries == 1 ? 0 : group->rank];
    if (sent != in->nbytes && coll->status == KITH_OK)
        coll->status = group->host->fail(
            KITH_ERR_TRUNCATED, "%s on group %s: rank %d sends %zu bytes to rank %d, which expects %zu",
            kith_coll_name(coll->args->kind), group->name, writer, sent, group->rank, in->nbytes);
    in->nbytes = shm_min(in->nbytes, sent);
    if (cell->about.is_inline) {
        const unsigned char *from = (const unsigned char *)(table + entries);
        for (int r = 0; entries > 1 && r < group->rank; r++)
            from += table[r];
        if (in->nbytes != 0)
            memcpy(in->data, from, in->nbytes);
        in->nbytes = 0;
    }
}

/* Reads the tables of all writers. False while one is missing. */
static bool take_tables(shm_group *group)
{
    shm_coll *coll = &group->coll;
    for (int r = coll->next_peer; r < group->size; r++) {
        coll->next_peer = r;
        if (!is_writer(group, r))
            continue;
        shm_cell *cell = shm_cell_of(group, r, coll->number);
        if (shm_load(&cell->flag) != coll->number)
            return false;
        take_table(group, r);
    }
    return true;
}

/* What travelled in the cell need not go through the ring. */
static void drop_inline(shm_group *group)
{
    shm_coll *coll = &group->coll;
    if (!coll->is_writer || !shm_cell_of(group, group->rank, coll->number)->about.is_inline)
        return;
    for (int r = 0; r < group->size; r++)
        if (r != group->rank)
            group->out[r].nbytes = 0;
}

/* Phase 2 is the staged path for what did not fit. */
bool shm_tables_step(shm_group *group)
{
    shm_coll *coll = &group->coll;
    if (coll->phase == 0) {
        if (coll->is_writer) {
            if (!shm_cells_ready(group))
                return false;
            publish_table(group);
        }
        coll->block_nbytes = 0;
        coll->phase = 1;
    }
    if (coll->phase == 1) {
        if (!take_tables(group))
            return false;
        drop_inline(group);
        shm_staged_begin(group);
        coll->phase = 2;
    }
    return shm_staged_step(group);
}
