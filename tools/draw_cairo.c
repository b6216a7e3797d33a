/* tools/draw_cairo.c - a picture as PNG and PDF, painted with cairo.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "draw.h"

#ifdef KITH_HAVE_CAIRO
#include <cairo-pdf.h>
#include <cairo.h>
#include <math.h>

#define PNG_SCALE 2.0        /* pixels a point: sharp on dense screens and in print */
#define PNG_SIDE_MAX 16000.0 /* cairo ends at 32767 */
#define PDF_SIDE_MAX 14400.0 /* what readers of PDF accept, in points */

static void set_colour(cairo_t *cairo, unsigned colour)
{
    cairo_set_source_rgb(cairo, (colour >> 16) / 255.0, (colour >> 8 & 0xff) / 255.0, (colour & 0xff) / 255.0);
}

static void box_path(cairo_t *cairo, const ki_shape *shape, double radius)
{
    if (radius > shape->h / 2)
        radius = shape->h / 2;
    double right = shape->x + shape->w, bottom = shape->y + shape->h;
    cairo_new_sub_path(cairo);
    cairo_arc(cairo, right - radius, shape->y + radius, radius, -M_PI / 2, 0);
    cairo_arc(cairo, right - radius, bottom - radius, radius, 0, M_PI / 2);
    cairo_arc(cairo, shape->x + radius, bottom - radius, radius, M_PI / 2, M_PI);
    cairo_arc(cairo, shape->x + radius, shape->y + radius, radius, M_PI, 3 * M_PI / 2);
    cairo_close_path(cairo);
}

static void stroke(cairo_t *cairo, const ki_shape *shape, const ki_style_look *look, unsigned colour)
{
    double width = shape->line > 0 ? shape->line : look->line;
    cairo_set_dash(cairo, &look->dash, look->dash > 0, 0);
    cairo_set_line_width(cairo, width);
    cairo_set_line_cap(cairo, look->dash > 0 ? CAIRO_LINE_CAP_BUTT : CAIRO_LINE_CAP_ROUND);
    set_colour(cairo, colour);
    cairo_stroke(cairo);
}

static void paint_text(cairo_t *cairo, const ki_shape *shape, const ki_style_look *look, unsigned colour)
{
    cairo_text_extents_t extents;
    cairo_select_font_face(cairo, "sans-serif", CAIRO_FONT_SLANT_NORMAL,
                           look->is_bold ? CAIRO_FONT_WEIGHT_BOLD : CAIRO_FONT_WEIGHT_NORMAL);
    cairo_set_font_size(cairo, look->font);
    cairo_text_extents(cairo, shape->text, &extents);
    if (shape->w > 0 && extents.x_advance > shape->w) {
        cairo_set_font_size(cairo, look->font * shape->w / extents.x_advance);
        cairo_text_extents(cairo, shape->text, &extents);
    }
    cairo_move_to(cairo, shape->x - shape->align * extents.x_advance, shape->y);
    if (shape->style == KI_STYLE_LINK_LABEL || shape->style == KI_STYLE_WORST_LABEL) {
        cairo_text_path(cairo, shape->text); /* a rim in the colour of the ground */
        cairo_set_line_width(cairo, 4);
        cairo_set_dash(cairo, NULL, 0, 0);
        set_colour(cairo, ki_style_look_of(KI_STYLE_NODE)->fill);
        cairo_stroke(cairo);
        cairo_move_to(cairo, shape->x - shape->align * extents.x_advance, shape->y);
    }
    set_colour(cairo, colour);
    cairo_show_text(cairo, shape->text);
}

static void poly_path(cairo_t *cairo, const ki_shape *shape)
{
    for (int i = 0; i < shape->point_count; i++)
        cairo_line_to(cairo, shape->points[2 * i], shape->points[2 * i + 1]);
    if (shape->is_closed)
        cairo_close_path(cairo);
}

