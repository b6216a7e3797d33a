/* backends/shm/parts.h - what the files of the shared-memory backend offer each other. Included by internal.h.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_SHM_PARTS_H
#define KI_SHM_PARTS_H

/* ---- object.c: shared memory objects ----------------------------------------------------------------------------- */

/* How another process opens a piece of shared memory. */
typedef struct shm_handle {
    uint64_t nonce, nbytes;
    uint64_t device, inode; /* what must be found there: pids and descriptors are used again */
    int64_t pid;
    int32_t fd;       /* of the owner; -1: path is used */
    int32_t is_valid; /* 0: the owner has nothing to offer */
    char path[208];
} shm_handle;

/* A shared memory object in the owner's hands. */
typedef struct shm_object {
    shm_handle handle;
    int fd;
} shm_object;

/* advice NULL: a memfd (the failure is not recorded: a file is tried next). Else a file in the directory, reserved in
 * full: KITH_ERR_NO_RESOURCE names the path, what is needed, what is free, and advice as a way out. */
kith_status shm_object_create(shm_instance *instance, size_t nbytes, const char *advice, shm_object *object);
/* Closes the file descriptor and removes the name: what is mapped stays. */
void shm_object_close(shm_object *object);
/* Maps what handle names. own: the object when this rank made it, else NULL. at: the address to replace, or NULL.
 * is_quiet: a failure is not recorded. Ranks of one process share one mapping, counted by nonce. */
kith_status shm_map(shm_instance *instance, const shm_handle *handle, const shm_object *own, void *at, bool is_quiet,
                    unsigned char **base);
/* Drops one count; the last one unmaps, unless keep. */
void shm_unmap(uint64_t nonce, bool keep);

uint64_t shm_process_number(void); /* random, of this process */

/* ---- arena.c ---- */

kith_status shm_arena_create(shm_group *group);

/* ---- traits.c ---------------------------------------------------------------------------------------------------- */

/* Says where the blocks of group->coll lie, from its arguments. */
void shm_blocks_find(shm_group *group);

/* ---- the paths: true when the own part of the operation is complete ---------------------------------------------- */

bool shm_cells_ready(shm_group *group); /* the own cell may be written */
bool shm_cells_fits(const shm_group *group);
bool shm_cells_step(shm_group *group);
/* For choose.c: the bytes behind the descriptor, and taking them. */
void shm_cells_fill(shm_group *group);
bool shm_cells_take(shm_group *group);
bool shm_tables_step(shm_group *group);

/* True when everybody consumed what the own ring held a turn ago at the positions before end. */
bool shm_ring_is_free(shm_group *group, uint64_t end);
void shm_staged_begin(shm_group *group);
bool shm_staged_step(shm_group *group);
void shm_slices_begin(shm_group *group);
bool shm_slices_step(shm_group *group);

/* choose.c: descriptors first, then one of the paths below. */
bool shm_choose_applies(const shm_group *group);
bool shm_choose_step(shm_group *group);
/* Bytes that a rank gives away. */
size_t shm_share_nbytes(const shm_group *group);

/* trial.c */
/* Which way the collective wants to go. True: SHM_PATH_TRIAL, what is known is agreed on first. */
bool shm_trial_begin(shm_group *group);
bool shm_trial_step(shm_group *group);
/* A timed collective is complete. */
void shm_trial_end(shm_group *group);
/* For the receive of a long message: through the kernel? trials [SHM_TRIAL_CLASSES] are those of the channel. When it
 * is timed, its end is to be told. */
bool shm_trial_message(shm_trial *trials, size_t nbytes, bool *is_timed);
void shm_trial_message_ended(shm_trial *trials, size_t nbytes, bool was_remote, int64_t ns);

/* direct.c */
void shm_direct_begin(shm_group *group, bool is_remote);
bool shm_direct_step(shm_group *group);
/* touch.c */
/* Around work in other ranks' buffers. False: not allowed any more (coll_cancel). */
bool shm_touch_begin(shm_group *group);
void shm_touch_end(shm_group *group);
/* Forbids it to all ranks and waits until none is at it. */
void shm_touch_forbid(shm_group *group);

/* ---- coll.c ------------------------------------------------------------------------------------------------------ */

