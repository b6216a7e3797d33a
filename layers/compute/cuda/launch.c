/* layers/compute/cuda/launch.c - finds kernels in their fatbins and launches them (see launch.h).
 *
 * All kernels are loaded on a device when a table is opened on it for the first time. CUDA would else load one at its
 * first launch, which may wait for all that the device runs (CUDA_MODULE_LOADING, lazy by default): a collective that
 * waits for a rank that waits so never ends. A kernel's handle is good for every device, and is looked up by name at
 * its first launch, which loads nothing.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "launch.h"
#include <pthread.h>
#include <stdio.h>

/* Threads of a block, and blocks along a grid's axes (CUDA allows 65535 along y). */
enum { WARP = 32, THREADS = 256, MOST_Y = 65535, MOST_X = 1 << 20 };

/* ---- types ---- */

static const char *const storage_names[] = { "f32", "f64", "bf16", "f16" };

int ki_storage_of(kith_dtype dtype)
{
    switch (dtype) {
    case KITH_F32:
        return 0;
    case KITH_F64:
        return 1;
    case KITH_BF16:
        return 2;
    case KITH_F16:
        return 3;
    default:
        return -1;
    }
}

size_t ki_nbytes_of(kith_dtype dtype)
{
    return dtype == KITH_F64 ? 8 : dtype == KITH_F32 ? 4 : 2;
}

static const char *name_of(kith_dtype dtype)
{
    const int storage = ki_storage_of(dtype);
    return storage >= 0 ? storage_names[storage] : "another type";
}

kith_status ki_refuse(const char *function, kith_dtype dtype)
{
    return ki_cuda_host->fail(KITH_ERR_UNSUPPORTED, "layers: %s of %s (dtype %d): the cuda device has no kernel for it",
                              function, name_of(dtype), (int)dtype);
}

kith_status ki_expect(const char *function, kith_dtype dtype, int count, const ki_mat *matrices)
{
    if (ki_storage_of(dtype) < 0)
        return ki_refuse(function, dtype);
    for (int i = 0; i < count; i++)
        if (matrices[i].data != NULL && matrices[i].dtype != dtype)
            return ki_cuda_host->fail(KITH_ERR_UNSUPPORTED,
                                      "layers: %s of %s with a matrix of %s: the cuda device computes with one type",
                                      function, name_of(dtype), name_of(matrices[i].dtype));
    return KITH_OK;
}

/* ---- grids ---- */

static uint32_t at_most(int64_t wanted, int64_t most)
{
    return (uint32_t)(wanted < most ? wanted : most);
}

static uint32_t warps_of(int64_t threads)
{
    return at_most((threads + WARP - 1) / WARP * WARP, THREADS);
}

ki_grid ki_grid_of_chunks(ki_mat m, int64_t chunk)
{
    const int64_t chunks = (m.cols + chunk - 1) / chunk;
    const uint32_t threads = warps_of(chunks > 0 ? chunks : 1);
    return (ki_grid){ at_most((chunks + threads - 1) / threads, MOST_X), at_most(m.rows, MOST_Y), threads };
}

ki_grid ki_grid_of_rows(int64_t rows)
{
    const uint32_t warps = at_most(rows, KI_ROW_WARPS);
    return (ki_grid){ at_most((rows + KI_ROW_WARPS - 1) / KI_ROW_WARPS, MOST_X), 1, warps * WARP };
}

ki_grid ki_grid_of(int64_t count)
{
    const uint32_t threads = warps_of(count);
    return (ki_grid){ at_most((count + THREADS - 1) / THREADS, MOST_X), 1, threads };
}

int64_t ki_chunk_of(kith_dtype a, kith_dtype b)
{
    const size_t of_a = ki_nbytes_of(a), of_b = ki_nbytes_of(b);
    return (int64_t)(16 / (of_a < of_b ? of_a : of_b));
}

void ki_flatten(int count, ki_mat *const *matrices)
{
    for (int i = 0; i < count; i++)
        if (matrices[i]->data != NULL && matrices[i]->stride != matrices[i]->cols && matrices[i]->rows > 1)
            return;
    for (int i = 0; i < count; i++) {
        ki_mat *const m = matrices[i];
        m->cols *= m->rows;
        m->rows = m->cols > 0;
        m->stride = m->cols;
    }
}

