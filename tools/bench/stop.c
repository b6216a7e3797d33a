/* tools/bench/stop.c - Ctrl-C: the point under way is given up, what was measured before is printed and saved.
 *
 * A signal is noted and no more; ranks ask one another after each round of samples whether one of them has it, so that
 * all stop at the same place. A second request ends the process at once, as the operation may hang. Launchers may send
 * one request as two signals at a time (to a process and to its group), which are one.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "bench.h"

#include <signal.h>

#define SAME_REQUEST_US 300000.0

static volatile sig_atomic_t noted;
static double noted_at_us;

static void note(int number)
{
    double now = bench_now_us();
    if (noted == 0) {
        noted = number;
        noted_at_us = now;
    } else if (now - noted_at_us > SAME_REQUEST_US) {
        signal(number, SIG_DFL);
        raise(number);
    }
}

static void set(void (*handler)(int))
{
    struct sigaction action = { .sa_handler = handler, .sa_flags = SA_RESTART };
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

void bench_stop_listen(void)
{
    set(note);
}

void bench_stop_ignore(void)
{
    set(SIG_IGN);
}

int bench_stop_noted(void)
{
    return noted;
}
