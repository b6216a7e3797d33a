/* core/group.h - groups from the inside.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_GROUP_H
#define KI_GROUP_H

#include "object.h"

/* Makes a group together with its other members. Collective over the members alone. */
kith_status ki_group_build(kith_ctx *ctx, const ki_group_spec *spec, kith_group **group);
/* A group for the library's own use out of members of `group`, all of which name the same ranks. It is called
 * "<group>.<suffix>" and has the group's deadline; `rank` is the caller's place among world_ranks. */
kith_status ki_group_build_part(kith_group *group, const char *suffix, const char *backend, const int *world_ranks,
                                int count, int rank, kith_group **part);

/* As kith_group_create(), for a list that every rank of parent computed alike (mesh axes): no agreement over parent.
 * world_ranks [count] contains the calling rank. salt tells groups made by the same call apart. mine: what this rank
 * has failed with before; then the group does not come about, on any of its members. */
kith_status ki_group_build_child(kith_group *parent, const int *world_ranks, int count,
                                 const kith_group_options *options, const char *default_name, uint64_t salt,
                                 kith_status mine, kith_group **group);

/* For members of parent that are in none of the groups that the others make with the function above. */
kith_status ki_group_stay_out(kith_group *parent);

/* Tells the transports of a group that it has ended, so that who is inside one of them comes out. Any thread. */
void ki_group_abort_transports(kith_group *group);

/* Takes it out of its context and frees it, pending requests end as aborted. */
void ki_group_dispose(kith_group *group);

/* Asks a backend once for everything it can do: table [KITH_COLL_COUNT]. */
kith_status ki_group_ask(const kith_backend *backend, void *bg, bool is_device, ki_native (*table)[KI_QUERY_OPS]);

/* Backend for these members when the user asked for `wanted` ("auto", a name). */
const char *ki_group_choose_backend(const kith_ctx *ctx, const char *wanted, const int *world_ranks, int size);

#endif
