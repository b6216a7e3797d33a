/* tests/schedules/test_exchange.c - plans as files of other programs: reading, both dialects, refusals, round trips,
 * and the two listings.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <kith/context.h>
#include <kith/schedule.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static kith_schedule *read_text(const char *text, kith_torch_dialect *dialect)
{
    kith_schedule *plan = NULL;
    kith_status status = kith_schedule_parse("t.csv", text, strlen(text), dialect, &plan);
    if (status != KITH_OK)
        fail_msg("'%s' was refused: %s", text, kith_error_detail());
    return plan;
}

static void expect_refused(const char *text, kith_torch_dialect dialect, const char *sentence)
{
    kith_schedule *plan = NULL;
    kith_status status = kith_schedule_parse("t.csv", text, strlen(text), &dialect, &plan);
    if (status != KITH_ERR_INVALID_ARG)
        fail_msg("'%s': wanted invalid argument, got %s", text, kith_status_name(status));
    if (strstr(kith_error_detail(), sentence) == NULL)
        fail_msg("'%s': wanted a sentence with '%s', got '%s'", text, sentence, kith_error_detail());
    assert_null(plan);
}

static char *write_text(const kith_schedule *plan, kith_schedule_form form, size_t *dropped)
{
    char *text = NULL;
    kith_status status = kith_schedule_write(plan, form, &text, dropped);
    if (status != KITH_OK)
        fail_msg("form %d: %s", (int)form, kith_error_detail());
    return text;
}

static kith_schedule *make(kith_schedule_kind kind, int ranks, int microbatches)
{
    kith_schedule_options o = KITH_SCHEDULE_OPTIONS_INIT;
    kith_schedule *plan = NULL;
    o.kind = kind;
    o.ranks = ranks;
    o.microbatches = microbatches;
    return kith_schedule_create(&o, &plan) == KITH_OK ? plan : NULL;
}

static void expect_same_lists(const kith_schedule *a, const kith_schedule *b)
{
    assert_int_equal(kith_schedule_ranks(a), kith_schedule_ranks(b));
    assert_int_equal(kith_schedule_stages(a), kith_schedule_stages(b));
    assert_int_equal(kith_schedule_microbatches(a), kith_schedule_microbatches(b));
    for (int rank = 0; rank < kith_schedule_ranks(a); rank++) {
        size_t left, right;
        const kith_action *x = kith_schedule_actions(a, rank, &left), *y = kith_schedule_actions(b, rank, &right);
        assert_int_equal(left, right);
        for (size_t i = 0; i < left; i++) {
            char wanted[64], got[64];
            assert_string_equal(kith_action_text(&x[i], wanted, sizeof wanted),
                                kith_action_text(&y[i], got, sizeof got));
            assert_int_equal(x[i].chunk, y[i].chunk);
            assert_int_equal(x[i].is_overlapped, y[i].is_overlapped);
        }
    }
}

static kith_action_type type_at(const kith_schedule *plan, int rank, size_t index)
{
    size_t count;
    const kith_action *actions = kith_schedule_actions(plan, rank, &count);
    assert_true(index < count);
    return actions[index].type;
}

/* ---- reading ---- */

static void small_files_are_read(void **state)
{
    (void)state;
    kith_torch_dialect dialect = KITH_TORCH_AUTO;
    kith_schedule *plan = read_text("0F0,0F1,2F0,,2F1\r\n,1F0,1F1,3F0\r\n", &dialect);
    assert_int_equal(kith_schedule_ranks(plan), 2);
    assert_int_equal(kith_schedule_stages(plan), 4);
    assert_int_equal(kith_schedule_chunks(plan), 2);
    assert_int_equal(kith_schedule_microbatches(plan), 2);
    assert_int_equal(kith_schedule_rank_of_stage(plan, 3), 1);
    assert_int_equal(type_at(plan, 0, 3), KITH_ACTION_IDLE);
    assert_int_equal(type_at(plan, 1, 0), KITH_ACTION_IDLE);
    char *text = write_text(plan, KITH_FORM_TORCH_COMPUTE, NULL);
    assert_string_equal(text, "0F0,0F1,2F0,,2F1\n,1F0,1F1,3F0\n");
    kith_free(text);
    kith_schedule_destroy(plan);
}

