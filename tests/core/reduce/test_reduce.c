/* tests/core/reduce/test_reduce.c - what reductions promise: public cases retold, the same bits at every position,
 * orders over hosts, checks of operators, names, streaming copies.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "reference.h"
#include <core/reduce/kernels.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

static void reduce_all(kith_dtype dtype, int builtin, int p, const int *node_of, const void *const *src, void *dst,
                       size_t count)
{
    ki_op op = { .builtin = builtin, .is_commutative = true, .name = "op" };
    ki_order order;
    ki_reducer reducer;
    assert_int_equal(ki_op_check(&op, dtype), KITH_OK);
    assert_int_equal(ki_order_create(p, node_of, &order), KITH_OK);
    ki_reducer_init(&reducer, dtype, &op, &order);
    reducer.base.reduce(&reducer.base, src, p, &dst, 1, count, 0);
    ki_order_destroy(&order);
}

static double value_of(kith_dtype dtype, uint64_t raw)
{
    if (dtype == KITH_BF16) return (double)ki_bf16_to_f32((uint16_t)raw);
    if (dtype == KITH_INT32) return (double)(int32_t)(uint32_t)raw;
    if (dtype == KITH_INT64) return (double)(int64_t)raw;
    float x;
    uint32_t low = (uint32_t)raw;
    memcpy(&x, &low, sizeof x);
    return (double)x;
}

static uint64_t raw_of(kith_dtype dtype, double value)
{
    if (dtype == KITH_BF16) return ki_f32_to_bf16((float)value);
    if (dtype == KITH_INT32 || dtype == KITH_INT64) return (uint64_t)(int64_t)value;
    float x = (float)value;
    uint32_t low;
    memcpy(&low, &x, sizeof low);
    return low;
}

/* avg divides by the ranks, not by the elements; integers truncate toward zero. */
static void test_avg_divides_by_ranks(void **state)
{
    (void)state;
    static const kith_dtype dtypes[] = { KITH_INT32, KITH_INT64, KITH_F32, KITH_BF16 };
    static const int sizes[] = { 1, 2, 3, 5, 8 };
    for (size_t t = 0; t < LENGTH(dtypes); t++) {
        for (size_t s = 0; s < LENGTH(sizes); s++) {
            int p = sizes[s];
            size_t nbytes = kith_dtype_nbytes(dtypes[t]), counts[] = { 1, (size_t)p, (size_t)p + 1, 7 };
            for (size_t c = 0; c < LENGTH(counts); c++) {
                unsigned char data[8][16 * 8], result[16 * 8];
                const void *src[8];
                for (int r = 0; r < p; r++) {
                    src[r] = data[r];
                    for (size_t i = 0; i < counts[c]; i++) /* the sum over ranks is p (i + 1) - p, and odd for some */
                        ref_put(data[r], nbytes, i, raw_of(dtypes[t], (double)i + (r == 0 ? -1.0 : 0.0) * p));
                }
                reduce_all(dtypes[t], KITH_AVG, p, NULL, src, result, counts[c]);
                for (size_t i = 0; i < counts[c]; i++)
                    assert_true(value_of(dtypes[t], ref_get(result, nbytes, i)) == (double)i - 1.0);
            }
        }
    }
    int32_t minus3 = -3, minus4 = -4, half;
    reduce_all(KITH_INT32, KITH_AVG, 2, NULL, (const void *[]){ &minus3, &minus4 }, &half, 1);
    assert_int_equal(half, -3);
    uint64_t most[3] = { UINT64_MAX, UINT64_MAX, UINT64_MAX }, average;
    reduce_all(KITH_UINT64, KITH_AVG, 3, NULL, (const void *[]){ &most[0], &most[1], &most[2] }, &average, 1);
    assert_true(average == UINT64_MAX);
    int64_t least[3] = { INT64_MIN, INT64_MIN, INT64_MIN + 1 }, low;
    reduce_all(KITH_INT64, KITH_AVG, 3, NULL, (const void *[]){ &least[0], &least[1], &least[2] }, &low, 1);
    assert_true(low == INT64_MIN + 1); /* -2^63 + 1/3 */
}

