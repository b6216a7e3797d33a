/* topology/plan_print.h - what the two forms of a plan's report share.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_TOPOLOGY_PLAN_PRINT_H
#define KI_TOPOLOGY_PLAN_PRINT_H

#include "core/text.h"
#include <kith/plan.h>

/* All rows of an axis together. */
typedef struct ki_layout_axis_sum {
    double ops, wire_nbytes, time_s[KITH_PLAN_LINKS];
    double placed_s; /* -1: not placed */
} ki_layout_axis_sum;
ki_layout_axis_sum ki_layout_sum_axis(const kith_plan *plan, const char *axis);

/* Placed, else on NVLink. */
double ki_layout_best_step(const kith_plan *plan);

void ki_layout_print_json(ki_text *out, const kith_plan *plan);

#endif
