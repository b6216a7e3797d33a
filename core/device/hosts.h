/* core/device/hosts.h - all_reduce on device memory of a group over several hosts: NCCL inside each host, the host's
 * transport between them.
 *
 * Such a group gets two internal groups when the setting device_hier says so: inside (the members of this host, over
 * NCCL) and across (those with the same place in their hosts, over the group's own backend, straight or staged). Every
 * host must have the same number of members, two at least, each with a device of its own; else the group goes the ways
 * it has.
 *
 *   inside   reduce_scatter: each rank has the sum of one part of the elements over its host
 *   across   all_reduce of the part, by all ranks of a host at the same time
 *   inside   all_gather
 *
 * What a division by the members of a host leaves over belongs to the last rank's part, reduced to it and broadcast
 * from it. With auto this is done where NCCL cannot be had over all hosts; where it can, it knows the network better.
 *
 * Order of arithmetic: NCCL's inside each host, then the documented order over the hosts; the type is the elements' own
 * throughout. avg divides by the members of a host first, then by the hosts, so it is left to the other ways for
 * integers. With deterministic=on only what NCCL has in the documented order goes this way.
 *
 * The request stands in the group's queue like one that is staged. One that ends early ends the group on all ranks: a
 * rank that waits for another host hears of it through the store.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_DEVICE_HOSTS_H
#define KI_DEVICE_HOSTS_H

#include "group.h"

/* The internal groups, if the group is to have them. Collective over the members, which all decide alike. */
kith_status ki_device_hosts_open(kith_group *group);
void ki_device_hosts_close(kith_group *group);
/* With the group. */
void ki_device_hosts_fail(kith_group *group);
void ki_device_hosts_abort(kith_group *group);

/* Does this operation go so? A function of the operation and of tables that were agreed. */
bool ki_device_hosts_can(const kith_group *group, const kith_be_coll *coll, const ki_op *op);

/* One operation; the buffers are ready. */
typedef struct ki_device_hosts ki_device_hosts;
kith_status ki_device_hosts_start(kith_request *request, ki_device_hosts **hosts);
kith_status ki_device_hosts_step(ki_device_hosts *hosts, bool *is_done);
void ki_device_hosts_cancel(kith_request *request, ki_device_hosts *hosts);
void ki_device_hosts_free(ki_device_hosts *hosts); /* NULL is fine */

#endif
