/* tests/simgpu/test_simgpu_kernels.c - kernels: what they compute, what they may touch, and how their threads meet.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "sim_test.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char *const orders[][2] = { { NULL }, { "KITH_SIMGPU_DELAY=5:10" }, { "KITH_SIMGPU_DELAY=99:10" } };

/* ---- right ones ---- */

static void elements(void)
{
    float *x = device_floats_with(1000, 1.5f), *y = device_floats_with(1000, 0);
    for (unsigned threads = 1; threads <= 1024; threads *= 4) {
        const test_add_args args = { x, y, 1000, (float)threads };
        ok(launch(NULL, "test_add", 3, threads, &args));
        check_floats(y, 1000, 1.5f + (float)threads);
    }
    const test_add_args wide = { x, y, 1000, 2 };
    ok(launch(NULL, "test_add16", 1, 32, &wide));
    check_floats(y, 1000, 3.5f);
    const test_again_args again = { y, 1000, 7 };
    ok(launch(NULL, "test_again", 5, 32, &again));
    check_floats(y, 1000, 10.5f);
    ok(cudaFree(x));
    ok(cudaFree(y));
    done();
}

static void single_bytes(void)
{
    void *x;
    uint8_t host[333];
    ok(cudaMalloc(&x, sizeof host));
    ok(cudaMemset(x, 41, sizeof host));
    const test_bytes_args args = { x, sizeof host };
    ok(launch(NULL, "test_bytes", 2, 64, &args));
    ok(cudaMemcpy(host, x, sizeof host, cudaMemcpyDeviceToHost));
    for (size_t i = 0; i < sizeof host; i++)
        must(host[i] == 42);
    ok(cudaFree(x));
    done();
}

/* Rows of small integers: sums are exact. */
static void rows(void)
{
    enum { ROWS = 37, COLUMNS = 500 };
    static float host[ROWS * COLUMNS], sums[ROWS];
    float *x = device_floats(ROWS * COLUMNS), *y = device_floats(ROWS);
    for (int i = 0; i < ROWS * COLUMNS; i++)
        host[i] = (float)(i % 11);
    ok(cudaMemcpy(x, host, sizeof host, cudaMemcpyHostToDevice));
    for (unsigned threads = 32; threads <= 1024; threads *= 2) {
        const test_sum_args args = { x, y, COLUMNS };
        ok(launch(NULL, "test_sum", ROWS, threads, &args));
        ok(cudaMemcpy(sums, y, sizeof sums, cudaMemcpyDeviceToHost));
        for (int row = 0; row < ROWS; row++) {
            float wanted = 0;
            for (int i = 0; i < COLUMNS; i++)
                wanted += host[row * COLUMNS + i];
            must(sums[row] == wanted);
        }
    }
    ok(cudaFree(x));
    ok(cudaFree(y));
    done();
}

static void pinned_from_a_kernel(void)
{
    void *memory;
    ok(cudaMallocHost(&memory, 40));
    float *x = memory;
    for (int i = 0; i < 10; i++)
        x[i] = 1;
    add(NULL, x, x, 10, 1);
    ok(cudaDeviceSynchronize());
    for (int i = 0; i < 10; i++)
        must(x[i] == 2);
    ok(cudaFreeHost(x));
    done();
}

static void right_kernels(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        case_passes(elements, orders[i]);
        case_passes(rows, orders[i]);
    }
    case_passes(single_bytes, NULL);
    case_passes(pinned_from_a_kernel, NULL);
}

/* ---- what they touch ---- */

static void run_add(const float *x, float *y, int64_t count)
{
    const test_add_args args = { x, y, count, 1 };
    ok(launch(NULL, "test_add", 1, 32, &args));
    ok(cudaDeviceSynchronize());
}

static void reads_behind_the_end(void)
{
    run_add(device_floats(99), device_floats(100), 100);
}

static void writes_behind_the_end(void)
{
    run_add(device_floats(100), device_floats(99), 100);
}

static void reads_before_the_begin(void)
{
    run_add(device_floats(100) - 1, device_floats(100), 100);
}

static void reads_null(void)
{
    run_add(NULL, device_floats(100), 100);
}

static void reads_the_hosts(void)
{
    float *x = calloc(100, sizeof *x);
    run_add(x, device_floats(100), 100);
}

static void reads_freed(void)
{
    float *x = device_floats(100), *y = device_floats(100);
    run_add(x, y, 100);
    ok(cudaFree(x));
    run_add(x, y, 100);
}

/* The buffer is gone when the stream comes there, not when the kernel is launched. */
static void reads_freed_in_time(void)
{
    cudaStream_t stream = new_stream();
    float *x = device_floats(100), *y = device_floats(100);
    gate g;
    gate_put(&g, stream);
    ok(cudaFreeAsync(x, stream));
    add(stream, x, y, 100, 1);
    gate_open(&g);
    ok(cudaDeviceSynchronize());
}

