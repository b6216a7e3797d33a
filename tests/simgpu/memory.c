/* tests/simgpu/memory.c - memory of the simulated devices, and pinned memory of the host.
 *
 * A region is one reserved range of addresses for each device. What the program is given are addresses of a range
 * without access, so that the host cannot touch it; the bytes lie in a second range at the same offset, and a third one
 * holds a shadow cell for each byte. Pinned memory is one region whose bytes lie where the program sees them.
 *
 * Addresses are handed out upwards and used again when the range, four times the device's memory, is through: what
 * points to freed memory points to nothing for a while. Between two buffers lies a gap. New memory is full of 0xff,
 * which is NaN in every floating type (of buffers above 64 MiB, the first 64 MiB).
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "engine.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { GAP = 512, PAGE = 4096, REMEMBERED = 4096, RANGES = 4, PINNED = SIM_MAX_DEVICES, REGIONS };

static const size_t poisoned_nbytes = (size_t)64 << 20;

typedef struct block {
    size_t from, nbytes; /* from: offset in the region */
    int device;
    bool is_leaving;
    const void *made_by;
    sim_pool *pool;
} block;

typedef struct region {
    char *seen, *alias;
    uint32_t *cells;
    size_t range_nbytes, cursor, used_nbytes;
    block *blocks; /* sorted */
    size_t count, room;
    block freed[REMEMBERED];
    size_t freed_count;
} region;

