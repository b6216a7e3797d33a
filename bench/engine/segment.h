/* bench/engine/segment.h - the benchmark's own shared memory: how ranks meet without the library that is measured.
 *
 * All ranks of a run map one segment. It holds their barrier, the flags of the latency probe, the command of the point
 * that runs and the times that each rank took; nothing of it is used between the two clock readings of a measurement.
 *
 * Every flag has one writer and its own pair of cache lines. Waiting spins while there are no more ranks than CPUs and
 * gives up the CPU otherwise; long waits (a server between two points) sleep.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef BENCH_SEGMENT_H
#define BENCH_SEGMENT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BENCH_MAX_RANKS 64
#define BENCH_MAX_ITERATIONS 2048

typedef struct bench_flag {
    _Alignas(128) _Atomic uint32_t value;
} bench_flag;

typedef struct bench_stamp {
    _Alignas(128) _Atomic uint64_t ticks[2]; /* of even and odd barriers */
} bench_stamp;

/* What the ranks do next; written by rank 0. */
typedef struct bench_command {
    int is_quit;
    int op, mode, variant;
    uint64_t nbytes;
    int min_iterations, max_iterations;
    double budget_ms;
} bench_command;

typedef struct bench_segment {
    bench_flag arrived[BENCH_MAX_RANKS];
    bench_stamp arrived_at[BENCH_MAX_RANKS];
    bench_flag ping, pong;
    bench_flag phase[2]; /* of even and odd iterations; rank 0 writes before the barrier */
    bench_flag bell;     /* counts commands; sleepers wait on it */
    bench_flag is_wrong; /* some rank got wrong data */
    bench_command command;
    uint32_t batch; /* operations between two clock readings, back to back */
    uint64_t switches[BENCH_MAX_RANKS];
    uint8_t votes[BENCH_MAX_RANKS]; /* of bench_agree() */
    _Alignas(128) double ns[BENCH_MAX_RANKS][BENCH_MAX_ITERATIONS];
} bench_segment;

/* One rank's view. */
typedef struct bench_peers {
    int rank, size;
    bool is_spinning;
    uint32_t epoch; /* of the barrier */
    uint32_t bell_heard;
    bench_segment *segment;
} bench_peers;

/* CPUs that this process may use. Ask before bench_pin(). */
int bench_usable_cpus(void);

/* Binds the calling process to CPU (local_rank mod usable CPUs) of those it may use. */
void bench_pin(int local_rank);

/* Rank 0 makes a segment under a new name, which it must hand to the other ranks; name has room for 64 bytes. False,
 * with a message on stderr, when the system refuses. */
bool bench_segment_create(char *name, bench_segment **segment);
bool bench_segment_open(const char *name, bench_segment **segment);
/* Once all ranks have it open, the name can go. */
void bench_segment_forget(const char *name);

/* Shared memory for ranks made by fork(). NULL when the system refuses. */
bench_segment *bench_segment_for_children(void);

/* usable_cpus: of the host, before anybody was pinned. */
void bench_peers_init(bench_peers *peers, bench_segment *segment, int rank, int size, int usable_cpus);

void bench_barrier(bench_peers *peers);

/* True on every rank when all ranks say true. Collective. */
bool bench_agree(bench_peers *peers, bool mine);

/* A barrier whose ranks all return at one moment: the same tick is returned on every rank, and operations start there.
 * Without spinning it is the tick at which the last rank came. */
uint64_t bench_release(bench_peers *peers);

/* Rank 0 wakes the others for the command it has written; the others sleep until then. */
void bench_ring(bench_peers *peers);
void bench_await_bell(bench_peers *peers);

/* Hand-over time of a flag between ranks 0 and 1 in nanoseconds one way, 0 on other ranks: the best of 7 rounds of 60.
 * Hosts move virtual CPUs between core complexes while they run, and everything small takes five times as long when
 * the two are apart: times are compared only where this agrees. Collective. */
double bench_flag_latency(bench_peers *peers);

#endif
