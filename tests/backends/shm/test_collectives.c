/* tests/backends/shm/test_collectives.c - every collective on every path: sizes across all thresholds, in and out of
 * place, 1 to 8 ranks, processes and threads, with what the kernel may refuse switched off in turn.
 *
 * Data are small whole numbers, so every result is exact; the operator a - b shows a wrong order of combination. Bytes
 * around each result are checked too.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "harness.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define GUARD 64
#define PERIOD 23
#define GUARD_BYTE 0xa5

typedef struct plan {
    const size_t *counts; /* ends with SIZE_MAX */
    int rounds;
    bool is_mapped; /* buffers from mem_alloc */
    bool is_mixed;  /* ... but not on every rank */
} plan;

/* What one operation looks like, and what must come out. */
typedef struct trial {
    harness_rank *me;
    kith_coll_kind kind;
    int op, root;
    size_t count;
    bool is_in_place;
    unsigned seed;
    size_t counts[HARNESS_RANKS], displs[HARNESS_RANKS]; /* of the v-forms: blocks by rank */
    size_t to[HARNESS_RANKS], to_at[HARNESS_RANKS];      /* all_to_all_v, scatter_v */
    float reduced[PERIOD];
    float *send, *recv;
    size_t send_count, recv_count;
    unsigned char *areas[2];
} trial;

static float value_of(const trial *t, int rank, size_t index)
{
    return (float)((size_t)(rank * 7 + 3) % 11 + (index * 5 + t->seed) % PERIOD);
}

/* Data repeat after PERIOD elements, and so do results. */
static void find_reduced(trial *t)
{
    kith_be_reducer reducer;
    harness_reducer(&reducer, KITH_F32, t->op);
    for (size_t index = 0; index < PERIOD; index++) {
        float all[HARNESS_RANKS];
        const void *sources[HARNESS_RANKS];
        void *target = &t->reduced[index];
        for (int r = 0; r < t->me->size; r++) {
            all[r] = value_of(t, r, index);
            sources[r] = &all[r];
        }
        reducer.reduce(&reducer, sources, t->me->size, &target, 1, 1, 0);
    }
}

/* Sizes of the pairwise form, known to both ends. */
static size_t pair_count(const trial *t, int from, int to)
{
    return (size_t)(from * 3 + to * 5) % 4 == 0 ? 0 : t->count + (size_t)(from + 2 * to) % 7;
}

static void set_counts(trial *t)
{
    int size = t->me->size;
    size_t at = 0, gap = t->kind == KITH_REDUCE_SCATTER_V ? 0 : 3;
    for (int r = 0; r < size; r++) {
        t->counts[r] = (size_t)r % 3 == 1 ? 0 : t->count + (size_t)r;
        if (t->kind == KITH_ALL_TO_ALL_V)
            t->counts[r] = pair_count(t, r, t->me->rank);
        t->displs[r] = at;
        at += t->counts[r] + gap;
    }
    size_t to_at = 0;
    for (int r = 0; r < size; r++) {
        t->to[r] = t->kind == KITH_SCATTER_V ? t->counts[r] : pair_count(t, t->me->rank, r);
        t->to_at[r] = to_at;
        to_at += t->to[r] + 2;
    }
    t->recv_count = at;
    t->send_count = to_at;
}

static size_t sum_counts(const trial *t)
{
    size_t sum = 0;
    for (int r = 0; r < t->me->size; r++)
        sum += t->counts[r];
    return sum;
}

/* Elements of send and recv on this rank. */
static void set_extents(trial *t)
{
    size_t size = (size_t)t->me->size, n = t->count;
    bool is_root = t->me->rank == t->root;
    set_counts(t);
    size_t spread = t->recv_count, pairs = t->send_count, own = t->counts[t->me->rank];
    t->send_count = t->recv_count = n;
    switch (t->kind) {
    case KITH_REDUCE_SCATTER:
        t->send_count = n * size;
        break;
    case KITH_REDUCE_SCATTER_V:
        t->send_count = sum_counts(t);
        t->recv_count = own;
        break;
    case KITH_ALL_GATHER:
        t->recv_count = n * size;
        break;
    case KITH_ALL_GATHER_V:
        t->send_count = own;
        t->recv_count = spread;
        break;
    case KITH_REDUCE:
        t->recv_count = is_root ? n : 0;
        break;
    case KITH_GATHER:
        t->recv_count = is_root ? n * size : 0;
        break;
    case KITH_GATHER_V:
        t->send_count = own;
        t->recv_count = is_root ? spread : 0;
        break;
    case KITH_SCATTER:
        t->send_count = is_root ? n * size : 0;
        break;
    case KITH_SCATTER_V:
        t->send_count = is_root ? pairs : 0;
        t->recv_count = own;
        break;
    case KITH_ALL_TO_ALL:
        t->send_count = t->recv_count = n * size;
        break;
    case KITH_ALL_TO_ALL_V:
        t->send_count = pairs;
        t->recv_count = spread;
        break;
    default:
        break;
    }
}

