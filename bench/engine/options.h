/* bench/engine/options.h - the command line that all drivers share.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef BENCH_OPTIONS_H
#define BENCH_OPTIONS_H

#include "point.h"

#include <argp.h>

typedef struct bench_options {
    bool has_op[BENCH_OP_COUNT];
    bool has_mode[BENCH_MODE_COUNT];
    size_t min_nbytes, max_nbytes;
    size_t factor; /* between sizes */
    bench_dtype dtype;
    bench_limits limits;
    int rounds;
    const char *label;      /* names the driver in rows; NULL: the driver's own name */
    const char *json_path;  /* rows as one JSON document; NULL: none */
    const char *csv_path;   /* NULL: none */
    const char *serve_path; /* NULL, or the socket from which points are asked for, see session.h */
    const char *variants;   /* comma-separated; NULL: all */
    bool is_pinned;
} bench_options;

/* The options as an argp parser, to be a child of the driver's own. Its input is a bench_options. */
extern const struct argp bench_options_argp;

/* Everything as it is without any option. */
void bench_options_init(bench_options *options);

/* "64M" -> 67108864. Suffixes k, M, G (powers of 1024). False for anything else. */
bool bench_parse_nbytes(const char *text, size_t *nbytes);

/* True when name is one of the comma-separated words of list; NULL is every word. */
bool bench_list_has(const char *list, const char *name);

#endif
