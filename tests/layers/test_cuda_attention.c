/* tests/layers/test_cuda_attention.c - a GPU's attention and rotary positions against the host's.
 *
 * Sequences reach over several blocks of both. Sums have another order than the host's, so results are near; what is
 * masked is exactly 0. Rotary positions have the same bits.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "cuda_help.h"
#include <math.h>

/* Roundings of A that results may be off by; those that pass through T are off by its roundings in probabilities. */
static double units_of(const cuda_case *c)
{
    return c->dtype == KITH_BF16 ? 3e5 : c->dtype == KITH_F16 ? 4e4 : 200;
}

static void check_attention(const cuda_case *c, const ki_attention *how)
{
    const int64_t queries = how->sequence * how->batch, keys = how->kv_sequence * how->batch;
    const int64_t width = how->heads * how->head_dim, kv_width = how->kv_heads * how->head_dim;
    twin q = twin_random(c, c->dtype, queries, width, 1), k = twin_random(c, c->dtype, keys, kv_width, 1);
    twin v = twin_random(c, c->dtype, keys, kv_width, 1), out = twin_random(c, c->dtype, queries, width, 1);
    twin lse = twin_random(c, c->wide, queries, how->heads, 1), dout = twin_random(c, c->dtype, queries, width, 1);
    twin dq = twin_random(c, c->dtype, queries, width, 1), dk = twin_random(c, c->dtype, keys, kv_width, 1);
    twin dv = twin_random(c, c->dtype, keys, kv_width, 1);
    cuda_both(c, "attention", HOST(c, attention, how, q.host, k.host, v.host, out.host, lse.host),
              GPU(c, attention, how, q.device, k.device, v.device, out.device, lse.device));
    cuda_compare(c, "attention out", out, CUDA_NEAR, units_of(c));
    cuda_compare(c, "attention lse", lse, CUDA_NEAR, units_of(c));
    cuda_both(
        c, "attention_grad",
        HOST(c, attention_grad, how, q.host, k.host, v.host, out.host, lse.host, dout.host, dq.host, dk.host, dv.host),
        GPU(c, attention_grad, how, q.device, k.device, v.device, out.device, lse.device, dout.device, dq.device,
            dk.device, dv.device));
    cuda_compare(c, "attention_grad dq", dq, CUDA_NEAR, 4 * units_of(c));
    cuda_compare(c, "attention_grad dk", dk, CUDA_NEAR, 4 * units_of(c));
    cuda_compare(c, "attention_grad dv", dv, CUDA_NEAR, 4 * units_of(c));
}

/* rows: the sequence; cols: keys. */
static ki_attention plain(const cuda_case *c)
{
    return (ki_attention){ .batch = 2,
                           .sequence = c->rows,
                           .kv_sequence = c->cols,
                           .heads = 4,
                           .kv_heads = 2,
                           .head_dim = 8,
                           .scale = 0.35,
                           .is_causal = c->cols >= c->rows };
}

static void check_groups(const cuda_case *c)
{
    ki_attention how = plain(c);
    check_attention(c, &how);
    how.is_causal = false;
    how.kv_heads = 4;
    how.head_dim = 5;
    check_attention(c, &how);
}

static void check_map(const cuda_case *c)
{
    static const int32_t map[] = { 0, 0, 0, 1 };
    ki_attention how = plain(c);
    how.kv_map = map;
    check_attention(c, &how);
}

static void check_dropout(const cuda_case *c)
{
    ki_attention how = plain(c);
    how.dropout = (ki_dropout){ .probability = 0.2, .seed = 12345, .site = 3, .first_sample = 4, .first_position = 2 };
    how.first_head = 6;
    check_attention(c, &how);
}

/* Queries before the first key of a shorter kv_sequence see nothing: 0 and -infinity. */
static void check_blind(const cuda_case *c)
{
    ki_attention how = plain(c);
    how.is_causal = true;
    check_attention(c, &how);
}

static void check_long(const cuda_case *c)
{
    ki_attention how = plain(c);
    how.batch = 1;
    how.heads = how.kv_heads = 1;
    check_attention(c, &how);
}

static void attention(void **state)
{
    (void)state;
    cuda_shape(1, 1, 0, check_groups);
    cuda_shape(7, 7, 3, check_groups);
    cuda_shape(9, 20, 0, check_groups);
    cuda_shape(24, 40, 8, check_groups);
    cuda_shape(6, 6, 0, check_map);
    cuda_shape(17, 17, 3, check_dropout);
}

static void blocks(void **state)
{
    (void)state;
    cuda_shape(520, 530, 0, check_long);
    cuda_shape(20, 5, 0, check_blind);
    cuda_shape(530, 10, 0, check_blind);
}

static void nothing(void **state)
{
    (void)state;
    cuda_shape(0, 0, 0, check_groups);
    cuda_shape(0, 5, 0, check_groups);
}

/* ---- rotary ---- */

static void check_rotary(const cuda_case *c)
{
    for (int inverse = 0; inverse < 2; inverse++)
        for (int64_t batch = 1; batch < 4; batch += 2) {
            twin x = twin_random(c, c->dtype, c->rows, c->cols, 1);
            const int64_t head_dim = c->cols / 3;
            cuda_both(c, "rotary", HOST(c, rotary, 10000.0, head_dim, batch, inverse, x.host),
                      GPU(c, rotary, 10000.0, head_dim, batch, inverse, x.device));
            cuda_compare(c, "rotary", x, CUDA_SAME, 0);
        }
}

static void rotary(void **state)
{
    (void)state;
    cuda_shape(0, 6, 0, check_rotary);
    cuda_shape(1, 6, 0, check_rotary);
    cuda_shape(80, 18, 3, check_rotary);
    cuda_shape(70, 3 * 64, 8, check_rotary);
    cuda_shape(5, 3 * 64, 8, check_rotary); /* fewer positions than there are angles for */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(attention),
        cmocka_unit_test(blocks),
        cmocka_unit_test(nothing),
        cmocka_unit_test(rotary),
    };
    return cmocka_run_group_tests(tests, cuda_setup, cuda_teardown);
}
