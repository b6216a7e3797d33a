/* tests/core/reduce/test_kernels.c - every kernel of every instruction set against the reference, bit for bit: all
 * dtypes and operators, counts around vector and block lengths, numbers of ranks, alignments, in place, streaming,
 * several destinations.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "reference.h"
#include <core/reduce/kernels.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { RANKS_MOST = 33, COUNT_MOST = 4097, DST_MOST = 3, BUFFER_NBYTES = (COUNT_MOST + 32) * 8 };

static const int rank_counts[] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 17, 33 };
static const size_t counts[] = { 0, 1, 2, 3, 7, 8, 15, 16, 17, 63, 64, 65, 736, 4097 };
static const int operators[] = { KITH_SUM,  KITH_PROD, KITH_MIN,  KITH_MAX,        KITH_AVG,
                                 KITH_BAND, KITH_BOR,  KITH_BXOR, KI_OP_PREMUL_SUM };

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

typedef struct variant {
    size_t src_shift, dst_shift; /* bytes from a cache line, times rank or destination + 1 */
    int in_place; /* 0: no, 1: first destination is the first source, 2: it is the last one, 3: both ends */
    int dst_count;
    unsigned flags;
} variant;

static const variant variants[] = {
    { 0, 0, 0, 1, 0 },
    { 0, 0, 0, 2, 0 },
    { 8, 24, 0, 1, 0 },
    { 1, 3, 0, 3, 0 },
    { 0, 0, 1, 1, 0 },
    { 8, 0, 2, 1, 0 },
    { 16, 8, 3, 2, 0 },
    { 1, 5, 3, 3, 0 },
    { 0, 0, 0, 1, KITH_BE_REDUCE_STREAM },
    { 8, 8, 0, 2, KITH_BE_REDUCE_STREAM },
    { 1, 1, 0, 3, KITH_BE_REDUCE_STREAM },
    { 8, 24, 1, 1, KITH_BE_REDUCE_STREAM },
    { 24, 8, 3, 2, KITH_BE_REDUCE_STREAM },
};

typedef struct bench {
    kith_dtype dtype;
    ki_op op;
    size_t nbytes;
    int p;
    unsigned char *clean[RANKS_MOST]; /* the contributions */
    unsigned char *src[RANKS_MOST], *dst[DST_MOST], *expected;
} bench;

static void make_data(bench *b, uint64_t *state)
{
    for (size_t i = 0; i < COUNT_MOST; i++) {
        uint64_t raw[RANKS_MOST];
        for (int r = 0; r < b->p; r++) {
            raw[r] = ref_random_raw(b->dtype, state);
            ref_put(b->clean[r], b->nbytes, i, raw[r]);
        }
        ref_put(b->expected, b->nbytes, i, ref_reduce(b->dtype, b->op.builtin, b->op.scalar, b->p, raw));
    }
}

static void check_equal(const bench *b, const char *isa, const variant *v, size_t count, const unsigned char *result)
{
    if (memcmp(result, b->expected, count * b->nbytes) == 0) return;
    for (size_t i = 0; i < count; i++) {
        uint64_t got = ref_get(result, b->nbytes, i), wanted = ref_get(b->expected, b->nbytes, i);
        if (got != wanted)
            fail_msg("%s %s %s, %d ranks, variant %d, element %zu of %zu: got %#llx, wanted %#llx", isa,
                     kith_dtype_name(b->dtype), b->op.name, b->p, (int)(v - variants), i, count,
                     (unsigned long long)got, (unsigned long long)wanted);
    }
}

static void check_untouched(const unsigned char *bytes, size_t nbytes)
{
    for (size_t i = 0; i < nbytes; i++)
        assert_int_equal(bytes[i], 0xa5);
}

static void run_one(bench *b, const ki_reducer *reducer, const variant *v, size_t count)
{
    const void *src[RANKS_MOST];
    void *dst[DST_MOST];
    size_t nbytes = count * b->nbytes;
    for (int r = 0; r < b->p; r++)
        src[r] = b->src[r] + (v->src_shift * (size_t)(r + 1)) % 64;
    for (int k = 0; k < v->dst_count; k++) {
        memset(b->dst[k], 0xa5, nbytes + 160);
        dst[k] = b->dst[k] + 16 + (v->dst_shift * (size_t)(k + 1)) % 64;
    }
    int last = b->p - 1;
    if (v->in_place & 1) dst[0] = (void *)(uintptr_t)src[0];
    if (v->in_place & 2) dst[v->in_place == 3 && last > 0 ? 1 : 0] = (void *)(uintptr_t)src[last];
    reducer->base.reduce(&reducer->base, src, b->p, dst, v->dst_count, count, v->flags);
    for (int k = 0; k < v->dst_count; k++) {
        check_equal(b, reducer->kernels->isa, v, count, dst[k]);
        unsigned char *start = dst[k];
        if (start >= b->dst[k] && start < b->dst[k] + BUFFER_NBYTES) {
            check_untouched(start - 16, 16);
            check_untouched(start + nbytes, 16);
        }
    }
    if (v->in_place & 1) memcpy((void *)(uintptr_t)src[0], b->clean[0], nbytes);
    if (v->in_place & 2) memcpy((void *)(uintptr_t)src[last], b->clean[last], nbytes);
}

