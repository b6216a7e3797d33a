/* topology/document.c - see document.h.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "document.h"

#include "core/base/error.h"
#include "core/base/mem.h"
#include "core/base/number.h"
#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* ---- XML ---- */

const char *ki_xml_get(const ki_xml *element, const char *attribute)
{
    for (const ki_xml_attribute *a = element->attributes; a != NULL; a = a->next)
        if (strcmp(a->name, attribute) == 0)
            return a->value;
    return NULL;
}

void ki_xml_free(ki_xml *root)
{
    /* Depth is bounded by the parser (libxml2 refuses more than 256), so this may recurse. */
    for (ki_xml *element = root, *next; element != NULL; element = next) {
        next = element->next;
        ki_xml_free(element->first);
        for (ki_xml_attribute *a = element->attributes, *following; a != NULL; a = following) {
            following = a->next;
            ki_free(NULL, a->name);
            ki_free(NULL, a->value);
            ki_free(NULL, a);
        }
        ki_free(NULL, element->name);
        ki_free(NULL, element);
    }
}

#ifdef KITH_HAVE_LIBXML2
#include <libxml/parser.h>
#include <libxml/tree.h>
#include <libxml/xmlerror.h>

/* The functions of libxml2 that are used, by their own types. */
#define XML_FUNCTIONS(X) X(xmlReadMemory) X(xmlFreeDoc) X(xmlDocGetRootElement) X(xmlGetLastError) X(xmlGetLineNo)

static struct {
    void *library;
#define XML_MEMBER(name) __typeof__(&name) p_##name;
    XML_FUNCTIONS(XML_MEMBER)
#undef XML_MEMBER
} xml;
static pthread_once_t xml_once = PTHREAD_ONCE_INIT;

static void open_xml(void)
{
    void *library = dlopen("libxml2.so.2", RTLD_NOW | RTLD_LOCAL);
    if (library == NULL)
        return;
    bool is_whole = true;
#define XML_FIND(name)                                                                                                 \
    xml.p_##name = (__typeof__(&name))(uintptr_t)dlsym(library, #name);                                                \
    is_whole = is_whole && xml.p_##name != NULL;
    XML_FUNCTIONS(XML_FIND)
#undef XML_FIND
    if (is_whole)
        xml.library = library;
    else
        dlclose(library);
}

static ki_xml *copy_element(const xmlNode *node, kith_status *status)
{
    ki_xml *element = (ki_xml *)ki_calloc(NULL, 1, sizeof *element);
    if (element == NULL) {
        *status = KITH_ERR_NO_MEMORY;
        return NULL;
    }
    element->name = ki_strdup(NULL, (const char *)node->name);
    element->line = (int)xml.p_xmlGetLineNo(node);
    ki_xml_attribute **last = &element->attributes;
    for (const xmlAttr *a = node->properties; a != NULL && *status == KITH_OK; a = a->next) {
        const char *value = a->children != NULL ? (const char *)a->children->content : "";
        *last = (ki_xml_attribute *)ki_calloc(NULL, 1, sizeof **last);
        if (*last == NULL) {
            *status = KITH_ERR_NO_MEMORY;
            break;
        }
        (*last)->name = ki_strdup(NULL, (const char *)a->name);
        (*last)->value = ki_strdup(NULL, value != NULL ? value : "");
        if ((*last)->name == NULL || (*last)->value == NULL)
            *status = KITH_ERR_NO_MEMORY;
        last = &(*last)->next;
    }
    ki_xml **child = &element->first;
    for (const xmlNode *n = node->children; n != NULL && *status == KITH_OK; n = n->next) {
        bool is_text = n->type == XML_TEXT_NODE || n->type == XML_CDATA_SECTION_NODE;
        const char *text = is_text && n->content != NULL ? (const char *)n->content : "";
        element->has_text = element->has_text || text[strspn(text, " \t\r\n")] != '\0';
        if (n->type != XML_ELEMENT_NODE)
            continue;
        *child = copy_element(n, status);
        if (*child != NULL)
            child = &(*child)->next;
    }
    if (element->name == NULL)
        *status = KITH_ERR_NO_MEMORY;
    return element;
}

