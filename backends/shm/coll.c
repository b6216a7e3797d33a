/* backends/shm/coll.c - starting, testing and ending collectives; which path they take.
 *
 * One collective is active on a group at a time; its state is group->coll. start chooses a path and takes the first
 * steps, so a small collective whose peers came first is complete when start returns. After the call that says so the
 * own buffers are the caller's again.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "internal.h"
#include <sched.h>

#define EAGER_POLLS 32   /* without a pause between them: one takes up to 50 ns, a small operation 200 */
#define YIELD_NS 1000000 /* of yielding before a blocking call sleeps: waking many ranks costs more than their turns */
#define SLEEP_NS 1000000

/* ---- one rank ---- */

static void run_alone(shm_group *group)
{
    const kith_be_coll *args = group->coll.args;
    shm_span out = shm_out(group, 0), in = shm_in(group, 0);
    size_t nbytes = shm_min(out.nbytes, in.nbytes);
    if (nbytes == 0)
        return;
    if (args->reducer != NULL) {
        const void *source = out.data;
        void *target = in.data;
        args->reducer->reduce(args->reducer, &source, 1, &target, 1, nbytes / args->reducer->nbytes, 0);
    } else if (out.data != in.data) {
        memmove(in.data, out.data, nbytes);
    }
}

/* ---- paths ---- */

void shm_choose_unmapped(shm_group *group)
{
    shm_coll *coll = &group->coll;
    if (coll->traits->is_multicast && coll->traits->is_reducing && (group->size > 2 || coll->block_nbytes >= 262144)) {
        coll->path = SHM_PATH_SLICES;
        shm_slices_begin(group);
    } else {
        coll->path = SHM_PATH_STAGED;
        shm_staged_begin(group);
    }
}

static void choose_path(shm_group *group)
{
    shm_coll *coll = &group->coll;
    if (coll->traits->has_own_sizes)
        coll->path = SHM_PATH_TABLES;
    else if (shm_choose_applies(group))
        coll->path = SHM_PATH_CHOOSE;
    else if (shm_cells_fits(group))
        coll->path = SHM_PATH_CELLS;
    else
        shm_choose_unmapped(group);
}

/* The paths behind the answer start from their beginning. */
static bool agree_on_way(shm_group *group)
{
    if (!shm_trial_step(group))
        return false;
    group->coll.phase = group->coll.next_peer = 0;
    group->coll.moves++;
    choose_path(group);
    return shm_path_step(group);
}

bool shm_path_step(shm_group *group)
{
    switch (group->coll.path) {
    case SHM_PATH_ALONE:
        run_alone(group);
        return true;
    case SHM_PATH_CELLS:
        return shm_cells_step(group);
    case SHM_PATH_TABLES:
        return shm_tables_step(group);
    case SHM_PATH_TRIAL:
        return agree_on_way(group);
    case SHM_PATH_STAGED:
        return shm_staged_step(group);
    case SHM_PATH_SLICES:
        return shm_slices_step(group);
    case SHM_PATH_CHOOSE:
        return shm_choose_step(group);
    case SHM_PATH_DIRECT:
    case SHM_PATH_REMOTE:
        return shm_direct_step(group);
    }
    return true;
}

static inline void complete(shm_group *group)
{
    group->coll.is_active = false;
    if (group->coll.is_timed)
        shm_trial_end(group);
}

bool shm_coll_advance(shm_group *group)
{
    if (group->coll.is_active && shm_path_step(group)) {
        complete(group);
        group->coll.moves++;
    }
    return !group->coll.is_active;
}

static void begin(shm_group *group, const kith_be_coll *args)
{
    shm_coll *coll = &group->coll;
    const shm_traits *traits = &shm_traits_of[args->kind];
    bool is_root = group->rank == args->root, is_rooted = traits->is_root_writing || traits->is_root_reading;
    coll->args = args;
    coll->traits = traits;
    coll->number = ++group->number;
    shm_store(&group->blocks[group->rank].started.value, coll->number);
    coll->phase = coll->next_peer = 0;
    coll->is_active = true;
    coll->is_writer = !is_rooted || is_root == traits->is_root_writing;
    coll->is_reader = !is_rooted || is_root == traits->is_root_reading;
    coll->has_own = !traits->is_reducing && (!is_rooted || is_root);
    coll->status = KITH_OK;
    shm_blocks_find(group);
    coll->is_timed = false;
    if (group->size == 1)
        coll->path = SHM_PATH_ALONE;
    else if (!shm_trial_begin(group))
        choose_path(group);
    group->polls = 0;
}

kith_status shm_coll_start(void *group_, const kith_be_coll *args, kith_be_slot *slot)
{
    shm_group *group = group_;
    (void)slot;
    begin(group, args);
    shm_coll_advance(group);
    return KITH_OK;
}

/* For fruitless steps. Other paths go on after a failure, so that the peers complete; this one cannot. */
static kith_status check(shm_group *group)
{
    if (group->coll.path == SHM_PATH_REMOTE && group->coll.status != KITH_OK)
        return group->coll.status;
    return shm_group_check(group);
}

kith_status shm_coll_test(void *group_, kith_be_slot *slot, int *is_done)
{
    shm_group *group = group_;
    if (shm_coll_advance(group)) {
        *is_done = 1;
        return group->coll.status;
    }
    *is_done = 0;
    kith_status status = check(group);
    if (status != KITH_OK)
        shm_coll_cancel(group, slot);
    return status;
}

/* What a blocking call does when spinning has not helped. On a loaded machine one yield can last for milliseconds, so
 * the clock is read after each. */
static kith_status wait_long(shm_group *group)
{
    int64_t since = shm_now_ns(), now = since;
    while (!shm_coll_advance(group)) {
        kith_status status = check(group);
        if (status != KITH_OK) {
            shm_coll_cancel(group, NULL);
            return status;
        }
        if (now - since < YIELD_NS)
            sched_yield();
        else
            shm_idle(group->instance, SLEEP_NS);
        now = shm_now_ns();
    }
    return group->coll.status;
}

kith_status shm_coll_run(void *group_, const kith_be_coll *args)
{
    shm_group *group = group_;
    begin(group, args);
    int spin = group->host->spin;
    for (int polls = 0; !shm_path_step(group); polls++) {
        if (polls >= spin)
            return wait_long(group);
        if (polls >= EAGER_POLLS)
            shm_pause();
    }
    complete(group);
    return group->coll.status;
}

/* On the other paths only this rank touches its buffers. A rank that waits for descriptors may have told its own
 * already. */
void shm_coll_cancel(void *group_, kith_be_slot *slot)
{
    shm_group *group = group_;
    (void)slot;
    if (!group->coll.is_active)
        return;
    group->coll.is_active = false;
    if (group->coll.path >= SHM_PATH_CHOOSE)
        shm_touch_forbid(group);
}

void shm_coll_missing(void *group_, kith_be_slot *slot, unsigned char *is_missing)
{
    shm_group *group = group_;
    (void)slot;
    for (int r = 0; r < group->size; r++)
        is_missing[r] = shm_load(&group->blocks[r].started.value) < group->coll.number;
}
