/* tests/simgpu/test_simgpu_cublas.c - the simulated cuBLAS: products against plain loops, and what it refuses.
 *
 * Elements are small integers (in halves), so every sum is exact in f32 and results are compared with ==.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "sim_test.h"
#include <cublasLt.h>
#include <cublas_v2.h>
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define fine(call) must_be(call, CUBLAS_STATUS_SUCCESS)

static const char *const two_devices[] = { "KITH_SIMGPU_DEVICES=2", NULL };

/* ---- numbers ---- */

static size_t nbytes_of(cudaDataType type)
{
    return type == CUDA_R_64F ? 8 : type == CUDA_R_32F ? 4 : 2;
}

/* Multiples of 1/2 below 16: both 16-bit types have them exactly. */
static void put(void *data, size_t at, cudaDataType type, double x)
{
    const float single = (float)x;
    uint32_t u;
    memcpy(&u, &single, sizeof u);
    if (type == CUDA_R_64F)
        ((double *)data)[at] = x;
    else if (type == CUDA_R_32F)
        ((float *)data)[at] = single;
    else if (type == CUDA_R_16BF)
        ((uint16_t *)data)[at] = (uint16_t)(u >> 16);
    else
        ((uint16_t *)data)[at] = x == 0 ? 0 : (uint16_t)((u >> 16 & 0x8000u) | ((u >> 13 & 0x3ffffu) - (112u << 10)));
}

static double get(const void *data, size_t at, cudaDataType type)
{
    if (type == CUDA_R_64F)
        return ((const double *)data)[at];
    if (type == CUDA_R_32F)
        return (double)((const float *)data)[at];
    const uint32_t half = ((const uint16_t *)data)[at];
    uint32_t u = half << 16;
    if (type == CUDA_R_16F)
        u = (half & 0x7fffu) == 0 ? (half & 0x8000u) << 16
                                  : (half & 0x8000u) << 16 | ((half & 0x7fffu) + (112u << 10)) << 13;
    float x;
    memcpy(&x, &u, sizeof x);
    return (double)x;
}

/* What comes out of rounding to the type. */
static double rounded(double x, cudaDataType type)
{
    uint32_t u;
    float single = (float)x;
    if (type == CUDA_R_64F || type == CUDA_R_32F)
        return x;
    const uint32_t kept = type == CUDA_R_16BF ? 16 : 13;
    memcpy(&u, &single, sizeof u);
    u += (1u << (kept - 1)) - 1 + (u >> kept & 1u);
    u &= ~((1u << kept) - 1);
    memcpy(&single, &u, sizeof single);
    return (double)single;
}

typedef struct matrix {
    void *host, *device;
    cudaDataType type;
    int ld;
    size_t count;
} matrix;

static matrix new_matrix(cudaDataType type, int rows, int columns, int gap, int batch, int seed)
{
    matrix m = { .type = type, .ld = rows + gap > 0 ? rows + gap : 1 };
    m.count = (size_t)m.ld * (size_t)columns * (size_t)batch;
    m.host = malloc(m.count * nbytes_of(type));
    must(m.host != NULL);
    for (size_t i = 0; i < m.count; i++)
        put(m.host, i, type, (double)((int)((i * 7 + (size_t)seed * 13) % 9) - 4) / 2);
    ok(cudaMalloc(&m.device, m.count * nbytes_of(type)));
    ok(cudaMemcpy(m.device, m.host, m.count * nbytes_of(type), cudaMemcpyHostToDevice));
    ok(cudaDeviceSynchronize());
    return m;
}

static void free_matrix(matrix *m)
{
    ok(cudaFree(m->device));
    free(m->host);
}

/* ---- one product against loops ---- */

typedef struct shape {
    cublasOperation_t of_a, of_b;
    int m, n, k, gap, batch;
    double alpha, beta;
    cudaDataType in, out;
    cublasComputeType_t compute;
} shape;

