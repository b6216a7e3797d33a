/* tools/train/trace.c - when what ran, on all ranks, in the form of chrome://tracing and Perfetto.
 *
 * Each rank keeps the events of its last steps: the list of its pipeline (computing, sending, receiving), communication
 * of its layers, the optimizer, and each bucket that it sums with data-parallel ranks. At the end rank 0 gets them all
 * and writes the file. A process of the trace is a rank, its threads are these kinds of work. Memory is bounded: STEPS
 * steps, EVENTS events each; what is left out is told in the file.
 *
 * Clocks. Ranks of one host have one clock. Those of another are set by the moment when a barrier ends, which is as
 * exact as a barrier is quick; the file says how far each was moved.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "../json.h"
#include "engine.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = 3, EVENTS = 1 << 15 };

/* Numbers of things that are no action of the pipeline. */
enum {
    REDUCE = 64,
    UPDATE,
    BUCKET_REDUCE,
    BUCKET_GATHER,
    COLLECTIVE = 128
}; /* COLLECTIVE + phase * KITH_TRAFFIC_KINDS + kind */

typedef struct event {
    double start_s, end_s, nbytes;
    int32_t what, stage, microbatch, step; /* microbatch: of a bucket its number */
} event;

typedef struct kept {
    event *events;
    int64_t count, left_out;
} kept;

struct train_trace {
    train_engine *engine;
    kept steps[STEPS]; /* by step % STEPS */
    kept *now;         /* NULL: between steps */
};

/* ---- keeping ---- */

static void keep(train_trace *trace, int what, double start_s, double end_s, double nbytes, const kith_action *action)
{
    kept *now = trace->now;
    if (now->count == EVENTS) {
        now->left_out++;
        return;
    }
    now->events[now->count++] = (event){ .start_s = start_s,
                                         .end_s = end_s,
                                         .nbytes = nbytes,
                                         .what = what,
                                         .stage = action != NULL ? action->stage : -1,
                                         .microbatch = action != NULL ? action->microbatch : -1,
                                         .step = (int32_t)trace->engine->step };
}

static void see(void *arg, kith_layers_phase phase, kith_coll_kind kind, int64_t start_ns, int64_t end_ns,
                uint64_t nbytes)
{
    train_trace *trace = arg;
    int what = COLLECTIVE + (int)phase * KITH_TRAFFIC_KINDS + (int)kind;
    if (trace->now != NULL)
        keep(trace, what, 1e-9 * (double)start_ns, 1e-9 * (double)end_ns, (double)nbytes, NULL);
}

train_trace *train_trace_create(train_engine *engine)
{
    train_trace *trace = calloc(1, sizeof *trace);
    if (trace == NULL)
        return NULL;
    trace->engine = engine;
    for (int i = 0; i < STEPS; i++)
        if ((trace->steps[i].events = calloc(EVENTS, sizeof(event))) == NULL) {
            train_trace_destroy(trace);
            return NULL;
        }
    kith_layers_set_watch(engine->model->layers, see, trace);
    return trace;
}

void train_trace_destroy(train_trace *trace)
{
    if (trace == NULL)
        return;
    for (int i = 0; i < STEPS; i++)
        free(trace->steps[i].events);
    free(trace);
}

void train_trace_begin(train_trace *trace)
{
    trace->now = &trace->steps[trace->engine->step % STEPS];
    trace->now->count = trace->now->left_out = 0;
}

