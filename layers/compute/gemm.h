/* layers/compute/gemm.h - matrix products of the host.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_LAYERS_GEMM_H
#define KI_LAYERS_GEMM_H

#include "compute.h"

/* ki_compute_ops.gemm */
kith_status ki_gemm(ki_compute *self, ki_transpose of_a, ki_transpose of_b, double alpha, ki_mat a, ki_mat b,
                    double beta, ki_mat c);

#endif
