/* core/reduce/kernels.h - the inner loops, one table of them for each instruction set.
 *
 * kernels_template.h is the one source; kernels_generic.c, kernels_avx2.c and kernels_avx512.c compile it with
 * different flags (see CMakeLists.txt). All tables give the same bits: each output element is computed by the same
 * chain of IEEE operations, and a NaN that an operator makes or passes on is the one quiet NaN 0x7fc00000 (f64:
 * 0x7ff8...), since which operand's payload survives an addition depends on how a compiler orders its operands.
 *
 * Pointers may have any alignment. Counts are elements. A destination may be equal to a source.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_REDUCE_KERNELS_H
#define KI_REDUCE_KERNELS_H

#include "reduce.h"

#define KI_NARY_FIRST 3 /* source counts that have a loop of their own */
#define KI_NARY_LAST 8

typedef void (*ki_load_fn)(const ki_reducer *self, const void *raw, void *acc, size_t count);
typedef void (*ki_combine_fn)(const ki_reducer *self, const void *left, const void *right, void *out, size_t count);
typedef void (*ki_store_fn)(const ki_reducer *self, const void *acc, void *raw, size_t count);
/* first[i] = second[i] = store(load(left[i]) (op) load(right[i])); second may be NULL */
typedef void (*ki_pair_fn)(const ki_reducer *self, const void *left, const void *right, void *first, void *second,
                           size_t count);
/* dst[i] = src[0][i] (op) ... in the flat order, all acc */
typedef void (*ki_nary_fn)(const void *const *src, void *dst, size_t count);

/* The loops of one (dtype, operator). */
typedef struct ki_kernel {
    ki_load_fn load; /* NULL: acc is raw, a copy */
    ki_combine_fn combine;
    ki_store_fn store; /* NULL: a copy */
    ki_pair_fn pair;
    ki_pair_fn pair_stream; /* streaming stores, not fenced; destinations as in can_stream() of reduce.c; may be NULL */
    ki_nary_fn nary[KI_NARY_LAST - KI_NARY_FIRST + 1]; /* NULL where load is not a copy */
    size_t acc_nbytes;
} ki_kernel;

#define KI_KERNEL_PREMUL 8 /* column after the built-in operators */
#define KI_KERNEL_OPS 9

typedef struct ki_kernels {
    const char *isa;
    ki_kernel table[KITH_DTYPE_COUNT][KI_KERNEL_OPS];               /* combine NULL: not defined on this dtype */
    void (*copy_stream)(void *dst, const void *src, size_t nbytes); /* memcpy with streaming stores, not fenced */
    void (*fence)(void);
} ki_kernels;

#if defined(__x86_64__) && !defined(KI_GENERIC_KERNELS_ALONE)
#define KI_HAS_X86_KERNELS 1
#endif

extern const ki_kernels ki_kernels_generic;
#ifdef KI_HAS_X86_KERNELS
extern const ki_kernels ki_kernels_avx2;
extern const ki_kernels ki_kernels_avx512;
#endif

/* The tables that this CPU can run, best first. NULL past the end. */
const ki_kernels *ki_kernels_at(size_t index);

/* The table in use. The first call chooses: KITH_KERNELS if it names one that runs here, else the best. */
const ki_kernels *ki_kernels_get(void);

/* Makes another table the one in use, for reducers initialised from now on. False when isa cannot run here. For tests.
 */
bool ki_kernels_select(const char *isa);

#endif
