/* layers/compute/loop_attention.h - the loops over one block of scores (attention.h says what each does).
 *
 * A NaN among a row's scores is in its sum from the step that meets it, and so in all of the row; the maximum passes it
 * by. Columns that a row does not see are not looked at and become 0.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */

static void FN(pack)(kith_dtype dtype, int64_t rows, int cols, const void *from, int64_t stride, void *packed)
{
    const size_t nbytes = (size_t)stride * kith_dtype_nbytes(dtype);
    for (int64_t r = 0; r < rows; r++)
        FN(convert_in)(dtype, (const char *)from + (size_t)r * nbytes, cols, (real *)packed + r * cols);
}

static void FN(unpack)(kith_dtype dtype, int64_t rows, int cols, const void *packed, void *to, int64_t stride)
{
    const size_t nbytes = (size_t)stride * kith_dtype_nbytes(dtype);
    for (int64_t r = 0; r < rows; r++)
        FN(convert_out)(dtype, (const real *)packed + r * cols, cols, (char *)to + (size_t)r * nbytes);
}

static void FN(packed_dots)(int rows, int cols, const void *a, const void *b, void *dots)
{
    for (int r = 0; r < rows; r++) {
        const size_t at = (size_t)r * (size_t)cols;
        ((real *)dots)[r] = FN(dot)((const real *)a + at, (const real *)b + at, cols);
    }
}

static void FN(packed_add)(int64_t count, const void *x, void *y)
{
    const real *from = (const real *)x;
    real *to = (real *)y;
    KI_VECTOR
    for (int64_t i = 0; i < count; i++)
        to[i] += from[i];
}

/* ---- softmax ---- */

static inline int FN(visible)(const ki_score_block *block, int r)
{
    const int64_t visible = block->diagonal + (int64_t)r * block->slope;
    return visible < 0 ? 0 : visible > block->cols ? block->cols : (int)visible;
}

static inline real FN(larger)(real a, real b)
{
    return a > b ? a : b;
}

/* Pointers move and not indices: where signed numbers may wrap, a sum of two is no index for vector code. */
static inline real FN(scores_max)(const real *x, int count)
{
    real lanes[FN(LANES)];
    for (int l = 0; l < FN(LANES); l++)
        lanes[l] = -(real)INFINITY;
    for (; count >= FN(LANES); count -= FN(LANES), x += FN(LANES))
        for (int l = 0; l < FN(LANES); l++)
            lanes[l] = FN(larger)(x[l], lanes[l]);
    for (int l = 0; l < count; l++)
        lanes[l] = FN(larger)(x[l], lanes[l]);
    for (int half = FN(LANES) / 2; half > 0; half /= 2)
        for (int l = 0; l < half; l++)
            lanes[l] = FN(larger)(lanes[l], lanes[l + half]);
    return lanes[0];
}

/* x = exp(x - max); returns the sum. */
static inline real FN(scores_exp)(real *x, int count, real max)
{
    real lanes[FN(LANES)] = { 0 };
    for (; count >= FN(LANES); count -= FN(LANES), x += FN(LANES))
        for (int l = 0; l < FN(LANES); l++) {
            x[l] = FN(ki_exp_below)(x[l] - max);
            lanes[l] += x[l];
        }
    for (int l = 0; l < count; l++) {
        x[l] = FN(ki_exp_below)(x[l] - max);
        lanes[l] += x[l];
    }
    for (int half = FN(LANES) / 2; half > 0; half /= 2)
        for (int l = 0; l < half; l++)
            lanes[l] += lanes[l + half];
    return lanes[0];
}

static inline void FN(packed_scale)(real *x, int count, real factor)
{
    KI_VECTOR
    for (int i = 0; i < count; i++)
        x[i] *= factor;
}

/* What dropout multiplies the first `count` probabilities of row r by: 0 or 1 / (1 - probability). */
static void FN(scores_factors)(const ki_score_block *block, int r, int count, real *factors)
{
    const ki_dropout *how = block->dropout;
    const uint64_t threshold = ki_dropout_threshold(how->probability);
    const real kept = (real)(1 / (1 - how->probability));
    uint32_t words[KI_KEY_BLOCK];
    ki_philox_row(ki_philox_key_of(how->seed), block->first_key / 4, block->first_query + (uint32_t)r, block->sample,
                  block->stream, (count + 3) / 4, words);
    KI_VECTOR
    for (int i = 0; i < count; i++)
        factors[i] = words[i] >= threshold ? kept : (real)0;
}

