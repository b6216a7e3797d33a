/* tools/train/layout.c - how the ranks share a step.
 *
 * Sizes that the options leave open: one, but for dp, which takes what remains. With --auto the planner chooses among
 * all layouts of the ranks that divide the model.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "engine.h"

#include <stdlib.h>

int64_t train_layout_samples(const train_layout *layout)
{
    return layout->microbatches * layout->micro_batch * layout->dp * layout->ep;
}

int64_t train_layout_sample(const train_layout *layout, int data, int64_t microbatch)
{
    return (microbatch * layout->dp * layout->ep + data) * layout->micro_batch;
}

static bool has_v_stages(kith_schedule_kind kind)
{
    return kind == KITH_SCHEDULE_ZB_V || kind == KITH_SCHEDULE_DUALPIPE_V;
}

static int chunks_of(const train_options *options, kith_schedule_kind kind)
{
    bool has_several =
        kind == KITH_SCHEDULE_INTERLEAVED || kind == KITH_SCHEDULE_LOOPED_BFS || kind == KITH_SCHEDULE_INTERLEAVED_ZB;
    if (options->chunks > 0)
        return options->chunks;
    return has_v_stages(kind) || has_several ? 2 : 1;
}

static bool check_model(const train_options *options, const kith_transformer_config *config, const train_layout *layout,
                        char *sentence, size_t nbytes)
{
    if (layout->stages > config->blocks)
        snprintf(sentence, nbytes, "%d stages (pp %d, %d of them a rank) for %lld blocks: each stage needs one",
                 layout->stages, layout->pp, layout->chunks, (long long)config->blocks);
    else if (layout->chunks > TRAIN_CHUNKS)
        snprintf(sentence, nbytes, "--chunks %d: valid are 1 to %d", layout->chunks, TRAIN_CHUNKS);
    else if (config->positions > 0 && layout->sequence > config->positions)
        snprintf(sentence, nbytes, "--seq %lld: the model has positions for %lld tokens", (long long)layout->sequence,
                 (long long)config->positions);
    else if (layout->ep > 1 && config->experts == 0)
        snprintf(sentence, nbytes, "--ep %d: the model has no experts to deal", layout->ep);
    else if (options->is_sequence_parallel && layout->sequence < layout->tp)
        snprintf(sentence, nbytes, "--sp: a sequence of %lld tokens cannot be split over %d ranks",
                 (long long)layout->sequence, layout->tp);
    else if (layout->microbatches > INT32_MAX / (2 * (int64_t)layout->stages))
        snprintf(sentence, nbytes, "--microbatches %lld: too many", (long long)layout->microbatches);
    else
        return true;
    return false;
}

kith_plan_options train_layout_plan(const train_options *options, const train_layout *layout)
{
    kith_plan_options plan = KITH_PLAN_OPTIONS_INIT;
    plan.tp = layout->tp, plan.pp = layout->pp, plan.dp = layout->dp, plan.ep = layout->ep;
    plan.micro_batch = layout->micro_batch;
    plan.microbatches = layout->microbatches;
    plan.sequence = layout->sequence;
    plan.parameter_nbytes = options->dtype == KITH_BF16 || options->dtype == KITH_F16 ? 2 : 4;
    plan.gradient_nbytes = 4;
    plan.sequence_parallel = options->is_sequence_parallel;
    plan.flash_attention = true; // attention works in blocks, and keeps no s x s matrix
    plan.zero = options->is_sharded ? 1 : 0;
    plan.recompute = options->recompute;
    plan.schedule = layout->schedule == KITH_SCHEDULE_AUTO ? KITH_SCHEDULE_1F1B : layout->schedule;
    plan.chunks = layout->chunks > 1 ? layout->chunks : 0;
    return plan;
}

/* ---- by the planner ---- */

enum { CANDIDATES = 64 };

static bool can_run(const train_options *options, const kith_transformer_config *config, const kith_plan *plan)
{
    train_layout tried = { .tp = plan->options.tp, .pp = plan->options.pp, .ep = plan->options.ep };
    char unused[TRAIN_SENTENCE];
    tried.chunks = chunks_of(options, options->has_schedule ? options->schedule : KITH_SCHEDULE_1F1B);
    tried.stages = tried.pp * tried.chunks;
    tried.sequence = options->sequence;
    return plan->options.cp == 1 && check_model(options, config, &tried, unused, sizeof unused);
}

static bool choose(train_options *options, const kith_transformer_config *config, int world, train_layout *layout,
                   char *sentence, size_t nbytes)
{
    kith_model model = train_config_model("model", config);
    layout->tp = options->tp, layout->pp = options->pp, layout->dp = options->dp;
    layout->ep = config->experts > 0 ? options->ep : 1;
    layout->micro_batch = options->micro_batch, layout->microbatches = options->microbatches;
    kith_plan_options search = train_layout_plan(options, layout);
    search.cp = 1;
    search.global_batch = options->global_batch;
    static kith_plan plans[CANDIDATES]; /* too much for a stack */
    int count = 0, tried = 0, best = 0;
    kith_status status = kith_plan_search(NULL, &model, &search, world, plans, CANDIDATES, &count, &tried);
    while (status == KITH_OK && best < count && !can_run(options, config, &plans[best]))
        best++;
    bool is_found = status == KITH_OK && best < count;
    if (!is_found) {
        snprintf(sentence, nbytes, "--auto: %s",
                 status != KITH_OK ? kith_error_detail() : "no layout of these ranks divides this model");
    } else {
        const kith_plan_options *found = &plans[best].options;
        options->tp = found->tp, options->pp = found->pp, options->dp = found->dp, options->ep = found->ep;
        snprintf(layout->why, sizeof layout->why,
                 "tp %d, pp %d, dp %d, ep %d is the fastest of %d layouts by the planner, reckoned as if on GPUs with "
                 "NVLink",
                 found->tp, found->pp, found->dp, found->ep, tried);
    }
    return is_found;
}

bool train_layout_find(train_options *options, const kith_transformer_config *config, int world, train_layout *layout,
                       char *sentence, size_t nbytes)
{
    *layout = (train_layout){ .schedule = options->has_schedule ? options->schedule : KITH_SCHEDULE_1F1B,
                              .sequence = options->sequence };
    layout->chunks = chunks_of(options, layout->schedule);
    if (options->is_auto && !choose(options, config, world, layout, sentence, nbytes))
        return false;
    char *error = train_options_settle(options, world);
    if (error != NULL) {
        snprintf(sentence, nbytes, "%s", error);
        free(error);
        return false;
    }
    layout->tp = options->tp, layout->pp = options->pp, layout->dp = options->dp, layout->ep = options->ep;
    layout->world = layout->tp * layout->pp * layout->dp * layout->ep;
    layout->stages = layout->pp * layout->chunks;
    layout->micro_batch = options->micro_batch, layout->microbatches = options->microbatches;
    return check_model(options, config, layout, sentence, nbytes);
}
