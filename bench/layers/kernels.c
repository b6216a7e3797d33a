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
#include "layers/compute/blas.h"
#include "layers/compute/compute.h"
#include "layers/compute/loops.h"

#include <getopt.h>
#include <kith/kith.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { RUN_MS = 150 }; /* for each function */

typedef struct bench {
    ki_compute *compute;
    kith_dtype dtype, wide;
    int64_t rows, cols;
    ki_mat x, y, z, u, v; /* T, [rows, cols] */
    ki_mat a, b, c, d;    /* A, [rows, cols] */
    ki_mat weight, bias;  /* T, [1, cols] */
    ki_mat weight_grad, bias_grad;
    ki_mat mean, rstd, sums; /* A, [rows, 1], [rows, 3] */
    int32_t *ids, *columns;
    ki_dropout dropout;
    double sum;
} bench;

static void must(kith_status status, const char *what)
{
    if (status == KITH_OK)
        return;
    fprintf(stderr, "bench-layers-kernels: %s: %s: %s\n", what, kith_status_name(status), kith_error_detail());
    exit(EXIT_FAILURE);
}

static ki_mat matrix(bench *b, kith_dtype dtype, int64_t rows, int64_t cols, double deviation)
{
    size_t nbytes = (size_t)(rows * cols) * kith_dtype_nbytes(dtype);
    ki_mat m = { aligned_alloc(64, (nbytes + 63) / 64 * 64), rows, cols, cols, dtype };
    must(m.data != NULL ? KITH_OK : KITH_ERR_NO_MEMORY, "memory");
    must(b->compute->ops->normal(b->compute, 1, (uint32_t)(rows + cols), 0, 0, cols, deviation, m), "normal");
    return m;
}

/* ---- the cases ---- */

#define OPS b->compute->ops
#define CASE(name, ...)                                                                                                \
    static kith_status run_##name(bench *b)                                                                            \
    {                                                                                                                  \
        return OPS->__VA_ARGS__;                                                                                       \
    }

static const ki_mat none;

CASE(fill, fill(b->compute, b->y, 1))
CASE(copy, copy(b->compute, b->x, b->y))
CASE(add, add(b->compute, 0.5, b->x, b->y))
CASE(scale, scale(b->compute, 1.0, b->y))
CASE(bias_add, bias_add(b->compute, b->bias, b->y))
CASE(bias_grad, bias_grad(b->compute, b->x, b->bias_grad))
CASE(gelu, activation(b->compute, KI_GELU_EXACT, b->x, b->bias, b->y))
CASE(gelu_grad, activation_grad(b->compute, KI_GELU_EXACT, b->x, b->bias, b->z, b->y))
CASE(gelu_tanh, activation(b->compute, KI_GELU_TANH, b->x, b->bias, b->y))
CASE(gelu_tanh_grad, activation_grad(b->compute, KI_GELU_TANH, b->x, b->bias, b->z, b->y))
CASE(silu, activation(b->compute, KI_SILU, b->x, none, b->y))
CASE(gated, gated(b->compute, KI_SILU, b->x, b->z, b->y))
CASE(gated_grad, gated_grad(b->compute, KI_SILU, b->x, b->z, b->y, b->u, b->v))
CASE(dropout_add, dropout_add(b->compute, &b->dropout, b->x, b->bias, b->z, b->y))
CASE(dropout_grad, dropout_grad(b->compute, &b->dropout, b->x, b->y))
CASE(layer_norm, layer_norm(b->compute, 1e-5, b->x, b->weight, b->bias, b->y, b->mean, b->rstd))
CASE(layer_norm_grad,
     layer_norm_grad(b->compute, b->x, b->weight, b->mean, b->rstd, b->z, b->y, b->weight_grad, b->bias_grad))
