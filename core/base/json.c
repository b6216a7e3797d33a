/* core/base/json.c - a recursive-descent reader; one function a production of RFC 8259.
 *
 * A failed production has recorded the failure and returns false; the nodes made so far hang in the tree, so the caller
 * frees everything at one place.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "json.h"
#include "error.h"
#include "mem.h"
#include "number.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct json_reader {
    const kith_allocator *allocator;
    const char *name;
    const char *at, *end, *line_start;
    int line, depth;
    kith_status status;
} json_reader;

static bool parse_value(json_reader *reader, ki_json *node);

static bool fail(json_reader *reader, const char *what)
{
    reader->status = ki_fail(KITH_ERR_INVALID_ARG, "%s:%d:%d: %s", reader->name, reader->line,
                             (int)(reader->at - reader->line_start) + 1, what);
    return false;
}

static bool no_memory(json_reader *reader)
{
    reader->status = KITH_ERR_NO_MEMORY;
    return false;
}

/* The next byte, or -1 at the end. */
static int peek(const json_reader *reader)
{
    return reader->at < reader->end ? (unsigned char)*reader->at : -1;
}

static void skip_space(json_reader *reader)
{
    for (;; reader->at++) {
        int c = peek(reader);
        if (c == '\n') {
            reader->line++;
            reader->line_start = reader->at + 1;
        } else if (c != ' ' && c != '\t' && c != '\r') {
            return;
        }
    }
}

static ki_json *new_node(json_reader *reader)
{
    ki_json *node = ki_calloc(reader->allocator, 1, sizeof *node);
    if (!node)
        no_memory(reader);
    return node;
}

static bool parse_word(json_reader *reader, const char *word)
{
    size_t n = strlen(word);
    if ((size_t)(reader->end - reader->at) < n || memcmp(reader->at, word, n) != 0)
        return fail(reader, "expected a value: object, array, string, number, true, false or null");
    reader->at += n;
    return true;
}

/* ---- numbers ---- */

#define NUMBER_MOST 60 /* characters; ki_number_parse() takes no more than a few beyond */

static bool is_digit(int c)
{
    return c >= '0' && c <= '9';
}

static bool skip_digits(json_reader *reader)
{
    if (!is_digit(peek(reader)))
        return fail(reader, "expected a digit");
    while (is_digit(peek(reader)))
        reader->at++;
    return true;
}

static bool parse_number(json_reader *reader, ki_json *node)
{
    const char *start = reader->at;
    if (peek(reader) == '-')
        reader->at++;
    if (peek(reader) == '0' && reader->at + 1 < reader->end && is_digit(reader->at[1]))
        return fail(reader, "a number must not begin with 0");
    if (!skip_digits(reader))
        return false;
    if (peek(reader) == '.') {
        reader->at++;
        if (!skip_digits(reader))
            return false;
    }
    if (peek(reader) == 'e' || peek(reader) == 'E') {
        reader->at++;
        if (peek(reader) == '+' || peek(reader) == '-')
            reader->at++;
        if (!skip_digits(reader))
            return false;
    }
    node->type = KI_JSON_NUMBER;
    if (reader->at - start > NUMBER_MOST)
        return fail(reader, "a number of more than 60 characters");
    if (!ki_number_parse(start, (size_t)(reader->at - start), &node->number))
        return fail(reader, "a number beyond the range of double");
    return true;
}

/* ---- strings ---- */

static bool parse_hex4(json_reader *reader, unsigned *code)
{
    *code = 0;
    for (int i = 0; i < 4; i++, reader->at++) {
        int c = peek(reader);
        int digit = is_digit(c)            ? c - '0'
                    : c >= 'a' && c <= 'f' ? c - 'a' + 10
                    : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                           : -1;
        if (digit < 0)
            return fail(reader, "\\u needs four hexadecimal digits");
        *code = *code * 16 + (unsigned)digit;
    }
    return true;
}

static size_t put_utf8(char *out, unsigned code)
{
    if (code < 0x80) {
        out[0] = (char)code;
        return 1;
    }
    if (code < 0x800) {
        out[0] = (char)(0xc0 | code >> 6);
        out[1] = (char)(0x80 | (code & 63));
        return 2;
    }
    if (code < 0x10000) {
        out[0] = (char)(0xe0 | code >> 12);
        out[1] = (char)(0x80 | (code >> 6 & 63));
        out[2] = (char)(0x80 | (code & 63));
        return 3;
    }
    out[0] = (char)(0xf0 | code >> 18);
    out[1] = (char)(0x80 | (code >> 12 & 63));
    out[2] = (char)(0x80 | (code >> 6 & 63));
    out[3] = (char)(0x80 | (code & 63));
    return 4;
}

