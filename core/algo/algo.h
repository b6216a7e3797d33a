/* core/algo/algo.h - collectives as plans: algorithms are pure maths that emits steps; one executor runs them.
 *
 * An algorithm is a function of (group size, rank, operation) that appends steps to a plan. It does no I/O, allocates
 * only through the plan, and never waits. The executor (executor.c) runs the steps in order over a backend's messages;
 * it is the only place that waits and resumes.
 *
 * Memory a step works on is a buffer number with an offset in bytes. Steps that do arithmetic count elements, the
 * others bytes.
 *
 * All messages of a plan carry the same tag, so those between two ranks match in the order in which both emit them: a
 * send to a peer and the peer's receive must stand at the same place in their sequences. Messages are started in step
 * order and never block; a plan waits only where data or a buffer is needed, so it makes progress whether sends buffer
 * or wait for their receive.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_ALGO_H
#define KI_ALGO_H

#include "../reduce/reduce.h"
#include <kith/backend.h>
#include <stdbool.h>

typedef enum ki_buf { KI_BUF_SEND, KI_BUF_RECV, KI_BUF_TEMP } ki_buf;

typedef struct ki_ref {
    ki_buf buf;
    size_t offset; /* bytes */
} ki_ref;

typedef enum ki_step_kind {
    KI_STEP_SEND,    /* start sending nbytes from a to peer */
    KI_STEP_RECV,    /* start receiving nbytes from peer into dst */
    KI_STEP_WAIT,    /* until messages [first, last) completed */
    KI_STEP_COPY,    /* dst[nbytes] = a[nbytes] */
    KI_STEP_LOAD,    /* dst (acc)[count] = a (raw) */
    KI_STEP_COMBINE, /* dst (acc)[count] = a (acc) op b (acc); a is the left operand */
    KI_STEP_STORE,   /* dst (raw)[count] = a (acc) */
    KI_STEP_REDUCE   /* dst (raw)[count] = documented reduction of size contributions: rank r's at sources[r] (raw) */
} ki_step_kind;

typedef struct ki_step {
    ki_step_kind kind;
    int peer;
    ki_ref dst, a, b;
    size_t count;       /* elements, or bytes for SEND, RECV, COPY */
    size_t first, last; /* WAIT: messages [first, last), as numbered below */
    size_t message;     /* SEND, RECV: its number among the plan's messages, in step order */
    size_t sources;     /* REDUCE: index into plan->refs of size entries */
} ki_step;

typedef struct ki_plan {
    ki_step *steps;
    size_t step_count, step_capacity;
    ki_ref *refs;
    size_t ref_count, ref_capacity;
    size_t *numbers; /* scratch of the algorithm while it emits: ki_plan_numbers() */
    size_t number_capacity;
    size_t temp_nbytes;   /* what the algorithm asked for */
    size_t message_count; /* sends + receives */
    size_t *message_step; /* [message_count] step of each message */
    size_t message_capacity;
    kith_status status;              /* first failure of an append (no memory, overflow): checked once, at the end */
    const kith_allocator *allocator; /* NULL: malloc */
} ki_plan;

/* What an algorithm sees of the operation. Displacements and counts in elements. */
typedef struct ki_algo_args {
    int rank, size;
    const kith_be_coll *coll;
    const ki_reducer *reducer; /* NULL when nothing is reduced */
    const ki_order *order;
    const int *node_of;    /* [size]; NULL: one host */
    size_t segment_nbytes; /* for segmented forms; 0: their default */
    int radix;             /* for k-nomial forms; 0: their default */
} ki_algo_args;

typedef struct ki_algo {
    const char *name; /* "ring" */
    kith_coll_kind kind;
    bool is_deterministic; /* follows the documented order, or does not reduce */
    bool needs_flat_order; /* deterministic only when the order is the one of a single host (ki_order_is_flat) */
    bool needs_commutative;
    const char *cost;                              /* "2(p-1)a + 2(p-1)/p n b", for `kith info --algorithms` */
    bool (*is_possible)(const ki_algo_args *args); /* NULL: always. Pure function of agreed values. */
    void (*emit)(const ki_algo_args *args, ki_plan *plan);
} ki_algo;

/* All algorithms of a collective, the first being the one that is always possible. */
const ki_algo *const *ki_algo_list(kith_coll_kind kind, size_t *count);
const ki_algo *ki_algo_find(kith_coll_kind kind, const char *name);

/* Can it run these? Operator, group size, counts. Pure function of agreed values. */
bool ki_algo_is_possible(const ki_algo *algo, const ki_algo_args *args);
/* Does it give the documented bits for these? Also true where every order gives the same bits (integers). */
bool ki_algo_is_deterministic(const ki_algo *algo, const ki_algo_args *args);
/* The tree over all ranks as if they were on one host? */
bool ki_order_is_flat(const ki_order *order);

/* Clears the plan, checks that all sizes fit, emits. The plan's status is returned: KITH_ERR_INVALID_ARG for more
 * bytes than can be addressed, KITH_ERR_NO_MEMORY. */
kith_status ki_algo_emit(const ki_algo *algo, const ki_algo_args *args, ki_plan *plan);

/* Elements of the send and receive buffers that this rank has in the operation. */
void ki_coll_extents(const ki_algo_args *args, size_t *send_count, size_t *recv_count);

