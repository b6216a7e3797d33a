/* tools/flags.h - flags as a table: name, kind of value, where it goes, its range.
 *
 * For subcommands with many flags, most of which are a number or a file. A row says all that is to be known of one;
 * what needs more than a row has a function of its own. What is wrong is one sentence on stderr, with the range.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_TOOLS_FLAGS_H
#define KI_TOOLS_FLAGS_H

#include "command.h"

#include <stddef.h>

typedef enum ki_flag_kind {
    FLAG_SWITCH, /* bool */
    FLAG_INT,    /* int, low to high */
    FLAG_INT64,  /* int64_t, low to high (at most 2^53) */
    FLAG_BITS64, /* uint64_t, all of them */
    FLAG_REAL,   /* double, low to high */
    FLAG_ABOVE,  /* double, above low, at most high */
    FLAG_BELOW,  /* double, from low, below high */
    FLAG_TEXT,   /* const char *, not empty; borrowed from argv */
    FLAG_FILE,   /* const char *: the file of --name=FILE, "" for --name alone */
    FLAG_WORD,   /* int or enum: which of words */
    FLAG_OWN     /* read() knows */
} ki_flag_kind;

typedef struct ki_flag {
    const char *name; /* without "--"; "": not a flag, but each word of the line that is none (FLAG_OWN) */
    ki_flag_kind kind;
    size_t offset; /* of the value in what is filled in */
    double low, high;
    const char *const *words; /* ends with NULL */
    /* FLAG_OWN: takes the value; returns the exit status, after a sentence. */
    int (*read)(const ki_command *command, const struct ki_flag *flag, const char *value, void *into);
} ki_flag;

/* Most flags that a table can have. */
#define KI_FLAGS_MAX 96

#define KI_FLAGS_HELP (-1)

/* Reads all words of argv into `into`. -n is short for a flag "ranks", -h for --help. seen[i] becomes true for
 * flags[i]. rest ([argc + 1], NULL: not wanted): the words of argv but for those of "ranks", for the ranks that this
 * command starts; ends with NULL. Returns KI_EXIT_OK, KI_FLAGS_HELP when help is wanted, else what is to be returned
 * after a sentence. */
int ki_flags_read(const ki_command *command, const ki_flag *flags, size_t count, int argc, char **argv, void *into,
                  bool *seen, char **rest);

#endif
