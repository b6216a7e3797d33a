/* topology/plan_search.c - all layouts of a number of ranks, those that fit sorted by step time.
 *
 * Every factorization world = tp * cp * ep * dp * pp is looked at; what the checks of a plan refuse (heads that do not
 * divide, a batch that does not come out even) is no layout and is not counted. All layouts process the same global
 * batch, else their times could not be compared.
 *
 * Placing is what takes long. So all layouts that fit into memory are listed by an estimate of their step time first,
 * then the most promising are placed, and the placed times give the order. What the machine refuses is passed over.
 * They are placed quickly at first, large jobs with few candidates each, and those that are to be shown once more.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "core/base/error.h"
#include "cost.h"
#include "grow.h"
#include "place.h"
#include "plan_parts.h"

#include <stdlib.h>
#include <string.h>

#define DIVISORS_MAX 1024 /* more than any number up to 2^24 has */

/* Three times the plans that are asked for are placed, and at least so many: an estimate may be somewhat off. */
#define PLACED_FACTOR 3
#define PLACED_MIN 24

/* One that fits into memory. */
typedef struct layout {
    int tp, cp, ep, dp, pp;
    int64_t microbatches;
    double estimate_s, least_s; /* least_s: computing and idling alone */
    int index;                  /* in which it was tried: order of equal ones */
} layout;

typedef struct search {
    const kith_topology *topology;
    const kith_model *model;
    kith_plan_options options; /* axes that are 0 are searched */
    ki_layout_room room;
    int world;
    int divisors[DIVISORS_MAX];
    int divisor_count;
    layout *layouts;
    int layout_count, layout_room;
    ki_layout_memo memo;
    ki_cost_session *session; /* for prices */
    kith_plan *plans;
    int capacity, count, tried;
    double placed, most_placed; /* layouts, for telling how far it is */
} search;

static void find_divisors(search *s)
{
    for (int i = 1; i <= s->world && s->divisor_count < DIVISORS_MAX; i++)
        if (s->world % i == 0)
            s->divisors[s->divisor_count++] = i;
}

/* ---- layouts that fit into memory ---- */

static kith_plan_options options_of(const search *s, const layout *l)
{
    kith_plan_options o = s->options;
    o.tp = l->tp;
    o.cp = l->cp;
    o.ep = l->ep;
    o.dp = l->dp;
    o.pp = l->pp;
    o.microbatches = l->microbatches;
    return o;
}

static kith_status no_memory(void)
{
    return ki_fail_quiet(KITH_ERR_NO_MEMORY, "plan: no memory for the search");
}

static kith_status add_layout(search *s, layout l)
{
    if (!ki_grow((void **)&s->layouts, s->layout_count, &s->layout_room, sizeof l))
        return no_memory();
    l.index = s->layout_count;
    s->layouts[s->layout_count++] = l;
    return KITH_OK;
}

/* A layout that is none is passed over; any other failure ends the search. */
static kith_status try_layout(search *s, layout l)
{
    kith_plan plan;
    double together = (double)s->options.micro_batch * l.dp * l.ep;
    if (together > (double)s->options.global_batch || s->options.global_batch % (int64_t)together != 0)
        return KITH_OK;
    l.microbatches = s->options.global_batch / (int64_t)together;
    kith_plan_options o = options_of(s, &l);
    kith_status status = ki_layout_make(s->topology, s->model, &o, &s->memo, &plan);
    if (status == KITH_ERR_INVALID_ARG)
        return KITH_OK;
    if (status != KITH_OK)
        return status;
    s->tried++;
    if (!plan.memory.fits)
        return KITH_OK;
    l.estimate_s = s->topology != NULL ? ki_layout_estimate(&plan, &s->room) : plan.step_s[KITH_PLAN_NVLINK];
    l.least_s = plan.steps[KITH_PLAN_NVLINK].compute_s * (1 + plan.bubble);
    return add_layout(s, l);
}

static bool is_open(int wanted, int size)
{
    return wanted == 0 || wanted == size;
}

