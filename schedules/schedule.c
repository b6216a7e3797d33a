/* schedules/schedule.c - plans as containers: made, filled, asked, given back.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "schedule.h"

#include "core/base/error.h"
#include "core/base/fault.h"

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void *ki_schedule_zeroed(size_t count, size_t nbytes)
{
    return ki_fault(KI_FAULT_ALLOC) ? NULL : calloc(count > 0 ? count : 1, nbytes);
}

kith_status ki_schedule_no_memory(const char *what)
{
    return ki_fail(KITH_ERR_NO_MEMORY, "no memory for %s of a pipeline plan", what);
}

static kith_status check_sizes(int ranks, int stages, int microbatches)
{
    if (ranks < 1 || ranks > KI_RANKS_MAX)
        return ki_fail(KITH_ERR_INVALID_ARG, "a pipeline of %d ranks: valid are 1 to %d", ranks, KI_RANKS_MAX);
    if (stages < ranks || stages > KI_STAGES_MAX)
        return ki_fail(KITH_ERR_INVALID_ARG, "%d stages on %d ranks: valid are %d to %d", stages, ranks, ranks,
                       KI_STAGES_MAX);
    if (microbatches < 1 || microbatches > KI_MICROBATCHES_MAX)
        return ki_fail(KITH_ERR_INVALID_ARG, "%d microbatches: valid are 1 to %d", microbatches, KI_MICROBATCHES_MAX);
    if ((int64_t)stages * microbatches > KI_PAIRS_MAX)
        return ki_fail(KITH_ERR_INVALID_ARG, "%d stages with %d microbatches: their product is at most %d", stages,
                       microbatches, KI_PAIRS_MAX);
    return KITH_OK;
}

static int rank_of(kith_stage_layout layout, int ranks, int stage)
{
    if (layout == KITH_STAGES_V && stage >= ranks)
        return 2 * ranks - 1 - stage;
    return stage % ranks;
}

/* Fills the maps. chunks is counted first, as it is the stride of stage_of_chunk. */
static kith_status map_stages(kith_schedule *s, const int *given, kith_stage_layout layout)
{
    int *counts = ki_schedule_zeroed((size_t)s->ranks, sizeof *counts);
    if (counts == NULL)
        return ki_schedule_no_memory("the stages");
    kith_status status = KITH_OK;
    for (int stage = 0; stage < s->stages && status == KITH_OK; stage++) {
        int rank = given != NULL ? given[stage] : rank_of(layout, s->ranks, stage);
        if (rank < 0 || rank >= s->ranks) {
            status =
                ki_fail(KITH_ERR_INVALID_ARG, "stage %d lies on rank %d: valid are 0 to %d", stage, rank, s->ranks - 1);
            break;
        }
        s->rank_of_stage[stage] = rank;
        s->chunk_of_stage[stage] = counts[rank]++;
        s->chunks = counts[rank] > s->chunks ? counts[rank] : s->chunks;
    }
    for (int rank = 0; rank < s->ranks && status == KITH_OK; rank++)
        if (counts[rank] == 0)
            status =
                ki_fail(KITH_ERR_INVALID_ARG, "rank %d has no stage: each of the %d ranks needs one", rank, s->ranks);
    free(counts);
    if (status != KITH_OK)
        return status;
    size_t places = (size_t)s->ranks * (size_t)s->chunks;
    s->stage_of_chunk = ki_schedule_zeroed(places, sizeof *s->stage_of_chunk);
    if (s->stage_of_chunk == NULL)
        return ki_schedule_no_memory("the stages");
    for (size_t i = 0; i < places; i++)
        s->stage_of_chunk[i] = -1;
    for (int stage = 0; stage < s->stages; stage++)
        s->stage_of_chunk[s->rank_of_stage[stage] * s->chunks + s->chunk_of_stage[stage]] = stage;
    return KITH_OK;
}

kith_status ki_schedule_new(kith_schedule_kind kind, int ranks, int stages, const int *rank_of_stage,
                            kith_stage_layout layout, int microbatches, kith_schedule **schedule)
{
    kith_status status = check_sizes(ranks, stages, microbatches);
    if (status != KITH_OK)
        return status;
    kith_schedule *s = ki_schedule_zeroed(1, sizeof *s);
    if (s == NULL)
        return ki_schedule_no_memory("the head");
    s->kind = kind;
    s->ranks = ranks;
    s->stages = stages;
    s->microbatches = microbatches;
    s->rank_of_stage = ki_schedule_zeroed((size_t)stages, sizeof *s->rank_of_stage);
    s->chunk_of_stage = ki_schedule_zeroed((size_t)stages, sizeof *s->chunk_of_stage);
    s->lists = ki_schedule_zeroed((size_t)ranks, sizeof *s->lists);
    if (s->rank_of_stage == NULL || s->chunk_of_stage == NULL || s->lists == NULL)
        status = ki_schedule_no_memory("the lists");
    else
        status = map_stages(s, rank_of_stage, layout);
    if (status != KITH_OK) {
        kith_schedule_destroy(s);
        return status;
    }
    *schedule = s;
    return KITH_OK;
}

