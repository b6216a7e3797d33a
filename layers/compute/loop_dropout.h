/* layers/compute/loop_dropout.h - dropout with residual, and its gradient.
 *
 * Nothing is kept between the two: a word of the generator is a function of what an element is (compute.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */

/* Factors of a block of a row: 1 / (1 - probability) where an element is kept, else 0. */
static void FN(dropout_factors)(const ki_dropout *dropout, int64_t row, int64_t col, int count, real *factors)
{
    uint32_t words[KI_BLOCK + 8];
    const uint64_t threshold = ki_dropout_threshold(dropout->probability);
    const real kept = (real)(1.0 / (1.0 - dropout->probability));
    const uint32_t feature = dropout->first_feature + (uint32_t)col, skip = feature % 4;
    const uint32_t position = dropout->first_position + (uint32_t)(row / dropout->batch);
    const uint32_t sample = dropout->first_sample + (uint32_t)(row % dropout->batch);
    if (threshold > UINT32_MAX) { /* a probability that rounds to 1 keeps nothing */
        memset(factors, 0, (size_t)count * sizeof *factors);
        return;
    }
    ki_philox_row(ki_philox_key_of(dropout->seed), feature / 4, position, sample, dropout->site,
                  ((int)skip + count + 3) / 4, words);
    const uint32_t least = (uint32_t)threshold, *w = words + skip;
    KI_VECTOR
    for (int i = 0; i < count; i++)
        factors[i] = w[i] >= least ? kept : (real)0;
}

static void FN(drop)(const real *xs, const real *factors, int count, real *ys)
{
    KI_VECTOR
    for (int i = 0; i < count; i++)
        ys[i] = FN(ki_drop)(xs[i], factors[i]);
}

static kith_status FN(dropout_add)(ki_compute *self, const ki_dropout *dropout, ki_mat x, ki_mat bias, ki_mat residual,
                                   ki_mat y)
{
    (void)self;
    assert(x.rows == y.rows && x.cols == y.cols && (residual.data == NULL || residual.rows == y.rows));
    KI_EACH_BLOCK(y, row, col)
    {
        real x_buffer[KI_BLOCK], factors[KI_BLOCK], dropped[KI_BLOCK], r_buffer[KI_BLOCK], y_buffer[KI_BLOCK];
        int count = ki_block_of(col, y.cols);
        const real *xs = FN(get_biased)(x, bias, row, col, count, x_buffer);
        if (dropout->probability > 0) {
            FN(dropout_factors)(dropout, row, col, count, factors);
            FN(drop)(xs, factors, count, dropped);
            xs = dropped;
        }
        real *ys = FN(out)(y, row, col, y_buffer);
        if (residual.data != NULL) {
            const real *rs = FN(get)(residual, row, col, count, r_buffer);
            KI_VECTOR
            for (int i = 0; i < count; i++)
                ys[i] = rs[i] + xs[i];
        } else if (ys != xs)
            memcpy(ys, xs, (size_t)count * sizeof *ys);
        FN(put)(y, row, col, count, ys);
    }
    return KITH_OK;
}

static kith_status FN(dropout_grad)(ki_compute *self, const ki_dropout *dropout, ki_mat dy, ki_mat dx)
{
    return FN(dropout_add)(self, dropout, dy, (ki_mat){ 0 }, (ki_mat){ 0 }, dx);
}

#define KI_DROPOUT_LOOPS(X, type) X(dropout_add, type) X(dropout_grad, type)
