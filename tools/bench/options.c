/* tools/bench/options.c - the flags of `kith bench`, and what belongs together.
 *
 * What a flag can say by itself is checked here, before any rank is started; what needs the other ranks (whether a mesh
 * fits, what a backend can do, how much memory there is) in run.c.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "../flags.h"
#include "../output.h"
#include "../run.h"
#include "bench.h"

#include <stdlib.h>
#include <string.h>

#define DEFAULT_MIN "8"
#define DEFAULT_MAX "64M"
#define DEFAULT_FACTOR 4
#define BUDGET_MAX 3600.0
#define TIMEOUT_MAX 1e6

static const char *const place_words[] = { "in", "out", "both", NULL };
static const char *const memory_words[] = { "host", "mapped", "device", NULL };
static const char *const mode_words[] = { "blocking", "non_blocking", "overlap" };

const char *bench_memory_name(bench_memory memory)
{
    return memory_words[memory];
}

const char *bench_mode_name(bench_mode mode)
{
    return mode_words[mode];
}

/* Whether a word of a list, whose commas have become ends, stands in front of itself too. */
static bool is_repeated(const char *text, const char *word)
{
    for (const char *before = text; before < word; before += strlen(before) + 1)
        if (strcmp(before, word) == 0)
            return true;
    return false;
}

/* Calls add() for each word of a list, once; the words live as long as the options. */
static int read_list(const ki_command *command, const ki_flag *flag, const char *value, bench_options *options,
                     int (*add)(const ki_command *command, const char *word, bench_options *options))
{
    if (value[0] == '\0')
        return ki_usage_error(command, "--%s needs a value that is not empty", flag->name);
    if (options->text_count == (int)(sizeof options->texts / sizeof options->texts[0]))
        return ki_usage_error(command, "there are too many lists");
    char *text = strdup(value);
    if (text == NULL)
        return ki_usage_error(command, "no memory for a list");
    options->texts[options->text_count++] = text;
    for (char *word = text, *next; word != NULL; word = next) {
        next = strchr(word, ',');
        if (next != NULL)
            *next++ = '\0';
        int status = is_repeated(text, word) ? KI_EXIT_OK : add(command, word, options);
        if (status != KI_EXIT_OK)
            return status;
    }
    return KI_EXIT_OK;
}

/* Room for one more entry of a list. */
static int check_room(const ki_command *command, int count, const char *what)
{
    return count < BENCH_LIST_MAX ? KI_EXIT_OK
                                  : ki_usage_error(command, "more than %d %s are given", BENCH_LIST_MAX, what);
}

static int add_op(const ki_command *command, const char *word, bench_options *options)
{
    const char *names[BENCH_OP_COUNT];
    bench_op op;
    if (check_room(command, options->op_count, "operations") != KI_EXIT_OK)
        return KI_EXIT_USAGE;
    if (bench_op_parse(word, &op)) {
        options->ops[options->op_count++] = op;
        return KI_EXIT_OK;
    }
    for (int i = 0; i < BENCH_OP_COUNT; i++)
        names[i] = bench_op_name((bench_op)i);
    const char *nearest = ki_nearest(word, names, BENCH_OP_COUNT);
    if (nearest != NULL)
        return ki_usage_error(command, "there is no operation '%s'; did you mean %s?", word, nearest);
    return ki_usage_error(command, "there is no operation '%s'; the help lists them%s", word,
                          strchr(word, '.') != NULL ? " (a file is given as --json=FILE, --csv=FILE)" : "");
}

static int read_op(const ki_command *command, const ki_flag *flag, const char *value, void *into)
{
    return read_list(command, flag, value, into, add_op);
}

static int add_size(const ki_command *command, const char *word, bench_options *options)
{
    if (check_room(command, options->size_count, "sizes") != KI_EXIT_OK)
        return KI_EXIT_USAGE;
    if (!bench_size_parse(word, &options->sizes[options->size_count]))
        return ki_usage_error(command,
                              "--sizes: '%s' is not a number of bytes from 1 on, with k, M or G behind it or not, "
                              "that fits an address",
                              word);
    options->size_count++;
    return KI_EXIT_OK;
}

static int read_sizes(const ki_command *command, const ki_flag *flag, const char *value, void *into)
{
    ((bench_options *)into)->size_count = 0;
    return read_list(command, flag, value, into, add_size);
}

