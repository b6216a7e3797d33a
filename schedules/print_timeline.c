/* schedules/print_timeline.c - a row of characters for each rank, on one axis of time.
 *
 *     rank 0 0░░1░░2░░3░░               0▓▓▓▓▓1▓▓▓▓▓
 *     rank 1    0░░1░░2░░3░░      0▓▓▓▓▓1▓▓▓▓▓
 *
 * Where all times are multiples of one step that gets a whole number of columns, the drawing is exact. Else a column
 * stands for a round time, and shows what its rank did for most of it, or a point where it only waited for most of it.
 * A block begins with the number of its microbatch where there is room for it and for one column of its shade: the
 * shade tells F, B, I and W apart. With colours the background does, and the number may fill the block; even and odd
 * microbatches differ a little.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "print.h"

#include "core/base/error.h"
#include "core/base/fault.h"
#include "core/base/number.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum look {
    LOOK_IDLE,
    LOOK_F,
    LOOK_B,
    LOOK_I,
    LOOK_W,
    LOOK_PAIR,
    LOOK_RECOMPUTE,
    LOOK_LITTLE,
    LOOK_COUNT
} look_kind;

static const struct {
    const char *word, *shade, *ascii, *colours[2]; /* of even and odd microbatches */
} looks[LOOK_COUNT] = {
    [LOOK_IDLE] = { "waiting", " ", " ", { "", "" } },
    [LOOK_F] = { "F", "░", "-", { "\033[30;44m", "\033[30;104m" } },
    [LOOK_B] = { "B", "▓", "=", { "\033[30;42m", "\033[30;102m" } },
    [LOOK_I] = { "I", "▒", "+", { "\033[30;46m", "\033[30;106m" } },
    [LOOK_W] = { "W", "█", "#", { "\033[30;43m", "\033[30;103m" } },
    [LOOK_PAIR] = { "F and B overlapped", "▞", "%", { "\033[30;45m", "\033[30;105m" } },
    [LOOK_RECOMPUTE] = { "recompute", "╱", "/", { "\033[30;41m", "\033[30;101m" } },
    [LOOK_LITTLE] = { "busy for less than half", "·", ".", { "", "" } },
};
#define COLOUR_END "\033[0m"
#define TIME_MIN 1e-300 /* a column of a shorter plan is no number any more */

typedef struct cell {
    look_kind look;
    bool is_odd;
    char label; /* 0: the shade */
} column_cell;

typedef struct canvas {
    const ki_print *print;
    double column;      /* time of one */
    int count;          /* columns */
    bool is_exact;      /* all times lie between two columns */
    column_cell *cells; /* [count] of the row at hand */
    double (*shares)[LOOK_COUNT];
    bool is_seen[LOOK_COUNT];
} canvas;

/* ---- the scale ---- */

/* The largest step of which both are multiples, up to rounding; 0 when that is below `least`. */
static double common_step(double a, double b, double least)
{
    while (b >= least) {
        double rest = fmod(a, b);
        rest = b - rest < least / 1000 ? 0 : rest;
        a = b;
        b = rest;
    }
    return b < least / 1000 ? a : 0;
}

/* The step of all times that begin or end something; 0 when it is below `least`. */
static double step_of(const kith_simulation *run, double least)
{
    double step = run->total.makespan;
    for (size_t i = 0; i < run->first[run->ranks] && step > 0; i++) {
        step = common_step(step, run->intervals[i].start, least);
        step = step > 0 ? common_step(step, run->intervals[i].end, least) : 0;
    }
    return step;
}

/* The smallest round number that is not below the value. */
static double round_up(double value)
{
    static const double factors[] = { 1, 1.5, 2, 2.5, 3, 4, 5, 6, 8 };
    double power = pow(10, floor(log10(value)));
    for (size_t i = 0; i < sizeof factors / sizeof factors[0]; i++)
        if (factors[i] * power >= value * (1 - 1e-9))
            return factors[i] * power;
    return 10 * power;
}

/* The same for the axis: 1, 2 or 5 times a power of ten. */
static double round_tick(double value)
{
    double power = pow(10, floor(log10(value)));
    double factor = value / power * (1 - 1e-9);
    return factor <= 1 ? power : factor <= 2 ? 2 * power : factor <= 5 ? 5 * power : 10 * power;
}