static void FN(scores_drop)(const ki_score_block *block, int r, real *x, int count)
{
    real factors[KI_KEY_BLOCK];
    FN(scores_factors)(block, r, count, factors);
    KI_VECTOR
    for (int i = 0; i < count; i++)
        x[i] *= factors[i];
}

static void FN(attend_begin)(int rows, void *max, void *sum, void *out, int head_dim)
{
    for (int r = 0; r < rows; r++) {
        ((real *)max)[r] = -(real)INFINITY;
        ((real *)sum)[r] = 0;
    }
    memset(out, 0, (size_t)rows * (size_t)head_dim * sizeof(real));
}

static void FN(attend_step)(const ki_score_block *block, void *scores, void *max, void *sum, void *out, int head_dim)
{
    real *maxima = (real *)max, *sums = (real *)sum;
    for (int r = 0; r < block->rows; r++) {
        real *x = (real *)scores + (size_t)r * (size_t)block->cols;
        const int visible = FN(visible)(block, r);
        memset(x + visible, 0, (size_t)(block->cols - visible) * sizeof *x);
        if (visible == 0)
            continue;
        const real before = maxima[r], now = FN(larger)(FN(scores_max)(x, visible), before);
        /* All scores so far may be -inf, and -inf - -inf would be NaN where exp(score) is 0. */
        const real reference = now == -(real)INFINITY ? (real)0 : now;
        const real factor = FN(ki_exp_below)(before - reference);
        maxima[r] = now;
        sums[r] = sums[r] * factor + FN(scores_exp)(x, visible, reference);
        if (factor != 1)
            FN(packed_scale)((real *)out + (size_t)r * (size_t)head_dim, head_dim, factor);
        if (block->dropout != NULL)
            FN(scores_drop)(block, r, x, visible);
    }
}

static void FN(attend_end)(const ki_score_block *queries, const void *max, const void *sum, void *out, int head_dim,
                           void *lse, int64_t lse_stride)
{
    const real *maxima = (const real *)max, *sums = (const real *)sum;
    for (int r = 0; r < queries->rows; r++) {
        ((real *)lse)[r * lse_stride] = maxima[r] + (real)log((double)sums[r]);
        if (FN(visible)(queries, r) > 0)
            FN(packed_scale)((real *)out + (size_t)r * (size_t)head_dim, head_dim, 1 / sums[r]);
    }
}

static void FN(attend_grad)(const ki_score_block *block, void *scores, void *dscores, const void *lse,
                            int64_t lse_stride, const void *dots)
{
    real factors[KI_KEY_BLOCK];
    for (int i = 0; i < KI_KEY_BLOCK; i++)
        factors[i] = 1;
    for (int r = 0; r < block->rows; r++) {
        real *x = (real *)scores + (size_t)r * (size_t)block->cols;
        real *dx = (real *)dscores + (size_t)r * (size_t)block->cols;
        const int visible = FN(visible)(block, r);
        const real log_sum = ((const real *)lse)[r * lse_stride], dot = ((const real *)dots)[r];
        if (block->dropout != NULL)
            FN(scores_factors)(block, r, visible, factors);
        KI_VECTOR
        for (int i = 0; i < visible; i++) {
            real p = FN(ki_exp_below)(x[i] - log_sum);
            x[i] = p * factors[i];
            dx[i] = p * (dx[i] * factors[i] - dot);
        }
        memset(x + visible, 0, (size_t)(block->cols - visible) * sizeof *x);
        memset(dx + visible, 0, (size_t)(block->cols - visible) * sizeof *dx);
    }
}

/* Rows of the table of functions: they call the loops below, which tables have for them. */
#define KI_ATTENTION_DRIVERS                                                                                           \
    .attention = ki_host_attention, .attention_grad = ki_host_attention_grad, .rotary = ki_host_rotary,

#define KI_ATTENTION_LOOPS(type)                                                                                       \
    {                                                                                                                  \
        .pack = pack_##type, .unpack = unpack_##type, .begin = attend_begin_##type, .step = attend_step_##type,        \
        .end = attend_end_##type, .grad = attend_grad_##type, .dots = packed_dots_##type, .add = packed_add_##type,    \
        .add_angles = add_angles_##type, .turn = turn_##type                                                           \
    }
