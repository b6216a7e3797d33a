/* core/base/json.h - reads JSON (RFC 8259), strictly, into a tree.
 *
 * For small configuration files: no comments, no trailing commas, no duplicate keys, nesting of at most KI_JSON_DEPTH.
 * Failures tell line and column. The tools use jansson; the core library may not link to it.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_BASE_JSON_H
#define KI_BASE_JSON_H

#include <kith/context.h>
#include <stdbool.h>
#include <stddef.h>

#define KI_JSON_DEPTH 32

typedef enum ki_json_type {
    KI_JSON_NULL,
    KI_JSON_BOOL,
    KI_JSON_NUMBER,
    KI_JSON_STRING,
    KI_JSON_ARRAY,
    KI_JSON_OBJECT
} ki_json_type;

typedef struct ki_json {
    ki_json_type type;
    int line, column; /* where it begins, from 1 */
    bool boolean;
    double number;
    char *text; /* STRING: UTF-8, ends with 0; may hold zeros inside, then text_nbytes tells */
    size_t text_nbytes;
    char *key;             /* of a member of an object */
    struct ki_json *first; /* ARRAY, OBJECT: children, linked by next */
    struct ki_json *next;
} ki_json;

/* Parses the whole text. name stands in error texts ("table.json"). KITH_ERR_INVALID_ARG: "table.json:3:14: ..." */
kith_status ki_json_parse(const kith_allocator *allocator, const char *name, const char *text, size_t nbytes,
                          ki_json **root);
/* KITH_ERR_IO when the file cannot be read; files above 16 MiB are refused. */
kith_status ki_json_read(const kith_allocator *allocator, const char *path, ki_json **root);
void ki_json_free(const kith_allocator *allocator, ki_json *root);

/* One string, for readers that need no tree: text begins behind the opening quote. out has room for all that is left;
 * *used counts the bytes up to and with the closing quote, *nbytes those in out. Failures as of ki_json_parse(). */
kith_status ki_json_string(const char *name, const char *text, size_t left, char *out, size_t *used, size_t *nbytes);

/* Member of an object, or NULL. */
const ki_json *ki_json_member(const ki_json *object, const char *key);
/* Bytes of the well-formed UTF-8 sequence at text, of which left bytes are there; 0: it is none. */
size_t ki_utf8_nbytes(const char *text, size_t left);

const char *ki_json_type_name(ki_json_type type);

#endif
