/* tests/conformance/cases_numbers.c - reductions where the types end: averages, extremes, wrapping, rounding.
 *
 * Each value goes through all_reduce, reduce and reduce_scatter, which must give the same bits. Small floats are
 * compared with the code that is nearest to the exact sum, so an error of more than half a unit in the last place
 * shows.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "cases.h"
#include "reference.h"

#include <limits.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#define LENGTH(array) (sizeof(array) / sizeof(array)[0])

/* result: [count] */
static void reduce_thrice(const rank_info *info, const void *send, void *result, size_t count, kith_dtype dtype,
                          kith_op op)
{
    size_t nbytes = count * kith_dtype_nbytes(dtype), ranks = (size_t)info->size;
    int last = info->size - 1;
    unsigned char *blocks = (unsigned char *)malloc(ranks * nbytes), *other = (unsigned char *)malloc(nbytes);
    REQUIRE(blocks != NULL && other != NULL);
    REQUIRE_OK(kith_all_reduce(info->world, send, result, count, dtype, op));
    REQUIRE_OK(kith_reduce(info->world, send, other, count, dtype, op, last));
    REQUIRE(info->rank != last || memcmp(other, result, nbytes) == 0);
    for (size_t r = 0; r < ranks; r++)
        memcpy(blocks + r * nbytes, send, nbytes);
    REQUIRE_OK(kith_reduce_scatter(info->world, blocks, other, count, dtype, op));
    REQUIRE(memcmp(other, result, nbytes) == 0);
    free(blocks);
    free(other);
}

/* ---- averages ---- */

/* avg divides by the ranks, whatever the count is; one rank is p above the others. */
static void average_of_type(const rank_info *info, kith_dtype dtype)
{
    size_t ranks = (size_t)info->size, counts[] = { 1, ranks, ranks + 1, 7 };
    uint64_t send[65], result[65];
    for (size_t c = 0; c < LENGTH(counts); c++) {
        for (size_t i = 0; i < counts[c]; i++)
            ref_put(send, dtype, i, (long)(i % 20) + (info->rank == 0 ? info->size : 0));
        reduce_thrice(info, send, result, counts[c], dtype, KITH_AVG);
        for (size_t i = 0; i < counts[c]; i++)
            if (ref_get(result, dtype, i) != (long)(i % 20) + 1)
                rank_fail(__FILE__, __LINE__, "avg %s, count %zu, element %zu: wanted %zu, got %ld",
                          kith_dtype_name(dtype), counts[c], i, i % 20 + 1, ref_get(result, dtype, i));
    }
}

/* (1 - 4p) / p: integers truncate toward zero, floats divide once. -7/2 is -3. */
static void average_below_zero(const rank_info *info)
{
    static const kith_dtype dtypes[] = { KITH_INT8, KITH_INT16, KITH_INT32, KITH_INT64 };
    uint64_t send, result;
    for (size_t t = 0; t < LENGTH(dtypes); t++) {
        ref_put(&send, dtypes[t], 0, info->rank == 0 ? -3 : -4);
        reduce_thrice(info, &send, &result, 1, dtypes[t], KITH_AVG);
        REQUIRE(ref_get(&result, dtypes[t], 0) == -3);
    }
    float x = info->rank == 0 ? -3.0f : -4.0f, wanted = (float)(1 - 4 * info->size) / (float)info->size, got = 0;
    double y = (double)x, wide = (double)(1 - 4 * info->size) / (double)info->size, got_wide = 0;
    reduce_thrice(info, &x, &got, 1, KITH_F32, KITH_AVG);
    reduce_thrice(info, &y, &got_wide, 1, KITH_F64, KITH_AVG);
    REQUIRE(got == wanted && got_wide == wide);
}

static void case_average(rank_info *info)
{
    static const kith_dtype dtypes[] = { KITH_INT32, KITH_INT64, KITH_F32, KITH_BF16 };
    REQUIRE(info->size <= 64);
    for (size_t t = 0; t < LENGTH(dtypes); t++)
        average_of_type(info, dtypes[t]);
    average_below_zero(info);
}

/* ---- extremes of integers ---- */

static long lowest(kith_dtype dtype)
{
    return ref_is_signed(dtype) ? LONG_MIN >> (64 - 8 * kith_dtype_nbytes(dtype)) : 0;
}

static long highest(kith_dtype dtype) /* of uint64 as the long of the same bits */
{
    unsigned bits = 8 * (unsigned)kith_dtype_nbytes(dtype);
    return ref_is_signed(dtype) ? LONG_MAX >> (64 - bits) : bits == 64 ? -1 : (long)(~0UL >> (64 - bits));
}

static void expect_result(const rank_info *info, kith_dtype dtype, kith_op op, long mine, long wanted)
{
    uint64_t send = 0, result = 0;
    ref_put(&send, dtype, 0, mine);
    reduce_thrice(info, &send, &result, 1, dtype, op);
    long got = ref_get(&result, dtype, 0);
    if (got != wanted)
        rank_fail(__FILE__, __LINE__, "%s %s of %d ranks: wanted %ld, got %ld", kith_op_name(NULL, op),
                  kith_dtype_name(dtype), info->size, wanted, got);
}

