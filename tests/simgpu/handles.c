/* tests/simgpu/handles.c - which handles are alive: streams, events, and those of the libraries above.
 *
 * A set of pointers with their kind, by open addressing. The objects behind handles of the runtime are never freed, so
 * a pointer that once was a stream is never one again by luck.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "engine.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct entry {
    const void *handle; /* NULL: free; TAKEN_OUT: was removed */
    const char *kind;
} entry;

static const char taken_out = 0;
static entry *table;
static size_t room, used; /* used counts removed ones too */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static size_t start_of(const void *handle)
{
    return (size_t)(((uintptr_t)handle >> 4) * 0x9e3779b97f4a7c15u >> 20) & (room - 1);
}

static entry *find(const char *kind, const void *handle)
{
    if (room == 0 || handle == NULL)
        return NULL;
    for (size_t i = start_of(handle); table[i].handle != NULL; i = (i + 1) & (room - 1))
        if (table[i].handle == handle && strcmp(table[i].kind, kind) == 0)
            return &table[i];
    return NULL;
}

static void put(const char *kind, const void *handle)
{
    size_t i = start_of(handle);
    while (table[i].handle != NULL)
        i = (i + 1) & (room - 1);
    table[i] = (entry){ handle, kind };
    used++;
}

static void make_room(void)
{
    if (2 * (used + 1) < room)
        return;
    entry *old = table;
    const size_t old_room = room;
    size_t alive = 0;
    for (size_t i = 0; i < old_room; i++)
        alive += old[i].handle != NULL && old[i].handle != &taken_out;
    for (room = 256; room < 4 * (alive + 1);)
        room *= 2;
    table = calloc(room, sizeof *table);
    if (table == NULL)
        abort();
    used = 0;
    for (size_t i = 0; i < old_room; i++)
        if (old[i].handle != NULL && old[i].handle != &taken_out)
            put(old[i].kind, old[i].handle);
    free(old);
}

void sim_handle_add(const char *kind, const void *handle)
{
    pthread_mutex_lock(&lock);
    make_room();
    put(kind, handle);
    pthread_mutex_unlock(&lock);
}

bool sim_handle_known(const char *kind, const void *handle)
{
    pthread_mutex_lock(&lock);
    const bool is_there = find(kind, handle) != NULL;
    pthread_mutex_unlock(&lock);
    return is_there;
}

int sim_handle_is_live(const char *kind, const void *handle)
{
    return sim_handle_known(kind, handle);
}

int sim_handle_remove(const char *kind, const void *handle)
{
    pthread_mutex_lock(&lock);
    entry *one = find(kind, handle);
    if (one != NULL)
        one->handle = &taken_out;
    pthread_mutex_unlock(&lock);
    if (one == NULL)
        sim_fail("%p is not %s: it was released before, or never made", handle, kind);
    return one == NULL;
}

int sim_handle_leaks(char *text, size_t text_nbytes)
{
    int count = 0;
    text[0] = '\0';
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < room; i++) {
        if (table[i].handle == NULL || table[i].handle == &taken_out)
            continue;
        int alike = 1; /* of this kind; counted at the first */
        for (size_t j = i + 1; j < room; j++)
            if (table[j].handle != NULL && table[j].handle != &taken_out && strcmp(table[j].kind, table[i].kind) == 0) {
                alike++;
                table[j].handle = &taken_out;
            }
        const size_t length = strlen(text);
        snprintf(text + length, text_nbytes - length, "%s%s (%d of them)", count > 0 ? ", " : "", table[i].kind, alike);
        count += alike;
    }
    pthread_mutex_unlock(&lock);
    return count;
}
