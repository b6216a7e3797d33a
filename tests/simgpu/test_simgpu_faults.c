/* tests/simgpu/test_simgpu_faults.c - injected failures, and what comes after them.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "sim_test.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

/* The third fails, and no other. */
static void third_allocation(void)
{
    void *x[5];
    for (int i = 0; i < 5; i++)
        must_be(cudaMalloc(&x[i], 16), i == 2 ? cudaErrorMemoryAllocation : cudaSuccess);
    for (int i = 0; i < 5; i++)
        ok(cudaFree(x[i]));
}

static void first_of_each(void)
{
    cudaStream_t stream;
    cudaEvent_t event;
    void *pinned;
    const test_add_args args = { NULL, NULL, 0, 0 };
    must_be(cudaStreamCreate(&stream), cudaErrorMemoryAllocation);
    ok(cudaStreamCreate(&stream));
    must_be(cudaEventCreate(&event), cudaErrorMemoryAllocation);
    ok(cudaEventCreate(&event));
    must_be(cudaHostAlloc(&pinned, 16, 0), cudaErrorMemoryAllocation);
    ok(cudaHostAlloc(&pinned, 16, 0));
    must_be(launch(stream, "test_add", 1, 32, &args), cudaErrorLaunchOutOfResources);
    ok(launch(stream, "test_add", 1, 32, &args));
    ok(cudaStreamSynchronize(stream));
    ok(cudaFreeHost(pinned));
    ok(cudaEventDestroy(event));
    ok(cudaStreamDestroy(stream));
    done();
}

/* A kernel that fails on the device breaks it: what comes later says so, and nothing runs. */
static void kernel_breaks_the_device(void)
{
    cudaStream_t stream = new_stream();
    cudaEvent_t event = new_event();
    float *x = device_floats_with(16, 1);
    const test_add_args args = { x, x, 16, 1 };
    gate g; /* nothing breaks before all is put in */
    void *y;
    gate_put(&g, stream);
    ok(launch(stream, "test_add", 1, 32, &args));
    ok(launch(stream, "test_add", 1, 32, &args)); /* the launch itself is fine */
    ok(cudaEventRecord(event, stream));
    gate_open(&g);
    must_be(cudaStreamSynchronize(stream), cudaErrorIllegalAddress);
    must_be(cudaEventQuery(event), cudaErrorIllegalAddress);
    must_be(cudaMalloc(&y, 16), cudaErrorIllegalAddress);
    must_be(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
    must_be(cudaGetLastError(), cudaErrorIllegalAddress);
    must_be(cudaGetLastError(), cudaErrorIllegalAddress); /* does not go away */
    must_be(cudaSetDevice(1), cudaSuccess);               /* the other one is whole */
    ok(cudaMalloc(&y, 16));
    ok(cudaFree(y));
}

static void copy_breaks_the_device(void)
{
    float host[4] = { 0 };
    float *x = device_floats(4);
    ok(cudaMemcpy(x, host, sizeof host, cudaMemcpyHostToDevice)); /* returns before the bytes have arrived */
    must_be(cudaMemcpy(host, x, sizeof host, cudaMemcpyDeviceToHost), cudaErrorIllegalAddress);
}

static void no_count(void)
{
    int count;
    must_be(cudaGetDeviceCount(&count), cudaErrorUnknown);
    ok(cudaGetDeviceCount(&count));
}

/* Names with a colon are for other libraries. */
static void own_names(void)
{
    must(sim_fault("nccl_async:2") == 0);
    must(sim_fault("nccl_async:1") == 0);
    must(sim_fault("nccl_async:1") == 1);
    must(sim_fault("nccl_async:1") == 0);
}

static void injected(void **state)
{
    static const char *const third[] = { "KITH_SIMGPU_FAULT=malloc:3", NULL };
    static const char *const each[] = { "KITH_SIMGPU_FAULT=stream:1,event:1,host_alloc:1,launch:1", NULL };
    static const char *const kernel_fault[] = { "KITH_SIMGPU_FAULT=kernel:2", "KITH_SIMGPU_DEVICES=2",
                                                "KITH_SIMGPU_LEAKS=0", NULL };
    static const char *const copy_fault[] = { "KITH_SIMGPU_FAULT=copy:1", "KITH_SIMGPU_LEAKS=0", NULL };
    static const char *const count_fault[] = { "KITH_SIMGPU_FAULT=device_count:1", NULL };
    static const char *const own[] = { "KITH_SIMGPU_FAULT=nccl_async:1:2", NULL };
    (void)state;
    case_passes(third_allocation, third);
    case_passes(first_of_each, each);
    case_passes(kernel_breaks_the_device, kernel_fault);
    case_passes(copy_breaks_the_device, copy_fault);
    case_passes(no_count, count_fault);
    case_passes(own_names, own);
}

static void asks(void)
{
    int count;
    ok(cudaGetDeviceCount(&count));
}

static void bad_settings(void **state)
{
    static const char *const bad[][2] = { { "KITH_SIMGPU_DEVICES=many" },      { "KITH_SIMGPU_MEMORY=-1" },
                                          { "KITH_SIMGPU_DELAY=1" },           { "KITH_SIMGPU_DELAY=0:100" },
                                          { "KITH_SIMGPU_FAULT=malloc" },      { "KITH_SIMGPU_FAULT=malloc:0" },
                                          { "KITH_SIMGPU_FAULT=nccl_init:1" }, { "KITH_SIMGPU_FAULT=mallok:1" } };
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        case_fails(asks, bad[i], bad[i][0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(injected), cmocka_unit_test(bad_settings) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
