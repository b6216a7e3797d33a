/* tests/core/algo/trial.c - building, running and judging one collective.
 *
 * Each rank has its own buffers (exact mallocs, so that sanitizers see every byte too far). Contributions are numbers;
 * the reference is made of numbers again, by code that shares nothing with core/reduce or core/algo.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "trial.h"
#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const place_names[] = { "out of place", "in place", "in place at the start" };

const char *trial_text(const trial_case *trial)
{
    static char text[256];
    snprintf(text, sizeof text, "%s %s, p %d, root %d, count %zu, %s op %d, %s, mode %d, segment %zu, radix %d%s",
             kith_coll_name(trial->algo->kind), trial->algo->name, trial->size, trial->root, trial->count,
             kith_dtype_name(trial->dtype), trial->op, place_names[trial->place], (int)trial->mode,
             trial->segment_nbytes, trial->radix, trial->node_of ? ", several hosts" : "");
    return text;
}

/* ---- numbers and their encoding ---- */

typedef union number {
    int64_t i;
    double d;
} number;

static bool is_float(kith_dtype dtype)
{
    return dtype >= KITH_F16;
}

/* exponent bits, mantissa bits, bias of the small formats */
static void format_of(kith_dtype dtype, int *exponent, int *mantissa, int *bias)
{
    *exponent = dtype == KITH_F16 || dtype == KITH_F8E5M2 ? 5 : dtype == KITH_BF16 ? 8 : 4;
    *mantissa = dtype == KITH_F16 ? 10 : dtype == KITH_BF16 ? 7 : dtype == KITH_F8E4M3 ? 3 : 2;
    *bias = (1 << (*exponent - 1)) - 1;
}

/* Nearest, ties to even; values in range only (subnormals included). */
static uint32_t encode_small(double x, kith_dtype dtype)
{
    int exponent, mantissa, bias, e;
    format_of(dtype, &exponent, &mantissa, &bias);
    uint32_t sign = signbit(x) ? 1u << (exponent + mantissa) : 0;
    x = fabs(x);
    if (x == 0)
        return sign;
    frexp(x, &e);
    e -= 1;
    if (e < 1 - bias)
        e = 1 - bias;
    double scaled = nearbyint(ldexp(x, mantissa - e)); /* units of the last place */
    uint32_t units = (uint32_t)scaled;
    return sign | (units + ((uint32_t)(e + bias - 1) << mantissa)); /* the leading unit adds 1 to the exponent field */
}

static void encode(number x, kith_dtype dtype, void *out)
{
    float f = (float)x.d;
    uint32_t small = is_float(dtype) && dtype != KITH_F32 && dtype != KITH_F64 ? encode_small((double)f, dtype) : 0;
    if (dtype == KITH_F32)
        memcpy(out, &f, 4);
    else if (dtype == KITH_F64)
        memcpy(out, &x.d, 8);
    else if (is_float(dtype))
        memcpy(out, &small, kith_dtype_nbytes(dtype)); /* little endian */
    else
        memcpy(out, &x.i, kith_dtype_nbytes(dtype));
}

static double decode_small(uint32_t bits, kith_dtype dtype)
{
    int exponent, mantissa, bias;
    format_of(dtype, &exponent, &mantissa, &bias);
    uint32_t field = bits >> mantissa & ((1u << exponent) - 1), fraction = bits & ((1u << mantissa) - 1);
    double value = field == 0 ? ldexp(fraction, 1 - bias - mantissa)
                              : ldexp((double)(fraction + (1u << mantissa)), (int)field - bias - mantissa);
    return bits >> (exponent + mantissa) & 1 ? -value : value;
}

