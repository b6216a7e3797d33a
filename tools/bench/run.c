/* tools/bench/run.c - one rank: joins, makes groups, measures all points, writes rows.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "../agree.h"
#include "../progress.h"
#include "../tune/pairs.h"
#include "job.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HOST_NBYTES 256

static void show_progress(const bench_job *job, const bench_point *point)
{
    char what[80], size[32];
    if (kith_rank(job->ctx) != 0 || job->options->is_quiet)
        return;
    bench_size_print(point->nbytes, size, sizeof size);
    snprintf(what, sizeof what, "%s %s", bench_op_name(point->op), size);
    ki_progress_show("bench", what, (double)job->done / (double)job->point_count);
}

static bool make_calls(bench_job *job, const bench_point *point, bench_run *run)
{
    for (int g = 0; g < point->target->count; g++) {
        bench_shape shape;
        if (!bench_point_shape(point, g, &shape))
            return false;
        run->call_count = g + 1;
        if (!bench_call_make(&run->calls[g], point->target->groups[g], &shape, point->dtype, point->redop,
                             point->is_in_place, job->buffers[g].send, job->buffers[g].recv))
            return false;
    }
    return true;
}

static void free_calls(bench_run *run)
{
    for (int i = 0; i < run->call_count; i++)
        bench_call_free(&run->calls[i]);
}

/* The operation alone, a product that takes as long, and both together. */
static kith_status measure_overlap(bench_job *job, bench_run *run, bench_timing *timing)
{
    bench_timing alone;
    kith_device *device = run->buffers[0].memory == BENCH_DEVICE ? kith_ctx_device(job->ctx) : NULL;
    run->mode = BENCH_NON_BLOCKING;
    run->budget_s /= 2;
    kith_status status = bench_measure(run, &alone);
    if (status != KITH_OK || run->stop_signal != 0)
        return status;
    bench_summary compute;
    status = kith_agree(run->control, bench_overlap_make(&run->overlap, job->ctx, device));
    if (status == KITH_OK)
        status = bench_overlap_fit(run->overlap, run->control, alone.us.median, &compute);
    run->mode = BENCH_OVERLAP;
    if (status == KITH_OK)
        status = bench_measure(run, timing);
    if (status == KITH_OK) {
        timing->alone_us = alone.us.is_reliable ? alone.us.median : NAN;
        timing->compute_us = compute.is_reliable ? compute.median : NAN;
    }
    return status;
}

static kith_status measure(bench_job *job, const bench_point *point, bench_run *run, bench_timing *timing,
                           int64_t *errors)
{
    bool is_checked = !job->options->is_unchecked && !bench_op_is_sizeless(point->op);
    kith_status status = KITH_OK;
    *errors = is_checked ? 0 : -1;
    run->mode = point->mode == BENCH_OVERLAP ? BENCH_NON_BLOCKING : point->mode;
    if (is_checked)
        status = bench_check(run, 1, errors);
    if (status == KITH_OK)
        status = point->mode == BENCH_OVERLAP ? measure_overlap(job, run, timing) : bench_measure(run, timing);
    run->is_given_up = run->stop_signal != 0;
    if (status == KITH_OK && is_checked && !run->is_given_up)
        status = bench_check(run, 2, errors);
    return status;
}

static const char *place_word(const bench_point *point)
{
    if (bench_op_has_place(point->op))
        return point->is_in_place ? "in" : "out";
    return point->op == (bench_op)KITH_BROADCAST ? "in" : "out";
}

/* Rules of choice are about the bytes of all parts together (core/algo/select.h); kith_coll_algorithm() takes the count
 * of one part, and a v-form for one of even parts: rounded up, they are above a limit where the uneven ones are. */
static void name_algorithm(const bench_point *point, const bench_call *call, bench_row *row)
{
    const bench_shape *shape = &call->shape;
    size_t count = bench_op_is_uneven(point->op) ? (shape->count + (size_t)shape->size - 1) / (size_t)shape->size
                                                 : call->args.count;
    const char *name = NULL;
    if (!bench_op_is_pattern(point->op) && point->memory != BENCH_DEVICE &&
        kith_coll_algorithm(call->group, (kith_coll_kind)point->op, count, point->dtype, point->redop, &name, NULL) ==
            KITH_OK)
        snprintf(row->algorithm, sizeof row->algorithm, "%s", name);
}

