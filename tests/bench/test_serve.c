/* tests/bench/test_serve.c - bench/engine/serve.c: questions and answers of a server.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "../../bench/engine/serve.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

static const bench_limits defaults = { 11, 1000, 150 };

static const char *parse(const char *text, bench_request *request)
{
    json_t *question = json_loads(text, JSON_DECODE_ANY, NULL);
    assert_non_null(question);
    const char *problem = bench_serve_parse(question, &defaults, request);
    json_decref(question);
    return problem;
}

static void a_question_is_understood(void **state)
{
    (void)state;
    bench_request request;
    assert_null(parse("{\"op\": \"all_reduce\", \"nbytes\": 1024, \"mode\": \"back_to_back\", \"variant\": \"mapped\", "
                      "\"round\": 3, \"budget_ms\": 12.5, \"min_iterations\": 5, \"max_iterations\": 50}",
                      &request));
    assert_int_equal(request.command.op, BENCH_ALL_REDUCE);
    assert_int_equal(request.command.mode, BENCH_BACK_TO_BACK);
    assert_int_equal(request.command.nbytes, 1024);
    assert_int_equal(request.command.min_iterations, 5);
    assert_int_equal(request.command.max_iterations, 50);
    assert_true(request.command.budget_ms == 12.5);
    assert_int_equal(request.round, 3);
    assert_string_equal(request.variant, "mapped");
}

static void what_is_not_said_is_default(void **state)
{
    (void)state;
    bench_request request;
    assert_null(parse("{\"op\": \"barrier\", \"variant\": \"raw\"}", &request));
    assert_int_equal(request.command.mode, BENCH_COLD);
    assert_int_equal(request.command.min_iterations, 11);
    assert_int_equal(request.command.max_iterations, 1000);
    assert_true(request.command.budget_ms == 150);
}

static void bad_questions_are_refused(void **state)
{
    (void)state;
    bench_request request;
    static const char *const texts[] = {
        "null",
        "[]",
        "{}",
        "{\"op\": \"allreduce\", \"variant\": \"raw\"}",
        "{\"op\": \"barrier\", \"variant\": \"raw\", \"mode\": \"warm\"}",
        "{\"op\": \"barrier\", \"variant\": \"raw\", \"nbytes\": -1}",
        "{\"op\": \"barrier\", \"variant\": \"raw\", \"max_iterations\": 1000000}",
        "{\"op\": \"barrier\", \"variant\": \"raw\", \"min_iterations\": 0}",
    };
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        assert_non_null(parse(texts[i], &request));
    }
}

static void lines_go_both_ways(void **state)
{
    (void)state;
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    snprintf(address.sun_path, sizeof(address.sun_path), "/tmp/kith-test-serve-%d", (int)getpid());
    unlink(address.sun_path);
    int listener = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(bind(listener, (const struct sockaddr *)&address, sizeof(address)), 0);
    assert_int_equal(listen(listener, 1), 0);
    bench_line *line = bench_serve_connect(address.sun_path);
    assert_non_null(line);
    int asker = accept(listener, NULL, NULL);
    static const char questions[] = "{\"op\": \"barrier\"}\nnonsense\n";
    assert_int_equal(write(asker, questions, sizeof(questions) - 1), sizeof(questions) - 1);
    json_t *question = bench_serve_read(line);
    assert_string_equal(json_string_value(json_object_get(question, "op")), "barrier");
    json_decref(question);
    assert_true(bench_serve_write(line, json_pack("{s:i}", "answer", 42)));
    char answer[64] = "";
    assert_int_equal(read(asker, answer, sizeof(answer) - 1), 14);
    assert_string_equal(answer, "{\"answer\":42}\n");
    json_t *nonsense = bench_serve_read(line);
    assert_true(json_is_null(nonsense));
    close(asker);
    assert_null(bench_serve_read(line));
    bench_serve_close(line);
    close(listener);
    unlink(address.sun_path);
}

static void nobody_listens(void **state)
{
    (void)state;
    char path[300];
    memset(path, 'x', sizeof(path) - 1);
    path[sizeof(path) - 1] = '\0';
    assert_null(bench_serve_connect("/nonexistent/socket"));
    assert_null(bench_serve_connect(path));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_question_is_understood),
        cmocka_unit_test(what_is_not_said_is_default),
        cmocka_unit_test(bad_questions_are_refused),
        cmocka_unit_test(lines_go_both_ways),
        cmocka_unit_test(nobody_listens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
