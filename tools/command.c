/* tools/command.c - what all subcommands share: messages about wrong usage and parsing of numbers.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "command.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NEAREST_WORD_MAX 63
#define OPTIONS_MAX 96
#define SECONDS_MAX (366.0 * 24 * 3600)

int ki_usage_error(const ki_command *command, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "kith %s: ", command->name);
    vfprintf(stderr, format, arguments);
    fprintf(stderr, "\nTry 'kith help %s'.\n", command->name);
    va_end(arguments);
    return KI_EXIT_USAGE;
}

/* Edits (insert, remove, replace) between two short words; one row of the usual table at a time. */
static size_t edit_distance(const char *a, const char *b)
{
    size_t row[NEAREST_WORD_MAX + 2];
    size_t b_nbytes = strlen(b);
    for (size_t j = 0; j <= b_nbytes; j++)
        row[j] = j;
    for (size_t i = 1; a[i - 1] != '\0'; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= b_nbytes; j++) {
            size_t replaced = diagonal + (a[i - 1] != b[j - 1]);
            size_t inserted = (row[j] < row[j - 1] ? row[j] : row[j - 1]) + 1;
            diagonal = row[j];
            row[j] = replaced < inserted ? replaced : inserted;
        }
    }
    return row[b_nbytes];
}

const char *ki_nearest(const char *word, const char *const *names, size_t count)
{
    const char *best = NULL;
    size_t best_distance = 3; /* further than two edits is another word */
    if (strlen(word) > NEAREST_WORD_MAX) return NULL;
    for (size_t i = 0; i < count; i++) {
        if (strlen(names[i]) > NEAREST_WORD_MAX) continue;
        size_t distance = edit_distance(word, names[i]);
        if (distance < best_distance && distance < strlen(names[i])) {
            best = names[i];
            best_distance = distance;
        }
    }
    return best;
}

static int unknown_long_option(const ki_command *command, const char *word, const struct option *options)
{
    const char *names[OPTIONS_MAX];
    size_t count = 0;
    char name[NEAREST_WORD_MAX + 1];
    snprintf(name, sizeof(name), "%.*s", (int)strcspn(word + 2, "="), word + 2);
    for (; count < OPTIONS_MAX && options[count].name != NULL; count++)
        names[count] = options[count].name;
    for (size_t i = 0; i < count; i++)
        if (strcmp(names[i], name) == 0) return ki_usage_error(command, "option --%s takes no value", name);
    const char *nearest = ki_nearest(name, names, count);
    if (nearest != NULL) return ki_usage_error(command, "unknown option %s; did you mean --%s?", word, nearest);
    return ki_usage_error(command, "unknown option %s", word);
}

int ki_option_error(const ki_command *command, int result, char **argv, const struct option *options)
{
    const char *word = argv[optind - 1];
    if (result == ':' && strncmp(word, "--", 2) == 0 && word[2] != '\0')
        return ki_usage_error(command, "option %s needs a value", word);
    if (result == ':') return ki_usage_error(command, "option -%c needs a value", optopt);
    if (strncmp(word, "--", 2) == 0) return unknown_long_option(command, word, options);
    return ki_usage_error(command, "unknown option -%c", optopt);
}

bool ki_parse_long(const char *text, long low, long high, long *value)
{
    char *end;
    if (text[0] == '\0' || strspn(text, "+-0123456789") != strlen(text)) return false;
    errno = 0;
    long parsed = strtol(text, &end, 10);
    if (errno != 0 || *end != '\0' || parsed < low || parsed > high) return false;
    *value = parsed;
    return true;
}

bool ki_parse_number(const char *text, double low, double high, double *value)
{
    char *end;
    if (text[0] == '\0' || strspn(text, "+-.0123456789eE") != strlen(text)) return false;
    double parsed = strtod(text, &end); /* the command stays in the "C" locale */
    if (*end != '\0' || !(parsed >= low && parsed <= high) || isinf(parsed)) return false;
    *value = parsed;
    return true;
}

bool ki_parse_seconds(const char *text, long long *ns)
{
    double seconds;
    if (strspn(text, "0123456789.") != strlen(text) || !ki_parse_number(text, 0, SECONDS_MAX, &seconds)) return false;
    *ns = llround(seconds * 1e9);
    return true;
}
