/* layers/compute/cuda/rows.c - the table's rows by number: embedding, experts, ids (rows.cu).
 *
 * Numbers of rows lie on the device: that they are inside is for their maker to have seen to (check_ids, routing); a
 * kernel takes none that are not.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "launch.h"
#include <assert.h>

static ki_kernel pick_kernel = { .in = KI_IN_ROWS, .name = "pick", .suffix = KI_TYPED };
static ki_kernel order_kernel = { .in = KI_IN_ROWS, .name = "order", .suffix = KI_ALONE };
static ki_kernel merge_kernel = { .in = KI_IN_ROWS, .name = "merge", .suffix = KI_ALONE };
static ki_kernel add_rows_kernel = { .in = KI_IN_ROWS, .name = "add_rows", .suffix = KI_MIXED };
static ki_kernel row_dots_kernel = { .in = KI_IN_ROWS, .name = "row_dots", .suffix = KI_TYPED };
static ki_kernel top_k_kernel = { .in = KI_IN_ROWS, .name = "top_k", .suffix = KI_TYPED };
static ki_kernel check_ids_kernel = { .in = KI_IN_ROWS, .name = "check_ids", .suffix = KI_ALONE };

static kith_status pick(ki_compute *self, const int32_t *rows, int64_t first, ki_mat weights, ki_mat x, ki_mat y)
{
    const ki_pick_args args = { rows, first, weights, x, y };
    assert(x.cols == y.cols);
    kith_status status = ki_expect("rows", y.dtype, 1, &x);
    if (status == KITH_OK)
        status = ki_expect("rows", ki_accumulator_of(y.dtype), 1, &weights);
    return status != KITH_OK ? status
                             : ki_launch(ki_device_of(self), &pick_kernel, y.dtype, y.dtype,
                                         ki_grid_of_chunks(y, ki_chunk_of(y.dtype, y.dtype)), &args);
}

static kith_status gather_rows(ki_compute *self, const int32_t *ids, int64_t first, ki_mat table, ki_mat y)
{
    return pick(self, ids, first, (ki_mat){ 0 }, table, y);
}

static kith_status pick_rows(ki_compute *self, const int32_t *rows, ki_mat weights, ki_mat x, ki_mat y)
{
    return pick(self, rows, 0, weights, x, y);
}

/* Sorts `count` rows by destination into *keys, which is scratch. */
static kith_status sort(ki_device_compute *device, const int32_t *rows, int64_t count, int64_t first, int64_t limit,
                        const uint64_t **keys)
{
    void *scratch;
    const ki_grid grid = ki_grid_of(count);
    kith_status status = ki_device_scratch(device, 2 * (size_t)count * sizeof **keys, &scratch);
    if (status != KITH_OK)
        return status;
    uint64_t *from = (uint64_t *)scratch, *to = from + count;
    const ki_order_args order = { rows, count, first, limit, from };
    status = ki_launch(device, &order_kernel, KITH_F32, KITH_F32, grid, &order);
    for (int64_t run = grid.threads; status == KITH_OK && run < count; run *= 2) {
        const ki_merge_args merge = { from, to, count, run };
        status = ki_launch(device, &merge_kernel, KITH_F32, KITH_F32, grid, &merge);
        to = from;
        from = (uint64_t *)scratch + (from == scratch ? count : 0);
    }
    *keys = from;
    return status;
}

static kith_status add(ki_compute *self, const int32_t *rows, int64_t first, ki_mat weights, ki_mat x, ki_mat y)
{
    ki_device_compute *const device = ki_device_of(self);
    const uint64_t *keys;
    assert(x.cols == y.cols && x.rows <= UINT32_MAX && y.rows < UINT32_MAX);
    if (x.rows == 0 || x.cols == 0)
        return KITH_OK;
    kith_status status = ki_expect("rows", ki_accumulator_of(x.dtype), 1, &weights);
    if (status == KITH_OK)
        status = sort(device, rows, x.rows, first, y.rows, &keys);
    if (status != KITH_OK)
        return status;
    const ki_add_rows_args args = { keys, weights, x, y };
    return ki_launch(device, &add_rows_kernel, x.dtype, y.dtype, ki_grid_of_chunks(x, ki_chunk_of(x.dtype, y.dtype)),
                     &args);
}

