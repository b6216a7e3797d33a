/* topology/plan_print.c - a plan as a report for people, at most 100 columns wide.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "plan_print.h"
#include "core/base/error.h"
#include "print.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define CELL 24

/* ---- numbers with units ---- */

/* Three digits and a unit: "512 MiB", "1.25 GiB". */
static const char *bytes_text(double nbytes, char *text)
{
    static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB" };
    int unit = 0;
    for (; nbytes >= 1000 && unit < 5; unit++)
        nbytes /= 1024;
    const char *format = nbytes >= 1e4                              ? "%.0e %s" /* beyond the last unit */
                         : nbytes >= 100 || nbytes == floor(nbytes) ? "%.0f %s"
                         : nbytes >= 10                             ? "%.1f %s"
                                                                    : "%.2f %s";
    snprintf(text, CELL, format, nbytes, units[unit]);
    return text;
}

static const char *time_text(double time_s, char *text)
{
    static const struct {
        double factor;
        const char *unit;
    } units[] = { { 1e6, "us" }, { 1e3, "ms" }, { 1, "s" } };
    int unit = time_s < 1e-3 ? 0 : time_s < 1 ? 1 : 2;
    double value = time_s * units[unit].factor;
    if (time_s < 0)
        snprintf(text, CELL, "-");
    else if (time_s == 0)
        snprintf(text, CELL, "0");
    else if (time_s >= 999.5 * 3600)
        snprintf(text, CELL, "> 999 h");
    else if (time_s >= 1e4)
        snprintf(text, CELL, "%.3g h", time_s / 3600);
    else
        snprintf(text, CELL, value >= 100 ? "%.0f %s" : value >= 10 ? "%.1f %s" : "%.2f %s", value, units[unit].unit);
    return text;
}

static const char *count_text(double count, char *text)
{
    snprintf(text, CELL, count < 1e7 ? "%.0f" : "%.1e", count);
    return text;
}

static bool is_placed(const kith_plan *plan)
{
    return plan->placed_step_s >= 0;
}

/* ---- sums ---- */

ki_layout_axis_sum ki_layout_sum_axis(const kith_plan *plan, const char *axis)
{
    ki_layout_axis_sum sum = { .placed_s = is_placed(plan) ? 0 : -1 };
    for (int i = 0; i < plan->row_count; i++) {
        const kith_plan_traffic_row *row = &plan->rows[i];
        if (strcmp(row->axis, axis) != 0)
            continue;
        sum.ops += row->ops;
        sum.wire_nbytes += row->ops * row->wire_nbytes;
        for (int link = 0; link < KITH_PLAN_LINKS; link++)
            sum.time_s[link] += row->time_s[link];
        sum.placed_s += is_placed(plan) ? row->placed_s : 0;
    }
    return sum;
}

double ki_layout_best_step(const kith_plan *plan)
{
    return is_placed(plan) ? plan->placed_step_s : plan->step_s[KITH_PLAN_NVLINK];
}

/* ---- head ---- */

static void print_model(ki_text *out, const kith_plan *plan)
{
    const kith_model *m = &plan->model;
    double all = kith_model_parameters(m), active = kith_model_active_parameters(m);
    ki_text_add(out, "%s: %.4g billion parameters", m->name, all / 1e9);
    if (m->experts > 0)
        ki_text_add(out, ", %.4g of them for a token", active / 1e9);
    ki_text_add(out, "\n  %" PRId64 " layers, hidden %" PRId64 ", %" PRId64 " heads", m->layers, m->hidden, m->heads);
    if (m->kv_heads != m->heads)
        ki_text_add(out, " (%" PRId64 " for K and V)", m->kv_heads);
    ki_text_add(out, ", MLP %" PRId64, m->experts > 0 && m->moe_ffn > 0 ? m->moe_ffn : m->ffn);
    if (m->experts > 0)
        ki_text_add(out, " (%" PRId64 " experts, %" PRId64 " for a token)", m->experts, m->top_k);
    ki_text_add(out, "\n  vocabulary %" PRId64, m->vocab);
    if (plan->padded_vocab != m->vocab)
        ki_text_add(out, ", padded to %" PRId64 " for tp %d", plan->padded_vocab, plan->options.tp);
    ki_text_add(out, "\n");
}

static const char *plural(double count)
{
    return count == 1 ? "" : "s"; /* no English here has another plural */
}

