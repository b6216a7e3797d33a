/* tools/train/report.c - the closing table: what was measured beside what was predicted.
 *
 * Times are means over the steps after the first and over the ranks. What they are compared with is the plan of the
 * pipeline, simulated with the measured times of its stages: the difference is what messages and the machine cost.
 * Bytes are compared with the planner's formulas, memory with a dry run of the layers.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "engine.h"

#include "../draw.h"

#include <math.h>
#include <string.h>

/* ---- times ---- */

/* What the plan says with the measured times of the stages. */
typedef struct expected {
    double makespan_s, bubble_s; /* bubble: mean of the ranks */
} expected;

static const char *time_text(char *buffer, size_t nbytes, double seconds)
{
    return ki_text_time(buffer, nbytes, fmax(seconds, 0));
}

static void time_row(const char *name, double measured_s, double step_s, double predicted_s, const char *note)
{
    char measured[32], predicted[32] = "";
    if (predicted_s >= 0)
        time_text(predicted, sizeof predicted, predicted_s);
    printf("  %-26s %12s %6.1f %% %12s%s%s\n", name, time_text(measured, sizeof measured, measured_s),
           step_s > 0 ? 100 * measured_s / step_s : 0, predicted, note != NULL ? "  " : "", note != NULL ? note : "");
}

static void print_times(const train_job *job, const train_totals *totals, const expected *plan)
{
    static const struct {
        train_time time;
        const char *name;
    } rows[] = { { TRAIN_FORWARD, "forward" },           { TRAIN_BACKWARD, "backward" },
                 { TRAIN_TP, "waiting in tp, ep" },      { TRAIN_BUBBLE, "idle by the plan of pp" },
                 { TRAIN_PP, "idle in pp beyond that" }, { TRAIN_DP, "waiting in dp" },
                 { TRAIN_OPTIMIZER, "norm and update" }, { TRAIN_OTHER, "the rest" } };
    double n = (double)totals->steps, step_s = totals->seconds / n;
    printf("  %-26s %12s %8s %12s\n", "time of a step", "measured", "", "by plan");
    const train_layout *l = &job->layout;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        train_time time = rows[i].time;
        if ((l->tp * l->ep == 1 && time == TRAIN_TP) || (l->dp * l->ep == 1 && time == TRAIN_DP) ||
            (l->pp == 1 && (time == TRAIN_BUBBLE || time == TRAIN_PP)))
            continue;
        bool is_bubble = rows[i].time == TRAIN_BUBBLE;
        time_row(rows[i].name, totals->time_s[rows[i].time] / n, step_s, is_bubble ? plan->bubble_s : -1, NULL);
    }
    time_row("step", step_s, step_s, plan->makespan_s, "the pipeline alone, with the stages' measured times");
    if (job->device != NULL && job->options.trace == NULL && job->options.timeline == NULL)
        printf(
            "  parts are times of the host, which runs ahead of the device and waits for it at losses and the norm;\n"
            "  with --trace it waits for every stage\n");
    if (job->layout.pp == 1)
        return;
    double idle_s = (totals->time_s[TRAIN_BUBBLE] + totals->time_s[TRAIN_PP]) / n;
    printf("  bubble: %.1f %% of the step when measured, %.1f %% of the pipeline's time by the plan\n",
           100 * idle_s / step_s, 100 * plan->bubble_s / plan->makespan_s);
}

/* ---- communication ---- */

static double sum_of(const train_count *counts, double *ops)
{
    double nbytes = 0;
    *ops = 0;
    for (int kind = 0; kind < KITH_COLL_COUNT; kind++) {
        *ops += counts[kind].forward + counts[kind].backward + counts[kind].step;
        nbytes += counts[kind].nbytes;
    }
    return nbytes;
}

/* Bytes that the planner has for an axis, over all stages of a pipeline. It knows no numbers of 8 bytes: the plan of
 * f64 is that of f32, activations and gradients both. */
static double planned_nbytes(const train_job *job, const char *axis)
{
    const kith_plan *plan = &job->plan;
    double nbytes = 0;
    for (int i = 0; i < plan->row_count; i++) {
        const kith_plan_traffic_row *row = &plan->rows[i];
        if (strcmp(row->axis, axis) != 0)
            continue;
        bool is_message = strcmp(row->op, "send_recv") == 0;
        double ops = is_message ? row->group_ops : row->ops * (row->stage < 0 ? plan->options.pp : 1);
        nbytes += ops * row->message_nbytes;
    }
    return job->options.dtype == KITH_F64 ? 2 * nbytes : nbytes;
}

static void bytes_row(const train_job *job, const char *axis, int size, double ops, double nbytes)
{
    char measured[32], predicted[32] = "";
    if (size < 2)
        return;
    if (job->has_plan)
        ki_text_bytes(predicted, sizeof predicted, planned_nbytes(job, axis));
    printf("  %-26s %12s %8.0f %12s\n", axis, ki_text_bytes(measured, sizeof measured, nbytes), ops, predicted);
}

