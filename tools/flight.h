/* tools/flight.h - the parts of `kith flight`.
 *
 * A flight record is a file that kith_group_dump() wrote on one rank: JSON lines, first a header, then one object for
 * each of the last operations of that group, oldest first:
 *
 *     {"kith_flight":1,"rank":2,"size":4,"group":"tp","group_id":"1f","members":[0,1,2,3],"status":"timeout",
 *      "reason":"..."}
 *     {"seq":40,"op":"all_reduce","count":1024,"dtype":"f32","redop":"sum","root":-1,
 *      "start_ns":1,"end_ns":2,"state":"done","status":"ok"}
 *
 * rank and members are world ranks, and so are all ranks that the command prints. A file may hold several records one
 * after the other. Records are rings: the oldest operations may be missing, on each rank others.
 *
 * flight.c options and files; flight_read.c from a file to records; flight_group.c the records of one group side by
 * side; flight_check.c from those to findings; flight_print.c text and JSON.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_TOOLS_FLIGHT_H
#define KI_TOOLS_FLIGHT_H

#include "command.h"

#include <stdint.h>
#include <stdio.h>

#define KI_FLIGHT_FOUND 1 /* exit status: something is wrong */

struct json_t;

/* One operation. Texts are borrowed from its line. */
typedef struct ki_flight_op {
    struct json_t *line;            /* owned */
    int64_t seq, count, root, peer; /* root, peer: -1 when there is none */
    const char *op, *dtype, *redop, *state, *status;
} ki_flight_op;

/* One record: what one rank knows of one group. */
typedef struct ki_flight_record {
    struct json_t *header; /* owned */
    const char *file;      /* borrowed from the caller */
    const char *group, *group_id, *status, *reason;
    int rank;
    int *members; /* [member_count], world ranks in group order */
    size_t member_count;
    ki_flight_op *ops; /* [op_count], collectives in ascending seq */
    size_t op_count;
    ki_flight_op *messages; /* [message_count], everything else, as it stood */
    size_t message_count;
} ki_flight_record;

/* A sentence about a file that cannot be used, in whole or from a line on. */
typedef struct ki_flight_problem {
    const char *file;
    int line; /* 0: the file as a whole */
    char text[192];
} ki_flight_problem;

typedef struct ki_flight_set {
    ki_flight_record *records;
    size_t record_count;
    ki_flight_problem *problems;
    size_t problem_count;
} ki_flight_set;

/* Reads all records of a file. What is wrong in it becomes a problem; records before that stay. is_optional: a file
 * that does not look like a record at all is passed over in silence (a log in the same folder). False: memory is short.
 * */
bool ki_flight_read(ki_flight_set *set, const char *file, bool is_optional);
bool ki_flight_add_problem(ki_flight_set *set, const char *file, int line, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
void ki_flight_set_clear(ki_flight_set *set);

/* What a check found. */
typedef struct ki_flight_finding {
    const char *kind; /* "mismatch", "behind", "missing", "failed", "unfinished", "members", "status" */
    int64_t seq;      /* -1: none */
    int *ranks;       /* [rank_count] whom the sentence is about */
    size_t rank_count;
    char *text;
} ki_flight_finding;

/* The records of one group, in the order of its ranks. */
typedef struct ki_flight_group {
    const char *name, *id;
    const int *members;
    size_t member_count;
    const ki_flight_record **records; /* [member_count], NULL: no record */
    const ki_flight_set *set;         /* all records, to tell what a rank does elsewhere */
    int64_t first_seq, last_seq;      /* compared range; -1: nothing to compare */
    ki_flight_finding *findings;
    size_t finding_count;
} ki_flight_group;

/* ---- flight_group.c ---- */

/* Sorts the records of set into groups. Records of one rank and group in two files become a problem of set; in one file
 * the later one counts. False: memory is short. */
bool ki_flight_groups_create(ki_flight_set *set, ki_flight_group **groups, size_t *group_count);
void ki_flight_groups_free(ki_flight_group *groups, size_t group_count);

/* The collective with this seq in a record; NULL when there is none, or no record. */
const ki_flight_op *ki_flight_op_at(const ki_flight_record *record, int64_t seq);

/* The collective with this seq on the first rank that has it. */
const ki_flight_op *ki_flight_anybodys_op(const ki_flight_group *group, int64_t seq);

/* Seq of a rank's last collective; -1 when it called none. */
int64_t ki_flight_last_seq(const ki_flight_record *record);

/* The lowest seq above `after` that any record holds; -1: none. */
int64_t ki_flight_next_seq(const ki_flight_group *group, int64_t after);

/* Adds a finding about ranks (copied); the sentence is printf. False: memory is short. */
bool ki_flight_add_finding(ki_flight_group *group, const char *kind, int64_t seq, const int *ranks, size_t rank_count,
                           const char *format, ...) __attribute__((format(printf, 6, 7)));

/* "0-3, 7"; text of at least 40 bytes is cut with "...". Returns text. */
const char *ki_flight_rank_list(const int *ranks, size_t count, char *text, size_t text_nbytes);
static inline const char *ki_flight_ranks_word(size_t count)
{
    return count == 1 ? "rank" : "ranks";
}

/* ---- flight_check.c ---- */

/* Compares the records of a group. False: memory is short. */
bool ki_flight_check(ki_flight_group *group);

/* ---- flight_print.c ---- */

void ki_flight_print_text(FILE *out, const ki_flight_group *groups, size_t group_count);
/* False: memory is short. */
bool ki_flight_print_json(FILE *out, const ki_flight_set *set, const ki_flight_group *groups, size_t group_count);

#endif
