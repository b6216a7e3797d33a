/* bench/drivers/overlap.c
 *
 * Two arrangements of each rank's work:
 *
 *   same cores   one thread: starts the all_reduce, computes in stripes of some ten microseconds with kith_progress()
 *                between them, waits. Nothing is hidden where nobody else has time; it must not cost more either.
 *   free core    the product on one core, a thread that calls kith_all_reduce() on another. Both ranks share the two.
 *
 * The product is sized to take half as long again as the all_reduce in the same arrangement, so all of it could be
 * hidden. hidden = (product + all_reduce - both) / all_reduce.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "../engine/clock.h"
#include "commands.h"
#include "gemm.h"
#include "kith_calls.h"
#include "ordinary.h"
#include "trials.h"

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#define NBYTES ((size_t)16 << 20)
#define ROUNDS 15
#define COMPUTE_SHARE 1.5

typedef struct communicator {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t turn;
    int wanted, done; /* operations */
    bool is_over;
    kith_status status;
} communicator;

typedef struct overlap {
    kith_group *group;
    kith_ctx *ctx;
    void *send, *recv;
    bench_gemm *gemm;
    size_t nbytes; /* of the all_reduce */
    int rounds;
    int stripes; /* of the product */
    int next_stripe;
    communicator *free; /* NULL: same cores */
} overlap;

static kith_status sum(const overlap *o)
{
    return kith_all_reduce(o->group, o->send, o->recv, o->nbytes / sizeof(float), KITH_F32, KITH_SUM);
}

static void *communicate(void *arg)
{
    const overlap *o = arg;
    communicator *c = o->free;
    bench_pin(bench_usable_cpus() - 1);
    pthread_mutex_lock(&c->lock);
    while (!c->is_over) {
        if (c->done == c->wanted) {
            pthread_cond_wait(&c->turn, &c->lock);
            continue;
        }
        pthread_mutex_unlock(&c->lock);
        kith_status status = sum(o);
        pthread_mutex_lock(&c->lock);
        c->status = status;
        c->done++;
        pthread_cond_broadcast(&c->turn);
    }
    pthread_mutex_unlock(&c->lock);
    return NULL;
}

static void hand_over(communicator *c)
{
    pthread_mutex_lock(&c->lock);
    c->wanted++;
    pthread_cond_broadcast(&c->turn);
    pthread_mutex_unlock(&c->lock);
}

static kith_status take_back(communicator *c)
{
    pthread_mutex_lock(&c->lock);
    while (c->done != c->wanted) {
        pthread_cond_wait(&c->turn, &c->lock);
    }
    kith_status status = c->status;
    pthread_mutex_unlock(&c->lock);
    return status;
}

static kith_status compute(overlap *o, bool has_progress)
{
    kith_status status = KITH_OK;
    for (int i = 0; i < o->stripes && status == KITH_OK; i++) {
        bench_gemm_stripe(o->gemm, o->next_stripe++ % BENCH_GEMM_STRIPES);
        status = has_progress ? kith_progress(o->ctx) : KITH_OK;
    }
    return status;
}

static kith_status product_alone(void *self)
{
    return compute(self, false);
}

static kith_status sum_alone(void *self)
{
    overlap *o = self;
    if (o->free != NULL) {
        hand_over(o->free);
        return take_back(o->free);
    }
    return sum(o);
}

static kith_status both(void *self)
{
    overlap *o = self;
    if (o->free != NULL) {
        hand_over(o->free);
        compute(o, false);
        return take_back(o->free);
    }
    kith_request *request;
    kith_status status =
        kith_all_reduce_start(o->group, o->send, o->recv, o->nbytes / sizeof(float), KITH_F32, KITH_SUM, &request);
    if (status != KITH_OK) {
        return status;
    }
    kith_status computed = compute(o, true);
    status = kith_wait(&request);
    return status != KITH_OK ? status : computed;
}

/* Stripes that take COMPUTE_SHARE of an all_reduce in this arrangement; the same number on all ranks. */
static kith_status size_product(overlap *o, bench_peers *peers)
{
    bench_trials trials = { .run = { sum_alone, product_alone }, .self = o, .way_count = 2, .rounds = 5 };
    o->stripes = BENCH_GEMM_STRIPES;
    kith_status status = bench_trials_run(&trials, peers, o->group);
    o->stripes = (int)(COMPUTE_SHARE * trials.median_us[0] / trials.median_us[1] * BENCH_GEMM_STRIPES) + 1;
    return status;
}

