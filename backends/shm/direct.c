/* backends/shm/direct.c - collectives in the ranks' own buffers: nothing is staged.
 *
 * Either all buffers are mapped by all ranks (direct), or the kernel copies between processes (remote:
 * process_vm_readv and process_vm_writev, see remote.c). All ranks can reach all buffers, so the work is divided as is
 * best:
 *
 *     all_reduce           slice r of all inputs -> slice r of all outputs
 *     reduce               slice r of all inputs -> slice r of root's output
 *     reduce_scatter       block r of all inputs -> the own output
 *     all_gather, all_to_all   the others' blocks -> the own output
 *     broadcast, scatter   each reader takes the first (p - 1)/p of its block, root gives the rest to all
 *     gather               each writer gives the first (p - 1)/p of its block, root takes the rest of all
 *
 * On the remote path a rank reads the other inputs of a piece into its scratch, reduces there and writes results out.
 *
 * Two hand-shakes: the descriptors say that all have come (choose.c), `done` says that a rank's share is finished; an
 * operation ends when all are done, since until then others work in this rank's buffers. In place needs nothing: an
 * element is read and written by one rank only (the forms where that is not so are not announced as mapped).
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "internal.h"
#include <errno.h>

#define PIECE_NBYTES 4194304       /* of the share, in one step */
#define REMOTE_PIECE_NBYTES 131072 /* ... of each input, so that it is still in the cache when it is reduced */

enum { PHASE_WORK, PHASE_DONE };

/* ---- reductions: the share is [begin, end) of a block ---- */

static void share_slice(shm_group *group)
{
    shm_coll *coll = &group->coll;
    size_t ranks = (size_t)group->size, lines = (coll->block_nbytes + SHM_LINE - 1) / SHM_LINE;
    size_t each = (lines + ranks - 1) / ranks * SHM_LINE;
    coll->begin = shm_min(each * (size_t)group->rank, coll->block_nbytes);
    coll->end = shm_min(coll->begin + each, coll->block_nbytes);
}

/* The inputs of a piece; remote ones are fetched. False when that failed. */
static bool find_sources(shm_group *group, size_t at, size_t nbytes)
{
    const shm_coll *coll = &group->coll;
    if (!coll->traits->is_multicast)
        at += (size_t)(shm_out(group, group->rank).data - shm_out(group, 0).data);
    unsigned char *scratch = group->scratch + coll->piece_nbytes; /* the first piece is for the result */
    for (int r = 0; r < group->size; r++) {
        group->sources[r] = group->far_send[r] + at;
        if (coll->path != SHM_PATH_REMOTE || r == group->rank)
            continue;
        if (!shm_remote_read(group, r, scratch, group->far_send[r] + at, nbytes))
            return false;
        group->sources[r] = scratch;
        scratch += coll->piece_nbytes;
    }
    return true;
}

/* Where the results of a piece go that can be stored to. */
static int find_targets(shm_group *group, size_t at)
{
    const shm_coll *coll = &group->coll;
    bool is_remote = coll->path == SHM_PATH_REMOTE;
    int root = coll->args->root, targets = 0;
    if (!coll->traits->is_multicast || (is_remote && coll->is_reader)) {
        group->targets[targets++] = group->far_recv[group->rank] + at;
    } else if (is_remote) {
        group->targets[targets++] = group->scratch;
    } else if (coll->traits->is_root_reading) {
        group->targets[targets++] = group->far_recv[root] + at;
    } else {
        for (; targets < group->size; targets++)
            group->targets[targets] = group->far_recv[targets] + at;
    }
    return targets;
}

/* Remote: writes a result to all other ranks that want it. */
static bool send_result(shm_group *group, size_t at, size_t nbytes)
{
    const shm_coll *coll = &group->coll;
    if (!coll->traits->is_multicast)
        return true;
    for (int k = 1; k < group->size; k++) {
        int r = (group->rank + k) % group->size;
        bool is_wanted = !coll->traits->is_root_reading || r == coll->args->root;
        if (is_wanted && !shm_remote_write(group, r, group->far_recv[r] + at, group->targets[0], nbytes))
            return false;
    }
    return true;
}

static bool reduce_piece(shm_group *group, size_t at, size_t nbytes)
{
    shm_coll *coll = &group->coll;
    const kith_be_reducer *reducer = coll->args->reducer;
    if (!find_sources(group, at, nbytes))
        return false;
    int targets = find_targets(group, at);
    bool is_remote = coll->path == SHM_PATH_REMOTE;
    unsigned flags = !is_remote && shm_result_nbytes(group) >= group->stream_nbytes ? KITH_BE_REDUCE_STREAM : 0;
    reducer->reduce(reducer, group->sources, group->size, group->targets, targets, nbytes / reducer->nbytes, flags);
    return !is_remote || send_result(group, at, nbytes);
}

/* ---- copies: the share is the sum of parts of blocks, one after the other ---- */

typedef struct copy {
    unsigned char *to;
    const unsigned char *from;
    size_t nbytes;
    bool is_push; /* `to` is the other rank's, else `from` */
} copy;

/* What this rank copies of root's block for `other`, which is at one of the ends. */
static copy share_of_rooted(shm_group *group, int other)
{
    const shm_coll *coll = &group->coll;
    int root = coll->args->root, me = group->rank;
    size_t block = coll->block_nbytes, at = (size_t)other * block;
    size_t first = shm_min(shm_round_up(block / (size_t)group->size * (size_t)(group->size - 1), SHM_LINE), block);
    size_t start = me == root ? first : 0;
    copy result = { .nbytes = me == root ? block - first : first };
    if (coll->traits->is_root_writing) {
        at = coll->traits->is_multicast ? 0 : at;
        result.from = (me == root ? shm_out(group, other).data : group->far_send[root] + at) + start;
        result.to = (me == root ? group->far_recv[other] : shm_in(group, root).data) + start;
        result.is_push = me == root;
    } else {
        result.from = (me == root ? group->far_send[other] : shm_out(group, root).data) + start;
        result.to = (me == root ? shm_in(group, other).data : group->far_recv[root] + at) + start;
        result.is_push = me != root;
    }
    return result;
}

