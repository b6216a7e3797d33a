/* layers/compute/cuda/attention.cu - what a block of attention's scores goes through between products, and rotary
 * positions.
 *
 * attention.c says how blocks are walked over. A warp has a row of a block in its registers: it is read once and
 * written once. Sums over a row are formed in the order of threads, not in the host's, whose blocks are smaller; the
 * products beside them have no order in common either. Rotary positions have the host's bits.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "args.h"
#include "lanes.h"
#include "layers/compute/loop_exp.h"
#include "types.h"

/* A thread has chunks of 8 columns: whole counters of dropout, and 16 bytes of the narrowest type. */
enum { ATTEND_N = 8, ATTEND_CHUNKS = KI_ATTEND_COLS / (ATTEND_N * KI_WARP) };

KI_DEVICE float exp_below(float x)
{
    return ki_exp_below_f32(x);
}
KI_DEVICE double exp_below(double x)
{
    return ki_exp_below_f64(x);
}

/* NaN is passed by. */
template <class R> KI_DEVICE R larger(R a, R b)
{
    return a > b ? a : b;
}

template <class R> KI_DEVICE R warp_max(R x)
{
    KI_UNROLLED
    for (unsigned half = KI_WARP / 2; half > 0; half /= 2)
        x = larger(x, ki_warp_shuffle_xor(x, half));
    return x;
}

template <class R> KI_DEVICE R warp_sum(R x)
{
    KI_UNROLLED
    for (unsigned half = KI_WARP / 2; half > 0; half /= 2)
        x += ki_warp_shuffle_xor(x, half);
    return x;
}

KI_DEVICE int visible_of(const ki_scores &block, int64_t r, int64_t cols)
{
    const int64_t visible = block.diagonal + r * block.slope;
    return visible < 0 ? 0 : visible > cols ? (int)cols : (int)visible;
}

/* What dropout multiplies the probabilities of columns col .. col + 8 by. */
template <class R>
KI_DEVICE void factors_of(const ki_scores &block, int64_t head, int64_t r, int col, R (&factors)[ATTEND_N])
{
    const uint64_t threshold = ki_dropout_threshold(block.dropout.probability);
    const R kept = (R)(1 / (1 - block.dropout.probability));
    KI_UNROLLED
    for (int i = 0; i < ATTEND_N; i += 4) {
        uint32_t w[4] = { (block.first_key + (uint32_t)(col + i)) / 4, block.first_query + (uint32_t)r, block.sample,
                          block.stream + (uint32_t)head };
        ki_philox(ki_philox_key_of(block.dropout.seed), &w[0], &w[1], &w[2], &w[3]);
        KI_UNROLLED
        for (int j = 0; j < 4; j++)
            factors[i + j] = w[j] >= threshold ? kept : (R)0;
    }
}

/* The column where this thread's chunk begins. */
KI_DEVICE int chunk_col(int chunk)
{
    return (chunk * KI_WARP + (int)(ki_thread() % KI_WARP)) * ATTEND_N;
}

/* One step of softmax over keys: scores become exp(score - max) with dropout, 0 where masked; max, sum and the weighted
 * values so far are brought up to date. */
