/* topology/matrix_clean.c - bytes to lines.
 *
 * nvidia-smi underlines the header when it writes to a terminal, so "ESC [ 4 m" and "ESC [ 0 m" are in many copies,
 * and the escape byte gets lost on the way in every form a tool can think of: as U+FFFD, as "^[", as "\u001b", or it
 * is simply gone. Web pages bring no-break spaces, editors of other systems byte order marks and carriage returns.
 * Other control bytes have no meaning in a matrix; they become '?', which no later step takes for a value.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "matrix.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_PARAMETERS = 32, MOST_TITLE = 512 };

/* How the escape byte is written. The last one is none at all. */
static const struct {
    const char *text;
    bool is_broken;
} escapes[] = { { "\x1b", false }, { "\xc2\x9b", false }, { "\xef\xbf\xbd", true }, { "^[", true }, { "\\u001b", true },
                { "\\x1b", true }, { "\\033", true },     { "\\e", true },          { "", true } };

static bool begins_with(const char *at, const char *end, const char *word)
{
    size_t length = strlen(word);
    return (size_t)(end - at) >= length && memcmp(at, word, length) == 0;
}

/* Length of "[4m" and the like at `at`; any letter may end it when the escape byte is whole, else only m. */
static size_t control_length(const char *at, const char *end, bool is_whole)
{
    if (at == end || *at != '[')
        return 0;
    const char *c = at + 1;
    while (c < end && c - at < MOST_PARAMETERS && (ki_is_digit(*c) || *c == ';' || *c == '?'))
        c++;
    if (c == end || (is_whole ? !isalpha((unsigned char)*c) : *c != 'm'))
        return 0;
    return (size_t)(c - at) + 1;
}

/* Length of a terminal title, "ESC ] ... BEL", without the escape byte. */
static size_t title_length(const char *at, const char *end)
{
    if (at == end || *at != ']')
        return 0;
    for (const char *c = at; c < end && c - at < MOST_TITLE && *c != '\n'; c++)
        if (*c == '\a')
            return (size_t)(c - at) + 1;
    return 0;
}

/* Length of an escape sequence at `at`; 0: none. */
static size_t escape_length(const char *at, const char *end, bool *is_broken)
{
    for (size_t i = 0; i < sizeof escapes / sizeof escapes[0]; i++) {
        if (!begins_with(at, end, escapes[i].text))
            continue;
        size_t length = strlen(escapes[i].text);
        size_t more = control_length(at + length, end, !escapes[i].is_broken);
        if (more == 0 && !escapes[i].is_broken)
            more = title_length(at + length, end);
        if (more > 0) {
            *is_broken = *is_broken || escapes[i].is_broken;
            return length + more;
        }
    }
    return *at == '\x1b' ? 1 : 0;
}

/* Bytes that stand for a blank or for nothing. Returns how many, and what to write for them (0: nothing). */
static size_t odd_length(const char *at, const char *end, char *instead)
{
    static const struct {
        const char *bytes;
        char instead;
    } odd[] = { { "\r\n", '\n' },      { "\r", '\n' },        { "\xc2\xa0", ' ' },
                { "\xef\xbb\xbf", 0 }, { "\xe2\x80\x8b", 0 }, { "\xe3\x80\x80", ' ' } };
    for (size_t i = 0; i < sizeof odd / sizeof odd[0]; i++)
        if (begins_with(at, end, odd[i].bytes)) {
            *instead = odd[i].instead;
            return strlen(odd[i].bytes);
        }
    return 0;
}

/* Writes the cleaned text, never longer than the source; returns its length. */
static size_t clean_into(const ki_source *source, char *out, bool *is_broken)
{
    char *to = out;
    const char *end = source->text + source->nbytes;
    for (const char *at = source->text; at < end;) {
        char instead = 0;
        size_t length = escape_length(at, end, is_broken);
        if (length == 0)
            length = odd_length(at, end, &instead);
        if (length == 0) {
            bool is_control = (unsigned char)*at < ' ' && *at != '\n' && *at != '\t';
            instead = is_control ? '?' : *at;
            length = 1;
        }
        if (instead != 0)
            *to++ = instead;
        at += length;
    }
    *to = '\0';
    return (size_t)(to - out);
}

static int count_lines(const char *chars, size_t length)
{
    size_t count = 1;
    for (size_t i = 0; i < length; i++)
        count += chars[i] == '\n';
    return count > KI_MATRIX_MOST_LINES ? -1 : (int)count;
}

static void split_lines(ki_matrix_text *text)
{
    char *at = text->chars;
    for (int i = 0; i < text->line_count; i++) {
        text->lines[i] = (ki_matrix_line){ at, i + 1 };
        char *end = strchr(at, '\n');
        if (end == NULL)
            break;
        *end = '\0';
        at = end + 1;
    }
}

kith_status ki_matrix_clean(const ki_source *source, ki_matrix_text *text)
{
    *text = (ki_matrix_text){ .chars = (char *)malloc(source->nbytes + 1) };
    if (text->chars == NULL)
        return ki_fail(KITH_ERR_NO_MEMORY, "%s: no memory for the text", source->name);
    size_t length = clean_into(source, text->chars, &text->has_broken_escapes);
    text->line_count = count_lines(text->chars, length);
    if (text->line_count < 0) {
        ki_matrix_text_fini(text);
        return ki_fail_quiet(KITH_ERR_INVALID_ARG, "%s: more than %d lines", source->name, KI_MATRIX_MOST_LINES);
    }
    text->lines = (ki_matrix_line *)calloc((size_t)text->line_count, sizeof *text->lines);
    if (text->lines == NULL) {
        ki_matrix_text_fini(text);
        return ki_fail(KITH_ERR_NO_MEMORY, "%s: no memory for the lines", source->name);
    }
    split_lines(text);
    return KITH_OK;
}

void ki_matrix_text_fini(ki_matrix_text *text)
{
    free(text->chars);
    free(text->lines);
    *text = (ki_matrix_text){ 0 };
}

void ki_matrix_join_lines(ki_matrix_text *text, int to, int from)
{
    char *end = text->lines[to].chars + strlen(text->lines[to].chars);
    size_t length = strlen(text->lines[from].chars);
    memmove(end, text->lines[from].chars, length + 1);
    text->lines[from].chars = end + length;
}
