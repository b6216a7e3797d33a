/* layers/compute/loop_loss.h - cross entropy over a part of the vocabulary, in pieces between which ranks communicate,
 * and softmax over whole rows.
 *
 * Everything is relative to the row's maximum, so logits of any size are fine. A row whose logits are all -infinity, or
 * that has a NaN or +infinity, gives NaN.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */

static kith_status FN(row_max)(ki_compute *self, ki_mat x, ki_mat max)
{
    (void)self;
    for (int64_t row = 0; row < x.rows; row++) {
        real buffer[KI_BLOCK], all = -(real)INFINITY;
        for (int64_t col = 0; col < x.cols; col += KI_BLOCK) {
            int count = ki_block_of(col, x.cols);
            real here = FN(largest)(FN(get)(x, row, col, count, buffer), count);
            all = here > all || here != here ? here : all;
        }
        *FN(statistic)(max, row) = all;
    }
    return KITH_OK;
}

/* One number of a matrix that may be stored in another type. */
static real FN(number)(ki_mat m, int64_t row, int64_t col)
{
    real buffer[KI_BLOCK];
    return *FN(get)(m, row, col, 1, buffer);
}

static kith_status FN(loss_sums)(ki_compute *self, ki_mat logits, const int32_t *targets, int64_t first, ki_mat max,
                                 ki_mat sums)
{
    (void)self;
    assert((sums.cols == 2 || sums.cols == 3) && sums.rows == logits.rows);
    for (int64_t row = 0; row < logits.rows; row++) {
        const real top = *FN(statistic)(max, row);
        const int64_t target = targets[row] - first;
        real *out = FN(statistic)(sums, row), exponentials = 0, differences = 0;
        for (int64_t col = 0; col < logits.cols; col += KI_BLOCK) {
            real buffer[KI_BLOCK], below[KI_BLOCK], powers[KI_BLOCK];
            int count = ki_block_of(col, logits.cols);
            const real *xs = FN(get)(logits, row, col, count, buffer);
            KI_VECTOR
            for (int i = 0; i < count; i++) {
                below[i] = xs[i] - top;
                powers[i] = FN(ki_exp)(below[i]);
            }
            exponentials += FN(sum)(powers, count);
            differences += FN(sum)(below, count);
        }
        out[0] = exponentials;
        out[1] = target >= 0 && target < logits.cols ? FN(number)(logits, row, target) - top : 0;
        if (sums.cols == 3)
            out[2] = differences;
    }
    return KITH_OK;
}

static kith_status FN(losses)(ki_compute *self, ki_mat sums, const int32_t *targets, int32_t ignored, double smoothing,
                              int64_t vocabulary, ki_mat losses)
{
    (void)self;
    assert((sums.cols == 3 || (sums.cols == 2 && smoothing == 0)) && sums.rows == losses.rows);
    const real of_target = (real)(1 - smoothing), of_all = (real)(smoothing / (double)vocabulary);
    for (int64_t row = 0; row < losses.rows; row++) {
        const real *s = FN(statistic)(sums, row);
        real wanted = of_target * s[1];
        if (smoothing != 0) /* a logit of -infinity is no loss while nothing is smoothed towards it */
            wanted += of_all * s[2];
        *FN(statistic)(losses, row) = targets[row] == ignored ? 0 : FN(ki_log)(s[0]) - wanted;
    }
    return KITH_OK;
}

static kith_status FN(loss_grad)(ki_compute *self, ki_mat logits, const int32_t *targets, int64_t first,
                                 int32_t ignored, double smoothing, int64_t vocabulary, double scale, ki_mat max,
                                 ki_mat sums, ki_mat dlogits)
{
    (void)self;
    assert(dlogits.rows == logits.rows && dlogits.cols == logits.cols && sums.rows == logits.rows);
    const real of_all = (real)(scale * smoothing / (double)vocabulary), of_target = (real)(scale * (1 - smoothing));
    KI_EACH_BLOCK(dlogits, row, col)
    {
        real buffer[KI_BLOCK], out_buffer[KI_BLOCK];
        const bool is_ignored = targets[row] == ignored;
        const real top = *FN(statistic)(max, row), share = (real)scale / *FN(statistic)(sums, row);
        const int64_t target = targets[row] - first - col;
        int count = ki_block_of(col, logits.cols);
        const real *xs = FN(get)(logits, row, col, count, buffer);
        real *out = FN(out)(dlogits, row, col, out_buffer);
        if (is_ignored)
            memset(out, 0, (size_t)count * sizeof *out);
        else {
            KI_VECTOR
            for (int i = 0; i < count; i++)
                out[i] = FN(ki_loss_dlogit)(xs[i], top, share, of_all);
            if (target >= 0 && target < count)
                out[target] -= of_target;
        }
        FN(put)(dlogits, row, col, count, out);
    }
    return KITH_OK;
}

static kith_status FN(softmax)(ki_compute *self, ki_mat x, ki_mat y)
{
    (void)self;
    assert(x.rows == y.rows && x.cols == y.cols && y.dtype == KI_REAL_DTYPE);
    for (int64_t row = 0; row < x.rows; row++) {
        real buffer[KI_BLOCK], top, sum = 0, *ys = (real *)FN(element)(y, row, 0);
        ki_mat one = x, max = { &top, 1, 1, 1, KI_REAL_DTYPE };
        one.data = FN(element)(x, row, 0);
        one.rows = 1;
        (void)FN(row_max)(self, one, max);
        for (int64_t col = 0; col < x.cols; col += KI_BLOCK) {
            int count = ki_block_of(col, x.cols);
            const real *xs = FN(get)(x, row, col, count, buffer);
            KI_VECTOR
            for (int i = 0; i < count; i++)
                ys[col + i] = FN(ki_exp)(xs[i] - top);
            sum += FN(sum)(ys + col, count);
        }
        KI_VECTOR
        for (int64_t i = 0; i < x.cols; i++)
            ys[i] /= sum;
    }
    return KITH_OK;
}

static kith_status FN(softmax_grad)(ki_compute *self, ki_mat y, ki_mat dy, ki_mat dx)
{
    (void)self;
    assert(y.rows == dy.rows && y.cols == dy.cols && dx.rows == dy.rows && dx.cols == dy.cols);
    for (int64_t row = 0; row < y.rows; row++) {
        real y_buffer[KI_BLOCK], dy_buffer[KI_BLOCK], dx_buffer[KI_BLOCK], sum = 0;
        for (int64_t col = 0; col < y.cols; col += KI_BLOCK) {
            int count = ki_block_of(col, y.cols);
            sum += FN(dot)(FN(get)(y, row, col, count, y_buffer), FN(get)(dy, row, col, count, dy_buffer), count);
        }
        for (int64_t col = 0; col < y.cols; col += KI_BLOCK) {
            int count = ki_block_of(col, y.cols);
            const real *ys = FN(get)(y, row, col, count, y_buffer), *ds = FN(get)(dy, row, col, count, dy_buffer);
            real *out = FN(out)(dx, row, col, dx_buffer);
            KI_VECTOR
            for (int i = 0; i < count; i++)
                out[i] = ys[i] * (ds[i] - sum);
            FN(put)(dx, row, col, count, out);
        }
    }
    return KITH_OK;
}

#define KI_LOSS_LOOPS(X, type)                                                                                         \
    X(row_max, type) X(loss_sums, type) X(losses, type) X(loss_grad, type) X(softmax, type) X(softmax_grad, type)
