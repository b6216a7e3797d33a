/* topology/export.h - a rank's place in words that other tools understand.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_TOPOLOGY_EXPORT_H
#define KI_TOPOLOGY_EXPORT_H

#include "core/text.h"
#include <kith/placement.h>

typedef struct ki_seat {
    const kith_node *node;
    const kith_node_kind *kind;
    int gpu; /* position */
} ki_seat;

/* False: this topology has no such GPU. */
bool ki_export_seat(const kith_topology *t, const kith_placement *p, int rank, ki_seat *seat);

/* Appends the list of CPUs near the rank's GPU. False: they are unknown, nothing was written. */
bool ki_export_cpus(const ki_seat *seat, ki_text *text);

/* Letters, digits, '.', '_', '-': fits into a line of any form. */
bool ki_export_is_plain(const char *name);

/* Calls each() for the variables that give a rank its GPU and the NICs near it; those that are unknown are left out. */
typedef void (*ki_variable_fn)(void *arg, const char *name, const char *value);
void ki_export_environment(const ki_seat *seat, ki_variable_fn each, void *arg);

#endif
