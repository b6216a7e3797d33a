/* kith/backend.h - what a backend is: one table of functions, found by one versioned symbol.
 *
 * A backend moves bytes between the ranks of a group. send/recv is enough: every collective then comes from the
 * library's own algorithms. A backend that knows better starts collectives itself (coll_start) and says which in
 * query().
 *
 * A loadable module is a shared object named libkith_<name>.so (or libkith_<name>_<variant>.so) in the library's module
 * folder or in a folder of KITH_BACKEND_PATH (colon-separated). It exports
 *
 *     const kith_backend *kith_backend_v1(void);
 *
 * and links to nothing of the library: what it needs is handed in as function pointers (kith_be_host). Opening a
 * module must have no side effects; whether it can be used here is asked through available().
 *
 * Statuses: a slot returns KITH_OK or a negative status after calling host->fail() with one sentence. Progress never
 * blocks.
 *
 * Threads: all calls for one kith_be instance come from one thread at a time, except group_abort(), which may come from
 * any thread. Different instances (ranks as threads) are called concurrently.
 *
 * Completion: a slot (kith_be_slot) is the backend's storage for one operation, provided by the core, zeroed before
 * start, at a fixed address until the operation ended or was cancelled. The descriptors (kith_be_coll, kith_be_msg)
 * and the arrays they point to stay valid just as long. start may complete the operation at once: the first test then
 * says so.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KITH_BACKEND_H
#define KITH_BACKEND_H

#include <kith/coll.h>
#include <kith/p2p.h>

#ifdef __cplusplus
extern "C" {
#endif

#define KITH_BACKEND_ABI 1
#define KITH_BACKEND_SYMBOL "kith_backend_v1"

/* ---- reduction service ------------------------------------------------------------------------------------------ */

#define KITH_BE_REDUCE_STREAM 1u /* write the results with streaming (non-temporal) stores */

/* One operator on one dtype, with its order of combination. Made by the core for each operation; read-only. */
typedef struct kith_be_reducer kith_be_reducer;
struct kith_be_reducer {
    /* dst[k][i] = the reduction of src[0][i] .. src[src_count-1][i], for every k < dst_count and i < count: loads,
     * combines in the documented order over src_count ranks, divides for avg, rounds once. src[r] is rank r's
     * contribution in the user's dtype. src_count is the group's size. A dst may be equal to a src; other overlap is
     * not allowed. */
    void (*reduce)(const kith_be_reducer *self, const void *const *src, int src_count, void *const *dst, int dst_count,
                   size_t count, unsigned flags);
    size_t nbytes;           /* of one element of the user's dtype */
    int is_commutative;
    const void *impl[4];     /* the core's */
    double scalar;           /* premul_sum's */
    int64_t int_scalar;
};

/* ---- what the core hands in -------------------------------------------------------------------------------------- */

