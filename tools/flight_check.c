/* tools/flight_check.c - who is behind, who called something else, what has not ended.
 *
 * All ranks of a group must call the same collectives in the same order, so the sequence number lines their records up:
 *
 *     seq            40          41
 *     rank 0       done      active      <- waits for rank 2
 *     rank 1       done      active
 *     rank 2       done           -      <- never called it: the culprit
 *
 * Findings of a group, the likely cause first: "mismatch" (the first seq at which ranks called different things; what
 * follows is a consequence and only counted), "behind", "missing" (no record of a rank: it died, or was never asked),
 * "failed" and "unfinished" operations, "members" (records that disagree on who is in the group), "status" (the group
 * cannot be used any more). Rings begin at different operations; a seq before a rank's first is not held against it.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifdef KITH_HAVE_JANSSON
#include "flight.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static bool is_reducing(const ki_flight_op *op)
{
    return strstr(op->op, "reduce") != NULL;
}

static bool is_rooted(const ki_flight_op *op)
{
    return strcmp(op->op, "broadcast") == 0 || strcmp(op->op, "reduce") == 0 || strncmp(op->op, "gather", 6) == 0 ||
           strncmp(op->op, "scatter", 7) == 0;
}

/* Ranks of the _v forms may have counts of their own. */
static bool has_common_count(const ki_flight_op *op)
{
    size_t nbytes = strlen(op->op);
    return strcmp(op->op, "barrier") != 0 && !(nbytes > 2 && strcmp(op->op + nbytes - 2, "_v") == 0);
}

static bool is_same_call(const ki_flight_op *a, const ki_flight_op *b)
{
    if (strcmp(a->op, b->op) != 0) return false;
    if (strcmp(a->op, "barrier") == 0) return true;
    return strcmp(a->dtype, b->dtype) == 0 && (!has_common_count(a) || a->count == b->count) &&
           (!is_reducing(a) || strcmp(a->redop, b->redop) == 0) && (!is_rooted(a) || a->root == b->root);
}

/* "reduce of 1024 f32, sum, root 0" */
static void describe_call(const ki_flight_op *op, char *text, size_t text_nbytes)
{
    int used = snprintf(text, text_nbytes, "%s", op->op);
    if (strcmp(op->op, "barrier") != 0)
        used += snprintf(text + used, text_nbytes - (size_t)used, " of %" PRId64 " %.16s", op->count, op->dtype);
    if (is_reducing(op)) used += snprintf(text + used, text_nbytes - (size_t)used, ", %.32s", op->redop);
    if (is_rooted(op)) snprintf(text + used, text_nbytes - (size_t)used, ", root %" PRId64, op->root);
}

/* Text of all the different calls at seq: "ranks 0, 1 called X; rank 2 called Y". differing: ranks that do not agree
 * with the call that most ranks made. */
static size_t describe_mismatch(const ki_flight_group *group, int64_t seq, int *differing, char *text,
                                size_t text_nbytes)
{
    size_t used = 0, differing_count = 0, largest = 0;
    int *ranks = calloc(group->member_count, sizeof(*ranks));
    const ki_flight_op *common = NULL;
    for (size_t i = 0; ranks != NULL && i < group->member_count; i++) {
        const ki_flight_op *mine = ki_flight_op_at(group->records[i], seq);
        size_t count = 0;
        bool is_first = mine != NULL;
        for (size_t j = 0; mine != NULL && j < group->member_count; j++) {
            const ki_flight_op *other = ki_flight_op_at(group->records[j], seq);
            if (other == NULL || !is_same_call(mine, other)) continue;
            is_first &= j >= i;
            ranks[count++] = group->members[j];
        }
        if (!is_first || used + 256 > text_nbytes) continue;
        char list[96], call[128];
        describe_call(mine, call, sizeof(call));
        used +=
            (size_t)snprintf(text + used, text_nbytes - used, "%s%s %s called %s", used == 0 ? "" : "; ",
                             ki_flight_ranks_word(count), ki_flight_rank_list(ranks, count, list, sizeof(list)), call);
        if (count > largest) {
            largest = count;
            common = mine;
        }
    }
    for (size_t i = 0; common != NULL && i < group->member_count; i++) {
        const ki_flight_op *op = ki_flight_op_at(group->records[i], seq);
        if (op != NULL && !is_same_call(common, op)) differing[differing_count++] = group->members[i];
    }
    free(ranks);
    return differing_count;
}

