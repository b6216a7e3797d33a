/* tests/simgpu/engine.h - inside libsimcudart.so: objects that its files share.
 *
 * Locks, in the order in which they may be taken:
 *   shadow  (shadow.c)  cells, states and records of operations; held for a whole kernel
 *   queue   (stream.c)  streams, marks, clocks, events
 *   memory  (memory.c)  tables of allocations
 *   handles (handles.c), settings (settings.c)
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef SIMGPU_ENGINE_H
#define SIMGPU_ENGINE_H

#include "simgpu.h"
#include <pthread.h>
#include <stdbool.h>

enum { SIM_MAX_DEVICES = 16, SIM_MAX_SLOTS = 4096 };

/* ---- settings.c: the environment, read once ---- */

typedef struct sim_settings {
    int devices;                   /* visible ones */
    int physical[SIM_MAX_DEVICES]; /* what each is: CUDA_VISIBLE_DEVICES picks among KITH_SIMGPU_DEVICES */
    size_t memory_nbytes;
    bool keep_going, check_leaks, only_loaded, is_too_new, has_pools;
    int queues;    /* KITH_SIMGPU_QUEUES: CUDA_DEVICE_MAX_CONNECTIONS is at least that; 0: it may be anything */
    int contexts;  /* KITH_SIMGPU_CONTEXTS: on so many devices at most; 0: on any */
    uint64_t seed; /* KITH_SIMGPU_DELAY; 0: no delays, everything as numbered */
    unsigned delay_us;
    const char *kernels; /* KITH_SIMGPU_KERNELS, or NULL */
} sim_settings;

const sim_settings *sim_settings_get(void);
uint64_t sim_random(uint64_t *state);

/* ---- clocks.c: vector clocks, one entry for each stream ---- */

typedef struct sim_clock {
    uint32_t *seq; /* [count]; beyond: 0 */
    uint32_t count;
} sim_clock;

void sim_clock_join(sim_clock *clock, const sim_clock *other);
void sim_clock_set(sim_clock *clock, uint32_t slot, uint32_t seq);
void sim_clock_free(sim_clock *clock);

static inline bool sim_clock_has(const sim_clock *clock, uint32_t slot, uint32_t seq)
{
    return slot < clock->count && clock->seq[slot] >= seq;
}

/* ---- stream.c ---- */

/* What is known of an operation by those that wait for it; clock and time are there when it is done. */
typedef struct sim_mark {
    int refs;
    bool is_done;
    sim_clock clock;
    int64_t time_ns;
} sim_mark;

typedef struct sim_op {
    struct sim_op *next;
    struct sim_stream *stream;
    const char *what;
    void (*run)(void *arg);
    void *arg;
    bool is_host_function;
    uint32_t slot, seq;
    uint32_t record;  /* number among the records of shadow.c, 0: not yet there */
    uint32_t written; /* state of what it wrote, 0: none yet */
    sim_clock clock;
    sim_mark *mark, **waits;
    uint32_t wait_count;
} sim_op;

typedef struct sim_stream {
    struct sim_stream *next;
    int device, number; /* number: for sentences; 0: the default stream */
    unsigned flags;
    int priority;
    bool is_closing, has_thread;
    uint32_t slot, seq;
    sim_op *first, *last;
    sim_mark *newest;
    sim_clock clock; /* after what it ran */
    pthread_cond_t work;
} sim_stream;

/* The operation that the calling thread runs; NULL on a thread of the program. */
sim_op *sim_running(void);

/* An operation to submit; arg is owned. */
sim_op *sim_op_new(const char *what, void (*run)(void *arg), void *arg);
void sim_op_wait(sim_op *op, sim_mark *mark); /* takes a reference of its own; NULL is fine */
/* Puts it at the end; the caller gets a reference to its mark where mark is not NULL. */
void sim_stream_put(sim_stream *stream, sim_op *op, sim_mark **mark);
/* With a handle; and without, when the work that it holds is done. 1 after sim_fail(). */
sim_stream *sim_stream_open(int device, unsigned flags, int priority);
int sim_stream_close(sim_stream *stream);
/* The stream behind a handle, or NULL after sim_fail(). NULL, cudaStreamLegacy: the current device's default stream. */
sim_stream *sim_stream_of(cudaStream_t handle, const char *api);

