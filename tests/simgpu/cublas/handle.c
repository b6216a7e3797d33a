/* tests/simgpu/cublas/handle.c - handles of cuBLAS and their settings.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "cublas.h"
#include <pthread.h>
#include <stdlib.h>

static const char kind[] = "a cuBLAS handle";

static sim_cublas *handles; /* all that ever were */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

sim_cublas *sim_cublas_of(cublasHandle_t handle, const char *api)
{
    sim_cublas *self = (sim_cublas *)handle;
    if (!sim_handle_is_live(kind, handle)) {
        sim_fail("%s: %p is not %s: it was destroyed or never made", api, (void *)handle, kind);
        return NULL;
    }
    if (self->device != sim_current_device()) {
        sim_fail("%s: the handle was made on device %d and device %d is current", api, self->device,
                 sim_current_device());
        return NULL;
    }
    return self;
}

SIM_API cublasStatus_t cublasCreate_v2(cublasHandle_t *handle)
{
    int device;
    if (handle == NULL)
        return CUBLAS_STATUS_INVALID_VALUE;
    *handle = NULL;
    if (cudaFree(NULL) != cudaSuccess || cudaGetDevice(&device) != cudaSuccess || sim_fault("cublas_create"))
        return CUBLAS_STATUS_NOT_INITIALIZED;
    if (sim_blas_get() == NULL) {
        sim_fail("cublasCreate: no CBLAS on this machine to multiply with");
        return CUBLAS_STATUS_NOT_INITIALIZED;
    }
    sim_cublas *self = calloc(1, sizeof *self);
    if (self == NULL)
        return CUBLAS_STATUS_ALLOC_FAILED;
    self->device = device;
    pthread_mutex_lock(&lock);
    self->next = handles;
    handles = self;
    pthread_mutex_unlock(&lock);
    sim_handle_add(kind, self);
    *handle = (cublasHandle_t)self;
    return CUBLAS_STATUS_SUCCESS;
}

SIM_API cublasStatus_t cublasDestroy_v2(cublasHandle_t handle)
{
    return sim_handle_remove(kind, handle) ? CUBLAS_STATUS_NOT_INITIALIZED : CUBLAS_STATUS_SUCCESS;
}

SIM_API cublasStatus_t cublasGetVersion_v2(cublasHandle_t handle, int *version)
{
    (void)handle;
    *version = CUBLAS_VERSION;
    return CUBLAS_STATUS_SUCCESS;
}