static double op_at(const matrix *x, cublasOperation_t op, int row, int column, size_t from)
{
    const size_t at =
        op == CUBLAS_OP_N ? (size_t)column * (size_t)x->ld + (size_t)row : (size_t)row * (size_t)x->ld + (size_t)column;
    return get(x->host, from + at, x->type);
}

static void check(const shape *s, const matrix *a, const matrix *b, const matrix *c, const void *got, int one)
{
    const size_t from_a = a->count / (size_t)s->batch * (size_t)one, from_b = b->count / (size_t)s->batch * (size_t)one,
                 from_c = c->count / (size_t)s->batch * (size_t)one;
    for (int j = 0; j < s->n; j++)
        for (int i = 0; i < c->ld; i++) {
            const size_t at = from_c + (size_t)j * (size_t)c->ld + (size_t)i;
            double wanted = get(c->host, at, c->type);
            if (i < s->m) {
                double sum = 0;
                for (int l = 0; l < s->k; l++)
                    sum += op_at(a, s->of_a, i, l, from_a) * op_at(b, s->of_b, l, j, from_b);
                wanted = rounded(s->alpha * sum + (s->beta == 0 ? 0 : s->beta * wanted), c->type);
            }
            if (get(got, at, c->type) != wanted) {
                fprintf(stderr, "%d x %d x %d ops %d %d types %d %d: at (%d, %d): wanted %g, got %g\n", s->m, s->n,
                        s->k, (int)s->of_a, (int)s->of_b, (int)s->in, (int)s->out, i, j, wanted, get(got, at, c->type));
                _exit(1);
            }
        }
}

static void try_shape(cublasHandle_t handle, const shape *s)
{
    matrix a = s->of_a == CUBLAS_OP_N ? new_matrix(s->in, s->m, s->k, s->gap, s->batch, 1)
                                      : new_matrix(s->in, s->k, s->m, s->gap, s->batch, 1);
    matrix b = s->of_b == CUBLAS_OP_N ? new_matrix(s->in, s->k, s->n, s->gap, s->batch, 2)
                                      : new_matrix(s->in, s->n, s->k, s->gap, s->batch, 2);
    matrix c = new_matrix(s->out, s->m, s->n, s->gap, s->batch, 3);
    const float alpha = (float)s->alpha, beta = (float)s->beta;
    const void *alpha_at = &alpha, *beta_at = &beta;
    if (s->out == CUDA_R_64F) {
        alpha_at = &s->alpha;
        beta_at = &s->beta;
    }
    if (s->batch == 1)
        fine(cublasGemmEx(handle, s->of_a, s->of_b, s->m, s->n, s->k, alpha_at, a.device, s->in, a.ld, b.device, s->in,
                          b.ld, beta_at, c.device, s->out, c.ld, s->compute, CUBLAS_GEMM_DEFAULT));
    else
        fine(cublasGemmStridedBatchedEx(handle, s->of_a, s->of_b, s->m, s->n, s->k, alpha_at, a.device, s->in, a.ld,
                                        (long long)a.count / s->batch, b.device, s->in, b.ld,
                                        (long long)b.count / s->batch, beta_at, c.device, s->out, c.ld,
                                        (long long)c.count / s->batch, s->batch, s->compute, CUBLAS_GEMM_DEFAULT));
    ok(cudaDeviceSynchronize());
    void *got = malloc(c.count * nbytes_of(s->out));
    must(got != NULL);
    ok(cudaMemcpy(got, c.device, c.count * nbytes_of(s->out), cudaMemcpyDeviceToHost));
    for (int one = 0; one < s->batch; one++)
        check(s, &a, &b, &c, got, one);
    free(got);
    free_matrix(&a);
    free_matrix(&b);
    free_matrix(&c);
}

