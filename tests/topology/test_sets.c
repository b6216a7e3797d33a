/* tests/topology/test_sets.c - lists in text: CPU sets, masks, host names.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "core/base/error.h"
#include "topology/sets.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* ---- CPU lists ---- */

static void expect_list(const char *text, const char *wanted, int count)
{
    ki_cpuset set;
    char buffer[256];
    if (!ki_cpuset_parse(text, &set))
        fail_msg("'%s' was refused", text);
    assert_string_equal(ki_cpuset_text(&set, buffer, sizeof buffer), wanted);
    assert_int_equal(set.count, count);
    ki_cpuset_fini(&set);
}

static void refuse_list(const char *text)
{
    ki_cpuset set;
    if (ki_cpuset_parse(text, &set))
        fail_msg("'%s' was read", text);
    assert_null(set.bits);
}

static void test_lists(void **state)
{
    (void)state;
    expect_list("", "", 0);
    expect_list("  ", "", 0);
    expect_list("0", "0", 1);
    expect_list("0-31,64-95", "0-31,64-95", 64);
    expect_list("3,1,7,5", "1,3,5,7", 4);
    expect_list(" 0-1 , 2 ", "0-2", 3);
    expect_list("5,5,5-5", "5", 1);
    expect_list("65535", "65535", 1);
    expect_list("007", "7", 1);
    const char *const wrong[] = { "a",     "1-",      "-1",  "3-1",         "1,,2",  ",1",      "1,",
                                  "65536", "0-65536", "1 2", "99999999999", "1-2-3", "0-3 SYS", "N/A" };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        refuse_list(wrong[i]);
}

static void test_list_that_does_not_fit(void **state)
{
    (void)state;
    ki_cpuset set;
    char buffer[12];
    assert_true(ki_cpuset_parse("1,3,5,7,9,11,13", &set));
    assert_string_equal(ki_cpuset_text(&set, buffer, sizeof buffer), "1,3,5,7...");
    ki_cpuset_fini(&set);
}

/* ---- masks ---- */

static void expect_mask(const char *text, const char *wanted)
{
    ki_cpuset set;
    char buffer[256];
    if (!ki_cpuset_parse_mask(text, &set))
        fail_msg("'%s' was refused", text);
    assert_string_equal(ki_cpuset_text(&set, buffer, sizeof buffer), wanted);
    ki_cpuset_fini(&set);
}

static void test_masks(void **state)
{
    (void)state;
    expect_mask("f", "0-3");
    expect_mask("0", "");
    expect_mask("0xff", "0-7");
    expect_mask("ffffffff,00000000", "32-63");
    expect_mask("00000000,0000ffff,ffff0000,00000000", "48-79");
    expect_mask("0000,00000000,00ffffff", "0-23");
    expect_mask("1,0", "32"); /* leading zeros of a word may be left out */
    expect_mask("0x00000001,0x00000001", "0,32");
    expect_mask("0x00000001,,0x00000001", "0,64"); /* hwloc leaves out what is zero */
    expect_mask("0xf00000000000000f", "0-3,60-63");
    expect_mask("FFFF", "0-15");
    const char *const wrong[] = { "", "0x", "xyz", "ff ff", ",ff", "ff,", "123456789,0", "0-7", "0x1,0y1" };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        ki_cpuset set;
        if (ki_cpuset_parse_mask(wrong[i], &set))
            fail_msg("'%s' was read", wrong[i]);
        assert_null(set.bits);
    }
}

static void test_questions(void **state)
{
    (void)state;
    ki_cpuset a, b, none;
    assert_true(ki_cpuset_parse("0-3,100", &a));
    assert_true(ki_cpuset_parse("4-7,100", &b));
    assert_true(ki_cpuset_parse("", &none));
    assert_true(ki_cpuset_has(&a, 100) && !ki_cpuset_has(&a, 4) && !ki_cpuset_has(&a, -1) &&
                !ki_cpuset_has(&a, KI_CPU_LIMIT) && !ki_cpuset_has(&none, 0));
    assert_true(ki_cpuset_intersects(&a, &b) && !ki_cpuset_intersects(&a, &none));
    assert_true(ki_cpuset_is_equal(&a, &a) && !ki_cpuset_is_equal(&a, &b) && ki_cpuset_is_equal(&none, &none));
    assert_int_equal(ki_cpuset_first(&a, -1), 0);
    assert_int_equal(ki_cpuset_first(&a, 3), 100);
    assert_int_equal(ki_cpuset_first(&a, 100), -1);
    assert_int_equal(ki_cpuset_first(&none, -1), -1);
    assert_false(ki_cpuset_add(&a, KI_CPU_LIMIT));
    assert_false(ki_cpuset_add(&a, -1));
    ki_cpuset_fini(&a);
    ki_cpuset_fini(&b);
    ki_cpuset_fini(&none);
}