/* As the real one, it puts the workspace back to cuBLAS's own. */
SIM_API cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream)
{
    sim_cublas *self = sim_cublas_of(handle, "cublasSetStream");
    if (self == NULL)
        return CUBLAS_STATUS_NOT_INITIALIZED;
    const int device = sim_stream_device(stream);
    if (device < 0)
        return CUBLAS_STATUS_INVALID_VALUE;
    if (device != self->device) {
        sim_fail("cublasSetStream: the handle was made on device %d and the stream on device %d", self->device, device);
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    self->stream = stream;
    self->workspace = NULL;
    self->workspace_nbytes = 0;
    return CUBLAS_STATUS_SUCCESS;
}

SIM_API cublasStatus_t cublasGetStream_v2(cublasHandle_t handle, cudaStream_t *stream)
{
    const sim_cublas *self = sim_cublas_of(handle, "cublasGetStream");
    if (self == NULL)
        return CUBLAS_STATUS_NOT_INITIALIZED;
    *stream = self->stream;
    return CUBLAS_STATUS_SUCCESS;
}

/* Every product writes the workspace, so one that two streams share is a race. */
SIM_API cublasStatus_t cublasSetWorkspace_v2(cublasHandle_t handle, void *workspace, size_t nbytes)
{
    sim_cublas *self = sim_cublas_of(handle, "cublasSetWorkspace");
    int device = -1;
    if (self == NULL)
        return CUBLAS_STATUS_NOT_INITIALIZED;
    if (nbytes > 0 && (sim_memory_of(workspace, &device, NULL, NULL) != 1 || device != self->device ||
                       (uintptr_t)workspace % 256 != 0)) {
        sim_fail("cublasSetWorkspace: %p is no memory of device %d at a boundary of 256 bytes", workspace,
                 self->device);
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    self->workspace = workspace;
    self->workspace_nbytes = nbytes;
    return CUBLAS_STATUS_SUCCESS;
}

SIM_API cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t math)
{
    sim_cublas *self = sim_cublas_of(handle, "cublasSetMathMode");
    if (self == NULL)
        return CUBLAS_STATUS_NOT_INITIALIZED;
    self->math = math;
    return CUBLAS_STATUS_SUCCESS;
}

SIM_API cublasStatus_t cublasGetMathMode(cublasHandle_t handle, cublasMath_t *math)
{
    const sim_cublas *self = sim_cublas_of(handle, "cublasGetMathMode");
    if (self == NULL)
        return CUBLAS_STATUS_NOT_INITIALIZED;
    *math = self->math;
    return CUBLAS_STATUS_SUCCESS;
}

SIM_API cublasStatus_t cublasSetPointerMode_v2(cublasHandle_t handle, cublasPointerMode_t mode)
{
    sim_cublas *self = sim_cublas_of(handle, "cublasSetPointerMode");
    if (self == NULL)
        return CUBLAS_STATUS_NOT_INITIALIZED;
    if (mode != CUBLAS_POINTER_MODE_HOST && mode != CUBLAS_POINTER_MODE_DEVICE)
        return CUBLAS_STATUS_INVALID_VALUE;
    self->pointer_mode = mode;
    return CUBLAS_STATUS_SUCCESS;
}

SIM_API cublasStatus_t cublasSetAtomicsMode(cublasHandle_t handle, cublasAtomicsMode_t mode)
{
    sim_cublas *self = sim_cublas_of(handle, "cublasSetAtomicsMode");
    if (self == NULL)
        return CUBLAS_STATUS_NOT_INITIALIZED;
    self->atomics = mode;
    return CUBLAS_STATUS_SUCCESS;
}

typedef struct words {
    cublasStatus_t status;
    const char *name, *text;
} words;

static const words known[] = {
    { CUBLAS_STATUS_SUCCESS, "CUBLAS_STATUS_SUCCESS", "success" },
    { CUBLAS_STATUS_NOT_INITIALIZED, "CUBLAS_STATUS_NOT_INITIALIZED", "the library was not initialized" },
    { CUBLAS_STATUS_ALLOC_FAILED, "CUBLAS_STATUS_ALLOC_FAILED", "the resource allocation failed" },
    { CUBLAS_STATUS_INVALID_VALUE, "CUBLAS_STATUS_INVALID_VALUE", "an invalid value was used as a parameter" },
    { CUBLAS_STATUS_ARCH_MISMATCH, "CUBLAS_STATUS_ARCH_MISMATCH", "the device's architecture is not supported" },
    { CUBLAS_STATUS_EXECUTION_FAILED, "CUBLAS_STATUS_EXECUTION_FAILED", "the function failed to launch on the GPU" },
    { CUBLAS_STATUS_NOT_SUPPORTED, "CUBLAS_STATUS_NOT_SUPPORTED", "the functionality is not supported" },
};

static const words *words_of(cublasStatus_t status)
{
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (known[i].status == status)
            return &known[i];
    return NULL;
}

SIM_API const char *cublasGetStatusName(cublasStatus_t status)
{
    const words *w = words_of(status);
    return w == NULL ? "CUBLAS_STATUS_UNKNOWN" : w->name;
}

SIM_API const char *cublasGetStatusString(cublasStatus_t status)
{
    const words *w = words_of(status);
    return w == NULL ? "unknown status" : w->text;
}
