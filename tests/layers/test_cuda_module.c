/* tests/layers/test_cuda_module.c - the cuda module by itself: why it cannot be used, and what its functions do where
 * it can.
 *
 * With an argument it is tried on another library: `absent` a file that is none, `real` the CUDA runtime of this
 * machine, `search` two of different versions of which the driver is too old for the first; or, with `context`, as a
 * rank uses it that works on one of two devices.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "cuda_help.h"
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const ki_device_ops *ops;

static void must(kith_status status)
{
    if (status != KITH_OK)
        fail_msg("%s", cuda_sentence());
}

/* ---- reasons ---- */

static void absent(void)
{
    char reason[512] = "";
    int count = 7;
    setenv("KITH_CUDART_LIBRARY", "/nowhere/libcudart.so.13", 1);
    assert_int_equal(ops->available(reason, sizeof reason), KITH_ERR_UNSUPPORTED);
    print_message("%s\n", reason);
    assert_non_null(strstr(reason, "cudart_library"));
    assert_non_null(strstr(reason, "/nowhere/libcudart.so.13"));
    assert_int_equal(ops->count(&count), KITH_ERR_UNSUPPORTED);
    assert_int_equal(count, 0);
    assert_non_null(strstr(cuda_sentence(), "/nowhere/libcudart.so.13"));
}

/* A library that is no CUDA runtime: a function is missing, and is named. */
static void other(void)
{
    char reason[512] = "";
    setenv("KITH_CUDART_LIBRARY", "libm.so.6", 1);
    assert_int_equal(ops->available(reason, sizeof reason), KITH_ERR_UNSUPPORTED);
    print_message("%s\n", reason);
    assert_non_null(strstr(reason, "needs CUDA runtime 12.8 or newer (cuda"));
    assert_non_null(strstr(reason, "is missing"));
}

/* Without a device, CUDA says why in its own words; with one, how many there are. */
static void real(void)
{
    char reason[512] = "";
    int count = 7;
    unsetenv("KITH_CUDART_LIBRARY");
    const kith_status status = ops->available(reason, sizeof reason);
    print_message("%s\n", reason);
    if (strstr(reason, "not installed") != NULL)
        exit(77);
    assert_non_null(strstr(reason, "CUDA runtime"));
    if (status == KITH_OK) {
        must(ops->count(&count));
        assert_true(count > 0);
        return;
    }
    assert_int_equal(status, KITH_ERR_UNSUPPORTED);
    assert_non_null(strstr(reason, "(cudaError"));
    assert_true(ops->count(&count) < 0);
    assert_int_equal(count, 0);
    assert_non_null(strstr(cuda_sentence(), "(cudaError"));
    void *memory = &count;
    assert_true(ops->alloc(0, 256, &memory) < 0);
    assert_ptr_equal(memory, &count);
}

/* The driver is too old for libcudart.so.13 (KITH_SIMGPU_OLD_DRIVER): libcudart.so.12 is taken, and both are told. */
static void search(void)
{
    char reason[512] = "";
    int count = 0;
    if (ops->available(reason, sizeof reason) != KITH_OK)
        fail_msg("%s", reason);
    print_message("%s\n", reason);
    const char *refused = strstr(reason, "not used: libcudart.so.13");
    assert_non_null(strstr(reason, "2 devices"));
    assert_non_null(refused);
    assert_non_null(strstr(refused, "insufficient"));
    must(ops->count(&count));
    assert_int_equal(count, 2);
}

/* Neither is new enough: both are told. */
static void search_in_vain(void)
{
    char reason[512] = "";
    int count = 7;
    assert_int_equal(ops->available(reason, sizeof reason), KITH_ERR_UNSUPPORTED);
    print_message("%s\n", reason);
    assert_non_null(strstr(reason, "the CUDA runtime cannot be used: libcudart.so.13: "));
    assert_non_null(strstr(reason, "(cudaErrorInsufficientDriver)"));
    assert_int_equal(ops->count(&count), KITH_ERR_UNSUPPORTED);
    assert_int_equal(count, 0);
}

/* ---- on a (simulated) device ---- */

