/* bench/engine/forked.h - a driver that starts its ranks itself, by fork().
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef BENCH_FORKED_H
#define BENCH_FORKED_H

#include "options.h"

typedef struct bench_forked_options {
    bench_options common;
    int size; /* ranks: -n, 2 by default */
} bench_forked_options;

/* The command line of such a driver; about: what it measures, for --help. Ends the process when the line is wrong. */
void bench_forked_parse(int argc, char **argv, const char *about, bench_forked_options *options);

/* Returns the rank that the calling process became. A rank that dies takes the others with it. */
int bench_fork_ranks(int size);

#endif
