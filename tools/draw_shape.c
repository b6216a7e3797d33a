/* tools/draw_shape.c - the list of shapes of a picture. Drawing never fails visibly: without memory the list stays as
 * it was, is_failed is set, and the shape that is returned is a dummy.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "draw.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_NBYTES 512

static ki_shape dummy;

ki_shape *ki_draw(ki_drawing *drawing, ki_shape_sort sort, ki_style style, double x, double y, double w, double h)
{
    if (drawing->count == drawing->room) {
        size_t room = drawing->room == 0 ? 256 : drawing->room * 2;
        ki_shape *shapes = realloc(drawing->shapes, room * sizeof(*shapes));
        if (shapes == NULL) {
            drawing->is_failed = true;
            return &dummy;
        }
        drawing->shapes = shapes;
        drawing->room = room;
    }
    ki_shape *shape = &drawing->shapes[drawing->count++];
    *shape = (ki_shape){ .sort = sort, .style = style, .group = -1, .x = x, .y = y, .w = w, .h = h };
    return shape;
}

ki_shape *ki_draw_poly(ki_drawing *drawing, ki_style style, const double *points, int point_count, bool is_closed)
{
    ki_shape *shape = ki_draw(drawing, KI_SHAPE_POLY, style, points[0], points[1], 0, 0);
    size_t nbytes = 2 * (size_t)point_count * sizeof(*points);
    double *copy = shape == &dummy ? NULL : malloc(nbytes);
    if (copy == NULL) {
        drawing->is_failed = true;
        drawing->count -= shape != &dummy;
        return &dummy;
    }
    memcpy(copy, points, nbytes);
    shape->points = copy;
    shape->point_count = point_count;
    shape->is_closed = is_closed;
    return shape;
}

static char *keep(ki_drawing *drawing, char *text)
{
    ki_text_clean(text);
    char *copy = strdup(text);
    if (copy == NULL)
        drawing->is_failed = true;
    return copy;
}

/* Cuts whole characters off the end until the text with an ellipsis fits. text has room for three more bytes. */
static void cut_to_width(char *text, double width, double font, bool is_bold)
{
    static const char ellipsis[] = "\xe2\x80\xa6";
    if (ki_text_width(text, font, is_bold) <= width)
        return;
    size_t length = strlen(text);
    while (length > 0) {
        do
            length--;
        while (length > 0 && ((unsigned char)text[length] & 0xc0) == 0x80);
        memcpy(text + length, ellipsis, sizeof(ellipsis));
        if (ki_text_width(text, font, is_bold) <= width)
            return;
        text[length] = '\0';
    }
}

ki_shape *ki_draw_text(ki_drawing *drawing, ki_style style, double x, double y, double w, double align,
                       const char *format, ...)
{
    char text[TEXT_NBYTES + 4];
    const ki_style_look *look = ki_style_look_of(style);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, TEXT_NBYTES, format, arguments);
    va_end(arguments);
    ki_text_clean(text);
    if (w > 0)
        cut_to_width(text, w, look->font, look->is_bold);
    ki_shape *shape = ki_draw(drawing, KI_SHAPE_TEXT, style, x, y, w, look->font);
    shape->align = align;
    if (shape != &dummy)
        shape->text = keep(drawing, text);
    return shape;
}

void ki_draw_tip(ki_drawing *drawing, ki_shape *shape, const char *format, ...)
{
    char text[TEXT_NBYTES];
    if (shape == &dummy)
        return;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    free(shape->tip);
    shape->tip = keep(drawing, text);
}

void ki_drawing_destroy(ki_drawing *drawing)
{
    if (drawing == NULL)
        return;
    for (size_t i = 0; i < drawing->count; i++) {
        free(drawing->shapes[i].text);
        free(drawing->shapes[i].tip);
        free(drawing->shapes[i].points);
    }
    free(drawing->shapes);
    free(drawing->title);
    free(drawing);
}
