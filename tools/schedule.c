/* tools/schedule.c - `kith schedule`: a pipeline plan made or read, checked, run on a clock, and shown.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "schedule.h"

#include <stdlib.h>
#include <string.h>

static const char schedule_help[] =
    "Usage: kith schedule --kind KIND --ranks P --microbatches M [options]\n"
    "       kith schedule --import FILE [options]\n"
    "       kith schedule --compare KIND,KIND,... --ranks P --microbatches M [options]\n"
    "Makes the plan of a pipeline step, or reads one from a file of PyTorch, and shows it: a timeline, idle time, what "
    "is in\n"
    "flight, messages.\n\n"
    "Plan:\n"
    "  --kind KIND         one of those that --list names\n"
    "  --ranks P           ranks of the pipeline\n"
    "  --microbatches M    microbatches of a step\n"
    "  --chunks V          stages on each rank; default what the kind needs\n"
    "  --group-size N      interleaved: microbatches that pass a chunk before the next one; default P\n"
    "  --warmup-factor N   interleaved: 2 (default), or 1 for less memory and no slack for messages\n"
    "  --fifo              gpipe, looped-bfs: backwards in the order of forwards\n"
    "  --forward-only      evaluation\n"
    "  --memory-bound X    auto: what a rank may hold; default P activations of a microbatch\n"
    "  --import FILE       PyTorch's pipeline CSV, computation alone or with messages; it is checked\n"
    "  --dialect D         of that file: auto (default), old (B is the backward for inputs, up to PyTorch 2.5), new\n"
    "  --compare K,K,...   several kinds; --cost is then of a rank's whole share, which its chunks divide; options of "
    "some\n"
    "                      kinds are for those among them\n"
    "  --list              names of the kinds\n\n"
    "Costs of a stage:\n"
    "  --cost F=1,B=2,...  F forward, B backward or I and W its parts, FB an overlapped pair, R recomputation, C time "
    "of a\n"
    "                      message on its connection, L latency, A bytes held until B or I, G bytes held for W, M "
    "bytes of\n"
    "                      a message\n"
    "  --profile FILE      the same for each stage: CSV with a line of these letters, then a line a stage\n\n"
    "What is done:\n"
    "  --check             prove that the plan is right, with messages that wait for each other\n"
    "  --lowered           show the plan with messages, loading, reduction and optimizer step\n"
    "  --recompute         the same with recomputation before each backward\n"
    "  --tied              the same with weights shared by first and last stage\n\n"
    "Output:\n"
    "  --format FORM       text (default), json, csv and csv-comms (PyTorch), deepspeed, shallowspeed, trace "
    "(Perfetto),\n"
    "                      svg, png, pdf, html\n"
    "  --output FILE       instead of standard output\n"
    "  --width N           columns of the timeline; default 100\n"
    "  --color WHEN        auto (default), always, never\n"
    "  --ascii             no characters beyond ASCII\n\n"
    "Exit status: 0, 1 when the check finds something, 2 when there is no such plan, wrong usage, or something cannot "
    "be\n"
    "read or written.\n\n"
    "Example: kith schedule --kind 1f1b --ranks 4 --microbatches 8 --cost F=1,B=2\n";

static int schedule_main(int argc, char **argv);
const ki_command ki_command_schedule = { "schedule", "Make, check, time and draw pipeline schedules", schedule_help,
                                         schedule_main };

static int fail(void)
{
    fprintf(stderr, "kith schedule: %s\n", kith_error_detail());
    return KI_SCHEDULE_REFUSED;
}

static int list_kinds(void)
{
    for (int i = 0; i < KITH_SCHEDULE_CUSTOM; i++)
        puts(kith_schedule_kind_name((kith_schedule_kind)i));
    return KI_EXIT_OK;
}

/* ---- plans ---- */

/* A plan that may have parts of a step already, with all of it. */
static kith_status lower_computation(const kith_schedule *plan, const kith_lower_options *options,
                                     kith_schedule **lowered)
{
    kith_schedule *computation;
    kith_status status = kith_schedule_compute_only(plan, &computation);
    if (status != KITH_OK)
        return status;
    status = kith_schedule_lower(computation, options, lowered);
    kith_schedule_destroy(computation);
    return status;
}

/* Proves the plan with its messages; the plan itself when it has them. */
static int check(const kith_schedule *plan)
{
    char *report = NULL;
    kith_schedule *lowered = NULL;
    kith_status status = kith_schedule_check(plan, NULL, &report);
    if (status == KITH_OK && !kith_schedule_is_lowered(plan)) {
        status = lower_computation(plan, NULL, &lowered);
        if (status == KITH_OK)
            status = kith_schedule_check(lowered, NULL, &report);
    }
    kith_schedule_destroy(lowered);
    if (status == KITH_OK)
        return KI_EXIT_OK;
    if (status != KITH_ERR_INVALID_ARG)
        return fail();
    fprintf(stderr, "kith schedule: %s\n",
            report != NULL ? report : kith_error_detail()); /* it begins with the sentence */
    kith_free(report);
    return KI_SCHEDULE_WRONG;
}

