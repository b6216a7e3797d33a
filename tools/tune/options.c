/* tools/tune/options.c - the flags of `kith tune`, and what belongs together.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "../bench/bench.h"
#include "../flags.h"
#include "../output.h"
#include "../run.h"
#include "tune.h"

#include <stdlib.h>
#include <string.h>

#define SIZE_LEAST 8
#define SIZE_MOST (16 << 20)
#define SIZE_FACTOR 4
#define BUDGET_DEFAULT 0.1
#define BUDGET_MOST 60.0

const char tune_help[] =
    "Usage: kith tune -n N --backend B --output FILE [options]\n"
    "       kith tune --fit RESULTS [--output FILE] [--svg FILE]\n"
    "       kith tune -n N --predict MACHINE [--calibration FILE] --output FILE\n"
    "Measures every algorithm of every collective at every size on N ranks, in turn, and writes a table that picks "
    "the\n"
    "best: set KITH_ALGO_TABLE=FILE to use it. The table is loaded again at the end, and what it picks is measured\n"
    "beside the best. Rules hold for N ranks; for other numbers the rules that hold now stand behind them.\n\n"
    "  -n, --ranks N       starts N ranks here; without it, this is a rank that a launcher started (mpirun, srun)\n"
    "  --backend B         ucx, mpi, or a plugin that carries messages; shm has collectives of its own\n"
    "  --ops A,B,...       collectives; default: all that sizes are known of\n"
    "  --sizes A,B,...     bytes, with k, M, G; default 8 to 16M by fours\n"
    "  --budget SECONDS    for each size of each algorithm; default 0.1\n"
    "  --output FILE       the table, or with --fit the calibration\n\n"
    "  --fit RESULTS       fits alpha, beta and knee to rows that kith bench saved, and prints them\n"
    "  --constants LIST    what constants of kith topo links stand for: shm=pcie4, nccl=nvlink4*18 (18 of them);\n"
    "                      the output then holds them for kith topo and kith plan\n"
    "  --svg FILE          the predicted curves over the measured ones, as a picture\n\n"
    "  --predict MACHINE   measures nothing: prices of the cost model make the table, for N GPUs of a description "
    "that\n"
    "                      kith topo reads, as \"2 nodes of 8 H100 on NVSwitch, 8 NICs\"\n"
    "  --calibration FILE  with constants for the prices\n\n"
    "Exit status: 0, 1 when something could not be measured or fitted, 2 wrong usage, or output that cannot be "
    "written.\n\n"
    "Example: kith tune -n 4 --backend ucx --output ucx4.json\n";

/* Calls add() for each part between commas. */
static int each_word(const ki_command *command, const char *value, tune_options *options,
                     int (*add)(const ki_command *command, const char *word, tune_options *options))
{
    char word[64];
    for (size_t length; *value != 0; value += length + (value[length] == ',')) {
        length = strcspn(value, ",");
        snprintf(word, sizeof word, "%.*s", (int)(length < sizeof word ? length : sizeof word - 1), value);
        int status = add(command, word, options);
        if (status != KI_EXIT_OK)
            return status;
    }
    return KI_EXIT_OK;
}

/* The table knows no sizes of these, so no rule could tell them apart. */
static bool is_tuned(int kind)
{
    return kind != KITH_GATHER_V && kind != KITH_SCATTER_V && kind != KITH_ALL_TO_ALL_V;
}

static int add_op(const ki_command *command, const char *word, tune_options *options)
{
    int kind = 0;
    while (kind < KITH_COLL_COUNT && strcmp(word, kith_coll_name((kith_coll_kind)kind)) != 0)
        kind++;
    if (kind == KITH_COLL_COUNT)
        return ki_usage_error(command, "--ops: there is no collective '%s'", word);
    if (!is_tuned(kind))
        return ki_usage_error(
            command, "--ops: rules cannot tell sizes of %s apart: its counts are not known on all ranks", word);
    if (options->op_count == TUNE_OPS_MAX)
        return ki_usage_error(command, "--ops: more than %d collectives", TUNE_OPS_MAX);
    options->ops[options->op_count++] = kind;
    return KI_EXIT_OK;
}

static int read_ops(const ki_command *command, const ki_flag *flag, const char *value, void *into)
{
    (void)flag;
    ((tune_options *)into)->op_count = 0;
    return each_word(command, value, into, add_op);
}

static int add_size(const ki_command *command, const char *word, tune_options *options)
{
    size_t nbytes, least = options->size_count > 0 ? options->sizes[options->size_count - 1] : 0;
    if (!bench_size_parse(word, &nbytes) || nbytes <= least || options->size_count == TUNE_SIZES_MAX)
        return ki_usage_error(command, "--sizes: '%s' is not the next of at most %d rising numbers of bytes", word,
                              TUNE_SIZES_MAX);
    options->sizes[options->size_count++] = nbytes;
    return KI_EXIT_OK;
}