/* Services for one context. host functions may be called from any slot unless said otherwise. */
typedef struct kith_be_host {
    size_t struct_size;
    void *cookie;
    int rank, size;                    /* world */
    int local_rank, local_size;        /* on this host */
    const int *node_of;                /* [size] host index of each world rank */
    int is_threads;                    /* 1: another rank lives in this process */
    int spin;                          /* polls before a wait yields; 0 when there are more local ranks than CPUs */
    int64_t connect_timeout_ms;

    /* Stores the detail text of a failure (printf) for the calling thread, logs it once, returns status. */
    kith_status (*fail)(kith_status status, const char *format, ...)
#ifdef __GNUC__
        __attribute__((format(printf, 2, 3)))
#endif
        ;
    void (*log)(void *cookie, kith_log_level level, const char *line);
    void *(*alloc)(void *cookie, size_t nbytes, size_t alignment); /* NULL on failure */
    void (*free)(void *cookie, void *ptr);

    /* Value of a setting ("shm_cma" for KITH_SHM_CMA; options before environment before default_value); the backend's
     * own settings are declared in kith_backend.settings. Of "ifname" the names of the interfaces it stands for. */
    const char *(*setting)(void *cookie, const char *name, const char *default_value);

    /* One more fact that must be equal on all members of a group being created: only inside group_create(). */
    void (*agree)(void *cookie, const char *name, uint64_t value);

    /* All-gather of nbytes from every member of the group, agreeing on status: out [size * nbytes] in group rank order.
     * Every member must call; if any gave a status other than KITH_OK, all get the worst one and out is not written.
     * For group_create(), group_split(), mem_alloc(), mem_register() only. Blocks up to connect_timeout_ms.
     * group_cookie comes from kith_be_group_info. */
    kith_status (*exchange)(void *group_cookie, kith_status mine, const void *in, size_t nbytes, void *out);

    /* A peer of a group was found dead (group rank), or the transport failed (-1). The core ends the group's
     * requests. */
    void (*peer_failed)(void *group_cookie, int peer, const char *why);

    uint64_t job_id; /* the same on all ranks, different between jobs */
    int device;      /* ordinal of the context's CUDA device; -1: it has none */

    /* A note among the members of a group, under a name that is used once: put() makes it visible, get() never waits -
     * KITH_ERR_BUSY, without a text, while it is not there. For what two members must tell each other once, when they
     * first meet; nbytes at most KITH_BE_NOTE_NBYTES, the same on both sides. */
    kith_status (*put)(void *group_cookie, const char *name, const void *note, size_t nbytes);
    kith_status (*get)(void *group_cookie, const char *name, void *note, size_t nbytes);

    /* Copies between memory of the context's device and the host's, or inside the device; done when it returns. For
     * backends that take both (memory below): what the host has copied elsewhere is copied so there. */
    kith_status (*device_copy)(void *cookie, void *to, const void *from, size_t nbytes);
} kith_be_host;

#define KITH_BE_NOTE_NBYTES 1024

/* What a group is, given to group_create(). Valid during the call, except for the arrays, which live as long as the
 * group. */
typedef struct kith_be_group_info {
    size_t struct_size;
    void *cookie;             /* for exchange() and peer_failed() */
    const char *name;
    uint64_t id;              /* the same on all members, unique in the job */
    int rank, size;
    const int *world_ranks;   /* [size] */
    const int *node_of;       /* [size] host index of each member */
    int is_one_node;
    void *split;              /* what group_split() of the parent gave for this group, or NULL; group_create() takes it
                               * over, also when it fails. Look at it only where struct_size says that it is there. */
} kith_be_group_info;

#define KITH_BE_HOST 1u
#define KITH_BE_DEVICE 2u

/* ---- operations
 * ---------------------------------------------------------------------------------------------------- */

typedef struct kith_be_slot {
    uint64_t words[32];
} kith_be_slot;

/* A collective. Fields as in kith_coll_args; checked by the core. reducer is NULL for operations that do not reduce.
 * op is the built-in number, or -1 when only reducer knows it (premul_sum, user-defined). */
typedef struct kith_be_coll {
    kith_coll_kind kind;
    kith_dtype dtype;
    int op;
    int root;
    const void *send;
    void *recv;               /* broadcast: the buffer on every rank, and send is equal to it */
    size_t count;
    size_t nbytes;            /* of one element */
    const size_t *send_counts, *send_displs;
    const size_t *recv_counts, *recv_displs; /* displs are never NULL where the operation has them */
    const kith_be_reducer *reducer;
    uint64_t sequence;        /* of this collective on its group, from 0, the same on all ranks */
    int is_device;            /* 1: send and recv are device memory; only for backends that take it (memory below) */
    void *stream;             /* is_device: begins behind what this stream holds (cudaStream_t); valid if has_stream */
    int has_stream;           /* 0: the buffers are ready */
    int is_premul_sum;        /* op is -1, and the reducer's scalar (int_scalar for integers) says by what */
} kith_be_coll;

/* A message. tag: 64 bits, matched exactly; the core keeps the tags of groups' collectives and users apart, the
 * backend keeps groups apart. Messages with the same sender, receiver, group and tag must match in order. */
