/* tests/schedules/check_help.c - see check_help.h.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "check_help.h"

#include <kith/context.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <ctype.h>

static kith_action action_from(const char *word)
{
    kith_action a = { KITH_ACTION_IDLE, -1, -1, -1, 0 };
    size_t length = strlen(word);
    char name[32] = "";
    if (strcmp(word, ".") == 0)
        return a;
    if (word[length - 1] == '&')
        a.is_overlapped = 1;
    char *end = NULL;
    if (isdigit((unsigned char)word[0]))
        a.stage = (int)strtol(word, &end, 10);
    const char *start = end != NULL ? end : word;
    size_t letters = strspn(start, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_");
    assert_true(letters < sizeof name);
    memcpy(name, start, letters);
    if (isdigit((unsigned char)start[letters]))
        a.microbatch = (int)strtol(start + letters, NULL, 10);
    for (int type = 1; type < KITH_ACTION_TYPE_COUNT; type++)
        if (strcmp(kith_action_name((kith_action_type)type), name) == 0)
            a.type = (kith_action_type)type;
    if (a.type == KITH_ACTION_IDLE)
        fail_msg("'%s' is no action", word);
    return a;
}

static void append_list(kith_schedule *plan, int rank, const char *text)
{
    char *words = strdup(text), *rest = words;
    for (char *word = strtok_r(rest, " ", &rest); word != NULL; word = strtok_r(NULL, " ", &rest)) {
        kith_action a = action_from(word);
        if (kith_schedule_append(plan, rank, &a) != KITH_OK)
            fail_msg("'%s': %s", word, kith_error_detail());
    }
    free(words);
}

kith_schedule *plan_from(int ranks, int stages, int microbatches, bool is_v, const char *const *lists)
{
    int rank_of_stage[64];
    for (int stage = 0; stage < stages; stage++)
        rank_of_stage[stage] = is_v && stage >= ranks ? 2 * ranks - 1 - stage : stage % ranks;
    kith_schedule *plan;
    if (kith_schedule_create_custom(ranks, stages, rank_of_stage, microbatches, &plan) != KITH_OK)
        fail_msg("%s", kith_error_detail());
    for (int rank = 0; rank < ranks; rank++)
        append_list(plan, rank, lists[rank]);
    return plan;
}

const char *list_text(const kith_schedule *plan, int rank)
{
    static char text[1 << 16];
    size_t count, length = 0;
    const kith_action *actions = kith_schedule_actions(plan, rank, &count);
    text[0] = '\0';
    for (size_t i = 0; i < count && length + 64 < sizeof text; i++) {
        char word[64];
        kith_action_text(&actions[i], word, sizeof word);
        length +=
            (size_t)snprintf(text + length, sizeof text - length, "%s%s%s", i > 0 ? " " : "",
                             actions[i].type == KITH_ACTION_IDLE ? "." : word, actions[i].is_overlapped ? "&" : "");
    }
    return text;
}

/* ---- drafts ---- */

void draft_init(draft *d, const kith_schedule *plan)
{
    memset(d, 0, sizeof *d);
    d->ranks = kith_schedule_ranks(plan);
    d->stages = kith_schedule_stages(plan);
    d->microbatches = kith_schedule_microbatches(plan);
    for (int stage = 0; stage < d->stages; stage++)
        d->rank_of_stage[stage] = kith_schedule_rank_of_stage(plan, stage);
    for (int rank = 0; rank < d->ranks; rank++) {
        const kith_action *actions = kith_schedule_actions(plan, rank, &d->lists[rank].count);
        d->lists[rank].actions = malloc((d->lists[rank].count + 16) * sizeof *actions); /* room to insert into */
        if (d->lists[rank].count > 0)
            memcpy(d->lists[rank].actions, actions, d->lists[rank].count * sizeof *actions);
    }
}

void draft_fini(draft *d)
{
    for (int rank = 0; rank < d->ranks; rank++)
        free(d->lists[rank].actions);
}

void draft_insert(draft *d, int rank, size_t position, const kith_action *action)
{
    kith_action copy = *action, *at = d->lists[rank].actions + position;
    memmove(at + 1, at, (d->lists[rank].count - position) * sizeof *at);
    *at = copy;
    d->lists[rank].count++;
}

void draft_remove(draft *d, int rank, size_t position)
{
    kith_action *at = d->lists[rank].actions + position;
    d->lists[rank].count--;
    memmove(at, at + 1, (d->lists[rank].count - position) * sizeof *at);
}

kith_schedule *draft_plan(const draft *d)
{
    kith_schedule *plan;
    if (kith_schedule_create_custom(d->ranks, d->stages, d->rank_of_stage, d->microbatches, &plan) != KITH_OK)
        return NULL;
    for (int rank = 0; rank < d->ranks; rank++)
        for (size_t i = 0; i < d->lists[rank].count; i++)
            if (kith_schedule_append(plan, rank, &d->lists[rank].actions[i]) != KITH_OK) {
                kith_schedule_destroy(plan);
                return NULL;
            }
    return plan;
}