/* Appending. Algorithms look at coll->send == coll->recv etc. themselves; KI_BUF_SEND and KI_BUF_RECV then are the
 * same memory. Copies onto themselves cost nothing, so "own block to its place" needs no such test. Messages of 0
 * bytes are not appended (both sides know the size, so both leave them out). */
void ki_plan_send(ki_plan *plan, int peer, ki_ref from, size_t nbytes);
void ki_plan_recv(ki_plan *plan, int peer, ki_ref to, size_t nbytes);
/* Number of the next message: names a point for ki_plan_wait(). */
size_t ki_plan_mark(const ki_plan *plan);
/* Waits for the messages of marks [first, last); appends nothing when there are none. */
void ki_plan_wait(ki_plan *plan, size_t first, size_t last);
void ki_plan_wait_all(ki_plan *plan);
/* Appends nothing when dst is src or nbytes is 0. */
void ki_plan_copy(ki_plan *plan, ki_ref dst, ki_ref src, size_t nbytes);
void ki_plan_load(ki_plan *plan, ki_ref dst, ki_ref src, size_t count);
void ki_plan_combine(ki_plan *plan, ki_ref dst, ki_ref left, ki_ref right, size_t count);
void ki_plan_store(ki_plan *plan, ki_ref dst, ki_ref src, size_t count);
/* The caller fills the returned sources[size]; NULL on failure. */
ki_ref *ki_plan_reduce(ki_plan *plan, ki_ref dst, size_t count, int size);
/* Scratch for count elements of nbytes, 64-byte aligned. */
ki_ref ki_plan_temp(ki_plan *plan, size_t count, size_t nbytes);
/* An array for the algorithm's own use, until the next call; NULL on failure. */
size_t *ki_plan_numbers(ki_plan *plan, size_t count);
/* Keeps the first failure. */
void ki_plan_fail(ki_plan *plan, kith_status status);

void ki_plan_reset(ki_plan *plan); /* keeps the memory */
void ki_plan_fini(ki_plan *plan);

/* Verifies a plan's structure (offsets inside buffers, waits before use, every message waited for). Used in debug
 * builds and tests. */
kith_status ki_plan_check(const ki_plan *plan, const ki_algo_args *args);

/* ---- executor ---- */

/* Buffers that are not the host's, and what works on them; each function is done when it returns. */
typedef struct ki_site {
    kith_status (*copy)(void *arg, void *to, const void *from, size_t nbytes);
    /* The rest is for plans that reduce; without it the scratch is the host's. temp: the plan's scratch there. */
    kith_status (*temp)(void *arg, size_t nbytes, void **temp);
    /* LOAD, COMBINE (b: the right operand) or STORE of count elements. */
    kith_status (*compute)(void *arg, const ki_reducer *reducer, ki_step_kind kind, const void *a, const void *b,
                           void *out, size_t count);
    kith_status (*reduce)(void *arg, const ki_reducer *reducer, const void *const *sources, void *out, size_t count);
} ki_site;

/* How the executor reaches the other ranks: a backend's messages. */
typedef struct ki_transport {
    const kith_backend *backend;
    void *group;
    uint64_t tag;        /* of this operation; all messages of the plan carry it */
    const ki_site *site; /* of the buffers; NULL: memory of the host */
    void *site_arg;
} ki_transport;

typedef struct ki_executor {
    ki_plan plan;
    const ki_algo_args *args;
    ki_transport transport;
    unsigned char *temp;
    size_t temp_capacity;
    unsigned char *site_temp; /* instead of temp: where the transport's site is; the site's own */
    kith_be_slot *slots;      /* as many as messages are in flight together, reused as they complete */
    uint32_t *free_slots;     /* stack of slot numbers */
    size_t slot_capacity, free_count;
    uint32_t *slot_of; /* [message_count] slot of a message in flight, or KI_SLOT_DONE */
    size_t slot_of_capacity;
    const void **sources; /* [size] pointers for REDUCE */
    size_t source_capacity;
    size_t next;        /* step to run */
    size_t next_done;   /* what is done of a copy or reduction that runs in pieces: bytes or elements */
    size_t oldest_open; /* message not yet known complete */
    size_t started;     /* messages started */
} ki_executor;
#define KI_SLOT_DONE UINT32_MAX

/* Builds the plan and gets memory (kept between uses). args and what it points to must live until the end. */
kith_status ki_executor_start(ki_executor *executor, const ki_algo *algo, const ki_algo_args *args,
                              const ki_transport *transport);
/* The same plan once more, after it has ended well: for an operation that differs in tag and buffers only. */
kith_status ki_executor_restart(ki_executor *executor, const ki_transport *transport);
/* Runs what can run. Never blocks. Copies and reductions longer than 1 MiB are done in pieces between polls. After a
 * failure, ki_executor_cancel() ends what is in flight. */
kith_status ki_executor_step(ki_executor *executor, bool *is_done);
/* Cancels open messages; buffers are not touched afterwards. */
void ki_executor_cancel(ki_executor *executor);
/* Marks peers that open receives wait for; when there are none, those that open sends wait for. */
void ki_executor_missing(const ki_executor *executor, unsigned char *is_missing);
void ki_executor_fini(ki_executor *executor);

#endif
