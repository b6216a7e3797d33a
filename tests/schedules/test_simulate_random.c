/* tests/schedules/test_simulate_random.c - random plans on random stages with random costs, against a second
 * simulator (simulate_reference.h). Times are small integers, so both must agree to the last bit.
 *
 * Plans are made by taking ready actions of random ranks, so each can run; then messages and what takes no time are
 * strewn into the lists, which must not change a time; then two actions of a list are exchanged, and both sides must
 * agree whether that still runs.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "simulate_help.h"
#include "simulate_reference.h"

static uint64_t random_state;

static int random_below(int bound)
{
    random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (int)((random_state >> 33) % (uint64_t)bound);
}

static bool one_in(int n)
{
    return random_below(n) == 0;
}

/* ---- random plans ---- */

static void append(plan *p, int rank, kith_action_type type, int stage, int microbatch)
{
    list *l = &p->lists[rank];
    l->actions[l->count++] = (kith_action){ type, stage, microbatch, -1, 0 };
}

static bool is_ready(const plan *p, const progress *done, kith_action_type type, int s, int k)
{
    switch (type) {
    case KITH_ACTION_F:
        return !done->f[s][k] && (s == 0 || done->f[s - 1][k]);
    case KITH_ACTION_B:
        return p->has_backward && done->f[s][k] && !done->inputs[s][k] &&
               (s == p->stages - 1 || done->inputs[s + 1][k]);
    default:
        return p->is_split[s][k] && done->inputs[s][k] && !done->weights[s][k];
    }
}

static void settle(progress *done, kith_action_type type, int s, int k)
{
    *(type == KITH_ACTION_F   ? &done->f[s][k]
      : type == KITH_ACTION_B ? &done->inputs[s][k]
                              : &done->weights[s][k]) = true;
}

/* Picks a random ready action of the type; false after some misses. */
static bool pick(const plan *p, const progress *done, kith_action_type type, int rank, int *stage, int *microbatch)
{
    for (int attempt = 0; attempt < 30; attempt++) {
        *stage = random_below(p->stages);
        *microbatch = random_below(p->microbatches);
        if ((rank < 0 || p->rank_of_stage[*stage] == rank) && is_ready(p, done, type, *stage, *microbatch))
            return true;
    }
    return false;
}

static kith_action_type said(const plan *p, kith_action_type type, int s, int k)
{
    return type == KITH_ACTION_B && p->is_split[s][k] ? KITH_ACTION_I : type;
}

/* An action, or an overlapped pair of what was ready before either. Returns how many. */
static int take(plan *p, progress *done, kith_action_type type, int s, int k)
{
    int rank = p->rank_of_stage[s], other_s = -1, other_k = -1;
    kith_action_type other = type == KITH_ACTION_F ? KITH_ACTION_B : KITH_ACTION_F;
    bool is_pair = type != KITH_ACTION_W && one_in(3) && pick(p, done, other, rank, &other_s, &other_k);
    if (type == KITH_ACTION_B && one_in(4))
        append(p, rank, KITH_ACTION_RECOMPUTE, s, k);
    settle(done, type, s, k);
    if (!is_pair) {
        append(p, rank, said(p, type, s, k), s, k);
        return 1;
    }
    settle(done, other, other_s, other_k);
    bool is_forward = type == KITH_ACTION_F; /* which stands first */
    if (is_forward)
        append(p, rank, type, s, k);
    else
        append(p, rank, other, other_s, other_k);
    p->lists[rank].actions[p->lists[rank].count - 1].is_overlapped = 1;
    if (is_forward)
        append(p, rank, said(p, other, other_s, other_k), other_s, other_k);
    else
        append(p, rank, said(p, type, s, k), s, k);
    return 2;
}

static void fill_lists(plan *p)
{
    progress done;
    int left = 0;
    memset(&done, 0, sizeof done);
    for (int s = 0; s < p->stages; s++)
        for (int k = 0; k < p->microbatches; k++) {
            p->is_split[s][k] = p->has_backward && one_in(2);
            left += 1 + p->has_backward + p->is_split[s][k];
        }
    while (left > 0) {
        static const kith_action_type types[] = { KITH_ACTION_F, KITH_ACTION_B, KITH_ACTION_W };
        int s, k;
        kith_action_type type = types[random_below(3)];
        if (pick(p, &done, type, -1, &s, &k))
            left -= take(p, &done, type, s, k);
    }
}

