/* bench/drivers/kith.c - kith-bench: measures the library through its public API.
 *
 *     kith run -n 2 -- kith-bench                           all operations, 4 B to 64 MiB
 *     kith run -n 2 -- kith-bench --op all_reduce --buffers ordinary,mapped --json rows.json
 *     kith run -n 2 -- kith-bench --backend ucx --max 1M
 *     kith run -n 2 -- kith-bench overhead                  what the API costs above a backend
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "../engine/clock.h"
#include "../engine/session.h"
#include "kith_calls.h"
#include "overhead.h"

#include <stdio.h>
#include <string.h>

enum { KEY_BACKEND = 'b', KEY_BUFFERS = 512 };

typedef struct kith_bench_options {
    bench_options common;
    const char *backend;
    const char *command;
} kith_bench_options;

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
        if (strcmp(arg, "sweep") != 0 && strcmp(arg, "overhead") != 0) {
            argp_error(state, "there is no command '%s'; sweep (default) and overhead are", arg);
        }
        options->command = arg;
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

/* A sweep measures ordinary and mapped buffers unless told otherwise; a server offers all kinds. */
static int measure(kith_bench_options *options, kith_group *world, int usable_cpus)
{
    bench_kith selves[BENCH_KITH_VARIANTS];
    bench_variant variants[BENCH_KITH_VARIANTS];
    bench_segment *segment;
    if (!bench_kith_meet(world, &segment)) {
        return 1;
    }
    bench_kith_variants(world, selves, variants);
    if (options->common.variants == NULL) {
        options->common.variants = "ordinary,mapped";
    }
    char name[64];
    snprintf(name, sizeof(name), "kith-%s", kith_group_backend(world));
    bench_peers peers;
    bench_peers_init(&peers, segment, kith_group_rank(world), kith_group_size(world), usable_cpus);
    bench_driver driver = { name, variants, BENCH_KITH_VARIANTS, &peers };
    return bench_session_run(&driver, &options->common);
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
    static const struct argp argp = {
        own,  parse_option, "[sweep|overhead]", "Measures Kith. Start it with `kith run`, mpirun or srun.", children,
        NULL, NULL
    };
    kith_bench_options options = { .command = "sweep" };
    bench_options_init(&options.common);
    argp_parse(&argp, argc, argv, 0, NULL, &options);

    int usable_cpus = bench_usable_cpus();
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
    kith_ctx *ctx;
    kith_status status = kith_init(&init, &ctx);
    if (status != KITH_OK) {
        bench_kith_complain("kith_init", status);
        return 1;
    }
    int exit_status = 1;
    if (kith_size(ctx) <= BENCH_MAX_RANKS) {
        exit_status = measure(&options, kith_world(ctx), usable_cpus);
    } else {
        fprintf(stderr, "kith-bench: at most %d ranks\n", BENCH_MAX_RANKS);
    }
    if (exit_status != 0) {
        kith_abandon(ctx);
        return exit_status;
    }
    return kith_finalize(ctx) == KITH_OK ? 0 : 1;
}