static region regions[REGIONS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void *reserve(size_t nbytes, int protection)
{
    void *range = mmap(NULL, nbytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (range == MAP_FAILED) {
        fprintf(stderr, "simgpu: no %zu bytes of addresses; KITH_SIMGPU_MEMORY can be smaller\n", nbytes);
        abort();
    }
    madvise(range, nbytes, MADV_DONTDUMP);
    return range;
}

static void open_region(region *r, bool is_pinned)
{
    if (r->seen != NULL)
        return;
    r->range_nbytes = RANGES * ((sim_settings_get()->memory_nbytes + PAGE - 1) / PAGE * PAGE);
    r->seen = reserve(r->range_nbytes, PROT_NONE);
    r->alias = is_pinned ? r->seen : reserve(r->range_nbytes, PROT_READ | PROT_WRITE);
    r->cells = reserve(r->range_nbytes * sizeof *r->cells, PROT_READ | PROT_WRITE);
    r->cursor = GAP;
}

/* Number of blocks that begin at or before the offset. */
static size_t rank_of(const region *r, size_t offset)
{
    size_t low = 0, high = r->count;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (r->blocks[middle].from <= offset)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static block *block_at(const region *r, size_t offset)
{
    const size_t rank = rank_of(r, offset);
    if (rank == 0)
        return NULL;
    block *b = &r->blocks[rank - 1];
    return offset < b->from + b->nbytes ? b : NULL;
}

static region *region_of(const void *ptr)
{
    for (int i = 0; i < REGIONS; i++)
        if (regions[i].seen != NULL && (uintptr_t)ptr - (uintptr_t)regions[i].seen < regions[i].range_nbytes)
            return &regions[i];
    return NULL;
}

/* The first gap of need bytes that begins at `from` or later; range_nbytes when there is none. */
static size_t gap_from(const region *r, size_t from, size_t need)
{
    size_t rank = rank_of(r, from);
    if (rank > 0) {
        const block *before = &r->blocks[rank - 1];
        const size_t end = before->from + before->nbytes + GAP;
        from = from > end ? from : end;
    }
    for (;; rank++) {
        from = (from + GAP - 1) / GAP * GAP;
        const size_t end = rank < r->count ? r->blocks[rank].from : r->range_nbytes;
        if (from <= end && end - from >= need)
            return from;
        if (rank == r->count)
            return r->range_nbytes;
        from = r->blocks[rank].from + r->blocks[rank].nbytes + GAP;
    }
}

static void insert(region *r, const block *b)
{
    if (r->count == r->room) {
        r->room = r->room == 0 ? 64 : 2 * r->room;
        r->blocks = realloc(r->blocks, r->room * sizeof *r->blocks);
        if (r->blocks == NULL)
            abort();
    }
    const size_t rank = rank_of(r, b->from);
    memmove(r->blocks + rank + 1, r->blocks + rank, (r->count - rank) * sizeof *r->blocks);
    r->blocks[rank] = *b;
    r->count++;
}

/* Pinned memory has pages of its own, so that they can be closed when it is freed. */
static void *take(region *r, bool is_pinned, int device, size_t nbytes, sim_pool *pool, const void *made_by)
{
    const size_t unit = is_pinned ? PAGE : 1, whole = (nbytes + unit - 1) / unit * unit;
    const size_t need = whole + GAP + (is_pinned ? 2 * PAGE : 0);
    if (whole > sim_settings_get()->memory_nbytes - r->used_nbytes)
        return NULL;
    size_t from = gap_from(r, r->cursor, need);
    if (from == r->range_nbytes)
        from = gap_from(r, GAP, need);
    if (from == r->range_nbytes)
        return NULL;
    if (is_pinned)
        from = (from + PAGE - 1) / PAGE * PAGE;
    if (is_pinned && mprotect(r->seen + from, whole, PROT_READ | PROT_WRITE) != 0)
        return NULL;
    insert(r, &(block){ from, nbytes, device, false, made_by, pool });
    r->cursor = from + whole;
    r->used_nbytes += whole;
    memset(r->cells + from, 0, nbytes * sizeof *r->cells);
    memset(r->alias + from, 0xff, nbytes < poisoned_nbytes ? nbytes : poisoned_nbytes);
    return r->seen + from;
}

void *sim_memory_new(sim_kind kind, int device, size_t nbytes, sim_pool *pool, const void *made_by)
{
    const bool is_pinned = kind == SIM_PINNED;
    region *r = &regions[is_pinned ? PINNED : device];
    pthread_mutex_lock(&lock);
    open_region(r, is_pinned);
    void *ptr = nbytes > sim_settings_get()->memory_nbytes ? NULL : take(r, is_pinned, device, nbytes, pool, made_by);
    pthread_mutex_unlock(&lock);
    return ptr;
}

bool sim_memory_leave(sim_kind kind, const void *ptr, const char *api)
{
    char text[256];
    bool is_twice = false, is_fine = false;
    pthread_mutex_lock(&lock);
    region *r = region_of(ptr);
    if (r != NULL && (r == &regions[PINNED]) == (kind == SIM_PINNED)) {
        const size_t offset = (size_t)((const char *)ptr - r->seen);
        block *b = block_at(r, offset);
        if (b != NULL && b->from == offset) {
            is_twice = b->is_leaving;
            is_fine = !is_twice;
            b->is_leaving = true;
        }
    }
    pthread_mutex_unlock(&lock);
    if (is_twice)
        sim_fail("%s(%p): cudaFreeAsync() was called for it before", api, ptr);
    else if (!is_fine)
        sim_fail("%s(%p): not the start of a live buffer of %s; %s", api, ptr,
                 kind == SIM_PINNED ? "pinned memory" : "device memory", sim_memory_explain(ptr, 1, text, sizeof text));
    return is_fine;
}

/* Gives whole pages back to the system, where that is worth a call. */
static void give_back(char *from, size_t nbytes)
{
    char *first = (char *)(((uintptr_t)from + PAGE - 1) / PAGE * PAGE), *end = from + nbytes;
    end -= (uintptr_t)end % PAGE;
    if (end > first && end - first >= 64 * PAGE)
        madvise(first, (size_t)(end - first), MADV_DONTNEED);
}

void sim_memory_gone(const void *ptr)
{
    pthread_mutex_lock(&lock);
    region *r = region_of(ptr);
    block *b = r == NULL ? NULL : block_at(r, (size_t)((const char *)ptr - r->seen));
    if (b != NULL) {
        const bool is_pinned = r == &regions[PINNED];
        const size_t whole = is_pinned ? (b->nbytes + PAGE - 1) / PAGE * PAGE : b->nbytes;
        r->freed[r->freed_count++ % REMEMBERED] = *b;
        r->used_nbytes -= whole;
        give_back(r->alias + b->from, b->nbytes);
        give_back((char *)(r->cells + b->from), b->nbytes * sizeof *r->cells);
        if (is_pinned)
            mprotect(r->seen + b->from, whole, PROT_NONE);
        const size_t rank = (size_t)(b - r->blocks);
        memmove(b, b + 1, (r->count - rank - 1) * sizeof *b);
        r->count--;
    }
    pthread_mutex_unlock(&lock);
}

bool sim_place_find(const void *ptr, sim_place *place)
{
    pthread_mutex_lock(&lock);
    const region *r = region_of(ptr);
    const block *b = r == NULL ? NULL : block_at(r, (size_t)((const char *)ptr - r->seen));
    if (b != NULL)
        *place = (sim_place){ r == &regions[PINNED] ? SIM_PINNED : SIM_DEVICE,
                              b->device,
                              (uintptr_t)r->seen + b->from,
                              b->nbytes,
                              r->alias + b->from,
                              r->cells + b->from,
                              b->is_leaving,
                              b->made_by,
                              b->pool };
    pthread_mutex_unlock(&lock);
    return b != NULL;
}

bool sim_memory_is_ours(const void *ptr)
{
    return region_of(ptr) != NULL;
}

size_t sim_memory_used(int device)
{
    pthread_mutex_lock(&lock);
    const size_t used = regions[device].used_nbytes;
    pthread_mutex_unlock(&lock);
    return used;
}

/* Newest first: addresses are used again. */
static const block *freed_at(const region *r, size_t offset)
{
    const size_t known = r->freed_count < REMEMBERED ? r->freed_count : REMEMBERED;
    for (size_t i = 1; i <= known; i++) {
        const block *b = &r->freed[(r->freed_count - i) % REMEMBERED];
        if (offset - b->from < b->nbytes)
            return b;
    }
    return NULL;
}

/* Between buffers: which one is nearer. */
static void explain_gap(const region *r, size_t offset, const char *name, char *text, size_t text_nbytes)
{
    const size_t rank = rank_of(r, offset), far = SIZE_MAX;
    const block *before = rank > 0 ? &r->blocks[rank - 1] : NULL, *after = rank < r->count ? &r->blocks[rank] : NULL;
    const size_t behind_it = before != NULL ? offset - before->from - before->nbytes : far;
    const size_t before_it = after != NULL ? after->from - offset : far;
    if (before == NULL && after == NULL)
        snprintf(text, text_nbytes, "it points to where %s has no buffer", name);
    else if (behind_it <= before_it)
        snprintf(text, text_nbytes, "it points %zu bytes behind the end of a buffer of %zu bytes on %s", behind_it,
                 before->nbytes, name);
    else
        snprintf(text, text_nbytes, "it points %zu bytes before the begin of a buffer of %zu bytes on %s", before_it,
                 after->nbytes, name);
}

static void explain_in(const region *r, size_t offset, size_t nbytes, char *text, size_t text_nbytes)
{
    const block *b = block_at(r, offset), *freed = freed_at(r, offset);
    char name[32];
    if (r == &regions[PINNED])
        snprintf(name, sizeof name, "pinned memory");
    else
        snprintf(name, sizeof name, "device %d", (int)(r - regions));
    if (b != NULL)
        snprintf(text, text_nbytes, "it points to byte %zu of a buffer of %zu bytes on %s, and %zu bytes are wanted",
                 offset - b->from, b->nbytes, name, nbytes);
    else if (freed != NULL)
        snprintf(text, text_nbytes, "it points to byte %zu of a buffer of %zu bytes on %s that was freed",
                 offset - freed->from, freed->nbytes, name);
    else
        explain_gap(r, offset, name, text, text_nbytes);
}

const char *sim_memory_explain(const void *ptr, size_t nbytes, char *text, size_t text_nbytes)
{
    pthread_mutex_lock(&lock);
    const region *r = region_of(ptr);
    if (r != NULL)
        explain_in(r, (size_t)((const char *)ptr - r->seen), nbytes, text, text_nbytes);
    else
        snprintf(text, text_nbytes, "%s",
                 ptr == NULL ? "it is NULL" : "it is memory of the host that CUDA does not know");
    pthread_mutex_unlock(&lock);
    return text;
}

int sim_memory_leaks(char *text, size_t text_nbytes)
{
    int count = 0;
    char where[128];
    text[0] = '\0';
    pthread_mutex_lock(&lock);
    for (int i = 0; i < REGIONS; i++) {
        const region *r = &regions[i];
        if (r->count == 0)
            continue;
        size_t length = strlen(text), nbytes = 0;
        for (size_t j = 0; j < r->count; j++)
            nbytes += r->blocks[j].nbytes;
        length +=
            (size_t)snprintf(text + length, text_nbytes - length, "%s%zu buffers of ", count > 0 ? ", " : "", r->count);
        if (i == PINNED)
            length += (size_t)snprintf(text + length, text_nbytes - length, "pinned memory");
        else
            length += (size_t)snprintf(text + length, text_nbytes - length, "device %d", i);
        snprintf(text + length, text_nbytes - length, " (%zu bytes; the first has %zu bytes and was made by %s)",
                 nbytes, r->blocks[0].nbytes, sim_where(r->blocks[0].made_by, where, sizeof where));
        count += (int)r->count;
    }
    pthread_mutex_unlock(&lock);
    return count;
}

/* ---- for the libraries above ---- */

int sim_memory_of(const void *ptr, int *device, void **from, size_t *nbytes)
{
    sim_place place;
    if (!sim_place_find(ptr, &place))
        return 0;
    if (device != NULL)
        *device = place.device;
    if (from != NULL)
        *from = (void *)place.from;
    if (nbytes != NULL)
        *nbytes = place.nbytes;
    return (int)place.kind;
}
