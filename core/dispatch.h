/* core/dispatch.h - which way a collective goes, and its steps.
 *
 *   local    groups of one rank: a copy, or the reduction of one contribution
 *   native   the backend's own collective
 *   algo     a plan of core/algo over the backend's messages
 *   hier     a plan over the group's node and leader groups
 *   staged   device memory: copied to the host, run as one of these, copied back (device/staged.h)
 *
 * The way is a pure function of (operation, group) where the group's tables were agreed at its creation, so all ranks
 * go the same way.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_DISPATCH_H
#define KI_DISPATCH_H

#include "object.h"

/* How op appears in a group's native table. */
int ki_op_column(const ki_op *op);

/* Does the backend have it as a collective of its own, on host memory or on device memory? */
bool ki_dispatch_is_native(const kith_group *group, const kith_be_coll *coll, const ki_op *op, bool is_device);

/* Nothing to move, on any rank. */
bool ki_coll_is_empty(const kith_be_coll *coll);

/* The way; for KI_PATH_ALGO also the algorithm. Fails when a forced algorithm does not exist or cannot do it. */
kith_status ki_dispatch_path(const kith_group *group, const kith_be_coll *coll, const ki_op *op,
                             const ki_algo_args *args, ki_path *path, const ki_algo **algo);

/* For the head of a queue, see request.c. begin: chooses; check mode first compares fingerprints. */
kith_status ki_dispatch_begin(kith_request *request);
kith_status ki_dispatch_check(kith_request *request, bool *is_done);
kith_status ki_dispatch_start(kith_request *request);
/* The same for a request that stands in no queue: part of another one, which was checked. */
kith_status ki_dispatch_start_part(kith_request *part);
void ki_dispatch_fill(kith_request *request); /* request->args, for those who need them before */
kith_status ki_dispatch_step(kith_request *request, bool *is_done);
void ki_dispatch_cancel(kith_request *request);
void ki_dispatch_finish(kith_request *request);  /* ended, one way or the other */
void ki_dispatch_release(kith_request *request); /* memory beyond the request */

/* malloc'ed mask of ranks that the operation waits for, NULL when unknown. */
unsigned char *ki_dispatch_missing(kith_request *request);

/* Blocking native collective without a request. Precondition: the group's queue is empty. */
kith_status ki_dispatch_run_native(kith_group *group, kith_be_coll *coll, kith_op op);

/* Group of one rank. */
void ki_dispatch_local(const kith_be_coll *coll, const ki_reducer *reducer);

#endif