/* kith_now is train_now_s(): both are CLOCK_MONOTONIC. */
static void keep_buckets(train_trace *trace)
{
    const train_engine *engine = trace->engine;
    const kith_optim *optim = engine->model->optim;
    double grad_nbytes = (double)kith_dtype_nbytes(engine->job->options.dtype == KITH_F64 ? KITH_F64 : KITH_F32);
    double value_nbytes = (double)kith_dtype_nbytes(engine->job->options.dtype);
    for (size_t i = 0; i < kith_optim_bucket_count(optim); i++) {
        kith_optim_bucket bucket;
        kith_action number = { .stage = -1, .microbatch = (int)i };
        if (kith_optim_get_bucket(optim, i, &bucket) != KITH_OK)
            continue;
        if (bucket.reduce_end_ns > bucket.reduce_start_ns)
            keep(trace, BUCKET_REDUCE, 1e-9 * (double)bucket.reduce_start_ns, 1e-9 * (double)bucket.reduce_end_ns,
                 grad_nbytes * (double)bucket.elements, &number);
        if (bucket.gather_end_ns > bucket.gather_start_ns)
            keep(trace, BUCKET_GATHER, 1e-9 * (double)bucket.gather_start_ns, 1e-9 * (double)bucket.gather_end_ns,
                 value_nbytes * (double)bucket.elements, &number);
    }
}

void train_trace_end(train_trace *trace)
{
    const train_engine *engine = trace->engine;
    size_t count, actions;
    const kith_interval *at = kith_pipeline_intervals(engine->pipeline, &count);
    const kith_action *list =
        kith_schedule_actions(kith_pipeline_schedule(engine->pipeline), engine->job->pp_rank, &actions);
    for (size_t i = 0; i < count && i < actions; i++)
        if (at[i].end > at[i].start && list[i].type != KITH_ACTION_OPTIMIZER_STEP)
            keep(trace, (int)list[i].type, engine->start_s + at[i].start, engine->start_s + at[i].end, 0, &list[i]);
    double reduced_s = engine->reduced_from_s + engine->reduce_s;
    keep(trace, REDUCE, engine->reduced_from_s, reduced_s, 0, NULL);
    keep(trace, UPDATE, reduced_s, reduced_s + engine->update_s, 0, NULL);
    keep_buckets(trace);
    for (int64_t i = 0; i < trace->now->count; i++)
        trace->now->events[i].step = (int32_t)engine->step;
    trace->now = NULL;
}

/* ---- bringing together ---- */

typedef struct gathered {
    event *events;   /* of all ranks, one after the other */
    size_t *counts;  /* [world] bytes */
    double *clocks;  /* [world] at one moment */
    double left_out; /* of all ranks */
} gathered;

static void drop(gathered *all)
{
    free(all->events);
    free(all->counts);
    free(all->clocks);
}

/* The kept steps in one piece, at the front. */
static size_t join(train_trace *trace, event **events, double *left_out)
{
    size_t count = 0;
    for (int i = 0; i < STEPS; i++)
        count += (size_t)trace->steps[i].count;
    *events = malloc((count + 1) * sizeof **events);
    if (*events == NULL)
        return 0;
    count = 0, *left_out = 0;
    for (int i = 0; i < STEPS; i++) {
        memcpy(*events + count, trace->steps[i].events, (size_t)trace->steps[i].count * sizeof **events);
        count += (size_t)trace->steps[i].count;
        *left_out += (double)trace->steps[i].left_out;
    }
    return count * sizeof **events;
}

static kith_status gather_clocks(const train_job *job, double *clocks)
{
    kith_status status = kith_barrier(job->world);
    double now_s = train_now_s();
    return status == KITH_OK ? kith_gather(job->world, &now_s, clocks, 1, KITH_F64, 0) : status;
}

