/* schedules/costs_load.c - kith_schedule_costs_load(): a measured profile, a CSV with one line a stage.
 *
 *     stage,F,I,W,C
 *     0,10,12,8,1
 *     1,11,12.5,8,1
 *
 * The first line names the columns: "stage" and the letters of costs_text.h, in any order. Lines may come in any order,
 * each stage from 0 on once; what a profile has no column for keeps its INIT value. Empty lines and lines that begin
 * with '#' are skipped; values may stand in double quotes.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "costs_text.h"

#include "core/base/error.h"
#include "core/base/fault.h"
#include "core/base/file.h"
#include "core/base/number.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COLUMNS_MAX 32
#define STAGE_COLUMN (-1)

typedef struct profile {
    const char *path, *next, *end; /* end: where the text ends */
    const char *line, *line_end;
    int number; /* of the line, from 1 */
    int columns[COLUMNS_MAX];
    int column_count;
    kith_stage_cost *stages;
    unsigned char *is_set; /* [room] */
    int stage_count, room; /* stage_count: the largest stage, and one */
} profile;

static kith_status bad(const profile *p, const char *at, const char *what)
{
    int shown = (int)strcspn(at, ",\r\n");
    return ki_fail_quiet(KITH_ERR_INVALID_ARG, "%s:%d:%d: '%.*s' %s", p->path, p->number, (int)(at - p->line) + 1,
                         shown > 40 ? 40 : shown, at, what);
}

/* The next line that says something; false at the end. */
static bool next_line(profile *p)
{
    while (p->next < p->end) {
        p->line = p->next;
        const char *newline = memchr(p->line, '\n', (size_t)(p->end - p->line));
        p->line_end = newline != NULL ? newline : p->end;
        p->next = newline != NULL ? newline + 1 : p->end;
        p->number++;
        while (p->line_end > p->line && isspace((unsigned char)p->line_end[-1]))
            p->line_end--;
        if (p->line_end > p->line && *p->line != '#')
            return true;
    }
    return false;
}

/* The cell at *at without blanks and quotes; *at moves behind its comma, or to NULL behind the last one. */
static void take_cell(const profile *p, const char **at, const char **cell, size_t *length)
{
    const char *comma = memchr(*at, ',', (size_t)(p->line_end - *at));
    const char *begin = *at, *end = comma != NULL ? comma : p->line_end;
    *at = comma != NULL ? comma + 1 : NULL;
    while (begin < end && isspace((unsigned char)*begin))
        begin++;
    while (end > begin && isspace((unsigned char)end[-1]))
        end--;
    bool is_quoted = end - begin >= 2 && *begin == '"' && end[-1] == '"';
    *cell = begin + is_quoted;
    *length = (size_t)(end - begin) - 2 * (size_t)is_quoted;
}

static bool is_word_stage(const char *cell, size_t length)
{
    static const char word[] = "stage";
    for (size_t i = 0; i < length && i < sizeof word; i++)
        if (tolower((unsigned char)cell[i]) != word[i])
            return false;
    return length == sizeof word - 1;
}

static kith_status read_columns(profile *p)
{
    if (p->end - p->next >= 3 && memcmp(p->next, "\xef\xbb\xbf", 3) == 0)
        p->next += 3; /* byte order mark, as spreadsheets write it */
    if (!next_line(p))
        return ki_fail_quiet(KITH_ERR_INVALID_ARG, "%s: no line that names the columns: stage, and of %s", p->path,
                             ki_cost_letters_valid());
    const char *cell;
    size_t length;
    bool has_stage = false;
    for (const char *at = p->line; at != NULL;) {
        take_cell(p, &at, &cell, &length);
        bool is_stage = is_word_stage(cell, length);
        int row = is_stage ? STAGE_COLUMN : ki_cost_letters(cell, length);
        if (!is_stage && row < 0)
            return bad(p, cell, "is no column: valid are stage, F, I, W, B, FB, R, C, L, A, G, M");
        for (int i = 0; i < p->column_count; i++)
            if (p->columns[i] == row)
                return bad(p, cell, "is there twice");
        has_stage = has_stage || is_stage;
        p->columns[p->column_count++] = row; /* each only once: fewer than COLUMNS_MAX */
    }
    return has_stage ? KITH_OK : ki_fail_quiet(KITH_ERR_INVALID_ARG, "%s:%d: no column 'stage'", p->path, p->number);
}

