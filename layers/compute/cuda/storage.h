/* layers/compute/cuda/storage.h - matrices as kernels see them: elements of any storage type as numbers of another,
 * 16 bytes at a time.
 *
 * A thread has a chunk of N elements of a row in hand, where N elements of the narrowest matrix of the call are 16
 * bytes. A whole chunk that begins at a 16-byte boundary is read and written in accesses of 16 bytes; the rest of a
 * row, and rows that lie otherwise, go element by element. What is computed is the same.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_LAYERS_CUDA_STORAGE_H
#define KI_LAYERS_CUDA_STORAGE_H

#include "core/device/cuda/kernel.h"
#include "layers/compute/element.h"

#ifdef __CUDACC__
#include <cuda_fp16.h>
#define KI_UNROLLED _Pragma("unroll")
#else
#define KI_UNROLLED
#endif

struct ki_bf16 {
    uint16_t bits;
};

struct ki_f16 {
    uint16_t bits;
};

/* What sums of a storage type are formed in. */
template <class S> struct ki_accumulator {
    typedef float type;
};
template <> struct ki_accumulator<double> {
    typedef double type;
};

/* ---- f16: the device has instructions for it, which give the bits of arith.h (of NaN only that it is one) ---- */

KI_DEVICE float ki_widen_half(uint16_t x)
{
#ifdef __CUDACC__
    return __half2float(__ushort_as_half(x));
#else
    return ki_widen_f16(x);
#endif
}

KI_DEVICE uint16_t ki_narrow_half(float x)
{
#ifdef __CUDACC__
    return __half_as_ushort(__float2half_rn(x));
#else
    return ki_narrow_f16_f32(x);
#endif
}

/* ---- one element ---- */

template <class R> KI_DEVICE R ki_number(float x)
{
    return (R)x;
}
template <class R> KI_DEVICE R ki_number(double x)
{
    return (R)x;
}
template <class R> KI_DEVICE R ki_number(ki_bf16 x)
{
    return (R)ki_widen_bf16(x.bits);
}
template <class R> KI_DEVICE R ki_number(ki_f16 x)
{
    return (R)ki_widen_half(x.bits);
}

KI_DEVICE void ki_stored(float x, float *to)
{
    *to = x;
}
KI_DEVICE void ki_stored(double x, float *to)
{
    *to = (float)x;
}
KI_DEVICE void ki_stored(float x, double *to)
{
    *to = (double)x;
}
KI_DEVICE void ki_stored(double x, double *to)
{
    *to = x;
}
KI_DEVICE void ki_stored(float x, ki_bf16 *to)
{
    to->bits = ki_narrow_bf16_f32(x);
}
KI_DEVICE void ki_stored(double x, ki_bf16 *to)
{
    to->bits = ki_narrow_bf16_f64(x);
}
KI_DEVICE void ki_stored(float x, ki_f16 *to)
{
    to->bits = ki_narrow_half(x);
}
KI_DEVICE void ki_stored(double x, ki_f16 *to)
{
    to->bits = ki_narrow_half(ki_narrow_odd(x));
}

template <class S> KI_DEVICE S *ki_at(const ki_mat &m, int64_t row, int64_t col)
{
    return (S *)m.data + row * m.stride + col;
}

template <class S, class R> KI_DEVICE R ki_get_one(const ki_mat &m, int64_t row, int64_t col)
{
    return ki_number<R>(ki_load(ki_at<S>(m, row, col)));
}

template <class S, class R> KI_DEVICE void ki_put_one(const ki_mat &m, int64_t row, int64_t col, R x)
{
    S stored;
    ki_stored(x, &stored);
    ki_store(ki_at<S>(m, row, col), stored);
}

/* ---- chunks ---- */

template <class S> struct alignas(16) ki_pack {
    S v[16 / sizeof(S)];
};

/* Elements of 16 bytes of the narrower type; of both. */
template <class S, class T = S> struct ki_chunk {
    enum { N = 16 / (sizeof(S) < sizeof(T) ? sizeof(S) : sizeof(T)) };
};

KI_DEVICE int ki_count(int64_t col, int64_t cols, int most)
{
    return cols - col < most ? (int)(cols - col) : most;
}

KI_DEVICE bool ki_is_aligned(const void *ptr)
{
    return ((uintptr_t)ptr & 15u) == 0;
}

/* Elements [row, col .. col + count) of m as R. What is behind count is 0. */
template <class S, class R, int N>
KI_DEVICE void ki_get(const ki_mat &m, int64_t row, int64_t col, int count, R (&to)[N])
{
    enum { W = 16 / sizeof(S) };
    const S *from = ki_at<S>(m, row, col);
    if (count == N && ki_is_aligned(from)) {
        KI_UNROLLED
        for (int i = 0; i < N / W; i++) {
            const ki_pack<S> pack = ki_load16<ki_pack<S>>(from + i * W);
            KI_UNROLLED
            for (int j = 0; j < W; j++)
                to[i * W + j] = ki_number<R>(pack.v[j]);
        }
        return;
    }
    KI_UNROLLED
    for (int i = 0; i < N; i++)
        to[i] = i < count ? ki_number<R>(ki_load(from + i)) : (R)0;
}

template <class S, class R, int N>
KI_DEVICE void ki_put(const ki_mat &m, int64_t row, int64_t col, int count, const R (&x)[N])
{
    enum { W = 16 / sizeof(S) };
    S *to = ki_at<S>(m, row, col);
    if (count == N && ki_is_aligned(to)) {
        KI_UNROLLED
        for (int i = 0; i < N / W; i++) {
            ki_pack<S> pack;
            KI_UNROLLED
            for (int j = 0; j < W; j++)
                ki_stored(x[i * W + j], &pack.v[j]);
            ki_store16(to + i * W, pack);
        }
        return;
    }
    KI_UNROLLED
    for (int i = 0; i < N; i++) {
        if (i < count) {
            S stored;
            ki_stored(x[i], &stored);
            ki_store(to + i, stored);
        }
    }
}

/* The chunks of a matrix that this thread has in hand: columns along the grid's x, rows along its y. */
#define KI_EACH_CHUNK(m, N, row, col)                                                                                  \
    for (int64_t row = ki_block_y(); row < (m).rows; row += ki_blocks_y())                                             \
        for (int64_t col = ki_grid_thread() * N; col < (m).cols; col += ki_grid_threads() * N)

/* ---- arith.h by the type of its argument ---- */

#define KI_BY_TYPE(name)                                                                                               \
    KI_DEVICE float name(float x)                                                                                      \
    {                                                                                                                  \
        return name##_f32(x);                                                                                          \
    }                                                                                                                  \
    KI_DEVICE double name(double x)                                                                                    \
    {                                                                                                                  \
        return name##_f64(x);                                                                                          \
    }
KI_BY_TYPE(ki_exp)
KI_BY_TYPE(ki_log)
KI_BY_TYPE(ki_sqrt)
KI_BY_TYPE(ki_silu)
KI_BY_TYPE(ki_silu_slope)
KI_BY_TYPE(ki_gelu)
KI_BY_TYPE(ki_gelu_slope)
KI_BY_TYPE(ki_gelu_tanh)
KI_BY_TYPE(ki_gelu_tanh_slope)
#undef KI_BY_TYPE

#endif
