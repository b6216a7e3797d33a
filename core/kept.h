/* core/kept.h - kept plans: a blocking collective that was run before on the group is run again without being planned.
 *
 * What a plan depends on is in its key: collective, count, dtype, operator, root, and whether it is in place. A group
 * holds the last KI_KEPT_MOST of them, each in a request of its own that stays out of the pool. A call that finds its
 * key there sets the two pointers, and the request is posted like any other: queue, flight record, failures, deadlines
 * and aborts are those of every request (request.c). What falls away is making a request and emitting its plan.
 *
 * Memory: the plans of a group share one piece of scratch, since only one of them runs at a time. A plan whose steps
 * take more than KI_KEPT_PLAN_NBYTES or whose scratch is longer than KI_KEPT_TEMP_NBYTES is not kept.
 *
 * Not for check mode, hierarchical groups, operators that can be destroyed, counts in arrays, or device memory.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_KEPT_H
#define KI_KEPT_H

#include "object.h"

#define KI_KEPT_MOST 16
#define KI_KEPT_PLAN_NBYTES ((size_t)128 << 10)
#define KI_KEPT_TEMP_NBYTES ((size_t)16 << 20)

/* All that the plan of a collective depends on, in a group. */
typedef struct ki_kept_key {
    size_t count;
    kith_coll_kind kind;
    kith_dtype dtype;
    kith_op op;
    int root;
    bool is_in_place;
} ki_kept_key;

typedef struct ki_kept_plan {
    ki_kept_key key;
    kith_request *request; /* idle between calls */
} ki_kept_plan;

typedef struct ki_kept {
    ki_kept_plan plans[KI_KEPT_MOST]; /* the one used last comes first */
    int count;
    unsigned char *temp; /* scratch; with the request while one runs */
    size_t temp_capacity;
} ki_kept;

/* May the plan of a blocking collective on host memory be kept? */
bool ki_kept_may(const kith_group *group, const kith_coll_args *args);

/* Runs it, from a kept plan or from one that is kept from now on. Precondition: ki_kept_may(). */
kith_status ki_kept_run(kith_group *group, const kith_coll_args *args);

/* Lets all go; with the group. */
void ki_kept_release(kith_group *group);

#endif
