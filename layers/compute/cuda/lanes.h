/* layers/compute/cuda/lanes.h - sums and maxima over rows, a warp for each row.
 *
 * Sums have the host's order (loop_blocks.h), and so its bits: element i of a block of 512 goes to lane i % 32 (f64:
 * 16), lanes are combined as a tree - which is a butterfly of shuffles - and blocks are added in ascending order.
 * Elements come 16 bytes at a time; they pass through shared memory to the threads whose lanes they belong to.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_LAYERS_CUDA_LANES_H
#define KI_LAYERS_CUDA_LANES_H

#include "storage.h"

enum { KI_BLOCK = 512 };

/* The rows of this warp; threads of a warp stay together. */
#define KI_EACH_ROW(row, rows)                                                                                         \
    for (int64_t row = (int64_t)ki_block() * (ki_threads() / KI_WARP) + ki_thread() / KI_WARP; row < (rows);           \
         row += (int64_t)ki_blocks() * (ki_threads() / KI_WARP))

/* The columns of this thread, N at a time. */
#define KI_EACH_PART(N, col, cols)                                                                                     \
    for (int64_t col = (int64_t)(ki_thread() % KI_WARP) * N; col < (cols); col += KI_WARP * N)

/* x[i] for i < count becomes the lanes' sum, in all threads. */
template <class R> KI_DEVICE R ki_lanes_sum(const R *x, int count)
{
    enum { LANES = 128 / sizeof(R) };
    R sum = 0;
    for (int i = (int)(ki_thread() % LANES); i < count; i += LANES)
        sum += x[i];
    KI_UNROLLED
    for (unsigned half = LANES / 2; half > 0; half /= 2)
        sum += ki_warp_shuffle_xor(sum, half);
    return sum;
}

/* The larger of two, NaN if one is. */
template <class R> KI_DEVICE R ki_larger_or_nan(R a, R b)
{
    return a > b || a != a ? a : b;
}

template <class R> KI_DEVICE R ki_warp_largest(R x)
{
    KI_UNROLLED
    for (unsigned half = KI_WARP / 2; half > 0; half /= 2)
        x = ki_larger_or_nan(x, ki_warp_shuffle_xor(x, half));
    return x;
}

/* Where a warp stages K blocks of 512 numbers. */
#define KI_STAGED(R, K, name)                                                                                          \
    KI_SHARED(R, name##_of_all, KI_ROW_WARPS *(K)*KI_BLOCK);                                                           \
    R *const name = name##_of_all + (ki_thread() / KI_WARP) * ((K)*KI_BLOCK)

template <class R, int N> KI_DEVICE void ki_stage(R *to, const R (&x)[N], int count)
{
    enum { W = 16 / sizeof(R) };
    if (N % W == 0 && count == N) {
        KI_UNROLLED
        for (int i = 0; i < N / W; i++) {
            ki_pack<R> pack;
            KI_UNROLLED
            for (int j = 0; j < W; j++)
                pack.v[j] = x[i * W + j];
            *(ki_pack<R> *)(to + i * W) = pack;
        }
        return;
    }
    KI_UNROLLED
    for (int i = 0; i < N; i++)
        if (i < count)
            to[i] = x[i];
}

/* K sums over a row at once: values(col, count, x) gives x[k][0 .. count), the terms of columns col .. col + count. */
template <class R, int K, int N, class F>
KI_DEVICE void ki_row_sums(int64_t cols, R *staged, R (&sums)[K], const F &values)
{
    KI_UNROLLED
    for (int k = 0; k < K; k++)
        sums[k] = 0;
    for (int64_t first = 0; first < cols; first += KI_BLOCK) {
        const int block = ki_count(first, cols, KI_BLOCK);
        for (int at = (int)(ki_thread() % KI_WARP) * N; at < block; at += KI_WARP * N) {
            R x[K][N];
            const int count = ki_count(at, block, N);
            values(first + at, count, x);
            KI_UNROLLED
            for (int k = 0; k < K; k++)
                ki_stage<R, N>(staged + k * KI_BLOCK + at, x[k], count);
        }
        ki_warp_sync();
        KI_UNROLLED
        for (int k = 0; k < K; k++)
            sums[k] += ki_lanes_sum(staged + k * KI_BLOCK, block);
        ki_warp_sync();
    }
}

/* The largest of a row of S, NaN if there is one, -infinity for none. */
template <class S, class R, int N> KI_DEVICE R ki_row_largest(const ki_mat &m, int64_t row)
{
    R largest = -(R)INFINITY;
    KI_EACH_PART(N, col, m.cols)
    {
        R x[N];
        const int count = ki_count(col, m.cols, N);
        ki_get<S>(m, row, col, count, x);
        KI_UNROLLED
        for (int i = 0; i < N; i++)
            if (i < count)
                largest = ki_larger_or_nan(x[i], largest);
    }
    return ki_warp_largest(largest);
}

#endif
