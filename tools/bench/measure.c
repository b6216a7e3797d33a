/* tools/bench/measure.c - one point: warm-up, batches, rounds, and whether the data are right.
 *
 * Every decision - how large a batch is, how many samples a round has, whether another follows - is made from times
 * that are the largest over all ranks, so all ranks make the same one without being told. Within a round ranks meet
 * only in the barrier in front of each sample; samples of all ranks are put together when it is over.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "bench.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define BATCH_US 50.0      /* a batch lasts at least that long */
#define BATCH_MAX 100000   /* operations of a batch */
#define GROWTH 16          /* from one batch of the warm-up to the next, at most */
#define WARM_SHARE 0.2     /* of the budget, at most */
#define WARM_AGREEMENT 0.1 /* two batches in a row that differ by less end the warm-up */
#define WARM_BATCHES 3     /* at least: the first operation may have things to set up */
#define ROUNDS 4           /* that the budget is meant for */
#define SAMPLES_MIN 11     /* whatever the budget */
#define SAMPLES_MAX 10000
#define ENOUGH_WIDTH (BENCH_RELIABLE_WIDTH / 2) /* of the interval: no further round */

double bench_now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec * 1e-3;
}

static kith_status start_all(bench_run *run)
{
    for (int i = 0; i < run->call_count; i++) {
        kith_status status = bench_call_start(&run->calls[i]);
        if (status != KITH_OK)
            return status;
    }
    return KITH_OK;
}

kith_status bench_run_once(bench_run *run)
{
    if (run->mode == BENCH_BLOCKING && run->call_count == 1)
        return bench_call_run(&run->calls[0]);
    kith_status status = start_all(run);
    if (status == KITH_OK && run->mode == BENCH_OVERLAP)
        status = bench_overlap_compute(run->overlap);
    for (int i = 0; status == KITH_OK && i < run->call_count; i++)
        status = bench_call_wait(&run->calls[i]);
    return status;
}

/* A batch behind a barrier; *us on this rank. A rank that has no part in the operation is through at once. */
static kith_status time_batch(bench_run *run, int64_t batch, double *us)
{
    kith_status status = kith_barrier(run->control);
    double start = bench_now_us();
    for (int64_t i = 0; status == KITH_OK && i < batch; i++)
        status = bench_run_once(run);
    *us = bench_now_us() - start;
    return status;
}

static kith_status time_batch_all(bench_run *run, int64_t batch, double *us)
{
    kith_status status = time_batch(run, batch, us);
    return status == KITH_OK ? kith_all_reduce_scalar(run->control, us, KITH_MAX) : status;
}

static int64_t larger_batch(int64_t batch, double us)
{
    double wanted = us > 0 ? 1.2 * BATCH_US * (double)batch / us : (double)batch * GROWTH;
    double most = (double)batch * GROWTH < BATCH_MAX ? (double)batch * GROWTH : BATCH_MAX;
    double grown = wanted < (double)batch + 1 ? (double)batch + 1 : wanted;
    return (int64_t)(grown < most ? grown : most);
}

/* Finds how large a batch is; *spent_us of the budget, *sample_us of the last batch. */
static kith_status warm_up(bench_run *run, int64_t *batch, double *spent_us, double *sample_us)
{
    double before = INFINITY, fastest = INFINITY, most = WARM_SHARE * run->budget_s * 1e6;
    *batch = 1;
    *spent_us = 0;
    for (int count = 1;; count++) {
        kith_status status = time_batch_all(run, *batch, sample_us);
        if (status != KITH_OK)
            return status;
        double each = *sample_us / (double)*batch;
        *spent_us += *sample_us;
        fastest = each < fastest ? each : fastest;
        bool is_large = fastest * (double)*batch >= BATCH_US || *batch == BATCH_MAX;
        if (is_large && count >= WARM_BATCHES && (fabs(each - before) <= WARM_AGREEMENT * before || *spent_us > most))
            return KITH_OK;
        before = is_large ? each : INFINITY;
        if (!is_large)
            *batch = larger_batch(*batch, fastest * (double)*batch);
    }
}

/* Adds `more` samples to all ranks' list, and how long that took, barriers included. */
static kith_status take_round(bench_run *run, int64_t batch, double *samples, size_t more, double *took_us)
{
    double start = bench_now_us();
    for (size_t i = 0; i < more; i++) {
        kith_status status = time_batch(run, batch, &samples[i]);
        if (status != KITH_OK)
            return status;
        samples[i] *= run->scale / (double)batch;
    }
    samples[more] = bench_now_us() - start; /* travel with them */
    samples[more + 1] = bench_stop_noted();
    kith_status status = kith_all_reduce(run->control, samples, samples, more + 2, KITH_F64, KITH_MAX);
    *took_us = samples[more];
    run->stop_signal = (int)samples[more + 1];
    return status;
}

static size_t round_size(double left_us, double sample_us, size_t count)
{
    double wanted = left_us / ROUNDS / (sample_us > 0 ? sample_us : 1);
    size_t most = SAMPLES_MAX - count;
    size_t more = wanted < SAMPLES_MIN ? SAMPLES_MIN : wanted > SAMPLES_MAX ? SAMPLES_MAX : (size_t)wanted;
    return more < most ? more : most;
}

static bool is_enough(const bench_summary *summary)
{
    return summary->is_reliable && summary->high - summary->low <= ENOUGH_WIDTH * summary->median;
}