template <class S> KI_DEVICE void attend(const ki_attend_args &args)
{
    typedef typename ki_accumulator<S>::type R;
    const ki_scores &block = args.block;
    KI_EACH_ROW(number, block.heads * block.rows)
    {
        const int64_t head = number / block.rows, r = number % block.rows, row = head * block.head_rows + r;
        const int visible = visible_of(block, r, block.cols);
        R x[ATTEND_CHUNKS][ATTEND_N], most = -(R)INFINITY, total = 0;
        KI_UNROLLED
        for (int chunk = 0; chunk < ATTEND_CHUNKS; chunk++) {
            const int col = chunk_col(chunk), count = visible - col < ATTEND_N ? visible - col : ATTEND_N;
            if (count > 0)
                ki_get<R>(args.scores, row, col, count, x[chunk]);
            KI_UNROLLED
            for (int i = 0; i < ATTEND_N; i++)
                if (i < count)
                    most = larger(x[chunk][i], most);
        }
        const R before = args.is_first ? -(R)INFINITY : ki_load(ki_at<R>(args.max, row, 0));
        const R now = larger(warp_max(most), before);
        /* All scores so far may be -inf, and -inf - -inf would be NaN where exp(score) is 0. */
        const R reference = now == -(R)INFINITY ? (R)0 : now;
        const R factor = exp_below(before - reference);
        KI_UNROLLED
        for (int chunk = 0; chunk < ATTEND_CHUNKS; chunk++) {
            const int col = chunk_col(chunk), count = ki_count(col, block.cols, ATTEND_N);
            KI_UNROLLED
            for (int i = 0; i < ATTEND_N; i++) {
                x[chunk][i] = col + i < visible ? exp_below(x[chunk][i] - reference) : (R)0;
                total += x[chunk][i];
            }
            if (count <= 0)
                continue;
            if (block.dropout.probability > 0) {
                R factors[ATTEND_N];
                factors_of(block, head, r, col, factors);
                KI_UNROLLED
                for (int i = 0; i < ATTEND_N; i++)
                    x[chunk][i] *= factors[i];
            }
            ki_put<S>(args.probabilities, row, col, count, x[chunk]);
        }
        total = warp_sum(total);
        if (!args.is_first && factor != (R)1 && visible > 0)
            for (int64_t col = ki_thread() % KI_WARP; col < args.out.cols; col += KI_WARP)
                ki_store(ki_at<R>(args.out, row, col), ki_load(ki_at<R>(args.out, row, col)) * factor);
        ki_warp_sync(); /* all have read what is written now */
        if (ki_thread() % KI_WARP == 0 && (args.is_first || visible > 0)) {
            const R so_far = args.is_first ? (R)0 : ki_load(ki_at<R>(args.sum, row, 0)) * factor;
            ki_store(ki_at<R>(args.max, row, 0), now);
            ki_store(ki_at<R>(args.sum, row, 0), so_far + total);
        }
    }
}

/* After the last step: out / sum and lse. Queries that see no key have 0 and -infinity. */
template <class S> KI_DEVICE void attend_end(const ki_attend_end_args &args)
{
    typedef typename ki_accumulator<S>::type R;
    const ki_scores &block = args.block;
    KI_EACH_ROW(number, block.heads * block.rows)
    {
        const int64_t head = number / block.rows, r = number % block.rows, row = head * block.head_rows + r;
        const int64_t token = (args.tokens.first + r) * args.tokens.batch + args.tokens.sample;
        const bool sees = !args.is_empty && visible_of(block, r, 1) > 0;
        const R sum = sees ? ki_load(ki_at<R>(args.sum, row, 0)) : (R)0, scale = sees ? (R)1 / sum : (R)0;
        const R most = sees ? ki_load(ki_at<R>(args.max, row, 0)) : (R)0;
        for (int64_t col = ki_thread() % KI_WARP; col < args.tokens.head_dim; col += KI_WARP) {
            const R x = sees ? ki_load(ki_at<R>(args.out, row, col)) * scale : (R)0;
            ki_put_one<S>(args.to, token, head * args.tokens.head_dim + col, x);
        }
        if (ki_thread() % KI_WARP == 0)
            ki_store(ki_at<R>(args.lse, token, head), sees ? most + (R)log((double)sum) : -(R)INFINITY);
    }
}

