/* tests/simgpu/launch.c - libraries of kernels, and launches.
 *
 * What the program loads is the image that nvcc made, whose head is looked at; what runs comes from libsimkernels.so
 * (KITH_SIMGPU_KERNELS, else beside this library), where a kernel's descriptor is exported under the kernel's name.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "engine.h"
#include "kernel_host.h"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FATBIN_MAGIC = (int)0xba55ed50u, MAX_THREADS = 1024, SHARED_NBYTES = 48 << 10, SHARED_OPTIN_NBYTES = 227 << 10 };

static const char library_kind[] = "a library of kernels";

typedef struct sim_library {
    void *handle;
    ki_sim_run_fn run;
    ki_sim_kernel_at_fn kernel_at;
} sim_library;

/* One for each kernel that was asked for, for ever. */
typedef struct sim_kernel {
    struct sim_kernel *next;
    sim_library *library;
    const ki_sim_kernel *code;
    size_t shared_limit_nbytes[SIM_MAX_DEVICES]; /* of dynamic shared memory; 0: 48 KiB */
    bool is_loaded[SIM_MAX_DEVICES];             /* by cudaFuncGetAttributes() */
} sim_kernel;

static sim_library the_library; /* what all load; opened once */
static int library_count;
static sim_kernel *kernels;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void path_beside(char *path, size_t nbytes)
{
    Dl_info info;
    path[0] = '\0';
    if (dladdr(&the_library, &info) == 0 || info.dli_fname == NULL)
        return;
    const char *slash = strrchr(info.dli_fname, '/');
    snprintf(path, nbytes, "%.*slibsimkernels.so", slash == NULL ? 0 : (int)(slash + 1 - info.dli_fname),
             info.dli_fname);
}

/* With the lock. */
static cudaError_t open_kernels(void)
{
    char path[4096];
    if (the_library.handle != NULL)
        return cudaSuccess;
    if (sim_settings_get()->kernels != NULL)
        snprintf(path, sizeof path, "%s", sim_settings_get()->kernels);
    else
        path_beside(path, sizeof path);
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (handle == NULL) {
        sim_fail("the library of kernels cannot be opened: %s", dlerror());
        return cudaErrorInvalidKernelImage;
    }
    void *run = dlsym(handle, KI_SIM_RUN), *kernel_at = dlsym(handle, KI_SIM_KERNEL_AT);
    if (run == NULL || kernel_at == NULL) {
        sim_fail("%s has no %s", path, run == NULL ? KI_SIM_RUN : KI_SIM_KERNEL_AT);
        dlclose(handle);
        return cudaErrorInvalidKernelImage;
    }
    memcpy(&the_library.run, &run, sizeof run);
    memcpy(&the_library.kernel_at, &kernel_at, sizeof kernel_at);
    the_library.handle = handle;
    return cudaSuccess;
}

SIM_API cudaError_t cudaLibraryLoadData(cudaLibrary_t *library, const void *code, enum cudaJitOption *jit_options,
                                        void **jit_values, unsigned jit_count, enum cudaLibraryOption *options,
                                        void **values, unsigned count)
{
    SIM_ENTER_BARE(cudaLibraryLoadData);
    int magic;
    (void)jit_options, (void)jit_values, (void)jit_count, (void)options, (void)values, (void)count;
    if (library == NULL || code == NULL)
        return sim_leave(cudaErrorInvalidValue);
    memcpy(&magic, code, sizeof magic);
    if (sim_fault("library") || magic != FATBIN_MAGIC)
        return sim_leave(cudaErrorInvalidKernelImage);
    pthread_mutex_lock(&lock);
    const cudaError_t error = open_kernels();
    library_count += error == cudaSuccess;
    pthread_mutex_unlock(&lock);
    if (error == cudaSuccess)
        *library = (cudaLibrary_t)&the_library;
    return sim_leave(error);
}

SIM_API cudaError_t cudaLibraryUnload(cudaLibrary_t library)
{
    SIM_ENTER_BARE(cudaLibraryUnload);
    pthread_mutex_lock(&lock);
    const bool is_fine = (sim_library *)library == &the_library && library_count > 0;
    library_count -= is_fine;
    pthread_mutex_unlock(&lock);
    if (!is_fine)
        sim_fail("cudaLibraryUnload: %p is not %s that is loaded", (void *)library, library_kind);
    return sim_leave(is_fine ? cudaSuccess : cudaErrorInvalidResourceHandle);
}

static sim_kernel *kernel_with(const ki_sim_kernel *code)
{
    if (code == NULL)
        return NULL;
    for (sim_kernel *k = kernels; k != NULL; k = k->next)
        if (k->code == code)
            return k;
    sim_kernel *k = calloc(1, sizeof *k);
    if (k == NULL)
        abort();
    *k = (sim_kernel){ .next = kernels, .library = &the_library, .code = code };
    kernels = k;
    return k;
}