void sim_mark_wait(sim_mark *mark);    /* the host waits, and knows then */
bool sim_mark_is_done(sim_mark *mark); /* asks; the host knows when it is; NULL is done */
void sim_mark_hold(sim_mark *mark);
void sim_mark_release(sim_mark *mark);
sim_mark *sim_stream_newest(sim_stream *stream); /* a reference, or NULL */
void sim_device_wait(int device, bool host_knows);
bool sim_stream_is_idle(sim_stream *stream); /* and the host knows when it is */

/* ---- memory.c ---- */

typedef enum sim_kind { SIM_HOST = 0, SIM_DEVICE = 1, SIM_PINNED = 2 } sim_kind;

typedef struct sim_pool sim_pool; /* pool.c */

/* One live allocation. */
typedef struct sim_place {
    sim_kind kind;
    int device; /* of pinned memory: where it was asked for */
    uintptr_t from;
    size_t nbytes;
    char *alias;     /* where it lies */
    uint32_t *cells; /* one for each byte */
    bool is_leaving; /* cudaFreeAsync() was called */
    const void *made_by;
    sim_pool *pool; /* or NULL */
} sim_place;

/* True with the allocation that ptr points into. */
bool sim_place_find(const void *ptr, sim_place *place);
/* NULL when there is no room. pool: NULL for all but sim_malloc_async(). */
void *sim_memory_new(sim_kind kind, int device, size_t nbytes, sim_pool *pool, const void *made_by);
/* The allocation that begins at ptr, which is to leave; false after sim_fail(). */
bool sim_memory_leave(sim_kind kind, const void *ptr, const char *api);
void sim_memory_gone(const void *ptr);
size_t sim_memory_used(int device);
bool sim_memory_is_ours(const void *ptr); /* live or not; takes no lock */
/* What a bad pointer is: "which was freed: it lay in a buffer of 64 bytes". Returns text. */
const char *sim_memory_explain(const void *ptr, size_t nbytes, char *text, size_t text_nbytes);
/* What was never freed, as a sentence; 0 when there is none. */
int sim_memory_leaks(char *text, size_t text_nbytes);

/* buffer.c: in the order of a stream */
cudaError_t sim_malloc_async(void **ptr, size_t nbytes, sim_pool *pool, cudaStream_t into, const char *api,
                             const void *made_by);

/* ---- pool.c ---- */

sim_pool *sim_pool_default(int device);
int sim_pool_device(const sim_pool *pool);
bool sim_pool_take(sim_pool *pool, size_t nbytes); /* false: beyond its limit */
void sim_pool_give(sim_pool *pool, size_t nbytes);
void sim_pool_settle(int device); /* somebody waited: what pools hold beyond their thresholds goes back */

/* ---- shadow.c ---- */

extern pthread_mutex_t sim_shadow_lock;
/* Notes an access of the operation to cells [offset, offset + nbytes) of place. Called with the lock. */
void sim_shadow_touch(sim_op *op, const sim_place *place, size_t offset, size_t nbytes, int mode);

/* ---- access.c: memory for operations ---- */

/* sim_access() for an operation that may use several devices (a copy between them). */
void *sim_access_any(const void *ptr, size_t nbytes, int mode);

/* ---- handles.c ---- */

bool sim_handle_known(const char *kind, const void *handle);
int sim_handle_leaks(char *text, size_t text_nbytes);

/* ---- context.c ---- */

void sim_context_need(const char *api);               /* the thread works on a device: makes a context if it has none */
void sim_context_choose(int device, const char *api); /* cudaSetDevice() */

/* ---- api.c: what every function of the API begins and ends with ---- */

/* Starts the simulator; cudaSuccess, or why nothing can be done: no device, after fork(), a broken device. Functions
 * that an operation of a stream may not call end in sim_fail(). is_bare: the function needs no context. */
cudaError_t sim_enter(const char *api, bool is_bare);
/* Keeps the error for cudaGetLastError(). */
cudaError_t sim_leave(cudaError_t error);
cudaError_t sim_device_error(int device);
bool sim_is_exiting(void);
/* "libx.so+0x123" of a return address. Returns text. */
const char *sim_where(const void *address, char *text, size_t text_nbytes);

#define SIM_ENTER_AS(api, is_bare)                                                                                     \
    do {                                                                                                               \
        const cudaError_t enter_error = sim_enter(api, is_bare);                                                       \
        if (enter_error != cudaSuccess)                                                                                \
            return sim_leave(enter_error);                                                                             \
    } while (0)
#define SIM_ENTER(api) SIM_ENTER_AS(#api, false)
#define SIM_ENTER_BARE(api) SIM_ENTER_AS(#api, true)

#define SIM_CALLER __builtin_return_address(0)

#endif