static void extremes_of_type(const rank_info *info, kith_dtype dtype)
{
    long low = lowest(dtype), high = highest(dtype);
    bool is_last = info->rank == info->size - 1, is_first = info->rank == 0;
    /* the exact sums need more bits than the type has */
    expect_result(info, dtype, KITH_AVG, high - (is_last ? 1 : 0), high - 1);
    expect_result(info, dtype, KITH_AVG, low + (is_last ? 1 : 0),
                  info->size == 1 || ref_is_signed(dtype) ? low + 1 : 0);
    expect_result(info, dtype, KITH_MIN, is_last ? low : high, low);
    expect_result(info, dtype, KITH_MAX, is_last ? high : low, high);
    if (info->size == 1)
        return;
    /* wrapping: highest + 1 = lowest, lowest * -1 = lowest (signed) */
    expect_result(info, dtype, KITH_SUM, is_first ? high : is_last ? 1 : 0, low);
    expect_result(info, dtype, KITH_SUM, is_first ? low : is_last ? -1 : 0, high);
    if (ref_is_signed(dtype))
        expect_result(info, dtype, KITH_PROD, is_first ? low : is_last ? -1 : 1, low);
}

static void case_extremes(rank_info *info)
{
    for (int dtype = 0; dtype <= KITH_UINT64; dtype++)
        extremes_of_type(info, (kith_dtype)dtype);
    if (info->size == 1)
        return;
    bool is_first = info->rank == 0, is_second = info->rank == 1;
    expect_result(info, KITH_INT8, KITH_SUM, is_first ? 120 : is_second ? 100 : 0, -36);
    expect_result(info, KITH_UINT8, KITH_SUM, is_first ? 200 : is_second ? 100 : 0, 44);
    expect_result(info, KITH_INT16, KITH_PROD, is_first || is_second ? 300 : 1, 90000 - 65536);
    expect_result(info, KITH_INT32, KITH_PROD, is_first || is_second ? 65537 : 1, 131073);
}

/* ---- small floats ---- */

/* Contributions of ranks 0, 1, 2 and of all others. */
typedef struct column {
    double first, second, third, others;
} column;

static double contribution(const column *c, int rank)
{
    return rank == 0 ? c->first : rank == 1 ? c->second : rank == 2 ? c->third : c->others;
}

static void expect_nearest(const rank_info *info, kith_dtype dtype, const column *columns, size_t count)
{
    uint16_t send[16] = { 0 }, result[16] = { 0 };
    REQUIRE(count <= LENGTH(send));
    for (size_t i = 0; i < count; i++) {
        double mine = contribution(&columns[i], info->rank);
        send[i] = (uint16_t)ref_nearest(dtype, mine);
        REQUIRE(ref_decode(dtype, send[i]) == mine); /* the table holds values of the type */
    }
    reduce_thrice(info, send, result, count, dtype, KITH_SUM);
    for (size_t i = 0; i < count; i++) {
        double exact = 0;
        for (int r = 0; r < info->size; r++)
            exact += contribution(&columns[i], r);
        unsigned wanted = ref_nearest(dtype, exact);
        bool is_equal = ref_decode(dtype, result[i]) == ref_decode(dtype, wanted); /* either zero */
        if (!is_equal)
            rank_fail(__FILE__, __LINE__, "%s column %zu of %d ranks: the sum is %.17g, wanted %#x, got %#x (%g)",
                      kith_dtype_name(dtype), i, info->size, exact, wanted, result[i], ref_decode(dtype, result[i]));
    }
}

/* Every partial sum in the documented order is exact in f32, so half a unit of error is what one rounding gives. */
static void case_small_floats(rank_info *info)
{
    static const column f16[] = {
        { 65504, -65504, 0, 0 },
        { 65504, 65504, 65504, 65504 },
        { -65504, -65504, -65504, 0 },
        { 65504, 15.984375, 0, 0 },
        { 65504, 16, 0, 0 },
        { -65504, -15.984375, 0, 0 },
        { 65504, -65504, 1 + 0x1p-8, 0 },
        { 2048, 1, 1, 1 },
        { 2048, 3, 1, 0 },
        { 0x1p-24, 0x1p-24, 0x1p-24, 0x1p-24 },
        { 1 + 0x1p-8, 1 + 0x1p-8, 1 + 0x1p-8, 1 + 0x1p-8 },
        { 1, 0x1p-11, 0x1p-11, 0 },
        { 1, 0x1p-11, 0x1p-20, 0 },
    };
    const double most = 0x1.fep127; /* of bf16 */
    const column bf16[] = {
        { most, -most, 0, 0 },    { most, most, most, 0 },   { most, 0x1p118, 0, 0 },
        { most, 0x1p119, 0, 0 },  { 256, 1, 1, 1 },          { 1 + 0x1p-7, 1 + 0x1p-7, 1 + 0x1p-7, 1 + 0x1p-7 },
        { 1, 0x1p-8, 0x1p-8, 0 }, { 1, 0x1p-8, 0x1p-20, 0 }, { 1024, -1020, 0x1p-9, 0x1p-9 },
    };
    expect_nearest(info, KITH_F16, f16, LENGTH(f16));
    expect_nearest(info, KITH_BF16, bf16, LENGTH(bf16));
    /* averages whose sum is beyond the type, and with four ranks beyond f32: one division, one rounding */
    uint16_t quarter = (uint16_t)ref_nearest(KITH_BF16, most / 2), average = 0;
    reduce_thrice(info, &quarter, &average, 1, KITH_BF16, KITH_AVG);
    REQUIRE(average == quarter);
    uint16_t half = (uint16_t)ref_nearest(KITH_F16, 65504);
    reduce_thrice(info, &half, &average, 1, KITH_F16, KITH_AVG);
    REQUIRE(average == half);
}

const conformance_case cases_numbers[] = {
    { "average", case_average, NULL },
    { "extremes", case_extremes, NULL },
    { "small_floats", case_small_floats, NULL },
    { NULL, NULL, NULL },
};
