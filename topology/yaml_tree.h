/* topology/yaml_tree.h - checked steps through a YAML tree, with the file and line of what is wrong.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_TOPOLOGY_YAML_TREE_H
#define KI_TOPOLOGY_YAML_TREE_H

#include "core/base/json.h"
#include <kith/status.h>

/* A member of any type; *member is NULL when there is none. A key that is there twice is refused, since one of its
 * values would be lost. The same holds for all below. */
kith_status ki_yaml_find(const char *file, const ki_json *object, const char *key, const ki_json **member);
/* A member that must be of that type when it is there. */
kith_status ki_yaml_member(const char *file, const ki_json *object, const char *key, ki_json_type type,
                           const ki_json **member);
/* The same, and it must be there. */
kith_status ki_yaml_need(const char *file, const ki_json *object, const char *key, ki_json_type type,
                         const ki_json **member);
/* A word; numbers count as words, since "1101" may be the name of a node. */
kith_status ki_yaml_word(const char *file, const ki_json *object, const char *key, const ki_json **member);
/* Refuses keys that are not in valid[] (NULL at the end) and keys that are there twice. */
kith_status ki_yaml_check_keys(const char *file, const ki_json *object, const char *const *valid);

kith_status ki_yaml_refuse(const char *file, const ki_json *node, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