/* The end of the declaration <?xml ... ?>, or NULL when the text does not start with a whole one. */
static const char *declaration_end(const char *text, const char *end)
{
    if (end - text < 5 || strncmp(text, "<?xml", 5) != 0)
        return NULL;
    for (const char *at = text + 5; at + 1 < end; at++) {
        if (at[0] == '?' && at[1] == '>')
            return at;
    }
    return NULL;
}

/* Where a declared encoding's name starts, NULL when none is declared. *length is 0 when what follows "encoding" is no
 * name in quotes. */
static const char *declared_encoding(const char *text, const char *end, size_t *length)
{
    static const char word[] = "encoding";
    const size_t word_length = sizeof word - 1;
    const char *at = text;
    while (at + word_length <= end && strncmp(at, word, word_length) != 0)
        at++;
    if (at + word_length > end)
        return NULL;
    *length = 0;
    for (at += word_length; at < end && strchr(" \t\r\n=", *at) != NULL; at++)
        ;
    if (at == end || (*at != '"' && *at != '\''))
        return at;
    const char *quote = memchr(at + 1, *at, (size_t)(end - at - 1));
    if (quote != NULL)
        *length = (size_t)(quote - at - 1);
    return at + 1;
}

/* Only UTF-8 is read, which ASCII is too: every program whose files are read here writes it. For other encodings
 * libxml2, and hwloc's reader on top of it, load the C library's converters on the word of a file that may be hostile;
 * with a fuzzer's file one of these was called after it had been unloaded. */
static kith_status check_encoding(const char *name, const char *text, size_t nbytes)
{
    if (nbytes >= 3 && memcmp(text, "\xEF\xBB\xBF", 3) == 0)
        text += 3, nbytes -= 3;
    if (nbytes < 2 || (signed char)text[0] <= 0 || text[1] == '\0')
        return ki_fail_quiet(KITH_ERR_INVALID_ARG, "%s:1: XML: the text is not UTF-8, the only encoding read", name);
    const char *end = declaration_end(text, text + nbytes);
    size_t length = 0;
    for (const char *at = text; end != NULL && (at = declared_encoding(at, end, &length)) != NULL; at += length) {
        if (length != 5 || strncasecmp(at, "utf-8", 5) != 0)
            return ki_fail_quiet(KITH_ERR_INVALID_ARG, "%s:1: XML: encoding %.*s: only UTF-8 is read", name,
                                 (int)(length < 40 ? length : 40), at);
    }
    return KITH_OK;
}

kith_status ki_xml_parse(const char *name, const char *text, size_t nbytes, ki_xml **root)
{
    pthread_once(&xml_once, open_xml);
    if (xml.library == NULL)
        return ki_fail_quiet(KITH_ERR_UNSUPPORTED, "%s: reading XML needs libxml2.so.2 (Debian package libxml2)", name);
    if (nbytes > INT_MAX)
        return ki_fail_quiet(KITH_ERR_INVALID_ARG, "%s: too long for XML", name);
    kith_status encoding = check_encoding(name, text, nbytes);
    if (encoding != KITH_OK)
        return encoding;
    const int options = XML_PARSE_NONET | XML_PARSE_NOERROR | XML_PARSE_NOWARNING | XML_PARSE_IGNORE_ENC;
    xmlDoc *doc = xml.p_xmlReadMemory(text, (int)nbytes, name, "UTF-8", options);
    if (doc == NULL) {
        const xmlError *error = xml.p_xmlGetLastError();
        const char *why = error != NULL && error->message != NULL ? error->message : "not well-formed";
        return ki_fail_quiet(KITH_ERR_INVALID_ARG, "%s:%d: XML: %.*s", name, error != NULL ? error->line : 0,
                             (int)strcspn(why, "\n"), why);
    }
    const xmlNode *top = xml.p_xmlDocGetRootElement(doc);
    kith_status status = KITH_OK;
    ki_xml *copy = top != NULL ? copy_element(top, &status) : NULL;
    xml.p_xmlFreeDoc(doc);
    if (status == KITH_OK && copy == NULL)
        status = ki_fail_quiet(KITH_ERR_INVALID_ARG, "%s: XML without an element", name);
    if (status != KITH_OK) {
        ki_xml_free(copy);
        return status;
    }
    *root = copy;
    return KITH_OK;
}

