/* tools/draw.h - pictures: first a list of shapes, then ink.
 *
 * A drawing is a list of boxes, lines, curves and texts with names of styles instead of colours. Pure geometry makes
 * it (topo_draw.c for machines, schedule_draw.c for pipeline plans, compare/ for curves and bars); it is written as
 * SVG (draw_svg.c) or painted with cairo (draw_cairo.c), so both show the same. Lengths are points (1/72 inch); y
 * grows downwards.
 *
 * Files: draw_shape.c the list; draw_text.c texts that are safe to draw; draw_style.c colours and fonts.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_TOOLS_DRAW_H
#define KI_TOOLS_DRAW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* ---- styles (draw_style.c) ---- */

typedef enum ki_style {
    KI_STYLE_PAGE,
    KI_STYLE_NODE,
    KI_STYLE_PACKAGE,
    KI_STYLE_NUMA,
    KI_STYLE_PCI,          /* a PCI switch */
    KI_STYLE_PCI_INFERRED, /* the same, known from nearness alone */
    KI_STYLE_GPU,          /* in the colour of its group */
    KI_STYLE_GPU_OFF,      /* without a rank */
    KI_STYLE_NIC,
    KI_STYLE_NVSWITCH,
    KI_STYLE_SWITCH, /* between nodes */
    KI_STYLE_PILL,   /* doubts */
    KI_STYLE_LANE,   /* a rank's time, idle unless something lies on it */
    KI_STYLE_F,      /* parts of a training step; ALT: on chunks after the first */
    KI_STYLE_F_ALT,
    KI_STYLE_B,
    KI_STYLE_B_ALT,
    KI_STYLE_I,
    KI_STYLE_I_ALT,
    KI_STYLE_W,
    KI_STYLE_W_ALT,
    KI_STYLE_RECOMPUTE,
    KI_STYLE_BAR,       /* in the colour of its group */
    KI_STYLE_MARK,      /* a point on a curve, in the colour of its group; a box becomes a circle */
    KI_STYLE_HEAT,      /* in a colour of the ramp: group is the step */
    KI_STYLE_NVLINK,    /* lines from here */
    KI_STYLE_STUB,      /* GPU to NVSwitch, in the colour of its group */
    KI_STYLE_WORST,     /* slowest link of a group */
    KI_STYLE_WORST_PCI, /* the same where it is not NVLink */
    KI_STYLE_SOCKET,
    KI_STYLE_AXIS,
    KI_STYLE_GRID,
    KI_STYLE_CURVE, /* in the colour of their group */
    KI_STYLE_CURVE_DASHED,
    KI_STYLE_CURVE_DOTTED,
    KI_STYLE_WHISKER,
    KI_STYLE_TITLE, /* texts from here */
    KI_STYLE_HEADING,
    KI_STYLE_TEXT,
    KI_STYLE_STRONG,
    KI_STYLE_SMALL,
    KI_STYLE_FAINT,
    KI_STYLE_LINK_LABEL,
    KI_STYLE_WORST_LABEL,
    KI_STYLE_ON_DARK, /* numbers in boxes */
    KI_STYLE_ON_LIGHT,
    KI_STYLE_HEAT_TEXT, /* on a box of the ramp: group is the same step */
    KI_STYLE_COUNT
} ki_style;

typedef struct ki_style_look {
    const char *class_name;
    unsigned fill, stroke; /* 0xRRGGBB; for texts the fill is the colour */
    unsigned dark_fill, dark_stroke;
    double line; /* width of the stroke; 0: none */
    double dash; /* length of dashes; 0: a full line */
    double radius;
    double font; /* size; 0: no text */
    bool is_bold, is_hollow;
} ki_style_look;

const ki_style_look *ki_style_look_of(ki_style style);

/* Colours of groups, repeated when there are more. */
#define KI_GROUP_COLOURS 10
/* Steps of the ramp from little to much. */
#define KI_RAMP_COLOURS 8
/* Of a style, in the colour of its group unless that is -1. */
void ki_style_colours(ki_style style, int group, bool is_dark, unsigned *fill, unsigned *stroke);
bool ki_style_has_ramp(ki_style style);

/* The rules of CSS for everything below a selector (".picture" or ""), light, and dark where
 * the reader prefers that. */
