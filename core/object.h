/* core/object.h - the objects behind the public handles.
 *
 * kith_ctx owns groups, groups own requests that run on them. Handles live in type-stable slabs that are never given
 * back to the system: a handle that was destroyed still has readable memory whose magic does not match, so using it
 * is an error and not a crash (slab.c says how long it cannot be a successor's). All fields belong to the context's
 * thread, except kith_group.abort_flag, which any thread may set.
 *
 * Life of a collective: checked (coll.c) -> resolved to a path (dispatch.c) -> appended to its group's queue -> the
 * head of the queue is started and stepped by whoever waits (progress.c) -> done, removed, next one starts. A
 * blocking call with an empty queue and a native collective skips the queue; with a plan it comes with the plan that
 * the group kept of the last such call (kept.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_OBJECT_H
#define KI_OBJECT_H

#include "algo/algo.h"
#include "algo/select.h"
#include "base/config.h"
#include "base/mem.h"
#include "boot/launch.h"
#include "boot/store.h"
#include "mesh.h"
#include "reduce/reduce.h"
#include "registry.h"
#include <kith/kith.h>
#include <stdatomic.h>

/* Changes in a child made by fork(): there the parent's objects are none. The child shares the arenas, sockets and
 * queues behind them, and one operation of it would count as the parent's. */
extern uint64_t ki_process_mark;

#define KI_CTX_MAGIC (0x6b697468637478ULL ^ ki_process_mark)
#define KI_GROUP_MAGIC (0x6b6974686770ULL ^ ki_process_mark)
#define KI_REQUEST_MAGIC (0x6b697468727173ULL ^ ki_process_mark)
#define KI_MESH_MAGIC (0x6b6974686d7368ULL ^ ki_process_mark)

#define KI_MAX_INSTANCES 8
#define KI_OP_FIRST_DYNAMIC 1000
#define KI_QUERY_OPS (KITH_OP_BUILTIN_COUNT + 3) /* built-in, commutative other, non-commutative other, premul_sum */

/* One backend opened for one context. */
typedef struct ki_instance {
    const kith_backend *backend;
    void *be;
    kith_be_host host;
    kith_ctx *ctx;
} ki_instance;

/* A dynamic operator. uses counts requests that hold it. */
typedef struct ki_op_entry {
    ki_op op;
    bool is_live;
    int uses;
} ki_op_entry;

typedef struct ki_trace_record {
    uint64_t sequence;
    uint64_t start_ticks, end_ticks; /* end 0: not recorded */
    size_t count;
    int16_t kind;                    /* kith_coll_kind, or KI_TRACE_SEND, KI_TRACE_RECV */
    int16_t dtype;
    int32_t op, root;                /* root: peer for messages */
    int32_t state;                   /* 0 free, 1 active, 2 done, 3 failed */
    int32_t status;
} ki_trace_record;
#define KI_TRACE_SEND 100
#define KI_TRACE_RECV 101

typedef struct ki_mem {
    struct ki_mem *next;
    void *ptr;
    size_t nbytes;
    bool is_registered;       /* kith_mem_register(): the memory is the caller's */
    bool is_mapped;           /* the backend's; else ordinary memory */
} ki_mem;

/* What kith_group_create() and its relatives agree on before a group is made. */
typedef struct ki_group_spec {
    const char *name;
    const char *backend;      /* "auto", or a name */
    uint64_t id;
    const int *world_ranks;   /* [size], copied */
    int size, rank;
    int64_t timeout_ms;
    bool is_check, is_internal;
    kith_group *parent;       /* whose device part was asked to split, or NULL */
    void *split;              /* what it gave; ki_group_build() takes it over, also when it fails */
} ki_group_spec;

/* First member of what a handle points to. */
typedef struct ki_handle {
    uint64_t magic;              /* of a live object; 0 in the slab */
    struct ki_handle *next_free;
} ki_handle;

struct ki_device_fact;
struct ki_stage;
struct ki_group_device;
struct ki_kept;

