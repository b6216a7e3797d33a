/* bench/gpu/products.c - products of the device's table beside cuBLAS called for the same shapes, and attention
 * beside a product.
 *
 * The call without Kith has a handle of its own with cuBLAS's defaults, and the same types, operands and stream. Both
 * are measured in turns, since a card that gets warm gets slower.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "gpu.h"
#include "layers/compute/cuda/cublas.h"

#include <stdlib.h>

typedef struct product {
    gpu *g;
    const ki_cublas *cublas;
    cublasHandle_t handle;
    ki_transpose of_b;
    int m, n, k; /* c: [m, n], op(a): [m, k], op(b): [k, n] */
    ki_mat a, b, c;
} product;

static kith_status run_kith(void *arg)
{
    const product *p = (const product *)arg;
    ki_compute *compute = gpu_compute(p->g);
    return compute->ops->gemm(compute, KI_AS_IS, p->of_b, 1, p->a, p->b, 0, p->c);
}

/* Columns side by side instead of rows: c^T = op(b)^T a^T. */
static kith_status run_cublas(void *arg)
{
    const product *p = (const product *)arg;
    const float one = 1, zero = 0;
    const cudaDataType_t type = p->a.dtype == KITH_F32 ? CUDA_R_32F : CUDA_R_16BF;
    const cublasComputeType_t compute = p->g->allows_tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
    const cublasStatus_t status =
        p->cublas->cublasGemmEx(p->handle, p->of_b == KI_AS_IS ? CUBLAS_OP_N : CUBLAS_OP_T, CUBLAS_OP_N, p->n, p->m,
                                p->k, &one, p->b.data, type, (int)p->b.stride, p->a.data, type, (int)p->a.stride, &zero,
                                p->c.data, type, (int)p->c.stride, compute, CUBLAS_GEMM_DEFAULT);
    if (status != CUBLAS_STATUS_SUCCESS)
        give_up("cublasGemmEx: %s", p->cublas->cublasGetStatusString(status));
    return KITH_OK;
}

static ki_mat matrix(gpu *g, int64_t rows, int64_t cols, uint32_t site)
{
    ki_compute *compute = gpu_compute(g);
    ki_mat m = { gpu_alloc(g, (size_t)(rows * cols) * kith_dtype_nbytes(g->dtype)), rows, cols, cols, g->dtype };
    must(compute->ops->normal(compute, 1, site, 0, 0, cols, 1, m), "random numbers");
    return m;
}

static const char *rate(double flops, double seconds)
{
    return words("%.1f TFLOP/s", 1e-12 * flops / seconds);
}

static void measure(gpu *g, product *p)
{
    double seconds[2];
    const bool is_transposed = p->of_b == KI_TRANSPOSED;
    p->a = matrix(g, p->m, p->k, 1);
    p->b = is_transposed ? matrix(g, p->n, p->k, 2) : matrix(g, p->k, p->n, 2);
    p->c = matrix(g, p->m, p->n, 3);
    const gpu_work kith = { run_kith, p, "a product" }, cublas = { run_cublas, p, "a product" };
    const double flops = 2.0 * p->m * p->n * p->k;
    gpu_seconds_of_both(g, &kith, &cublas, seconds);
    report(words("[%d, %d] x [%d, %d]%s", p->m, p->k, p->k, p->n, is_transposed ? "^T" : ""), rate(flops, seconds[0]),
           words("cuBLAS %s", rate(flops, seconds[1])), words("%.1f %%", 100 * seconds[1] / seconds[0]));
    gpu_free(g, p->a.data);
    gpu_free(g, p->b.data);
    gpu_free(g, p->c.data);
}