static bool is_mismatch(const ki_flight_group *group, int64_t seq)
{
    const ki_flight_op *first = ki_flight_anybodys_op(group, seq);
    for (size_t i = 0; first != NULL && i < group->member_count; i++) {
        const ki_flight_op *op = ki_flight_op_at(group->records[i], seq);
        if (op != NULL && !is_same_call(first, op)) return true;
    }
    return false;
}

static bool check_mismatch(ki_flight_group *group, int *ranks)
{
    int64_t first = -1, count = 0;
    char calls[1024] = "", more[64] = "";
    for (int64_t seq = ki_flight_next_seq(group, -1); seq >= 0; seq = ki_flight_next_seq(group, seq)) {
        if (!is_mismatch(group, seq)) continue;
        count++;
        if (first < 0) first = seq;
    }
    if (count == 0) return true;
    size_t rank_count = describe_mismatch(group, first, ranks, calls, sizeof(calls));
    if (count > 1) snprintf(more, sizeof(more), " (and so do %" PRId64 " later ones)", count - 1);
    return ki_flight_add_finding(group, "mismatch", first, ranks, rank_count,
                                 "seq %" PRId64 " differs (group %s): %s%s", first, group->name, calls, more);
}

/* What a rank that is behind is busy with in another group: ", it is in seq 7 (all_reduce, group dp)". */
static void describe_elsewhere(const ki_flight_group *group, int rank, char *text, size_t text_nbytes)
{
    text[0] = '\0';
    for (size_t i = 0; i < group->set->record_count; i++) {
        const ki_flight_record *record = &group->set->records[i];
        if (record->rank != rank || strcmp(record->group_id, group->id) == 0) continue;
        for (size_t j = record->op_count; j-- > 0;) {
            if (strcmp(record->ops[j].state, "active") != 0) continue;
            snprintf(text, text_nbytes, "; it is in seq %" PRId64 " (%s, group %s)", record->ops[j].seq,
                     record->ops[j].op, record->group);
            return;
        }
    }
}

static bool add_behind(ki_flight_group *group, int64_t last, const int *ranks, size_t count)
{
    char list[96], waiting_list[96], missed[96] = "", had[128] = "it called nothing", elsewhere[160] = "",
                                     waiting[160] = "";
    int *waiters = calloc(group->member_count, sizeof(*waiters));
    size_t waiter_count = 0;
    if (waiters == NULL) return false;
    for (size_t i = 0; i < group->member_count; i++) {
        const ki_flight_op *op = ki_flight_op_at(group->records[i], last + 1);
        if (op != NULL && strcmp(op->state, "active") == 0) waiters[waiter_count++] = group->members[i];
        const ki_flight_op *own = ki_flight_op_at(group->records[i], last);
        if (own != NULL && group->members[i] == ranks[0])
            snprintf(had, sizeof(had), "last called seq %" PRId64 " (%s, %s)", last, own->op, own->state);
    }
    const ki_flight_op *op = ki_flight_anybodys_op(group, last + 1);
    if (op != NULL) snprintf(missed, sizeof(missed), "%.40s, ", op->op);
    if (count == 1) describe_elsewhere(group, ranks[0], elsewhere, sizeof(elsewhere));
    if (waiter_count > 0)
        snprintf(waiting, sizeof(waiting), "; %s %s %s waiting in it", ki_flight_ranks_word(waiter_count),
                 ki_flight_rank_list(waiters, waiter_count, waiting_list, sizeof(waiting_list)),
                 waiter_count == 1 ? "is" : "are");
    free(waiters);
    return ki_flight_add_finding(group, "behind", last + 1, ranks, count,
                                 "%s %s never called seq %" PRId64 " (%sgroup %s): %s%s%s", ki_flight_ranks_word(count),
                                 ki_flight_rank_list(ranks, count, list, sizeof(list)), last + 1, missed, group->name,
                                 had, waiting, elsewhere);
}

