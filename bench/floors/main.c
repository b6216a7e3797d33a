/* bench/floors/main.c - bench-floors: what this machine allows, measured with the same engine as everything else.
 *
 * The ranks are forked here. Variants, of which the best one at each size is the floor:
 *
 *   flags                      barrier: one flag a rank
 *   cells                      small messages in one cell, see cells.h
 *   staged, halves   -<KiB>    through rings of cells, see staged.h; +stream writes results with streaming stores
 *   direct, whole              mapped buffers, see direct.h; +stream likewise
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "../engine/clock.h"
#include "../engine/forked.h"
#include "../engine/session.h"
#include "cells.h"
#include "direct.h"
#include "staged.h"

#include <stdio.h>

#define CHUNK_SIZES 5
#define MAX_VARIANTS 32

typedef struct floor_set {
    floor_space space;
    floor_cells cells;
    floor_ring rings[CHUNK_SIZES];
    floor_staged staged[CHUNK_SIZES * 4];
    floor_direct direct[4];
    bench_variant variants[MAX_VARIANTS];
    char names[MAX_VARIANTS][40];
    int count;
} floor_set;

static void add_variant(floor_set *floors, const char *name, bench_variant variant)
{
    variant.name = floors->names[floors->count];
    snprintf(floors->names[floors->count], sizeof(floors->names[0]), "%s", name);
    floors->variants[floors->count++] = variant;
}

static void add_staged(floor_set *floors)
{
    static const size_t chunks[CHUNK_SIZES] = { 4096, 16384, 65536, 262144, 1048576 };
    floor_staged *staged = floors->staged;
    for (int i = 0; i < CHUNK_SIZES; i++) {
        floor_ring_init(&floors->rings[i], chunks[i]);
        for (int form = 0; form < 4; form++, staged++) {
            bool is_halves = (form & 1) != 0, is_streaming = (form & 2) != 0;
            char name[40];
            snprintf(name, sizeof(name), "%s-%zu%s", is_halves ? "halves" : "staged", chunks[i] / 1024,
                     is_streaming ? "+stream" : "");
            *staged = (floor_staged){ &floors->space, &floors->rings[i], is_halves, is_streaming };
            add_variant(floors, name,
                        (bench_variant){ .self = staged,
                                         .allocate = floor_allocate_ordinary,
                                         .run = floor_staged_run,
                                         .can_run = floor_staged_can_run });
        }
    }
}

static void add_direct(floor_set *floors)
{
    static const char *const names[4] = { "direct", "direct+stream", "whole", "whole+stream" };
    for (int form = 0; form < 4; form++) {
        floors->direct[form] = (floor_direct){ &floors->space, form >= 2, (form & 1) != 0 };
        add_variant(floors, names[form],
                    (bench_variant){ .self = &floors->direct[form],
                                     .allocate = floor_allocate_mapped,
                                     .run = floor_direct_run,
                                     .can_run = floor_direct_can_run });
    }
    add_variant(floors, "flags",
                (bench_variant){ .self = &floors->direct[0],
                                 .allocate = floor_allocate_ordinary,
                                 .run = floor_flags_run,
                                 .can_run = floor_flags_can_run });
}

static void prepare(floor_set *floors, int size, size_t max_nbytes)
{
    floors->space.size = size;
    floors->space.barrier = floor_shared_memory((size_t)size * sizeof(bench_flag));
    floors->space.mapped_nbytes = (max_nbytes + 4095) / 4096 * 4096;
    floors->space.mapped = floor_shared_memory((size_t)size * 2 * floors->space.mapped_nbytes);
    floor_cells_init(&floors->cells, &floors->space);
    add_variant(floors, "cells",
                (bench_variant){ .self = &floors->cells,
                                 .allocate = floor_allocate_ordinary,
                                 .run = floor_cells_run,
                                 .can_run = floor_cells_can_run });
    add_staged(floors);
    add_direct(floors);
}

int main(int argc, char **argv)
{
    static floor_set floors;
    bench_forked_options options;
    bench_forked_parse(argc, argv, "Measures what shared memory allows on this machine.", &options);
    if (options.common.dtype != BENCH_F32) {
        fprintf(stderr, "bench: the floors add f32 only\n");
        return 1;
    }
    int usable_cpus = bench_usable_cpus();
    bench_clock_init();
    bench_segment *segment = bench_segment_for_children();
    if (segment == NULL) {
        fprintf(stderr, "bench: no shared memory\n");
        return 1;
    }
    prepare(&floors, options.size, options.common.max_nbytes);
    floors.space.rank = bench_fork_ranks(options.size);
    floors.space.is_spinning = options.size <= usable_cpus;
    if (options.common.is_pinned) {
        bench_pin(floors.space.rank);
    }
    bench_peers peers;
    bench_peers_init(&peers, segment, floors.space.rank, options.size, usable_cpus);
    bench_driver driver = { "floors", floors.variants, floors.count, &peers };
    return bench_session_run(&driver, &options.common);
}
