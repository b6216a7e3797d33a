/* core/join.h - the part of kith_init() in which ranks tell each other who they are.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_JOIN_H
#define KI_JOIN_H

#include "object.h"

/* Fills job_id, node_of, node_count, local_rank, local_size, is_threads, spin; compares versions and settings that
 * must agree. Collective over all ranks; the store is open. mine: what went wrong on this rank so far. wants_device:
 * this rank wants a GPU; on success *some_want_device tells whether any rank does. */
kith_status ki_join(kith_ctx *ctx, kith_status mine, bool wants_device, bool *some_want_device);

#endif
