/* tools/draw_svg.c - a picture as SVG. Texts stay texts, so they can be searched, copied and read aloud; the look is in
 * style rules, so that a page can show the same picture light and dark.
 *
 * Readers have other fonts than the one that texts were measured with. A text that has a limit and might pass it gets
 * its length said, so it is squeezed instead of running over.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "draw.h"

static void write_class(FILE *out, const ki_shape *shape)
{
    fprintf(out, " class=\"%s", ki_style_look_of(shape->style)->class_name);
    if (shape->group >= 0 && ki_style_has_ramp(shape->style))
        fprintf(out, " r%d", shape->group % KI_RAMP_COLOURS);
    else if (shape->group >= 0)
        fprintf(out, " %c%d", ki_style_look_of(shape->style)->is_hollow ? 'c' : 'g', shape->group % KI_GROUP_COLOURS);
    fputc('"', out);
    if (shape->line > 0)
        fprintf(out, " style=\"stroke-width:%.3g\"", shape->line);
}

static void write_text(FILE *out, const ki_shape *shape)
{
    const ki_style_look *look = ki_style_look_of(shape->style);
    const char *anchor = shape->align < 0.25   ? ""
                         : shape->align < 0.75 ? " text-anchor=\"middle\""
                                               : " text-anchor=\"end\"";
    double width = ki_text_width(shape->text, look->font, look->is_bold);
    fprintf(out, "<text x=\"%.5g\" y=\"%.5g\"%s", shape->x, shape->y, anchor);
    write_class(out, shape);
    if (shape->w > 0 && width > 0.97 * shape->w)
        fprintf(out, " textLength=\"%.5g\" lengthAdjust=\"spacingAndGlyphs\"", width < shape->w ? width : shape->w);
    fputc('>', out);
    ki_text_escape(out, shape->text);
    fputs("</text>\n", out);
}

static void open_poly(FILE *out, const ki_shape *shape)
{
    for (int i = 0; i < shape->point_count; i++)
        fprintf(out, "%s%.6g %.6g", i == 0 ? "<path d=\"M" : "L", shape->points[2 * i], shape->points[2 * i + 1]);
    fputs(shape->is_closed ? "Z\"" : "\"", out);
}

static void open_shape(FILE *out, const ki_shape *shape)
{
    switch (shape->sort) {
    case KI_SHAPE_BOX:
        fprintf(out, "<rect x=\"%.6g\" y=\"%.6g\" width=\"%.6g\" height=\"%.6g\" rx=\"%.3g\"", shape->x, shape->y,
                shape->w, shape->h, ki_style_look_of(shape->style)->radius);
        break;
    case KI_SHAPE_LINE:
        fprintf(out, "<line x1=\"%.6g\" y1=\"%.6g\" x2=\"%.6g\" y2=\"%.6g\"", shape->x, shape->y, shape->x + shape->w,
                shape->y + shape->h);
        break;
    case KI_SHAPE_POLY:
        open_poly(out, shape);
        break;
    default:
        fprintf(out, "<path d=\"M%.6g %.6gC%.6g %.6g %.6g %.6g %.6g %.6g\"", shape->x, shape->y, shape->x,
                shape->y + shape->h * 4 / 3, shape->x + shape->w, shape->y + shape->h * 4 / 3, shape->x + shape->w,
                shape->y);
    }
    write_class(out, shape);
}

static void write_shape(FILE *out, const ki_shape *shape)
{
    if (shape->sort == KI_SHAPE_TEXT) {
        write_text(out, shape);
        return;
    }
    open_shape(out, shape);
    if (shape->tip == NULL) {
        fputs("/>\n", out);
        return;
    }
    fputs("><title>", out);
    ki_text_escape(out, shape->tip);
    fprintf(out, "</title></%s>\n",
            shape->sort == KI_SHAPE_BOX    ? "rect"
            : shape->sort == KI_SHAPE_LINE ? "line"
                                           : "path");
}

void ki_drawing_svg(const ki_drawing *drawing, bool is_inline, FILE *out)
{
    if (!is_inline)
        fputs("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n", out);
    fprintf(out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"kith-picture\" width=\"%.0f\" height=\"%.0f\" "
            "viewBox=\"0 0 %.0f %.0f\" role=\"img\" style=\"max-width:%.0fpx\">\n<title>",
            drawing->width, drawing->height, drawing->width, drawing->height, drawing->width);
    ki_text_escape(out, drawing->title);
    fputs("</title>\n", out);
    if (!is_inline) {
        fputs("<style>\n", out);
        ki_style_css(out, ".kith-picture", false);
        fputs("</style>\n", out);
    }
    fprintf(out, "<rect class=\"page\" width=\"%.0f\" height=\"%.0f\"/>\n", drawing->width, drawing->height);
    for (size_t i = 0; i < drawing->count; i++)
        write_shape(out, &drawing->shapes[i]);
    fputs("</svg>\n", out);
}