/* What this rank copies of the blocks between it and r. */
static copy share_of_copy(shm_group *group, int r)
{
    const shm_coll *coll = &group->coll;
    int me = group->rank, root = coll->args->root;
    if (r == me) {
        shm_span in = shm_in(group, me), out = shm_out(group, me);
        bool is_needed = coll->has_own && in.data != out.data;
        return (copy){ in.data, out.data, is_needed ? shm_min(in.nbytes, out.nbytes) : 0, false };
    }
    if (!coll->traits->is_root_writing && !coll->traits->is_root_reading) {
        size_t at = coll->traits->is_multicast ? 0 : (size_t)me * coll->block_nbytes;
        return (copy){ shm_in(group, r).data, group->far_send[r] + at, shm_in(group, r).nbytes, false };
    }
    if (me != root && r != root)
        return (copy){ NULL, NULL, 0, false };
    return share_of_rooted(group, me == root ? r : me);
}

static bool copy_part(shm_group *group, int r, const copy *c, size_t at, size_t nbytes)
{
    if (group->coll.path == SHM_PATH_DIRECT || r == group->rank) {
        bool is_shared = group->coll.traits->is_multicast; /* others read the same input: it shall stay in the cache */
        size_t result = is_shared ? group->coll.block_nbytes : shm_result_nbytes(group);
        shm_copy(group, c->to + at, c->from + at, nbytes, result);
        return true;
    }
    return c->is_push ? shm_remote_write(group, r, c->to + at, c->from + at, nbytes)
                      : shm_remote_read(group, r, c->to + at, c->from + at, nbytes);
}

/* Copies the next PIECE_NBYTES of the share. next_peer: the block, at: how much of its part. */
static bool copy_piece(shm_group *group)
{
    shm_coll *coll = &group->coll;
    size_t left = PIECE_NBYTES;
    while (coll->next_peer < group->size && left > 0) {
        int r = (group->rank + coll->next_peer) % group->size;
        copy share = share_of_copy(group, r);
        size_t part = shm_min(left, share.nbytes - coll->at);
        if (part != 0 && !copy_part(group, r, &share, coll->at, part))
            return false;
        coll->at += part;
        left -= part;
        if (coll->at == share.nbytes) {
            coll->next_peer++;
            coll->at = 0;
        }
    }
    return true;
}

/* ---- the path ---- */

void shm_direct_begin(shm_group *group, bool is_remote)
{
    shm_coll *coll = &group->coll;
    coll->path = is_remote ? SHM_PATH_REMOTE : SHM_PATH_DIRECT;
    coll->phase = PHASE_WORK;
    coll->next_peer = 0;
    coll->at = coll->begin = 0;
    coll->end = shm_in(group, group->rank).nbytes;
    coll->piece_nbytes = PIECE_NBYTES;
    if (is_remote) /* scratch holds one piece of each rank */
        coll->piece_nbytes =
            shm_min(REMOTE_PIECE_NBYTES, group->scratch_nbytes / (size_t)group->size / SHM_LINE * SHM_LINE);
    if (coll->traits->is_reducing && coll->traits->is_multicast)
        share_slice(group);
}

/* The next piece of the share. */
static bool work(shm_group *group)
{
    shm_coll *coll = &group->coll;
    if (!coll->traits->is_reducing)
        return copy_piece(group);
    size_t nbytes = shm_min(coll->piece_nbytes, coll->end - coll->begin);
    if (nbytes != 0 && !reduce_piece(group, coll->begin, nbytes))
        return false;
    coll->begin += nbytes;
    return true;
}

static bool is_share_finished(const shm_group *group)
{
    const shm_coll *coll = &group->coll;
    return coll->traits->is_reducing ? coll->begin == coll->end : coll->next_peer == group->size;
}

/* The kernel refused what it allowed when the group was made. Mostly a process has ended, which everybody sees, and
 * remote.c has said which. Else nobody sees it but this rank, and the others would wait for it. */
static void fail_remote(shm_group *group)
{
    shm_coll *coll = &group->coll;
    if (coll->status != KITH_OK)
        return;
    coll->status = KITH_ERR_PEER_FAILED;
    if (errno == ESRCH)
        return;
    group->host->fail(KITH_ERR_PEER_FAILED, "%s on group %s: rank %d cannot reach the buffers of the others: %s",
                      kith_coll_name(coll->args->kind), group->name, group->rank, strerror(errno));
    shm_group_abort(group);
}

bool shm_direct_step(shm_group *group)
{
    shm_coll *coll = &group->coll;
    if (coll->phase == PHASE_WORK) {
        if (coll->status != KITH_OK || !shm_touch_begin(group))
            return false;
        bool is_well = work(group);
        if (!is_well)
            fail_remote(group); /* errno tells why */
        shm_touch_end(group);
        coll->moves++;
        if (!is_well || !is_share_finished(group))
            return false;
        coll->phase = PHASE_DONE;
        coll->next_peer = 0;
        shm_store(&group->blocks[group->rank].done.value, coll->number);
        shm_wake(group);
    }
    for (int r = coll->next_peer; r < group->size; r++) {
        coll->next_peer = r;
        if (r != group->rank && shm_load(&group->blocks[r].done.value) < coll->number)
            return false;
    }
    group->finished_min = coll->number;
    return true;
}