SIM_API cudaError_t cudaLibraryGetKernel(cudaKernel_t *kernel, cudaLibrary_t library, const char *name)
{
    SIM_ENTER_BARE(cudaLibraryGetKernel);
    if (kernel == NULL || name == NULL)
        return sim_leave(cudaErrorInvalidValue);
    pthread_mutex_lock(&lock);
    sim_kernel *found = NULL;
    const bool is_fine = (sim_library *)library == &the_library && library_count > 0;
    if (is_fine)
        found = kernel_with(dlsym(the_library.handle, name));
    pthread_mutex_unlock(&lock);
    if (!is_fine) {
        sim_fail("cudaLibraryGetKernel: %p is not %s that is loaded", (void *)library, library_kind);
        return sim_leave(cudaErrorInvalidResourceHandle);
    }
    if (found == NULL)
        return sim_leave(cudaErrorSymbolNotFound);
    if (found->code->abi != KI_SIM_ABI) {
        sim_fail("kernel %s was compiled against another kernel_sim.h", name);
        return sim_leave(cudaErrorInvalidKernelImage);
    }
    *kernel = (cudaKernel_t)found;
    return sim_leave(cudaSuccess);
}

/* True with the lock held; false after sim_fail(). */
static bool lock_library(cudaLibrary_t library, const char *api)
{
    pthread_mutex_lock(&lock);
    if ((sim_library *)library == &the_library && library_count > 0)
        return true;
    pthread_mutex_unlock(&lock);
    sim_fail("%s: %p is not %s that is loaded", api, (void *)library, library_kind);
    return false;
}

SIM_API cudaError_t cudaLibraryGetKernelCount(unsigned *count, cudaLibrary_t library)
{
    SIM_ENTER_BARE(cudaLibraryGetKernelCount);
    if (!lock_library(library, "cudaLibraryGetKernelCount"))
        return sim_leave(cudaErrorInvalidResourceHandle);
    for (*count = 0; the_library.kernel_at(*count) != NULL;)
        ++*count;
    pthread_mutex_unlock(&lock);
    return sim_leave(cudaSuccess);
}

SIM_API cudaError_t cudaLibraryEnumerateKernels(cudaKernel_t *all, unsigned count, cudaLibrary_t library)
{
    SIM_ENTER_BARE(cudaLibraryEnumerateKernels);
    if (!lock_library(library, "cudaLibraryEnumerateKernels"))
        return sim_leave(cudaErrorInvalidResourceHandle);
    for (unsigned i = 0; i < count; i++)
        all[i] = (cudaKernel_t)kernel_with(the_library.kernel_at(i));
    pthread_mutex_unlock(&lock);
    return sim_leave(cudaSuccess);
}

static sim_kernel *kernel_of(const void *handle, const char *api)
{
    pthread_mutex_lock(&lock);
    sim_kernel *k = library_count > 0 ? kernels : NULL;
    while (k != NULL && k != handle)
        k = k->next;
    pthread_mutex_unlock(&lock);
    if (k == NULL)
        sim_fail("%s: %p is no kernel of a loaded library", api, handle);
    return k;
}

/* Loads the kernel on the device, which may wait for the device's work if it is done later. */
SIM_API cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *attributes, const void *function)
{
    SIM_ENTER(cudaFuncGetAttributes);
    sim_kernel *k = kernel_of(function, "cudaFuncGetAttributes");
    if (k == NULL || attributes == NULL)
        return sim_leave(k == NULL ? cudaErrorInvalidResourceHandle : cudaErrorInvalidValue);
    memset(attributes, 0, sizeof *attributes);
    attributes->maxThreadsPerBlock = MAX_THREADS;
    k->is_loaded[sim_current_device()] = true;
    return sim_leave(cudaSuccess);
}

static cudaError_t set_attribute(sim_kernel *k, enum cudaFuncAttribute attribute, int value, int device)
{
    if (attribute == cudaFuncAttributePreferredSharedMemoryCarveout)
        return cudaSuccess;
    if (attribute != cudaFuncAttributeMaxDynamicSharedMemorySize || value < 0 || value > SHARED_OPTIN_NBYTES)
        return cudaErrorInvalidValue;
    k->shared_limit_nbytes[device] = (size_t)value;
    return cudaSuccess;
}

SIM_API cudaError_t cudaFuncSetAttribute(const void *function, enum cudaFuncAttribute attribute, int value)
{
    SIM_ENTER(cudaFuncSetAttribute);
    sim_kernel *k = kernel_of(function, "cudaFuncSetAttribute");
    return sim_leave(k == NULL ? cudaErrorInvalidResourceHandle
                               : set_attribute(k, attribute, value, sim_current_device()));
}

