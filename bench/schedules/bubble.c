/* bench/schedules/bubble.c - how long a step of a pipeline takes, against what its plan says.
 *
 *     kith run -n 8 -- bench-schedules [--unit-ms 4] [--steps 3] [--microbatches 8,16,32] [--nbytes 4096]
 *
 * Ranks sleep where a trainer would compute, so more of them than there are processors run side by side. A rank's F
 * takes a unit, B two, I and W one each; with two chunks a rank each chunk has half. Messages carry --nbytes. Rank 0
 * prints a table in Markdown: the middle of the measured steps, the step of kith_schedule_simulate() with messages that
 * take no time, and the bubbles, which is what is left of each when the busiest rank's computation is taken away.
 *
 * What is measured beyond the theory is the executor, the messages, two agreements at the end, and the sleeps, which
 * are always late by a little.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#define _GNU_SOURCE
#include <kith/kith.h>

#include <kith/pipeline.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

enum { COUNTS_MOST = 8, STEPS_MOST = 99 };

typedef struct bench {
    double unit_ms;
    int steps, counts[COUNTS_MOST], count_count;
    size_t nbytes;
    kith_group *world;
    int rank, size;
} bench;

static void must(kith_status status, const char *what)
{
    if (status == KITH_OK)
        return;
    fprintf(stderr, "bench-schedules: %s: %s: %s\n", what, kith_status_name(status), kith_error_detail());
    exit(EXIT_FAILURE);
}

/* ---- computation ---- */

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void sleep_until(double end)
{
    struct timespec t = { (time_t)end, (long)(1e9 * (end - (double)(time_t)end)) };
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) != 0) {
    }
}

/* user: seconds of an F. */
static kith_status compute(void *user, const kith_stage_call *call)
{
    double f = *(const double *)user;
    sleep_until(seconds() + (call->type == KITH_ACTION_B ? 2 * f : f));
    return KITH_OK;
}

/* ---- one plan ---- */

static int compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Milliseconds of a step: of the slowest rank, the middle of all steps; the first is not counted. */
static double measure(const bench *b, const kith_schedule *plan, double f_ms)
{
    double f = f_ms / 1e3, times[STEPS_MOST];
    kith_pipeline_callbacks callbacks = KITH_PIPELINE_CALLBACKS_INIT;
    callbacks.user = &f;
    callbacks.forward = callbacks.backward = compute;
    kith_pipeline_options options = KITH_PIPELINE_OPTIONS_INIT;
    options.message_nbytes = b->nbytes;
    kith_pipeline *pipeline;
    must(kith_pipeline_create(plan, b->world, &callbacks, &options, &pipeline), "kith_pipeline_create");
    for (int step = -1; step < b->steps; step++) {
        must(kith_barrier(b->world), "kith_barrier");
        double start = seconds();
        must(kith_pipeline_step(pipeline), "kith_pipeline_step");
        double took = 1e3 * (seconds() - start);
        must(kith_all_reduce(b->world, &took, &took, 1, KITH_F64, KITH_MAX), "kith_all_reduce");
        if (step >= 0)
            times[step] = took;
    }
    kith_pipeline_destroy(pipeline);
    qsort(times, (size_t)b->steps, sizeof times[0], compare_doubles);
    return times[b->steps / 2];
}

static void theory(const kith_schedule *plan, double f_ms, double *step_ms, double *bubble_ms)
{
    kith_schedule_costs costs = KITH_SCHEDULE_COSTS_INIT;
    costs.same.f = costs.same.i = costs.same.w = f_ms;
    kith_simulation *run;
    must(kith_schedule_simulate(plan, &costs, &run), "kith_schedule_simulate");
    *step_ms = kith_simulation_total(run)->makespan;
    *bubble_ms = kith_simulation_total(run)->bubble;
    kith_simulation_destroy(run);
}