static void paint_shape(cairo_t *cairo, const ki_shape *shape)
{
    const ki_style_look *look = ki_style_look_of(shape->style);
    unsigned fill, line;
    ki_style_colours(shape->style, shape->group, false, &fill, &line);
    if (shape->sort == KI_SHAPE_TEXT) {
        paint_text(cairo, shape, look, fill);
        return;
    }
    cairo_new_path(cairo);
    if (shape->sort == KI_SHAPE_BOX)
        box_path(cairo, shape, look->radius);
    else if (shape->sort == KI_SHAPE_POLY)
        poly_path(cairo, shape);
    if (shape->sort == KI_SHAPE_BOX || shape->is_closed) {
        set_colour(cairo, fill);
        cairo_fill_preserve(cairo);
    } else if (shape->sort != KI_SHAPE_POLY) {
        cairo_move_to(cairo, shape->x, shape->y);
        if (shape->sort == KI_SHAPE_LINE)
            cairo_line_to(cairo, shape->x + shape->w, shape->y + shape->h);
        else
            cairo_curve_to(cairo, shape->x, shape->y + shape->h * 4 / 3, shape->x + shape->w,
                           shape->y + shape->h * 4 / 3, shape->x + shape->w, shape->y);
    }
    stroke(cairo, shape, look, line);
}

static void paint(cairo_t *cairo, const ki_drawing *drawing, double scale)
{
    cairo_scale(cairo, scale, scale);
    set_colour(cairo, ki_style_look_of(KI_STYLE_PAGE)->fill);
    cairo_paint(cairo);
    for (size_t i = 0; i < drawing->count; i++)
        paint_shape(cairo, &drawing->shapes[i]);
}

static double fitting_scale(const ki_drawing *drawing, double wanted, double side_max)
{
    double side = drawing->width > drawing->height ? drawing->width : drawing->height;
    return side * wanted > side_max ? side_max / side : wanted;
}

static cairo_status_t write_bytes(void *closure, const unsigned char *bytes, unsigned nbytes)
{
    FILE *out = closure;
    return fwrite(bytes, 1, nbytes, out) == nbytes ? CAIRO_STATUS_SUCCESS : CAIRO_STATUS_WRITE_ERROR;
}

/* Ends drawing; true when all went well. */
static bool finish(cairo_t *cairo, cairo_surface_t *surface, cairo_status_t status, const char **error)
{
    if (status == CAIRO_STATUS_SUCCESS)
        status = cairo_status(cairo);
    cairo_destroy(cairo);
    cairo_surface_finish(surface);
    if (status == CAIRO_STATUS_SUCCESS)
        status = cairo_surface_status(surface);
    cairo_surface_destroy(surface);
    cairo_debug_reset_static_data(); /* fonts; nothing is drawn any more */
    *error = cairo_status_to_string(status);
    return status == CAIRO_STATUS_SUCCESS;
}

bool ki_drawing_png(const ki_drawing *drawing, FILE *out, const char **error)
{
    double scale = fitting_scale(drawing, PNG_SCALE, PNG_SIDE_MAX);
    cairo_surface_t *surface = cairo_image_surface_create(CAIRO_FORMAT_RGB24, (int)ceil(drawing->width * scale),
                                                          (int)ceil(drawing->height * scale));
    cairo_t *cairo = cairo_create(surface);
    paint(cairo, drawing, scale);
    cairo_status_t status = cairo_status(cairo);
    if (status == CAIRO_STATUS_SUCCESS)
        status = cairo_surface_write_to_png_stream(surface, write_bytes, out);
    return finish(cairo, surface, status, error);
}

bool ki_drawing_pdf(const ki_drawing *drawing, FILE *out, const char **error)
{
    double scale = fitting_scale(drawing, 1, PDF_SIDE_MAX);
    cairo_surface_t *surface =
        cairo_pdf_surface_create_for_stream(write_bytes, out, drawing->width * scale, drawing->height * scale);
    cairo_pdf_surface_set_metadata(surface, CAIRO_PDF_METADATA_TITLE, drawing->title);
    cairo_pdf_surface_set_metadata(surface, CAIRO_PDF_METADATA_CREATOR, "kith topo");
    cairo_t *cairo = cairo_create(surface);
    paint(cairo, drawing, scale);
    return finish(cairo, surface, CAIRO_STATUS_SUCCESS, error);
}

#else

static const char missing[] =
    "this kith was built without cairo (Debian package libcairo2-dev); svg and html need none";

bool ki_drawing_png(const ki_drawing *drawing, FILE *out, const char **error)
{
    (void)drawing, (void)out;
    *error = missing;
    return false;
}

bool ki_drawing_pdf(const ki_drawing *drawing, FILE *out, const char **error)
{
    (void)drawing, (void)out;
    *error = missing;
    return false;
}

#endif
