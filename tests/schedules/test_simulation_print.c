/* tests/schedules/test_simulation_print.c - what is printed of a simulation: timelines to the character, JSON and
 * traces read back and compared with the figures.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "simulate_help.h"

#include "core/base/fault.h"
#include "core/base/json.h"
#include "core/base/mem.h"
#include "schedules/schedule.h"

/* ---- text ---- */

static char *printed(const simulated *s, kith_simulation_format format, int width, bool has_colour, bool is_ascii)
{
    kith_schedule_print_options o = KITH_SCHEDULE_PRINT_OPTIONS_INIT;
    char *text;
    o.width = width;
    o.has_colour = has_colour;
    o.is_ascii = is_ascii;
    if (kith_simulation_print(s->plan, s->run, format, &o, &text) != KITH_OK)
        fail_msg("%s: %s", s->name, kith_error_detail());
    return text;
}

static void expect_lines(const simulated *s, int width, bool has_colour, bool is_ascii, const char *wanted)
{
    char *text = printed(s, KITH_SIMULATION_TEXT, width, has_colour, is_ascii);
    if (strstr(text, wanted) == NULL)
        fail_msg("%s, %d columns: wanted\n%s\nin\n%s", s->name, width, wanted, text);
    kith_free(text);
}

static void test_timeline(void **state)
{
    (void)state;
    simulated s = simulate(KITH_SCHEDULE_1F1B, 3, 4, 1, "F=1,B=2");
    expect_lines(&s, 50, false, false,
                 "1f1b: 3 ranks, 3 stages, 4 microbatches\n\n"
                 "time   0         5         10        15\n"
                 "rank 0 0░1░2░        0▓▓▓3░1▓▓▓  2▓▓▓  3▓▓▓\n"
                 "rank 1   0░1░    0▓▓▓2░1▓▓▓3░2▓▓▓  3▓▓▓\n"
                 "rank 2     0░0▓▓▓1░1▓▓▓2░2▓▓▓3░3▓▓▓\n\n"
                 "one column: 0.5, ░ F, ▓ B\n\n"
                 "  makespan                             18\n"
                 "  bubble                                6   33.3 % of the makespan\n"
                 "  bubble in the span                    6   33.3 % of the longest rank's span\n"
                 "  messages                             16   16 bytes together\n");
    expect_lines(&s, 50, false, true,
                 "rank 0 0-1-2-        0===3-1===  2===  3===\n"
                 "rank 1   0-1-    0===2-1===3-2===  3===\n");
    expect_lines(&s, 26, false, true, "rank 0 ---    0=-1= 2= 3=\n"); /* narrower than that is drawn with 40 columns */
    discard(&s);
}

/* With colours the number may fill the block; even and odd microbatches differ. */
static void test_colours(void **state)
{
    (void)state;
    simulated s = simulate(KITH_SCHEDULE_1F1B, 1, 2, 1, "F=1,B=2");
    kith_schedule *plan = empty_plan("0", 11);
    add_actions(plan, 0, "0F0 0F1 0F2 0F3 0F4 0F5 0F6 0F7 0F8 0F9 0F10");
    simulated many = simulate_plan(plan, "F=2", "colours");
    expect_lines(
        &s, 40, true, false,
        "rank 0 \033[30;44m0    \033[0m\033[30;42m0         \033[0m\033[30;104m1    \033[0m\033[30;102m1         "
        "\033[0m\n");
    expect_lines(&many, 40, true, true, "\033[30;104m9  \033[0m\033[30;44m10 \033[0m\n");
    expect_lines(&many, 40, false, true, "rank 0 0--1--2--3--4--5--6--7--8--9--10-\n");
    discard(&s);
    discard(&many);
}