/* Bytes that pass in an operation's name; none when many_to_one has no other rank. */
static double moved_nbytes(const bench_point *point, const bench_row *row)
{
    return point->op == BENCH_MANY_TO_ONE && row->ranks == 1 ? 0 : (double)row->nbytes;
}

static bench_row make_row(const bench_job *job, const bench_point *point, const bench_run *run,
                          const bench_timing *timing, int64_t errors)
{
    const bench_shape *shape = &run->calls[0].shape;
    kith_group *group = point->target->groups[0];
    bool is_on_device = point->memory == BENCH_DEVICE && !bench_op_is_sizeless(point->op);
    const char *backend = is_on_device ? kith_group_device_backend(group) : kith_group_backend(group);
    bool is_pair = point->op == BENCH_ALL_PAIRS;
    bench_row row = { .op = bench_op_name(point->op),
                      .dtype = bench_op_is_sizeless(point->op) ? "none" : kith_dtype_name(point->dtype),
                      .redop = bench_op_is_reduction(point->op) ? kith_op_name(NULL, point->redop) : "none",
                      .place = place_word(point),
                      .memory = bench_memory_name(point->memory),
                      .mode = bench_mode_name(point->mode),
                      .link = "auto",
                      .ranks = point->target->ranks,
                      .group_count = point->target->group_count,
                      .hosts = kith_node_count(job->ctx),
                      .nbytes = shape->count * kith_dtype_nbytes(point->dtype),
                      .us = timing->us,
                      .batch = timing->batch,
                      .errors = errors,
                      .compute_us = timing->compute_us,
                      .alone_us = timing->alone_us,
                      .hidden_percent = bench_hidden_percent(timing->alone_us, timing->compute_us, timing->us.median),
                      .src = is_pair ? point->src : -1,
                      .dst = is_pair ? point->dst : -1,
                      .cores = "",
                      .expected_gbps = NAN };
    snprintf(row.backend, sizeof row.backend, "%s", backend != NULL ? backend : "none");
    snprintf(row.group, sizeof row.group, "%s", point->target->name);
    name_algorithm(point, &run->calls[0], &row);
    row.algbw_gbps = row.busbw_gbps = NAN;
    if (timing->us.is_reliable && timing->us.median > 0) {
        row.algbw_gbps = moved_nbytes(point, &row) / timing->us.median * 1e-3;
        row.busbw_gbps = row.algbw_gbps * bench_op_bus_factor(point->op, row.ranks);
    }
    return row;
}

static bool prints_table(const bench_job *job)
{
    return kith_rank(job->ctx) == 0 && !job->options->is_quiet && !bench_prints_rows(job->options);
}

/* KITH_ERR_NO_MEMORY, or KITH_ERR_NO_RESOURCE when the table cannot be written. */
static kith_status keep_row(bench_job *job, const bench_row *row)
{
    job->has_wrong = job->has_wrong || row->errors > 0;
    if (!bench_rows_add(&job->rows, row)) {
        bench_refuse(job, "no memory for rows");
        return KITH_ERR_NO_MEMORY;
    }
    if (!prints_table(job) || bench_matrix_is_shown(row))
        return KITH_OK;
    ki_progress_end();
    bench_table_row(stdout, row, job->printed > 0 ? &job->rows.list[job->printed - 1] : NULL);
    job->printed = job->rows.count;
    if (fflush(stdout) == 0 && !ferror(stdout))
        return KITH_OK;
    bench_refuse(job, "cannot write standard output: %s", strerror(errno));
    return KITH_ERR_NO_RESOURCE;
}

/* What others have told, or have not, is the same news on all ranks. */
static bool fail(bench_job *job, const bench_point *point, kith_status status)
{
    job->exit_status = BENCH_EXIT_FAILED;
    job->is_shared = status == KITH_ERR_PEER_FAILED || status == KITH_ERR_ABORTED || status == KITH_ERR_TIMEOUT;
    return bench_refuse(job, "%s of %zu bytes: %s", bench_op_name(point->op), point->nbytes, kith_error_detail());
}

static bool refuse_buffers(bench_job *job, const bench_point *point, kith_status status)
{
    if (status == KITH_ERR_PEER_FAILED || status == KITH_ERR_ABORTED || status == KITH_ERR_TIMEOUT)
        return fail(job, point, status);
    job->exit_status = KI_EXIT_USAGE;
    job->is_shared = job->can_go_home = true;
    return bench_refuse(job, "no %s memory for buffers: %s", bench_memory_name(point->memory), kith_error_detail());
}

