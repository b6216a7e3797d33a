/* kith/context.h - joining the others: who am I, how many are we, where do we meet.
 *
 *     kith_ctx *ctx;
 *     kith_status s = kith_init(NULL, &ctx);          // rank and size from the launcher's environment
 *     kith_group *world = kith_world(ctx);
 *     ...
 *     kith_finalize(ctx);
 *
 * Where rank and size come from, the first that applies:
 *   1. options.size > 0: the options' rank and size;
 *   2. KITH_RANK, KITH_SIZE (set by `kith run`);
 *   3. RANK, WORLD_SIZE (torchrun; also LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT);
 *      When the agent of torchrun itself holds MASTER_PORT (TORCHELASTIC_USE_AGENT_STORE), the ranks meet at
 * MASTER_PORT + 1.
 *   4. OMPI_COMM_WORLD_RANK, OMPI_COMM_WORLD_SIZE (Open MPI's mpirun);
 *   5. PMI_RANK, PMI_SIZE (MPICH's mpiexec; srun with PMI);
 *   6. SLURM_PROCID, SLURM_NTASKS, when both and SLURM_STEP_ID are set (srun);
 *   7. an MPI that the process has initialised (the mpi backend module asks it);
 *   8. alone: rank 0 of 1 - also when a launcher was not recognised, which the log tells at level info.
 * Where the ranks meet (the store), the first that applies: options.store; KITH_STORE; MASTER_ADDR and MASTER_PORT;
 * the initialised MPI; for Open MPI, MPICH and Slurm launches on one host a file in the temporary directory named by
 * the job's id; a store of its own for a single rank. More than one host without any of these is
 * KITH_ERR_INVALID_ARG.
 *
 * Stores:
 *   tcp://host:port      rank 0 listens on exactly this address (name, IPv4, or [IPv6]); the others connect.
 *   tcp://host:0?file=/path   rank 0 takes a free port and writes it to the file; the others read it there.
 *   file:///path         a file on a file system that all ranks share (created; removed by kith_finalize()).
 *   inproc://name        ranks that are threads of this process.
 *
 * Threads: a context and all that hangs off it is used by one thread at a time; different contexts may be used by
 * different threads at once, also as ranks of one job. kith_group_abort() and kith_error_detail() are free of that
 * rule.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KITH_CONTEXT_H
#define KITH_CONTEXT_H

#include <kith/status.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct kith_ctx kith_ctx;
struct kith_group;

/* Memory for what the objects of a context hold. All three are set or none; arg is handed through. realloc is not
 * needed. Handles, and what requests keep between operations, come from malloc: they outlive contexts and are used
 * again, so that a stale handle is an error and not a crash. */
typedef struct kith_allocator {
    void *(*alloc)(void *arg, size_t nbytes, size_t alignment); /* NULL on failure; alignment is a power of two */
    void (*free)(void *arg, void *ptr);
    void *arg;
} kith_allocator;

/* One setting: the name as `kith info --config` prints it, without the KITH_ prefix, in lower case ("shm_cma"). */
typedef struct kith_setting {
    const char *name;
    const char *value;
} kith_setting;

/* Fill with KITH_INIT_OPTIONS_INIT, then set what differs. Zero and NULL mean the default. Everything is copied. */
typedef struct kith_init_options {
    size_t struct_size;
    int rank;                        /* used when size > 0; 0 <= rank < size */
    int size;                        /* 0: find both */
    int local_rank;                  /* used when local_size > 0; position among this host's ranks */
    int local_size;                  /* 0: found from the launcher or by comparing hosts */
    const char *backend;             /* "auto" (default), "shm", "ucx", "mpi", "nccl", or a plugin's */
    const char *store;               /* see above */
    const char *secret;              /* shared secret of the TCP store; default KITH_SECRET, else none */
    int64_t timeout_ms;              /* default deadline of every wait; negative: none; 0: KITH_TIMEOUT_MS (none) */
    int64_t connect_timeout_ms;      /* deadline of joining and of group creation; 0: KITH_CONNECT_TIMEOUT_MS (30 s) */
    const kith_setting *settings;    /* override the environment */
    size_t setting_count;
    const kith_allocator *allocator; /* NULL: malloc */
    const char *device;              /* see kith/device.h: "cuda", "cuda:1", "cuda:local"; NULL: KITH_DEVICE, or none */
} kith_init_options;

#define KITH_INIT_OPTIONS_INIT { sizeof(kith_init_options), 0, 0, 0, 0, NULL, NULL, NULL, 0, 0, NULL, 0, NULL, NULL }

/* A child made by fork() may call exec or _exit; the parent's objects are KITH_ERR_INVALID_ARG there. */

/* Joins. Collective over all ranks of the job; blocks until all have come or the connect deadline passes.
 * options may be NULL. On failure all ranks that came get the same status, *ctx is not written, and the detail says
 * which ranks are missing or what was tried. Settings that must agree between ranks are compared here:
 * KITH_ERR_MISMATCH names the first that differs. Owner of *ctx: the caller, until kith_finalize(). */
KITH_API kith_status kith_init(const kith_init_options *options, kith_ctx **ctx);

/* Leaves. Collective: waits, at most for the context's connect deadline, until all ranks came here, so that messages
 * sent before are delivered. Once the world has failed on this rank (a peer died, a deadline passed, an abort) nobody
 * is waited for. Requests still pending are aborted. Destroys every group, mesh and request of the context; handles
 * to them are invalid afterwards. ctx NULL is fine. The context is gone whatever is returned. */
KITH_API kith_status kith_finalize(kith_ctx *ctx);

/* Ends without the others: aborts every group, closes everything, never blocks on a peer. For error paths. NULL is
 * fine. */
KITH_API void kith_abandon(kith_ctx *ctx);

KITH_API int kith_rank(const kith_ctx *ctx);       /* -1 when ctx is invalid */
KITH_API int kith_size(const kith_ctx *ctx);       /* -1 when ctx is invalid */
KITH_API int kith_local_rank(const kith_ctx *ctx); /* position among the ranks of this host, by rank */
KITH_API int kith_local_size(const kith_ctx *ctx);

/* Index of the host of a world rank: hosts are numbered by their lowest rank. -1 for a rank outside. */
KITH_API int kith_node_of(const kith_ctx *ctx, int world_rank);
KITH_API int kith_node_count(const kith_ctx *ctx);

/* The group of all ranks, in order. Borrowed; lives as long as ctx. NULL when ctx is invalid. */
KITH_API struct kith_group *kith_world(const kith_ctx *ctx);

/* Advances everything pending on ctx once, without blocking. Waiting on any request does the same. */
KITH_API kith_status kith_progress(kith_ctx *ctx);

/* What `kith info` prints, as JSON: {"version", "backends": [{"name", "available", "reason", ...}], "devices",
 * "blas", "config", "algorithms"}. Needs no context. *json belongs to the caller: kith_free(). */
KITH_API kith_status kith_info_json(char **json);

/* Releases what a kith function said it is for. NULL is fine. */
KITH_API void kith_free(void *ptr);

#ifdef __cplusplus
}
#endif
#endif
