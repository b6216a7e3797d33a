/* schedules/names.c - words for actions and kinds of plan, and the cells of PyTorch's files.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "schedule.h"

#include "core/base/error.h"
#include "core/base/number.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#define N KI_SCOPE_NOTHING
#define S KI_SCOPE_STAGE
#define M KI_SCOPE_MICROBATCH
static const struct {
    const char *name;
    ki_action_scope scope;
} actions[] = {
#define ROW(symbol, name, what) [symbol] = { name, what },
    KITH_ACTION_TABLE(ROW)
#undef ROW
};
#undef N
#undef S
#undef M

static const char *const kinds[] = {
#define ROW(symbol, number, name) [number] = name,
    KITH_SCHEDULE_KIND_TABLE(ROW)
#undef ROW
};
#define KIND_COUNT ((int)(sizeof kinds / sizeof kinds[0]))

const char *kith_action_name(kith_action_type type)
{
    return (unsigned)type < KITH_ACTION_TYPE_COUNT ? actions[type].name : NULL;
}

ki_action_scope ki_action_scope_of(kith_action_type type)
{
    return (unsigned)type < KITH_ACTION_TYPE_COUNT ? actions[type].scope : KI_SCOPE_NOTHING;
}

/* Long plans are written cell by cell: no printf() here. */
const char *kith_action_text(const kith_action *action, char *buffer, size_t nbytes)
{
    if (buffer == NULL || nbytes == 0)
        return buffer;
    char text[2 * KI_NUMBER_NBYTES + 32] = "";
    size_t length = 0;
    const char *name = action != NULL ? kith_action_name(action->type) : NULL;
    ki_action_scope scope = name != NULL ? actions[action->type].scope : KI_SCOPE_NOTHING;
    name = name != NULL ? name : "?";
    if (scope != KI_SCOPE_NOTHING)
        length = ki_number_write_integer(action->stage, text);
    memcpy(text + length, name, strlen(name));
    length += strlen(name);
    if (scope == KI_SCOPE_MICROBATCH)
        length += ki_number_write_integer(action->microbatch, text + length);
    length = length < nbytes ? length : nbytes - 1;
    memcpy(buffer, text, length);
    buffer[length] = '\0';
    return buffer;
}

const char *kith_schedule_kind_name(kith_schedule_kind kind)
{
    return (unsigned)kind < (unsigned)KIND_COUNT ? kinds[kind] : NULL;
}

static bool is_same_word(const char *a, const char *b)
{
    for (; *a != '\0' && *b != '\0'; a++, b++) {
        int left = *a == '_' ? '-' : tolower((unsigned char)*a);
        int right = *b == '_' ? '-' : tolower((unsigned char)*b);
        if (left != right)
            return false;
    }
    return *a == *b;
}

kith_status kith_schedule_kind_named(const char *name, kith_schedule_kind *kind)
{
    if (kind == NULL)
        return ki_fail(KITH_ERR_INVALID_ARG, "kith_schedule_kind_named(): kind is NULL");
    char valid[256] = "";
    for (int i = 0; i < KITH_SCHEDULE_CUSTOM; i++) { /* custom plans are not made by name */
        if (name != NULL && is_same_word(name, kinds[i])) {
            *kind = (kith_schedule_kind)i;
            return KITH_OK;
        }
        size_t used = strlen(valid);
        snprintf(valid + used, sizeof(valid) - used, "%s%s", i > 0 ? ", " : "", kinds[i]);
    }
    return ki_fail(KITH_ERR_INVALID_ARG, "'%s' is no kind of pipeline schedule: valid are %s",
                   name != NULL ? name : "(null)", valid);
}
