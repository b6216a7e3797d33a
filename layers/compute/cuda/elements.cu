/* layers/compute/cuda/elements.cu - fill, copy, add, scale, bias and the sums over rows of its gradient.
 *
 * All have the host's bits.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "args.h"
#include "storage.h"
#include "types.h"

template <class S> KI_DEVICE void fill(const ki_fill_args &args)
{
    typedef typename ki_accumulator<S>::type R;
    enum { N = ki_chunk<S>::N };
    R y[N];
    KI_UNROLLED
    for (int i = 0; i < N; i++)
        y[i] = (R)args.value;
    KI_EACH_CHUNK(args.y, N, row, col)
    ki_put<S>(args.y, row, col, ki_count(col, args.y.cols, N), y);
}

/* To or from f64 by f64, else by f32. */
template <class S, class T> KI_DEVICE void copy(const ki_pair_args &args)
{
    typedef typename ki_accumulator<T>::type R;
    enum { N = ki_chunk<S, T>::N };
    KI_EACH_CHUNK(args.y, N, row, col)
    {
        const int count = ki_count(col, args.y.cols, N);
        if (sizeof(S) == 8) {
            double x[N];
            ki_get<S>(args.x, row, col, count, x);
            ki_put<T>(args.y, row, col, count, x);
        } else {
            R x[N];
            ki_get<S>(args.x, row, col, count, x);
            ki_put<T>(args.y, row, col, count, x);
        }
    }
}

template <class S, class T> KI_DEVICE void add(const ki_pair_args &args)
{
    typedef typename ki_accumulator<T>::type R;
    enum { N = ki_chunk<S, T>::N };
    const R alpha = (R)args.alpha;
    KI_EACH_CHUNK(args.y, N, row, col)
    {
        R x[N], y[N];
        const int count = ki_count(col, args.y.cols, N);
        ki_get<S>(args.x, row, col, count, x);
        ki_get<T>(args.y, row, col, count, y);
        KI_UNROLLED
        for (int i = 0; i < N; i++)
            y[i] = y[i] + alpha * x[i];
        ki_put<T>(args.y, row, col, count, y);
    }
}

template <class S> KI_DEVICE void scale(const ki_scale_args &args)
{
    typedef typename ki_accumulator<S>::type R;
    enum { N = ki_chunk<S>::N };
    const R alpha = (R)args.alpha;
    KI_EACH_CHUNK(args.y, N, row, col)
    {
        R y[N];
        const int count = ki_count(col, args.y.cols, N);
        ki_get<S>(args.y, row, col, count, y);
        KI_UNROLLED
        for (int i = 0; i < N; i++)
            y[i] = alpha * y[i];
        ki_put<S>(args.y, row, col, count, y);
    }
}

template <class S> KI_DEVICE void bias_add(const ki_bias_args &args)
{
    typedef typename ki_accumulator<S>::type R;
    enum { N = ki_chunk<S>::N };
    KI_EACH_CHUNK(args.y, N, row, col)
    {
        R b[N], y[N];
        const int count = ki_count(col, args.y.cols, N);
        ki_get<S>(args.bias, 0, col, count, b);
        ki_get<S>(args.y, row, col, count, y);
        KI_UNROLLED
        for (int i = 0; i < N; i++)
            y[i] = y[i] + b[i];
        ki_put<S>(args.y, row, col, count, y);
    }
}

template <class S> KI_DEVICE void group_sums(const ki_group_args &args)
{
    typedef typename ki_accumulator<S>::type R;
    enum { N = ki_chunk<S>::N };
    KI_EACH_CHUNK(args.sums, N, group, col)
    {
        const int count = ki_count(col, args.sums.cols, N);
        const int64_t first = group * KI_GROUP_ROWS, last = first + ki_count(first, args.dy.rows, KI_GROUP_ROWS);
        R sums[N];
        KI_UNROLLED
        for (int i = 0; i < N; i++)
            sums[i] = 0;
        for (int64_t row = first; row < last; row++) {
            R d[N];
            ki_get<S>(args.dy, row, col, count, d);
            KI_UNROLLED
            for (int i = 0; i < N; i++)
                sums[i] += d[i];
        }
        ki_put<R>(args.sums, group, col, count, sums);
    }
}

KI_DEVICE void add_carried(float sum, float *total, float *carry)
{
    ki_add_carried_f32(sum, total, carry);
}
KI_DEVICE void add_carried(double sum, double *total, double *carry)
{
    ki_add_carried_f64(sum, total, carry);
}

/* A thread for each column: groups are few. */
template <class R> KI_DEVICE void carry_sums(const ki_carry_args &args)
{
    for (int64_t col = ki_grid_thread(); col < args.grad.cols; col += ki_grid_threads()) {
        R *const grad = ki_at<R>(args.grad, 0, col);
        R total = ki_load(grad), carry = 0;
        for (int64_t group = 0; group < args.sums.rows; group++)
            add_carried(ki_load(ki_at<R>(args.sums, group, col)), &total, &carry);
        ki_store(grad, total);
    }
}

#define ROWS(S, type)                                                                                                  \
    KI_KERNEL(ki_fill_##type, ki_fill_args)                                                                            \
    {                                                                                                                  \
        fill<S>(args);                                                                                                 \
    }                                                                                                                  \
    KI_KERNEL(ki_scale_##type, ki_scale_args)                                                                          \
    {                                                                                                                  \
        scale<S>(args);                                                                                                \
    }                                                                                                                  \
    KI_KERNEL(ki_bias_add_##type, ki_bias_args)                                                                        \
    {                                                                                                                  \
        bias_add<S>(args);                                                                                             \
    }                                                                                                                  \
    KI_KERNEL(ki_group_sums_##type, ki_group_args)                                                                     \
    {                                                                                                                  \
        group_sums<S>(args);                                                                                           \
    }
KI_EACH_STORAGE(ROWS)

#define CARRY(R, type)                                                                                                 \
    KI_KERNEL(ki_carry_sums_##type, ki_carry_args)                                                                     \
    {                                                                                                                  \
        carry_sums<R>(args);                                                                                           \
    }
KI_EACH_ACCUMULATOR(CARRY)

#define ADD(S, from, T, to)                                                                                            \
    KI_KERNEL(ki_add_##from##_##to, ki_pair_args)                                                                      \
    {                                                                                                                  \
        add<S, T>(args);                                                                                               \
    }
KI_EACH_MIXTURE(ADD)

#define COPY(S, from, T, to)                                                                                           \
    KI_KERNEL(ki_copy_##from##_##to, ki_pair_args)                                                                     \
    {                                                                                                                  \
        copy<S, T>(args);                                                                                              \
    }
KI_EACH_MIXTURE(COPY)
KI_EACH_OTHER_MIXTURE(COPY)
