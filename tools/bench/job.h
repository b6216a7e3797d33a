/* tools/bench/job.h - one rank of a job, and the walk through its points.
 *
 * Points are walked through twice: once to learn how large buffers must be and whether all can be done, so that
 * nothing is measured of a list that cannot be finished (look.c), and once to measure (run.c). All ranks walk in the
 * same order.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_TOOLS_BENCH_JOB_H
#define KI_TOOLS_BENCH_JOB_H

#include "bench.h"

#define SENTENCE_NBYTES 512

typedef struct bench_job {
    const bench_options *options;
    kith_ctx *ctx;
    bench_targets targets;
    bench_buffers buffers[KITH_MESH_MAX_AXES]; /* for the groups of one target in one kind of memory */
    int buffer_count;
    const bench_target *made_for; /* what buffers are for */
    bench_memory made_memory;
    bench_cores cores;
    int stop_signal; /* all ranks stop because of it; 0: none */
    bench_rows rows;
    size_t done, point_count;
    size_t printed; /* number of the last row that is a line of the table, from 1 on; 0: none */
    bool has_wrong;
    int exit_status;  /* when a point could not be finished */
    bool is_shared;   /* why, rank 0 says for all */
    bool can_go_home; /* and all ranks know, so that they can leave together */
    char sentence[SENTENCE_NBYTES];
} bench_job;

/* Notes why the job cannot go on, for all ranks to agree on or for this one to say. Returns false. */
bool bench_refuse(bench_job *job, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ---- points.c ---- */

/* Called for each point; false ends the walk. */
typedef bool (*bench_visit_fn)(bench_job *job, const bench_point *point);
bool bench_visit_all(bench_job *job, bench_visit_fn visit);

/* ---- look.c ---- */

/* The shape of a point in a group of its target. False when memory is short. */
bool bench_point_shape(const bench_point *point, int group, bench_shape *shape);
/* Counts the point, and looks whether it can be measured at all. */
bool bench_look(bench_job *job, const bench_point *point);
/* Buffers that are large enough for all points of this target and kind of memory; those of another are freed.
 * Collective over the control group. */
kith_status bench_job_buffers(bench_job *job, const bench_point *point);
void bench_job_free_buffers(bench_job *job);

#endif
