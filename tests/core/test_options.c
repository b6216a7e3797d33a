/* tests/core/test_options.c - options of kith_init(), groups and meshes: what is refused, before anybody is waited for.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include <kith/kith.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

static kith_ctx *const untouched = (kith_ctx *)(uintptr_t)64;

static void expect_refused(const kith_init_options *options, const char *part)
{
    kith_ctx *ctx = untouched;
    if (kith_init(options, &ctx) != KITH_ERR_INVALID_ARG)
        fail_msg("\"%s\" was not refused: %s", part, kith_error_detail());
    if (strstr(kith_error_detail(), part) == NULL)
        fail_msg("the text lacks \"%s\": %s", part, kith_error_detail());
    assert_ptr_equal(ctx, untouched);
}

/* Options for one rank with one member changed. */
#define REFUSED(member, wrong, part)                                                                                   \
    do {                                                                                                               \
        kith_init_options options_ = KITH_INIT_OPTIONS_INIT;                                                           \
        options_.size = 1;                                                                                             \
        options_.member = (wrong);                                                                                     \
        expect_refused(&options_, part);                                                                               \
    } while (0)

static void *never_alloc(void *arg, size_t nbytes, size_t alignment)
{
    (void)arg, (void)nbytes, (void)alignment;
    return NULL;
}

static void never_free(void *arg, void *ptr)
{
    (void)arg, (void)ptr;
}

static void test_init_options(void **state)
{
    (void)state;
    REFUSED(struct_size, 0, "struct_size is 0");
    REFUSED(struct_size, offsetof(kith_init_options, device) - 8, "KITH_INIT_OPTIONS_INIT");
    REFUSED(struct_size, sizeof(kith_init_options) + 8, "struct_size");
    REFUSED(size, -1, "rank 0 of -1");
    REFUSED(rank, -1, "rank -1 of 1");
    REFUSED(rank, 1, "rank 1 of 1");
    REFUSED(connect_timeout_ms, -5, "connect_timeout_ms is negative");
    REFUSED(setting_count, 1, "settings is NULL");
    REFUSED(backend, "warp", "warp");
    REFUSED(local_size, 2, "local");
    const kith_allocator no_free = { never_alloc, NULL, NULL }, no_alloc = { NULL, never_free, NULL };
    REFUSED(allocator, &no_free, "allocator");
    REFUSED(allocator, &no_alloc, "allocator");
    kith_init_options options = KITH_INIT_OPTIONS_INIT;
    options.size = 1;
    assert_int_equal(kith_init(&options, NULL), KITH_ERR_INVALID_ARG);
    options.size = 2; /* a single rank meets nobody and opens no store */
    options.rank = 1;
    options.store = "carrier-pigeon://x";
    expect_refused(&options, "carrier-pigeon");
    options = (kith_init_options)KITH_INIT_OPTIONS_INIT;
    options.size = 1;
    /* memory that is refused: an error, and nothing is lost or freed that never was */
    const kith_allocator nothing = { never_alloc, never_free, NULL };
    kith_ctx *ctx = untouched;
    options.allocator = &nothing;
    assert_int_equal(kith_init(&options, &ctx), KITH_ERR_NO_MEMORY);
    assert_ptr_equal(ctx, untouched);
}

static void test_settings(void **state)
{
    (void)state;
    static const struct {
        kith_setting setting;
        const char *part;
    } bad[] = {
        { { NULL, "1" }, "no name" },
        { { "check", NULL }, "no value" },
        { { "chekc", "1" }, "\"check\"" },
        { { "KITH_CHECK", "1" }, "KITH_CHECK" },
        { { "check", "maybe" }, "maybe" },
        { { "timeout_ms", "-1" }, "timeout_ms" },
        { { "timeout_ms", "soon" }, "soon" },
        { { "connect_timeout_ms", "0" }, "connect_timeout_ms" },
        { { "algo", "all_reduce=teleport" }, "teleport" },
        { { "algo", "all_reduce" }, "all_reduce" },
        { { "algo_table", "/nonexistent/table.json" }, "/nonexistent/table.json" },
        { { "shm_cma", "sideways" }, "sideways" },
        { { "shm_eager_nbytes", "many" }, "many" },
        { { "log", "debug" }, "KITH_LOG" }, /* of the process, not of a context */
        { { "no_such_backend_setting", "1" }, "no_such_backend_setting" },
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        kith_init_options options = KITH_INIT_OPTIONS_INIT;
        kith_ctx *ctx = untouched;
        options.size = 1;
        options.settings = &bad[i].setting;
        options.setting_count = 1;
        kith_status status = kith_init(&options, &ctx);
        if (status != KITH_ERR_INVALID_ARG && !(status == KITH_ERR_IO && strstr(bad[i].part, "/nonexistent") != NULL))
            fail_msg("setting %zu: got %s", i, kith_status_name(status));
        if (strstr(kith_error_detail(), bad[i].part) == NULL)
            fail_msg("setting %zu: the text lacks \"%s\": %s", i, bad[i].part, kith_error_detail());
        assert_ptr_equal(ctx, untouched);
    }
}

