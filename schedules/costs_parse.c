/* schedules/costs_parse.c - kith_schedule_costs_parse(): costs as words, "F=10,I=12,W=8,C=1".
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "costs_text.h"

#include "core/base/error.h"
#include "core/base/number.h"

#include <ctype.h>
#include <string.h>

enum {
#define ROW(letters, member, meaning) ROW_##member,
    KI_COST_LETTERS(ROW)
#undef ROW
        ROW_COUNT
};

static const struct {
    const char *letters;
    size_t offset;
} rows[] = {
#define ROW(letters, member, meaning) { letters, offsetof(kith_stage_cost, member) },
    KI_COST_LETTERS(ROW)
#undef ROW
};

int ki_cost_letters(const char *text, size_t length)
{
    for (int row = 0; row < ROW_COUNT; row++) {
        const char *letters = rows[row].letters;
        size_t i = 0;
        while (i < length && letters[i] != '\0' && letters[i] == toupper((unsigned char)text[i]))
            i++;
        if (i == length && letters[i] == '\0')
            return row;
    }
    return -1;
}

const char *ki_cost_letters_valid(void)
{
#define ROW(letters, member, meaning) ", " letters
    static const char valid[] = KI_COST_LETTERS(ROW);
#undef ROW
    return valid + 2;
}

double *ki_cost_member(kith_stage_cost *cost, int row)
{
    return (double *)((char *)cost + rows[row].offset);
}

kith_status ki_cost_complete(kith_stage_cost *cost, unsigned given, const char *where)
{
    bool has_b = given >> ROW_b & 1, has_i = given >> ROW_i & 1, has_w = given >> ROW_w & 1;
    if (!has_b || (has_i && has_w))
        return KITH_OK;
    if (!has_i && !has_w)
        cost->i = cost->w = cost->b / 2;
    else if (has_i)
        cost->w = cost->b - cost->i;
    else
        cost->i = cost->b - cost->w;
    if (cost->i < 0 || cost->w < 0)
        return ki_fail_quiet(KITH_ERR_INVALID_ARG, "%s: %s=%g is more than B=%g, of which it is a part", where,
                             has_i ? "I" : "W", has_i ? cost->i : cost->w, cost->b);
    return KITH_OK;
}

static void trim(const char **text, size_t *length)
{
    while (*length > 0 && isspace((unsigned char)**text)) {
        (*text)++;
        (*length)--;
    }
    while (*length > 0 && isspace((unsigned char)(*text)[*length - 1]))
        (*length)--;
}

/* One "F=10". */
static kith_status parse_word(const char *word, size_t length, kith_stage_cost *cost, unsigned *given)
{
    trim(&word, &length);
    int shown = length > 40 ? 40 : (int)length;
    const char *equals = memchr(word, '=', length);
    if (equals == NULL)
        return ki_fail_quiet(KITH_ERR_INVALID_ARG, "costs: '%.*s' is not of the form F=10", shown, word);
    const char *name = word, *number = equals + 1;
    size_t name_length = (size_t)(equals - word), number_length = length - name_length - 1;
    trim(&name, &name_length);
    trim(&number, &number_length);
    int row = ki_cost_letters(name, name_length);
    if (row < 0)
        return ki_fail_quiet(KITH_ERR_INVALID_ARG, "costs: '%.*s' sets none of %s", shown, word,
                             ki_cost_letters_valid());
    if (*given >> row & 1)
        return ki_fail_quiet(KITH_ERR_INVALID_ARG, "costs: %s is given twice", rows[row].letters);
    double *value = ki_cost_member(cost, row);
    if (!ki_number_parse(number, number_length, value) || *value < 0)
        return ki_fail_quiet(KITH_ERR_INVALID_ARG, "costs: '%.*s' is no finite number of at least 0", shown, word);
    *given |= 1u << row;
    return KITH_OK;
}

kith_status kith_schedule_costs_parse(const char *text, kith_schedule_costs *costs)
{
    if (text == NULL || costs == NULL)
        return ki_fail(KITH_ERR_INVALID_ARG, "kith_schedule_costs_parse(): %s is NULL",
                       text == NULL ? "text" : "costs");
    kith_schedule_costs parsed = KITH_SCHEDULE_COSTS_INIT;
    unsigned given = 0;
    kith_status status = KITH_OK;
    for (const char *word = text; status == KITH_OK;) {
        size_t length = strcspn(word, ",");
        status = parse_word(word, length, &parsed.same, &given);
        if (word[length] == '\0')
            break;
        word += length + 1;
    }
    if (status == KITH_OK)
        status = ki_cost_complete(&parsed.same, given, "costs");
    if (status == KITH_OK)
        *costs = parsed;
    return status;
}