/* All that takes time can be told apart, and chunks have letters. */
static void test_marks(void **state)
{
    (void)state;
    kith_schedule *plan = empty_plan("00", 2);
    add_actions(plan, 0, "0F0 1F0 1RECOMPUTE0 1I0 1W0 (0F1 0B0) 1F1 1B1 0B1");
    simulated s = simulate_plan(plan, "F=1,I=1,W=1", "marks");
    expect_lines(&s, 60, false, false,
                 "rank 0"
                 " 0a░░0b░░0b╱╱0b▒▒0b██1+0▞▞▞▞"
                 "▞▞▞▞▞1b░░1b▓▓▓▓▓▓1a▓▓▓▓▓▓\n\n"
                 "one column: 0.25, ░ F, ▓ B, ▒ I, █ W, ▞ F and B"
                 " overlapped, ╱ recompute; 3b: microbatch 3, the rank's "
                 "second stage\n");
    expect_lines(&s, 60, false, true, "rank 0 0a--0b--0b//0b++0b##1+0%%%%%%%%%1b--1b======1a======\n");
    discard(&s);
}

static void expect_narrow(const char *text, int width)
{
    for (const char *line = text; *line != '\0';) {
        int columns = 0;
        const char *c = line;
        for (; *c != '\n'; c++)
            columns += (*c & 0xc0) != 0x80;
        if (strncmp(line, "rank ", 5) == 0 && columns > width)
            fail_msg("a row of %d columns: wanted at most %d", columns, width);
        if (c > line && c[-1] == ' ')
            fail_msg("a line ends with a space: %.*s", (int)(c - line), line);
        line = c + 1;
    }
}

/* Longer than the width: a column is a round time, and shows what its rank did for most of it. */
static void test_scaled(void **state)
{
    (void)state;
    for (int width = 40; width < 200; width += 7) {
        simulated s = simulate(KITH_SCHEDULE_1F1B, 12, 1000, 1, "F=1.37,B=2.11,L=0.3");
        char *text = printed(&s, KITH_SIMULATION_TEXT, width, false, false);
        expect_narrow(text, width);
        if (strstr(text, "each column shows what its rank did for most of it") == NULL)
            fail_msg("wanted a word about the scale in\n%s", text);
        kith_free(text);
        discard(&s);
    }
    simulated s = simulate(KITH_SCHEDULE_GPIPE, 2, 100, 1, "F=1,B=1");
    /* 202 units of time, 5 a column: the ramps of one unit are too short to be seen,
     * and so is what is in the last column */
    expect_lines(&s, 50, false, true,
                 "time   0         50        100       150\n"
                 "rank 0 --------------------====================.\n"
                 "rank 1 --------------------====================.\n\n"
                 "one column: 5, - F, = B, . busy for less than half\n"
                 "each column shows what its rank did for most of it\n");
    discard(&s);
}

static void test_many_ranks(void **state)
{
    (void)state;
    simulated s = simulate(KITH_SCHEDULE_1F1B, 4096, 2, 1, "F=1,B=2");
    char *text = printed(&s, KITH_SIMULATION_TEXT, 0, false, true);
    if (strlen(text) > 64 * (100 + 130) || strstr(text, "\n... ranks 56 to 4087\nrank 4088 ") == NULL ||
        strstr(text, "\n   ...  ranks 56 to 4087\n  4088 ") == NULL)
        fail_msg("%zu bytes:\n%.3000s", strlen(text), text);
    expect_narrow(text, 100);
    kith_free(text);
    discard(&s);
}

/* Times that are whole to the eye alone: thirds and tenths are exact up to rounding. */
static void test_rounding(void **state)
{
    (void)state;
    simulated s = simulate(KITH_SCHEDULE_1F1B, 2, 3, 1, "F=0.1,B=0.2,L=0.1");
    expect_lines(&s, 40, false, true,
                 "rank 0 0-1-        0===2-1===      2===\n"
                 "rank 1     0-0===1-1===    2-2===\n\n"
                 "one column: 0.05, - F, = B\n");
    discard(&s);
}

static void test_notes_and_nothing(void **state)
{
    (void)state;
    kith_schedule *plan = empty_plan("0", 1);
    add_actions(plan, 0, "0F0");
    assert_int_equal(ki_schedule_add_note(plan, "a \"note\"\n"), KITH_OK);
    simulated s = simulate_plan(plan, "F=0", "nothing");
    expect_lines(&s, 0, false, false, "custom, forward only: 1 rank, 1 stage, 1 microbatch\n\nnothing to draw");
    expect_lines(&s, 0, false, false, "\n\n  note: a \"note\"\n\n");
    char *text = printed(&s, KITH_SIMULATION_JSON, 0, false, false);
    if (strstr(text, "\"notes\": [\"a \\\"note\\\"\\u000a\"]") == NULL)
        fail_msg("wanted the note in\n%s", text);
    kith_free(text);
    discard(&s);
}

