/* tools/compare/plot_axis.c - axes with logarithms, legends, marks.
 *
 * Values get ticks at 1, 2 and 5 times powers of ten while these are few enough to be read, then at powers alone; where
 * all values are near each other, at round steps. Sizes get powers of two.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifdef KITH_HAVE_JANSSON
#include "plots.h"

#include <math.h>
#include <string.h>

#define TICKS_MOST 64
#define LABELS_MOST 7
#define MARK_HALF 3.2
#define NAME_FONT 9.5 /* of KI_STYLE_SMALL */

/* ---- scales ---- */

ki_axis ki_axis_make(double low, double high, double first, double last, bool is_size, ki_plot_sort sort)
{
    double room = is_size ? 1.4 : high / low < 1.2 ? 1.01 : high / low < 4 ? 1.05 : 1.25;
    if (!(high > low * 1.0001))
        room = is_size ? 2 : 1.1;
    return (ki_axis){ low / room, high * room, first, last, is_size, sort };
}

double ki_axis_at(const ki_axis *axis, double value)
{
    return axis->first + (axis->last - axis->first) * log(value / axis->low) / log(axis->high / axis->low);
}

const char *ki_tick_name(const ki_axis *axis, double value, char *buffer, size_t nbytes)
{
    if (axis->is_size)
        return ki_size_name((int64_t)llround(value), buffer, nbytes);
    if (axis->sort == KI_PLOT_TIME)
        return ki_time_name(value, buffer, nbytes);
    snprintf(buffer, nbytes, "%.6g", value);
    return buffer;
}

/* 1, 2 or 5 times a power of ten, at least value. */
static double round_up(double value)
{
    double power = pow(10, floor(log10(value)));
    double digit = value / power;
    return power * (digit <= 1 ? 1 : digit <= 2 ? 2 : digit <= 5 ? 5 : 10);
}

static int size_ticks(const ki_axis *axis, double *ticks)
{
    int low = (int)ceil(log2(axis->low) - 1e-9), high = (int)floor(log2(axis->high) + 1e-9), count = 0;
    int step = 1;
    while ((high - low) / step + 1 > LABELS_MOST)
        step++;
    low = low < 0 ? 0 : low;
    for (int power = (low + step - 1) / step * step; power <= high && count < TICKS_MOST; power += step)
        ticks[count++] = ldexp(1, power);
    return count;
}

static int round_ticks(const ki_axis *axis, double *ticks)
{
    double step = round_up((axis->high - axis->low) / 5);
    int count = 0;
    for (double n = ceil(axis->low / step); n * step <= axis->high && count < TICKS_MOST; n++)
        ticks[count++] = n * step;
    return count;
}

static int decade_ticks(const ki_axis *axis, double *ticks)
{
    static const double digits[] = { 1, 2, 5 };
    double decades = log10(axis->high / axis->low);
    int kinds = decades < 2.7 ? 3 : 1, step = decades > LABELS_MOST ? (int)ceil(decades / LABELS_MOST) : 1, count = 0;
    for (int power = (int)floor(log10(axis->low)); power <= (int)floor(log10(axis->high)); power += step)
        for (int i = 0; i < kinds; i++) {
            double tick = digits[i] * pow(10, power);
            if (tick >= axis->low * 0.9999 && tick <= axis->high * 1.0001 && count < TICKS_MOST)
                ticks[count++] = tick;
        }
    return count;
}

static int ticks_of(const ki_axis *axis, double *ticks)
{
    if (axis->is_size)
        return size_ticks(axis, ticks);
    return axis->high / axis->low < 5 ? round_ticks(axis, ticks) : decade_ticks(axis, ticks);
}

void ki_axes_draw(ki_drawing *drawing, const ki_axis *x, const ki_axis *y)
{
    double ticks[TICKS_MOST];
    char name[64];
    int count = ticks_of(x, ticks);
    for (int i = 0; i < count; i++) {
        double at = ki_axis_at(x, ticks[i]);
        ki_draw(drawing, KI_SHAPE_LINE, KI_STYLE_GRID, at, y->last, 0, y->first - y->last);
        ki_draw_text(drawing, KI_STYLE_FAINT, at, y->first + 14, 0, 0.5, "%s",
                     ki_tick_name(x, ticks[i], name, sizeof(name)));
    }
    count = ticks_of(y, ticks);
    for (int i = 0; i < count; i++) {
        double at = ki_axis_at(y, ticks[i]);
        ki_draw(drawing, KI_SHAPE_LINE, KI_STYLE_GRID, x->first, at, x->last - x->first, 0);
        ki_draw_text(drawing, KI_STYLE_FAINT, x->first - 6, at + 3.4, 0, 1, "%s",
                     ki_tick_name(y, ticks[i], name, sizeof(name)));
    }
    ki_draw(drawing, KI_SHAPE_LINE, KI_STYLE_AXIS, x->first, y->first, x->last - x->first, 0);
    ki_draw(drawing, KI_SHAPE_LINE, KI_STYLE_AXIS, x->first, y->first, 0, y->last - y->first);
}

/* ---- series ---- */

static bool is_inside(unsigned char byte) /* a character of UTF-8 */
{
    return (byte & 0xc0) == 0x80;
}

const char *ki_short_name(const char *name, double width, char *buffer, size_t nbytes)
{
    size_t length = strlen(name), head = length / 2, tail = length - head;
    snprintf(buffer, nbytes, "%s", name);
    while (ki_text_width(buffer, NAME_FONT, false) > width && head > 0 && tail > 0) {
        if (head >= tail)
            head--;
        else
            tail--;
        while (head > 0 && is_inside((unsigned char)name[head]))
            head--;
        while (tail > 0 && is_inside((unsigned char)name[length - tail]))
            tail--;
        snprintf(buffer, nbytes, "%.*s\xe2\x80\xa6%s", (int)head, name, name + length - tail);
    }
    return buffer;
}

