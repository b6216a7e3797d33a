/* tools/train/log.c - what rank 0 tells while it runs: a line for people, objects for programs.
 *
 * On a terminal one line is rewritten; elsewhere, and under Open MPI, lines follow one another, no more than one a
 * second, but for the first and the last. The JSON log has every step.
 *
 * Training matters more than what is told about it. A log that cannot be written any more is told of once, on stderr;
 * the run goes on without it, saves, and ends with 1. Standard output that is a pipe whose reader has gone (| head) is
 * what somebody wanted: nothing is said, and it does not count.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "../json.h"
#include "engine.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define BETWEEN_LINES_S 1.0
#define BETWEEN_TERMINAL_S 0.1

double train_now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* ---- files ---- */

bool train_file_close(FILE *file)
{
    bool is_whole = fflush(file) == 0 && !ferror(file);
    int why = errno;
    if (fclose(file) != 0 && is_whole)
        return false;
    errno = why;
    return is_whole;
}

/* Is opened, and removed when it was not there before. Pipes and devices are left alone: their other end would notice.
 */
bool train_file_try(train_job *job, const char *flag, const char *path)
{
    struct stat info;
    bool is_there = stat(path, &info) == 0;
    if (is_there && !S_ISREG(info.st_mode) && !S_ISDIR(info.st_mode))
        return true;
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    if (fd < 0)
        return train_wrong(job, "%s %s cannot be written: %s", flag, path, strerror(errno));
    close(fd);
    if (!is_there)
        unlink(path);
    return true;
}

/* What follows goes nowhere. */
static void drop_output(void)
{
    int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (nowhere >= 0) {
        dup2(nowhere, STDOUT_FILENO);
        close(nowhere);
    }
    clearerr(stdout);
}

static void flush_output(train_log *log)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return;
    int why = errno;
    drop_output();
    if (why == EPIPE)
        return;
    log->has_failed = true;
    train_tell(log->job, "standard output cannot be written: %s; the run goes on", strerror(why));
}

static bool close_json(train_log *log, const char *then)
{
    bool is_whole = train_file_close(log->json);
    log->json = NULL;
    if (is_whole)
        return true;
    log->has_failed = true;
    train_tell(log->job, "--json-log %s cannot be written: %s%s", log->job->options.json_log, strerror(errno), then);
    return false;
}

static void end_line(train_log *log)
{
    ki_json_line(log->json);
    if (ferror(log->json))
        close_json(log, "; the run goes on without");
}

/* mpirun of Open MPI and prterun give ranks a terminal of their own, whatever their output goes to in the end. */
static bool is_relayed(void)
{
    return getenv("OMPI_COMM_WORLD_RANK") != NULL || getenv("PMIX_RANK") != NULL;
}

bool train_log_open(train_job *job, train_log *log)
{
    *log = (train_log){ .job = job, .is_speaking = job->rank == 0 };
    log->is_terminal = isatty(STDOUT_FILENO) && !is_relayed();
    const char *path = job->options.json_log;
    if (!log->is_speaking || path == NULL)
        return true;
    log->json = fopen(path, "w");
    return log->json != NULL || train_wrong(job, "--json-log %s cannot be written: %s", path, strerror(errno));
}

void train_log_close(train_log *log)
{
    train_log_pause(log);
    if (log->json != NULL)
        close_json(log, "");
}

/* ---- the first object ---- */

static void write_layout(FILE *out, const train_job *job)
{
    const train_layout *l = &job->layout;
    ki_json_open(out, "layout", '{');
    const struct {
        const char *name;
        int64_t value;
    } numbers[] = { { "ranks", l->world },
                    { "tp", l->tp },
                    { "pp", l->pp },
                    { "dp", l->dp },
                    { "ep", l->ep },
                    { "chunks", l->chunks },
                    { "stages", l->stages },
                    { "microbatches", l->microbatches },
                    { "micro_batch", l->micro_batch },
                    { "global_batch", train_layout_samples(l) },
                    { "sequence", l->sequence } };
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        ki_json_number(out, numbers[i].name, (double)numbers[i].value);
    ki_json_string(out, "schedule", kith_schedule_kind_name(l->schedule));
    ki_json_bool(out, "sequence_parallel", job->options.is_sequence_parallel);
    ki_json_bool(out, "sharded", job->options.is_sharded);
    ki_json_string(out, "recompute", kith_recompute_name(job->options.recompute));
    if (l->why[0] != '\0')
        ki_json_string(out, "why", l->why);
    ki_json_string(out, "backends", job->backends[0] != '\0' ? job->backends : kith_group_backend(job->world));
    ki_json_close(out, '}');
}

