/* bench/engine/clock.c - finds out whether the time stamp counter can be trusted, and how fast it runs.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "clock.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#define CALIBRATION_NS 50000000u

bool bench_clock_is_tsc;
double bench_clock_ns_per_tick = 1.0;

static bool has_invariant_tsc(void)
{
#if defined(__x86_64__)
    unsigned int a, b, c, d;
    /* Leaf 0x80000007, EDX bit 8: the counter runs at one rate in every power state. */
    return __get_cpuid(0x80000007u, &a, &b, &c, &d) && (d & (1u << 8)) != 0;
#else
    return false;
#endif
}

void bench_clock_init(void)
{
    bench_clock_is_tsc = has_invariant_tsc();
    if (!bench_clock_is_tsc) {
        return;
    }
    uint64_t start_ns = bench_system_ns();
    uint64_t start_ticks = bench_ticks();
    uint64_t end_ns;
    do {
        end_ns = bench_system_ns();
    } while (end_ns - start_ns < CALIBRATION_NS);
    bench_clock_ns_per_tick = (double)(end_ns - start_ns) / (double)(bench_ticks() - start_ticks);
}

const char *bench_clock_name(void)
{
    return bench_clock_is_tsc ? "tsc" : "clock_gettime";
}
