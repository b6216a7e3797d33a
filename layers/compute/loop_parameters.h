/* layers/compute/loop_parameters.h - initial weights, the norm of gradients, and the steps of optimizers.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* The two numbers of a counter, by Box and Muller: word 0 gives the radius, word 1 the angle. */
static void FN(normal_pair)(uint64_t seed, uint64_t counter, uint32_t site, double deviation, double pair[2])
{
    uint32_t w0 = (uint32_t)counter, w1 = (uint32_t)(counter >> 32), w2 = site, w3 = 0;
    ki_philox(ki_philox_key_of(seed), &w0, &w1, &w2, &w3);
    const double radius = deviation * sqrt(-2.0 * log(((double)w0 + 1.0) * 0x1p-32)); /* of (0, 1] */
    const double angle = 6.283185307179586476925 * ((double)w1 * 0x1p-32);
    pair[0] = radius * cos(angle);
    pair[1] = radius * sin(angle);
}

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
                FN(normal_pair)(seed, element / 2, site, deviation, pair);
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
    const double step = (double)how->step;
    const real beta1 = (real)how->beta1, beta2 = (real)how->beta2, epsilon = (real)how->epsilon;
    const real rest1 = (real)(1 - how->beta1), rest2 = (real)(1 - how->beta2), grad_scale = (real)how->grad_scale;
    const real kept = (real)(1 - how->learning_rate * how->weight_decay);
    const real rate = (real)(how->learning_rate / (1 - pow(how->beta1, step)));
    const real root = (real)(1 / sqrt(1 - pow(how->beta2, step)));
    KI_EACH_BLOCK(weight, row, col)
    {
        const int count = ki_block_of(col, weight.cols);
        const real *gs = FN(statistic_at)(grad, row, col);
        real *ms = FN(statistic_at)(m, row, col), *vs = FN(statistic_at)(v, row, col);
        real *ws = FN(statistic_at)(weight, row, col);
        KI_VECTOR
        for (int i = 0; i < count; i++) {
            const real g = grad_scale * gs[i];
            const real new_m = beta1 * ms[i] + rest1 * g, new_v = beta2 * vs[i] + rest2 * (g * g);
            ms[i] = new_m;
            vs[i] = new_v;
            ws[i] = kept * ws[i] - rate * new_m / (FN(ki_sqrt)(new_v) * root + epsilon);
        }
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
        for (int i = 0; i < count; i++) {
            const real new_m = share * ms[i] + factor * gs[i] + pull * ws[i];
            ms[i] = new_m;
            ws[i] -= rate * new_m;
        }
        FN(store)(stored, row, col, count, ws);
    }
    return KITH_OK;
}

#define KI_PARAMETER_LOOPS(X, type)                                                                                    \
    X(normal, type) X(sum_elements, type) X(sum_squares, type) X(adamw, type) X(sgd, type)
