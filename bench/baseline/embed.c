/* bench/baseline/embed.c
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "embed.h"

#include "../drivers/ordinary.h"
#include "../engine/clock.h"
#include "../engine/session.h"

#include <stdio.h>

/* One process is one rank of one run. */
static bench_options options;
static bench_segment *segment;
static int usable_cpus;

typedef struct callbacks {
    bench_embed_call call;
    bench_embed_can_run can_run;
} callbacks;

const char *bench_embed_options(int argc, char **argv, int rank)
{
    bench_options_init(&options);
    argp_parse(&bench_options_argp, argc, argv, 0, NULL, &options);
    usable_cpus = bench_usable_cpus();
    if (options.is_pinned) {
        bench_pin(rank);
    }
    bench_clock_init();
    return bench_dtype_name(options.dtype);
}

int bench_embed_meet(int rank, char name[BENCH_EMBED_NAME_NBYTES])
{
    return (rank == 0 ? bench_segment_create(name, &segment) : bench_segment_open(name, &segment)) ? 0 : -1;
}

void bench_embed_forget(const char *name)
{
    bench_segment_forget(name);
}

static bool run(void *self, const bench_call *call)
{
    const callbacks *own = self;
    const bench_shape *shape = call->shape;
    return own->call(bench_op_name(shape->op), call->send, call->recv, shape->count, shape->block) == 0;
}

static bool can_run(void *self, bench_op op, size_t nbytes, int size)
{
    const callbacks *own = self;
    (void)size;
    return own->can_run(bench_op_name(op), nbytes) != 0;
}

int bench_embed_run(const char *driver_name, int rank, int size, bench_embed_call call,
                    bench_embed_can_run can_run_callback)
{
    if (segment == NULL || size > BENCH_MAX_RANKS) {
        fprintf(stderr, "bench: needs at most %d ranks that have met\n", BENCH_MAX_RANKS);
        return 1;
    }
    callbacks own = { call, can_run_callback };
    bench_variant variant = {
        .name = "raw", .self = &own, .allocate = bench_allocate_ordinary, .run = run, .can_run = can_run
    };
    bench_peers peers;
    bench_peers_init(&peers, segment, rank, size, usable_cpus);
    bench_driver driver = { driver_name, &variant, 1, &peers };
    return bench_session_run(&driver, &options);
}
