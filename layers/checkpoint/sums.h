/* layers/checkpoint/sums.h - the CRC-32 of every tensor of a file, computed by all ranks together.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_CHECKPOINT_SUMS_H
#define KI_CHECKPOINT_SUMS_H

#include "header.h"
#include <kith/group.h>

/* Each rank reads an equal share of the data; all get all sums, [count]. Tensors are the same on all ranks. Collective
 * over group (NULL: this rank alone); all get one status. */
kith_status ki_sums(kith_group *group, int fd, const char *path, const ki_stored *tensors, size_t count,
                    uint32_t *sums);

#endif
