/* tests/simgpu/test_simgpu_streams.c - streams and events: order, what blocks the host, and handles.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "sim_test.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

static const char *const two_devices[] = { "KITH_SIMGPU_DEVICES=2", NULL };
static const char *const delays[][2] = { { "KITH_SIMGPU_DELAY=1:500" }, { "KITH_SIMGPU_DELAY=77:500" } };

/* ---- order ---- */

static void one_after_the_other(void)
{
    cudaStream_t stream = new_stream();
    float *x = device_floats_with(100, 1);
    for (int i = 0; i < 50; i++)
        add(stream, x, x, 100, 1);
    ok(cudaStreamSynchronize(stream));
    check_floats(x, 100, 51);
    ok(cudaFree(x));
    ok(cudaStreamDestroy(stream));
    done();
}

/* A chain through three streams and back. */
static void events_order(void)
{
    cudaStream_t streams[3] = { new_stream(), new_stream(), new_stream() };
    cudaEvent_t event = new_event();
    float *x = device_floats_with(100, 0);
    for (int i = 0; i < 30; i++) {
        add(streams[i % 3], x, x, 100, 1);
        ok(cudaEventRecord(event, streams[i % 3]));
        ok(cudaStreamWaitEvent(streams[(i + 1) % 3], event, 0));
    }
    ok(cudaEventSynchronize(event));
    check_floats(x, 100, 30);
    ok(cudaFree(x));
    ok(cudaEventDestroy(event));
    for (int i = 0; i < 3; i++)
        ok(cudaStreamDestroy(streams[i]));
    done();
}

static void wait_for_flag(void *arg)
{
    const int *flag = arg;
    const struct timespec ms = { 0, 1000000 };
    while (!__atomic_load_n(flag, __ATOMIC_ACQUIRE))
        nanosleep(&ms, NULL);
}

static void set_flag(void *arg)
{
    __atomic_store_n((int *)arg, 1, __ATOMIC_RELEASE);
}

/* The first would wait for ever if the second did not run beside it. */
static void side_by_side(void)
{
    static int flag;
    cudaStream_t first = new_stream(), second = new_stream();
    ok(cudaLaunchHostFunc(first, wait_for_flag, &flag));
    ok(cudaLaunchHostFunc(second, set_flag, &flag));
    ok(cudaStreamSynchronize(first));
    ok(cudaStreamDestroy(first));
    ok(cudaStreamDestroy(second));
}

static void order(void **state)
{
    (void)state;
    case_passes(one_after_the_other, NULL);
    case_passes(events_order, NULL);
    case_passes(side_by_side, NULL);
    for (int i = 0; i < 2; i++) {
        case_passes(one_after_the_other, delays[i]);
        case_passes(events_order, delays[i]);
    }
}

/* ---- what is known when ---- */

static void queries(void)
{
    cudaStream_t stream = new_stream();
    cudaEvent_t event = new_event();
    gate g;
    ok(cudaEventQuery(event)); /* never recorded: nothing to wait for */
    ok(cudaStreamWaitEvent(stream, event, 0));
    ok(cudaStreamSynchronize(stream));
    ok(cudaStreamQuery(stream));
    gate_put(&g, stream);
    ok(cudaEventRecord(event, stream));
    must_be(cudaStreamQuery(stream), cudaErrorNotReady);
    must_be(cudaEventQuery(event), cudaErrorNotReady);
    must_be(cudaGetLastError(), cudaErrorNotReady);
    gate_open(&g);
    ok(cudaEventSynchronize(event));
    ok(cudaEventQuery(event));
    ok(cudaStreamSynchronize(stream));
    ok(cudaStreamQuery(stream));
    ok(cudaEventDestroy(event));
    ok(cudaStreamDestroy(stream));
}

static void times_pass(void)
{
    cudaEvent_t first, second, untimed = new_event();
    float ms = -1;
    ok(cudaEventCreate(&first));
    ok(cudaEventCreate(&second));
    ok(cudaEventRecord(first, NULL));
    ok(cudaEventRecord(second, NULL));
    ok(cudaEventRecord(untimed, NULL));
    ok(cudaDeviceSynchronize());
    ok(cudaEventElapsedTime(&ms, first, second));
    must(ms >= 0 && ms < 60000);
    must_be(cudaEventElapsedTime(&ms, first, untimed), cudaErrorInvalidResourceHandle);
    ok(cudaEventDestroy(first));
    ok(cudaEventDestroy(second));
    ok(cudaEventDestroy(untimed));
}