struct kith_ctx {
    ki_handle handle;
    kith_allocator allocator;
    ki_config *config;
    ki_launch launch;
    ki_store *store;
    char store_url[512];
    void *exchange_room;    /* of rounds in which all ranks meet (exchange.c) */
    uint64_t job_id;
    int rank, size, local_rank, local_size, node_count;
    int *node_of;           /* [size] */
    bool is_threads;        /* another rank lives in this process */
    int spin;               /* polls before a wait yields */
    int64_t timeout_ms, connect_timeout_ms;
    bool is_check;
    ki_select *select;
    ki_instance instances[KI_MAX_INSTANCES];
    int instance_count;
    kith_group *world;
    kith_group *groups;     /* all live ones, linked by next */
    kith_mesh *meshes;
    kith_request *persistent; /* persistent requests that exist */
    int active_requests;    /* queued or running */
    int64_t next_event_ns;  /* when to look at the store again */
    int64_t report_until_ns, report_again_ns; /* how long timeouts may ask where the others are (progress.c) */
    char interfaces[256];   /* names that the setting ifname stands for, as backends are told */
    bool has_ucx, has_mpi;  /* usable on every rank, for "auto" groups across hosts */
    char backend[32];       /* what the user asked for; "auto" by default */
    ki_op_entry **ops;      /* [op_count]; entries stay at their address */
    int op_count;
    kith_device *device;    /* NULL: operations take host memory alone */
    struct ki_stage *stage; /* where device memory passes through the host; NULL: not needed yet */
    struct ki_device_fact *device_facts; /* [size], see device/facts.h; NULL: no rank has a device */
    char no_nccl[400];      /* why this rank does without NCCL, or "" */
};

/* What the backend said about a collective with an operator, asked once at creation: a bit per dtype. */
typedef struct ki_native {
    uint32_t dtypes;          /* native */
    uint32_t exact_dtypes;    /* native, in the documented order */
    const char *algorithm;    /* of the last dtype asked; for texts */
} ki_native;

struct kith_group {
    ki_handle handle;
    /* hot: read by every operation */
    kith_ctx *ctx;
    const kith_backend *backend; /* messages */
    void *bg;
    const kith_backend *coll_backend; /* native collectives, mapped memory: backend and bg, or shared memory beside */
    void *coll_bg;            /* ... a backend that has messages alone (group_build.c) */
    int rank, size;
    atomic_int abort_flag;
    bool is_exact;            /* only native collectives that follow the documented order (deterministic=on) */
    bool is_fast;             /* no check mode, no hierarchy: a native collective may skip the queue */
    kith_status status;
    kith_request *queue_head, *queue_tail; /* collectives, in order */
    uint64_t sequence;        /* of the next collective */
    ki_order order;
    ki_reducer recent;        /* of the last blocking reduction with a built-in operator: checked, ready */
    kith_op recent_op;        /* -1: none yet */
    kith_dtype recent_dtype;
    ki_trace_record *trace;
    uint32_t trace_capacity, trace_next;
    ki_native native[KITH_COLL_COUNT][KI_QUERY_OPS];
    int64_t timeout_ms;
    struct ki_group_device *device; /* NULL: the context has no device */
    struct ki_kept *kept;     /* plans of recent blocking collectives; NULL: none yet */
    /* cold */
    bool is_check;
    bool is_internal;         /* part of another group's hierarchical plan */
    bool is_of_mesh;          /* goes with its mesh */
    bool is_ready;
    bool is_abort_told;
    ki_instance *instance, *coll_instance;
    ki_mem *memory;           /* kith_mem_alloc() and kith_mem_register() of this group */
    char name[64];
    char wanted[32];          /* backend that was asked for: "auto" or a name; children inherit it */
    uint64_t id;
    uint32_t child_count;     /* groups made from this one; the same on all ranks */
    uint32_t exchange_count;  /* rounds of ki_group_exchange() so far; the same on all members */
    kith_status creation_status; /* of the rounds of its creation so far */
    uint64_t agreed_hash;
    int *world_ranks, *node_of; /* [size] */
    int node_count;           /* hosts among the members */
    char reason[512];         /* why status is not KITH_OK */
    kith_request *messages;   /* running sends and receives, and what runs on the device */
    kith_group *node, *leaders; /* hierarchical plan: members of this host; lowest rank of each host (NULL elsewhere) */
    kith_group *next, *previous;
};

typedef enum ki_path { KI_PATH_LOCAL, KI_PATH_NATIVE, KI_PATH_ALGO, KI_PATH_HIER, KI_PATH_STAGED } ki_path;
/* Whose memory, and how it travels: see device/group.h. */
typedef enum ki_way { KI_WAY_HOST, KI_WAY_STAGED, KI_WAY_WAITING, KI_WAY_DEVICE } ki_way;
typedef enum ki_request_kind { KI_REQUEST_COLL, KI_REQUEST_SEND, KI_REQUEST_RECV } ki_request_kind;
typedef enum ki_request_state {
    KI_STATE_IDLE,
    KI_STATE_QUEUED,
    KI_STATE_CHECKING,
    KI_STATE_RUNNING,
    KI_STATE_DONE
} ki_request_state;