static void messages_and_overlaps_are_read(void **state)
{
    (void)state;
    const char *comms = "0UNSHARD,0F0,0SEND_F0,0RECV_B0,0B0,0REDUCE_GRAD,0RESHARD\n1RECV_F0,1F0,1B0,1SEND_B0\n";
    kith_torch_dialect dialect = KITH_TORCH_AUTO;
    kith_schedule *plan = read_text(comms, &dialect);
    assert_true(kith_schedule_is_lowered(plan));
    assert_int_equal(dialect, KITH_TORCH_NEW);
    char *text = write_text(plan, KITH_FORM_TORCH_COMMS, NULL);
    assert_string_equal(text, comms);
    kith_free(text);
    kith_schedule_destroy(plan);

    const char *overlap = "0F0,(0F1;0B0)OVERLAP_F_B,0B1\n";
    plan = read_text(overlap, NULL);
    size_t count;
    assert_int_equal(kith_schedule_actions(plan, 0, &count)[1].is_overlapped, 1);
    assert_int_equal(count, 4);
    text = write_text(plan, KITH_FORM_TORCH_COMPUTE, NULL);
    assert_string_equal(text, overlap);
    kith_free(text);
    kith_schedule_destroy(plan);
}

static void dialects_are_told_apart(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        kith_torch_dialect found;
        kith_action_type second; /* what the second cell means */
    } cases[] = {
        { "0F0,0B0,0W0\n", KITH_TORCH_OLD, KITH_ACTION_I }, /* W without I */
        { "0F0,0BW0\n", KITH_TORCH_OLD, KITH_ACTION_B },    /* BW */
        { "0F0,0I0,0W0\n", KITH_TORCH_NEW, KITH_ACTION_I },
        { "0F0,0B0\n", KITH_TORCH_NEW, KITH_ACTION_B },
        { "0F0,0B0,0F1,0BW1,0W0\n", KITH_TORCH_OLD, KITH_ACTION_I },
        { "0F0,0I0,0F1,0B1,0W0\n", KITH_TORCH_NEW, KITH_ACTION_I },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        kith_torch_dialect dialect = KITH_TORCH_AUTO;
        kith_schedule *plan = read_text(cases[i].text, &dialect);
        if (dialect != cases[i].found || type_at(plan, 0, 1) != cases[i].second)
            fail_msg("%s: wanted dialect %d and %s, got %d and %s", cases[i].text, cases[i].found,
                     kith_action_name(cases[i].second), dialect, kith_action_name(type_at(plan, 0, 1)));
        kith_schedule_destroy(plan);
    }
    expect_refused("0F0,0I0,0W0,0F1,0BW1\n", KITH_TORCH_AUTO, "t.csv:1:5: I");
    expect_refused("0F0,0BW0\n", KITH_TORCH_NEW, "t.csv:1:5: BW");
    kith_torch_dialect old = KITH_TORCH_OLD;
    kith_schedule *plan = read_text("0F0,0B0\n", &old); /* nothing split: the whole backward either way */
    assert_int_equal(type_at(plan, 0, 1), KITH_ACTION_B);
    kith_schedule_destroy(plan);
}