static void choose_scale(canvas *c, int room)
{
    double makespan = c->print->run->total.makespan;
    double step = step_of(c->print->run, makespan / room);
    double steps = step > 0 ? floor(makespan / step + 0.5) : 0;
    c->is_exact = steps > 0 && steps <= room;
    if (c->is_exact)
        c->column = step / floor(room / steps);
    else
        c->column = round_up(makespan / room);
    c->count = (int)ceil(makespan / c->column - 1e-6);
}

static int column_at(const canvas *c, double time)
{
    double column = floor(time / c->column + 0.5);
    return column < c->count ? (int)column : c->count;
}

/* ---- a row ---- */

static look_kind look_of(const ki_action_list *list, size_t at)
{
    if (ki_print_unit(list, at) == 2)
        return LOOK_PAIR;
    switch (list->actions[at].type) {
    case KITH_ACTION_F:
        return LOOK_F;
    case KITH_ACTION_B:
        return LOOK_B;
    case KITH_ACTION_I:
        return LOOK_I;
    case KITH_ACTION_W:
        return LOOK_W;
    case KITH_ACTION_RECOMPUTE:
        return LOOK_RECOMPUTE;
    default:
        return LOOK_IDLE;
    }
}

/* Adds to each column how much of it the interval fills. */
static void fill(canvas *c, look_kind look, const kith_interval *interval)
{
    double from = interval->start / c->column, to = interval->end / c->column;
    for (int i = (int)from; i < c->count && i < to; i++)
        c->shares[i][look] += fmin(to, i + 1) - fmax(from, i);
}

/* Each column shows what fills most of it. */
static look_kind settled(const double *share)
{
    double idle = 1;
    look_kind most = LOOK_F;
    for (int k = LOOK_F; k < LOOK_LITTLE; k++) {
        idle -= share[k];
        most = share[k] > share[most] ? (look_kind)k : most;
    }
    if (share[most] >= idle)
        return most;
    return idle < 0.999 ? LOOK_LITTLE : LOOK_IDLE; /* below that it is rounding */
}

static void settle(canvas *c)
{
    for (int i = 0; i < c->count; i++) {
        look_kind look = settled(c->shares[i]);
        c->cells[i] = (column_cell){ look, false, 0 };
        c->is_seen[look] = true;
    }
}

/* The microbatch, and the chunk as a letter where a rank has several: "12b"; of a pair both microbatches, "7+3".
 * Without room for that: the microbatch alone, or nothing. Returns the length. */
static int label_of(const canvas *c, const ki_action_list *list, size_t at, int room, char label[32])
{
    const kith_action *a = &list->actions[at];
    int chunks = c->print->s->chunks, length;
    if (ki_print_unit(list, at) == 2)
        length = snprintf(label, 32, "%d+%d", a[0].microbatch, a[1].microbatch);
    else
        length = snprintf(label, 32, chunks > 1 && chunks <= 26 ? "%d%c" : "%d", a->microbatch, 'a' + a->chunk);
    if (length > room)
        length = snprintf(label, 32, "%d", a->microbatch);
    return length <= room ? length : 0;
}

static void mark(canvas *c, const ki_action_list *list, size_t at, const kith_interval *interval)
{
    char label[32];
    look_kind look = look_of(list, at);
    int from = column_at(c, interval->start), to = column_at(c, interval->end);
    for (int i = from; i < to; i++)
        c->cells[i].is_odd = list->actions[at].microbatch % 2 != 0;
    int length = label_of(c, list, at, to - from - !c->print->has_colour, label);
    for (int i = 0; i < length; i++)
        if (c->cells[from + i].look != look)
            return;
    for (int i = 0; i < length; i++)
        c->cells[from + i].label = label[i];
}

static void draw(canvas *c, int rank)
{
    const ki_action_list *list = &c->print->s->lists[rank];
    const kith_interval *intervals = c->print->run->intervals + c->print->run->first[rank];
    memset(c->shares, 0, (size_t)c->count * sizeof *c->shares);
    for (size_t at = 0; at < list->count; at += ki_print_unit(list, at))
        if (look_of(list, at) != LOOK_IDLE)
            fill(c, look_of(list, at), &intervals[at]);
    settle(c);
    for (size_t at = 0; at < list->count; at += ki_print_unit(list, at))
        if (look_of(list, at) != LOOK_IDLE)
            mark(c, list, at, &intervals[at]);
}