static kith_ctx *alone(int64_t timeout_ms)
{
    kith_init_options options = KITH_INIT_OPTIONS_INIT;
    kith_ctx *ctx = NULL;
    options.size = 1;
    options.timeout_ms = timeout_ms;
    if (kith_init(&options, &ctx) != KITH_OK)
        fail_msg("%s", kith_error_detail());
    return ctx;
}

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Options come before the environment; a negative deadline is none. */
static void test_deadline(void **state)
{
    (void)state;
    static const int64_t given[] = { 0, 150 }; /* 0: the environment's */
    setenv("KITH_TIMEOUT_MS", "50", 1);
    for (size_t i = 0; i < 2; i++) {
        kith_ctx *ctx = alone(given[i]);
        int x = 0;
        double start = seconds();
        assert_int_equal(kith_recv(kith_world(ctx), &x, 1, KITH_INT32, 0, 0, NULL), KITH_ERR_TIMEOUT);
        assert_true(seconds() - start >= (i == 0 ? 0.05 : 0.15));
        assert_non_null(strstr(kith_error_detail(), i == 0 ? "within 50 ms" : "within 150 ms"));
        assert_int_equal(kith_finalize(ctx), KITH_OK);
    }
    kith_ctx *ctx = alone(-1);
    kith_request *request = NULL;
    int x = 0, is_done = 1;
    assert_int_equal(kith_recv_start(kith_world(ctx), &x, 1, KITH_INT32, 0, 0, &request), KITH_OK);
    for (double start = seconds(); seconds() - start < 0.2;) {
        assert_int_equal(kith_test(&request, &is_done), KITH_OK);
        assert_int_equal(is_done, 0);
    }
    assert_int_equal(kith_send(kith_world(ctx), &x, 1, KITH_INT32, 0, 0), KITH_OK);
    assert_int_equal(kith_wait(&request), KITH_OK);
    assert_int_equal(kith_finalize(ctx), KITH_OK);
    unsetenv("KITH_TIMEOUT_MS");
}

static void test_group_options(void **state)
{
    (void)state;
    kith_ctx *ctx = alone(0);
    kith_group *world = kith_world(ctx), *group = NULL;
    char name[70];
    memset(name, 'n', sizeof name);
    kith_group_options options = KITH_GROUP_OPTIONS_INIT;
    options.struct_size = 0;
    assert_int_equal(kith_group_dup(world, &options, &group), KITH_ERR_INVALID_ARG);
    options = (kith_group_options)KITH_GROUP_OPTIONS_INIT;
    name[64] = '\0';
    options.name = name;
    assert_int_equal(kith_group_dup(world, &options, &group), KITH_ERR_INVALID_ARG);
    assert_non_null(strstr(kith_error_detail(), "63 bytes"));
    name[63] = '\0';
    assert_int_equal(kith_group_dup(world, &options, &group), KITH_OK);
    assert_string_equal(kith_group_name(group), name);
    assert_int_equal(kith_group_destroy(group), KITH_OK);
    options = (kith_group_options)KITH_GROUP_OPTIONS_INIT;
    group = NULL;
    options.is_check = 2;
    assert_int_equal(kith_group_dup(world, &options, &group), KITH_ERR_INVALID_ARG);
    options.is_check = 0;
    options.backend = "warp";
    assert_int_equal(kith_group_dup(world, &options, &group), KITH_ERR_INVALID_ARG);
    assert_non_null(strstr(kith_error_detail(), "warp"));
    options.backend = "";
    assert_int_equal(kith_group_dup(world, &options, &group), KITH_ERR_INVALID_ARG);
    assert_int_equal(kith_group_dup(world, NULL, NULL), KITH_ERR_INVALID_ARG);
    assert_int_equal(kith_group_dup(NULL, NULL, &group), KITH_ERR_INVALID_ARG);
    assert_null(group);
    assert_int_equal(kith_finalize(ctx), KITH_OK);
}

