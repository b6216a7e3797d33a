/* kith/request.h - operations that were started and not yet waited for.
 *
 * Buffers belong to the library from the start until completion is reported. Completion is reported once: a wait or
 * test that reports it releases the request and sets the caller's pointer to NULL (persistent requests stay and can
 * be started again). Nothing advances on its own: a test, a wait or kith_progress() on the context advances all its
 * requests.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KITH_REQUEST_H
#define KITH_REQUEST_H

#include <kith/group.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct kith_request kith_request;

#define KITH_TIMEOUT_DEFAULT (-1) /* the group's */
#define KITH_TIMEOUT_NONE 0

/* Never blocks. *is_done = 1 when the operation ended; the return value is then its status. *request NULL counts as
 * done. */
KITH_API kith_status kith_test(kith_request **request, int *is_done);

/* Blocks until the operation ends; its status is returned. *request NULL returns KITH_OK. The group's deadline counts
 * from the start of the operation. */
KITH_API kith_status kith_wait(kith_request **request);

/* The same with a deadline in milliseconds from now; also KITH_TIMEOUT_DEFAULT or KITH_TIMEOUT_NONE. When it passes,
 * the call may take 0.4 s more to learn where the others are, for the text (at most once in a second). After
 * KITH_ERR_TIMEOUT the operation is cancelled: the buffers are not touched again; on collectives, and on messages that
 * NCCL carries, the group is unusable (its status is the timeout); the request is released. */
KITH_API kith_status kith_wait_timeout(kith_request **request, int64_t timeout_ms);

/* Waits for all; the first failure in array order is returned, all are waited for and released. NULL entries are
 * skipped. */
KITH_API kith_status kith_wait_all(kith_request **requests, size_t count);

/* Waits until one of the entries ends; *index says which (count when all entries are NULL). Returns that operation's
 * status. Deadlines of groups count from this call. */
KITH_API kith_status kith_wait_any(kith_request **requests, size_t count, size_t *index);

/* Starts a persistent request again (made by kith_coll_init() and the like). KITH_ERR_BUSY while it runs. */
KITH_API kith_status kith_request_start(kith_request *request);

/* kith_wait() for a receive that also tells how many bytes came. Other requests give 0. nbytes may be NULL. */
KITH_API kith_status kith_wait_received(kith_request **request, size_t *nbytes);

/* Bytes that a completed persistent receive took; valid until its next start. */
KITH_API kith_status kith_request_received(const kith_request *request, size_t *nbytes);

/* Frees a persistent request that is not running (KITH_ERR_BUSY otherwise). Sets *request to NULL. NULL is fine. */
KITH_API kith_status kith_request_free(kith_request **request);

#ifdef __cplusplus
}
#endif
#endif
