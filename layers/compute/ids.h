/* layers/compute/ids.h - numbers of words, on the host.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_LAYERS_IDS_H
#define KI_LAYERS_IDS_H

#include "compute.h"

/* ki_compute_ops.check_ids */
kith_status ki_check_ids(ki_compute *self, const int32_t *ids, int64_t rows, int64_t limit, int32_t ignored,
                         ki_ids_found *found);

#endif
