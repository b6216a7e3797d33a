/* bench/engine/serve.h - the line between a server and whoever asks it for points. What goes over it is told in
 * session.h.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef BENCH_SERVE_H
#define BENCH_SERVE_H

#include "point.h"

#include <jansson.h>

typedef struct bench_line bench_line;

typedef struct bench_request {
    bench_command command; /* without the variant's number */
    char variant[64];
    int round;
} bench_request;

/* NULL, with a message on stderr, when nobody listens at path. */
bench_line *bench_serve_connect(const char *path);
void bench_serve_close(bench_line *line);

bool bench_serve_greet(bench_line *line, const bench_driver *driver);

/* The next question, or NULL at the end of the stream. A line that is no JSON comes as JSON null. */
json_t *bench_serve_read(bench_line *line);

/* Takes the reference to reply. */
bool bench_serve_write(bench_line *line, json_t *reply);

/* Fills *request; what the question does not say comes from defaults. NULL, or what is wrong with it. */
const char *bench_serve_parse(json_t *question, const bench_limits *defaults, bench_request *request);

#endif
