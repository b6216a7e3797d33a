/* tools/schedule_draw.c - the picture of plans: a lane for each rank, time to the right, a box for each computation
 * with its microbatch in it, as the papers draw them. What is light grey is idle.
 *
 * Several plans stand below one another on one scale of time, so that their lengths can be compared. An overlapped
 * forward and backward share a box, the forward above. Chunks after a rank's first are lighter.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "schedule.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MARGIN 24.0
#define LABEL_WIDTH 56.0
#define LANE_HEIGHT 22.0
#define LANE_GAP 3.0
#define BOX_WIDTH_WANTED 16.0 /* of the mean computation, so that its number can be read */
#define LANE_WIDTH_LEAST 640.0
#define LANE_WIDTH_MOST 4000.0
#define BOXES_MOST 200000 /* more than anybody looks at, and less than viewers choke on */

typedef struct canvas {
    ki_drawing *drawing;
    double scale; /* points for a unit of time */
    double lane_width;
} canvas;

/* ---- how it went ---- */

/* When each action of a rank ran, *count of them. */
static const kith_interval *intervals_of(const ki_schedule_view *view, int rank, size_t *count)
{
    if (view->measured == NULL)
        return kith_simulation_intervals(view->run, rank, count);
    kith_schedule_actions(view->plan, rank, count);
    return view->measured[rank];
}

/* Totals of what was measured, as a simulation has them: computing is busy, all else is not. */
static kith_simulation_total_result measured_total(const ki_schedule_view *view)
{
    kith_simulation_total_result total = { 0 };
    double most_busy = 0, longest_span = 0;
    for (int rank = 0; rank < kith_schedule_ranks(view->plan); rank++) {
        size_t count;
        const kith_action *actions = kith_schedule_actions(view->plan, rank, &count);
        double busy = 0, start = INFINITY, end = 0;
        for (size_t i = 0; i < count; i++) {
            const kith_interval *at = &view->measured[rank][i];
            if (actions[i].type < KITH_ACTION_F || actions[i].type > KITH_ACTION_RECOMPUTE)
                continue;
            busy += at->end - at->start;
            start = fmin(start, at->start), end = fmax(end, at->end);
        }
        most_busy = fmax(most_busy, busy);
        longest_span = fmax(longest_span, end - start);
        total.makespan = fmax(total.makespan, end);
    }
    total.bubble = total.makespan - most_busy;
    total.rate = total.makespan > 0 ? total.bubble / total.makespan : 0;
    total.span_bubble = longest_span - most_busy;
    total.span_rate = longest_span > 0 ? total.span_bubble / longest_span : 0;
    return total;
}

static kith_simulation_total_result total_of(const ki_schedule_view *view)
{
    return view->measured != NULL ? measured_total(view) : *kith_simulation_total(view->run);
}

/* False for what is not drawn. */
static bool style_of(const kith_action *action, ki_style *style)
{
    bool is_first = action->chunk <= 0;
    switch (action->type) {
    case KITH_ACTION_F:
        *style = is_first ? KI_STYLE_F : KI_STYLE_F_ALT;
        return true;
    case KITH_ACTION_B:
        *style = is_first ? KI_STYLE_B : KI_STYLE_B_ALT;
        return true;
    case KITH_ACTION_I:
        *style = is_first ? KI_STYLE_I : KI_STYLE_I_ALT;
        return true;
    case KITH_ACTION_W:
        *style = is_first ? KI_STYLE_W : KI_STYLE_W_ALT;
        return true;
    case KITH_ACTION_RECOMPUTE:
        *style = KI_STYLE_RECOMPUTE;
        return true;
    default:
        return false;
    }
}

/* ---- sizes ---- */

static size_t count_boxes(const ki_schedule_view *views, int count)
{
    size_t boxes = 0, one;
    for (int i = 0; i < count; i++)
        for (int rank = 0; rank < kith_schedule_ranks(views[i].plan); rank++) {
            kith_schedule_actions(views[i].plan, rank, &one);
            boxes += one;
        }
    return boxes;
}

static double longest(const ki_schedule_view *views, int count)
{
    double makespan = 0;
    for (int i = 0; i < count; i++)
        makespan = fmax(makespan, total_of(&views[i]).makespan);
    return makespan;
}

