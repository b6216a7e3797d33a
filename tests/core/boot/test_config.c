/* tests/core/boot/test_config.c - the table of settings: where values come from, which are valid, what is unknown.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "boot_test.h"

#include "core/base/config.h"
#include "core/base/config_value.h"

static const kith_be_setting backend_rows[] = { { "test_path", "direct", "which path: direct, staged", 1 },
                                                { "test_free", NULL, NULL, 0 },
                                                { "algo", "stolen", "a name that the core has", 0 },
                                                { NULL, NULL, NULL, 0 } };
static const kith_backend test_backend = {
    .abi = KITH_BACKEND_ABI, .struct_size = sizeof(kith_backend), .name = "test", .settings = backend_rows
};

static ki_config *create(const kith_setting *settings, size_t count)
{
    const kith_backend *backends[] = { &test_backend };
    ki_config *config = NULL;
    assert_status(ki_config_create(settings, count, backends, 1, &config), KITH_OK);
    return config;
}

static ki_config_row row_named(const ki_config *config, const char *name)
{
    ki_config_row row;
    for (size_t i = 0; ki_config_row_at(config, i, &row); i++) {
        if (strcmp(row.name, name) == 0)
            return row;
    }
    fail_msg("no row %s", name);
    return row;
}

static void test_defaults(void **state)
{
    (void)state;
    ki_config *c = create(NULL, 0);
    assert_string_equal(ki_config_get(c, "backend"), "auto");
    assert_int_equal(ki_config_int(c, "timeout_ms"), 0);
    assert_int_equal(ki_config_int(c, "connect_timeout_ms"), 30000);
    assert_false(ki_config_bool(c, "check"));
    assert_string_equal(ki_config_get(c, "deterministic"), "auto");
    assert_string_equal(ki_config_get(c, "hier"), "auto");
    assert_string_equal(ki_config_get(c, "algo"), "");
    assert_int_equal(ki_config_nbytes(c, "segment_nbytes"), 0);
    assert_int_equal(ki_config_int(c, "radix"), 0);
    assert_int_equal(ki_config_int(c, "spin"), -1); /* auto */
    assert_int_equal(ki_config_int(c, "flight_records"), 256);
    assert_string_equal(ki_config_get(c, "kernels"), "auto");
    assert_int_equal(ki_config_nbytes(c, "stream_nbytes"), 8 << 20);
    assert_string_equal(ki_config_get(c, "dump_on_timeout"), "");
    assert_int_equal(ki_config_int(c, "rank"), -1);
    assert_null(ki_config_get(c, "no_such_row"));
    ki_config_destroy(c);
    ki_config_destroy(NULL);
}

/* Rows are complete, unique, and their defaults are valid. */
static void test_rows(void **state)
{
    (void)state;
    ki_config *c = create(NULL, 0);
    ki_config_row a, b;
    size_t count = 0;
    for (; ki_config_row_at(c, count, &a); count++) {
        assert_true(a.name[0] && a.owner[0]);
        assert_string_equal(a.value, a.default_value);
        assert_true(strcmp(a.owner, "core") != 0 || strlen(a.help) > 10);
        for (size_t i = 0; i < count; i++) {
            ki_config_row_at(c, i, &b);
            assert_string_not_equal(a.name, b.name);
        }
    }
    assert_true(count >= 27 + 2);
    assert_true(row_named(c, "deterministic").must_agree);
    assert_true(row_named(c, "algo").must_agree);
    assert_false(row_named(c, "timeout_ms").must_agree);
    assert_false(row_named(c, "rank").must_agree);
    assert_string_equal(row_named(c, "test_path").owner, "test");
    assert_true(row_named(c, "test_path").must_agree);
    assert_string_equal(row_named(c, "algo").owner, "core");
    ki_config_destroy(c);
}

static void test_origins(void **state)
{
    (void)state;
    const kith_setting settings[] = { { "algo", "ring" }, { "test_path", "staged" }, { "algo", "tree" } };
    setenv("KITH_ALGO", "bruck", 1);
    setenv("KITH_HIER", "off", 1);
    setenv("KITH_TEST_FREE", "from outside", 1);
    setenv("KITH_RADIX", "", 1); /* empty is as good as not set */
    ki_config *c = create(settings, 3);
    setenv("KITH_HIER", "on", 1); /* later changes do not matter */
    assert_string_equal(ki_config_get(c, "algo"), "tree");
    assert_int_equal(row_named(c, "algo").origin, KI_ORIGIN_OPTION);
    assert_string_equal(ki_config_get(c, "hier"), "off");
    assert_int_equal(row_named(c, "hier").origin, KI_ORIGIN_ENVIRONMENT);
    assert_int_equal(row_named(c, "radix").origin, KI_ORIGIN_DEFAULT);
    assert_string_equal(ki_config_get(c, "test_path"), "staged");
    assert_string_equal(ki_config_get(c, "test_free"), "from outside");
    ki_config_destroy(c);
    unsetenv("KITH_ALGO");
    unsetenv("KITH_HIER");
    unsetenv("KITH_TEST_FREE");
    unsetenv("KITH_RADIX");
}