/* What ep and dp may be once the others are chosen. */
static kith_status try_rest(search *s, int tp, int cp, int pp, int rest)
{
    kith_status status = KITH_OK;
    for (int i = 0; i < s->divisor_count && status == KITH_OK; i++) {
        int ep = s->divisors[i];
        bool has_place = ep == 1 || ep <= s->model->experts;
        if (!has_place || rest % ep != 0 || !is_open(s->options.ep, ep) || !is_open(s->options.dp, rest / ep))
            continue;
        status = try_layout(s, (layout){ .tp = tp, .cp = cp, .ep = ep, .dp = rest / ep, .pp = pp });
    }
    return status;
}

/* What cp may be once tp and pp are chosen. */
static kith_status try_contexts(search *s, int tp, int pp)
{
    kith_status status = KITH_OK;
    if (!is_open(s->options.tp, tp) || !is_open(s->options.pp, pp) || tp > s->model->heads || pp > s->model->layers)
        return KITH_OK;
    for (int i = 0; i < s->divisor_count && status == KITH_OK; i++) {
        int cp = s->divisors[i];
        int64_t product = (int64_t)tp * pp * cp;
        if (is_open(s->options.cp, cp) && product <= s->world && s->world % product == 0)
            status = try_rest(s, tp, cp, pp, (int)(s->world / product));
    }
    return status;
}

static kith_status try_all(search *s)
{
    int64_t count = s->divisor_count, pairs = count * count;
    kith_status status = KITH_OK;
    for (int64_t i = 0; i < pairs && status == KITH_OK; i++) {
        status = ki_layout_tell(&s->options, "laying out", (double)i / (double)pairs);
        if (status == KITH_OK)
            status = try_contexts(s, s->divisors[i / count], s->divisors[i % count]);
    }
    return status == KITH_OK ? ki_layout_tell(&s->options, "laying out", 1) : status;
}

/* ---- the best of them ---- */

static int compare_layouts(const void *a, const void *b)
{
    const layout *x = (const layout *)a, *y = (const layout *)b;
    if (x->estimate_s != y->estimate_s)
        return x->estimate_s < y->estimate_s ? -1 : 1;
    return (x->index > y->index) - (x->index < y->index);
}

static double step_of(const kith_plan *plan)
{
    return plan->placed_step_s > 0 ? plan->placed_step_s : plan->step_s[KITH_PLAN_NVLINK];
}

/* Keeps the best `capacity`, in order; equal ones in the order in which they came. */
static void keep(search *s, const kith_plan *plan)
{
    int at = s->count;
    while (at > 0 && step_of(&s->plans[at - 1]) > step_of(plan))
        at--;
    if (at >= s->capacity)
        return;
    if (s->count < s->capacity)
        s->count++;
    memmove(&s->plans[at + 1], &s->plans[at], (size_t)(s->count - 1 - at) * sizeof *plan);
    s->plans[at] = *plan;
}

/* Communication only adds to it: not shown, wherever its ranks go. */
static bool is_hopeless(const search *s, const layout *l)
{
    return s->count == s->capacity && l->least_s > step_of(&s->plans[s->count - 1]) * (1 + 1e-9);
}

/* How many are made in full. Without a machine the estimate is the time itself. */
static int64_t placed_most(const search *s)
{
    int64_t most = (int64_t)PLACED_FACTOR * s->capacity;
    if (s->topology == NULL)
        return s->capacity;
    return most > PLACED_MIN ? most : PLACED_MIN;
}

/* From the progress of one layout to that of all. */
static int pass_on(void *arg, const char *what, double fraction)
{
    const search *s = (const search *)arg;
    return s->options.progress(s->options.progress_arg, what, (s->placed + fraction) / s->most_placed);
}

static kith_status place_one(search *s, const layout *l, bool is_quick, kith_plan *plan)
{
    kith_plan_options o = options_of(s, l);
    if (o.progress != NULL) {
        o.progress = pass_on;
        o.progress_arg = s;
    }
    return ki_layout_make_placed(s->topology, s->model, &o, &s->memo, is_quick, s->session, plan, NULL);
}

static int compare_steps(const void *a, const void *b)
{
    double x = step_of((const kith_plan *)a), y = step_of((const kith_plan *)b);
    return (x > y) - (x < y);
}