/* False for combinations that do not exist. Sets send and recv. */
static bool place_buffers(trial *t)
{
    bool is_root = t->me->rank == t->root;
    size_t own_block = (size_t)t->me->rank * t->count;
    t->send = (float *)(void *)(t->areas[0] + GUARD);
    t->recv = (float *)(void *)(t->areas[1] + GUARD);
    if (t->kind == KITH_BROADCAST)
        t->send = t->recv;
    if (!t->is_in_place)
        return true;
    switch (t->kind) {
    case KITH_ALL_REDUCE:
    case KITH_ALL_TO_ALL:
        t->send = t->recv;
        return true;
    case KITH_REDUCE:
        t->send = is_root ? t->recv : t->send;
        return true;
    case KITH_REDUCE_SCATTER:
        t->recv = t->send + (t->seed % 2 == 0 ? own_block : 0);
        return true;
    case KITH_REDUCE_SCATTER_V:
        t->recv = t->send + (t->seed % 2 == 0 ? t->displs[t->me->rank] : 0);
        return true;
    case KITH_ALL_GATHER:
        t->send = t->recv + own_block;
        return true;
    case KITH_ALL_GATHER_V:
        t->send = t->recv + t->displs[t->me->rank];
        return true;
    case KITH_GATHER:
        t->send = is_root ? t->recv + own_block : t->send;
        return true;
    case KITH_GATHER_V:
        t->send = is_root ? t->recv + t->displs[t->me->rank] : t->send;
        return true;
    case KITH_SCATTER:
        t->recv = is_root ? t->send + own_block : t->recv;
        return true;
    case KITH_SCATTER_V:
        t->recv = is_root ? t->send + t->to_at[t->me->rank] : t->recv;
        return true;
    default:
        return false;
    }
}

/* The first of the data that repeat: of a rank, or of the result where rank is negative. */
static void find_period(const trial *t, int rank, size_t first, float period[PERIOD])
{
    for (size_t i = 0; i < PERIOD; i++)
        period[i] = rank < 0 ? t->reduced[(first + i) % PERIOD] : value_of(t, rank, first + i);
}

static void check_block(const trial *t, const float *got, size_t count, int from, size_t first)
{
    float wanted[PERIOD];
    find_period(t, from, first, wanted);
    for (size_t i = 0, k = 0; i < count; i++, k = k + 1 < PERIOD ? k + 1 : 0) {
        if (got[i] != wanted[k]) {
            harness_fail(t->me, "%s op %d root %d count %zu %s: element %zu is %g, wanted %g (from %d)",
                         kith_coll_name(t->kind), t->op, t->root, t->count,
                         t->is_in_place ? "in place" : "out of place", i, (double)got[i], (double)wanted[k], from);
            return;
        }
    }
}

static void fill_input(const trial *t)
{
    float period[PERIOD];
    find_period(t, t->me->rank, 0, period);
    for (size_t i = 0, k = 0; i < t->send_count; i++, k = k + 1 < PERIOD ? k + 1 : 0)
        t->send[i] = period[k];
}