/* Lists of ranks, axis by axis. */
static void write_groups(FILE *out, const train_job *job)
{
    const train_layout *l = &job->layout;
    const kith_mesh_axis axes[] = { { "tp", l->tp }, { "ep", l->ep }, { "dp", l->dp }, { "pp", l->pp } };
    int *ranks = calloc((size_t)l->world, sizeof *ranks), size, count;
    ki_json_open(out, "groups", '{');
    for (int axis = 0; axis < 4 && ranks != NULL; axis++) {
        if (kith_mesh_enumerate(axes, 4, "tp-ep-dp-pp", axes[axis].name, l->world, ranks, &size, &count) != KITH_OK)
            continue;
        ki_json_open(out, axes[axis].name, '[');
        for (int g = 0; g < count; g++) {
            ki_json_open(out, NULL, '[');
            for (int i = 0; i < size; i++)
                ki_json_number(out, NULL, ranks[g * size + i]);
            ki_json_close(out, ']');
        }
        ki_json_close(out, ']');
    }
    ki_json_close(out, '}');
    free(ranks);
}

static void write_memory(FILE *out, const train_memory *memory)
{
    ki_json_open(out, "memory", '{');
    ki_json_number(out, "parameters", memory->parameters);
    ki_json_number(out, "grads", memory->grads);
    ki_json_number(out, "optimizer", memory->optimizer);
    ki_json_number(out, "activations", memory->activations);
    ki_json_close(out, '}');
}

/* Of rank 0, and how its tensors reach other ranks. */
static void write_device(FILE *out, const train_job *job)
{
    char name[192];
    train_device_name(job->device, name, sizeof name);
    ki_json_string(out, "device", name);
    const char *backend = kith_group_device_backend(job->world);
    if (backend == NULL || job->layout.world == 1)
        return;
    ki_json_string(out, "device_backend", backend);
    ki_json_string(out, "device_summary", kith_group_device_summary(job->world));
}

static void say_start(train_log *log)
{
    const train_job *job = log->job;
    long long first = (long long)log->first_step, steps = (long long)job->options.steps;
    if (!log->is_speaking)
        return;
    if (job->resumed != NULL)
        printf("going on from step %lld of %s\n", first, job->resumed);
    if (first >= steps)
        printf("nothing left to do: step %lld of %lld\n", first, steps);
    flush_output(log);
}

void train_log_start(train_log *log, const train_memory *predicted)
{
    say_start(log);
    const train_job *job = log->job;
    FILE *out = log->json;
    log->start_s = train_now_s();
    if (out == NULL)
        return;
    kith_model model = train_config_model(job->model_name, &job->config);
    char *plan = NULL;
    if (job->has_plan)
        kith_plan_print(&job->plan, KITH_FORMAT_JSON, &plan);
    ki_json_open(out, NULL, '{');
    ki_json_string(out, "event", "start");
    ki_json_string(out, "model", job->model_name);
    ki_json_number(out, "parameters", kith_model_parameters(&model));
    ki_json_string(out, "dtype", kith_dtype_name(job->options.dtype));
    write_device(out, job);
    ki_json_string(out, "optimizer", kith_optim_kind_name(job->options.optim.kind));
    ki_json_bits(out, "seed", job->options.seed);
    ki_json_number(out, "steps", (double)job->options.steps);
    ki_json_number(out, "first_step", (double)log->first_step);
    write_layout(out, job);
    write_groups(out, job);
    write_memory(out, predicted);
    ki_json_raw(out, "plan", plan);
    ki_json_close(out, '}');
    end_line(log);
    kith_free(plan);
}

/* ---- a step ---- */

static void write_count(FILE *out, const char *name, const train_count *count)
{
    ki_json_open(out, name, '{');
    ki_json_number(out, "forward", count->forward);
    ki_json_number(out, "backward", count->backward);
    ki_json_number(out, "step", count->step);
    ki_json_number(out, "bytes", count->nbytes);
    ki_json_close(out, '}');
}

static bool is_any(const train_count *count)
{
    return count->forward + count->backward + count->step > 0;
}

static void write_kinds(FILE *out, const char *axis, const train_count *counts)
{
    ki_json_open(out, axis, '{');
    for (int kind = 0; kind < KITH_COLL_COUNT; kind++)
        if (is_any(&counts[kind]))
            write_count(out, kith_coll_name((kith_coll_kind)kind), &counts[kind]);
    ki_json_close(out, '}');
}

static void write_comm(FILE *out, const train_job *job, const train_numbers *n)
{
    ki_json_open(out, "comm", '{');
    write_kinds(out, "tp", n->tp);
    if (job->layout.ep > 1)
        write_kinds(out, "ep", n->ep);
    ki_json_open(out, "pp", '{');
    if (is_any(&n->messages))
        write_count(out, "send_recv", &n->messages);
    if (is_any(&n->tied))
        write_count(out, "all_reduce", &n->tied);
    ki_json_close(out, '}');
    write_kinds(out, "dp", n->dp);
    ki_json_close(out, '}');
}