static kith_status measure(overlap *o, const char *arrangement, bench_peers *peers, json_t *rows)
{
    bench_trials trials = { .run = { product_alone, sum_alone, both }, .self = o, .way_count = 3, .rounds = o->rounds };
    kith_status status = size_product(o, peers);
    status = status != KITH_OK ? status : bench_trials_run(&trials, peers, o->group);
    if (status != KITH_OK) {
        return status;
    }
    const double *us = trials.median_us, *cpu = trials.cpu_us;
    double hidden = 100 * (us[0] + us[1] - us[2]) / us[1], cost = cpu[2] / (cpu[0] + cpu[1]);
    if (peers->rank == 0) {
        printf("%-12s %12.0f %12.0f %12.0f %9.0f %% %10.2f\n", arrangement, us[0], us[1], us[2], hidden, cost);
    }
    json_array_append_new(rows, json_pack("{s:s, s:I, s:f, s:f, s:f, s:f, s:f, s:f, s:f}", "arrangement", arrangement,
                                          "nbytes", (json_int_t)o->nbytes, "compute_us", us[0], "comm_us", us[1],
                                          "both_us", us[2], "hidden_percent", hidden, "compute_cpu_us", cpu[0],
                                          "comm_cpu_us", cpu[1], "both_cpu_us", cpu[2]));
    return KITH_OK;
}

static kith_status measure_free(overlap *o, bench_peers *peers, const cpu_set_t *usable, json_t *rows)
{
    communicator c = { .lock = PTHREAD_MUTEX_INITIALIZER, .turn = PTHREAD_COND_INITIALIZER };
    cpu_set_t before;
    sched_getaffinity(0, sizeof(before), &before);
    sched_setaffinity(0, sizeof(*usable), usable);
    o->free = &c;
    if (pthread_create(&c.thread, NULL, communicate, o) != 0) {
        fprintf(stderr, "kith-bench overlap: cannot start a thread\n");
        return KITH_ERR_NO_RESOURCE;
    }
    bench_pin(0);
    const bool was_spinning = peers->is_spinning;
    peers->is_spinning = false; /* all ranks are on one core now, and would spin while the other waits for it */
    kith_status status = measure(o, "free core", peers, rows);
    peers->is_spinning = was_spinning;
    pthread_mutex_lock(&c.lock);
    c.is_over = true;
    pthread_cond_broadcast(&c.turn);
    pthread_mutex_unlock(&c.lock);
    pthread_join(c.thread, NULL);
    sched_setaffinity(0, sizeof(before), &before);
    o->free = NULL;
    return status;
}

int bench_overlap(kith_group *world, bench_peers *peers, const cpu_set_t *usable, const bench_options *options)
{
    overlap o = { .group = world, .ctx = kith_group_ctx(world), .gemm = malloc(sizeof(*o.gemm)) };
    o.nbytes = options->max_nbytes < NBYTES ? options->max_nbytes : NBYTES;
    o.rounds = bench_trials_rounds(options, ROUNDS);
    bool mine = o.gemm != NULL && bench_allocate_ordinary(NULL, o.nbytes, &o.send, &o.recv);
    if (!bench_agree(peers, mine)) {
        return 1;
    }
    bench_gemm_init(o.gemm);
    if (peers->rank == 0) {
        printf("%-12s %12s %12s %12s %11s %10s\n", "", "product us", "sum us", "both us", "hidden", "CPU ratio");
    }
    json_t *rows = json_array();
    kith_status status = measure(&o, "same cores", peers, rows);
    if (status == KITH_OK && CPU_COUNT(usable) > 1) {
        status = measure_free(&o, peers, usable, rows);
    }
    bool is_right = bench_gemm_is_right(o.gemm, o.next_stripe - 1);
    if (!is_right) {
        fprintf(stderr, "kith-bench overlap: a product is wrong on rank %d\n", peers->rank);
    }
    bool is_fine =
        status == KITH_OK && is_right && bench_trials_write(options->json_path, "kith-bench-overlap-1", world, rows);
    json_decref(rows);
    free(o.gemm);
    free(o.send);
    free(o.recv);
    return is_fine ? 0 : 1;
}
