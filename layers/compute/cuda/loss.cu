/* layers/compute/cuda/loss.cu - cross entropy over a part of the vocabulary, and softmax over rows: a warp for each
 * row.
 *
 * Sums and exponentials are the host's (lanes.h, arith.h). Logarithms are CUDA's: losses may differ from the host's
 * in the last place, and so may exponentials of f64.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "args.h"
#include "lanes.h"
#include "types.h"

KI_DEVICE float dlogit(float x, float top, float share, float of_all)
{
    return ki_loss_dlogit_f32(x, top, share, of_all);
}
KI_DEVICE double dlogit(double x, double top, double share, double of_all)
{
    return ki_loss_dlogit_f64(x, top, share, of_all);
}

template <class S> KI_DEVICE void row_max(const ki_rows_args &args)
{
    typedef typename ki_accumulator<S>::type R;
    enum { N = ki_chunk<S>::N };
    KI_EACH_ROW(row, args.x.rows)
    {
        const R largest = ki_row_largest<S, R, N>(args.x, row);
        if (ki_thread() % KI_WARP == 0)
            ki_store(ki_at<R>(args.y, row, 0), largest);
    }
}

template <class S> KI_DEVICE void loss_sums(const ki_loss_sums_args &args)
{
    typedef typename ki_accumulator<S>::type R;
    enum { N = ki_chunk<S>::N };
    KI_STAGED(R, 2, staged);
    KI_EACH_ROW(row, args.logits.rows)
    {
        const R top = ki_load(ki_at<R>(args.max, row, 0));
        const int64_t target = (int64_t)ki_load(args.targets + row) - args.first;
        R sums[2];
        ki_row_sums<R, 2, N>(args.logits.cols, staged, sums, [&](int64_t col, int count, R(&x)[2][N]) {
            ki_get<S>(args.logits, row, col, count, x[1]);
            KI_UNROLLED
            for (int i = 0; i < N; i++) {
                x[1][i] = x[1][i] - top;
                x[0][i] = ki_exp(x[1][i]);
            }
        });
        if (ki_thread() % KI_WARP == 0) {
            const bool is_here = target >= 0 && target < args.logits.cols;
            R *const out = ki_at<R>(args.sums, row, 0);
            ki_store(out, sums[0]);
            ki_store(out + 1, is_here ? ki_get_one<S, R>(args.logits, row, target) - top : (R)0);
            if (args.sums.cols == 3)
                ki_store(out + 2, sums[1]);
        }
    }
}

/* A thread for each row. */
template <class R> KI_DEVICE void losses(const ki_losses_args &args)
{
    for (int64_t row = ki_grid_thread(); row < args.losses.rows; row += ki_grid_threads()) {
        const R *const sums = ki_at<R>(args.sums, row, 0);
        R wanted = (R)args.of_target * ki_load(sums + 1);
        if (args.has_smoothing) /* a logit of -infinity is no loss while nothing is smoothed towards it */
            wanted += (R)args.of_all * ki_load(sums + 2);
        const bool is_ignored = ki_load(args.targets + row) == args.ignored;
        ki_store(ki_at<R>(args.losses, row, 0), is_ignored ? (R)0 : ki_log(ki_load(sums)) - wanted);
    }
}

template <class S> KI_DEVICE void loss_grad(const ki_loss_grad_args &args)
{
    typedef typename ki_accumulator<S>::type R;
    enum { N = ki_chunk<S>::N };
    KI_EACH_CHUNK(args.dlogits, N, row, col)
    {
        R x[N];
        const int count = ki_count(col, args.dlogits.cols, N);
        const int32_t target = ki_load(args.targets + row);
        const int64_t here = (int64_t)target - args.first - col;
        const R top = ki_load(ki_at<R>(args.max, row, 0));
        const R share = (R)args.scale / ki_load(ki_at<R>(args.sums, row, 0));
        ki_get<S>(args.logits, row, col, count, x);
        KI_UNROLLED
        for (int i = 0; i < N; i++) {
            const R of_class = dlogit(x[i], top, share, (R)args.of_all);
            x[i] = target == args.ignored ? (R)0 : here == i ? of_class - (R)args.of_target : of_class;
        }
        ki_put<S>(args.dlogits, row, col, count, x);
    }
}