/* ---- host lists ---- */

typedef struct names {
    char text[512];
    int count;
} names;

static kith_status add(void *arg, const char *name)
{
    names *n = (names *)arg;
    size_t used = strlen(n->text);
    snprintf(n->text + used, sizeof n->text - used, "%s%s", used > 0 ? " " : "", name);
    n->count++;
    return strcmp(name, "stop") == 0 ? KITH_ERR_ABORTED : KITH_OK;
}

static void expect_hosts(const char *list, const char *wanted)
{
    names n = { "", 0 };
    if (ki_hostlist_each(list, strlen(list), 1000, add, &n) != KITH_OK)
        fail_msg("'%s' was refused: %s", list, kith_error_detail());
    assert_string_equal(n.text, wanted);
}

static void refuse_hosts(const char *list, const char *reason)
{
    names n = { "", 0 };
    if (ki_hostlist_each(list, strlen(list), 1000, add, &n) != KITH_ERR_INVALID_ARG)
        fail_msg("'%s' was read as %s", list, n.text);
    if (strstr(kith_error_detail(), reason) == NULL)
        fail_msg("'%s': wanted '%s', got '%s'", list, reason, kith_error_detail());
}

static void test_hosts(void **state)
{
    (void)state;
    expect_hosts("", "");
    expect_hosts("gpu1", "gpu1");
    expect_hosts("a,b", "a b");
    expect_hosts("gpu[8-11]", "gpu8 gpu9 gpu10 gpu11");
    expect_hosts("gpu[008-011]", "gpu008 gpu009 gpu010 gpu011");
    expect_hosts("gpu[1,3-4,007]", "gpu1 gpu3 gpu4 gpu007");
    expect_hosts("a[1-2]b[01-02]", "a1b01 a1b02 a2b01 a2b02");
    expect_hosts("a[1-2]x,b[3]", "a1x a2x b3");
    expect_hosts("switch.1.[1-2]", "switch.1.1 switch.1.2");
    expect_hosts("I[21-22],I25", "I21 I22 I25");
    expect_hosts("[1101-1102]", "1101 1102");
    expect_hosts("im[0],grp[23-24]", "im0 grp23 grp24");
    expect_hosts("[1-2][3-4]", "13 14 23 24");
    expect_hosts("n[12345678901-12345678902]", "n12345678901 n12345678902");
    expect_hosts(" a, b\tc ", "a b c"); /* Slurm takes blanks for commas */
}

static void test_hosts_that_are_refused(void **state)
{
    (void)state;
    refuse_hosts("a[1-2", "brackets");
    refuse_hosts("a]1", "brackets");
    refuse_hosts("a[[1]]", "brackets");
    refuse_hosts("a[]", "digits");
    refuse_hosts("a[1,]", "digits");
    refuse_hosts("a[-3]", "digits");
    refuse_hosts("a[1-]", "digits");
    refuse_hosts("a[1-2-3]", "numbers");
    refuse_hosts("a[x-z]", "numbers");
    refuse_hosts("a[3-1]", "backwards");
    refuse_hosts("a[1234567890123456789]", "digits");
    refuse_hosts("a,,b", "empty");
    refuse_hosts(",a", "empty");
    refuse_hosts("a,", "empty");
    refuse_hosts("a[0-999999999]", "more than 1000");
    refuse_hosts("a[1-99][1-99]", "more than 1000");
    char longest[600];
    memset(longest, 'x', sizeof longest - 1);
    longest[sizeof longest - 1] = '\0';
    refuse_hosts(longest, "too long");
    refuse_hosts("[1-2][1-2][1-2][1-2][1-2][1-2][1-2][1-2][1-2][1-2][1-2][1-2][1-2][1-2][1-2][1-2]", "more than 1000");
}

static void test_hosts_stop(void **state)
{
    (void)state;
    names n = { "", 0 };
    assert_int_equal(ki_hostlist_each("a,stop,b", 8, 1000, add, &n), KITH_ERR_ABORTED);
    assert_string_equal(n.text, "a stop");
    n = (names){ "", 0 };
    assert_int_equal(ki_hostlist_each("a[1-3]xyz", 6, 3, add, &n), KITH_OK); /* the length counts, not a NUL */
    assert_string_equal(n.text, "a1 a2 a3");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lists),      cmocka_unit_test(test_list_that_does_not_fit),
        cmocka_unit_test(test_masks),      cmocka_unit_test(test_questions),
        cmocka_unit_test(test_hosts),      cmocka_unit_test(test_hosts_that_are_refused),
        cmocka_unit_test(test_hosts_stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
