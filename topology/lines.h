/* topology/lines.h - a text line by line, without copying it.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_TOPOLOGY_LINES_H
#define KI_TOPOLOGY_LINES_H

#include "reader.h"

/* One line without its end ("\n", "\r\n"). Not NUL-terminated; may hold NULs. */
typedef struct ki_lines {
    const char *next, *end;
    const char *line;
    size_t length;
    int number; /* from 1 */
} ki_lines;

ki_lines ki_lines_of(const ki_source *source);
/* False behind the last line. */
bool ki_lines_next(ki_lines *lines);

/* The line (or any text) without blanks, tabs and carriage returns around it. */
void ki_trim(const char **text, size_t *length);

#endif
