/* bench/engine/point.c
 *
 * Rank 0 decides how the iterations go on and publishes the phase of iteration i in slot i mod 2 before the barrier
 * that starts it. A rank reads its slot after that barrier; rank 0 can be at most one barrier ahead, so it never
 * overwrites a slot that is still to be read.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "point.h"

#include "clock.h"

#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#define WARM_ITERATIONS 20
#define WARM_SHARE 0.25
#define BATCHES 15
#define BATCH_NS 400000.0
#define BATCH_MAX 400

enum phase { PHASE_WARM, PHASE_TIMED, PHASE_STOP };

typedef struct point_run {
    const bench_driver *driver;
    const bench_variant *variant;
    bench_peers *peers;
    bench_data *data;
    const bench_limits *limits;
    bench_shape shape;
    bench_call call;
    uint64_t started_ns; /* of the phase; rank 0 */
    int timed;           /* iterations measured so far */
} point_run;

const char *bench_mode_name(bench_mode mode)
{
    return mode == BENCH_COLD ? "cold" : "back_to_back";
}

bool bench_mode_parse(const char *name, bench_mode *mode)
{
    for (int i = 0; i < BENCH_MODE_COUNT; i++) {
        if (strcmp(name, bench_mode_name((bench_mode)i)) == 0) {
            *mode = (bench_mode)i;
            return true;
        }
    }
    return false;
}

static uint64_t involuntary_switches(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (uint64_t)usage.ru_nivcsw;
}

static double elapsed_ms(const point_run *run)
{
    return (double)(bench_system_ns() - run->started_ns) * 1e-6;
}

/* Rank 0's decision about the next iteration, `index` from the start of the point. */
static enum phase next_phase(point_run *run, int index, enum phase phase)
{
    const bench_limits *limits = run->limits;
    if (phase == PHASE_WARM && index > 0 &&
        (index >= WARM_ITERATIONS || elapsed_ms(run) > limits->budget_ms * WARM_SHARE)) {
        run->started_ns = bench_system_ns();
        return PHASE_TIMED;
    }
    if (phase == PHASE_TIMED && (run->timed >= limits->max_iterations ||
                                 (run->timed >= limits->min_iterations && elapsed_ms(run) > limits->budget_ms))) {
        return PHASE_STOP;
    }
    return phase;
}

static bool push(const point_run *run)
{
    return run->variant->push == NULL || run->variant->push(run->variant->self, &run->call);
}

static bool pull(const point_run *run)
{
    return run->variant->pull == NULL || run->variant->pull(run->variant->self, &run->call);
}

static void report_wrong(const point_run *run, uint32_t iteration, const bench_data_error *error)
{
    if (atomic_exchange(&run->peers->segment->is_wrong.value, 1) == 0) {
        fprintf(stderr,
                "bench: %s %s: wrong data in %s, %zu elements on %d ranks, rank %d, iteration %u: element %zu is %g "
                "and must be %g\n",
                run->driver->name, run->variant->name, bench_op_name(run->shape.op), run->shape.count, run->shape.size,
                run->shape.rank, iteration, error->index, error->got, error->wanted);
    }
}

static void check(const point_run *run, uint32_t iteration, bool is_full)
{
    bench_data_error error;
    bool is_right = is_full ? bench_data_check(run->data, &run->shape, iteration, run->call.recv, &error)
                            : bench_data_check_samples(run->data, &run->shape, iteration, run->call.recv, &error);
    if (!is_right) {
        report_wrong(run, iteration, &error);
    }
}

/* All data are checked in the first iteration at all, the first that counts and one in the middle; the last one
 * follows when it is known to be the last. */
static bool is_checked_fully(const point_run *run, int index, enum phase phase)
{
    return index == 0 || (phase == PHASE_TIMED && (run->timed == 0 || run->timed == run->limits->min_iterations / 2));
}

static bool run_cold(point_run *run)
{
    bench_segment *segment = run->peers->segment;
    enum phase phase = PHASE_WARM;
    run->started_ns = bench_system_ns();
    for (int index = 0;; index++) {
        uint32_t iteration = (uint32_t)index;
        if (run->peers->rank == 0) {
            atomic_store(&segment->phase[index & 1].value, (uint32_t)next_phase(run, index, phase));
        }
        bench_data_fill(run->data, &run->shape, iteration, run->call.send);
        if (!push(run)) {
            return false;
        }
        uint64_t start = bench_release(run->peers);
        phase = (enum phase)atomic_load(&segment->phase[index & 1].value);
        if (phase == PHASE_STOP) { /* recv still holds the result of the iteration before */
            check(run, iteration - 1, true);
            return true;
        }
        if (!run->variant->run(run->variant->self, &run->call)) {
            return false;
        }
        uint64_t end = bench_ticks();
        if (!pull(run)) {
            return false;
        }
        check(run, iteration, is_checked_fully(run, index, phase));
        if (phase == PHASE_TIMED) {
            segment->ns[run->peers->rank][run->timed] = end > start ? bench_ticks_to_ns(end - start) : 0;
            run->timed++;
        }
    }
}

