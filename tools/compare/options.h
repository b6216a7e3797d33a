/* tools/compare/options.h - what the user asks of `kith compare`.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_TOOLS_COMPARE_OPTIONS_H
#define KI_TOOLS_COMPARE_OPTIONS_H

#include "compare.h"

typedef struct ki_compare_request {
    char **files;
    int file_count;
    const char *csv, *html; /* files; "-": standard output, in place of the tables; NULL: none */
    const char *svg, *png;  /* folders */
    const char *baseline;   /* NULL: the first */
    double threshold;       /* percent; negative: none */
    bool is_help;
} ki_compare_request;

/* KI_EXIT_OK, or KI_EXIT_USAGE after it has said what is wrong. */
int ki_compare_read_options(int argc, char **argv, ki_compare_request *request);

#endif
