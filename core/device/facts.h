/* core/device/facts.h - the device of a context, and what ranks know of each other's.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_DEVICE_FACTS_H
#define KI_DEVICE_FACTS_H

#include "../object.h"

/* What all ranks know of one: ctx->device_facts[size], NULL when no rank asked for a device. */
struct ki_device_fact {
    int32_t has_device;
    int32_t has_nccl; /* the backend nccl can be used there */
    int32_t can_nccl; /* NCCL can be used there, whatever backend was asked for */
    int32_t reserved;
    uint64_t identity; /* of the device in its host: ranks of one host with equal ones share it */
};

/* Opens the device that was asked for and tells the others. Collective; wants: some rank asked for one. */
kith_status ki_ctx_open_device(kith_ctx *ctx, const char *wanted, bool wants);
void ki_ctx_close_device(kith_ctx *ctx);

#endif