void ki_style_css(FILE *out, const char *scope, bool has_dark);

/* ---- shapes (draw_shape.c) ---- */

typedef enum ki_shape_sort { KI_SHAPE_BOX, KI_SHAPE_LINE, KI_SHAPE_CURVE, KI_SHAPE_POLY, KI_SHAPE_TEXT } ki_shape_sort;

typedef struct ki_shape {
    ki_shape_sort sort;
    ki_style style;
    int group;         /* its colour; -1: that of the style */
    double x, y, w, h; /* line: to (x + w, y + h). Curve: to (x + w, y), hanging down by h. Text: w is the width it may
                        * have at most (0: any), (x, y) the point on its base line where it is aligned */
    double line;       /* width; 0: that of the style */
    double align;      /* text: 0 left, 0.5 middle, 1 right of x */
    double *points;    /* poly: x and y of point_count corners */
    int point_count;
    bool is_closed; /* poly: filled, and its last corner joined to the first */
    char *text;     /* NULL: none */
    char *tip;      /* shown on hovering; NULL: none */
} ki_shape;

typedef struct ki_drawing {
    ki_shape *shapes;
    size_t count, room;
    double width, height;
    char *title;
    bool is_failed; /* memory was short: the list is not whole */
} ki_drawing;

ki_shape *ki_draw(ki_drawing *drawing, ki_shape_sort sort, ki_style style, double x, double y, double w, double h);
/* A line through point_count points, x and y of each, or a closed figure. */
ki_shape *ki_draw_poly(ki_drawing *drawing, ki_style style, const double *points, int point_count, bool is_closed);
/* The text is cleaned, and cut with an ellipsis when it would be wider than w (0: any). */
ki_shape *ki_draw_text(ki_drawing *drawing, ki_style style, double x, double y, double w, double align,
                       const char *format, ...) __attribute__((format(printf, 7, 8)));
void ki_draw_tip(ki_drawing *drawing, ki_shape *shape, const char *format, ...) __attribute__((format(printf, 3, 4)));
void ki_drawing_destroy(ki_drawing *drawing);

/* ---- texts (draw_text.c) ---- */

/* Makes a text valid UTF-8 of one line in place: what is not, becomes '?', so names out of files cannot break the
 * drawing. */
void ki_text_clean(char *text);
/* Width in points at that size, as the widest common sans-serif font has it. */
double ki_text_width(const char *text, double font, bool is_bold);
/* Writes text for XML and HTML: < > & " ' and what is no character at all are replaced. NULL writes nothing. */
void ki_text_escape(FILE *out, const char *text);
/* "0-3, 8" out of numbers in ascending order. */
void ki_text_ranges(char *buffer, size_t nbytes, const int *numbers, int count);
/* "12 us", "3.4 ms"; "370.8 GB/s" ("?" for 0); "80 GiB". Return buffer. */
const char *ki_text_time(char *buffer, size_t nbytes, double seconds);
const char *ki_text_gbps(char *buffer, size_t nbytes, double gbps);
const char *ki_text_bytes(char *buffer, size_t nbytes, double value);

/* ---- ink ---- */

/* draw_svg.c. is_inline: part of a page of HTML, which has the style rules. */
void ki_drawing_svg(const ki_drawing *drawing, bool is_inline, FILE *out);
/* draw_cairo.c. False with a sentence when cairo failed. */
bool ki_drawing_png(const ki_drawing *drawing, FILE *out, const char **error);
bool ki_drawing_pdf(const ki_drawing *drawing, FILE *out, const char **error);

/* ---- pages of HTML (page.c) ---- */

/* Everything up to <body>. generator: "kith topo". */
void ki_page_head(FILE *out, const char *title, const char *generator);

/* A table in a frame that scrolls. heads ends with NULL; numeric has an 'n' for each column of numbers. label and
 * heads are our own words, not escaped. class_name may be NULL. */
void ki_html_table(FILE *out, const char *label, const char *class_name, const char *const *heads, const char *numeric);
void ki_html_table_end(FILE *out);
/* A cell with a text that is escaped; NULL: "unknown". */
void ki_html_cell(FILE *out, const char *text);
void ki_html_number(FILE *out, const char *text);

#endif