/* Scores become probabilities with dropout; the gradients of those become the gradients of the scores. */
template <class S> KI_DEVICE void attend_grad(const ki_attend_grad_args &args)
{
    typedef typename ki_accumulator<S>::type R;
    const ki_scores &block = args.block;
    KI_EACH_ROW(number, block.heads * block.rows)
    {
        const int64_t head = number / block.rows, r = number % block.rows, row = head * block.head_rows + r;
        const int64_t token = (args.tokens.first + r) * args.tokens.batch + args.tokens.sample;
        const int visible = visible_of(block, r, block.cols);
        const R lse = ki_load(ki_at<R>(args.lse, token, head)), dot = ki_load(ki_at<R>(args.dots, row, 0));
        for (int chunk = 0; chunk < ATTEND_CHUNKS; chunk++) {
            const int col = chunk_col(chunk), count = ki_count(col, block.cols, ATTEND_N);
            R x[ATTEND_N], dx[ATTEND_N], factors[ATTEND_N];
            if (count <= 0)
                continue;
            KI_UNROLLED
            for (int i = 0; i < ATTEND_N; i++)
                factors[i] = 1;
            if (block.dropout.probability > 0)
                factors_of(block, head, r, col, factors);
            ki_get<R>(args.scores, row, col, count, x);
            ki_get<R>(args.dscores, row, col, count, dx);
            KI_UNROLLED
            for (int i = 0; i < ATTEND_N; i++) {
                const R p = exp_below(x[i] - lse);
                x[i] = col + i < visible ? p * factors[i] : (R)0;
                dx[i] = col + i < visible ? p * (dx[i] * factors[i] - dot) : (R)0;
            }
            ki_put<S>(args.probabilities, row, col, count, x);
            ki_put<S>(args.dstored, row, col, count, dx);
        }
    }
}

template <class S> KI_DEVICE void attend_dots(const ki_attend_dots_args &args)
{
    typedef typename ki_accumulator<S>::type R;
    KI_STAGED(R, 1, staged);
    KI_EACH_ROW(number, args.heads * args.rows)
    {
        const int64_t head = number / args.rows, r = number % args.rows;
        const int64_t token = (args.tokens.first + r) * args.tokens.batch + args.tokens.sample;
        const int64_t first = head * args.tokens.head_dim;
        R sum[1];
        ki_row_sums<R, 1, 1>(args.tokens.head_dim, staged, sum, [&](int64_t col, int, R(&x)[1][1]) {
            x[0][0] = ki_get_one<S, R>(args.dout, token, first + col) * ki_get_one<S, R>(args.out, token, first + col);
        });
        if (ki_thread() % KI_WARP == 0)
            ki_store(ki_at<R>(args.dots, head * args.head_rows + r, 0), sum[0]);
    }
}

template <class S> KI_DEVICE void unpack(const ki_unpack_args &args)
{
    typedef typename ki_accumulator<S>::type R;
    KI_EACH_ROW(number, args.heads * args.rows)
    {
        const int64_t head = number / args.rows, r = number % args.rows;
        const int64_t token = (args.tokens.first + r) * args.tokens.batch + args.tokens.sample;
        for (int64_t col = ki_thread() % KI_WARP; col < args.tokens.head_dim; col += KI_WARP)
            ki_put_one<S>(args.to, token, head * args.tokens.head_dim + col,
                          ki_load(ki_at<R>(args.from, head * args.head_rows + r, col)));
    }
}

/* ---- rotary positions ---- */

KI_DEVICE void add_angles(double cos_a, double sin_a, double cos_b, double sin_b, float *cosine, float *sine)
{
    ki_add_angles_f32(cos_a, sin_a, cos_b, sin_b, 1, cosine, sine);
}
KI_DEVICE void add_angles(double cos_a, double sin_a, double cos_b, double sin_b, double *cosine, double *sine)
{
    ki_add_angles_f64(cos_a, sin_a, cos_b, sin_b, 1, cosine, sine);
}

KI_DEVICE void turn(float cosine, float sine, float *low, float *high)
{
    ki_turn_f32(cosine, sine, low, high);
}
KI_DEVICE void turn(double cosine, double sine, double *low, double *high)
{
    ki_turn_f64(cosine, sine, low, high);
}

