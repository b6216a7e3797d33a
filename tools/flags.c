/* tools/flags.c - reads a command line by a table of flags.
 *
 * getopt_long() finds the words; a flag's row says what its value must be. Words are taken in their order ("-"), so
 * that optind tells which belong to which flag: that is how "-n 4", "-n4" and "--ranks=4" are all found and left out of
 * what the ranks are started with.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "flags.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_VALUE 256 /* what getopt_long() returns for flags[0]; above all letters */
#define PLAIN_WORD 1    /* what it returns for a word that is no flag */

static int read_whole(const ki_command *command, const ki_flag *flag, const char *value, void *into)
{
    long number;
    if (!ki_parse_long(value, (long)flag->low, (long)flag->high, &number))
        return ki_usage_error(command, "--%s %s: it must be a whole number from %.0f to %.0f", flag->name, value,
                              flag->low, flag->high);
    int narrow = (int)number;
    int64_t wide = number;
    if (flag->kind == FLAG_INT)
        memcpy(into, &narrow, sizeof narrow);
    else
        memcpy(into, &wide, sizeof wide);
    return KI_EXIT_OK;
}

static int read_bits(const ki_command *command, const ki_flag *flag, const char *value, void *into)
{
    errno = 0;
    uint64_t bits = strspn(value, "0123456789") == strlen(value) ? strtoull(value, NULL, 10) : 0;
    if (value[0] == '\0' || strspn(value, "0123456789") != strlen(value) || errno != 0)
        return ki_usage_error(command, "--%s %s: it must be a whole number from 0 to %llu", flag->name, value,
                              (unsigned long long)UINT64_MAX);
    memcpy(into, &bits, sizeof bits);
    return KI_EXIT_OK;
}

static int read_real(const ki_command *command, const ki_flag *flag, const char *value, void *into)
{
    double number;
    bool is_read = ki_parse_number(value, flag->low, flag->high, &number);
    if (is_read && !(flag->kind == FLAG_ABOVE && number == flag->low) &&
        !(flag->kind == FLAG_BELOW && number == flag->high)) {
        memcpy(into, &number, sizeof number);
        return KI_EXIT_OK;
    }
    const char *from = flag->kind == FLAG_ABOVE ? "above" : "from";
    const char *to = flag->kind == FLAG_ABOVE ? ", at most" : flag->kind == FLAG_BELOW ? " to below" : " to";
    return ki_usage_error(command, "--%s %s: it must be a number %s %.12g%s %.12g", flag->name, value, from, flag->low,
                          to, flag->high);
}

static int read_text(const ki_command *command, const ki_flag *flag, const char *value, void *into)
{
    if (value[0] == '\0')
        return ki_usage_error(command, "--%s needs a value that is not empty", flag->name);
    memcpy(into, &value, sizeof value);
    return KI_EXIT_OK;
}

static int read_word(const ki_command *command, const ki_flag *flag, const char *value, void *into)
{
    char valid[256] = "";
    for (int i = 0; flag->words[i] != NULL; i++) {
        size_t used = strlen(valid);
        if (strcmp(flag->words[i], value) == 0) {
            memcpy(into, &i, sizeof i);
            return KI_EXIT_OK;
        }
        snprintf(valid + used, sizeof valid - used, "%s%s", i > 0 ? ", " : "", flag->words[i]);
    }
    return ki_usage_error(command, "--%s %s is not one of %s", flag->name, value, valid);
}

static int read_value(const ki_command *command, const ki_flag *flag, const char *value, void *into)
{
    void *place = (char *)into + flag->offset;
    switch (flag->kind) {
    case FLAG_SWITCH:
        memcpy(place, &(bool){ true }, sizeof(bool));
        return KI_EXIT_OK;
    case FLAG_INT:
    case FLAG_INT64:
        return read_whole(command, flag, value, place);
    case FLAG_BITS64:
        return read_bits(command, flag, value, place);
    case FLAG_REAL:
    case FLAG_ABOVE:
    case FLAG_BELOW:
        return read_real(command, flag, value, place);
    case FLAG_TEXT:
        return read_text(command, flag, value, place);
    case FLAG_FILE:
        if (value != NULL)
            return read_text(command, flag, value, place);
        memcpy(place, &(const char *){ "" }, sizeof(const char *));
        return KI_EXIT_OK;
    case FLAG_WORD:
        return read_word(command, flag, value, place);
    case FLAG_OWN:
        break;
    }
    return flag->read(command, flag, value, into);
}

/* Places of flags that are not found by their number. */
typedef struct special_flags {
    size_t ranks, plain; /* count: there is none */
} special_flags;

/* What getopt_long() wants; --help behind the last. */
static special_flags make_table(const ki_flag *flags, size_t count, struct option *table)
{
    special_flags special = { count, count };
    for (size_t i = 0; i < count; i++) {
        int argument = flags[i].kind == FLAG_SWITCH ? no_argument
                       : flags[i].kind == FLAG_FILE ? optional_argument
                                                    : required_argument;
        table[i] = (struct option){ flags[i].name, argument, NULL, FIRST_VALUE + (int)i };
        if (strcmp(flags[i].name, "ranks") == 0)
            special.ranks = i;
        if (flags[i].name[0] == '\0')
            special.plain = i;
    }
    if (special.plain < count) /* no word of the line may find it as a flag */
        table[special.plain] = (struct option){ "help", no_argument, NULL, 'h' };
    table[count] = (struct option){ "help", no_argument, NULL, 'h' };
    table[count + 1] = (struct option){ NULL, 0, NULL, 0 };
    return special;
}

int ki_flags_read(const ki_command *command, const ki_flag *flags, size_t count, int argc, char **argv, void *into,
                  bool *seen, char **rest)
{
    struct option table[KI_FLAGS_MAX + 2];
    special_flags special = make_table(flags, count, table);
    size_t kept = 0;
    if (rest != NULL)
        rest[kept++] = argv[0];
    optind = 1;
    opterr = 0;
    for (int first = 1, option; (option = getopt_long(argc, argv, "-:n:h", table, NULL)) != -1; first = optind) {
        if (option == 'h')
            return KI_FLAGS_HELP;
        if (option == ':' || option == '?')
            return ki_option_error(command, option, argv, table);
        size_t which = option == 'n'          ? special.ranks
                       : option == PLAIN_WORD ? special.plain
                                              : (size_t)(option - FIRST_VALUE);
        if (which == count) {
            optind = first;
            break;
        }
        int status = read_value(command, &flags[which], optarg, into);
        if (status != KI_EXIT_OK)
            return status;
        seen[which] = true;
        for (int word = first; rest != NULL && which != special.ranks && word < optind; word++)
            rest[kept++] = argv[word];
    }
    if (rest != NULL)
        rest[kept] = NULL;
    if (optind < argc)
        return ki_usage_error(command, "there is nothing to do with '%s'", argv[optind]);
    return KI_EXIT_OK;
}
