/* layers/compute/cuda/parameters.cu - initial weights, the norm of gradients, and the steps of optimizers.
 *
 * Steps and sums have the host's bits. Normal numbers are made of CUDA's logarithm, sine and cosine of f64, which may
 * differ from libm's in the last place of f64: after rounding to f32, in one number of some hundred million.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "args.h"
#include "lanes.h"
#include "types.h"

template <class S> KI_DEVICE void normal(const ki_normal_args &args)
{
    enum { N = ki_chunk<S>::N };
    KI_EACH_CHUNK(args.y, N, row, col)
    {
        double y[N], pair[2] = { 0, 0 };
        const int count = ki_count(col, args.y.cols, N);
        const uint64_t first =
            (uint64_t)(args.first_row + row) * (uint64_t)args.global_cols + (uint64_t)(args.first_col + col);
        KI_UNROLLED
        for (int i = 0; i < N; i++) {
            const uint64_t element = first + (uint64_t)i;
            if (i == 0 || element % 2 == 0)
                ki_normal_pair(args.seed, element / 2, args.site, args.deviation, pair);
            y[i] = element % 2 == 0 ? pair[0] : pair[1];
        }
        ki_put<S>(args.y, row, col, count, y);
    }
}

/* A warp for each block of KI_SUM_BLOCK elements; the host adds the blocks up in its order. */
template <class S> KI_DEVICE void sum(const ki_sum_args &args)
{
    enum { N = ki_chunk<S>::N };
    KI_STAGED(double, 1, staged);
    KI_EACH_ROW(block, args.x.rows * args.blocks)
    {
        const int64_t row = block / args.blocks, first = block % args.blocks * KI_SUM_BLOCK;
        double all[1];
        ki_row_sums<double, 1, N>(ki_count(first, args.x.cols, KI_SUM_BLOCK), staged, all,
                                  [&](int64_t col, int count, double(&x)[1][N]) {
                                      ki_get<S>(args.x, row, first + col, count, x[0]);
                                      KI_UNROLLED
                                      for (int i = 0; i < N; i++)
                                          x[0][i] = args.is_squares ? x[0][i] * x[0][i] : x[0][i];
                                  });
        if (ki_thread() % KI_WARP == 0)
            ki_store(args.sums + block, all[0]);
    }
}

KI_DEVICE void adamw_one(const ki_adamw_step &step, float grad, float *m, float *v, float *weight)
{
    ki_step_adamw_f32(&step, grad, m, v, weight);
}
KI_DEVICE void adamw_one(const ki_adamw_step &step, double grad, double *m, double *v, double *weight)
{
    ki_step_adamw_f64(&step, grad, m, v, weight);
}

/* S: what the rounded copy is stored in; without one, the type of the weights. */
template <class S> KI_DEVICE void adamw(const ki_adamw_args &args)
{
    typedef typename ki_accumulator<S>::type R;
    enum { N = ki_chunk<S>::N };
    KI_EACH_CHUNK(args.weight, N, row, col)
    {
        R g[N], m[N], v[N], w[N];
        const int count = ki_count(col, args.weight.cols, N);
        ki_get<R>(args.grad, row, col, count, g);
        ki_get<R>(args.m, row, col, count, m);
        ki_get<R>(args.v, row, col, count, v);
        ki_get<R>(args.weight, row, col, count, w);
        KI_UNROLLED
        for (int i = 0; i < N; i++)
            adamw_one(args.step, g[i], &m[i], &v[i], &w[i]);
        ki_put<R>(args.m, row, col, count, m);
        ki_put<R>(args.v, row, col, count, v);
        ki_put<R>(args.weight, row, col, count, w);
        if (args.stored.data != NULL)
            ki_put<S>(args.stored, row, col, count, w);
    }
}

KI_DEVICE void sgd_one(const ki_sgd_args &how, float grad, float *m, float *weight)
{
    ki_step_sgd_f32((float)how.rate, (float)how.momentum, (float)how.decay, (float)how.grad_scale, grad, m, weight);
}
KI_DEVICE void sgd_one(const ki_sgd_args &how, double grad, double *m, double *weight)
{
    ki_step_sgd_f64(how.rate, how.momentum, how.decay, how.grad_scale, grad, m, weight);
}

template <class S> KI_DEVICE void sgd(const ki_sgd_args &args)
{
    typedef typename ki_accumulator<S>::type R;
    enum { N = ki_chunk<S>::N };
    KI_EACH_CHUNK(args.weight, N, row, col)
    {
        R g[N], m[N], w[N];
        const int count = ki_count(col, args.weight.cols, N);
        ki_get<R>(args.grad, row, col, count, g);
        ki_get<R>(args.weight, row, col, count, w);
        KI_UNROLLED
        for (int i = 0; i < N; i++)
            m[i] = 0;
        if (args.m.data != NULL)
            ki_get<R>(args.m, row, col, count, m);
        KI_UNROLLED
        for (int i = 0; i < N; i++)
            sgd_one(args, g[i], &m[i], &w[i]);
        if (args.m.data != NULL)
            ki_put<R>(args.m, row, col, count, m);
        ki_put<R>(args.weight, row, col, count, w);
        if (args.stored.data != NULL)
            ki_put<S>(args.stored, row, col, count, w);
    }
}

#define ROWS(S, type)                                                                                                  \
    KI_KERNEL(ki_normal_##type, ki_normal_args)                                                                        \
    {                                                                                                                  \
        normal<S>(args);                                                                                               \
    }                                                                                                                  \
    KI_BLOCK_KERNEL(ki_sum_##type, ki_sum_args)                                                                        \
    {                                                                                                                  \
        sum<S>(args);                                                                                                  \
    }                                                                                                                  \
    KI_KERNEL(ki_adamw_##type, ki_adamw_args)                                                                          \
    {                                                                                                                  \
        adamw<S>(args);                                                                                                \
    }                                                                                                                  \
    KI_KERNEL(ki_sgd_##type, ki_sgd_args)                                                                              \
    {                                                                                                                  \
        sgd<S>(args);                                                                                                  \
    }
KI_EACH_STORAGE(ROWS)
