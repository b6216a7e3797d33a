/* tools/compare/plot_peers.c - times by size of Kith's contenders and of the best peer at each size. A curve is broken
 * where the cores were of another class than at the size before, as such times are not compared.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifdef KITH_HAVE_JANSSON
#include "plots.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LEFT 50.0
#define RIGHT 16.0
#define PLOT_HEIGHT 200.0
#define CURVES_MOST KI_PLOT_SERIES_MOST

typedef struct curve {
    ki_word contender; /* of the best peer: the Kith contender that it is beside */
    bool is_peer;
    char name[64];
} curve;

typedef struct figure {
    ki_drawing *drawing;
    const ki_results *results;
    const ki_peer_table *table;
    curve curves[CURVES_MOST];
    int count;
    ki_axis x, y;
} figure;

static double reading(const figure *f, int i, size_t at)
{
    const ki_figure *point = &f->table->figures[at];
    const curve *one = &f->curves[i];
    if (point->nbytes == 0)
        return NAN;
    ki_word contender = one->is_peer ? ki_figure_best_peer(f->results, point, one->contender) : one->contender;
    return contender == 0 ? NAN : ki_figure_us(point, contender);
}

static bool has_reading(const figure *f, int i)
{
    for (size_t at = 0; at < f->table->count; at++)
        if (!isnan(reading(f, i, at)))
            return true;
    return false;
}

static void add_curve(figure *f, ki_word contender, bool is_peer, const char *name)
{
    if (f->count == CURVES_MOST)
        return;
    curve *one = &f->curves[f->count];
    *one = (curve){ contender, is_peer, "" };
    snprintf(one->name, sizeof(one->name), "%s", name);
    f->count += has_reading(f, f->count);
}

/* The best peer of each type first, as room for curves may end. */
static void find_curves(figure *f)
{
    bool has[2] = { false, false };
    char name[64];
    for (int i = 0; i < f->table->kith_count; i++) {
        ki_word contender = f->table->contenders[i];
        bool is_bf16 = strstr(ki_words_text(&f->results->words, contender), "-bf16") != NULL;
        if (!has[is_bf16])
            add_curve(f, contender, true, is_bf16 ? "best peer, bf16" : "best peer");
        has[is_bf16] = true;
    }
    for (int i = 0; i < f->table->kith_count; i++)
        add_curve(f, f->table->contenders[i], false,
                  ki_contender_name(f->results, f->table->contenders[i], name, sizeof(name)));
}

static bool find_range(const figure *f, double *low, double *high)
{
    *low = *high = NAN;
    for (int i = 0; i < f->count; i++)
        for (size_t at = 0; at < f->table->count; at++) {
            *low = fmin(*low, reading(f, i, at));
            *high = fmax(*high, reading(f, i, at));
        }
    return *high > 0;
}

static double place_x(const figure *f, size_t at)
{
    return ki_axis_at(&f->x, (double)f->table->figures[at].nbytes);
}

static void draw_line(const figure *f, int i, double *points)
{
    int count = 0;
    for (size_t at = 0; at <= f->table->count; at++) {
        double value = at < f->table->count ? reading(f, i, at) : NAN;
        bool is_moved =
            at > 0 && at < f->table->count && f->table->figures[at].cores != f->table->figures[at - 1].cores;
        if ((isnan(value) || is_moved) && count > 1)
            ki_draw_poly(f->drawing, ki_series_curve(i), points, count, false)->group = i;
        if (isnan(value) || is_moved)
            count = 0;
        if (isnan(value))
            continue;
        points[2 * count] = place_x(f, at);
        points[2 * count + 1] = ki_axis_at(&f->y, value);
        count++;
    }
}

static void draw_marks(const figure *f, int i)
{
    char tip[256], size[64], time[32], peer[64];
    const curve *one = &f->curves[i];
    for (size_t at = 0; at < f->table->count; at++) {
        const ki_figure *point = &f->table->figures[at];
        double value = reading(f, i, at);
        if (isnan(value))
            continue;
        ki_word best = ki_figure_best_peer(f->results, point, one->contender);
        snprintf(tip, sizeof(tip), "%s%s%s, %s: %s, cores %s", one->name, one->is_peer ? ": " : "",
                 one->is_peer ? ki_contender_name(f->results, best, peer, sizeof(peer)) : "",
                 ki_size_name(point->nbytes, size, sizeof(size)), ki_time_name(value, time, sizeof(time)),
                 ki_words_text(&f->results->words, point->cores));
        ki_series_mark(f->drawing, i, place_x(f, at), ki_axis_at(&f->y, value), tip);
    }
}

bool ki_peers_draw(ki_drawing *drawing, const ki_comparison *c, const ki_peer_table *table)
{
    figure f = { .drawing = drawing, .results = c->results, .table = table };
    const char *names[CURVES_MOST];
    int numbers[CURVES_MOST];
    char title[256];
    double low, high;
    size_t first = 0;
    find_curves(&f);
    while (first < table->count - 1 && table->figures[first].nbytes == 0)
        first++;
    double *points = malloc(2 * table->count * sizeof(*points));
    drawing->is_failed |= points == NULL;
    if (points == NULL || !find_range(&f, &low, &high)) {
        free(points);
        return false;
    }
    for (int i = 0; i < f.count; i++) {
        names[i] = f.curves[i].name;
        numbers[i] = i;
    }
    ki_peer_table_name(c->results, table, title, sizeof(title));
    double top = ki_plot_entries(drawing, title, "time of one operation, median", names, numbers, f.count);
    f.x = ki_axis_make((double)table->figures[first].nbytes, (double)table->figures[table->count - 1].nbytes, LEFT,
                       KI_PLOT_WIDTH - RIGHT, true, KI_PLOT_TIME);
    f.y = ki_axis_make(low, high, top + PLOT_HEIGHT, top, false, KI_PLOT_TIME);
    ki_axes_draw(drawing, &f.x, &f.y);
    for (int i = 0; i < f.count; i++)
        draw_line(&f, i, points);
    for (int i = 0; i < f.count; i++)
        draw_marks(&f, i);
    free(points);
    drawing->width = KI_PLOT_WIDTH;
    drawing->height = top + PLOT_HEIGHT + 26;
    return true;
}

#else
typedef int ki_compare_plot_peers_needs_jansson; /* a file must not be empty */
#endif
