/* schedules/csv_cells.c - the cells of PyTorch's pipeline files, one by one.
 *
 *     file  = one line for each rank, cells separated by commas, no header
 *     cell  = "" | action | "(" action ";" action ")OVERLAP_F_B"
 *     action = stage TYPE [microbatch]           numbers without signs and leading zeros
 *
 * PyTorch's own reader looks for the pattern at the start of a cell and takes whatever follows it; here a cell is
 * read to its end or refused. Quotes around a whole cell are fine, as the file is CSV.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "exchange.h"

#include "core/base/error.h"
#include "core/base/fault.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* Where reading stands. Everything is inside [at, end), the cell. */
typedef struct cursor {
    const char *name;
    const char *line_start, *at, *end;
    int line;
    int cell; /* column where the cell starts, for actions */
} cursor;

static int column_of(const cursor *c, const char *place)
{
    return (int)(place - c->line_start) + 1;
}

/* "name:line:column: what, in cell '...'"; long cells are cut. */
static kith_status refuse(const cursor *c, const char *cell, const char *what)
{
    int shown = c->end - cell > 40 ? 40 : (int)(c->end - cell);
    char text[41];
    for (int i = 0; i < shown; i++)
        text[i] = isprint((unsigned char)cell[i]) ? cell[i] : '?';
    text[shown] = '\0';
    return ki_fail(KITH_ERR_INVALID_ARG, "%s:%d:%d: %s in cell '%s'", c->name, c->line, column_of(c, c->at), what,
                   text);
}

static bool read_number(cursor *c, int limit, int *number)
{
    const char *start = c->at;
    long value = 0;
    while (c->at < c->end && isdigit((unsigned char)*c->at) && value <= limit)
        value = 10 * value + (*c->at++ - '0');
    bool has_leading_zero = c->at - start > 1 && *start == '0';
    if (c->at == start || has_leading_zero || value > limit) {
        c->at = start;
        return false;
    }
    *number = (int)value;
    return true;
}

/* The types that a file may have; BW is the old dialect's name of B. */
static bool read_type(cursor *c, kith_action_type *type, bool *is_bw)
{
    const char *start = c->at;
    while (c->at < c->end && (isupper((unsigned char)*c->at) || *c->at == '_'))
        c->at++;
    size_t length = (size_t)(c->at - start);
    *is_bw = length == 2 && memcmp(start, "BW", 2) == 0;
    if (*is_bw) {
        *type = KITH_ACTION_B;
        return true;
    }
    static const kith_action_type known[] = { KITH_ACTION_F,       KITH_ACTION_B,      KITH_ACTION_I,
                                              KITH_ACTION_W,       KITH_ACTION_SEND_F, KITH_ACTION_RECV_F,
                                              KITH_ACTION_SEND_B,  KITH_ACTION_RECV_B, KITH_ACTION_REDUCE_GRAD,
                                              KITH_ACTION_UNSHARD, KITH_ACTION_RESHARD };
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        const char *name = kith_action_name(known[i]);
        if (strlen(name) == length && memcmp(start, name, length) == 0) {
            *type = known[i];
            return true;
        }
    }
    c->at = start;
    return false;
}

static kith_status read_action(cursor *c, const char *cell, ki_cell *out)
{
    *out = (ki_cell){ .action = { KITH_ACTION_IDLE, -1, -1, -1, 0 }, .line = c->line, .column = column_of(c, c->at) };
    if (!read_number(c, KI_STAGES_MAX - 1, &out->action.stage))
        return refuse(c, cell, "expected the number of a stage, 0 to 65535 without leading zeros,");
    if (!read_type(c, &out->action.type, &out->is_bw))
        return refuse(c, cell,
                      "expected F, B, I, W, BW, SEND_F, RECV_F, SEND_B, RECV_B, REDUCE_GRAD, UNSHARD or RESHARD");
    if (ki_action_scope_of(out->action.type) == KI_SCOPE_MICROBATCH &&
        !read_number(c, KI_MICROBATCHES_MAX - 1, &out->action.microbatch))
        return refuse(c, cell, "expected the number of a microbatch, 0 to 1048575 without leading zeros,");
    return KITH_OK;
}

