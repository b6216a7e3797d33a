/* layers/checkpoint/lex.h - reads the JSON of large files word by word, without a tree.
 *
 * Headers of safetensors and their indices have hundred thousands of entries of one form. So their readers say what
 * must come next; what they keep is all the memory that is used, whatever the text. The first failure stays, later
 * calls do nothing and return false.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_CHECKPOINT_LEX_H
#define KI_CHECKPOINT_LEX_H

#include <kith/status.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct ki_lex {
    const char *name; /* of the file, for texts */
    const char *text, *at, *end;
    kith_status status;
} ki_lex;

/* The next character, spaces left out; 0 at the end. */
char ki_lex_peek(ki_lex *lex);
/* True, and goes on, when it is this one. */
bool ki_lex_take(ki_lex *lex, char wanted);
bool ki_lex_need(ki_lex *lex, char wanted);
/* A string, into out (room for all that is left of the text); without zeros inside, and with one behind. */
bool ki_lex_string(ki_lex *lex, char *out, size_t *nbytes);
/* A string that stays: at *room, which moves on behind it. */
bool ki_lex_name(ki_lex *lex, char **room, const char **name);
/* A whole number that is not negative, below 2^63. */
bool ki_lex_whole(ki_lex *lex, int64_t *value);
/* Any value. */
bool ki_lex_skip(ki_lex *lex);
/* Nothing but spaces to the end. */
bool ki_lex_finish(ki_lex *lex);

/* Fails with "name: at byte n of the header: what". */
bool ki_lex_fail(ki_lex *lex, const char *what);

#endif
