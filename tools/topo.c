/* tools/topo.c - `kith topo`: what a machine is, where ranks go on it, and whether something looks wrong. Its parts:
 * topo.h.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "topo.h"
#include "progress.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define HELP_PRINTED (-1)
#define DEFAULT_MICROBATCHES 8  /* of a step with --model: gradients are summed once in several */
#define SIZE_MAX_LONG (1 << 24) /* ranks of one axis */

static const char topo_help[] =
    "Usage: kith topo [options] [MACHINE...]\n"
    "       kith topo lint [options] [MACHINE...]\n"
    "       kith topo diff [options] MACHINE MACHINE\n"
    "Shows GPUs, NICs, links and doubts of a machine, and the best place for each rank of a parallel job.\n\n"
    "  MACHINE   a file (nvidia-smi topo -m, hwloc XML, NCCL XML, topology.conf, topology.yaml, ibnetdiscover, JSON "
    "of\n"
    "            kith topo), words such as \"4 nodes of 8 H100 on NVSwitch, 8 NICs\", - for standard input, or live.\n"
    "            Several are joined: nodes and the switches between them. None: this machine\n\n"
    "What to read:\n"
    "  -i, --input MACHINE    the same as an operand; can be repeated\n"
    "      --machine WORDS    the same, for a machine in words\n"
    "      --nodes LIST       only these nodes (\"gpu[001-016]\"), or how many of the one that is described (16)\n"
    "      --gpu NAME         model of the GPUs where the source does not say it (\"H100\")\n"
    "      --constants FILE   JSON that replaces rows of the table of constants\n\n"
    "How ranks are laid out:\n"
    "      --tp N, --cp N, --ep N, --dp N, --pp N   sizes; default: tp as many as NVLink joins, dp what remains, 1\n"
    "      --order AXES       which varies fastest (tp-cp-ep-dp-pp)\n"
    "      --model NAME       weighs the axes by the traffic of this model, or of a config.json\n"
    "      --batch N, --microbatches N, --seq N, --dtype TYPE   a step of the model, as for kith plan; default: 8\n"
    "                         microbatches of one sequence of 2048 tokens, bf16. What compute hides costs nothing\n"
    "      --keep-order       prices the order of the numbers instead of looking for a better one\n\n"
    "What comes out:\n"
    "  -f, --format FORMAT    text, json, svg, png, pdf, html (text)\n"
    "  -o, --output FILE      writes there instead of to standard output\n"
    "      --export FORM      only the placement: rankfile, hostfile, slurm, env, megatron, kith\n"
    "      --require nvlink   exit status 3, with the group, when a tp group leaves NVLink\n"
    "      --list-constants   prints what links carry, and where the figures come from\n\n"
    "kith topo lint prints one doubt a line: code, file and line, what was seen and what was done about it.\n"
    "kith topo diff prints one line for each difference between two nodes that should be equal.\n\n"
    "Exit status: 0 done (lint: no doubt, diff: equal), 1 doubts or differences, 2 wrong usage, or something cannot "
    "be\n"
    "read or written, 3 --require is not met.\n\n"
    "Example: kith topo --tp 2 --format html --output topo.html gpu001-topo.txt\n";

static int topo_main(int argc, char **argv);
const ki_command ki_command_topo = { "topo", "Show a machine and the best places for ranks", topo_help, topo_main };

enum {
    OPTION_MACHINE = 256,
    OPTION_NODES,
    OPTION_GPU,
    OPTION_CONSTANTS,
    OPTION_TP,
    OPTION_CP,
    OPTION_EP,
    OPTION_DP,
    OPTION_PP,
    OPTION_ORDER,
    OPTION_MODEL,
    OPTION_BATCH,
    OPTION_MICROBATCHES,
    OPTION_SEQ,
    OPTION_DTYPE,
    OPTION_KEEP_ORDER,
    OPTION_EXPORT,
    OPTION_REQUIRE,
    OPTION_LIST_CONSTANTS
};

