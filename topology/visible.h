/* topology/visible.h - the variables that hide GPUs from a process.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_TOPOLOGY_VISIBLE_H
#define KI_TOPOLOGY_VISIBLE_H

#include "model.h"

/* Marks GPUs of a live kind that CUDA_VISIBLE_DEVICES, ROCR_VISIBLE_DEVICES or HIP_VISIBLE_DEVICES leave out as not
 * allowed, with a doubt that tells the mask. */
void ki_visible_apply(kith_topology *t, ki_kind *kind);

#endif