CASE(rms_norm, rms_norm(b->compute, 1e-5, b->x, b->weight, b->y, b->rstd))
CASE(rms_norm_grad, rms_norm_grad(b->compute, b->x, b->weight, b->rstd, b->z, b->y, b->weight_grad))
CASE(gather_rows, gather_rows(b->compute, b->ids, 0, b->x, b->y))
CASE(scatter_rows, scatter_rows(b->compute, b->ids, 0, b->x, b->a))
CASE(row_max, row_max(b->compute, b->x, b->mean))
CASE(loss_sums, loss_sums(b->compute, b->x, b->ids, 0, b->mean, b->sums))
CASE(loss_grad, loss_grad(b->compute, b->x, b->ids, 0, -1, 0.1, b->cols, 1, b->mean, b->sums, b->y))
CASE(softmax, softmax(b->compute, b->x, b->a))
CASE(top_k, top_k(b->compute, b->a, 2, b->sums, b->columns))
CASE(row_dots, row_dots(b->compute, b->x, b->z, b->mean))
CASE(normal, normal(b->compute, 1, 2, 0, 0, b->cols, 1, b->y))
CASE(sum_squares, sum_squares(b->compute, b->x, &b->sum))

static kith_status run_gemm(bench *b)
{
    return OPS->gemm(b->compute, KI_AS_IS, KI_TRANSPOSED, 1, b->x, b->z, 0, b->y);
}

static kith_status run_adamw(bench *b)
{
    const ki_adamw how = { 1e-3, 0.9, 0.999, 1e-8, 0.01, 10, 1 };
    return OPS->adamw(b->compute, &how, b->a, b->b, b->c, b->d, b->dtype == b->wide ? none : b->x);
}

static kith_status run_sgd(bench *b)
{
    return OPS->sgd(b->compute, 1e-3, 0.9, 0, 1, b->a, b->b, b->d, none);
}

typedef struct bench_case {
    const char *name;
    kith_status (*run)(bench *b);
    int stored, wide; /* matrices of T and of A that are read or written */
} bench_case;

static const bench_case cases[] = {
    { "copy", run_copy, 2, 0 },
    { "fill", run_fill, 1, 0 },
    { "add", run_add, 3, 0 },
    { "scale", run_scale, 2, 0 },
    { "bias_add", run_bias_add, 2, 0 },
    { "bias_grad", run_bias_grad, 1, 0 },
    { "gelu", run_gelu, 2, 0 },
    { "gelu_grad", run_gelu_grad, 3, 0 },
    { "gelu_tanh", run_gelu_tanh, 2, 0 },
    { "gelu_tanh_grad", run_gelu_tanh_grad, 3, 0 },
    { "silu", run_silu, 2, 0 },
    { "gated", run_gated, 3, 0 },
    { "gated_grad", run_gated_grad, 5, 0 },
    { "dropout_add", run_dropout_add, 3, 0 },
    { "dropout_grad", run_dropout_grad, 2, 0 },
    { "layer_norm", run_layer_norm, 2, 0 },
    { "layer_norm_grad", run_layer_norm_grad, 3, 0 },
    { "rms_norm", run_rms_norm, 2, 0 },
    { "rms_norm_grad", run_rms_norm_grad, 3, 0 },
    { "row_max", run_row_max, 1, 0 },
    { "loss_sums", run_loss_sums, 1, 0 },
    { "loss_grad", run_loss_grad, 2, 0 },
    { "softmax", run_softmax, 1, 1 },
    { "top_k", run_top_k, 0, 1 },
    { "gather_rows", run_gather_rows, 2, 0 },
    { "scatter_rows", run_scatter_rows, 1, 2 },
    { "row_dots", run_row_dots, 2, 0 },
    { "sum_squares", run_sum_squares, 1, 0 },
    { "normal", run_normal, 1, 0 },
    { "adamw", run_adamw, 0, 7 },
    { "sgd", run_sgd, 0, 5 },
};

/* ---- measuring ---- */

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* The least time of a call: others on this machine only ever make it longer. */
static double least_seconds(bench *b, const char *name, kith_status (*run)(bench *b))
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

