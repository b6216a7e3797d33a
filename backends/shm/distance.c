/* backends/shm/distance.c - measuring again, now and then, how far apart the cores are.
 *
 * Virtual machines move cores and schedulers move processes while a group lives, and which way is the fastest for a
 * large copy depends on it (choose.c). So every EVERY-th collective that has the choice begins with a few rounds of
 * ping-pong between ranks 0 and 1, about a microsecond; rank 0 tells everybody the answer, which counts from this
 * collective on. The fastest round counts: a rank that comes late or loses its core makes others slow, not all.
 *
 * There is one word for the answer. Ranks may be many collectives behind, since rings hold a lot, so rank 0 writes it
 * only when everybody has read the one before.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "internal.h"

#define EVERY 16
#define POLLS 2000 /* in one step, so that a round is not interrupted while the other rank answers */

/* Equal on all ranks: the arguments that it looks at are. */
bool shm_distance_is_due(shm_group *group)
{
    if (!group->has_remote || group->is_oversubscribed || group->instance->settings.is_cma_forced)
        return false;
    if (!shm_choose_depends_on_distance(group))
        return false;
    return group->distance_asked++ % EVERY == 0;
}

void shm_distance_begin(shm_group *group)
{
    group->coll.path = SHM_PATH_DISTANCE;
    group->coll.phase = 1; /* the round */
    group->coll.started_ns = 0;
    group->distance_ns = 0;
}

static bool poll_word(const uint64_t *word, uint64_t value)
{
    for (int polls = 0; polls < POLLS; polls++)
        if (shm_load(word) >= value)
            return true;
    return false;
}

/* Rank 0 serves, rank 1 returns. True when this rank has played all rounds. */
static bool play(shm_group *group)
{
    shm_coll *coll = &group->coll;
    uint64_t *mine = &group->blocks[group->rank].probe.value;
    const uint64_t *theirs = &group->blocks[1 - group->rank].probe.value;
    for (; coll->phase <= SHM_DISTANCE_ROUNDS; coll->phase++) {
        uint64_t number = group->distance_base + (uint64_t)coll->phase;
        if (group->rank == 0 && coll->started_ns == 0) {
            coll->started_ns = shm_now_ns();
            shm_store(mine, number);
            shm_wake(group);
        }
        if (!poll_word(theirs, number))
            return false;
        if (group->rank == 1) {
            shm_store(mine, number);
            shm_wake(group);
            continue;
        }
        uint64_t each = (uint64_t)(shm_now_ns() - coll->started_ns) / 2;
        group->distance_ns = group->distance_ns == 0 || each < group->distance_ns ? each : group->distance_ns;
        coll->started_ns = 0;
    }
    return true;
}

static bool have_all_read(const shm_group *group)
{
    for (int r = 1; r < group->size; r++)
        if (shm_load(&group->blocks[r].measured.value) < group->distance_number)
            return false;
    return true;
}

/* True when the answer is here. */
bool shm_distance_step(shm_group *group)
{
    shm_coll *coll = &group->coll;
    uint64_t *word = &group->header->distance.value, answer;
    if (group->rank <= 1 && !play(group))
        return false;
    if (group->rank == 0) {
        if (!have_all_read(group))
            return false;
        answer = coll->number << 1 | (group->distance_ns > SHM_FAR_NS);
        shm_store(word, answer);
    } else {
        answer = shm_load(word);
        if (answer >> 1 != coll->number)
            return false;
        shm_store(&group->blocks[group->rank].measured.value, coll->number);
    }
    shm_wake(group);
    group->distance_base += SHM_DISTANCE_ROUNDS;
    group->distance_number = coll->number;
    group->is_far = (answer & 1) != 0;
    return true;
}