static const struct option long_options[] = {
    { "input", required_argument, NULL, 'i' },
    { "machine", required_argument, NULL, OPTION_MACHINE },
    { "nodes", required_argument, NULL, OPTION_NODES },
    { "gpu", required_argument, NULL, OPTION_GPU },
    { "constants", required_argument, NULL, OPTION_CONSTANTS },
    { "tp", required_argument, NULL, OPTION_TP },
    { "cp", required_argument, NULL, OPTION_CP },
    { "ep", required_argument, NULL, OPTION_EP },
    { "dp", required_argument, NULL, OPTION_DP },
    { "pp", required_argument, NULL, OPTION_PP },
    { "order", required_argument, NULL, OPTION_ORDER },
    { "model", required_argument, NULL, OPTION_MODEL },
    { "batch", required_argument, NULL, OPTION_BATCH },
    { "microbatches", required_argument, NULL, OPTION_MICROBATCHES },
    { "seq", required_argument, NULL, OPTION_SEQ },
    { "dtype", required_argument, NULL, OPTION_DTYPE },
    { "keep-order", no_argument, NULL, OPTION_KEEP_ORDER },
    { "format", required_argument, NULL, 'f' },
    { "output", required_argument, NULL, 'o' },
    { "export", required_argument, NULL, OPTION_EXPORT },
    { "require", required_argument, NULL, OPTION_REQUIRE },
    { "list-constants", no_argument, NULL, OPTION_LIST_CONSTANTS },
    { "help", no_argument, NULL, 'h' },
    { NULL, 0, NULL, 0 },
};

/* Position of a word in names[count], or the exit status of wrong usage as a negative number. */
static int choose(const char *option, const char *word, const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(names[i], word) == 0)
            return (int)i;
    char list[128] = "";
    size_t used = 0;
    for (size_t i = 0; i < count && used < sizeof(list); i++)
        used += (size_t)snprintf(list + used, sizeof(list) - used, "%s%s",
                                 i == 0           ? ""
                                 : i + 1 == count ? " or "
                                                  : ", ",
                                 names[i]);
    ki_usage_error(&ki_command_topo, "%s needs %s, not '%s'", option, list, word);
    return -KI_EXIT_USAGE;
}

static int set_format(ki_topo_options *options, const char *word)
{
    static const char *const names[] = { "text", "json", "svg", "png", "pdf", "html" };
    int choice = choose("--format", word, names, sizeof(names) / sizeof(names[0]));
    if (choice < 0)
        return -choice;
    options->form = (ki_topo_form)choice;
    options->has_form = true;
    return KI_EXIT_OK;
}

static int set_export(ki_topo_options *options, const char *word)
{
    static const char *const names[] = { "rankfile", "hostfile", "slurm", "env", "megatron", "kith" };
    int choice = choose("--export", word, names, sizeof(names) / sizeof(names[0]));
    if (choice < 0)
        return -choice;
    options->export_form = choice; /* in the order of kith_export */
    return KI_EXIT_OK;
}

static int set_require(ki_topo_options *options, const char *word)
{
    static const char *const names[] = { "nvlink" };
    int choice = choose("--require", word, names, 1);
    if (choice < 0)
        return -choice;
    options->needs_nvlink = true;
    return KI_EXIT_OK;
}

static int set_size(ki_topo_options *options, int option, const char *text)
{
    static const char *const names[] = { "--tp", "--cp", "--ep", "--dp", "--pp" };
    int *const sizes[] = { &options->placing.tp, &options->placing.cp, &options->placing.ep, &options->placing.dp,
                           &options->placing.pp };
    long value;
    if (!ki_parse_long(text, 1, SIZE_MAX_LONG, &value))
        return ki_usage_error(&ki_command_topo, "%s needs a number of ranks, 1 or more, not '%s'",
                              names[option - OPTION_TP], text);
    *sizes[option - OPTION_TP] = (int)value;
    options->has_layout = true;
    return KI_EXIT_OK;
}