static void what_is_no_cell_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text, *sentence;
    } cases[] = {
        { "0F1xyz\n", "t.csv:1:4: something follows" },
        { "0FOO\n", "t.csv:1:2: expected F, B" },
        { "0F0,F1\n", "t.csv:1:5: expected the number of a stage" },
        { "0F0\n1F0,1X0\n", "t.csv:2:6: expected F, B" },
        { "0F\n", "t.csv:1:3: expected the number of a microbatch" },
        { "-1F0\n", "expected the number of a stage" },
        { "01F0\n", "without leading zeros" },
        { "0F00\n", "without leading zeros" },
        { "99999999999999999999F0\n", "expected the number of a stage" },
        { "0F99999999\n", "expected the number of a microbatch" },
        { "0REDUCE_GRAD3\n", "something follows" },
        { " 0F0\n", "expected the number of a stage" },
        { "(0F0;0B1)OVERLAP\n", "expected ')OVERLAP_F_B'" },
        { "(0F0,0B1)OVERLAP_F_B\n", "expected ';'" },
        { "(0F0;0F1)OVERLAP_F_B\n", "expected F, and B or I" },
        { "(0I0;0F1)OVERLAP_F_B\n", "expected F, and B or I" },
        { "(0F0;0W1)OVERLAP_F_B\n", "expected F, and B or I" },
        { "0F0\n0B0\n", "stage 0 acts on rank 1, and on rank 0 before" },
        { "0F0,2F0\n", "stage 1 of 3 does nothing" },
        { "", "not one action" },
        { "\n\n", "not one action" },
        { ",,,\n", "not one action" },
        { "0UNSHARD\n", "not one microbatch" },
        { "0F0,2F0\n\n1F0\n", "rank 1 has no stage" },
        { "\"0F0\n", "expected the number of a stage" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        expect_refused(cases[i].text, KITH_TORCH_AUTO, cases[i].sentence);
    static const char with_zero[] = "0F0,0\0F1\n";
    kith_schedule *plan = NULL;
    assert_int_equal(kith_schedule_parse("t.csv", with_zero, sizeof with_zero - 1, NULL, &plan), KITH_ERR_INVALID_ARG);
    kith_torch_dialect dialect = KITH_TORCH_AUTO;
    assert_int_equal(kith_schedule_load("/nonexistent/plan.csv", &dialect, &plan), KITH_ERR_IO);
    assert_int_equal(kith_schedule_load("/", &dialect, &plan), KITH_ERR_IO);
}

/* What PyTorch's Schedule1F1B lists for its last rank: the first forward is missing, and a ninth microbatch appears. */
static void a_known_bad_listing_fails_the_check(void **state)
{
    (void)state;
    kith_schedule *plan = read_text("0F1,0B0,0F2,0B1,0F3,0B2,0F4,0B3,0F5,0B4,0F6,0B5,0F7,0B6,0F8,0B7\n", NULL);
    char *report = NULL;
    assert_int_equal(kith_schedule_check(plan, NULL, &report), KITH_ERR_INVALID_ARG);
    if (strstr(kith_error_detail(), "0F0") == NULL && strstr(kith_error_detail(), "microbatch 0") == NULL)
        fail_msg("wanted a sentence about microbatch 0, got '%s'", kith_error_detail());
    assert_non_null(report);
    kith_free(report);
    kith_schedule_destroy(plan);
}

/* The same beside three good ranks: the backward without its forward is named, not a microbatch that only the bad rank
 * knows of. */
static void a_known_bad_listing_is_blamed_on_its_rank(void **state)
{
    (void)state;
    static const char bad[] = "0F0,0F1,0F2,0F3,0B0,0F4,0B1,0F5,0B2,0F6,0B3,0F7,0B4,0B5,0B6,0B7\n"
                              "1F0,1F1,1F2,1B0,1F3,1B1,1F4,1B2,1F5,1B3,1F6,1B4,1F7,1B5,1B6,1B7\n"
                              "2F0,2F1,2B0,2F2,2B1,2F3,2B2,2F4,2B3,2F5,2B4,2F6,2B5,2F7,2B6,2B7\n"
                              "3F1,3B0,3F2,3B1,3F3,3B2,3F4,3B3,3F5,3B4,3F6,3B5,3F7,3B6,3F8,3B7\n";
    kith_schedule *plan = read_text(bad, NULL);
    assert_int_equal(kith_schedule_check(plan, NULL, NULL), KITH_ERR_INVALID_ARG);
    if (strstr(kith_error_detail(), "rank 3: 3F0 is missing") == NULL)
        fail_msg("wanted 3F0 of rank 3, got '%s'", kith_error_detail());
    kith_schedule_destroy(plan);
}

/* Reductions without messages: written with messages, it gets them; it is not run as if it had. */
static void half_a_step_gets_its_messages(void **state)
{
    (void)state;
    kith_schedule *plan = read_text("0F0,0B0,0REDUCE_GRAD\n1F0,1B0,1REDUCE_GRAD\n", NULL), *lowered = NULL;
    assert_false(kith_schedule_is_lowered(plan));
    char *text = write_text(plan, KITH_FORM_TORCH_COMMS, NULL);
    assert_string_equal(text, "0F0,0SEND_F0,0RECV_B0,0B0,0REDUCE_GRAD\n1RECV_F0,1F0,1B0,1SEND_B0,1REDUCE_GRAD\n");
    kith_free(text);
    assert_int_equal(kith_schedule_lower(plan, NULL, &lowered), KITH_ERR_INVALID_ARG);
    assert_non_null(strstr(kith_error_detail(), "reductions or steps already"));
    kith_schedule_destroy(plan);
}

/* A forward with an I, in either dialect: read, proved, simulated, lowered and written as any pair. */
static void overlap_with_i_is_one_everywhere(void **state)
{
    static const struct {
        const char *name, *text;
    } files[] = {
        { "new", "0F0,(0F1;0I0)OVERLAP_F_B,0W0,0I1,0W1\n1F0,1B0,1F1,1B1\n" },
        { "old", "0F0,(0F1;0B0)OVERLAP_F_B,0W0,0B1,0W1\n1F0,1BW0,1F1,1BW1\n" },
    };
    (void)state;
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        kith_schedule *plan = read_text(files[i].text, NULL), *lowered = NULL;
        kith_simulation *run = NULL;
        kith_schedule_costs costs;
        assert_int_equal(kith_schedule_costs_parse("F=1,I=1,W=1,FB=2.5", &costs), KITH_OK);
        if (kith_schedule_check(plan, NULL, NULL) != KITH_OK || kith_schedule_lower(plan, NULL, &lowered) != KITH_OK ||
            kith_schedule_check(lowered, NULL, NULL) != KITH_OK ||
            kith_schedule_simulate(lowered, &costs, &run) != KITH_OK)
            fail_msg("%s: %s", files[i].name, kith_error_detail());
        char *text = write_text(lowered, KITH_FORM_TORCH_COMPUTE, NULL);
        assert_string_equal(text, files[0].text);
        kith_free(text);
        kith_simulation_destroy(run);
        kith_schedule_destroy(lowered);
        kith_schedule_destroy(plan);
    }
}