static void test_values(void **state)
{
    (void)state;
    static const struct {
        const char *name, *value;
        bool is_valid;
        const char *text; /* in the message */
    } cases[] = {
        { "check", "1", true, NULL },
        { "check", "yes", true, NULL },
        { "check", "OFF", true, NULL },
        { "check", "2", false, "0 or 1" },
        { "check", "", false, "0 or 1" },
        { "timeout_ms", "0", true, NULL },
        { "timeout_ms", "-1", false, "from 0" },
        { "timeout_ms", "1s", false, "from 0" },
        { "timeout_ms", " 1", false, "from 0" },
        { "timeout_ms", "99999999999999999999", false, "from 0" },
        { "timeout_ms", "1e3", false, "from 0" },
        { "connect_timeout_ms", "0", false, "from 1" },
        { "hier", "on", true, NULL },
        { "hier", "1", true, NULL },
        { "deterministic", "0", true, NULL },
        { "hier", "2", false, "auto|on|off" },
        { "hier", "o", false, "auto|on|off" },
        { "hier", "on|off", false, "auto|on|off" },
        { "kernels", "avx2", true, NULL },
        { "kernels", "sse", false, "avx512" },
        { "segment_nbytes", "64k", true, NULL },
        { "segment_nbytes", "64K", true, NULL },
        { "segment_nbytes", "1MiB", true, NULL },
        { "segment_nbytes", "1mb", true, NULL },
        { "segment_nbytes", "2g", false, "1g" },
        { "segment_nbytes", "k", false, "bytes" },
        { "segment_nbytes", "1kk", false, "bytes" },
        { "segment_nbytes", "-1", false, "bytes" },
        { "segment_nbytes", "18446744073709551616", false, "bytes" },
        { "segment_nbytes", "9000000000g", false, "bytes" },
        { "radix", "2", true, NULL },
        { "radix", "1", false, "from 2" },
        { "radix", "1025", false, "1024" },
        { "spin", "auto", true, NULL },
        { "spin", "100", true, NULL },
        { "spin", "some", false, "auto" },
        { "backend", "my-backend_2", true, NULL },
        { "backend", "a/b", false, "letters" },
        { "backend", "", false, "letters" },
        { "algo", "ring", true, NULL },
        { "algo", "", true, NULL },
        { "algo", "all_reduce=ring,broadcast=knomial", true, NULL },
        { "algo", "all_reduc=ring", false, "all_reduc" },
        { "algo", "ring,tree", false, "pairs" },
        { "algo", "all_reduce=", false, "pairs" },
        { "algo", "all_reduce=ring,", false, "pairs" },
        { "algo", "a b", false, "name" },
        { "size", "0", false, "from 1" },
        { "rank", "abc", false, "from 0" },
        { "rank", "-1", false, "from 0" },
        { "rank", "2147483648", false, "from 0" },
        { "log", "debug", false, "KITH_LOG" },
        { "fault", "alloc:1", false, "KITH_FAULT" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        kith_setting setting = { cases[i].name, cases[i].value };
        ki_config *c = NULL;
        kith_status s = ki_config_create(&setting, 1, NULL, 0, &c);
        if ((s == KITH_OK) != cases[i].is_valid)
            fail_msg("%s=\"%s\": got %s (%s)", setting.name, setting.value, kith_status_name(s), kith_error_detail());
        if (s != KITH_OK) {
            assert_int_equal(s, KITH_ERR_INVALID_ARG);
            assert_has(kith_error_detail(), setting.name);
            assert_has(kith_error_detail(), cases[i].text);
            assert_null(c);
        }
        ki_config_destroy(c);
    }
}

static void test_environment_value(void **state)
{
    (void)state;
    ki_config *c = NULL;
    setenv("KITH_CHECK", "maybe", 1);
    assert_status(ki_config_create(NULL, 0, NULL, 0, &c), KITH_ERR_INVALID_ARG);
    assert_has(kith_error_detail(), "KITH_CHECK=\"maybe\"");
    setenv("KITH_CHECK", "true", 1);
    assert_status(ki_config_create(NULL, 0, NULL, 0, &c), KITH_OK);
    assert_true(ki_config_bool(c, "check"));
    assert_string_equal(ki_config_get(c, "check"), "on"); /* one spelling, to be compared between ranks */
    ki_config_destroy(c);
    unsetenv("KITH_CHECK");
    setenv("KITH_DETERMINISTIC", "0", 1);
    assert_status(ki_config_create(NULL, 0, NULL, 0, &c), KITH_OK);
    assert_string_equal(ki_config_get(c, "deterministic"), "off");
    ki_config_destroy(c);
    unsetenv("KITH_DETERMINISTIC");
    setenv("KITH_LOG", "loud", 1); /* must not keep a job from starting */
    assert_status(ki_config_create(NULL, 0, NULL, 0, &c), KITH_OK);
    ki_config_destroy(c);
    unsetenv("KITH_LOG");
}

static void test_unknown_settings(void **state)
{
    (void)state;
    static const struct {
        const char *name, *nearest;
    } cases[] = { { "algoo", "algo" },
                  { "chekc", "check" },
                  { "timeout", "timeout_ms" },
                  { "conect_timeout_ms", "connect_timeout_ms" },
                  { "KERNELS_", "kernels" } };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        kith_setting setting = { cases[i].name, "1" };
        ki_config *c = NULL;
        assert_status(ki_config_create(&setting, 1, NULL, 0, &c), KITH_ERR_INVALID_ARG);
        assert_has(kith_error_detail(), cases[i].name);
        char text[64];
        snprintf(text, sizeof text, "\"%s\"", cases[i].nearest);
        assert_has(kith_error_detail(), text);
    }
    kith_setting no_name = { NULL, "1" }, no_value = { "algo", NULL };
    ki_config *c = NULL;
    assert_status(ki_config_create(&no_name, 1, NULL, 0, &c), KITH_ERR_INVALID_ARG);
    assert_status(ki_config_create(&no_value, 1, NULL, 0, &c), KITH_ERR_INVALID_ARG);
}

