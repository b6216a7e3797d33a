/* layers/compute/loops_generic.c - the loops for the instruction set that the whole library is compiled for.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#define KI_LOOPS ki_loops_generic
#define KI_ISA_NAME "generic"
#include "loops_template.h"
