/* layers/compute/loops_template.h - all loops for one instruction set: loops_type.h for f32 and for f64, and the table.
 * Its includer defines KI_LOOPS and KI_ISA_NAME.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
/* Elements of a loop do not depend on each other, also where a destination is a source: vector code is allowed. */
#define KI_VECTOR _Pragma("omp simd")

#include "arith.h"
#include "core/base/error.h"
#include "element.h"
#include "loop_exp.h"
#include "loops.h"
#include "philox.h"
#include "pool.h"
#include <assert.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

typedef uint16_t ki_half; /* bf16 or f16 */

/* Rows whose sum is formed before it is added to what there is (loop_blocks.h, sums over rows). */
#define KI_ROWS 32

/* Bytes of the vector registers, for the loops that are written with them (loop_blocks.h). */
#if defined(__AVX512F__)
#define KI_VECTOR_NBYTES 64
#elif defined(__AVX2__)
#define KI_VECTOR_NBYTES 32
#else
#define KI_VECTOR_NBYTES 16
#endif

#define KI_EACH_BLOCK(m, row, col)                                                                                     \
    for (int64_t row = 0; row < (m).rows; row++)                                                                       \
        for (int64_t col = 0; col < (m).cols; col += KI_BLOCK)

static inline int ki_block_of(int64_t first, int64_t cols)
{
    return cols - first < KI_BLOCK ? (int)(cols - first) : KI_BLOCK;
}

/* A matrix without gaps between its rows is one long row to a loop that looks at one element at a time. */
static inline bool ki_is_dense(ki_mat m)
{
    return m.stride == m.cols || m.data == NULL;
}

static inline ki_mat ki_flat(ki_mat m)
{
    m.cols *= m.rows;
    m.rows = m.cols > 0;
    m.stride = m.cols;
    return m;
}

#define real float
#define KI_REAL_DTYPE KITH_F32
#define FN(name) name##_f32
#include "loops_type.h"
#undef real
#undef KI_REAL_DTYPE
#undef FN

#define real double
#define KI_REAL_DTYPE KITH_F64
#define FN(name) name##_f64
#include "loops_type.h"
#undef real
#undef KI_REAL_DTYPE
#undef FN

const ki_loops KI_LOOPS = {
    .isa = KI_ISA_NAME,
    .f32 = KI_LOOPS_TABLE(f32),
    .f64 = KI_LOOPS_TABLE(f64),
    .attention_f32 = KI_ATTENTION_LOOPS(f32),
    .attention_f64 = KI_ATTENTION_LOOPS(f64),
};