/* Pinned memory is read when the stream comes there; ordinary memory when the call is made. */
static void copies_from_the_host(void)
{
    cudaStream_t stream = new_stream();
    float *x = device_floats(4), *y = device_floats(4), ordinary[4] = { 1, 1, 1, 1 };
    void *memory;
    gate g;
    ok(cudaMallocHost(&memory, sizeof ordinary));
    float *pinned = memory;
    for (int i = 0; i < 4; i++)
        pinned[i] = 1;
    gate_put(&g, stream);
    ok(cudaMemcpyAsync(x, pinned, sizeof ordinary, cudaMemcpyHostToDevice, stream));
    ok(cudaMemcpyAsync(y, ordinary, sizeof ordinary, cudaMemcpyHostToDevice, stream));
    for (int i = 0; i < 4; i++)
        pinned[i] = ordinary[i] = 2;
    gate_open(&g);
    ok(cudaStreamSynchronize(stream));
    check_floats(x, 4, 2);
    check_floats(y, 4, 1);
    ok(cudaFree(x));
    ok(cudaFree(y));
    ok(cudaFreeHost(pinned));
    ok(cudaStreamDestroy(stream));
}

/* A copy into pinned memory returns at once; into ordinary memory when it is done. */
static void copies_to_the_host(void)
{
    cudaStream_t stream = new_stream();
    float *x = device_floats_with(4, 3), ordinary[4] = { 0 };
    void *memory;
    gate g;
    ok(cudaMallocHost(&memory, sizeof ordinary));
    volatile float *pinned = memory;
    pinned[0] = 0;
    gate_put(&g, stream);
    ok(cudaMemcpyAsync(memory, x, sizeof ordinary, cudaMemcpyDeviceToHost, stream));
    must(pinned[0] == 0);
    gate_open(&g);
    ok(cudaMemcpyAsync(ordinary, x, sizeof ordinary, cudaMemcpyDeviceToHost, stream));
    must(ordinary[3] == 3);
    must(pinned[0] == 3);
    ok(cudaFree(x));
    ok(cudaFreeHost(memory));
    ok(cudaStreamDestroy(stream));
}

static void knowledge(void **state)
{
    (void)state;
    case_passes(queries, NULL);
    case_passes(times_pass, NULL);
    case_passes(copies_from_the_host, NULL);
    case_passes(copies_to_the_host, NULL);
    case_passes(copies_from_the_host, delays[0]);
    case_passes(copies_to_the_host, delays[0]);
}

/* ---- the default stream ---- */

/* It waits for blocking streams, and they for it. */
static void default_stream_orders(void)
{
    cudaStream_t first, second;
    float *x = device_floats_with(10, 1);
    gate g;
    ok(cudaStreamCreate(&first));
    ok(cudaStreamCreateWithFlags(&second, cudaStreamDefault));
    gate_put(&g, first);
    add(first, x, x, 10, 1);
    add(NULL, x, x, 10, 1);
    add(second, x, x, 10, 1);
    must_be(cudaStreamQuery(NULL), cudaErrorNotReady);
    must_be(cudaStreamQuery(second), cudaErrorNotReady);
    gate_open(&g);
    ok(cudaStreamSynchronize(second));
    ok(cudaStreamQuery(first));
    check_floats(x, 10, 4);
    gate_put(&g, first);
    gate_open(&g);
    ok(cudaStreamSynchronize(cudaStreamLegacy)); /* all blocking streams */
    ok(cudaStreamQuery(first));
    ok(cudaStreamDestroy(first));
    ok(cudaStreamDestroy(second));
    ok(cudaFree(x));
    done();
}

static void default_stream_passes_others(void)
{
    cudaStream_t other = new_stream();
    float *x = device_floats_with(10, 1);
    gate g;
    gate_put(&g, other);
    add(NULL, x, x, 10, 1);
    ok(cudaStreamSynchronize(NULL));
    must_be(cudaStreamQuery(other), cudaErrorNotReady);
    gate_open(&g);
    ok(cudaStreamDestroy(other));
    ok(cudaFree(x));
    done();
}

