/* layers/compute/cuda/rows.cu - whole rows by number: embedding, dispatch to experts, and what a router needs.
 *
 * All have the host's bits. Rows that are added to one destination are added in ascending order, as the host does: they
 * are sorted by destination and number first, in blocks and then by merging, and whoever has the first row of a
 * destination adds all of them. The time of sorting grows with the number of rows (and the square of its logarithm),
 * that of adding with the most rows of one destination.
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

/* Each thread counts the keys of its block that come before its own, which are all different. */
KI_BLOCK_KERNEL(ki_order, ki_order_args)
{
    KI_SHARED(uint64_t, keys, KI_MAX_THREADS);
    for (int64_t start = (int64_t)ki_block() * ki_threads(); start < args.count;
         start += (int64_t)ki_blocks() * ki_threads()) {
        const int64_t row = start + ki_thread();
        uint64_t mine = ~(uint64_t)0;
        if (row < args.count) {
            const int64_t place = (int64_t)ki_load(args.rows + row) - args.first;
            mine = (uint64_t)(place >= 0 && place < args.limit ? place : args.limit) << 32 | (uint64_t)row;
        }
        keys[ki_thread()] = mine;
        ki_block_sync();
        int before = 0;
        for (uint32_t i = 0; i < ki_threads(); i++)
            before += keys[i] < mine;
        if (row < args.count)
            ki_store(args.keys + start + before, mine);
        ki_block_sync();
    }
}

/* A key goes behind those of its own run and of the other one that come before it. */
KI_KERNEL(ki_merge, ki_merge_args)
{
    for (int64_t i = ki_grid_thread(); i < args.count; i += ki_grid_threads()) {
        const uint64_t mine = ki_load(args.from + i);
        const int64_t run = i / args.run, other = (run ^ 1) * args.run, both = run / 2 * 2 * args.run;
        int64_t low = other, high = other + args.run;
        high = high < args.count ? high : args.count;
        while (low < high) {
            const int64_t middle = low + (high - low) / 2;
            if (ki_load(args.from + middle) < mine)
                low = middle + 1;
            else
                high = middle;
        }
        ki_store(args.to + both + (i - run * args.run) + (low - other), mine);
    }
}

/* y += weight * x, rounded to T, as on the host. */
template <class T, class R, int N> KI_DEVICE void add_part(R weight, const R (&x)[N], R (&y)[N])
{
    KI_UNROLLED
    for (int i = 0; i < N; i++) {
        T stored;
        ki_stored(y[i] + weight * x[i], &stored);
        y[i] = ki_number<R>(stored);
    }
}

template <class R> KI_DEVICE R weight_of(const ki_mat &weights, int64_t row)
{
    return weights.data != NULL ? ki_load(ki_at<R>(weights, row, 0)) : (R)1;
}

/* A few rows are under way at once: a frequent word is as long as many reads one after the other. Returns whether there
 * may be more rows for `to` behind these. */
template <class S, class T, class R, int N>
KI_DEVICE bool add_some(const ki_add_rows_args &args, uint32_t to, int64_t from, int64_t col, R (&y)[N])
{
    enum { AHEAD = 4, W = 16 / sizeof(S) };
    ki_pack<S> packs[AHEAD][N / W];
    R weights[AHEAD];
    bool is_for_it[AHEAD];
    KI_UNROLLED
    for (int a = 0; a < AHEAD; a++) {
        const int64_t at = from + a < args.x.rows ? from + a : from;
        const uint64_t key = ki_load(args.keys + at);
        const int64_t row = (int64_t)(uint32_t)key;
        is_for_it[a] = at == from + a && key >> 32 == to;
        weights[a] = weight_of<R>(args.weights, row);
        KI_UNROLLED
        for (int i = 0; i < N / W; i++)
            packs[a][i] = ki_load16<ki_pack<S>>(ki_at<S>(args.x, row, col + i * W));
    }
    KI_UNROLLED
    for (int a = 0; a < AHEAD; a++) {
        R x[N];
        KI_UNROLLED
        for (int i = 0; i < N; i++)
            x[i] = ki_number<R>(packs[a][i / W].v[i % W]);
        if (is_for_it[a])
            add_part<T>(weights[a], x, y);
    }
    return is_for_it[AHEAD - 1];
}

/* x as S, y as T. */
template <class S, class T> KI_DEVICE void add_rows(const ki_add_rows_args &args)
{
    typedef typename ki_accumulator<T>::type R;
    enum { N = ki_chunk<S, T>::N, AHEAD = 4 };
    const bool is_wide = ki_is_aligned(args.x.data) && args.x.stride % (int64_t)(16 / sizeof(S)) == 0;
    KI_EACH_CHUNK(args.x, N, at, col)
    {
        const uint32_t to = (uint32_t)(ki_load(args.keys + at) >> 32);
        if (to >= args.y.rows || (at > 0 && (uint32_t)(ki_load(args.keys + at - 1) >> 32) == to))
            continue;
        R y[N];
        const int count = ki_count(col, args.x.cols, N);
        ki_get<T>(args.y, to, col, count, y);
        int64_t from = at;
        if (is_wide && count == N)
            while (from < args.x.rows && add_some<S, T>(args, to, from, col, y))
                from += AHEAD;
        else
            for (; from < args.x.rows; from++) {
                R x[N];
                const uint64_t key = ki_load(args.keys + from);
                if (key >> 32 != to)
                    break;
                ki_get<S>(args.x, (int64_t)(uint32_t)key, col, count, x);
                add_part<T>(weight_of<R>(args.weights, (int64_t)(uint32_t)key), x, y);
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