kith_status ki_schedule_add_action(kith_schedule *s, int rank, const kith_action *action)
{
    ki_action_list *list = &s->lists[rank];
    if (list->count == list->room) {
        size_t room = list->room == 0 ? 64 : 2 * list->room;
        kith_action *bigger = ki_fault(KI_FAULT_ALLOC) ? NULL : realloc(list->actions, room * sizeof *bigger);
        if (bigger == NULL)
            return ki_schedule_no_memory("the actions");
        list->actions = bigger;
        list->room = room;
    }
    kith_action *added = &list->actions[list->count++];
    *added = *action;
    added->chunk = action->stage < 0 ? -1 : s->chunk_of_stage[action->stage];
    s->has_messages = s->has_messages || ki_action_is_message(action->type);
    s->has_step_actions = s->has_step_actions || ki_action_is_of_step(action->type);
    s->has_backward = s->has_backward || ki_action_is_backward(action->type);
    return KITH_OK;
}

kith_status ki_schedule_add(kith_schedule *s, int rank, kith_action_type type, int stage, int microbatch)
{
    kith_action action = { type, stage, microbatch, -1, 0 };
    return ki_schedule_add_action(s, rank, &action);
}

void ki_schedule_overlap_last(kith_schedule *s, int rank)
{
    if (s->lists[rank].count > 0)
        s->lists[rank].actions[s->lists[rank].count - 1].is_overlapped = 1;
}

kith_status ki_schedule_add_note(kith_schedule *s, const char *format, ...)
{
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    char **bigger = ki_fault(KI_FAULT_ALLOC) ? NULL : realloc(s->notes, ((size_t)s->note_count + 1) * sizeof *bigger);
    if (bigger == NULL)
        return ki_schedule_no_memory("a note");
    s->notes = bigger;
    s->notes[s->note_count] = strdup(text);
    if (s->notes[s->note_count] == NULL)
        return ki_schedule_no_memory("a note");
    s->note_count++;
    return KITH_OK;
}

int ki_schedule_peer(const kith_schedule *s, const kith_action *message)
{
    bool is_above = message->type == KITH_ACTION_SEND_F || message->type == KITH_ACTION_RECV_B;
    int stage = message->stage + (is_above ? 1 : -1);
    return stage >= 0 && stage < s->stages ? s->rank_of_stage[stage] : -1;
}

/* ---- public ---- */

kith_status kith_schedule_create_custom(int ranks, int stages, const int *rank_of_stage, int microbatches,
                                        kith_schedule **schedule)
{
    if (schedule == NULL || rank_of_stage == NULL)
        return ki_fail(KITH_ERR_INVALID_ARG, "kith_schedule_create_custom(): %s is NULL",
                       schedule == NULL ? "schedule" : "rank_of_stage");
    return ki_schedule_new(KITH_SCHEDULE_CUSTOM, ranks, stages, rank_of_stage, KITH_STAGES_LOOP, microbatches,
                           schedule);
}

/* A sentence for an action that does not fit the plan; KITH_OK for one that does. */
static kith_status fits(const kith_schedule *s, int rank, const kith_action *a)
{
    const char *name = kith_action_name(a->type);
    if (rank < 0 || rank >= s->ranks)
        return ki_fail(KITH_ERR_INVALID_ARG, "an action for rank %d: valid are 0 to %d", rank, s->ranks - 1);
    if (name == NULL)
        return ki_fail(KITH_ERR_INVALID_ARG, "%d is no type of action: valid are 0 to %d", (int)a->type,
                       KITH_ACTION_TYPE_COUNT - 1);
    ki_action_scope scope = ki_action_scope_of(a->type);
    if (scope != KI_SCOPE_NOTHING && (a->stage < 0 || a->stage >= s->stages))
        return ki_fail(KITH_ERR_INVALID_ARG, "%s of stage %d: valid are 0 to %d", name, a->stage, s->stages - 1);
    if (scope == KI_SCOPE_MICROBATCH && (a->microbatch < 0 || a->microbatch >= s->microbatches))
        return ki_fail(KITH_ERR_INVALID_ARG, "%s of microbatch %d: valid are 0 to %d", name, a->microbatch,
                       s->microbatches - 1);
    return KITH_OK;
}

