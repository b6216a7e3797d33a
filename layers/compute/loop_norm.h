/* layers/compute/loop_norm.h - LayerNorm and RMSNorm with their gradients.
 *
 * Statistics take two passes over a row (mean first, then the squares of the differences), so a row far from zero loses
 * nothing. Gradients of weight and bias are summed in scratch over KI_ROWS rows at a time (loop_blocks.h), which are
 * the parts of a rank's threads.
 *
 *   xhat = (x - mean) rstd,  g = dy weight
 *   LayerNorm: dx = rstd (g - sum(g) / n - xhat sum(g xhat) / n);  RMSNorm: the same with mean = 0 and without sum(g)
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */

static real FN(row_mean)(ki_mat x, int64_t row)
{
    real buffer[KI_BLOCK], sum = 0;
    for (int64_t col = 0; col < x.cols; col += KI_BLOCK) {
        int count = ki_block_of(col, x.cols);
        sum += FN(sum)(FN(get)(x, row, col, count, buffer), count);
    }
    return sum / (real)x.cols;
}

/* Mean of (x - center)^2. */
static real FN(row_spread)(ki_mat x, int64_t row, real center)
{
    real buffer[KI_BLOCK], differences[KI_BLOCK], sum = 0;
    for (int64_t col = 0; col < x.cols; col += KI_BLOCK) {
        int count = ki_block_of(col, x.cols);
        const real *xs = FN(get)(x, row, col, count, buffer);
        KI_VECTOR
        for (int i = 0; i < count; i++)
            differences[i] = xs[i] - center;
        sum += FN(dot)(differences, differences, count);
    }
    return sum / (real)x.cols;
}

static void FN(normalize)(ki_mat x, int64_t row, real center, real rstd, ki_mat weight, ki_mat bias, ki_mat y)
{
    for (int64_t col = 0; col < x.cols; col += KI_BLOCK) {
        real x_buffer[KI_BLOCK], w_buffer[KI_BLOCK], b_buffer[KI_BLOCK], y_buffer[KI_BLOCK];
        int count = ki_block_of(col, x.cols);
        const real *xs = FN(get)(x, row, col, count, x_buffer), *ws = FN(get)(weight, 0, col, count, w_buffer);
        real *ys = FN(out)(y, row, col, y_buffer);
        if (bias.data != NULL) {
            const real *bs = FN(get)(bias, 0, col, count, b_buffer);
            KI_VECTOR
            for (int i = 0; i < count; i++)
                ys[i] = FN(ki_normalized)(xs[i], center, rstd, ws[i]) + bs[i];
        } else {
            KI_VECTOR
            for (int i = 0; i < count; i++)
                ys[i] = FN(ki_normalized)(xs[i], center, rstd, ws[i]);
        }
        FN(put)(y, row, col, count, ys);
    }
}

static kith_status FN(layer_norm)(ki_compute *self, double epsilon, ki_mat x, ki_mat weight, ki_mat bias, ki_mat y,
                                  ki_mat mean, ki_mat rstd)
{
    (void)self;
    assert(x.rows == y.rows && x.cols == y.cols && weight.cols == x.cols);
    for (int64_t row = 0; row < x.rows && x.cols > 0; row++) {
        real center = FN(row_mean)(x, row);
        real scale = (real)1 / FN(ki_sqrt)(FN(row_spread)(x, row, center) + (real)epsilon);
        FN(normalize)(x, row, center, scale, weight, bias, y);
        *FN(statistic)(mean, row) = center;
        *FN(statistic)(rstd, row) = scale;
    }
    return KITH_OK;
}

static kith_status FN(rms_norm)(ki_compute *self, double epsilon, ki_mat x, ki_mat weight, ki_mat y, ki_mat rstd)
{
    (void)self;
    assert(x.rows == y.rows && x.cols == y.cols && weight.cols == x.cols);
    for (int64_t row = 0; row < x.rows && x.cols > 0; row++) {
        real scale = (real)1 / FN(ki_sqrt)(FN(row_spread)(x, row, 0) + (real)epsilon);
        FN(normalize)(x, row, 0, scale, weight, (ki_mat){ 0 }, y);
        *FN(statistic)(rstd, row) = scale;
    }
    return KITH_OK;
}

/* One row's part of a gradient: sums of g and of g xhat; dy xhat and dy are added to the sums of the weight and the
 * bias. */
typedef struct FN(norm_row) {
    real center, rstd, g, g_xhat;
} FN(norm_row);

static void FN(norm_row_sums)(ki_mat x, ki_mat weight, ki_mat dy, int64_t row, FN(norm_row) * sums, real *weight_sums,
                              real *bias_sums)
{
    for (int64_t col = 0; col < x.cols; col += KI_BLOCK) {
        real x_buffer[KI_BLOCK], w_buffer[KI_BLOCK], d_buffer[KI_BLOCK], g[KI_BLOCK], xhat[KI_BLOCK];
        int count = ki_block_of(col, x.cols);
        const real *xs = FN(get)(x, row, col, count, x_buffer), *ws = FN(get)(weight, 0, col, count, w_buffer);
        const real *ds = FN(get)(dy, row, col, count, d_buffer), center = sums->center, rstd = sums->rstd;
        real *to_weight = weight_sums + col, *to_bias = bias_sums + col;
        KI_VECTOR
        for (int i = 0; i < count; i++) {
            g[i] = ds[i] * ws[i];
            xhat[i] = (xs[i] - center) * rstd;
            to_weight[i] += ds[i] * xhat[i];
            to_bias[i] += ds[i];
        }
        sums->g += FN(sum)(g, count);
        sums->g_xhat += FN(dot)(g, xhat, count);
    }
}

