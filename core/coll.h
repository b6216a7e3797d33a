/* core/coll.h - collectives from the inside.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_COLL_H
#define KI_COLL_H

#include "object.h"

/* Checks args and makes a request that was not posted yet (ki_coll_post). In check mode invalid arguments make a
 * request as well, which tells the others. */
kith_status ki_coll_make(kith_group *group, const kith_coll_args *args, bool is_persistent, kith_request **request);

/* Checks a descriptor whose pointers and counts are filled in: dtype, operator, root, NULL, overflow, overlap. */
kith_status ki_coll_check(const kith_group *group, kith_be_coll *coll, kith_op op);

/* The v-forms: counts come in arrays. */
bool ki_coll_has_arrays(kith_coll_kind kind);

/* What args says, as a backend sees it. nbytes and displacements are not set yet. */
void ki_coll_fill(const kith_coll_args *args, kith_be_coll *coll);

#endif