/* A contribution: element i (of the whole operation's numbering) of a rank. */
static number contribution(const trial_case *trial, int rank, size_t i)
{
    uint64_t state = trial->seed + (uint64_t)rank * 1000003 + i * 7919, x = fake_random(&state);
    number value = { .i = (int64_t)(x % 7) - (trial->dtype == KITH_UINT8 ? 0 : 3) };
    if (trial->op == OP_AFFINE)
        value.i = (int64_t)x;
    else if (trial->op == KITH_BAND || trial->op == KITH_BOR || trial->op == KITH_BXOR)
        value.i = (int64_t)(x & 0x7f);
    if (!is_float(trial->dtype))
        return value;
    double d = (double)value.i;
    if (trial->op == KITH_PROD)
        d = x & 1 ? 1 : -1;
    if (trial->dtype == KITH_F8E4M3 || trial->dtype == KITH_F8E5M2)
        d = (int)(x % 64) == rank % 64 ? 2 : x % 61 == 0 ? -1 : 0; /* few, so that sums stay exact */
    if (trial->is_order_data) {                                    /* magnitudes that swallow each other */
        d = ldexp((double)(int64_t)(x >> 40) - 8388608.0, (int)(x % 24) - 12);
        uint32_t bits = trial->dtype == KITH_BF16 ? encode_small(d, KITH_BF16) : 0;
        d = trial->dtype == KITH_BF16 ? decode_small(bits, KITH_BF16) : (double)(float)d;
    }
    return (number){ .d = d };
}

/* ---- reference ---- */

static number combine(const trial_case *trial, number a, number b)
{
    if (trial->op == OP_AFFINE) { /* b after a: x -> b1 (a1 x + a0) + b0 */
        uint32_t a1 = (uint32_t)((uint64_t)a.i >> 32), a0 = (uint32_t)a.i;
        uint32_t b1 = (uint32_t)((uint64_t)b.i >> 32), b0 = (uint32_t)b.i;
        return (number){ .i = (int64_t)((uint64_t)(b1 * a1) << 32 | (uint32_t)(b1 * a0 + b0)) };
    }
    if (is_float(trial->dtype)) {
        double x = trial->op == KITH_PROD  ? a.d * b.d
                   : trial->op == KITH_MIN ? fmin(a.d, b.d)
                   : trial->op == KITH_MAX ? fmax(a.d, b.d)
                                           : a.d + b.d;
        return (number){ .d = trial->dtype == KITH_F64 ? x : (double)(float)x };
    }
    uint64_t x = (uint64_t)a.i, y = (uint64_t)b.i;
    switch (trial->op) {
    case KITH_PROD:
        x *= y;
        break;
    case KITH_MIN:
        x = a.i < b.i ? x : y;
        break;
    case KITH_MAX:
        x = a.i > b.i ? x : y;
        break;
    case KITH_BAND:
        x &= y;
        break;
    case KITH_BOR:
        x |= y;
        break;
    case KITH_BXOR:
        x ^= y;
        break;
    default:
        x += y;
        break;
    }
    return (number){ .i = (int64_t)x };
}

/* The rule of kith/coll.h, word by word, over n values. */
static number flat_tree(const trial_case *trial, number *values, int n)
{
    int q = 1;
    while (q * 2 <= n)
        q *= 2;
    int e = n - q, used = 0;
    for (int i = 0; i < n; i++, used++) {
        values[used] = values[i];
        if (i < 2 * e) {
            values[used] = combine(trial, values[i], values[i + 1]);
            i++;
        }
    }
    for (; q > 1; q /= 2)
        for (int i = 0; i < q / 2; i++)
            values[i] = combine(trial, values[2 * i], values[2 * i + 1]);
    return values[0];
}

static number reduced(const trial_case *trial, size_t i)
{
    number members[512], hosts[512];
    int host_count = 0;
    bool is_seen[512] = { false };
    for (int first = 0; first < trial->size; first++) {
        if (is_seen[first])
            continue;
        int n = 0;
        for (int r = first; r < trial->size; r++) {
            if (trial->node_of && trial->node_of[r] != trial->node_of[first])
                continue;
            is_seen[r] = true;
            members[n++] = contribution(trial, r, i);
        }
        hosts[host_count++] = flat_tree(trial, members, n);
    }
    number result = flat_tree(trial, hosts, host_count);
    if (trial->op == KITH_AVG) {
        if (trial->dtype == KITH_F64)
            result.d /= trial->size;
        else if (is_float(trial->dtype))
            result.d = (double)((float)result.d / (float)trial->size);
        else
            result.i /= trial->size;
    }
    return result;
}

size_t trial_v_count(const trial_case *trial, int rank)
{
    uint64_t state = trial->seed + 17 + (uint64_t)rank;
    switch (fake_random(&state) % 4) {
    case 0:
        return 0;
    case 1:
        return trial->count;
    case 2:
        return trial->count * 2;
    default:
        return trial->count + (size_t)rank % 3;
    }
}