static kith_status scatter_rows(ki_compute *self, const int32_t *ids, int64_t first, ki_mat dy, ki_mat grad)
{
    return add(self, ids, first, (ki_mat){ 0 }, dy, grad);
}

static kith_status add_rows(ki_compute *self, const int32_t *rows, ki_mat weights, ki_mat x, ki_mat y)
{
    return add(self, rows, 0, weights, x, y);
}

static kith_status row_dots(ki_compute *self, ki_mat a, ki_mat b, ki_mat dots)
{
    const ki_dots_args args = { a, b, dots };
    assert(a.rows == b.rows && a.cols == b.cols && dots.rows == a.rows);
    kith_status status = ki_expect("row_dots", a.dtype, 1, &b);
    if (status == KITH_OK)
        status = ki_expect("row_dots", ki_accumulator_of(a.dtype), 1, &dots);
    return status != KITH_OK
               ? status
               : ki_launch(ki_device_of(self), &row_dots_kernel, a.dtype, a.dtype, ki_grid_of_rows(a.rows), &args);
}

static kith_status top_k(ki_compute *self, ki_mat x, int64_t k, ki_mat values, int32_t *columns)
{
    const ki_top_k_args args = { x, values, columns, k };
    assert(k <= x.cols && values.cols == k && values.rows == x.rows);
    const kith_status status = ki_expect("top_k", x.dtype, 1, &values);
    return status != KITH_OK || k == 0
               ? status
               : ki_launch(ki_device_of(self), &top_k_kernel, x.dtype, x.dtype, ki_grid_of(x.rows), &args);
}

/* The first outside of all, and how many there are: rows came in turn to the threads. */
static int64_t combine(const ki_ids_seen *seen, ki_ids_found *found)
{
    int64_t row = -1;
    for (int i = 0; i < KI_CHECKERS; i++) {
        found->counted += seen[i].counted;
        if (seen[i].row >= 0 && (row < 0 || seen[i].row < row))
            row = seen[i].row;
    }
    return row;
}

static kith_status check_ids(ki_compute *self, const int32_t *ids, int64_t rows, int64_t limit, int32_t ignored,
                             ki_ids_found *found)
{
    ki_device_compute *const device = ki_device_of(self);
    void *scratch;
    const void *host;
    ki_ids_found all = { .row = -1 };
    kith_status status = KITH_OK;
    if (rows > 0) {
        status = ki_device_scratch(device, KI_CHECKERS * sizeof(ki_ids_seen), &scratch);
        if (status != KITH_OK)
            return status;
        const ki_check_args args = { ids, rows, limit, ignored, (ki_ids_seen *)scratch };
        status = ki_launch(device, &check_ids_kernel, KITH_F32, KITH_F32, ki_grid_of(KI_CHECKERS), &args);
        if (status == KITH_OK)
            status = ki_read_back(device, scratch, KI_CHECKERS * sizeof(ki_ids_seen), &host);
        if (status != KITH_OK)
            return status;
        all.row = combine((const ki_ids_seen *)host, &all);
    }
    if (all.row >= 0) {
        status = ki_read_back(device, ids + all.row, sizeof *ids, &host);
        if (status == KITH_OK)
            all.id = *(const int32_t *)host;
    }
    if (status == KITH_OK)
        *found = all;
    return status;
}

void ki_fill_rows(ki_compute_ops *ops)
{
    ops->gather_rows = gather_rows;
    ops->scatter_rows = scatter_rows;
    ops->pick_rows = pick_rows;
    ops->add_rows = add_rows;
    ops->row_dots = row_dots;
    ops->top_k = top_k;
    ops->check_ids = check_ids;
}
