/* tools/flight_group.c - the records of one group side by side: whose is whose, and questions about a seq.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifdef KITH_HAVE_JANSSON
#include "flight.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

const char *ki_flight_rank_list(const int *ranks, size_t count, char *text, size_t text_nbytes)
{
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < count;) {
        size_t last = i;
        while (last + 1 < count && ranks[last + 1] == ranks[last] + 1)
            last++;
        if (last == i + 1) /* a pair reads better as "2, 3" */
            last = i;
        if (used + 32 > text_nbytes) {
            snprintf(text + used, text_nbytes - used, ", ...");
            break;
        }
        used += (size_t)snprintf(text + used, text_nbytes - used, "%s%d", used == 0 ? "" : ", ", ranks[i]);
        if (last > i) used += (size_t)snprintf(text + used, text_nbytes - used, "-%d", ranks[last]);
        i = last + 1;
    }
    return text;
}

/* Index of the first collective with a seq of at least this. */
static size_t lower_bound(const ki_flight_record *record, int64_t seq)
{
    size_t low = 0, high = record->op_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (record->ops[middle].seq < seq)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

const ki_flight_op *ki_flight_op_at(const ki_flight_record *record, int64_t seq)
{
    if (record == NULL) return NULL;
    size_t i = lower_bound(record, seq);
    return i < record->op_count && record->ops[i].seq == seq ? &record->ops[i] : NULL;
}

const ki_flight_op *ki_flight_anybodys_op(const ki_flight_group *group, int64_t seq)
{
    const ki_flight_op *op = NULL;
    for (size_t i = 0; i < group->member_count && op == NULL; i++)
        op = ki_flight_op_at(group->records[i], seq);
    return op;
}

int64_t ki_flight_last_seq(const ki_flight_record *record)
{
    return record->op_count == 0 ? -1 : record->ops[record->op_count - 1].seq;
}

int64_t ki_flight_next_seq(const ki_flight_group *group, int64_t after)
{
    int64_t next = -1;
    for (size_t i = 0; i < group->member_count; i++) {
        const ki_flight_record *record = group->records[i];
        if (record == NULL || after >= ki_flight_last_seq(record)) continue;
        int64_t seq = record->ops[lower_bound(record, after + 1)].seq;
        if (next < 0 || seq < next) next = seq;
    }
    return next;
}

bool ki_flight_add_finding(ki_flight_group *group, const char *kind, int64_t seq, const int *ranks, size_t rank_count,
                           const char *format, ...)
{
    ki_flight_finding *larger = realloc(group->findings, (group->finding_count + 1) * sizeof(*larger));
    if (larger == NULL) return false;
    group->findings = larger;
    ki_flight_finding finding = { .kind = kind, .seq = seq, .rank_count = rank_count };
    finding.ranks = malloc((rank_count + 1) * sizeof(*finding.ranks));
    va_list arguments;
    va_start(arguments, format);
    int nbytes = vasprintf(&finding.text, format, arguments);
    va_end(arguments);
    if (finding.ranks == NULL || nbytes < 0) {
        free(finding.ranks);
        if (nbytes >= 0) free(finding.text);
        return false;
    }
    memcpy(finding.ranks, ranks, rank_count * sizeof(*ranks));
    group->findings[group->finding_count++] = finding;
    return true;
}

/* The range of seq that any record holds. */
static void find_range(ki_flight_group *group)
{
    group->first_seq = ki_flight_next_seq(group, -1);
    group->last_seq = -1;
    for (size_t i = 0; i < group->member_count; i++)
        if (group->records[i] != NULL && ki_flight_last_seq(group->records[i]) > group->last_seq)
            group->last_seq = ki_flight_last_seq(group->records[i]);
}

/* Ids are unique in a job; without one, name and members tell. */
static bool is_of_group(const ki_flight_group *group, const ki_flight_record *record)
{
    if (group->id[0] != '\0' || record->group_id[0] != '\0') return strcmp(group->id, record->group_id) == 0;
    return strcmp(group->name, record->group) == 0 && group->member_count == record->member_count &&
           memcmp(group->members, record->members, record->member_count * sizeof(*record->members)) == 0;
}

static ki_flight_group *group_of(ki_flight_group *groups, size_t *group_count, const ki_flight_set *set,
                                 const ki_flight_record *record)
{
    for (size_t i = 0; i < *group_count; i++)
        if (is_of_group(&groups[i], record)) return &groups[i];
    ki_flight_group *group = &groups[(*group_count)++];
    *group = (ki_flight_group){ .name = record->group,
                                .id = record->group_id,
                                .members = record->members,
                                .member_count = record->member_count,
                                .set = set };
    group->records = calloc(record->member_count, sizeof(*group->records));
    return group;
}

/* Puts a record at its rank's place. Within a file a later record replaces an earlier one (dumps are appended); in two
 * files nobody can tell which is the newer. */
static bool place_record(ki_flight_set *set, ki_flight_group *group, const ki_flight_record *record)
{
    for (size_t i = 0; i < group->member_count; i++) {
        if (group->members[i] != record->rank) continue;
        if (group->records[i] != NULL && strcmp(group->records[i]->file, record->file) != 0)
            return ki_flight_add_problem(set, record->file, 0, "rank %d of group %.32s is in %.80s already",
                                         record->rank, record->group, group->records[i]->file);
        group->records[i] = record;
        return true;
    }
    return ki_flight_add_problem(set, record->file, 0, "rank %d is not a member of group %.32s in the other records",
                                 record->rank, record->group);
}

bool ki_flight_groups_create(ki_flight_set *set, ki_flight_group **groups, size_t *group_count)
{
    *group_count = 0;
    *groups = calloc(set->record_count + 1, sizeof(**groups));
    if (*groups == NULL) return false;
    for (size_t i = 0; i < set->record_count; i++) {
        ki_flight_group *group = group_of(*groups, group_count, set, &set->records[i]);
        if (group->records == NULL || !place_record(set, group, &set->records[i])) return false;
    }
    for (size_t i = 0; i < *group_count; i++)
        find_range(&(*groups)[i]);
    return true;
}

void ki_flight_groups_free(ki_flight_group *groups, size_t group_count)
{
    for (size_t i = 0; i < group_count; i++) {
        for (size_t j = 0; j < groups[i].finding_count; j++) {
            free(groups[i].findings[j].ranks);
            free(groups[i].findings[j].text);
        }
        free(groups[i].findings);
        free(groups[i].records);
    }
    free(groups);
}

#else
typedef int ki_flight_group_needs_jansson;
#endif
