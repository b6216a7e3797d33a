/* tools/plan_options.c - the options of `kith plan`, and what belongs together.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "plan_options.h"

#include <float.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TOP_MAX 1000

enum {
    OPT_MODEL = 256,
    OPT_CONFIG,
    OPT_LIST,
    OPT_TP,
    OPT_PP,
    OPT_DP,
    OPT_CP,
    OPT_EP,
    OPT_ORDER,
    OPT_SP,
    OPT_ZERO,
    OPT_SCHEDULE,
    OPT_CHUNKS,
    OPT_BATCH,
    OPT_MICROBATCHES,
    OPT_GLOBAL_BATCH,
    OPT_SEQ,
    OPT_DTYPE,
    OPT_RECOMPUTE,
    OPT_FLASH,
    OPT_INPUT,
    OPT_NODES,
    OPT_GPU,
    OPT_PEAK,
    OPT_EFFICIENCY,
    OPT_MEMORY,
    OPT_CONSTANTS,
    OPT_SEARCH,
    OPT_WORLD,
    OPT_TOP,
    OPT_FORMAT,
    OPT_HELP
};

static const struct option plan_options[] = {
    { "model", required_argument, NULL, OPT_MODEL },
    { "config", required_argument, NULL, OPT_CONFIG },
    { "list", no_argument, NULL, OPT_LIST },
    { "tp", required_argument, NULL, OPT_TP },
    { "pp", required_argument, NULL, OPT_PP },
    { "dp", required_argument, NULL, OPT_DP },
    { "cp", required_argument, NULL, OPT_CP },
    { "ep", required_argument, NULL, OPT_EP },
    { "order", required_argument, NULL, OPT_ORDER },
    { "sp", no_argument, NULL, OPT_SP },
    { "zero", required_argument, NULL, OPT_ZERO },
    { "schedule", required_argument, NULL, OPT_SCHEDULE },
    { "chunks", required_argument, NULL, OPT_CHUNKS },
    { "batch", required_argument, NULL, OPT_BATCH },
    { "microbatches", required_argument, NULL, OPT_MICROBATCHES },
    { "global-batch", required_argument, NULL, OPT_GLOBAL_BATCH },
    { "seq", required_argument, NULL, OPT_SEQ },
    { "dtype", required_argument, NULL, OPT_DTYPE },
    { "recompute", required_argument, NULL, OPT_RECOMPUTE },
    { "flash", no_argument, NULL, OPT_FLASH },
    { "input", required_argument, NULL, OPT_INPUT },
    { "nodes", required_argument, NULL, OPT_NODES },
    { "gpu", required_argument, NULL, OPT_GPU },
    { "peak", required_argument, NULL, OPT_PEAK },
    { "efficiency", required_argument, NULL, OPT_EFFICIENCY },
    { "memory", required_argument, NULL, OPT_MEMORY },
    { "constants", required_argument, NULL, OPT_CONSTANTS },
    { "search", no_argument, NULL, OPT_SEARCH },
    { "world", required_argument, NULL, OPT_WORLD },
    { "top", required_argument, NULL, OPT_TOP },
    { "format", required_argument, NULL, OPT_FORMAT },
    { "help", no_argument, NULL, OPT_HELP },
    { NULL, 0, NULL, 0 },
};

/* ---- values of options; each false after it has said what is wrong ---- */

static const char *option_name(int option)
{
    for (const struct option *o = plan_options; o->name != NULL; o++)
        if (o->val == option)
            return o->name;
    return "?";
}

static bool read_long(int option, long low, long high, long *value)
{
    if (ki_parse_long(optarg, low, high, value))
        return true;
    ki_usage_error(&ki_command_plan, "--%s %s: it must be a whole number from %ld to %ld", option_name(option), optarg,
                   low, high);
    return false;
}

static bool read_int(int option, int low, int high, int *value)
{
    long read;
    if (!read_long(option, low, high, &read))
        return false;
    *value = (int)read;
    return true;
}

static bool read_count(int option, int64_t *value)
{
    long read;
    if (!read_long(option, 1, LONG_MAX, &read))
        return false;
    *value = read;
    return true;
}

static bool read_double(int option, double most, double *value)
{
    if (ki_parse_number(optarg, DBL_TRUE_MIN, most, value))
        return true;
    ki_usage_error(&ki_command_plan, "--%s %s: it must be a number above 0, at most %g", option_name(option), optarg,
                   most);
    return false;
}

/* Position of the word in names[count], or -1. */
static int read_word(int option, const char *const *names, int count)
{
    char valid[128] = "";
    for (int i = 0; i < count; i++)
        if (strcmp(names[i], optarg) == 0)
            return i;
    for (int i = 0; i < count; i++) {
        size_t used = strlen(valid);
        snprintf(valid + used, sizeof(valid) - used, "%s%s", i > 0 ? ", " : "", names[i]);
    }
    ki_usage_error(&ki_command_plan, "--%s %s is not one of %s", option_name(option), optarg, valid);
    return -1;
}

static bool read_dtype(kith_plan_options *o)
{
    static const char *const names[] = { "bf16", "f16", "f32", "fp8" };
    static const int nbytes[] = { 2, 2, 4, 1 };
    int word = read_word(OPT_DTYPE, names, 4);
    o->parameter_nbytes = word >= 0 ? nbytes[word] : 0;
    return word >= 0;
}

static bool read_schedule(kith_plan_options *o)
{
    const char *names[KITH_SCHEDULE_CUSTOM]; /* all that can be made */
    for (int i = 0; i < KITH_SCHEDULE_CUSTOM; i++)
        names[i] = kith_schedule_kind_name((kith_schedule_kind)i);
    int word = read_word(OPT_SCHEDULE, names, KITH_SCHEDULE_CUSTOM);
    o->schedule = word >= 0 ? (kith_schedule_kind)word : KITH_SCHEDULE_1F1B;
    return word >= 0;
}