static kith_status make_room(profile *p, int stage)
{
    if (stage < p->room)
        return KITH_OK;
    int room = p->room == 0 ? 16 : p->room;
    while (room <= stage)
        room *= 2;
    kith_stage_cost *stages = ki_fault(KI_FAULT_ALLOC) ? NULL : realloc(p->stages, (size_t)room * sizeof *stages);
    p->stages = stages != NULL ? stages : p->stages;
    unsigned char *is_set = ki_fault(KI_FAULT_ALLOC) ? NULL : realloc(p->is_set, (size_t)room);
    p->is_set = is_set != NULL ? is_set : p->is_set;
    if (stages == NULL || is_set == NULL)
        return ki_fail(KITH_ERR_NO_MEMORY, "%s: no memory for %d stages", p->path, room);
    memset(p->is_set + p->room, 0, (size_t)(room - p->room));
    p->room = room;
    return KITH_OK;
}

static kith_status place(profile *p, int stage, const kith_stage_cost *cost)
{
    kith_status status = make_room(p, stage);
    if (status != KITH_OK)
        return status;
    if (p->is_set[stage])
        return ki_fail_quiet(KITH_ERR_INVALID_ARG, "%s:%d: stage %d is there twice", p->path, p->number, stage);
    p->stages[stage] = *cost;
    p->is_set[stage] = 1;
    p->stage_count = stage >= p->stage_count ? stage + 1 : p->stage_count;
    return KITH_OK;
}

static kith_status read_stage(profile *p)
{
    kith_stage_cost cost = KITH_STAGE_COST_INIT;
    unsigned given = 0;
    double stage = -1;
    int column = 0;
    char where[300];
    for (const char *at = p->line; at != NULL; column++) {
        const char *cell;
        size_t length;
        double value;
        take_cell(p, &at, &cell, &length);
        if (column == p->column_count)
            return bad(p, cell, "is one value more than there are columns");
        if (!ki_number_parse(cell, length, &value) || value < 0)
            return bad(p, cell, "is no finite number of at least 0");
        int row = p->columns[column];
        if (row == STAGE_COLUMN && (value >= KI_STAGES_MAX || value > (int)value))
            return bad(p, cell, "is no stage: valid are 0 to 65535");
        *(row == STAGE_COLUMN ? &stage : ki_cost_member(&cost, row)) = value;
        given |= row == STAGE_COLUMN ? 0 : 1u << row;
    }
    if (column < p->column_count)
        return ki_fail_quiet(KITH_ERR_INVALID_ARG, "%s:%d: %d values for %d columns", p->path, p->number, column,
                             p->column_count);
    snprintf(where, sizeof where, "%.200s:%d", p->path, p->number);
    kith_status status = ki_cost_complete(&cost, given, where);
    return status == KITH_OK ? place(p, (int)stage, &cost) : status;
}

static kith_status read_profile(profile *p)
{
    kith_status status = read_columns(p);
    while (status == KITH_OK && next_line(p))
        status = read_stage(p);
    if (status != KITH_OK)
        return status;
    if (p->stage_count == 0)
        return ki_fail_quiet(KITH_ERR_INVALID_ARG, "%s: no line of a stage below the names of the columns", p->path);
    for (int stage = 0; stage < p->stage_count; stage++)
        if (!p->is_set[stage])
            return ki_fail_quiet(KITH_ERR_INVALID_ARG, "%s: no line for stage %d, though there is one for stage %d",
                                 p->path, stage, p->stage_count - 1);
    return KITH_OK;
}

kith_status kith_schedule_costs_load(const char *path, kith_schedule_costs *costs)
{
    if (path == NULL || costs == NULL)
        return ki_fail(KITH_ERR_INVALID_ARG, "kith_schedule_costs_load(): %s is NULL", path == NULL ? "path" : "costs");
    char *text;
    size_t nbytes;
    kith_status status = ki_file_read(path, KI_FILE_NBYTES_MOST, &text, &nbytes);
    if (status != KITH_OK)
        return status;
    profile p = { .path = path, .next = text, .end = text + nbytes };
    status = read_profile(&p);
    free(p.is_set);
    free(text);
    if (status != KITH_OK) {
        free(p.stages);
        return status;
    }
    *costs = (kith_schedule_costs)KITH_SCHEDULE_COSTS_INIT;
    costs->stage_count = p.stage_count;
    costs->stages = p.stages;
    return KITH_OK;
}
