/* tools/plan.c - `kith plan`: what training a model costs in a layout, or which layouts are best.
 *
 * The options are read in plan_options.c; the arithmetic and the report of a plan are the library's (kith/plan.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "plan_options.h"
#include "progress.h"

#include <kith/context.h>
#include <stdio.h>
#include <stdlib.h>

#define EXIT_FAILED 1

static const char plan_help[] =
    "Usage: kith plan --model NAME|--config FILE [options]\n"
    "Says what training a model costs in a layout: memory of a rank, every kind of communication with its time on\n"
    "NVLink, PCIe and InfiniBand, and the time of a step. With a description of a machine also on that machine.\n\n"
    "Model:\n"
    "  --model NAME        one of those that --list names\n"
    "  --config FILE       a config.json as Hugging Face writes it\n"
    "  --list              names of the models, with their parameters\n\n"
    "Layout (each 1 unless given):\n"
    "  --tp N              tensor parallel\n"
    "  --pp N              pipeline stages\n"
    "  --dp N              data parallel; with --input: what remains\n"
    "  --cp N              context parallel\n"
    "  --ep N              expert parallel\n"
    "  --order A-B-...     axes, the first varying fastest; default tp-cp-ep-dp-pp\n"
    "  --sp                sequence parallel\n"
    "  --zero N            0 to 3: what is sharded over data parallel ranks\n"
    "  --schedule NAME     naive, gpipe, 1f1b (default), interleaved, zb-h1, zb-h2, zb-v, looped-bfs,\n"
    "                      interleaved-zb, dualpipe-v, auto: those of kith schedule\n"
    "  --chunks N          parts of the model on each stage of interleaved, looped-bfs, interleaved-zb; default 2\n\n"
    "Work:\n"
    "  --batch N           sequences of a microbatch; default 1\n"
    "  --microbatches N    microbatches of a step; default 1\n"
    "  --global-batch N    sequences of a step, instead of --microbatches\n"
    "  --seq N             tokens of a sequence; default 2048\n"
    "  --dtype TYPE        bf16 (default), f16, f32, fp8\n"
    "  --recompute HOW     none (default), selective, full\n"
    "  --flash             attention without matrices of sequence by sequence\n\n"
    "Machine:\n"
    "  --input FILE        description of a machine, as kith topo reads it; may be given several times\n"
    "  --nodes N           how many nodes, where the description is of one\n"
    "  --gpu NAME          model of the GPUs where nothing says it, as H100\n"
    "  --peak TFLOPS       peak of one GPU\n"
    "  --efficiency SHARE  of the peak that is reached; default 0.5\n"
    "  --memory GB         memory of one GPU\n"
    "  --constants FILE    JSON that replaces rows of the table of constants, as kith bench and kith tune write\n"
    "                      them; goes with --input\n\n"
    "  --search            try all layouts, sort those that fit by the time of a step; axes that are given are kept\n"
    "  --world N           ranks to lay out with --search; default: as many as the machine has room for\n"
    "  --top N             how many layouts --search shows; default 10\n"
    "  --format FORM       text (default) or json\n\n"
    "Exit status: 0, 1 when there is no such plan or none fits, 2 wrong usage, or output that cannot be written.\n\n"
    "Example: kith plan --model llama-2-70b --tp 8 --batch 4 --seq 4096\n";

static int plan_main(int argc, char **argv);
const ki_command ki_command_plan = { "plan", "Work out memory, traffic and step time of a layout", plan_help,
                                     plan_main };

/* ---- what is asked for ---- */

static int fail(kith_status status)
{
    ki_progress_end();
    fprintf(stderr, "kith plan: %s: %s\n", kith_status_name(status), kith_error_detail());
    return EXIT_FAILED;
}

/* A name that is in no list is wrong usage, of a GPU as well; a file that cannot be used is not. */
static int find_model(const ki_plan_request *request, kith_model *model)
{
    kith_status status =
        request->config != NULL ? kith_model_read(request->config, model) : kith_model_named(request->model, model);
    if (status == KITH_OK)
        return KI_EXIT_OK;
    int result = fail(status);
    return request->config == NULL ? KI_EXIT_USAGE : result;
}

static int list_models(void)
{
    const char *name;
    for (int i = 0; (name = kith_model_name(i)) != NULL; i++) {
        kith_model model;
        if (kith_model_named(name, &model) == KITH_OK)
            printf("%-16s %9.4g billion parameters\n", name, kith_model_parameters(&model) / 1e9);
    }
    return KI_EXIT_OK;
}

static kith_status print_plan(const kith_plan *plan, bool is_json)
{
    char *text;
    kith_status status = kith_plan_print(plan, is_json ? KITH_FORMAT_JSON : KITH_FORMAT_TEXT, &text);
    if (status != KITH_OK)
        return status;
    fputs(text, stdout);
    if (is_json)
        puts("");
    kith_free(text);
    return KITH_OK;
}