/* Ranks whose last collective is older than the group's; those with the same last one share a finding, oldest first. */
static bool check_behind(ki_flight_group *group, int *ranks)
{
    for (int64_t done = -2;;) {
        int64_t oldest = group->last_seq;
        size_t count = 0;
        for (size_t i = 0; i < group->member_count; i++)
            if (group->records[i] != NULL && ki_flight_last_seq(group->records[i]) > done &&
                ki_flight_last_seq(group->records[i]) < oldest)
                oldest = ki_flight_last_seq(group->records[i]);
        if (oldest == group->last_seq) return true;
        for (size_t i = 0; i < group->member_count; i++)
            if (group->records[i] != NULL && ki_flight_last_seq(group->records[i]) == oldest)
                ranks[count++] = group->members[i];
        if (!add_behind(group, oldest, ranks, count)) return false;
        done = oldest;
    }
}

static bool check_missing(ki_flight_group *group, int *ranks)
{
    char list[96];
    size_t count = 0;
    for (size_t i = 0; i < group->member_count; i++)
        if (group->records[i] == NULL) ranks[count++] = group->members[i];
    if (count == 0) return true;
    return ki_flight_add_finding(group, "missing", -1, ranks, count,
                                 "no record of %s %s (group %s): dead, or it wrote none", ki_flight_ranks_word(count),
                                 ki_flight_rank_list(ranks, count, list, sizeof(list)), group->name);
}

/* Ranks whose operation at seq is in this state; done_count: ranks on which it is done. */
static size_t ranks_in_state(const ki_flight_group *group, int64_t seq, const char *state, int *ranks,
                             size_t *done_count)
{
    size_t count = 0;
    *done_count = 0;
    for (size_t i = 0; i < group->member_count; i++) {
        const ki_flight_op *op = ki_flight_op_at(group->records[i], seq);
        if (op != NULL && strcmp(op->state, state) == 0) ranks[count++] = group->members[i];
        *done_count += op != NULL && strcmp(op->state, "done") == 0;
    }
    return count;
}

/* True when some rank did not call seq at all: its waiting ranks are part of that finding. */
static bool is_waiting_explained(const ki_flight_group *group, int64_t seq)
{
    for (size_t i = 0; i < group->member_count; i++)
        if (group->records[i] == NULL || ki_flight_last_seq(group->records[i]) < seq) return true;
    return false;
}

static const char *failed_status(const ki_flight_group *group, int64_t seq)
{
    for (size_t i = 0; i < group->member_count; i++) {
        const ki_flight_op *op = ki_flight_op_at(group->records[i], seq);
        if (op != NULL && strcmp(op->state, "failed") == 0 && op->status[0] != '\0') return op->status;
    }
    return "no status";
}

