/* tools/compare/plot_curves.c - time, bus bandwidth or ratio by size. A median has its mark and a whisker over the
 * middle half of the samples; where there is no reliable median the whisker stands alone and the curve is broken.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifdef KITH_HAVE_JANSSON
#include "plots.h"

#include <math.h>
#include <stdlib.h>

#define LEFT 50.0
#define RIGHT 16.0
#define PLOT_HEIGHT 200.0
#define WHISKER_FACTOR_MOST 3.0
#define WHISKER_LEAST 3.0 /* shorter ones hide behind the mark */

typedef struct figure {
    ki_drawing *drawing;
    const ki_comparison *comparison;
    const ki_panel *panel;
    ki_plot_sort sort;
    ki_axis x, y;
} figure;

/* What is drawn of a value; NAN: nothing. low and high: its whisker. */
typedef struct reading {
    double at, low, high;
} reading;

static reading read_value(const ki_value *value, ki_plot_sort sort)
{
    reading none = { NAN, NAN, NAN };
    if (value == NULL || value->row->point.nbytes == 0)
        return none;
    if (sort == KI_PLOT_TIME)
        return (reading){ value->time_us, value->p25, value->p75 };
    if (sort == KI_PLOT_RATIO)
        return (reading){ value->speed.ratio, value->speed.low, value->speed.high };
    if (!(value->busbw > 0))
        return none;
    return (reading){ value->busbw, value->busbw * value->time_us / value->p75,
                      value->busbw * value->time_us / value->p25 };
}

/* An interval of few samples may reach beyond all others, and to infinity: it makes no picture small. */
static void limit_whisker(reading *r)
{
    if (isnan(r->at) || isnan(r->low) || isnan(r->high))
        return;
    r->low = fmax(r->low, r->at / WHISKER_FACTOR_MOST);
    r->high = fmin(r->high, r->at * WHISKER_FACTOR_MOST);
}

/* The range of everything that is drawn; false: nothing is. */
static bool find_range(const figure *f, const int *series, int count, double *low, double *high)
{
    *low = *high = f->sort == KI_PLOT_RATIO ? 1 : NAN;
    bool is_any = false;
    for (size_t m = f->panel->first; m < f->panel->first + f->panel->count; m++)
        for (int i = 0; i < count; i++) {
            reading r = read_value(ki_value_at(f->comparison, m, series[i]), f->sort);
            is_any |= !isnan(r.at) || !isnan(r.low);
            limit_whisker(&r);
            *low = fmin(*low, fmin(r.at, r.low)); /* of a number and NAN the number */
            *high = fmax(*high, fmax(r.at, r.high));
        }
    return is_any;
}

static void draw_whisker(const figure *f, int series, double x, const reading *r, const char *tip)
{
    if (isnan(r->low) || isnan(r->high))
        return;
    double top = ki_axis_at(&f->y, r->high), bottom = ki_axis_at(&f->y, r->low);
    if (bottom - top < 2 * WHISKER_LEAST && !isnan(r->at))
        return;
    for (int end = 0; end < 2; end++)
        ki_draw(f->drawing, KI_SHAPE_LINE, KI_STYLE_WHISKER, x - 2.5, end == 0 ? top : bottom, 5, 0)->group = series;
    ki_shape *line = ki_draw(f->drawing, KI_SHAPE_LINE, KI_STYLE_WHISKER, x, top, 0, bottom - top);
    line->group = series;
    ki_draw_tip(f->drawing, line, "%s", tip);
}

/* The lines of a series: points has room for all matches of the panel. */
static void draw_line(const figure *f, int series, double *points)
{
    int count = 0;
    for (size_t i = 0; i <= f->panel->count; i++) {
        size_t m = f->panel->first + i;
        const ki_value *value = i < f->panel->count ? ki_value_at(f->comparison, m, series) : NULL;
        reading r = read_value(value, f->sort);
        if (!isnan(r.at)) {
            points[2 * count] = ki_axis_at(&f->x, (double)f->comparison->matches[m].point.nbytes);
            points[2 * count + 1] = ki_axis_at(&f->y, r.at);
            count++;
        } else if ((value != NULL || i == f->panel->count) && count > 0) {
            if (count > 1)
                ki_draw_poly(f->drawing, ki_series_curve(series), points, count, false)->group = series;
            count = 0;
        }
    }
}

static void draw_marks(const figure *f, int series)
{
    char tip[384];
    for (size_t i = 0; i < f->panel->count; i++) {
        const ki_match *match = &f->comparison->matches[f->panel->first + i];
        reading r = read_value(match->values[series], f->sort);
        if (isnan(r.at) && isnan(r.low))
            continue;
        double x = ki_axis_at(&f->x, (double)match->point.nbytes);
        ki_value_tip(f->comparison, match->values[series], tip, sizeof(tip));
        limit_whisker(&r);
        draw_whisker(f, series, x, &r, tip);
        if (!isnan(r.at))
            ki_series_mark(f->drawing, series, x, ki_axis_at(&f->y, r.at), tip);
    }
}

bool ki_curves_draw(ki_drawing *drawing, const ki_comparison *c, const ki_panel *panel, ki_plot_sort sort,
                    const int *series, int count)
{
    static const char *const what[] = { "time of one operation, median", "bus bandwidth, GB/s",
                                        "times as fast as the baseline, with 95 % intervals" };
    figure f = { .drawing = drawing, .comparison = c, .panel = panel, .sort = sort };
    double low, high;
    size_t first = panel->first, last = panel->first + panel->count - 1;
    while (first < last && c->matches[first].point.nbytes == 0)
        first++;
    double *points = malloc(2 * panel->count * sizeof(*points));
    if (points == NULL)
        drawing->is_failed = true;
    if (points == NULL || !find_range(&f, series, count, &low, &high)) {
        free(points);
        return false;
    }
    double top = ki_plot_head(drawing, c, panel, what[sort], series, count), bottom = top + PLOT_HEIGHT;
    f.x = ki_axis_make((double)c->matches[first].point.nbytes, (double)c->matches[last].point.nbytes, LEFT,
                       KI_PLOT_WIDTH - RIGHT, true, sort);
    f.y = ki_axis_make(low, high, bottom, top, false, sort);
    ki_axes_draw(drawing, &f.x, &f.y);
    if (sort == KI_PLOT_RATIO)
        ki_draw(drawing, KI_SHAPE_LINE, KI_STYLE_AXIS, LEFT, ki_axis_at(&f.y, 1), KI_PLOT_WIDTH - RIGHT - LEFT, 0)
            ->line = 1.6;
    for (int i = 0; i < count; i++)
        draw_line(&f, series[i], points);
    for (int i = 0; i < count; i++)
        draw_marks(&f, series[i]);
    free(points);
    drawing->width = KI_PLOT_WIDTH;
    drawing->height = bottom + 26;
    return true;
}

#else
typedef int ki_compare_plot_curves_needs_jansson; /* a file must not be empty */
#endif