/* ---- JSON ---- */

typedef struct document {
    kith_allocator allocator;
    ki_json *root;
} document;

static document parsed(const char *name, char *text)
{
    document d = { .root = NULL };
    ki_allocator_init(&d.allocator, NULL);
    if (ki_json_parse(&d.allocator, name, text, strlen(text), &d.root) != KITH_OK)
        fail_msg("%s in\n%.2000s", kith_error_detail(), text);
    kith_free(text);
    return d;
}

static const ki_json *member(const ki_json *object, const char *key, ki_json_type type)
{
    const ki_json *found = ki_json_member(object, key);
    if (found == NULL || found->type != type)
        fail_msg("%s: wanted %s, got %s", key, ki_json_type_name(type),
                 found == NULL ? "nothing" : ki_json_type_name(found->type));
    return found;
}

static double number(const ki_json *object, const char *key)
{
    return member(object, key, KI_JSON_NUMBER)->number;
}

static const ki_json *element(const ki_json *array, int index)
{
    const ki_json *at = array->first;
    for (int i = 0; i < index && at != NULL; i++)
        at = at->next;
    if (at == NULL)
        fail_msg("%s has no element %d", array->key, index);
    return at;
}

static double number_of_rank(const ki_json *object, const char *key, int rank)
{
    return element(member(object, key, KI_JSON_ARRAY), rank)->number;
}

static void expect_rank(const simulated *s, const ki_json *root, int rank)
{
    const kith_simulation_rank_result *r = kith_simulation_rank(s->run, rank);
    const ki_json *bubble = member(root, "bubble", KI_JSON_OBJECT), *sent = member(root, "messages", KI_JSON_OBJECT);
    expect_figure(s->name, "start", number_of_rank(root, "start", rank), r->start, 0);
    expect_figure(s->name, "end", number_of_rank(root, "end", rank), r->end, 0);
    expect_figure(s->name, "busy", number_of_rank(root, "busy", rank), r->busy, 0);
    expect_figure(s->name, "bubble", number_of_rank(bubble, "per_rank", rank), r->bubble, 0);
    expect_figure(s->name, "span", number_of_rank(bubble, "span", rank), r->span_bubble, 0);
    expect_figure(s->name, "in_flight", number_of_rank(root, "in_flight", rank), r->in_flight, 0);
    expect_figure(s->name, "weights", number_of_rank(root, "in_flight_weights", rank), r->in_flight_weights, 0);
    expect_figure(s->name, "held", number_of_rank(root, "held", rank), r->held, 0);
    expect_figure(s->name, "peak_nbytes", number_of_rank(root, "peak_nbytes", rank), r->peak_nbytes, 0);
    expect_figure(s->name, "messages", number_of_rank(sent, "per_rank", rank), (double)r->sent_count, 0);
    expect_figure(s->name, "nbytes", number_of_rank(sent, "nbytes_per_rank", rank), r->sent_nbytes, 0);
}

static void expect_totals(const simulated *s, const ki_json *root)
{
    const ki_json *bubble = member(root, "bubble", KI_JSON_OBJECT), *sent = member(root, "messages", KI_JSON_OBJECT);
    expect_figure(s->name, "makespan", number(root, "makespan"), s->total->makespan, 0);
    expect_figure(s->name, "bubble", number(bubble, "makespan"), s->total->bubble, 0);
    expect_figure(s->name, "rate", number(bubble, "rate"), s->total->rate, 0);
    expect_figure(s->name, "span", number(bubble, "span_total"), s->total->span_bubble, 0);
    expect_figure(s->name, "span rate", number(bubble, "span_rate"), s->total->span_rate, 0);
    expect_figure(s->name, "messages", number(sent, "count"), (double)s->total->sent_count, 0);
    expect_figure(s->name, "nbytes", number(sent, "nbytes"), s->total->sent_nbytes, 0);
}