static int read_sizes(const ki_command *command, const ki_flag *flag, const char *value, void *into)
{
    (void)flag;
    ((tune_options *)into)->size_count = 0;
    return each_word(command, value, into, add_size);
}

static int read_constants(const ki_command *command, const ki_flag *flag, const char *value, void *into)
{
    tune_options *options = into;
    char sentence[256];
    options->constants = value;
    if (tune_maps_parse(value, options->maps, &options->map_count, sentence, sizeof sentence))
        return KI_EXIT_OK;
    return ki_usage_error(command, "--%s: %s", flag->name, sentence);
}

#define AT(field) offsetof(tune_options, field)
static const ki_flag flags[] = {
    { "ranks", FLAG_INT, AT(rank_count), 2, KI_RUN_RANKS_MAX, NULL, NULL },
    { "backend", FLAG_TEXT, AT(backend), 0, 0, NULL, NULL },
    { "ops", FLAG_OWN, 0, 0, 0, NULL, read_ops },
    { "sizes", FLAG_OWN, 0, 0, 0, NULL, read_sizes },
    { "budget", FLAG_ABOVE, AT(budget_s), 0, BUDGET_MOST, NULL, NULL },
    { "output", FLAG_TEXT, AT(output), 0, 0, NULL, NULL },
    { "fit", FLAG_TEXT, AT(fit), 0, 0, NULL, NULL },
    { "constants", FLAG_OWN, 0, 0, 0, NULL, read_constants },
    { "svg", FLAG_TEXT, AT(svg), 0, 0, NULL, NULL },
    { "predict", FLAG_TEXT, AT(predict), 0, 0, NULL, NULL },
    { "calibration", FLAG_TEXT, AT(calibration), 0, 0, NULL, NULL },
};
enum { RANKS, BACKEND, OPS, SIZES, BUDGET, OUTPUT, FIT, CONSTANTS, SVG, PREDICT, CALIBRATION, FLAG_COUNT };
_Static_assert(FLAG_COUNT == sizeof flags / sizeof flags[0], "a name for each row");

static int check(const ki_command *command, const tune_options *options, const bool *seen)
{
    bool measures = seen[RANKS] || seen[BACKEND] || seen[OPS] || seen[SIZES] || seen[BUDGET];
    if (options->fit != NULL && measures)
        return ki_usage_error(command, "--fit measures nothing: leave out -n, --backend, --ops, --sizes and --budget");
    if (options->fit == NULL && (seen[CONSTANTS] || seen[SVG]))
        return ki_usage_error(command, "--constants and --svg go with --fit");
    const char *const files[] = { options->output, options->svg };
    if (ki_output_repeated(files, 2) != NULL)
        return ki_usage_error(command, "%s would be written twice: give --output and --svg a file each", options->svg);
    if (seen[CONSTANTS] && options->output == NULL)
        return ki_usage_error(command, "--constants needs --output FILE, where they are written");
    if (options->fit != NULL && options->predict != NULL)
        return ki_usage_error(command, "--fit and --predict are two different things");
    if (options->predict != NULL && (seen[BACKEND] || seen[BUDGET]))
        return ki_usage_error(command, "--predict measures nothing: leave out --backend and --budget");
    if (options->predict != NULL && options->rank_count == 0)
        return ki_usage_error(command, "--predict needs -n N, for how many ranks");
    if (options->calibration != NULL && options->predict == NULL)
        return ki_usage_error(command, "--calibration goes with --predict");
    for (int i = 0; options->predict != NULL && i < options->op_count; i++)
        if (!tune_is_predicted(options->ops[i]))
            return ki_usage_error(command, "--predict: there are no prices of %s",
                                  kith_coll_name((kith_coll_kind)options->ops[i]));
    if (options->fit == NULL && options->output == NULL)
        return ki_usage_error(command, "give --output FILE for the table, or --fit RESULTS");
    return KI_EXIT_OK;
}

static void settle(tune_options *options)
{
    bool has_ops = options->op_count > 0;
    for (int kind = 0; !has_ops && kind < KITH_COLL_COUNT; kind++)
        if (options->predict != NULL ? tune_is_predicted(kind) : is_tuned(kind) && !bench_op_is_uneven((bench_op)kind))
            options->ops[options->op_count++] = kind;
    if (options->size_count == 0)
        for (size_t nbytes = SIZE_LEAST; nbytes <= SIZE_MOST; nbytes *= SIZE_FACTOR)
            options->sizes[options->size_count++] = nbytes;
}

int tune_options_read(int argc, char **argv, tune_options *options, char **rest)
{
    bool seen[FLAG_COUNT] = { false };
    *options = (tune_options){ .budget_s = BUDGET_DEFAULT };
    int status = ki_flags_read(&ki_command_tune, flags, FLAG_COUNT, argc, argv, options, seen, rest);
    if (status == KI_EXIT_OK)
        status = check(&ki_command_tune, options, seen);
    if (status == KI_EXIT_OK && options->fit == NULL)
        settle(options);
    return status;
}