/* Batches that turn out to be much shorter than they should be, as the warm-up was disturbed, are only more of that. */
static bool is_too_short(const bench_run *run, const bench_timing *timing)
{
    double us = timing->us.median / run->scale * (double)timing->batch;
    return us < BATCH_US / 2 && timing->batch < BATCH_MAX;
}

static kith_status take_samples(bench_run *run, bench_timing *timing, double *samples, double *sorted)
{
    double spent, each, took;
    size_t count = 0;
    kith_status status = warm_up(run, &timing->batch, &spent, &each);
    double left = run->budget_s * 1e6 - spent, share = left;
    while (status == KITH_OK) {
        size_t more = round_size(share, each, count);
        status = take_round(run, timing->batch, samples + count, more, &took);
        if (status != KITH_OK || run->stop_signal != 0)
            break;
        count += more;
        left -= took;
        each = took / (double)more;
        memcpy(sorted, samples, count * sizeof *samples);
        timing->us = bench_summarize(sorted, count);
        if (is_too_short(run, timing)) {
            timing->batch = larger_batch(timing->batch, timing->us.median / run->scale * (double)timing->batch);
            count = 0;
            continue;
        }
        if (is_enough(&timing->us) || count == SAMPLES_MAX || left < SAMPLES_MIN * each)
            break;
    }
    return status;
}

kith_status bench_measure(bench_run *run, bench_timing *timing)
{
    double *samples = calloc(2 * (SAMPLES_MAX + 2), sizeof *samples);
    *timing = (bench_timing){ .compute_us = NAN, .alone_us = NAN };
    kith_status status = kith_agree(run->control, samples != NULL ? KITH_OK : KITH_ERR_NO_MEMORY);
    if (status == KITH_OK)
        status = take_samples(run, timing, samples, samples + SAMPLES_MAX + 2);
    free(samples);
    return status;
}

/* ---- data ---- */

/* Data pass through a small buffer of the host, so that a check needs no more memory than the operation. */
#define WORK_NBYTES ((size_t)256 * 1024) /* a whole number of elements of any type */

/* Spoils what this rank gets. */
static kith_status spoil(bench_run *run, int i, unsigned char *work)
{
    bench_call *call = &run->calls[i];
    size_t left = call->shape.recv_count * call->element_nbytes, step;
    unsigned char *to = call->recv;
    kith_status status = KITH_OK;
    memset(work, 0xa5, left < WORK_NBYTES ? left : WORK_NBYTES);
    for (; status == KITH_OK && left > 0; left -= step, to += step) {
        step = left < WORK_NBYTES ? left : WORK_NBYTES;
        status = bench_buffers_write(&run->buffers[i], to, work, step);
    }
    return status;
}

/* What this rank gives goes where the operation reads it, which may be within what it gets. */
static kith_status prepare(bench_run *run, int i, int salt, unsigned char *work)
{
    bench_call *call = &run->calls[i];
    const bench_shape *shape = &call->shape;
    size_t element = call->element_nbytes, most = WORK_NBYTES / element, step;
    unsigned char *to = shape->op == (bench_op)KITH_BROADCAST ? call->recv : (void *)(uintptr_t)call->send;
    bench_data data;
    bench_data_init(&data, shape->op, call->dtype, call->redop, shape->size, salt);
    kith_status status = spoil(run, i, work);
    for (size_t at = 0; status == KITH_OK && at < shape->send_count; at += step) {
        step = shape->send_count - at < most ? shape->send_count - at : most;
        bench_data_fill(&data, shape->rank, at, step, work);
        status = bench_buffers_write(&run->buffers[i], to + at * element, work, step * element);
    }
    return status;
}

static kith_status count_wrong(bench_run *run, int i, int salt, unsigned char *work, double *wrong)
{
    bench_call *call = &run->calls[i];
    const bench_shape *shape = &call->shape;
    size_t element = call->element_nbytes, most = WORK_NBYTES / element, index, count;
    const unsigned char *recv = call->recv;
    bench_data data;
    int from;
    kith_status status = KITH_OK;
    bench_data_init(&data, shape->op, call->dtype, call->redop, shape->size, salt);
    for (size_t at = 0; status == KITH_OK && at < shape->recv_count; at += count) {
        bench_shape_source(shape, at, &from, &index, &count);
        count = count < most ? count : most;
        status = bench_buffers_read(&run->buffers[i], work, recv + at * element, count * element);
        *wrong += (double)bench_data_count_wrong(&data, from, index, count, work);
    }
    return status;
}

kith_status bench_check(bench_run *run, int salt, int64_t *errors)
{
    double wrong = 0;
    unsigned char *work = malloc(WORK_NBYTES);
    kith_status status = kith_agree(run->control, work != NULL ? KITH_OK : KITH_ERR_NO_MEMORY);
    for (int i = 0; status == KITH_OK && i < run->call_count; i++)
        status = prepare(run, i, salt, work);
    if (status == KITH_OK)
        status = kith_barrier(run->control);
    if (status == KITH_OK)
        status = bench_run_once(run);
    for (int i = 0; status == KITH_OK && i < run->call_count; i++)
        status = count_wrong(run, i, salt, work, &wrong);
    if (status == KITH_OK)
        status = kith_all_reduce_scalar(run->control, &wrong, KITH_SUM);
    free(work);
    if (status == KITH_OK)
        *errors += (int64_t)wrong;
    return status;
}