static void write_step(FILE *out, const train_job *job, const train_numbers *n)
{
    ki_json_open(out, NULL, '{');
    ki_json_number(out, "step", (double)n->step);
    ki_json_number(out, "loss", n->loss);
    if (n->has_validation)
        ki_json_number(out, "val_loss", n->validation);
    if (job->config.experts > 0) {
        ki_json_number(out, "auxiliary_loss", n->auxiliary);
        ki_json_number(out, "dropped", n->dropped);
    }
    ki_json_number(out, "grad_norm", n->grad_norm);
    ki_json_number(out, "lr", n->rate);
    if (job->options.loss_scale != TRAIN_UNSCALED)
        ki_json_number(out, "loss_scale", n->scale);
    if (n->is_skipped)
        ki_json_bool(out, "skipped", true);
    ki_json_number(out, "tokens", n->tokens);
    ki_json_number(out, "tokens_per_s", n->tokens / n->seconds);
    ki_json_open(out, "time_ms", '{');
    ki_json_number(out, "step", 1e3 * n->seconds);
    for (int i = 0; i < TRAIN_TIMES; i++)
        ki_json_number(out, train_time_name((train_time)i), 1e3 * n->time_s[i]);
    ki_json_close(out, '}');
    write_comm(out, job, n);
    ki_json_close(out, '}');
}

/* ---- the line ---- */

static const char *duration(char *buffer, size_t nbytes, double seconds)
{
    long long whole = (long long)(seconds + 0.5);
    if (whole >= 3600)
        snprintf(buffer, nbytes, "%lld:%02lld:%02lld", whole / 3600, whole / 60 % 60, whole % 60);
    else
        snprintf(buffer, nbytes, "%lld:%02lld", whole / 60, whole % 60);
    return buffer;
}

static void show(train_log *log, const train_numbers *n)
{
    char left[32];
    int64_t steps = log->job->options.steps, done = n->step - log->first_step;
    double passed_s = train_now_s() - log->start_s;
    fputs(log->is_terminal ? "\r\033[K" : "", stdout);
    printf("step %lld/%lld  loss %.4f", (long long)n->step, (long long)steps, n->loss);
    if (n->has_validation)
        printf("  validation %.4f", n->validation);
    printf("  %.0f tokens/s  %s left", n->tokens / n->seconds,
           duration(left, sizeof left, passed_s / (double)done * (double)(steps - n->step)));
    if (n->is_skipped)
        fputs("  skipped: the gradient is not finite", stdout);
    if (n->is_skipped && log->job->options.loss_scale == 0)
        printf("; the loss scale is %.12g now", n->scale);
    log->has_line = log->is_terminal && !n->has_validation && !n->is_skipped;
    if (!log->has_line)
        putchar('\n');
    flush_output(log);
}

void train_log_pause(train_log *log)
{
    if (!log->is_speaking)
        return;
    if (log->has_line)
        putchar('\n');
    log->has_line = false;
    flush_output(log);
}

void train_log_step(train_log *log, const train_numbers *n)
{
    if (!log->is_speaking)
        return;
    if (log->json != NULL) {
        write_step(log->json, log->job, n);
        end_line(log);
    }
    double now_s = train_now_s(), between_s = log->is_terminal ? BETWEEN_TERMINAL_S : BETWEEN_LINES_S;
    bool is_last = n->step >= log->job->options.steps || n->is_stopping;
    bool is_news = n->is_skipped && !log->was_skipped;
    log->was_skipped = n->is_skipped;
    if (n->step == log->first_step + 1 || is_last || is_news || n->has_validation ||
        now_s - log->shown_s >= between_s) {
        show(log, n);
        log->shown_s = now_s;
    }
}

void train_log_end(train_log *log, const train_numbers *last, const char *why, uint64_t hash)
{
    FILE *out = log->json;
    train_log_pause(log);
    if (out == NULL)
        return;
    char text[24];
    double passed_s = train_now_s() - log->start_s;
    snprintf(text, sizeof text, "%016llx", (unsigned long long)hash);
    ki_json_open(out, NULL, '{');
    ki_json_string(out, "event", "end");
    ki_json_string(out, "why", why);
    ki_json_number(out, "step", (double)last->step);
    ki_json_number(out, "loss", last->loss);
    if (last->has_validation)
        ki_json_number(out, "val_loss", last->validation);
    ki_json_number(out, "seconds", passed_s);
    ki_json_number(out, "tokens_per_s", last->tokens * (double)(last->step - log->first_step) / passed_s);
    ki_json_string(out, "hash", text);
    ki_json_close(out, '}');
    end_line(log);
}