/* Sums beyond the range of bf16 on the way to an average inside it. */
static void test_bf16_avg_stays_finite(void **state)
{
    (void)state;
    static const int sizes[] = { 2, 3, 10 };
    uint16_t quarter = ki_f32_to_bf16(ki_bf16_to_f32(0x7f7f) / 4);
    for (size_t s = 0; s < LENGTH(sizes); s++) {
        const void *src[10];
        uint16_t result, values[10];
        float sum = 0;
        for (int r = 0; r < sizes[s]; r++) {
            values[r] = quarter;
            src[r] = &values[r];
            sum += ki_bf16_to_f32(values[r]);
        }
        reduce_all(KITH_BF16, KITH_AVG, sizes[s], NULL, src, &result, 1);
        assert_true(isfinite(sum) == (sizes[s] < 4)); /* ten quarters exceed f32 too */
        assert_int_equal(result, quarter);
    }
}

/* f16 sums near the range's end and below one unit in the last place: one rounding, at most half a unit of error. */
static void test_f16_sum_rounds_once(void **state)
{
    (void)state;
    static const double columns[][8] = {
        { 65504, -65504, 65504, -65504, 1, 1, 1, 1 },
        { 65504, 65504, -65504, -65504, 0.5, 0, 0, 0 },
        { 1, 0x1p-8, 0x1p-11, 0x1p-11, 0x1p-11, 0x1p-11, 0x1p-12, 0 },
        { 2048, 1, 1, 1, 1, 1, 1, 1 },
        { 65504, 8, 8, 0, 0, 0, 0, 0 },
        { 65504, 8, 7.9921875, 0, 0, 0, 0, 0 },
    };
    for (size_t c = 0; c < LENGTH(columns); c++) {
        uint16_t values[8], result;
        const void *src[8];
        double sum = 0;
        for (int r = 0; r < 8; r++) {
            values[r] = (uint16_t)ref_narrow(KITH_F16, columns[c][r]);
            src[r] = &values[r];
            sum += columns[c][r];
        }
        reduce_all(KITH_F16, KITH_SUM, 8, NULL, src, &result, 1);
        assert_int_equal(result, ref_narrow(KITH_F16, sum)); /* every partial sum is exact in f32 */
    }
}

static void test_integer_sums_wrap(void **state)
{
    (void)state;
    int8_t a = 120, b = 100, sum;
    reduce_all(KITH_INT8, KITH_SUM, 2, NULL, (const void *[]){ &a, &b }, &sum, 1);
    assert_int_equal(sum, -36);
    uint8_t c = 200, d = 100, wrapped;
    reduce_all(KITH_UINT8, KITH_SUM, 2, NULL, (const void *[]){ &c, &d }, &wrapped, 1);
    assert_int_equal(wrapped, 44);
    int32_t most = INT32_MAX, product;
    reduce_all(KITH_INT32, KITH_PROD, 2, NULL, (const void *[]){ &most, &most }, &product, 1);
    assert_int_equal(product, 1);
    uint16_t all = UINT16_MAX, square;
    reduce_all(KITH_UINT16, KITH_PROD, 2, NULL, (const void *[]){ &all, &all }, &square, 1);
    assert_int_equal(square, 1);
}

static void test_nan_and_zero(void **state)
{
    (void)state;
    for (int builtin = KITH_SUM; builtin <= KITH_AVG; builtin++) {
        for (int where = 0; where < 3; where++) {
            float values[3][9], result[9];
            const void *src[3] = { values[0], values[1], values[2] };
            for (int r = 0; r < 3; r++) {
                for (int i = 0; i < 9; i++)
                    values[r][i] = r == where ? -NAN : (float)i;
            }
            reduce_all(KITH_F32, builtin, 3, NULL, src, result, 9);
            for (int i = 0; i < 9; i++)
                assert_int_equal(ref_get(result, 4, (size_t)i), 0x7fc00000);
        }
    }
    float positive = 0.0f, negative = -0.0f, result;
    reduce_all(KITH_F32, KITH_MIN, 2, NULL, (const void *[]){ &positive, &negative }, &result, 1);
    assert_true(signbit(result));
    reduce_all(KITH_F32, KITH_MAX, 2, NULL, (const void *[]){ &negative, &positive }, &result, 1);
    assert_false(signbit(result));
}

