/* layers/compute/cuda/activation.cu - activations with an optional bias, gated units, dropout with residual.
 *
 * f32, bf16 and f16 have the host's bits where that has fused multiply-adds; f64 takes CUDA's exp() and erfc(), which
 * may differ from libm's in the last place.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "args.h"
#include "storage.h"
#include "types.h"

template <class R, int N> KI_DEVICE void activate(int kind, const R (&x)[N], R (&y)[N])
{
    KI_UNROLLED
    for (int i = 0; i < N; i++)
        y[i] = kind == KI_SILU ? ki_silu(x[i]) : kind == KI_GELU_TANH ? ki_gelu_tanh(x[i]) : ki_gelu(x[i]);
}

template <class R, int N> KI_DEVICE void slopes(int kind, const R (&x)[N], R (&y)[N])
{
    KI_UNROLLED
    for (int i = 0; i < N; i++)
        y[i] = kind == KI_SILU        ? ki_silu_slope(x[i])
               : kind == KI_GELU_TANH ? ki_gelu_tanh_slope(x[i])
                                      : ki_gelu_slope(x[i]);
}

template <class S, class R, int N>
KI_DEVICE void get_biased(const ki_mat &x, const ki_mat &bias, int64_t row, int64_t col, int count, R (&sum)[N])
{
    ki_get<S>(x, row, col, count, sum);
    if (bias.data == NULL)
        return;
    R b[N];
    ki_get<S>(bias, 0, col, count, b);
    KI_UNROLLED
    for (int i = 0; i < N; i++)
        sum[i] = sum[i] + b[i];
}

template <class S> KI_DEVICE void activation(const ki_activation_args &args)
{
    typedef typename ki_accumulator<S>::type R;
    enum { N = ki_chunk<S>::N };
    KI_EACH_CHUNK(args.y, N, row, col)
    {
        R x[N], y[N];
        const int count = ki_count(col, args.y.cols, N);
        get_biased<S>(args.x, args.bias, row, col, count, x);
        activate(args.kind, x, y);
        ki_put<S>(args.y, row, col, count, y);
    }
}

template <class S> KI_DEVICE void activation_grad(const ki_activation_grad_args &args)
{
    typedef typename ki_accumulator<S>::type R;
    enum { N = ki_chunk<S>::N };
    KI_EACH_CHUNK(args.dx, N, row, col)
    {
        R x[N], slope[N], d[N];
        const int count = ki_count(col, args.dx.cols, N);
        get_biased<S>(args.x, args.bias, row, col, count, x);
        slopes(args.kind, x, slope);
        ki_get<S>(args.dy, row, col, count, d);
        KI_UNROLLED
        for (int i = 0; i < N; i++)
            d[i] = d[i] * slope[i];
        ki_put<S>(args.dx, row, col, count, d);
    }
}

template <class S> KI_DEVICE void gated(const ki_gated_args &args)
{
    typedef typename ki_accumulator<S>::type R;
    enum { N = ki_chunk<S>::N };
    KI_EACH_CHUNK(args.y, N, row, col)
    {
        R gate[N], act[N], up[N];
        const int count = ki_count(col, args.y.cols, N);
        ki_get<S>(args.gate, row, col, count, gate);
        ki_get<S>(args.up, row, col, count, up);
        activate(args.kind, gate, act);
        KI_UNROLLED
        for (int i = 0; i < N; i++)
            up[i] = act[i] * up[i];
        ki_put<S>(args.y, row, col, count, up);
    }
}

template <class S> KI_DEVICE void gated_grad(const ki_gated_grad_args &args)
{
    typedef typename ki_accumulator<S>::type R;
    enum { N = ki_chunk<S>::N };
    KI_EACH_CHUNK(args.dy, N, row, col)
    {
        R gate[N], up[N], d[N], act[N], slope[N], dgate[N], dup[N];
        const int count = ki_count(col, args.dy.cols, N);
        ki_get<S>(args.gate, row, col, count, gate);
        ki_get<S>(args.up, row, col, count, up);
        ki_get<S>(args.dy, row, col, count, d);
        activate(args.kind, gate, act);
        slopes(args.kind, gate, slope);
        KI_UNROLLED
        for (int i = 0; i < N; i++) {
            dgate[i] = d[i] * up[i] * slope[i];
            dup[i] = d[i] * act[i];
        }
        ki_put<S>(args.dgate, row, col, count, dgate);
        ki_put<S>(args.dup, row, col, count, dup);
    }
}

KI_DEVICE float drop(float x, float factor)
{
    return ki_drop_f32(x, factor);
}
KI_DEVICE double drop(double x, double factor)
{
    return ki_drop_f64(x, factor);
}

/* Four features share a counter: the words of the counter that `feature` has, made when they are not those in hand. */
struct words {
    uint32_t w[4], counter;
    bool is_made;
};

