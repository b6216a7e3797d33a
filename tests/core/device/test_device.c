/* tests/core/device/test_device.c - devices, memory, streams and events by themselves: what they do, and what is
 * refused.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include <kith/kith.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define OK(call)                                                                                                       \
    do {                                                                                                               \
        kith_status got_ = (call);                                                                                     \
        if (got_ != KITH_OK)                                                                                           \
            fail_msg("%s: %s: %s", #call, kith_status_name(got_), kith_error_detail());                                \
    } while (0)

#define REFUSED(call, status, text)                                                                                    \
    do {                                                                                                               \
        assert_int_equal(call, status);                                                                                \
        if (strstr(kith_error_detail(), text) == NULL)                                                                 \
            fail_msg("%s: the detail '%s' does not have '%s'", #call, kith_error_detail(), text);                      \
    } while (0)

static void test_devices(void **state)
{
    int count = -1;
    kith_device *device = NULL, *same = NULL, *last = NULL;
    (void)state;
    OK(kith_device_count(&count));
    assert_int_equal(count, 4);
    OK(kith_device_open(0, &device));
    OK(kith_device_open(-1, &same));
    OK(kith_device_open(3, &last));
    kith_device_info info = KITH_DEVICE_INFO_INIT;
    OK(kith_device_describe(last, &info));
    assert_int_equal(info.ordinal, 3);
    assert_true(info.name[0] != '\0' && info.uuid[0] != '\0' && info.pci[0] != '\0');
    assert_true(info.major >= 8 && info.processors > 0 && info.memory_nbytes >= info.free_nbytes);
    kith_device_info shorter = { .struct_size = offsetof(kith_device_info, pci), .pci = "untouched" };
    OK(kith_device_describe(last, &shorter));
    assert_string_equal(shorter.uuid, info.uuid);
    assert_string_equal(shorter.pci, "untouched");
    REFUSED(kith_device_open(4, &same), KITH_ERR_INVALID_ARG, "this process sees 4 (0 to 3)");
    REFUSED(kith_device_open(-2, &same), KITH_ERR_INVALID_ARG, "-2");
    REFUSED(kith_device_open(0, NULL), KITH_ERR_INVALID_ARG, "NULL");
    REFUSED(kith_device_count(NULL), KITH_ERR_INVALID_ARG, "NULL");
    REFUSED(kith_device_describe(last, NULL), KITH_ERR_INVALID_ARG, "KITH_DEVICE_INFO_INIT");
    OK(kith_device_close(device));
    OK(kith_device_close(same));
    OK(kith_device_close(last));
    OK(kith_device_close(NULL));
    REFUSED(kith_device_close(last), KITH_ERR_INVALID_ARG, "closed");
    REFUSED(kith_device_describe(last, &info), KITH_ERR_INVALID_ARG, "closed");
}

static void test_memory(void **state)
{
    kith_device *device = NULL;
    void *memory = NULL, *pinned = NULL;
    kith_memory kind;
    int ordinal = 7, local = 0;
    (void)state;
    OK(kith_device_open(2, &device));
    OK(kith_device_alloc(device, 1000, &memory));
    OK(kith_device_alloc_pinned(device, 1000, &pinned));
    assert_int_equal((uintptr_t)memory % 256, 0);
    memset(pinned, 1, 1000);
    OK(kith_memory_kind(memory, &kind, &ordinal));
    assert_int_equal(kind, KITH_MEMORY_DEVICE);
    assert_int_equal(ordinal, 2);
    OK(kith_memory_kind((char *)memory + 999, &kind, NULL));
    assert_int_equal(kind, KITH_MEMORY_DEVICE);
    OK(kith_memory_kind(pinned, &kind, &ordinal));
    assert_int_equal(kind, KITH_MEMORY_PINNED);
    assert_int_equal(ordinal, -1);
    OK(kith_memory_kind(&local, &kind, &ordinal));
    assert_int_equal(kind, KITH_MEMORY_HOST);
    OK(kith_memory_kind(NULL, &kind, &ordinal));
    assert_int_equal(kind, KITH_MEMORY_HOST);
    REFUSED(kith_memory_kind(memory, NULL, NULL), KITH_ERR_INVALID_ARG, "NULL");
    assert_string_equal(kith_memory_name(KITH_MEMORY_PINNED), "pinned");
    assert_string_equal(kith_memory_name((kith_memory)99), "unknown memory");
    void *none = NULL;
    REFUSED(kith_device_alloc(device, 0, &none), KITH_ERR_INVALID_ARG, "0 bytes");
    REFUSED(kith_device_alloc(device, SIZE_MAX, &none), KITH_ERR_INVALID_ARG, "bytes");
    REFUSED(kith_device_alloc(device, (size_t)1 << 40, &none), KITH_ERR_NO_MEMORY, "free");
    assert_null(none);
    REFUSED(kith_device_close(device), KITH_ERR_BUSY, "2 allocations, 1 of them pinned");
    OK(kith_device_free(device, memory));
    OK(kith_device_free(device, NULL));
    REFUSED(kith_device_free(device, memory), KITH_ERR_INVALID_ARG, "nothing is allocated");
    OK(kith_device_free_pinned(device, pinned));
    OK(kith_device_close(device));
    REFUSED(kith_device_alloc(device, 8, &none), KITH_ERR_INVALID_ARG, "kith_device_alloc");
}

static void test_streams(void **state)
{
    kith_device *device = NULL;
    kith_stream *a = NULL, *b = NULL, *wrapped = NULL;
    kith_event *event = NULL;
    void *memory = NULL;
    unsigned char host[256], back[256];
    int is_done = 0;
    (void)state;
    for (int i = 0; i < 256; i++)
        host[i] = (unsigned char)(255 - i);
    OK(kith_device_open(1, &device));
    OK(kith_device_alloc(device, sizeof host, &memory));
    OK(kith_stream_create(device, &a));
    OK(kith_stream_create(device, &b));
    OK(kith_event_create(device, &event));
    assert_non_null(kith_stream_native(a));
    /* an event that was never recorded marks nothing */
    OK(kith_event_query(event, &is_done));
    assert_int_equal(is_done, 1);
    /* a fills, then b overwrites half of it and reads all */
    OK(kith_stream_fill(a, memory, 0x5a, sizeof host));
    OK(kith_event_record(event, a));
    OK(kith_stream_wait_event(b, event));
    OK(kith_stream_copy(b, memory, host, 128));
    OK(kith_stream_copy(b, back, memory, sizeof back));
    OK(kith_stream_synchronize(b));
    for (int i = 0; i < 256; i++)
        assert_int_equal(back[i], i < 128 ? host[i] : 0x5a);
    OK(kith_event_synchronize(event));
    OK(kith_stream_query(b, &is_done));
    assert_int_equal(is_done, 1);
    OK(kith_stream_copy(b, NULL, NULL, 0));
    OK(kith_stream_wrap(device, kith_stream_native(a), &wrapped));
    assert_ptr_equal(kith_stream_native(wrapped), kith_stream_native(a));
    OK(kith_stream_destroy(wrapped));
    OK(kith_stream_synchronize(a)); /* it is still there */
    REFUSED(kith_device_close(device), KITH_ERR_BUSY, "2 streams, 1 events");
    REFUSED(kith_stream_copy(b, NULL, host, 8), KITH_ERR_INVALID_ARG, "NULL");
    REFUSED(kith_stream_query(b, NULL), KITH_ERR_INVALID_ARG, "NULL");
    REFUSED(kith_stream_create(device, NULL), KITH_ERR_INVALID_ARG, "NULL");
    REFUSED(kith_event_create(NULL, &event), KITH_ERR_INVALID_ARG, "device is NULL");
    OK(kith_stream_destroy(a));
    OK(kith_stream_destroy(b));
    OK(kith_stream_destroy(NULL));
    OK(kith_event_destroy(event));
    OK(kith_event_destroy(NULL));
    REFUSED(kith_stream_destroy(a), KITH_ERR_INVALID_ARG, "destroyed");
    REFUSED(kith_stream_fill(a, memory, 0, 8), KITH_ERR_INVALID_ARG, "kith_stream_fill");
    REFUSED(kith_event_record(event, b), KITH_ERR_INVALID_ARG, "kith_event_record");
    assert_null(kith_stream_native(b));
    OK(kith_device_free(device, memory));
    OK(kith_device_close(device));
}