/* Elements that rank i sends to rank j in all_to_all_v. */
static size_t pair_count(const trial_case *trial, int i, int j)
{
    uint64_t state = trial->seed + 5 + (uint64_t)(i * trial->size + j);
    uint64_t x = fake_random(&state);
    return x % 3 == 0 ? 0 : x % 3 == 1 ? trial->count : trial->count / 2 + (size_t)j % 2;
}

/* ---- one rank ---- */

typedef struct rank_state {
    kith_be_coll coll;
    ki_algo_args args;
    ki_executor executor;
    unsigned char *blocks[2];          /* what was allocated */
    unsigned char *send, *recv, *sent; /* sent: what send must still hold, NULL where it may change */
    size_t send_nbytes, recv_nbytes;
    size_t *send_counts, *send_displs, *recv_counts, *recv_displs;
    bool is_done;
} rank_state;

static void affine(const void *left, void *inout, size_t count, kith_dtype dtype, void *arg)
{
    (void)dtype;
    (void)arg;
    trial_case trial = { .op = OP_AFFINE };
    for (size_t i = 0; i < count; i++) {
        number a, b;
        memcpy(&a.i, (const char *)left + 8 * i, 8);
        memcpy(&b.i, (char *)inout + 8 * i, 8);
        number c = combine(&trial, a, b);
        memcpy((char *)inout + 8 * i, &c.i, 8);
    }
}

static bool reduces(kith_coll_kind kind)
{
    return kind == KITH_ALL_REDUCE || kind == KITH_REDUCE || kind == KITH_REDUCE_SCATTER ||
           kind == KITH_REDUCE_SCATTER_V;
}

/* Counts and displacements, with gaps of one element between the blocks of forms that have displacements. */
static void make_counts(const trial_case *trial, rank_state *state, int rank)
{
    size_t n = (size_t)trial->size, at_send = 1, at_recv = 1;
    kith_coll_kind kind = trial->algo->kind;
    state->send_counts = calloc(n, sizeof(size_t));
    state->send_displs = calloc(n, sizeof(size_t));
    state->recv_counts = calloc(n, sizeof(size_t));
    state->recv_displs = calloc(n, sizeof(size_t));
    for (int r = 0; r < trial->size; r++) {
        size_t count = trial_v_count(trial, r);
        int turned = (r + trial->size / 2) % trial->size; /* blocks not in rank order */
        state->send_counts[r] = kind == KITH_ALL_TO_ALL_V ? pair_count(trial, rank, r) : count;
        state->recv_counts[r] = kind == KITH_ALL_TO_ALL_V ? pair_count(trial, r, rank) : count;
        size_t turned_send = kind == KITH_ALL_TO_ALL_V ? pair_count(trial, rank, turned) : trial_v_count(trial, turned);
        size_t turned_recv = kind == KITH_ALL_TO_ALL_V ? pair_count(trial, turned, rank) : trial_v_count(trial, turned);
        state->send_displs[turned] = at_send;
        state->recv_displs[turned] = at_recv;
        at_send += turned_send + 1;
        at_recv += turned_recv + 1;
    }
}

static void make_rank(const trial_case *trial, rank_state *state, int rank, const ki_reducer *reducer,
                      const ki_order *order)
{
    kith_coll_kind kind = trial->algo->kind;
    make_counts(trial, state, rank);
    state->coll = (kith_be_coll){
        .kind = kind,
        .dtype = trial->dtype,
        .op = trial->op == OP_AFFINE ? -1 : trial->op,
        .root = trial->root,
        .count = trial->count,
        .nbytes = kith_dtype_nbytes(trial->dtype),
        .send_counts = state->send_counts,
        .send_displs = state->send_displs,
        .recv_counts = state->recv_counts,
        .recv_displs = state->recv_displs,
        .reducer = reduces(kind) ? &reducer->base : NULL,
    };
    if (kind == KITH_GATHER_V || kind == KITH_SCATTER_V) {
        state->coll.count = trial_v_count(trial, rank);
        if (rank != trial->root) /* used on root only */
            state->coll.send_counts = state->coll.recv_counts = state->coll.send_displs = state->coll.recv_displs =
                NULL;
    }
    state->args = (ki_algo_args){ .rank = rank,
                                  .size = trial->size,
                                  .coll = &state->coll,
                                  .reducer = reduces(kind) ? reducer : NULL,
                                  .order = order,
                                  .node_of = trial->node_of,
                                  .segment_nbytes = trial->segment_nbytes,
                                  .radix = trial->radix };
    size_t send_count, recv_count;
    ki_coll_extents(&state->args, &send_count, &recv_count);
    state->send_nbytes = send_count * state->coll.nbytes;
    state->recv_nbytes = recv_count * state->coll.nbytes;
}

