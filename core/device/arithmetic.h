/* core/device/arithmetic.h - plans (core/algo) on device memory: copies by the device, and arithmetic by its kernels.
 *
 * For collectives that go straight to a transport which takes device memory. A plan that reduces has its scratch on
 * the device too. The steps are those of the host's plan with the host's arithmetic, so the results have the same
 * bits. Each is done when the executor goes on, since messages that follow read what it wrote.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_DEVICE_ARITHMETIC_H
#define KI_DEVICE_ARITHMETIC_H

#include "group.h"

/* Can the device compute this operator? */
bool ki_device_computes(const kith_ctx *ctx, const ki_op *op);
/* Loads what computes, so that no operation waits for it. */
kith_status ki_device_prepare(const kith_ctx *ctx);
/* Where the plan of a collective works; its argument is the request. */
extern const ki_site ki_device_moves, ki_device_reduces;
/* Gives back the plan's scratch. */
void ki_device_plan_end(kith_request *request);

#endif
