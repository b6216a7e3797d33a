/* tests/backends/nccl/test_nccl_real.c - the NCCL of this machine where no GPU is: how it fails is what users read.
 *
 * Nothing is simulated here. Skipped where there is no NCCL, or where there is a GPU.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "backends/nccl/backend.h"
#include "conformance/harness.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

/* Asked for by name, it is refused on all ranks alike, with the reason. */
static void refused(rank_info *info)
{
    kith_ctx *ctx = NULL;
    kith_init_options options = KITH_INIT_OPTIONS_INIT;
    options.backend = "nccl";
    kith_status status = join_ranks(info, &options, &ctx);
    REQUIRE(status == KITH_ERR_UNSUPPORTED && ctx == NULL);
    REQUIRE_DETAIL("no GPU");
    options.device = "cuda:local";
    status = join_ranks(info, &options, &ctx);
    REQUIRE(status == KITH_ERR_UNSUPPORTED && ctx == NULL);
    REQUIRE_DETAIL("CUDA");
}

static void test_init(void **state)
{
    const run_options options = { .mode = LAUNCH_FORK, .size = 3, .timeout_s = 30, .joins_itself = true };
    (void)state;
    assert_int_equal(run_ranks(&options, refused, NULL), 0);
}

static kith_status on_fail(kith_status status, const char *format, ...)
{
    (void)format;
    return status;
}

/* The library by itself: an id can be had, a communicator cannot, and both answers are turned into ours. */
static void test_library(void **state)
{
    char reason[400] = "", words[400];
    const nccl_functions *nccl = nccl_library(reason, sizeof reason);
    const kith_be_host host = { .struct_size = sizeof host, .fail = on_fail };
    const nccl_be be = { .host = &host, .nccl = nccl };
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclComm_t comm = NULL;
    ncclUniqueId id;
    (void)state;
    assert_non_null(nccl);
    assert_true(nccl->version >= NCCL_OLDEST);
    config.blocking = 1;
    assert_int_equal(nccl->ncclGetUniqueId(&id), ncclSuccess);
    ncclResult_t result = nccl->ncclCommInitRankConfig(&comm, 1, id, 0, &config);
    assert_int_equal(result, ncclUnhandledCudaError);
    assert_int_equal(nccl_status(result), KITH_ERR_NO_RESOURCE);
    nccl_words(&be, NULL, result, words, sizeof words);
    if (strstr(words, "unhandled cuda error") == NULL || strstr(words, "CUDA driver version") == NULL)
        fail_msg("wanted NCCL's words about the driver, got: %s", words);
    assert_null(strchr(words, '\n'));
    assert_int_equal(nccl_status((ncclResult_t)8), KITH_ERR_INTERNAL); /* newer libraries have more results */
    assert_int_equal(nccl_status(ncclRemoteError), KITH_ERR_PEER_FAILED);
    assert_int_equal(nccl_status(ncclInvalidUsage), KITH_ERR_INVALID_ARG);
}

/* "NCCL 2.28.9 is here, but no GPU: ...", in `kith info` too. */
static void test_info(void **state)
{
    char command[600], line[600];
    bool is_there = false;
    const char *kith = getenv("KITH_BIN");
    (void)state;
    if (kith == NULL) /* run by hand, without ctest's environment */
        skip();
    snprintf(command, sizeof command, "COLUMNS=200 %s info", kith);
    FILE *out = popen(command, "r");
    assert_non_null(out);
    while (fgets(line, sizeof line, out) != NULL)
        is_there |= strstr(line, "nccl") != NULL && strstr(line, "is here, but no GPU: ") != NULL;
    pclose(out);
    assert_true(is_there);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_init), cmocka_unit_test(test_info),
                                        cmocka_unit_test(test_library) };
    char reason[400] = "";
    int count = 0;
    const ki_cuda *cuda = ki_cuda_open(NULL, reason, sizeof reason);
    if (cuda == NULL || nccl_library(reason, sizeof reason) == NULL) {
        printf("skipped: %s\n", reason);
        return 77;
    }
    if (cuda->cudaGetDeviceCount(&count) == cudaSuccess && count > 0) {
        printf("skipped: there is a GPU\n");
        return 77;
    }
    return cmocka_run_group_tests_name("nccl, the real library", tests, NULL, NULL);
}