#else

kith_status ki_xml_parse(const char *name, const char *text, size_t nbytes, ki_xml **root)
{
    (void)text, (void)nbytes, (void)root;
    return ki_fail_quiet(KITH_ERR_UNSUPPORTED, "%s: XML cannot be read: Kith was built without libxml2-dev", name);
}

#endif

/* ---- YAML ---- */

void ki_yaml_free(ki_json *root)
{
    ki_json_free(NULL, root);
}

#ifdef KITH_HAVE_YAML
#include <yaml.h>

#define YAML_FUNCTIONS(X)                                                                                              \
    X(yaml_parser_initialize)                                                                                          \
    X(yaml_parser_set_input_string) X(yaml_parser_parse) X(yaml_parser_delete) X(yaml_event_delete)

static struct {
    void *library;
#define YAML_MEMBER(name) __typeof__(&name) p_##name;
    YAML_FUNCTIONS(YAML_MEMBER)
#undef YAML_MEMBER
} yaml;
static pthread_once_t yaml_once = PTHREAD_ONCE_INIT;

static void open_yaml(void)
{
    void *library = dlopen("libyaml-0.so.2", RTLD_NOW | RTLD_LOCAL);
    if (library == NULL)
        return;
    bool is_whole = true;
#define YAML_FIND(name)                                                                                                \
    yaml.p_##name = (__typeof__(&name))(uintptr_t)dlsym(library, #name);                                               \
    is_whole = is_whole && yaml.p_##name != NULL;
    YAML_FUNCTIONS(YAML_FIND)
#undef YAML_FIND
    if (is_whole)
        yaml.library = library;
    else
        dlclose(library);
}

typedef struct yaml_reader {
    yaml_parser_t parser;
    const char *name;
} yaml_reader;

static kith_status yaml_failure(const yaml_reader *r, size_t line, const char *why)
{
    return ki_fail_quiet(KITH_ERR_INVALID_ARG, "%s:%zu: YAML: %s", r->name, line + 1, why);
}

static kith_status next_event(yaml_reader *r, yaml_event_t *event)
{
    if (yaml.p_yaml_parser_parse(&r->parser, event))
        return KITH_OK;
    return yaml_failure(r, r->parser.problem_mark.line, r->parser.problem != NULL ? r->parser.problem : "not valid");
}

static ki_json *yaml_node(const yaml_event_t *event, ki_json_type type)
{
    ki_json *node = (ki_json *)ki_calloc(NULL, 1, sizeof *node);
    if (node == NULL)
        return NULL;
    node->type = type;
    node->line = (int)event->start_mark.line + 1;
    node->column = (int)event->start_mark.column + 1;
    return node;
}

/* A plain scalar that looks like a number or a constant has that type; its text is kept for names like "0010". */
static kith_status yaml_scalar(const yaml_event_t *event, ki_json **out)
{
    const char *value = (const char *)event->data.scalar.value;
    ki_json *node = yaml_node(event, KI_JSON_STRING);
    if (node == NULL)
        return KITH_ERR_NO_MEMORY;
    *out = node;
    node->text = ki_strdup(NULL, value);
    node->text_nbytes = event->data.scalar.length;
    if (node->text == NULL)
        return KITH_ERR_NO_MEMORY;
    if (event->data.scalar.style != YAML_PLAIN_SCALAR_STYLE)
        return KITH_OK;
    if (ki_number_parse(value, strlen(value), &node->number)) {
        node->type = KI_JSON_NUMBER;
    } else if (strcmp(value, "true") == 0 || strcmp(value, "false") == 0) {
        node->type = KI_JSON_BOOL;
        node->boolean = value[0] == 't';
    } else if (*value == '\0' || strcmp(value, "~") == 0 || strcmp(value, "null") == 0) {
        node->type = KI_JSON_NULL;
    }
    return KITH_OK;
}

static kith_status yaml_value(yaml_reader *r, yaml_event_t *event, int depth, ki_json **out);

