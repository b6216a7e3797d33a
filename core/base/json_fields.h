/* core/base/json_fields.h - typed values out of a JSON object, by key, with one failure for all of them.
 *
 *     ki_json_fields in = { path, root, KITH_OK };
 *     hidden = ki_json_integer(&in, "hidden_size", 1, 1 << 24, -1);
 *     is_tied = ki_json_flag(&in, "tie_word_embeddings", false);
 *     return in.status;                                       // of the first that was missing or absurd
 *
 * A key whose value is null counts as missing. Failures name file, line and key.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_BASE_JSON_FIELDS_H
#define KI_BASE_JSON_FIELDS_H

#include "json.h"

#include <stdint.h>

typedef struct ki_json_fields {
    const char *path; /* for texts */
    const ki_json *root;
    kith_status status; /* first failure; later reads do nothing */
} ki_json_fields;

/* NULL when it is missing. */
const ki_json *ki_json_find(const ki_json_fields *in, const char *key);

/* An integer in [low, high]. fallback below 0: the key must be there. */
int64_t ki_json_integer(ki_json_fields *in, const char *key, int64_t low, int64_t high, int64_t fallback);
/* A number in [low, high]. */
double ki_json_number(ki_json_fields *in, const char *key, double low, double high, double fallback);
bool ki_json_flag(ki_json_fields *in, const char *key, bool fallback);
/* NULL where it is missing and fallback is NULL. Lives as long as the tree. */
const char *ki_json_text(ki_json_fields *in, const char *key, const char *fallback);

/* KITH_ERR_UNSUPPORTED with this reason when the key is true. */
void ki_json_refuse_flag(ki_json_fields *in, const char *key, const char *why);

#endif