static double random_cost(int most)
{
    return one_in(6) ? 0 : random_below(most + 1);
}

static void random_costs(plan *p, bool has_send)
{
    for (int s = 0; s < p->stages; s++) {
        kith_stage_cost *c = &p->costs[s];
        *c = (kith_stage_cost)KITH_STAGE_COST_INIT;
        c->f = random_cost(9);
        c->i = random_cost(9);
        c->w = random_cost(9);
        c->b = one_in(2) ? -1 : random_cost(20);
        c->fb = one_in(2) ? -1 : 2 * random_cost(15);
        c->recompute = one_in(2) ? -1 : random_cost(9);
        c->send = has_send ? random_cost(12) : 0;
        c->latency = random_cost(5);
        c->activation_nbytes = random_cost(100);
        c->weight_nbytes = random_cost(100);
        c->message_nbytes = random_cost(100);
    }
}

static void random_plan(plan *p, bool has_send)
{
    memset(p, 0, sizeof *p);
    p->ranks = 1 + random_below(RANKS);
    p->stages = p->ranks + random_below(STAGES - p->ranks + 1);
    p->microbatches = 1 + random_below(MICROBATCHES);
    p->has_backward = !one_in(8);
    for (int s = 0; s < p->stages; s++) /* each rank has one, the rest lie anywhere */
        p->rank_of_stage[s] = s < p->ranks ? s : random_below(p->ranks);
    for (int s = p->stages - 1; s > 0; s--) {
        int other = random_below(s + 1), rank = p->rank_of_stage[s];
        p->rank_of_stage[s] = p->rank_of_stage[other];
        p->rank_of_stage[other] = rank;
    }
    random_costs(p, has_send);
    fill_lists(p);
}

/* ---- comparison ---- */

static kith_schedule *made(const plan *p)
{
    kith_schedule *schedule;
    if (kith_schedule_create_custom(p->ranks, p->stages, p->rank_of_stage, p->microbatches, &schedule) != KITH_OK)
        fail_msg("%s", kith_error_detail());
    for (int rank = 0; rank < p->ranks; rank++)
        for (int i = 0; i < p->lists[rank].count; i++)
            if (kith_schedule_append(schedule, rank, &p->lists[rank].actions[i]) != KITH_OK)
                fail_msg("%s", kith_error_detail());
    return schedule;
}

static kith_status simulated_run(const plan *p, const kith_schedule *schedule, kith_simulation **run)
{
    kith_schedule_costs costs = KITH_SCHEDULE_COSTS_INIT;
    costs.stage_count = p->stages;
    costs.stages = p->costs;
    return kith_schedule_simulate(schedule, &costs, run);
}

static bool is_timed(kith_action_type type)
{
    return (type >= KITH_ACTION_F && type <= KITH_ACTION_W) || type == KITH_ACTION_RECOMPUTE;
}

static void expect_same_times(const plan *p, const kith_schedule *schedule, const kith_simulation *run,
                              const reference *r, int seed)
{
    for (int rank = 0; rank < p->ranks; rank++) {
        size_t count, unused;
        const kith_action *actions = kith_schedule_actions(schedule, rank, &count);
        const kith_interval *at = kith_simulation_intervals(run, rank, &unused);
        int wanted = 0;
        for (size_t i = 0; i < count; i++) {
            char text[64];
            if (!is_timed(actions[i].type))
                continue;
            const kith_interval *w = &r->at[rank][wanted++];
            if (at[i].start < w->start || at[i].start > w->start || at[i].end < w->end || at[i].end > w->end)
                fail_msg("seed %d, rank %d, %s: wanted %g to %g, got %g to %g", seed, rank,
                         kith_action_text(&actions[i], text, sizeof text), w->start, w->end, at[i].start, at[i].end);
        }
        assert_int_equal(wanted, p->lists[rank].count);
        const kith_simulation_rank_result *result = kith_simulation_rank(run, rank);
        expect_figure("random plan", "messages", (double)result->sent_count, r->sent_count[rank], 0);
        expect_figure("random plan", "bytes", result->sent_nbytes, r->sent_nbytes[rank], 0);
    }
}

