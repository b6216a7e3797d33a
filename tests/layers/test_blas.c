/* tests/layers/test_blas.c - a CBLAS that is named and cannot be used is refused by name; others are not tried.
 *
 * The library is looked for once a process, so each case is a process of its own.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "layers/compute/blas.h"

#include <kith/kith.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* 0, or a line about what is wrong and 1. */
static int look(const char *library, const char *detail)
{
    const ki_blas *blas = NULL;
    setenv("KITH_BLAS_LIBRARY", library, 1);
    kith_status status = ki_blas_get(&blas);
    if (status == KITH_ERR_UNSUPPORTED && blas == NULL && strstr(kith_error_detail(), library) != NULL &&
        strstr(kith_error_detail(), detail) != NULL)
        return 0;
    fprintf(stderr, "KITH_BLAS_LIBRARY=%s: wanted unsupported with '%s', got %s: %s\n", library, detail,
            kith_status_name(status), kith_error_detail());
    return 1;
}

static void expect(const char *library, const char *detail)
{
    int result = -1;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        _exit(look(library, detail));
    assert_int_equal(waitpid(child, &result, 0), child);
    assert_int_equal(result, 0);
}

static void test_refused(void **state)
{
    (void)state;
    expect("libno-such-blas.so.7", "cannot be opened");
    expect("libm.so.6", "has no cblas_sgemm");
}

static void test_found(void **state)
{
    const ki_blas *blas = NULL, *again = NULL;
    (void)state;
    if (ki_blas_get(&blas) != KITH_OK) {
        print_message("skipped: %s\n", kith_error_detail());
        skip();
    }
    assert_int_equal(ki_blas_get(&again), KITH_OK);
    assert_ptr_equal(blas, again);
    assert_true(blas->sgemm != NULL && blas->dgemm != NULL && blas->library[0] != '\0');
    assert_int_equal(ki_blas_set_threads(blas, 1), blas->set_threads != NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_refused), cmocka_unit_test(test_found) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