static void check_result(const trial *t)
{
    int size = t->me->size, me = t->me->rank;
    size_t n = t->count;
    switch (t->kind) {
    case KITH_ALL_REDUCE:
        check_block(t, t->recv, n, -1, 0);
        break;
    case KITH_REDUCE:
        check_block(t, t->recv, me == t->root ? n : 0, -1, 0);
        break;
    case KITH_REDUCE_SCATTER:
        check_block(t, t->recv, n, -1, (size_t)me * n);
        break;
    case KITH_REDUCE_SCATTER_V:
        check_block(t, t->recv, t->counts[me], -1, t->displs[me]);
        break;
    case KITH_BROADCAST:
        check_block(t, t->recv, n, t->root, 0);
        break;
    case KITH_SCATTER:
        check_block(t, t->recv, n, t->root, (size_t)me * n);
        break;
    case KITH_SCATTER_V: {
        size_t at = 0;
        for (int r = 0; r < me; r++)
            at += t->to[r] + 2;
        check_block(t, t->recv, t->counts[me], t->root, at);
        break;
    }
    case KITH_ALL_GATHER:
    case KITH_GATHER:
        for (int r = 0; r < size && (t->kind == KITH_ALL_GATHER || me == t->root); r++)
            check_block(t, t->recv + (size_t)r * n, n, r, 0);
        break;
    case KITH_ALL_GATHER_V:
    case KITH_GATHER_V:
        for (int r = 0; r < size && (t->kind == KITH_ALL_GATHER_V || me == t->root); r++)
            check_block(t, t->recv + t->displs[r], t->counts[r], r, 0);
        break;
    case KITH_ALL_TO_ALL:
        for (int r = 0; r < size; r++)
            check_block(t, t->recv + (size_t)r * n, n, r, (size_t)me * n);
        break;
    case KITH_ALL_TO_ALL_V:
        for (int r = 0; r < size; r++) {
            size_t at = 0;
            for (int k = 0; k < me; k++)
                at += pair_count(t, r, k) + 2;
            check_block(t, t->recv + t->displs[r], t->counts[r], r, at);
        }
        break;
    default:
        break;
    }
}

static void check_guards(const trial *t, const unsigned char *area, size_t count)
{
    for (size_t i = 0; i < GUARD; i++)
        if (area[i] != GUARD_BYTE || area[GUARD + count * 4 + i] != GUARD_BYTE) {
            harness_fail(t->me, "%s count %zu wrote beside its buffer", kith_coll_name(t->kind), t->count);
            return;
        }
}

static void try_one(trial *t)
{
    set_extents(t);
    if (!place_buffers(t))
        return;
    size_t area_counts[2] = { t->send_count, t->recv_count };
    bool is_shared = t->is_in_place || t->kind == KITH_BROADCAST;
    if (is_shared)
        area_counts[0] = area_counts[1] = t->send_count > t->recv_count ? t->send_count : t->recv_count;
    for (int k = 0; k < 2; k++)
        memset(t->areas[k], GUARD_BYTE, area_counts[k] * 4 + 2 * GUARD);
    if (t->kind != KITH_BROADCAST || t->me->rank == t->root)
        fill_input(t);
    kith_be_reducer reducer;
    harness_reducer(&reducer, KITH_F32, t->op);
    bool is_reducing = t->kind == KITH_ALL_REDUCE || t->kind == KITH_REDUCE || t->kind == KITH_REDUCE_SCATTER ||
                       t->kind == KITH_REDUCE_SCATTER_V;
    size_t count = t->count;
    if (t->kind == KITH_GATHER_V || t->kind == KITH_SCATTER_V)
        count = t->counts[t->me->rank];
    kith_be_coll coll = { .kind = t->kind,
                          .dtype = KITH_F32,
                          .op = t->op,
                          .root = t->root,
                          .send = t->send,
                          .recv = t->recv,
                          .count = count,
                          .nbytes = 4,
                          .send_counts = t->to,
                          .send_displs = t->to_at,
                          .recv_counts = t->counts,
                          .recv_displs = t->displs,
                          .reducer = is_reducing ? &reducer : NULL };
    kith_status status = harness_coll(t->me, &coll);
    if (status != KITH_OK)
        harness_fail(t->me, "%s count %zu: status %d, %s", kith_coll_name(t->kind), t->count, status, t->me->detail);
    if (is_reducing)
        find_reduced(t);
    check_result(t);
    for (int k = 0; k < 2; k++)
        check_guards(t, t->areas[k], area_counts[k]);
}

static void run_plan(harness_rank *me)
{
    const plan *p = me->user;
    size_t most = 0;
    for (const size_t *count = p->counts; *count != SIZE_MAX; count++)
        most = *count > most ? *count : most;
    size_t nbytes = (most + 16) * (size_t)me->size * 4 + 2 * GUARD;
    trial t = { .me = me };
    void *mapped[2] = { NULL, NULL };
    for (int k = 0; k < 2; k++) {
        if (p->is_mapped && me->backend->mem_alloc(me->group, nbytes, &mapped[k]) != KITH_OK)
            harness_fail(me, "mem_alloc: %s", me->detail);
        bool is_mine = p->is_mapped && (!p->is_mixed || me->rank % 2 == k);
        t.areas[k] = is_mine ? mapped[k] : malloc(nbytes);
    }
    for (int round = 0; round < p->rounds && harness_failures(me) == 0; round++) {
        for (const size_t *count = p->counts; *count != SIZE_MAX; count++) {
            for (int kind = 0; kind < KITH_COLL_COUNT; kind++) {
                for (int variant = 0; variant < 4; variant++) {
                    t.kind = (kith_coll_kind)kind;
                    t.count = *count;
                    t.is_in_place = variant % 2 == 1;
                    t.root = variant / 2 == 0 ? 0 : me->size - 1;
                    t.op = variant / 2 == 0 ? KITH_SUM : HARNESS_FIRST_MINUS;
                    t.seed = (unsigned)(round * 31 + variant / 2 + kind);
                    try_one(&t);
                }
            }
        }
    }
    harness_barrier(me);
    for (int k = 0; k < 2; k++) {
        if (t.areas[k] != mapped[k])
            free(t.areas[k]);
        HARNESS_CHECK(me, me->backend->mem_free(me->group, mapped[k]) == KITH_OK);
    }
}

