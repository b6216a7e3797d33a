/* tests/layers/test_compute_rotary.c - rotary positions against turns written plainly, back and forth, and what turning
 * must leave alone.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "host_help.h"
#include "layers/compute/arith.h"
#include "layers/compute/compute.h"

#include <kith/status.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct rotary_case {
    int64_t positions, batch, heads, head_dim, gap;
    double base;
} rotary_case;

/* Rows are not whole batches in the last of them. */
static const rotary_case cases[] = {
    { 1, 1, 1, 2, 0, 10000 },    { 5, 3, 2, 8, 3, 10000 },    { 65, 1, 3, 64, 0, 10000 },
    { 33, 2, 1, 80, 5, 500000 }, { 3, 2, 1, 1600, 0, 10000 }, { 500, 1, 1, 6, 1, 10000 },
};

static double get(ki_mat m, int64_t at)
{
    if (m.dtype == KITH_F64)
        return ((double *)m.data)[at];
    if (m.dtype == KITH_F32)
        return ((float *)m.data)[at];
    const uint16_t half = ((uint16_t *)m.data)[at];
    return m.dtype == KITH_F16 ? ki_widen_f16(half) : ki_widen_bf16(half);
}

static ki_mat draw(const rotary_case *c, kith_dtype dtype)
{
    ki_mat m = { .rows = c->positions * c->batch,
                 .cols = c->heads * c->head_dim,
                 .stride = c->heads * c->head_dim + c->gap,
                 .dtype = dtype };
    uint32_t seed = 1;
    m.data = malloc((size_t)(m.rows * m.stride) * sizeof(double));
    assert_non_null(m.data);
    for (int64_t i = 0; i < m.rows * m.stride; i++) {
        seed = seed * 1664525u + 1013904223u;
        const float f = (float)(seed >> 8) / 8388608.0f - 1;
        uint32_t bits;
        memcpy(&bits, &f, sizeof bits);
        if (dtype == KITH_F64)
            ((double *)m.data)[i] = f;
        else if (dtype == KITH_F32)
            ((float *)m.data)[i] = f;
        else
            ((uint16_t *)m.data)[i] = dtype == KITH_F16 ? ki_narrow_f16_f32(f) : (uint16_t)(bits >> 16);
    }
    return m;
}

static double turned(const rotary_case *c, ki_mat x, int64_t row, int64_t col, double sign)
{
    const int64_t half = c->head_dim / 2, in_head = col % c->head_dim, i = in_head % half;
    const double angle = sign * (double)(row / c->batch) * pow(c->base, -2.0 * (double)i / (double)c->head_dim);
    const double low = get(x, row * x.stride + col - in_head + i),
                 high = get(x, row * x.stride + col - in_head + i + half);
    return in_head < half ? low * cos(angle) - high * sin(angle) : high * cos(angle) + low * sin(angle);
}

/* wanted: of the matrix before; columns behind the rows must be as they were. */
static void expect_turned(const char *isa, const rotary_case *c, ki_mat before, ki_mat after, double sign)
{
    const double tolerance = before.dtype == KITH_F64 ? 1e-12 : before.dtype == KITH_F32 ? 3e-7 : 8e-3;
    for (int64_t row = 0; row < before.rows; row++)
        for (int64_t col = 0; col < before.stride; col++) {
            const bool is_gap = col >= before.cols;
            const double wanted = is_gap ? get(before, row * before.stride + col) : turned(c, before, row, col, sign);
            const double got = get(after, row * after.stride + col);
            if (!(fabs(wanted - got) <= (is_gap ? 0 : tolerance)))
                fail_msg("%s %s, %d positions, head_dim %d: [%d, %d]: wanted %.17g, got %.17g", isa,
                         kith_dtype_name(before.dtype), (int)c->positions, (int)c->head_dim, (int)row, (int)col, wanted,
                         got);
        }
}

