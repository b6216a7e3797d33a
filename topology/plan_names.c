/* topology/plan_names.c - words for recomputation, as the command takes and prints them.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "plan_parts.h"

static const char *const recompute_names[] = {
    [KITH_RECOMPUTE_NONE] = "none",
    [KITH_RECOMPUTE_SELECTIVE] = "selective",
    [KITH_RECOMPUTE_FULL] = "full",
};

const char *kith_recompute_name(kith_recompute recompute)
{
    return (unsigned)recompute <= KITH_RECOMPUTE_FULL ? recompute_names[recompute] : NULL;
}
