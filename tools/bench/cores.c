/* tools/bench/cores.c - where the cores of ranks 0 and 1 are, told by how long a flag takes from one to the other.
 *
 * Hosts move virtual CPUs at run time, and times change with it: threads of one core hand a flag over in about 25 ns,
 * cores that share a cache in 50 to 100, others in 200 and more. The flags lie in a segment of their own, so that no
 * backend has a part in it. The classes are those of bench/peers. A rank that waits in vain gives up, and nobody asks
 * again.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "bench.h"

#include <fcntl.h>
#include <math.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define ROUNDS 7
#define HAND_OVERS 60
#define POLLS_BEFORE_YIELD 20000
#define PATIENCE_US 1e6
#define SIBLING_NS 40.0
#define NEAR_NS 170.0
#define ALIKE 1.5 /* times that differ by less are of one place, also beside the limit of a class */
#define NAME_NBYTES 64

struct bench_flags {
    _Alignas(128) _Atomic uint32_t ping;
    _Alignas(128) _Atomic uint32_t pong;
    _Alignas(128) _Atomic uint32_t is_broken; /* somebody gave up */
};

const char *bench_cores_class(double ns)
{
    return !(ns > 0) ? "" : ns < SIBLING_NS ? "sibling" : ns < NEAR_NS ? "near" : "far";
}

const char *bench_cores_name(double before_ns, double after_ns)
{
    const char *before = bench_cores_class(before_ns), *after = bench_cores_class(after_ns);
    if (before[0] == '\0' || after[0] == '\0')
        return "";
    bool has_moved = before_ns > ALIKE * after_ns || after_ns > ALIKE * before_ns;
    return strcmp(before, after) != 0 && has_moved ? "moved" : before;
}

/* ---- the segment ---- */

static struct bench_flags *map(int fd)
{
    void *found = mmap(NULL, sizeof(struct bench_flags), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    return found != MAP_FAILED ? found : NULL;
}

static struct bench_flags *create(char *name)
{
    snprintf(name, NAME_NBYTES, "/kith-bench-%d", (int)getpid());
    int fd = shm_open(name, O_RDWR | O_CREAT | O_EXCL, 0600);
    struct bench_flags *flags = fd >= 0 && ftruncate(fd, sizeof(struct bench_flags)) == 0 ? map(fd) : NULL;
    if (fd >= 0)
        close(fd);
    if (flags == NULL && fd >= 0)
        shm_unlink(name);
    if (flags == NULL)
        name[0] = '\0';
    return flags;
}

static struct bench_flags *join(const char *name)
{
    int fd = name[0] != '\0' ? shm_open(name, O_RDWR, 0) : -1;
    struct bench_flags *flags = fd >= 0 ? map(fd) : NULL;
    if (fd >= 0)
        close(fd);
    return flags;
}

kith_status bench_cores_make(bench_cores *cores, kith_ctx *ctx, kith_group *control)
{
    char name[NAME_NBYTES] = "";
    *cores = (bench_cores){ .control = control, .rank = kith_rank(ctx) };
    if (kith_node_count(ctx) > 1 || kith_size(ctx) < 2)
        return KITH_OK;
    if (cores->rank == 0)
        cores->flags = create(name);
    kith_status status = kith_broadcast(control, name, sizeof name, KITH_INT8, 0);
    if (status == KITH_OK && cores->rank == 1)
        cores->flags = join(name);
    double ready = cores->rank > 1 || cores->flags != NULL;
    if (status == KITH_OK)
        status = kith_all_reduce_scalar(control, &ready, KITH_MIN);
    if (cores->rank == 0 && name[0] != '\0')
        shm_unlink(name);
    cores->is_there = status == KITH_OK && ready > 0;
    return status;
}

void bench_cores_free(bench_cores *cores)
{
    if (cores->flags != NULL)
        munmap(cores->flags, sizeof *cores->flags);
    cores->flags = NULL;
}

/* ---- measuring ---- */

static bool await_flag(struct bench_flags *flags, _Atomic uint32_t *flag, uint32_t value)
{
    double start = 0;
    for (int polls = 0; atomic_load_explicit(flag, memory_order_acquire) != value;) {
        if (++polls <= POLLS_BEFORE_YIELD)
            continue;
        polls = 0;
        sched_yield();
        start = start > 0 ? start : bench_now_us();
        if (bench_now_us() - start > PATIENCE_US || atomic_load(&flags->is_broken) != 0) {
            atomic_store(&flags->is_broken, 1);
            return false;
        }
    }
    return true;
}

/* Nanoseconds one way, the least of some rounds: anything else was disturbed. 0: given up. */
static double hand_over(bench_cores *cores)
{
    struct bench_flags *flags = cores->flags;
    _Atomic uint32_t *own = cores->rank == 0 ? &flags->ping : &flags->pong;
    _Atomic uint32_t *other = cores->rank == 0 ? &flags->pong : &flags->ping;
    uint32_t value = atomic_load(own);
    double best = INFINITY;
    for (int round = 0; round < ROUNDS; round++) {
        double start = bench_now_us();
        for (int i = 0; i < HAND_OVERS; i++) {
            value++;
            if (cores->rank == 0)
                atomic_store_explicit(own, value, memory_order_release);
            if (!await_flag(flags, other, value))
                return 0;
            if (cores->rank == 1)
                atomic_store_explicit(own, value, memory_order_release);
        }
        best = fmin(best, (bench_now_us() - start) * 1e3 / (2 * HAND_OVERS));
    }
    return best;
}

kith_status bench_cores_probe(bench_cores *cores, double *ns)
{
    double state[2] = { 0, 0 }; /* of rank 0; whether anybody gave up */
    *ns = NAN;
    if (!cores->is_there)
        return KITH_OK;
    kith_status status = kith_barrier(cores->control);
    if (status == KITH_OK && cores->rank < 2) {
        double found = hand_over(cores);
        state[0] = cores->rank == 0 ? found : 0;
        state[1] = found > 0 ? 0 : 1;
    }
    if (status == KITH_OK)
        status = kith_all_reduce(cores->control, state, state, 2, KITH_F64, KITH_MAX);
    cores->is_there = status == KITH_OK && state[1] == 0;
    if (cores->is_there)
        *ns = state[0];
    return status;
}
