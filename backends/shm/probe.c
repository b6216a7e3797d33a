/* backends/shm/probe.c - what works between the members of a new group.
 *
 * process_vm_readv and process_vm_writev: every rank shows a page; every other rank reads a number from it, writes one
 * into its own place of it and reads that back. One refusal on one rank and nobody uses them.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "internal.h"

#define PAGE_WORDS 512 /* places for this many ranks; larger groups do without */

typedef struct page {
    uint64_t address, number;
} page;

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

kith_status shm_probe(shm_group *group, kith_status status)
{
    bool is_asked = group->instance->settings.use_cma && !group->is_one_process && group->size <= PAGE_WORDS;
    uint64_t *words = shm_new(group->host, PAGE_WORDS + 1, sizeof *words);
    page mine = { (uint64_t)(uintptr_t)words, (uint64_t)group->rank + 77 },
         *pages = shm_new(group->host, (size_t)group->size, sizeof *pages);
    uint64_t has_remote = 0, *all = shm_new(group->host, (size_t)group->size, sizeof *all);
    if (status == KITH_OK && (words == NULL || pages == NULL || all == NULL))
        status = group->host->fail(KITH_ERR_NO_MEMORY, "no memory to probe group %s", group->name);
    if (status == KITH_OK)
        words[PAGE_WORDS] = mine.number;
    status = group->host->exchange(group->cookie, status, &mine, sizeof mine, pages);
    if (status == KITH_OK) {
        has_remote = is_asked && try_remote(group, pages);
        status = group->host->exchange(group->cookie, status, &has_remote, sizeof has_remote, all);
    }
    group->has_remote = status == KITH_OK && is_asked;
    for (int r = 0; r < group->size && group->has_remote; r++)
        group->has_remote = all[r] != 0;
    shm_delete(group->host, words);
    shm_delete(group->host, pages);
    shm_delete(group->host, all);
    return status;
}