static int add_dtype(const ki_command *command, const char *word, bench_options *options)
{
    if (check_room(command, options->dtype_count, "types") != KI_EXIT_OK)
        return KI_EXIT_USAGE;
    if (kith_dtype_parse(word, &options->dtypes[options->dtype_count]) != KITH_OK)
        return ki_usage_error(command, "--dtype: %s", kith_error_detail());
    options->dtype_count++;
    return KI_EXIT_OK;
}

static int read_dtypes(const ki_command *command, const ki_flag *flag, const char *value, void *into)
{
    ((bench_options *)into)->dtype_count = 0;
    return read_list(command, flag, value, into, add_dtype);
}

static int add_redop(const ki_command *command, const char *word, bench_options *options)
{
    if (check_room(command, options->redop_count, "operators") != KI_EXIT_OK)
        return KI_EXIT_USAGE;
    if (kith_op_parse(word, &options->redops[options->redop_count]) != KITH_OK)
        return ki_usage_error(command, "--redop: %s", kith_error_detail());
    options->redop_count++;
    return KI_EXIT_OK;
}

static int read_redops(const ki_command *command, const ki_flag *flag, const char *value, void *into)
{
    ((bench_options *)into)->redop_count = 0;
    return read_list(command, flag, value, into, add_redop);
}

static int add_axis(const ki_command *command, const char *word, bench_options *options)
{
    long size;
    int at = options->axis_count;
    const char *sign = strchr(word, '=');
    size_t length = sign != NULL ? (size_t)(sign - word) : 0;
    if (at == KITH_MESH_MAX_AXES)
        return ki_usage_error(command, "--mesh has more than %d axes", KITH_MESH_MAX_AXES);
    if (length == 0 || length >= sizeof options->axis_names[0] || !ki_parse_long(sign + 1, 1, KI_RUN_RANKS_MAX, &size))
        return ki_usage_error(command,
                              "--mesh: '%s' is not NAME=SIZE, a name of at most %zu letters and a size from 1 on", word,
                              sizeof options->axis_names[0] - 1);
    memcpy(options->axis_names[at], word, length);
    if (strcmp(options->axis_names[at], "world") == 0 || strcmp(options->axis_names[at], "each") == 0 ||
        strcmp(options->axis_names[at], "all") == 0)
        return ki_usage_error(command, "--mesh: an axis cannot be called %s", options->axis_names[at]);
    options->axes[at] = (kith_mesh_axis){ options->axis_names[at], (int)size };
    options->axis_count++;
    return KI_EXIT_OK;
}

static int read_mesh(const ki_command *command, const ki_flag *flag, const char *value, void *into)
{
    bench_options *options = into;
    options->axis_count = 0;
    memset(options->axis_names, 0, sizeof options->axis_names);
    return read_list(command, flag, value, into, add_axis);
}

static int add_group(const ki_command *command, const char *word, bench_options *options)
{
    if (check_room(command, options->group_count, "groups") != KI_EXIT_OK)
        return KI_EXIT_USAGE;
    options->groups[options->group_count++] = word;
    return KI_EXIT_OK;
}

static int read_groups(const ki_command *command, const ki_flag *flag, const char *value, void *into)
{
    ((bench_options *)into)->group_count = 0;
    return read_list(command, flag, value, into, add_group);
}

static int add_memory(const ki_command *command, const char *word, bench_options *options)
{
    if (check_room(command, options->memory_count, "kinds of memory") != KI_EXIT_OK)
        return KI_EXIT_USAGE;
    for (int i = 0; i < BENCH_MEMORY_COUNT; i++) {
        if (strcmp(word, memory_words[i]) == 0) {
            options->memories[options->memory_count++] = (bench_memory)i;
            return KI_EXIT_OK;
        }
    }
    return ki_usage_error(command, "--memory %s is not one of host, mapped, device", word);
}

static int read_memories(const ki_command *command, const ki_flag *flag, const char *value, void *into)
{
    ((bench_options *)into)->memory_count = 0;
    return read_list(command, flag, value, into, add_memory);
}

