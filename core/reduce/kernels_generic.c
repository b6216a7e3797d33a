/* core/reduce/kernels_generic.c - the kernels for the instruction set that the whole library is compiled for.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#define KI_TABLE ki_kernels_generic
#define KI_ISA_NAME "generic"
#include "kernels_template.h"
