/* topology/sets.c - see sets.h.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "sets.h"

#include "core/base/error.h"
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- CPU sets ---- */

bool ki_cpuset_add(ki_cpuset *set, int cpu)
{
    if (cpu < 0 || cpu >= KI_CPU_LIMIT)
        return false;
    if (set->bits == NULL)
        set->bits = (unsigned char *)calloc(KI_CPU_LIMIT / 8, 1);
    if (set->bits == NULL)
        return false;
    unsigned char bit = (unsigned char)(1u << (cpu % 8));
    if ((set->bits[cpu / 8] & bit) == 0)
        set->count++;
    set->bits[cpu / 8] |= bit;
    return true;
}

bool ki_cpuset_has(const ki_cpuset *set, int cpu)
{
    return set->bits != NULL && cpu >= 0 && cpu < KI_CPU_LIMIT && (set->bits[cpu / 8] >> (cpu % 8) & 1) != 0;
}

/* Decimal number below KI_CPU_LIMIT at *text; moves on. -1: none. */
static int read_number(const char **text)
{
    if (!isdigit((unsigned char)**text))
        return -1;
    int value = 0;
    for (; isdigit((unsigned char)**text); ++*text) {
        value = value * 10 + (**text - '0');
        if (value >= KI_CPU_LIMIT)
            return -1;
    }
    return value;
}

static void skip_blanks(const char **text)
{
    while (**text == ' ' || **text == '\t')
        ++*text;
}

static bool read_range(const char **text, ki_cpuset *set)
{
    skip_blanks(text);
    int from = read_number(text), to = from;
    if (from >= 0 && **text == '-') {
        ++*text;
        to = read_number(text);
    }
    if (from < 0 || to < from)
        return false;
    for (int cpu = from; cpu <= to; cpu++)
        if (!ki_cpuset_add(set, cpu))
            return false;
    skip_blanks(text);
    return true;
}

bool ki_cpuset_parse(const char *text, ki_cpuset *set)
{
    memset(set, 0, sizeof *set);
    skip_blanks(&text);
    if (*text == '\0')
        return true;
    while (read_range(&text, set)) {
        if (*text == '\0')
            return true;
        if (*text++ != ',')
            break;
    }
    ki_cpuset_fini(set);
    return false;
}

static int digit_of(char c)
{
    return isdigit((unsigned char)c) ? c - '0'
           : c >= 'a' && c <= 'f'    ? c - 'a' + 10
           : c >= 'A' && c <= 'F'    ? c - 'A' + 10
                                     : -1;
}

/* The hexadecimal digits word[0..length), whose lowest bit is that CPU. */
static bool read_word(const char *word, size_t length, int cpu, ki_cpuset *set)
{
    for (size_t i = length; i > 0; i--, cpu += 4) {
        int digit = digit_of(word[i - 1]);
        if (digit < 0)
            return false;
        for (int bit = 0; bit < 4; bit++)
            if ((digit >> bit & 1) != 0 && !ki_cpuset_add(set, cpu + bit))
                return false;
    }
    return true;
}

/* Words of 32 bits, the lowest last; a mask of one word may be longer. hwloc leaves out words that are zero. */
static bool read_mask(const char *text, ki_cpuset *set)
{
    const char *end = text + strlen(text);
    bool is_single = strchr(text, ',') == NULL;
    for (int cpu = 0;; cpu += 32) {
        const char *word = end;
        while (word > text && word[-1] != ',')
            word--;
        const char *next = word;
        if (end - word > 2 && word[0] == '0' && (word[1] == 'x' || word[1] == 'X'))
            word += 2;
        size_t length = (size_t)(end - word);
        bool is_inner = next > text && cpu > 0;
        if ((length == 0 && !is_inner) || (length > 8 && !is_single) || cpu >= KI_CPU_LIMIT ||
            !read_word(word, length, cpu, set))
            return false;
        if (next == text)
            return true;
        end = next - 1;
    }
}

bool ki_cpuset_parse_mask(const char *text, ki_cpuset *set)
{
    memset(set, 0, sizeof *set);
    if (read_mask(text, set))
        return true;
    ki_cpuset_fini(set);
    return false;
}

bool ki_cpuset_intersects(const ki_cpuset *a, const ki_cpuset *b)
{
    if (a->bits == NULL || b->bits == NULL)
        return false;
    for (int i = 0; i < KI_CPU_LIMIT / 8; i++)
        if ((a->bits[i] & b->bits[i]) != 0)
            return true;
    return false;
}

bool ki_cpuset_is_equal(const ki_cpuset *a, const ki_cpuset *b)
{
    if (a->count != b->count)
        return false;
    return a->count == 0 || memcmp(a->bits, b->bits, KI_CPU_LIMIT / 8) == 0;
}

int ki_cpuset_first(const ki_cpuset *set, int after)
{
    if (set->bits == NULL)
        return -1;
    for (int cpu = after + 1; cpu < KI_CPU_LIMIT; cpu++) {
        if (cpu % 8 == 0 && set->bits[cpu / 8] == 0) {
            cpu += 7;
            continue;
        }
        if (ki_cpuset_has(set, cpu))
            return cpu;
    }
    return -1;
}

