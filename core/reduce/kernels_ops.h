/* core/reduce/kernels_ops.h - what the loops of kernels_template.h need beside the arithmetic of one element.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_REDUCE_KERNELS_OPS_H
#define KI_REDUCE_KERNELS_OPS_H

#include "elements.h"
#include <stddef.h>

/* Elements in the caller's memory: any alignment, any declared type. */
#define MEMORY_TYPE(T) typedef T T##_mem __attribute__((aligned(1), may_alias))
MEMORY_TYPE(u8);
MEMORY_TYPE(u16);
MEMORY_TYPE(u32);
MEMORY_TYPE(u64);
MEMORY_TYPE(i8);
MEMORY_TYPE(i16);
MEMORY_TYPE(i32);
MEMORY_TYPE(i64);
MEMORY_TYPE(i128);
MEMORY_TYPE(f32);
MEMORY_TYPE(f64);

/* Promises the compiler that iterations do not depend on each other (sources and destinations are equal or disjoint).
 */
#ifdef __clang__
#pragma clang diagnostic ignored "-Wpass-failed" /* not every loop is worth vector code on every instruction set */
#define INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#define UNROLLED INDEPENDENT /* it does so by itself */
#else
#define INDEPENDENT _Pragma("GCC ivdep")
#ifdef KI_CHECKED_BUILD
#define UNROLLED INDEPENDENT
#else
#define UNROLLED INDEPENDENT _Pragma("GCC unroll 4")
#endif
#endif

#endif
