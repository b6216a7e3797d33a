/* topology/synthetic_words.h - the words of a description, one after the other.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_TOPOLOGY_SYNTHETIC_WORDS_H
#define KI_TOPOLOGY_SYNTHETIC_WORDS_H

#include "reader.h"

enum { KI_WORDS_TEXT = 512, KI_WORDS_MOST = 96 };

/* In lower case; commas are words; behind the last is "". */
typedef struct ki_words {
    const char *file;
    char chars[KI_WORDS_TEXT];
    const char *words[KI_WORDS_MOST + 1];
    int count, at;      /* at: the one that is next */
    kith_status status; /* the first refusal; later ones are not recorded */
} ki_words;

/* Cuts a text into words. False: it has other characters, or is too long. */
bool ki_words_cut(ki_words *p, const ki_source *source);
/* The next word, and whether the one `ahead` of it is that. */
static inline const char *ki_words_next(const ki_words *p)
{
    return p->words[p->at];
}
bool ki_words_is_next(const ki_words *p, int ahead, const char *word);
bool ki_words_is_count(const char *word);
/* Takes the words of a phrase ("in one nvlink domain") when all are next; a plural s may be there or not. */
bool ki_words_take(ki_words *p, const char *phrase);
/* Takes a whole number from least to most, or refuses what is next. */
bool ki_words_take_count(ki_words *p, int least, int most, const char *of, int *count);
/* Refuse the next word, or what was said; always false. */
bool ki_words_refuse(ki_words *p, const char *valid);
bool ki_words_refuse_value(ki_words *p, const char *what, const char *valid);

#endif