static bool check_states(ki_flight_group *group, int *ranks)
{
    char list[96];
    for (int64_t seq = ki_flight_next_seq(group, -1); seq >= 0; seq = ki_flight_next_seq(group, seq)) {
        const ki_flight_op *op = ki_flight_anybodys_op(group, seq);
        size_t done;
        size_t count = ranks_in_state(group, seq, "failed", ranks, &done);
        if (count > 0 && !ki_flight_add_finding(
                             group, "failed", seq, ranks, count, "seq %" PRId64 " (%s, group %s) failed on %s %s: %s",
                             seq, op->op, group->name, ki_flight_ranks_word(count),
                             ki_flight_rank_list(ranks, count, list, sizeof(list)), failed_status(group, seq)))
            return false;
        count = ranks_in_state(group, seq, "active", ranks, &done);
        if (count == 0 || (done == 0 && is_waiting_explained(group, seq))) continue;
        if (!ki_flight_add_finding(group, "unfinished", seq, ranks, count,
                                   "seq %" PRId64 " (%s, group %s) has not ended on %s %s%s", seq, op->op, group->name,
                                   ki_flight_ranks_word(count), ki_flight_rank_list(ranks, count, list, sizeof(list)),
                                   done > 0 ? "; on others it is done" : "; every rank with a record called it"))
            return false;
    }
    return true;
}

/* Messages have no common sequence: each that has not ended is a finding of its own. */
static bool check_messages(ki_flight_group *group)
{
    for (size_t i = 0; i < group->member_count; i++) {
        const ki_flight_record *record = group->records[i];
        for (size_t j = 0; record != NULL && j < record->message_count; j++) {
            const ki_flight_op *op = &record->messages[j];
            char with[48] = "";
            if (strcmp(op->state, "done") == 0) continue;
            if (op->peer >= 0) snprintf(with, sizeof(with), " with group rank %" PRId64, op->peer);
            bool is_failed = strcmp(op->state, "failed") == 0;
            if (!ki_flight_add_finding(group, is_failed ? "failed" : "unfinished", op->seq, &record->rank, 1,
                                       "%s%s of rank %d (group %s) %s%s", op->op, with, record->rank, group->name,
                                       is_failed ? "failed: " : "has not ended", is_failed ? op->status : ""))
                return false;
        }
    }
    return true;
}

static bool is_fine(const ki_flight_record *record)
{
    return record == NULL || record->status[0] == '\0' || strcmp(record->status, "ok") == 0;
}

/* Ranks on which the group is unusable with the same status share a finding; the reason is the first one's. */
static bool check_status(ki_flight_group *group, int *ranks)
{
    char list[96];
    for (size_t i = 0; i < group->member_count; i++) {
        const ki_flight_record *record = group->records[i];
        size_t count = 0;
        bool is_first = !is_fine(record);
        for (size_t j = 0; is_first && j < group->member_count; j++) {
            if (group->records[j] == NULL || strcmp(record->status, group->records[j]->status) != 0) continue;
            is_first = j >= i;
            ranks[count++] = group->members[j];
        }
        if (!is_first) continue;
        if (!ki_flight_add_finding(group, "status", -1, ranks, count,
                                   "group %s cannot be used any more on %s %s: %s%s%s", group->name,
                                   ki_flight_ranks_word(count), ki_flight_rank_list(ranks, count, list, sizeof(list)),
                                   record->status, record->reason[0] == '\0' ? "" : ": ", record->reason))
            return false;
    }
    return true;
}

static bool check_members(ki_flight_group *group)
{
    for (size_t i = 0; i < group->member_count; i++) {
        const ki_flight_record *record = group->records[i];
        if (record == NULL) continue;
        bool is_same = record->member_count == group->member_count &&
                       memcmp(record->members, group->members, group->member_count * sizeof(*group->members)) == 0;
        if (!is_same && !ki_flight_add_finding(group, "members", -1, &record->rank, 1,
                                               "rank %d lists other members of group %s (%s) than the others",
                                               record->rank, group->name, record->file))
            return false;
    }
    return true;
}

bool ki_flight_check(ki_flight_group *group)
{
    int *ranks = calloc(group->member_count, sizeof(*ranks));
    bool has_memory = ranks != NULL && check_mismatch(group, ranks) && check_behind(group, ranks) &&
                      check_missing(group, ranks) && check_states(group, ranks) && check_messages(group) &&
                      check_members(group) && check_status(group, ranks);
    free(ranks);
    return has_memory;
}

#else
typedef int ki_flight_check_needs_jansson;
#endif
