/* topology/plan_json.c - a plan as JSON. The keys are listed in docs/plan.md and never change their meaning.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "plan_print.h"
#include "print.h"

#include <string.h>

static void member(ki_text *out, const char *key, double value)
{
    ki_text_add(out, "\"%s\": ", key);
    ki_print_number(out, value);
}

/* With a comma in front. */
static void next(ki_text *out, const char *key, double value)
{
    ki_text_add(out, ", ");
    member(out, key, value);
}

static void next_text(ki_text *out, const char *key, const char *value)
{
    ki_text_add(out, ", \"%s\": ", key);
    ki_text_add_json(out, value);
}

static void next_flag(ki_text *out, const char *key, bool value)
{
    ki_text_add(out, ", \"%s\": %s", key, value ? "true" : "false");
}

/* Below 0: there is none. */
static void next_or_null(ki_text *out, const char *key, double value)
{
    if (value < 0)
        ki_text_add(out, ", \"%s\": null", key);
    else
        next(out, key, value);
}

/* {"nvlink": .., "pcie": .., "ib": ..} */
static void times(ki_text *out, const char *key, const double *time_s)
{
    ki_text_add(out, ", \"%s\": {", key);
    for (int link = 0; link < KITH_PLAN_LINKS; link++) {
        ki_text_add(out, link > 0 ? ", " : "");
        member(out, kith_plan_link_name((kith_plan_link)link), time_s[link]);
    }
    ki_text_add(out, "}");
}

static void print_model(ki_text *out, const kith_plan *plan)
{
    const kith_model *m = &plan->model;
    ki_text_add(out, "  \"model\": {\"name\": ");
    ki_text_add_json(out, m->name);
    next(out, "parameters", kith_model_parameters(m));
    next(out, "active_parameters", kith_model_active_parameters(m));
    next(out, "layers", (double)m->layers);
    next(out, "hidden", (double)m->hidden);
    next(out, "heads", (double)m->heads);
    next(out, "kv_heads", (double)m->kv_heads);
    next(out, "head_dim", m->head_dim > 0 ? (double)m->head_dim : (double)m->hidden / (double)m->heads);
    next(out, "ffn", (double)m->ffn);
    next(out, "vocab", (double)m->vocab);
    next(out, "padded_vocab", (double)plan->padded_vocab);
    next(out, "positions", (double)m->positions);
    next(out, "experts", (double)m->experts);
    next(out, "top_k", (double)m->top_k);
    next_flag(out, "gated", m->is_gated);
    next_flag(out, "tied", m->is_tied);
    ki_text_add(out, "},\n");
}

static void print_layout(ki_text *out, const kith_plan *plan)
{
    const kith_plan_options *o = &plan->options;
    ki_text_add(out, "  \"layout\": {\"world\": %d, \"tp\": %d, \"cp\": %d, \"ep\": %d, \"dp\": %d, \"pp\": %d",
                plan->world, o->tp, o->cp, o->ep, o->dp, o->pp);
    next_text(out, "order", o->order);
    next(out, "micro_batch", (double)o->micro_batch);
    next(out, "microbatches", (double)o->microbatches);
    next(out, "global_batch", (double)o->global_batch);
    next(out, "sequence", (double)o->sequence);
    next(out, "parameter_bytes", o->parameter_nbytes);
    next(out, "gradient_bytes", o->gradient_nbytes);
    next_flag(out, "sequence_parallel", o->sequence_parallel);
    next_flag(out, "flash_attention", o->flash_attention);
    next(out, "zero", o->zero);
    next_text(out, "recompute", kith_recompute_name(o->recompute));
    next_text(out, "schedule", kith_schedule_kind_name(o->schedule));
    next(out, "chunks", o->chunks);
    next(out, "peak_tflops", o->peak_tflops);
    next_flag(out, "peak_assumed", plan->is_peak_assumed);
    next(out, "efficiency", o->efficiency);
    ki_text_add(out, "},\n");
}

/* The four numbers that every axis has. */
static void print_four(ki_text *out, double ops, double nbytes, const double *time_s)
{
    member(out, "ops", ops);
    next(out, "bytes_per_op", ops > 0 ? nbytes / ops : 0);
    next(out, "bytes", nbytes);
    times(out, "time_s", time_s);
}

static void print_axis(ki_text *out, const kith_plan *plan, const char *axis)
{
    ki_layout_axis_sum sum = ki_layout_sum_axis(plan, axis);
    bool is_tp = strcmp(axis, "tp") == 0;
    ki_text_add(out, "    \"%s\": {", axis);
    if (is_tp) {
        const kith_forward_table *table = &plan->forward_table;
        print_four(out, table->ops, table->bytes, table->time_s);
        next_text(out, "per", "forward pass of one microbatch, 2n bytes for an all-reduce of n, nominal bandwidth");
        ki_text_add(out, ",\n           \"step\": {");
    }
    print_four(out, sum.ops, sum.wire_nbytes, sum.time_s);
    next_or_null(out, "placed_s", sum.placed_s);
    next_text(out, "per", "step, bytes that a rank sends by ring");
    ki_text_add(out, is_tp ? "}}" : "}");
}

