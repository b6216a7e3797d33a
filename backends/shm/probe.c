/* backends/shm/probe.c - what works between the members of a new group, and how far apart their cores are.
 *
 * process_vm_readv and process_vm_writev: every rank shows a page; every other rank reads a number from it, writes one
 * into its own place of it and reads that back. One refusal on one rank and nobody uses them.
 *
 * Hand-over of a flag: ranks 0 and 1 play ping-pong for a moment, when there are cores for both. Everybody takes rank
 * 0's measurement. Virtual machines move cores about, so it is a hint for choosing between ways that are both right.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "internal.h"

#define ROUNDS 64
#define BATCHES 4
#define PATIENCE_NS 2000000
#define PAGE_WORDS 512 /* places for this many ranks; larger groups do without */

typedef struct page {
    uint64_t address, number;
} page;

typedef struct finding {
    uint64_t flag_ns;
    uint64_t has_remote;
} finding;

static bool try_remote(shm_group *group, const page *pages)
{
    for (int r = 0; r < group->size; r++) {
        if (r == group->rank)
            continue;
        unsigned char *far = (unsigned char *)(uintptr_t)pages[r].address;
        unsigned char *place = far + (size_t)group->rank * sizeof(uint64_t);
        uint64_t number = 0, mine = (uint64_t)group->rank + 1000, back = 0;
        const unsigned char *number_at = far + PAGE_WORDS * sizeof(uint64_t);
        if (!shm_remote_read(group, r, &number, number_at, sizeof number) || number != pages[r].number)
            return false;
        if (!shm_remote_write(group, r, place, &mine, sizeof mine) ||
            !shm_remote_read(group, r, &back, place, sizeof back) || back != mine)
            return false;
    }
    return true;
}

/* Waits for the other's probe word; false when it takes too long. */
static bool wait_for(const uint64_t *word, uint64_t value, int64_t until)
{
    for (unsigned polls = 1; shm_load(word) < value; polls++)
        if (polls % 256 == 0 && shm_now_ns() > until)
            return false;
    return true;
}

static uint64_t measure_flag(shm_group *group)
{
    if (group->rank > 1 || group->size < 2 || group->is_oversubscribed)
        return 0;
    uint64_t *mine = &group->blocks[group->rank].probe.value;
    const uint64_t *theirs = &group->blocks[1 - group->rank].probe.value;
    int64_t until = shm_now_ns() + PATIENCE_NS, best = 0;
    for (uint64_t batch = 0; batch < BATCHES; batch++) {
        int64_t start = shm_now_ns();
        for (uint64_t k = 1; k <= ROUNDS; k++) {
            uint64_t number = batch * ROUNDS + k;
            if (group->rank == 0)
                shm_store(mine, number);
            if (!wait_for(theirs, number, until))
                return (uint64_t)best;
            if (group->rank == 1)
                shm_store(mine, number);
        }
        int64_t each = (shm_now_ns() - start) / (2 * ROUNDS);
        best = batch > 0 && (best == 0 || each < best) ? each : best;
    }
    return (uint64_t)best;
}

kith_status shm_probe(shm_group *group, kith_status status)
{
    bool is_asked = group->instance->settings.use_cma && !group->is_one_process && group->size <= PAGE_WORDS;
    uint64_t *words = shm_new(group->host, PAGE_WORDS + 1, sizeof *words);
    page mine = { (uint64_t)(uintptr_t)words, (uint64_t)group->rank + 77 },
         *pages = shm_new(group->host, (size_t)group->size, sizeof *pages);
    finding found = { 0, 0 }, *all = shm_new(group->host, (size_t)group->size, sizeof *all);
    if (status == KITH_OK && (words == NULL || pages == NULL || all == NULL))
        status = group->host->fail(KITH_ERR_NO_MEMORY, "no memory to probe group %s", group->name);
    if (status == KITH_OK)
        words[PAGE_WORDS] = mine.number;
    status = group->host->exchange(group->cookie, status, &mine, sizeof mine, pages);
    if (status == KITH_OK) {
        found.flag_ns = measure_flag(group);
        found.has_remote = is_asked && try_remote(group, pages);
        status = group->host->exchange(group->cookie, status, &found, sizeof found, all);
    }
    group->has_remote = status == KITH_OK && is_asked;
    for (int r = 0; r < group->size && group->has_remote; r++)
        group->has_remote = all[r].has_remote != 0;
    group->is_far = status == KITH_OK && all[0].flag_ns > SHM_FAR_NS;
    group->distance_base = BATCHES * ROUNDS;
    shm_delete(group->host, words);
    shm_delete(group->host, pages);
    shm_delete(group->host, all);
    return status;
}
