/* tests/core/reduce/test_order.c - the order of combination: written out, against the rule of kith/coll.h, and with
 * operators that are not commutative.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "reference.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { TEXT_NBYTES = 2048, SIZE_MOST = 64 };

/* text = "(left+right)", text being another array. */
static void join(char *text, const char *left, const char *right)
{
    assert_true(strlen(left) + strlen(right) + 4 <= TEXT_NBYTES);
    text[0] = '\0';
    strcat(strcat(strcat(strcat(strcat(text, "("), left), "+"), right), ")");
}

/* The program as text with all parentheses: "((0+1)+2)". */
static void program_text(const ki_order *order, char *text)
{
    static char stack[SIZE_MOST][TEXT_NBYTES];
    int top = 0, most = 0;
    for (int i = 0; i < order->length; i++) {
        if (order->program[i] >= 0) {
            snprintf(stack[top++], TEXT_NBYTES, "%d", order->program[i]);
        } else {
            char merged[TEXT_NBYTES];
            join(merged, stack[top - 2], stack[top - 1]);
            top--;
            memcpy(stack[top - 1], merged, TEXT_NBYTES);
        }
        most = top > most ? top : most;
    }
    assert_int_equal(top, 1);
    assert_int_equal(most, order->depth);
    strcpy(text, stack[0]);
}

/* The rule, from the bottom up: pairs, then neighbours with neighbours. items are texts. */
static void rule_text(char items[][TEXT_NBYTES], int count)
{
    static char merged[TEXT_NBYTES];
    int q = 1;
    while (2 * q <= count)
        q *= 2;
    int e = count - q;
    for (int i = 0; i < q; i++) {
        if (i < e)
            join(merged, items[2 * i], items[2 * i + 1]);
        else
            memcpy(merged, items[i + e], TEXT_NBYTES);
        memmove(items[i], merged, TEXT_NBYTES);
    }
    for (; q > 1; q /= 2) {
        for (int i = 0; i < q / 2; i++) {
            join(merged, items[2 * i], items[2 * i + 1]);
            memmove(items[i], merged, TEXT_NBYTES);
        }
    }
}

static void check_text(int size, const int *node_of, const char *wanted, int is_flat)
{
    ki_order order;
    char text[TEXT_NBYTES];
    assert_int_equal(ki_order_create(size, node_of, &order), KITH_OK);
    assert_int_equal(order.size, size);
    assert_int_equal(order.length, 2 * size - 1);
    assert_int_equal(order.is_flat, is_flat);
    program_text(&order, text);
    assert_string_equal(text, wanted);
    ki_order_destroy(&order);
}

static void test_documented(void **state)
{
    (void)state;
    check_text(1, NULL, "0", 1);
    check_text(2, NULL, "(0+1)", 1);
    check_text(3, NULL, "((0+1)+2)", 1);
    check_text(4, NULL, "((0+1)+(2+3))", 1);
    check_text(5, NULL, "(((0+1)+2)+(3+4))", 1);
    check_text(6, NULL, "(((0+1)+(2+3))+(4+5))", 1);
    check_text(7, NULL, "(((0+1)+(2+3))+((4+5)+6))", 1);
}

static void test_hosts(void **state)
{
    (void)state;
    check_text(5, (const int[]){ 0, 0, 0, 1, 1 }, "(((0+1)+2)+(3+4))", 1);
    check_text(6, (const int[]){ 0, 0, 0, 1, 1, 1 }, "(((0+1)+2)+((3+4)+5))", 0);
    check_text(4, (const int[]){ 7, 7, 7, 7 }, "((0+1)+(2+3))", 1);
    check_text(4, (const int[]){ 3, 1, 2, 0 }, "((0+1)+(2+3))", 1);
    check_text(4, (const int[]){ 0, 1, 0, 1 }, "((0+2)+(1+3))", 0);
    check_text(6, (const int[]){ 2, 0, 0, 1, 2, 0 }, "(((0+4)+((1+2)+5))+3)", 0);
}

