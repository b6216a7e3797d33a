/* tools/topo_html.h - small pieces that the tables of the page share.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_TOOLS_TOPO_HTML_H
#define KI_TOOLS_TOPO_HTML_H

#include <stdio.h>

/* A table in a frame that scrolls. heads ends with NULL; numeric has an 'n' for each column of numbers. label and
 * heads are our own words, not escaped. class_name may be NULL. */
void ki_html_table(FILE *out, const char *label, const char *class_name, const char *const *heads, const char *numeric);
void ki_html_table_end(FILE *out);
/* A cell with a text that is escaped; NULL: "unknown". */
void ki_html_cell(FILE *out, const char *text);
void ki_html_number(FILE *out, const char *text);

#endif
