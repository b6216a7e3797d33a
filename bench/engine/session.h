/* bench/engine/session.h - a run: either a sweep over what the command line names, or points that somebody asks for.
 *
 * Server (--serve SOCKET): rank 0 connects to a Unix stream socket on which the asker listens. Each line it reads is a
 * JSON object, of which op and variant must be there:
 *
 *   {"op": "all_reduce", "nbytes": 1024, "mode": "cold", "variant": "ordinary", "round": 3, "budget_ms": 80,
 *    "min_iterations": 11, "max_iterations": 1000}
 *
 * and each answer is one line: a row (report.h), or {"error": "..."} for a point that this driver does not have. On
 * connecting it sends {"driver": "...", "ranks": 2, "variants": [...]}. The end of the stream ends the run. Between
 * points all ranks sleep, so any number of servers can wait on one machine while one of them measures.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef BENCH_SESSION_H
#define BENCH_SESSION_H

#include "options.h"

/* Collective. Returns the exit status: 0, or 1 when an operation failed or data were wrong. */
int bench_session_run(const bench_driver *driver, const bench_options *options);

/* This process's rank among those of its host, from what launchers set in the environment; -1 when nobody told. For
 * pinning before a library starts. BENCH_PIN_VARIABLE names another variable to read: ranks in several network
 * namespaces of one machine are each the first of their host, and must not all be pinned to one CPU. */
int bench_launcher_local_rank(void);

#endif