static void FN(norm_row_dx)(ki_mat x, ki_mat weight, ki_mat dy, int64_t row, const FN(norm_row) * sums,
                            bool is_centered, ki_mat dx)
{
    const real center = sums->center, rstd = sums->rstd;
    const real g_mean = is_centered ? sums->g / (real)x.cols : 0, g_xhat_mean = sums->g_xhat / (real)x.cols;
    for (int64_t col = 0; col < x.cols; col += KI_BLOCK) {
        real x_buffer[KI_BLOCK], w_buffer[KI_BLOCK], d_buffer[KI_BLOCK], out_buffer[KI_BLOCK];
        int count = ki_block_of(col, x.cols);
        const real *xs = FN(get)(x, row, col, count, x_buffer), *ws = FN(get)(weight, 0, col, count, w_buffer);
        const real *ds = FN(get)(dy, row, col, count, d_buffer);
        real *out = FN(out)(dx, row, col, out_buffer);
        KI_VECTOR
        for (int i = 0; i < count; i++)
            out[i] = FN(ki_norm_dx)(xs[i], center, rstd, ws[i], ds[i], g_mean, g_xhat_mean);
        FN(put)(dx, row, col, count, out);
    }
}

/* One call. Rows [KI_ROWS * i, KI_ROWS * (i + 1)) are part i, which writes dx and its sums for the gradients of weight
 * and bias, a row of each in scratch. */
typedef struct FN(norm_call) {
    ki_mat x, weight, mean, rstd, dy, dx;
    real *weight_sums, *bias_sums; /* [parts, cols] */
} FN(norm_call);

static void FN(norm_part)(const void *call, int64_t part, int worker)
{
    const FN(norm_call) *c = (const FN(norm_call) *)call;
    const int64_t first = part * KI_ROWS, last = c->x.rows - first < KI_ROWS ? c->x.rows : first + KI_ROWS;
    const bool is_centered = c->mean.data != NULL;
    real *weight_sums = c->weight_sums + part * c->x.cols, *bias_sums = c->bias_sums + part * c->x.cols;
    (void)worker;
    memset(weight_sums, 0, (size_t)c->x.cols * sizeof *weight_sums);
    memset(bias_sums, 0, (size_t)c->x.cols * sizeof *bias_sums);
    for (int64_t row = first; row < last; row++) {
        FN(norm_row) sums = { is_centered ? *FN(statistic)(c->mean, row) : 0, *FN(statistic)(c->rstd, row), 0, 0 };
        FN(norm_row_sums)(c->x, c->weight, c->dy, row, &sums, weight_sums, bias_sums);
        FN(norm_row_dx)(c->x, c->weight, c->dy, row, &sums, is_centered, c->dx);
    }
}

/* grad[0, :] += the parts' sums, in their order */
static void FN(add_parts)(const real *sums, int64_t parts, ki_mat grad, int64_t cols)
{
    for (int64_t col = 0; col < cols && grad.data != NULL; col += KI_BLOCK) {
        real carry[KI_BLOCK] = { 0 };
        for (int64_t part = 0; part < parts; part++)
            FN(add_carried)(FN(statistic_at)(grad, 0, col), carry, sums + part * cols + col, ki_block_of(col, cols));
    }
}

/* mean.data NULL: RMSNorm. */
static kith_status FN(norm_grad)(ki_compute *self, ki_mat x, ki_mat weight, ki_mat mean, ki_mat rstd, ki_mat dy,
                                 ki_mat dx, ki_mat weight_grad, ki_mat bias_grad)
{
    void *scratch;
    const int64_t parts = (x.rows + KI_ROWS - 1) / KI_ROWS;
    assert(x.rows == dx.rows && x.cols == dx.cols && dy.rows == dx.rows && dy.cols == dx.cols);
    kith_status status = ki_compute_scratch(self, 2 * (size_t)parts * (size_t)x.cols * sizeof(real), &scratch);
    if (status != KITH_OK || x.rows == 0 || x.cols == 0)
        return status;
    real *weight_sums = (real *)scratch, *bias_sums = weight_sums + parts * x.cols;
    const FN(norm_call) call = { x, weight, mean, rstd, dy, dx, weight_sums, bias_sums };
    ki_pool_run(ki_pool_if_worth(self->pool, 8.0 * (double)x.rows * (double)x.cols), parts, FN(norm_part), &call);
    FN(add_parts)(weight_sums, parts, weight_grad, x.cols);
    FN(add_parts)(bias_sums, parts, bias_grad, x.cols);
    return KITH_OK;
}

static kith_status FN(layer_norm_grad)(ki_compute *self, ki_mat x, ki_mat weight, ki_mat mean, ki_mat rstd, ki_mat dy,
                                       ki_mat dx, ki_mat weight_grad, ki_mat bias_grad)
{
    return FN(norm_grad)(self, x, weight, mean, rstd, dy, dx, weight_grad, bias_grad);
}

static kith_status FN(rms_norm_grad)(ki_compute *self, ki_mat x, ki_mat weight, ki_mat rstd, ki_mat dy, ki_mat dx,
                                     ki_mat weight_grad)
{
    return FN(norm_grad)(self, x, weight, (ki_mat){ 0 }, rstd, dy, dx, weight_grad, (ki_mat){ 0 });
}

#define KI_NORM_LOOPS(X, type) X(layer_norm, type) X(layer_norm_grad, type) X(rms_norm, type) X(rms_norm_grad, type)
