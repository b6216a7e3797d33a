/* layers/compute/loop_parameters.h - initial weights, the norm of gradients, and the steps of optimizers.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */

static kith_status FN(normal)(ki_compute *self, uint64_t seed, uint32_t site, int64_t first_row, int64_t first_col,
                              int64_t global_cols, double deviation, ki_mat y)
{
    (void)self;
    KI_EACH_BLOCK(y, row, col)
    {
        real buffer[KI_BLOCK], *ys = FN(out)(y, row, col, buffer);
        double pair[2] = { 0 };
        int count = ki_block_of(col, y.cols);
        uint64_t element = (uint64_t)(first_row + row) * (uint64_t)global_cols + (uint64_t)(first_col + col);
        for (int i = 0; i < count; i++, element++) {
            if (i == 0 || element % 2 == 0)
                ki_normal_pair(seed, element / 2, site, deviation, pair);
            ys[i] = (real)pair[element % 2];
        }
        FN(put)(y, row, col, count, ys);
    }
    return KITH_OK;
}

static kith_status FN(sum_elements)(ki_compute *self, ki_mat x, double *sum)
{
    (void)self;
    double all = 0;
    KI_EACH_BLOCK(x, row, col)
    {
        real buffer[KI_BLOCK];
        int count = ki_block_of(col, x.cols);
        all += (double)FN(sum)(FN(get)(x, row, col, count, buffer), count);
    }
    *sum = all;
    return KITH_OK;
}

static kith_status FN(sum_squares)(ki_compute *self, ki_mat x, double *sum)
{
    (void)self;
    double all = 0;
    for (int64_t row = 0; row < x.rows; row++) {
        real buffer[KI_BLOCK], of_row = 0;
        for (int64_t col = 0; col < x.cols; col += KI_BLOCK) {
            int count = ki_block_of(col, x.cols);
            const real *xs = FN(get)(x, row, col, count, buffer);
            of_row += FN(dot)(xs, xs, count);
        }
        all += (double)of_row;
    }
    *sum = all;
    return KITH_OK;
}

/* Rounds a block of new weights to where a copy of another type is kept. */
static void FN(store)(ki_mat stored, int64_t row, int64_t col, int count, const real *ws)
{
    if (stored.data == NULL)
        return;
    if (stored.dtype == KI_REAL_DTYPE)
        memcpy(FN(element)(stored, row, col), ws, (size_t)count * sizeof *ws);
    else
        FN(put)(stored, row, col, count, ws);
}

static kith_status FN(adamw)(ki_compute *self, const ki_adamw *how, ki_mat grad, ki_mat m, ki_mat v, ki_mat weight,
                             ki_mat stored)
{
    (void)self;
    assert(grad.rows == weight.rows && grad.cols == weight.cols && m.cols == weight.cols && v.cols == weight.cols);
    const ki_adamw_step step = ki_adamw_step_of(how);
    KI_EACH_BLOCK(weight, row, col)
    {
        const int count = ki_block_of(col, weight.cols);
        const real *gs = FN(statistic_at)(grad, row, col);
        real *ms = FN(statistic_at)(m, row, col), *vs = FN(statistic_at)(v, row, col);
        real *ws = FN(statistic_at)(weight, row, col);
        KI_VECTOR
        for (int i = 0; i < count; i++)
            FN(ki_step_adamw)(&step, gs[i], ms + i, vs + i, ws + i);
        FN(store)(stored, row, col, count, ws);
    }
    return KITH_OK;
}

static kith_status FN(sgd)(ki_compute *self, double learning_rate, double momentum, double decay, double grad_scale,
                           ki_mat grad, ki_mat m, ki_mat weight, ki_mat stored)
{
    (void)self;
    assert(grad.rows == weight.rows && grad.cols == weight.cols && (m.data == NULL || m.cols == weight.cols));
    const real rate = (real)learning_rate, share = (real)momentum, pull = (real)decay, factor = (real)grad_scale;
    KI_EACH_BLOCK(weight, row, col)
    {
        real none[KI_BLOCK];
        const int count = ki_block_of(col, weight.cols);
        const real *gs = FN(statistic_at)(grad, row, col);
        real *ws = FN(statistic_at)(weight, row, col), *ms = none;
        if (m.data != NULL)
            ms = FN(statistic_at)(m, row, col);
        else
            memset(none, 0, (size_t)count * sizeof *none);
        KI_VECTOR
        for (int i = 0; i < count; i++)
            FN(ki_step_sgd)(rate, share, pull, factor, gs[i], ms + i, ws + i);
        FN(store)(stored, row, col, count, ws);
    }
    return KITH_OK;
}

#define KI_PARAMETER_LOOPS(X, type)                                                                                    \
    X(normal, type) X(sum_elements, type) X(sum_squares, type) X(adamw, type) X(sgd, type)
