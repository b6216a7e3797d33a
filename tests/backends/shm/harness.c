/* tests/backends/shm/harness.c - see harness.h.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "harness.h"
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

struct harness_shared {
    uint64_t arrived[HARNESS_RANKS];
    int32_t failures;
    int32_t statuses[HARNESS_RANKS];
    unsigned char exchange[HARNESS_RANKS][HARNESS_EXCHANGE_NBYTES];
    unsigned char notes[65536];
};

static _Thread_local harness_rank *current;
static _Thread_local uint64_t barriers;

int64_t harness_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

void harness_fail(harness_rank *me, const char *format, ...)
{
    char text[512];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    if (__atomic_fetch_add(&me->shared->failures, 1, __ATOMIC_RELAXED) < 20)
        fprintf(stderr, "rank %d of %d: %s\n", me->rank, me->size, text);
}

int harness_failures(const harness_rank *me)
{
    return __atomic_load_n(&me->shared->failures, __ATOMIC_RELAXED);
}

void harness_barrier(harness_rank *me)
{
    uint64_t number = ++barriers;
    __atomic_store_n(&me->shared->arrived[me->rank], number, __ATOMIC_RELEASE);
    for (int r = 0; r < me->size; r++)
        while (__atomic_load_n(&me->shared->arrived[r], __ATOMIC_ACQUIRE) < number)
            sched_yield();
}

/* ---- the host table ---- */

static kith_status host_fail(kith_status status, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    if (current != NULL)
        vsnprintf(current->detail, sizeof current->detail, format, list);
    va_end(list);
    return status;
}

static void host_log(void *cookie, kith_log_level level, const char *line)
{
    (void)cookie;
    if (level <= KITH_LOG_WARN)
        fprintf(stderr, "%s\n", line);
}

static void *host_alloc(void *cookie, size_t nbytes, size_t alignment)
{
    (void)cookie;
    void *data = NULL;
    return posix_memalign(&data, alignment < sizeof(void *) ? sizeof(void *) : alignment, nbytes) == 0 ? data : NULL;
}

static void host_free(void *cookie, void *ptr)
{
    (void)cookie;
    free(ptr);
}

static const char *host_setting(void *cookie, const char *name, const char *default_value)
{
    const harness_rank *me = cookie;
    for (const harness_setting *s = me->options->settings; s != NULL && s->name != NULL; s++)
        if (strcmp(s->name, name) == 0)
            return s->value;
    return default_value;
}

static void host_agree(void *cookie, const char *name, uint64_t value)
{
    (void)cookie;
    (void)name;
    (void)value;
}

static kith_status host_exchange(void *cookie, kith_status mine, const void *in, size_t nbytes, void *out)
{
    harness_rank *me = cookie;
    harness_shared *shared = me->shared;
    if (nbytes > HARNESS_EXCHANGE_NBYTES)
        abort();
    shared->statuses[me->rank] = mine;
    if (nbytes != 0)
        memcpy(shared->exchange[me->rank], in, nbytes);
    harness_barrier(me);
    kith_status worst = KITH_OK;
    for (int r = 0; r < me->size; r++)
        if (shared->statuses[r] < (int32_t)worst)
            worst = (kith_status)shared->statuses[r];
    for (int r = 0; worst == KITH_OK && nbytes != 0 && r < me->size; r++)
        memcpy((unsigned char *)out + (size_t)r * nbytes, shared->exchange[r], nbytes);
    harness_barrier(me);
    return worst;
}

static void host_peer_failed(void *cookie, int peer, const char *why)
{
    harness_rank *me = cookie;
    (void)why;
    me->failed_peer = peer;
}

/* ---- a rank ---- */

typedef struct rank_start {
    harness_rank rank;
    harness_body body;
} rank_start;

static void run_rank(rank_start *start)
{
    harness_rank *me = &start->rank;
    int nodes[HARNESS_RANKS] = { 0 }, world[HARNESS_RANKS];
    for (int r = 0; r < me->size; r++)
        world[r] = r;
    current = me;
    barriers = 0;
    me->failed_peer = -1;
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    me->host = (kith_be_host){ .struct_size = sizeof me->host,
                               .cookie = me,
                               .rank = me->rank,
                               .size = me->size,
                               .local_rank = me->rank,
                               .local_size = me->size,
                               .node_of = nodes,
                               .is_threads = me->options->is_threads,
                               .spin = me->size <= cpus ? 2000 : 0,
                               .connect_timeout_ms = 30000,
                               .fail = host_fail,
                               .log = host_log,
                               .alloc = host_alloc,
                               .free = host_free,
                               .setting = host_setting,
                               .agree = host_agree,
                               .exchange = host_exchange,
                               .peer_failed = host_peer_failed,
                               .job_id = 1 };
    me->backend = ki_shm_backend();
    kith_be_group_info info = { .struct_size = sizeof info,
                                .cookie = me,
                                .name = "test",
                                .id = 1,
                                .rank = me->rank,
                                .size = me->size,
                                .world_ranks = world,
                                .node_of = nodes,
                                .is_one_node = 1 };
    if (me->backend->open(&me->host, &me->be) != KITH_OK) {
        harness_fail(me, "open: %s", me->detail);
        return;
    }
    me->status = me->backend->group_create(me->be, &info, &me->group);
    if (me->status != KITH_OK && !me->options->may_fail_create)
        harness_fail(me, "group_create: %s", me->detail);
    else
        start->body(me);
    if (me->options->killed_rank == 0)
        harness_barrier(me); /* a process that ends while others still talk would count as dead */
    if (me->status == KITH_OK)
        me->backend->group_destroy(me->group);
    me->backend->close(me->be);
}

