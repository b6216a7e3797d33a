/* tools/compare/plots.c - which pictures a comparison has, and what their files are called.
 *
 * Each panel gets time, bandwidth and ratio by size, bars when several series have it, a heat map for each series that
 * has pairs. Where there are more series than a picture can show, further ones show the others, each beside the
 * baseline.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifdef KITH_HAVE_JANSSON
#include "plots.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* ---- names of files ---- */

/* Small letters and digits of text, all else becomes one '-'. */
static void append_plain(char *buffer, size_t nbytes, const char *text)
{
    size_t used = strlen(buffer);
    for (; *text != '\0' && used + 2 < nbytes; text++) {
        bool is_plain = isalnum((unsigned char)*text) || *text == '_';
        if (is_plain)
            buffer[used++] = (char)tolower((unsigned char)*text);
        else if (used > 0 && buffer[used - 1] != '-')
            buffer[used++] = '-';
    }
    while (used > 0 && buffer[used - 1] == '-')
        used--;
    buffer[used] = '\0';
}

static bool is_taken(const ki_plots *plots, const char *file)
{
    for (size_t i = 0; i < plots->count; i++)
        if (strcmp(plots->items[i].file, file) == 0)
            return true;
    return false;
}

/* The heading of a picture. Returns buffer. */
static const char *name_plot(const ki_comparison *c, const ki_plot *plot, char *buffer, size_t nbytes)
{
    if (plot->sort != KI_PLOT_PEERS)
        return ki_panel_name(c, &c->panels[plot->panel], buffer, nbytes);
    ki_peer_table table = ki_peer_table_at(c->results, plot->panel);
    return ki_peer_table_name(c->results, &table, buffer, nbytes);
}

static void name_file(const ki_comparison *c, const ki_plots *plots, ki_plot *plot)
{
    static const char *const sorts[] = { "-time", "-busbw", "-ratio", "-bars", "-pairs", "-peers" };
    enum { ROOM = 16 }; /* for the sort and a number */
    char base[sizeof(plot->file) - ROOM] = "", panel[256];
    append_plain(base, sizeof(base), name_plot(c, plot, panel, sizeof(panel)));
    snprintf(plot->file, sizeof(plot->file), "%s%s", base, sorts[plot->sort]);
    for (int i = 2; is_taken(plots, plot->file); i++)
        snprintf(plot->file, sizeof(plot->file), "%s%s-%d", base, sorts[plot->sort], i);
}

/* ---- the list ---- */

static bool add(ki_plots *plots, const ki_comparison *c, ki_plot *plot)
{
    if (plots->count == plots->room) {
        size_t room = plots->room == 0 ? 32 : 2 * plots->room;
        ki_plot *items = realloc(plots->items, room * sizeof(*items));
        if (items == NULL)
            return false;
        plots->items = items;
        plots->room = room;
    }
    name_file(c, plots, plot);
    plots->items[plots->count++] = *plot;
    return true;
}

static bool draw_plot(const ki_plot *plot, const ki_comparison *c, const int *series, int count)
{
    const ki_panel *panel = plot->sort != KI_PLOT_PEERS ? &c->panels[plot->panel] : NULL;
    if (plot->sort == KI_PLOT_PEERS) {
        ki_peer_table table = ki_peer_table_at(c->results, plot->panel);
        return ki_peers_draw(plot->drawing, c, &table);
    }
    if (plot->sort == KI_PLOT_HEAT)
        return ki_heat_draw(plot->drawing, c, panel, series[0]);
    return plot->sort == KI_PLOT_BARS ? ki_bars_draw(plot->drawing, c, panel)
                                      : ki_curves_draw(plot->drawing, c, panel, plot->sort, series, count);
}

