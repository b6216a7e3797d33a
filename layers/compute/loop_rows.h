/* layers/compute/loop_rows.h - whole rows by number: embedding, dispatch to experts, and what a router needs.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* to[to_row, :] = factor * from[from_row, :] */
static void FN(move_row)(ki_mat from, int64_t from_row, real factor, ki_mat to, int64_t to_row)
{
    for (int64_t col = 0; col < to.cols; col += KI_BLOCK) {
        real from_buffer[KI_BLOCK], to_buffer[KI_BLOCK];
        int count = ki_block_of(col, to.cols);
        const real *xs = FN(get)(from, from_row, col, count, from_buffer);
        real *ys = FN(out)(to, to_row, col, to_buffer);
        KI_VECTOR
        for (int i = 0; i < count; i++)
            ys[i] = factor * xs[i];
        FN(put)(to, to_row, col, count, ys);
    }
}

/* to[to_row, :] += factor * from[from_row, :] */
static void FN(add_row)(ki_mat from, int64_t from_row, real factor, ki_mat to, int64_t to_row)
{
    for (int64_t col = 0; col < to.cols; col += KI_BLOCK) {
        real from_buffer[KI_BLOCK], to_buffer[KI_BLOCK];
        int count = ki_block_of(col, to.cols);
        const real *xs = FN(get)(from, from_row, col, count, from_buffer);
        const real *old = FN(get)(to, to_row, col, count, to_buffer);
        real *ys = FN(out)(to, to_row, col, to_buffer);
        KI_VECTOR
        for (int i = 0; i < count; i++)
            ys[i] = old[i] + factor * xs[i];
        FN(put)(to, to_row, col, count, ys);
    }
}

static void FN(zero_row)(ki_mat to, int64_t row)
{
    memset(FN(element)(to, row, 0), 0, (size_t)to.cols * kith_dtype_nbytes(to.dtype));
}

static real FN(weight_of)(ki_mat weights, int64_t row)
{
    return weights.data != NULL ? *FN(statistic)(weights, row) : (real)1;
}

static kith_status FN(gather_rows)(ki_compute *self, const int32_t *ids, int64_t first, ki_mat table, ki_mat y)
{
    (void)self;
    assert(table.cols == y.cols);
    for (int64_t row = 0; row < y.rows; row++) {
        const int64_t id = ids[row] - first;
        if (id >= 0 && id < table.rows)
            FN(move_row)(table, id, 1, y, row);
        else
            FN(zero_row)(y, row);
    }
    return KITH_OK;
}

static kith_status FN(scatter_rows)(ki_compute *self, const int32_t *ids, int64_t first, ki_mat dy, ki_mat grad)
{
    (void)self;
    assert(grad.cols == dy.cols);
    for (int64_t row = 0; row < dy.rows; row++) {
        const int64_t id = ids[row] - first;
        if (id >= 0 && id < grad.rows)
            FN(add_row)(dy, row, 1, grad, id);
    }
    return KITH_OK;
}

static kith_status FN(pick_rows)(ki_compute *self, const int32_t *rows, ki_mat weights, ki_mat x, ki_mat y)
{
    (void)self;
    assert(x.cols == y.cols);
    for (int64_t row = 0; row < y.rows; row++) {
        int64_t from = rows == NULL ? row : rows[row];
        assert(from >= -1 && from < x.rows);
        if (from >= 0)
            FN(move_row)(x, from, FN(weight_of)(weights, row), y, row);
        else
            FN(zero_row)(y, row);
    }
    return KITH_OK;
}

static kith_status FN(add_rows)(ki_compute *self, const int32_t *rows, ki_mat weights, ki_mat x, ki_mat y)
{
    (void)self;
    assert(x.cols == y.cols);
    for (int64_t row = 0; row < x.rows; row++) {
        assert(rows[row] >= -1 && rows[row] < y.rows);
        if (rows[row] >= 0)
            FN(add_row)(x, row, FN(weight_of)(weights, row), y, rows[row]);
    }
    return KITH_OK;
}

static kith_status FN(row_dots)(ki_compute *self, ki_mat a, ki_mat b, ki_mat dots)
{
    (void)self;
    assert(a.rows == b.rows && a.cols == b.cols && dots.rows == a.rows);
    for (int64_t row = 0; row < a.rows; row++) {
        real a_buffer[KI_BLOCK], b_buffer[KI_BLOCK], sum = 0;
        for (int64_t col = 0; col < a.cols; col += KI_BLOCK) {
            int count = ki_block_of(col, a.cols);
            sum += FN(dot)(FN(get)(a, row, col, count, a_buffer), FN(get)(b, row, col, count, b_buffer), count);
        }
        *FN(statistic)(dots, row) = sum;
    }
    return KITH_OK;
}

/* NaN stands before all numbers, so that it is not lost. */
static bool FN(is_before)(real x, real y)
{
    return x > y || (x != x && y == y);
}

static kith_status FN(top_k)(ki_compute *self, ki_mat x, int64_t k, ki_mat values, int32_t *columns)
{
    (void)self;
    assert(k <= x.cols && values.cols == k && values.rows == x.rows);
    for (int64_t row = 0; row < x.rows; row++) {
        const real *xs = FN(statistic)(x, row);
        real *best = FN(statistic)(values, row);
        int32_t *where = columns + row * k;
        int64_t have = 0;
        for (int64_t col = 0; col < x.cols; col++) {
            int64_t at = have;
            while (at > 0 && FN(is_before)(xs[col], best[at - 1]))
                at--;
            if (at == k)
                continue;
            have += have < k;
            memmove(best + at + 1, best + at, (size_t)(have - 1 - at) * sizeof *best);
            memmove(where + at + 1, where + at, (size_t)(have - 1 - at) * sizeof *where);
            best[at] = xs[col];
            where[at] = (int32_t)col;
        }
    }
    return KITH_OK;
}

#define KI_ROW_LOOPS(X, type)                                                                                          \
    X(gather_rows, type) X(scatter_rows, type) X(pick_rows, type) X(add_rows, type) X(row_dots, type) X(top_k, type)
