/* schedules/simulate_links.c - which stages share a connection. There is one from each rank to each other rank that it
 * sends to; with several stages a rank, activations and gradients of different stages can go the same way.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "simulation.h"

#include "core/base/error.h"
#include "core/base/fault.h"

#include <stdlib.h>

typedef struct way {
    int from, to; /* ranks */
    int *connection;
} way;

static int compare(const void *left, const void *right)
{
    const way *a = left, *b = right;
    if (a->from != b->from)
        return a->from < b->from ? -1 : 1;
    return (a->to > b->to) - (a->to < b->to);
}

kith_status ki_run_connect(ki_run *run)
{
    const kith_schedule *s = run->s;
    way *ways = ki_fault(KI_FAULT_ALLOC) ? NULL : malloc(2 * (size_t)s->stages * sizeof *ways);
    if (ways == NULL)
        return ki_fail(KITH_ERR_NO_MEMORY, "no memory for the connections of a pipeline plan");
    size_t count = 0;
    for (int stage = 0; stage < s->stages; stage++) {
        run->connections[KI_ACTIVATION][stage] = run->connections[KI_GRADIENT][stage] = -1;
        int rank = s->rank_of_stage[stage];
        if (ki_schedule_crosses(s, stage))
            ways[count++] = (way){ rank, s->rank_of_stage[stage + 1], &run->connections[KI_ACTIVATION][stage] };
        if (ki_schedule_crosses(s, stage - 1))
            ways[count++] = (way){ rank, s->rank_of_stage[stage - 1], &run->connections[KI_GRADIENT][stage] };
    }
    qsort(ways, count, sizeof *ways, compare);
    int connection = -1;
    for (size_t i = 0; i < count; i++) {
        connection += i == 0 || compare(&ways[i - 1], &ways[i]) != 0;
        *ways[i].connection = connection;
    }
    free(ways);
    return KITH_OK;
}