static int take_plan(const ki_schedule_request *r, ki_schedule_view *view)
{
    kith_torch_dialect dialect = r->dialect;
    kith_status status = r->import != NULL ? kith_schedule_load(r->import, &dialect, &view->plan)
                                           : kith_schedule_create(&r->making, &view->plan);
    if (status != KITH_OK)
        return fail();
    int result = r->is_checked || r->import != NULL ? check(view->plan) : KI_EXIT_OK;
    if (result != KI_EXIT_OK || !r->is_lowered || kith_schedule_is_lowered(view->plan))
        return result;
    kith_schedule *lowered;
    if (lower_computation(view->plan, &r->lowering, &lowered) != KITH_OK)
        return fail();
    kith_schedule_destroy(view->plan);
    view->plan = lowered;
    return KI_EXIT_OK;
}

static int time_plan(const kith_schedule_costs *costs, ki_schedule_view *view)
{
    return kith_schedule_simulate(view->plan, costs, &view->run) == KITH_OK ? KI_EXIT_OK : fail();
}

/* A rank's whole share, divided among its chunks. Negative values say "from the others" and stay. */
static kith_schedule_costs share_of_chunk(const kith_schedule_costs *whole, int chunks)
{
    kith_schedule_costs costs = *whole;
    double *parts[] = { &costs.same.f,
                        &costs.same.i,
                        &costs.same.w,
                        &costs.same.b,
                        &costs.same.fb,
                        &costs.same.recompute,
                        &costs.same.activation_nbytes,
                        &costs.same.weight_nbytes };
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        *parts[i] /= *parts[i] > 0 ? chunks : 1;
    return costs;
}

/* Whether plans of the kind have a number of chunks that can be chosen. */
static bool takes_chunks(kith_schedule_kind kind)
{
    kith_schedule_options smallest = KITH_SCHEDULE_OPTIONS_INIT;
    smallest.kind = kind;
    smallest.ranks = smallest.microbatches = 1;
    for (smallest.chunks = 1; smallest.chunks <= 2; smallest.chunks++) {
        kith_schedule *plan;
        if (kith_schedule_create(&smallest, &plan) != KITH_OK)
            return false;
        kith_schedule_destroy(plan);
    }
    return true;
}

/* --chunks is for the kinds that let one choose; the others keep their own number. When no kind does, it is as for
 * --kind: refused unless it is that number. */
static bool some_take_chunks(const ki_schedule_request *r)
{
    for (int i = 0; i < r->compared_count; i++)
        if (takes_chunks(r->compared[i]))
            return true;
    return false;
}

static kith_status make_compared(const ki_schedule_request *r, kith_schedule_kind kind, kith_schedule **plan)
{
    kith_schedule_options making = r->making;
    making.kind = kind;
    if (making.chunks != 0 && some_take_chunks(r) && !takes_chunks(kind))
        making.chunks = 0;
    return kith_schedule_create(&making, plan);
}

static int make_views(const ki_schedule_request *r, ki_schedule_view *views, int *count)
{
    *count = r->compared_count > 0 ? r->compared_count : 1;
    if (r->compared_count == 0) {
        int result = take_plan(r, &views[0]);
        views[0].name = r->import != NULL ? r->import : kith_schedule_kind_name(r->making.kind);
        return result == KI_EXIT_OK ? time_plan(&r->costs, &views[0]) : result;
    }
    for (int i = 0; i < r->compared_count; i++) {
        views[i].name = kith_schedule_kind_name(r->compared[i]);
        if (make_compared(r, r->compared[i], &views[i].plan) != KITH_OK)
            return fail();
        int result = r->is_checked ? check(views[i].plan) : KI_EXIT_OK;
        kith_schedule_costs costs = share_of_chunk(&r->costs, kith_schedule_chunks(views[i].plan));
        result = result == KI_EXIT_OK ? time_plan(&costs, &views[i]) : result;
        if (result != KI_EXIT_OK)
            return result;
    }
    return KI_EXIT_OK;
}

static void drop_views(ki_schedule_view *views, int count)
{
    for (int i = 0; i < count; i++) {
        kith_simulation_destroy(views[i].run);
        kith_schedule_destroy(views[i].plan);
    }
}

/* ---- reports ---- */

static int print_text(const ki_schedule_request *r, const ki_schedule_view *view, kith_simulation_format format,
                      FILE *out)
{
    char *text;
    if (kith_simulation_print(view->plan, view->run, format, &r->printing, &text) != KITH_OK)
        return fail();
    fputs(text, out);
    kith_free(text);
    return KI_EXIT_OK;
}

static int print_file(const ki_schedule_view *view, kith_schedule_form form, FILE *out)
{
    char *text;
    size_t dropped = 0;
    if (kith_schedule_write(view->plan, form, &text, &dropped) != KITH_OK)
        return fail();
    if (dropped > 0)
        fprintf(stderr, "kith schedule: the format has no word for %zu actions of the plan; they are left out\n",
                dropped);
    fputs(text, out);
    kith_free(text);
    return KI_EXIT_OK;
}