/* Draws one picture and adds it when there is something to see. False: memory was short. */
static bool make(ki_plots *plots, const ki_comparison *c, ki_plot plot, const int *series, int count)
{
    char name[256];
    if (plots->count == KI_PLOTS_MOST) {
        plots->left_out++;
        return true;
    }
    plot.drawing = calloc(1, sizeof(*plot.drawing));
    if (plot.drawing == NULL)
        return false;
    bool is_drawn = draw_plot(&plot, c, series, count);
    plot.drawing->title = strdup(name_plot(c, &plot, name, sizeof(name)));
    bool has_memory = !plot.drawing->is_failed && plot.drawing->title != NULL;
    if (has_memory && is_drawn && add(plots, c, &plot))
        return true;
    has_memory = has_memory && !is_drawn;
    ki_drawing_destroy(plot.drawing);
    return has_memory;
}

/* Series that have something of the panel; with is_compared those that have a baseline. */
static int series_of(const ki_comparison *c, const ki_panel *panel, bool is_compared, int *series)
{
    int count = 0;
    bool is_all;
    for (int s = 0; s < c->series_count; s++)
        if ((!is_compared || c->series[s].baseline >= 0) && (!ki_panel_lacks(c, panel, s, &is_all) || !is_all))
            series[count++] = s;
    return count;
}

/* Curves in pictures of at most KI_PLOT_SERIES_MOST; the first series, which most others are compared with, in each. */
static bool make_curves(ki_plots *plots, const ki_comparison *c, size_t panel, ki_plot_sort sort)
{
    int series[KI_SERIES_MAX], shown[KI_PLOT_SERIES_MOST];
    int count = series_of(c, &c->panels[panel], sort == KI_PLOT_RATIO, series);
    bool has_memory = true;
    for (int next = 0; next < count && has_memory;) {
        int in_picture = 0;
        if (next > 0 && sort != KI_PLOT_RATIO)
            shown[in_picture++] = series[0];
        while (in_picture < KI_PLOT_SERIES_MOST && next < count)
            shown[in_picture++] = series[next++];
        has_memory = make(plots, c, (ki_plot){ .sort = sort, .panel = panel }, shown, in_picture);
    }
    return has_memory;
}

static bool make_panel(ki_plots *plots, const ki_comparison *c, size_t panel)
{
    if (!c->panels[panel].is_pairs)
        return make_curves(plots, c, panel, KI_PLOT_TIME) && make_curves(plots, c, panel, KI_PLOT_BUSBW) &&
               make_curves(plots, c, panel, KI_PLOT_RATIO) &&
               make(plots, c, (ki_plot){ .sort = KI_PLOT_BARS, .panel = panel }, NULL, 0);
    int series[KI_SERIES_MAX], count = series_of(c, &c->panels[panel], false, series);
    bool has_memory = true;
    for (int i = 0; i < count && has_memory; i++)
        has_memory = make(plots, c, (ki_plot){ .sort = KI_PLOT_HEAT, .panel = panel }, &series[i], 1);
    return has_memory;
}

/* Before all others: there may be too many of these. */
static bool make_peers(ki_plots *plots, const ki_comparison *c)
{
    bool has_memory = true;
    for (size_t first = 0; first < c->results->figure_count && has_memory;) {
        has_memory = make(plots, c, (ki_plot){ .sort = KI_PLOT_PEERS, .panel = first }, NULL, 0);
        first += ki_peer_table_at(c->results, first).count;
    }
    return has_memory;
}

bool ki_plots_make(const ki_comparison *c, ki_plots *plots)
{
    *plots = (ki_plots){ 0 };
    bool has_memory = make_peers(plots, c);
    for (size_t panel = 0; panel < c->panel_count && has_memory; panel++)
        has_memory = make_panel(plots, c, panel);
    return has_memory;
}

void ki_plots_fini(ki_plots *plots)
{
    for (size_t i = 0; i < plots->count; i++)
        ki_drawing_destroy(plots->items[i].drawing);
    free(plots->items);
}

#else
typedef int ki_compare_plots_needs_jansson; /* a file must not be empty */
#endif
