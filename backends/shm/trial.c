/* backends/shm/trial.c - finding out which way is the faster one: through the rings, or through the kernel.
 *
 * Copies of process_vm_readv() and process_vm_writev() save one of two passes over the bytes and cost pinning pages.
 * Which of both weighs more differs between processors, kernels, collectives and sizes, and where cores are shared or
 * moved about it changes while a group lives. So nothing is assumed: of every EVERY collectives of a kind and a class
 * of sizes the first few go the one way, the next few the other (each leaves the caches in its own state), and each
 * rank keeps its fastest time of both. The next one begins with the answer: all ranks report their two times, rank 0
 * compares those of the slowest ranks and tells everybody.
 *
 * Reports and the answer have a word each: a rank reports again only when it has read the answer before, and rank 0
 * answers again only when all have reported.
 *
 * For messages the receiver chooses, so it tries by itself (shm_trial_message()).
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "internal.h"

#define TRIALS 8 /* of both ways together */
#define EVERY 256
#define UNIT_NBYTES 65536 /* times of a class are kept for this many bytes */

enum { RINGS, KERNEL };

/* A class spans a factor of four. */
static int size_class(size_t nbytes)
{
    int number = 0;
    for (size_t most = 65536; number < SHM_TRIAL_CLASSES - 1 && nbytes >= most; most *= 4)
        number++;
    return number;
}

/* Counts one more of a class. True when it is one of those that are timed; then *is_remote says which way it goes. */
static bool is_trial(shm_trial *trial, bool *is_remote)
{
    uint16_t turn = trial->calls;
    trial->calls = (uint16_t)((turn + 1) % EVERY);
    *is_remote = turn < TRIALS ? turn >= TRIALS / 2 : trial->is_remote;
    return turn < TRIALS;
}

static bool is_answer_due(const shm_trial *trial)
{
    return trial->calls == TRIALS + 1;
}

static void keep_fastest(shm_trial *trial, bool is_remote, int64_t ns, size_t nbytes)
{
    double each = (double)ns / (double)nbytes * UNIT_NBYTES;
    uint32_t rounded = each < 1 ? 1 : each < UINT32_MAX ? (uint32_t)each : UINT32_MAX;
    uint32_t *best = &trial->ns[is_remote ? KERNEL : RINGS];
    if (*best == 0 || rounded < *best)
        *best = rounded;
}

/* 0 stands for no time at all, since that way was not open; then the rings, which always are. */
static void take_answer(shm_trial *trial, bool is_remote)
{
    trial->is_remote = is_remote;
    trial->ns[RINGS] = trial->ns[KERNEL] = 0;
}

static bool is_kernel_faster(uint64_t rings, uint64_t kernel)
{
    return rings != 0 && kernel != 0 && kernel < rings;
}

/* ---- collectives ---- */

static shm_trial *trial_of(shm_group *group)
{
    return &group->trials[group->coll.args->kind][size_class(shm_share_nbytes(group))];
}

/* Equal on all ranks: the arguments that it looks at are. */
static bool has_choice(const shm_group *group)
{
    return group->has_remote && !group->coll.traits->has_own_sizes && !shm_cells_fits(group);
}

bool shm_trial_begin(shm_group *group)
{
    shm_coll *coll = &group->coll;
    coll->is_timed = coll->wants_remote = false;
    if (!has_choice(group))
        return false;
    if (group->instance->settings.is_cma_forced) {
        coll->wants_remote = true;
        return false;
    }
    shm_trial *trial = trial_of(group);
    coll->is_timed = is_trial(trial, &coll->wants_remote);
    if (coll->is_timed)
        coll->started_ns = shm_now_ns();
    if (!is_answer_due(trial))
        return false;
    coll->path = SHM_PATH_TRIAL;
    shm_report *mine = &group->blocks[group->rank].report;
    mine->ns[RINGS] = trial->ns[RINGS];
    mine->ns[KERNEL] = trial->ns[KERNEL];
    shm_store(&mine->number, coll->number);
    shm_wake(group);
    return true;
}

void shm_trial_end(shm_group *group)
{
    const shm_coll *coll = &group->coll;
    bool is_remote = coll->path == SHM_PATH_REMOTE;
    bool is_as_meant = is_remote ? coll->wants_remote : coll->path == SHM_PATH_STAGED || coll->path == SHM_PATH_SLICES;
    if (is_as_meant && is_remote == coll->wants_remote)
        keep_fastest(trial_of(group), is_remote, shm_now_ns() - coll->started_ns, shm_share_nbytes(group));
}

/* Rank 0: compares what all have reported. False while a report is missing. */
static bool compare_reports(shm_group *group, bool *is_remote)
{
    uint64_t slowest[2] = { 0, 0 };
    for (int r = 0; r < group->size; r++) {
        const shm_report *report = &group->blocks[r].report;
        if (shm_load(&report->number) != group->coll.number)
            return false;
        for (int way = RINGS; way <= KERNEL; way++)
            slowest[way] = report->ns[way] > slowest[way] ? report->ns[way] : slowest[way];
    }
    *is_remote = is_kernel_faster(slowest[RINGS], slowest[KERNEL]);
    return true;
}

bool shm_trial_step(shm_group *group)
{
    shm_coll *coll = &group->coll;
    uint64_t *word = &group->header->answer.value;
    bool is_remote = false;
    if (group->rank == 0) {
        if (!compare_reports(group, &is_remote))
            return false;
        shm_store(word, coll->number << 1 | (is_remote ? 1 : 0));
        shm_wake(group);
    } else {
        uint64_t answer = shm_load(word);
        if (answer >> 1 != coll->number)
            return false;
        is_remote = (answer & 1) != 0;
    }
    take_answer(trial_of(group), is_remote);
    coll->wants_remote = is_remote;
    return true;
}

/* ---- messages ---- */

bool shm_trial_message(shm_trial *trials, size_t nbytes, bool *is_timed)
{
    shm_trial *trial = &trials[size_class(nbytes)];
    bool is_remote;
    *is_timed = is_trial(trial, &is_remote);
    if (is_answer_due(trial)) {
        is_remote = is_kernel_faster(trial->ns[RINGS], trial->ns[KERNEL]);
        take_answer(trial, is_remote);
    }
    return is_remote;
}

void shm_trial_message_ended(shm_trial *trials, size_t nbytes, bool was_remote, int64_t ns)
{
    keep_fastest(&trials[size_class(nbytes)], was_remote, ns, nbytes);
}
