/* core/device/cuda/reduce/launch.c - the module's row for reductions: finds the kernel of a dtype and launches it.
 *
 * The kernels are inside the module (as in layers/compute/cuda/fatbins.c). The first call for a device loads them all
 * on it; a kernel's handle is good for every device.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "../cuda.h"
#include "args.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>

/* A thread takes 16 bytes at a time: EACH elements, more or less. */
enum { WARP = 32, THREADS = 256, EACH = 4, MOST_BLOCKS = 1 << 20, MAX_DEVICES = 64 };

__asm__(".pushsection .rodata\n"
        ".balign 64\n"
        ".globl ki_fatbin_reduce\n"
        ".hidden ki_fatbin_reduce\n"
        "ki_fatbin_reduce:\n"
        ".incbin \"" KI_REDUCE_FATBIN "\"\n"
        ".popsection\n");
extern const char ki_fatbin_reduce[] __attribute__((visibility("hidden")));

static const char *const names[KITH_DTYPE_COUNT] = {
    [KITH_INT8] = "int8",     [KITH_UINT8] = "uint8",   [KITH_INT16] = "int16", [KITH_UINT16] = "uint16",
    [KITH_INT32] = "int32",   [KITH_UINT32] = "uint32", [KITH_INT64] = "int64", [KITH_UINT64] = "uint64",
    [KITH_F16] = "f16",       [KITH_BF16] = "bf16",     [KITH_F32] = "f32",     [KITH_F64] = "f64",
    [KITH_F8E4M3] = "f8e4m3", [KITH_F8E5M2] = "f8e5m2",
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static cudaLibrary_t library;
static cudaKernel_t kernels[KITH_DTYPE_COUNT];
static bool is_loaded[MAX_DEVICES];

static cudaError_t find(const ki_cuda *cuda, int ordinal, kith_dtype dtype, cudaKernel_t *kernel)
{
    char name[48];
    cudaError_t error = cudaSuccess;
    pthread_mutex_lock(&lock);
    if (library == NULL)
        error = cuda->cudaLibraryLoadData(&library, ki_fatbin_reduce, NULL, NULL, 0, NULL, NULL, 0);
    if (error == cudaSuccess && !(ordinal < MAX_DEVICES && is_loaded[ordinal])) {
        error = ki_cuda_load_kernels(cuda, library);
        if (error == cudaSuccess && ordinal < MAX_DEVICES)
            is_loaded[ordinal] = true;
    }
    if (error == cudaSuccess && kernels[dtype] == NULL) {
        snprintf(name, sizeof name, "ki_reduce_%s", names[dtype]);
        error = cuda->cudaLibraryGetKernel(&kernels[dtype], library, name);
    }
    *kernel = kernels[dtype];
    pthread_mutex_unlock(&lock);
    return error;
}

kith_status ki_cuda_reduce(int ordinal, void *stream, const ki_device_reduce *what)
{
    if ((unsigned)what->dtype >= KITH_DTYPE_COUNT || names[what->dtype] == NULL)
        return ki_cuda_host->fail(KITH_ERR_UNSUPPORTED, "cuda: no reduction of dtype %d", (int)what->dtype);
    const ki_cuda_call call = ki_cuda_begin(ordinal);
    if (call.cuda == NULL)
        return call.status;
    const ki_reduce_args args = { .a = what->a,
                                  .b = what->b,
                                  .out = what->out,
                                  .count = (int64_t)what->count,
                                  .int_scalar = what->int_scalar,
                                  .scalar = what->scalar,
                                  .step = (int32_t)what->step,
                                  .op = what->op,
                                  .ranks = what->ranks };
    cudaKernel_t kernel = NULL;
    cudaError_t error = find(call.cuda, ordinal, what->dtype, &kernel);
    const size_t work = what->count / EACH + 1;
    const size_t threads = work < THREADS ? (work + WARP - 1) / WARP * WARP : THREADS;
    if (error == cudaSuccess && what->count > 0) {
        const size_t blocks = (work + threads - 1) / threads;
        void *arguments[] = { (void *)(uintptr_t)&args };
        error = call.cuda->cudaLaunchKernel((const void *)kernel,
                                            (dim3){ (unsigned)(blocks < MOST_BLOCKS ? blocks : MOST_BLOCKS), 1, 1 },
                                            (dim3){ (unsigned)threads, 1, 1 }, arguments, 0, (cudaStream_t)stream);
    }
    return ki_cuda_end(&call, error, "reduction");
}
