/* core/device/owned.h - who gave which memory of a device: the library's own record, so that memory is only freed
 * through the handle that it came from.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_DEVICE_OWNED_H
#define KI_DEVICE_OWNED_H

#include "device.h"

typedef enum ki_owned_kind { KI_OWNED_DEVICE, KI_OWNED_PINNED, KI_OWNED_POOL } ki_owned_kind;

typedef struct ki_owned {
    struct ki_owned *next;
    const void *ptr;
    const void *owner; /* the kith_device, or the kith_pool */
    ki_owned_kind kind;
    int ordinal;
} ki_owned;

/* Room for one; NULL: KITH_ERR_NO_MEMORY is told. Call it before the memory is asked for. */
ki_owned *ki_owned_new(ki_owned_kind kind, const void *owner, int ordinal);
/* ptr was given. Any thread, as all of this. */
void ki_owned_add(ki_owned *entry, const void *ptr);
/* Takes the record of ptr out, so that the same address may be given again at once. Fails with a sentence when ptr did
 * not come from this owner in this way. Then ki_owned_add() when the memory was not freed after all, else
 * ki_owned_drop(). */
kith_status ki_owned_take(const char *function, ki_owned_kind kind, const void *owner, const void *ptr,
                          ki_owned **entry);
void ki_owned_drop(ki_owned *entry);

#endif
