/* core/reduce/convert.c - the scalar conversions of reduce.h: convert.h's inline code as functions.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "convert.h"
#include "reduce.h"

float ki_f16_to_f32(uint16_t x)
{
    return widen_f16(x);
}

uint16_t ki_f32_to_f16(float x)
{
    return narrow_f16(x);
}

float ki_bf16_to_f32(uint16_t x)
{
    return widen_bf16(x);
}

uint16_t ki_f32_to_bf16(float x)
{
    return narrow_bf16(x);
}

float ki_f8e4m3_to_f32(uint8_t x)
{
    return widen_f8e4m3(x);
}

uint8_t ki_f32_to_f8e4m3(float x)
{
    return narrow_f8e4m3(x);
}

float ki_f8e5m2_to_f32(uint8_t x)
{
    return widen_f8e5m2(x);
}

uint8_t ki_f32_to_f8e5m2(float x)
{
    return narrow_f8e5m2(x);
}
