/* tests/simgpu/test_simgpu_memory.c - memory of the simulated GPU: where it is, whose it is, and when it is gone.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "sim_test.h"
#include <cuda.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char *const two_devices[] = { "KITH_SIMGPU_DEVICES=2", NULL };
static const char *const small[] = { "KITH_SIMGPU_MEMORY=2097152", NULL };

/* ---- the host ---- */

static void host_reads(void)
{
    const float *x = device_floats(16);
    must(*(const volatile float *)(x + 3) == 0);
}

static void host_writes(void)
{
    float *x = device_floats(16);
    *(volatile float *)x = 1;
}

static void host_touches_freed_pinned(void)
{
    void *x;
    ok(cudaHostAlloc(&x, 100, cudaHostAllocDefault));
    memset(x, 1, 100);
    ok(cudaFreeHost(x));
    *(volatile char *)x = 1;
}

static void host_dereferences(void **state)
{
    (void)state;
    case_fails(host_reads, NULL, "the host touches", "byte 12 of a buffer of 64 bytes on device 0");
    case_fails(host_writes, NULL, "the host touches", "byte 0 of a buffer of 64 bytes on device 0");
    case_fails(host_touches_freed_pinned, NULL, "the host touches", "of 100 bytes on pinned memory that was freed");
}

/* ---- allocations ---- */

static void bytes_come_and_go(void)
{
    unsigned char in[1000], out[1000];
    void *x, *pinned;
    for (size_t i = 0; i < sizeof in; i++)
        in[i] = (unsigned char)(i * 7);
    ok(cudaMalloc(&x, sizeof in));
    must((uintptr_t)x % 256 == 0);
    ok(cudaMemcpy(out, x, sizeof out, cudaMemcpyDeviceToHost));
    for (size_t i = 0; i < sizeof out; i++)
        must(out[i] == 0xff); /* new memory is NaN */
    ok(cudaMemcpy(x, in, sizeof in, cudaMemcpyHostToDevice));
    ok(cudaHostAlloc(&pinned, sizeof in, cudaHostAllocDefault));
    must((uintptr_t)pinned % 4096 == 0);
    ok(cudaMemcpy(pinned, x, sizeof in, cudaMemcpyDefault));
    must(memcmp(pinned, in, sizeof in) == 0);
    ok(cudaMemcpy2DAsync(x, 10, in, 20, 5, 50, cudaMemcpyHostToDevice, NULL));
    ok(cudaMemcpy(out, x, sizeof out, cudaMemcpyDeviceToHost));
    for (size_t i = 0; i < 500; i++)
        must(out[i] == (i % 10 < 5 ? in[i / 10 * 20 + i % 10] : in[i]));
    ok(cudaMemset(x, 3, 1000));
    ok(cudaMemcpy(out, x, sizeof out, cudaMemcpyDeviceToHost));
    must(out[0] == 3 && out[999] == 3);
    ok(cudaFree(x));
    ok(cudaFree(NULL));
    ok(cudaFreeHost(pinned));
}

static void room_ends(void)
{
    size_t free_nbytes, total_nbytes;
    void *x, *y;
    ok(cudaMalloc(&x, 1 << 20));
    ok(cudaMemGetInfo(&free_nbytes, &total_nbytes));
    must(total_nbytes == 2 << 20 && free_nbytes == 1 << 20);
    must_be(cudaMalloc(&y, (1 << 20) + 1), cudaErrorMemoryAllocation);
    must(y == NULL);
    must_be(cudaGetLastError(), cudaErrorMemoryAllocation);
    must_be(cudaGetLastError(), cudaSuccess);
    for (int i = 0; i < 100; i++) { /* addresses come round */
        ok(cudaMalloc(&y, 1 << 20));
        ok(cudaMemset(y, 1, 1 << 20));
        ok(cudaFree(y));
    }
    ok(cudaFree(x));
}

static void pointers_are_known(void)
{
    struct cudaPointerAttributes attributes;
    void *x, *pinned;
    int local;
    ok(cudaSetDevice(1));
    ok(cudaMalloc(&x, 64));
    ok(cudaSetDevice(0));
    ok(cudaHostAlloc(&pinned, 64, cudaHostAllocPortable));
    ok(cudaPointerGetAttributes(&attributes, (char *)x + 63));
    must(attributes.type == cudaMemoryTypeDevice && attributes.device == 1);
    ok(cudaPointerGetAttributes(&attributes, (char *)x + 64));
    must(attributes.type == cudaMemoryTypeUnregistered);
    ok(cudaPointerGetAttributes(&attributes, pinned));
    must(attributes.type == cudaMemoryTypeHost && attributes.hostPointer == pinned);
    ok(cudaPointerGetAttributes(&attributes, &local));
    must(attributes.type == cudaMemoryTypeUnregistered && attributes.device == cudaInvalidDeviceId);
    ok(cudaFree(x));
    ok(cudaPointerGetAttributes(&attributes, x));
    must(attributes.type == cudaMemoryTypeUnregistered);
    ok(cudaFreeHost(pinned));
}