/* After "\u". */
static bool parse_code_point(json_reader *reader, char *out, size_t *used)
{
    unsigned code, low;
    if (!parse_hex4(reader, &code))
        return false;
    if (code >= 0xdc00 && code < 0xe000)
        return fail(reader, "a low surrogate without a high one");
    if (code >= 0xd800 && code < 0xdc00) {
        if (reader->end - reader->at < 2 || reader->at[0] != '\\' || reader->at[1] != 'u')
            return fail(reader, "a high surrogate without a low one");
        reader->at += 2;
        if (!parse_hex4(reader, &low))
            return false;
        if (low < 0xdc00 || low >= 0xe000)
            return fail(reader, "a high surrogate without a low one");
        code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    }
    *used += put_utf8(out + *used, code);
    return true;
}

/* After the backslash. */
static bool parse_escape(json_reader *reader, char *out, size_t *used)
{
    static const char letters[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
    int c = peek(reader);
    const char *found = c > 0 ? strchr(letters, c) : NULL;
    if (found) {
        reader->at++;
        out[(*used)++] = values[found - letters];
        return true;
    }
    if (c != 'u')
        return fail(reader, "unknown escape; valid are \\\" \\\\ \\/ \\b \\f \\n \\r \\t \\uXXXX");
    reader->at++;
    return parse_code_point(reader, out, used);
}

size_t ki_utf8_nbytes(const char *text, size_t left)
{
    const unsigned char *p = (const unsigned char *)text;
    if (left == 0)
        return 0;
    size_t n = p[0] < 0x80                   ? 1
               : p[0] >= 0xc2 && p[0] < 0xe0 ? 2
               : p[0] >= 0xe0 && p[0] < 0xf0 ? 3
               : p[0] >= 0xf0 && p[0] < 0xf5 ? 4
                                             : 0;
    if (n == 0 || n > left)
        return 0;
    for (size_t i = 1; i < n; i++)
        if ((p[i] & 0xc0) != 0x80)
            return 0;
    bool is_bad = (p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] >= 0xa0) || (p[0] == 0xf0 && p[1] < 0x90) ||
                  (p[0] == 0xf4 && p[1] >= 0x90);
    return is_bad ? 0 : n;
}

static bool parse_characters(json_reader *reader, char *out, size_t *used)
{
    for (;;) {
        int c = peek(reader);
        if (c < 0)
            return fail(reader, "the text ends inside a string");
        if (c < 0x20)
            return fail(reader, "a control character inside a string");
        if (c == '"')
            break;
        if (c == '\\') {
            reader->at++;
            if (!parse_escape(reader, out, used))
                return false;
            continue;
        }
        size_t n = ki_utf8_nbytes(reader->at, (size_t)(reader->end - reader->at));
        if (n == 0)
            return fail(reader, "not UTF-8");
        memcpy(out + *used, reader->at, n);
        *used += n;
        reader->at += n;
    }
    reader->at++;
    return true;
}

kith_status ki_json_string(const char *name, const char *text, size_t left, char *out, size_t *used, size_t *nbytes)
{
    json_reader reader = { .name = name, .at = text, .end = text + left, .line_start = text, .line = 1 };
    size_t made = 0;
    if (!parse_characters(&reader, out, &made))
        return reader.status;
    *used = (size_t)(reader.at - text);
    *nbytes = made;
    return KITH_OK;
}

/* At most this many bytes come out of the string that begins here: its bytes up to the closing quote. */
static size_t string_bound(const json_reader *reader)
{
    const char *p = reader->at;
    while (p < reader->end && *p != '"')
        p += *p == '\\' && p + 1 < reader->end ? 2 : 1;
    return (size_t)(p - reader->at);
}

static bool parse_string(json_reader *reader, char **text, size_t *text_nbytes)
{
    if (peek(reader) != '"')
        return fail(reader, "expected a string");
    reader->at++;
    *text = ki_calloc(reader->allocator, string_bound(reader) + 1, 1);
    *text_nbytes = 0;
    return *text ? parse_characters(reader, *text, text_nbytes) : no_memory(reader);
}

/* ---- arrays and objects ---- */

static bool parse_key(json_reader *reader, const ki_json *object, ki_json *member)
{
    const char *start = reader->at;
    size_t nbytes = 0;
    if (!parse_string(reader, &member->key, &nbytes))
        return false;
    if (ki_json_member(object, member->key)) {
        reader->at = start;
        return fail(reader, "this key stands twice in the object");
    }
    if (strlen(member->key) != nbytes) {
        reader->at = start;
        return fail(reader, "a key with a zero character");
    }
    skip_space(reader);
    if (peek(reader) != ':')
        return fail(reader, "expected ':' after the key");
    reader->at++;
    skip_space(reader);
    return true;
}

/* After the opening bracket. */
static bool parse_children(json_reader *reader, ki_json *node, int close)
{
    ki_json **tail = &node->first;
    skip_space(reader);
    if (peek(reader) == close) {
        reader->at++;
        return true;
    }
    for (;;) {
        ki_json *child = new_node(reader);
        if (!child)
            return false;
        bool is_ok = (node->type == KI_JSON_ARRAY || parse_key(reader, node, child));
        *tail = child;
        tail = &child->next;
        if (!is_ok || !parse_value(reader, child))
            return false;
        skip_space(reader);
        int c = peek(reader);
        if (c != close && c != ',')
            return fail(reader, close == ']' ? "expected ',' or ']'" : "expected ',' or '}'");
        reader->at++;
        if (c == close)
            return true;
        skip_space(reader);
    }
}

