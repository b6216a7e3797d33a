/* schedules/gen_auto.c - a plan of F, I and W for given costs and a memory bound, one chunk a rank.
 *
 * The problem - least time under a bound on memory - is hard to solve exactly; Qi et al. 2024 (section 3.1) do it with
 * an integer program or a heuristic. Here a greedy list scheduler (auto_run.c) runs under a few rules, and the rules
 * are searched: one after the other is varied while the others stay, as long as that makes the plan better. The figure
 * of merit is the longest span of a rank, which is the time of a step when nothing at its end waits for all ranks;
 * between equals, the makespan. Both come from the scheduler's own clock. The orders of zb-h1 and zb-h2 are tried too,
 * so the result is never worse than one of them that fits. The search ends when no rank is ever idle, or when much work
 * has been spent on a very large problem.
 *
 * With a bound of p M_B the result is as good as zb-h1, with 2 p M_B better than zb-h2 (ZB-1p and ZB-2p of the paper).
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "generate.h"

#include "auto.h"

#include "core/base/error.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

/* ---- what was asked ---- */

#define COST_MAX 1e30 /* sums stay finite, as infinite stands for unknown */

/* Checked as for every plan, and small enough to be added up. */
static kith_status take_costs(const kith_schedule_options *o, const kith_schedule *s, kith_stage_cost **stages)
{
    kith_status status = ki_schedule_stage_costs(s, o->costs, stages);
    for (int r = 0; r < s->ranks && status == KITH_OK; r++) {
        const kith_stage_cost *c = &(*stages)[r];
        double most = fmax(fmax(fmax(c->f, c->i), fmax(c->w, c->send)),
                           fmax(c->latency, fmax(c->activation_nbytes, c->weight_nbytes)));
        if (most > COST_MAX)
            status = ki_fail(KITH_ERR_INVALID_ARG, "costs: %g of stage %d is too large for auto: valid are 0 to %g",
                             most, r, COST_MAX);
    }
    return status;
}

/* The bound, which has to let each rank hold one microbatch in all its states. */
static kith_status take_bound(const kith_schedule_options *o, ki_auto_problem *problem)
{
    double least = 0, activation = 0;
    for (int r = 0; r < o->ranks; r++) {
        activation = fmax(activation, problem->stages[r].activation_nbytes);
        least = fmax(least, problem->stages[r].activation_nbytes + ki_auto_reserve(&problem->stages[r]));
    }
    if (o->memory_bound != 0 && !(o->memory_bound > 0 && o->memory_bound >= least))
        return ki_fail(KITH_ERR_INVALID_ARG, "auto with a memory bound of %g bytes: valid are %g and more, or 0",
                       o->memory_bound, least);
    problem->bound = o->memory_bound > 0 ? o->memory_bound : fmax(o->ranks * activation, least);
    return KITH_OK;
}

/* ---- the search ---- */

#define WORK_MAX 20000000 /* actions in all runs together: about two seconds; most problems end far below */
#define ANY 1e9           /* no limit; finite, as it is multiplied by ranks that may be 0 */

static bool is_better(const ki_auto_run *a, const ki_auto_run *b)
{
    double tolerance = 1e-12 * b->span;
    return a->span < b->span - tolerance || (a->span <= b->span + tolerance && a->makespan < b->makespan);
}

/* No rank can take less than its own work. */
static double least_span(const ki_auto_problem *problem)
{
    double least = 0;
    for (int r = 0; r < problem->ranks; r++)
        least =
            fmax(least, problem->microbatches * (problem->stages[r].f + problem->stages[r].i + problem->stages[r].w));
    return least;
}

/* Two runs: the best so far, and one to try in. */
typedef struct auto_search {
    const ki_auto_problem *problem;
    ki_auto_run best, other;
    ki_auto_rules rules; /* of the best */
    int64_t work_left;   /* actions that may still be scheduled before the search has to be content */
    bool is_found;
} auto_search;

static void try_rules(auto_search *s, const ki_auto_rules *rules)
{
    s->work_left -= 3 * (int64_t)s->problem->ranks * s->problem->microbatches;
    if (!ki_auto_run_go(&s->other, s->problem, rules) || (s->is_found && !is_better(&s->other, &s->best)))
        return;
    ki_auto_run run = s->best;
    s->best = s->other;
    s->other = run;
    s->rules = *rules;
    s->is_found = true;
}