static int set_count(ki_topo_options *options, int option, const char *text)
{
    static const char *const names[] = { "--batch", "--microbatches", "--seq" };
    int64_t *const counts[] = { &options->planning.micro_batch, &options->planning.microbatches,
                                &options->planning.sequence };
    long value;
    if (!ki_parse_long(text, 1, LONG_MAX, &value))
        return ki_usage_error(&ki_command_topo, "%s needs a number, 1 or more, not '%s'", names[option - OPTION_BATCH],
                              text);
    *counts[option - OPTION_BATCH] = value;
    options->has_work = true;
    return KI_EXIT_OK;
}

static int set_dtype(ki_topo_options *options, const char *word)
{
    static const char *const names[] = { "bf16", "f16", "f32", "fp8" };
    static const int nbytes[] = { 2, 2, 4, 1 };
    int choice = choose("--dtype", word, names, sizeof(names) / sizeof(names[0]));
    if (choice < 0)
        return -choice;
    options->planning.parameter_nbytes = nbytes[choice];
    options->has_work = true;
    return KI_EXIT_OK;
}

static int set_nodes(ki_topo_options *options, const char *text)
{
    long count;
    if (strspn(text, "+-0123456789") != strlen(text) || text[0] == '\0') {
        options->reading.nodes = text;
        return text[0] != '\0' ? KI_EXIT_OK : ki_usage_error(&ki_command_topo, "--nodes needs a list or a number");
    }
    if (!ki_parse_long(text, 1, 1 << 20, &count))
        return ki_usage_error(&ki_command_topo, "--nodes needs a number from 1 to %d, not '%s'", 1 << 20, text);
    options->reading.node_count = (int)count;
    return KI_EXIT_OK;
}

static int set_layout(const char **word, ki_topo_options *options, const char *text)
{
    *word = text;
    options->has_layout = true;
    return KI_EXIT_OK;
}

static int apply(ki_topo_options *options, int option, char **argv)
{
    switch (option) {
    case 'i':
    case OPTION_MACHINE:
        options->paths[options->path_count++] = optarg;
        return KI_EXIT_OK;
    case OPTION_NODES:
        return set_nodes(options, optarg);
    case OPTION_GPU:
        options->reading.gpu = options->planning.gpu = optarg;
        return KI_EXIT_OK;
    case OPTION_CONSTANTS:
        options->reading.constants_path = optarg;
        return KI_EXIT_OK;
    case OPTION_TP:
    case OPTION_CP:
    case OPTION_EP:
    case OPTION_DP:
    case OPTION_PP:
        return set_size(options, option, optarg);
    case OPTION_ORDER:
        return set_layout(&options->placing.order, options, optarg);
    case OPTION_MODEL:
        return set_layout(&options->model, options, optarg);
    case OPTION_BATCH:
    case OPTION_MICROBATCHES:
    case OPTION_SEQ:
        return set_count(options, option, optarg);
    case OPTION_DTYPE:
        return set_dtype(options, optarg);
    case OPTION_KEEP_ORDER:
        options->placing.keep_order = options->has_layout = true;
        return KI_EXIT_OK;
    case 'f':
        return set_format(options, optarg);
    case 'o':
        if (optarg[0] == '\0')
            return ki_usage_error(&ki_command_topo, "--output: the name of the file is empty");
        options->output = optarg;
        return KI_EXIT_OK;
    case OPTION_EXPORT:
        return set_export(options, optarg);
    case OPTION_REQUIRE:
        return set_require(options, optarg);
    case OPTION_LIST_CONSTANTS:
        options->lists_constants = true;
        return KI_EXIT_OK;
    case 'h':
        fputs(topo_help, stdout);
        return HELP_PRINTED;
    default:
        return ki_option_error(&ki_command_topo, option, argv, long_options);
    }
}