#define AT(field) offsetof(bench_options, field)
static const ki_flag flags[] = {
    { "", FLAG_OWN, 0, 0, 0, NULL, read_op },
    { "ranks", FLAG_INT, AT(rank_count), 1, KI_RUN_RANKS_MAX, NULL, NULL },
    { "backend", FLAG_TEXT, AT(backend), 0, 0, NULL, NULL },
    { "sizes", FLAG_OWN, 0, 0, 0, NULL, read_sizes },
    { "min", FLAG_TEXT, AT(min), 0, 0, NULL, NULL },
    { "max", FLAG_TEXT, AT(max), 0, 0, NULL, NULL },
    { "factor", FLAG_INT, AT(factor), 2, 1024, NULL, NULL },
    { "dtype", FLAG_OWN, 0, 0, 0, NULL, read_dtypes },
    { "redop", FLAG_OWN, 0, 0, 0, NULL, read_redops },
    { "place", FLAG_WORD, AT(place), 0, 0, place_words, NULL },
    { "root", FLAG_INT, AT(root), 0, KI_RUN_RANKS_MAX - 1, NULL, NULL },
    { "mesh", FLAG_OWN, 0, 0, 0, NULL, read_mesh },
    { "group", FLAG_OWN, 0, 0, 0, NULL, read_groups },
    { "memory", FLAG_OWN, 0, 0, 0, NULL, read_memories },
    { "non-blocking", FLAG_SWITCH, AT(is_non_blocking), 0, 0, NULL, NULL },
    { "overlap", FLAG_SWITCH, AT(is_overlapped), 0, 0, NULL, NULL },
    { "budget", FLAG_ABOVE, AT(budget_s), 0, BUDGET_MAX, NULL, NULL },
    { "no-check", FLAG_SWITCH, AT(is_unchecked), 0, 0, NULL, NULL },
    { "timeout", FLAG_ABOVE, AT(timeout_s), 0, TIMEOUT_MAX, NULL, NULL },
    { "json", FLAG_FILE, AT(json), 0, 0, NULL, NULL },
    { "csv", FLAG_FILE, AT(csv), 0, 0, NULL, NULL },
    { "save", FLAG_TEXT, AT(save), 0, 0, NULL, NULL },
    { "quiet", FLAG_SWITCH, AT(is_quiet), 0, 0, NULL, NULL },
};
#define FLAG_COUNT (sizeof flags / sizeof flags[0])
_Static_assert(FLAG_COUNT <= KI_FLAGS_MAX, "a longer table is needed");

/* Whether all operations are all_pairs, which has sizes of its own when none are said. */
static bool is_all_pairs(const bench_options *options)
{
    for (int i = 0; i < options->op_count; i++)
        if (options->ops[i] != BENCH_ALL_PAIRS)
            return false;
    return true;
}

/* --min, --max and --factor become a list. */
static int settle_sizes(const ki_command *command, bench_options *options)
{
    size_t least, most;
    bool has_range = options->min != NULL || options->max != NULL || options->factor > 0;
    if (options->size_count > 0)
        return has_range ? ki_usage_error(command, "--sizes and --min, --max, --factor exclude one another")
                         : KI_EXIT_OK;
    if (!has_range && is_all_pairs(options)) {
        options->sizes[options->size_count++] = 8;
        options->sizes[options->size_count++] = (size_t)1 << 20;
        return KI_EXIT_OK;
    }
    const char *min = options->min != NULL ? options->min : DEFAULT_MIN;
    const char *max = options->max != NULL ? options->max : DEFAULT_MAX;
    if (!bench_size_parse(min, &least))
        return ki_usage_error(command, "--min %s is not a number of bytes from 1 on that fits an address", min);
    if (!bench_size_parse(max, &most))
        return ki_usage_error(command, "--max %s is not a number of bytes from 1 on that fits an address", max);
    if (least > most)
        return ki_usage_error(command, "--min %s is more than --max %s", min, max);
    size_t factor = options->factor > 0 ? (size_t)options->factor : DEFAULT_FACTOR;
    for (size_t size = least;; size *= factor) {
        options->sizes[options->size_count++] = size; /* at most 64 of them, as each is at least twice the one before */
        if (size > most / factor)
            return KI_EXIT_OK;
    }
}

