/* kith/op.h - reduction operators.
 *
 * Rules, the same on every backend that reduces with Kith's kernels:
 *   - sum and prod of integers wrap (two's complement, no undefined behaviour).
 *   - avg: integers: the exact sum, then one division that truncates toward zero; floats: accumulate, then one
 *     division. The sum of an average overflows where the accumulator does (f32, f64), for f16, bf16 and fp8 never.
 *   - premul_sum: every contribution is multiplied by the scalar before it is added. For floats the product and the sum
 *     are formed in the accumulator type (f32; f64 for f64); for integers the scalar must be a whole number that the
 *     dtype holds, and products wrap.
 *   - min and max propagate NaN: if a contribution is NaN the result is NaN. Of -0.0 and +0.0 either may be returned,
 *     but the same on all ranks.
 *   - band, bor, bxor need an integer dtype.
 * Contributions are combined in one documented order (see kith/coll.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KITH_OP_H
#define KITH_OP_H

#include <kith/dtype.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct kith_ctx;

/* X(symbol, number, name) */
#define KITH_OP_TABLE(X)                                                                                               \
    X(KITH_SUM, 0, "sum")                                                                                              \
    X(KITH_PROD, 1, "prod")                                                                                            \
    X(KITH_MIN, 2, "min")                                                                                              \
    X(KITH_MAX, 3, "max")                                                                                              \
    X(KITH_AVG, 4, "avg")                                                                                              \
    X(KITH_BAND, 5, "band")                                                                                            \
    X(KITH_BOR, 6, "bor")                                                                                              \
    X(KITH_BXOR, 7, "bxor")

/* An operator: one of the table's numbers, or one that kith_op_create_...() gave out. */
typedef int32_t kith_op;
enum {
#define KITH_OP_ENUM(symbol, number, name) symbol = number,
    KITH_OP_TABLE(KITH_OP_ENUM)
#undef KITH_OP_ENUM
};
#define KITH_OP_BUILTIN_COUNT 8

/* A reduction by the caller: inout[i] = in_left[i] (op) inout[i] for i in [0, count).
 * left comes from lower ranks of the combination order than inout. Must be associative; may be called on any rank,
 * any number of times, for pieces of any length, from the thread that waits. It must not call into the library. */
typedef void (*kith_reduce_fn)(const void *left, void *inout, size_t count, kith_dtype dtype, void *arg);

/* Makes premul_sum with this scalar. Local, cheap, no communication. Every rank makes its own, with the same scalar on
 * all ranks (check mode compares it). The number is valid on the groups of ctx until kith_op_destroy().
 * KITH_ERR_INVALID_ARG for a scalar that is not finite. */
KITH_API kith_status kith_op_create_premul_sum(struct kith_ctx *ctx, double scalar, kith_op *op);

/* Makes an operator from fn, for buffers in host memory. name appears in error texts and in the fingerprint that check
 * mode compares (copied, at most 31 bytes). is_commutative: 0 keeps the combination in rank order on every backend.
 * arg is handed to fn. */
KITH_API kith_status kith_op_create_user(struct kith_ctx *ctx, const char *name, kith_reduce_fn fn, int is_commutative,
                                         void *arg, kith_op *op);

/* Returns the number for reuse. KITH_ERR_BUSY while a request still uses it; KITH_ERR_INVALID_ARG for a number that
 * was not made here. */
KITH_API kith_status kith_op_destroy(struct kith_ctx *ctx, kith_op op);

/* "sum" and so on; "premul_sum" or the user's name need the context; ctx may be NULL for built-in operators.
 * "unknown op" otherwise. */
KITH_API const char *kith_op_name(const struct kith_ctx *ctx, kith_op op);

/* The inverse for built-in operators. KITH_ERR_INVALID_ARG lists the valid names. */
KITH_API kith_status kith_op_parse(const char *name, kith_op *op);

/* 1 when this built-in operator is defined on this dtype, else 0 (band, bor, bxor on floats). */
KITH_API int kith_op_is_defined(kith_op op, kith_dtype dtype);

#ifdef __cplusplus
}
#endif
#endif
