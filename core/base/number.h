/* core/base/number.h - numbers in texts, read and written with a point whatever the locale of the program says.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_NUMBER_H
#define KI_NUMBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KI_NUMBER_NBYTES 40

/* A decimal number, such as 12, 0.5 or 1e-3: the whole of the text, finite, at most 64 characters. */
bool ki_number_parse(const char *text, size_t length, double *value);
/* The one with which the text begins, as 2.5 in "2.5 GT/s". Returns its length; 0: none, and *value is as it was. */
size_t ki_number_scan(const char *text, double *value);

/* Writes value with as many digits as it takes to read the same value back, and no more; what is not finite as "null",
 * for JSON. Returns the length; the text ends with a zero. */
size_t ki_number_write(double value, char buffer[KI_NUMBER_NBYTES]);
size_t ki_number_write_integer(int64_t value, char buffer[KI_NUMBER_NBYTES]);

/* value with at most `digits` digits that count; 0: as ki_number_write(). Returns buffer. */
const char *ki_number_text(double value, int digits, char buffer[KI_NUMBER_NBYTES]);

#endif
