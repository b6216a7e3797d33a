/* topology/plan_names.c - words for schedules and recomputation, as the command takes and prints them.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "plan_parts.h"

static const char *const schedule_names[] = {
    [KITH_SCHEDULE_NAIVE] = "naive", [KITH_SCHEDULE_GPIPE] = "gpipe",
    [KITH_SCHEDULE_1F1B] = "1f1b",   [KITH_SCHEDULE_INTERLEAVED] = "interleaved",
    [KITH_SCHEDULE_ZB_H1] = "zb-h1", [KITH_SCHEDULE_ZB_H2] = "zb-h2",
    [KITH_SCHEDULE_ZB_V] = "zb-v",
};

static const char *const recompute_names[] = {
    [KITH_RECOMPUTE_NONE] = "none",
    [KITH_RECOMPUTE_SELECTIVE] = "selective",
    [KITH_RECOMPUTE_FULL] = "full",
};

const char *kith_plan_schedule_name(kith_plan_schedule schedule)
{
    return (unsigned)schedule <= KITH_SCHEDULE_ZB_V ? schedule_names[schedule] : NULL;
}

const char *kith_recompute_name(kith_recompute recompute)
{
    return (unsigned)recompute <= KITH_RECOMPUTE_FULL ? recompute_names[recompute] : NULL;
}
