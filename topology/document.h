/* topology/document.h - XML and YAML as trees. libxml2 and libyaml do the work; both are opened when a file of that
 * kind is read, so that the library does not need them otherwise.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_TOPOLOGY_DOCUMENT_H
#define KI_TOPOLOGY_DOCUMENT_H

#include "core/base/json.h"
#include <kith/status.h>

typedef struct ki_xml_attribute {
    char *name, *value;
    struct ki_xml_attribute *next;
} ki_xml_attribute;

typedef struct ki_xml {
    char *name;
    int line;
    bool has_text; /* more than blanks; what it says is left out */
    ki_xml_attribute *attributes;
    struct ki_xml *first, *next; /* children that are elements */
} ki_xml;

/* UTF-8 only, no entities, no network, no DTD. KITH_ERR_UNSUPPORTED when libxml2 cannot be opened (names the package),
 * KITH_ERR_INVALID_ARG "name:line: ..." for text that is not well-formed, KITH_ERR_NO_MEMORY. */
kith_status ki_xml_parse(const char *name, const char *text, size_t nbytes, ki_xml **root);
void ki_xml_free(ki_xml *root);
/* Value of an attribute; NULL when there is none. */
const char *ki_xml_get(const ki_xml *element, const char *attribute);

/* YAML as the tree that JSON gives (aliases and tags are refused; scalars that look like numbers or true/false/null get
 * these types and keep their text). Free with ki_json_free() and a NULL-hook allocator as in ki_allocator_init(). */
kith_status ki_yaml_parse(const char *name, const char *text, size_t nbytes, ki_json **root);
void ki_yaml_free(ki_json *root);

#endif
