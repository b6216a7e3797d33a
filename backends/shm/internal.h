/* backends/shm/internal.h - the objects of the shared-memory backend and what its files offer each other.
 *
 * One arena per group (arena.c), laid out as layout.c says: a header, one block of single-writer words per rank, cells
 * for small collectives, a ring of bytes per rank for large ones, and one message channel per ordered pair of ranks.
 *
 * Rules that everything here keeps:
 *   - A shared word has one writer, unless its comment says otherwise. Writers store with release, readers load with
 *     acquire. Numbers only grow, so nothing is ever reset.
 *   - A collective has a number, 1, 2, ..., the same on all ranks (coll.c). A rank works on one at a time, in order: it
 *     has finished number s - 1 when it starts number s.
 *   - Which path an operation takes is a pure function of values equal on all ranks: arguments that must agree,
 *     settings that were compared, and what the ranks published for this operation.
 *   - Nothing blocks: every *_step() does what can be done now and returns.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_SHM_INTERNAL_H
#define KI_SHM_INTERNAL_H

#include "shm.h"
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/types.h>

#define SHM_LINE 64
#define SHM_INLINE_NBYTES 56 /* payload that travels in the line of a cell's flag */
#define SHM_CELLS 8          /* cells per rank: collective s uses cell s % SHM_CELLS */

/* A word alone in a pair of cache lines (the prefetcher fetches pairs). */
typedef struct shm_word {
    uint64_t value;
    unsigned char pad[120];
} __attribute__((aligned(128))) shm_word;

/* ---- the arena --------------------------------------------------------------------------------------------------- */

typedef struct shm_header {
    uint64_t magic, nonce; /* written by rank 0 before anybody else maps the arena */
    shm_word aborted;      /* several writers: 1 + rank that aborted the group */
    shm_word poisoned;     /* several writers: 1: no rank may touch another rank's buffers any more (coll_cancel) */
    shm_word answer;   /* of rank 0: twice the number of the collective that asked, plus 1 for the kernel (trial.c) */
    shm_word sleepers; /* several writers: ranks that sleep or are about to (doorbell.c) */
} shm_header;

/* A rank's fastest times of both ways (trial.c), valid for the collective of this number. */
typedef struct shm_report {
    uint64_t number, ns[2];
    unsigned char pad[104];
} __attribute__((aligned(128))) shm_report;

/* The words that a rank writes, but for the doorbell. */
typedef struct shm_rank_block {
    shm_word started;   /* number of the collective that this rank has come to; read when one is late */
    shm_word done;      /* number of the last collective that this rank has finished, where it says so (cells.c) */
    shm_word published; /* position in the byte ring up to which this rank's pieces can be read */
    shm_word consumed;  /* position up to which this rank needs nobody's pieces any more */
    shm_word touching;  /* nonzero while this rank works in other ranks' buffers */
    shm_word doorbell;  /* low 32 bits: futex word, increased by whoever wakes this rank */
    shm_report report;
    shm_word left; /* 1: this rank has destroyed the group; the end of its process is no failure of its own */
} shm_rank_block;

/* How the others can work in a rank's buffers in this operation; the least of all ranks counts. */
typedef enum shm_reach {
    SHM_REACH_NONE,   /* not at all: in place in a way that depends on the order of work */
    SHM_REACH_REMOTE, /* through the kernel, where that is permitted */
    SHM_REACH_MAPPED  /* in their address space */
} shm_reach;

/* First line of a cell. Small collectives use flag and bytes, others flag and the descriptor. */
typedef struct shm_cell {
    uint64_t flag; /* number of the collective; last to be written */
    union {
        unsigned char bytes[SHM_INLINE_NBYTES];
        struct {
            uint64_t payload;                  /* number of the collective once the bytes behind the line are there */
            uint64_t send, recv;               /* addresses in the rank's process */
            uint64_t send_offset, recv_offset; /* in the regions */
            uint32_t send_region, recv_region; /* 0: none */
            uint32_t reach;                    /* shm_reach */
            uint32_t is_inline;                /* v-forms: the blocks follow the table of sizes */
        } about;
    };
} __attribute__((aligned(64))) shm_cell;

/* Sizes, chosen by rank 0 and told to all; offsets follow from them. */
typedef struct shm_sizes {
    uint64_t cell_nbytes;    /* payload of a cell behind its first line */
    uint64_t ring_nbytes;    /* byte ring of each rank: a power of two */
    uint64_t channel_lines;  /* header lines of a message channel: a power of two */
    uint64_t channel_nbytes; /* bytes of a message channel */
} shm_sizes;

typedef struct shm_layout {
    size_t blocks, cells, rings, channels; /* offsets */
    size_t cell_stride, ring_stride, channel_stride;
    size_t total_nbytes;
} shm_layout;

/* Sizes for a group of size ranks; scale 0 is the default, each step more halves what can be halved. False when the
 * smallest was passed. */
