/* core/base/config_value.h - types of settings: checking and reading the text of one value. Used by config.c alone.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_BASE_CONFIG_VALUE_H
#define KI_BASE_CONFIG_VALUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum ki_value_type {
    KI_VALUE_TEXT,
    KI_VALUE_NAME,
    KI_VALUE_BOOL,
    KI_VALUE_INT,
    KI_VALUE_AUTO,
    KI_VALUE_CHOICE,
    KI_VALUE_NBYTES,
    KI_VALUE_ALGO
} ki_value_type;

/* Is the text allowed? If not, valid says in words what is. `range` is as in config_rows.h. */
bool ki_value_check(ki_value_type type, const char *range, const char *text, char *valid, size_t valid_nbytes);

/* Exact readers: the whole text or false; nothing is written then. */
bool ki_parse_int(const char *text, int64_t *value); /* decimal digits, optional minus */
bool ki_parse_nbytes(const char *text,
                     size_t *value); /* digits, optional k, m, g, t (powers of 1024), optional b or ib */
bool ki_parse_bool(const char *text, bool *value);

/* Edit distance (insert, delete, replace, swap of neighbours), case-insensitive, for "did you mean". */
size_t ki_edit_distance(const char *a, const char *b);

#endif