/* A row has the same bits in a message of 1, 7, 736 and 100,003 rows, at every place, on every instruction set. */
static void check_positions(kith_dtype dtype, int builtin, int p, const int *node_of)
{
    enum { ROW = 7, ROWS_MOST = 100003 };
    static const size_t rows[] = { 1, 7, 736, ROWS_MOST };
    size_t nbytes = kith_dtype_nbytes(dtype), row_nbytes = ROW * nbytes;
    unsigned char row[8][ROW * 8], wanted[ROW * 8], *src_memory[8], *dst = malloc(ROWS_MOST * row_nbytes + 64);
    uint64_t random = 99 + (uint64_t)dtype;
    for (int r = 0; r < p; r++) {
        src_memory[r] = malloc(ROWS_MOST * row_nbytes + 64);
        for (size_t i = 0; i < ROW; i++)
            ref_put(row[r], nbytes, i, ref_random_raw(dtype, &random));
        for (size_t i = 0; i < ROWS_MOST; i++)
            memcpy(src_memory[r] + (size_t)r * nbytes + i * row_nbytes, row[r], row_nbytes);
    }
    const void *one[8], *src[8];
    for (int r = 0; r < p; r++) {
        one[r] = row[r];
        src[r] = src_memory[r] + (size_t)r * nbytes;
    }
    reduce_all(dtype, builtin, p, node_of, one, wanted, ROW);
    for (size_t n = 0; n < LENGTH(rows); n++) {
        const ki_kernels *kernels;
        for (size_t k = 0; (kernels = ki_kernels_at(k)) != NULL; k++) {
            assert_true(ki_kernels_select(kernels->isa));
            reduce_all(dtype, builtin, p, node_of, src, dst + nbytes, rows[n] * ROW);
            for (size_t i = 0; i < rows[n]; i++)
                assert_memory_equal(dst + nbytes + i * row_nbytes, wanted, row_nbytes);
        }
    }
    for (int r = 0; r < p; r++)
        free(src_memory[r]);
    free(dst);
}

static void test_same_bits_everywhere(void **state)
{
    (void)state;
    static const kith_dtype dtypes[] = { KITH_F32, KITH_BF16, KITH_F16, KITH_F8E4M3, KITH_F64 };
    static const int hosts[8] = { 0, 0, 0, 1, 1, 1, 1, 1 };
    for (size_t t = 0; t < LENGTH(dtypes); t++) {
        check_positions(dtypes[t], KITH_SUM, 2, NULL);
        check_positions(dtypes[t], KITH_AVG, 5, NULL);
        check_positions(dtypes[t], KITH_SUM, 8, hosts);
    }
}

/* Orders over hosts have no loop of their own: the program's result against the sum over hosts by hand. */
static void test_order_over_hosts(void **state)
{
    (void)state;
    static const int hosts[6] = { 0, 0, 0, 1, 1, 1 };
    float values[6][1000], result[1000];
    const void *src[6];
    uint64_t random = 5;
    for (int r = 0; r < 6; r++) {
        src[r] = values[r];
        for (size_t i = 0; i < 1000; i++)
            values[r][i] = (float)((double)(int64_t)ref_random(&random) * 0x1p-40);
    }
    reduce_all(KITH_F32, KITH_SUM, 6, hosts, src, result, 1000);
    for (size_t i = 0; i < 1000; i++) {
        volatile float first = values[0][i] + values[1][i], second = values[3][i] + values[4][i];
        first = first + values[2][i];
        second = second + values[5][i];
        float wanted = first + second;
        assert_memory_equal(&result[i], &wanted, sizeof wanted);
    }
}