/* Peaks by looking at each moment of the list anew. */
static void expect_same_memory(const plan *p, const kith_simulation *run, int seed)
{
    for (int rank = 0; rank < p->ranks; rank++) {
        const list *l = &p->lists[rank];
        int most = 0, most_weights = 0, most_held = 0;
        double most_nbytes = 0;
        for (int at = 0; at < l->count; at += reference_unit_at(l, at))
            for (int is_end = 0; is_end < 2; is_end++) { /* while the unit runs, and behind it */
                int activations = 0, weights = 0, begun = at + reference_unit_at(l, at), ended = is_end ? begun : at;
                double nbytes = 0;
                for (int i = 0; i < begun; i++) {
                    const kith_action *a = &l->actions[i];
                    bool is_f = a->type == KITH_ACTION_F, is_i = a->type == KITH_ACTION_I, has_ended = i < ended;
                    int plus = is_f - (has_ended && (is_i || a->type == KITH_ACTION_B || (is_f && !p->has_backward)));
                    int plus_weights = has_ended ? is_i - (a->type == KITH_ACTION_W) : 0;
                    activations += plus;
                    weights += plus_weights;
                    nbytes +=
                        plus * p->costs[a->stage].activation_nbytes + plus_weights * p->costs[a->stage].weight_nbytes;
                }
                most = activations > most ? activations : most;
                most_weights = weights > most_weights ? weights : most_weights;
                most_held = activations + weights > most_held ? activations + weights : most_held;
                most_nbytes = nbytes > most_nbytes ? nbytes : most_nbytes;
            }
        const kith_simulation_rank_result *got = kith_simulation_rank(run, rank);
        if (got->in_flight != most || got->in_flight_weights != most_weights || got->held != most_held ||
            fabs(got->peak_nbytes - most_nbytes) > 0)
            fail_msg("seed %d, rank %d: wanted %d %d %d %g, got %d %d %d %g", seed, rank, most, most_weights, most_held,
                     most_nbytes, got->in_flight, got->in_flight_weights, got->held, got->peak_nbytes);
    }
}

static void expect_same_totals(const plan *p, const kith_simulation *run, const reference *r)
{
    double makespan = 0, busiest = 0, longest = 0;
    for (int rank = 0; rank < p->ranks; rank++) {
        double busy = 0;
        const list *l = &p->lists[rank];
        for (int at = 0; at < l->count; at += reference_unit_at(l, at))
            busy += r->at[rank][at].end - r->at[rank][at].start;
        double start = r->at[rank][0].start, end = r->at[rank][l->count - 1].end;
        expect_figure("random plan", "busy", kith_simulation_rank(run, rank)->busy, busy, 0);
        expect_figure("random plan", "start", kith_simulation_rank(run, rank)->start, start, 0);
        expect_figure("random plan", "end", kith_simulation_rank(run, rank)->end, end, 0);
        expect_figure("random plan", "bubble in the span", kith_simulation_rank(run, rank)->span_bubble,
                      end - start - busy, 0);
        makespan = fmax(makespan, end);
        busiest = fmax(busiest, busy);
        longest = fmax(longest, end - start);
    }
    const kith_simulation_total_result *total = kith_simulation_total(run);
    expect_figure("random plan", "makespan", total->makespan, makespan, 0);
    expect_figure("random plan", "bubble", total->bubble, makespan - busiest, 0);
    expect_figure("random plan", "bubble in the span", total->span_bubble, fmax(0, longest - busiest), 0);
}