static void measure(bench *b, const bench_case *c)
{
    double elements = (double)b->rows * (double)b->cols;
    double nbytes =
        elements * (c->stored * (double)kith_dtype_nbytes(b->dtype) + c->wide * (double)kith_dtype_nbytes(b->wide));
    double took = least_seconds(b, c->name, c->run);
    printf("%-16s %8.3f ns/element  %7.2f GB/s\n", c->name, 1e9 * took / elements, 1e-9 * nbytes / took);
}

static void measure_gemm(bench *b)
{
    bench square = *b;
    square.x = matrix(b, b->dtype, b->cols, b->cols, 1);
    square.z = matrix(b, b->dtype, b->cols, b->cols, 1);
    square.y = matrix(b, b->dtype, b->cols, b->cols, 1);
    double n = (double)b->cols, took = least_seconds(&square, "gemm", run_gemm);
    printf("%-16s %8.3f ms          %7.2f GFLOP/s  (%lld x %lld x %lld, %s)\n", "gemm", 1e3 * took,
           2e-9 * n * n * n / took, (long long)b->cols, (long long)b->cols, (long long)b->cols,
           b->compute->blas->library);
    free(square.x.data);
    free(square.y.data);
    free(square.z.data);
}

static void make_data(bench *b)
{
    ki_mat *stored[] = { &b->x, &b->y, &b->z, &b->u, &b->v }, *wide[] = { &b->a, &b->b, &b->c, &b->d };
    ki_mat *columns[] = { &b->mean, &b->rstd }, *lines[] = { &b->weight, &b->bias };
    for (size_t i = 0; i < sizeof stored / sizeof stored[0]; i++)
        *stored[i] = matrix(b, b->dtype, b->rows, b->cols, 1);
    for (size_t i = 0; i < sizeof wide / sizeof wide[0]; i++)
        *wide[i] = matrix(b, b->wide, b->rows, b->cols, 1e-2);
    for (size_t i = 0; i < 2; i++) {
        *columns[i] = matrix(b, b->wide, b->rows, 1, 1);
        *lines[i] = matrix(b, b->dtype, 1, b->cols, 1);
    }
    b->weight_grad = matrix(b, b->wide, 1, b->cols, 1);
    b->bias_grad = matrix(b, b->wide, 1, b->cols, 1);
    b->sums = matrix(b, b->wide, b->rows, 3, 1);
    b->ids = (int32_t *)calloc((size_t)b->rows, sizeof *b->ids);
    b->columns = (int32_t *)calloc((size_t)b->rows * 2, sizeof *b->columns);
    must(b->ids != NULL && b->columns != NULL ? KITH_OK : KITH_ERR_NO_MEMORY, "memory");
    for (int64_t i = 0; i < b->rows; i++)
        b->ids[i] = (int32_t)(i * 7919 % b->rows);
    must(OPS->copy(b->compute, b->a, b->c), "copy");
    must(OPS->activation(b->compute, KI_SILU, b->c, none, b->c), "silu"); /* second moments are not negative */
    must(OPS->row_max(b->compute, b->x, b->mean), "row_max");
    b->dropout = (ki_dropout){ .probability = 0.1, .seed = 7, .site = 1, .batch = 1 };
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
    bench b = { .rows = 512, .cols = 4096, .dtype = KITH_F32 };
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
    b.wide = ki_accumulator_of(b.dtype);
    must(ki_compute_open_host(threads, &b.compute), "host");
    if (isa != NULL && !ki_compute_select_loops(b.compute, isa))
        usage();
    make_data(&b);
    printf("%lld x %lld, %s, %s loops\n", (long long)b.rows, (long long)b.cols, kith_dtype_name(b.dtype),
           b.compute->loops->isa);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        if (is_wanted(cases[i].name, argv + optind, argc - optind))
            measure(&b, &cases[i]);
    if (is_wanted("gemm", argv + optind, argc - optind))
        measure_gemm(&b);
    return 0;
}