static void reads_askew(void)
{
    run_add((const float *)(const void *)((const char *)device_floats(100) + 2), device_floats(100), 10);
}

static void reads_16_askew(void)
{
    const test_add_args args = { device_floats(100) + 1, device_floats(100), 16, 1 };
    ok(launch(NULL, "test_add16", 1, 32, &args));
    ok(cudaDeviceSynchronize());
}

static void touched(void **state)
{
    (void)state;
    case_fails(reads_behind_the_end, NULL, "'test_add' on device 0 reads 4 bytes",
               "it points 0 bytes behind the end of a buffer of 396 bytes on device 0");
    case_fails(writes_behind_the_end, NULL, "'test_add' on device 0 writes 4 bytes", "behind the end of a buffer");
    case_fails(reads_before_the_begin, NULL, "'test_add' on device 0 reads 4 bytes",
               "it points 4 bytes before the begin of a buffer of 400 bytes on device 0");
    case_fails(reads_null, NULL, "it is NULL");
    case_fails(reads_the_hosts, NULL, "it is memory of the host that CUDA does not know");
    case_fails(reads_freed, NULL, "'test_add' on device 0 reads",
               "byte 0 of a buffer of 400 bytes on device 0 that was freed");
    case_fails(reads_freed_in_time, NULL, "'test_add' on device 0 reads", "that was freed");
    case_fails(reads_askew, NULL, "is not aligned to the 4 bytes of an access");
    case_fails(reads_16_askew, NULL, "is not aligned to the 16 bytes of an access");
}

/* ---- meeting ---- */

static void run_block_kernel(const char *name, unsigned threads)
{
    const test_sum_args args = { device_floats(2048), device_floats(2048), 32 };
    ok(launch(NULL, name, 2, threads, &args));
    ok(cudaDeviceSynchronize());
}

static void two_places(void)
{
    run_block_kernel("test_two_places", 64);
}

static void ends_early(void)
{
    run_block_kernel("test_ends_early", 64);
}

static void half_warp(void)
{
    run_block_kernel("test_half_warp", 64);
}

static void meets_by_mistake(void)
{
    run_block_kernel("test_meets_by_mistake", 64);
}

static void no_whole_warp(void)
{
    run_block_kernel("test_sum", 48);
}

static void shared_is_not_written(void)
{
    float *y = device_floats_with(2, 1), host[2];
    for (int again = 0; again < 2; again++) {
        const test_sum_args args = { y, y, 0 };
        ok(launch(NULL, "test_sum", 2, 64, &args)); /* leaves zeros in shared memory */
        ok(launch(NULL, "test_unwritten", 2, 32, &args));
    }
    ok(cudaMemcpy(host, y, sizeof host, cudaMemcpyDeviceToHost));
    must(host[0] != host[0] && host[1] != host[1]);
    ok(cudaFree(y));
    done();
}

static void meeting(void **state)
{
    (void)state;
    case_fails(two_places, NULL, "'test_two_places'", "threads of one block wait at two places");
    case_fails(ends_early, NULL, "'test_ends_early'", "threads of a block wait at", "and 1 of 64 have ended without");
    case_fails(half_warp, NULL, "'test_half_warp'", "waits for its warp", "others of the warp are not there");
    case_fails(meets_by_mistake, NULL, "threads of a KI_KERNEL do not meet");
    case_fails(no_whole_warp, NULL, "blocks of 48 threads");
    case_passes(shared_is_not_written, NULL);
}

/* ---- launches ---- */

static void shapes(void)
{
    const test_add_args args = { NULL, NULL, 0, 0 };
    must_be(launch(NULL, "test_add", 0, 32, &args), cudaErrorInvalidConfiguration);
    must_be(launch(NULL, "test_add", 1, 0, &args), cudaErrorInvalidConfiguration);
    must_be(launch(NULL, "test_add", 1, 1025, &args), cudaErrorInvalidConfiguration);
    must_be(cudaGetLastError(), cudaErrorInvalidConfiguration);
    const dim3 one = { 1, 1, 1 };
    void *list[] = { (void *)(uintptr_t)&args };
    const void *add_kernel = (const void *)kernel("test_add");
    must_be(cudaLaunchKernel(add_kernel, one, one, list, (48 << 10) + 1, NULL), cudaErrorInvalidValue);
    ok(cudaFuncSetAttribute(add_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, 100 << 10));
    ok(cudaLaunchKernel(add_kernel, one, one, list, 100 << 10, NULL));
    must_be(cudaFuncSetAttribute(add_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, 1 << 20),
            cudaErrorInvalidValue);
    const cudaLaunchConfig_t config = { .gridDim = one, .blockDim = one };
    ok(cudaLaunchKernelExC(&config, add_kernel, list));
    ok(cudaDeviceSynchronize());
    done();
}

