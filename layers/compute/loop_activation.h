/* layers/compute/loop_activation.h - activations with an optional bias, gated units, and their gradients.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */

#define KI_APPLY(function)                                                                                             \
    KI_VECTOR                                                                                                          \
    for (int i = 0; i < count; i++)                                                                                    \
        ys[i] = FN(function)(xs[i]);

/* ys = act(xs) */
static void FN(activate)(ki_activation kind, const real *xs, int count, real *ys)
{
    if (kind == KI_SILU) {
        KI_APPLY(ki_silu)
    } else if (kind == KI_GELU_TANH) {
        KI_APPLY(ki_gelu_tanh)
    } else {
        KI_APPLY(ki_gelu)
    }
}

/* ys = act'(xs) */
static void FN(slopes)(ki_activation kind, const real *xs, int count, real *ys)
{
    if (kind == KI_SILU) {
        KI_APPLY(ki_silu_slope)
    } else if (kind == KI_GELU_TANH) {
        KI_APPLY(ki_gelu_tanh_slope)
    } else {
        KI_APPLY(ki_gelu_slope)
    }
}

/* The block of x + bias: x itself when there is no bias, else in sum[KI_BLOCK]. */
static const real *FN(get_biased)(ki_mat x, ki_mat bias, int64_t row, int64_t col, int count, real *sum)
{
    real buffer[KI_BLOCK];
    const real *xs = FN(get)(x, row, col, count, sum);
    if (bias.data == NULL)
        return xs;
    const real *bs = FN(get)(bias, 0, col, count, buffer);
    KI_VECTOR
    for (int i = 0; i < count; i++)
        sum[i] = xs[i] + bs[i];
    return sum;
}

static kith_status FN(activation)(ki_compute *self, ki_activation kind, ki_mat x, ki_mat bias, ki_mat y)
{
    (void)self;
    assert(x.rows == y.rows && x.cols == y.cols && (bias.data == NULL || bias.cols == x.cols));
    KI_EACH_BLOCK(y, row, col)
    {
        real x_buffer[KI_BLOCK], y_buffer[KI_BLOCK];
        int count = ki_block_of(col, y.cols);
        const real *xs = FN(get_biased)(x, bias, row, col, count, x_buffer);
        real *ys = FN(out)(y, row, col, y_buffer);
        FN(activate)(kind, xs, count, ys);
        FN(put)(y, row, col, count, ys);
    }
    return KITH_OK;
}

static kith_status FN(activation_grad)(ki_compute *self, ki_activation kind, ki_mat x, ki_mat bias, ki_mat dy,
                                       ki_mat dx)
{
    (void)self;
    assert(x.rows == dx.rows && x.cols == dx.cols && dy.rows == dx.rows && dy.cols == dx.cols);
    KI_EACH_BLOCK(dx, row, col)
    {
        real x_buffer[KI_BLOCK], slopes[KI_BLOCK], dy_buffer[KI_BLOCK], dx_buffer[KI_BLOCK];
        int count = ki_block_of(col, dx.cols);
        FN(slopes)(kind, FN(get_biased)(x, bias, row, col, count, x_buffer), count, slopes);
        const real *ds = FN(get)(dy, row, col, count, dy_buffer);
        real *out = FN(out)(dx, row, col, dx_buffer);
        KI_VECTOR
        for (int i = 0; i < count; i++)
            out[i] = ds[i] * slopes[i];
        FN(put)(dx, row, col, count, out);
    }
    return KITH_OK;
}

static kith_status FN(gated)(ki_compute *self, ki_activation kind, ki_mat gate, ki_mat up, ki_mat y)
{
    (void)self;
    assert(gate.rows == y.rows && gate.cols == y.cols && up.rows == y.rows && up.cols == y.cols);
    KI_EACH_BLOCK(y, row, col)
    {
        real gate_buffer[KI_BLOCK], acts[KI_BLOCK], up_buffer[KI_BLOCK], y_buffer[KI_BLOCK];
        int count = ki_block_of(col, y.cols);
        FN(activate)(kind, FN(get)(gate, row, col, count, gate_buffer), count, acts);
        const real *us = FN(get)(up, row, col, count, up_buffer);
        real *ys = FN(out)(y, row, col, y_buffer);
        KI_VECTOR
        for (int i = 0; i < count; i++)
            ys[i] = acts[i] * us[i];
        FN(put)(y, row, col, count, ys);
    }
    return KITH_OK;
}

static kith_status FN(gated_grad)(ki_compute *self, ki_activation kind, ki_mat gate, ki_mat up, ki_mat dy, ki_mat dgate,
                                  ki_mat dup)
{
    (void)self;
    assert(gate.rows == dy.rows && gate.cols == dy.cols && up.rows == dy.rows && up.cols == dy.cols);
    assert(dgate.rows == dy.rows && dgate.cols == dy.cols && dup.rows == dy.rows && dup.cols == dy.cols);
    KI_EACH_BLOCK(dy, row, col)
    {
        real gate_buffer[KI_BLOCK], acts[KI_BLOCK], slopes[KI_BLOCK], up_buffer[KI_BLOCK], dy_buffer[KI_BLOCK];
        real dgate_buffer[KI_BLOCK], dup_buffer[KI_BLOCK];
        int count = ki_block_of(col, dy.cols);
        const real *gs = FN(get)(gate, row, col, count, gate_buffer);
        FN(activate)(kind, gs, count, acts);
        FN(slopes)(kind, gs, count, slopes);
        const real *us = FN(get)(up, row, col, count, up_buffer), *ds = FN(get)(dy, row, col, count, dy_buffer);
        real *dgs = FN(out)(dgate, row, col, dgate_buffer), *dus = FN(out)(dup, row, col, dup_buffer);
        KI_VECTOR
        for (int i = 0; i < count; i++) {
            real d = ds[i], u = us[i];
            dgs[i] = d * u * slopes[i];
            dus[i] = d * acts[i];
        }
        FN(put)(dgate, row, col, count, dgs);
        FN(put)(dup, row, col, count, dus);
    }
    return KITH_OK;
}

#undef KI_APPLY

#define KI_ACTIVATION_LOOPS(X, type) X(activation, type) X(activation_grad, type) X(gated, type) X(gated_grad, type)