/* How many operations fill a batch, from a few timed alone. Rank 0 decides. */
static bool choose_batch(point_run *run)
{
    const int trials = 4;
    bench_segment *segment = run->peers->segment;
    uint64_t start = bench_release(run->peers);
    for (int k = 0; k < trials; k++) {
        if (!run->variant->run(run->variant->self, &run->call)) {
            return false;
        }
    }
    bench_barrier(run->peers);
    if (run->peers->rank == 0) {
        double ns = bench_ticks_to_ns(bench_ticks() - start) / trials;
        double share = run->limits->budget_ms * 1e6 / BATCHES;
        double batch = (share < BATCH_NS ? share : BATCH_NS) / (ns > 1 ? ns : 1);
        segment->batch = batch < 2 ? 2 : batch > BATCH_MAX ? BATCH_MAX : (uint32_t)batch;
    }
    bench_barrier(run->peers);
    return true;
}

static bool run_back_to_back(point_run *run)
{
    bench_segment *segment = run->peers->segment;
    bench_data_fill(run->data, &run->shape, 0, run->call.send);
    memset(run->call.recv, 0xff, run->shape.recv_count * run->data->nbytes);
    if (!push(run) || !choose_batch(run) || !pull(run)) {
        return false;
    }
    check(run, 0, true);
    enum phase phase = PHASE_TIMED;
    run->started_ns = bench_system_ns();
    for (int index = 0;; index++) {
        if (run->peers->rank == 0) {
            bool is_over = run->timed >= BATCHES || (run->timed >= 3 && elapsed_ms(run) > run->limits->budget_ms);
            atomic_store(&segment->phase[index & 1].value, is_over ? PHASE_STOP : PHASE_TIMED);
        }
        uint64_t start = bench_release(run->peers);
        phase = (enum phase)atomic_load(&segment->phase[index & 1].value);
        if (phase == PHASE_STOP) {
            break;
        }
        for (uint32_t k = 0; k < segment->batch; k++) {
            if (!run->variant->run(run->variant->self, &run->call)) {
                return false;
            }
        }
        segment->ns[run->peers->rank][run->timed++] = bench_ticks_to_ns(bench_ticks() - start) / segment->batch;
    }
    if (!pull(run)) {
        return false;
    }
    check(run, 0, true);
    return true;
}

static void summarize(const point_run *run, bench_result *result)
{
    static double worst[BENCH_MAX_ITERATIONS];
    bench_segment *segment = run->peers->segment;
    size_t count = (size_t)run->timed;
    bench_max_over_ranks(&segment->ns[0][0], BENCH_MAX_ITERATIONS, run->peers->size, count, worst);
    for (size_t i = 0; i < count; i++) {
        worst[i] *= bench_op_scale(run->shape.op) * 1e-3;
    }
    result->us = bench_summarize(worst, count);
    result->switches = 0;
    for (int r = 0; r < run->peers->size; r++) {
        result->switches += segment->switches[r];
    }
    result->is_right = atomic_load(&segment->is_wrong.value) == 0;
}

bool bench_point(const bench_driver *driver, const bench_variant *variant, bench_data *data, bench_op op, size_t nbytes,
                 bench_mode mode, const bench_limits *limits, void *send, void *recv, bench_result *result)
{
    bench_peers *peers = driver->peers;
    point_run run = { .driver = driver, .variant = variant, .peers = peers, .data = data, .limits = limits };
    run.shape = bench_shape_of(op, nbytes, data->nbytes, peers->rank, peers->size);
    run.call = (bench_call){ .shape = &run.shape, .dtype = data->dtype, .send = send, .recv = recv };
    *result = (bench_result){ .op = op, .mode = mode, .nbytes = run.shape.count * data->nbytes };
    if (peers->rank == 0) {
        atomic_store(&peers->segment->is_wrong.value, 0);
    }
    result->flag_before_ns = bench_flag_latency(peers);
    uint64_t switches = involuntary_switches();
    if (mode == BENCH_COLD ? !run_cold(&run) : !run_back_to_back(&run)) {
        return false;
    }
    peers->segment->switches[peers->rank] = involuntary_switches() - switches;
    result->flag_after_ns = bench_flag_latency(peers);
    if (peers->rank == 0) {
        summarize(&run, result);
    }
    bench_barrier(peers); /* nobody writes new times before rank 0 has read these */
    return true;
}