static bool parse_nested(json_reader *reader, ki_json *node, ki_json_type type, int close)
{
    if (reader->depth >= KI_JSON_DEPTH)
        return fail(reader, "nested too deeply (at most 32 levels)");
    reader->at++;
    reader->depth++;
    node->type = type;
    bool is_ok = parse_children(reader, node, close);
    reader->depth--;
    return is_ok;
}

static bool parse_value(json_reader *reader, ki_json *node)
{
    node->line = reader->line;
    node->column = (int)(reader->at - reader->line_start) + 1;
    switch (peek(reader)) {
    case '{':
        return parse_nested(reader, node, KI_JSON_OBJECT, '}');
    case '[':
        return parse_nested(reader, node, KI_JSON_ARRAY, ']');
    case '"':
        node->type = KI_JSON_STRING;
        return parse_string(reader, &node->text, &node->text_nbytes);
    case 't':
    case 'f':
        node->type = KI_JSON_BOOL;
        node->boolean = peek(reader) == 't';
        return parse_word(reader, node->boolean ? "true" : "false");
    case -1:
        return fail(reader, "the text ends where a value is expected");
    default:
        if (peek(reader) == '-' || is_digit(peek(reader)))
            return parse_number(reader, node);
        return parse_word(reader, "null");
    }
}

kith_status ki_json_parse(const kith_allocator *allocator, const char *name, const char *text, size_t nbytes,
                          ki_json **root)
{
    json_reader reader = {
        .allocator = allocator, .name = name, .at = text, .end = text + nbytes, .line_start = text, .line = 1
    };
    ki_json *node = new_node(&reader);
    if (!node)
        return reader.status;
    skip_space(&reader);
    if (parse_value(&reader, node)) {
        skip_space(&reader);
        if (reader.at < reader.end)
            fail(&reader, "more text after the value");
    }
    if (reader.status != KITH_OK) {
        ki_json_free(allocator, node);
        return reader.status;
    }
    *root = node;
    return KITH_OK;
}

/* ---- files ---- */

static kith_status read_text(const kith_allocator *allocator, const char *path, FILE *file, char **text, size_t *nbytes)
{
    static const size_t most = (size_t)16 << 20;
    size_t capacity = 4096;
    char *buffer = ki_calloc(allocator, capacity, 1);
    kith_status status = buffer ? KITH_OK : KITH_ERR_NO_MEMORY;
    *nbytes = 0;
    while (status == KITH_OK) {
        *nbytes += fread(buffer + *nbytes, 1, capacity - *nbytes, file);
        if (*nbytes < capacity)
            break;
        char *larger = capacity < most ? ki_calloc(allocator, capacity * 2, 1) : NULL;
        if (!larger) {
            status =
                capacity < most ? KITH_ERR_NO_MEMORY : ki_fail(KITH_ERR_INVALID_ARG, "%s: larger than 16 MiB", path);
            break;
        }
        memcpy(larger, buffer, *nbytes);
        ki_free(allocator, buffer);
        buffer = larger;
        capacity *= 2;
    }
    if (status == KITH_OK && ferror(file))
        status = ki_fail(KITH_ERR_IO, "%s: reading failed: %s", path, strerror(errno));
    *text = buffer;
    return status;
}

kith_status ki_json_read(const kith_allocator *allocator, const char *path, ki_json **root)
{
    FILE *file = fopen(path, "rbe");
    if (!file)
        return ki_fail(KITH_ERR_IO, "%s: cannot be opened: %s", path, strerror(errno));
    char *text = NULL;
    size_t nbytes = 0;
    kith_status status = read_text(allocator, path, file, &text, &nbytes);
    fclose(file);
    if (status == KITH_OK)
        status = ki_json_parse(allocator, path, text, nbytes, root);
    ki_free(allocator, text);
    return status;
}

/* ---- the tree ---- */

void ki_json_free(const kith_allocator *allocator, ki_json *root)
{
    while (root) {
        ki_json *next = root->next;
        ki_json_free(allocator, root->first); /* at most KI_JSON_DEPTH deep */
        ki_free(allocator, root->text);
        ki_free(allocator, root->key);
        ki_free(allocator, root);
        root = next;
    }
}

const ki_json *ki_json_member(const ki_json *object, const char *key)
{
    if (!object || object->type != KI_JSON_OBJECT)
        return NULL;
    for (const ki_json *member = object->first; member; member = member->next)
        if (strcmp(member->key, key) == 0)
            return member;
    return NULL;
}

const char *ki_json_type_name(ki_json_type type)
{
    static const char *const names[] = { "null", "a boolean", "a number", "a string", "an array", "an object" };
    return names[type];
}