static void describes(void **state)
{
    (void)state;
    kith_device_info info = KITH_DEVICE_INFO_INIT;
    int count = 0, ordinal = -1;
    must(ops->count(&count));
    must(ops->current(&ordinal));
    assert_int_equal(ordinal, 0);
    must(ops->describe(0, &info));
    assert_true(info.name[0] != '\0' && info.major >= 8 && info.processors > 0);
    assert_true(info.memory_nbytes >= info.free_nbytes && info.free_nbytes > 0);
    assert_int_equal(strlen(info.uuid), 40);
    assert_memory_equal(info.uuid, "GPU-", 4);
    assert_int_equal(info.struct_size, sizeof info);
    assert_true(ops->describe(count, &info) < 0);
    assert_non_null(strstr(cuda_sentence(), "using device"));
}

/* An older caller's structure is not written behind. */
static void describes_as_much_as_asked(void **state)
{
    (void)state;
    kith_device_info info = KITH_DEVICE_INFO_INIT;
    info.struct_size = offsetof(kith_device_info, major);
    info.minor = 1234;
    must(ops->describe(0, &info));
    assert_int_equal(info.minor, 1234);
    assert_int_equal(info.struct_size, offsetof(kith_device_info, major));
}

static void memory(void **state)
{
    (void)state;
    enum { NBYTES = 1000 };
    unsigned char in[NBYTES], out[NBYTES] = { 0 };
    void *device, *pinned, *stream;
    kith_memory kind;
    int ordinal;
    for (int i = 0; i < NBYTES; i++)
        in[i] = (unsigned char)(i * 7);
    must(ops->alloc(0, NBYTES, &device));
    must(ops->alloc_pinned(0, NBYTES, &pinned));
    must(ops->stream_create(0, &stream));
    must(ops->memory_kind(device, &kind, &ordinal));
    assert_true(kind == KITH_MEMORY_DEVICE && ordinal == 0);
    must(ops->memory_kind((char *)device + 999, &kind, NULL));
    assert_int_equal(kind, KITH_MEMORY_DEVICE);
    must(ops->memory_kind(pinned, &kind, &ordinal));
    assert_true(kind == KITH_MEMORY_PINNED && ordinal == -1);
    must(ops->memory_kind(in, &kind, &ordinal));
    assert_true(kind == KITH_MEMORY_HOST && ordinal == -1);
    must(ops->copy(0, stream, device, in, NBYTES));
    must(ops->fill(0, stream, (char *)device + 10, 0x5a, 20));
    must(ops->copy(0, stream, pinned, device, NBYTES));
    must(ops->copy(0, stream, device, in, 0));
    must(ops->stream_synchronize(0, stream));
    memcpy(out, pinned, NBYTES);
    memset(in + 10, 0x5a, 20);
    assert_memory_equal(out, in, NBYTES);
    must(ops->stream_destroy(0, stream));
    must(ops->free_pinned(0, pinned));
    must(ops->free(0, device));
    assert_int_equal(ops->alloc(0, (size_t)1 << 60, &device), KITH_ERR_NO_MEMORY);
    assert_non_null(strstr(cuda_sentence(), "are free"));
}

static void events(void **state)
{
    (void)state;
    void *first, *second, *event, *memory;
    int is_done = -1;
    must(ops->stream_create(0, &first));
    must(ops->stream_create(0, &second));
    must(ops->event_create(0, &event));
    must(ops->alloc(0, 1024, &memory));
    must(ops->fill(0, first, memory, 1, 1024));
    must(ops->event_record(0, event, first));
    must(ops->stream_wait_event(0, second, event));
    must(ops->fill(0, second, memory, 2, 1024)); /* the simulator finds a race without the event */
    must(ops->event_query(0, event, &is_done));
    assert_true(is_done == 0 || is_done == 1);
    must(ops->event_synchronize(0, event));
    must(ops->event_query(0, event, &is_done));
    assert_int_equal(is_done, 1);
    must(ops->stream_synchronize(0, second));
    must(ops->stream_query(0, second, &is_done));
    assert_int_equal(is_done, 1);
    must(ops->event_destroy(0, event));
    must(ops->stream_destroy(0, first));
    must(ops->stream_destroy(0, second));
    must(ops->free(0, memory));
}

