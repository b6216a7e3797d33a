/* topology/synthetic_words.c - see synthetic_words.h.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "synthetic_words.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_COUNT = 999999999 };

static bool is_part(char c)
{
    return c != '\0' && (isalnum((unsigned char)c) || strchr("./:+-", c) != NULL);
}

static size_t word_length(const char *text, size_t nbytes)
{
    size_t length = 0;
    while (length < nbytes && is_part(text[length]))
        length++;
    return length == 0 && *text == ',' ? 1 : length;
}

/* Words go into chars one behind the other, each with its NUL. */
bool ki_words_cut(ki_words *p, const ki_source *source)
{
    size_t used = 0;
    for (size_t i = 0; i < source->nbytes;) {
        if (isspace((unsigned char)source->text[i])) {
            i++;
            continue;
        }
        size_t length = word_length(source->text + i, source->nbytes - i);
        if (length == 0 || p->count == KI_WORDS_MOST || used + length + 1 > sizeof p->chars)
            return false;
        p->words[p->count++] = p->chars + used;
        for (size_t k = 0; k < length; k++)
            p->chars[used++] = (char)tolower((unsigned char)source->text[i++]);
        p->chars[used++] = '\0';
    }
    p->words[p->count] = "";
    return true;
}

bool ki_words_is_next(const ki_words *p, int ahead, const char *word)
{
    return p->at + ahead < p->count && strcmp(p->words[p->at + ahead], word) == 0;
}

/* Is this that word of a phrase, or its plural? Words like "in" have none. */
static bool is_word(const char *word, const char *wanted, size_t length)
{
    return strncmp(word, wanted, length) == 0 &&
           (word[length] == '\0' || (length > 2 && strcmp(word + length, "s") == 0));
}

bool ki_words_take(ki_words *p, const char *phrase)
{
    int taken = 0;
    for (const char *c = phrase; *c != '\0'; taken++) {
        size_t length = strcspn(c, " ");
        if (p->at + taken >= p->count || !is_word(p->words[p->at + taken], c, length))
            return false;
        c += length + (c[length] == ' ');
    }
    p->at += taken;
    return true;
}

bool ki_words_refuse(ki_words *p, const char *valid)
{
    if (p->status == KITH_OK) {
        bool is_end = p->at >= p->count;
        p->status =
            ki_fail_quiet(KITH_ERR_INVALID_ARG, "%s: %s%s%s (word %d) does not fit; valid there: %s", p->file,
                          is_end ? "" : "'", is_end ? "the end" : p->words[p->at], is_end ? "" : "'", p->at + 1, valid);
    }
    return false;
}

bool ki_words_refuse_value(ki_words *p, const char *what, const char *valid)
{
    if (p->status == KITH_OK)
        p->status = ki_fail_quiet(KITH_ERR_INVALID_ARG, "%s: %s; valid: %s", p->file, what, valid);
    return false;
}

bool ki_words_is_count(const char *word)
{
    return *word != '\0' && strspn(word, "0123456789") == strlen(word);
}

bool ki_words_take_count(ki_words *p, int least, int most, const char *of, int *count)
{
    const char *word = p->words[p->at];
    if (!ki_words_is_count(word))
        return ki_words_refuse(p, "a whole number");
    long value = strlen(word) <= 9 ? strtol(word, NULL, 10) : MOST_COUNT;
    if (value < least || value > most) {
        char what[128], valid[64];
        snprintf(what, sizeof what, "%.40s %s are too %s", word, of, value < least ? "few" : "many");
        snprintf(valid, sizeof valid, "%d to %d", least, most);
        return ki_words_refuse_value(p, what, valid);
    }
    *count = (int)value;
    p->at++;
    return true;
}