#define VALUES_MAX 12
static const struct {
    size_t member; /* of ki_auto_rules, a double */
    int count;
    double values[VALUES_MAX];
} choices[] = {
    { offsetof(ki_auto_rules, ahead), 11, { 1, 1.25, 1.5, 1.75, 2, 2.05, 2.1, 2.25, 2.5, 3, ANY } },
    { offsetof(ki_auto_rules, fill), 7, { 0, 0.25, 0.5, 0.75, 0.9, 1, 1.5 } },
    { offsetof(ki_auto_rules, lag), 6, { 0, 0.5, 1, 1.5, 2, ANY } },
    { offsetof(ki_auto_rules, patience), 5, { 0, 0.25, 0.5, 0.75, 1 } },
};

/* Each rule in turn through its values, on top of the best so far. */
static void vary(auto_search *s)
{
    for (int prefer = KI_AUTO_BACKWARD; prefer <= KI_AUTO_TURNS && s->work_left > 0; prefer++) {
        ki_auto_rules rules = s->rules;
        rules.prefer = (ki_auto_prefer)prefer;
        try_rules(s, &rules);
    }
    for (size_t i = 0; i < sizeof choices / sizeof choices[0]; i++)
        for (int k = 0; k < choices[i].count && s->work_left > 0; k++) {
            ki_auto_rules rules = s->rules;
            memcpy((char *)&rules + choices[i].member, &choices[i].values[k], sizeof(double));
            try_rules(s, &rules);
        }
}

static void find(auto_search *s)
{
    static const ki_auto_rules greedy = { KI_AUTO_TURNS, ANY, 1, 0, ANY, 0 };
    double least = least_span(s->problem) * (1 + 1e-9);
    try_rules(s, &greedy);
    for (double before = INFINITY; s->work_left > 0 && s->is_found && s->best.span > least && s->best.span < before;) {
        before = s->best.span;
        vary(s);
    }
    for (int hand = 1; hand <= 2 && !(s->is_found && s->best.span <= least); hand++) {
        ki_auto_rules rules = greedy;
        rules.hand = hand;
        try_rules(s, &rules);
    }
}

/* ---- the plan ---- */

static kith_status add_rank(kith_schedule *s, int rank, const char *letters)
{
    int forwards = 0, backwards = 0, weights = 0;
    kith_status status = KITH_OK;
    for (size_t i = 0; i < 3 * (size_t)s->microbatches && status == KITH_OK; i++) {
        if (letters[i] == 'F')
            status = ki_schedule_add(s, rank, KITH_ACTION_F, rank, forwards++);
        else if (letters[i] == 'I')
            status = ki_schedule_add(s, rank, KITH_ACTION_I, rank, backwards++);
        else
            status = ki_schedule_add(s, rank, KITH_ACTION_W, rank, weights++);
    }
    return status;
}

static kith_status plan(const ki_auto_problem *problem, kith_schedule *s)
{
    auto_search search = { .problem = problem, .work_left = WORK_MAX };
    kith_status status = ki_auto_run_init(&search.best, problem);
    if (status == KITH_OK)
        status = ki_auto_run_init(&search.other, problem);
    if (status == KITH_OK) {
        find(&search);
        if (!search.is_found)
            status = ki_fail(KITH_ERR_INTERNAL, "auto found no plan of %d microbatches on %d ranks",
                             problem->microbatches, problem->ranks);
    }
    size_t row = 3 * (size_t)problem->microbatches;
    for (int r = 0; r < problem->ranks && status == KITH_OK; r++)
        status = add_rank(s, r, &search.best.letters[(size_t)r * row]);
    ki_auto_run_fini(&search.best);
    ki_auto_run_fini(&search.other);
    return status;
}

kith_status ki_generate_auto(const kith_schedule_options *o, kith_schedule *s)
{
    kith_stage_cost *stages = NULL;
    kith_status status = take_costs(o, s, &stages);
    ki_auto_problem problem = { o->ranks, o->microbatches, stages, 0 };
    if (status == KITH_OK)
        status = take_bound(o, &problem);
    if (status == KITH_OK)
        status = plan(&problem, s);
    free(stages);
    return status;
}