/* Mean length of what takes time. */
static double mean_length(const ki_schedule_view *views, int count)
{
    double sum = 0;
    size_t boxes = 0;
    for (int i = 0; i < count; i++)
        for (int rank = 0; rank < kith_schedule_ranks(views[i].plan); rank++) {
            size_t actions;
            ki_style unused;
            const kith_interval *at = intervals_of(&views[i], rank, &actions);
            const kith_action *list = kith_schedule_actions(views[i].plan, rank, &actions);
            for (size_t n = 0; n < actions; n++) {
                if (!style_of(&list[n], &unused))
                    continue;
                sum += at[n].end - at[n].start;
                boxes += at[n].end > at[n].start;
            }
        }
    return boxes > 0 ? sum / (double)boxes : 1;
}

static canvas fit(ki_drawing *drawing, const ki_schedule_view *views, int count)
{
    double makespan = longest(views, count);
    makespan = makespan > 0 ? makespan : 1;
    double width = makespan / mean_length(views, count) * BOX_WIDTH_WANTED;
    width = fmin(fmax(width, LANE_WIDTH_LEAST), LANE_WIDTH_MOST);
    return (canvas){ drawing, width / makespan, width };
}

/* ---- one lane ---- */

static void draw_box(const canvas *c, const kith_action *action, const kith_interval *at, double x, double y,
                     double height)
{
    ki_style style;
    char cell[64], number[16];
    if (!style_of(action, &style) || !(at->end > at->start))
        return;
    double left = x + at->start * c->scale, width = (at->end - at->start) * c->scale;
    ki_shape *box = ki_draw(c->drawing, KI_SHAPE_BOX, style, left, y, width, height);
    ki_draw_tip(c->drawing, box, "%s, %.6g to %.6g", kith_action_text(action, cell, sizeof cell), at->start, at->end);
    bool is_light = action->chunk > 0 && style != KI_STYLE_RECOMPUTE;
    snprintf(number, sizeof number, "%d", action->microbatch);
    if (ki_text_width(number, 9.5, true) + 2 <= width && height >= 10)
        ki_draw_text(c->drawing, is_light ? KI_STYLE_ON_LIGHT : KI_STYLE_ON_DARK, left + width / 2,
                     y + height / 2 + 3.3, 0, 0.5, "%s", number);
}

static void draw_lane(const canvas *c, const ki_schedule_view *view, int rank, double x, double y)
{
    size_t count, timed;
    const kith_action *actions = kith_schedule_actions(view->plan, rank, &count);
    const kith_interval *at = intervals_of(view, rank, &timed);
    double makespan = total_of(view).makespan;
    ki_draw_text(c->drawing, KI_STYLE_TEXT, x - 8, y + LANE_HEIGHT / 2 + 4, 0, 1, "rank %d", rank);
    ki_draw(c->drawing, KI_SHAPE_BOX, KI_STYLE_LANE, x, y, makespan * c->scale, LANE_HEIGHT);
    for (size_t i = 0; i < count && i < timed; i++) {
        if (actions[i].is_overlapped && i + 1 < count) {
            draw_box(c, &actions[i], &at[i], x, y, LANE_HEIGHT / 2);
            draw_box(c, &actions[i + 1], &at[i + 1], x, y + LANE_HEIGHT / 2, LANE_HEIGHT / 2);
            i++;
        } else {
            draw_box(c, &actions[i], &at[i], x, y, LANE_HEIGHT);
        }
    }
}

/* ---- one plan ---- */

/* 1, 2 or 5 times a power of ten, so that there are about ten of them. */
static double tick_step(double makespan)
{
    double power = pow(10, floor(log10(makespan / 10)));
    double step = makespan / 10 / power;
    return power * (step <= 1 ? 1 : step <= 2 ? 2 : step <= 5 ? 5 : 10);
}

static double draw_axis(const canvas *c, double makespan, double x, double y)
{
    double step = makespan > 0 ? tick_step(makespan) : 1;
    ki_draw(c->drawing, KI_SHAPE_LINE, KI_STYLE_AXIS, x, y, makespan * c->scale, 0);
    for (int i = 0; i * step <= makespan * (1 + 1e-9); i++) {
        ki_draw(c->drawing, KI_SHAPE_LINE, KI_STYLE_AXIS, x + i * step * c->scale, y, 0, 4);
        ki_draw_text(c->drawing, KI_STYLE_FAINT, x + i * step * c->scale, y + 14, 0, 0.5, "%g", i * step);
    }
    return y + 24;
}

static int peak_in_flight(const ki_schedule_view *view)
{
    int peak = 0;
    kith_in_flight one = { 0, 0, 0 };
    for (int rank = 0; rank < kith_schedule_ranks(view->plan); rank++)
        if (kith_schedule_in_flight(view->plan, rank, &one) == KITH_OK && one.activations > peak)
            peak = one.activations;
    return peak;
}

