/* tests/core/boot/test_library.c - libraries of others, opened at run time: which file is taken, and what is said of
 * the others.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "core/base/library.h"

#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static char reason[512], refused[512];

/* As many libraries are passed over as *arg says. */
static int fits_later(void *arg, void *handle, char *why, size_t why_nbytes)
{
    int *left = (int *)arg;
    assert_non_null(handle);
    if (*left == 0)
        return 1;
    snprintf(why, why_nbytes, "too new by %d", *left);
    --*left;
    return 0;
}

static void *search(const char *asked, int passed_over, const char *const *files)
{
    const ki_library_search one = { "mathematics", "math_library", asked, files, fits_later, &passed_over };
    reason[0] = '\0';
    memset(refused, 'x', sizeof refused - 1);
    return ki_library_open(&one, reason, sizeof reason, refused, sizeof refused);
}

static void has(const char *text, const char *part)
{
    if (strstr(text, part) == NULL)
        fail_msg("'%s' does not have '%s'", text, part);
}

static const char *const usual[] = { "libnowhere.so.13", "libm.so.6", "libc.so.6", NULL };

static void test_first_that_is_there(void **state)
{
    double (*cosine)(double) = NULL;
    (void)state;
    void *handle = search(NULL, 0, usual);
    assert_non_null(handle);
    assert_string_equal(refused, "");
    assert_true(ki_library_find(handle, "cos", &cosine));
    assert_true(cosine(0) == 1);
    assert_false(ki_library_find(handle, "no_such_function", &cosine));
    assert_null(cosine);
    dlclose(handle);
}

static void test_next_where_one_does_not_fit(void **state)
{
    double (*function)(double) = NULL;
    (void)state;
    void *handle = search("", 1, usual);
    assert_non_null(handle);
    assert_string_equal(refused, "libm.so.6: too new by 1");
    assert_true(ki_library_find(handle, "qsort", &function)); /* it is the C library */
    dlclose(handle);
    assert_null(search("", 2, usual));
    assert_string_equal(reason, "mathematics cannot be used: libm.so.6: too new by 2; libc.so.6: too new by 1");
}

static void test_nothing_is_there(void **state)
{
    static const char *const files[] = { "libnowhere.so.13", "/nowhere/libnowhere.so.12", NULL };
    (void)state;
    assert_null(search(NULL, 0, files));
    assert_string_equal(reason, "mathematics is not installed: none of libnowhere.so.13, /nowhere/libnowhere.so.12 is "
                                "found (math_library may name the file)");
    assert_string_equal(refused, "");
}

/* A file that is there and is no library is worth a word. */
static void test_broken_file(void **state)
{
    char file[] = "./libbroken_XXXXXX";
    const char *const files[] = { file, "libm.so.6", NULL };
    (void)state;
    int fd = mkstemp(file);
    assert_true(fd >= 0);
    assert_true(write(fd, "no library\n", 11) == 11);
    close(fd);
    void *handle = search(NULL, 0, files);
    unlink(file);
    assert_non_null(handle);
    has(refused, file);
    assert_true(strlen(refused) > strlen(file) + 2);
    dlclose(handle);
}

/* What a setting names stands alone. */
static void test_asked(void **state)
{
    (void)state;
    assert_null(search("/nowhere/libm.so", 0, usual));
    has(reason, "mathematics that math_library names cannot be opened: /nowhere/libm.so: ");
    assert_null(search("libm.so.6", 1, usual));
    assert_string_equal(reason, "too new by 1");
    void *handle = search("libm.so.6", 0, usual);
    assert_non_null(handle);
    dlclose(handle);
}

/* Sentences end where their room does. */
static void test_short_room(void **state)
{
    const ki_library_search one = { "mathematics", "math_library", NULL, usual, fits_later, &(int){ 3 } };
    char small[12];
    (void)state;
    assert_null(ki_library_open(&one, small, sizeof small, refused, 8));
    assert_int_equal(strlen(small), sizeof small - 1);
    assert_int_equal(strlen(refused), 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_first_that_is_there),
        cmocka_unit_test(test_next_where_one_does_not_fit),
        cmocka_unit_test(test_nothing_is_there),
        cmocka_unit_test(test_broken_file),
        cmocka_unit_test(test_asked),
        cmocka_unit_test(test_short_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
