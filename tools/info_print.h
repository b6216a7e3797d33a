/* tools/info_print.h - the report of `kith info` as text.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_TOOLS_INFO_PRINT_H
#define KI_TOOLS_INFO_PRINT_H

#include <stdbool.h>
#include <stdio.h>

/* Which parts: config and algorithms only when asked for, and then alone. */
typedef struct ki_info_parts {
    bool has_config, has_algorithms;
} ki_info_parts;

/* Prints the report that kith_info_json() made. False, with a sentence in error, when it is not such a report. */
bool ki_info_print(FILE *out, const char *json, const ki_info_parts *parts, char *error, size_t error_nbytes);

#endif
