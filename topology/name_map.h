/* topology/name_map.h - numbers by name: switches, nodes, GUIDs of a fabric.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_TOPOLOGY_NAME_MAP_H
#define KI_TOPOLOGY_NAME_MAP_H

#include <stdbool.h>
#include <stddef.h>

/* Zeroed: empty. The names are borrowed and must outlive the map. */
typedef struct ki_name_map {
    struct ki_name_entry *entries;
    size_t count, room; /* room is 0 or a power of two, at least a third of it free */
} ki_name_map;

/* The number of a name, or -1. */
int ki_name_map_get(const ki_name_map *map, const char *name, size_t length);
/* Adds a name that is not there yet; number is 0 or more. False: no memory. */
bool ki_name_map_put(ki_name_map *map, const char *name, size_t length, int number);
void ki_name_map_fini(ki_name_map *map);

#endif
