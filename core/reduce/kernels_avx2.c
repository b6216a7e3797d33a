/* core/reduce/kernels_avx2.c - the kernels for AVX2 and F16C.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#define KI_TABLE ki_kernels_avx2
#define KI_ISA_NAME "avx2"
#include "kernels_template.h"
