/* tests/core/test_text.c - growing texts: JSON strings, lists of ranks.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "core/base/json.h"
#include "core/text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void test_growing(void **state)
{
    (void)state;
    ki_text text = { 0 };
    assert_string_equal(ki_text_chars(&text), "");
    for (int i = 0; i < 3000; i++)
        ki_text_add(&text, "%d,", i % 10);
    assert_int_equal(text.length, 6000);
    assert_int_equal(strlen(ki_text_chars(&text)), 6000);
    for (int i = 0; i < 3000; i++)
        assert_true(text.chars[2 * i] == '0' + i % 10 && text.chars[2 * i + 1] == ',');
    ki_text_add(&text, "%5000s|", "x"); /* one piece that is longer than what is free */
    assert_int_equal(text.length, 11001);
    assert_string_equal(text.chars + 10999, "x|");
    assert_false(text.is_failed);
    ki_text_fini(&text);
    assert_string_equal(ki_text_chars(&text), "");
    assert_int_equal(text.length, 0);
}

/* Whatever the text is, what comes out is JSON, and it is the text. */
static void expect_json(const char *value, const char *wanted)
{
    ki_text text = { 0 };
    ki_json *root = NULL;
    ki_text_add_json(&text, value);
    assert_string_equal(ki_text_chars(&text), wanted);
    assert_int_equal(ki_json_parse(NULL, "text", text.chars, text.length, &root), KITH_OK);
    assert_int_equal(root->type, value != NULL ? KI_JSON_STRING : KI_JSON_NULL);
    if (value != NULL)
        assert_string_equal(root->text, value);
    ki_json_free(NULL, root);
    ki_text_fini(&text);
}

static void test_json(void **state)
{
    (void)state;
    expect_json(NULL, "null");
    expect_json("", "\"\"");
    expect_json("all_reduce", "\"all_reduce\"");
    expect_json("a \"quoted\" back\\slash /", "\"a \\\"quoted\\\" back\\\\slash /\"");
    expect_json("tab\tline\nfeed\r\x01\x1f\x7f", "\"tab\\u0009line\\u000afeed\\u000d\\u0001\\u001f\\u007f\"");
    expect_json("Gr\xc3\xbc\xc3\x9f"
                "e %s %n",
                "\"Gr\xc3\xbc\xc3\x9f"
                "e %s %n\"");
}

/* Bytes that are no UTF-8 (a folder's name may be anything) do not break the document. */
static void test_json_of_other_bytes(void **state)
{
    (void)state;
    static const char *const odd[] = { "caf\xe9",          "\xff", "a\xc3", "\xed\xa0\x80", "\xc0\xaf",
                                       "\xf4\x90\x80\x80", "\x80z" };
    for (size_t i = 0; i < sizeof odd / sizeof odd[0]; i++) {
        ki_text text = { 0 };
        ki_json *root = NULL;
        ki_text_add_json(&text, odd[i]);
        if (ki_json_parse(NULL, "text", text.chars, text.length, &root) != KITH_OK)
            fail_msg("case %zu: %s", i, kith_error_detail());
        assert_int_equal(root->type, KI_JSON_STRING);
        ki_json_free(NULL, root);
        ki_text_fini(&text);
    }
}

static void expect_ranges(const char *set, int limit, const char *wanted)
{
    unsigned char is_set[64] = { 0 };
    int count = (int)strlen(set);
    ki_text text = { 0 };
    for (int i = 0; i < count; i++)
        is_set[i] = set[i] == '1';
    ki_text_add_ranges(&text, is_set, count, limit);
    assert_string_equal(ki_text_chars(&text), wanted);
    ki_text_fini(&text);
}

static void test_ranges(void **state)
{
    (void)state;
    expect_ranges("", 4, "");
    expect_ranges("0000", 4, "");
    expect_ranges("0100", 4, "1");
    expect_ranges("0001", 4, "3");
    expect_ranges("0110", 4, "1, 2");
    expect_ranges("0111", 4, "1-3");
    expect_ranges("1111", 4, "0-3");
    expect_ranges("0100111001", 4, "1, 4-6, 9");
    expect_ranges("1010101010", 3, "0, 2, 4 and 2 more");
    expect_ranges("1110111011", 2, "0-2, 4-6 and 2 more");
    expect_ranges("1110111011", 3, "0-2, 4-6, 8, 9");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_growing),
        cmocka_unit_test(test_json),
        cmocka_unit_test(test_json_of_other_bytes),
        cmocka_unit_test(test_ranges),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
