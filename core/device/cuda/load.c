/* core/device/cuda/load.c - kernels are loaded before the first of them is launched.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "cuda.h"

#include <stdlib.h>

/* Asking for a kernel's attributes is what the CUDA Programming Guide names to load it. */
cudaError_t ki_cuda_load_kernels(const ki_cuda *cuda, cudaLibrary_t library)
{
    struct cudaFuncAttributes attributes;
    unsigned count = 0;
    cudaError_t error = cuda->cudaLibraryGetKernelCount(&count, library);
    cudaKernel_t *const kernels = count > 0 ? (cudaKernel_t *)calloc(count, sizeof *kernels) : NULL;
    if (error == cudaSuccess && kernels == NULL)
        return cudaErrorMemoryAllocation;
    if (error == cudaSuccess)
        error = cuda->cudaLibraryEnumerateKernels(kernels, count, library);
    for (unsigned i = 0; error == cudaSuccess && i < count; i++)
        error = cuda->cudaFuncGetAttributes(&attributes, (const void *)kernels[i]);
    free(kernels);
    return error;
}