static void *run_thread(void *arg)
{
    run_rank(arg);
    return NULL;
}

static void run_threads(rank_start *starts, int size)
{
    pthread_t threads[HARNESS_RANKS];
    for (int r = 0; r < size; r++)
        if (pthread_create(&threads[r], NULL, run_thread, &starts[r]) != 0)
            abort();
    for (int r = 0; r < size; r++)
        pthread_join(threads[r], NULL);
}

static void run_processes(rank_start *starts, const harness_options *options)
{
    pid_t pids[HARNESS_RANKS];
    int left = options->size;
    for (int r = 0; r < options->size; r++) {
        pids[r] = fork();
        if (pids[r] == 0) {
            run_rank(&starts[r]);
            fflush(NULL);
            exit(0);
        }
    }
    int64_t until = harness_now_ns() + (options->timeout_s != 0 ? options->timeout_s : 60) * INT64_C(1000000000);
    while (left > 0) {
        for (int r = 0; r < options->size; r++) {
            int how;
            if (pids[r] <= 0 || waitpid(pids[r], &how, WNOHANG) != pids[r])
                continue;
            pids[r] = 0;
            left--;
            if ((!WIFEXITED(how) || WEXITSTATUS(how) != 0) && options->killed_rank != r + 1 &&
                options->killed_rank != -1)
                harness_fail(&starts[r].rank, "rank ended with status 0x%x", (unsigned)how);
        }
        if (left > 0 && harness_now_ns() > until) {
            for (int r = 0; r < options->size; r++) {
                if (pids[r] > 0) {
                    harness_fail(&starts[r].rank, "still running at the deadline");
                    kill(pids[r], SIGKILL);
                }
            }
            until = INT64_MAX;
        }
        if (left > 0)
            usleep(1000);
    }
}

int harness_run(const harness_options *options, harness_body body, void *user)
{
    harness_shared *shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    rank_start *starts = calloc((size_t)options->size, sizeof *starts);
    if (shared == MAP_FAILED || starts == NULL)
        abort();
    for (int r = 0; r < options->size; r++) {
        starts[r].body = body;
        starts[r].rank = (harness_rank){
            .rank = r, .size = options->size, .options = options, .shared = shared, .notes = shared->notes, .user = user
        };
    }
    fflush(NULL);
    if (options->is_threads)
        run_threads(starts, options->size);
    else
        run_processes(starts, options);
    int failures = shared->failures;
    free(starts);
    munmap(shared, sizeof *shared);
    return failures;
}

/* ---- blocking forms ---- */

#define WAIT_NS INT64_C(30000000000)

/* A yield on a loaded machine can take long: then it is time to sleep. */
static void pause_a_little(harness_rank *me, unsigned *polls, int64_t *since_ns)
{
    if (++*polls < (unsigned)me->host.spin)
        return;
    int64_t now = harness_now_ns();
    if (*since_ns == 0)
        *since_ns = now;
    if (now - *since_ns > 50000)
        me->backend->idle(me->be, 1000000);
    else
        sched_yield();
}

kith_status harness_coll(harness_rank *me, kith_be_coll *coll)
{
    kith_be_slot slot = { { 0 } };
    kith_status status = me->backend->coll_start(me->group, coll, &slot);
    int64_t until = harness_now_ns() + WAIT_NS;
    unsigned polls = 0;
    int64_t since_ns = 0;
    for (int is_done = 0; status == KITH_OK;) {
        status = me->backend->coll_test(me->group, &slot, &is_done);
        if (is_done)
            break;
        pause_a_little(me, &polls, &since_ns);
        if (polls % 64 == 0 && harness_now_ns() > until) {
            harness_fail(me, "%s of %zu elements: no end", kith_coll_name(coll->kind), coll->count);
            me->backend->coll_cancel(me->group, &slot);
            return KITH_ERR_TIMEOUT;
        }
    }
    return status;
}

kith_status harness_wait_msg(harness_rank *me, kith_be_slot *slot, size_t *nbytes)
{
    int64_t until = harness_now_ns() + WAIT_NS;
    unsigned polls = 0;
    int64_t since_ns = 0;
    for (;;) {
        int is_done = 0;
        kith_status status = me->backend->msg_test(me->group, slot, &is_done, nbytes);
        if (is_done || status != KITH_OK)
            return status;
        me->backend->progress(me->be);
        pause_a_little(me, &polls, &since_ns);
        if (polls % 64 == 0 && harness_now_ns() > until) {
            harness_fail(me, "a message does not end");
            me->backend->msg_cancel(me->group, slot);
            return KITH_ERR_TIMEOUT;
        }
    }
}