/* Those that were kept, placed as well as kith_plan_make() does. */
static kith_status place_again(search *s)
{
    for (int i = 0; i < s->count; i++) {
        const kith_plan_options *o = &s->plans[i].options;
        layout l = { .tp = o->tp, .cp = o->cp, .ep = o->ep, .dp = o->dp, .pp = o->pp, .microbatches = o->microbatches };
        kith_status status = place_one(s, &l, false, &s->plans[i]);
        if (status != KITH_OK)
            return status;
        s->placed++;
    }
    qsort(s->plans, (size_t)s->count, sizeof *s->plans, compare_steps);
    return KITH_OK;
}

/* What does not fit the machine's nodes is refused at once and does not count as placed; a link of unknown bandwidth is
 * found out only after placing. The last refusal is the answer where nothing else is. */
static kith_status place_best(search *s)
{
    kith_status refusal = KITH_OK;
    int64_t left = placed_most(s);
    s->most_placed = (double)(left < s->layout_count ? left : s->layout_count);
    if (s->topology != NULL)
        s->most_placed += s->capacity < s->layout_count ? s->capacity : s->layout_count;
    if (s->layout_count > 0)
        qsort(s->layouts, (size_t)s->layout_count, sizeof s->layouts[0], compare_layouts);
    for (int i = 0; i < s->layout_count && left > 0; i++) {
        kith_plan plan;
        kith_status status = KITH_OK;
        bool is_skipped = is_hopeless(s, &s->layouts[i]);
        if (!is_skipped)
            status = place_one(s, &s->layouts[i], true, &plan);
        if (status != KITH_OK && status != KITH_ERR_INVALID_ARG && status != KITH_ERR_UNSUPPORTED)
            return status;
        left -= status != KITH_ERR_INVALID_ARG;
        s->placed += status != KITH_ERR_INVALID_ARG;
        if (status != KITH_OK)
            refusal = status;
        else if (!is_skipped)
            keep(s, &plan);
    }
    if (s->count == 0)
        return refusal;
    if (s->topology != NULL) {
        kith_status status = place_again(s);
        if (status != KITH_OK)
            return status;
    }
    return s->topology != NULL ? ki_layout_tell(&s->options, "placing", 1) : KITH_OK;
}

/* ---- the search ---- */

/* What the plan of one layout takes from the machine, so that memory can be judged without placing. */
static kith_status use_gpus(search *s)
{
    kith_plan probe;
    memset(&probe, 0, sizeof probe);
    probe.options = s->options;
    probe.options.parameter_nbytes = s->options.parameter_nbytes > 0 ? s->options.parameter_nbytes : 2;
    kith_status status = ki_layout_use_gpus(&probe, s->topology);
    s->options.gpu_memory_nbytes = probe.options.gpu_memory_nbytes;
    return status;
}

/* What is given must divide the world, one axis after the other. */
static kith_status check_axes(const search *s)
{
    const int given[] = { s->options.tp, s->options.cp, s->options.ep, s->options.dp, s->options.pp };
    int rest = s->world;
    for (int a = 0; a < KI_AXES; a++) {
        if (given[a] <= 1) /* open, or refused by the checks of a plan */
            continue;
        if (rest % given[a] != 0 && rest == s->world)
            return ki_fail_quiet(KITH_ERR_INVALID_ARG, "plan: %s %d does not divide world %d", ki_axis_names[a],
                                 given[a], s->world);
        if (rest % given[a] != 0)
            return ki_fail_quiet(KITH_ERR_INVALID_ARG,
                                 "plan: %s %d does not divide the %d ranks that the axes before it leave of world %d",
                                 ki_axis_names[a], given[a], rest, s->world);
        rest /= given[a];
    }
    return KITH_OK;
}

