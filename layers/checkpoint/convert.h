/* layers/checkpoint/convert.h - numbers from one floating type to another, with any stride.
 *
 * f16, bf16, f32, f64. Narrowing rounds to nearest even, to infinity beyond the range; NaN stays NaN. The same type is
 * copied bit by bit.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_CHECKPOINT_CONVERT_H
#define KI_CHECKPOINT_CONVERT_H

#include <kith/dtype.h>
#include <stdbool.h>
#include <stdint.h>

bool ki_is_float(kith_dtype dtype);

/* count elements; strides in elements. They must not overlap. */
void ki_convert(const void *from, kith_dtype from_dtype, int64_t from_stride, void *to, kith_dtype to_dtype,
                int64_t to_stride, int64_t count);

#endif
