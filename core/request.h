/* core/request.h - requests from the inside: how they are made, stepped and ended.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_REQUEST_H
#define KI_REQUEST_H

#include "object.h"

/* A pooled request for the group. NULL (with a detail text) without memory. */
kith_request *ki_request_create(kith_group *group, ki_request_kind kind);

/* Appends a checked collective (request->coll and op filled) to its group's queue and steps it once. */
kith_status ki_coll_post(kith_request *request);

/* Advances the head of a queue; removes it from the queue when it ended (state DONE, status set). */
void ki_coll_step(kith_request *request);

/* Starts a message (request->msg filled) and steps it once. */
kith_status ki_message_post(kith_request *request);
void ki_message_step(kith_request *request);

/* Takes a queued or running request out, so that its buffers are not touched any more. State becomes DONE. */
void ki_request_cancel(kith_request *request, kith_status status);

/* Ends an active request that failed: says which it was, and the group ends where it must. */
void ki_request_fail(kith_request *request, kith_status status);

/* The deadline of an active request has passed: tells who is missing, cancels it, releases it. */
kith_status ki_request_time_out(kith_request *request, int64_t timeout_ms, bool may_wait);

/* NULL, or a request that is running or was not collected yet. */
kith_status ki_request_check_handle(kith_request **request, const char *function);

/* Waits for one request and releases it unless it is persistent. timeout_ms: KITH_TIMEOUT_DEFAULT, NONE or a number.
 * received (bytes) may be NULL. */
kith_status ki_request_wait(kith_request *request, int64_t timeout_ms, size_t *received);

/* Releases a DONE request and returns its status, with its detail as the thread's. */
kith_status ki_request_collect(kith_request *request);

/* Ends everything that runs on the group with its status. */
void ki_group_end_requests(kith_group *group);

/* Persistent requests of the group (NULL: of the context) that exist are released. */
void ki_release_persistent(kith_ctx *ctx, const kith_group *group);

/* One line that names the operation: "all_reduce f32 x64 sum seq 7", "send 12 B to rank 3 tag 9". */
void ki_request_describe(const kith_request *request, char *text, size_t nbytes);
void ki_message_describe(ki_request_kind kind, const kith_be_msg *msg, char *text, size_t nbytes);
void ki_coll_describe(const kith_ctx *ctx, const kith_be_coll *coll, kith_op op, char *text, size_t nbytes);

#endif
