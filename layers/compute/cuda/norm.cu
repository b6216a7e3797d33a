/* layers/compute/cuda/norm.cu - LayerNorm and RMSNorm with their gradients: a warp for each row.
 *
 * All have the host's bits, sums included (lanes.h). The gradients of weight and bias are sums over rows: those of
 * groups of rows here, before dx may overwrite dy, then elements.cu adds the groups in their order.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "args.h"
#include "lanes.h"
#include "types.h"

KI_DEVICE float normalized(float x, float center, float rstd, float weight)
{
    return ki_normalized_f32(x, center, rstd, weight);
}
KI_DEVICE double normalized(double x, double center, double rstd, double weight)
{
    return ki_normalized_f64(x, center, rstd, weight);
}

KI_DEVICE float norm_dx(float x, float center, float rstd, float weight, float dy, float g_mean, float g_xhat_mean)
{
    return ki_norm_dx_f32(x, center, rstd, weight, dy, g_mean, g_xhat_mean);
}
KI_DEVICE double norm_dx(double x, double center, double rstd, double weight, double dy, double g_mean,
                         double g_xhat_mean)
{
    return ki_norm_dx_f64(x, center, rstd, weight, dy, g_mean, g_xhat_mean);
}

template <class S, class R> KI_DEVICE R row_mean(const ki_mat &m, int64_t row, R *staged)
{
    enum { N = ki_chunk<S>::N };
    R sum[1];
    ki_row_sums<R, 1, N>(m.cols, staged, sum, [&](int64_t col, int count, R(&x)[1][N]) {
        ki_get<S>(m, row, col, count, x[0]);
    });
    return sum[0] / (R)m.cols;
}

/* Mean of (x - center)^2. */
template <class S, class R> KI_DEVICE R row_spread(const ki_mat &m, int64_t row, R center, R *staged)
{
    enum { N = ki_chunk<S>::N };
    R sum[1];
    ki_row_sums<R, 1, N>(m.cols, staged, sum, [&](int64_t col, int count, R(&x)[1][N]) {
        ki_get<S>(m, row, col, count, x[0]);
        KI_UNROLLED
        for (int i = 0; i < N; i++) {
            const R difference = x[0][i] - center;
            x[0][i] = difference * difference;
        }
    });
    return sum[0] / (R)m.cols;
}

template <class S> KI_DEVICE void norm(const ki_norm_args &args)
{
    typedef typename ki_accumulator<S>::type R;
    enum { N = ki_chunk<S>::N };
    KI_STAGED(R, 1, staged);
    KI_EACH_ROW(row, args.x.rows)
    {
        const R center = args.mean.data != NULL ? row_mean<S, R>(args.x, row, staged) : (R)0;
        const R rstd = (R)1 / ki_sqrt(row_spread<S, R>(args.x, row, center, staged) + (R)args.epsilon);
        KI_EACH_PART(N, col, args.x.cols)
        {
            R x[N], w[N];
            const int count = ki_count(col, args.x.cols, N);
            ki_get<S>(args.x, row, col, count, x);
            ki_get<S>(args.weight, 0, col, count, w);
            KI_UNROLLED
            for (int i = 0; i < N; i++)
                x[i] = normalized(x[i], center, rstd, w[i]);
            if (args.bias.data != NULL) {
                ki_get<S>(args.bias, 0, col, count, w);
                KI_UNROLLED
                for (int i = 0; i < N; i++)
                    x[i] = x[i] + w[i];
            }
            ki_put<S>(args.y, row, col, count, x);
        }
        if (ki_thread() % KI_WARP == 0) {
            if (args.mean.data != NULL)
                ki_store(ki_at<R>(args.mean, row, 0), center);
            ki_store(ki_at<R>(args.rstd, row, 0), rstd);
        }
    }
}

