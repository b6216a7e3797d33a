/* schedules/numbers.h - numbers in texts, read and written with a point whatever the locale of the program says.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_SCHEDULES_NUMBERS_H
#define KI_SCHEDULES_NUMBERS_H

#include <stdbool.h>
#include <stddef.h>

#define KI_NUMBER_NBYTES 40

/* A decimal number, such as 12, 0.5 or 1e-3: the whole of the text, finite. */
bool ki_number_parse(const char *text, size_t length, double *value);

/* value with at most `digits` digits that count; 0: as many as it takes to read the same value back. Returns buffer. */
const char *ki_number_text(double value, int digits, char buffer[KI_NUMBER_NBYTES]);

#endif