static kith_status check_premul(kith_dtype dtype, double scalar)
{
    ki_op op = { .builtin = KI_OP_PREMUL_SUM, .scalar = scalar, .name = "premul_sum" };
    return ki_op_check(&op, dtype);
}

static void test_op_check(void **state)
{
    (void)state;
    assert_int_equal(check_premul(KITH_INT8, 127), KITH_OK);
    assert_int_equal(check_premul(KITH_INT8, 128), KITH_ERR_INVALID_ARG);
    assert_int_equal(check_premul(KITH_INT8, -128), KITH_OK);
    assert_int_equal(check_premul(KITH_INT8, -129), KITH_ERR_INVALID_ARG);
    assert_int_equal(check_premul(KITH_UINT8, -1), KITH_ERR_INVALID_ARG);
    assert_int_equal(check_premul(KITH_UINT8, 255), KITH_OK);
    assert_int_equal(check_premul(KITH_INT64, 0x1p63), KITH_ERR_INVALID_ARG);
    assert_int_equal(check_premul(KITH_INT64, -0x1p63), KITH_OK);
    assert_int_equal(check_premul(KITH_UINT64, 0x1p63), KITH_OK);
    assert_int_equal(check_premul(KITH_UINT64, 0x1p64), KITH_ERR_INVALID_ARG);
    assert_int_equal(check_premul(KITH_INT32, 0.5), KITH_ERR_INVALID_ARG);
    assert_int_equal(check_premul(KITH_INT32, (double)NAN), KITH_ERR_INVALID_ARG);
    assert_int_equal(check_premul(KITH_BF16, 0.5), KITH_OK);
    ki_op op = { .builtin = KITH_BXOR, .name = "bxor" };
    assert_int_equal(ki_op_check(&op, KITH_F8E4M3), KITH_ERR_INVALID_ARG);
    assert_non_null(strstr(kith_error_detail(), "bxor"));
    assert_int_equal(ki_op_check(&op, KITH_UINT8), KITH_OK);
    op.builtin = 77;
    assert_int_equal(ki_op_check(&op, KITH_UINT8), KITH_ERR_INVALID_ARG);
    op.builtin = KITH_SUM;
    assert_int_equal(ki_op_check(&op, (kith_dtype)14), KITH_ERR_INVALID_ARG);
    op.builtin = KI_OP_USER;
    assert_int_equal(ki_op_check(&op, KITH_F32), KITH_ERR_INVALID_ARG);
}

static void test_premul_of_large_scalar(void **state)
{
    (void)state;
    ki_op op = { .builtin = KI_OP_PREMUL_SUM, .scalar = 0x1p63 + 4096, .name = "premul_sum" };
    ki_order order;
    ki_reducer reducer;
    uint64_t values[2] = { 3, 5 }, result;
    const void *src[2] = { &values[0], &values[1] };
    void *dst = &result;
    assert_int_equal(ki_order_create(2, NULL, &order), KITH_OK);
    assert_int_equal(ki_op_check(&op, KITH_UINT64), KITH_OK);
    ki_reducer_init(&reducer, KITH_UINT64, &op, &order);
    reducer.base.reduce(&reducer.base, src, 2, &dst, 1, 1, 0);
    assert_true(result == 8 * 4096); /* 8 * 2^63 wraps to 0 */
    ki_order_destroy(&order);
}