static void products(void)
{
    static const struct {
        cudaDataType in, out;
        cublasComputeType_t compute;
    } types[] = {
        { CUDA_R_32F, CUDA_R_32F, CUBLAS_COMPUTE_32F },          { CUDA_R_64F, CUDA_R_64F, CUBLAS_COMPUTE_64F },
        { CUDA_R_16BF, CUDA_R_16BF, CUBLAS_COMPUTE_32F },        { CUDA_R_16BF, CUDA_R_32F, CUBLAS_COMPUTE_32F },
        { CUDA_R_16F, CUDA_R_16F, CUBLAS_COMPUTE_32F },          { CUDA_R_16F, CUDA_R_32F, CUBLAS_COMPUTE_32F },
        { CUDA_R_32F, CUDA_R_32F, CUBLAS_COMPUTE_32F_FAST_TF32 }
    };
    static const int sizes[][3] = { { 1, 1, 1 }, { 5, 3, 7 }, { 16, 16, 16 }, { 33, 17, 40 }, { 4, 6, 0 } };
    static const double factors[][2] = { { 1, 0 }, { 0.5, 1 }, { 2, 0.5 } };
    cublasHandle_t handle;
    fine(cublasCreate(&handle));
    for (size_t type = 0; type < sizeof types / sizeof types[0]; type++)
        for (int ops = 0; ops < 4; ops++)
            for (size_t size = 0; size < sizeof sizes / sizeof sizes[0]; size++)
                for (int variant = 0; variant < 6; variant++) {
                    const int f = variant % 3, batch = variant < 3 ? 1 : 3;
                    const shape s = { ops & 1 ? CUBLAS_OP_T : CUBLAS_OP_N,
                                      ops & 2 ? CUBLAS_OP_T : CUBLAS_OP_N,
                                      sizes[size][0],
                                      sizes[size][1],
                                      sizes[size][2],
                                      variant % 2 * 3,
                                      batch,
                                      factors[f][0],
                                      factors[f][1],
                                      types[type].in,
                                      types[type].out,
                                      types[type].compute };
                    try_shape(handle, &s);
                }
    fine(cublasDestroy(handle));
}

/* More than one tile in every direction. */
static void large_product(void)
{
    cublasHandle_t handle;
    fine(cublasCreate(&handle));
    const shape s = {
        CUBLAS_OP_T, CUBLAS_OP_N, 1030, 3, 2100, 1, 1, 1, 1, CUDA_R_16BF, CUDA_R_32F, CUBLAS_COMPUTE_32F
    };
    try_shape(handle, &s);
    fine(cublasDestroy(handle));
}

static void results(void **state)
{
    (void)state;
    case_passes(products, NULL);
    case_passes(large_product, NULL);
}

/* ---- bits ---- */

