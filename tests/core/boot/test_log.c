/* tests/core/boot/test_log.c - the log sink: levels, order, KITH_LOG and KITH_LOG_FILE.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "boot_test.h"

#include <fcntl.h>

static void test_levels(void **state)
{
    (void)state;
    for (int level = KITH_LOG_NONE; level <= KITH_LOG_DATA; level++) {
        start_capture((kith_log_level)level);
        for (int line = KITH_LOG_ERROR; line <= KITH_LOG_DATA; line++) {
            assert_int_equal(ki_log_is_on((kith_log_level)line), line <= level);
            ki_log((kith_log_level)line, "line %d", line);
        }
        assert_int_equal(ki_log_is_on(KITH_LOG_NONE), 0);
        stop_capture();
        int count = 0;
        for (const char *p = captured_log; (p = strchr(p, '\n')); p++)
            count++;
        assert_int_equal(count, level);
    }
}

static void test_rank_prefix(void **state)
{
    (void)state;
    start_capture(KITH_LOG_INFO);
    ki_log(KITH_LOG_INFO, "before");
    ki_log_set_rank(12);
    ki_log(KITH_LOG_WARN, "after %s", "that");
    ki_log_set_rank(-1);
    stop_capture();
    assert_string_equal(captured_log, "3 before\n2 rank 12: after that\n");
}

static void test_long_line(void **state)
{
    (void)state;
    static char text[8000];
    memset(text, 'y', sizeof text - 1);
    start_capture(KITH_LOG_INFO);
    ki_log_set_rank(3);
    ki_log(KITH_LOG_INFO, "%s", text);
    ki_log_set_rank(-1);
    stop_capture();
    assert_true(strlen(captured_log) > 1000 && strlen(captured_log) < 2000);
}

/* ---- never entered twice ---- */

static atomic_int inside, overlaps, lines;

static void slow_sink(void *arg, kith_log_level level, const char *line)
{
    (void)arg;
    (void)level;
    (void)line;
    overlaps += atomic_fetch_add(&inside, 1) != 0;
    ki_sleep_ns(10000);
    atomic_fetch_sub(&inside, 1);
    lines++;
}

static void *log_much(void *arg)
{
    (void)arg;
    for (int i = 0; i < 50; i++)
        ki_log(KITH_LOG_INFO, "line %d", i);
    return NULL;
}

static void test_sink_is_serialised(void **state)
{
    (void)state;
    pthread_t threads[8];
    kith_log_set(slow_sink, NULL, KITH_LOG_INFO);
    for (int i = 0; i < 8; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, log_much, NULL), 0);
    for (int i = 0; i < 8; i++)
        pthread_join(threads[i], NULL);
    kith_log_set(NULL, NULL, KITH_LOG_NONE);
    assert_int_equal(overlaps, 0);
    assert_int_equal(lines, 400);
}

static void sink_that_calls_back(void *arg, kith_log_level level, const char *line)
{
    ki_log(KITH_LOG_ERROR, "from inside");
    kith_log_set(NULL, NULL, KITH_LOG_NONE);
    capture(arg, level, line);
}

static void test_sink_may_call_back(void **state)
{
    (void)state;
    captured_nbytes = 0;
    kith_log_set(sink_that_calls_back, NULL, KITH_LOG_INFO);
    ki_log(KITH_LOG_INFO, "outer");
    stop_capture();
    assert_string_equal(captured_log, "3 outer\n");
}

/* ---- environment ---- */

static void read_file(const char *path, char *text, size_t nbytes)
{
    int fd = open(path, O_RDONLY);
    assert_true(fd >= 0);
    ssize_t n = read(fd, text, nbytes - 1);
    assert_true(n >= 0);
    text[n] = '\0';
    close(fd);
}

/* What goes to stderr while the environment is (level, file) and one warning and one info line are logged. */
static void stderr_of(const char *level, const char *file, char *text, size_t nbytes)
{
    char path[256];
    snprintf(path, sizeof path, "%s", temporary_path("stderr"));
    int saved = dup(2), fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(saved >= 0 && fd >= 0);
    setenv("KITH_LOG", level, 1);
    setenv("KITH_LOG_FILE", file, 1);
    dup2(fd, 2);
    kith_log_set(NULL, NULL, KITH_LOG_NONE); /* reads the environment again */
    ki_log(KITH_LOG_WARN, "a warning");
    ki_log(KITH_LOG_INFO, "an info");
    dup2(saved, 2);
    close(saved);
    close(fd);
    unsetenv("KITH_LOG");
    unsetenv("KITH_LOG_FILE");
    kith_log_set(NULL, NULL, KITH_LOG_NONE);
    read_file(path, text, nbytes);
    unlink(path);
}

static void test_environment(void **state)
{
    (void)state;
    char text[4096];
    stderr_of("", "", text, sizeof text);
    assert_string_equal(text, ""); /* silent by default */
    stderr_of("none", "", text, sizeof text);
    assert_string_equal(text, "");
    stderr_of("warn", "", text, sizeof text);
    assert_string_equal(text, "kith warn: a warning\n");
    stderr_of("INFO", "", text, sizeof text);
    assert_string_equal(text, "kith warn: a warning\nkith info: an info\n");
    stderr_of("loud", "", text, sizeof text);
    assert_has(text, "KITH_LOG=loud");
    assert_has(text, "debug");
    assert_has(text, "a warning");
}

static void test_log_file(void **state)
{
    (void)state;
    char pattern[320], path[640], text[4096], host[256] = "";
    snprintf(pattern, sizeof pattern, "%s-%%h-%%p-100%%%%", temporary_path("log"));
    gethostname(host, sizeof host - 1);
    snprintf(path, sizeof path, "%.*s-%s-%ld-100%%", (int)(strlen(pattern) - strlen("-%h-%p-100%%")), pattern, host,
             (long)getpid());
    stderr_of("warn", pattern, text, sizeof text);
    assert_string_equal(text, "");
    read_file(path, text, sizeof text);
    assert_string_equal(text, "kith warn: a warning\n");
    unlink(path);
    stderr_of("warn", "/nonexistent/folder/log", text, sizeof text);
    assert_has(text, "/nonexistent/folder/log");
    assert_has(text, "a warning");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_levels),
        cmocka_unit_test(test_rank_prefix),
        cmocka_unit_test(test_long_line),
        cmocka_unit_test(test_sink_is_serialised),
        cmocka_unit_test(test_sink_may_call_back),
        cmocka_unit_test(test_environment),
        cmocka_unit_test(test_log_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