static void fill(const trial_case *trial, unsigned char *to, int rank, size_t start, size_t count)
{
    size_t nbytes = kith_dtype_nbytes(trial->dtype);
    for (size_t i = 0; i < count; i++)
        encode(contribution(trial, rank, start + i), trial->dtype, to + i * nbytes);
}

/* Numbering of elements: what rank j gets from rank i in gather-like operations is contribution(i, j * 100000 +
 * element). */
enum { STRIDE = 100000 };

static void fill_send(const trial_case *trial, rank_state *state, int rank)
{
    const kith_be_coll *coll = &state->coll;
    size_t nbytes = coll->nbytes, all = state->send_nbytes / nbytes;
    switch (coll->kind) {
    case KITH_SCATTER:
    case KITH_ALL_TO_ALL:
        for (int j = 0; j < trial->size && all > 0; j++)
            fill(trial, state->send + (size_t)j * coll->count * nbytes, rank, (size_t)j * STRIDE, coll->count);
        break;
    case KITH_SCATTER_V:
    case KITH_ALL_TO_ALL_V:
        memset(state->send, 0, state->send_nbytes);
        for (int j = 0; j < trial->size && all > 0; j++)
            fill(trial, state->send + coll->send_displs[j] * nbytes, rank, (size_t)j * STRIDE, coll->send_counts[j]);
        break;
    case KITH_BROADCAST:
        if (rank == trial->root)
            fill(trial, state->send, rank, 0, all);
        break;
    case KITH_BARRIER:
        break;
    default:
        fill(trial, state->send, rank, 0, all);
    }
}

/* Where the own block of the gathered buffer, or of the scattered one, begins. */
static size_t own_offset(const rank_state *state)
{
    const kith_be_coll *coll = &state->coll;
    size_t rank = (size_t)state->args.rank, start = rank * coll->count;
    if (coll->kind == KITH_ALL_GATHER_V || coll->kind == KITH_GATHER_V)
        start = coll->recv_displs[rank];
    else if (coll->kind == KITH_SCATTER_V)
        start = coll->send_displs[rank];
    else if (coll->kind == KITH_REDUCE_SCATTER_V)
        for (start = 0; rank-- > 0;)
            start += coll->recv_counts[rank];
    return start * coll->nbytes;
}

/* One buffer for both: send is inside recv, or recv inside send. */
static void join_buffers(const trial_case *trial, rank_state *state)
{
    bool is_root = state->args.rank == trial->root;
    unsigned char *whole = NULL;
    switch (trial->algo->kind) {
    case KITH_ALL_REDUCE:
    case KITH_ALL_TO_ALL:
        whole = state->send = state->recv = malloc(state->recv_nbytes + 1);
        break;
    case KITH_ALL_GATHER:
    case KITH_ALL_GATHER_V:
        whole = state->recv = malloc(state->recv_nbytes + state->send_nbytes + 1);
        state->send = whole + own_offset(state);
        break;
    case KITH_REDUCE_SCATTER:
    case KITH_REDUCE_SCATTER_V:
        whole = state->send = malloc(state->send_nbytes + 1);
        state->recv = trial->place == IN_PLACE_START ? whole : whole + own_offset(state);
        break;
    case KITH_REDUCE:
        if (is_root)
            whole = state->send = state->recv = malloc(state->recv_nbytes + 1);
        break;
    case KITH_GATHER:
    case KITH_GATHER_V:
        if (is_root) {
            whole = state->recv = malloc(state->recv_nbytes + state->send_nbytes + 1);
            state->send = whole + own_offset(state);
        }
        break;
    case KITH_SCATTER:
    case KITH_SCATTER_V:
        if (is_root) {
            whole = state->send = malloc(state->send_nbytes + state->recv_nbytes + 1);
            state->recv = whole + own_offset(state);
        }
        break;
    default:
        break;
    }
    state->blocks[0] = whole;
}

