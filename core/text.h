/* core/text.h - growing text: error sentences that list ranks, dumps, JSON.
 *
 * Appending never fails visibly: after a failed allocation the text stays as it was and is_failed is set; the one who
 * hands the text out looks at it once.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_TEXT_H
#define KI_TEXT_H

#include <stdbool.h>
#include <stddef.h>

typedef struct ki_text {
    char *chars; /* NUL-terminated; NULL while empty */
    size_t length, capacity;
    bool is_failed;
} ki_text;

void ki_text_add(ki_text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The same for what needs no printf(): characters, and numbers as programs read them (core/base/number.h). */
void ki_text_append(ki_text *text, const char *chars, size_t nbytes);
void ki_text_add_number(ki_text *text, double value);

/* Appends value as a JSON string with quotes; NULL becomes null. */
void ki_text_add_json(ki_text *text, const char *value);

/* Appends the numbers i < count with is_set[i] as "1, 4-6, 9"; at most `limit` ranges, then "and 17 more". */
void ki_text_add_ranges(ki_text *text, const unsigned char *is_set, int count, int limit);

/* "" instead of NULL. */
const char *ki_text_chars(const ki_text *text);

void ki_text_fini(ki_text *text);

#endif
