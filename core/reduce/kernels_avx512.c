/* core/reduce/kernels_avx512.c - the kernels for AVX-512 F, BW, DQ and VL.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#define KI_TABLE ki_kernels_avx512
#define KI_ISA_NAME "avx512"
#include "kernels_template.h"