static void make_buffers(const trial_case *trial, rank_state *state, int rank)
{
    if (trial->place != OUT_OF_PLACE)
        join_buffers(trial, state);
    if (trial->algo->kind == KITH_BROADCAST)
        state->send = state->recv = state->blocks[0] = malloc(state->recv_nbytes + 1);
    bool is_joined = state->send != NULL;
    if (!is_joined) {
        state->send = state->blocks[0] = state->send_nbytes > 0 ? malloc(state->send_nbytes) : NULL;
        state->recv = state->blocks[1] = state->recv_nbytes > 0 ? malloc(state->recv_nbytes) : NULL;
    }
    if (state->recv_nbytes > 0)
        memset(state->recv, 0xA5, state->recv_nbytes);
    if (state->send_nbytes > 0)
        fill_send(trial, state, rank);
    if (!is_joined && state->send) {
        state->sent = malloc(state->send_nbytes);
        memcpy(state->sent, state->send, state->send_nbytes);
    }
    state->coll.send = state->send;
    state->coll.recv = state->recv;
}

static void free_rank(rank_state *state)
{
    ki_executor_fini(&state->executor);
    free(state->blocks[0]);
    free(state->blocks[1]);
    free(state->sent);
    free(state->send_counts);
    free(state->send_displs);
    free(state->recv_counts);
    free(state->recv_displs);
}

/* ---- judging ---- */

static void expect(const trial_case *trial, int rank, const unsigned char *got, number wanted, size_t i)
{
    unsigned char bytes[8];
    size_t nbytes = kith_dtype_nbytes(trial->dtype);
    encode(wanted, trial->dtype, bytes);
    if (memcmp(got, bytes, nbytes) != 0) {
        uint64_t want_bits = 0, got_bits = 0;
        memcpy(&want_bits, bytes, nbytes);
        memcpy(&got_bits, got, nbytes);
        fail_msg("%s: rank %d, element %zu: wanted %llx, got %llx", trial_text(trial), rank, i,
                 (unsigned long long)want_bits, (unsigned long long)got_bits);
    }
}

static void expect_block(const trial_case *trial, int rank, const unsigned char *at, int from, size_t start,
                         size_t count)
{
    for (size_t i = 0; i < count; i++)
        expect(trial, rank, at + i * kith_dtype_nbytes(trial->dtype), contribution(trial, from, start + i), i);
}

static void judge(const trial_case *trial, const rank_state *state, const number *sums)
{
    const kith_be_coll *coll = &state->coll;
    int rank = state->args.rank;
    size_t nbytes = coll->nbytes, count = coll->count, start = 0;
    bool is_root = rank == trial->root;
    switch (coll->kind) {
    case KITH_REDUCE:
        if (!is_root)
            break;
        /* fall through */
    case KITH_ALL_REDUCE:
        for (size_t i = 0; i < count; i++)
            expect(trial, rank, state->recv + i * nbytes, sums[i], i);
        break;
    case KITH_REDUCE_SCATTER:
    case KITH_REDUCE_SCATTER_V:
        start = own_offset(state) / nbytes;
        for (size_t i = 0; i < state->recv_nbytes / nbytes; i++)
            expect(trial, rank, state->recv + i * nbytes, sums[start + i], start + i);
        break;
    case KITH_ALL_GATHER:
    case KITH_GATHER:
        for (int r = 0; r < trial->size && (is_root || coll->kind == KITH_ALL_GATHER); r++)
            expect_block(trial, rank, state->recv + (size_t)r * count * nbytes, r, 0, count);
        break;
    case KITH_ALL_GATHER_V:
    case KITH_GATHER_V:
        for (int r = 0; r < trial->size && (is_root || coll->kind == KITH_ALL_GATHER_V); r++)
            expect_block(trial, rank, state->recv + coll->recv_displs[r] * nbytes, r, 0, coll->recv_counts[r]);
        break;
    case KITH_BROADCAST:
        expect_block(trial, rank, state->recv, trial->root, 0, count);
        break;
    case KITH_SCATTER:
    case KITH_SCATTER_V:
        expect_block(trial, rank, state->recv, trial->root, (size_t)rank * STRIDE, count);
        break;
    case KITH_ALL_TO_ALL:
        for (int r = 0; r < trial->size; r++)
            expect_block(trial, rank, state->recv + (size_t)r * count * nbytes, r, (size_t)rank * STRIDE, count);
        break;
    case KITH_ALL_TO_ALL_V:
        for (int r = 0; r < trial->size; r++)
            expect_block(trial, rank, state->recv + coll->recv_displs[r] * nbytes, r, (size_t)rank * STRIDE,
                         coll->recv_counts[r]);
        break;
    case KITH_BARRIER:
        break;
    }
    if (state->sent && memcmp(state->sent, state->send, state->send_nbytes) != 0)
        fail_msg("%s: rank %d: send was written", trial_text(trial), rank);
}