kith_status shm_coll_start(void *group, const kith_be_coll *args, kith_be_slot *slot);
kith_status shm_coll_test(void *group, kith_be_slot *slot, int *is_done);
kith_status shm_coll_run(void *group, const kith_be_coll *args);
void shm_coll_cancel(void *group, kith_be_slot *slot);
void shm_coll_missing(void *group, kith_be_slot *slot, unsigned char *is_missing);
/* Advances the active collective; remembers its completion for the next test. */
bool shm_coll_advance(shm_group *group);
/* The path for large blocks when the buffers are not mapped. */
void shm_choose_unmapped(shm_group *group);
/* One step on coll->path. */
bool shm_path_step(shm_group *group);

/* ---- group.c ----------------------------------------------------------------------------------------------------- */

kith_status shm_group_create(void *instance, const kith_be_group_info *info, void **group);
void shm_group_destroy(void *group);
void shm_group_abort(void *group);

/* ---- probe.c ----------------------------------------------------------------------------------------------------- */

/* What works between the members. Collective; agrees on status. */
kith_status shm_probe(shm_group *group, kith_status status);

/* ---- messages.c, channel.c --------------------------------------------------------------------------------------- */

kith_status shm_channels_create(shm_group *group);
void shm_channels_destroy(shm_group *group);
size_t shm_channel_nbytes(const shm_sizes *sizes);
kith_status shm_send_start(void *group, const kith_be_msg *msg, kith_be_slot *slot);
kith_status shm_recv_start(void *group, const kith_be_msg *msg, kith_be_slot *slot);
kith_status shm_msg_test(void *group, kith_be_slot *slot, int *is_done, size_t *nbytes);
void shm_msg_cancel(void *group, kith_be_slot *slot);
/* Advances all messages of the group; true when something happened. */
bool shm_messages_progress(shm_group *group);
/* True while a message of this group is not complete. */
bool shm_messages_pending(const shm_group *group);

/* ---- copy.c, remote.c, mem.c ------------------------------------------------------------------------------------- */

/* memcpy; with streaming stores when the whole operation is total_nbytes and that is much. */
void shm_copy(const shm_group *group, void *to, const void *from, size_t nbytes, size_t total_nbytes);

/* Bytes of another process; false with errno when that fails. */
bool shm_remote_read(shm_group *group, int peer, void *to, const void *from, size_t nbytes);
bool shm_remote_write(shm_group *group, int peer, void *to, const void *from, size_t nbytes);

/* Number of the region that holds all of [data, data + nbytes), and where in it; 0: none. */
uint32_t shm_region_find(shm_group *group, const void *data, size_t nbytes, uint64_t *offset);
/* Where rank's part of a region, at offset, is mapped here. */
unsigned char *shm_region_at(shm_group *group, uint32_t id, int rank, uint64_t offset);
kith_status shm_mem_alloc(void *group, size_t nbytes, void **ptr);
kith_status shm_mem_free(void *group, void *ptr);
kith_status shm_mem_register(void *group, void *ptr, size_t nbytes);
kith_status shm_mem_deregister(void *group, void *ptr);
void shm_regions_destroy(shm_group *group);

/* ---- doorbell.c -------------------------------------------------------------------------------------------------- */

void shm_doorbell_open(shm_instance *instance);
/* What this thread stored before is seen by, and what it loads after comes after, all running ranks that registered. */
void shm_heavy_fence(void);
void shm_doorbell_ring(shm_group *group); /* wakes all sleepers of the group */
void shm_idle(void *instance, int64_t timeout_ns);

/* After a word was published that a peer may sleep for. */
static inline void shm_wake(shm_group *group)
{
    if (__builtin_expect(__atomic_load_n(&group->header->sleepers.value, __ATOMIC_RELAXED) != 0, 0))
        shm_doorbell_ring(group);
}

/* ---- liveness.c -------------------------------------------------------------------------------------------------- */

int64_t shm_now_ns(void);
uint64_t shm_process_start_time(pid_t pid);
void shm_peers_watch(shm_group *group);
void shm_peers_unwatch(shm_group *group);
/* False once its process is known to have ended; looks. */
bool shm_peer_is_alive(shm_group *group, int rank);
/* Tells the core that its process has ended; returns the failure that it is. */
kith_status shm_peer_fail(shm_group *group, int rank);
/* For fruitless tests: KITH_ERR_ABORTED after an abort; now and then looks for dead peers and tells the core. */
kith_status shm_group_check(shm_group *group);

#endif