/* ---- round trips ---- */

/* On one rank a file with messages has none: what is there is written, no more, so it reads back as it was. */
static void files_of_one_rank_are_exact(void **state)
{
    static const char *const files[] = { "0F0,0B0\n", "0F0,0B0,0REDUCE_GRAD\n",
                                         "0F0,1F0,1B0,1REDUCE_GRAD,0B0,0REDUCE_GRAD\n", "0F0,0F1\n",
                                         "0UNSHARD,0F0,0I0,0W0,0RESHARD\n" };
    (void)state;
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        kith_schedule *plan = read_text(files[i], NULL);
        char *text = write_text(plan, KITH_FORM_TORCH_COMMS, NULL);
        assert_string_equal(text, files[i]);
        kith_free(text);
        kith_schedule_destroy(plan);
    }
}

static void plans_survive_a_round_trip(void **state)
{
    (void)state;
    int plans = 0;
    for (int kind = 0; kind < KITH_SCHEDULE_CUSTOM; kind++)
        for (int ranks = 1; ranks <= 5; ranks++)
            for (int microbatches = 1; microbatches <= 12; microbatches++) {
                kith_schedule *plan = make((kith_schedule_kind)kind, ranks, microbatches);
                if (plan == NULL)
                    continue;
                for (int form = KITH_FORM_TORCH_COMPUTE; form <= KITH_FORM_TORCH_COMMS; form++) {
                    char *once = write_text(plan, (kith_schedule_form)form, NULL);
                    kith_schedule *again = read_text(once, NULL);
                    char *twice = write_text(again, (kith_schedule_form)form, NULL);
                    assert_string_equal(once, twice);
                    if (form == KITH_FORM_TORCH_COMPUTE)
                        expect_same_lists(plan, again);
                    kith_free(once);
                    kith_free(twice);
                    kith_schedule_destroy(again);
                }
                kith_schedule_destroy(plan);
                plans++;
            }
    assert_true(plans > 150);
}

