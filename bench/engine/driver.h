/* bench/engine/driver.h - what a program under measurement gives to the engine.
 *
 * A driver is one way to communicate (Kith, an MPI, the floors). It has variants, which share its processes: kinds of
 * buffers, or algorithms. The engine asks a variant for buffers once and then runs operations on them.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef BENCH_DRIVER_H
#define BENCH_DRIVER_H

#include "../cases/cases.h"
#include "data.h"
#include "segment.h"

typedef struct bench_call {
    const bench_shape *shape;
    bench_dtype dtype;
    void *send, *recv;
} bench_call;

typedef struct bench_variant {
    const char *name;
    void *self;
    /* Two buffers of nbytes, touched. Collective. False after a message on stderr: the variant is then not measured. */
    bool (*allocate)(void *self, size_t nbytes, void **send, void **recv);
    /* One operation, to its end on this rank. False after a message on stderr: the run then ends. */
    bool (*run)(void *self, const bench_call *call);
    /* NULL: runs everything. Else pure and the same on all ranks. */
    bool (*can_run)(void *self, bench_op op, size_t nbytes, int size);
    /* Where operations do not work on the buffers themselves: send goes there before, recv comes back after what is
     * timed. NULL: they do. False as run. */
    bool (*push)(void *self, const bench_call *call);
    bool (*pull)(void *self, const bench_call *call);
} bench_variant;

typedef struct bench_driver {
    const char *name; /* "kith-shm", "openmpi" */
    const bench_variant *variants;
    int variant_count;
    bench_peers *peers;
} bench_driver;

#endif
