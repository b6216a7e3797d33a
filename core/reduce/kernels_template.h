/* core/reduce/kernels_template.h - the loops over kernels_ops.h and the table of them. Included once by each
 * kernels_<isa>.c, which defines KI_TABLE, the name of its table.
 *
 * The loops are plain C: the compiler makes vector code of them for the instruction set of the file's flags. Only what
 * it cannot do is written by hand (kernels_stream.h, kernels_f16c.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "kernels.h"
#include "kernels_ops.h"
#include "kernels_stream.h"

#define EACH(i, count) INDEPENDENT for (size_t i = 0; i < (count); i++)
/* For loops with so little work that the loop's own instructions count. */
#define EACH_OF_MANY(i, count) UNROLLED for (size_t i = 0; i < (count); i++)

/* ---- acc (op) acc -> acc ---- */

#define COMBINE(OP, T)                                                                                                 \
    static void combine_##OP##_##T(const ki_reducer *self, const void *left, const void *right, void *out,             \
                                   size_t count)                                                                       \
    {                                                                                                                  \
        (void)self;                                                                                                    \
        const T##_mem *l = left, *r = right;                                                                           \
        T##_mem *o = out;                                                                                              \
        EACH_OF_MANY(i, count) o[i] = OP##_##T(l[i], r[i]);                                                            \
    }

/* ---- raw (op) raw -> raw, one pass: RESULT(x, y) may use what SETUP defines ---- */

#define PAIR(NAME, T, SETUP, RESULT) PAIR_BY(EACH, NAME, T, SETUP, RESULT)
#define PAIR_BY(LOOP, NAME, T, SETUP, RESULT)                                                                          \
    static void pair_##NAME(const ki_reducer *self, const void *left, const void *right, void *first, void *second,    \
                            size_t count)                                                                              \
    {                                                                                                                  \
        (void)self;                                                                                                    \
        SETUP;                                                                                                         \
        const T##_mem *l = left, *r = right;                                                                           \
        T##_mem *o = first, *o2 = second;                                                                              \
        if (o2 == NULL) {                                                                                              \
            LOOP(i, count) o[i] = RESULT(l[i], r[i]);                                                                  \
            return;                                                                                                    \
        }                                                                                                              \
        LOOP(i, count)                                                                                                 \
        {                                                                                                              \
            T result = RESULT(l[i], r[i]);                                                                             \
            o[i] = result;                                                                                             \
            o2[i] = result;                                                                                            \
        }                                                                                                              \
    }

/* ---- the documented order over 3 to 8 sources, one pass ---- */

/* f: the operator of the last merge, g: of those before it. */
#define TREE3(f, g, v) f(g(v(0), v(1)), v(2))
#define TREE4(f, g, v) f(g(v(0), v(1)), g(v(2), v(3)))
#define TREE5(f, g, v) f(TREE3(g, g, v), g(v(3), v(4)))
#define TREE6(f, g, v) f(TREE4(g, g, v), g(v(4), v(5)))
#define TREE7(f, g, v) f(TREE4(g, g, v), g(g(v(4), v(5)), v(6)))
#define TREE8(f, g, v) f(TREE4(g, g, v), g(g(v(4), v(5)), g(v(6), v(7))))

#define SOURCE(k) s##k[i]
#define NARY_LOOP(P, OP, INNER, T, ...)                                                                                \
    static void nary##P##_##OP##_##T(const void *const *src, void *dst, size_t count)                                  \
    {                                                                                                                  \
        const T##_mem __VA_ARGS__;                                                                                     \
        T##_mem *o = dst;                                                                                              \
        EACH_OF_MANY(i, count) o[i] = TREE##P(OP##_##T, INNER##_##T, SOURCE);                                          \
    }