unsigned random_below(uint64_t *seed, unsigned count)
{
    *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (unsigned)(*seed >> 33) % count;
}

/* ---- the strict clock ---- */

typedef struct strict_rank {
    size_t at;
    double time;
} strict_rank;

static bool is_peer(const kith_action *a, const kith_action *b)
{
    switch (a->type) {
    case KITH_ACTION_SEND_F:
        return b->type == KITH_ACTION_RECV_F && b->stage == a->stage + 1 && b->microbatch == a->microbatch;
    case KITH_ACTION_SEND_B:
        return b->type == KITH_ACTION_RECV_B && b->stage == a->stage - 1 && b->microbatch == a->microbatch;
    case KITH_ACTION_REDUCE_TIED:
        return b->type == KITH_ACTION_REDUCE_TIED && b->stage != a->stage;
    default:
        return is_peer(b, a);
    }
}

static bool find_peer(const kith_schedule *plan, const kith_action *a, int *rank, size_t *position)
{
    for (*rank = 0; *rank < kith_schedule_ranks(plan); ++*rank) {
        size_t count;
        const kith_action *actions = kith_schedule_actions(plan, *rank, &count);
        for (*position = 0; *position < count; ++*position) {
            kith_action_type type = actions[*position].type;
            bool may_be = (type >= KITH_ACTION_SEND_F && type <= KITH_ACTION_RECV_B && type != a->type) ||
                          (type == KITH_ACTION_REDUCE_TIED && type == a->type);
            bool is_send = type == KITH_ACTION_SEND_F || type == KITH_ACTION_SEND_B;
            bool wants_send = a->type == KITH_ACTION_RECV_F || a->type == KITH_ACTION_RECV_B;
            if (may_be && (type == KITH_ACTION_REDUCE_TIED || is_send == wants_send) && is_peer(&actions[*position], a))
                return true;
        }
    }
    return false;
}

/* When the message has been handed over at its other end; negative: not yet. sent_at[rank][position]: when it was
 * sent. */
static double handed_over(const kith_schedule *plan, const kith_action *a, bool is_rendezvous, const strict_rank *ranks,
                          double *const *sent_at)
{
    bool is_send = a->type == KITH_ACTION_SEND_F || a->type == KITH_ACTION_SEND_B;
    if (is_send && !is_rendezvous)
        return 0;
    int rank;
    size_t position;
    if (!find_peer(plan, a, &rank, &position))
        return -1;
    bool is_both = is_rendezvous || a->type == KITH_ACTION_REDUCE_TIED;
    if (ranks[rank].at > position)
        return sent_at[rank][position];
    return is_both && ranks[rank].at == position ? ranks[rank].time : -1;
}

static double duration(const kith_action *a)
{
    return a->type == KITH_ACTION_B ? 2
                                    : a->type == KITH_ACTION_F || a->type == KITH_ACTION_I || a->type == KITH_ACTION_W;
}

static bool strict_step(const kith_schedule *plan, int rank, bool is_rendezvous, strict_rank *ranks, double **sent_at,
                        double *first_forward)
{
    size_t count;
    const kith_action *actions = kith_schedule_actions(plan, rank, &count);
    if (ranks[rank].at == count)
        return false;
    const kith_action *a = &actions[ranks[rank].at];
    bool is_exchange =
        (a->type >= KITH_ACTION_SEND_F && a->type <= KITH_ACTION_RECV_B) || a->type == KITH_ACTION_REDUCE_TIED;
    double ready = is_exchange ? handed_over(plan, a, is_rendezvous, ranks, sent_at) : 0;
    if (ready < 0)
        return false;
    ranks[rank].time = ready > ranks[rank].time ? ready : ranks[rank].time;
    sent_at[rank][ranks[rank].at] = ranks[rank].time;
    if (a->type == KITH_ACTION_F && first_forward[rank] < 0)
        first_forward[rank] = ranks[rank].time;
    ranks[rank].time += duration(a);
    ranks[rank].at++;
    return true;
}

double strict_clock(const kith_schedule *plan, bool is_rendezvous, double *first_forward)
{
    int count = kith_schedule_ranks(plan);
    strict_rank ranks[64] = { { 0, 0 } };
    double *sent_at[64], makespan = 0;
    bool is_done = true;
    for (int rank = 0; rank < count; rank++) {
        size_t actions;
        kith_schedule_actions(plan, rank, &actions);
        sent_at[rank] = calloc(actions + 1, sizeof *sent_at[rank]);
        first_forward[rank] = -1;
    }
    for (bool has_moved = true; has_moved;) {
        has_moved = false;
        for (int rank = 0; rank < count; rank++)
            while (strict_step(plan, rank, is_rendezvous, ranks, sent_at, first_forward))
                has_moved = true;
    }
    for (int rank = 0; rank < count; rank++) {
        size_t actions;
        kith_schedule_actions(plan, rank, &actions);
        is_done = is_done && ranks[rank].at == actions;
        makespan = ranks[rank].time > makespan ? ranks[rank].time : makespan;
        free(sent_at[rank]);
    }
    return is_done ? makespan : -1;
}