struct shm_settings;
bool shm_sizes_choose(const struct shm_settings *settings, int size, int scale, shm_sizes *sizes);
/* False on overflow. */
bool shm_layout_compute(const shm_sizes *sizes, int size, shm_layout *layout);

/* ---- the process's side ------------------------------------------------------------------------------------------ */

/* Values of the settings, parsed at open. SIZE_MAX: automatic. */
typedef struct shm_settings {
    bool use_memfd, use_cma, is_cma_forced, use_mapped;
    const char *directory;
    size_t eager_nbytes, cell_nbytes, ring_nbytes, chunk_nbytes, stream_nbytes;
} shm_settings;

/* One per kith_be instance (a rank). */
typedef struct shm_instance {
    const kith_be_host *host;
    shm_settings settings;
    struct shm_group *groups; /* list of all */
    int cpu_count;            /* that this process may use */
    bool has_membarrier;      /* asymmetric fences (doorbell.c) */
} shm_instance;

/* A piece of memory of which every rank of the group has its own part, mapped by all. */
typedef struct shm_part {
    unsigned char *base; /* where it is mapped here */
    size_t nbytes;
    uint64_t nonce;
} shm_part;

typedef struct shm_region {
    uint32_t id;        /* the same on all ranks, from 1 */
    bool is_registered; /* replaced the caller's pages */
    shm_part parts[];   /* [size] */
} shm_region;

typedef struct shm_peer {
    pid_t pid;
    uint64_t process;    /* random number of the process */
    uint64_t start_time; /* of the process, in clock ticks since boot: tells reused pids apart */
    int pidfd;           /* -1: none */
    bool is_here;        /* in this process */
    bool is_watched;     /* its death can be noticed */
    bool is_dead;
} shm_peer;

typedef struct shm_span {
    unsigned char *data;
    size_t nbytes;
} shm_span;

/* What is known of both ways for a class of sizes (trial.c). */
#define SHM_TRIAL_CLASSES 6
typedef struct shm_trial {
    uint32_t ns[2]; /* the fastest of each, for 64 KiB; 0: none */
    uint16_t calls; /* of this class so far, round and round; equal on all for collectives */
    bool is_remote; /* the last answer */
} shm_trial;

typedef enum shm_path {
    SHM_PATH_ALONE,  /* one rank */
    SHM_PATH_CELLS,  /* one exchange of cells */
    SHM_PATH_TABLES, /* sizes that only some ranks know are published first */
    SHM_PATH_TRIAL,  /* which way was faster is agreed first */
    SHM_PATH_STAGED, /* pieces through the rings */
    SHM_PATH_SLICES, /* the same, each rank reduces its slice and publishes it */
    /* others may work in this rank's buffers: */
    SHM_PATH_CHOOSE, /* descriptors are published, the path depends on them */
    SHM_PATH_DIRECT, /* in the ranks' mapped buffers */
    SHM_PATH_REMOTE  /* in the ranks' buffers, by process_vm_readv and process_vm_writev */
} shm_path;

/* What a kind of collective is, as data movement (traits.c). */
typedef struct shm_traits {
    bool is_multicast; /* all readers get the same bytes of a writer */
    bool is_reducing;
    bool is_root_writing; /* only root has something to give */
    bool is_root_reading; /* only root wants something */
    bool is_spread;       /* blocks from different ranks lie one behind the other in recv */
    bool is_listed;       /* v-forms */
    bool has_own_sizes;   /* ... whose counts only the two ranks of a pair know */
} shm_traits;
extern const shm_traits shm_traits_of[KITH_COLL_COUNT];

/* The active collective of a group. */
typedef struct shm_coll {
    const kith_be_coll *args;
    const shm_traits *traits;
    uint64_t number;
    shm_path path;
    int phase;     /* the path's */
    int next_peer; /* ranks below are dealt with in this phase */
    bool is_active, is_writer, is_reader;
    bool has_own;       /* the own block is copied here (not for reductions) */
    bool is_own_staged; /* the own block overlaps recv: it is reduced from a copy */
    kith_status status;
    size_t block_nbytes; /* the largest block of any pair of ranks; equal on all */
    /* where the own blocks lie, for kinds with blocks of one size; v-forms: in group->out and in */
    bool is_listed;
    unsigned char *out_start, *in_start;
    size_t out_stride, in_stride;
    /* staged */
    uint64_t base;       /* ring position of the first piece */
    size_t chunk_nbytes; /* ring bytes per round */
    size_t piece_nbytes; /* of a block, per round */
    uint64_t rounds, filled, reduced, drained;
    size_t own_nbytes, own_at; /* bytes of the own block to copy, and copied */
    uint64_t moves;            /* grows with everything that was done */
    /* direct, remote */
    size_t begin, end, at; /* the own share in bytes */
    /* trial */
    bool wants_remote; /* through the kernel where that is open; equal on all */
    bool is_timed;
    int64_t started_ns;
} shm_coll;

struct shm_channels;