static kith_status keep(ki_cells *cells, const ki_cell *cell)
{
    if (cells->count == cells->room) {
        size_t room = cells->room == 0 ? 256 : 2 * cells->room;
        ki_cell *bigger = ki_fault(KI_FAULT_ALLOC) ? NULL : realloc(cells->cells, room * sizeof *bigger);
        if (bigger == NULL)
            return ki_fail(KITH_ERR_NO_MEMORY, "no memory for the cells of a pipeline file");
        cells->cells = bigger;
        cells->room = room;
    }
    cells->cells[cells->count++] = *cell;
    return KITH_OK;
}

static bool skip(cursor *c, const char *word)
{
    size_t length = strlen(word);
    if ((size_t)(c->end - c->at) < length || memcmp(c->at, word, length) != 0)
        return false;
    c->at += length;
    return true;
}

/* "(0F7;7B3)OVERLAP_F_B": two actions, the first marked as one with the second. */
static kith_status read_overlap(cursor *c, const char *cell, ki_cells *cells)
{
    ki_cell first, second;
    kith_status status = read_action(c, cell, &first);
    if (status != KITH_OK)
        return status;
    if (!skip(c, ";"))
        return refuse(c, cell, "expected ';' between the two actions of an overlap");
    status = read_action(c, cell, &second);
    if (status != KITH_OK)
        return status;
    if (!skip(c, ")OVERLAP_F_B"))
        return refuse(c, cell, "expected ')OVERLAP_F_B'");
    bool is_backward = second.action.type == KITH_ACTION_B || second.action.type == KITH_ACTION_I;
    if (first.action.type != KITH_ACTION_F || !is_backward)
        return refuse(c, cell, "expected F, and B or I");
    first.action.is_overlapped = 1;
    status = keep(cells, &first);
    return status == KITH_OK ? keep(cells, &second) : status;
}

static kith_status read_cell(cursor *c, ki_cells *cells)
{
    if (c->end - c->at >= 2 && *c->at == '"' && c->end[-1] == '"') {
        c->at++;
        c->end--;
    }
    const char *cell = c->at;
    kith_status status;
    ki_cell one = { .action = { KITH_ACTION_IDLE, -1, -1, -1, 0 }, .line = c->line, .column = column_of(c, c->at) };
    if (c->at == c->end)
        return keep(cells, &one);
    if (skip(c, "(")) {
        status = read_overlap(c, cell, cells);
    } else {
        status = read_action(c, cell, &one);
        status = status == KITH_OK ? keep(cells, &one) : status;
    }
    if (status == KITH_OK && c->at != c->end)
        return refuse(c, cell, "something follows");
    return status;
}

/* One line, without its end. A line of nothing is a rank that does nothing. */
static kith_status read_line(cursor *c, const char *end, ki_cells *cells)
{
    kith_status status = KITH_OK;
    const char *start = c->line_start;
    bool is_last = start == end;
    while (!is_last && status == KITH_OK) {
        const char *comma = memchr(start, ',', (size_t)(end - start));
        is_last = comma == NULL;
        c->at = start;
        c->end = is_last ? end : comma;
        status = read_cell(c, cells);
        start = is_last ? end : comma + 1;
    }
    return status;
}

kith_status ki_cells_read(const char *name, const char *text, size_t nbytes, ki_cells *cells)
{
    *cells = (ki_cells){ NULL, 0, 0, 0 };
    while (nbytes > 0 && (text[nbytes - 1] == '\n' || text[nbytes - 1] == '\r'))
        nbytes--; /* lines of nothing at the end are no ranks */
    cursor c = { .name = name, .line_start = text, .line = 1 };
    const char *text_end = text + nbytes;
    kith_status status = KITH_OK;
    while (c.line_start < text_end && status == KITH_OK) {
        if (c.line > KI_RANKS_MAX)
            return ki_fail(KITH_ERR_INVALID_ARG, "%s:%d: more than %d ranks (lines)", name, c.line, KI_RANKS_MAX);
        const char *newline = memchr(c.line_start, '\n', (size_t)(text_end - c.line_start));
        const char *end = newline != NULL ? newline : text_end;
        const char *next = newline != NULL ? newline + 1 : text_end;
        if (end > c.line_start && end[-1] == '\r')
            end--;
        status = read_line(&c, end, cells);
        cells->ranks = c.line++;
        c.line_start = next;
    }
    return status;
}

void ki_cells_fini(ki_cells *cells)
{
    free(cells->cells);
    *cells = (ki_cells){ NULL, 0, 0, 0 };
}