typedef struct kith_be_msg {
    int peer;                 /* group rank, may be the own */
    uint64_t tag;
    void *buffer;             /* const for sends */
    size_t nbytes;            /* of the message, or the most that is received */
    int is_device, has_stream; /* as in kith_be_coll */
    void *stream;
} kith_be_msg;

/* Question of query(): can coll_start() run this? Pure; asked at group creation and by kith_coll_query(); the answer
 * must be the same on all members. */
typedef struct kith_be_query {
    kith_coll_kind kind;
    kith_dtype dtype;
    int op;                   /* -1: only through the reducer */
    int is_reducer_commutative;
    int is_premul_sum;        /* with op -1: premul_sum, and not an operator of the user's */
    int is_device;            /* 1: on device memory; asked only of groups that take it */
} kith_be_query;

typedef struct kith_be_answer {
    int is_native;            /* coll_start() can do it */
    int is_deterministic;     /* ... in the documented order, or it does not reduce */
    const char *algorithm;    /* static text for `kith info` */
} kith_be_answer;

/* A setting that the backend reads. */
typedef struct kith_be_setting {
    const char *name;         /* "shm_cma": environment KITH_SHM_CMA */
    const char *default_value;
    const char *help;         /* one line, with the valid values */
    int must_agree;           /* 1: compared over all ranks at kith_init() */
} kith_be_setting;

/* ---- the table
 * ------------------------------------------------------------------------------------------------------- */

