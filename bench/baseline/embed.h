/* bench/baseline/embed.h - the engine as a shared library, for a driver that is written in another language.
 *
 * libbench_embed.so has the clock, the buffers, the checks, the statistics and the server of every other driver; only
 * the operation itself is a callback. Order of calls: bench_embed_options(), bench_embed_meet(), bench_embed_run().
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef BENCH_EMBED_H
#define BENCH_EMBED_H

#include <stddef.h>

#define BENCH_EMBED_API __attribute__((visibility("default")))
#define BENCH_EMBED_NAME_NBYTES 64

/* One operation, to its end on this rank: buffers and counts as in bench_shape. Not 0: it failed, and the run ends. */
typedef int (*bench_embed_call)(const char *op, void *send, void *recv, size_t count, size_t block);

/* 1 when the driver has the operation; asked on rank 0. */
typedef int (*bench_embed_can_run)(const char *op, size_t nbytes);

/* Reads the drivers' common command line, which ends the process when it is wrong, and pins the calling rank as other
 * drivers do, unless told not to. Returns the name of the dtype. */
BENCH_EMBED_API const char *bench_embed_options(int argc, char **argv, int rank);

/* Rank 0 makes the engine's segment and writes its name, which the others must get by ways of their own and give. 0, or
 * -1 after a message. The name goes when rank 0 calls bench_embed_forget(), after all have opened it. */
BENCH_EMBED_API int bench_embed_meet(int rank, char name[BENCH_EMBED_NAME_NBYTES]);
BENCH_EMBED_API void bench_embed_forget(const char *name);

/* The session, to its end: a sweep, or a server. Returns the exit status. */
BENCH_EMBED_API int bench_embed_run(const char *driver, int rank, int size, bench_embed_call call,
                                    bench_embed_can_run can_run);

#endif