const char *ki_cpuset_text(const ki_cpuset *set, char *buffer, size_t nbytes)
{
    size_t used = 0;
    if (nbytes == 0)
        return "";
    buffer[0] = '\0';
    for (int from = ki_cpuset_first(set, -1); from >= 0;) {
        int to = from;
        while (ki_cpuset_has(set, to + 1))
            to++;
        char range[32];
        int length = from == to ? snprintf(range, sizeof range, "%s%d", used > 0 ? "," : "", from)
                                : snprintf(range, sizeof range, "%s%d-%d", used > 0 ? "," : "", from, to);
        if (used + (size_t)length + 4 > nbytes) {
            snprintf(buffer + used, nbytes - used, "...");
            break;
        }
        memcpy(buffer + used, range, (size_t)length + 1);
        used += (size_t)length;
        from = ki_cpuset_first(set, to);
    }
    return buffer;
}

void ki_cpuset_fini(ki_cpuset *set)
{
    free(set->bits);
    memset(set, 0, sizeof *set);
}

/* ---- host lists ---- */

enum { HOST_NBYTES = 256 };

typedef struct expansion {
    ki_host_fn each;
    void *arg;
    int left; /* names that may still come */
    int limit;
    char name[HOST_NBYTES];
} expansion;

static kith_status refuse(const char *why, const char *text, size_t length)
{
    return ki_fail_quiet(KITH_ERR_INVALID_ARG, "host list '%.*s%s': %s", length > 60 ? 60 : (int)length, text,
                         length > 60 ? "..." : "", why);
}

static kith_status expand(expansion *e, size_t used, const char *text, size_t length);

/* One "7" or "001-008" out of brackets, then the rest of the name. */
static kith_status expand_range(expansion *e, size_t used, const char *range, size_t length, const char *rest,
                                size_t rest_length)
{
    const char *dash = (const char *)memchr(range, '-', length);
    size_t width = dash != NULL ? (size_t)(dash - range) : length;
    size_t to_width = dash != NULL ? length - width - 1 : width;
    const char *to_text = dash != NULL ? dash + 1 : range;
    if (width == 0 || to_width == 0 || width > 18 || to_width > 18)
        return refuse("a number in brackets must have 1 to 18 digits", range, length);
    for (size_t i = 0; i < length; i++)
        if (range + i != dash && !isdigit((unsigned char)range[i]))
            return refuse("only numbers and ranges may stand in brackets", range, length);
    long from = strtol(range, NULL, 10), to = strtol(to_text, NULL, 10);
    if (to < from)
        return refuse("the range goes backwards", range, length);
    for (long number = from; number <= to; number++) {
        int n = snprintf(e->name + used, HOST_NBYTES - used, "%0*ld", (int)width, number);
        if (n < 0 || used + (size_t)n >= HOST_NBYTES)
            return refuse("a name is too long", range, length);
        kith_status status = expand(e, used + (size_t)n, rest, rest_length);
        if (status != KITH_OK)
            return status;
    }
    return KITH_OK;
}

/* The rest of one name behind name[0..used). */
static kith_status expand(expansion *e, size_t used, const char *text, size_t length)
{
    size_t plain = 0;
    while (plain < length && text[plain] != '[' && text[plain] != ']')
        plain++;
    if (used + plain >= HOST_NBYTES)
        return refuse("a name is too long", text, length);
    memcpy(e->name + used, text, plain);
    used += plain;
    if (plain == length) {
        if (used == 0)
            return refuse("a name is empty", text, length);
        if (e->left-- == 0)
            return ki_fail_quiet(KITH_ERR_INVALID_ARG, "host list: more than %d names", e->limit);
        e->name[used] = '\0';
        return e->each(e->arg, e->name);
    }
    const char *close = text[plain] == '[' ? (const char *)memchr(text + plain, ']', length - plain) : NULL;
    if (close == NULL)
        return refuse("brackets do not match", text, length);
    const char *rest = close + 1;
    size_t rest_length = length - (size_t)(rest - text);
    for (const char *range = text + plain + 1; range <= close;) {
        const char *comma = (const char *)memchr(range, ',', (size_t)(close - range));
        const char *end = comma != NULL ? comma : close;
        kith_status status = expand_range(e, used, range, (size_t)(end - range), rest, rest_length);
        if (status != KITH_OK)
            return status;
        range = end + 1;
    }
    return KITH_OK;
}

static bool is_separator(char c)
{
    return c == ',' || c == ' ' || c == '\t';
}

/* Names are separated by commas or blanks outside brackets; nothing between two commas is damage. */
kith_status ki_hostlist_each(const char *text, size_t length, int limit, ki_host_fn each, void *arg)
{
    expansion e = { .each = each, .arg = arg, .left = limit, .limit = limit };
    bool needs_name = true; /* at the beginning and behind a comma */
    size_t i = 0;
    while (i < length) {
        if (is_separator(text[i])) {
            if (text[i] == ',' && needs_name)
                return refuse("a name is empty", text, length);
            needs_name = needs_name || text[i] == ',';
            i++;
            continue;
        }
        size_t from = i;
        for (int depth = 0; i < length && (depth > 0 || !is_separator(text[i])); i++) {
            depth += text[i] == '[' ? 1 : text[i] == ']' ? -1 : 0;
            if (depth < 0 || depth > 1)
                return refuse("brackets do not match", text, length);
        }
        kith_status status = expand(&e, 0, text + from, i - from);
        if (status != KITH_OK)
            return status;
        needs_name = false;
    }
    return needs_name && length > 0 ? refuse("a name is empty", text, length) : KITH_OK;
}