typedef struct kith_backend {
    uint32_t abi;             /* KITH_BACKEND_ABI */
    size_t struct_size;
    const char *name;         /* "ucx" */
    const char *variant;      /* "openmpi", or NULL */
    const char *version;      /* of the library behind it; NULL until known */
    const kith_be_setting *settings; /* ends with name NULL; may be NULL */

    /* Can this process use it? KITH_OK, or KITH_ERR_UNSUPPORTED with one line in reason. Cheap, no lasting side
     * effects. On success reason may tell the version or transports. */
    kith_status (*available)(char *reason, size_t reason_nbytes);

    /* Optional: the process was started by, or has initialised, something that knows rank and size (MPI). May
     * initialise it when may_init. KITH_ERR_UNSUPPORTED when it does not know. */
    kith_status (*launch)(int may_init, int *rank, int *size);
    /* Optional, with launch: every rank gets rank 0's bytes. Collective over all ranks, blocks. */
    kith_status (*launch_broadcast)(void *buffer, size_t nbytes);

    /* One instance for a context. May block for local set-up only. host lives until close(). */
    kith_status (*open)(const kith_be_host *host, void **be);
    void (*close)(void *be);

    /* Collective over the members; may block in host->exchange(). On failure nothing is left behind here; the core
     * agrees on the status with the other members afterwards and destroys what some of them had made. */
    kith_status (*group_create)(void *be, const kith_be_group_info *info, void **group);
    /* Local. No operation is active. */
    void (*group_destroy)(void *group);
    /* Local, immediate, any thread: operations end soon with KITH_ERR_ABORTED; peers are told if that is cheap. */
    void (*group_abort)(void *group);

    kith_status (*query)(void *group, const kith_be_query *query, kith_be_answer *answer);

    /* Optional. Collectives of a group are started one at a time, in order. */
    kith_status (*coll_start)(void *group, const kith_be_coll *coll, kith_be_slot *slot);
    kith_status (*coll_test)(void *group, kith_be_slot *slot, int *is_done);
    /* Optional: start and complete in one blocking call; used when nothing else is pending and no deadline is set. Not
     * for deadlines: it need not return when a peer never comes. Which of the two a rank uses depends on what it has
     * pending: both must match on the other ranks. KITH_ERR_UNSUPPORTED, without a text and always for this group, when
     * they do not: the core then takes coll_start. */
    kith_status (*coll_run)(void *group, const kith_be_coll *coll);
    /* Ends an operation early: when it returns, the caller's buffers are not touched again by anybody. The group is
     * not used for further collectives. */
    void (*coll_cancel)(void *group, kith_be_slot *slot);
    /* Optional: marks is_missing[r] = 1 for group ranks that have not come to the operation yet. */
    void (*coll_missing)(void *group, kith_be_slot *slot, unsigned char *is_missing);

    /* Messages. Any number may be active. nbytes: what a receive took. A message longer than the receive's buffer:
     * the receive ends with KITH_ERR_TRUNCATED, later messages are intact. A test that returns a failure has ended the
     * operation. Cancel of a receive or of a send that the peer has not matched takes it back; buffers are not touched
     * afterwards. */
    kith_status (*send_start)(void *group, const kith_be_msg *msg, kith_be_slot *slot);
    kith_status (*recv_start)(void *group, const kith_be_msg *msg, kith_be_slot *slot);
    kith_status (*msg_test)(void *group, kith_be_slot *slot, int *is_done, size_t *nbytes);
    void (*msg_cancel)(void *group, kith_be_slot *slot);

    /* Advances everything of the instance a little. Optional when the tests do it. */
    void (*progress)(void *be);
    /* 1: coll_test() and msg_test() advance their own operation, so a wait for one need not call progress() each
     * time. */
    int is_test_enough;

    /* Sent data that the peers may still need from this process (kith_finalize drains): 1 when there is none.
     * Optional. */
    int (*is_drained)(void *be);

    /* Optional: mapped memory. Collective over the group; use host->exchange(). */
    kith_status (*mem_alloc)(void *group, size_t nbytes, void **ptr);
    kith_status (*mem_free)(void *group, void *ptr);
    kith_status (*mem_register)(void *group, void *ptr, size_t nbytes);
    kith_status (*mem_deregister)(void *group, void *ptr);

    /* Optional: sleep until something may have happened or timeout_ns passed; the core calls it after it has spun and
     * yielded. It may return early. */
    void (*idle)(void *be, int64_t timeout_ns);

    /* ---- device memory; a table that ends before this has none of it ---- */

    /* What group may be given: bits of KITH_BE_HOST and KITH_BE_DEVICE; group NULL: what a group may be given at best.
     * A backend that takes device memory alone (KITH_BE_DEVICE without KITH_BE_HOST) serves groups beside one that
     * takes the host's, and is given messages and collectives on device memory only; the answer is the same on all
     * members. One that takes both is given device memory when all members say so, and then without a stream: the
     * buffers are ready when an operation is started, and it has ended on the device when a test says so. A message may
     * be device memory on one side alone. NULL: host memory. */
    unsigned (*memory)(void *group);
    /* Optional: orders a native stream behind a started operation on device memory. The slot is still to be tested
     * until it is done. KITH_ERR_BUSY while the operation must first pass through the host: progress, and ask again. */
    kith_status (*stream_wait)(void *group, kith_be_slot *slot, void *stream);
    /* Optional: messages between the two calls start as one. batch_end() returns the failure of any. */
    kith_status (*batch_begin)(void *group);
    kith_status (*batch_end)(void *group);
    /* Optional: group_abort() of several groups of one instance as one, where aborting one alone may wait for what
     * another one runs. From the instance's thread. */
    void (*groups_abort)(void *const *groups, size_t count);
    /* Optional: groups are about to be made out of parent, one for each color, with ranks in the order of key; color
     * -1: this rank will be in none. Every member of parent calls it; use host->exchange() with parent's cookie. *split
     * is for this rank's group_create() (kith_be_group_info.split), NULL when there is nothing to hand on; the same on
     * all members of a group to come. A failure is one on all members of parent. */
    kith_status (*group_split)(void *parent, int color, int key, void **split);
    /* With group_split: the group did not come so far. */
    void (*split_discard)(void *be, void *split);
} kith_backend;

typedef const kith_backend *(*kith_backend_fn)(void);

#ifdef __cplusplus
}
#endif
#endif
