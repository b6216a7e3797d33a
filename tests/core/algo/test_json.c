/* tests/core/algo/test_json.c - the JSON reader: what it takes, what it refuses and where, and that no bytes break it.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "core/base/json.h"
#include "fake.h"
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static ki_json *parse(const char *text)
{
    ki_json *root = NULL;
    if (ki_json_parse(NULL, "text", text, strlen(text), &root) != KITH_OK)
        fail_msg("%s: %s", text, kith_error_detail());
    return root;
}

static void refuse(const char *text, const char *wanted)
{
    ki_json *root = NULL;
    kith_status status = ki_json_parse(NULL, "text", text, strlen(text), &root);
    if (status != KITH_ERR_INVALID_ARG || strcmp(kith_error_detail(), wanted) != 0)
        fail_msg("%s: wanted \"%s\", got %d \"%s\"", text, wanted, status, kith_error_detail());
    assert_null(root);
}

static void test_values(void **state)
{
    (void)state;
    ki_json *root = parse(" { \"a\" : [ 1, -2.5e3, true, false, null, \"x\" ],\r\n\t\"b\": { }, \"c\": [] } ");
    assert_int_equal(root->type, KI_JSON_OBJECT);
    const ki_json *a = ki_json_member(root, "a"), *item = a->first;
    assert_int_equal(a->type, KI_JSON_ARRAY);
    assert_true(item->number == 1 && item->next->number == -2500);
    item = item->next->next;
    assert_true(item->type == KI_JSON_BOOL && item->boolean && !item->next->boolean);
    assert_int_equal(item->next->next->type, KI_JSON_NULL);
    assert_string_equal(item->next->next->next->text, "x");
    assert_null(item->next->next->next->next);
    const ki_json *b = ki_json_member(root, "b");
    assert_true(b->type == KI_JSON_OBJECT && !b->first && b->line == 2 && b->column == 7);
    assert_null(ki_json_member(root, "d"));
    assert_null(ki_json_member(a, "a"));
    ki_json_free(NULL, root);
    ki_json_free(NULL, NULL);
}

static void test_strings(void **state)
{
    (void)state;
    ki_json *root = parse("[\"\\\"\\\\\\/\\b\\f\\n\\r\\t\", \"\\u0041\\u00e4\\u20ac\\ud83d\\ude00\", "
                          "\"\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80\", \"a\\u0000b\"]");
    const ki_json *item = root->first;
    assert_string_equal(item->text, "\"\\/\b\f\n\r\t");
    assert_string_equal(item->next->text, "A\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80");
    assert_string_equal(item->next->next->text, "\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80");
    assert_int_equal(item->next->next->next->text_nbytes, 3);
    ki_json_free(NULL, root);
}

static void test_numbers(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        double value;
    } cases[] = { { "0", 0 },     { "-0", 0 },     { "10", 10 },     { "0.5", 0.5 },
                  { "1e2", 100 }, { "1E+2", 100 }, { "25e-1", 2.5 }, { "9007199254740993", 9007199254740992.0 },
                  { "1e-400", 0 } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ki_json *root = parse(cases[i].text);
        assert_true(root->type == KI_JSON_NUMBER && root->number == cases[i].value);
        ki_json_free(NULL, root);
    }
}

static void test_refused(void **state)
{
    (void)state;
    refuse("", "text:1:1: the text ends where a value is expected");
    refuse("{\"a\":1,}", "text:1:8: expected a string");
    refuse("[1,]", "text:1:4: expected a value: object, array, string, number, true, false or null");
    refuse("[1 2]", "text:1:4: expected ',' or ']'");
    refuse("{\"a\" 1}", "text:1:6: expected ':' after the key");
    refuse("{\"a\":1\n \"b\":2}", "text:2:2: expected ',' or '}'");
    refuse("{\"a\":1,\n\"a\":2}", "text:2:1: this key stands twice in the object");
    refuse("{\"a\\u0000\":1}", "text:1:2: a key with a zero character");
    refuse("1 2", "text:1:3: more text after the value");
    refuse("01", "text:1:1: a number must not begin with 0");
    refuse("1.", "text:1:3: expected a digit");
    refuse("1e", "text:1:3: expected a digit");
    refuse("-", "text:1:2: expected a digit");
    refuse("1e999", "text:1:6: a number beyond the range of double");
    refuse("tru", "text:1:1: expected a value: object, array, string, number, true, false or null");
    refuse("\"a", "text:1:3: the text ends inside a string");
    refuse("\"a\nb\"", "text:1:3: a control character inside a string");
    refuse("\"\\x\"", "text:1:3: unknown escape; valid are \\\" \\\\ \\/ \\b \\f \\n \\r \\t \\uXXXX");
    refuse("\"\\u12g4\"", "text:1:6: \\u needs four hexadecimal digits");
    refuse("\"\\ud800\"", "text:1:8: a high surrogate without a low one");
    refuse("\"\\udc00\"", "text:1:8: a low surrogate without a high one");
    refuse("\"\xff\"", "text:1:2: not UTF-8");
    refuse("\"\xc0\xaf\"", "text:1:2: not UTF-8");
    refuse("\"\xed\xa0\x80\"", "text:1:2: not UTF-8");
    refuse("// c\n1", "text:1:1: expected a value: object, array, string, number, true, false or null");
    refuse("[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]",
           "text:1:33: nested too deeply (at most 32 levels)");
}

/* Every prefix and many mutations of a valid text: an answer each time, and for prefixes always the refusal. */
static void test_fuzz(void **state)
{
    (void)state;
    static const char text[] =
        "{\"version\": 1, \"rules\": [{\"collective\": \"all_reduce\", \"max_nbytes\": \"64k\", \"x\": "
        "[-1.5e+3, true, false, null, \"\\u00e4\\n\\ud83d\\ude00 \xc3\xa4\"]}]}";
    size_t n = sizeof text - 1, accepted = 0;
    uint64_t random = 42;
    kith_log_set(NULL, NULL, KITH_LOG_NONE);
    for (size_t cut = 0; cut < n; cut++) {
        char *copy = malloc(cut + 1); /* exact, so that reading past it shows */
        ki_json *root = NULL;
        memcpy(copy, text, cut);
        assert_int_equal(ki_json_parse(NULL, "fuzz", copy, cut, &root), KITH_ERR_INVALID_ARG);
        free(copy);
    }
    for (int round = 0; round < 20000; round++) {
        char *copy = malloc(n);
        ki_json *root = NULL;
        memcpy(copy, text, n);
        for (uint64_t k = fake_random(&random) % 3 + 1; k > 0; k--) {
            size_t at = fake_random(&random) % n;
            copy[at] = fake_random(&random) % 2 ? (char)fake_random(&random) : text[fake_random(&random) % n];
        }
        if (ki_json_parse(NULL, "fuzz", copy, n, &root) == KITH_OK) {
            ki_json_free(NULL, root);
            accepted++;
        }
        free(copy);
    }
    assert_in_range(accepted, 100, 15000);
}

/* Reading a file that grows over the first buffer. */
static void test_file(void **state)
{
    (void)state;
    char path[] = "/tmp/kith_json_XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    FILE *file = fdopen(fd, "w");
    fputs("[0", file);
    for (int i = 1; i < 5000; i++)
        fprintf(file, ",%d", i);
    fputs("]", file);
    fclose(file);
    ki_json *root = NULL;
    assert_int_equal(ki_json_read(NULL, path, &root), KITH_OK);
    int i = 0;
    for (const ki_json *item = root->first; item; item = item->next)
        assert_true(item->number == i++);
    assert_int_equal(i, 5000);
    ki_json_free(NULL, root);
    remove(path);
    assert_int_equal(ki_json_read(NULL, path, &root), KITH_ERR_IO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),  cmocka_unit_test(test_strings), cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_refused), cmocka_unit_test(test_fuzz),    cmocka_unit_test(test_file),
    };
    return cmocka_run_group_tests_name("json", tests, NULL, NULL);
}
