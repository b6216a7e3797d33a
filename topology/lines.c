/* topology/lines.c - see lines.h.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "lines.h"

#include <string.h>

ki_lines ki_lines_of(const ki_source *source)
{
    ki_lines lines = { .next = source->text, .end = source->text + source->nbytes };
    static const char byte_order_mark[] = "\xef\xbb\xbf";
    if (source->nbytes >= 3 && memcmp(source->text, byte_order_mark, 3) == 0)
        lines.next += 3;
    return lines;
}

bool ki_lines_next(ki_lines *lines)
{
    if (lines->next == lines->end)
        return false;
    size_t left = (size_t)(lines->end - lines->next);
    const char *newline = (const char *)memchr(lines->next, '\n', left);
    lines->line = lines->next;
    lines->length = newline != NULL ? (size_t)(newline - lines->line) : left;
    lines->next = newline != NULL ? newline + 1 : lines->end;
    lines->number++;
    if (lines->length > 0 && lines->line[lines->length - 1] == '\r')
        lines->length--;
    return true;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

void ki_trim(const char **text, size_t *length)
{
    while (*length > 0 && is_blank((*text)[0]))
        ++*text, --*length;
    while (*length > 0 && is_blank((*text)[*length - 1]))
        --*length;
}
