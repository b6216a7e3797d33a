/* tools/flight_read.c - from a file of JSON lines to flight records. See flight.h for the format.
 *
 * Files come from processes that were in trouble: the last line may be half, the disk may have been full, the file may
 * be something else. Everything up to the first bad line is kept; the bad line is named.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifdef KITH_HAVE_JANSSON
#include "flight.h"

#include <errno.h>
#include <jansson.h>
#include <kith/coll.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define RANK_MAX 10000000
#define FORMAT_VERSION 1

bool ki_flight_add_problem(ki_flight_set *set, const char *file, int line, const char *format, ...)
{
    ki_flight_problem *larger = realloc(set->problems, (set->problem_count + 1) * sizeof(*larger));
    if (larger == NULL) return false;
    set->problems = larger;
    ki_flight_problem *problem = &larger[set->problem_count++];
    *problem = (ki_flight_problem){ file, line, "" };
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(problem->text, sizeof(problem->text), format, arguments);
    va_end(arguments);
    return true;
}

static void record_clear(ki_flight_record *record)
{
    for (size_t i = 0; i < record->op_count; i++)
        json_decref(record->ops[i].line);
    for (size_t i = 0; i < record->message_count; i++)
        json_decref(record->messages[i].line);
    free(record->ops);
    free(record->messages);
    free(record->members);
    json_decref(record->header);
}

void ki_flight_set_clear(ki_flight_set *set)
{
    for (size_t i = 0; i < set->record_count; i++)
        record_clear(&set->records[i]);
    free(set->records);
    free(set->problems);
    *set = (ki_flight_set){ 0 };
}

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text == NULL ? "" : text;
}

static int64_t number_of(const json_t *object, const char *key, int64_t otherwise)
{
    const json_t *value = json_object_get(object, key);
    return json_is_integer(value) ? json_integer_value(value) : otherwise;
}

static bool is_collective_name(const char *name)
{
    for (int kind = 0; kind < KITH_COLL_COUNT; kind++)
        if (strcmp(name, kith_coll_name((kith_coll_kind)kind)) == 0) return true;
    return false;
}

/* NULL, or what is wrong with a header. */
static const char *header_problem(const json_t *header)
{
    const json_t *members = json_object_get(header, "members");
    int64_t rank = number_of(header, "rank", -1);
    size_t index;
    json_t *member;
    bool is_member = false;
    if (number_of(header, "kith_flight", -1) != FORMAT_VERSION)
        return "the record has a version that this command does not know (it knows 1)";
    if (rank < 0 || rank > RANK_MAX) return "\"rank\" of the header is not a rank";
    if (!json_is_array(members) || json_array_size(members) == 0)
        return "\"members\" of the header is not a list of ranks";
    if (text_of(header, "group")[0] == '\0') return "\"group\" of the header is not a name";
    json_array_foreach(members, index, member)
    {
        if (!json_is_integer(member) || json_integer_value(member) < 0 || json_integer_value(member) > RANK_MAX)
            return "\"members\" of the header is not a list of ranks";
        is_member |= json_integer_value(member) == rank;
    }
    return is_member ? NULL : "\"rank\" of the header is not among its \"members\"";
}

/* Takes over header. */
static bool record_add(ki_flight_set *set, const char *file, json_t *header)
{
    const json_t *members = json_object_get(header, "members");
    ki_flight_record record = { .header = header, .file = file };
    ki_flight_record *larger = realloc(set->records, (set->record_count + 1) * sizeof(*larger));
    if (larger != NULL) set->records = larger;
    record.members = calloc(json_array_size(members), sizeof(*record.members));
    if (larger == NULL || record.members == NULL) {
        record_clear(&record);
        return false;
    }
    record.member_count = json_array_size(members);
    for (size_t i = 0; i < record.member_count; i++)
        record.members[i] = (int)json_integer_value(json_array_get(members, i));
    record.rank = (int)number_of(header, "rank", 0);
    record.group = text_of(header, "group");
    record.group_id = text_of(header, "group_id");
    record.status = text_of(header, "status");
    record.reason = text_of(header, "reason");
    set->records[set->record_count++] = record;
    return true;
}

static const char *op_problem(const ki_flight_record *record, const ki_flight_op *op, bool is_collective)
{
    static const char *const states[] = { "done", "active", "failed" };
    bool is_state = false;
    for (size_t i = 0; i < sizeof(states) / sizeof(states[0]); i++)
        is_state |= strcmp(op->state, states[i]) == 0;
    if (op->op[0] == '\0') return "\"op\" is not a name";
    if (op->seq < 0) return "\"seq\" is not a number from 0 up";
    if (!is_state) return "\"state\" is not done, active or failed";
    if (is_collective && record->op_count > 0 && op->seq <= record->ops[record->op_count - 1].seq)
        return "\"seq\" is not above that of the operation before";
    return NULL;
}