static double draw_plan(const canvas *c, const ki_schedule_view *view, double y)
{
    const kith_simulation_total_result found = total_of(view), *total = &found;
    int ranks = kith_schedule_ranks(view->plan), stages = kith_schedule_stages(view->plan);
    int microbatches = kith_schedule_microbatches(view->plan);
    double x = MARGIN + LABEL_WIDTH;
    ki_draw_text(c->drawing, KI_STYLE_HEADING, x, y + 12, 0, 0, "%s", view->name);
    ki_draw_text(
        c->drawing, KI_STYLE_SMALL, x, y + 26, c->lane_width, 0,
        "%d rank%s, %d stage%s, %d microbatch%s; makespan %.6g, bubble %.6g (%.2f %%), inside spans %.2f %%; at most "
        "%d in flight",
        ranks, ranks == 1 ? "" : "s", stages, stages == 1 ? "" : "s", microbatches, microbatches == 1 ? "" : "es",
        total->makespan, total->bubble, 100 * total->rate, 100 * total->span_rate, peak_in_flight(view));
    y += 34;
    for (int rank = 0; rank < ranks; rank++, y += LANE_HEIGHT + LANE_GAP)
        draw_lane(c, view, rank, x, y);
    return draw_axis(c, total->makespan, x, y + 2);
}

/* ---- all ---- */

static bool has_type(const ki_schedule_view *views, int count, kith_action_type type, bool is_later_chunk)
{
    for (int i = 0; i < count; i++)
        for (int rank = 0; rank < kith_schedule_ranks(views[i].plan); rank++) {
            size_t actions;
            const kith_action *list = kith_schedule_actions(views[i].plan, rank, &actions);
            for (size_t n = 0; n < actions; n++)
                if (list[n].type == type && (list[n].chunk > 0) == is_later_chunk)
                    return true;
        }
    return false;
}

static double draw_legend(const canvas *c, const ki_schedule_view *views, int count, double y)
{
    static const struct {
        kith_action_type type;
        bool is_later;
        ki_style style;
        const char *text;
    } entries[] = {
        { KITH_ACTION_F, false, KI_STYLE_F, "forward" },
        { KITH_ACTION_F, true, KI_STYLE_F_ALT, "of a later chunk" },
        { KITH_ACTION_B, false, KI_STYLE_B, "backward" },
        { KITH_ACTION_B, true, KI_STYLE_B_ALT, "of a later chunk" },
        { KITH_ACTION_I, false, KI_STYLE_I, "backward, inputs" },
        { KITH_ACTION_I, true, KI_STYLE_I_ALT, "of a later chunk" },
        { KITH_ACTION_W, false, KI_STYLE_W, "backward, weights" },
        { KITH_ACTION_W, true, KI_STYLE_W_ALT, "of a later chunk" },
        { KITH_ACTION_RECOMPUTE, false, KI_STYLE_RECOMPUTE, "forward again" },
    };
    double x = MARGIN + LABEL_WIDTH;
    for (size_t i = 0; i < sizeof entries / sizeof entries[0]; i++) {
        if (!has_type(views, count, entries[i].type, entries[i].is_later))
            continue;
        double width = 19 + ki_text_width(entries[i].text, 9.5, false);
        if (x + width > MARGIN + LABEL_WIDTH + c->lane_width) {
            x = MARGIN + LABEL_WIDTH;
            y += 16;
        }
        ki_draw(c->drawing, KI_SHAPE_BOX, entries[i].style, x, y, 14, 10);
        ki_draw_text(c->drawing, KI_STYLE_SMALL, x + 19, y + 8.5, 0, 0, "%s", entries[i].text);
        x += width + 16;
    }
    return y + 22;
}

ki_drawing *ki_schedule_drawing(const ki_schedule_view *views, int count, const char **error)
{
    if (count_boxes(views, count) > BOXES_MOST) {
        *error = "more than 200000 actions; draw fewer microbatches, or use --format trace";
        return NULL;
    }
    *error = "memory is short";
    ki_drawing *drawing = calloc(1, sizeof *drawing);
    if (drawing == NULL)
        return NULL;
    canvas c = fit(drawing, views, count);
    double y = MARGIN;
    for (int i = 0; i < count; i++)
        y = draw_plan(&c, &views[i], y) + 10;
    y = draw_legend(&c, views, count, y);
    drawing->width = 2 * MARGIN + LABEL_WIDTH + c.lane_width;
    drawing->height = y + MARGIN / 2;
    drawing->title = strdup(count == 1 ? views[0].name : "pipeline schedules compared");
    if (drawing->is_failed || drawing->title == NULL) {
        ki_drawing_destroy(drawing);
        return NULL;
    }
    return drawing;
}
