/* backends/shm/layout.c - how large the parts of a group's arena are and where they lie.
 *
 *     header | words of rank 0, 1, ... | cells of rank 0, ... | ring of rank 0, ... | channel 0->0, 0->1, ...
 *
 * The parts shrink as groups grow, so that the arena of 64 ranks is not 64 * 64 times that of one. Strides are no
 * powers of two: equal pieces of different ranks would fall into the same sets of the caches. Pages that nobody
 * touches cost nothing (but in a file, which is reserved as a whole: scale halves the sizes until it fits).
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "internal.h"

#define CELL_MIN 1024
#define RING_MIN 8192

static size_t power_of_two_below(size_t value)
{
    size_t power = 1;
    while (power <= value / 2)
        power *= 2;
    return power;
}

static size_t halved(size_t value, int times, size_t least)
{
    size_t result = times < 63 ? value >> times : 0;
    return result > least ? result : least;
}

bool shm_sizes_choose(const struct shm_settings *settings, int size, int scale, shm_sizes *sizes)
{
    size_t ranks = (size_t)size;
    size_t cell = ranks <= 8 ? 16384 : ranks <= 16 ? 8192 : 4096;
    size_t ring = ranks <= 8 ? 2097152 : ranks <= 16 ? 524288 : 262144;
    size_t lines = ranks <= 4 ? 256 : ranks <= 8 ? 64 : ranks <= 16 ? 32 : 16;
    size_t channel = ranks <= 2 ? 262144 : ranks <= 4 ? 131072 : ranks <= 8 ? 65536 : ranks <= 16 ? 16384 : 4096;
    if (settings->cell_nbytes != SIZE_MAX)
        cell = settings->cell_nbytes;
    if (settings->ring_nbytes != SIZE_MAX)
        ring = settings->ring_nbytes;

    /* What the paths need at least: a table of sizes with a little data, and two pieces of one line for every rank. */
    size_t cell_least = shm_round_up(8 * ranks + CELL_MIN, SHM_LINE);
    size_t ring_least = 2 * power_of_two_below(2 * SHM_LINE * ranks);
    if (ring_least < RING_MIN)
        ring_least = RING_MIN;
    sizes->cell_nbytes = shm_round_up(halved(cell, scale, cell_least), SHM_LINE);
    sizes->ring_nbytes = power_of_two_below(halved(ring, scale, ring_least));
    sizes->channel_lines = halved(lines, scale, 8);
    sizes->channel_nbytes = halved(channel, scale, 2048);
    return scale == 0 || halved(cell, scale - 1, 0) > cell_least || halved(ring, scale - 1, 0) > ring_least ||
           halved(channel, scale - 1, 0) > 2048;
}

/* Appends count parts of stride bytes; false on overflow. */
static bool append(size_t *end, size_t *offset, size_t stride, size_t count)
{
    size_t nbytes;
    *offset = shm_round_up(*end, 4096);
    return !__builtin_mul_overflow(stride, count, &nbytes) && !__builtin_add_overflow(*offset, nbytes, end) &&
           *end < SIZE_MAX / 2;
}

bool shm_layout_compute(const shm_sizes *sizes, int size, shm_layout *layout)
{
    size_t ranks = (size_t)size, end = sizeof(shm_header);
    if (sizes->cell_nbytes > SIZE_MAX / 4 || sizes->ring_nbytes > SIZE_MAX / 4 || sizes->channel_nbytes > SIZE_MAX / 4)
        return false;
    layout->cell_stride = shm_round_up(SHM_LINE + sizes->cell_nbytes, 128) + 128;
    layout->ring_stride = sizes->ring_nbytes + 4096 + 256;
    layout->channel_stride = shm_round_up(shm_channel_nbytes(sizes), 128) + 128;
    if (!append(&end, &layout->blocks, sizeof(shm_rank_block), ranks) ||
        !append(&end, &layout->cells, layout->cell_stride, ranks * SHM_CELLS) ||
        !append(&end, &layout->rings, layout->ring_stride, ranks) ||
        !append(&end, &layout->channels, layout->channel_stride, ranks * ranks))
        return false;
    layout->total_nbytes = shm_round_up(end, 4096);
    return true;
}
