/* tests/schedules/pipeline_files.c - plans that come with messages and without the rest of a step, as files of PyTorch
 * do: the trainer's load, zero_grad and optimizer_step are called all the same.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "pipeline_cases.h"

#include <kith/pipeline.h>
#include <string.h>

static const toy_options exact = { .replicas = 1, .is_exact = true };

static void replace_plan(trial *t, kith_schedule *plan)
{
    kith_schedule_destroy(t->plan);
    t->toy.plan = t->plan = plan;
}

/* Writes the plan and reads it back. */
static void through_file(trial *t, kith_schedule_form form)
{
    char *text;
    kith_schedule *read;
    REQUIRE_OK(kith_schedule_write(t->plan, form, &text, NULL));
    REQUIRE_OK(kith_schedule_parse("plan", text, strlen(text), NULL, &read));
    kith_free(text);
    replace_plan(t, read);
}

static size_t count_of(const trial *t, kith_action_type type)
{
    size_t count = 0, found = 0;
    const kith_action *list = kith_schedule_actions(kith_pipeline_schedule(t->pipeline), t->toy.rank, &count);
    for (size_t i = 0; i < count; i++)
        found += list[i].type == type;
    return found;
}

static void expect_training(trial *t, rank_info *info)
{
    double parameters[PARAMETERS], grads[PARAMETERS], losses[256];
    toy_parameters(&t->toy.options, parameters);
    toy_reference(&t->toy.options, parameters, grads, losses);
    toy_learn(parameters, grads, PARAMETERS);
    trial_start(t, info->world);
    for (int step = 0; step < 2; step++) {
        toy_reset(&t->toy);
        REQUIRE_OK(kith_pipeline_step(t->pipeline));
        toy_expect_grads(&t->toy, grads, t->what);
        toy_expect_parameters(&t->toy, parameters, t->what);
    }
    REQUIRE(t->toy.steps == 2);
    REQUIRE(count_of(t, KITH_ACTION_REDUCE_GRAD) == (size_t)t->toy.stage_count);
}

static void try_form(rank_info *info, kith_schedule_kind kind, kith_schedule_form form)
{
    trial t;
    if (!trial_plan(&t, info, kind, 2 * info->size, 0, &exact))
        return;
    through_file(&t, form);
    expect_training(&t, info);
    trial_end(&t);
}

/* One where REDUCE_GRAD is there and stands where its writer wanted it. */
static void try_reductions(rank_info *info)
{
    trial t;
    kith_schedule *lowered;
    REQUIRE(trial_plan(&t, info, KITH_SCHEDULE_1F1B, 4, 0, &exact));
    REQUIRE_OK(kith_schedule_lower(t.plan, NULL, &lowered));
    replace_plan(&t, lowered);
    through_file(&t, KITH_FORM_TORCH_COMMS); /* drops the loads, zeroing and steps */
    expect_training(&t, info);
    trial_end(&t);
}

static void try_evaluation(rank_info *info)
{
    trial t;
    double parameters[PARAMETERS], grads[PARAMETERS], losses[256];
    REQUIRE(trial_plan(&t, info, KITH_SCHEDULE_1F1B, 4, 0, &exact));
    replace_plan(&t, toy_plan(KITH_SCHEDULE_1F1B, info->size, 4, 0, true));
    through_file(&t, KITH_FORM_TORCH_COMMS);
    toy_parameters(&t.toy.options, parameters);
    toy_reference(&t.toy.options, parameters, grads, losses);
    t.options.shares_loss = 1;
    trial_start(&t, info->world);
    REQUIRE_OK(kith_pipeline_step(t.pipeline));
    toy_expect_losses(&t.toy, t.pipeline, losses, t.what);
    REQUIRE(t.toy.steps == 0);
    trial_end(&t);
}

/* Who leaves out the step on purpose gets none. */
static void try_accumulation(rank_info *info)
{
    trial t;
    kith_schedule *lowered;
    kith_lower_options lower = KITH_LOWER_OPTIONS_INIT;
    lower.has_step = lower.has_reduce = 0;
    REQUIRE(trial_plan(&t, info, KITH_SCHEDULE_1F1B, 4, 0, &exact));
    REQUIRE_OK(kith_schedule_lower(t.plan, &lower, &lowered));
    replace_plan(&t, lowered);
    trial_start(&t, info->world);
    REQUIRE_OK(kith_pipeline_step(t.pipeline));
    REQUIRE(t.toy.steps == 0 && count_of(&t, KITH_ACTION_OPTIMIZER_STEP) == 0);
    REQUIRE(count_of(&t, KITH_ACTION_REDUCE_GRAD) == 0);
    trial_end(&t);
}

static void case_files(rank_info *info)
{
    for (int kind = 0; kind < KITH_SCHEDULE_CUSTOM; kind++) {
        try_form(info, (kith_schedule_kind)kind, KITH_FORM_TORCH_COMMS);
        try_form(info, (kith_schedule_kind)kind, KITH_FORM_TORCH_COMPUTE);
    }
    try_reductions(info);
    try_evaluation(info);
    try_accumulation(info);
}

const pipeline_case pipeline_files[] = {
    { "files", case_files, false, false },
    { NULL, NULL, false, false },
};
