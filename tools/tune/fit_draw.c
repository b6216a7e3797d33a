/* tools/tune/fit_draw.c - fits as a picture: a panel for each curve, the predicted line over the measured points, both
 * axes logarithmic.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "tune.h"

#include "../draw.h"
#include "../output.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define PANEL_WIDTH 400.0
#define PANEL_HEIGHT 280.0
#define LEFT 64.0 /* of a panel, for its numbers */
#define RIGHT 20.0
#define TOP 44.0
#define BOTTOM 40.0
#define HEAD 56.0
#define DOT 5.0
enum { COLUMNS = 2, STEPS = 64 };

/* Where a panel lies, and what its axes show. */
typedef struct panel {
    ki_drawing *drawing;
    double x, y, width, height;          /* of the field inside the axes */
    double low_x, high_x, low_y, high_y; /* logarithms to base 2 and 10 */
} panel;

static double x_of(const panel *p, double nbytes)
{
    return p->x + p->width * (log2(nbytes) - p->low_x) / (p->high_x - p->low_x);
}

static double y_of(const panel *p, double time_us)
{
    return p->y + p->height * (1 - (log10(time_us) - p->low_y) / (p->high_y - p->low_y));
}

static void choose_axes(panel *p, const tune_curve *curve)
{
    double least = HUGE_VAL, most = 0;
    for (size_t i = 0; i < curve->count; i++) {
        double predicted = tune_fit_time(&curve->fit, curve->points[i].nbytes);
        least = fmin(least, fmin(curve->points[i].time_us, predicted));
        most = fmax(most, fmax(curve->points[i].time_us, predicted));
    }
    p->low_x = floor(log2(curve->points[0].nbytes));
    p->high_x = fmax(ceil(log2(curve->points[curve->count - 1].nbytes)), p->low_x + 1);
    p->low_y = floor(log10(least));
    p->high_y = fmax(ceil(log10(most)), p->low_y + 1);
}

static void draw_axes(const panel *p)
{
    char text[32];
    double every = fmax(1, ceil((p->high_x - p->low_x) / 6));
    for (double at = p->low_x; at <= p->high_x; at += every) {
        double x = x_of(p, exp2(at));
        ki_draw(p->drawing, KI_SHAPE_LINE, KI_STYLE_AXIS, x, p->y, 0, p->height);
        ki_draw_text(p->drawing, KI_STYLE_SMALL, x, p->y + p->height + 14, 0, 0.5, "%s",
                     ki_text_bytes(text, sizeof text, exp2(at)));
    }
    for (double at = p->low_y; at <= p->high_y; at++) {
        double y = y_of(p, pow(10, at));
        ki_draw(p->drawing, KI_SHAPE_LINE, KI_STYLE_AXIS, p->x, y, p->width, 0);
        ki_draw_text(p->drawing, KI_STYLE_SMALL, p->x - 6, y + 3, 0, 1, "%s",
                     ki_text_time(text, sizeof text, pow(10, at) * 1e-6));
    }
}

/* A jump at the knee is left open. */
static void draw_line(const panel *p, const tune_fit *fit, double from, double to)
{
    for (int i = 0; i < STEPS; i++) {
        double a = from * pow(to / from, (double)i / STEPS), b = from * pow(to / from, (double)(i + 1) / STEPS);
        double time_a = tune_fit_time(fit, a), time_b = tune_fit_time(fit, b);
        if (fit->has_knee && a <= fit->knee_nbytes && b > fit->knee_nbytes)
            continue;
        double x = x_of(p, a), y = y_of(p, time_a);
        ki_draw(p->drawing, KI_SHAPE_LINE, KI_STYLE_STUB, x, y, x_of(p, b) - x, y_of(p, time_b) - y)->group = 1;
    }
}

static void draw_points(const panel *p, const tune_curve *curve)
{
    char size[32], time[32];
    for (size_t i = 0; i < curve->count; i++) {
        const tune_point *point = &curve->points[i];
        ki_shape *dot = ki_draw(p->drawing, KI_SHAPE_BOX, KI_STYLE_F, x_of(p, point->nbytes) - DOT / 2,
                                y_of(p, point->time_us) - DOT / 2, DOT, DOT);
        ki_draw_tip(p->drawing, dot, "%s: %s", ki_text_bytes(size, sizeof size, point->nbytes),
                    ki_text_time(time, sizeof time, point->time_us * 1e-6));
    }
}

static void draw_panel(ki_drawing *drawing, const tune_curve *curve, double left, double top)
{
    panel p = { .drawing = drawing, .x = left + LEFT, .y = top + TOP };
    const tune_row *key = &curve->key;
    p.width = PANEL_WIDTH - LEFT - RIGHT;
    p.height = PANEL_HEIGHT - TOP - BOTTOM;
    choose_axes(&p, curve);
    ki_draw_text(drawing, KI_STYLE_HEADING, left + LEFT, top + 18, p.width, 0, "%s over %s, %d ranks", key->op,
                 tune_curve_link(curve), key->ranks);
    ki_draw_text(drawing, KI_STYLE_SMALL, left + LEFT, top + 34, p.width, 0, "%s, %s memory; alpha %.3g us", key->dtype,
                 key->memory, curve->fit.below.alpha_us);
    draw_axes(&p);
    draw_points(&p, curve);
    draw_line(&p, &curve->fit, curve->points[0].nbytes, curve->points[curve->count - 1].nbytes);
}

static size_t count_fits(const tune_curves *curves)
{
    size_t count = 0;
    for (size_t i = 0; i < curves->count; i++)
        count += curves->list[i].has_fit;
    return count;
}

static void draw_all(ki_drawing *drawing, const tune_curves *curves)
{
    static const char title[] = "Measured and predicted times";
    size_t count = count_fits(curves), drawn = 0;
    drawing->width = PANEL_WIDTH * (count > 1 ? COLUMNS : 1);
    drawing->height = HEAD + PANEL_HEIGHT * ceil((double)count / COLUMNS);
    drawing->title = strdup(title);
    drawing->is_failed = drawing->title == NULL;
    ki_draw_text(drawing, KI_STYLE_TITLE, LEFT, 28, 0, 0, "%s", title);
    ki_draw_text(drawing, KI_STYLE_TEXT, LEFT, 46, 0, 0, "Squares: measured medians. Line: alpha + size / bandwidth.");
    for (size_t i = 0; i < curves->count; i++) {
        if (!curves->list[i].has_fit)
            continue;
        draw_panel(drawing, &curves->list[i], PANEL_WIDTH * (double)(drawn % COLUMNS),
                   HEAD + PANEL_HEIGHT * (double)(drawn / COLUMNS));
        drawn++;
    }
}

int tune_fits_draw(const ki_command *command, const char *path, const tune_curves *curves)
{
    ki_output output;
    ki_drawing *drawing = calloc(1, sizeof *drawing);
    if (drawing != NULL)
        draw_all(drawing, curves);
    if (drawing == NULL || drawing->is_failed) {
        fprintf(stderr, "kith %s: memory is short\n", command->name);
        ki_drawing_destroy(drawing);
        return KI_EXIT_USAGE;
    }
    int result = KI_EXIT_USAGE;
    if (ki_output_open(&output, command)) {
        ki_drawing_svg(drawing, false, output.stream);
        result = ki_output_close(&output, path, false);
    }
    ki_drawing_destroy(drawing);
    return result;
}
