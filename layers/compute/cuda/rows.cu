/* layers/compute/cuda/rows.cu - whole rows by number: embedding, dispatch to experts, and what a router needs.
 *
 * All have the host's bits. Rows that are added to one destination are added in ascending order, as the host does: a
 * first kernel links those with the same destination into a chain, a second one walks each chain. Its time grows with
 * the longest chain, and that of the linking with the square of the number of rows, 32 at a time.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "args.h"
#include "lanes.h"
#include "types.h"

template <class S> KI_DEVICE void pick(const ki_pick_args &args)
{
    typedef typename ki_accumulator<S>::type R;
    enum { N = ki_chunk<S>::N };
    KI_EACH_CHUNK(args.y, N, row, col)
    {
        R x[N];
        const int count = ki_count(col, args.y.cols, N);
        const int64_t from = args.rows == NULL ? row : (int64_t)ki_load(args.rows + row) - args.first;
        KI_UNROLLED
        for (int i = 0; i < N; i++)
            x[i] = 0;
        if (from >= 0 && from < args.x.rows) {
            const R weight = args.weights.data != NULL ? ki_load(ki_at<R>(args.weights, row, 0)) : (R)1;
            ki_get<S>(args.x, from, col, count, x);
            KI_UNROLLED
            for (int i = 0; i < N; i++)
                x[i] = weight * x[i];
        }
        ki_put<S>(args.y, row, col, count, x);
    }
}

KI_DEVICE int64_t smallest_of_warp(int64_t x)
{
    KI_UNROLLED
    for (unsigned half = KI_WARP / 2; half > 0; half /= 2) {
        const int64_t other = ki_warp_shuffle_xor(x, half);
        x = other < x ? other : x;
    }
    return x;
}

/* The first row of [from, to) whose destination is `wanted`, `to` if there is none. */
KI_DEVICE int64_t find_row(const int32_t *rows, int32_t wanted, int64_t from, int64_t to)
{
    for (int64_t at = from; at < to; at += KI_WARP) {
        const int64_t mine = at + ki_thread() % KI_WARP;
        const int64_t found = smallest_of_warp(mine < to && ki_load(rows + mine) == wanted ? mine : to);
        if (found < to)
            return found;
    }
    return to;
}

KI_BLOCK_KERNEL(ki_chain, ki_chain_args)
{
    KI_EACH_ROW(row, args.count)
    {
        const int32_t wanted = ki_load(args.rows + row);
        const int64_t place = (int64_t)wanted - args.first;
        const bool has_place = place >= 0 && place < args.limit;
        const bool is_first = has_place && find_row(args.rows, wanted, 0, row) == row;
        const int64_t next = has_place ? find_row(args.rows, wanted, row + 1, args.count) : args.count;
        if (ki_thread() % KI_WARP == 0) {
            ki_store(args.is_first + row, (int32_t)is_first);
            ki_store(args.next + row, next < args.count ? (int32_t)next : (int32_t)-1);
        }
    }
}

/* x as S, y as T; y is rounded at each addition, as on the host. */
template <class S, class T> KI_DEVICE void add_rows(const ki_add_rows_args &args)
{
    typedef typename ki_accumulator<T>::type R;
    enum { N = ki_chunk<S, T>::N };
    KI_EACH_CHUNK(args.x, N, row, col)
    {
        if (!ki_load(args.is_first + row))
            continue;
        R y[N];
        const int count = ki_count(col, args.x.cols, N);
        const int64_t to = (int64_t)ki_load(args.rows + row) - args.first;
        ki_get<T>(args.y, to, col, count, y);
        for (int64_t from = row; from >= 0; from = ki_load(args.next + from)) {
            R x[N];
            const R weight = args.weights.data != NULL ? ki_load(ki_at<R>(args.weights, from, 0)) : (R)1;
            ki_get<S>(args.x, from, col, count, x);
            KI_UNROLLED
            for (int i = 0; i < N; i++) {
                T stored;
                ki_stored(y[i] + weight * x[i], &stored);
                y[i] = ki_number<R>(stored);
            }
        }
        ki_put<T>(args.y, to, col, count, y);
    }
}

