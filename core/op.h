/* core/op.h - from operator numbers to operators.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_OP_H
#define KI_OP_H

#include "object.h"

/* NULL when the number is no operator of ctx. The address stays until kith_op_destroy(). */
const ki_op *ki_op_get(const kith_ctx *ctx, kith_op op);

/* Equal on all ranks where the operator does the same: by name and, of premul_sum, the scalar. Numbers of operators
 * that were created are each rank's own. */
uint64_t ki_op_hash(const kith_ctx *ctx, kith_op op);

/* Counts requests that hold a dynamic operator; nothing for built-in ones. */
void ki_op_use(kith_ctx *ctx, kith_op op);
void ki_op_unuse(kith_ctx *ctx, kith_op op);

void ki_ops_fini(kith_ctx *ctx);

#endif
