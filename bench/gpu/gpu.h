/* bench/gpu/gpu.h - what the files of kith_gpu_bench share: the card, its stream, the clock, the rows of the report.
 *
 * A command measures one part and prints a row for each point, five fields with tabs between them: part, what,
 * measured, beside, share. tests/gpu/run.sh puts the rows of all commands into one table. Times are the host's, of
 * batches that are long beside a call and end with the stream; the least of several batches counts, as others only
 * ever add.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef BENCH_GPU_H
#define BENCH_GPU_H

#include "layers/compute/compute.h"

#include <kith/kith.h>
#include <stdbool.h>
#include <stddef.h>

typedef struct gpu {
    bool is_quick; /* tiny sizes, few turns: to see that everything works */
    kith_dtype dtype;
    bool allows_tf32;
    kith_ctx *ctx; /* NULL: a command of one process */
    kith_device *device;
    kith_stream *stream;
    kith_device_info info;
    kith_layers *layers; /* with the table of the device; opened when it is first asked for */
} gpu;

/* Ends the program with the library's words unless the status is KITH_OK. */
void must(kith_status status, const char *what);
/* Ends the program with a sentence. */
void give_up(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
/* The same, with the exit status of tests that lack something. */
void cannot_run(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

/* The part of the rows that follow. */
void report_part(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* "copy", "3900 GB/s", "copy engine 4000 GB/s", "98 %". */
void report(const char *what, const char *measured, const char *beside, const char *share);
/* Fields are made from numbers; the text lives until four more were made. */
const char *words(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* "8 B", "64 KiB", "256 MiB". */
const char *size_words(size_t nbytes);
/* "3.1 us", "22 ms". */
const char *time_words(double seconds);

double seconds_now(void);

/* Memory of the card; ends the program when there is none. */
void *gpu_alloc(gpu *g, size_t nbytes);
void gpu_free(gpu *g, void *ptr);
/* Bytes of the host to the card and back, waited for. */
void gpu_put(gpu *g, void *to, const void *from, size_t nbytes);
void gpu_get(gpu *g, void *to, const void *from, size_t nbytes);

/* The table of the device, whose work goes into g->stream. */
ki_compute *gpu_compute(gpu *g);
void gpu_close_compute(gpu *g);

/* Work of one call, put into g->stream. */
typedef struct gpu_work {
    kith_status (*run)(void *arg);
    void *arg;
    const char *name;
} gpu_work;

/* Seconds of a call, one after the other in the stream. */
double gpu_seconds(gpu *g, const gpu_work *work);
/* Two kinds of work, in turns. */
void gpu_seconds_of_both(gpu *g, const gpu_work *first, const gpu_work *second, double seconds[2]);
/* What copies of the runtime from the card to itself reach, GB/s of bytes read and written. */
double gpu_copy_gbps(gpu *g);

/* ---- commands ---- */
void bench_card(gpu *g);     /* main.c */
void bench_check(gpu *g);    /* check.c: the table of the device beside the host's */
void bench_kernels(gpu *g);  /* kernels.c */
void bench_products(gpu *g); /* products.c */
void bench_nccl(gpu *g);     /* nccl.c: kith_all_reduce() beside ncclAllReduce() */
void bench_passing(gpu *g);  /* passing.c: device memory beside host memory of the same group */

#endif
