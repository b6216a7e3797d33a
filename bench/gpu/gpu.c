/* bench/gpu/gpu.c - see gpu.h.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "gpu.h"

#include "layers/layers.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- words ---- */

static char part[96] = "gpu";

void must(kith_status status, const char *what)
{
    if (status != KITH_OK)
        give_up("%s: %s: %s", what, kith_status_name(status), kith_error_detail());
}

static void say(const char *format, va_list args)
{
    fputs("kith_gpu_bench: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    fflush(NULL);
}

/* Ends without the handlers of CUDA's libraries, which would wait for work that may never end. */
void give_up(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    say(format, args);
    va_end(args);
    _Exit(EXIT_FAILURE);
}

void cannot_run(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    say(format, args);
    va_end(args);
    _Exit(77);
}

void report_part(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(part, sizeof part, format, args);
    va_end(args);
}

void report(const char *what, const char *measured, const char *beside, const char *share)
{
    printf("%s\t%s\t%s\t%s\t%s\n", part, what, measured, beside, share);
    fflush(stdout);
}

const char *words(const char *format, ...)
{
    static char texts[16][128];
    static int next;
    char *text = texts[next++ % 16];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof texts[0], format, args);
    va_end(args);
    return text;
}

const char *size_words(size_t nbytes)
{
    if (nbytes >= (size_t)1 << 20)
        return words("%zu MiB", nbytes >> 20);
    return nbytes >= 1024 ? words("%zu KiB", nbytes >> 10) : words("%zu B", nbytes);
}

const char *time_words(double seconds)
{
    if (seconds < 1e-3)
        return words("%.2f us", 1e6 * seconds);
    return words("%.2f ms", 1e3 * seconds);
}

/* ---- memory ---- */

void *gpu_alloc(gpu *g, size_t nbytes)
{
    void *ptr = NULL;
    must(kith_device_alloc(g->device, nbytes, &ptr), "memory of the card");
    return ptr;
}

void gpu_free(gpu *g, void *ptr)
{
    must(kith_device_free(g->device, ptr), "freeing memory of the card");
}

void gpu_put(gpu *g, void *to, const void *from, size_t nbytes)
{
    must(kith_stream_copy(g->stream, to, from, nbytes), "a copy to the card");
    must(kith_stream_synchronize(g->stream), "a copy to the card");
}

void gpu_get(gpu *g, void *to, const void *from, size_t nbytes)
{
    must(kith_stream_copy(g->stream, to, from, nbytes), "a copy from the card");
    must(kith_stream_synchronize(g->stream), "a copy from the card");
}

ki_compute *gpu_compute(gpu *g)
{
    kith_layers_options options = KITH_LAYERS_OPTIONS_INIT;
    options.dtype = g->dtype;
    options.blas_threads = -1;
    options.device = g->device;
    options.stream = g->stream;
    options.allows_tf32 = g->allows_tf32;
    if (g->layers == NULL)
        must(kith_layers_create(&options, &g->layers), "layers on the card");
    return g->layers->compute;
}

void gpu_close_compute(gpu *g)
{
    must(kith_layers_destroy(g->layers), "closing layers");
    g->layers = NULL;
}

/* ---- time ---- */

double seconds_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static double seconds_of_batch(gpu *g, const gpu_work *work, int calls)
{
    const double start = seconds_now();
    for (int i = 0; i < calls; i++)
        must(work->run(work->arg), work->name);
    must(kith_stream_synchronize(g->stream), work->name);
    return (seconds_now() - start) / calls;
}

/* As many calls as make a batch long beside what it takes to begin and to end it, and no more than a stream holds. */
static int calls_of_batch(gpu *g, const gpu_work *work)
{
    (void)seconds_of_batch(g, work, 1); /* what is only done once */
    const double calls = (g->is_quick ? 1e-4 : 1e-2) / seconds_of_batch(g, work, 2);
    return calls < 2 ? 2 : calls > 400 ? 400 : (int)calls;
}

void gpu_seconds_of_both(gpu *g, const gpu_work *first, const gpu_work *second, double seconds[2])
{
    const gpu_work *const works[2] = { first, second };
    const int turns = g->is_quick ? 1 : 6;
    int calls[2];
    for (int i = 0; i < 2 && works[i] != NULL; i++) {
        calls[i] = calls_of_batch(g, works[i]);
        seconds[i] = 1e30;
    }
    for (int turn = 0; turn < turns; turn++) {
        for (int i = 0; i < 2 && works[i] != NULL; i++) {
            const double took = seconds_of_batch(g, works[i], calls[i]);
            seconds[i] = took < seconds[i] ? took : seconds[i];
        }
    }
}

double gpu_seconds(gpu *g, const gpu_work *work)
{
    double seconds[2];
    gpu_seconds_of_both(g, work, NULL, seconds);
    return seconds[0];
}

/* ---- the copy ---- */

typedef struct copy {
    gpu *g;
    void *to, *from;
    size_t nbytes;
} copy;

static kith_status run_copy(void *arg)
{
    const copy *c = (const copy *)arg;
    return kith_stream_copy(c->g->stream, c->to, c->from, c->nbytes);
}

double gpu_copy_gbps(gpu *g)
{
    copy c = { g, NULL, NULL, g->is_quick ? (size_t)1 << 16 : (size_t)1 << 30 };
    if (c.nbytes > g->info.free_nbytes / 4)
        c.nbytes = (size_t)(g->info.free_nbytes / 4);
    c.to = gpu_alloc(g, c.nbytes);
    c.from = gpu_alloc(g, c.nbytes);
    must(kith_stream_fill(g->stream, c.from, 1, c.nbytes), "fill");
    const gpu_work work = { run_copy, &c, "copy" };
    const double seconds = gpu_seconds(g, &work);
    gpu_free(g, c.to);
    gpu_free(g, c.from);
    return 2e-9 * (double)c.nbytes / seconds;
}