/* A pool gives and takes memory in the order of a stream; what is not ordered so is found by the simulator. */
static void test_pools(void **state)
{
    kith_device *device = NULL;
    kith_pool *pool = NULL, *limited = NULL;
    kith_stream *a = NULL, *b = NULL;
    kith_event *event = NULL;
    void *first = NULL, *second = NULL, *none = NULL;
    unsigned char back[1000];
    (void)state;
    OK(kith_device_open(1, &device));
    OK(kith_stream_create(device, &a));
    OK(kith_stream_create(device, &b));
    OK(kith_event_create(device, &event));
    kith_pool_options options = KITH_POOL_OPTIONS_INIT;
    options.keep_nbytes = 500;
    OK(kith_pool_create(device, &options, &pool));
    OK(kith_pool_alloc(pool, a, sizeof back, &first));
    assert_int_equal((uintptr_t)first % 256, 0);
    kith_memory kind;
    int ordinal;
    OK(kith_memory_kind(first, &kind, &ordinal));
    assert_true(kind == KITH_MEMORY_DEVICE && ordinal == 1);
    OK(kith_stream_fill(a, first, 0x17, sizeof back));
    OK(kith_event_record(event, a));
    OK(kith_stream_wait_event(b, event));
    OK(kith_stream_copy(b, back, first, sizeof back));
    OK(kith_pool_alloc(pool, b, 200, &second));
    OK(kith_stream_copy(b, second, first, 200));
    kith_pool_info info = KITH_POOL_INFO_INIT;
    OK(kith_pool_describe(pool, &info));
    assert_int_equal(info.used_nbytes, 1200);
    assert_true(info.held_nbytes >= 1200);
    REFUSED(kith_pool_destroy(pool), KITH_ERR_BUSY, "2 allocations");
    OK(kith_pool_free(pool, b, first));
    OK(kith_pool_free(pool, b, second));
    OK(kith_pool_free(pool, b, NULL));
    OK(kith_stream_synchronize(b));
    for (size_t i = 0; i < sizeof back; i++)
        assert_int_equal(back[i], 0x17);
    OK(kith_pool_describe(pool, &info));
    assert_true(info.used_nbytes == 0 && info.most_used_nbytes == 1200 && info.held_nbytes == 500);
    OK(kith_pool_trim(pool, 100));
    OK(kith_pool_describe(pool, &info));
    assert_int_equal(info.held_nbytes, 100);
    kith_pool_info shorter = { .struct_size = offsetof(kith_pool_info, most_used_nbytes), .held_nbytes = 77 };
    OK(kith_pool_describe(pool, &shorter));
    assert_int_equal(shorter.held_nbytes, 77);
    /* a limit; what is beyond it, and beyond the device, is an error with a sentence */
    options.most_nbytes = 1000;
    OK(kith_pool_create(device, &options, &limited));
    REFUSED(kith_pool_alloc(limited, a, 1001, &none), KITH_ERR_NO_MEMORY,
            "no 1001 bytes: the pool takes 1000 from device 1 at most (most_nbytes), and 0 are in use");
    OK(kith_pool_alloc(limited, a, 1000, &first));
    REFUSED(kith_pool_alloc(limited, a, 1, &none), KITH_ERR_NO_MEMORY, "1000 are in use");
    /* memory goes back the way it came */
    OK(kith_device_alloc(device, 8, &second));
    REFUSED(kith_pool_free(limited, a, second), KITH_ERR_INVALID_ARG,
            "the memory is of kith_device_alloc() on device 1, and not of this handle's kith_pool_alloc()");
    REFUSED(kith_device_free(device, first), KITH_ERR_INVALID_ARG, "of kith_pool_alloc()");
    REFUSED(kith_pool_free(limited, a, (char *)first + 256), KITH_ERR_INVALID_ARG, "not the begin of memory");
    OK(kith_device_free(device, second));
    OK(kith_pool_free(limited, a, first));
    OK(kith_stream_synchronize(a));
    REFUSED(kith_pool_alloc(pool, a, (size_t)1 << 40, &none), KITH_ERR_NO_MEMORY, "are free");
    REFUSED(kith_pool_alloc(pool, a, 0, &none), KITH_ERR_INVALID_ARG, "0 bytes");
    REFUSED(kith_pool_alloc(pool, NULL, 8, &none), KITH_ERR_INVALID_ARG, "the stream is NULL");
    REFUSED(kith_pool_free(pool, a, back), KITH_ERR_INVALID_ARG, "nothing is allocated");
    REFUSED(kith_pool_create(device, NULL, NULL), KITH_ERR_INVALID_ARG, "NULL");
    REFUSED(kith_pool_describe(pool, NULL), KITH_ERR_INVALID_ARG, "KITH_POOL_INFO_INIT");
    options.struct_size = 4;
    REFUSED(kith_pool_create(device, &options, &limited), KITH_ERR_INVALID_ARG, "KITH_POOL_OPTIONS_INIT");
    assert_null(none);
    REFUSED(kith_device_close(device), KITH_ERR_BUSY, "1 events, 2 pools");
    OK(kith_pool_destroy(pool));
    OK(kith_pool_destroy(limited));
    OK(kith_pool_destroy(NULL));
    REFUSED(kith_pool_destroy(pool), KITH_ERR_INVALID_ARG, "destroyed");
    REFUSED(kith_pool_trim(pool, 0), KITH_ERR_INVALID_ARG, "kith_pool_trim");
    OK(kith_event_destroy(event));
    OK(kith_stream_destroy(a));
    OK(kith_stream_destroy(b));
    OK(kith_device_close(device));
}

