/* tools/flight_print.c - findings as text and as JSON.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifdef KITH_HAVE_JANSSON
#include "flight.h"

#include <inttypes.h>
#include <jansson.h>

static size_t record_count_of(const ki_flight_group *group)
{
    size_t count = 0;
    for (size_t i = 0; i < group->member_count; i++)
        count += group->records[i] != NULL;
    return count;
}

void ki_flight_print_text(FILE *out, const ki_flight_group *groups, size_t group_count)
{
    char members[96];
    for (size_t i = 0; i < group_count; i++) {
        const ki_flight_group *group = &groups[i];
        fprintf(out, "group %s: world %s %s; records of %zu of %zu", group->name,
                ki_flight_ranks_word(group->member_count),
                ki_flight_rank_list(group->members, group->member_count, members, sizeof(members)),
                record_count_of(group), group->member_count);
        if (group->last_seq >= 0) fprintf(out, ", seq %" PRId64 " to %" PRId64, group->first_seq, group->last_seq);
        fputc('\n', out);
        for (size_t j = 0; j < group->finding_count; j++)
            fprintf(out, "  %s\n", group->findings[j].text);
        if (group->finding_count == 0) fputs("  nothing wrong\n", out);
    }
}

static json_t *rank_array(const int *ranks, size_t count)
{
    json_t *array = json_array();
    for (size_t i = 0; i < count; i++)
        json_array_append_new(array, json_integer(ranks[i]));
    return array;
}

static json_t *finding_object(const ki_flight_finding *finding)
{
    return json_pack("{s:s, s:I, s:o, s:s}", "kind", finding->kind, "seq", (json_int_t)finding->seq, "ranks",
                     rank_array(finding->ranks, finding->rank_count), "text", finding->text);
}

static json_t *group_object(const ki_flight_group *group)
{
    json_t *findings = json_array(), *records = json_array();
    for (size_t i = 0; i < group->finding_count; i++)
        json_array_append_new(findings, finding_object(&group->findings[i]));
    for (size_t i = 0; i < group->member_count; i++)
        if (group->records[i] != NULL)
            json_array_append_new(
                records, json_pack("{s:i, s:s}", "rank", group->records[i]->rank, "file", group->records[i]->file));
    return json_pack("{s:s, s:s, s:o, s:o, s:I, s:I, s:o}", "name", group->name, "id", group->id, "members",
                     rank_array(group->members, group->member_count), "records", records, "first_seq",
                     (json_int_t)group->first_seq, "last_seq", (json_int_t)group->last_seq, "findings", findings);
}

bool ki_flight_print_json(FILE *out, const ki_flight_set *set, const ki_flight_group *groups, size_t group_count)
{
    json_t *list = json_array(), *problems = json_array();
    for (size_t i = 0; i < group_count; i++)
        json_array_append_new(list, group_object(&groups[i]));
    for (size_t i = 0; i < set->problem_count; i++)
        json_array_append_new(problems, json_pack("{s:s, s:i, s:s}", "file", set->problems[i].file, "line",
                                                  set->problems[i].line, "text", set->problems[i].text));
    json_t *all = json_pack("{s:o, s:o}", "groups", list, "bad_files", problems);
    bool has_memory = all != NULL && json_array_size(list) == group_count;
    if (has_memory) has_memory = json_dumpf(all, out, JSON_INDENT(2)) == 0 && fputc('\n', out) != EOF;
    json_decref(all);
    return has_memory;
}

#else
typedef int ki_flight_print_needs_jansson;
#endif