/* Takes over line. *problem: NULL or what is wrong. */
static bool op_add(ki_flight_record *record, json_t *line, const char **problem)
{
    ki_flight_op op = { .line = line,
                        .seq = number_of(line, "seq", -1),
                        .count = number_of(line, "count", 0),
                        .root = number_of(line, "root", -1),
                        .peer = number_of(line, "peer", -1),
                        .op = text_of(line, "op"),
                        .dtype = text_of(line, "dtype"),
                        .redop = text_of(line, "redop"),
                        .state = text_of(line, "state"),
                        .status = text_of(line, "status") };
    bool is_collective = is_collective_name(op.op);
    ki_flight_op **list = is_collective ? &record->ops : &record->messages;
    size_t *count = is_collective ? &record->op_count : &record->message_count;
    *problem = op_problem(record, &op, is_collective);
    ki_flight_op *larger = NULL;
    if (*problem == NULL) larger = realloc(*list, (*count + 1) * sizeof(*larger));
    if (larger == NULL) {
        json_decref(line);
        return *problem != NULL;
    }
    *list = larger;
    larger[(*count)++] = op;
    return true;
}

/* One line: a header or an operation. Returns false when memory is short; *problem as above. own_records: how many of
 * the set's last records come from this file. */
static bool take_line(ki_flight_set *set, const char *file, const char *text, size_t nbytes, size_t *own_records,
                      const char **problem, json_error_t *error)
{
    json_t *line = json_loadb(text, nbytes, JSON_REJECT_DUPLICATES, error);
    *problem = NULL;
    if (!json_is_object(line)) {
        *problem = line == NULL ? error->text : "the line is not a JSON object";
        json_decref(line);
        return true;
    }
    if (json_object_get(line, "kith_flight") == NULL) {
        if (*own_records > 0) return op_add(&set->records[set->record_count - 1], line, problem);
        *problem = "this is not a flight record: the first line has no \"kith_flight\"";
    } else {
        *problem = header_problem(line);
        *own_records += *problem == NULL;
        if (*problem == NULL) return record_add(set, file, line);
    }
    json_decref(line);
    return true;
}

static bool is_blank(const char *text, size_t nbytes)
{
    for (size_t i = 0; i < nbytes; i++)
        if (strchr(" \t\r\n", text[i]) == NULL || text[i] == '\0') return false;
    return true;
}

static bool read_lines(ki_flight_set *set, const char *file, FILE *in, bool is_optional)
{
    char *text = NULL;
    size_t capacity = 0, own_records = 0;
    bool has_memory = true;
    int number = 0;
    const char *problem = NULL;
    json_error_t error;
    ssize_t nbytes;
    while (has_memory && problem == NULL && (nbytes = getline(&text, &capacity, in)) >= 0) {
        number++;
        if (number == 1 && is_optional && text[0] != '{') break;
        if (!is_blank(text, (size_t)nbytes))
            has_memory = take_line(set, file, text, (size_t)nbytes, &own_records, &problem, &error);
    }
    if (problem != NULL)
        has_memory =
            ki_flight_add_problem(set, file, number, "%s%s", problem,
                                  feof(in) || text[strlen(text) - 1] != '\n' ? " (the file ends in this line)" : "");
    else if (ferror(in))
        has_memory = ki_flight_add_problem(set, file, number, "cannot be read: %s", strerror(errno));
    else if (own_records == 0 && !is_optional)
        has_memory = ki_flight_add_problem(set, file, 0, "the file is empty");
    free(text);
    return has_memory;
}

bool ki_flight_read(ki_flight_set *set, const char *file, bool is_optional)
{
    struct stat info;
    if (stat(file, &info) == 0 && S_ISDIR(info.st_mode))
        return is_optional || ki_flight_add_problem(set, file, 0, "is a folder");
    FILE *in = fopen(file, "re");
    if (in == NULL) return ki_flight_add_problem(set, file, 0, "cannot be opened: %s", strerror(errno));
    bool has_memory = read_lines(set, file, in, is_optional);
    fclose(in);
    return has_memory;
}

#else
typedef int ki_flight_read_needs_jansson; /* a file must not be empty */
#endif