static void run_variants(bench *b, const ki_order *order)
{
    for (size_t i = 0; i < LENGTH(variants); i++) {
        const variant *v = &variants[i];
        for (int r = 0; r < b->p; r++)
            memcpy(b->src[r] + (v->src_shift * (size_t)(r + 1)) % 64, b->clean[r], COUNT_MOST * b->nbytes);
        const ki_kernels *kernels;
        for (size_t k = 0; (kernels = ki_kernels_at(k)) != NULL; k++) {
            assert_true(ki_kernels_select(kernels->isa));
            ki_reducer reducer;
            ki_reducer_init(&reducer, b->dtype, &b->op, order);
            for (size_t c = 0; c < LENGTH(counts); c++)
                run_one(b, &reducer, v, counts[c]);
        }
    }
}

/* The same through load, combine and store, as algorithms that pass accumulators along do it. */
static void run_steps(bench *b, const ki_order *order)
{
    enum { COUNT = 737 };
    static unsigned char acc[RANKS_MOST][COUNT * 16 + 64] __attribute__((aligned(64)));
    const ki_kernels *kernels;
    for (size_t k = 0; (kernels = ki_kernels_at(k)) != NULL; k++) {
        assert_true(ki_kernels_select(kernels->isa));
        ki_reducer reducer;
        ki_reducer_init(&reducer, b->dtype, &b->op, order);
        int stack[RANKS_MOST], top = 0;
        for (int i = 0; i < order->length; i++) {
            int r = order->program[i];
            if (r >= 0) {
                reducer.load(&reducer, b->clean[r], acc[r] + r % 5, COUNT);
                stack[top++] = r;
                continue;
            }
            int left = stack[top - 2], right = stack[top - 1];
            int out = i % 2 ? left : right;
            reducer.combine(&reducer, acc[left] + left % 5, acc[right] + right % 5, acc[out] + out % 5, COUNT);
            stack[--top - 1] = out;
        }
        reducer.store(&reducer, acc[stack[0]] + stack[0] % 5, b->dst[0] + 3, COUNT);
        check_equal(b, kernels->isa, &variants[0], COUNT, b->dst[0] + 3);
    }
}

static void check_dtype(kith_dtype dtype)
{
    bench b = { .dtype = dtype, .nbytes = kith_dtype_nbytes(dtype) };
    uint64_t state = 1000 + (uint64_t)dtype;
    for (int r = 0; r < RANKS_MOST; r++) {
        b.clean[r] = aligned_alloc(64, BUFFER_NBYTES / 64 * 64 + 64);
        b.src[r] = aligned_alloc(64, BUFFER_NBYTES / 64 * 64 + 64);
    }
    for (int k = 0; k < DST_MOST; k++)
        b.dst[k] = aligned_alloc(64, BUFFER_NBYTES / 64 * 64 + 64);
    b.expected = aligned_alloc(64, BUFFER_NBYTES / 64 * 64 + 64);
    for (size_t o = 0; o < LENGTH(operators); o++) {
        b.op = (ki_op){ .builtin = operators[o], .scalar = ref_is_float(dtype) ? 0.3 : 3, .is_commutative = true };
        strcpy(b.op.name, operators[o] == KI_OP_PREMUL_SUM ? "premul_sum" : "built-in");
        if (operators[o] < KITH_OP_BUILTIN_COUNT && !kith_op_is_defined(operators[o], dtype)) continue;
        assert_int_equal(ki_op_check(&b.op, dtype), KITH_OK);
        for (size_t i = 0; i < LENGTH(rank_counts); i++) {
            b.p = rank_counts[i];
            ki_order order;
            assert_int_equal(ki_order_create(b.p, NULL, &order), KITH_OK);
            make_data(&b, &state);
            run_variants(&b, &order);
            if (b.p > 1) run_steps(&b, &order);
            ki_order_destroy(&order);
        }
    }
    for (int r = 0; r < RANKS_MOST; r++) {
        free(b.clean[r]);
        free(b.src[r]);
    }
    for (int k = 0; k < DST_MOST; k++)
        free(b.dst[k]);
    free(b.expected);
}

static void test_dtype(void **state)
{
    check_dtype(*(const kith_dtype *)*state);
}

int main(void)
{
    static kith_dtype dtypes[KITH_DTYPE_COUNT];
    struct CMUnitTest tests[KITH_DTYPE_COUNT];
    for (int i = 0; i < KITH_DTYPE_COUNT; i++) {
        dtypes[i] = (kith_dtype)i;
        tests[i] = (struct CMUnitTest){ kith_dtype_name(dtypes[i]), test_dtype, NULL, NULL, &dtypes[i] };
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