static void per_thread_stream(void)
{
    ok(cudaStreamSynchronize(cudaStreamPerThread));
}

static void default_stream(void **state)
{
    (void)state;
    case_passes(default_stream_orders, NULL);
    case_passes(default_stream_orders, delays[1]);
    case_passes(default_stream_passes_others, NULL);
    case_fails(per_thread_stream, NULL, "cudaStreamPerThread is not simulated");
}

/* ---- handles ---- */

static void destroy_lets_work_end(void)
{
    cudaStream_t stream = new_stream();
    float *x = device_floats_with(10, 1);
    gate g;
    gate_put(&g, stream);
    add(stream, x, x, 10, 1);
    ok(cudaStreamDestroy(stream)); /* at once */
    gate_open(&g);
    ok(cudaDeviceSynchronize());
    check_floats(x, 10, 2);
    ok(cudaFree(x));
    done();
}

static void destroyed_stream(void)
{
    cudaStream_t stream = new_stream();
    float *x = device_floats(4);
    ok(cudaStreamDestroy(stream));
    new_stream(); /* does not come to lie at the same address */
    ok(cudaMemsetAsync(x, 0, 16, stream));
}

static void stream_destroyed_twice(void)
{
    cudaStream_t stream = new_stream();
    ok(cudaStreamDestroy(stream));
    ok(cudaStreamDestroy(stream));
}

static void destroyed_event(void)
{
    cudaEvent_t event = new_event();
    ok(cudaEventDestroy(event));
    ok(cudaEventRecord(event, NULL));
}

static void event_destroyed_twice(void)
{
    cudaEvent_t event = new_event();
    ok(cudaEventDestroy(event));
    ok(cudaEventDestroy(event));
}

static void event_as_stream(void)
{
    ok(cudaStreamSynchronize((cudaStream_t)new_event()));
}

/* What was recorded is waited for, whatever becomes of the event. */
static void event_destroyed_in_flight(void)
{
    cudaStream_t first = new_stream(), second = new_stream();
    cudaEvent_t event = new_event();
    float *x = device_floats_with(10, 1);
    gate g;
    gate_put(&g, first);
    add(first, x, x, 10, 1);
    ok(cudaEventRecord(event, first));
    ok(cudaStreamWaitEvent(second, event, 0));
    ok(cudaEventDestroy(event));
    add(second, x, x, 10, 1);
    gate_open(&g);
    ok(cudaStreamSynchronize(second));
    check_floats(x, 10, 3);
    ok(cudaFree(x));
    ok(cudaStreamDestroy(first));
    ok(cudaStreamDestroy(second));
    done();
}

static void handles(void **state)
{
    (void)state;
    case_passes(destroy_lets_work_end, NULL);
    case_passes(event_destroyed_in_flight, NULL);
    case_fails(destroyed_stream, NULL, "cudaMemsetAsync", "is no stream: it was destroyed or never made");
    case_fails(stream_destroyed_twice, NULL, "cudaStreamDestroy", "is no stream");
    case_fails(destroyed_event, NULL, "cudaEventRecord", "is no event: it was destroyed or never made");
    case_fails(event_destroyed_twice, NULL, "is not an event: it was released before, or never made");
    case_fails(event_as_stream, NULL, "cudaStreamSynchronize", "is no stream");
}

/* ---- devices ---- */

static void launch_on_wrong_device(void)
{
    cudaStream_t stream = new_stream();
    float *x = device_floats(4);
    ok(cudaSetDevice(1));
    add(stream, x, x, 4, 1);
}

static void event_of_wrong_device(void)
{
    cudaStream_t stream = new_stream();
    ok(cudaSetDevice(1));
    ok(cudaEventRecord(new_event(), stream));
}