static int print_picture(const ki_schedule_request *r, const ki_schedule_view *views, int count, FILE *out)
{
    const char *error = "memory is short";
    ki_drawing *drawing = ki_schedule_drawing(views, count, &error);
    bool is_drawn = drawing != NULL;
    if (is_drawn && r->report == KI_SCHEDULE_SVG)
        ki_drawing_svg(drawing, false, out);
    else if (is_drawn)
        is_drawn =
            r->report == KI_SCHEDULE_PNG ? ki_drawing_png(drawing, out, &error) : ki_drawing_pdf(drawing, out, &error);
    ki_drawing_destroy(drawing);
    if (is_drawn)
        return KI_EXIT_OK;
    fprintf(stderr, "kith schedule: the picture cannot be made: %s\n", error);
    return KI_SCHEDULE_REFUSED;
}

static int print_page(const ki_schedule_view *views, int count, FILE *out)
{
    const char *error = "memory is short";
    if (ki_schedule_page(views, count, out, &error))
        return KI_EXIT_OK;
    fprintf(stderr, "kith schedule: the page cannot be made: %s\n", error);
    return KI_SCHEDULE_REFUSED;
}

/* One object for one plan; for several {"schedules": [...]}. */
static int print_json(const ki_schedule_request *r, const ki_schedule_view *views, int count, FILE *out)
{
    int result = KI_EXIT_OK;
    fputs(r->compared_count > 0 ? "{\"schedules\": [\n" : "", out);
    for (int i = 0; i < count && result == KI_EXIT_OK; i++) {
        fputs(i > 0 ? ",\n" : "", out);
        result = print_text(r, &views[i], KITH_SIMULATION_JSON, out);
    }
    fputs(r->compared_count > 0 ? "]}\n" : "", out);
    return result;
}

static int print_timelines(const ki_schedule_request *r, const ki_schedule_view *views, int count, FILE *out)
{
    int result = KI_EXIT_OK;
    for (int i = 0; i < count && result == KI_EXIT_OK; i++) {
        if (r->compared_count > 0)
            fprintf(out, "%s%s\n", i > 0 ? "\n" : "", views[i].name);
        result = print_text(r, &views[i], KITH_SIMULATION_TEXT, out);
    }
    if (result == KI_EXIT_OK && r->compared_count > 0) {
        fputs("\n", out);
        ki_schedule_table(views, count, out);
    }
    if (result == KI_EXIT_OK && r->is_checked)
        fputs("checked: right, also when each send waits for its receive\n", out);
    return result;
}

static int print_report(const ki_schedule_request *r, const ki_schedule_view *views, int count, FILE *out)
{
    switch (r->report) {
    case KI_SCHEDULE_TEXT:
        return print_timelines(r, views, count, out);
    case KI_SCHEDULE_JSON:
        return print_json(r, views, count, out);
    case KI_SCHEDULE_TRACE:
        return print_text(r, views, KITH_SIMULATION_TRACE, out);
    case KI_SCHEDULE_CSV:
        return print_file(views, KITH_FORM_TORCH_COMPUTE, out);
    case KI_SCHEDULE_CSV_COMMS:
        return print_file(views, KITH_FORM_TORCH_COMMS, out);
    case KI_SCHEDULE_DEEPSPEED:
        return print_file(views, KITH_FORM_DEEPSPEED, out);
    case KI_SCHEDULE_SHALLOWSPEED:
        return print_file(views, KITH_FORM_SHALLOWSPEED, out);
    case KI_SCHEDULE_HTML:
        return print_page(views, count, out);
    default:
        return print_picture(r, views, count, out);
    }
}

static int report(const ki_schedule_request *r)
{
    ki_schedule_view views[KI_COMPARE_MAX] = { { NULL, NULL, NULL, NULL } };
    int count = 0;
    ki_output output;
    int result = make_views(r, views, &count);
    if (result == KI_EXIT_OK && !ki_output_open(&output, &ki_command_schedule))
        result = KI_SCHEDULE_REFUSED;
    else if (result == KI_EXIT_OK) {
        result = print_report(r, views, count, output.stream);
        if (result == KI_EXIT_OK)
            result = ki_output_close(&output, r->output, r->report == KI_SCHEDULE_PNG || r->report == KI_SCHEDULE_PDF);
        else
            ki_output_drop(&output);
    }
    drop_views(views, count);
    return result;
}

static int schedule_main(int argc, char **argv)
{
    ki_schedule_request request;
    int result = ki_schedule_read_options(argc, argv, &request);
    if (result == KI_EXIT_OK) {
        if (request.is_help)
            fputs(schedule_help, stdout);
        else
            result = request.is_list ? list_kinds() : report(&request);
    }
    ki_schedule_request_fini(&request);
    return result;
}