/* A point that was over when the signal came is kept. */
static kith_status ask_to_stop(bench_run *run)
{
    double number = bench_stop_noted();
    kith_status status = kith_all_reduce_scalar(run->control, &number, KITH_MAX);
    run->stop_signal = (int)number;
    return status;
}

static bool measure_point(bench_job *job, const bench_point *point)
{
    bench_run run = { .buffers = job->buffers,
                      .control = job->targets.control,
                      .budget_s = job->options->budget_s,
                      .scale = bench_op_takes_turns(point->op) ? 0.5 : 1 };
    bench_timing timing;
    int64_t errors = -1;
    double before_ns = NAN, after_ns = NAN;
    show_progress(job, point);
    kith_status status = bench_job_buffers(job, point);
    if (status != KITH_OK)
        return refuse_buffers(job, point, status);
    status = kith_agree(run.control, make_calls(job, point, &run) ? KITH_OK : KITH_ERR_NO_MEMORY);
    if (status == KITH_OK)
        status = bench_cores_probe(&job->cores, &before_ns);
    if (status == KITH_OK)
        status = measure(job, point, &run, &timing, &errors);
    if (status == KITH_OK)
        status = bench_cores_probe(&job->cores, &after_ns);
    if (status == KITH_OK && run.stop_signal == 0)
        status = ask_to_stop(&run);
    job->stop_signal = run.stop_signal;
    if (status != KITH_OK)
        fail(job, point, status);
    else if (!run.is_given_up) {
        bench_row row = make_row(job, point, &run, &timing, errors);
        row.cores = bench_cores_name(before_ns, after_ns);
        row.cores_before_ns = before_ns;
        row.cores_after_ns = after_ns;
        status = keep_row(job, &row);
        job->exit_status = KI_EXIT_USAGE;
    }
    bench_overlap_free(run.overlap);
    free_calls(&run);
    job->done += !run.is_given_up;
    return status == KITH_OK && job->stop_signal == 0;
}

/* ---- one rank's way ---- */

/* Names of all hosts, each once, in the order of their lowest ranks; NULL when that fails. */
static char (*gather_hosts(bench_job *job))[HOST_NBYTES]
{
    int size = kith_size(job->ctx), nodes = kith_node_count(job->ctx);
    char own[HOST_NBYTES] = "";
    char(*all)[HOST_NBYTES] = calloc((size_t)size, HOST_NBYTES),
    (*names)[HOST_NBYTES] = calloc((size_t)nodes, HOST_NBYTES);
    gethostname(own, sizeof own - 1);
    kith_status status = kith_agree(job->targets.control, all != NULL && names != NULL ? KITH_OK : KITH_ERR_NO_MEMORY);
    if (status == KITH_OK)
        status = kith_all_gather(job->targets.control, own, all, HOST_NBYTES, KITH_INT8);
    for (int r = size - 1; status == KITH_OK && r >= 0; r--)
        memcpy(names[kith_node_of(job->ctx, r)], all[r], HOST_NBYTES);
    free(all);
    if (status == KITH_OK)
        return names;
    free(names);
    return NULL;
}

static int write_rows(bench_job *job)
{
    char(*names)[HOST_NBYTES] = gather_hosts(job);
    int count = kith_node_count(job->ctx), status = KI_EXIT_OK;
    const char **hosts = calloc((size_t)count, sizeof *hosts);
    if (names == NULL || hosts == NULL) {
        ki_say("bench", kith_rank(job->ctx), names == NULL ? kith_error_detail() : "no memory for names of hosts");
        status = BENCH_EXIT_FAILED;
    } else if (kith_rank(job->ctx) == 0) {
        for (int i = 0; i < count; i++)
            hosts[i] = names[i];
        status = bench_write(job->options, &job->rows, job->stop_signal, hosts, count);
    }
    free(hosts);
    free(names);
    return status;
}

static int finish(bench_job *job)
{
    ki_progress_end();
    if (prints_table(job))
        bench_matrix_print(stdout, &job->rows);
    if (tune_pairs_print(job->ctx, job->targets.control, &job->rows, prints_table(job) ? stdout : NULL) != KITH_OK)
        ki_say("bench", kith_rank(job->ctx), kith_error_detail());
    int status = write_rows(job);
    if (status == KI_EXIT_OK && job->has_wrong) {
        if (kith_rank(job->ctx) == 0)
            ki_say("bench", 0, "some results are wrong: the rows say how many elements");
        status = BENCH_EXIT_FAILED;
    }
    return status;
}

