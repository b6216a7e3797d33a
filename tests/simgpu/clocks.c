/* tests/simgpu/clocks.c - vector clocks: for each stream, how many of its operations are known to be over.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "engine.h"
#include <stdlib.h>
#include <string.h>

static void grow(sim_clock *clock, uint32_t count)
{
    if (count <= clock->count)
        return;
    clock->seq = realloc(clock->seq, count * sizeof *clock->seq);
    if (clock->seq == NULL)
        abort();
    memset(clock->seq + clock->count, 0, (count - clock->count) * sizeof *clock->seq);
    clock->count = count;
}

void sim_clock_join(sim_clock *clock, const sim_clock *other)
{
    grow(clock, other->count);
    for (uint32_t i = 0; i < other->count; i++)
        if (clock->seq[i] < other->seq[i])
            clock->seq[i] = other->seq[i];
}

void sim_clock_set(sim_clock *clock, uint32_t slot, uint32_t seq)
{
    grow(clock, slot + 1);
    clock->seq[slot] = seq;
}

void sim_clock_free(sim_clock *clock)
{
    free(clock->seq);
    clock->seq = NULL;
    clock->count = 0;
}