static kith_status gather(train_trace *trace, gathered *all)
{
    const train_job *job = trace->engine->job;
    size_t world = (size_t)job->layout.world;
    event *own = NULL;
    uint64_t nbytes = join(trace, &own, &all->left_out), *sizes = calloc(world, sizeof *sizes);
    all->counts = calloc(world, sizeof *all->counts);
    all->clocks = calloc(world, sizeof *all->clocks);
    bool has_memory = own != NULL && sizes != NULL && all->counts != NULL && all->clocks != NULL;
    kith_status status = kith_agree(job->world, has_memory ? KITH_OK : KITH_ERR_NO_MEMORY);
    if (status == KITH_OK)
        status = gather_clocks(job, all->clocks);
    if (status == KITH_OK)
        status = kith_all_reduce_scalar(job->world, &all->left_out, KITH_SUM);
    if (status == KITH_OK)
        status = kith_gather(job->world, &nbytes, sizes, 1, KITH_UINT64, 0);
    size_t sum = 0;
    for (size_t r = 0; status == KITH_OK && r < world; r++)
        sum += all->counts[r] = (size_t)sizes[r];
    if (status == KITH_OK) {
        all->events = malloc(sum + 1);
        status = kith_agree(job->world, all->events != NULL ? KITH_OK : KITH_ERR_NO_MEMORY);
    }
    if (status == KITH_OK)
        status = kith_gather_v(job->world, own, (size_t)nbytes, all->events, all->counts, NULL, KITH_UINT8, 0);
    free(own);
    free(sizes);
    return status;
}

/* ---- writing ---- */

static const char *name_of(const event *e, char *buffer, size_t nbytes)
{
    if (e->what == BUCKET_REDUCE || e->what == BUCKET_GATHER) {
        snprintf(buffer, nbytes, "bucket %d: %s", e->microbatch, e->what == BUCKET_REDUCE ? "gradients" : "weights");
        return buffer;
    }
    if (e->what >= COLLECTIVE)
        return kith_coll_name((kith_coll_kind)((e->what - COLLECTIVE) % KITH_TRAFFIC_KINDS));
    if (e->what == REDUCE)
        return "sum over data-parallel ranks, norm";
    if (e->what == UPDATE)
        return "update";
    kith_action action = { (kith_action_type)e->what, e->stage, e->microbatch, -1, 0 };
    return kith_action_text(&action, buffer, nbytes);
}

typedef enum lane { LANE_STAGES, LANE_OPTIMIZER, LANE_MESSAGES, LANE_LAYERS, LANE_BUCKETS, LANES } lane;

static const char *const lane_names[LANES] = { "stages", "optimizer", "messages between stages",
                                               "communication of layers", "buckets over data-parallel ranks" };

static lane lane_of(const event *e)
{
    if (e->what >= COLLECTIVE)
        return LANE_LAYERS;
    if (e->what >= BUCKET_REDUCE)
        return LANE_BUCKETS;
    if (e->what >= REDUCE)
        return LANE_OPTIMIZER;
    return e->what >= KITH_ACTION_SEND_F && e->what <= KITH_ACTION_RECV_B ? LANE_MESSAGES : LANE_STAGES;
}

static void write_half(FILE *out, const event *e, const char *phase, double at_s, int rank, size_t id)
{
    char text[64];
    ki_json_open(out, NULL, '{');
    ki_json_string(out, "name", name_of(e, text, sizeof text));
    ki_json_string(out, "cat", lane_names[lane_of(e)]);
    ki_json_string(out, "ph", phase);
    ki_json_number(out, "ts", round(1e9 * at_s) / 1e3);
    if (phase[0] == 'X')
        ki_json_number(out, "dur", round(1e9 * (e->end_s - e->start_s)) / 1e3);
    else
        ki_json_number(out, "id", (double)id);
    ki_json_number(out, "pid", rank);
    ki_json_number(out, "tid", lane_of(e));
    ki_json_open(out, "args", '{');
    ki_json_number(out, "step", e->step);
    if (e->nbytes > 0)
        ki_json_number(out, "bytes", e->nbytes);
    ki_json_close(out, '}');
    ki_json_close(out, '}');
    ki_json_restart();
}