struct ki_hier;
struct ki_check;
struct ki_stage_block;
#define KI_STAGED_NBYTES 128

/* The group of a mesh along the axes of mask. */
typedef struct ki_mesh_group {
    unsigned mask;
    kith_group *group; /* NULL: this rank is not in it */
} ki_mesh_group;
#define KI_MESH_MAX_GROUPS 32

struct kith_mesh {
    ki_handle handle;
    kith_ctx *ctx;
    kith_group *base; /* while the mesh is made; may be gone later */
    ki_grid grid;
    int rank;         /* the calling rank, in base */
    int position;     /* of the calling rank in the mesh */
    int *placement;   /* [world] base rank at a mesh position */
    int *position_of; /* [world] the inverse */
    int *scratch;     /* [2 * world] while groups are made ... */
    kith_status status; /* ... and how that has gone so far */
    ki_mesh_group groups[KI_MESH_MAX_GROUPS];
    int group_count;
    kith_mesh *next;
};

struct kith_request {
    ki_handle handle;
    kith_group *group;
    ki_request_kind kind;
    ki_request_state state;
    kith_status status;
    kith_status argument_status; /* check mode: this rank's arguments were invalid; detail says why */
    char *detail;             /* of a failure that happened while another call was progressing; malloc'ed */
    bool is_persistent, is_internal;
    ki_path path;
    int64_t deadline_ns;      /* 0: none; KI_DEADLINE_LAZY: from the first slow poll */
    uint32_t trace_index;
    kith_op op_number;
    /* collectives */
    kith_be_coll coll;
    ki_reducer reducer;
    ki_algo_args args;
    const ki_algo *algo;
    ki_executor executor;     /* keeps its memory while the request is in the pool */
    bool is_planned;          /* persistent: the executor holds the plan for its next start */
    size_t *arrays;           /* copies of counts and displacements, at most 4 * size */
    size_t arrays_capacity;
    struct ki_hier *hier;
    struct ki_check *check;
    /* messages */
    kith_be_msg msg;
    kith_dtype dtype;
    size_t received;          /* bytes */
    kith_be_slot slot;
    /* device memory (device/group.h) */
    ki_way way;
    bool is_queued;           /* stands in the queue, else in the group's list of messages */
    bool is_detached;         /* nobody waits for it any more */
    bool has_stream;          /* the group's, when it was posted */
    bool has_order;           /* ends when order_stream is behind it */
    bool is_unstarted;        /* a message that waits for its buffer or for its turn */
    int phase;                /* of a staged message */
    uint64_t number;          /* of a message, in the order of posting */
    void *stream, *order_stream;
    void *ready;              /* event behind what the stream held; NULL: the buffers are ready */
    void *buffer;             /* of a staged message: the caller's */
    struct ki_stage_block *block;
    uint64_t staged[KI_STAGED_NBYTES / 8]; /* of a staged collective: device/staged.c */
    kith_request *next, *previous; /* queue, or the group's list of messages */
    kith_request *next_persistent, *previous_persistent;
};

/* ---- slabs (slab.c): type-stable handles ---- */
kith_ctx *ki_ctx_alloc(void);
void ki_ctx_release(kith_ctx *ctx);
kith_group *ki_group_alloc(void);
void ki_group_release(kith_group *group);
kith_request *ki_request_alloc(void);
void ki_request_release(kith_request *request);
kith_mesh *ki_mesh_alloc(void);
void ki_mesh_release(kith_mesh *mesh);

static inline bool ki_ctx_is_valid(const kith_ctx *ctx)
{
    return ctx != NULL && ctx->handle.magic == KI_CTX_MAGIC;
}

static inline bool ki_group_is_valid(const kith_group *group)
{
    return group != NULL && group->handle.magic == KI_GROUP_MAGIC;
}

static inline bool ki_request_is_valid(const kith_request *request)
{
    return request != NULL && request->handle.magic == KI_REQUEST_MAGIC;
}

static inline bool ki_mesh_is_valid(const kith_mesh *mesh)
{
    return mesh != NULL && mesh->handle.magic == KI_MESH_MAGIC;
}

#define KI_CHECK_GROUP(group, function)                                                                                \
    do {                                                                                                               \
        if (!ki_group_is_valid(group))                                                                                 \
            return ki_fail_quiet(KITH_ERR_INVALID_ARG, "%s: the group is NULL, destroyed, or not a group", function);  \
    } while (0)

#endif
