/* layers/compute/ids.c - are ids words, and how many of them count?
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "ids.h"

static bool is_outside(int32_t id, int64_t limit, int32_t ignored)
{
    return id != ignored && (id < 0 || id >= limit);
}

kith_status ki_check_ids(ki_compute *self, const int32_t *ids, int64_t rows, int64_t limit, int32_t ignored,
                         ki_ids_found *found)
{
    (void)self;
    *found = (ki_ids_found){ .row = -1 };
    for (int64_t row = 0; row < rows; row++) {
        found->counted += ids[row] != ignored;
        if (found->row < 0 && is_outside(ids[row], limit, ignored)) {
            found->row = row;
            found->id = ids[row];
        }
    }
    return KITH_OK;
}