/* What the rows of a group give to the gradients of weight and bias. */
template <class S> KI_DEVICE void norm_sums(const ki_norm_grad_args &args)
{
    typedef typename ki_accumulator<S>::type R;
    enum { N = ki_chunk<S>::N };
    KI_EACH_CHUNK(args.weight_sums, N, group, col)
    {
        const int count = ki_count(col, args.x.cols, N);
        const int64_t first = group * KI_GROUP_ROWS, last = first + ki_count(first, args.x.rows, KI_GROUP_ROWS);
        R to_weight[N], to_bias[N];
        KI_UNROLLED
        for (int i = 0; i < N; i++)
            to_weight[i] = to_bias[i] = 0;
        for (int64_t row = first; row < last; row++) {
            const R center = args.mean.data != NULL ? ki_load(ki_at<R>(args.mean, row, 0)) : (R)0;
            const R rstd = ki_load(ki_at<R>(args.rstd, row, 0));
            R x[N], d[N];
            ki_get<S>(args.x, row, col, count, x);
            ki_get<S>(args.dy, row, col, count, d);
            KI_UNROLLED
            for (int i = 0; i < N; i++) {
                const R xhat = (x[i] - center) * rstd;
                to_weight[i] += d[i] * xhat;
                to_bias[i] += d[i];
            }
        }
        ki_put<R>(args.weight_sums, group, col, count, to_weight);
        if (args.bias_sums.data != NULL)
            ki_put<R>(args.bias_sums, group, col, count, to_bias);
    }
}

template <class S> KI_DEVICE void norm_grad(const ki_norm_grad_args &args)
{
    typedef typename ki_accumulator<S>::type R;
    enum { N = ki_chunk<S>::N };
    KI_STAGED(R, 2, staged);
    KI_EACH_ROW(row, args.x.rows)
    {
        const bool is_centered = args.mean.data != NULL;
        const R center = is_centered ? ki_load(ki_at<R>(args.mean, row, 0)) : (R)0;
        const R rstd = ki_load(ki_at<R>(args.rstd, row, 0));
        R sums[2]; /* of g = dy weight, and of g xhat */
        ki_row_sums<R, 2, N>(args.x.cols, staged, sums, [&](int64_t col, int count, R(&terms)[2][N]) {
            R x[N], w[N], d[N];
            ki_get<S>(args.x, row, col, count, x);
            ki_get<S>(args.weight, 0, col, count, w);
            ki_get<S>(args.dy, row, col, count, d);
            KI_UNROLLED
            for (int i = 0; i < N; i++) {
                const R xhat = (x[i] - center) * rstd;
                terms[0][i] = d[i] * w[i];
                terms[1][i] = terms[0][i] * xhat;
            }
        });
        const R g_mean = is_centered ? sums[0] / (R)args.x.cols : (R)0, g_xhat_mean = sums[1] / (R)args.x.cols;
        KI_EACH_PART(N, col, args.x.cols)
        {
            R x[N], w[N], d[N];
            const int count = ki_count(col, args.x.cols, N);
            ki_get<S>(args.x, row, col, count, x);
            ki_get<S>(args.weight, 0, col, count, w);
            ki_get<S>(args.dy, row, col, count, d);
            KI_UNROLLED
            for (int i = 0; i < N; i++)
                d[i] = norm_dx(x[i], center, rstd, w[i], d[i], g_mean, g_xhat_mean);
            ki_put<S>(args.dx, row, col, count, d);
        }
    }
}

#define ROWS(S, type)                                                                                                  \
    KI_BLOCK_KERNEL(ki_norm_##type, ki_norm_args)                                                                      \
    {                                                                                                                  \
        norm<S>(args);                                                                                                 \
    }                                                                                                                  \
    KI_KERNEL(ki_norm_sums_##type, ki_norm_grad_args)                                                                  \
    {                                                                                                                  \
        norm_sums<S>(args);                                                                                            \
    }                                                                                                                  \
    KI_BLOCK_KERNEL(ki_norm_grad_##type, ki_norm_grad_args)                                                            \
    {                                                                                                                  \
        norm_grad<S>(args);                                                                                            \
    }
KI_EACH_STORAGE(ROWS)
