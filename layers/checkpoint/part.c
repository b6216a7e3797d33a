/* layers/checkpoint/part.c - see part.h.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "part.h"

#include "core/base/error.h"
#include "layers/layers.h"

/* A part as rows and columns; one of one dimension is a row. */
typedef struct frame {
    int64_t rows, cols;           /* with padding */
    int64_t real_rows, real_cols; /* without */
    int64_t row0, col0;           /* of the whole */
} frame;

static frame frame_of(const kith_param *param)
{
    bool is_row = param->dim_count == 1;
    const int64_t *shape = param->value.shape;
    frame f = { .rows = is_row ? 1 : shape[0], .cols = is_row ? shape[0] : shape[1] };
    f.real_rows = f.rows;
    f.real_cols = f.cols;
    if (param->split_dim >= 0 && (is_row || param->split_dim == 1)) {
        f.real_cols -= param->padding;
        f.col0 = param->first;
    } else if (param->split_dim == 0) {
        f.real_rows -= param->padding;
        f.row0 = param->first;
    }
    return f;
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Address of an element, of which the part has the one numbered `first` at data. */
static char *element_at(const ki_part *part, const frame *f, int64_t row, int64_t col)
{
    int64_t first_row = part->first / f->cols, first_col = part->first % f->cols;
    int64_t distance = (row - first_row) * part->row_stride + (col - first_col);
    return part->data + distance * (int64_t)kith_dtype_nbytes(part->dtype);
}

static kith_status walk_rows(const ki_part *part, const frame *f, ki_stretch_fn each, void *arg)
{
    int64_t width = part->entry->dim_count == 1 ? 0 : part->entry->shape[1];
    int64_t base = part->slot->first * (width > 0 ? width : 1), end = part->first + part->count;
    kith_status status = KITH_OK;
    for (int64_t at = part->first; at < end && status == KITH_OK;) {
        int64_t row = at / f->cols, col = at % f->cols;
        if (row >= f->real_rows)
            break;
        int64_t stop = least(f->cols, col + (end - at));
        int64_t count = least(stop, f->real_cols) - col;
        ki_stretch run = { .at = base + (f->row0 + row) * width + f->col0 + col,
                           .count = count,
                           .data = element_at(part, f, row, col),
                           .stride = 1 };
        if (count > 0)
            status = each(arg, part, &run);
        at += stop - col;
    }
    return status;
}

static kith_status walk_columns(const ki_part *part, const frame *f, ki_stretch_fn each, void *arg)
{
    int64_t width = part->entry->shape[1], row = part->first / f->cols;
    int64_t rows = least(part->count / f->cols, f->real_rows - row);
    kith_status status = KITH_OK;
    if (part->first % f->cols != 0 || part->count % f->cols != 0)
        return ki_fail(KITH_ERR_INTERNAL, "checkpoint: a transposed part of %s must be whole rows", part->param->name);
    for (int64_t col = 0; rows > 0 && col < f->real_cols && status == KITH_OK; col++) {
        ki_stretch run = { .at = (f->col0 + col) * width + part->slot->first + f->row0 + row,
                           .count = rows,
                           .data = element_at(part, f, row, col),
                           .stride = part->row_stride };
        status = each(arg, part, &run);
    }
    return status;
}

kith_status ki_part_walk(const ki_part *part, ki_stretch_fn each, void *arg)
{
    frame f = frame_of(part->param);
    if (f.cols == 0 || part->count == 0)
        return KITH_OK;
    return part->entry->is_transposed ? walk_columns(part, &f, each, arg) : walk_rows(part, &f, each, arg);
}

void ki_part_units(const kith_param *param, int64_t *units, int64_t *unit)
{
    *units = param->value.shape[0];
    *unit = param->dim_count == 1 ? 1 : param->value.shape[1];
}

ki_part ki_part_of(const kith_param *param, const ki_slot *slot, const ki_entry *entry)
{
    int64_t units, unit;
    ki_part_units(param, &units, &unit);
    ki_part part = { .param = param,
                     .slot = slot,
                     .entry = entry,
                     .dtype = param->value.dtype,
                     .data = param->value.data,
                     .row_stride = param->dim_count == 1 ? unit : param->value.strides[0],
                     .count = units * unit };
    return part;
}

ki_part ki_part_narrow(const ki_part *part, int64_t first, int64_t count)
{
    int64_t units, unit;
    ki_part narrow = *part;
    ki_part_units(part->param, &units, &unit);
    int64_t distance = first * (part->param->dim_count == 1 ? 1 : part->row_stride);
    narrow.data += distance * (int64_t)kith_dtype_nbytes(part->dtype);
    narrow.first += first * unit;
    narrow.count = count * unit;
    return narrow;
}

kith_status ki_part_zero_padding(const kith_param *param)
{
    if (param->split_dim < 0 || param->padding == 0)
        return KITH_OK;
    int64_t real = param->value.shape[param->split_dim] - param->padding;
    kith_tensor padding = kith_tensor_narrow(&param->value, param->split_dim, real, param->padding);
    ki_compute *compute = param->layers->compute;
    return compute->ops->fill(compute, ki_mat_of(&padding), 0);
}
