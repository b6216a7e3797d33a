/* tools/compare/plot_heat.c - bandwidth between ranks, of small messages time, in steps of one hue. Steps are even on a
 * scale of logarithms when the largest value is more than four times the least, else on a plain one.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifdef KITH_HAVE_JANSSON
#include "plots.h"

#include <math.h>

#define MARGIN 12.0
#define LEFT 52.0
#define CELL_LEAST 3.0
#define CELL_MOST 34.0
#define CELL_WITH_TEXT 26.0

typedef struct scale {
    double low, high;
    bool is_log;
} scale;

static int step_of(const scale *s, double value)
{
    double share = s->is_log ? log(value / s->low) / log(s->high / s->low) : (value - s->low) / (s->high - s->low);
    int step = s->high > s->low ? (int)floor(share * KI_RAMP_COLOURS) : KI_RAMP_COLOURS / 2;
    return step < 0 ? 0 : step >= KI_RAMP_COLOURS ? KI_RAMP_COLOURS - 1 : step;
}

/* Where step begins. */
static double step_begin(const scale *s, int step)
{
    double share = (double)step / KI_RAMP_COLOURS;
    return s->is_log ? s->low * pow(s->high / s->low, share) : s->low + (s->high - s->low) * share;
}

/* Over all series, so that their pictures can be compared. False: there is nothing to show. */
static bool find_scale(const ki_comparison *c, const ki_panel *panel, scale *s)
{
    *s = (scale){ NAN, NAN, false };
    for (size_t m = panel->first; m < panel->first + panel->count; m++)
        for (int i = 0; i < c->series_count; i++) {
            double reading = ki_pair_reading(panel, ki_value_at(c, m, i));
            s->low = fmin(s->low, reading);
            s->high = fmax(s->high, reading);
        }
    s->is_log = s->high > 4 * s->low;
    return s->high > 0;
}

static void draw_ramp(ki_drawing *drawing, const scale *s, const char *unit, double y)
{
    double width = (KI_PLOT_WIDTH - LEFT - MARGIN - 60) / KI_RAMP_COLOURS;
    int steps = s->high > s->low ? KI_RAMP_COLOURS : 0, digits = s->high > 1.2 * s->low ? 3 : 5;
    for (int i = 0; i < steps; i++) {
        ki_draw(drawing, KI_SHAPE_BOX, KI_STYLE_HEAT, LEFT + i * width, y, width, 10)->group = i;
        ki_draw_text(drawing, KI_STYLE_FAINT, LEFT + i * width, y + 22, 0, 0.5, "%.*g", digits, step_begin(s, i));
    }
    if (steps > 0)
        ki_draw_text(drawing, KI_STYLE_FAINT, LEFT + steps * width, y + 22, 0, 0.5, "%.*g %s", digits, s->high, unit);
}

/* A pair that stays below what its link lets expect: framed, so that it is seen without colour, too. */
static void draw_frame(ki_drawing *drawing, double x, double y, double side, const char *tip)
{
    double in = fmin(1.5, side / 6);
    const double corners[] = { x + in,        y + in, x + side - in, y + in, x + side - in,
                               y + side - in, x + in, y + side - in, x + in, y + in };
    ki_shape *frame = ki_draw_poly(drawing, KI_STYLE_WORST, corners, 5, false);
    frame->line = side < 10 ? 1 : 2;
    if (tip != NULL)
        ki_draw_tip(drawing, frame, "%s", tip);
}

static void draw_cell(ki_drawing *drawing, const ki_comparison *c, const ki_panel *panel, const ki_value *value,
                      const scale *s, double x, double y, double side)
{
    char tip[384];
    double reading = ki_pair_reading(panel, value);
    bool is_known = !isnan(reading);
    int step = is_known ? step_of(s, reading) : -1;
    ki_shape *cell = ki_draw(drawing, KI_SHAPE_BOX, is_known ? KI_STYLE_HEAT : KI_STYLE_LANE, x, y, side, side);
    cell->group = step;
    if (value == NULL)
        return;
    ki_value_tip(c, value, tip, sizeof(tip));
    ki_draw_tip(drawing, cell, "%s", tip);
    if (value->row->is_slow)
        draw_frame(drawing, x, y, side, tip);
    if (side < CELL_WITH_TEXT)
        return;
    ki_draw_text(drawing, is_known ? KI_STYLE_HEAT_TEXT : KI_STYLE_FAINT, x + side / 2, y + side / 2 + 3.4, side - 2,
                 0.5, is_known ? "%.3g" : "?", reading)
        ->group = step;
}

static void draw_numbers(ki_drawing *drawing, int ranks, double x, double y, double side)
{
    int every = side >= 14 ? 1 : side >= 7 ? 4 : 16;
    for (int rank = 0; rank < ranks; rank += every) {
        ki_draw_text(drawing, KI_STYLE_FAINT, x + (rank + 0.5) * side, y - 5, 0, 0.5, "%d", rank);
        ki_draw_text(drawing, KI_STYLE_FAINT, x - 6, y + (rank + 0.5) * side + 3.4, 0, 1, "%d", rank);
    }
    ki_draw_text(drawing, KI_STYLE_FAINT, x, y - 19, 0, 0, "to rank");
    ki_draw_text(drawing, KI_STYLE_FAINT, MARGIN, y - 5, 0, 0, "from");
}

bool ki_heat_draw(ki_drawing *drawing, const ki_comparison *c, const ki_panel *panel, int series)
{
    char name[256];
    scale s;
    int ranks = ki_pair_ranks(c, panel);
    const char *unit = ki_pairs_show_time(panel) ? "us" : "GB/s";
    if (ranks > KI_PLOT_RANKS_MOST || !find_scale(c, panel, &s))
        return false;
    double side = fmin(fmax((KI_PLOT_WIDTH - LEFT - MARGIN) / ranks, CELL_LEAST), CELL_MOST), top = 74;
    ki_draw_text(drawing, KI_STYLE_HEADING, MARGIN, 20, KI_PLOT_WIDTH - 2 * MARGIN, 0, "%s",
                 ki_panel_name(c, panel, name, sizeof(name)));
    ki_draw_text(drawing, KI_STYLE_TEXT, MARGIN, 36, KI_PLOT_WIDTH - 2 * MARGIN, 0, "%s, %s", c->series[series].name,
                 unit);
    draw_numbers(drawing, ranks, LEFT, top, side);
    for (int from = 0; from < ranks; from++)
        for (int to = 0; to < ranks; to++)
            draw_cell(drawing, c, panel, ki_pair_value(c, panel, series, from, to), &s, LEFT + to * side,
                      top + from * side, side);
    draw_ramp(drawing, &s, unit, top + ranks * side + 12);
    drawing->width = KI_PLOT_WIDTH;
    drawing->height = top + ranks * side + 44;
    if (ki_panel_has_slow(c, panel, series)) {
        draw_frame(drawing, LEFT, drawing->height - 6, 12, NULL);
        ki_draw_text(drawing, KI_STYLE_SMALL, LEFT + 18, drawing->height + 3.5, 0, 0,
                     "below what the link, or the median of its like, lets expect");
        drawing->height += 18;
    }
    return true;
}

#else
typedef int ki_compare_plot_heat_needs_jansson; /* a file must not be empty */
#endif
