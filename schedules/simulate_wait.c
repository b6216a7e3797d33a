/* schedules/simulate_wait.c - the sentence for a plan that cannot run: which rank waits for what, from one rank to the
 * next, until the ring closes or nobody is left to wait for.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "simulation.h"

#include "core/base/error.h"
#include "core/text.h"

/* So many ranks are named; a longer ring is cut. */
#define NAMED_RANKS 8

typedef struct wanted {
    kith_action action; /* F, or B for a backward in one or for inputs */
    int rank;           /* of its stage */
} wanted;

static wanted what_is_wanted(const ki_run *run, int rank)
{
    size_t pair = run->waits[rank] / KI_DATA_COUNT;
    bool is_activation = run->waits[rank] % KI_DATA_COUNT == KI_ACTIVATION;
    int stage = (int)(pair / (size_t)run->s->microbatches) + (is_activation ? -1 : 1);
    int microbatch = (int)(pair % (size_t)run->s->microbatches);
    kith_action_type type = is_activation ? KITH_ACTION_F : KITH_ACTION_B;
    return (wanted){ { type, stage, microbatch, -1, 0 }, run->s->rank_of_stage[stage] };
}

/* The position at which the rank would make what is wanted; false when it never does. */
static bool find(const ki_run *run, wanted *w, size_t *position)
{
    const ki_action_list *list = &run->s->lists[w->rank];
    for (size_t i = run->cursors[w->rank]; i < list->count; i++) {
        const kith_action *a = &list->actions[i];
        bool is_type = a->type == w->action.type || (a->type == KITH_ACTION_I && w->action.type == KITH_ACTION_B);
        if (!is_type || a->stage != w->action.stage || a->microbatch != w->action.microbatch)
            continue;
        w->action.type = a->type;
        *position = i;
        return true;
    }
    return false;
}

static int first_waiting(const ki_run *run)
{
    for (int rank = 0; rank < run->s->ranks; rank++)
        if (run->waits[rank] != KI_NO_WAIT)
            return rank;
    return 0;
}

/* The rank that makes what the rank waits for; -1 when none does. */
static int next_rank(const ki_run *run, int rank)
{
    size_t position;
    wanted w = what_is_wanted(run, rank);
    return find(run, &w, &position) ? w.rank : -1;
}

/* Follows who waits for whom to a rank on the ring, or to the loose end: one walker, and one that is twice as fast and
 * meets it on the ring. */
static int on_the_ring(const ki_run *run)
{
    int slow = first_waiting(run), fast = slow;
    do {
        slow = next_rank(run, slow);
        for (int step = 0; step < 2; step++) {
            int next = next_rank(run, fast);
            if (next < 0)
                return fast;
            fast = next;
        }
    } while (slow != fast);
    return slow;
}

kith_status ki_run_explain(const ki_run *run)
{
    ki_text text = { 0 };
    char has[64], wants[64];
    int first = on_the_ring(run), rank = first;
    for (int named = 0; named < NAMED_RANKS; named++) {
        const kith_action *head = &run->s->lists[rank].actions[run->cursors[rank]];
        size_t position;
        wanted w = what_is_wanted(run, rank);
        bool is_found = find(run, &w, &position);
        ki_text_add(&text, "%srank %d, action %zu, %s waits for %s of rank %d", named > 0 ? "; " : "", rank,
                    run->cursors[rank], kith_action_text(head, has, sizeof has),
                    kith_action_text(&w.action, wants, sizeof wants), w.rank);
        if (is_found)
            ki_text_add(&text, ", its action %zu", position);
        else
            ki_text_add(&text, ", which is not in its list");
        rank = w.rank;
        if (!is_found || rank == first)
            break;
        if (named == NAMED_RANKS - 1)
            ki_text_add(&text, "; and so on, round to rank %d", first);
    }
    kith_status status = ki_fail(KITH_ERR_INVALID_ARG, "the plan cannot run: %s", ki_text_chars(&text));
    ki_text_fini(&text);
    return status;
}