/* Rows of tables are [cosines, sines], half of each. */
template <class R> KI_DEVICE void angles(const ki_angles_args &args)
{
    const int64_t half = args.half;
    for (int64_t position = ki_block_y(); position < args.positions; position += ki_blocks_y())
        for (int64_t i = ki_grid_thread(); i < half; i += ki_grid_threads()) {
            const double *const coarse = args.coarse + position / KI_ROTARY_SPAN * 2 * half + i;
            const double *const fine = args.fine + position % KI_ROTARY_SPAN * 2 * half + i;
            R *const row = (R *)args.angles + position * 2 * half + i, cosine, sine;
            add_angles(ki_load(coarse), ki_load(coarse + half), ki_load(fine), ki_load(fine + half), &cosine, &sine);
            ki_store(row, cosine);
            ki_store(row + half, sine);
        }
}

/* A thread turns N pairs of a head at a time. */
template <class S> KI_DEVICE void rotary(const ki_rotary_args &args)
{
    typedef typename ki_accumulator<S>::type R;
    enum { N = ki_chunk<S>::N };
    const int64_t half = args.half, parts = (half + N - 1) / N, heads = args.x.cols / (2 * half);
    for (int64_t row = ki_block_y(); row < args.x.rows; row += ki_blocks_y()) {
        const ki_mat table = { (R *)args.angles + row / args.batch * 2 * half, 1, 2 * half, 2 * half, KITH_F32 };
        for (int64_t part = ki_grid_thread(); part < heads * parts; part += ki_grid_threads()) {
            const int64_t at = part % parts * N, col = part / parts * 2 * half + at;
            const int count = ki_count(at, half, N);
            R cosines[N], sines[N], low[N], high[N];
            ki_get<R>(table, 0, at, count, cosines);
            ki_get<R>(table, 0, half + at, count, sines);
            ki_get<S>(args.x, row, col, count, low);
            ki_get<S>(args.x, row, col + half, count, high);
            KI_UNROLLED
            for (int i = 0; i < N; i++)
                turn(cosines[i], args.is_inverse ? -sines[i] : sines[i], &low[i], &high[i]);
            ki_put<S>(args.x, row, col, count, low);
            ki_put<S>(args.x, row, col + half, count, high);
        }
    }
}

#define ROWS(S, type)                                                                                                  \
    KI_BLOCK_KERNEL(ki_attend_##type, ki_attend_args)                                                                  \
    {                                                                                                                  \
        attend<S>(args);                                                                                               \
    }                                                                                                                  \
    KI_KERNEL(ki_attend_end_##type, ki_attend_end_args)                                                                \
    {                                                                                                                  \
        attend_end<S>(args);                                                                                           \
    }                                                                                                                  \
    KI_KERNEL(ki_attend_grad_##type, ki_attend_grad_args)                                                              \
    {                                                                                                                  \
        attend_grad<S>(args);                                                                                          \
    }                                                                                                                  \
    KI_BLOCK_KERNEL(ki_attend_dots_##type, ki_attend_dots_args)                                                        \
    {                                                                                                                  \
        attend_dots<S>(args);                                                                                          \
    }                                                                                                                  \
    KI_KERNEL(ki_unpack_##type, ki_unpack_args)                                                                        \
    {                                                                                                                  \
        unpack<S>(args);                                                                                               \
    }                                                                                                                  \
    KI_KERNEL(ki_rotary_##type, ki_rotary_args)                                                                        \
    {                                                                                                                  \
        rotary<S>(args);                                                                                               \
    }
KI_EACH_STORAGE(ROWS)

#define ANGLES(R, type)                                                                                                \
    KI_KERNEL(ki_angles_##type, ki_angles_args)                                                                        \
    {                                                                                                                  \
        angles<R>(args);                                                                                               \
    }
KI_EACH_ACCUMULATOR(ANGLES)