static void what_a_form_cannot_say_is_counted(void **state)
{
    (void)state;
    kith_schedule *plan = make(KITH_SCHEDULE_1F1B, 2, 2), *lowered = NULL;
    kith_lower_options o = KITH_LOWER_OPTIONS_INIT;
    assert_int_equal(kith_schedule_lower(plan, &o, &lowered), KITH_OK);
    size_t dropped = 0;
    char *text = write_text(lowered, KITH_FORM_TORCH_COMMS, &dropped);
    assert_int_equal(dropped, 2 + 2 + 4); /* ZERO_GRAD and OPTIMIZER_STEP on two ranks, two inputs, two targets */
    assert_non_null(strstr(text, "REDUCE_GRAD"));
    kith_free(text);
    text = write_text(lowered, KITH_FORM_TORCH_COMPUTE, &dropped);
    assert_string_equal(text, "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n");
    assert_int_equal(dropped, 8 + 8 + 2); /* and eight ends of messages, two reductions */
    kith_free(text);
    kith_schedule_destroy(lowered);
    kith_schedule_destroy(plan);

    plan = read_text("0UNSHARD,0F0,0B0,0RESHARD\n", NULL); /* computation has no word for shards either */
    text = write_text(plan, KITH_FORM_TORCH_COMPUTE, &dropped);
    assert_string_equal(text, "0F0,0B0\n");
    assert_int_equal(dropped, 2);
    kith_free(text);
    kith_schedule_destroy(plan);
}

/* ---- listings ---- */

/* The list of a rank and a step, without brackets. */
static void step_of(const char *text, int rank, int step, char *out, size_t nbytes)
{
    char head[64];
    snprintf(head, sizeof head, "# stage %d ", rank);
    const char *at = strstr(text, head);
    for (int i = 0; at != NULL && i <= step; i++)
        at = strchr(at, '\n') + 1;
    assert_non_null(at);
    snprintf(out, nbytes, "%.*s", (int)(strchr(at, '\n') - at), at);
}

/* DeepSpeed's train schedule: F of stage s and microbatch i in step s + 2i, B in step 2p - 1 - s + 2i; buffers are
 * max(2, min(p - s, m)). */
static void deepspeed_has_its_own_steps(void **state)
{
    (void)state;
    static const int sizes[][2] = { { 4, 8 }, { 2, 3 }, { 3, 1 }, { 4, 2 }, { 1, 4 }, { 6, 13 } };
    for (size_t n = 0; n < sizeof sizes / sizeof sizes[0]; n++) {
        int p = sizes[n][0], m = sizes[n][1];
        kith_schedule *plan = make(KITH_SCHEDULE_1F1B, p, m);
        char *text = write_text(plan, KITH_FORM_DEEPSPEED, NULL);
        for (int s = 0; s < p; s++) {
            int held = p - s < m ? p - s : m, buffers = held > 2 ? held : 2;
            char line[512], wanted[64];
            snprintf(wanted, sizeof wanted, "# stage %d of %d: %d steps, %d buffers", s, p, 2 * (m + p - 1), buffers);
            assert_non_null(strstr(text, wanted));
            for (int i = 0; i < m; i++) {
                step_of(text, s, s + 2 * i, line, sizeof line);
                snprintf(wanted, sizeof wanted, "ForwardPass(buffer_id=%d)", i % buffers);
                if (strstr(line, wanted) == NULL)
                    fail_msg("p %d m %d stage %d step %d: wanted %s, got %s", p, m, s, s + 2 * i, wanted, line);
                step_of(text, s, 2 * p - 1 - s + 2 * i, line, sizeof line);
                snprintf(wanted, sizeof wanted, "BackwardPass(buffer_id=%d)", i % buffers);
                if (strstr(line, wanted) == NULL)
                    fail_msg("p %d m %d stage %d step %d: wanted %s, got %s", p, m, s, 2 * p - 1 - s + 2 * i, wanted,
                             line);
            }
            step_of(text, s, 2 * (m + p - 1) - 1, line, sizeof line);
            assert_non_null(strstr(line, "ReduceTiedGrads(), ReduceGrads(), OptimizerStep()]"));
        }
        kith_free(text);
        kith_schedule_destroy(plan);
    }
}