static void allocations(void **state)
{
    (void)state;
    case_passes(bytes_come_and_go, NULL);
    case_passes(room_ends, small);
    case_passes(pointers_are_known, two_devices);
}

/* ---- wrong frees and wrong pointers ---- */

static void frees_twice(void)
{
    float *x = device_floats(4);
    ok(cudaFree(x));
    ok(cudaFree(x));
}

static void frees_the_middle(void)
{
    ok(cudaFree(device_floats(4) + 1));
}

static void frees_the_hosts(void)
{
    ok(cudaFree(malloc(4)));
}

static void frees_pinned_as_device(void)
{
    void *x;
    ok(cudaHostAlloc(&x, 4, 0));
    ok(cudaFree(x));
}

static void copies_freed(void)
{
    float *x = device_floats(4), host[4];
    ok(cudaFree(x));
    ok(cudaMemcpy(host, x, sizeof host, cudaMemcpyDefault));
}

static void copies_too_much(void)
{
    float host[8];
    ok(cudaMemcpy(host, device_floats(4), sizeof host, cudaMemcpyDeviceToHost));
}

static void copies_foreign(void)
{
    float host[4];
    ok(cudaMemcpy(host, device_floats(4), sizeof host, cudaMemcpyDeviceToDevice));
}

static void fills_foreign(void)
{
    float host[4];
    ok(cudaMemset(host, 0, sizeof host));
}

static void wrong_pointers(void **state)
{
    (void)state;
    case_fails(frees_twice, NULL, "cudaFree", "byte 0 of a buffer of 16 bytes on device 0 that was freed");
    case_fails(frees_the_middle, NULL, "cudaFree", "not the start of a live buffer");
    case_fails(frees_the_hosts, NULL, "cudaFree", "memory of the host that CUDA does not know");
    case_fails(frees_pinned_as_device, NULL, "cudaFree", "not the start of a live buffer of device memory");
    case_fails(copies_freed, NULL, "cudaMemcpy", "of 16 bytes on device 0 that was freed");
    case_fails(copies_too_much, NULL, "byte 0 of a buffer of 16 bytes", "32 bytes are wanted");
    case_fails(copies_foreign, NULL, "said to be device to device and is device to host");
    case_fails(fills_foreign, NULL, "cudaMemset", "memory of the host that CUDA does not know");
}

/* ---- in the order of a stream ---- */

static void async_in_order(void)
{
    cudaStream_t stream = new_stream();
    void *x;
    float out[64];
    ok(cudaMallocAsync(&x, sizeof out, stream));
    ok(cudaMemsetAsync(x, 0, sizeof out, stream));
    add(stream, x, x, 64, 2);
    ok(cudaMemcpyAsync(out, x, sizeof out, cudaMemcpyDeviceToHost, stream));
    must(out[0] == 2 && out[63] == 2);
    ok(cudaFreeAsync(x, stream));
    ok(cudaStreamDestroy(stream));
    ok(cudaDeviceSynchronize());
    done();
}

static void async_used_elsewhere(void)
{
    cudaStream_t stream = new_stream(), other = new_stream();
    void *x;
    ok(cudaMallocAsync(&x, 64, stream));
    ok(cudaMemsetAsync(x, 0, 64, other));
    ok(cudaDeviceSynchronize());
}

static void async_freed_under_use(void)
{
    cudaStream_t stream = new_stream(), other = new_stream();
    float *x = device_floats_with(16, 1);
    gate g;
    gate_put(&g, stream);
    ok(cudaMemsetAsync(x, 0, 64, other));
    ok(cudaFreeAsync(x, stream));
    ok(cudaStreamSynchronize(other));
    gate_open(&g);
    ok(cudaDeviceSynchronize());
}

static void async_used_after(void)
{
    cudaStream_t stream = new_stream();
    float *x = device_floats(16), *y = device_floats(16);
    ok(cudaFreeAsync(x, stream));
    add(stream, x, y, 16, 1);
    ok(cudaDeviceSynchronize());
}

static void async_freed_twice(void)
{
    cudaStream_t stream = new_stream();
    gate g;
    float *x = device_floats(16);
    gate_put(&g, stream);
    ok(cudaFreeAsync(x, stream));
    ok(cudaFreeAsync(x, stream));
}

