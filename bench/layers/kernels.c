/* bench/layers/kernels.c - how fast the functions of layers/compute are on one core.
 *
 *     bench-layers-kernels [--rows 512] [--cols 4096] [--dtype f32] [--kernels avx2] [--threads 1] [name ...]
 *
 * One line for each function whose name begins with one of those that are given (all without any): the least of several
 * runs as ns for an element of the matrix, and GB/s of what has to be read and written once. The matrix product has
 * GFLOP/s, of square matrices with --cols columns. Compare GB/s with the line "copy", which is what memory gives.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "cases.h"
#include "layers/compute/blas.h"
#include "layers/compute/loops.h"

#include <getopt.h>
#include <kith/kith.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { RUN_MS = 150 }; /* for each function */

static void must(kith_status status, const char *what)
{
    if (status == KITH_OK)
        return;
    fprintf(stderr, "bench-layers-kernels: %s: %s: %s\n", what, kith_status_name(status), kith_error_detail());
    exit(EXIT_FAILURE);
}

static void *alloc(bench_data *b, size_t nbytes)
{
    (void)b;
    return aligned_alloc(64, (nbytes + 63) / 64 * 64);
}

static kith_status put(bench_data *b, void *to, const void *from, size_t nbytes)
{
    (void)b;
    memcpy(to, from, nbytes);
    return KITH_OK;
}

/* A square matrix with as many rows as the others have columns. */
static ki_mat square(bench_data *b)
{
    ki_mat m = { alloc(b, (size_t)(b->cols * b->cols) * kith_dtype_nbytes(b->dtype)), b->cols, b->cols, b->cols,
                 b->dtype };
    must(m.data != NULL ? KITH_OK : KITH_ERR_NO_MEMORY, "memory");
    must(b->compute->ops->normal(b->compute, 1, 1, 0, 0, b->cols, 1, m), "normal");
    return m;
}

/* ---- measuring ---- */

static kith_status run_gemm(bench_data *b)
{
    return b->compute->ops->gemm(b->compute, KI_AS_IS, KI_TRANSPOSED, 1, b->x, b->z, 0, b->y);
}

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* The least time of a call: others on this machine only ever make it longer. */
static double least_seconds(bench_data *b, const char *name, kith_status (*run)(bench_data *b))
{
    double least = 1e30, end = seconds() + 1e-3 * RUN_MS;
    for (int i = 0; i < 3 || seconds() < end; i++) {
        double start = seconds();
        must(run(b), name);
        double took = seconds() - start;
        least = took < least ? took : least;
    }
    return least;
}

static void measure(bench_data *b, const bench_case *c)
{
    double elements = (double)b->rows * (double)b->cols;
    double nbytes =
        elements * (c->stored * (double)kith_dtype_nbytes(b->dtype) + c->wide * (double)kith_dtype_nbytes(b->wide));
    double took = least_seconds(b, c->name, c->run);
    printf("%-16s %8.3f ns/element  %7.2f GB/s\n", c->name, 1e9 * took / elements, 1e-9 * nbytes / took);
}

static void measure_gemm(bench_data *b)
{
    bench_data squares = *b;
    squares.x = square(b);
    squares.z = square(b);
    squares.y = square(b);
    double n = (double)b->cols, took = least_seconds(&squares, "gemm", run_gemm);
    printf("%-16s %8.3f ms          %7.2f GFLOP/s  (%lld x %lld x %lld, %s)\n", "gemm", 1e3 * took,
           2e-9 * n * n * n / took, (long long)b->cols, (long long)b->cols, (long long)b->cols,
           b->compute->blas->library);
    free(squares.x.data);
    free(squares.y.data);
    free(squares.z.data);
}

static bool is_wanted(const char *name, char **names, int count)
{
    for (int i = 0; i < count; i++)
        if (strncmp(name, names[i], strlen(names[i])) == 0)
            return true;
    return count == 0;
}

static void usage(void)
{
    fputs("usage: bench-layers-kernels [--rows N] [--cols N] [--dtype f32|f64|bf16] [--kernels ISA] [--threads N] "
          "[name ...]\n",
          stderr);
    exit(2);
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        { "rows", required_argument, NULL, 'r' },    { "cols", required_argument, NULL, 'c' },
        { "dtype", required_argument, NULL, 'd' },   { "kernels", required_argument, NULL, 'k' },
        { "threads", required_argument, NULL, 't' }, { NULL, 0, NULL, 0 }
    };
    bench_data b = { .rows = 512, .cols = 4096, .dtype = KITH_F32, .alloc = alloc, .put = put };
    const char *isa = NULL;
    int threads = 1;
    for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        if (option == 'r')
            b.rows = atoll(optarg);
        else if (option == 'c')
            b.cols = atoll(optarg);
        else if (option == 'd')
            must(kith_dtype_parse(optarg, &b.dtype), "--dtype");
        else if (option == 'k')
            isa = optarg;
        else if (option == 't')
            threads = atoi(optarg);
        else
            usage();
    }
    if (b.rows < 1 || b.cols < 3)
        usage();
    must(ki_compute_open_host(threads, &b.compute), "host");
    if (isa != NULL && !ki_compute_select_loops(b.compute, isa))
        usage();
    must(bench_make_data(&b), "data");
    printf("%lld x %lld, %s, %s loops\n", (long long)b.rows, (long long)b.cols, kith_dtype_name(b.dtype),
           b.compute->loops->isa);
    for (size_t i = 0; i < bench_case_count; i++)
        if (is_wanted(bench_cases[i].name, argv + optind, argc - optind))
            measure(&b, &bench_cases[i]);
    if (is_wanted("gemm", argv + optind, argc - optind))
        measure_gemm(&b);
    return 0;
}
