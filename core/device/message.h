/* core/device/message.h - messages on device memory through pinned memory of the host.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_DEVICE_MESSAGE_H
#define KI_DEVICE_MESSAGE_H

#include "group.h"

/* Must a message on host memory wait, because one of the same kind, peer and tag that was posted before it waits for
 * its buffer? */
bool ki_message_must_wait(const kith_group *group, ki_request_kind kind, int peer, uint64_t tag);

/* request->way is staged or waiting. */
kith_status ki_staged_message_start(kith_request *request);
kith_status ki_staged_message_step(kith_request *request, bool *is_done);
void ki_staged_message_cancel(kith_request *request);
void ki_staged_message_finish(kith_request *request);

#endif
