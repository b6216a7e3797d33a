/* tools/command.h - one subcommand of `kith`.
 *
 * Each subcommand is one row: a name, one line for the overview, a help text and a function. The rows are listed in
 * main.c; a new subcommand is a new file that defines its row, plus one line there.
 *
 * Exit statuses that all share: 0 fine, 2 wrong usage or output that cannot be written; what else a subcommand returns
 * stands in its help text.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_TOOLS_COMMAND_H
#define KI_TOOLS_COMMAND_H

#include <getopt.h>
#include <stdbool.h>
#include <stddef.h>

#define KI_EXIT_OK 0
#define KI_EXIT_USAGE 2

typedef struct ki_command {
    const char *name;
    const char *summary;               /* one line, without a full stop */
    const char *help;                  /* what `kith help NAME` prints; ends with a newline */
    int (*run)(int argc, char **argv); /* argv[0] is the subcommand's name; returns the exit status */
} ki_command;

extern const ki_command ki_command_run;
extern const ki_command ki_command_info;
extern const ki_command ki_command_topo;
extern const ki_command ki_command_flight;
extern const ki_command ki_command_bench;
extern const ki_command ki_command_compare;
extern const ki_command ki_command_plan;
extern const ki_command ki_command_schedule;
extern const ki_command ki_command_train;
extern const ki_command ki_command_generate;
extern const ki_command ki_command_tune;

/* Prints "kith NAME: sentence" and where help is to stderr. Returns KI_EXIT_USAGE. */
int ki_usage_error(const ki_command *command, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Explains why getopt_long() returned ':' or '?' (with opterr 0 and an option string that starts with "+:"): names the
 * word and the nearest option. Returns KI_EXIT_USAGE. */
int ki_option_error(const ki_command *command, int result, char **argv, const struct option *options);

/* The word of names[count] nearest to word, or NULL when none is near enough to be meant. */
const char *ki_nearest(const char *word, const char *const *names, size_t count);

/* Reads a whole decimal number; false for anything else or a number outside [low, high]. */
bool ki_parse_long(const char *text, long low, long high, long *value);

/* Reads a finite decimal number: digits, a point, an exponent (1e-3); false for anything else, such as "nan" or 0x1p3,
 * which strtod() would take, or a number outside [low, high]. */
bool ki_parse_number(const char *text, double low, double high, double *value);

/* Reads seconds ("2", "0.5") into ns; false for anything else, negative numbers, or more than a year. */
bool ki_parse_seconds(const char *text, long long *ns);

#endif