static void test_names(void **state)
{
    (void)state;
    for (int i = 0; i < KITH_DTYPE_COUNT; i++) {
        kith_dtype dtype;
        assert_int_equal(kith_dtype_parse(kith_dtype_name((kith_dtype)i), &dtype), KITH_OK);
        assert_int_equal(dtype, i);
    }
    kith_dtype dtype = KITH_F64;
    assert_int_equal(kith_dtype_parse("float", &dtype), KITH_ERR_INVALID_ARG);
    assert_int_equal(dtype, KITH_F64);
    assert_non_null(strstr(kith_error_detail(), "f8e5m2"));
    assert_int_equal(kith_dtype_parse(NULL, &dtype), KITH_ERR_INVALID_ARG);
    assert_string_equal(kith_dtype_name((kith_dtype)14), "unknown dtype");
    assert_int_equal(kith_dtype_nbytes((kith_dtype)-1), 0);
    assert_int_equal(kith_dtype_nbytes(KITH_F8E4M3), 1);
    assert_int_equal(kith_dtype_nbytes(KITH_INT64), 8);
    kith_op op = -5;
    assert_int_equal(kith_op_parse("bxor", &op), KITH_OK);
    assert_int_equal(op, KITH_BXOR);
    assert_int_equal(kith_op_parse("plus", &op), KITH_ERR_INVALID_ARG);
    assert_int_equal(op, KITH_BXOR);
    assert_non_null(strstr(kith_error_detail(), "sum prod min max avg band bor bxor"));
    assert_int_equal(kith_op_is_defined(KITH_BOR, KITH_UINT64), 1);
    assert_int_equal(kith_op_is_defined(KITH_BOR, KITH_F16), 0);
    assert_int_equal(kith_op_is_defined(KITH_AVG, KITH_INT8), 1);
    assert_int_equal(kith_op_is_defined(8, KITH_INT8), 0);
}

static void test_copy_stream(void **state)
{
    (void)state;
    enum { NBYTES = 5000 };
    unsigned char from[NBYTES + 128], to[NBYTES + 256];
    for (size_t i = 0; i < sizeof from; i++)
        from[i] = (unsigned char)(i * 7 + i / 256);
    size_t before = ki_stream_threshold();
    ki_set_stream_threshold(1);
    assert_int_equal(ki_stream_threshold(), 1);
    const ki_kernels *kernels;
    for (size_t k = 0; (kernels = ki_kernels_at(k)) != NULL; k++) {
        assert_true(ki_kernels_select(kernels->isa));
        for (size_t shift = 0; shift < 66; shift++) {
            static const size_t sizes[] = { 0, 1, 63, 64, 65, 127, 129, 1000, NBYTES };
            for (size_t s = 0; s < LENGTH(sizes); s++) {
                memset(to, 0xa5, sizeof to);
                ki_copy_stream(to + 64 + shift, from + (shift * 5) % 67, sizes[s]);
                assert_memory_equal(to + 64 + shift, from + (shift * 5) % 67, sizes[s]);
                for (size_t i = 0; i < 64; i++) {
                    assert_int_equal(to[shift + i], 0xa5);
                    assert_int_equal(to[64 + shift + sizes[s] + i], 0xa5);
                }
            }
        }
    }
    ki_set_stream_threshold(before);
}

static void test_kernel_selection(void **state)
{
    (void)state;
    assert_true(ki_kernels_select("generic"));
    assert_string_equal(ki_kernels_isa(), "generic");
    assert_false(ki_kernels_select("abacus"));
    assert_string_equal(ki_kernels_isa(), "generic");
    size_t count = 0;
    while (ki_kernels_at(count) != NULL)
        count++;
    assert_string_equal(ki_kernels_at(count - 1)->isa, "generic");
    assert_true(ki_kernels_select(ki_kernels_at(0)->isa));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_avg_divides_by_ranks),
        cmocka_unit_test(test_bf16_avg_stays_finite),
        cmocka_unit_test(test_f16_sum_rounds_once),
        cmocka_unit_test(test_integer_sums_wrap),
        cmocka_unit_test(test_nan_and_zero),
        cmocka_unit_test(test_same_bits_everywhere),
        cmocka_unit_test(test_order_over_hosts),
        cmocka_unit_test(test_op_check),
        cmocka_unit_test(test_premul_of_large_scalar),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_copy_stream),
        cmocka_unit_test(test_kernel_selection),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