static int make_one(const kith_topology *topology, const kith_model *model, const ki_plan_request *request)
{
    kith_plan plan;
    kith_status status = kith_plan_make(topology, model, &request->options, &plan);
    ki_progress_end();
    if (status == KITH_OK)
        status = print_plan(&plan, request->is_json);
    return status == KITH_OK ? KI_EXIT_OK : fail(status);
}

static void print_row(const kith_plan *plan, int rank)
{
    const kith_plan_options *o = &plan->options;
    double step_s = plan->placed_step_s > 0 ? plan->placed_step_s : plan->step_s[KITH_PLAN_NVLINK];
    printf("%4d %6d %5d %5d %5d %5d %8lld %8.1f GiB %7.1f %% %10.4g s %10.4g %6.1f %%\n", rank, o->tp, o->cp, o->ep,
           o->dp, o->pp, (long long)o->microbatches, plan->memory.total / (1 << 30), 100 * plan->bubble, step_s,
           plan->tokens_per_s, 100 * plan->mfu);
}

static void print_table(const kith_plan *plans, int count, int tried)
{
    bool is_placed = count > 0 && plans[0].placed_step_s > 0;
    bool is_fit_known = count > 0 && plans[0].memory.capacity > 0;
    printf("%d layout%s tried, the best %d%s; times %s\n", tried, tried == 1 ? "" : "s", count,
           is_fit_known ? " of those that fit" : "", is_placed ? "on the machine" : "with all communication on NVLink");
    if (count > 0 && !is_fit_known)
        printf("the memory of a GPU is not known, so none was left out for it; --gpu or --memory tells\n");
    if (count > 0 && plans[0].is_peak_assumed)
        printf("the peak of the GPUs is not known: that of an A100 is taken; --gpu or --peak tells\n");
    printf("\n");
    printf("%4s %6s %5s %5s %5s %5s %8s %12s %9s %12s %10s %8s\n", "", "tp", "cp", "ep", "dp", "pp", "microb.",
           "memory", "bubble", "step", "tokens/s", "MFU");
    for (int i = 0; i < count; i++)
        print_row(&plans[i], i + 1);
}

static kith_status print_array(const kith_plan *plans, int count, int tried)
{
    kith_status status = KITH_OK;
    printf("{\"tried\": %d, \"count\": %d, \"plans\": [\n", tried, count);
    for (int i = 0; i < count && status == KITH_OK; i++) {
        if (i > 0)
            puts(",");
        status = print_plan(&plans[i], true);
    }
    puts("]}");
    return status;
}

static int search(const kith_topology *topology, const kith_model *model, const ki_plan_request *request)
{
    int count = 0, tried = 0;
    kith_plan *plans = (kith_plan *)calloc((size_t)request->top, sizeof(*plans));
    if (plans == NULL) {
        perror("kith plan");
        return EXIT_FAILED;
    }
    kith_status status = kith_plan_search(topology, model, &request->options, (int)request->world, plans,
                                          (int)request->top, &count, &tried);
    ki_progress_end();
    if (status == KITH_OK && request->is_json)
        status = print_array(plans, count, tried);
    else if (status == KITH_OK && count > 0)
        print_table(plans, count, tried);
    free(plans);
    if (status != KITH_OK)
        return fail(status);
    if (count > 0)
        return KI_EXIT_OK;
    fprintf(stderr, "kith plan: none of the %d layouts fits into memory\n", tried);
    return EXIT_FAILED;
}

static kith_status load(const ki_plan_request *request, kith_topology **topology)
{
    kith_topology_options options = KITH_TOPOLOGY_OPTIONS_INIT;
    options.gpu = request->options.gpu;
    options.node_count = (int)request->nodes;
    options.constants_path = request->constants;
    *topology = NULL;
    return request->input_count > 0 ? kith_topology_load(request->inputs, request->input_count, &options, topology)
                                    : KITH_OK;
}

static int answer(const ki_plan_request *request)
{
    kith_model model;
    kith_topology *topology;
    int result = find_model(request, &model);
    if (result != KI_EXIT_OK)
        return result;
    const char *gpu = request->options.gpu;
    kith_status status = gpu != NULL ? kith_gpu_check(gpu) : KITH_OK;
    if (status != KITH_OK) {
        fail(status);
        return KI_EXIT_USAGE;
    }
    status = load(request, &topology);
    if (status != KITH_OK)
        return fail(status);
    result = request->is_search ? search(topology, &model, request) : make_one(topology, &model, request);
    kith_topology_destroy(topology);
    return result;
}

static int show_progress(void *arg, const char *what, double fraction)
{
    (void)arg;
    ki_progress_show("plan", what, fraction);
    return 0;
}

static int plan_main(int argc, char **argv)
{
    ki_plan_request request = { .options = KITH_PLAN_OPTIONS_INIT, .top = 10 };
    request.options.progress = show_progress;
    int result = ki_plan_read_options(argc, argv, &request);
    if (result != KI_EXIT_OK)
        return result;
    if (request.is_help) {
        fputs(plan_help, stdout);
        return KI_EXIT_OK;
    }
    return request.is_list ? list_models() : answer(&request);
}