/* Options and operands, in any order. */
static int parse(int argc, char **argv, ki_topo_options *options)
{
    optind = 1;
    opterr = 0;
    for (int option; (option = getopt_long(argc, argv, "-:i:f:o:h", long_options, NULL)) != -1;) {
        int status = KI_EXIT_OK;
        if (option == 1)
            options->paths[options->path_count++] = optarg; /* an operand among options */
        else
            status = apply(options, option, argv);
        if (status != KI_EXIT_OK)
            return status;
    }
    while (optind < argc)
        options->paths[options->path_count++] = argv[optind++];
    for (size_t i = 0; i < options->path_count; i++)
        if (options->paths[i][0] == '\0')
            return ki_usage_error(&ki_command_topo, "the name of a machine is empty");
    return KI_EXIT_OK;
}

static int check_report(const ki_topo_options *options)
{
    if (options->export_form >= 0 && options->has_form)
        return ki_usage_error(&ki_command_topo, "--export and --format exclude each other");
    if (options->has_work && options->model == NULL)
        return ki_usage_error(&ki_command_topo, "--batch, --microbatches, --seq and --dtype need --model");
    if (options->lists_constants && (options->has_form || options->export_form >= 0 || options->path_count > 0))
        return ki_usage_error(&ki_command_topo, "--list-constants stands alone, or with --constants and --output");
    return KI_EXIT_OK;
}

static int check_checks(const ki_topo_options *options, const char *what, bool needs_two)
{
    if (options->has_form || options->export_form >= 0 || options->needs_nvlink || options->has_layout ||
        options->has_work || options->lists_constants)
        return ki_usage_error(&ki_command_topo,
                              "%s takes only --input, --machine, --nodes, --gpu, --constants and "
                              "--output",
                              what);
    if (needs_two && options->path_count != 2)
        return ki_usage_error(&ki_command_topo, "%s needs two machines, not %zu", what, options->path_count);
    return KI_EXIT_OK;
}

static int report(const ki_topo_options *options)
{
    ki_topo_machine machine;
    int status = check_report(options);
    if (status != KI_EXIT_OK)
        return status;
    if (options->lists_constants)
        return ki_topo_constants(options);
    status = ki_topo_machine_make(options, &machine);
    if (status == KI_EXIT_OK)
        status = ki_topo_report(options, &machine);
    if (status == KI_EXIT_OK && options->needs_nvlink)
        status = ki_topo_require_nvlink(&machine);
    ki_topo_machine_destroy(&machine);
    return status;
}

static int dispatch(int argc, char **argv, ki_topo_options *options)
{
    bool is_lint = argc > 1 && strcmp(argv[1], "lint") == 0, is_diff = argc > 1 && strcmp(argv[1], "diff") == 0;
    int skipped = is_lint || is_diff;
    int status = parse(argc - skipped, argv + skipped, options);
    if (status != KI_EXIT_OK)
        return status == HELP_PRINTED ? KI_EXIT_OK : status;
    if (skipped)
        status = check_checks(options, argv[1], is_diff);
    if (status != KI_EXIT_OK)
        return status;
    return is_lint ? ki_topo_lint(options) : is_diff ? ki_topo_diff(options) : report(options);
}

static void show_progress(void *arg, const char *what, double fraction)
{
    (void)arg;
    ki_progress_show("topo", what, fraction);
}

static int show_plan_progress(void *arg, const char *what, double fraction)
{
    show_progress(arg, what, fraction);
    return 0;
}

static int topo_main(int argc, char **argv)
{
    ki_topo_options options = { .reading = KITH_TOPOLOGY_OPTIONS_INIT,
                                .placing = KITH_PLACEMENT_OPTIONS_INIT,
                                .planning = KITH_PLAN_OPTIONS_INIT,
                                .export_form = -1 };
    options.placing.progress = show_progress;
    options.planning.progress = show_plan_progress;
    options.planning.microbatches = DEFAULT_MICROBATCHES;
    options.paths = calloc((size_t)argc + 1, sizeof(*options.paths));
    if (options.paths == NULL) {
        fputs("kith topo: memory is short\n", stderr);
        return KI_TOPO_REFUSED;
    }
    /* hwloc would tell about odd firmware on stderr; the doubts of the report do, where it matters. */
    setenv("HWLOC_HIDE_ERRORS", "2", 0);
    int status = dispatch(argc, argv, &options);
    free(options.paths);
    return status;
}
