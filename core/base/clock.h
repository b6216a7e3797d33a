/* core/base/clock.h - monotonic time.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_BASE_CLOCK_H
#define KI_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline int64_t ki_now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Sleeps; returns early on a signal. */
static inline void ki_sleep_ns(int64_t ns)
{
    struct timespec t = { (time_t)(ns / 1000000000), (long)(ns % 1000000000) };
    nanosleep(&t, NULL);
}

/* Deadlines are absolute ns of ki_now_ns(); 0 means none. */
static inline int64_t ki_deadline_after_ms(int64_t timeout_ms)
{
    return timeout_ms > 0 ? ki_now_ns() + timeout_ms * 1000000 : 0;
}

static inline int ki_deadline_passed(int64_t deadline_ns)
{
    return deadline_ns != 0 && ki_now_ns() >= deadline_ns;
}

#endif