#define NARY(OP, INNER, T)                                                                                             \
    NARY_LOOP(3, OP, INNER, T, *s0 = src[0], *s1 = src[1], *s2 = src[2])                                               \
    NARY_LOOP(4, OP, INNER, T, *s0 = src[0], *s1 = src[1], *s2 = src[2], *s3 = src[3])                                 \
    NARY_LOOP(5, OP, INNER, T, *s0 = src[0], *s1 = src[1], *s2 = src[2], *s3 = src[3], *s4 = src[4])                   \
    NARY_LOOP(6, OP, INNER, T, *s0 = src[0], *s1 = src[1], *s2 = src[2], *s3 = src[3], *s4 = src[4], *s5 = src[5])     \
    NARY_LOOP(7, OP, INNER, T, *s0 = src[0], *s1 = src[1], *s2 = src[2], *s3 = src[3], *s4 = src[4], *s5 = src[5],     \
              *s6 = src[6])                                                                                            \
    NARY_LOOP(8, OP, INNER, T, *s0 = src[0], *s1 = src[1], *s2 = src[2], *s3 = src[3], *s4 = src[4], *s5 = src[5],     \
              *s6 = src[6], *s7 = src[7])
#define NARY_ROW(OP, T)                                                                                                \
    {                                                                                                                  \
        nary3_##OP##_##T, nary4_##OP##_##T, nary5_##OP##_##T, nary6_##OP##_##T, nary7_##OP##_##T, nary8_##OP##_##T     \
    }

/* ---- operators whose accumulator is the element itself ---- */