/* A backend that is opened later brings its rows; settings for it have waited. */
static void test_late_rows(void **state)
{
    (void)state;
    const kith_setting settings[] = { { "test_path", "staged" }, { "other_thing", "7" } };
    ki_config *c = NULL;
    setenv("KITH_TEST_FREE", "env", 1);
    assert_status(ki_config_create(settings, 2, NULL, 0, &c), KITH_OK);
    assert_null(ki_config_get(c, "test_path"));
    const char *borrowed = ki_config_get(c, "hier");
    assert_status(ki_config_add_backend(c, &test_backend), KITH_OK);
    assert_string_equal(ki_config_get(c, "test_path"), "staged");
    assert_string_equal(ki_config_get(c, "test_free"), "env");
    assert_ptr_equal(borrowed, ki_config_get(c, "hier"));
    assert_status(ki_config_add_backend(c, &test_backend), KITH_OK);
    assert_string_equal(ki_config_get(c, "test_path"), "staged");
    assert_status(ki_config_check_claimed(c, NULL), KITH_ERR_INVALID_ARG);
    assert_has(kith_error_detail(), "other_thing");
    ki_config_destroy(c);
    c = create(NULL, 0);
    assert_status(ki_config_check_claimed(c, NULL), KITH_OK);
    ki_config_destroy(c);
    unsetenv("KITH_TEST_FREE");
}

static void test_unknown_variables(void **state)
{
    (void)state;
    setenv("KITH_ALGOO", "ring", 1);
    setenv("KITH_TIMEOUT", "3", 1);
    setenv("KITH_Hier", "on", 1); /* variables are upper case */
    setenv("KITH_RANK", "3", 1);
    setenv("KITHX", "3", 1);
    ki_config *c = create(NULL, 0);
    start_capture(KITH_LOG_WARN);
    ki_config_warn_unknown(c, NULL);
    stop_capture();
    assert_has(captured_log, "KITH_ALGOO is not known");
    assert_has(captured_log, "nearest known one is KITH_ALGO\n");
    assert_has(captured_log, "nearest known one is KITH_TIMEOUT_MS\n");
    assert_has(captured_log, "KITH_Hier is not known");
    assert_null(strstr(captured_log, "KITH_RANK"));
    assert_null(strstr(captured_log, "KITHX"));
    ki_config_destroy(c);
    unsetenv("KITH_ALGOO");
    unsetenv("KITH_TIMEOUT");
    unsetenv("KITH_Hier");
    unsetenv("KITH_RANK");
    unsetenv("KITHX");
}

static void test_edit_distance(void **state)
{
    (void)state;
    assert_int_equal(ki_edit_distance("", ""), 0);
    assert_int_equal(ki_edit_distance("abc", ""), 3);
    assert_int_equal(ki_edit_distance("kitten", "sitting"), 3);
    assert_int_equal(ki_edit_distance("check", "CHECK"), 0);
    assert_int_equal(ki_edit_distance("chekc", "check"), 1); /* neighbours swapped */
    assert_int_equal(ki_edit_distance("algo", "algoo"), 1);
    char text[300];
    memset(text, 'a', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    assert_true(ki_edit_distance(text, "b") > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),          cmocka_unit_test(test_rows),
        cmocka_unit_test(test_origins),           cmocka_unit_test(test_values),
        cmocka_unit_test(test_environment_value), cmocka_unit_test(test_unknown_settings),
        cmocka_unit_test(test_late_rows),         cmocka_unit_test(test_unknown_variables),
        cmocka_unit_test(test_edit_distance),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
