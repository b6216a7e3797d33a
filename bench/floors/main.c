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
#include "../engine/session.h"
#include "cells.h"
#include "direct.h"
#include "staged.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

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

typedef struct floors_options {
    bench_options common;
    int size;
} floors_options;

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
            add_variant(
                floors, name,
                (bench_variant){ NULL, staged, floor_allocate_ordinary, floor_staged_run, floor_staged_can_run });
        }
    }
}

static void add_direct(floor_set *floors)
{
    static const char *const names[4] = { "direct", "direct+stream", "whole", "whole+stream" };
    for (int form = 0; form < 4; form++) {
        floors->direct[form] = (floor_direct){ &floors->space, form >= 2, (form & 1) != 0 };
        add_variant(floors, names[form],
                    (bench_variant){ NULL, &floors->direct[form], floor_allocate_mapped, floor_direct_run,
                                     floor_direct_can_run });
    }
    add_variant(
        floors, "flags",
        (bench_variant){ NULL, &floors->direct[0], floor_allocate_ordinary, floor_flags_run, floor_flags_can_run });
}

static void prepare(floor_set *floors, int size, size_t max_nbytes)
{
    floors->space.size = size;
    floors->space.barrier = floor_shared_memory((size_t)size * sizeof(bench_flag));
    floors->space.mapped_nbytes = (max_nbytes + 4095) / 4096 * 4096;
    floors->space.mapped = floor_shared_memory((size_t)size * 2 * floors->space.mapped_nbytes);
    floor_cells_init(&floors->cells, &floors->space);
    add_variant(floors, "cells",
                (bench_variant){ NULL, &floors->cells, floor_allocate_ordinary, floor_cells_run, floor_cells_can_run });
    add_staged(floors);
    add_direct(floors);
}

/* Rank 0 would wait for a dead rank for ever. */
static void on_child(int signal_number)
{
    int status;
    int saved = errno;
    (void)signal_number;
    while (waitpid(-1, &status, WNOHANG) > 0) {
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
            _exit(1);
        }
    }
    errno = saved;
}

/* Returns the rank that this process became. */
static int fork_ranks(int size)
{
    struct sigaction action = { .sa_handler = on_child, .sa_flags = SA_RESTART };
    sigaction(SIGCHLD, &action, NULL);
    for (int r = 1; r < size; r++) {
        pid_t child = fork();
        if (child < 0) {
            fprintf(stderr, "bench: cannot start rank %d\n", r);
            exit(1);
        }
        if (child == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            return r;
        }
    }
    return 0;
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
    floors_options *options = state->input;
    if (key == ARGP_KEY_INIT) {
        state->child_inputs[0] = &options->common;
        return 0;
    }
    if (key != 'n') {
        return ARGP_ERR_UNKNOWN;
    }
    options->size = atoi(arg);
    if (options->size < 1 || options->size > BENCH_MAX_RANKS) {
        argp_error(state, "-n is '%s'; it must be a number from 1 to %d", arg, BENCH_MAX_RANKS);
    }
    return 0;
}

int main(int argc, char **argv)
{
    static const struct argp_option own[] = { { "ranks", 'n', "N", 0, "processes; default: 2", -1 }, { 0 } };
    static const struct argp_child children[] = { { &bench_options_argp, 0, NULL, 0 }, { 0 } };
    static const struct argp argp = {
        own, parse_option, NULL, "Measures what shared memory allows on this machine.", children, NULL, NULL
    };
    static floor_set floors;
    floors_options options = { .size = 2 };
    bench_options_init(&options.common);
    argp_parse(&argp, argc, argv, 0, NULL, &options);
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
    floors.space.rank = fork_ranks(options.size);
    floors.space.is_spinning = options.size <= usable_cpus;
    if (options.common.is_pinned) {
        bench_pin(floors.space.rank);
    }
    bench_peers peers;
    bench_peers_init(&peers, segment, floors.space.rank, options.size, usable_cpus);
    bench_driver driver = { "floors", floors.variants, floors.count, &peers };
    return bench_session_run(&driver, &options.common);
}