ki_style ki_series_curve(int series)
{
    static const ki_style styles[] = { KI_STYLE_CURVE, KI_STYLE_CURVE_DASHED, KI_STYLE_CURVE_DOTTED };
    return styles[series % 3];
}

void ki_series_mark(ki_drawing *drawing, int series, double x, double y, const char *tip)
{
    /* circle, square, triangle, diamond, triangle on its head */
    static const double figures[5][8] = {
        { 0 },
        { -0.9, -0.9, 0.9, -0.9, 0.9, 0.9, -0.9, 0.9 },
        { 0, -1.2, 1.15, 0.9, -1.15, 0.9 },
        { 0, -1.3, 1.3, 0, 0, 1.3, -1.3, 0 },
        { 0, 1.2, 1.15, -0.9, -1.15, -0.9 },
    };
    static const int corners[] = { 0, 4, 3, 4, 3 };
    int figure = (series + series / KI_GROUP_COLOURS) % 5; /* series of one colour and line have other marks */
    double points[8];
    ki_shape *shape;
    for (int i = 0; i < 2 * corners[figure]; i++)
        points[i] = (i % 2 == 0 ? x : y) + MARK_HALF * figures[figure][i];
    if (figure == 0)
        shape =
            ki_draw(drawing, KI_SHAPE_BOX, KI_STYLE_MARK, x - MARK_HALF, y - MARK_HALF, 2 * MARK_HALF, 2 * MARK_HALF);
    else
        shape = ki_draw_poly(drawing, KI_STYLE_MARK, points, corners[figure], true);
    shape->group = series;
    if (tip != NULL)
        ki_draw_tip(drawing, shape, "%s", tip);
}

static void draw_sample(ki_drawing *drawing, int series, double x, double y)
{
    double line[] = { x, y, x + 26, y };
    ki_draw_poly(drawing, ki_series_curve(series), line, 2, false)->group = series;
    ki_series_mark(drawing, series, x + 13, y, NULL);
}

double ki_plot_entries(ki_drawing *drawing, const char *title, const char *what, const char *const *names,
                       const int *groups, int count)
{
    enum { MARGIN = 12, ENTRY_MOST = 200 };
    char text[160];
    double x = MARGIN, y = 52;
    ki_draw_text(drawing, KI_STYLE_HEADING, MARGIN, 20, KI_PLOT_WIDTH - 2 * MARGIN, 0, "%s", title);
    ki_draw_text(drawing, KI_STYLE_TEXT, MARGIN, 36, KI_PLOT_WIDTH - 2 * MARGIN, 0, "%s", what);
    for (int i = 0; i < count; i++) {
        ki_short_name(names[i], ENTRY_MOST, text, sizeof(text));
        double width = ki_text_width(text, NAME_FONT, false) + 32;
        if (x > MARGIN && x + width > KI_PLOT_WIDTH - MARGIN) {
            x = MARGIN;
            y += 15;
        }
        draw_sample(drawing, groups[i], x, y);
        ki_draw_text(drawing, KI_STYLE_SMALL, x + 31, y + 3.4, ENTRY_MOST, 0, "%s", text);
        x += width + 14;
    }
    return count > 0 ? y + 14 : y - 6;
}

double ki_plot_head(ki_drawing *drawing, const ki_comparison *c, const ki_panel *panel, const char *what,
                    const int *series, int count)
{
    char name[256];
    const char *names[KI_SERIES_MAX];
    for (int i = 0; i < count; i++)
        names[i] = c->series[series[i]].name;
    return ki_plot_entries(drawing, ki_panel_name(c, panel, name, sizeof(name)), what, names, series, count);
}

void ki_value_tip(const ki_comparison *c, const ki_value *value, char *buffer, size_t nbytes)
{
    char point[64], time[32], low[32], high[32];
    int used =
        snprintf(buffer, nbytes, "%s, %s: %s", c->series[value->row->series].name,
                 ki_point_name(&value->row->point, point, sizeof(point)),
                 isnan(value->time_us) ? "no reliable median" : ki_time_name(value->time_us, time, sizeof(time)));
    if (!isnan(value->p25) && !isnan(value->p75))
        used += snprintf(buffer + used, nbytes - (size_t)used, " (middle half %s to %s)",
                         ki_time_name(value->p25, low, sizeof(low)), ki_time_name(value->p75, high, sizeof(high)));
    if (!isnan(value->busbw))
        used += snprintf(buffer + used, nbytes - (size_t)used, ", %.4g GB/s", value->busbw);
    if (!isnan(value->hidden))
        used += snprintf(buffer + used, nbytes - (size_t)used, ", %.0f %% hidden", value->hidden);
    if (!isnan(value->speed.ratio))
        used += snprintf(buffer + used, nbytes - (size_t)used, ", %.3g times as fast", value->speed.ratio);
    if (value->row->is_slow)
        used += snprintf(buffer + used, nbytes - (size_t)used, ", below the %.4g GB/s expected of %s",
                         value->row->expected, ki_words_text(&c->results->words, value->row->link_of_pair));
    if (value->errors > 0)
        snprintf(buffer + used, nbytes - (size_t)used, ", wrong elements");
}

#else
typedef int ki_compare_plot_axis_needs_jansson; /* a file must not be empty */
#endif