/* Events order streams of other devices too, but are recorded on their own. */
static void test_two_devices(void **state)
{
    kith_device *first = NULL, *second = NULL;
    kith_stream *a = NULL, *b = NULL;
    kith_event *event = NULL;
    (void)state;
    OK(kith_device_open(0, &first));
    OK(kith_device_open(1, &second));
    OK(kith_stream_create(first, &a));
    OK(kith_stream_create(second, &b));
    OK(kith_event_create(first, &event));
    REFUSED(kith_event_record(event, b), KITH_ERR_INVALID_ARG, "the event is of device 0, the stream of device 1");
    kith_pool *pool = NULL;
    void *none = NULL;
    OK(kith_pool_create(first, NULL, &pool));
    REFUSED(kith_pool_alloc(pool, b, 8, &none), KITH_ERR_INVALID_ARG,
            "the pool is of device 0, the stream of device 1");
    OK(kith_pool_destroy(pool));
    void *of_first = NULL, *of_second = NULL, *pinned = NULL;
    OK(kith_device_alloc(first, 8, &of_first));
    OK(kith_device_alloc(second, 8, &of_second));
    OK(kith_device_alloc_pinned(first, 8, &pinned));
    REFUSED(kith_device_free(first, of_second), KITH_ERR_INVALID_ARG, "of kith_device_alloc() on device 1");
    REFUSED(kith_device_free(first, pinned), KITH_ERR_INVALID_ARG, "of kith_device_alloc_pinned() on device 0");
    OK(kith_device_free_pinned(first, pinned));
    OK(kith_device_free(second, of_second));
    OK(kith_device_free(first, of_first));
    OK(kith_event_record(event, a));
    OK(kith_stream_wait_event(b, event));
    OK(kith_stream_synchronize(b));
    OK(kith_event_destroy(event));
    OK(kith_stream_destroy(a));
    OK(kith_stream_destroy(b));
    OK(kith_device_close(first));
    OK(kith_device_close(second));
}

