/* bench/gpu/kernels.c - the kernels of layers/compute/cuda beside the bandwidth of a copy on the same card.
 *
 * The functions and what they have to move are those of bench/layers/cases.h. Matrices are several times larger than
 * the card's caches.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "../layers/cases.h"
#include "gpu.h"

#include <string.h>

static void *alloc(bench_data *b, size_t nbytes)
{
    return gpu_alloc((gpu *)b->owner, nbytes);
}

static kith_status put(bench_data *b, void *to, const void *from, size_t nbytes)
{
    gpu_put((gpu *)b->owner, to, from, nbytes);
    return KITH_OK;
}

typedef struct one_case {
    bench_data *data;
    const bench_case *which;
} one_case;

static kith_status run_case(void *arg)
{
    const one_case *c = (const one_case *)arg;
    return c->which->run(c->data);
}

static void measure(gpu *g, bench_data *data, const bench_case *which, double copy_gbps)
{
    one_case c = { data, which };
    const gpu_work work = { run_case, &c, which->name };
    const double elements = (double)data->rows * (double)data->cols;
    const double nbytes = elements * (which->stored * (double)kith_dtype_nbytes(data->dtype) +
                                      which->wide * (double)kith_dtype_nbytes(data->wide));
    const double gbps = 1e-9 * nbytes / gpu_seconds(g, &work);
    report(which->name, words("%.0f GB/s", gbps), words("copy %.0f GB/s", copy_gbps),
           words("%.0f %%", 100 * gbps / copy_gbps));
}

void bench_kernels(gpu *g)
{
    const double copy_gbps = gpu_copy_gbps(g);
    bench_data data = { .compute = gpu_compute(g),
                        .dtype = g->dtype,
                        .rows = g->is_quick ? 24 : 16384,
                        .cols = g->is_quick ? 72 : 8192,
                        .alloc = alloc,
                        .put = put,
                        .owner = g };
    /* About 60 bytes for an element of a matrix in all. */
    while (!g->is_quick && 60 * (uint64_t)(data.rows * data.cols) > g->info.free_nbytes / 2 && data.rows > 256)
        data.rows /= 2;
    must(bench_make_data(&data), "matrices on the card");
    report_part("kernels, %s", kith_dtype_name(g->dtype));
    for (size_t i = 0; i < bench_case_count; i++)
        measure(g, &data, &bench_cases[i], copy_gbps);
    ki_mat *list[BENCH_MATRICES];
    for (size_t i = 0, count = bench_matrices(&data, list); i < count; i++)
        gpu_free(g, list[i]->data);
    gpu_free(g, data.ids);
    gpu_free(g, data.columns);
}
