/* core/boot/launch.h - who am I, how many are we, where do we meet: the rules of kith/context.h.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_BOOT_LAUNCH_H
#define KI_BOOT_LAUNCH_H

#include "../base/config.h"

typedef struct ki_launch {
    int rank, size;
    int local_rank, local_size; /* -1, 0: not told */
    char source[64];            /* "torchrun environment", for texts and logs */
    char store[512];            /* URL of the store; "" when rank 0 must choose (see needs_broadcast) */
    bool needs_broadcast; /* rank 0 listens where it likes and tells the others through the module's launch_broadcast()
                           */
    const kith_backend *module; /* the backend whose launch() answered, or NULL */
} ki_launch;

/* Finds everything, or KITH_ERR_INVALID_ARG with what was found and what is missing. Validates: rank in range, numbers
 * that are numbers, LOCAL_* that fit. modules: usable backends with a launch() slot. */
kith_status ki_launch_detect(const kith_init_options *options, const ki_config *config,
                             const kith_backend *const *modules, size_t module_count, ki_launch *launch);

/* Identity of this host: processes with equal identity can share memory (host name, boot id, pid namespace; KITH_HOSTID
 * overrides). Written as text. */
void ki_host_identity(const ki_config *config, char *text, size_t nbytes);

#endif
