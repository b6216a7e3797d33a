/* layers/compute/loop_elements.h - fill, copy, add, scale, bias and its gradient.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */

static kith_status FN(fill)(ki_compute *self, ki_mat y, double value)
{
    (void)self;
    y = ki_is_dense(y) ? ki_flat(y) : y;
    KI_EACH_BLOCK(y, row, col)
    {
        real buffer[KI_BLOCK], *ys = FN(out)(y, row, col, buffer);
        int count = ki_block_of(col, y.cols);
        KI_VECTOR
        for (int i = 0; i < count; i++)
            ys[i] = (real)value;
        FN(put)(y, row, col, count, ys);
    }
    return KITH_OK;
}

static kith_status FN(copy)(ki_compute *self, ki_mat x, ki_mat y)
{
    (void)self;
    assert(x.rows == y.rows && x.cols == y.cols);
    if (ki_is_dense(x) && ki_is_dense(y))
        x = ki_flat(x), y = ki_flat(y);
    KI_EACH_BLOCK(y, row, col)
    {
        real x_buffer[KI_BLOCK], y_buffer[KI_BLOCK];
        int count = ki_block_of(col, y.cols);
        const real *xs = FN(get)(x, row, col, count, x_buffer);
        real *ys = FN(out)(y, row, col, y_buffer);
        memmove(ys, xs, (size_t)count * sizeof *ys);
        FN(put)(y, row, col, count, ys);
    }
    return KITH_OK;
}

static kith_status FN(add)(ki_compute *self, double alpha, ki_mat x, ki_mat y)
{
    (void)self;
    assert(x.rows == y.rows && x.cols == y.cols);
    const real a = (real)alpha;
    if (ki_is_dense(x) && ki_is_dense(y))
        x = ki_flat(x), y = ki_flat(y);
    KI_EACH_BLOCK(y, row, col)
    {
        real x_buffer[KI_BLOCK], y_buffer[KI_BLOCK];
        int count = ki_block_of(col, y.cols);
        const real *xs = FN(get)(x, row, col, count, x_buffer), *old = FN(get)(y, row, col, count, y_buffer);
        real *ys = FN(out)(y, row, col, y_buffer);
        KI_VECTOR
        for (int i = 0; i < count; i++)
            ys[i] = old[i] + a * xs[i];
        FN(put)(y, row, col, count, ys);
    }
    return KITH_OK;
}

static kith_status FN(scale)(ki_compute *self, double alpha, ki_mat y)
{
    (void)self;
    const real a = (real)alpha;
    y = ki_is_dense(y) ? ki_flat(y) : y;
    KI_EACH_BLOCK(y, row, col)
    {
        real buffer[KI_BLOCK];
        int count = ki_block_of(col, y.cols);
        const real *old = FN(get)(y, row, col, count, buffer);
        real *ys = FN(out)(y, row, col, buffer);
        KI_VECTOR
        for (int i = 0; i < count; i++)
            ys[i] = a * old[i];
        FN(put)(y, row, col, count, ys);
    }
    return KITH_OK;
}

static kith_status FN(bias_add)(ki_compute *self, ki_mat bias, ki_mat y)
{
    (void)self;
    assert(bias.cols == y.cols);
    KI_EACH_BLOCK(y, row, col)
    {
        real b_buffer[KI_BLOCK], y_buffer[KI_BLOCK];
        int count = ki_block_of(col, y.cols);
        const real *bs = FN(get)(bias, 0, col, count, b_buffer), *old = FN(get)(y, row, col, count, y_buffer);
        real *ys = FN(out)(y, row, col, y_buffer);
        KI_VECTOR
        for (int i = 0; i < count; i++)
            ys[i] = old[i] + bs[i];
        FN(put)(y, row, col, count, ys);
    }
    return KITH_OK;
}

/* Adds the rows [first, last) of a block of columns to sums. */
static void FN(add_block_rows)(ki_mat dy, int64_t first, int64_t last, int64_t col, int count, real *sums)
{
    real buffer[KI_BLOCK];
    for (int64_t row = first; row < last; row++) {
        const real *ds = FN(get)(dy, row, col, count, buffer);
        KI_VECTOR
        for (int i = 0; i < count; i++)
            sums[i] += ds[i];
    }
}

static kith_status FN(bias_grad)(ki_compute *self, ki_mat dy, ki_mat grad)
{
    (void)self;
    assert(grad.cols == dy.cols);
    for (int64_t col = 0; col < dy.cols; col += KI_BLOCK) {
        int count = ki_block_of(col, dy.cols);
        real *total = FN(statistic_at)(grad, 0, col), carry[KI_BLOCK] = { 0 };
        for (int64_t first = 0; first < dy.rows; first += KI_ROWS) {
            int64_t last = dy.rows - first < KI_ROWS ? dy.rows : first + KI_ROWS;
            real sums[KI_BLOCK] = { 0 };
            FN(add_block_rows)(dy, first, last, col, count, sums);
            FN(add_carried)(total, carry, sums, count);
        }
    }
    return KITH_OK;
}

#define KI_ELEMENT_LOOPS(X, type)                                                                                      \
    X(fill, type) X(copy, type) X(add, type) X(scale, type) X(bias_add, type) X(bias_grad, type)