template <class S> KI_DEVICE void softmax(const ki_rows_args &args)
{
    typedef typename ki_accumulator<S>::type R;
    enum { N = ki_chunk<S>::N };
    KI_STAGED(R, 1, staged);
    KI_EACH_ROW(row, args.x.rows)
    {
        R sum[1];
        const R top = ki_row_largest<S, R, N>(args.x, row);
        ki_row_sums<R, 1, N>(args.x.cols, staged, sum, [&](int64_t col, int count, R(&x)[1][N]) {
            ki_get<S>(args.x, row, col, count, x[0]);
            KI_UNROLLED
            for (int i = 0; i < N; i++)
                x[0][i] = ki_exp(x[0][i] - top);
        });
        KI_EACH_PART(N, col, args.x.cols)
        {
            R x[N];
            const int count = ki_count(col, args.x.cols, N);
            ki_get<S>(args.x, row, col, count, x);
            KI_UNROLLED
            for (int i = 0; i < N; i++)
                x[i] = ki_exp(x[i] - top) / sum[0];
            ki_put<R>(args.y, row, col, count, x);
        }
    }
}

/* y, dy: R; dx: S */
template <class S> KI_DEVICE void softmax_grad(const ki_softmax_grad_args &args)
{
    typedef typename ki_accumulator<S>::type R;
    enum { N = ki_chunk<S>::N };
    KI_STAGED(R, 1, staged);
    KI_EACH_ROW(row, args.y.rows)
    {
        R sum[1];
        ki_row_sums<R, 1, N>(args.y.cols, staged, sum, [&](int64_t col, int count, R(&x)[1][N]) {
            R d[N];
            ki_get<R>(args.y, row, col, count, x[0]);
            ki_get<R>(args.dy, row, col, count, d);
            KI_UNROLLED
            for (int i = 0; i < N; i++)
                x[0][i] = x[0][i] * d[i];
        });
        KI_EACH_PART(N, col, args.y.cols)
        {
            R y[N], d[N];
            const int count = ki_count(col, args.y.cols, N);
            ki_get<R>(args.y, row, col, count, y);
            ki_get<R>(args.dy, row, col, count, d);
            KI_UNROLLED
            for (int i = 0; i < N; i++)
                d[i] = y[i] * (d[i] - sum[0]);
            ki_put<S>(args.dx, row, col, count, d);
        }
    }
}

#define ROWS(S, type)                                                                                                  \
    KI_BLOCK_KERNEL(ki_row_max_##type, ki_rows_args)                                                                   \
    {                                                                                                                  \
        row_max<S>(args);                                                                                              \
    }                                                                                                                  \
    KI_BLOCK_KERNEL(ki_loss_sums_##type, ki_loss_sums_args)                                                            \
    {                                                                                                                  \
        loss_sums<S>(args);                                                                                            \
    }                                                                                                                  \
    KI_KERNEL(ki_loss_grad_##type, ki_loss_grad_args)                                                                  \
    {                                                                                                                  \
        loss_grad<S>(args);                                                                                            \
    }                                                                                                                  \
    KI_BLOCK_KERNEL(ki_softmax_##type, ki_rows_args)                                                                   \
    {                                                                                                                  \
        softmax<S>(args);                                                                                              \
    }                                                                                                                  \
    KI_BLOCK_KERNEL(ki_softmax_grad_##type, ki_softmax_grad_args)                                                      \
    {                                                                                                                  \
        softmax_grad<S>(args);                                                                                         \
    }
KI_EACH_STORAGE(ROWS)

#define LOSSES(R, type)                                                                                                \
    KI_KERNEL(ki_losses_##type, ki_losses_args)                                                                        \
    {                                                                                                                  \
        losses<R>(args);                                                                                               \
    }
KI_EACH_ACCUMULATOR(LOSSES)
