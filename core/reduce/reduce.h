/* core/reduce/reduce.h - arithmetic of reductions: one accumulator type per (dtype, operator), one order of
 * combination.
 *
 * raw: an element as the user stores it. acc: the accumulator: f32 for f16, bf16, fp8; f64 for f64; the type itself
 * for f32 and integers, except avg of integers, which is exact in 64 or 128 bits; avg of bf16 sums shares that are
 * smaller by a power of two, so that no sum leaves f32. Algorithms that pass partial results along send acc elements,
 * so a result is rounded once whatever the route.
 *
 * Order: ki_order is the tree of kith/coll.h for a group: a list of merges that an evaluator runs with a stack.
 * Algorithms that are trees themselves (recursive doubling, halving/doubling) follow it by construction; the direct
 * ones evaluate it.
 *
 * NaN: a result that is a NaN is the one quiet NaN with sign and payload zero (f32 0x7fc00000), whichever operand it
 * came from. A reduction over one rank is a copy (premul_sum excepted) and keeps its bits. The user's operators are
 * the user's.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_REDUCE_H
#define KI_REDUCE_H

#include <kith/backend.h>
#include <kith/op.h>
#include <stdbool.h>

/* Parameters of the operator beyond its number. */
typedef struct ki_op {
    int builtin;       /* KITH_SUM ...; KI_OP_PREMUL_SUM; KI_OP_USER */
    double scalar;     /* premul_sum */
    kith_reduce_fn fn; /* user */
    void *arg;
    bool is_commutative;
    char name[32];
} ki_op;
#define KI_OP_PREMUL_SUM 100
#define KI_OP_USER 101

/* The tree over p ranks. program: for each leaf or merge one entry: r >= 0 pushes rank r, -1 merges the two top
 * entries (lower one is the left operand). length 2p - 1. */
typedef struct ki_order {
    int size;
    int length;
    int depth;    /* entries that the stack needs */
    bool is_flat; /* the program is the one without hosts */
    int *program; /* [length] */
} ki_order;

/* Flat order for p ranks; with node_of (group's host indexes): first within each host, then among hosts by lowest
 * rank. node_of NULL: flat. The operands stay in rank order when each host's ranks are neighbours. KITH_ERR_NO_MEMORY.
 */
kith_status ki_order_create(int size, const int *node_of, ki_order *order);
void ki_order_destroy(ki_order *order);

/* Everything an algorithm needs. Filled on the stack for each operation: cheap, no allocation. base comes first, so a
 * pointer to it is what backends get. */
typedef struct ki_reducer {
    kith_be_reducer base;
    size_t acc_nbytes; /* of one accumulator element */
    bool is_identity;  /* acc == raw and load/store are copies */
    /* acc[i] = pre(raw[i]); may not overlap unless is_identity */
    void (*load)(const struct ki_reducer *self, const void *raw, void *acc, size_t count);
    /* out[i] = left[i] (op) right[i], all acc; out may be equal to left or right */
    void (*combine)(const struct ki_reducer *self, const void *left, const void *right, void *out, size_t count);
    /* raw[i] = round(post(acc[i])); post divides by the group's size for avg */
    void (*store)(const struct ki_reducer *self, const void *acc, void *raw, size_t count);
    const struct ki_kernels *kernels; /* the instruction set's loops ... */
    const struct ki_kernel *kernel;   /* ... and those of this dtype and operator */
    const ki_order *order;
    const ki_op *op;
    kith_dtype dtype;
} ki_reducer;

/* order->size ranks take part (avg divides by it). Precondition: ki_op_check() was OK. */
void ki_reducer_init(ki_reducer *reducer, kith_dtype dtype, const ki_op *op, const ki_order *order);

/* KITH_OK, or KITH_ERR_INVALID_ARG (bit operators on floats, premul scalar that the integer dtype does not hold). */
kith_status ki_op_check(const ki_op *op, kith_dtype dtype);

/* Which instruction set the kernels were chosen for: "avx512", "avx2", "generic". KITH_KERNELS forces one. */
const char *ki_kernels_isa(void);

/* memcpy with streaming stores above ki_stream_threshold() bytes when the CPU has them; fenced. For big copies whose
 * target is not read soon by this core. */
void ki_copy_stream(void *dst, const void *src, size_t nbytes);
size_t ki_stream_threshold(void);
void ki_set_stream_threshold(size_t nbytes); /* any thread */

/* Scalar conversions, also used by tests' callers and tools. */
float ki_f16_to_f32(uint16_t x);
uint16_t ki_f32_to_f16(float x);
float ki_bf16_to_f32(uint16_t x);
uint16_t ki_f32_to_bf16(float x);
float ki_f8e4m3_to_f32(uint8_t x);
uint8_t ki_f32_to_f8e4m3(float x);
float ki_f8e5m2_to_f32(uint8_t x);
uint8_t ki_f32_to_f8e5m2(float x);

#endif
