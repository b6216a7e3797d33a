/* layers/compute/loops_type.h - all loops for one type of computation, `real`. Included once for f32 and once for f64;
 * FN(name) is the function's name with the type behind it.
 *
 * bf16 and f16 have no loops of their own: a loop works on blocks of real, and what is stored in another type is
 * converted on the way in and out (loop_blocks.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "loop_blocks.h"

#include "loop_elements.h"

#include "loop_activation.h"
#include "loop_attention.h"
#include "loop_dropout.h"
#include "loop_loss.h"
#include "loop_norm.h"
#include "loop_parameters.h"
#include "loop_rotary.h"
#include "loop_rows.h"

/* Each of the files above ends with the list of its functions: X(function of ki_compute_ops, type). */
#define KI_LOOPS_ROW(name, type) .name = name##_##type,
#define KI_LOOPS_TABLE(type)                                                                                           \
    {                                                                                                                  \
        KI_ELEMENT_LOOPS(KI_LOOPS_ROW, type)                                                                           \
        KI_ACTIVATION_LOOPS(KI_LOOPS_ROW, type)                                                                        \
        KI_DROPOUT_LOOPS(KI_LOOPS_ROW, type)                                                                           \
        KI_NORM_LOOPS(KI_LOOPS_ROW, type)                                                                              \
        KI_LOSS_LOOPS(KI_LOOPS_ROW, type)                                                                              \
        KI_ROW_LOOPS(KI_LOOPS_ROW, type)                                                                               \
        KI_PARAMETER_LOOPS(KI_LOOPS_ROW, type)                                                                         \
        KI_ATTENTION_DRIVERS                                                                                           \
    }
