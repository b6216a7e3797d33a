/* schedules/csv_write.c - a plan as PyTorch's file: one line for each rank, a cell for each action (csv_cells.c).
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "exchange.h"

#include <string.h>

static bool has_word(kith_action_type type)
{
    switch (type) {
    case KITH_ACTION_RECOMPUTE:
    case KITH_ACTION_LOAD_INPUT:
    case KITH_ACTION_LOAD_TARGET:
    case KITH_ACTION_ZERO_GRAD:
    case KITH_ACTION_REDUCE_TIED:
    case KITH_ACTION_OPTIMIZER_STEP:
        return false;
    default:
        return true;
    }
}

static void write_list(const ki_action_list *list, ki_text *out, size_t *dropped)
{
    if (list->count == 1 && list->actions[0].type == KITH_ACTION_IDLE) {
        ki_text_add(out, "\"\"\n"); /* one empty cell; a line of nothing has none */
        return;
    }
    const char *separator = "";
    char first[64], second[64];
    for (size_t i = 0; i < list->count; i++) {
        const kith_action *a = &list->actions[i];
        if (!has_word(a->type)) {
            (*dropped)++;
            continue;
        }
        if (a->is_overlapped && i + 1 < list->count) {
            ki_text_add(out, "%s(%s;%s)OVERLAP_F_B", separator, kith_action_text(a, first, sizeof first),
                        kith_action_text(a + 1, second, sizeof second));
            i++;
        } else {
            kith_action_text(a, first, sizeof first);
            ki_text_append(out, separator, strlen(separator));
            ki_text_append(out, first, strlen(first));
        }
        separator = ",";
    }
    ki_text_add(out, "\n");
}

kith_status ki_write_torch(const kith_schedule *schedule, ki_text *out, size_t *dropped)
{
    for (int rank = 0; rank < schedule->ranks; rank++)
        write_list(&schedule->lists[rank], out, dropped);
    return KITH_OK;
}