static void test_mesh_options(void **state)
{
    (void)state;
    kith_ctx *ctx = alone(0);
    kith_group *world = kith_world(ctx);
    kith_mesh *mesh = NULL;
    const kith_mesh_axis good[] = { { "tp", 1 } }, unnamed[] = { { NULL, 1 } }, odd[] = { { "t-p", 1 } };
    const kith_mesh_axis negative[] = { { "tp", -1 } }, twice[] = { { "tp", 1 }, { "tp", 1 } };
    const kith_mesh_axis open_twice[] = { { "tp", 0 }, { "dp", 0 } };
    const kith_mesh_axis large[] = { { "tp", 65536 }, { "dp", 65536 } };
    kith_mesh_options options = KITH_MESH_OPTIONS_INIT;
    options.struct_size = 1;
    assert_int_equal(kith_mesh_create(world, good, 1, &options, &mesh), KITH_ERR_INVALID_ARG);
    options.struct_size = sizeof options;
    options.order = "pp-dp";
    assert_int_equal(kith_mesh_create(world, good, 1, &options, &mesh), KITH_ERR_INVALID_ARG);
    options.order = NULL;
    options.products = "tp-xx";
    assert_int_equal(kith_mesh_create(world, good, 1, &options, &mesh), KITH_ERR_INVALID_ARG);
    options.products = NULL;
    options.backends = "tp=warp";
    assert_int_equal(kith_mesh_create(world, good, 1, &options, &mesh), KITH_ERR_INVALID_ARG);
    static const char *const backends[] = { "tp", "tp=", "=shm", "xx=shm", "tp=shm,,", "tp=shm,zz=shm" };
    for (size_t i = 0; i < sizeof backends / sizeof backends[0]; i++) {
        options.backends = backends[i];
        assert_int_equal(kith_mesh_create(world, good, 1, &options, &mesh), KITH_ERR_INVALID_ARG);
    }
    options.backends = NULL;
    const int outside = 1;
    options.placement = &outside;
    assert_int_equal(kith_mesh_create(world, good, 1, &options, &mesh), KITH_ERR_INVALID_ARG);
    assert_int_equal(kith_mesh_create(world, unnamed, 1, NULL, &mesh), KITH_ERR_INVALID_ARG);
    assert_int_equal(kith_mesh_create(world, odd, 1, NULL, &mesh), KITH_ERR_INVALID_ARG);
    assert_int_equal(kith_mesh_create(world, negative, 1, NULL, &mesh), KITH_ERR_INVALID_ARG);
    assert_int_equal(kith_mesh_create(world, twice, 2, NULL, &mesh), KITH_ERR_INVALID_ARG);
    assert_int_equal(kith_mesh_create(world, open_twice, 2, NULL, &mesh), KITH_ERR_INVALID_ARG);
    assert_int_equal(kith_mesh_create(world, large, 2, NULL, &mesh), KITH_ERR_INVALID_ARG);
    assert_int_equal(kith_mesh_create(world, NULL, 1, NULL, &mesh), KITH_ERR_INVALID_ARG);
    assert_int_equal(kith_mesh_create(world, good, 0, NULL, &mesh), KITH_ERR_INVALID_ARG);
    assert_int_equal(kith_mesh_create(world, good, 1, NULL, NULL), KITH_ERR_INVALID_ARG);
    assert_int_equal(kith_mesh_create(NULL, good, 1, NULL, &mesh), KITH_ERR_INVALID_ARG);
    assert_null(mesh);
    assert_int_equal(kith_mesh_create(world, good, 1, NULL, &mesh), KITH_OK);
    kith_group *tp = kith_mesh_group(mesh, "tp");
    assert_non_null(tp);
    assert_int_equal(kith_group_destroy(tp), KITH_ERR_INVALID_ARG);
    assert_non_null(strstr(kith_error_detail(), "kith_mesh_destroy"));
    assert_int_equal(kith_mesh_destroy(mesh), KITH_OK);
    assert_int_equal(kith_mesh_destroy(NULL), KITH_OK);
    /* stale handles: answers, not crashes */
    assert_int_equal(kith_mesh_destroy(mesh), KITH_ERR_INVALID_ARG);
    assert_null(kith_mesh_group(mesh, "tp"));
    assert_int_equal(kith_mesh_size(mesh, "tp"), -1);
    assert_int_equal(kith_mesh_coord(mesh, "tp"), -1);
    assert_int_equal(kith_group_destroy(tp), KITH_ERR_INVALID_ARG);
    /* a mesh outlives its base */
    kith_group *base = NULL;
    assert_int_equal(kith_group_dup(world, NULL, &base), KITH_OK);
    assert_int_equal(kith_mesh_create(base, good, 1, NULL, &mesh), KITH_OK);
    assert_int_equal(kith_group_destroy(base), KITH_OK);
    assert_int_equal(kith_mesh_coord(mesh, "tp"), 0);
    assert_int_equal(kith_mesh_destroy(mesh), KITH_OK);
    assert_int_equal(kith_finalize(ctx), KITH_OK);
}