static void print_bytes(const train_job *job, const train_numbers *last)
{
    const train_layout *layout = &job->layout;
    double ops, nbytes;
    if (layout->world == 1)
        return;
    printf("  %-26s %12s %8s %12s\n", "sent in a step, a pipeline", "bytes", "times", "by plan");
    nbytes = sum_of(last->tp, &ops);
    bytes_row(job, "tp", layout->tp, ops, nbytes);
    nbytes = sum_of(last->ep, &ops);
    bytes_row(job, "ep", layout->ep, ops, nbytes);
    ops = last->messages.forward + last->messages.backward + last->tied.step;
    bytes_row(job, "pp", layout->pp, ops, last->messages.nbytes + last->tied.nbytes);
    nbytes = sum_of(last->dp, &ops);
    bytes_row(job, "dp", layout->dp * layout->ep, ops, nbytes);
    if (!job->has_plan)
        printf("  no plan: %s\n", job->no_plan);
}

/* ---- memory ---- */

static void memory_row(const char *name, double measured, double predicted)
{
    char a[32], b[32];
    printf("  %-26s %12s %8s %12s\n", name, ki_text_bytes(a, sizeof a, measured), "",
           ki_text_bytes(b, sizeof b, predicted));
}

/* All that is in use on the device, by whomever. */
static void device_row(kith_device *device)
{
    char in_use[32], all[32];
    kith_device_info info = KITH_DEVICE_INFO_INIT;
    if (device == NULL || kith_device_describe(device, &info) != KITH_OK)
        return;
    printf("  %-26s %12s %8s of %s\n", "in use on the device",
           ki_text_bytes(in_use, sizeof in_use, (double)(info.memory_nbytes - info.free_nbytes)), "",
           ki_text_bytes(all, sizeof all, (double)info.memory_nbytes));
}

static void print_memory(const train_engine *engine, const train_memory *predicted)
{
    train_memory measured;
    char name[192], title[224] = "memory of rank 0";
    train_memory_measure(engine, &measured);
    if (engine->job->device != NULL) {
        train_device_name(engine->job->device, name, sizeof name);
        snprintf(title, sizeof title, "memory of %s", name);
    }
    printf("  %-26s %12s %8s %12s\n", title, "measured", "", "predicted");
    memory_row("weights", measured.parameters, predicted->parameters);
    memory_row("gradients", measured.grads, predicted->grads);
    memory_row("optimizer", measured.optimizer, predicted->optimizer);
    memory_row("activations, most at once", measured.activations, predicted->activations);
    device_row(engine->job->device);
}

/* A step whose gradient is not finite changes nothing. With dynamic loss scaling a few of them are how the scale is
 * found. */
static void print_divergence(const train_engine *engine)
{
    long long skipped = (long long)engine->skipped, made = (long long)engine->made;
    if (skipped == 0)
        return;
    printf("  the gradient was not finite in %lld of %lld step%s, which changed nothing", skipped, made,
           made == 1 ? "" : "s");
    if (engine->optim_result.is_skipped)
        fputs(", the last one among them: training has diverged, or --lr or --loss-scale is too high", stdout);
    putchar('\n');
}

kith_status train_report(const train_engine *engine, const train_costs *costs, const train_totals *totals,
                         const train_numbers *last, const train_memory *predicted)
{
    const train_job *job = engine->job;
    const train_layout *l = &job->layout;
    expected plan;
    if (job->rank != 0 || totals->steps == 0)
        return KITH_OK;
    kith_status status = train_costs_bubble(job, costs, &plan.bubble_s, &plan.makespan_s);
    if (status != KITH_OK)
        return status;
    printf("\n%d rank%s: tp %d, pp %d, dp %d, ep %d; %s, %lld microbatch%s of %lld sample%s; means of %lld step%s\n",
           l->world, l->world == 1 ? "" : "s", l->tp, l->pp, l->dp, l->ep, kith_schedule_kind_name(l->schedule),
           (long long)l->microbatches, l->microbatches == 1 ? "" : "es", (long long)l->micro_batch,
           l->micro_batch == 1 ? "" : "s", (long long)totals->steps, totals->steps == 1 ? "" : "s");
    if (l->why[0] != '\0')
        printf("--auto: %s\n", l->why);
    if (job->device != NULL && l->world > 1)
        printf("device memory between ranks: %s\n", kith_group_device_summary(job->world));
    print_times(job, totals, &plan);
    print_bytes(job, last);
    print_memory(engine, predicted);
    printf("  %.0f tokens/s\n", last->tokens * (double)totals->steps / totals->seconds);
    print_divergence(engine);
    fflush(stdout);
    return KITH_OK;
}