/* ---- kernels ---- */

enum { MAX_DEVICES = 64 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static cudaLibrary_t libraries[KI_FATBINS];
static bool is_loaded[MAX_DEVICES];

static kith_status load(const ki_cuda *cuda, ki_fatbin in)
{
    if (libraries[in] != NULL)
        return KITH_OK;
    const cudaError_t error =
        cuda->cudaLibraryLoadData(&libraries[in], ki_fatbins[in].bytes, NULL, NULL, 0, NULL, NULL, 0);
    if (error == cudaSuccess)
        return KITH_OK;
    char what[64];
    snprintf(what, sizeof what, "loading the kernels of %s.cu", ki_fatbins[in].name);
    libraries[in] = NULL;
    return ki_cuda_fail(error, what);
}

kith_status ki_load_kernels(const ki_cuda *cuda, int ordinal)
{
    kith_status status = KITH_OK;
    pthread_mutex_lock(&lock);
    const bool is_known = ordinal < MAX_DEVICES;
    for (int in = 0; status == KITH_OK && in < KI_FATBINS && !(is_known && is_loaded[ordinal]); in++) {
        status = load(cuda, (ki_fatbin)in);
        const cudaError_t error = status == KITH_OK ? ki_cuda_load_kernels(cuda, libraries[in]) : cudaSuccess;
        if (error != cudaSuccess) {
            char what[64];
            snprintf(what, sizeof what, "loading the kernels of %s.cu on device %d", ki_fatbins[in].name, ordinal);
            status = ki_cuda_fail(error, what);
        }
    }
    if (status == KITH_OK && is_known)
        is_loaded[ordinal] = true;
    pthread_mutex_unlock(&lock);
    return status;
}

static kith_status look_up(const ki_cuda *cuda, const ki_kernel *kernel, int first, int second, cudaKernel_t *found)
{
    char name[96];
    if (kernel->suffix == KI_ALONE)
        snprintf(name, sizeof name, "ki_%s", kernel->name);
    else if (kernel->suffix == KI_TYPED)
        snprintf(name, sizeof name, "ki_%s_%s", kernel->name, storage_names[first]);
    else
        snprintf(name, sizeof name, "ki_%s_%s_%s", kernel->name, storage_names[first], storage_names[second]);
    pthread_mutex_lock(&lock);
    kith_status status = load(cuda, kernel->in);
    cudaError_t error = cudaSuccess;
    if (status == KITH_OK)
        error = cuda->cudaLibraryGetKernel(found, libraries[kernel->in], name);
    pthread_mutex_unlock(&lock);
    if (error == cudaErrorSymbolNotFound && kernel->suffix == KI_MIXED) {
        (void)cuda->cudaGetLastError();
        return ki_cuda_host->fail(KITH_ERR_UNSUPPORTED,
                                  "layers: %s from %s to %s: the cuda device has no kernel for it", kernel->name,
                                  storage_names[first], storage_names[second]);
    }
    return error == cudaSuccess ? status : ki_cuda_fail(error, name);
}

static kith_status find(const ki_cuda *cuda, ki_kernel *kernel, kith_dtype first_type, kith_dtype second_type,
                        cudaKernel_t *found)
{
    const int first = kernel->suffix == KI_ALONE ? 0 : ki_storage_of(first_type);
    const int second = kernel->suffix == KI_MIXED ? ki_storage_of(second_type) : 0;
    if (first < 0 || second < 0)
        return ki_refuse(kernel->name, first < 0 ? first_type : second_type);
    cudaKernel_t *const place = &kernel->found[kernel->suffix == KI_MIXED ? 4 * first + second : first];
    *found = __atomic_load_n(place, __ATOMIC_ACQUIRE);
    if (*found != NULL)
        return KITH_OK;
    const kith_status status = look_up(cuda, kernel, first, second, found);
    if (status == KITH_OK)
        __atomic_store_n(place, *found, __ATOMIC_RELEASE);
    return status;
}

kith_status ki_launch(ki_device_compute *self, ki_kernel *kernel, kith_dtype first, kith_dtype second, ki_grid grid,
                      const void *args)
{
    cudaKernel_t found;
    if (grid.x == 0 || grid.y == 0)
        return KITH_OK;
    const ki_cuda_call call = ki_cuda_begin(self->ordinal);
    if (call.cuda == NULL)
        return call.status;
    const kith_status status = find(call.cuda, kernel, first, second, &found);
    if (status != KITH_OK) {
        (void)ki_cuda_end(&call, cudaSuccess, kernel->name);
        return status;
    }
    void *arguments[] = { (void *)(uintptr_t)args };
    const cudaError_t error = call.cuda->cudaLaunchKernel((const void *)found, (dim3){ grid.x, grid.y, 1 },
                                                          (dim3){ grid.threads, 1, 1 }, arguments, 0, self->stream);
    return ki_cuda_end(&call, error, kernel->name);
}

kith_status ki_wait_for_stream(ki_device_compute *self)
{
    return self->base.wait != NULL ? self->base.wait(self->base.space)
                                   : ki_cuda_stream_synchronize(self->ordinal, self->stream);
}

/* ---- memory ---- */

kith_status ki_take_memory(ki_device_compute *self, size_t nbytes, void **memory)
{
    return self->pool != NULL ? ki_cuda_pool_alloc(self->ordinal, self->pool, self->stream, nbytes, memory)
                              : ki_cuda_alloc(self->ordinal, nbytes, memory);
}

/* Without a pool, freeing waits for all work of the device; so the communication in it is waited for before. */
kith_status ki_give_memory(ki_device_compute *self, void *memory)
{
    if (self->pool != NULL)
        return ki_cuda_pool_free(self->ordinal, self->stream, memory);
    const kith_status status = ki_wait_for_stream(self);
    return status == KITH_OK ? ki_cuda_free(self->ordinal, memory) : status;
}

/* Work that is under way may use what it was. */
kith_status ki_device_scratch(ki_device_compute *self, size_t nbytes, void **scratch)
{
    if (nbytes > self->scratch_nbytes) {
        kith_status status = KITH_OK;
        if (self->scratch != NULL)
            status = ki_give_memory(self, self->scratch);
        if (status != KITH_OK)
            return status;
        self->scratch = NULL;
        self->scratch_nbytes = 0;
        status = ki_take_memory(self, nbytes, &self->scratch);
        if (status != KITH_OK)
            return status;
        self->scratch_nbytes = nbytes;
    }
    *scratch = self->scratch;
    return KITH_OK;
}

static kith_status make_pinned(ki_device_compute *self, size_t nbytes)
{
    if (nbytes <= self->pinned_nbytes)
        return KITH_OK;
    kith_status status = KITH_OK;
    if (self->pinned != NULL) { /* freeing it waits as freeing memory of the device does */
        status = ki_wait_for_stream(self);
        if (status == KITH_OK)
            status = ki_cuda_free_pinned(self->ordinal, self->pinned);
    }
    if (status != KITH_OK)
        return status;
    self->pinned = NULL;
    self->pinned_nbytes = 0;
    status = ki_cuda_alloc_pinned(self->ordinal, nbytes, &self->pinned);
    if (status == KITH_OK)
        self->pinned_nbytes = nbytes;
    return status;
}

kith_status ki_read_back(ki_device_compute *self, const void *from, size_t nbytes, const void **host)
{
    kith_status status = make_pinned(self, nbytes);
    if (status == KITH_OK)
        status = ki_cuda_copy(self->ordinal, self->stream, self->pinned, from, nbytes);
    if (status == KITH_OK)
        status = ki_wait_for_stream(self);
    if (status == KITH_OK)
        *host = self->pinned;
    return status;
}

kith_status ki_zero(ki_device_compute *self, void *ptr, size_t nbytes)
{
    return ki_cuda_fill(self->ordinal, self->stream, ptr, 0, nbytes);
}
