/* tools/tune/link_rows.h - rows of several link classes together: one file, one table.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_TOOLS_TUNE_LINK_ROWS_H
#define KI_TOOLS_TUNE_LINK_ROWS_H

#include "links.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

typedef struct tune_link_rows tune_link_rows;

/* NULL: memory is short, or there is no jansson. */
tune_link_rows *tune_link_rows_create(void);
void tune_link_rows_free(tune_link_rows *rows);

/* Whether the library can use a backend here; else why not, in its own words. */
bool tune_link_backend_works(const tune_link_rows *rows, const char *backend, char *reason, size_t nbytes);

/* The rows of a file of --save, with the class as their link. What holds of all rows is taken from the first such file,
 * less the settings that the class forced. False when it has none. */
bool tune_link_add(tune_link_rows *rows, const tune_class *of_class, const char *path);
/* False: memory is short. */
bool tune_link_absent(tune_link_rows *rows, const char *link, const char *reason);
size_t tune_link_row_count(const tune_link_rows *rows);
size_t tune_link_class_count(const tune_link_rows *rows); /* that rows are of */

/* save: a file of results; json, csv: NULL: not wanted, "": standard output; cut_off: the signal that ended it; NULL:
 * none. Returns the exit status, after a sentence. */
int tune_link_write(const tune_link_rows *rows, const char *save, const char *json, const char *csv,
                    const char *cut_off);
/* Classes side by side, those that are absent below. */
void tune_link_print(const tune_link_rows *rows, FILE *out);
void tune_link_print_absent(const tune_link_rows *rows, FILE *out);

#endif
