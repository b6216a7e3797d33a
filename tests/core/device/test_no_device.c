/* tests/core/device/test_no_device.c - where CUDA cannot be used everything says so, and host memory works as ever.
 *
 * Run with a CUDA runtime that is no library, so that it holds on every machine.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include <kith/kith.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void test_functions(void **state)
{
    kith_device *device = NULL;
    kith_memory kind = KITH_MEMORY_DEVICE;
    int count = 5, ordinal = 5, x = 0;
    (void)state;
    assert_int_equal(kith_device_count(&count), KITH_ERR_UNSUPPORTED);
    assert_int_equal(count, 0);
    assert_non_null(strstr(kith_error_detail(), "CUDA cannot be used: "));
    assert_true(strlen(kith_error_detail()) > strlen("CUDA cannot be used: "));
    assert_int_equal(kith_device_open(0, &device), KITH_ERR_UNSUPPORTED);
    assert_int_equal(kith_device_open(-1, &device), KITH_ERR_UNSUPPORTED);
    assert_null(device);
    assert_int_equal(kith_memory_kind(&x, &kind, &ordinal), KITH_OK);
    assert_int_equal(kind, KITH_MEMORY_HOST);
    assert_int_equal(ordinal, -1);
    assert_int_equal(kith_device_close(NULL), KITH_OK);
}

static void test_context(void **state)
{
    kith_init_options options = KITH_INIT_OPTIONS_INIT;
    kith_ctx *ctx = NULL;
    float x = 2;
    (void)state;
    options.device = "cuda:local";
    assert_int_equal(kith_init(&options, &ctx), KITH_ERR_UNSUPPORTED);
    assert_non_null(strstr(kith_error_detail(), "CUDA cannot be used"));
    assert_null(ctx);
    options.device = "tpu"; /* a wrong text is told first */
    assert_int_equal(kith_init(&options, &ctx), KITH_ERR_INVALID_ARG);
    options.device = NULL;
    assert_int_equal(kith_init(&options, &ctx), KITH_OK);
    assert_null(kith_ctx_device(ctx));
    assert_null(kith_group_device_backend(kith_world(ctx)));
    assert_int_equal(kith_group_set_stream(kith_world(ctx), NULL), KITH_OK);
    assert_int_equal(kith_all_reduce(kith_world(ctx), &x, &x, 1, KITH_F32, KITH_SUM), KITH_OK);
    kith_request *request = NULL;
    assert_int_equal(kith_all_reduce_start(kith_world(ctx), &x, &x, 1, KITH_F32, KITH_SUM, &request), KITH_OK);
    assert_int_equal(kith_request_stream_wait(&request, NULL), KITH_OK); /* host memory: as kith_wait() */
    assert_null(request);
    assert_int_equal(kith_group_synchronize(kith_world(ctx)), KITH_OK);
    assert_int_equal(kith_finalize(ctx), KITH_OK);
}

static void test_info(void **state)
{
    char *json = NULL;
    (void)state;
    assert_int_equal(kith_info_json(&json), KITH_OK);
    assert_non_null(strstr(json, "\"name\":\"cuda\",\"available\":false,\"reason\":\""));
    kith_free(json);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_functions),
        cmocka_unit_test(test_context),
        cmocka_unit_test(test_info),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
