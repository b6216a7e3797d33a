/* tests/core/test_info.c - kith_info_json(): it is JSON, it has what is promised, and what it lists is tested.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "core/base/json.h"

#include <kith/kith.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static ki_json *information(void)
{
    char *text = NULL;
    ki_json *root = NULL;
    if (kith_info_json(&text) != KITH_OK)
        fail_msg("%s", kith_error_detail());
    if (ki_json_parse(NULL, "info", text, strlen(text), &root) != KITH_OK)
        fail_msg("%s in %s", kith_error_detail(), text);
    kith_free(text);
    return root;
}

static const ki_json *member(const ki_json *object, const char *key, ki_json_type type)
{
    const ki_json *m = ki_json_member(object, key);
    if (m == NULL || m->type != type)
        fail_msg("\"%s\" is %s instead of %s", key, m != NULL ? ki_json_type_name(m->type) : "missing",
                 ki_json_type_name(type));
    return m;
}

static const char *text_of(const ki_json *object, const char *key)
{
    return member(object, key, KI_JSON_STRING)->text;
}

static void test_promised_members(void **state)
{
    (void)state;
    ki_json *root = information();
    assert_string_equal(text_of(root, "version"), kith_version());
    assert_true(text_of(root, "kernels")[0] != '\0');
    const ki_json *backends = member(root, "backends", KI_JSON_ARRAY),
                  *devices = member(root, "devices", KI_JSON_ARRAY);
    int shm = 0;
    for (const ki_json *b = backends->first; b != NULL; b = b->next) {
        const ki_json *available = member(b, "available", KI_JSON_BOOL);
        shm += strcmp(text_of(b, "name"), "shm") == 0 && available->boolean;
        assert_true(available->boolean || text_of(b, "reason")[0] != '\0');
        member(b, "modules", KI_JSON_ARRAY);
        assert_non_null(ki_json_member(b, "variant"));
        assert_non_null(ki_json_member(b, "version"));
    }
    assert_int_equal(shm, 1);
    assert_string_equal(text_of(devices->first, "name"), "host");
    assert_true(member(devices->first, "available", KI_JSON_BOOL)->boolean);
    const ki_json *blas = member(root, "blas", KI_JSON_OBJECT);
    assert_true(text_of(blas, "reason")[0] != '\0');
    if (member(blas, "available", KI_JSON_BOOL)->boolean)
        assert_true(text_of(blas, "library")[0] != '\0');
    ki_json_free(NULL, root);
}

static const ki_json *row(const ki_json *root, const char *name)
{
    const ki_json *found = NULL;
    for (const ki_json *r = member(root, "config", KI_JSON_ARRAY)->first; r != NULL; r = r->next) {
        if (strcmp(text_of(r, "name"), name) != 0)
            continue;
        assert_null(found); /* each name once */
        found = r;
    }
    if (found == NULL)
        fail_msg("no setting %s", name);
    return found;
}

static void test_settings(void **state)
{
    (void)state;
    setenv("KITH_SECRET", "open sesame", 1);
    setenv("KITH_TIMEOUT_MS", "1234", 1);
    setenv("KITH_STORE", "file:///tmp/a \"b\"\\c\x01\xff", 1);
    ki_json *root = information();
    unsetenv("KITH_SECRET");
    unsetenv("KITH_STORE");
    unsetenv("KITH_TIMEOUT_MS");
    assert_string_equal(text_of(row(root, "secret"), "value"), "(set)");
    assert_string_equal(text_of(row(root, "secret"), "origin"), "environment");
    assert_string_equal(text_of(row(root, "timeout_ms"), "value"), "1234");
    assert_string_equal(text_of(row(root, "timeout_ms"), "default"), "0");
    assert_string_equal(text_of(row(root, "timeout_ms"), "env"), "KITH_TIMEOUT_MS");
    assert_string_equal(text_of(row(root, "store"), "value"), "file:///tmp/a \"b\"\\c\x01\xef\xbf\xbd");
    assert_string_equal(text_of(row(root, "check"), "origin"), "default");
    assert_string_equal(text_of(row(root, "shm_cma"), "owner"), "shm");
    for (const ki_json *r = member(root, "config", KI_JSON_ARRAY)->first; r != NULL; r = r->next) {
        assert_true(text_of(r, "help")[0] != '\0' && text_of(r, "owner")[0] != '\0');
        assert_true(strncmp(text_of(r, "env"), "KITH_", 5) == 0);
    }
    ki_json_free(NULL, root);
}