template <class S> KI_DEVICE void row_dots(const ki_dots_args &args)
{
    typedef typename ki_accumulator<S>::type R;
    enum { N = ki_chunk<S>::N };
    KI_STAGED(R, 1, staged);
    KI_EACH_ROW(row, args.a.rows)
    {
        R sum[1];
        ki_row_sums<R, 1, N>(args.a.cols, staged, sum, [&](int64_t col, int count, R(&x)[1][N]) {
            R b[N];
            ki_get<S>(args.a, row, col, count, x[0]);
            ki_get<S>(args.b, row, col, count, b);
            KI_UNROLLED
            for (int i = 0; i < N; i++)
                x[0][i] = x[0][i] * b[i];
        });
        if (ki_thread() % KI_WARP == 0)
            ki_store(ki_at<R>(args.dots, row, 0), sum[0]);
    }
}

/* NaN stands before all numbers, so that it is not lost. */
template <class R> KI_DEVICE bool is_before(R x, R y)
{
    return x > y || (x != x && y == y);
}

/* A thread for each row puts the columns into place one after the other, as the host does: experts are few. */
template <class R> KI_DEVICE void top_k(const ki_top_k_args &args)
{
    for (int64_t row = ki_grid_thread(); row < args.x.rows; row += ki_grid_threads()) {
        R *const best = ki_at<R>(args.values, row, 0);
        int32_t *const where = args.columns + row * args.k;
        int64_t have = 0;
        for (int64_t col = 0; col < args.x.cols; col++) {
            const R x = ki_load(ki_at<R>(args.x, row, col));
            int64_t at = have;
            while (at > 0 && is_before(x, ki_load(best + at - 1)))
                at--;
            if (at == args.k)
                continue;
            have += have < args.k;
            for (int64_t i = have - 1; i > at; i--) {
                ki_store(best + i, ki_load(best + i - 1));
                ki_store(where + i, ki_load(where + i - 1));
            }
            ki_store(best + at, x);
            ki_store(where + at, (int32_t)col);
        }
    }
}

/* The host adds up what KI_CHECKERS threads saw. */
KI_KERNEL(ki_check_ids, ki_check_args)
{
    for (int64_t checker = ki_grid_thread(); checker < KI_CHECKERS; checker += ki_grid_threads()) {
        int64_t counted = 0, outside = -1;
        for (int64_t row = checker; row < args.rows; row += KI_CHECKERS) {
            const int32_t id = ki_load(args.ids + row);
            counted += id != args.ignored;
            if (outside < 0 && id != args.ignored && (id < 0 || id >= args.limit))
                outside = row;
        }
        ki_store(&args.seen[checker].counted, counted);
        ki_store(&args.seen[checker].row, outside);
    }
}

#define ROWS(S, type)                                                                                                  \
    KI_KERNEL(ki_pick_##type, ki_pick_args)                                                                            \
    {                                                                                                                  \
        pick<S>(args);                                                                                                 \
    }                                                                                                                  \
    KI_BLOCK_KERNEL(ki_row_dots_##type, ki_dots_args)                                                                  \
    {                                                                                                                  \
        row_dots<S>(args);                                                                                             \
    }
KI_EACH_STORAGE(ROWS)

#define ADD_ROWS(S, from, T, to)                                                                                       \
    KI_KERNEL(ki_add_rows_##from##_##to, ki_add_rows_args)                                                             \
    {                                                                                                                  \
        add_rows<S, T>(args);                                                                                          \
    }
KI_EACH_MIXTURE(ADD_ROWS)

#define TOP_K(R, type)                                                                                                 \
    KI_KERNEL(ki_top_k_##type, ki_top_k_args)                                                                          \
    {                                                                                                                  \
        top_k<R>(args);                                                                                                \
    }
KI_EACH_ACCUMULATOR(TOP_K)
