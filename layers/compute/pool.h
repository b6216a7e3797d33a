/* layers/compute/pool.h - a rank's threads: parts of one call, taken by whoever is free.
 *
 * ki_pool_run() calls a function once for each part, on the calling thread and on the pool's workers, and returns when
 * all parts are done. Parts must write to different places and depend on their number alone; then results are the same
 * bits for any number of threads, and also when a part is late or a thread could not be made.
 *
 * Workers start with the first call that has more than one part and end with the pool. Between calls they spin for some
 * microseconds - calls of one step follow each other closely - then give their core away, then sleep. A worker that
 * does not get a core in time is not waited for: it finds no parts left. A pool of one thread, and one that a fork()
 * left without its workers, runs all parts on the caller.
 *
 * A pool belongs to one rank; its functions are called by one thread at a time, and not from a part.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_LAYERS_POOL_H
#define KI_LAYERS_POOL_H

#include <kith/status.h>
#include <stddef.h>
#include <stdint.h>

typedef struct ki_pool ki_pool;

/* worker: 0 .. threads - 1, of the thread that runs the part; no two run at a time with the same. */
typedef void (*ki_pool_fn)(const void *call, int64_t part, int worker);

/* threads: with the caller's, 1 or more. begin: what each worker calls first; NULL: nothing. */
kith_status ki_pool_create(int threads, void (*begin)(void), ki_pool **pool);
/* NULL is fine. */
void ki_pool_destroy(ki_pool *pool);

/* 1 for NULL. */
int ki_pool_threads(const ki_pool *pool);

/* pool NULL: all on this thread. */
void ki_pool_run(ki_pool *pool, int64_t parts, ki_pool_fn run_part, const void *call);

/* What a part should be worth at least, in elements of f32 that are copied: several times what the call's start and end
 * cost, a few microseconds. */
enum { KI_POOL_PART = 32768 };

/* The pool, or NULL when a call of this worth should stay on its thread. */
static inline ki_pool *ki_pool_if_worth(ki_pool *pool, double copies)
{
    return copies >= 2.0 * KI_POOL_PART ? pool : NULL;
}

#endif
