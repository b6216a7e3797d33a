/* core/base/config_value.c - types of settings: checking and reading the text of one value.
 *
 * Readers are exact: "12 ", "0x10" and "1e3" are refused rather than read as something the user did not mean.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "config_value.h"
#include <ctype.h>
#include <kith/coll.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

bool ki_parse_int(const char *text, int64_t *value)
{
    bool is_negative = *text == '-';
    int64_t sum = 0;
    text += is_negative;
    if (!*text)
        return false;
    for (; *text; text++) {
        if (!isdigit((unsigned char)*text) || __builtin_mul_overflow(sum, 10, &sum) ||
            __builtin_add_overflow(sum, *text - '0', &sum))
            return false;
    }
    *value = is_negative ? -sum : sum;
    return true;
}

static bool parse_unit(const char *unit, size_t *factor)
{
    static const char letters[] = "kmgt";
    *factor = 1;
    const char *found = *unit ? strchr(letters, tolower((unsigned char)*unit)) : NULL;
    if (found) {
        *factor = (size_t)1 << (10 * (found - letters + 1));
        unit++;
        if (tolower((unsigned char)unit[0]) == 'i' && tolower((unsigned char)unit[1]) == 'b')
            unit++;
    }
    if (tolower((unsigned char)*unit) == 'b')
        unit++;
    return *unit == '\0';
}

bool ki_parse_nbytes(const char *text, size_t *value)
{
    char digits[24];
    size_t n = strspn(text, "0123456789"), factor, total;
    int64_t number;
    if (n == 0 || n >= sizeof digits)
        return false;
    memcpy(digits, text, n);
    digits[n] = '\0';
    if (!ki_parse_int(digits, &number) || !parse_unit(text + n, &factor) ||
        __builtin_mul_overflow((size_t)number, factor, &total))
        return false;
    *value = total;
    return true;
}

bool ki_parse_bool(const char *text, bool *value)
{
    static const char *const no[] = { "0", "no", "off", "false" }, *const yes[] = { "1", "yes", "on", "true" };
    for (size_t i = 0; i < sizeof no / sizeof no[0]; i++) {
        if (strcasecmp(text, no[i]) == 0 || strcasecmp(text, yes[i]) == 0) {
            *value = strcasecmp(text, yes[i]) == 0;
            return true;
        }
    }
    return false;
}

static bool is_name(const char *text, size_t nbytes)
{
    for (size_t i = 0; i < nbytes; i++) {
        if (!isalnum((unsigned char)text[i]) && text[i] != '_' && text[i] != '-')
            return false;
    }
    return nbytes > 0;
}

static void split_range(const char *range, char low[32], char high[32])
{
    sscanf(range, "%31[^:]:%31s", low, high);
}

static bool check_int(const char *range, const char *text, const char *prefix, char *valid, size_t valid_nbytes)
{
    char low[32] = "", high[32] = "";
    int64_t min = 0, max = 0, value;
    split_range(range, low, high);
    ki_parse_int(low, &min);
    ki_parse_int(high, &max);
    snprintf(valid, valid_nbytes, "%sa number from %s to %s", prefix, low, high);
    return ki_parse_int(text, &value) && value >= min && value <= max;
}

static bool check_nbytes(const char *range, const char *text, char *valid, size_t valid_nbytes)
{
    char low[32] = "", high[32] = "";
    size_t min = 0, max = 0, value;
    split_range(range, low, high);
    ki_parse_nbytes(low, &min);
    ki_parse_nbytes(high, &max);
    snprintf(valid, valid_nbytes, "a number of bytes from %s to %s, with k, m or g", low, high);
    return ki_parse_nbytes(text, &value) && value >= min && value <= max;
}

static bool check_choice(const char *choices, const char *text, char *valid, size_t valid_nbytes)
{
    size_t text_nbytes = strlen(text);
    snprintf(valid, valid_nbytes, "one of %s", choices);
    for (const char *p = choices;; p++) {
        size_t n = strcspn(p, "|");
        if (n == text_nbytes && strncmp(p, text, n) == 0)
            return true;
        p += n;
        if (!*p)
            return false;
    }
}

static bool is_collective(const char *text, size_t nbytes)
{
#define MATCHES(symbol, number, name)                                                                                  \
    if (sizeof(name) - 1 == nbytes && strncmp(text, name, nbytes) == 0)                                                \
        return true;
    KITH_COLL_TABLE(MATCHES)
#undef MATCHES
    return false;
}

/* "ring", or "all_reduce=ring,broadcast=knomial". Whether an algorithm of that name exists is known further up. */
static bool check_algo(const char *text, char *valid, size_t valid_nbytes)
{
    snprintf(valid, valid_nbytes,
             "a name, or collective=name pairs separated by commas (all_reduce=ring,broadcast=knomial)");
    if (!strpbrk(text, "=,"))
        return is_name(text, strlen(text));
    for (const char *p = text;; p++) {
        size_t coll_nbytes = strcspn(p, "=,");
        if (p[coll_nbytes] != '=')
            return false;
        if (!is_collective(p, coll_nbytes)) {
            snprintf(valid, valid_nbytes,
                     "pairs collective=name; \"%.*s\" is no collective (all_reduce, reduce_scatter, "
                     "broadcast, ...)",
                     (int)coll_nbytes, p);
            return false;
        }
        p += coll_nbytes + 1;
        size_t name_nbytes = strcspn(p, ",");
        if (!is_name(p, name_nbytes))
            return false;
        p += name_nbytes;
        if (!*p)
            return true;
    }
}