/* Arguments are the launch's own. */
static void arguments_are_copied(void)
{
    cudaStream_t stream = new_stream();
    float *x = device_floats_with(10, 1);
    test_add_args args = { x, x, 10, 1 };
    gate g;
    gate_put(&g, stream);
    ok(launch(stream, "test_add", 1, 32, &args));
    memset(&args, 0xff, sizeof args);
    gate_open(&g);
    ok(cudaStreamSynchronize(stream));
    check_floats(x, 10, 2);
    ok(cudaStreamDestroy(stream));
    ok(cudaFree(x));
    done();
}

static void images(void)
{
    static const uint32_t no_image[4] = { 0x464c457fu };
    cudaLibrary_t library;
    cudaKernel_t found;
    must_be(cudaLibraryLoadData(&library, no_image, NULL, NULL, 0, NULL, NULL, 0), cudaErrorInvalidKernelImage);
    static const uint32_t image[4] = { 0xba55ed50u };
    ok(cudaLibraryLoadData(&library, image, NULL, NULL, 0, NULL, NULL, 0));
    must_be(cudaLibraryGetKernel(&found, library, "test_no_such"), cudaErrorSymbolNotFound);
    ok(cudaLibraryUnload(library));
}

static void kernel_of_unloaded(void)
{
    const test_add_args args = { NULL, NULL, 0, 0 };
    void *list[] = { (void *)(uintptr_t)&args };
    const dim3 one = { 1, 1, 1 };
    const void *add_kernel = (const void *)kernel("test_add");
    done();
    ok(cudaLaunchKernel(add_kernel, one, one, list, 0, NULL));
}

/* ---- loading ---- */

static void launch_one(bool is_loaded)
{
    struct cudaFuncAttributes attributes;
    const test_add_args args = { NULL, NULL, 0, 0 };
    const void *add_kernel = (const void *)kernel("test_add");
    if (is_loaded)
        ok(cudaFuncGetAttributes(&attributes, add_kernel));
    ok(launch(NULL, "test_add", 1, 32, &args));
    ok(cudaDeviceSynchronize());
    done();
}

static void launches_loaded(void)
{
    launch_one(true);
}

static void launches_not_loaded(void)
{
    launch_one(false);
}

/* Loaded on device 0, launched on device 1. */
static void loaded_elsewhere(void)
{
    struct cudaFuncAttributes attributes;
    ok(cudaFuncGetAttributes(&attributes, (const void *)kernel("test_add")));
    ok(cudaSetDevice(1));
    launch_one(false);
}

static void kernels_are_counted(void)
{
    static const uint32_t image[4] = { 0xba55ed50u };
    cudaLibrary_t library;
    cudaKernel_t all[64], one;
    unsigned count = 0, found = 0;
    ok(cudaLibraryLoadData(&library, image, NULL, NULL, 0, NULL, NULL, 0));
    ok(cudaLibraryGetKernelCount(&count, library));
    must(count > 3 && count <= 64);
    ok(cudaLibraryEnumerateKernels(all, count, library));
    ok(cudaLibraryGetKernel(&one, library, "test_add"));
    for (unsigned i = 0; i < count; i++)
        found += all[i] == one;
    must(found == 1);
    ok(cudaLibraryUnload(library));
}

static void loading(void **state)
{
    static const char *const strict[] = { "KITH_SIMGPU_LOADED=1", "KITH_SIMGPU_DEVICES=2", NULL };
    (void)state;
    case_passes(launches_loaded, strict);
    case_passes(launches_not_loaded, NULL);
    case_fails(launches_not_loaded, strict, "test_add was not loaded on device 0");
    case_fails(loaded_elsewhere, strict, "test_add was not loaded on device 1");
    case_passes(kernels_are_counted, NULL);
}

static void launches(void **state)
{
    static const char *const nowhere[] = { "KITH_SIMGPU_KERNELS=/nowhere/libsimkernels.so", NULL };
    (void)state;
    case_passes(shapes, NULL);
    case_passes(arguments_are_copied, NULL);
    case_passes(images, NULL);
    case_fails(images, nowhere, "the library of kernels cannot be opened", "/nowhere/libsimkernels.so");
    case_fails(kernel_of_unloaded, NULL, "is no kernel of a loaded library");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(right_kernels), cmocka_unit_test(touched), cmocka_unit_test(meeting),
        cmocka_unit_test(launches),      cmocka_unit_test(loading),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
