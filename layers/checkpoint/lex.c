/* layers/checkpoint/lex.c - see lex.h.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "lex.h"

#include "core/base/error.h"
#include "core/base/json.h"

#include <stdlib.h>
#include <string.h>

bool ki_lex_fail(ki_lex *lex, const char *what)
{
    if (lex->status == KITH_OK)
        lex->status = ki_fail_quiet(KITH_ERR_INVALID_ARG, "%s: damaged or foreign: at byte %zu of its JSON: %s",
                                    lex->name, (size_t)(lex->at - lex->text), what);
    return false;
}

char ki_lex_peek(ki_lex *lex)
{
    while (lex->at < lex->end && (*lex->at == ' ' || *lex->at == '\t' || *lex->at == '\n' || *lex->at == '\r'))
        lex->at++;
    return lex->at < lex->end ? *lex->at : '\0';
}

bool ki_lex_take(ki_lex *lex, char wanted)
{
    if (lex->status != KITH_OK || ki_lex_peek(lex) != wanted || lex->at == lex->end)
        return false;
    lex->at++;
    return true;
}

bool ki_lex_need(ki_lex *lex, char wanted)
{
    char what[] = "expected '?'";
    what[sizeof what - 3] = wanted;
    return ki_lex_take(lex, wanted) || ki_lex_fail(lex, what);
}

bool ki_lex_string(ki_lex *lex, char *out, size_t *nbytes)
{
    size_t used = 0, made = 0;
    if (!ki_lex_need(lex, '"'))
        return false;
    if (ki_json_string(lex->name, lex->at, (size_t)(lex->end - lex->at), out, &used, &made) != KITH_OK)
        return ki_lex_fail(lex, "no string: the text ends inside, or it has bytes that strings must not have");
    if (memchr(out, '\0', made) != NULL)
        return ki_lex_fail(lex, "a string with a zero character");
    lex->at += used;
    out[made] = '\0'; /* where the closing quote was, at the latest */
    *nbytes = made;
    return true;
}

bool ki_lex_name(ki_lex *lex, char **room, const char **name)
{
    size_t nbytes;
    if (!ki_lex_string(lex, *room, &nbytes))
        return false;
    *name = *room;
    *room += nbytes + 1;
    return true;
}

bool ki_lex_whole(ki_lex *lex, int64_t *value)
{
    if (lex->status != KITH_OK)
        return false;
    ki_lex_peek(lex);
    const char *start = lex->at;
    int64_t number = 0;
    for (; lex->at < lex->end && *lex->at >= '0' && *lex->at <= '9'; lex->at++)
        if (__builtin_mul_overflow(number, 10, &number) || __builtin_add_overflow(number, *lex->at - '0', &number))
            return ki_lex_fail(lex, "a number of 2^63 or more");
    if (lex->at == start || (*start == '0' && lex->at > start + 1))
        return ki_lex_fail(lex, "expected a whole number");
    *value = number;
    return true;
}

/* A word of JSON that is no string: what stands up to the next separator. */
static bool skip_word(ki_lex *lex)
{
    static const char ends[] = ",:]}[{\" \t\r\n";
    const char *start = lex->at;
    while (lex->at < lex->end && *lex->at != '\0' && strchr(ends, *lex->at) == NULL)
        lex->at++;
    return lex->at > start || ki_lex_fail(lex, "expected a value");
}

static bool skip_string(ki_lex *lex)
{
    for (lex->at++; lex->at < lex->end && *lex->at != '"'; lex->at++)
        if (*lex->at == '\\' && lex->at + 1 < lex->end)
            lex->at++;
    return ki_lex_need(lex, '"');
}

/* Brackets are counted, not matched by kind: nothing here is used. */
bool ki_lex_skip(ki_lex *lex)
{
    int64_t depth = 0;
    do {
        char next = ki_lex_peek(lex);
        if (lex->status != KITH_OK || lex->at == lex->end)
            return ki_lex_fail(lex, "the text ends where a value is expected");
        if (next == '"') {
            skip_string(lex);
        } else if (next == '{' || next == '[') {
            depth++;
            lex->at++;
        } else if (next == '}' || next == ']') {
            depth--;
            lex->at++;
        } else if (depth > 0 && (next == ',' || next == ':')) {
            lex->at++;
        } else {
            skip_word(lex);
        }
    } while (lex->status == KITH_OK && depth > 0);
    return lex->status == KITH_OK && (depth == 0 || ki_lex_fail(lex, "expected a value"));
}

bool ki_lex_finish(ki_lex *lex)
{
    if (lex->status != KITH_OK)
        return false;
    ki_lex_peek(lex);
    return lex->at == lex->end || ki_lex_fail(lex, "more text after the end");
}
