/* layers/compute/pool.c - workers that wait for calls, and the caller that waits for workers (see pool.h).
 *
 * A call is published under the lock: its function, its parts, and a new number. A worker that sees the number takes
 * the lock and joins - `active` counts those inside - or finds the call closed and waits on. Parts are handed out by an
 * atomic counter. When it finds no more of them, the caller closes the call and waits for those that joined.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "pool.h"
#include "core/base/error.h"
#include "core/base/log.h"
#include "core/base/mem.h"
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

/* How long a wait spins, and how often it then gives the core away, before it sleeps. Some tens of microseconds: what a
 * layer does between two calls; waking a sleeper costs as much. */
enum { SPINS = 2000, YIELDS = 50 };

typedef struct worker {
    ki_pool *pool;
    pthread_t thread;
    int number;
} worker;

struct ki_pool {
    int threads;
    void (*begin)(void);
    int started; /* workers that run; number i of them is worker i + 1 */
    bool is_started;
    pid_t process; /* whose threads they are */
    worker *workers;

    pthread_mutex_t lock;
    pthread_cond_t called, left;
    atomic_uint number; /* of the newest call; changes under the lock, workers spin on it */
    atomic_int active;  /* workers inside; changes under the lock, the caller spins on it */
    bool is_open, is_ending;

    ki_pool_fn run_part;
    const void *call;
    int64_t parts;
    _Atomic int64_t next;
};

static void rest(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#endif
}

/* The step of a wait that has looked `turn` times in vain. False: it should sleep. */
static bool keep_looking(int turn)
{
    if (turn < SPINS)
        rest();
    else if (turn < SPINS + YIELDS)
        sched_yield();
    else
        return false;
    return true;
}

static void run_parts(ki_pool *pool, int number)
{
    int64_t part;
    while ((part = atomic_fetch_add_explicit(&pool->next, 1, memory_order_relaxed)) < pool->parts)
        pool->run_part(pool->call, part, number);
}

/* Waits for the number to become another than `seen`, then joins if the call is still open. */
static bool join(ki_pool *pool, unsigned *seen, bool *is_ending)
{
    int turn = 0;
    while (atomic_load_explicit(&pool->number, memory_order_relaxed) == *seen && keep_looking(turn))
        turn++;
    pthread_mutex_lock(&pool->lock);
    while (atomic_load_explicit(&pool->number, memory_order_relaxed) == *seen)
        pthread_cond_wait(&pool->called, &pool->lock);
    *seen = atomic_load_explicit(&pool->number, memory_order_relaxed);
    *is_ending = pool->is_ending;
    const bool is_inside = pool->is_open;
    if (is_inside)
        atomic_fetch_add_explicit(&pool->active, 1, memory_order_relaxed);
    pthread_mutex_unlock(&pool->lock);
    return is_inside;
}

static void leave(ki_pool *pool)
{
    pthread_mutex_lock(&pool->lock);
    if (atomic_fetch_sub_explicit(&pool->active, 1, memory_order_release) == 1)
        pthread_cond_signal(&pool->left);
    pthread_mutex_unlock(&pool->lock);
}

static void *work(void *argument)
{
    worker *self = (worker *)argument;
    unsigned seen = 0;
    bool is_ending = false;
    if (self->pool->begin != NULL)
        self->pool->begin();
    while (!is_ending) {
        if (!join(self->pool, &seen, &is_ending))
            continue;
        run_parts(self->pool, self->number);
        leave(self->pool);
    }
    return NULL;
}

/* Signals are the caller's threads' business. */
static void start_workers(ki_pool *pool)
{
    sigset_t all, old;
    pool->is_started = true;
    pool->process = getpid();
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    for (int i = 0; i < pool->threads - 1; i++) {
        worker *one = &pool->workers[i];
        *one = (worker){ .pool = pool, .number = i + 1 };
        int error = pthread_create(&one->thread, NULL, work, one);
        if (error != 0) {
            ki_log(KITH_LOG_WARN, "layers: only %d of %d threads could be made: %s", i + 1, pool->threads,
                   strerror(error));
            break;
        }
        pool->started++;
    }
    pthread_sigmask(SIG_SETMASK, &old, NULL);
}

kith_status ki_pool_create(int threads, void (*begin)(void), ki_pool **pool)
{
    ki_pool *made = (ki_pool *)ki_calloc(NULL, 1, sizeof *made);
    worker *workers = (worker *)ki_calloc(NULL, (size_t)threads, sizeof *workers);
    if (made == NULL || workers == NULL) {
        ki_free(NULL, made);
        ki_free(NULL, workers);
        return KITH_ERR_NO_MEMORY;
    }
    made->threads = threads;
    made->begin = begin;
    made->workers = workers;
    pthread_mutex_init(&made->lock, NULL);
    pthread_cond_init(&made->called, NULL);
    pthread_cond_init(&made->left, NULL);
    *pool = made;
    return KITH_OK;
}

void ki_pool_destroy(ki_pool *pool)
{
    if (pool == NULL)
        return;
    if (pool->started > 0 && pool->process == getpid()) {
        pthread_mutex_lock(&pool->lock);
        pool->is_ending = true;
        atomic_fetch_add_explicit(&pool->number, 1, memory_order_relaxed);
        pthread_cond_broadcast(&pool->called);
        pthread_mutex_unlock(&pool->lock);
        for (int i = 0; i < pool->started; i++)
            pthread_join(pool->workers[i].thread, NULL);
        pthread_cond_destroy(&pool->left);
        pthread_cond_destroy(&pool->called);
        pthread_mutex_destroy(&pool->lock);
    }
    ki_free(NULL, pool->workers);
    ki_free(NULL, pool);
}

int ki_pool_threads(const ki_pool *pool)
{
    return pool != NULL ? pool->threads : 1;
}

static bool has_workers(ki_pool *pool)
{
    if (pool == NULL || pool->threads == 1)
        return false;
    if (!pool->is_started)
        start_workers(pool);
    return pool->started > 0 && pool->process == getpid();
}

static void publish(ki_pool *pool, int64_t parts, ki_pool_fn run_part, const void *call)
{
    pthread_mutex_lock(&pool->lock);
    pool->run_part = run_part;
    pool->call = call;
    pool->parts = parts;
    atomic_store_explicit(&pool->next, 0, memory_order_relaxed);
    pool->is_open = true;
    atomic_fetch_add_explicit(&pool->number, 1, memory_order_relaxed);
    pthread_cond_broadcast(&pool->called);
    pthread_mutex_unlock(&pool->lock);
}

/* No worker joins any more; those that did are waited for. */
static void close_call(ki_pool *pool)
{
    int turn = 0;
    pthread_mutex_lock(&pool->lock);
    pool->is_open = false;
    pthread_mutex_unlock(&pool->lock);
    while (atomic_load_explicit(&pool->active, memory_order_acquire) > 0 && keep_looking(turn))
        turn++;
    pthread_mutex_lock(&pool->lock);
    while (atomic_load_explicit(&pool->active, memory_order_relaxed) > 0)
        pthread_cond_wait(&pool->left, &pool->lock);
    pthread_mutex_unlock(&pool->lock);
}

void ki_pool_run(ki_pool *pool, int64_t parts, ki_pool_fn run_part, const void *call)
{
    if (parts <= 1 || !has_workers(pool)) {
        for (int64_t part = 0; part < parts; part++)
            run_part(call, part, 0);
        return;
    }
    publish(pool, parts, run_part, call);
    run_parts(pool, 0);
    close_call(pool);
}
