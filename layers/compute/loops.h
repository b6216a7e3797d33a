/* layers/compute/loops.h - the host's loops, one table for each instruction set.
 *
 * loops_template.h is the one source. loops_generic.c, loops_avx2.c and loops_avx512.c compile it with different flags,
 * each of them for the two types in which is computed: f32 and f64. A table has the functions of compute.h (gemm
 * excepted), so host.c only looks at a call's dtype and passes it on.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_LAYERS_LOOPS_H
#define KI_LAYERS_LOOPS_H

#include "attention.h"
#include "compute.h"
#include <stddef.h>

/* Elements that a loop has in hand at a time: a few buffers of them stay in the first-level cache. Sums over a row are
 * formed from those of its blocks. */
#define KI_BLOCK 512

typedef struct ki_loops {
    const char *isa;
    ki_compute_ops f32; /* matrices of f32, bf16 and f16 */
    ki_compute_ops f64;
    ki_attention_loops attention_f32; /* what attention and rotary are made of */
    ki_attention_loops attention_f64;
} ki_loops;

extern const ki_loops ki_loops_generic;
#ifdef KI_HAS_X86_LOOPS
extern const ki_loops ki_loops_avx2;
extern const ki_loops ki_loops_avx512;
#endif

/* The tables that this CPU can run, best first. NULL past the end. */
const ki_loops *ki_loops_at(size_t index);

/* The table that KITH_KERNELS names, if it runs here, else the best. */
const ki_loops *ki_loops_choose(void);

#endif