static void test_context(void **state)
{
    static const char *const wrong[] = { "gpu", "cuda:", "cuda:x", "cuda1", "cuda:-1", "cuda:local0", "cuda:1 " };
    kith_init_options options = KITH_INIT_OPTIONS_INIT;
    kith_ctx *ctx = NULL;
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        options.device = wrong[i];
        REFUSED(kith_init(&options, &ctx), KITH_ERR_INVALID_ARG, "is none of \"cuda\"");
    }
    options.device = "cuda:9";
    REFUSED(kith_init(&options, &ctx), KITH_ERR_INVALID_ARG, "there is no CUDA device 9");
    options.device = "cuda:2";
    OK(kith_init(&options, &ctx));
    kith_device_info info = KITH_DEVICE_INFO_INIT;
    OK(kith_device_describe(kith_ctx_device(ctx), &info));
    assert_int_equal(info.ordinal, 2);
    REFUSED(kith_device_close(kith_ctx_device(ctx)), KITH_ERR_BUSY, "kith_finalize");
    assert_string_equal(kith_group_device_backend(kith_world(ctx)), "staged");
    OK(kith_finalize(ctx));
    /* callers from before there was the field */
    options.struct_size = offsetof(kith_init_options, device);
    OK(kith_init(&options, &ctx));
    assert_null(kith_ctx_device(ctx));
    assert_null(kith_group_device_backend(kith_world(ctx)));
    OK(kith_finalize(ctx));
    options.struct_size = 8;
    REFUSED(kith_init(&options, &ctx), KITH_ERR_INVALID_ARG, "struct_size is 8");
    assert_null(kith_ctx_device(NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_devices),     cmocka_unit_test(test_memory),  cmocka_unit_test(test_streams),
        cmocka_unit_test(test_two_devices), cmocka_unit_test(test_context), cmocka_unit_test(test_pools),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
