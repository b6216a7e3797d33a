/* kith/group.h - ordered sets of ranks that communicate.
 *
 * Rank arguments of every function that takes a group are ranks of that group, 0 to size-1; world ranks appear only
 * in the functions that have "world" in their name.
 *
 * Creation is collective over the parent group: all its ranks call, in the same order relative to other collectives on
 * the parent, and all get the same status. A rank that is not a member gets *group = NULL and KITH_OK. No rank is left
 * waiting: a rank whose own set-up failed still takes part and its status becomes everybody's.
 *
 * Operations posted on one group run in the order of posting; operations on different groups progress independently, in
 * any order.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KITH_GROUP_H
#define KITH_GROUP_H

#include <kith/context.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct kith_group kith_group;

/* Fill with KITH_GROUP_OPTIONS_INIT. Zero and NULL mean the default. All members pass the same values. */
typedef struct kith_group_options {
    size_t struct_size;
    const char *name;    /* for texts and traces; default "<parent>/<n>"; copied, at most 63 bytes */
    const char *backend; /* default: the parent's, except that one-host groups of an "auto" context use shm */
    int64_t timeout_ms;  /* default deadline of waits on this group; 0: the parent's; negative: none */
    int is_check;        /* 1: compare fingerprints before every collective; 0: the context's KITH_CHECK */
} kith_group_options;

#define KITH_GROUP_OPTIONS_INIT { sizeof(kith_group_options), NULL, NULL, 0, 0 }

/* ranks[i] (a rank of parent) becomes rank i of the new group. Any order, no repetition, the same list on every rank of
 * the parent. count 0 is KITH_ERR_INVALID_ARG. options may be NULL. Collective over parent, blocks. */
KITH_API kith_status kith_group_create(kith_group *parent, const int *ranks, size_t count,
                                       const kith_group_options *options, kith_group **group);

#define KITH_NO_COLOR (-1)

/* Ranks of equal color (>= 0) form one group, ordered by key, ties by rank in the parent. KITH_NO_COLOR: *group = NULL,
 * but the call is still needed. Collective over parent, blocks. */
KITH_API kith_status kith_group_split(kith_group *parent, int color, int key, const kith_group_options *options,
                                      kith_group **group);

/* The same ranks in the same order, with separate messages, sequence and failure. Collective, blocks. */
KITH_API kith_status kith_group_dup(kith_group *parent, const kith_group_options *options, kith_group **group);

/* Frees a group. Collective in MPI's sense (every member calls it) but does not wait for the others. Pending requests
 * end with KITH_ERR_ABORTED and are still to be waited for; persistent requests on it and memory of kith_mem_alloc()
 * are gone. The world and the groups of a mesh cannot be destroyed (KITH_ERR_INVALID_ARG). NULL is fine. A second
 * call on the same handle is KITH_ERR_INVALID_ARG until 64 more groups were destroyed: then it may name a new one. */
KITH_API kith_status kith_group_destroy(kith_group *group);

/* Ends everything on the group now: pending and later operations return KITH_ERR_ABORTED, here at once (well under a
 * second), on other ranks as soon as they learn of it. Local, immediate, callable from any thread while the group
 * lives. Only kith_group_destroy() and queries work afterwards. */
KITH_API kith_status kith_group_abort(kith_group *group);

KITH_API int kith_group_rank(const kith_group *group); /* -1 when invalid */
KITH_API int kith_group_size(const kith_group *group); /* -1 when invalid */
KITH_API const char *kith_group_name(const kith_group *group);
KITH_API const char *kith_group_backend(const kith_group *group);
KITH_API kith_ctx *kith_group_ctx(const kith_group *group);

/* World rank of a group rank, and back; -1 when there is none. */
KITH_API int kith_group_world_rank(const kith_group *group, int rank);
KITH_API int kith_group_rank_of_world(const kith_group *group, int world_rank);

/* Rank in `to` of the member that has rank `rank` in `from`; KITH_ERR_INVALID_ARG when it is not in both. */
KITH_API kith_status kith_group_translate_rank(const kith_group *from, int rank, const kith_group *to, int *to_rank);

/* Default deadline of waits on this group, from now on. 0: none. Local. */
KITH_API kith_status kith_group_set_timeout(kith_group *group, int64_t timeout_ms);

/* The status the group is in: KITH_OK, or why it cannot be used any more (aborted, peer failed, timeout). */
KITH_API kith_status kith_group_status(const kith_group *group);

/* Every rank gives its status; all get the one with the lowest number, and the detail names the lowest rank that gave
 * it. Collective, blocks. Works on the group's ordinary operations, so it fails as they fail. */
KITH_API kith_status kith_agree(kith_group *group, kith_status mine);

/* Writes the group's flight record (its last operations: sequence, name, sizes, times, state) as JSON lines to path;
 * "%r" in path becomes the world rank. `kith flight` reads the files of all ranks and says who is behind. Local. */
KITH_API kith_status kith_group_dump(const kith_group *group, const char *path);

#ifdef __cplusplus
}
#endif
#endif