static void test_rule_up_to_64(void **state)
{
    (void)state;
    static char items[SIZE_MOST][TEXT_NBYTES];
    for (int size = 1; size <= SIZE_MOST; size++) {
        for (int r = 0; r < size; r++)
            snprintf(items[r], TEXT_NBYTES, "%d", r);
        rule_text(items, size);
        check_text(size, NULL, items[0], 1);
    }
}

static void test_bad_size(void **state)
{
    (void)state;
    ki_order order;
    assert_int_equal(ki_order_create(0, NULL, &order), KITH_ERR_INVALID_ARG);
    ki_order_destroy(NULL);
}

/* Composition of x -> a x + b over 32-bit words, a in the upper half: associative, not commutative. */
static uint64_t composed(uint64_t left, uint64_t right)
{
    uint32_t a = (uint32_t)(left >> 32), b = (uint32_t)left, c = (uint32_t)(right >> 32), d = (uint32_t)right;
    return (uint64_t)(a * c) << 32 | (uint32_t)(a * d + b);
}

static void compose(const void *left, void *inout, size_t count, kith_dtype dtype, void *arg)
{
    assert_int_equal(dtype, KITH_UINT64);
    *(size_t *)arg += count;
    for (size_t i = 0; i < count; i++)
        ref_put(inout, 8, i, composed(ref_get(left, 8, i), ref_get(inout, 8, i)));
}

/* Any tree that keeps rank order gives the plain product from left to right. */
static void check_composition(int size, const int *node_of, size_t count, int in_place, unsigned flags)
{
    static uint64_t data[SIZE_MOST][5001], result[5001];
    size_t elements = 0;
    ki_op op = { .builtin = KI_OP_USER, .fn = compose, .arg = &elements, .is_commutative = false, .name = "compose" };
    ki_order order;
    ki_reducer reducer;
    const void *src[SIZE_MOST];
    uint64_t state = (uint64_t)size * 31 + count, wanted[5001];
    for (int r = 0; r < size; r++) {
        src[r] = data[r];
        for (size_t i = 0; i < count; i++) {
            data[r][i] = ref_random(&state);
            wanted[i] = r == 0 ? data[r][i] : composed(wanted[i], data[r][i]);
        }
    }
    assert_int_equal(ki_order_create(size, node_of, &order), KITH_OK);
    assert_int_equal(ki_op_check(&op, KITH_UINT64), KITH_OK);
    ki_reducer_init(&reducer, KITH_UINT64, &op, &order);
    assert_int_equal(reducer.base.is_commutative, 0);
    assert_true(reducer.is_identity);
    void *dst[2] = { in_place < 0 ? result : data[in_place], in_place == 0 ? data[size - 1] : result };
    int dst_count = in_place == 0 && size > 1 ? 2 : 1;
    reducer.base.reduce(&reducer.base, src, size, dst, dst_count, count, flags);
    assert_int_equal(elements, (size_t)(size - 1) * count);
    for (int k = 0; k < dst_count; k++)
        assert_memory_equal(dst[k], wanted, count * 8);
    ki_order_destroy(&order);
}

static void test_user_operator(void **state)
{
    (void)state;
    static const size_t counts[] = { 0, 1, 7, 512, 513, 5001 };
    for (int size = 1; size <= SIZE_MOST; size++) {
        int node_of[SIZE_MOST];
        for (int r = 0; r < size; r++)
            node_of[r] = r / 3;
        for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++) {
            check_composition(size, NULL, counts[c], -1, 0);
            check_composition(size, NULL, counts[c], 0, 0);
            check_composition(size, node_of, counts[c], size - 1, 0);
            check_composition(size, node_of, counts[c], -1, KITH_BE_REDUCE_STREAM);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_documented), cmocka_unit_test(test_hosts),         cmocka_unit_test(test_rule_up_to_64),
        cmocka_unit_test(test_bad_size),   cmocka_unit_test(test_user_operator),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