static cudaMemPool_t new_pool(size_t most, uint64_t keep)
{
    struct cudaMemPoolProps how = { .allocType = cudaMemAllocationTypePinned, .maxSize = most };
    cudaMemPool_t pool;
    how.location.type = cudaMemLocationTypeDevice;
    ok(cudaMemPoolCreate(&pool, &how));
    ok(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep));
    return pool;
}

static void pool_holds(cudaMemPool_t pool, uint64_t used, uint64_t held)
{
    uint64_t got;
    ok(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &got));
    must_be(got, used);
    ok(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReservedMemCurrent, &got));
    must_be(got, held);
}

static void pool_keeps(void)
{
    cudaStream_t stream = new_stream();
    cudaMemPool_t pool = new_pool(1000, 100);
    void *x, *y;
    ok(cudaMallocFromPoolAsync(&x, 600, pool, stream));
    must_be(cudaMallocFromPoolAsync(&y, 401, pool, stream), cudaErrorMemoryAllocation);
    ok(cudaMallocFromPoolAsync(&y, 400, pool, stream));
    pool_holds(pool, 1000, 1000);
    ok(cudaFreeAsync(x, stream));
    ok(cudaStreamSynchronize(stream));
    pool_holds(pool, 400, 400);
    ok(cudaFree(y));
    pool_holds(pool, 0, 400);
    ok(cudaDeviceSynchronize());
    pool_holds(pool, 0, 100);
    ok(cudaMemPoolTrimTo(pool, 0));
    pool_holds(pool, 0, 0);
    ok(cudaMemPoolDestroy(pool));
    ok(cudaStreamDestroy(stream));
}

static void pool_used_after(void)
{
    cudaStream_t stream = new_stream(), other = new_stream();
    cudaMemPool_t pool = new_pool(0, 0);
    gate g;
    void *x;
    ok(cudaMallocFromPoolAsync(&x, 64, pool, stream));
    ok(cudaStreamSynchronize(stream));
    gate_put(&g, other);
    ok(cudaFreeAsync(x, stream));
    ok(cudaMemsetAsync(x, 0, 64, other));
    ok(cudaStreamSynchronize(stream));
    gate_open(&g);
    ok(cudaDeviceSynchronize());
}

static void pool_of_other_device(void)
{
    cudaMemPool_t pool = new_pool(0, 0);
    void *x;
    ok(cudaSetDevice(1));
    ok(cudaMallocFromPoolAsync(&x, 64, pool, new_stream()));
}

static void pool_is_gone(void)
{
    cudaMemPool_t pool = new_pool(0, 0);
    void *x;
    ok(cudaMemPoolDestroy(pool));
    ok(cudaMallocFromPoolAsync(&x, 64, pool, NULL));
}

static void pool_leaks(void)
{
    new_pool(0, 0);
}

static void no_pools(void)
{
    int has_pools = 1;
    void *x;
    ok(cudaDeviceGetAttribute(&has_pools, cudaDevAttrMemoryPoolsSupported, 0));
    must(!has_pools);
    must_be(cudaMallocAsync(&x, 64, NULL), cudaErrorNotSupported);
}

static void stream_ordered_memory(void **state)
{
    static const char *const without[] = { "KITH_SIMGPU_POOLS=0", NULL };
    (void)state;
    case_passes(pool_keeps, NULL);
    case_fails(pool_used_after, NULL, "that was freed"); /* said of the call, or of what it put in */
    case_fails(pool_of_other_device, two_devices, "memory of a pool of device 0 in a stream of device 1");
    case_fails(pool_is_gone, NULL, "is no memory pool");
    case_fails(pool_leaks, NULL, "a memory pool (1 of them)");
    case_passes(no_pools, without);
    case_passes(async_in_order, NULL);
    case_fails(async_used_elsewhere, NULL, "race", "'cudaMallocAsync'", "'fill'");
    case_fails(async_freed_under_use, NULL, "race", "'cudaFreeAsync'", "'fill'");
    case_fails(async_used_after, NULL, "test_add", "that was freed");
    case_fails(async_freed_twice, NULL, "cudaFreeAsync() was called for it before");
}

/* ---- the end ---- */

static void leaks_memory(void)
{
    device_floats(100);
    device_floats(10);
}

static void leaks_pinned(void)
{
    void *x;
    ok(cudaMallocHost(&x, 100));
}

static void leaks_handles(void)
{
    new_stream();
    new_event();
    new_event();
}

static void leaks_nothing_after_fork(void)
{
    float *x = device_floats(100);
    ok(cudaFree(x));
}

