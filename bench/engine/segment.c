/* bench/engine/segment.c
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "segment.h"

#include "clock.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define RELEASE_DELAY_NS 2000.0 /* long enough for every spinning rank to have left the barrier */
#define PROBE_ROUNDS 7
#define PROBE_HANDOVERS 60
#define PROBE_POLLS_BEFORE_YIELD 20000

int bench_usable_cpus(void)
{
    cpu_set_t allowed;
    if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0) {
        return 1;
    }
    return CPU_COUNT(&allowed);
}

void bench_pin(int local_rank)
{
    cpu_set_t allowed;
    if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0 || CPU_COUNT(&allowed) == 0) {
        return;
    }
    int skip = local_rank % CPU_COUNT(&allowed);
    for (size_t cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (CPU_ISSET(cpu, &allowed) && skip-- == 0) {
            cpu_set_t one;
            CPU_ZERO(&one);
            CPU_SET(cpu, &one);
            sched_setaffinity(0, sizeof(one), &one);
            return;
        }
    }
}

static bench_segment *map_segment(int fd, int flags)
{
    void *memory = mmap(NULL, sizeof(bench_segment), PROT_READ | PROT_WRITE, MAP_SHARED | flags, fd, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

bool bench_segment_create(char *name, bench_segment **segment)
{
    snprintf(name, 64, "/kith-bench-%d-%llu", (int)getpid(), (unsigned long long)bench_system_ns());
    int fd = shm_open(name, O_CREAT | O_EXCL | O_RDWR, 0600);
    if (fd < 0 || ftruncate(fd, (off_t)sizeof(bench_segment)) != 0 || (*segment = map_segment(fd, 0)) == NULL) {
        fprintf(stderr, "bench: cannot make the shared segment %s: %s\n", name, strerror(errno));
        return false;
    }
    close(fd);
    return true;
}

bool bench_segment_open(const char *name, bench_segment **segment)
{
    int fd = shm_open(name, O_RDWR, 0600);
    if (fd < 0 || (*segment = map_segment(fd, 0)) == NULL) {
        fprintf(stderr, "bench: cannot open the shared segment %s: %s (all ranks must run on one host)\n", name,
                strerror(errno));
        return false;
    }
    close(fd);
    return true;
}

void bench_segment_forget(const char *name)
{
    shm_unlink(name);
}

bench_segment *bench_segment_for_children(void)
{
    return map_segment(-1, MAP_ANONYMOUS);
}

void bench_peers_init(bench_peers *peers, bench_segment *segment, int rank, int size, int usable_cpus)
{
    *peers = (bench_peers){ .rank = rank, .size = size, .segment = segment, .is_spinning = size <= usable_cpus };
}

static void wait_a_little(const bench_peers *peers)
{
    if (peers->is_spinning) {
        bench_pause();
    } else {
        sched_yield();
    }
}

void bench_barrier(bench_peers *peers)
{
    uint32_t epoch = ++peers->epoch;
    bench_segment *segment = peers->segment;
    atomic_store(&segment->arrived[peers->rank].value, epoch);
    for (int r = 0; r < peers->size; r++) {
        /* The difference is signed: a faster rank may already have come to the next barrier. */
        while ((int32_t)(atomic_load(&segment->arrived[r].value) - epoch) < 0) {
            wait_a_little(peers);
        }
    }
}

bool bench_agree(bench_peers *peers, bool mine)
{
    bool all = true;
    peers->segment->votes[peers->rank] = mine;
    bench_barrier(peers);
    for (int r = 0; r < peers->size; r++) {
        all = all && peers->segment->votes[r] != 0;
    }
    bench_barrier(peers); /* nobody votes again before all have counted */
    return all;
}

uint64_t bench_release(bench_peers *peers)
{
    bench_segment *segment = peers->segment;
    /* A fast rank writes its next stamp while a slow one still reads this one. */
    uint32_t slot = (peers->epoch + 1) & 1;
    atomic_store(&segment->arrived_at[peers->rank].ticks[slot], bench_ticks());
    bench_barrier(peers);
    uint64_t last = 0;
    for (int r = 0; r < peers->size; r++) {
        uint64_t stamp = atomic_load(&segment->arrived_at[r].ticks[slot]);
        last = stamp > last ? stamp : last;
    }
    if (peers->is_spinning) {
        last += bench_ns_to_ticks(RELEASE_DELAY_NS);
        while (bench_ticks() < last) {
        }
    }
    return last;
}

static void futex(_Atomic uint32_t *word, int operation, uint32_t value)
{
    syscall(SYS_futex, word, operation, value, NULL, NULL, 0);
}

void bench_ring(bench_peers *peers)
{
    atomic_fetch_add(&peers->segment->bell.value, 1);
    futex(&peers->segment->bell.value, FUTEX_WAKE, INT32_MAX);
    peers->bell_heard++;
}

void bench_await_bell(bench_peers *peers)
{
    uint32_t value;
    while ((value = atomic_load(&peers->segment->bell.value)) == peers->bell_heard) {
        futex(&peers->segment->bell.value, FUTEX_WAIT, value);
    }
    peers->bell_heard++;
}

static void await_flag(_Atomic uint32_t *flag, uint32_t value)
{
    int polls = 0;
    while (atomic_load_explicit(flag, memory_order_acquire) != value) {
        if (++polls > PROBE_POLLS_BEFORE_YIELD) {
            sched_yield();
            polls = 0;
        }
    }
}

static double hand_over(bench_peers *peers)
{
    _Atomic uint32_t *ping = &peers->segment->ping.value;
    _Atomic uint32_t *pong = &peers->segment->pong.value;
    uint32_t value = atomic_load(peers->rank == 0 ? ping : pong);
    double best = 0;
    for (int round = 0; round < PROBE_ROUNDS; round++) {
        uint64_t start = bench_ticks();
        for (int k = 0; k < PROBE_HANDOVERS; k++) {
            value++;
            if (peers->rank == 0) {
                atomic_store_explicit(ping, value, memory_order_release);
                await_flag(pong, value);
            } else {
                await_flag(ping, value);
                atomic_store_explicit(pong, value, memory_order_release);
            }
        }
        double ns = bench_ticks_to_ns(bench_ticks() - start) / (2 * PROBE_HANDOVERS);
        best = round == 0 || ns < best ? ns : best;
    }
    return best;
}

double bench_flag_latency(bench_peers *peers)
{
    double ns = 0;
    bench_barrier(peers);
    if (peers->size > 1 && peers->rank == 0) {
        ns = hand_over(peers);
        bench_ring(peers);
    } else if (peers->rank == 1) {
        ns = hand_over(peers);
        bench_await_bell(peers);
    } else if (peers->size > 1) {
        bench_await_bell(peers); /* asleep, so that the two have their CPUs for themselves */
    }
    bench_barrier(peers);
    return ns;
}