static const size_t small_counts[] = { 0, 1, 2, 3, 7, 14, 15, 16, 100, 255, 1024, 4097, SIZE_MAX };
static const size_t large_counts[] = { 5000, 20011, 100003, 300007, SIZE_MAX };
static const int sizes[] = { 1, 2, 3, 4, 5, 8 };

static void run_sizes(const harness_setting *settings, bool is_threads, const plan *p)
{
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        harness_options options = {
            .size = sizes[i], .is_threads = is_threads, .settings = settings, .timeout_s = 240
        };
        assert_int_equal(harness_run(&options, run_plan, (void *)(uintptr_t)p), 0);
    }
}

static void test_small_processes(void **state)
{
    (void)state;
    run_sizes(NULL, false, &(plan){ small_counts, 5, false, false });
}

static void test_large_processes(void **state)
{
    (void)state;
    run_sizes(NULL, false, &(plan){ large_counts, 1, false, false });
}

static void test_threads(void **state)
{
    (void)state;
    run_sizes(NULL, true, &(plan){ small_counts, 2, false, false });
    run_sizes(NULL, true, &(plan){ large_counts, 1, false, false });
}

static const size_t mapped_counts[] = { 0, 1, 100, 513, 1025, 4097, 20011, 300007, SIZE_MAX };

static void test_mapped(void **state)
{
    (void)state;
    run_sizes(NULL, false, &(plan){ mapped_counts, 2, true, false });
}

static void test_partly_mapped(void **state)
{
    (void)state;
    run_sizes(NULL, false, &(plan){ mapped_counts, 1, true, true });
}

static void test_staged_only(void **state)
{
    (void)state;
    static const harness_setting settings[] = { { "shm_cma", "off" }, { "shm_mapped", "off" }, { NULL, NULL } };
    run_sizes(settings, false, &(plan){ large_counts, 1, false, false });
}

static void test_remote(void **state)
{
    (void)state;
    static const harness_setting settings[] = { { "shm_cma", "always" }, { NULL, NULL } };
    run_sizes(settings, false, &(plan){ large_counts, 1, false, false });
}

/* Long enough for trials of both ways, an answer, what follows from it, and the next trials. */
static void test_trials(void **state)
{
    (void)state;
    static const size_t counts[] = { 5000, 20011, SIZE_MAX };
    run_sizes(NULL, false, &(plan){ counts, 68, false, false });
}

/* Everything beyond a cache line takes many turns of a small ring. */
static void test_tiny_parts(void **state)
{
    (void)state;
    static const harness_setting settings[] = { { "shm_cma", "off" },
                                                { "shm_mapped", "off" },
                                                { "shm_cell_nbytes", "1k" },
                                                { "shm_ring_nbytes", "16k" },
                                                { "shm_eager_nbytes", "64" },
                                                { "shm_chunk_nbytes", "4k" },
                                                { NULL, NULL } };
    run_sizes(settings, false, &(plan){ small_counts, 3, false, false });
    run_sizes(settings, true, &(plan){ large_counts, 1, false, false });
}

static void test_file_arena(void **state)
{
    (void)state;
    static const harness_setting settings[] = { { "shm_memfd", "off" }, { NULL, NULL } };
    run_sizes(settings, false, &(plan){ small_counts, 1, false, false });
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_small_processes), cmocka_unit_test(test_large_processes),
        cmocka_unit_test(test_threads),         cmocka_unit_test(test_staged_only),
        cmocka_unit_test(test_tiny_parts),      cmocka_unit_test(test_file_arena),
        cmocka_unit_test(test_remote),          cmocka_unit_test(test_trials),
        cmocka_unit_test(test_mapped),          cmocka_unit_test(test_partly_mapped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