static void print_layout(ki_text *out, const kith_plan *plan)
{
    const kith_plan_options *o = &plan->options;
    static const char *const dtypes[] = { "", "fp8", "16 bit", "", "f32" };
    ki_text_add(out, "  %d rank%s: tp %d, cp %d, ep %d, dp %d, pp %d (order %.20s)\n", plan->world, plural(plan->world),
                o->tp, o->cp, o->ep, o->dp, o->pp, o->order);
    ki_text_add(out,
                "  a step: %" PRId64 " sequence%s of %" PRId64 " tokens; %" PRId64 " microbatch%s of %" PRId64
                " on each dp rank\n",
                o->global_batch, plural((double)o->global_batch), o->sequence, o->microbatches,
                o->microbatches == 1 ? "" : "es", o->micro_batch);
    ki_text_add(out, "  %s, recompute %s, zero %d%s%s\n", dtypes[o->parameter_nbytes],
                kith_recompute_name(o->recompute), o->zero, o->sequence_parallel ? ", sequence parallel" : "",
                o->flash_attention ? ", flash attention" : "");
    if (o->chunks > 1)
        ki_text_add(out, "  schedule %s, %d chunks of the model on each stage\n", kith_schedule_kind_name(o->schedule),
                    o->chunks);
    else if (o->pp > 1)
        ki_text_add(out, "  schedule %s\n", kith_schedule_kind_name(o->schedule));
}

/* ---- all-reduces of one forward pass ---- */

static void print_forward_table(ki_text *out, const kith_plan *plan)
{
    static const char *const names[] = { "NVLink 4", "PCIe 5", "InfiniBand NDR" };
    const kith_forward_table *table = &plan->forward_table;
    char each[CELL], all[CELL], time[CELL];
    if (table->ops <= 0)
        return;
    ki_text_add(out, "\nTensor parallelism as papers count it: 2n bytes for an all-reduce of n, nominal bandwidth\n");
    ki_text_add(out, "  one forward pass of a microbatch: %.0f all-reduces of %s: %s\n", table->ops,
                bytes_text(table->bytes_per_op, each), bytes_text(table->bytes, all));
    for (int link = 0; link < KITH_PLAN_LINKS; link++) {
        ki_text_add(out, "  %-16s %4.0f GB/s  %10s", names[link], kith_plan_link_nominal_gbps((kith_plan_link)link),
                    time_text(table->time_s[link], time));
        if (link > 0)
            ki_text_add(out, "  %5.1f times as long", table->time_s[link] / table->time_s[0]);
        ki_text_add(out, "\n");
    }
}

/* ---- communication ---- */

static void print_row(ki_text *out, const kith_plan *plan, const kith_plan_traffic_row *row)
{
    char calls[CELL], message[CELL], time[CELL];
    ki_text_add(out, "  %-2s%c %-34s %-14s %7s %9s", row->axis, row->is_overlapped ? '*' : ' ', row->what, row->op,
                count_text(row->ops, calls), bytes_text(row->message_nbytes, message));
    for (int link = 0; link < KITH_PLAN_LINKS && !is_placed(plan); link++)
        ki_text_add(out, " %8s", time_text(row->time_s[link], time));
    if (is_placed(plan)) {
        ki_text_add(out, " %8s", time_text(row->time_s[KITH_PLAN_NVLINK], time));
        ki_text_add(out, " %8s", time_text(row->time_s[KITH_PLAN_IB], time));
        ki_text_add(out, " %8s", time_text(row->placed_s, time));
    }
    ki_text_add(out, "\n");
}

static void print_sum(ki_text *out, const kith_plan *plan, const char *axis)
{
    ki_layout_axis_sum sum = ki_layout_sum_axis(plan, axis);
    char nbytes[CELL], time[CELL];
    if (sum.ops <= 0)
        return;
    ki_text_add(out, "  %s: a rank sends %s in %s call%s; ", axis, bytes_text(sum.wire_nbytes, nbytes),
                count_text(sum.ops, time), plural(sum.ops));
    ki_text_add(out, "NVLink %s", time_text(sum.time_s[KITH_PLAN_NVLINK], time));
    ki_text_add(out, ", PCIe %s", time_text(sum.time_s[KITH_PLAN_PCIE], time));
    ki_text_add(out, ", IB %s", time_text(sum.time_s[KITH_PLAN_IB], time));
    if (is_placed(plan))
        ki_text_add(out, ", here %s", time_text(sum.placed_s, time));
    ki_text_add(out, "\n");
}

static void print_traffic(ki_text *out, const kith_plan *plan)
{
    static const char *const axes[] = { "tp", "cp", "ep", "dp", "pp" };
    bool has_hidden = false;
    if (plan->row_count == 0) {
        ki_text_add(out, "\nNo communication.\n");
        return;
    }
    ki_text_add(out,
                "\nCommunication of a step on the busiest rank, by ring, if all of it were on one class of link\n");
    ki_text_add(out, "  %-3s %-34s %-14s %7s %9s", "", "", "", "calls", "message");
    ki_text_add(out, is_placed(plan) ? " %8s %8s %8s\n" : " %8s %8s %8s\n", "NVLink", is_placed(plan) ? "IB" : "PCIe",
                is_placed(plan) ? "here" : "IB");
    for (int i = 0; i < plan->row_count; i++) {
        print_row(out, plan, &plan->rows[i]);
        has_hidden = has_hidden || plan->rows[i].is_overlapped;
    }
    if (has_hidden)
        ki_text_add(out, "  * may hide behind compute\n");
    for (int i = 0; i < 5; i++)
        print_sum(out, plan, axes[i]);
}