/* ---- algorithms ---- */

static void test_algorithms(void **state)
{
    (void)state;
    ki_json *root = information();
    const ki_json *algorithms = member(root, "algorithms", KI_JSON_OBJECT);
    int of_kind[KITH_COLL_COUNT] = { 0 };
    for (const ki_json *a = member(algorithms, "list", KI_JSON_ARRAY)->first; a != NULL; a = a->next) {
        member(a, "deterministic", KI_JSON_BOOL);
        assert_true(text_of(a, "name")[0] != '\0' && text_of(a, "cost")[0] != '\0');
        for (int kind = 0; kind < KITH_COLL_COUNT; kind++)
            of_kind[kind] += strcmp(text_of(a, "collective"), kith_coll_name((kith_coll_kind)kind)) == 0;
    }
    for (int kind = 0; kind < KITH_COLL_COUNT; kind++)
        assert_true(of_kind[kind] >= 1);
    for (const ki_json *r = member(algorithms, "table", KI_JSON_ARRAY)->first; r != NULL; r = r->next) {
        member(r, "min_ranks", KI_JSON_NUMBER);
        member(r, "max_ranks", KI_JSON_NUMBER);
        member(r, "max_nbytes", KI_JSON_NUMBER);
        assert_true(text_of(r, "collective")[0] != '\0' && text_of(r, "algorithm")[0] != '\0');
    }
    ki_json_free(NULL, root);
}

static char *conformance_list(void)
{
    char path[1000];
    const char *source = getenv("KITH_SOURCE_DIR");
    if (source == NULL) {
        print_message("skipped: KITH_SOURCE_DIR is not set\n");
        skip();
    }
    snprintf(path, sizeof path, "%s/tests/conformance/CMakeLists.txt", source);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    char *text = (char *)calloc(1, 100000);
    assert_true(fread(text, 1, 99999, file) > 0);
    fclose(file);
    return text;
}

/* "set(algorithms_<collective> a b c)": true when word is among them, and counts the words. */
static bool is_listed(const char *text, const char *collective, const char *word, int *count)
{
    char head[100];
    bool is_there = false;
    snprintf(head, sizeof head, "set(algorithms_%s ", collective);
    const char *line = strstr(text, head);
    if (line == NULL)
        return false;
    *count = 0;
    for (const char *p = line + strlen(head); *p != ')' && *p != '\0'; (*count)++) {
        size_t n = strcspn(p, " )");
        is_there |= strlen(word) == n && strncmp(p, word, n) == 0;
        p += n + strspn(p + n, " ");
    }
    return is_there;
}

/* The conformance suite forces every algorithm that there is, and none that there is not. */
static void test_all_algorithms_are_forced_somewhere(void **state)
{
    (void)state;
    char *text = conformance_list();
    ki_json *root = information();
    const ki_json *list = member(member(root, "algorithms", KI_JSON_OBJECT), "list", KI_JSON_ARRAY);
    for (int kind = 0; kind < KITH_COLL_COUNT; kind++) {
        const char *collective = kith_coll_name((kith_coll_kind)kind);
        int there = 0, listed = -1;
        for (const ki_json *a = list->first; a != NULL; a = a->next) {
            if (strcmp(text_of(a, "collective"), collective) != 0)
                continue;
            there++;
            if (!is_listed(text, collective, text_of(a, "name"), &listed))
                fail_msg("tests/conformance/CMakeLists.txt forces no %s=%s", collective, text_of(a, "name"));
        }
        if (there != listed)
            fail_msg("tests/conformance/CMakeLists.txt forces %d algorithms of %s, there are %d", listed, collective,
                     there);
    }
    ki_json_free(NULL, root);
    free(text);
}

static void test_bad_calls(void **state)
{
    (void)state;
    char *text = (char *)1;
    assert_int_equal(kith_info_json(NULL), KITH_ERR_INVALID_ARG);
    setenv("KITH_ALGO", "all_reduce=teleport", 1); /* a setting that is wrong is an error here too */
    assert_int_equal(kith_info_json(&text), KITH_ERR_INVALID_ARG);
    unsetenv("KITH_ALGO");
    assert_non_null(strstr(kith_error_detail(), "teleport"));
    assert_ptr_equal(text, (char *)1);
    kith_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_promised_members), cmocka_unit_test(test_settings),
        cmocka_unit_test(test_algorithms),       cmocka_unit_test(test_all_algorithms_are_forced_somewhere),
        cmocka_unit_test(test_bad_calls),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
