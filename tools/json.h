/* tools/json.h - objects of the JSON log, written piece by piece.
 *
 * Numbers are written with a point whatever the locale, with 17 digits where they are not whole, so that they are read
 * back as the same double; what is not finite is null, as JSON has no word for it.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_TOOLS_JSON_H
#define KI_TOOLS_JSON_H

#include <stdint.h>
#include <stdio.h>

/* Each writes a comma before it where one is due. key NULL: an element of an array. */
void ki_json_open(FILE *out, const char *key, char bracket);
void ki_json_close(FILE *out, char bracket);
void ki_json_number(FILE *out, const char *key, double value);
/* All digits of a whole number, which readers that know doubles alone round above 2^53. */
void ki_json_bits(FILE *out, const char *key, uint64_t value);
void ki_json_string(FILE *out, const char *key, const char *value);
void ki_json_bool(FILE *out, const char *key, int value);
/* A value that is JSON already, on as many lines as it likes; it becomes one. NULL: null. */
void ki_json_raw(FILE *out, const char *key, const char *text);
/* What follows is the first on its level: after commas or brackets that were written by hand. */
void ki_json_restart(void);
/* The end of an object that is a line, and of its last comma. */
void ki_json_line(FILE *out);

#endif