/* ---- memory ---- */

static void print_share(ki_text *out, const char *what, double nbytes)
{
    char text[CELL];
    ki_text_add(out, "  %-12s %10s", what, bytes_text(nbytes, text));
}

static void print_verdict(ki_text *out, const kith_plan_memory *memory)
{
    char capacity[CELL], missing[CELL];
    if (memory->capacity <= 0)
        ki_text_add(out, "   the memory of a GPU is not known");
    else if (memory->fits)
        ki_text_add(out, "   fits: %.0f %% of %s", 100 * memory->total / memory->capacity,
                    bytes_text(memory->capacity, capacity));
    else
        ki_text_add(out, "   DOES NOT FIT into %s: %s too much", bytes_text(memory->capacity, capacity),
                    bytes_text(memory->total - memory->capacity, missing));
    ki_text_add(out, "\n");
}

static void print_memory(ki_text *out, const kith_plan *plan)
{
    const kith_plan_memory *memory = &plan->memory;
    char text[CELL];
    ki_text_add(out, "\nMemory of the fullest rank (stage %d of %d)\n", memory->stage, plan->options.pp);
    print_share(out, "weights", memory->weights);
    ki_text_add(out, "\n");
    print_share(out, "gradients", memory->gradients);
    ki_text_add(out, "\n");
    print_share(out, "optimizer", memory->optimizer);
    ki_text_add(out, "   Adam: two moments%s in f32\n", plan->options.parameter_nbytes == 4 ? "" : " and the weights");
    print_share(out, "activations", memory->activations);
    ki_text_add(out, "   %.4g layers, %s each, of %.4g microbatch%s in flight\n",
                (double)plan->model.layers / plan->options.pp, bytes_text(memory->activations_per_layer, text),
                memory->in_flight, memory->in_flight == 1 ? "" : "es");
    print_share(out, "total", memory->total);
    print_verdict(out, memory);
}

/* ---- time ---- */

static void print_time_row(ki_text *out, const kith_plan *plan, const char *what, size_t offset)
{
    char text[CELL];
    ki_text_add(out, "  %-36s", what);
    for (int column = 0; column < KITH_PLAN_LINKS + is_placed(plan); column++) {
        double value;
        memcpy(&value, (const char *)&plan->steps[column] + offset, sizeof value);
        ki_text_add(out, " %10s", time_text(value, text));
    }
    ki_text_add(out, "\n");
}

static void print_time(ki_text *out, const kith_plan *plan)
{
    const kith_plan_options *o = &plan->options;
    char text[CELL];
    ki_text_add(out, "\nTime of a step: %.4g TFLOP/s peak%s, %.0f %% of it reached\n", o->peak_tflops,
                plan->is_peak_assumed ? " (assumed)" : "", 100 * o->efficiency);
    ki_text_add(out, "  %-36s %10s %10s %10s%s\n", "", "NVLink", "PCIe", "InfiniBand",
                is_placed(plan) ? "       here" : "");
    print_time_row(out, plan, "compute", offsetof(kith_plan_step, compute_s));
    print_time_row(out, plan, "communication that nothing hides", offsetof(kith_plan_step, communication_s));
    print_time_row(out, plan, "pipeline bubble", offsetof(kith_plan_step, bubble_s));
    print_time_row(out, plan, "at the end of the step", offsetof(kith_plan_step, once_s));
    print_time_row(out, plan, "step", offsetof(kith_plan_step, total_s));
    if (plan->recompute_s > 0)
        ki_text_add(out, "  %s of the compute of a microbatch, %s, is recomputation\n",
                    time_text(plan->recompute_s, text), time_text(plan->compute_s, (char[CELL]){ 0 }));
    if (o->pp > 1)
        ki_text_add(out, "  bubble: %.1f %% of the ideal time; %.1f %% within a stage's own span\n", 100 * plan->bubble,
                    100 * plan->bubble_in_stage);
    ki_text_add(out, "  %s: %.4g tokens/s, model FLOPs %.1f %% of the peak\n", is_placed(plan) ? "here" : "on NVLink",
                plan->tokens_per_s, 100 * plan->mfu);
}

static void print_text(ki_text *out, const kith_plan *plan)
{
    print_model(out, plan);
    print_layout(out, plan);
    print_forward_table(out, plan);
    print_traffic(out, plan);
    print_memory(out, plan);
    print_time(out, plan);
    for (int i = 0; i < plan->note_count; i++)
        ki_text_add(out, i == 0 ? "\nNote: %s\n" : "Note: %s\n", plan->notes[i]);
}

kith_status kith_plan_print(const kith_plan *plan, kith_format format, char **text)
{
    ki_text out = { 0 };
    if (plan == NULL || text == NULL)
        return ki_fail_quiet(KITH_ERR_INVALID_ARG, "plan: nothing to print, or nowhere to put it");
    if (format == KITH_FORMAT_JSON)
        ki_layout_print_json(&out, plan);
    else
        print_text(&out, plan);
    return ki_print_finish(&out, text);
}