static kith_status yaml_children(yaml_reader *r, ki_json *parent, int depth)
{
    bool is_object = parent->type == KI_JSON_OBJECT;
    ki_json **last = &parent->first;
    for (;;) {
        yaml_event_t event;
        char *key = NULL;
        kith_status status = next_event(r, &event);
        if (status != KITH_OK)
            return status;
        if (event.type == YAML_SEQUENCE_END_EVENT || event.type == YAML_MAPPING_END_EVENT) {
            yaml.p_yaml_event_delete(&event);
            return KITH_OK;
        }
        if (is_object) {
            if (event.type != YAML_SCALAR_EVENT)
                status = yaml_failure(r, event.start_mark.line, "a key must be a word");
            else if ((key = ki_strdup(NULL, (const char *)event.data.scalar.value)) == NULL)
                status = KITH_ERR_NO_MEMORY;
            yaml.p_yaml_event_delete(&event);
            if (status == KITH_OK)
                status = next_event(r, &event);
            if (status != KITH_OK) {
                ki_free(NULL, key);
                return status;
            }
        }
        status = yaml_value(r, &event, depth, last);
        if (*last != NULL) {
            (*last)->key = key;
            key = NULL;
            last = &(*last)->next;
        }
        ki_free(NULL, key);
        if (status != KITH_OK)
            return status;
    }
}

/* Takes the event; *out may be set after a failure, too, and is freed with the tree. */
static kith_status yaml_value(yaml_reader *r, yaml_event_t *event, int depth, ki_json **out)
{
    kith_status status = KITH_OK;
    bool is_container = event->type == YAML_MAPPING_START_EVENT || event->type == YAML_SEQUENCE_START_EVENT;
    if (depth >= KI_JSON_DEPTH)
        status = yaml_failure(r, event->start_mark.line, "nested too deeply");
    else if (event->type == YAML_SCALAR_EVENT)
        status = yaml_scalar(event, out);
    else if (!is_container)
        status = yaml_failure(r, event->start_mark.line, "aliases are not read");
    else if ((*out = yaml_node(event, event->type == YAML_MAPPING_START_EVENT ? KI_JSON_OBJECT : KI_JSON_ARRAY)) ==
             NULL)
        status = KITH_ERR_NO_MEMORY;
    yaml.p_yaml_event_delete(event);
    return status == KITH_OK && is_container ? yaml_children(r, *out, depth + 1) : status;
}

/* The first document; stream and document markers around it are skipped. */
static kith_status yaml_document(yaml_reader *r, ki_json **root)
{
    for (;;) {
        yaml_event_t event;
        kith_status status = next_event(r, &event);
        if (status != KITH_OK)
            return status;
        if (event.type == YAML_STREAM_END_EVENT) {
            yaml.p_yaml_event_delete(&event);
            return yaml_failure(r, 0, "empty");
        }
        if (event.type != YAML_STREAM_START_EVENT && event.type != YAML_DOCUMENT_START_EVENT)
            return yaml_value(r, &event, 0, root);
        yaml.p_yaml_event_delete(&event);
    }
}

kith_status ki_yaml_parse(const char *name, const char *text, size_t nbytes, ki_json **root)
{
    pthread_once(&yaml_once, open_yaml);
    if (yaml.library == NULL)
        return ki_fail_quiet(KITH_ERR_UNSUPPORTED, "%s: reading YAML needs libyaml-0.so.2 (Debian package libyaml-0-2)",
                             name);
    yaml_reader r = { .name = name };
    if (!yaml.p_yaml_parser_initialize(&r.parser))
        return ki_fail(KITH_ERR_NO_MEMORY, "%s: no memory for YAML", name);
    yaml.p_yaml_parser_set_input_string(&r.parser, (const unsigned char *)text, nbytes);
    ki_json *tree = NULL;
    kith_status status = yaml_document(&r, &tree);
    yaml.p_yaml_parser_delete(&r.parser);
    if (status != KITH_OK) {
        ki_yaml_free(tree);
        return status;
    }
    *root = tree;
    return KITH_OK;
}

#else

kith_status ki_yaml_parse(const char *name, const char *text, size_t nbytes, ki_json **root)
{
    (void)text, (void)nbytes, (void)root;
    return ki_fail_quiet(KITH_ERR_UNSUPPORTED, "%s: YAML cannot be read: Kith was built without libyaml-dev", name);
}

#endif