/* Both ends of each message, somewhere in the lists but not inside a pair, and other actions without time. */
static kith_schedule *strewn(const plan *p)
{
    kith_schedule *schedule;
    bool is_backward = p->has_backward;
    assert_int_equal(kith_schedule_create_custom(p->ranks, p->stages, p->rank_of_stage, p->microbatches, &schedule),
                     KITH_OK);
    for (int rank = 0; rank < p->ranks; rank++) {
        list extra = { .count = 0 };
        for (int s = 0; s < p->stages; s++)
            for (int k = 0; k < p->microbatches && p->rank_of_stage[s] == rank; k++) {
                bool is_down = s > 0 && p->rank_of_stage[s - 1] != rank;
                bool is_up = s + 1 < p->stages && p->rank_of_stage[s + 1] != rank;
                const bool is_there[] = { is_up, is_down, is_down && is_backward, is_up && is_backward };
                for (int type = 0; type < 4; type++)
                    if (is_there[type])
                        extra.actions[extra.count++] =
                            (kith_action){ (kith_action_type)(KITH_ACTION_SEND_F + type), s, k, -1, 0 };
            }
        extra.actions[extra.count++] = (kith_action){ KITH_ACTION_ZERO_GRAD, -1, -1, -1, 0 };
        extra.actions[extra.count++] = (kith_action){ KITH_ACTION_IDLE, -1, -1, -1, 0 };
        const list *l = &p->lists[rank];
        int left = extra.count;
        for (int at = 0; at <= l->count; at++) {
            bool is_inside = at > 0 && at < l->count && l->actions[at - 1].is_overlapped;
            while (!is_inside && left > 0 && (at == l->count || one_in(2))) {
                int which = random_below(left);
                assert_int_equal(kith_schedule_append(schedule, rank, &extra.actions[which]), KITH_OK);
                extra.actions[which] = extra.actions[--left];
            }
            if (at < l->count)
                assert_int_equal(kith_schedule_append(schedule, rank, &l->actions[at]), KITH_OK);
        }
    }
    return schedule;
}

/* Exchanges two actions that stand near each other, so that some plans run still; pairs are let be. */
static void exchange(plan *p)
{
    list *l = &p->lists[random_below(p->ranks)];
    int a = random_below(l->count), b = a + 1 + random_below(3);
    if (b >= l->count)
        return;
    for (int i = 0; i < 2; i++) {
        int at = i == 0 ? a : b;
        if (l->actions[at].is_overlapped || (at > 0 && l->actions[at - 1].is_overlapped))
            return;
    }
    kith_action kept = l->actions[a];
    l->actions[a] = l->actions[b];
    l->actions[b] = kept;
}

static int compare(const plan *p, reference *r, int seed)
{
    kith_schedule *schedule = made(p);
    kith_simulation *run = NULL;
    bool is_running = run_reference(r, p);
    kith_status status = simulated_run(p, schedule, &run);
    if ((status == KITH_OK) != is_running)
        fail_msg("seed %d: the reference %s, the simulation says %s", seed, is_running ? "runs" : "stops",
                 status == KITH_OK ? "ok" : kith_error_detail());
    if (status == KITH_OK) {
        expect_same_times(p, schedule, run, r, seed);
        expect_same_totals(p, run, r);
        expect_same_memory(p, run, seed);
    }
    kith_simulation_destroy(run);
    kith_schedule_destroy(schedule);
    return is_running;
}

static void compare_strewn(const plan *p, const reference *r, int seed)
{
    kith_schedule *schedule = strewn(p);
    kith_simulation *run = NULL;
    if (simulated_run(p, schedule, &run) != KITH_OK)
        fail_msg("seed %d, with messages: %s", seed, kith_error_detail());
    expect_same_times(p, schedule, run, r, seed);
    kith_simulation_destroy(run);
    kith_schedule_destroy(schedule);
}

static void compare_many(bool has_send, int seeds)
{
    plan *p = malloc(sizeof *p);
    reference *r = malloc(sizeof *r);
    int stopped = 0;
    assert_non_null(p);
    assert_non_null(r);
    for (int seed = 0; seed < seeds; seed++) {
        random_state = (uint64_t)seed * 2 + has_send;
        random_plan(p, has_send);
        assert_true(compare(p, r, seed));
        compare_strewn(p, r, seed);
        exchange(p);
        stopped += !compare(p, r, seed);
    }
    free(p);
    free(r);
    if (stopped < seeds / 10 || stopped > seeds * 9 / 10)
        fail_msg("%d of %d exchanged plans stop: the test looks at one side only", stopped, seeds);
}

static void test_latency_alone(void **state)
{
    (void)state;
    compare_many(false, 4000);
}

static void test_filled_connections(void **state)
{
    (void)state;
    compare_many(true, 4000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_latency_alone),
        cmocka_unit_test(test_filled_connections),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