kith_status kith_schedule_append(kith_schedule *s, int rank, const kith_action *action)
{
    if (s == NULL || action == NULL)
        return ki_fail(KITH_ERR_INVALID_ARG, "kith_schedule_append(): %s is NULL", s == NULL ? "schedule" : "action");
    if (s->kind != KITH_SCHEDULE_CUSTOM)
        return ki_fail(KITH_ERR_INVALID_ARG,
                       "only plans of kith_schedule_create_custom() and kith_schedule_copy() can be appended to");
    kith_status status = fits(s, rank, action);
    if (status != KITH_OK)
        return status;
    kith_action clean = *action;
    ki_action_scope scope = ki_action_scope_of(clean.type);
    clean.stage = scope == KI_SCOPE_NOTHING ? -1 : clean.stage;
    clean.microbatch = scope == KI_SCOPE_MICROBATCH ? clean.microbatch : -1;
    clean.is_overlapped = clean.is_overlapped != 0;
    return ki_schedule_add_action(s, rank, &clean);
}

kith_status kith_schedule_copy(const kith_schedule *s, kith_schedule **copy)
{
    if (s == NULL || copy == NULL)
        return ki_fail(KITH_ERR_INVALID_ARG, "kith_schedule_copy(): %s is NULL", s == NULL ? "schedule" : "copy");
    kith_schedule *made;
    kith_status status = ki_schedule_new(KITH_SCHEDULE_CUSTOM, s->ranks, s->stages, s->rank_of_stage, KITH_STAGES_LOOP,
                                         s->microbatches, &made);
    if (status != KITH_OK)
        return status;
    for (int rank = 0; rank < s->ranks && status == KITH_OK; rank++)
        for (size_t i = 0; i < s->lists[rank].count && status == KITH_OK; i++)
            status = ki_schedule_add_action(made, rank, &s->lists[rank].actions[i]);
    if (status != KITH_OK) {
        kith_schedule_destroy(made);
        return status;
    }
    *copy = made;
    return KITH_OK;
}

void kith_schedule_destroy(kith_schedule *s)
{
    if (s == NULL)
        return;
    for (int rank = 0; s->lists != NULL && rank < s->ranks; rank++)
        free(s->lists[rank].actions);
    for (int i = 0; i < s->note_count; i++)
        free(s->notes[i]);
    free(s->notes);
    free(s->lists);
    free(s->rank_of_stage);
    free(s->chunk_of_stage);
    free(s->stage_of_chunk);
    free(s);
}

kith_schedule_kind kith_schedule_kind_of(const kith_schedule *s)
{
    return s != NULL ? s->kind : KITH_SCHEDULE_CUSTOM;
}

int kith_schedule_ranks(const kith_schedule *s)
{
    return s != NULL ? s->ranks : 0;
}

int kith_schedule_stages(const kith_schedule *s)
{
    return s != NULL ? s->stages : 0;
}

int kith_schedule_microbatches(const kith_schedule *s)
{
    return s != NULL ? s->microbatches : 0;
}

int kith_schedule_chunks(const kith_schedule *s)
{
    return s != NULL ? s->chunks : 0;
}

int kith_schedule_rank_of_stage(const kith_schedule *s, int stage)
{
    return s != NULL && stage >= 0 && stage < s->stages ? s->rank_of_stage[stage] : -1;
}

int kith_schedule_stage_of_chunk(const kith_schedule *s, int rank, int chunk)
{
    if (s == NULL || rank < 0 || rank >= s->ranks || chunk < 0 || chunk >= s->chunks)
        return -1;
    return s->stage_of_chunk[rank * s->chunks + chunk];
}

bool ki_schedule_is_pair(const ki_action_list *list, size_t at)
{
    const kith_action *a = &list->actions[at];
    if (at + 1 >= list->count || !a->is_overlapped)
        return false;
    bool is_backward = a[1].type == KITH_ACTION_B || a[1].type == KITH_ACTION_I;
    return a->type == KITH_ACTION_F && is_backward && a[1].microbatch != a->microbatch;
}

bool ki_schedule_needs_messages(const kith_schedule *s)
{
    for (int stage = 0; stage < s->stages; stage++)
        if (ki_schedule_crosses(s, stage))
            return true;
    return false;
}

int kith_schedule_is_lowered(const kith_schedule *s)
{
    return s != NULL && (s->has_messages || (s->has_step_actions && !ki_schedule_needs_messages(s)));
}

int kith_schedule_is_forward_only(const kith_schedule *s)
{
    return s != NULL && !s->has_backward;
}

const kith_action *kith_schedule_actions(const kith_schedule *s, int rank, size_t *count)
{
    if (s == NULL || rank < 0 || rank >= s->ranks) {
        if (count != NULL)
            *count = 0;
        return NULL;
    }
    if (count != NULL)
        *count = s->lists[rank].count;
    return s->lists[rank].actions;
}

const char *kith_schedule_note(const kith_schedule *s, int index)
{
    return s != NULL && index >= 0 && index < s->note_count ? s->notes[index] : NULL;
}
