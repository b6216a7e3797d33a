/* core/base/json_fields.c - see json_fields.h.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "json_fields.h"

#include "error.h"

const ki_json *ki_json_find(const ki_json_fields *in, const char *key)
{
    const ki_json *value = ki_json_member(in->root, key);
    return value != NULL && value->type != KI_JSON_NULL ? value : NULL;
}

int64_t ki_json_integer(ki_json_fields *in, const char *key, int64_t low, int64_t high, int64_t fallback)
{
    if (in->status != KITH_OK)
        return 0;
    const ki_json *value = ki_json_find(in, key);
    if (value == NULL && fallback >= 0)
        return fallback;
    if (value == NULL) {
        in->status = ki_fail_quiet(KITH_ERR_INVALID_ARG, "%s: '%s' is missing", in->path, key);
        return 0;
    }
    if (value->type != KI_JSON_NUMBER || !(value->number >= (double)low && value->number <= (double)high) ||
        value->number != (double)(int64_t)value->number) {
        in->status = ki_fail_quiet(KITH_ERR_INVALID_ARG, "%s:%d: '%s' must be a whole number from %lld to %lld",
                                   in->path, value->line, key, (long long)low, (long long)high);
        return 0;
    }
    return (int64_t)value->number;
}

double ki_json_number(ki_json_fields *in, const char *key, double low, double high, double fallback)
{
    const ki_json *value = ki_json_find(in, key);
    if (in->status != KITH_OK || value == NULL)
        return fallback;
    if (value->type != KI_JSON_NUMBER || !(value->number >= low && value->number <= high)) {
        in->status = ki_fail_quiet(KITH_ERR_INVALID_ARG, "%s:%d: '%s' must be a number from %g to %g", in->path,
                                   value->line, key, low, high);
        return fallback;
    }
    return value->number;
}

bool ki_json_flag(ki_json_fields *in, const char *key, bool fallback)
{
    const ki_json *value = ki_json_find(in, key);
    if (in->status != KITH_OK || value == NULL)
        return fallback;
    if (value->type != KI_JSON_BOOL)
        in->status =
            ki_fail_quiet(KITH_ERR_INVALID_ARG, "%s:%d: '%s' must be true or false", in->path, value->line, key);
    return value->boolean;
}

const char *ki_json_text(ki_json_fields *in, const char *key, const char *fallback)
{
    const ki_json *value = ki_json_find(in, key);
    if (in->status != KITH_OK || value == NULL)
        return fallback;
    if (value->type != KI_JSON_STRING) {
        in->status = ki_fail_quiet(KITH_ERR_INVALID_ARG, "%s:%d: '%s' must be a text", in->path, value->line, key);
        return fallback;
    }
    return value->text;
}

void ki_json_refuse_flag(ki_json_fields *in, const char *key, const char *why)
{
    if (ki_json_flag(in, key, false) && in->status == KITH_OK)
        in->status = ki_fail_quiet(KITH_ERR_UNSUPPORTED, "%s:%d: '%s' is set: %s", in->path,
                                   ki_json_find(in, key)->line, key, why);
}
