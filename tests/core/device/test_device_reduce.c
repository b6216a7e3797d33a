/* tests/core/device/test_device_reduce.c - the steps of reductions on a device give the host's bits: load, combine and
 * store of every dtype with every operator, on numbers of all kinds, at any alignment.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "core/device/device.h"
#include "core/reduce/reduce.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { COUNT = 517, RANKS = 5, ROOM = 16 * COUNT + 64 };

typedef struct bench {
    const ki_device_ops *ops;
    void *stream;
    unsigned char *a, *b, *out; /* [ROOM], on the device */
    unsigned char host_a[ROOM], host_b[ROOM], wanted[ROOM], got[ROOM];
} bench;

static void check(kith_status status)
{
    if (status != KITH_OK)
        fail_msg("%s", kith_error_detail());
}

static void copy(bench *t, void *to, const void *from, size_t nbytes)
{
    check(t->ops->copy(0, t->stream, to, from, nbytes));
}

/* Random bits; every fourth element of floats is near nothing, or everything that is no number. */
static void fill(unsigned char *to, size_t count, kith_dtype dtype, unsigned seed)
{
    size_t nbytes = kith_dtype_nbytes(dtype);
    uint64_t state = seed * UINT64_C(0x9E3779B97F4A7C15) + 1;
    for (size_t i = 0; i < count; i++) {
        state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        uint64_t bits = state >> 11 ^ state << 31;
        uint64_t sign = UINT64_C(1) << (8 * nbytes - 1);
        if (i % 16 == 4)
            bits &= sign | 7; /* zeros and subnormals */
        if (i % 16 == 8)
            bits |= ~sign; /* NaN */
        if (i % 16 == 12)
            bits |= ~sign << 8 * (nbytes - 1) / 2; /* large, infinity */
        memcpy(to + i * nbytes, &bits, nbytes);
    }
}

static void compare(const bench *t, size_t nbytes, const char *what, kith_dtype dtype, const ki_op *op, size_t shift)
{
    for (size_t i = 0; i < nbytes; i++)
        if (t->got[i] != t->wanted[i])
            fail_msg("%s %s %s, %zu bytes off: byte %zu is %02x, wanted %02x", what, kith_dtype_name(dtype), op->name,
                     shift, i, t->got[i], t->wanted[i]);
}

/* One step on what host_a and host_b hold; wanted is the host's result. */
static void run(bench *t, const ki_reducer *reducer, ki_reduce_step step, size_t in_nbytes, size_t out_nbytes,
                size_t shift)
{
    static const char *const names[] = { "load", "combine", "store" };
    const ki_op *op = reducer->op;
    const ki_device_reduce what = { .step = step,
                                    .dtype = reducer->dtype,
                                    .op = op->builtin == KI_OP_PREMUL_SUM ? KI_DEVICE_PREMUL : op->builtin,
                                    .ranks = RANKS,
                                    .scalar = reducer->base.scalar,
                                    .int_scalar = reducer->base.int_scalar,
                                    .a = t->a + shift,
                                    .b = t->b + shift,
                                    .out = t->out + shift,
                                    .count = COUNT };
    copy(t, t->a + shift, t->host_a, in_nbytes);
    copy(t, t->b + shift, t->host_b, in_nbytes);
    check(t->ops->reduce(0, t->stream, &what));
    copy(t, t->got, t->out + shift, out_nbytes);
    check(t->ops->stream_synchronize(0, t->stream));
    compare(t, out_nbytes, names[step], reducer->dtype, op, shift);
}

static void try_operator(bench *t, kith_dtype dtype, const ki_op *op, const ki_order *order, size_t shift)
{
    ki_reducer reducer;
    ki_reducer_init(&reducer, dtype, op, order);
    size_t raw = COUNT * reducer.base.nbytes, acc = COUNT * reducer.acc_nbytes;
    static unsigned char left[ROOM], right[ROOM];
    fill(t->host_b, COUNT, dtype, 2);
    reducer.load(&reducer, t->host_b, right, COUNT);
    fill(t->host_a, COUNT, dtype, 1);
    reducer.load(&reducer, t->host_a, left, COUNT);
    memcpy(t->wanted, left, acc);
    run(t, &reducer, KI_DEVICE_LOAD, raw, acc, shift);
    memcpy(t->host_a, left, acc);
    memcpy(t->host_b, right, acc);
    reducer.combine(&reducer, left, right, t->wanted, COUNT);
    run(t, &reducer, KI_DEVICE_COMBINE, acc, acc, shift);
    memcpy(t->host_a, t->wanted, acc);
    reducer.store(&reducer, t->host_a, t->wanted, COUNT);
    run(t, &reducer, KI_DEVICE_STORE, acc, raw, shift);
}

static void test_bits(void **state)
{
    static bench t;
    static const size_t shifts[] = { 0, 1 };
    const char *summary = NULL;
    ki_order order;
    int tried = 0;
    (void)state;
    if (ki_device_module(&t.ops, &summary) != KITH_OK)
        fail_msg("%s", summary);
    check(ki_order_create(RANKS, NULL, &order));
    check(t.ops->stream_create(0, &t.stream));
    unsigned char **parts[] = { &t.a, &t.b, &t.out };
    for (size_t i = 0; i < 3; i++)
        check(t.ops->alloc(0, ROOM, (void **)parts[i]));
    for (int dtype = 0; dtype < KITH_DTYPE_COUNT; dtype++) {
        for (int op = 0; op <= KITH_OP_BUILTIN_COUNT; op++) {
            ki_op builtin = { .builtin = op, .is_commutative = true, .name = "operator" };
            if (op == KITH_OP_BUILTIN_COUNT) {
                builtin.builtin = KI_OP_PREMUL_SUM;
                builtin.scalar = dtype < KITH_F16 ? 3 : 0.3;
            } else if (!kith_op_is_defined(op, (kith_dtype)dtype)) {
                continue;
            }
            for (size_t s = 0; s < sizeof shifts / sizeof shifts[0]; s++, tried++)
                try_operator(&t, (kith_dtype)dtype, &builtin, &order, shifts[s]);
        }
    }
    assert_true(tried > 2 * 14 * 6);
    for (size_t i = 0; i < 3; i++)
        check(t.ops->free(0, *parts[i]));
    check(t.ops->stream_destroy(0, t.stream));
    ki_order_destroy(&order);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_bits) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
