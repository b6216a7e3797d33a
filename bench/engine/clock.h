/* bench/engine/clock.h - reading time cheaply, alike on all cores.
 *
 * On x86 with an invariant time stamp counter a tick is one count of it: about 10 ns to read and the same on every
 * core. Elsewhere a tick is a nanosecond of CLOCK_MONOTONIC. Call bench_clock_init() once before anything else.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef BENCH_CLOCK_H
#define BENCH_CLOCK_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

extern bool bench_clock_is_tsc;
extern double bench_clock_ns_per_tick;

/* Finds the clock and measures its rate against the system's (50 ms). */
void bench_clock_init(void);

/* "tsc" or "clock_gettime". */
const char *bench_clock_name(void);

static inline uint64_t bench_system_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Not moved before earlier instructions: the operation that is measured has ended when this is read. */
static inline uint64_t bench_ticks(void)
{
#if defined(__x86_64__)
    if (bench_clock_is_tsc) {
        unsigned int processor;
        return __rdtscp(&processor);
    }
#endif
    return bench_system_ns();
}

static inline double bench_ticks_to_ns(uint64_t ticks)
{
    return (double)ticks * bench_clock_ns_per_tick;
}

static inline uint64_t bench_ns_to_ticks(double ns)
{
    return (uint64_t)(ns / bench_clock_ns_per_tick);
}

static inline void bench_pause(void)
{
#if defined(__x86_64__)
    _mm_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

#endif