static void run_plan(const bench *b, kith_schedule_kind kind, int microbatches)
{
    kith_schedule_options o = KITH_SCHEDULE_OPTIONS_INIT;
    o.kind = kind;
    o.ranks = b->size;
    o.microbatches = microbatches;
    kith_schedule *plan;
    must(kith_schedule_create(&o, &plan), "kith_schedule_create");
    double f_ms = b->unit_ms / kith_schedule_chunks(plan), step_ms, bubble_ms;
    theory(plan, f_ms, &step_ms, &bubble_ms);
    double measured = measure(b, plan, f_ms);
    if (b->rank == 0) {
        double bubble = measured - (step_ms - bubble_ms);
        printf("| %s | %d | %d | %.2f | %.2f | %+.2f (%+.1f %%) | %.2f | %.2f |\n", kith_schedule_kind_name(kind),
               b->size, microbatches, measured, step_ms, measured - step_ms, 100 * (measured - step_ms) / step_ms,
               bubble, bubble_ms);
        fflush(stdout);
    }
    kith_schedule_destroy(plan);
}

/* ---- the program ---- */

static void usage(void)
{
    fprintf(stderr,
            "usage: kith run -n RANKS -- bench-schedules [--unit-ms MS] [--steps 1..%d] "
            "[--microbatches N,N,...] [--nbytes N]\n",
            STEPS_MOST);
    exit(2);
}

static int read_counts(const char *text, int *counts)
{
    int count = 0;
    for (char *end = NULL; *text != '\0' && count < COUNTS_MOST; text = *end == ',' ? end + 1 : end) {
        long value = strtol(text, &end, 10);
        if (end == text || value < 1 || value > 1000000 || (*end != ',' && *end != '\0'))
            usage();
        counts[count++] = (int)value;
    }
    return count;
}

/* A decimal number above 0; ends the program for anything else. */
static double read_number(const char *text, double most)
{
    char *end;
    double value = strtod(text, &end);
    if (*text == '\0' || *end != '\0' || strspn(text, "0123456789.") != strlen(text) || !(value > 0 && value <= most))
        usage();
    return value;
}

static void read_options(bench *b, int argc, char **argv)
{
    for (int i = 1; i + 1 < argc; i += 2) {
        const char *value = argv[i + 1];
        if (strcmp(argv[i], "--unit-ms") == 0)
            b->unit_ms = read_number(value, 1e6);
        else if (strcmp(argv[i], "--steps") == 0)
            b->steps = (int)read_number(value, STEPS_MOST);
        else if (strcmp(argv[i], "--microbatches") == 0)
            b->count_count = read_counts(value, b->counts);
        else if (strcmp(argv[i], "--nbytes") == 0)
            b->nbytes = (size_t)read_number(value, 1 << 30);
        else
            usage();
    }
    if (argc % 2 == 0 || !(b->unit_ms > 0) || b->steps < 1 || b->steps > STEPS_MOST || b->nbytes < 1)
        usage();
}

int main(int argc, char **argv)
{
    static const kith_schedule_kind kinds[] = { KITH_SCHEDULE_NAIVE,       KITH_SCHEDULE_GPIPE, KITH_SCHEDULE_1F1B,
                                                KITH_SCHEDULE_INTERLEAVED, KITH_SCHEDULE_ZB_H1, KITH_SCHEDULE_ZB_V };
    bench b = { .unit_ms = 4, .steps = 3, .counts = { 8, 16, 32 }, .count_count = 3, .nbytes = 4096 };
    read_options(&b, argc, argv);
    prctl(PR_SET_TIMERSLACK, 1); /* ns; 50 us otherwise */
    kith_ctx *ctx;
    must(kith_init(NULL, &ctx), "kith_init");
    b.world = kith_world(ctx);
    b.rank = kith_rank(ctx);
    b.size = kith_size(ctx);
    if (b.rank == 0)
        printf("| schedule | ranks | microbatches | step, ms | theory | difference | bubble, ms | theory |\n"
               "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n");
    for (size_t kind = 0; kind < sizeof kinds / sizeof kinds[0]; kind++)
        for (int i = 0; i < b.count_count; i++)
            run_plan(&b, kinds[kind], b.counts[i]);
    must(kith_finalize(ctx), "kith_finalize");
    return EXIT_SUCCESS;
}