static kith_status prepare(search *s, const kith_plan_options *options)
{
    kith_status status = ki_layout_copy_options(options, &s->options);
    if (status == KITH_OK && s->topology != NULL)
        status = ki_layout_room_of(s->topology, &s->room);
    if (status == KITH_OK && s->world == 0 && s->topology != NULL)
        status = ki_layout_choose_world(&s->options, s->topology, &s->world);
    if (status != KITH_OK)
        return status;
    if (s->world < 1 || s->world > 1 << 24)
        return ki_fail_quiet(KITH_ERR_INVALID_ARG, "plan: %d ranks to lay out; valid: 1 to %d", s->world, 1 << 24);
    if (s->topology != NULL && s->world > s->room.total)
        return ki_fail_quiet(KITH_ERR_INVALID_ARG,
                             "plan: world %d is more than the %d GPUs that may be used and answer; valid: 1 to %d",
                             s->world, s->room.total, s->room.total);
    status = check_axes(s);
    if (status != KITH_OK)
        return status;
    kith_plan_options *o = &s->options;
    int chunks = o->chunks;
    status = ki_layout_choose_chunks(o->schedule, o->pp, &chunks);
    if (status != KITH_OK)
        return status;
    if (o->micro_batch < 0 || o->microbatches < 0 || o->global_batch < 0 || o->micro_batch > INT64_C(1) << 32 ||
        o->microbatches > INT64_C(1) << 32)
        return ki_fail_quiet(KITH_ERR_INVALID_ARG, "plan: a batch is negative or absurdly large");
    o->micro_batch = o->micro_batch > 0 ? o->micro_batch : 1;
    int64_t microbatches = o->microbatches > 0 ? o->microbatches : 1;
    if (o->global_batch == 0 && (double)o->micro_batch * (double)microbatches * s->world < 1e12)
        o->global_batch = o->micro_batch * microbatches * s->world;
    find_divisors(s);
    return use_gpus(s);
}

/* Why nothing could be tried: an axis that is given and by itself is refused, else what all have to divide. */
static kith_status nothing_fits(search *s)
{
    const kith_plan_options *given = &s->options;
    const layout alone[] = { { given->tp, 1, 1, 1, 1, .microbatches = 1 },
                             { 1, given->cp, 1, 1, 1, .microbatches = 1 },
                             { 1, 1, given->ep, 1, 1, .microbatches = 1 },
                             { 1, 1, 1, 1, given->pp, .microbatches = given->pp } };
    for (size_t i = 0; i < sizeof alone / sizeof alone[0]; i++) {
        kith_plan plan;
        kith_plan_options o = options_of(s, &alone[i]);
        o.global_batch = 0;
        if (alone[i].tp * alone[i].cp * alone[i].ep * alone[i].pp > 1 &&
            ki_layout_make(NULL, s->model, &o, &s->memo, &plan) == KITH_ERR_INVALID_ARG)
            return KITH_ERR_INVALID_ARG;
    }
    return ki_fail_quiet(KITH_ERR_INVALID_ARG,
                         "plan: no layout of %d ranks divides the model's %lld heads and %lld layers and a global "
                         "batch of %lld by microbatches of %lld",
                         s->world, (long long)s->model->heads, (long long)s->model->layers,
                         (long long)s->options.global_batch, (long long)s->options.micro_batch);
}

kith_status kith_plan_search(const kith_topology *topology, const kith_model *model, const kith_plan_options *options,
                             int world, kith_plan *plans, int capacity, int *count, int *tried)
{
    if (model == NULL || plans == NULL || capacity < 1 || count == NULL || tried == NULL)
        return ki_fail_quiet(KITH_ERR_INVALID_ARG, "plan: the search has no model, or no room for plans");
    search *s = (search *)calloc(1, sizeof *s);
    if (s == NULL)
        return no_memory();
    s->topology = topology;
    s->model = model;
    s->world = world;
    s->plans = plans;
    s->capacity = capacity;
    kith_status status = prepare(s, options);
    if (status == KITH_OK)
        status = try_all(s);
    if (status == KITH_OK && s->tried == 0)
        status = nothing_fits(s);
    if (status == KITH_OK && topology != NULL)
        status = ki_cost_session_create(topology, &s->session);
    if (status == KITH_OK)
        status = place_best(s);
    if (status == KITH_OK) {
        *count = s->count;
        *tried = s->tried;
    }
    ki_layout_memo_fini(&s->memo);
    ki_cost_session_destroy(s->session);
    free(s->layouts);
    free(s);
    return status;
}
