/* bench/drivers/kith.c - kith-bench: measures the library through its public API.
 *
 *     kith run -n 2 -- kith-bench                           all operations, 4 B to 64 MiB
 *     kith run -n 2 -- kith-bench --op all_reduce --buffers ordinary,mapped --json rows.json
 *     kith run -n 2 -- kith-bench --backend ucx --max 1M
 *     kith run -n 2 -- kith-bench overhead                  what the API costs above a backend
 *     kith run -n 4 -- kith-bench groups                    and overlap, growth: see commands.h
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "../engine/clock.h"
#include "../engine/session.h"
#include "allocations.h"
#include "commands.h"
#include "kith_calls.h"
#include "overhead.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>

enum { KEY_BACKEND = 'b', KEY_BUFFERS = 512 };

typedef struct kith_bench_options {
    bench_options common;
    const char *backend;
    const char *command;
} kith_bench_options;

static bool is_command(const char *word)
{
    static const char *const commands[] = { "sweep", "overhead", "groups", "overlap", "growth" };
    for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
        if (strcmp(word, commands[i]) == 0) {
            return true;
        }
    }
    return false;
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
    kith_bench_options *options = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        state->child_inputs[0] = &options->common;
        return 0;
    case KEY_BACKEND:
        options->backend = arg;
        return 0;
    case KEY_BUFFERS:
        options->common.variants = arg;
        return 0;
    case ARGP_KEY_ARG:
        if (!is_command(arg)) {
            argp_error(state, "there is no command '%s'; sweep (default), overhead, groups, overlap and growth are",
                       arg);
        }
        options->command = arg;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* What was so before the library was there. */
typedef struct beginning {
    cpu_set_t usable; /* before this process was pinned */
    double joined_ms; /* kith_init() */
    uint64_t heap;
} beginning;

/* A sweep measures ordinary and mapped buffers unless told otherwise; a server offers all kinds. */
static int sweep(kith_bench_options *options, kith_group *world, bench_peers *peers)
{
    bench_kith selves[BENCH_KITH_VARIANTS];
    bench_variant variants[BENCH_KITH_VARIANTS];
    bench_kith_variants(world, selves, variants);
    if (options->common.variants == NULL) {
        options->common.variants = "ordinary,mapped";
    }
    char name[64];
    snprintf(name, sizeof(name), "kith-%s", kith_group_backend(world));
    bench_driver driver = { name, variants, BENCH_KITH_VARIANTS, peers };
    return bench_session_run(&driver, &options->common);
}

static int measure(kith_bench_options *options, kith_ctx *ctx, const beginning *at)
{
    kith_group *world = kith_world(ctx);
    const bench_options *common = &options->common;
    const char *command = options->command;
    bench_segment *segment;
    if (!bench_kith_meet(world, &segment)) {
        return 1;
    }
    bench_peers peers;
    bench_peers_init(&peers, segment, kith_group_rank(world), kith_group_size(world), CPU_COUNT(&at->usable));
    if (strcmp(command, "groups") == 0) {
        return bench_groups(world, &peers, common);
    }
    if (strcmp(command, "overlap") == 0) {
        return bench_overlap(world, &peers, &at->usable, common);
    }
    if (strcmp(command, "growth") == 0) {
        return bench_growth(world, &peers, at->joined_ms, at->heap, common);
    }
    return sweep(options, world, &peers);
}

int main(int argc, char **argv)
{
    static const struct argp_option own[] = {
        { "backend", KEY_BACKEND, "NAME", 0, "shm, mpi, ucx, a plugin's name; default: auto", -1 },
        { "buffers", KEY_BUFFERS, "LIST", 0,
          "ordinary, mapped (kith_mem_alloc), registered (kith_mem_register); default: "
          "ordinary,mapped",
          -1 },
        { 0 }
    };
    static const struct argp_child children[] = { { &bench_options_argp, 0, NULL, 0 }, { 0 } };
    static const struct argp argp = { own,
                                      parse_option,
                                      "[sweep|overhead|groups|overlap|growth]",
                                      "Measures Kith. Start it with `kith run`, mpirun or srun.",
                                      children,
                                      NULL,
                                      NULL };
    kith_bench_options options = { .command = "sweep" };
    bench_options_init(&options.common);
    argp_parse(&argp, argc, argv, 0, NULL, &options);

    beginning at = { .heap = bench_allocated_nbytes() };
    sched_getaffinity(0, sizeof(at.usable), &at.usable);
    int local_rank = bench_launcher_local_rank();
    if (options.common.is_pinned && local_rank >= 0) {
        bench_pin(local_rank);
    }
    bench_clock_init();
    if (strcmp(options.command, "overhead") == 0) {
        return bench_overhead(options.common.json_path);
    }
    kith_init_options init = KITH_INIT_OPTIONS_INIT;
    init.backend = options.backend;
    if (strcmp(options.command, "growth") == 0) { /* counts what it is given; elsewhere malloc is what programs have */
        init.allocator = bench_allocator();
    }
    kith_ctx *ctx;
    uint64_t start = bench_ticks();
    kith_status status = kith_init(&init, &ctx);
    at.joined_ms = bench_ticks_to_ns(bench_ticks() - start) * 1e-6;
    if (status != KITH_OK) {
        bench_kith_complain("kith_init", status);
        return 1;
    }
    int exit_status = 1;
    if (kith_size(ctx) <= BENCH_MAX_RANKS) {
        exit_status = measure(&options, ctx, &at);
    } else {
        fprintf(stderr, "kith-bench: at most %d ranks\n", BENCH_MAX_RANKS);
    }
    if (exit_status != 0) {
        kith_abandon(ctx);
        return exit_status;
    }
    return kith_finalize(ctx) == KITH_OK ? 0 : 1;
}