static void turn(const rotary_case *c, bool is_inverse, ki_mat x)
{
    if (compute->ops->rotary(compute, c->base, c->head_dim, c->batch, is_inverse, x) != KITH_OK)
        fail_msg("rotary: %s", kith_error_detail());
}

static void test_turns(void **state)
{
    static const char *const instruction_sets[] = { "generic", "avx2", "avx512" };
    static const kith_dtype dtypes[] = { KITH_F32, KITH_F64, KITH_BF16, KITH_F16 };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        for (int trial = 0; trial < 3 * 4 * 2; trial++) {
            const char *isa = instruction_sets[trial % 3];
            const kith_dtype dtype = dtypes[trial / 3 % 4];
            const bool is_inverse = trial / 12 == 1;
            if (!ki_compute_select_loops(compute, isa))
                continue;
            ki_mat before = draw(&cases[i], dtype), after = draw(&cases[i], dtype);
            turn(&cases[i], is_inverse, after);
            expect_turned(isa, &cases[i], before, after, is_inverse ? -1 : 1);
            free(before.data);
            free(after.data);
        }
}

/* Turning back gives what was there; the length of each pair stays. */
static void test_is_orthogonal(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const rotary_case *c = &cases[i];
        ki_mat before = draw(c, KITH_F64), after = draw(c, KITH_F64);
        turn(c, false, after);
        for (int64_t row = 0; row < before.rows; row++)
            for (int64_t col = 0; col < before.cols; col++) {
                if (col % c->head_dim >= c->head_dim / 2)
                    continue;
                const int64_t low = row * before.stride + col, high = low + c->head_dim / 2;
                const double wanted = hypot(get(before, low), get(before, high));
                const double got = hypot(get(after, low), get(after, high));
                if (!(fabs(wanted - got) <= 4e-16 * wanted))
                    fail_msg("case %zu: length of pair [%d, %d]: wanted %.17g, got %.17g", i, (int)row, (int)col,
                             wanted, got);
            }
        turn(c, true, after);
        for (int64_t at = 0; at < before.rows * before.stride; at++)
            if (!(fabs(get(before, at) - get(after, at)) <= 5e-16))
                fail_msg("case %zu: element %d turned and turned back: wanted %.17g, got %.17g", i, (int)at,
                         get(before, at), get(after, at));
        free(before.data);
        free(after.data);
    }
}

/* A query and a key see only how far they are apart: scores of positions (p, p + 7) are equal. */
static void test_depends_on_distance(void **state)
{
    const rotary_case c = { 300, 1, 1, 16, 0, 10000 };
    (void)state;
    ki_mat q = draw(&c, KITH_F64), k = draw(&c, KITH_F64);
    for (int64_t row = 1; row < 300; row++) {
        memcpy((double *)q.data + row * 16, q.data, 16 * sizeof(double));
        memcpy((double *)k.data + row * 16, (double *)k.data, 16 * sizeof(double));
    }
    turn(&c, false, q);
    turn(&c, false, k);
    double first = 0;
    for (int64_t p = 0; p + 7 < 300; p++) {
        double score = 0;
        for (int64_t i = 0; i < 16; i++)
            score += ((double *)q.data)[(p + 7) * 16 + i] * ((double *)k.data)[p * 16 + i];
        if (p == 0)
            first = score;
        if (!(fabs(score - first) <= 1e-12))
            fail_msg("positions %d and %d: wanted a score of %.17g, got %.17g", (int)p + 7, (int)p, first, score);
    }
    free(q.data);
    free(k.data);
}

static void test_what_is_refused(void **state)
{
    (void)state;
    uint16_t halves[2] = { 0 };
    const ki_mat m = { halves, 1, 2, 2, KITH_F8E4M3 };
    assert_int_equal(compute->ops->rotary(compute, 10000, 2, 1, false, m), KITH_ERR_UNSUPPORTED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_turns),
        cmocka_unit_test(test_is_orthogonal),
        cmocka_unit_test(test_depends_on_distance),
        cmocka_unit_test(test_what_is_refused),
    };
    return cmocka_run_group_tests(tests, open_host, close_host);
}