static const char *colour_of(const column_cell *cell)
{
    return looks[cell->look].colours[cell->is_odd];
}

static void add_row(ki_text *out, const canvas *c, int margin, int rank)
{
    int count = c->count;
    const char *colour = "";
    while (count > 0 && c->cells[count - 1].look == LOOK_IDLE)
        count--;
    ki_text_add(out, "rank %-*d", count > 0 ? margin - 5 : 0, rank);
    for (int i = 0; i < count; i++) {
        const column_cell *cell = &c->cells[i];
        if (c->print->has_colour && colour_of(cell) != colour) {
            ki_text_add(out, "%s%s", *colour != '\0' ? COLOUR_END : "", colour_of(cell));
            colour = colour_of(cell);
        }
        if (cell->label != 0)
            ki_text_add(out, "%c", cell->label);
        else if (*colour != '\0')
            ki_text_add(out, " ");
        else
            ki_text_add(out, "%s", c->print->is_ascii ? looks[cell->look].ascii : looks[cell->look].shade);
    }
    ki_text_add(out, "%s\n", *colour != '\0' ? COLOUR_END : "");
}

/* ---- around the rows ---- */

/* Times above the columns at which they are, ten or more columns apart. */
static void add_axis(ki_text *out, const canvas *c, int margin)
{
    double every = round_tick(10 * c->column);
    int at = -1;
    ki_text_add(out, "%-*s", margin, "time");
    for (int tick = 0; column_at(c, tick * every) < c->count; tick++) {
        char number[KI_NUMBER_NBYTES];
        int column = column_at(c, tick * every);
        ki_number_text(tick * every, 6, number);
        if (column + (int)strlen(number) > c->count && tick > 0)
            break;
        ki_text_add(out, "%*s%s", at < 0 ? 0 : column - at, "", number);
        at = column + (int)strlen(number);
    }
    ki_text_add(out, "\n");
}

static void add_legend(ki_text *out, const canvas *c)
{
    char number[KI_NUMBER_NBYTES];
    ki_text_add(out, "\none column: %s", ki_number_text(c->column, 4, number));
    for (int k = LOOK_IDLE + 1; k < LOOK_COUNT; k++) {
        if (!c->is_seen[k])
            continue;
        if (c->print->has_colour && *looks[k].colours[0] != '\0')
            ki_text_add(out, ", %s %s %s", looks[k].colours[0], looks[k].word, COLOUR_END);
        else
            ki_text_add(out, ", %s %s", c->print->is_ascii ? looks[k].ascii : looks[k].shade, looks[k].word);
    }
    if (c->print->s->chunks > 1)
        ki_text_add(out, "; 3b: microbatch 3, the rank's second stage");
    ki_text_add(out, c->is_exact ? "\n" : "\neach column shows what its rank did for most of it\n");
}

static void add_rows(ki_text *out, canvas *c, int margin)
{
    add_axis(out, c, margin);
    for (int rank = 0, last = -1; rank < c->print->s->ranks; last = rank, rank = ki_print_next_rank(c->print, rank)) {
        if (rank > last + 1)
            ki_text_add(out, "... ranks %d to %d\n", last + 1, rank - 1);
        draw(c, rank);
        add_row(out, c, margin, rank);
    }
    add_legend(out, c);
}

kith_status ki_print_timeline(ki_text *out, const ki_print *print)
{
    int margin = snprintf(NULL, 0, "rank %d ", print->s->ranks - 1);
    canvas c = { .print = print };
    if (print->run->total.makespan < TIME_MIN) {
        ki_text_add(out, "nothing to draw: the plan takes no time\n");
        return KITH_OK;
    }
    choose_scale(&c, print->width - margin);
    c.cells = ki_fault(KI_FAULT_ALLOC) ? NULL : calloc((size_t)c.count, sizeof *c.cells);
    c.shares = ki_fault(KI_FAULT_ALLOC) ? NULL : calloc((size_t)c.count, sizeof *c.shares);
    kith_status status = KITH_OK;
    if (c.cells != NULL && c.shares != NULL)
        add_rows(out, &c, margin);
    else
        status = ki_fail(KITH_ERR_NO_MEMORY, "no memory for a timeline of %d columns", c.count);
    free(c.cells);
    free(c.shares);
    return status;
}