/* Handles that are nothing: answers, not crashes. */
static void test_no_handle(void **state)
{
    (void)state;
    char *path = NULL;
    kith_request *request = NULL;
    size_t nbytes = 0, index = 0;
    int is_done = 0;
    void *memory = NULL;
    kith_op op = 0;
    assert_true(kith_rank(NULL) == -1 && kith_size(NULL) == -1 && kith_world(NULL) == NULL &&
                kith_node_of(NULL, 0) == -1);
    assert_true(kith_local_rank(NULL) == -1 && kith_local_size(NULL) == -1 && kith_node_count(NULL) == -1);
    assert_true(kith_group_rank(NULL) == -1 && kith_group_size(NULL) == -1 && kith_group_ctx(NULL) == NULL);
    assert_string_equal(kith_group_name(NULL), "");
    assert_string_equal(kith_group_backend(NULL), "");
    assert_int_equal(kith_progress(NULL), KITH_ERR_INVALID_ARG);
    assert_int_equal(kith_finalize(NULL), KITH_OK);
    kith_abandon(NULL);
    assert_int_equal(kith_group_abort(NULL), KITH_ERR_INVALID_ARG);
    assert_int_equal(kith_group_status(NULL), KITH_ERR_INVALID_ARG);
    assert_int_equal(kith_agree(NULL, KITH_OK), KITH_ERR_INVALID_ARG);
    assert_int_equal(kith_group_dump(NULL, path), KITH_ERR_INVALID_ARG);
    assert_int_equal(kith_mem_alloc(NULL, 1, &memory), KITH_ERR_INVALID_ARG);
    assert_int_equal(kith_mem_free(NULL, memory), KITH_ERR_INVALID_ARG);
    assert_int_equal(kith_mem_register(NULL, memory, 1), KITH_ERR_INVALID_ARG);
    assert_int_equal(kith_mem_deregister(NULL, memory), KITH_ERR_INVALID_ARG);
    assert_int_equal(kith_op_create_premul_sum(NULL, 1, &op), KITH_ERR_INVALID_ARG);
    assert_int_equal(kith_op_destroy(NULL, op), KITH_ERR_INVALID_ARG);
    assert_int_equal(kith_request_start(NULL), KITH_ERR_INVALID_ARG);
    assert_int_equal(kith_request_received(NULL, &nbytes), KITH_ERR_INVALID_ARG);
    assert_int_equal(kith_request_free(&request), KITH_OK);
    assert_int_equal(kith_test(NULL, &is_done), KITH_ERR_INVALID_ARG);
    assert_int_equal(kith_wait_all(NULL, 1), KITH_ERR_INVALID_ARG);
    assert_int_equal(kith_wait_all(NULL, 0), KITH_OK);
    assert_int_equal(kith_wait_any(&request, 1, NULL), KITH_ERR_INVALID_ARG);
    assert_int_equal(kith_wait_any(&request, 1, &index), KITH_OK);
    assert_int_equal(index, 1);
    assert_true(kith_mesh_group(NULL, "tp") == NULL && kith_mesh_size(NULL, "tp") == -1 &&
                kith_mesh_coord(NULL, "tp") == -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_init_options),  cmocka_unit_test(test_settings),     cmocka_unit_test(test_deadline),
        cmocka_unit_test(test_group_options), cmocka_unit_test(test_mesh_options), cmocka_unit_test(test_no_handle),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