/* What a rank computes comes one after the other; what travels overlaps, and is written as begin and end. */
static void write_event(FILE *out, const event *e, int rank, double zero_s, size_t id)
{
    bool travels = lane_of(e) >= LANE_MESSAGES;
    fputs(",\n", out);
    write_half(out, e, travels ? "b" : "X", e->start_s - zero_s, rank, id);
    if (!travels)
        return;
    fputs(",\n", out);
    write_half(out, e, "e", e->end_s - zero_s, rank, id);
}

static void write_name(FILE *out, const char *what, int rank, int thread, const char *name)
{
    ki_json_open(out, NULL, '{');
    ki_json_string(out, "name", what);
    ki_json_string(out, "ph", "M");
    ki_json_number(out, "pid", rank);
    ki_json_number(out, "tid", thread);
    ki_json_open(out, "args", '{');
    ki_json_string(out, "name", name);
    ki_json_close(out, '}');
    ki_json_close(out, '}');
    ki_json_restart();
}

static void write_names(FILE *out, const train_job *job, int rank)
{
    char name[128];
    snprintf(name, sizeof name, "rank %d (tp %d, pp %d, dp %d, ep %d)", rank, kith_mesh_coord_of(job->mesh, "tp", rank),
             kith_mesh_coord_of(job->mesh, "pp", rank), kith_mesh_coord_of(job->mesh, "dp", rank),
             kith_mesh_coord_of(job->mesh, "ep", rank));
    fputs(rank == 0 ? "\n" : ",\n", out);
    write_name(out, "process_name", rank, 0, name);
    for (int i = 0; i < LANES; i++) {
        fputs(",\n", out);
        write_name(out, "thread_name", rank, i, lane_names[i]);
    }
}

/* How far a rank's clock is ahead of rank 0's. */
static double clock_ahead(const train_job *job, const gathered *all, int rank)
{
    bool is_here = kith_node_of(job->ctx, rank) == kith_node_of(job->ctx, 0);
    return is_here ? 0 : all->clocks[rank] - all->clocks[0];
}

static double first_moment(const train_job *job, const gathered *all)
{
    double first_s = INFINITY;
    const event *e = all->events;
    for (int rank = 0; rank < job->layout.world; rank++)
        for (size_t i = 0; i < all->counts[rank] / sizeof *e; i++, e++)
            first_s = fmin(first_s, e->start_s - clock_ahead(job, all, rank));
    return first_s;
}

static void write_all(FILE *out, const train_job *job, const gathered *all)
{
    double zero_s = first_moment(job, all);
    const event *e = all->events;
    fputs("{\"displayTimeUnit\": \"ms\", \"traceEvents\": [", out);
    for (int rank = 0; rank < job->layout.world; rank++) {
        write_names(out, job, rank);
        for (size_t i = 0; i < all->counts[rank] / sizeof *e; i++, e++)
            write_event(out, e, rank, zero_s + clock_ahead(job, all, rank), (size_t)(e - all->events));
    }
    fputs("\n], \"otherData\": ", out);
    ki_json_open(out, NULL, '{');
    ki_json_string(out, "program", "kith train");
    ki_json_string(out, "model", job->model_name);
    ki_json_number(out, "events_left_out", all->left_out);
    ki_json_open(out, "clocks_moved_us", '[');
    for (int rank = 0; rank < job->layout.world; rank++)
        ki_json_number(out, NULL, round(1e6 * clock_ahead(job, all, rank)));
    ki_json_close(out, ']');
    ki_json_close(out, '}');
    ki_json_restart();
    fputs("}\n", out);
}

bool train_trace_write(train_trace *trace, const char *path)
{
    train_job *job = trace->engine->job;
    gathered all = { 0 };
    bool is_fine = train_check(job, gather(trace, &all));
    if (is_fine && job->rank == 0) {
        FILE *out = fopen(path, "w");
        if (out != NULL)
            write_all(out, job, &all);
        if (out == NULL || !train_file_close(out))
            is_fine = train_wrong(job, "--trace %s cannot be written: %s", path, strerror(errno));
    }
    drop(&all);
    return is_fine;
}
