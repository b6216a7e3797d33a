/* layers/compute/loops_avx2.c - the loops for AVX2 with FMA.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#define KI_LOOPS ki_loops_avx2
#define KI_ISA_NAME "avx2"
#include "loops_template.h"