static int check_groups(const ki_command *command, const bench_options *options)
{
    for (int i = 0; i < options->group_count; i++) {
        const char *name = options->groups[i];
        bool is_known = strcmp(name, "world") == 0;
        bool needs_mesh = strcmp(name, "each") == 0 || strcmp(name, "all") == 0;
        for (int a = 0; a < options->axis_count; a++)
            is_known = is_known || strcmp(name, options->axis_names[a]) == 0;
        if (needs_mesh && options->axis_count == 0)
            return ki_usage_error(command, "--group %s needs --mesh", name);
        if (!is_known && !needs_mesh)
            return ki_usage_error(command, "--group %s is not one of world, each, all, or an axis of --mesh", name);
        for (int o = 0; o < options->op_count; o++) {
            if (options->ops[o] == BENCH_ALL_PAIRS && strcmp(name, "world") != 0)
                return ki_usage_error(command, "all_pairs is measured in the world alone, not in --group %s", name);
            if (strcmp(name, "all") == 0 && bench_op_takes_turns(options->ops[o]))
                return ki_usage_error(command, "%s has no form in which groups run at once (--group all)",
                                      bench_op_name(options->ops[o]));
        }
    }
    return KI_EXIT_OK;
}

static int check_modes(const ki_command *command, const bench_options *options)
{
    if (!options->is_non_blocking && !options->is_overlapped)
        return KI_EXIT_OK;
    if (options->is_non_blocking && options->is_overlapped)
        return ki_usage_error(command, "--overlap measures what is not blocking already: leave out --non-blocking");
    for (int i = 0; i < options->op_count; i++)
        if (bench_op_takes_turns(options->ops[i]))
            return ki_usage_error(command, "%s has a blocking form alone", bench_op_name(options->ops[i]));
    return KI_EXIT_OK;
}

static int check_operators(const ki_command *command, const bench_options *options)
{
    bool reduces = false;
    for (int i = 0; i < options->op_count; i++)
        reduces = reduces || bench_op_is_reduction(options->ops[i]);
    for (int r = 0; reduces && r < options->redop_count; r++)
        for (int d = 0; d < options->dtype_count; d++)
            if (!kith_op_is_defined(options->redops[r], options->dtypes[d]))
                return ki_usage_error(command, "--redop %s is not defined on %s",
                                      kith_op_name(NULL, options->redops[r]), kith_dtype_name(options->dtypes[d]));
    return KI_EXIT_OK;
}

static int check(const ki_command *command, bench_options *options)
{
    if (options->op_count == 0)
        return ki_usage_error(command, "no operation is given; kith bench all_reduce measures one, the help lists all");
    if (options->json != NULL && options->csv != NULL && options->json[0] == '\0' && options->csv[0] == '\0')
        return ki_usage_error(command,
                              "--json and --csv cannot both go to standard output: give one a file, --csv=FILE");
    const char *const files[] = { options->json, options->csv, options->save };
    const char *repeated = ki_output_repeated(files, sizeof files / sizeof files[0]);
    if (repeated != NULL)
        return ki_usage_error(command, "%s would be written twice: give --json, --csv and --save a file each",
                              repeated);
    int status = settle_sizes(command, options);
    if (status == KI_EXIT_OK)
        status = check_groups(command, options);
    if (status == KI_EXIT_OK)
        status = check_modes(command, options);
    return status == KI_EXIT_OK ? check_operators(command, options) : status;
}

extern const ki_command ki_command_bench;

int bench_options_read(int argc, char **argv, bench_options *options, char **rest)
{
    bool seen[FLAG_COUNT] = { false };
    *options = (bench_options){ .place = BENCH_PLACE_OUT, .budget_s = 0.5 };
    int status = ki_flags_read(&ki_command_bench, flags, FLAG_COUNT, argc, argv, options, seen, rest);
    if (status != KI_EXIT_OK)
        return status;
    if (options->dtype_count == 0)
        options->dtypes[options->dtype_count++] = KITH_F32;
    if (options->redop_count == 0)
        options->redops[options->redop_count++] = KITH_SUM;
    if (options->memory_count == 0)
        options->memories[options->memory_count++] = BENCH_HOST;
    if (options->group_count == 0)
        options->groups[options->group_count++] = "world";
    return check(&ki_command_bench, options);
}

void bench_options_free(bench_options *options)
{
    for (int i = 0; i < options->text_count; i++)
        free(options->texts[i]);
    options->text_count = 0;
}