static bool read_recompute(kith_plan_options *o)
{
    const char *names[KITH_RECOMPUTE_FULL + 1];
    for (int i = 0; i <= KITH_RECOMPUTE_FULL; i++)
        names[i] = kith_recompute_name((kith_recompute)i);
    int word = read_word(OPT_RECOMPUTE, names, KITH_RECOMPUTE_FULL + 1);
    o->recompute = word >= 0 ? (kith_recompute)word : KITH_RECOMPUTE_NONE;
    return word >= 0;
}

static bool read_format(ki_plan_request *request)
{
    static const char *const names[] = { "text", "json" };
    int word = read_word(OPT_FORMAT, names, 2);
    request->is_json = word == 1;
    return word >= 0;
}

static bool add_input(ki_plan_request *request)
{
    if (request->input_count < KI_PLAN_INPUTS_MAX) {
        request->inputs[request->input_count++] = optarg;
        return true;
    }
    ki_usage_error(&ki_command_plan, "more than %d files with --input", KI_PLAN_INPUTS_MAX);
    return false;
}

static bool read_memory(kith_plan_options *o)
{
    double gigabytes;
    if (!read_double(OPT_MEMORY, 1e6, &gigabytes))
        return false;
    o->gpu_memory_nbytes = gigabytes * 1e9;
    return true;
}

/* The layout and what is done with it. */
static bool read_layout(int option, kith_plan_options *o)
{
    switch (option) {
    case OPT_TP:
        return read_int(option, 1, INT_MAX, &o->tp);
    case OPT_PP:
        return read_int(option, 1, INT_MAX, &o->pp);
    case OPT_DP:
        return read_int(option, 1, INT_MAX, &o->dp);
    case OPT_CP:
        return read_int(option, 1, INT_MAX, &o->cp);
    case OPT_EP:
        return read_int(option, 1, INT_MAX, &o->ep);
    case OPT_ZERO:
        return read_int(option, 0, 3, &o->zero);
    case OPT_CHUNKS:
        return read_int(option, 1, INT_MAX, &o->chunks);
    case OPT_BATCH:
        return read_count(option, &o->micro_batch);
    case OPT_MICROBATCHES:
        return read_count(option, &o->microbatches);
    case OPT_GLOBAL_BATCH:
        return read_count(option, &o->global_batch);
    case OPT_SEQ:
        return read_count(option, &o->sequence);
    case OPT_SCHEDULE:
        return read_schedule(o);
    case OPT_DTYPE:
        return read_dtype(o);
    case OPT_RECOMPUTE:
        return read_recompute(o);
    case OPT_PEAK:
        return read_double(option, 1e6, &o->peak_tflops);
    case OPT_EFFICIENCY:
        return read_double(option, 1, &o->efficiency);
    case OPT_MEMORY:
        return read_memory(o);
    case OPT_ORDER:
        o->order = optarg;
        return true;
    case OPT_GPU:
        o->gpu = optarg;
        return true;
    case OPT_SP:
        o->sequence_parallel = true;
        return true;
    case OPT_FLASH:
        o->flash_attention = true;
        return true;
    default:
        return false;
    }
}

static bool read_option(int option, ki_plan_request *request)
{
    switch (option) {
    case OPT_MODEL:
        request->model = optarg;
        return true;
    case OPT_CONFIG:
        request->config = optarg;
        return true;
    case OPT_LIST:
        request->is_list = true;
        return true;
    case OPT_INPUT:
        return add_input(request);
    case OPT_NODES:
        return read_long(option, 1, 1 << 20, &request->nodes);
    case OPT_CONSTANTS:
        request->constants = optarg;
        return true;
    case OPT_SEARCH:
        request->is_search = true;
        return true;
    case OPT_WORLD:
        return read_long(option, 1, 1 << 24, &request->world);
    case OPT_TOP:
        return read_long(option, 1, TOP_MAX, &request->top);
    case OPT_FORMAT:
        return read_format(request);
    default:
        return read_layout(option, &request->options);
    }
}

/* ---- all of them ---- */

/* What belongs together. */
static int check(const ki_plan_request *request)
{
    const ki_command *command = &ki_command_plan;
    if ((request->model == NULL) == (request->config == NULL))
        return ki_usage_error(command, "give either --model NAME or --config FILE; --list names the models");
    if (request->nodes > 0 && request->input_count == 0)
        return ki_usage_error(command, "--nodes goes with --input");
    if (request->constants != NULL && request->input_count == 0)
        return ki_usage_error(command, "--constants goes with --input");
    if (request->is_search && request->input_count == 0 && request->world == 0)
        return ki_usage_error(command, "--search needs --world N or --input FILE");
    if (!request->is_search && request->world > 0)
        return ki_usage_error(command, "--world goes with --search");
    return KI_EXIT_OK;
}

int ki_plan_read_options(int argc, char **argv, ki_plan_request *request)
{
    optind = 1;
    opterr = 0;
    for (int option; (option = getopt_long(argc, argv, ":h", plan_options, NULL)) != -1;) {
        request->is_help = option == OPT_HELP || option == 'h';
        if (request->is_help)
            return KI_EXIT_OK;
        if (option == ':' || option == '?')
            return ki_option_error(&ki_command_plan, option, argv, plan_options);
        if (!read_option(option, request))
            return KI_EXIT_USAGE;
    }
    if (optind < argc)
        return ki_usage_error(&ki_command_plan, "there is nothing to do with '%s'", argv[optind]);
    return request->is_list ? KI_EXIT_OK : check(request);
}