bool ki_value_check(ki_value_type type, const char *range, const char *text, char *valid, size_t valid_nbytes)
{
    bool flag;
    switch (type) {
    case KI_VALUE_TEXT:
        return true;
    case KI_VALUE_NAME:
        snprintf(valid, valid_nbytes, "a name of letters, digits, _ and -");
        return is_name(text, strlen(text));
    case KI_VALUE_BOOL:
        snprintf(valid, valid_nbytes, "0 or 1 (also no, yes, off, on, false, true)");
        return ki_parse_bool(text, &flag);
    case KI_VALUE_INT:
        return check_int(range, text, "", valid, valid_nbytes);
    case KI_VALUE_AUTO:
        return check_int(range, text, "auto, or ", valid, valid_nbytes) || strcmp(text, "auto") == 0;
    case KI_VALUE_CHOICE:
        return check_choice(range, text, valid, valid_nbytes);
    case KI_VALUE_NBYTES:
        return check_nbytes(range, text, valid, valid_nbytes);
    case KI_VALUE_ALGO:
        return check_algo(text, valid, valid_nbytes);
    }
    return false;
}

size_t ki_edit_distance(const char *a, const char *b)
{
    enum { MAX = 63 };
    size_t rows[3][MAX + 1], an = strnlen(a, MAX), bn = strnlen(b, MAX);
    for (size_t j = 0; j <= bn; j++)
        rows[0][j] = j;
    for (size_t i = 1; i <= an; i++) {
        size_t *now = rows[i % 3], *last = rows[(i + 2) % 3], *before = rows[(i + 1) % 3];
        now[0] = i;
        for (size_t j = 1; j <= bn; j++) {
            int x = tolower((unsigned char)a[i - 1]), y = tolower((unsigned char)b[j - 1]);
            size_t best = last[j - 1] + (x != y);
            if (last[j] + 1 < best)
                best = last[j] + 1;
            if (now[j - 1] + 1 < best)
                best = now[j - 1] + 1;
            if (i > 1 && j > 1 && x == tolower((unsigned char)b[j - 2]) && tolower((unsigned char)a[i - 2]) == y &&
                before[j - 2] + 1 < best)
                best = before[j - 2] + 1;
            now[j] = best;
        }
    }
    return rows[an % 3][bn];
}