KI_DEVICE uint32_t word_of(words *have, const ki_dropout &how, uint32_t position, uint32_t sample, uint32_t feature)
{
    if (!have->is_made || have->counter != feature / 4) {
        have->is_made = true;
        have->counter = feature / 4;
        have->w[0] = feature / 4, have->w[1] = position, have->w[2] = sample, have->w[3] = how.site;
        ki_philox(ki_philox_key_of(how.seed), &have->w[0], &have->w[1], &have->w[2], &have->w[3]);
    }
    const uint32_t low = (feature & 1u) != 0 ? have->w[1] : have->w[0];
    const uint32_t high = (feature & 1u) != 0 ? have->w[3] : have->w[2];
    return (feature & 2u) != 0 ? high : low;
}

template <class R, int N>
KI_DEVICE void dropout(const ki_dropout &how, int64_t row, int64_t col, R (&x)[N])
{
    const uint64_t threshold = ki_dropout_threshold(how.probability);
    const R kept = (R)(1.0 / (1.0 - how.probability));
    const uint32_t position = how.first_position + (uint32_t)(row / how.batch);
    const uint32_t sample = how.first_sample + (uint32_t)(row % how.batch);
    const uint32_t first = how.first_feature + (uint32_t)col;
    words have = { { 0, 0, 0, 0 }, 0, false };
    KI_UNROLLED
    for (int i = 0; i < N; i++)
        x[i] = drop(x[i], word_of(&have, how, position, sample, first + (uint32_t)i) >= threshold ? kept : (R)0);
}

template <class S> KI_DEVICE void dropout_add(const ki_dropout_args &args)
{
    typedef typename ki_accumulator<S>::type R;
    enum { N = ki_chunk<S>::N };
    KI_EACH_CHUNK(args.y, N, row, col)
    {
        R x[N];
        const int count = ki_count(col, args.y.cols, N);
        get_biased<S>(args.x, args.bias, row, col, count, x);
        if (args.dropout.probability > 0)
            dropout(args.dropout, row, col, x);
        if (args.residual.data != NULL) {
            R residual[N];
            ki_get<S>(args.residual, row, col, count, residual);
            KI_UNROLLED
            for (int i = 0; i < N; i++)
                x[i] = residual[i] + x[i];
        }
        ki_put<S>(args.y, row, col, count, x);
    }
}

#define ROWS(S, type)                                                                                                  \
    KI_KERNEL(ki_activation_##type, ki_activation_args)                                                                \
    {                                                                                                                  \
        activation<S>(args);                                                                                           \
    }                                                                                                                  \
    KI_KERNEL(ki_activation_grad_##type, ki_activation_grad_args)                                                      \
    {                                                                                                                  \
        activation_grad<S>(args);                                                                                      \
    }                                                                                                                  \
    KI_KERNEL(ki_gated_##type, ki_gated_args)                                                                          \
    {                                                                                                                  \
        gated<S>(args);                                                                                                \
    }                                                                                                                  \
    KI_KERNEL(ki_gated_grad_##type, ki_gated_grad_args)                                                                \
    {                                                                                                                  \
        gated_grad<S>(args);                                                                                           \
    }                                                                                                                  \
    KI_KERNEL(ki_dropout_##type, ki_dropout_args)                                                                      \
    {                                                                                                                  \
        dropout_add<S>(args);                                                                                          \
    }
KI_EACH_STORAGE(ROWS)