static void test_json_figures(void **state)
{
    (void)state;
    simulated s = simulate(KITH_SCHEDULE_LOOPED_BFS, 3, 5, 2, "F=1.1,B=2.3,C=0.7,A=1e9,M=3.5e7");
    document d = parsed(s.name, printed(&s, KITH_SIMULATION_JSON, 0, false, false));
    assert_string_equal(member(d.root, "kind", KI_JSON_STRING)->text, "looped-bfs");
    expect_figure(s.name, "ranks", number(d.root, "ranks"), 3, 0);
    expect_figure(s.name, "stages", number(d.root, "stages"), 6, 0);
    expect_figure(s.name, "chunks", number(d.root, "chunks"), 2, 0);
    expect_figure(s.name, "microbatches", number(d.root, "microbatches"), 5, 0);
    assert_false(member(d.root, "is_lowered", KI_JSON_BOOL)->boolean);
    assert_false(member(d.root, "is_forward_only", KI_JSON_BOOL)->boolean);
    for (int stage = 0; stage < 6; stage++)
        expect_figure(s.name, "rank_of_stage", number_of_rank(d.root, "rank_of_stage", stage), stage % 3, 0);
    for (int rank = 0; rank < 3; rank++) {
        size_t count;
        const kith_action *actions = kith_schedule_actions(s.plan, rank, &count);
        const kith_interval *at = kith_simulation_intervals(s.run, rank, &count);
        expect_rank(&s, d.root, rank);
        const ki_json *cell = element(member(d.root, "actions", KI_JSON_ARRAY), rank)->first;
        const ki_json *times = element(member(d.root, "intervals", KI_JSON_ARRAY), rank)->first;
        for (size_t i = 0; i < count; i++, cell = cell->next, times = times->next) {
            char text[64];
            assert_string_equal(cell->text, kith_action_text(&actions[i], text, sizeof text));
            expect_figure(text, "start", times->first->number, at[i].start, 0);
            expect_figure(text, "end", times->first->next->number, at[i].end, 0);
        }
        assert_true(cell == NULL && times == NULL);
    }
    expect_totals(&s, d.root);
    ki_json_free(&d.allocator, d.root);
    discard(&s);
}

static void test_json_cells(void **state)
{
    (void)state;
    kith_schedule *plan = empty_plan("01", 2);
    add_actions(plan, 0, "ZERO_GRAD 0F0 0SEND_F0 (0F1 0B0) 0B1 0REDUCE_GRAD - OPTIMIZER_STEP");
    add_actions(plan, 1, "1F0 1I0 1W0 1F1 1B1");
    simulated s = simulate_plan(plan, "F=1", "cells");
    char *text = printed(&s, KITH_SIMULATION_JSON, 0, false, false);
    static const char wanted[] = "\"actions\": [\n"
                                 "  [\"ZERO_GRAD\", \"0F0\", \"0SEND_F0\", \"(0F1;0B0)OVERLAP_F_B\", \"0B1\", "
                                 "\"0REDUCE_GRAD\", \"\", \"OPTIMIZER_STEP\"],\n"
                                 "  [\"1F0\", \"1I0\", \"1W0\", \"1F1\", \"1B1\"]\n]";
    if (strstr(text, wanted) == NULL)
        fail_msg("wanted\n%s\nin\n%s", wanted, text);
    kith_free(text);
    discard(&s);
}

/* At the ends of what a double holds all forms stay well formed. */
static void test_extreme_times(void **state)
{
    static const char *const costs[] = { "F=1e307,B=2e307,C=1e306", "F=5e-324,B=1e-323", "F=1e-299,B=1e-299",
                                         "F=1e307,B=1e-300" };
    (void)state;
    for (size_t i = 0; i < sizeof costs / sizeof costs[0]; i++) {
        simulated s = simulate(KITH_SCHEDULE_1F1B, 2, 3, 1, costs[i]);
        kith_free(printed(&s, KITH_SIMULATION_TEXT, 0, false, false));
        for (int format = KITH_SIMULATION_JSON; format <= KITH_SIMULATION_TRACE; format++) {
            document d = parsed(s.name, printed(&s, (kith_simulation_format)format, 0, false, false));
            ki_json_free(&d.allocator, d.root);
        }
        discard(&s);
    }
}