/* The thread's device is as before, whichever a call is for. */
static void leaves_the_device(void **state)
{
    (void)state;
    void *memory;
    kith_memory kind;
    int ordinal, count;
    must(ops->count(&count));
    if (count < 2) /* a machine with one card; the simulated one has two */
        skip();
    must(ops->alloc(1, 64, &memory));
    must(ops->memory_kind(memory, &kind, &ordinal));
    assert_int_equal(ordinal, 1);
    must(ops->current(&ordinal));
    assert_int_equal(ordinal, 0);
    must(ops->free(1, memory));
    must(ops->current(&ordinal));
    assert_int_equal(ordinal, 0);
}

static void use(int device)
{
    void *memory, *pinned, *stream, *event;
    kith_device_info info = KITH_DEVICE_INFO_INIT;
    kith_memory kind;
    int ordinal, is_done;
    must(ops->describe(device, &info));
    must(ops->alloc(device, 64, &memory));
    must(ops->alloc_pinned(device, 64, &pinned));
    must(ops->stream_create(device, &stream));
    must(ops->event_create(device, &event));
    must(ops->fill(device, stream, memory, 1, 64));
    must(ops->copy(device, stream, pinned, memory, 64));
    must(ops->event_record(device, event, stream));
    must(ops->stream_wait_event(device, stream, event));
    must(ops->event_query(device, event, &is_done));
    must(ops->stream_query(device, stream, &is_done));
    must(ops->event_synchronize(device, event));
    must(ops->memory_kind(memory, &kind, &ordinal));
    assert_true(kind == KITH_MEMORY_DEVICE && ordinal == device);
    must(ops->memory_kind(&info, &kind, &ordinal));
    assert_true(kind == KITH_MEMORY_HOST && ordinal == -1);
    must(ops->event_destroy(device, event));
    must(ops->stream_destroy(device, stream));
    must(ops->free_pinned(device, pinned));
    must(ops->free(device, memory));
}

/* The rank works on device 1: it has no context on device 0, not even for a moment, which the simulator would end it
 * for (KITH_SIMGPU_CONTEXTS=1). Before it works on one it has none. */
static void context(void)
{
    ki_compute *compute = NULL;
    void *stream;
    kith_memory kind;
    char reason[512];
    int ordinal, local = 0;
    assert_int_equal(ops->available(reason, sizeof reason), KITH_OK);
    must(ops->memory_kind(&local, &kind, &ordinal));
    assert_int_equal(kind, KITH_MEMORY_HOST);
    must(ops->current(&ordinal));
    assert_int_equal(ordinal, 0);
    use(1);
    must(ops->stream_create(1, &stream));
    must(ops->compute_open(1, stream, 0, &compute));
    compute->close(compute);
    must(ops->stream_destroy(1, stream));
    must(ops->current(&ordinal));
    assert_int_equal(ordinal, 0);
}

/* ---- memory for work of a table ---- */

typedef struct gate {
    atomic_bool is_open;
} gate;

static void wait_for_gate(void *arg)
{
    while (!atomic_load(&((gate *)arg)->is_open))
        usleep(200);
}

/* Opens it in any case, so that a call that waits for it fails the test and does not hang. */
static void *open_late(void *arg)
{
    for (int i = 0; i < 1000 && !atomic_load(&((gate *)arg)->is_open); i++)
        usleep(2000);
    atomic_store(&((gate *)arg)->is_open, true);
    return NULL;
}

/* Adds `rows` rows of zeros to one; its scratch grows with them. */
static void add_zeros(ki_compute *compute, void *memory, int64_t rows)
{
    const ki_mat x = { memory, rows, 1, 1, KITH_F32 }, y = { memory, 1, 1, 1, KITH_F32 };
    must(compute->ops->add_rows(compute, (const int32_t *)memory, (ki_mat){ 0 }, x, y));
}

