/* tests/layers/checkpoint/test_ckpt_header.c - headers of safetensors: what is taken, and why the rest is not.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "layers/checkpoint/archive.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define A "\"a\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]}"
#define B "\"b\":{\"data_offsets\":[24,26],\"shape\":[],\"dtype\":\"BF16\"}"

static kith_status parse(const char *text, int64_t data_nbytes, ki_header *header)
{
    char *exact = malloc(strlen(text)); /* so that a read beyond the end is seen */
    memcpy(exact, text, strlen(text));
    kith_status status = ki_header_parse("h", exact, strlen(text), 8 + (int64_t)strlen(text) + data_nbytes, header);
    free(exact);
    return status;
}

static void test_taken(void **state)
{
    (void)state;
    ki_header header;
    assert_int_equal(parse("{" B " , \"__metadata__\":{\"format\":\"pt\",\"x\":\"\\u00e9\"}\n," A "}   ", 26, &header),
                     0);
    assert_int_equal(header.count, 2);
    const ki_stored *a = &header.tensors[0], *b = &header.tensors[1];
    assert_string_equal(a->name, "a");
    assert_true(a->dtype == KITH_F32 && a->dim_count == 2 && a->shape[0] == 2 && a->shape[1] == 3);
    assert_int_equal(a->end - a->begin, 24);
    assert_int_equal(b->begin, a->end);
    assert_true(b->dtype == KITH_BF16 && b->dim_count == 0);
    ki_header_fini(&header);
    assert_int_equal(parse("{}", 0, &header), KITH_OK);
    assert_int_equal(header.count, 0);
    ki_header_fini(&header);
    assert_int_equal(parse("{\"q\\\"\\u0041\":{\"dtype\":\"U8\",\"shape\":[0,5],\"data_offsets\":[0,0]}}", 0, &header),
                     0);
    assert_string_equal(header.tensors[0].name, "q\"A");
    ki_header_fini(&header);
}

static void test_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t data_nbytes;
        const char *detail;
    } cases[] = {
        { "", 0, "expected '{'" },
        { "[]", 0, "expected '{'" },
        { "{" A, 24, "expected '}'" },
        { "{" A ",}", 24, "expected '\"'" },
        { "{" A "}x", 24, "more text" },
        { "{" A "," A "}", 24, "overlaps with a" },
        { "{" A ",\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[20,24]}}", 24, "overlaps with a" },
        { "{" A ",\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[28,32]}}", 32, "4 bytes before it" },
        { "{" A ",\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[24,28]}}", 28, "stands twice" },
        { "{" A "}", 25, "1 bytes behind the last tensor" },
        { "{}", 1, "1 bytes behind" },
        { "{" A "}", 23, "is the file cut off?" },
        { "{\"a\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,20]}}", 20, "[2, 3] of F32 is 24" },
        { "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[8,4]}}", 8, "data_offsets [8, 4]" },
        { "{\"a\":{\"dtype\":\"F3\",\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "the dtype is none" },
        { "{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,4]}}", 4, "is missing" },
        { "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "a key stands twice" },
        { "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"more\":1,\"data_offsets\":[0,4]}}", 4, "another key" },
        { "{\"a\":{\"dtype\":\"F32\",\"shape\":[-1],\"data_offsets\":[0,4]}}", 4, "expected a whole number" },
        { "{\"a\":{\"dtype\":\"F32\",\"shape\":[1.0],\"data_offsets\":[0,4]}}", 4, "expected ']'" },
        { "{\"a\":{\"dtype\":\"F32\",\"shape\":[01],\"data_offsets\":[0,4]}}", 4, "expected a whole number" },
        { "{\"a\":{\"dtype\":\"F32\",\"shape\":[99999999999999999999],\"data_offsets\":[0,4]}}", 4, "2^63" },
        { "{\"a\":{\"dtype\":\"F32\",\"shape\":[4611686018427387904,4],\"data_offsets\":[0,0]}}", 0, "2^63 bytes" },
        { "{\"a\":{\"dtype\":\"F32\",\"shape\":[1,1,1,1,1,1,1,1,1],\"data_offsets\":[0,4]}}", 4, "more than 8" },
        { "{\"a\":{}}", 0, "expected '\"'" },
        { "{\"a\":7}", 0, "expected '{'" },
        { "{\"a", 0, "no string" },
        { "{\"\\u0000\":{}}", 0, "zero character" },
        { "{\"\xff\":{}}", 0, "no string" },
        { "{\"__metadata__\":{\"a\":1}}", 0, "expected '\"'" },
        { "{\"__metadata__\":{},\"__metadata__\":{}}", 0, "__metadata__ stands twice" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ki_header header;
        kith_status status = parse(cases[i].text, cases[i].data_nbytes, &header);
        if (status != KITH_ERR_INVALID_ARG || strstr(kith_error_detail(), cases[i].detail) == NULL)
            fail_msg("%s: got %s '%s', wanted '%s'", cases[i].text, kith_status_name(status), kith_error_detail(),
                     cases[i].detail);
    }
}

/* Whatever a header is cut to is refused. */
static void test_cut(void **state)
{
    (void)state;
    const char text[] = "{\"__metadata__\":{\"format\":\"pt\"}," A "," B "}";
    for (size_t nbytes = 0; nbytes < sizeof text - 1; nbytes++) {
        char *cut = strndup(text, nbytes);
        ki_header header;
        assert_int_equal(parse(cut, 26, &header), KITH_ERR_INVALID_ARG);
        free(cut);
    }
}

static void test_index(void **state)
{
    (void)state;
    static const struct {
        const char *text, *detail; /* NULL: it is taken */
    } cases[] = {
        { "{\"metadata\":{\"total_size\":[1,{\"a\":\"]\\\"\"},null]},\"weight_map\":{\"b\":\"2\",\"a\":\"1\"}}", NULL },
        { "{\"weight_map\":{\"a\":\"1\"},\"more\":-1.5e3}", NULL },
        { "{}", "expected '\"'" },
        { "{\"weight_map\":{}}", "no weight_map" },
        { "{\"metadata\":{}}", "no weight_map" },
        { "{\"weight_map\":{\"a\":\"1\"},\"weight_map\":{\"a\":\"1\"}}", "weight_map stands twice" },
        { "{\"weight_map\":{\"a\":\"1\",\"a\":\"2\"}}", "stands twice" },
        { "{\"weight_map\":{\"a\":\"../1\"}}", "of the same folder" },
        { "{\"weight_map\":{\"a\":\"\"}}", "of the same folder" },
        { "{\"weight_map\":{\"a\":1}}", "expected '\"'" },
        { "{\"metadata\":[,\"weight_map\":{\"a\":\"1\"}}", "expected '}'" },
        { "{\"metadata\":}", "expected a value" },
        { "{\"metadata\":\"", "expected '\"'" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        ki_index index;
        kith_status status = ki_index_parse("i", cases[i].text, strlen(cases[i].text), &index);
        const char *wanted = cases[i].detail;
        if (status != (wanted == NULL ? KITH_OK : KITH_ERR_INVALID_ARG) ||
            (wanted != NULL && strstr(kith_error_detail(), wanted) == NULL))
            fail_msg("%s: got %s '%s', wanted '%s'", cases[i].text, kith_status_name(status), kith_error_detail(),
                     wanted != NULL ? wanted : "ok");
        if (status == KITH_OK) {
            assert_string_equal(index.entries[0].tensor, "a");
            assert_string_equal(index.entries[0].file, "1");
            ki_index_fini(&index);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_taken),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_cut),
        cmocka_unit_test(test_index),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
