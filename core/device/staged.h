/* core/device/staged.h - collectives on device memory through pinned memory of the host.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_DEVICE_STAGED_H
#define KI_DEVICE_STAGED_H

#include "group.h"

/* Sequence numbers that the operation uses up: one for each piece. */
uint64_t ki_staged_pieces(const kith_request *request);

kith_status ki_staged_start(kith_request *request);
kith_status ki_staged_step(kith_request *request, bool *is_done);
void ki_staged_cancel(kith_request *request);
void ki_staged_finish(kith_request *request);
/* The host operation that runs, NULL: none. For texts. */
kith_request *ki_staged_inner(const kith_request *request);

#endif
