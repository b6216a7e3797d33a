/* topology/yaml_tree.c - see yaml_tree.h.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "yaml_tree.h"

#include "core/base/error.h"
#include "core/text.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

kith_status ki_yaml_refuse(const char *file, const ki_json *node, const char *format, ...)
{
    char text[KI_DETAIL_NBYTES / 2];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    return ki_fail_quiet(KITH_ERR_INVALID_ARG, "%s:%d: %s", file, node->line, text);
}

kith_status ki_yaml_find(const char *file, const ki_json *object, const char *key, const ki_json **member)
{
    *member = NULL;
    if (object->type != KI_JSON_OBJECT)
        return ki_yaml_refuse(file, object, "expected keys with values, not a %s", ki_json_type_name(object->type));
    for (const ki_json *child = object->first; child != NULL; child = child->next) {
        if (strcmp(child->key, key) != 0)
            continue;
        if (*member != NULL)
            return ki_yaml_refuse(file, child, "'%s' is there twice", key);
        *member = child;
    }
    return KITH_OK;
}

kith_status ki_yaml_member(const char *file, const ki_json *object, const char *key, ki_json_type type,
                           const ki_json **member)
{
    kith_status status = ki_yaml_find(file, object, key, member);
    if (status == KITH_OK && *member != NULL && (*member)->type != type)
        return ki_yaml_refuse(file, *member, "'%s' must be a %s, not a %s", key, ki_json_type_name(type),
                              ki_json_type_name((*member)->type));
    return status;
}

static kith_status refuse_missing(const char *file, const ki_json *object, const char *key)
{
    return ki_yaml_refuse(file, object, "'%s' is missing", key);
}

kith_status ki_yaml_need(const char *file, const ki_json *object, const char *key, ki_json_type type,
                         const ki_json **member)
{
    kith_status status = ki_yaml_member(file, object, key, type, member);
    return status == KITH_OK && *member == NULL ? refuse_missing(file, object, key) : status;
}

kith_status ki_yaml_word(const char *file, const ki_json *object, const char *key, const ki_json **member)
{
    kith_status status = ki_yaml_find(file, object, key, member);
    if (status == KITH_OK && *member == NULL)
        return refuse_missing(file, object, key);
    if (status == KITH_OK && (*member)->text == NULL)
        return ki_yaml_refuse(file, *member, "'%s' must be a word, not a %s", key, ki_json_type_name((*member)->type));
    if (status == KITH_OK && strlen((*member)->text) != (*member)->text_nbytes)
        return ki_yaml_refuse(file, *member, "'%s' has a zero byte inside", key);
    return status;
}

kith_status ki_yaml_check_keys(const char *file, const ki_json *object, const char *const *valid)
{
    unsigned seen = 0;
    if (object->type != KI_JSON_OBJECT)
        return ki_yaml_refuse(file, object, "expected keys with values, not a %s", ki_json_type_name(object->type));
    for (const ki_json *child = object->first; child != NULL; child = child->next) {
        int k = 0;
        while (valid[k] != NULL && strcmp(child->key, valid[k]) != 0)
            k++;
        if (valid[k] != NULL && (seen >> k & 1) == 0) {
            seen |= 1u << k;
            continue;
        }
        if (valid[k] != NULL)
            return ki_yaml_refuse(file, child, "'%s' is there twice", child->key);
        ki_text text = { 0 };
        for (k = 0; valid[k] != NULL; k++)
            ki_text_add(&text, "%s%s", k > 0 ? ", " : "", valid[k]);
        kith_status status =
            ki_yaml_refuse(file, child, "unknown key '%.60s'; valid: %s", child->key, ki_text_chars(&text));
        ki_text_fini(&text);
        return status;
    }
    return KITH_OK;
}