/* Waiting across devices is fine, and orders. */
static void event_across_devices(void)
{
    cudaStream_t first = new_stream();
    cudaEvent_t event = new_event();
    float *x = device_floats_with(16, 0);
    add(first, x, x, 16, 7);
    ok(cudaEventRecord(event, first));
    ok(cudaSetDevice(1));
    cudaStream_t second = new_stream();
    float *y = device_floats(16);
    ok(cudaStreamWaitEvent(second, event, 0));
    ok(cudaMemcpyAsync(y, x, 64, cudaMemcpyDeviceToDevice, second));
    ok(cudaStreamSynchronize(second));
    check_floats(y, 16, 7);
    ok(cudaFree(x));
    ok(cudaFree(y));
    ok(cudaEventDestroy(event));
    ok(cudaStreamDestroy(first));
    ok(cudaStreamDestroy(second));
    done();
}

static void device_numbers(void)
{
    char bus[16];
    int count, device, value;
    struct cudaDeviceProp properties;
    ok(cudaGetDeviceCount(&count));
    must(count == 2);
    must_be(cudaSetDevice(2), cudaErrorInvalidDevice);
    must_be(cudaSetDevice(-1), cudaErrorInvalidDevice);
    ok(cudaGetDevice(&device));
    must(device == 0);
    ok(cudaDeviceGetPCIBusId(bus, sizeof bus, 1));
    must(strcmp(bus, "0000:02:00.0") == 0);
    ok(cudaDeviceGetAttribute(&value, cudaDevAttrWarpSize, 1));
    must(value == 32);
    ok(cudaGetDeviceProperties(&properties, 1));
    must(strcmp(properties.name, "Simulated GPU") == 0 && properties.totalGlobalMem == 1u << 30);
    must(properties.uuid.bytes[15] == 1);
}

static void one_is_visible(void)
{
    int count;
    char bus[16];
    ok(cudaGetDeviceCount(&count));
    must(count == 1);
    ok(cudaDeviceGetPCIBusId(bus, sizeof bus, 0));
    must(strcmp(bus, "0000:04:00.0") == 0);
}

static void none_is_there(void)
{
    int count = 7;
    void *x;
    must_be(cudaGetDeviceCount(&count), cudaErrorNoDevice);
    must(count == 0);
    must_be(cudaMalloc(&x, 4), cudaErrorNoDevice);
    must(strcmp(cudaGetErrorName(cudaErrorNoDevice), "cudaErrorNoDevice") == 0);
    must(strcmp(cudaGetErrorString(cudaErrorNoDevice), "no CUDA-capable device is detected") == 0);
}

static void devices(void **state)
{
    static const char *const none[] = { "KITH_SIMGPU_DEVICES=0", NULL };
    static const char *const one[] = { "KITH_SIMGPU_DEVICES=4", "CUDA_VISIBLE_DEVICES=3,9,1", NULL };
    (void)state;
    case_passes(device_numbers, two_devices);
    case_passes(one_is_visible, one);
    case_passes(none_is_there, none);
    case_passes(event_across_devices, two_devices);
    case_fails(launch_on_wrong_device, two_devices, "test_add into a stream of device 0 while device 1 is current");
    case_fails(event_of_wrong_device, two_devices, "the event was made on device 1 and the stream on device 0");
}

/* ---- host functions, fork ---- */

static void call_cuda(void *arg)
{
    (void)arg;
    (void)cudaDeviceSynchronize();
}

static void host_function_calls_cuda(void)
{
    ok(cudaLaunchHostFunc(NULL, call_cuda, NULL));
    ok(cudaDeviceSynchronize());
}

static void uses_after_fork(void)
{
    int count;
    ok(cudaGetDeviceCount(&count));
    const pid_t child = fork();
    if (child == 0)
        _exit(cudaGetDeviceCount(&count) == cudaErrorInitializationError ? 0 : 1);
    must(child > 0);
    siginfo_t info;
    must(waitid(P_PID, (id_t)child, &info, WEXITED) == 0 && info.si_status == 0);
}

static void strange_places(void **state)
{
    (void)state;
    case_fails(host_function_calls_cuda, NULL, "cudaDeviceSynchronize: called by a host function of a stream");
    case_passes(uses_after_fork, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(order),   cmocka_unit_test(knowledge), cmocka_unit_test(default_stream),
        cmocka_unit_test(handles), cmocka_unit_test(devices),   cmocka_unit_test(strange_places),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