/* ---- traces ---- */

typedef struct arrows {
    int begun[256], ended[256];
    double begin[256], end[256];
} arrows;

static void note_arrow(arrows *a, const ki_json *event, bool is_begin)
{
    int id = (int)number(event, "id");
    assert_true(id >= 0 && id < 256);
    *(is_begin ? &a->begun[id] : &a->ended[id]) += 1;
    *(is_begin ? &a->begin[id] : &a->end[id]) = number(event, "ts");
}

/* Every computation is a block at its time, and every message an arrow with two ends. */
static void test_trace(void **state)
{
    (void)state;
    simulated s = simulate(KITH_SCHEDULE_LOOPED_BFS, 3, 4, 2, "F=1,B=2,C=0.5,L=3");
    document d = parsed(s.name, printed(&s, KITH_SIMULATION_TRACE, 0, false, false));
    arrows a = { { 0 }, { 0 }, { 0 }, { 0 } };
    double busy[3] = { 0, 0, 0 };
    int blocks = 0, names = 0;
    for (const ki_json *e = member(d.root, "traceEvents", KI_JSON_ARRAY)->first; e != NULL; e = e->next) {
        const char *phase = member(e, "ph", KI_JSON_STRING)->text;
        int rank = (int)number(e, "tid");
        assert_true(rank >= 0 && rank < 3);
        expect_figure("trace", "pid", number(e, "pid"), 0, 0);
        names += *phase == 'M';
        if (*phase == 's' || *phase == 'f')
            note_arrow(&a, e, *phase == 's');
        if (*phase != 'X')
            continue;
        const ki_json *arguments = member(e, "args", KI_JSON_OBJECT);
        char cell[64];
        const char *category = member(e, "cat", KI_JSON_STRING)->text;
        snprintf(cell, sizeof cell, "%g%s%g", number(arguments, "stage"), category, number(arguments, "microbatch"));
        assert_string_equal(member(e, "name", KI_JSON_STRING)->text, cell);
        expect_figure(cell, "rank", rank, (int)number(arguments, "stage") % 3, 0);
        expect_figure(cell, "chunk", number(arguments, "chunk"), (int)number(arguments, "stage") / 3, 0);
        busy[rank] += number(e, "dur");
        blocks++;
    }
    expect_figure(s.name, "blocks", blocks, 6 * 4 * 2, 0);
    expect_figure(s.name, "names", names, 1 + 2 * 3, 0);
    for (int rank = 0; rank < 3; rank++)
        expect_figure(s.name, "time of blocks", busy[rank], kith_simulation_rank(s.run, rank)->busy, 0);
    size_t messages = 0;
    for (int id = 0; id < 256; id++) {
        expect_figure(s.name, "ends of an arrow", a.ended[id], a.begun[id], 0);
        messages += a.begun[id] == 1;
        assert_true(a.begun[id] == 0 || a.end[id] > a.begin[id]);
    }
    expect_figure(s.name, "arrows", (double)messages, (double)s.total->sent_count, 0);
    ki_json_free(&d.allocator, d.root);
    discard(&s);
}

static void test_trace_of_lowered(void **state)
{
    (void)state;
    kith_schedule *plan = empty_plan("01", 2);
    add_actions(plan, 0, "0F0 0SEND_F0 (0F1 0B0) 0B1 - OPTIMIZER_STEP");
    add_actions(plan, 1, "1RECV_F0 1F0 1I0 1W0 1F1 1B1 1SEND_B0");
    simulated s = simulate_plan(plan, "F=1", "trace");
    char *text = printed(&s, KITH_SIMULATION_TRACE, 0, false, false);
    const char *wanted[] = {
        "\"name\": \"(0F1;0B0)OVERLAP_F_B\", \"cat\": \"OVERLAP_F_B\", \"ts\": 3, \"dur\": 3, \"args\": {\"stage\": 0, "
        "\"chunk\": 0, \"microbatch\": 1, \"overlapped\": {\"stage\": 0, \"chunk\": 0, \"microbatch\": 0}}}",
        "{\"ph\": \"i\", \"pid\": 0, \"tid\": 0, \"name\": \"OPTIMIZER_STEP\", \"cat\": \"OPTIMIZER_STEP\", \"ts\": ",
    };
    for (int i = 0; i < 2; i++)
        if (strstr(text, wanted[i]) == NULL)
            fail_msg("wanted\n%s\nin\n%s", wanted[i], text);
    if (strstr(text, "SEND") != NULL || strstr(text, "RECV") != NULL)
        fail_msg("messages are arrows, not blocks:\n%s", text);
    document d = parsed("trace", text);
    ki_json_free(&d.allocator, d.root);
    discard(&s);
}