static void deepspeed_orders_a_step(void **state)
{
    (void)state;
    kith_schedule *plan = make(KITH_SCHEDULE_1F1B, 4, 8);
    char *text = write_text(plan, KITH_FORM_DEEPSPEED, NULL), line[512];
    step_of(text, 0, 0, line, sizeof line);
    assert_string_equal(line, "[LoadMicroBatch(buffer_id=0), ForwardPass(buffer_id=0)]");
    step_of(text, 1, 1, line, sizeof line);
    assert_string_equal(line, "[RecvActivation(buffer_id=0), ForwardPass(buffer_id=0)]");
    step_of(text, 3, 4, line, sizeof line);
    assert_string_equal(line, "[BackwardPass(buffer_id=0)]");
    step_of(text, 3, 5, line, sizeof line);
    assert_string_equal(line, "[SendGrad(buffer_id=0), RecvActivation(buffer_id=1), LoadMicroBatch(buffer_id=1), "
                              "ForwardPass(buffer_id=1)]");
    step_of(text, 2, 5, line, sizeof line);
    assert_string_equal(line, "[RecvGrad(buffer_id=0), SendActivation(buffer_id=1), BackwardPass(buffer_id=0)]");
    kith_free(text);
    kith_schedule_destroy(plan);
}

static void shallowspeed_has_what_it_can_run(void **state)
{
    (void)state;
    kith_schedule *plan = make(KITH_SCHEDULE_GPIPE, 2, 2);
    char *text = write_text(plan, KITH_FORM_SHALLOWSPEED, NULL);
    assert_string_equal(text,
                        "# stage 0 of 2\n"
                        "ZeroGrad()\n"
                        "LoadMuBatchInput(buffer_id=0, mubatch_id=0)\nForward(buffer_id=0, mubatch_id=0)\n"
                        "SendActivations(buffer_id=0)\n"
                        "LoadMuBatchInput(buffer_id=0, mubatch_id=1)\nForward(buffer_id=0, mubatch_id=1)\n"
                        "SendActivations(buffer_id=0)\n"
                        "RecvOutputGrad(buffer_id=0)\nBackwardGradAcc(buffer_id=0, mubatch_id=1)\n"
                        "RecvOutputGrad(buffer_id=0)\nBackwardGradAllReduce(buffer_id=0, mubatch_id=0)\n"
                        "OptimizerStep()\n"
                        "# stage 1 of 2\n"
                        "ZeroGrad()\n"
                        "RecvActivations(buffer_id=0)\nForward(buffer_id=0, mubatch_id=0)\n"
                        "RecvActivations(buffer_id=0)\nForward(buffer_id=0, mubatch_id=1)\n"
                        "LoadMuBatchTarget(buffer_id=0, mubatch_id=1)\nBackwardGradAcc(buffer_id=0, mubatch_id=1)\n"
                        "SendInputGrad(buffer_id=0)\n"
                        "LoadMuBatchTarget(buffer_id=0, mubatch_id=0)\n"
                        "BackwardGradAllReduce(buffer_id=0, mubatch_id=0)\nSendInputGrad(buffer_id=0)\n"
                        "OptimizerStep()\n");
    kith_free(text);
    kith_schedule_destroy(plan);

    plan = make(KITH_SCHEDULE_1F1B, 4, 8); /* neighbours would send to each other at once */
    assert_int_equal(kith_schedule_write(plan, KITH_FORM_SHALLOWSPEED, &text, NULL), KITH_ERR_UNSUPPORTED);
    kith_schedule_destroy(plan);
    plan = make(KITH_SCHEDULE_LOOPED_BFS, 2, 2);
    assert_int_equal(kith_schedule_write(plan, KITH_FORM_DEEPSPEED, &text, NULL), KITH_ERR_UNSUPPORTED);
    assert_non_null(strstr(kith_error_detail(), "one stage on each rank"));
    kith_schedule_destroy(plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_files_are_read),
        cmocka_unit_test(messages_and_overlaps_are_read),
        cmocka_unit_test(overlap_with_i_is_one_everywhere),
        cmocka_unit_test(files_of_one_rank_are_exact),
        cmocka_unit_test(dialects_are_told_apart),
        cmocka_unit_test(what_is_no_cell_is_refused),
        cmocka_unit_test(a_known_bad_listing_fails_the_check),
        cmocka_unit_test(a_known_bad_listing_is_blamed_on_its_rank),
        cmocka_unit_test(half_a_step_gets_its_messages),
        cmocka_unit_test(plans_survive_a_round_trip),
        cmocka_unit_test(what_a_form_cannot_say_is_counted),
        cmocka_unit_test(deepspeed_has_its_own_steps),
        cmocka_unit_test(deepspeed_orders_a_step),
        cmocka_unit_test(shallowspeed_has_what_it_can_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
