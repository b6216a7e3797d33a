/* layers/compute/loops_avx512.c - the loops for AVX-512 F, BW, DQ and VL.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#define KI_LOOPS ki_loops_avx512
#define KI_ISA_NAME "avx512"
#include "loops_template.h"