typedef struct shm_group {
    shm_instance *instance;
    const kith_be_host *host;
    struct shm_group *next;
    void *cookie;
    char name[64];
    int rank, size;
    bool is_oversubscribed; /* more ranks on this host than CPUs; agreed */
    bool is_one_process;
    bool is_memfd;       /* what its memory is made of */
    bool has_membarrier; /* all have it */
    bool has_remote;     /* process_vm_* works between all; agreed */
    shm_peer *peers;     /* [size] */

    unsigned char *arena;
    uint64_t arena_nonce;
    shm_sizes sizes;
    shm_layout layout;
    shm_header *header;
    shm_rank_block *blocks; /* [size], in the arena */
    unsigned char *cells, *rings;

    uint64_t number;        /* collectives started */
    uint64_t finished_min;  /* every rank has finished this one */
    uint64_t ring_position; /* where the next staged collective starts; equal on all */
    uint64_t consumed_min;  /* every other rank has consumed up to here */
    size_t eager_nbytes;    /* cells up to this many bytes in a cell */
    size_t direct_nbytes;   /* larger collectives look whether all buffers are mapped */
    size_t stream_nbytes;   /* buffers from this size on are written with streaming stores */
    shm_coll coll;
    shm_span *out, *in;                   /* [size] blocks of v-forms; use shm_out() and shm_in() */
    unsigned char **far_send, **far_recv; /* [size] the ranks' buffers: as mapped here, or addresses in their process */
    const void **sources;                 /* [size] */
    void **targets;                       /* [size] */
    unsigned char *scratch;               /* scratch_nbytes: private, for pieces; pages come when they are touched */
    size_t scratch_nbytes;

    shm_region **regions; /* [region_count], by address of the own part */
    size_t region_count, region_capacity;
    shm_region **regions_by_id; /* [region_ids]: id - 1; NULL: freed */
    uint32_t region_ids;        /* given out so far; equal on all */

    shm_trial trials[KITH_COLL_COUNT][SHM_TRIAL_CLASSES];
    struct shm_channels *channels;
    unsigned polls;     /* fruitless tests in a row */
    int64_t checked_ns; /* last look for dead peers */
} shm_group;

/* ---- shared words ------------------------------------------------------------------------------------------------ */

static inline uint64_t shm_load(const uint64_t *word)
{
    return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

static inline void shm_store(uint64_t *word, uint64_t value)
{
    __atomic_store_n(word, value, __ATOMIC_RELEASE);
}

static inline void shm_pause(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Zeroed memory from the host; NULL on failure or overflow. */
static inline void *shm_new(const kith_be_host *host, size_t count, size_t nbytes)
{
    size_t total;
    if (__builtin_mul_overflow(count, nbytes, &total))
        return NULL;
    void *data = host->alloc(host->cookie, total != 0 ? total : 1, SHM_LINE);
    return data != NULL ? memset(data, 0, total) : NULL;
}

static inline void shm_delete(const kith_be_host *host, void *data)
{
    if (data != NULL)
        host->free(host->cookie, data);
}

static inline size_t shm_min(size_t a, size_t b)
{
    return a < b ? a : b;
}

static inline size_t shm_round_up(size_t value, size_t multiple)
{
    return (value + multiple - 1) / multiple * multiple;
}

/* The block that this rank gives to rank r, and the one that it gets from there. */
static inline shm_span shm_out(const shm_group *group, int r)
{
    const shm_coll *coll = &group->coll;
    if (coll->is_listed)
        return group->out[r];
    return (shm_span){ coll->out_start + (size_t)r * coll->out_stride, coll->block_nbytes };
}

static inline shm_span shm_in(const shm_group *group, int r)
{
    const shm_coll *coll = &group->coll;
    if (coll->is_listed)
        return group->in[r];
    return (shm_span){ coll->in_start + (size_t)r * coll->in_stride, coll->block_nbytes };
}

/* Bytes of the result of a rank that reads. */
static inline size_t shm_result_nbytes(const shm_group *group)
{
    const shm_coll *coll = &group->coll;
    return coll->traits->is_spread ? coll->block_nbytes * (size_t)group->size : coll->block_nbytes;
}

static inline shm_cell *shm_cell_of(const shm_group *group, int rank, uint64_t number)
{
    size_t index = (size_t)rank * SHM_CELLS + (size_t)(number % SHM_CELLS);
    return (shm_cell *)(group->cells + index * group->layout.cell_stride);
}

/* Where nbytes of payload of a small collective lie. */
static inline unsigned char *shm_cell_payload(shm_cell *cell, size_t nbytes)
{
    return nbytes <= SHM_INLINE_NBYTES ? cell->bytes : (unsigned char *)cell + SHM_LINE;
}

static inline unsigned char *shm_ring_at(const shm_group *group, int rank, uint64_t position)
{
    return group->rings + (size_t)rank * group->layout.ring_stride + (position & (group->sizes.ring_nbytes - 1));
}

/* Place of rank `to` among the blocks that `from` writes for the others. */
static inline int shm_place(int from, int to)
{
    return to < from ? to : to - 1;
}

#include "parts.h"

#endif