static number *make_sums(const trial_case *trial, const rank_state *ranks)
{
    if (!reduces(trial->algo->kind))
        return NULL;
    size_t count = ranks[0].send_nbytes / ranks[0].coll.nbytes;
    number *sums = malloc((count + 1) * sizeof *sums);
    for (size_t i = 0; i < count; i++)
        sums[i] = reduced(trial, i);
    return sums;
}

/* ---- running ---- */

static void drive(const trial_case *trial, rank_state *ranks, fake_world *world, uint64_t *random)
{
    int left = trial->size, idle = 0;
    int *order = malloc((size_t)trial->size * sizeof *order);
    for (int i = 0; i < trial->size; i++)
        order[i] = i;
    while (left > 0) {
        int before = left;
        for (int i = trial->size - 1; i > 0; i--) { /* another order each round */
            int j = (int)(fake_random(random) % (uint64_t)(i + 1)), swap = order[i];
            order[i] = order[j];
            order[j] = swap;
        }
        for (int i = 0; i < trial->size; i++) {
            rank_state *state = &ranks[order[i]];
            if (state->is_done || fake_random(random) % 4 == 0)
                continue;
            kith_status status = ki_executor_step(&state->executor, &state->is_done);
            if (status != KITH_OK)
                fail_msg("%s: rank %d: %s", trial_text(trial), order[i], kith_error_detail());
            left -= state->is_done;
        }
        idle = fake_tick(world) > 0 || left < before ? 0 : idle + 1;
        if (idle > 200)
            fail_msg("%s: deadlock, %d ranks are not done", trial_text(trial), left);
    }
    free(order);
}

static bool is_possible(const trial_case *trial, const rank_state *ranks)
{
    bool is_possible = ki_algo_is_possible(trial->algo, &ranks[0].args);
    for (int r = 1; r < trial->size; r++)
        assert_int_equal(ki_algo_is_possible(trial->algo, &ranks[r].args), is_possible);
    return is_possible;
}

void trial_run(const trial_case *trial)
{
    ki_order order;
    ki_reducer reducer;
    ki_op op = { .builtin = trial->op, .is_commutative = trial->op != OP_AFFINE, .fn = affine, .name = "affine" };
    assert_int_equal(ki_order_create(trial->size, trial->node_of, &order), KITH_OK);
    ki_reducer_init(&reducer, trial->dtype, &op, &order);
    rank_state *ranks = calloc((size_t)trial->size, sizeof *ranks);
    for (int r = 0; r < trial->size; r++) {
        make_rank(trial, &ranks[r], r, &reducer, &order);
        make_buffers(trial, &ranks[r], r);
    }
    if (is_possible(trial, ranks)) {
        uint64_t random = trial->seed * 31 + 1;
        fake_world *world = fake_create(trial->size, trial->mode, trial->seed);
        for (int r = 0; r < trial->size; r++) {
            ki_transport transport = { .backend = &fake_backend,
                                       .group = fake_rank(world, r),
                                       .tag = UINT64_C(0x7000000000000000) + trial->seed };
            assert_int_equal(ki_executor_start(&ranks[r].executor, trial->algo, &ranks[r].args, &transport), KITH_OK);
            if (ki_plan_check(&ranks[r].executor.plan, &ranks[r].args) != KITH_OK)
                fail_msg("%s: %s", trial_text(trial), kith_error_detail());
        }
        drive(trial, ranks, world, &random);
        number *sums = make_sums(trial, ranks);
        for (int r = 0; r < trial->size; r++)
            judge(trial, &ranks[r], sums);
        free(sums);
        fake_destroy(world);
    }
    for (int r = 0; r < trial->size; r++)
        free_rank(&ranks[r]);
    free(ranks);
    ki_order_destroy(&order);
}