static void print_axes(ki_text *out, const kith_plan *plan)
{
    static const char *const axes[] = { "tp", "cp", "ep", "dp", "pp" };
    ki_text_add(out, "  \"axes\": {\n");
    for (int i = 0; i < 5; i++) {
        print_axis(out, plan, axes[i]);
        ki_text_add(out, i < 4 ? ",\n" : "\n");
    }
    ki_text_add(out, "  },\n");
}

static void print_row(ki_text *out, const kith_plan_traffic_row *row)
{
    ki_text_add(out, "    {\"axis\": ");
    ki_text_add_json(out, row->axis);
    next_text(out, "group", row->group);
    next_text(out, "what", row->what);
    next_text(out, "phase", row->phase);
    next_text(out, "op", row->op);
    next(out, "group_size", row->group_size);
    if (row->stage < 0)
        ki_text_add(out, ", \"stage\": null");
    else
        next(out, "stage", row->stage);
    next(out, "ops", row->ops);
    next(out, "group_ops", row->group_ops);
    next(out, "message_bytes", row->message_nbytes);
    next(out, "wire_bytes", row->wire_nbytes);
    times(out, "time_s", row->time_s);
    next_or_null(out, "placed_s", row->placed_s);
    next_flag(out, "overlapped", row->is_overlapped);
    ki_text_add(out, "}");
}

static void print_rows(ki_text *out, const kith_plan *plan)
{
    ki_text_add(out, "  \"traffic\": [");
    for (int i = 0; i < plan->row_count; i++) {
        ki_text_add(out, i > 0 ? ",\n" : "\n");
        print_row(out, &plan->rows[i]);
    }
    ki_text_add(out, "],\n");
}

static void print_memory(ki_text *out, const kith_plan_memory *memory)
{
    ki_text_add(out, "  \"memory\": {");
    member(out, "weights", memory->weights);
    next(out, "gradients", memory->gradients);
    next(out, "optimizer", memory->optimizer);
    next(out, "activations", memory->activations);
    next(out, "total", memory->total);
    next(out, "activations_per_layer", memory->activations_per_layer);
    next(out, "in_flight", memory->in_flight);
    next(out, "stage", memory->stage);
    next_or_null(out, "capacity", memory->capacity > 0 ? memory->capacity : -1);
    if (memory->capacity > 0)
        next_flag(out, "fits", memory->fits);
    else
        ki_text_add(out, ", \"fits\": null");
    ki_text_add(out, "},\n");
}

static void print_step(ki_text *out, const kith_plan_step *step)
{
    if (step->total_s < 0) {
        ki_text_add(out, "null");
        return;
    }
    ki_text_add(out, "{");
    member(out, "compute_s", step->compute_s);
    next(out, "communication_s", step->communication_s);
    next(out, "bubble_s", step->bubble_s);
    next(out, "once_s", step->once_s);
    next(out, "total_s", step->total_s);
    ki_text_add(out, "}");
}

static void print_times(ki_text *out, const kith_plan *plan)
{
    ki_text_add(out, "  ");
    member(out, "bubble", plan->bubble);
    next(out, "bubble_in_stage", plan->bubble_in_stage);
    next(out, "compute_s", plan->compute_s);
    next(out, "recompute_s", plan->recompute_s);
    next(out, "step_s", ki_layout_best_step(plan));
    next(out, "tokens_per_s", plan->tokens_per_s);
    next(out, "model_flops", plan->model_flops);
    next(out, "mfu", plan->mfu);
    ki_text_add(out, ",\n  \"steps\": {");
    for (int link = 0; link < KITH_PLAN_LINKS; link++) {
        ki_text_add(out, "\"%s\": ", kith_plan_link_name((kith_plan_link)link));
        print_step(out, &plan->steps[link]);
        ki_text_add(out, ",\n            ");
    }
    ki_text_add(out, "\"placed\": ");
    print_step(out, &plan->steps[KITH_PLAN_LINKS]);
    ki_text_add(out, "},\n");
}

void ki_layout_print_json(ki_text *out, const kith_plan *plan)
{
    ki_text_add(out, "{\n");
    print_model(out, plan);
    print_layout(out, plan);
    print_axes(out, plan);
    print_rows(out, plan);
    print_memory(out, &plan->memory);
    print_times(out, plan);
    ki_text_add(out, "  \"notes\": [");
    for (int i = 0; i < plan->note_count; i++) {
        ki_text_add(out, i > 0 ? ", " : "");
        ki_text_add_json(out, plan->notes[i]);
    }
    ki_text_add(out, "]\n}");
}
