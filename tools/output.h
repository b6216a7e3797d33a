/* tools/output.h - a report is collected in memory and written at once, so that a failure leaves no half file.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_TOOLS_OUTPUT_H
#define KI_TOOLS_OUTPUT_H

#include "command.h"

#include <stdio.h>

/* A report under construction: write to `stream`. */
typedef struct ki_output {
    const ki_command *command; /* for messages */
    FILE *stream;
    char *bytes;
    size_t nbytes;
} ki_output;

/* False after it has said that memory is short. */
bool ki_output_open(ki_output *output, const ki_command *command);
/* Ends the report and writes it to the file, standard output when path is NULL; what is binary does not go to a
 * terminal. A file that is there is replaced when all is written, and stays as it is when that fails. Returns
 * KI_EXIT_OK, or KI_EXIT_USAGE after it has said what went wrong. Frees it in any case. */
int ki_output_close(ki_output *output, const char *path, bool is_binary);
void ki_output_drop(ki_output *output);

/* The first path by which a file would be written again that a path before it names; NULL: there is none.
 * NULL and "" stand for no file; a device may be there twice. */
const char *ki_output_repeated(const char *const *paths, size_t count);

#endif
