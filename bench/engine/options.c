/* bench/engine/options.c
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "options.h"

#include <stdlib.h>
#include <string.h>

enum {
    KEY_OP = 256,
    KEY_MODE,
    KEY_MIN,
    KEY_MAX,
    KEY_FACTOR,
    KEY_DTYPE,
    KEY_BUDGET,
    KEY_MIN_ITERATIONS,
    KEY_MAX_ITERATIONS,
    KEY_ROUNDS,
    KEY_LABEL,
    KEY_JSON,
    KEY_CSV,
    KEY_SERVE,
    KEY_VARIANTS,
    KEY_NO_PIN
};

static const struct argp_option option_rows[] = {
    { "op", KEY_OP, "LIST", 0,
      "operations, comma-separated (all_reduce, reduce_scatter, all_gather, all_to_all, broadcast, reduce, "
      "barrier, ping_pong, sendrecv); default: all",
      0 },
    { "mode", KEY_MODE, "LIST", 0, "cold, back_to_back or both; default: cold", 0 },
    { "min", KEY_MIN, "BYTES", 0, "smallest size (suffixes k, M, G); default: 4", 0 },
    { "max", KEY_MAX, "BYTES", 0, "largest size; default: 64M", 0 },
    { "factor", KEY_FACTOR, "N", 0, "from one size to the next; default: 4", 0 },
    { "dtype", KEY_DTYPE, "TYPE", 0, "f32 (default), f64, bf16, int32", 0 },
    { "budget-ms", KEY_BUDGET, "MS", 0, "time for one point; default: 150", 0 },
    { "min-iterations", KEY_MIN_ITERATIONS, "N", 0, "of a cold point even when the time is used up; default: 11", 0 },
    { "max-iterations", KEY_MAX_ITERATIONS, "N", 0, "of a cold point; default: 1000", 0 },
    { "rounds", KEY_ROUNDS, "N", 0, "sweep this many times; default: 1", 0 },
    { "label", KEY_LABEL, "NAME", 0, "name of the driver in rows", 0 },
    { "variants", KEY_VARIANTS, "LIST", 0, "measure only these variants of the driver", 0 },
    { "json", KEY_JSON, "FILE", 0, "write all rows there", 0 },
    { "csv", KEY_CSV, "FILE", 0, "the same as comma-separated values", 0 },
    { "serve", KEY_SERVE, "SOCKET", 0, "measure what is asked for through this Unix socket", 0 },
    { "no-pin", KEY_NO_PIN, NULL, 0, "leave ranks where the launcher put them", 0 },
    { 0 },
};

bool bench_parse_nbytes(const char *text, size_t *nbytes)
{
    char *end;
    unsigned long long value = strtoull(text, &end, 10);
    unsigned int shift = 0;
    if (end == text || *text == '-') {
        return false;
    }
    if (*end != '\0') {
        const char *suffixes = "kKmMgG";
        const char *found = strchr(suffixes, *end);
        if (found == NULL || end[1] != '\0') {
            return false;
        }
        shift = 10 * (1 + (unsigned int)(found - suffixes) / 2);
    }
    if (value > SIZE_MAX >> shift) {
        return false;
    }
    *nbytes = (size_t)value << shift;
    return true;
}

bool bench_list_has(const char *list, const char *name)
{
    size_t length = strlen(name);
    while (list != NULL) {
        const char *comma = strchr(list, ',');
        size_t word = comma != NULL ? (size_t)(comma - list) : strlen(list);
        if (word == length && strncmp(list, name, length) == 0) {
            return true;
        }
        if (comma == NULL) {
            return false;
        }
        list = comma + 1;
    }
    return true;
}

void bench_options_init(bench_options *options)
{
    *options =
        (bench_options){ .min_nbytes = 4, .max_nbytes = (size_t)64 << 20, .factor = 4, .rounds = 1, .is_pinned = true };
    options->limits = (bench_limits){ .min_iterations = 11, .max_iterations = 1000, .budget_ms = 150 };
    memset(options->has_op, 1, sizeof(options->has_op));
    options->has_mode[BENCH_COLD] = true;
}

static int parse_number(struct argp_state *state, const char *name, const char *text, int low, int high)
{
    char *end;
    long value = strtol(text, &end, 10);
    if (end == text || *end != '\0' || value < low || value > high) {
        argp_error(state, "--%s is '%s'; it must be a number from %d to %d", name, text, low, high);
        return low;
    }
    return (int)value;
}

static size_t parse_size(struct argp_state *state, const char *name, const char *text)
{
    size_t nbytes = 0;
    if (!bench_parse_nbytes(text, &nbytes)) {
        argp_error(state, "--%s is '%s'; it must be a number of bytes such as 4, 64k or 16M", name, text);
    }
    return nbytes;
}

static void parse_ops(struct argp_state *state, bench_options *options, const char *text)
{
    char *copy = strdup(text);
    char *rest = copy;
    memset(options->has_op, 0, sizeof(options->has_op));
    for (char *word; copy != NULL && (word = strsep(&rest, ",")) != NULL;) {
        bench_op op;
        if (bench_op_parse(word, &op)) {
            options->has_op[op] = true;
        } else {
            argp_error(state, "there is no operation '%s'", word);
        }
    }
    free(copy);
}

static void parse_modes(struct argp_state *state, bench_options *options, const char *text)
{
    char *copy = strdup(text);
    char *rest = copy;
    memset(options->has_mode, 0, sizeof(options->has_mode));
    for (char *word; copy != NULL && (word = strsep(&rest, ",")) != NULL;) {
        bench_mode mode;
        if (strcmp(word, "both") == 0) {
            memset(options->has_mode, 1, sizeof(options->has_mode));
        } else if (bench_mode_parse(word, &mode)) {
            options->has_mode[mode] = true;
        } else {
            argp_error(state, "there is no mode '%s'; modes are cold, back_to_back, both", word);
        }
    }
    free(copy);
}

static error_t parse_point_option(int key, char *arg, struct argp_state *state, bench_options *options)
{
    switch (key) {
    case KEY_OP:
        parse_ops(state, options, arg);
        return 0;
    case KEY_MODE:
        parse_modes(state, options, arg);
        return 0;
    case KEY_MIN:
        options->min_nbytes = parse_size(state, "min", arg);
        return 0;
    case KEY_MAX:
        options->max_nbytes = parse_size(state, "max", arg);
        return 0;
    case KEY_FACTOR:
        options->factor = (size_t)parse_number(state, "factor", arg, 2, 1 << 20);
        return 0;
    case KEY_DTYPE:
        if (!bench_dtype_parse(arg, &options->dtype)) {
            argp_error(state, "there is no dtype '%s' here; f32, f64, bf16, int32 are", arg);
        }
        return 0;
    case KEY_BUDGET:
        options->limits.budget_ms = parse_number(state, "budget-ms", arg, 1, 3600000);
        return 0;
    case KEY_MIN_ITERATIONS:
        options->limits.min_iterations = parse_number(state, "min-iterations", arg, 3, BENCH_MAX_ITERATIONS);
        return 0;
    case KEY_MAX_ITERATIONS:
        options->limits.max_iterations = parse_number(state, "max-iterations", arg, 3, BENCH_MAX_ITERATIONS);
        return 0;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
    bench_options *options = state->input;
    switch (key) {
    case KEY_ROUNDS:
        options->rounds = parse_number(state, "rounds", arg, 1, 1000);
        return 0;
    case KEY_LABEL:
        options->label = arg;
        return 0;
    case KEY_VARIANTS:
        options->variants = arg;
        return 0;
    case KEY_JSON:
        options->json_path = arg;
        return 0;
    case KEY_CSV:
        options->csv_path = arg;
        return 0;
    case KEY_SERVE:
        options->serve_path = arg;
        return 0;
    case KEY_NO_PIN:
        options->is_pinned = false;
        return 0;
    case ARGP_KEY_END:
        if (options->min_nbytes > options->max_nbytes || options->max_nbytes == 0) {
            argp_error(state, "--min must not be larger than --max, which must not be 0");
        }
        return 0;
    default:
        return parse_point_option(key, arg, state, options);
    }
}

const struct argp bench_options_argp = { option_rows, parse_option, NULL, NULL, NULL, NULL, NULL };
