/* tools/compare/plots.h - the pictures of a comparison, as lists of shapes (draw.h).
 *
 *     plots.c       which pictures there are, and what their files are called
 *     plot_axis.c   axes with logarithms: ticks, grid, labels, legend
 *     plot_curves.c time, bandwidth and ratio by size
 *     plot_bars.c   all series at the smallest and the largest size
 *     plot_heat.c   pairs of ranks
 *     plot_peers.c  Kith and the best peer by size
 *
 * A series has one colour, one kind of line and one mark in all pictures, so that it is known again without its colour.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_TOOLS_COMPARE_PLOTS_H
#define KI_TOOLS_COMPARE_PLOTS_H

#include "../draw.h"
#include "peers.h"

typedef enum ki_plot_sort {
    KI_PLOT_TIME,
    KI_PLOT_BUSBW,
    KI_PLOT_RATIO,
    KI_PLOT_BARS,
    KI_PLOT_HEAT,
    KI_PLOT_PEERS
} ki_plot_sort;

typedef struct ki_plot {
    ki_plot_sort sort;
    size_t panel; /* of peers: the first figure of the table */
    ki_drawing *drawing;
    char file[128]; /* without what stands behind the dot */
} ki_plot;

typedef struct ki_plots {
    ki_plot *items;
    size_t count, room;
    size_t left_out; /* beyond KI_PLOTS_MOST */
} ki_plots;

#define KI_PLOTS_MOST 600
#define KI_PLOT_SERIES_MOST 8 /* more curves than that are put into further pictures */
#define KI_PLOT_RANKS_MOST 128

/* False when memory was short. ki_plots_fini() in any case. */
bool ki_plots_make(const ki_comparison *comparison, ki_plots *plots);
void ki_plots_fini(ki_plots *plots);

/* ---- pieces ---- */

#define KI_PLOT_WIDTH 400.0

/* A place along one axis for a value on a scale of logarithms. */
typedef struct ki_axis {
    double low, high;   /* values */
    double first, last; /* points */
    bool is_size;       /* bytes: ticks at powers of two */
    ki_plot_sort sort;  /* what the values are */
} ki_axis;

/* The axis that has room for all values of [low, high]. */
ki_axis ki_axis_make(double low, double high, double first, double last, bool is_size, ki_plot_sort sort);
double ki_axis_at(const ki_axis *axis, double value);
/* Grid, frame, ticks and their labels. */
void ki_axes_draw(ki_drawing *drawing, const ki_axis *x, const ki_axis *y);
/* The value of a tick in words. */
const char *ki_tick_name(const ki_axis *axis, double value, char *buffer, size_t nbytes);

/* A name as wide as that at most; what is left out is in its middle, as names differ at their ends. */
const char *ki_short_name(const char *name, double width, char *buffer, size_t nbytes);
ki_style ki_series_curve(int series);
void ki_series_mark(ki_drawing *drawing, int series, double x, double y, const char *tip);
/* Title, what is shown, and a line with each series; returns where the picture can begin. */
double ki_plot_head(ki_drawing *drawing, const ki_comparison *comparison, const ki_panel *panel, const char *what,
                    const int *series, int count);
/* The same of what is no series. */
double ki_plot_entries(ki_drawing *drawing, const char *title, const char *what, const char *const *names,
                       const int *groups, int count);
/* Everything about a value in one line. */
void ki_value_tip(const ki_comparison *comparison, const ki_value *value, char *buffer, size_t nbytes);

/* Each draws one picture; false: there is nothing to show. */
bool ki_curves_draw(ki_drawing *drawing, const ki_comparison *comparison, const ki_panel *panel, ki_plot_sort sort,
                    const int *series, int count);
bool ki_bars_draw(ki_drawing *drawing, const ki_comparison *comparison, const ki_panel *panel);
bool ki_heat_draw(ki_drawing *drawing, const ki_comparison *comparison, const ki_panel *panel, int series);
bool ki_peers_draw(ki_drawing *drawing, const ki_comparison *comparison, const ki_peer_table *table);

#endif