/* What was measured before Ctrl-C is written like all else. Whoever started the ranks ends the others when one leaves,
 * so none leaves before rank 0 has written. */
static int cut_off(bench_job *job)
{
    char sentence[160];
    finish(job);
    snprintf(sentence, sizeof sentence, "cut off by %s: %zu of %zu points were measured",
             job->stop_signal == SIGTERM ? "SIGTERM" : "SIGINT", job->done, job->point_count);
    if (kith_rank(job->ctx) == 0)
        ki_say("bench", 0, sentence);
    bench_stop_ignore();
    kith_barrier(job->targets.control);
    return 128 + job->stop_signal;
}

/* All ranks go on, or the lowest that cannot has said why. */
static bool agree(bench_job *job, bool is_fine)
{
    bool has_failed = false;
    return ki_agree_over(job->ctx, "bench", is_fine, job->sentence, &has_failed);
}

/* Whether there is something to compute with: layers need a BLAS. */
static bool can_overlap(bench_job *job, kith_device *device)
{
    bench_overlap *overlap = NULL;
    kith_status status = bench_overlap_make(&overlap, job->ctx, device);
    bench_overlap_free(overlap);
    return status == KITH_OK || bench_refuse(job, "--overlap: %s", kith_error_detail());
}

/* What would be a pity to find out at the end. */
static bool can_finish(bench_job *job)
{
    bool has_host = false, has_device = false;
    if (kith_rank(job->ctx) == 0 && !bench_can_write(job->options, job->sentence, sizeof job->sentence))
        return false;
    if (!job->options->is_overlapped)
        return true;
    for (int m = 0; m < job->options->memory_count; m++) {
        has_device = has_device || job->options->memories[m] == BENCH_DEVICE;
        has_host = has_host || job->options->memories[m] != BENCH_DEVICE;
    }
    return (!has_host || can_overlap(job, NULL)) && (!has_device || can_overlap(job, kith_ctx_device(job->ctx)));
}

static int run_job(bench_job *job)
{
    if (!agree(job, bench_targets_make(&job->targets, job->ctx, job->options, job->sentence, sizeof job->sentence)) ||
        !agree(job, bench_visit_all(job, bench_look)) || !agree(job, can_finish(job))) {
        job->can_go_home = true;
        return KI_EXIT_USAGE;
    }
    kith_status status = bench_cores_make(&job->cores, job->ctx, job->targets.control);
    if (!agree(job, status == KITH_OK || bench_refuse(job, "%s", kith_error_detail())))
        return BENCH_EXIT_FAILED;
    bench_stop_listen();
    bool is_done = bench_visit_all(job, measure_point);
    if (job->stop_signal != 0) {
        job->can_go_home = true;
        return cut_off(job);
    }
    if (is_done) {
        job->can_go_home = true;
        return finish(job);
    }
    if (!job->is_shared || kith_rank(job->ctx) == 0)
        ki_say("bench", kith_rank(job->ctx), job->sentence);
    else /* and before rank 0 hears of nothing but that this rank has left */
        usleep(BENCH_SPEAKING_US);
    return job->exit_status;
}

/* NULL where the device is not wanted, or the environment names one. */
static const char *device_of(const bench_options *options)
{
    for (int m = 0; m < options->memory_count; m++)
        if (options->memories[m] == BENCH_DEVICE)
            return getenv("KITH_DEVICE") != NULL ? NULL : "cuda:local";
    return NULL;
}

int bench_run_rank(const bench_options *options)
{
    bench_job job = { .options = options };
    kith_init_options init = KITH_INIT_OPTIONS_INIT;
    init.backend = options->backend;
    init.device = device_of(options);
    init.timeout_ms = (int64_t)(options->timeout_s * 1e3);
    kith_status joined = kith_init(&init, &job.ctx);
    if (joined != KITH_OK) {
        /* These are the same sentence on all ranks. */
        bool is_common = joined == KITH_ERR_INVALID_ARG || joined == KITH_ERR_UNSUPPORTED;
        if (!is_common || !bench_is_other_rank())
            ki_say("bench", 0, kith_error_detail());
        return KI_EXIT_USAGE;
    }
    int status = run_job(&job);
    bench_job_free_buffers(&job);
    bench_rows_free(&job.rows);
    bench_cores_free(&job.cores);
    if (!job.can_go_home)
        kith_abandon(job.ctx);
    else {
        bench_targets_free(&job.targets);
        kith_finalize(job.ctx);
    }
    return status;
}