#define NOTHING (void)0
#define DIRECT(OP, T) DIRECT_BY(OP, OP, T)
#define DIRECT_BY(OP, INNER, T)                                                                                        \
    COMBINE(OP, T)                                                                                                     \
    PAIR_BY(EACH_OF_MANY, OP##_##T, T, NOTHING, OP##_##T)                                                              \
    NARY(OP, INNER, T)
#define DIRECT_ROW(OP, T, STREAM)                                                                                      \
    {                                                                                                                  \
        NULL, combine_##OP##_##T, NULL, pair_##OP##_##T, STREAM, NARY_ROW(OP, T), sizeof(T)                            \
    }

DIRECT_BY(sum, plain_sum, f32)
DIRECT_BY(prod, plain_prod, f32)
DIRECT(min, f32)
DIRECT(max, f32)
DIRECT_BY(sum, plain_sum, f64)
DIRECT_BY(prod, plain_prod, f64)
DIRECT(min, f64)
DIRECT(max, f64)

#define DIRECT_UNSIGNED(T)                                                                                             \
    DIRECT(sum, T)                                                                                                     \
    DIRECT(prod, T)                                                                                                    \
    DIRECT(band, T)                                                                                                    \
    DIRECT(bor, T)                                                                                                     \
    DIRECT(bxor, T)                                                                                                    \
    DIRECT(min, T)                                                                                                     \
    DIRECT(max, T)
DIRECT_UNSIGNED(u8)
DIRECT_UNSIGNED(u16)
DIRECT_UNSIGNED(u32)
DIRECT_UNSIGNED(u64)

#define DIRECT_SIGNED(T) /* the rest is the unsigned type's */                                                         \
    DIRECT(min, T)                                                                                                     \
    DIRECT(max, T)
DIRECT_SIGNED(i8)
DIRECT_SIGNED(i16)
DIRECT_SIGNED(i32)
DIRECT_SIGNED(i64)

/* ---- avg and premul_sum of f32 and f64 ---- */

#define LOAD(NAME, RAW, ACC, SETUP, VALUE)                                                                             \
    static void load_##NAME(const ki_reducer *self, const void *raw, void *acc, size_t count)                          \
    {                                                                                                                  \
        (void)self;                                                                                                    \
        SETUP;                                                                                                         \
        const RAW##_mem *in = raw;                                                                                     \
        ACC##_mem *out = acc;                                                                                          \
        EACH(i, count) out[i] = VALUE(in[i]);                                                                          \
    }
#define STORE(NAME, ACC, RAW, SETUP, VALUE)                                                                            \
    static void store_##NAME(const ki_reducer *self, const void *acc, void *raw, size_t count)                         \
    {                                                                                                                  \
        (void)self;                                                                                                    \
        SETUP;                                                                                                         \
        const ACC##_mem *in = acc;                                                                                     \
        RAW##_mem *out = raw;                                                                                          \
        EACH(i, count) out[i] = VALUE(in[i]);                                                                          \
    }

/* A product may be the first NaN of a reduction over one rank, so it is made canonical like a sum. */
#define SCALED_SETUP(T) const T scalar = (T)self->base.scalar
#define SCALED_f32(x) prod_f32(x, scalar)
#define SCALED_f64(x) prod_f64(x, scalar)
#define SCALED_SUM_f32(x, y) sum_f32(SCALED_f32(x), SCALED_f32(y))
#define SCALED_SUM_f64(x, y) sum_f64(SCALED_f64(x), SCALED_f64(y))
/* Halving a float and multiplying it by 0.5 are the same operation, rounding of subnormals included. */
#define RANKS_SETUP(T) const T ranks = (T)self->order->size
#define DIVIDED(x) ((x) / ranks)
#define HALF_SUM_f32(x, y) (sum_f32(x, y) * 0.5f)
#define HALF_SUM_f64(x, y) (sum_f64(x, y) * 0.5)

#define FLOAT_AVG_PREMUL(T)                                                                                            \
    STORE(avg_##T, T, T, RANKS_SETUP(T), DIVIDED)                                                                      \
    PAIR(avg_##T, T, NOTHING, HALF_SUM_##T)                                                                            \
    LOAD(premul_##T, T, T, SCALED_SETUP(T), SCALED_##T)                                                                \
    PAIR(premul_##T, T, SCALED_SETUP(T), SCALED_SUM_##T)
FLOAT_AVG_PREMUL(f32)
FLOAT_AVG_PREMUL(f64)
STREAM_PAIRS

/* ---- avg and premul_sum of integers ---- */

#define WIDE_i64(x) ((i64)(x))
#define WIDE_i128(x) ((i128)(x))
#define INTEGER_AVG(T, WIDE)                                                                                           \
    static inline T half_sum_##T(T a, T b)                                                                             \
    {                                                                                                                  \
        return (T)(((WIDE)a + (WIDE)b) / 2);                                                                           \
    }                                                                                                                  \
    static inline T quotient_##T(WIDE a, WIDE ranks)                                                                   \
    {                                                                                                                  \
        return (T)(a / ranks);                                                                                         \
    }                                                                                                                  \
    LOAD(avg_##T, T, WIDE, NOTHING, WIDE_##WIDE)                                                                       \
    STORE(avg_##T, WIDE, T, RANKS_SETUP(WIDE), QUOTIENT_##T)                                                           \
    PAIR(avg_##T, T, NOTHING, half_sum_##T)
#define QUOTIENT_u8(x) quotient_u8(x, ranks)
#define QUOTIENT_u16(x) quotient_u16(x, ranks)
#define QUOTIENT_u32(x) quotient_u32(x, ranks)
#define QUOTIENT_u64(x) quotient_u64(x, ranks)
#define QUOTIENT_i8(x) quotient_i8(x, ranks)
#define QUOTIENT_i16(x) quotient_i16(x, ranks)
#define QUOTIENT_i32(x) quotient_i32(x, ranks)
#define QUOTIENT_i64(x) quotient_i64(x, ranks)

COMBINE(sum, i64)
COMBINE(sum, i128)
INTEGER_AVG(u8, i64)
INTEGER_AVG(u16, i64)
INTEGER_AVG(u32, i64)
INTEGER_AVG(u64, i128)
INTEGER_AVG(i8, i64)
INTEGER_AVG(i16, i64)
INTEGER_AVG(i32, i64)
INTEGER_AVG(i64, i128)

#define INTEGER_SCALAR(T) const T scalar = (T)self->base.int_scalar
#define TIMES_u8(x) prod_u8(x, scalar)
#define TIMES_u16(x) prod_u16(x, scalar)
#define TIMES_u32(x) prod_u32(x, scalar)
#define TIMES_u64(x) prod_u64(x, scalar)
#define TIMES_SUM_u8(x, y) sum_u8(TIMES_u8(x), TIMES_u8(y))
#define TIMES_SUM_u16(x, y) sum_u16(TIMES_u16(x), TIMES_u16(y))
#define TIMES_SUM_u32(x, y) sum_u32(TIMES_u32(x), TIMES_u32(y))
#define TIMES_SUM_u64(x, y) sum_u64(TIMES_u64(x), TIMES_u64(y))
#define INTEGER_PREMUL(T)                                                                                              \
    LOAD(premul_##T, T, T, INTEGER_SCALAR(T), TIMES_##T)                                                               \
    PAIR(premul_##T, T, INTEGER_SCALAR(T), TIMES_SUM_##T)
INTEGER_PREMUL(u8)
INTEGER_PREMUL(u16)
INTEGER_PREMUL(u32)
INTEGER_PREMUL(u64)

/* ---- small floats: through f32 ---- */

/* X: the conversion's name, RAW: its storage. */
#define SMALL_STEPS(X, RAW)                                                                                            \
    static inline f32 scaled_##X(RAW a, f32 scalar)                                                                    \
    {                                                                                                                  \
        return prod_f32(widen_##X(a), scalar);                                                                         \
    }                                                                                                                  \
    static inline RAW quotient_##X(f32 a, f32 ranks)                                                                   \
    {                                                                                                                  \
        return narrow_##X(a / ranks);                                                                                  \
    }                                                                                                                  \
    LOAD(X, RAW, f32, NOTHING, widen_##X)                                                                              \
    LOAD(premul_##X, RAW, f32, SCALED_SETUP(f32), SMALL_SCALED_##X)                                                    \
    STORE(X, f32, RAW, NOTHING, narrow_##X)
#define SMALL_AVG_STEPS(X, RAW)                                                                                        \
    LOAD(avg_##X, RAW, f32, NOTHING, widen_##X)                                                                        \
    STORE(avg_##X, f32, RAW, RANKS_SETUP(f32), QUOTIENT_##X)
#define QUOTIENT_bf16(x) quotient_bf16(x, ranks)
#define QUOTIENT_f16(x) quotient_f16(x, ranks)
#define QUOTIENT_f8e4m3(x) quotient_f8e4m3(x, ranks)
#define QUOTIENT_f8e5m2(x) quotient_f8e5m2(x, ranks)
#define SMALL_SCALED_bf16(x) scaled_bf16(x, scalar)
#define SMALL_SCALED_f16(x) scaled_f16(x, scalar)
#define SMALL_SCALED_f8e4m3(x) scaled_f8e4m3(x, scalar)
#define SMALL_SCALED_f8e5m2(x) scaled_f8e5m2(x, scalar)

#define SMALL_PAIR(X, RAW, OP)                                                                                         \
    static inline RAW OP##_##X(RAW a, RAW b)                                                                           \
    {                                                                                                                  \
        return narrow_##X(OP##_f32(widen_##X(a), widen_##X(b)));                                                       \
    }                                                                                                                  \
    PAIR(OP##_##X, RAW, NOTHING, OP##_##X)
#define SMALL_PAIRS(X, RAW)                                                                                            \
    SMALL_PAIR(X, RAW, sum)                                                                                            \
    SMALL_PAIR(X, RAW, prod)                                                                                           \
    SMALL_PAIR(X, RAW, min)                                                                                            \
    SMALL_PAIR(X, RAW, max)                                                                                            \
    SMALL_PAIR(X, RAW, avg)                                                                                            \
    static inline RAW scaled_sum_##X(RAW a, RAW b, f32 scalar)                                                         \
    {                                                                                                                  \
        return narrow_##X(sum_f32(prod_f32(widen_##X(a), scalar), prod_f32(widen_##X(b), scalar)));                    \
    }                                                                                                                  \
    PAIR(premul_##X, RAW, SCALED_SETUP(f32), SMALL_SCALED_SUM_##X)
#define SMALL_SCALED_SUM_f16(x, y) scaled_sum_f16(x, y, scalar)
#define SMALL_SCALED_SUM_f8e4m3(x, y) scaled_sum_f8e4m3(x, y, scalar)
#define SMALL_SCALED_SUM_f8e5m2(x, y) scaled_sum_f8e5m2(x, y, scalar)

static inline f32 avg_f32(f32 a, f32 b)
{
    return sum_f32(a, b) * 0.5f;
}

SMALL_STEPS(f8e4m3, u8)
SMALL_AVG_STEPS(f8e4m3, u8)
SMALL_PAIRS(f8e4m3, u8)
SMALL_STEPS(f8e5m2, u8)
SMALL_AVG_STEPS(f8e5m2, u8)
SMALL_PAIRS(f8e5m2, u8)
#ifdef __F16C__
#include "kernels_f16c.h"
#else
SMALL_STEPS(f16, u16)
SMALL_AVG_STEPS(f16, u16)
SMALL_PAIRS(f16, u16)
#endif

/* bf16 two at a time in a word: both halves become f32 by a shift or a mask and no vector element changes its place. */
static inline f32 low_half(u32 x)
{
    return f32_of_bits(x << 16);
}

static inline f32 high_half(u32 x)
{
    return f32_of_bits(x & 0xffff0000u);
}

/* The rounded bf16 stands in the upper half of the result. x is no NaN but the canonical one. */
static inline u32 rounded_bf16(f32 x)
{
    u32 u = bits_of_f32(x);
    return u + 0x7fffu + ((u >> 16) & 1u);
}

static inline u32 joined_bf16(f32 low, f32 high)
{
    return (rounded_bf16(low) >> 16) | (rounded_bf16(high) & 0xffff0000u);
}

#define BF16_PAIR(OP, SETUP, RESULT)                                                                                   \
    PAIR_BY(EACH, OP##_words, u32, SETUP, RESULT)                                                                      \
    static void pair_##OP##_bf16(const ki_reducer *self, const void *left, const void *right, void *first,             \
                                 void *second, size_t count)                                                           \
    {                                                                                                                  \
        SETUP;                                                                                                         \
        const u16_mem *l = left, *r = right;                                                                           \
        u16_mem *o = first, *o2 = second;                                                                              \
        if (count % 2 == 1) { /* before the words: a destination may be a source */                                    \
            u32 result = RESULT(l[count - 1], r[count - 1]);                                                           \
            o[count - 1] = (u16)result;                                                                                \
            if (o2 != NULL)                                                                                            \
                o2[count - 1] = (u16)result;                                                                           \
        }                                                                                                              \
        pair_##OP##_words(self, left, right, first, second, count / 2);                                                \
    }
#define BF16_SUM(x, y) joined_bf16(sum_f32(low_half(x), low_half(y)), sum_f32(high_half(x), high_half(y)))
#define BF16_PROD(x, y) joined_bf16(prod_f32(low_half(x), low_half(y)), prod_f32(high_half(x), high_half(y)))
#define BF16_MIN(x, y) joined_bf16(min_f32(low_half(x), low_half(y)), min_f32(high_half(x), high_half(y)))
#define BF16_MAX(x, y) joined_bf16(max_f32(low_half(x), low_half(y)), max_f32(high_half(x), high_half(y)))
#define BF16_AVG(x, y) joined_bf16(halved_sum(low_half(x), low_half(y)), halved_sum(high_half(x), high_half(y)))
#define BF16_SCALED_SUM(x, y)                                                                                          \
    joined_bf16(SCALED_SUM_f32(low_half(x), low_half(y)), SCALED_SUM_f32(high_half(x), high_half(y)))
SMALL_STEPS(bf16, u16)

static inline f32 share_of_sum(const ki_reducer *self)
{
    return bf16_share((unsigned)self->order->size);
}

static inline f32 halved_sum(f32 a, f32 b)
{
    return sum_f32(a * 0.5f, b * 0.5f);
}

#define SHARE_SETUP const f32 share = share_of_sum(self)
#define SHARE_bf16(x) (widen_bf16(x) * share)
LOAD(avg_bf16, u16, f32, SHARE_SETUP, SHARE_bf16)
STORE(avg_bf16, f32, u16, const f32 ranks = (f32)self->order->size * share_of_sum(self), QUOTIENT_bf16)
BF16_PAIR(sum, NOTHING, BF16_SUM)
BF16_PAIR(prod, NOTHING, BF16_PROD)
BF16_PAIR(min, NOTHING, BF16_MIN)
BF16_PAIR(max, NOTHING, BF16_MAX)
BF16_PAIR(avg, NOTHING, BF16_AVG)
BF16_PAIR(premul, SCALED_SETUP(f32), BF16_SCALED_SUM)

/* ---- the table ---- */

#define FLOAT_ROWS(T)                                                                                                  \
    {                                                                                                                  \
        [KITH_SUM] = DIRECT_ROW(sum, T, STREAMED(sum_##T)), [KITH_PROD] = DIRECT_ROW(prod, T, NULL),                   \
        [KITH_MIN] = DIRECT_ROW(min, T, NULL), [KITH_MAX] = DIRECT_ROW(max, T, NULL),                                  \
        [KITH_AVG] = { NULL,     combine_sum_##T, store_avg_##T, pair_avg_##T, STREAMED(avg_##T), NARY_ROW(sum, T),    \
                       sizeof(T) },                                                                                    \
        [KI_KERNEL_PREMUL] = {                                                                                         \
            load_premul_##T,                                                                                           \
            combine_sum_##T,                                                                                           \
            NULL,                                                                                                      \
            pair_premul_##T,                                                                                           \
            NULL,                                                                                                      \
            { NULL },                                                                                                  \
            sizeof(T)                                                                                                  \
        }                                                                                                              \
    }

/* S: the type that compares, U: the unsigned type of its width. */
#define INTEGER_ROWS(S, U, WIDE)                                                                                       \
    {                                                                                                                  \
        [KITH_SUM] = DIRECT_ROW(sum, U, NULL), [KITH_PROD] = DIRECT_ROW(prod, U, NULL),                                \
        [KITH_MIN] = DIRECT_ROW(min, S, NULL), [KITH_MAX] = DIRECT_ROW(max, S, NULL),                                  \
        [KITH_AVG] = { load_avg_##S, combine_sum_##WIDE, store_avg_##S, pair_avg_##S, NULL, { NULL }, sizeof(WIDE) },  \
        [KITH_BAND] = DIRECT_ROW(band, U, NULL), [KITH_BOR] = DIRECT_ROW(bor, U, NULL),                                \
        [KITH_BXOR] = DIRECT_ROW(bxor, U, NULL), [KI_KERNEL_PREMUL] = {                                                \
            load_premul_##U,                                                                                           \
            combine_sum_##U,                                                                                           \
            NULL,                                                                                                      \
            pair_premul_##U,                                                                                           \
            NULL,                                                                                                      \
            { NULL },                                                                                                  \
            sizeof(U)                                                                                                  \
        }                                                                                                              \
    }

#define SMALL_ROW(X, OP)                                                                                               \
    {                                                                                                                  \
        load_##X, combine_##OP##_f32, store_##X, pair_##OP##_##X, NULL, { NULL }, sizeof(f32)                          \
    }
#define SMALL_ROWS(X)                                                                                                  \
    {                                                                                                                  \
        [KITH_SUM] = SMALL_ROW(X, sum), [KITH_PROD] = SMALL_ROW(X, prod), [KITH_MIN] = SMALL_ROW(X, min),              \
        [KITH_MAX] = SMALL_ROW(X, max), [KITH_AVG] = { load_avg_##X, combine_sum_f32, store_avg_##X, pair_avg_##X,     \
                                                       NULL,         { NULL },        sizeof(f32) },                   \
        [KI_KERNEL_PREMUL] = {                                                                                         \
            load_premul_##X,                                                                                           \
            combine_sum_f32,                                                                                           \
            store_##X,                                                                                                 \
            pair_premul_##X,                                                                                           \
            NULL,                                                                                                      \
            { NULL },                                                                                                  \
            sizeof(f32)                                                                                                \
        }                                                                                                              \
    }

const ki_kernels KI_TABLE = {
    .isa = KI_ISA_NAME,
    .table = {
        [KITH_INT8] = INTEGER_ROWS(i8, u8, i64),
        [KITH_UINT8] = INTEGER_ROWS(u8, u8, i64),
        [KITH_INT16] = INTEGER_ROWS(i16, u16, i64),
        [KITH_UINT16] = INTEGER_ROWS(u16, u16, i64),
        [KITH_INT32] = INTEGER_ROWS(i32, u32, i64),
        [KITH_UINT32] = INTEGER_ROWS(u32, u32, i64),
        [KITH_INT64] = INTEGER_ROWS(i64, u64, i128),
        [KITH_UINT64] = INTEGER_ROWS(u64, u64, i128),
        [KITH_F16] = SMALL_ROWS(f16),
        [KITH_BF16] = SMALL_ROWS(bf16),
        [KITH_F32] = FLOAT_ROWS(f32),
        [KITH_F64] = FLOAT_ROWS(f64),
        [KITH_F8E4M3] = SMALL_ROWS(f8e4m3),
        [KITH_F8E5M2] = SMALL_ROWS(f8e5m2),
    },
    .copy_stream = copy_stream,
    .fence = fence_stream,
};