/* Scratch grows while another stream of the device cannot go on, as one that waits for another rank. */
static void scratch_waits_for_nothing(void **state)
{
    (void)state;
    enum { NBYTES = 4096 };
    __typeof__(cudaLaunchHostFunc) *launch_host = NULL;
    ki_compute *compute = NULL;
    void *stuck, *stream, *memory;
    gate g = { false };
    pthread_t opener;
    void *runtime = dlopen(getenv("KITH_CUDART_LIBRARY"), RTLD_NOW | RTLD_NOLOAD);
    if (runtime == NULL) /* a real device: the runtime is another file, and its default is what is tested here */
        skip();
    *(void **)&launch_host = dlsym(runtime, "cudaLaunchHostFunc");
    must(ops->stream_create(0, &stuck));
    must(ops->stream_create(0, &stream));
    must(ops->alloc(0, NBYTES, &memory));
    must(ops->fill(0, stream, memory, 0, NBYTES));
    must(ops->compute_open(0, stream, 0, &compute));
    add_zeros(compute, memory, 10);
    must(ops->stream_synchronize(0, stream));
    assert_int_equal(launch_host((cudaStream_t)stuck, wait_for_gate, &g), cudaSuccess);
    assert_int_equal(pthread_create(&opener, NULL, open_late, &g), 0);
    add_zeros(compute, memory, 1000);
    must(ops->stream_synchronize(0, stream));
    assert_false(atomic_load(&g.is_open));
    compute->close(compute);
    assert_false(atomic_load(&g.is_open));
    atomic_store(&g.is_open, true);
    pthread_join(opener, NULL);
    must(ops->stream_destroy(0, stuck));
    must(ops->stream_destroy(0, stream));
    must(ops->free(0, memory));
    dlclose(runtime);
}

/* A device without pools: none can be made, and tables work without. */
static void without_pools(void)
{
    char reason[512];
    ki_compute *compute = NULL;
    void *pool = NULL, *stream, *memory;
    assert_int_equal(ops->available(reason, sizeof reason), KITH_OK);
    assert_int_equal(ops->pool_create(0, 0, 0, &pool), KITH_ERR_UNSUPPORTED);
    assert_non_null(strstr(cuda_sentence(), "has no memory pools"));
    assert_null(pool);
    must(ops->stream_create(0, &stream));
    must(ops->alloc(0, 4096, &memory));
    must(ops->fill(0, stream, memory, 0, 4096));
    must(ops->compute_open(0, stream, 0, &compute));
    add_zeros(compute, memory, 10);
    add_zeros(compute, memory, 1000);
    compute->close(compute);
    must(ops->free(0, memory));
    must(ops->stream_destroy(0, stream));
}

/* A table without cuBLAS says which file. */
static void without_cublas(void)
{
    ki_compute *compute = NULL;
    void *stream;
    setenv("KITH_CUBLAS_LIBRARY", "/nowhere/libcublas.so.13", 1);
    must(ops->stream_create(0, &stream));
    assert_int_equal(ops->compute_open(0, stream, 0, &compute), KITH_ERR_UNSUPPORTED);
    print_message("%s\n", cuda_sentence());
    assert_non_null(strstr(cuda_sentence(), "cublas_library"));
    assert_null(compute);
    must(ops->stream_destroy(0, stream));
}

int main(int argc, char **argv)
{
    ops = cuda_open_module();
    if (ops == NULL)
        return 77;
    if (argc > 1) {
        if (strcmp(argv[1], "absent") == 0)
            absent();
        else if (strcmp(argv[1], "other") == 0)
            other();
        else if (strcmp(argv[1], "cublas") == 0)
            without_cublas();
        else if (strcmp(argv[1], "nopools") == 0)
            without_pools();
        else if (strcmp(argv[1], "search") == 0)
            search();
        else if (strcmp(argv[1], "vain") == 0)
            search_in_vain();
        else if (strcmp(argv[1], "context") == 0)
            context();
        else
            real();
        return 0;
    }
    char reason[512];
    if (ops->available(reason, sizeof reason) != KITH_OK) {
        print_message("skipped: %s\n", reason);
        return 77;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(describes),
        cmocka_unit_test(describes_as_much_as_asked),
        cmocka_unit_test(memory),
        cmocka_unit_test(events),
        cmocka_unit_test(leaves_the_device),
        cmocka_unit_test(scratch_waits_for_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