SIM_API cudaError_t cudaKernelSetAttributeForDevice(cudaKernel_t kernel, enum cudaFuncAttribute attribute, int value,
                                                    int device)
{
    SIM_ENTER(cudaKernelSetAttributeForDevice);
    sim_kernel *k = kernel_of((const void *)kernel, "cudaKernelSetAttributeForDevice");
    if (k == NULL || device < 0 || device >= sim_device_count())
        return sim_leave(k == NULL ? cudaErrorInvalidResourceHandle : cudaErrorInvalidDevice);
    return sim_leave(set_attribute(k, attribute, value, device));
}

/* ---- launches ---- */

typedef struct launch {
    ki_sim_launch of;
    ki_sim_run_fn run;
    _Alignas(16) char args[];
} launch;

static void run_launch(void *arg)
{
    launch *l = arg;
    if (sim_fault("kernel")) {
        sim_device_broken(sim_running()->stream->device, cudaErrorIllegalAddress);
        return;
    }
    pthread_mutex_lock(&sim_shadow_lock);
    l->run(&l->of);
    pthread_mutex_unlock(&sim_shadow_lock);
}

static cudaError_t check_shape(const sim_kernel *k, dim3 grid, dim3 block, size_t shared_nbytes)
{
    const uint64_t threads = (uint64_t)block.x * block.y * block.z;
    const uint64_t blocks = (uint64_t)grid.x * grid.y * grid.z;
    const size_t limit = k->shared_limit_nbytes[sim_current_device()];
    if (threads == 0 || threads > MAX_THREADS || block.x > 1024 || block.y > 1024 || block.z > 64 || blocks == 0 ||
        grid.x > 0x7fffffffu || grid.y > 65535 || grid.z > 65535)
        return cudaErrorInvalidConfiguration;
    if (shared_nbytes > (limit > SHARED_NBYTES ? limit : SHARED_NBYTES))
        return cudaErrorInvalidValue;
    if (blocks > 0x7fffffffu) {
        sim_fail("launch of %s: more than 2^31 - 1 blocks are not simulated", k->code->name);
        return cudaErrorInvalidConfiguration;
    }
    return cudaSuccess;
}

static cudaError_t put(const void *function, dim3 grid, dim3 block, void **args, size_t shared_nbytes,
                       cudaStream_t into, const char *api)
{
    const sim_kernel *k = kernel_of(function, api);
    sim_stream *stream = k == NULL ? NULL : sim_stream_of(into, api);
    if (stream == NULL)
        return cudaErrorInvalidResourceHandle;
    if (stream->device != sim_current_device()) {
        sim_fail("%s: %s into a stream of device %d while device %d is current", api, k->code->name, stream->device,
                 sim_current_device());
        return cudaErrorInvalidResourceHandle;
    }
    if (sim_settings_get()->only_loaded && !k->is_loaded[stream->device])
        sim_fail("%s: %s was not loaded on device %d before: loading it now may wait for all that the device runs", api,
                 k->code->name, stream->device);
    const cudaError_t error = check_shape(k, grid, block, shared_nbytes);
    if (error != cudaSuccess)
        return error;
    if (args == NULL || args[0] == NULL)
        return cudaErrorInvalidValue;
    if (sim_fault("launch"))
        return cudaErrorLaunchOutOfResources;
    launch *l = malloc(sizeof *l + k->code->args_nbytes);
    if (l == NULL)
        return cudaErrorMemoryAllocation;
    memcpy(l->args, args[0], k->code->args_nbytes);
    uint64_t seed = sim_settings_get()->seed;
    l->run = k->library->run;
    l->of = (ki_sim_launch){ k->code,
                             l->args,
                             { grid.x, grid.y, grid.z },
                             { block.x, block.y, block.z },
                             shared_nbytes,
                             seed == 0 ? 0 : sim_random(&seed) | 1 };
    sim_stream_put(stream, sim_op_new(k->code->name, run_launch, l), NULL);
    return cudaSuccess;
}

SIM_API cudaError_t cudaLaunchKernel(const void *function, dim3 grid, dim3 block, void **args, size_t shared_nbytes,
                                     cudaStream_t into)
{
    SIM_ENTER(cudaLaunchKernel);
    return sim_leave(put(function, grid, block, args, shared_nbytes, into, "cudaLaunchKernel"));
}

SIM_API cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *config, const void *function, void **args)
{
    SIM_ENTER(cudaLaunchKernelExC);
    if (config == NULL)
        return sim_leave(cudaErrorInvalidValue);
    if (config->numAttrs != 0) {
        sim_fail("cudaLaunchKernelExC: attributes of a launch are not simulated");
        return sim_leave(cudaErrorNotSupported);
    }
    return sim_leave(put(function, config->gridDim, config->blockDim, args, config->dynamicSmemBytes, config->stream,
                         "cudaLaunchKernelExC"));
}
