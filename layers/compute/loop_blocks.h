/* layers/compute/loop_blocks.h - blocks of at most KI_BLOCK elements of a row as `real`, and sums over them.
 *
 * KI_IN gives a block's elements: where they lie when the matrix holds real, else converted into a buffer. KI_OUT gives
 * where to write a block, and FN(put) brings it to the matrix if that is elsewhere. A loop reads and writes element
 * i of its blocks in iteration i, so blocks may lie at the same place.
 *
 * Sums. Element i of a block goes to lane i % KI_LANES, lanes are combined as a tree: an order that vector registers of
 * any width can follow, so it is the same for every instruction set. Blocks are added in ascending order. The error
 * of a sum over n elements grows with n / KI_BLOCK + KI_BLOCK / KI_LANES instead of n.
 *
 * Sums over rows - gradients of biases and norms, which have as many terms as a batch has tokens - are formed over
 * KI_ROWS rows and then added to what there is with what rounding took off carried along (Kahan), so their error
 * does not grow with the number of rows.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */

static inline void *FN(element)(ki_mat m, int64_t row, int64_t col)
{
    size_t nbytes = m.dtype == KITH_F64 ? 8 : m.dtype == KITH_F32 ? 4 : 2;
    return (char *)m.data + (size_t)(row * m.stride + col) * nbytes;
}

/* The other types, converted. */
static __attribute__((noinline)) void FN(convert_in)(kith_dtype dtype, const void *from, int count, real *to)
{
    const float *f32 = (const float *)from;
    const double *f64 = (const double *)from;
    const ki_half *half = (const ki_half *)from;
    if (dtype == KITH_F64) {
        KI_VECTOR
        for (int i = 0; i < count; i++)
            to[i] = (real)f64[i];
    } else if (dtype == KITH_F32) {
        KI_VECTOR
        for (int i = 0; i < count; i++)
            to[i] = (real)f32[i];
    } else if (dtype == KITH_BF16) {
        KI_VECTOR
        for (int i = 0; i < count; i++)
            to[i] = (real)ki_widen_bf16(half[i]);
    } else {
        assert(dtype == KITH_F16);
        KI_VECTOR
        for (int i = 0; i < count; i++)
            to[i] = (real)ki_widen_f16(half[i]);
    }
}

static __attribute__((noinline)) void FN(convert_out)(kith_dtype dtype, const real *from, int count, void *to)
{
    float *f32 = (float *)to;
    double *f64 = (double *)to;
    ki_half *half = (ki_half *)to;
    if (dtype == KITH_F64) {
        KI_VECTOR
        for (int i = 0; i < count; i++)
            f64[i] = (double)from[i];
    } else if (dtype == KITH_F32) {
        KI_VECTOR
        for (int i = 0; i < count; i++)
            f32[i] = (float)from[i];
    } else if (dtype == KITH_BF16) {
        KI_VECTOR
        for (int i = 0; i < count; i++)
            half[i] = FN(ki_narrow_bf16)(from[i]);
    } else {
        assert(dtype == KITH_F16);
        KI_VECTOR
        for (int i = 0; i < count; i++)
            half[i] = FN(ki_narrow_f16)(from[i]);
    }
}

/* The block [row, col .. col + count) of m, in place or in buffer[KI_BLOCK]. */
static inline const real *FN(get)(ki_mat m, int64_t row, int64_t col, int count, real *buffer)
{
    const void *from = FN(element)(m, row, col);
    if (m.dtype == KI_REAL_DTYPE)
        return (const real *)from;
    FN(convert_in)(m.dtype, from, count, buffer);
    return buffer;
}

static inline real *FN(out)(ki_mat m, int64_t row, int64_t col, real *buffer)
{
    return m.dtype == KI_REAL_DTYPE ? (real *)FN(element)(m, row, col) : buffer;
}

static inline void FN(put)(ki_mat m, int64_t row, int64_t col, int count, const real *block)
{
    if (m.dtype != KI_REAL_DTYPE)
        FN(convert_out)(m.dtype, block, count, FN(element)(m, row, col));
}

/* An element of a matrix that holds real, whatever T is: statistics, gradients and states of parameters. */
static inline real *FN(statistic_at)(ki_mat m, int64_t row, int64_t col)
{
    assert(m.dtype == KI_REAL_DTYPE);
    return (real *)m.data + row * m.stride + col;
}

static inline real *FN(statistic)(ki_mat m, int64_t row)
{
    return FN(statistic_at)(m, row, 0);
}

/* ---- sums ---- */

enum { FN(LANES) = 128 / sizeof(real), FN(PER_VECTOR) = KI_VECTOR_NBYTES / sizeof(real) };

typedef real FN(vector) __attribute__((vector_size(KI_VECTOR_NBYTES), aligned(sizeof(real)), may_alias));

#define KI_VECTORS (128 / KI_VECTOR_NBYTES)

/* Adds what is left over, element by element, and the lanes as a tree. */
static inline real FN(sum_lanes)(const FN(vector) * sums, const real *rest, int count)
{
    real lanes[FN(LANES)];
    memcpy(lanes, sums, sizeof lanes);
    for (int i = 0; i < count; i++)
        lanes[i] += rest[i];
    for (int half = FN(LANES) / 2; half > 0; half /= 2)
        for (int i = 0; i < half; i++)
            lanes[i] += lanes[i + half];
    return lanes[0];
}

static inline real FN(sum)(const real *x, int count)
{
    FN(vector) sums[KI_VECTORS] = { 0 };
    int i = 0;
    for (; count - i >= FN(LANES); i += FN(LANES))
        for (int v = 0; v < KI_VECTORS; v++)
            sums[v] += *(const FN(vector) *)(x + i + v * FN(PER_VECTOR));
    return FN(sum_lanes)(sums, x + i, count - i);
}

static inline real FN(dot)(const real *x, const real *y, int count)
{
    FN(vector) sums[KI_VECTORS] = { 0 };
    real rest[FN(LANES)];
    int i = 0;
    for (; count - i >= FN(LANES); i += FN(LANES))
        for (int v = 0; v < KI_VECTORS; v++)
            sums[v] +=
                *(const FN(vector) *)(x + i + v * FN(PER_VECTOR)) * *(const FN(vector) *)(y + i + v * FN(PER_VECTOR));
    for (int j = 0; j < count - i; j++)
        rest[j] = x[i + j] * y[i + j];
    return FN(sum_lanes)(sums, rest, count - i);
}

/* The largest; NaN when there is one, -infinity when there is nothing. */
static inline real FN(largest)(const real *x, int count)
{
    real largest = -(real)INFINITY;
    int nans = 0;
#pragma omp simd reduction(max : largest) reduction(| : nans)
    for (int i = 0; i < count; i++) {
        largest = x[i] > largest ? x[i] : largest;
        nans |= x[i] != x[i];
    }
    return nans ? (real)NAN : largest;
}

/* total += sums, carry: what the additions before were short of. */
static inline void FN(add_carried)(real *total, real *carry, const real *sums, int count)
{
    KI_VECTOR
    for (int i = 0; i < count; i++)
        FN(ki_add_carried)(sums[i], total + i, carry + i);
}
