/* core/text.c - see text.h. The memory is malloc's, so that a finished text can be given to a caller (kith_free).
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "text.h"

#include "base/json.h"
#include "base/number.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool reserve(ki_text *text, size_t more)
{
    size_t need = text->length + more + 1;
    if (need <= text->capacity)
        return true;
    size_t capacity = need < 256 ? 256 : 2 * need;
    char *chars = (char *)realloc(text->chars, capacity);
    if (chars == NULL) {
        text->is_failed = true;
        return false;
    }
    text->chars = chars;
    text->capacity = capacity;
    return true;
}

void ki_text_add(ki_text *text, const char *format, ...)
{
    va_list list, again;
    va_start(list, format);
    va_copy(again, list);
    size_t room = text->capacity - text->length; /* where it fits, one pass is enough */
    char *end = room > 0 ? text->chars + text->length : NULL;
    int length = vsnprintf(end, room, format, list);
    bool fits = length >= 0 && (size_t)length < room;
    if (length >= 0 && !fits && reserve(text, (size_t)length)) {
        vsnprintf(text->chars + text->length, (size_t)length + 1, format, again);
        fits = true;
    }
    if (fits)
        text->length += (size_t)length;
    else if (end != NULL)
        *end = '\0';
    va_end(again);
    va_end(list);
}

void ki_text_append(ki_text *text, const char *chars, size_t nbytes)
{
    if (!reserve(text, nbytes))
        return;
    memcpy(text->chars + text->length, chars, nbytes);
    text->length += nbytes;
    text->chars[text->length] = '\0';
}

void ki_text_add_number(ki_text *text, double value)
{
    char number[KI_NUMBER_NBYTES];
    ki_text_append(text, number, ki_number_write(value, number));
}

void ki_text_add_json(ki_text *text, const char *value)
{
    if (value == NULL) {
        ki_text_add(text, "null");
        return;
    }
    ki_text_add(text, "\"");
    for (const char *c = value, *end = value + strlen(value); c < end;) {
        size_t n = ki_utf8_nbytes(c, (size_t)(end - c));
        if (n == 0)
            ki_text_add(text, "\xef\xbf\xbd"); /* U+FFFD for a byte that is no UTF-8, from a path perhaps */
        else if (*c == '"' || *c == '\\')
            ki_text_add(text, "\\%c", *c);
        else if (n == 1 && (*c < 0x20 || *c == 0x7f))
            ki_text_add(text, "\\u%04x", (unsigned)*c);
        else
            ki_text_add(text, "%.*s", (int)n, c);
        c += n > 0 ? n : 1;
    }
    ki_text_add(text, "\"");
}

void ki_text_add_ranges(ki_text *text, const unsigned char *is_set, int count, int limit)
{
    int ranges = 0, left = 0;
    for (int i = 0; i < count; i++) {
        if (!is_set[i])
            continue;
        if (ranges == limit) {
            left++;
            continue;
        }
        int first = i;
        while (i + 1 < count && is_set[i + 1])
            i++;
        ki_text_add(text, ranges++ > 0 ? ", %d" : "%d", first);
        if (i > first)
            ki_text_add(text, i == first + 1 ? ", %d" : "-%d", i);
    }
    if (left > 0)
        ki_text_add(text, " and %d more", left);
}

const char *ki_text_chars(const ki_text *text)
{
    return text->chars != NULL ? text->chars : "";
}

void ki_text_fini(ki_text *text)
{
    free(text->chars);
    memset(text, 0, sizeof *text);
}