/* ---- refusals ---- */

/* More than any viewer takes, and than memory should be spent on. */
static void test_trace_is_bounded(void **state)
{
    (void)state;
    simulated s = simulate(KITH_SCHEDULE_ZB_H1, 1, 700000, 1, "F=1");
    char *text = NULL;
    assert_int_equal(kith_simulation_print(s.plan, s.run, KITH_SIMULATION_TRACE, NULL, &text), KITH_ERR_UNSUPPORTED);
    assert_null(text);
    if (strstr(kith_error_detail(), "a trace of 2100000 actions: at most 2097152 are written") == NULL)
        fail_msg("got '%s'", kith_error_detail());
    assert_int_equal(kith_simulation_print(s.plan, s.run, KITH_SIMULATION_JSON, NULL, &text), KITH_OK);
    kith_free(text);
    discard(&s);
}

static void test_refusals(void **state)
{
    (void)state;
    simulated s = simulate(KITH_SCHEDULE_1F1B, 2, 2, 1, "F=1"), other = simulate(KITH_SCHEDULE_1F1B, 2, 3, 1, "F=1");
    kith_schedule_print_options o = KITH_SCHEDULE_PRINT_OPTIONS_INIT;
    char *text = NULL;
    expect_failure(kith_simulation_print(s.plan, other.run, KITH_SIMULATION_JSON, NULL, &text), KITH_ERR_INVALID_ARG,
                   "the simulation is not one of this plan");
    expect_failure(kith_simulation_print(s.plan, s.run, (kith_simulation_format)3, NULL, &text), KITH_ERR_INVALID_ARG,
                   "3 is no format of a simulation: valid are 0 to 2");
    expect_failure(kith_simulation_print(NULL, s.run, KITH_SIMULATION_JSON, NULL, &text), KITH_ERR_INVALID_ARG, "NULL");
    o.width = -5;
    expect_failure(kith_simulation_print(s.plan, s.run, KITH_SIMULATION_TEXT, &o, &text), KITH_ERR_INVALID_ARG,
                   "a timeline of -5 columns: valid are 40 to 4096");
    o.struct_size = 0;
    expect_failure(kith_simulation_print(s.plan, s.run, KITH_SIMULATION_TEXT, &o, &text), KITH_ERR_INVALID_ARG,
                   "KITH_SCHEDULE_PRINT_OPTIONS_INIT");
    for (int n = 1; n <= 2; n++) {
        char fault[32];
        snprintf(fault, sizeof fault, "alloc:%d", n);
        setenv("KITH_FAULT", fault, 1);
        ki_fault_configure(0);
        kith_status status = kith_simulation_print(s.plan, s.run, KITH_SIMULATION_TEXT, NULL, &text);
        unsetenv("KITH_FAULT");
        ki_fault_configure(0);
        expect_failure(status, KITH_ERR_NO_MEMORY, "no memory for a timeline");
    }
    assert_null(text);
    discard(&s);
    discard(&other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_timeline),
        cmocka_unit_test(test_colours),
        cmocka_unit_test(test_marks),
        cmocka_unit_test(test_scaled),
        cmocka_unit_test(test_many_ranks),
        cmocka_unit_test(test_rounding),
        cmocka_unit_test(test_notes_and_nothing),
        cmocka_unit_test(test_json_figures),
        cmocka_unit_test(test_json_cells),
        cmocka_unit_test(test_extreme_times),
        cmocka_unit_test(test_trace),
        cmocka_unit_test(test_trace_of_lowered),
        cmocka_unit_test(test_trace_is_bounded),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
