/* topology/name_map.c - see name_map.h. Open addressing, FNV-1a.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "name_map.h"

#include "grow.h"
#include <stdint.h>
#include <string.h>

typedef struct ki_name_entry {
    const char *name; /* NULL: free */
    size_t length;
    uint64_t hash;
    int number;
} ki_name_entry;

static uint64_t hash_of(const char *name, size_t length)
{
    uint64_t hash = 14695981039346656037u;
    for (size_t i = 0; i < length; i++)
        hash = (hash ^ (unsigned char)name[i]) * 1099511628211u;
    return hash ^ hash >> 29; /* the low bits alone are weak */
}

/* Where the name is, or the free place where it belongs. */
static ki_name_entry *place_of(ki_name_entry *entries, size_t room, const char *name, size_t length, uint64_t hash)
{
    size_t at = (size_t)hash & (room - 1);
    while (entries[at].name != NULL &&
           (entries[at].hash != hash || entries[at].length != length || memcmp(entries[at].name, name, length) != 0))
        at = (at + 1) & (room - 1);
    return &entries[at];
}

int ki_name_map_get(const ki_name_map *map, const char *name, size_t length)
{
    if (map->room == 0)
        return -1;
    const ki_name_entry *entry = place_of(map->entries, map->room, name, length, hash_of(name, length));
    return entry->name != NULL ? entry->number : -1;
}

static bool grow(ki_name_map *map)
{
    size_t room = map->room == 0 ? 64 : 2 * map->room;
    ki_name_entry *entries = (ki_name_entry *)ki_array(room, sizeof *entries);
    if (entries == NULL)
        return false;
    for (size_t i = 0; i < map->room; i++) {
        const ki_name_entry *old = &map->entries[i];
        if (old->name != NULL)
            *place_of(entries, room, old->name, old->length, old->hash) = *old;
    }
    free(map->entries);
    map->entries = entries;
    map->room = room;
    return true;
}

bool ki_name_map_put(ki_name_map *map, const char *name, size_t length, int number)
{
    if (3 * (map->count + 1) > 2 * map->room && !grow(map))
        return false;
    uint64_t hash = hash_of(name, length);
    *place_of(map->entries, map->room, name, length, hash) = (ki_name_entry){ name, length, hash, number };
    map->count++;
    return true;
}

void ki_name_map_fini(ki_name_map *map)
{
    free(map->entries);
    memset(map, 0, sizeof *map);
}