/* C = A B of row-major matrices is C^T = B^T A^T, and the CBLAS's own row-major call gives the same bits. */
static void bits_of_the_host(void)
{
    enum { M = 37, N = 29, K = 111 };
    static float a[M * K], b[K * N], wanted[M * N], got[M * N];
    void (*sgemm)(int, int, int, int, int, int, float, const float *, int, const float *, int, float, float *, int);
    void *library = dlopen("libopenblas.so.0", RTLD_NOW), *x, *y, *z;
    const float one = 1, zero = 0;
    cublasHandle_t handle;
    if (library == NULL)
        return;
    void *symbol = dlsym(library, "cblas_sgemm");
    must(symbol != NULL);
    memcpy(&sgemm, &symbol, sizeof symbol);
    for (int i = 0; i < M * K; i++)
        a[i] = 1.0f / (float)(i % 97 + 1);
    for (int i = 0; i < K * N; i++)
        b[i] = 1.0f / (float)(i % 89 + 3);
    sgemm(101, 111, 111, M, N, K, 1, a, K, b, N, 0, wanted, N);
    fine(cublasCreate(&handle));
    ok(cudaMalloc(&x, sizeof a));
    ok(cudaMalloc(&y, sizeof b));
    ok(cudaMalloc(&z, sizeof got));
    ok(cudaMemcpy(x, a, sizeof a, cudaMemcpyDefault));
    ok(cudaMemcpy(y, b, sizeof b, cudaMemcpyDefault));
    fine(cublasGemmEx(handle, CUBLAS_OP_N, CUBLAS_OP_N, N, M, K, &one, y, CUDA_R_32F, N, x, CUDA_R_32F, K, &zero, z,
                      CUDA_R_32F, N, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
    ok(cudaMemcpy(got, z, sizeof got, cudaMemcpyDefault));
    must(memcmp(got, wanted, sizeof got) == 0);
    fine(cublasDestroy(handle));
    ok(cudaFree(x));
    ok(cudaFree(y));
    ok(cudaFree(z));
}

static cublasStatus_t square(cublasHandle_t handle, const float *a, const float *b, float *c, int n, float alpha,
                             float beta, cublasComputeType_t compute)
{
    return cublasGemmEx(handle, CUBLAS_OP_N, CUBLAS_OP_N, n, n, n, &alpha, a, CUDA_R_32F, n, b, CUDA_R_32F, n, &beta, c,
                        CUDA_R_32F, n, compute, CUBLAS_GEMM_DEFAULT);
}

/* TF32 keeps 10 bits: 1 + 2^-11 becomes 1 + 2^-10 (a tie, away from zero), 1 + 2^-12 becomes 1. */
static void tf32(void)
{
    cublasHandle_t handle;
    float *c = device_floats(1), *unit = device_floats_with(1, 1);
    float *tie = device_floats_with(1, 1 + 0x1p-11f), *below = device_floats_with(1, 1 + 0x1p-12f);
    fine(cublasCreate(&handle));
    fine(square(handle, tie, unit, c, 1, 1, 0, CUBLAS_COMPUTE_32F));
    check_floats(c, 1, 1 + 0x1p-11f);
    fine(square(handle, tie, unit, c, 1, 1, 0, CUBLAS_COMPUTE_32F_FAST_TF32));
    check_floats(c, 1, 1 + 0x1p-10f);
    fine(square(handle, below, unit, c, 1, 1, 0, CUBLAS_COMPUTE_32F_FAST_TF32));
    check_floats(c, 1, 1);
    fine(cublasSetMathMode(handle, CUBLAS_TF32_TENSOR_OP_MATH));
    fine(square(handle, below, unit, c, 1, 1, 0, CUBLAS_COMPUTE_32F));
    check_floats(c, 1, 1);
    fine(square(handle, below, unit, c, 1, 1, 0, CUBLAS_COMPUTE_32F_PEDANTIC));
    check_floats(c, 1, 1 + 0x1p-12f);
    fine(cublasDestroy(handle));
    ok(cudaFree(c));
    ok(cudaFree(unit));
    ok(cudaFree(tie));
    ok(cudaFree(below));
}

/* With beta = 0 what C holds does not matter, NaN neither; alpha and beta may lie on the device. */
static void scalars(void)
{
    cublasHandle_t handle;
    float *a = device_floats_with(4, 1), *c = device_floats(4), *alpha = device_floats_with(1, 3),
          *beta = device_floats_with(1, 2);
    fine(cublasCreate(&handle));
    fine(square(handle, a, a, c, 2, 1, 0, CUBLAS_COMPUTE_32F));
    check_floats(c, 4, 2);
    fine(cublasSetPointerMode(handle, CUBLAS_POINTER_MODE_DEVICE));
    fine(cublasGemmEx(handle, CUBLAS_OP_N, CUBLAS_OP_N, 2, 2, 2, alpha, a, CUDA_R_32F, 2, a, CUDA_R_32F, 2, beta, c,
                      CUDA_R_32F, 2, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
    check_floats(c, 4, 10);
    fine(cublasDestroy(handle));
    ok(cudaFree(a));
    ok(cudaFree(c));
    ok(cudaFree(alpha));
    ok(cudaFree(beta));
}

static void bits(void **state)
{
    (void)state;
    case_passes(bits_of_the_host, NULL);
    case_passes(tf32, NULL);
    case_passes(scalars, NULL);
}

/* ---- refusals ---- */

static void refused(void)
{
    cublasHandle_t handle;
    float *x = device_floats_with(64, 1);
    const float one = 1;
    must_be(cublasCreate(NULL), CUBLAS_STATUS_INVALID_VALUE);
    fine(cublasCreate(&handle));
#define product(of_a, of_b, m, n, k, alpha, type, lda, ldb, ldc, compute)                                              \
    cublasGemmEx(handle, of_a, of_b, m, n, k, alpha, x, type, lda, x, type, ldb, &one, x, type, ldc, compute,          \
                 CUBLAS_GEMM_DEFAULT)
#define refuses(wanted, ...) must_be(product(__VA_ARGS__), wanted)
    const cublasOperation_t as_is = CUBLAS_OP_N, turned = CUBLAS_OP_T;
    const cublasComputeType_t f32 = CUBLAS_COMPUTE_32F;
    const cublasStatus_t invalid = CUBLAS_STATUS_INVALID_VALUE, unsupported = CUBLAS_STATUS_NOT_SUPPORTED;
    refuses(invalid, as_is, as_is, -1, 2, 2, &one, CUDA_R_32F, 2, 2, 2, f32);
    refuses(invalid, as_is, as_is, 2, -1, 2, &one, CUDA_R_32F, 2, 2, 2, f32);
    refuses(invalid, as_is, as_is, 2, 2, -1, &one, CUDA_R_32F, 2, 2, 2, f32);
    refuses(invalid, as_is, as_is, 4, 2, 2, &one, CUDA_R_32F, 3, 2, 4, f32);
    refuses(invalid, turned, as_is, 2, 2, 4, &one, CUDA_R_32F, 3, 4, 2, f32);
    refuses(invalid, as_is, as_is, 2, 2, 4, &one, CUDA_R_32F, 2, 3, 2, f32);
    refuses(invalid, as_is, turned, 2, 4, 2, &one, CUDA_R_32F, 2, 3, 2, f32);
    refuses(invalid, as_is, as_is, 4, 2, 2, &one, CUDA_R_32F, 4, 2, 3, f32);
    refuses(invalid, as_is, as_is, 0, 2, 2, &one, CUDA_R_32F, 0, 2, 1, f32);
    refuses(invalid, as_is, as_is, 2, 2, 2, NULL, CUDA_R_32F, 2, 2, 2, f32);
    refuses(invalid, (cublasOperation_t)7, as_is, 2, 2, 2, &one, CUDA_R_32F, 2, 2, 2, f32);
    refuses(unsupported, as_is, as_is, 2, 2, 2, &one, CUDA_R_64F, 2, 2, 2, f32);
    refuses(unsupported, as_is, as_is, 2, 2, 2, &one, CUDA_R_32F, 2, 2, 2, CUBLAS_COMPUTE_64F);
    refuses(unsupported, as_is, as_is, 2, 2, 2, &one, CUDA_R_16F, 2, 2, 2, CUBLAS_COMPUTE_16F);
    refuses(unsupported, as_is, as_is, 2, 2, 2, &one, CUDA_R_8I, 2, 2, 2, f32);
    refuses(CUBLAS_STATUS_SUCCESS, as_is, as_is, 0, 2, 2, &one, CUDA_R_32F, 1, 2, 1, f32);
    ok(cudaDeviceSynchronize());
    check_floats(x, 64, 1);
    fine(cublasDestroy(handle));
    ok(cudaFree(x));
}

static void too_small(void)
{
    cublasHandle_t handle;
    fine(cublasCreate(&handle));
    fine(square(handle, device_floats(16), device_floats(16), device_floats(15), 4, 1, 0, CUBLAS_COMPUTE_32F));
    ok(cudaDeviceSynchronize());
}

static void hosts_memory(void)
{
    cublasHandle_t handle;
    float a[16] = { 0 };
    fine(cublasCreate(&handle));
    fine(square(handle, a, device_floats(16), device_floats(16), 4, 1, 0, CUBLAS_COMPUTE_32F));
    ok(cudaDeviceSynchronize());
}

static void destroyed_handle(void)
{
    cublasHandle_t handle;
    fine(cublasCreate(&handle));
    fine(cublasDestroy(handle));
    fine(cublasSetStream(handle, NULL));
}

static void destroyed_stream(void)
{
    cublasHandle_t handle;
    cudaStream_t stream = new_stream();
    float *x = device_floats(16);
    fine(cublasCreate(&handle));
    fine(cublasSetStream(handle, stream));
    ok(cudaStreamDestroy(stream));
    fine(square(handle, x, x, device_floats(16), 4, 1, 0, CUBLAS_COMPUTE_32F));
}

static void stream_of_other_device(void)
{
    cublasHandle_t handle;
    cudaStream_t stream = new_stream();
    ok(cudaSetDevice(1));
    fine(cublasCreate(&handle));
    fine(cublasSetStream(handle, stream));
}

static void other_device_is_current(void)
{
    cublasHandle_t handle;
    float *x = device_floats(16);
    fine(cublasCreate(&handle));
    ok(cudaSetDevice(1));
    fine(square(handle, x, x, x, 4, 1, 0, CUBLAS_COMPUTE_32F));
}

static void leaks_handle(void)
{
    cublasHandle_t handle;
    fine(cublasCreate(&handle));
}

static void none_to_be_had(void)
{
    cublasHandle_t handle;
    must_be(cublasCreate(&handle), CUBLAS_STATUS_NOT_INITIALIZED);
    must(handle == NULL);
}

static void refusals(void **state)
{
    static const char *const fault[] = { "KITH_SIMGPU_FAULT=cublas_create:1", NULL };
    static const char *const none[] = { "KITH_SIMGPU_DEVICES=0", NULL };
    (void)state;
    case_passes(refused, NULL);
    case_fails(too_small, NULL, "'gemm' on device 0 writes 64 bytes", "of a buffer of 60 bytes");
    case_fails(hosts_memory, NULL, "'gemm' on device 0 reads", "memory of the host that CUDA does not know");
    case_fails(destroyed_handle, NULL, "cublasSetStream", "is not a cuBLAS handle");
    case_fails(destroyed_stream, NULL, "is no stream");
    case_fails(stream_of_other_device, two_devices, "made on device 1 and the stream on device 0");
    case_fails(other_device_is_current, two_devices, "made on device 0 and device 1 is current");
    case_fails(leaks_handle, NULL, "was to release: a cuBLAS handle (1 of them)");
    case_passes(none_to_be_had, none);
    case_passes(none_to_be_had, fault);
}

/* ---- order ---- */

static void product_and_fill(bool with_workspace, bool wait)
{
    cublasHandle_t handle;
    cudaStream_t first = new_stream(), second = new_stream();
    float *x = device_floats_with(16, 1), *y = device_floats_with(16, 1), *z = device_floats_with(16, 1);
    float *workspace = device_floats(1024);
    cudaEvent_t event = new_event();
    fine(cublasCreate(&handle));
    fine(cublasSetStream(handle, first));
    if (with_workspace)
        fine(cublasSetWorkspace(handle, workspace, 4096));
    fine(square(handle, x, y, z, 4, 1, 0, CUBLAS_COMPUTE_32F));
    if (wait) {
        ok(cudaEventRecord(event, first));
        ok(cudaStreamWaitEvent(second, event, 0));
    }
    ok(cudaMemsetAsync(with_workspace ? workspace : x, 0, 4, second));
    ok(cudaDeviceSynchronize());
    fine(cublasDestroy(handle));
    ok(cudaStreamDestroy(first));
    ok(cudaStreamDestroy(second));
    ok(cudaEventDestroy(event));
    ok(cudaFree(x));
    ok(cudaFree(y));
    ok(cudaFree(z));
    ok(cudaFree(workspace));
}

static void operand_is_written(void)
{
    product_and_fill(false, false);
}

static void operand_is_written_later(void)
{
    product_and_fill(false, true);
}

static void workspace_is_shared(void)
{
    product_and_fill(true, false);
}

static void workspace_is_handed_on(void)
{
    product_and_fill(true, true);
}

static void races(void **state)
{
    (void)state;
    case_fails(operand_is_written, NULL, "race", "'gemm'", "'fill'");
    case_passes(operand_is_written_later, NULL);
    case_fails(workspace_is_shared, NULL, "race", "'gemm'", "of a buffer of 4096 bytes");
    case_passes(workspace_is_handed_on, NULL);
}

/* ---- cublasLt ---- */

typedef struct biased {
    cublasHandle_t handle;
    cublasLtMatmulDesc_t how;
    cublasLtMatrixLayout_t square, result;
    cublasLtMatmulPreference_t wish;
    cublasLtMatmulHeuristicResult_t found;
} biased;

/* Products of 4 x 4 matrices of f32 with a bias. */
static void biased_open(biased *b, const float *bias)
{
    const uint32_t epilogue = CUBLASLT_EPILOGUE_BIAS;
    const uint64_t room = 4096;
    int count = 0;
    fine(cublasCreate(&b->handle));
    fine(cublasLtMatmulDescCreate(&b->how, CUBLAS_COMPUTE_32F, CUDA_R_32F));
    fine(cublasLtMatmulDescSetAttribute(b->how, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue));
    fine(cublasLtMatmulDescSetAttribute(b->how, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof(const float *)));
    fine(cublasLtMatrixLayoutCreate(&b->square, CUDA_R_32F, 4, 4, 4));
    fine(cublasLtMatrixLayoutCreate(&b->result, CUDA_R_32F, 4, 4, 4));
    fine(cublasLtMatmulPreferenceCreate(&b->wish));
    fine(cublasLtMatmulPreferenceSetAttribute(b->wish, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &room, sizeof room));
    fine(cublasLtMatmulAlgoGetHeuristic((cublasLtHandle_t)b->handle, b->how, b->square, b->square, b->result, b->result,
                                        b->wish, 1, &b->found, &count));
    must_be(count, 1);
}

static void biased_close(biased *b)
{
    fine(cublasLtMatmulPreferenceDestroy(b->wish));
    fine(cublasLtMatrixLayoutDestroy(b->result));
    fine(cublasLtMatrixLayoutDestroy(b->square));
    fine(cublasLtMatmulDescDestroy(b->how));
    fine(cublasDestroy(b->handle));
}

static cublasStatus_t biased_run(const biased *b, const float *x, const float *y, float *z, float *workspace)
{
    const float one = 1, zero = 0;
    return cublasLtMatmul((cublasLtHandle_t)b->handle, b->how, &one, x, b->square, y, b->square, &zero, z, b->result, z,
                          b->result, &b->found.algo, workspace, 4096, NULL);
}

static void biased_product(size_t offset, bool closes)
{
    float *x = device_floats_with(20, 1), *y = device_floats_with(16, 2), *z = device_floats_with(16, 0);
    float *bias = device_floats_with(4, 3), *workspace = device_floats(1024);
    biased b;
    biased_open(&b, bias);
    fine(biased_run(&b, x + offset, y, z, workspace));
    check_floats(z, 16, 11);
    if (closes)
        biased_close(&b);
    ok(cudaFree(x));
    ok(cudaFree(y));
    ok(cudaFree(z));
    ok(cudaFree(bias));
    ok(cudaFree(workspace));
}

static void biased_adds(void)
{
    biased_product(0, true);
}

static void biased_is_not_aligned(void)
{
    biased_product(1, true);
}

static void biased_leaks(void)
{
    biased_product(0, false);
}

static void with_bias(void **state)
{
    (void)state;
    case_passes(biased_adds, NULL);
    case_fails(biased_is_not_aligned, NULL, "cublasLtMatmul: the algorithm was asked for another product, alignment");
    case_fails(biased_leaks, NULL, "a description of a product (1 of them)", "a layout of a matrix (2 of them)",
               "a preference of products (1 of them)");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(results), cmocka_unit_test(bits),      cmocka_unit_test(refusals),
        cmocka_unit_test(races),   cmocka_unit_test(with_bias),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
