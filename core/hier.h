/* core/hier.h - collectives of groups that span hosts: inside each host first, then between hosts, then inside again.
 *
 * A group gets two internal groups at its creation when the setting hier says so: node (the members of this host,
 * over shm) and leaders (the lowest rank of each host, over the group's own backend; NULL elsewhere). A plan is a
 * short list of ordinary collectives on these, one after the other:
 *   all_reduce   reduce in the node, all_reduce among leaders, broadcast in the node
 *   broadcast    in the root's node, among leaders, in the other nodes
 *   all_gather   in the node, all_gather_v among leaders in place, broadcast in the node (ranks of a host side by side)
 *   barrier      node, leaders, node
 * Partial results travel in the accumulator type, so a result is rounded once, as everywhere.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_HIER_H
#define KI_HIER_H

#include "object.h"

bool ki_hier_can(const kith_group *group, const kith_be_coll *coll, const ki_op *op);
kith_status ki_hier_start(kith_request *request);
kith_status ki_hier_step(kith_request *request, bool *is_done);
void ki_hier_cancel(kith_request *request);
void ki_hier_release(kith_request *request);

#endif
