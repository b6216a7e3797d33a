/* tools/compare/plot_bars.c - all series of a panel side by side: time at the smallest size, bandwidth at the largest.
 * Sizes count that at least half of the series have. Bars begin at 0 on a plain scale, so that their lengths can be
 * compared.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifdef KITH_HAVE_JANSSON
#include "plots.h"

#include <math.h>

#define MARGIN 12.0
#define NAME_WIDTH 124.0
#define VALUE_WIDTH 76.0
#define ROW_HEIGHT 20.0
#define BAR_HEIGHT 13.0

typedef struct block {
    ki_drawing *drawing;
    const ki_comparison *comparison;
    const ki_match *match;
    bool is_time;
} block;

static double reading(const ki_value *value, bool is_time)
{
    return value == NULL ? NAN : is_time ? value->time_us : value->busbw;
}

static int count_readings(const ki_comparison *c, size_t match, bool is_time)
{
    int count = 0;
    for (int s = 0; s < c->series_count; s++)
        count += !isnan(reading(ki_value_at(c, match, s), is_time));
    return count;
}

/* Of the matches that at least half as many series have a figure for as any match, the first for times, the last for
 * bandwidths. */
static const ki_match *choose(const ki_comparison *c, const ki_panel *panel, bool is_time)
{
    size_t chosen = panel->first;
    int most = 0;
    for (size_t m = panel->first; m < panel->first + panel->count; m++) {
        int count = count_readings(c, m, is_time);
        most = count > most ? count : most;
    }
    for (size_t i = 0; i < panel->count; i++) {
        size_t m = is_time ? panel->first + panel->count - 1 - i : panel->first + i;
        if (2 * count_readings(c, m, is_time) >= most)
            chosen = m;
    }
    return &c->matches[chosen];
}

static int count_series(const ki_comparison *c, const ki_match *match)
{
    int count = 0;
    for (int s = 0; s < c->series_count; s++)
        count += match->values[s] != NULL;
    return count;
}

static double shown(const block *b, int series)
{
    return reading(b->match->values[series], b->is_time);
}

static void draw_bar(const block *b, int series, double y, double most)
{
    char text[64], tip[384], name[160];
    const ki_value *value = b->match->values[series];
    double x = MARGIN + NAME_WIDTH, room = KI_PLOT_WIDTH - MARGIN - VALUE_WIDTH - x, at = shown(b, series);
    ki_draw_text(b->drawing, KI_STYLE_SMALL, x - 8, y + 10, NAME_WIDTH - 8, 1, "%s",
                 ki_short_name(b->comparison->series[series].name, NAME_WIDTH - 8, name, sizeof(name)));
    if (isnan(at) || value->errors > 0) {
        ki_draw_text(b->drawing, KI_STYLE_FAINT, x, y + 10, 0, 0, "%s",
                     value->errors > 0 ? "wrong elements" : "no reliable median");
        return;
    }
    ki_shape *bar = ki_draw(b->drawing, KI_SHAPE_BOX, KI_STYLE_BAR, x, y, fmax(at / most * room, 1), BAR_HEIGHT);
    bar->group = series;
    ki_value_tip(b->comparison, value, tip, sizeof(tip));
    ki_draw_tip(b->drawing, bar, "%s", tip);
    if (b->is_time)
        ki_time_name(at, text, sizeof(text));
    else
        snprintf(text, sizeof(text), "%.4g GB/s", at);
    ki_draw_text(b->drawing, KI_STYLE_SMALL, x + fmax(at / most * room, 1) + 6, y + 10, 0, 0, "%s", text);
}

/* Returns where the next block begins; y as it was when there is nothing to show. */
static double draw_block(const block *b, double y)
{
    char size[64];
    double most = 0;
    int count = b->comparison->series_count;
    for (int s = 0; s < count; s++)
        most = fmax(most, shown(b, s));
    if (!(most > 0))
        return y;
    ki_draw_text(b->drawing, KI_STYLE_TEXT, MARGIN, y + 10, 0, 0, "%s%s%s", b->is_time ? "time" : "bus bandwidth",
                 b->match->point.nbytes > 0 ? " at " : "",
                 b->match->point.nbytes > 0 ? ki_size_name(b->match->point.nbytes, size, sizeof(size)) : "");
    y += 18;
    double top = y;
    for (int s = 0; s < count; s++) {
        if (b->match->values[s] == NULL)
            continue;
        draw_bar(b, s, y, most);
        y += ROW_HEIGHT;
    }
    ki_draw(b->drawing, KI_SHAPE_LINE, KI_STYLE_AXIS, MARGIN + NAME_WIDTH, top - 3, 0, y - top);
    return y + 10;
}

bool ki_bars_draw(ki_drawing *drawing, const ki_comparison *c, const ki_panel *panel)
{
    char name[256];
    block time = { drawing, c, choose(c, panel, true), true }, width = { drawing, c, choose(c, panel, false), false };
    if (count_series(c, time.match) < 2)
        return false;
    ki_draw_text(drawing, KI_STYLE_HEADING, MARGIN, 20, KI_PLOT_WIDTH - 2 * MARGIN, 0, "%s",
                 ki_panel_name(c, panel, name, sizeof(name)));
    double begin = 32, y = draw_block(&time, begin);
    y = draw_block(&width, y);
    drawing->width = KI_PLOT_WIDTH;
    drawing->height = y;
    return y > begin;
}

#else
typedef int ki_compare_plot_bars_needs_jansson; /* a file must not be empty */
#endif