static void leaks(void **state)
{
    static const char *const quiet[] = { "KITH_SIMGPU_LEAKS=0", NULL };
    (void)state;
    case_fails(leaks_memory, NULL, "was to release: 2 buffers of device 0 (440 bytes; the first has 400 bytes");
    case_fails(leaks_pinned, NULL, "was to release: 1 buffers of pinned memory (100 bytes");
    case_fails(leaks_handles, NULL, "was to release", "a stream (1 of them)", "an event (2 of them)");
    case_passes(leaks_memory, quiet);
    case_passes(leaks_nothing_after_fork, NULL);
}

/* ---- other devices ---- */

static void kernel_on_other_device(void)
{
    float *x = device_floats_with(16, 1);
    ok(cudaSetDevice(1));
    float *y = device_floats(16);
    add(new_stream(), x, y, 16, 1);
    ok(cudaDeviceSynchronize());
}

static void copy_between_devices(void)
{
    float *x = device_floats_with(16, 5);
    ok(cudaSetDevice(1));
    float *y = device_floats(16);
    ok(cudaMemcpy(y, x, 64, cudaMemcpyDeviceToDevice));
    check_floats(y, 16, 5);
    ok(cudaFree(y));
    ok(cudaFree(x));
}

static void devices(void **state)
{
    (void)state;
    case_fails(kernel_on_other_device, two_devices, "'test_add' on device 1 reads", "which is memory of device 0");
    case_passes(copy_between_devices, two_devices);
}

/* ---- contexts ---- */

static void *driver(const char *name)
{
    void *function = NULL;
    enum cudaDriverEntryPointQueryResult result;
    ok(cudaGetDriverEntryPointByVersion(name, &function, 12000, cudaEnableDefault, &result));
    return function;
}

static void borrow(int device)
{
    CUresult (*retain)(CUcontext *, CUdevice), (*push)(CUcontext);
    CUcontext context;
    *(void **)&retain = driver("cuDevicePrimaryCtxRetain");
    *(void **)&push = driver("cuCtxPushCurrent");
    must(retain(&context, device) == CUDA_SUCCESS);
    must(push(context) == CUDA_SUCCESS);
}

static void give_back(void)
{
    CUresult (*pop)(CUcontext *);
    *(void **)&pop = driver("cuCtxPopCurrent");
    must(pop(NULL) == CUDA_SUCCESS);
}

static void one_context(void)
{
    int count, device;
    ok(cudaGetDeviceCount(&count));
    ok(cudaGetDevice(&device));
    must(device == 0 && !sim_context_is_made(0) && !sim_context_is_made(1));
    borrow(1);
    ok(cudaGetDevice(&device));
    must(device == 1);
    float *x = device_floats_with(16, 1);
    check_floats(x, 16, 1);
    ok(cudaFree(x));
    give_back();
    ok(cudaGetDevice(&device));
    must(device == 0 && !sim_context_is_made(0) && sim_context_is_made(1));
}

static void back_to_device_0(void)
{
    ok(cudaSetDevice(1));
    ok(cudaSetDevice(0));
}

static void call_without_context(void)
{
    struct cudaPointerAttributes attributes;
    borrow(1);
    give_back();
    ok(cudaPointerGetAttributes(&attributes, &attributes));
}

static void contexts(void **state)
{
    static const char *const strict[] = { "KITH_SIMGPU_DEVICES=2", "KITH_SIMGPU_CONTEXTS=1", NULL };
    static const char *const few[] = { "KITH_SIMGPU_DEVICES=2", "KITH_SIMGPU_QUEUES=32",
                                       "CUDA_DEVICE_MAX_CONNECTIONS=8", NULL };
    static const char *const enough[] = { "KITH_SIMGPU_DEVICES=2", "KITH_SIMGPU_QUEUES=32",
                                          "CUDA_DEVICE_MAX_CONNECTIONS=32", NULL };
    (void)state;
    case_passes(one_context, enough);
    case_fails(one_context, few, "CUDA starts with CUDA_DEVICE_MAX_CONNECTIONS=8, and is to have 32 queues");
    case_passes(one_context, strict);
    case_passes(back_to_device_0, two_devices);
    case_fails(back_to_device_0, strict, "cudaSetDevice: makes a context on device 0", "one on device 1");
    case_fails(call_without_context, strict, "cudaPointerGetAttributes: makes a context on device 0");
    case_fails(give_back, NULL, "cuCtxPopCurrent: the thread has no context");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(host_dereferences),
        cmocka_unit_test(allocations),
        cmocka_unit_test(wrong_pointers),
        cmocka_unit_test(stream_ordered_memory),
        cmocka_unit_test(leaks),
        cmocka_unit_test(devices),
        cmocka_unit_test(contexts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