static void open_handle(gpu *g, product *p)
{
    char reason[256];
    p->cublas = ki_cublas_open(getenv("KITH_CUBLAS_LIBRARY"), 0, reason, sizeof reason);
    if (p->cublas == NULL)
        give_up("%s", reason);
    cublasStatus_t status = p->cublas->cublasCreate_v2(&p->handle);
    if (status == CUBLAS_STATUS_SUCCESS)
        status = p->cublas->cublasSetStream_v2(p->handle, (cudaStream_t)kith_stream_native(g->stream));
    if (status != CUBLAS_STATUS_SUCCESS)
        give_up("cuBLAS: %s", p->cublas->cublasGetStatusString(status));
}

/* ---- attention ---- */

typedef struct attention {
    ki_compute *compute;
    ki_attention how;
    ki_mat q, k, v, out, lse, dout, dq, dk, dv;
} attention;

static kith_status run_forward(void *arg)
{
    const attention *t = (const attention *)arg;
    return t->compute->ops->attention(t->compute, &t->how, t->q, t->k, t->v, t->out, t->lse);
}

static kith_status run_backward(void *arg)
{
    const attention *t = (const attention *)arg;
    return t->compute->ops->attention_grad(t->compute, &t->how, t->q, t->k, t->v, t->out, t->lse, t->dout, t->dq, t->dk,
                                           t->dv);
}

static void measure_attention(gpu *g)
{
    const int64_t sequence = g->is_quick ? 32 : 4096, heads = g->is_quick ? 2 : 32, head_dim = g->is_quick ? 8 : 128;
    attention t = { .compute = gpu_compute(g),
                    .how = { .batch = 1,
                             .sequence = sequence,
                             .kv_sequence = sequence,
                             .heads = heads,
                             .kv_heads = heads,
                             .head_dim = head_dim,
                             .scale = 0.1,
                             .is_causal = true } };
    ki_mat *const all[] = { &t.q, &t.k, &t.v, &t.out, &t.dout, &t.dq, &t.dk, &t.dv };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        *all[i] = matrix(g, sequence, heads * head_dim, (uint32_t)i);
    t.lse =
        (ki_mat){ gpu_alloc(g, (size_t)(sequence * heads) * 8), sequence, heads, heads, ki_accumulator_of(g->dtype) };
    /* Two products forward, five backward, of half a square each. */
    const double one = 2.0 * (double)(heads * head_dim) * (double)sequence * (double)(sequence + 1) / 2;
    const gpu_work forward = { run_forward, &t, "attention" }, backward = { run_backward, &t, "attention backward" };
    const char *shape =
        words("%lld tokens, %lld heads of %lld, causal", (long long)sequence, (long long)heads, (long long)head_dim);
    double seconds = gpu_seconds(g, &forward);
    report(words("attention, %s", shape), rate(2 * one, seconds), time_words(seconds), "");
    seconds = gpu_seconds(g, &backward);
    report("its gradients", rate(5 * one, seconds), time_words(seconds), "");
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        gpu_free(g, all[i]->data);
    gpu_free(g, t.lse.data);
}

void bench_products(gpu *g)
{
    /* A square, the two products of a layer's forward and input gradient, and few rows. */
    static const struct {
        int m, n, k;
        ki_transpose of_b;
    } shapes[] = { { 8192, 8192, 8192, KI_AS_IS },
                   { 8192, 14336, 4096, KI_TRANSPOSED },
                   { 8192, 4096, 14336, KI_AS_IS },
                   { 256, 4096, 4096, KI_TRANSPOSED } };
    product p = { .g = g };
    open_handle(g, &p);
    report_part("products, %s", g->allows_tf32 ? "tf32" : kith_dtype_name(g->dtype));
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        const int part = g->is_quick ? 128 : 1;
        p.m = shapes[i].m / part;
        p.n = shapes[i].n / part;
        p.k = shapes[i].k / part;
        p.of_b = shapes[i].of_b;
        measure(g, &p);
    }
    if (!g->allows_tf32)
        measure_attention(g);
    (void)p.cublas->cublasDestroy_v2(p.handle);
}
