/* core/device/cuda/reduce/reduce.cu - the steps of reductions on a GPU: load, combine and store of core/reduce/reduce.h,
 * for every dtype and built-in operator, in the arithmetic that the host's loops have (core/reduce/elements.h). Results
 * have the host's bits.
 *
 * One kernel for each dtype. Buffers that begin at 16-byte boundaries go in accesses of 16 bytes. Elements may have any
 * alignment, as on the host: those that lie badly are taken byte by byte.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "core/device/cuda/kernel.h"

#include "args.h"
#include "core/device/module.h"
#include "core/reduce/elements.h"

/* ---- memory ---- */

template <class T> struct memory {
    KI_DEVICE bool is_aligned(const void *base)
    {
        return ((uintptr_t)base & (sizeof(T) - 1)) == 0;
    }

    KI_DEVICE T get(const void *base, int64_t i)
    {
        const T *from = (const T *)base + i;
        if (is_aligned(base))
            return ki_load(from);
        uint64_t bits = 0;
        for (unsigned k = 0; k < sizeof(T); k++)
            bits |= (uint64_t)ki_load((const uint8_t *)from + k) << (8 * k);
        T value;
        memcpy(&value, &bits, sizeof value);
        return value;
    }

    KI_DEVICE void put(void *base, int64_t i, T value)
    {
        T *to = (T *)base + i;
        if (is_aligned(base)) {
            ki_store(to, value);
            return;
        }
        uint64_t bits = 0;
        memcpy(&bits, &value, sizeof value);
        for (unsigned k = 0; k < sizeof(T); k++)
            ki_store((uint8_t *)to + k, (uint8_t)(bits >> (8 * k)));
    }
};

/* 128 bits are two words, the low one first. */
template <> struct memory<i128> {
    KI_DEVICE i128 get(const void *base, int64_t i)
    {
        const u64 low = memory<u64>::get(base, 2 * i), high = memory<u64>::get(base, 2 * i + 1);
        return (i128)(((u128)high << 64) | (u128)low);
    }

    KI_DEVICE void put(void *base, int64_t i, i128 value)
    {
        memory<u64>::put(base, 2 * i, (u64)(u128)value);
        memory<u64>::put(base, 2 * i + 1, (u64)((u128)value >> 64));
    }
};

/* ---- 16 bytes at a time ---- */

#ifdef __CUDACC__
#define UNROLLED _Pragma("unroll")
#else
#define UNROLLED
#endif

template <class T> struct alignas(16) pack {
    T v[16 / sizeof(T)];
};

KI_DEVICE bool is_wide(const void *base)
{
    return ((uintptr_t)base & 15) == 0;
}

/* N elements from i on, where N of them are a multiple of 16 bytes that begins at a 16-byte boundary. */
template <class T, int N> KI_DEVICE void get_wide(const void *base, int64_t i, T *to)
{
    enum { W = 16 / sizeof(T) };
    UNROLLED for (int k = 0; k < N / W; k++) {
        const pack<T> p = ki_load16<pack<T>>((const T *)base + i + k * W);
        UNROLLED for (int j = 0; j < W; j++) to[k * W + j] = p.v[j];
    }
}

template <class T, int N> KI_DEVICE void put_wide(void *base, int64_t i, const T *from)
{
    enum { W = 16 / sizeof(T) };
    UNROLLED for (int k = 0; k < N / W; k++) {
        pack<T> p;
        UNROLLED for (int j = 0; j < W; j++) p.v[j] = from[k * W + j];
        ki_store16((T *)base + i + k * W, p);
    }
}

/* Elements of 16 bytes of the narrower of two types. */
template <class A, class B> struct chunk {
    enum { N = 16 / (sizeof(A) < sizeof(B) ? sizeof(A) : sizeof(B)) };
};

/* out[i] = VALUE of x and y, which are a[i] and b[i]: chunks where all of them lie well, the rest one by one. */
#define EACH1(FROM, TO, VALUE)                                                                                         \
    {                                                                                                                  \
        enum { N = chunk<FROM, TO>::N };                                                                               \
        const int64_t chunks = is_wide(args.a) && is_wide(args.out) ? args.count / N : 0;                              \
        for (int64_t c = ki_grid_thread(); c < chunks; c += ki_grid_threads()) {                                       \
            FROM from[N];                                                                                              \
            TO to[N];                                                                                                  \
            get_wide<FROM, N>(args.a, c * N, from);                                                                    \
            UNROLLED for (int j = 0; j < N; j++)                                                                       \
            {                                                                                                          \
                const FROM x = from[j];                                                                                \
                to[j] = (VALUE);                                                                                       \
            }                                                                                                          \
            put_wide<TO, N>(args.out, c * N, to);                                                                      \
        }                                                                                                              \
        for (int64_t i = chunks * N + ki_grid_thread(); i < args.count; i += ki_grid_threads()) {                      \
            const FROM x = memory<FROM>::get(args.a, i);                                                               \
            memory<TO>::put(args.out, i, (VALUE));                                                                     \
        }                                                                                                              \
    }
#define EACH2(T, VALUE)                                                                                                \
    {                                                                                                                  \
        enum { N = 16 / sizeof(T) };                                                                                   \
        const bool lies_well = is_wide(args.a) && is_wide(args.b) && is_wide(args.out);                                \
        const int64_t chunks = lies_well ? args.count / N : 0;                                                         \
        for (int64_t c = ki_grid_thread(); c < chunks; c += ki_grid_threads()) {                                       \
            T left[N], right[N];                                                                                       \
            get_wide<T, N>(args.a, c * N, left);                                                                       \
            get_wide<T, N>(args.b, c * N, right);                                                                      \
            UNROLLED for (int j = 0; j < N; j++)                                                                       \
            {                                                                                                          \
                const T x = left[j], y = right[j];                                                                     \
                left[j] = (VALUE);                                                                                     \
            }                                                                                                          \
            put_wide<T, N>(args.out, c * N, left);                                                                     \
        }                                                                                                              \
        for (int64_t i = chunks * N + ki_grid_thread(); i < args.count; i += ki_grid_threads()) {                      \
            const T x = memory<T>::get(args.a, i), y = memory<T>::get(args.b, i);                                      \
            memory<T>::put(args.out, i, (VALUE));                                                                      \
        }                                                                                                              \
    }

/* ---- floats: f32 and f64 by themselves, the small ones through f32 ---- */

#define FLOAT_COMBINE(T)                                                                                               \
    switch (args.op) {                                                                                                 \
    case KITH_PROD:                                                                                                    \
        EACH2(T, prod_##T(x, y))                                                                                       \
        break;                                                                                                         \
    case KITH_MIN:                                                                                                     \
        EACH2(T, min_##T(x, y))                                                                                        \
        break;                                                                                                         \
    case KITH_MAX:                                                                                                     \
        EACH2(T, max_##T(x, y))                                                                                        \
        break;                                                                                                         \
    default:                                                                                                           \
        EACH2(T, sum_##T(x, y))                                                                                        \
        break;                                                                                                         \
    }

#define FLOAT_KERNEL(T)                                                                                                \
    KI_KERNEL(ki_reduce_##T, ki_reduce_args)                                                                           \
    {                                                                                                                  \
        const T scalar = (T)args.scalar, ranks = (T)args.ranks;                                                        \
        if (args.step == KI_DEVICE_COMBINE) {                                                                          \
            FLOAT_COMBINE(T)                                                                                           \
        } else if (args.step == KI_DEVICE_LOAD && args.op == KI_DEVICE_PREMUL) {                                       \
            EACH1(T, T, prod_##T(x, scalar))                                                                           \
        } else if (args.step == KI_DEVICE_STORE && args.op == KITH_AVG) {                                              \
            EACH1(T, T, x / ranks)                                                                                     \
        } else {                                                                                                       \
            EACH1(T, T, x)                                                                                             \
        }                                                                                                              \
    }
FLOAT_KERNEL(f32)
FLOAT_KERNEL(f64)

/* SHARE: what contributions to an average are multiplied by. */
#define SMALL_KERNEL(X, RAW, SHARE)                                                                                    \
    KI_KERNEL(ki_reduce_##X, ki_reduce_args)                                                                           \
    {                                                                                                                  \
        const f32 scalar = (f32)args.scalar, share = SHARE, ranks = (f32)args.ranks * share;                           \
        if (args.step == KI_DEVICE_COMBINE) {                                                                          \
            FLOAT_COMBINE(f32)                                                                                         \
        } else if (args.step == KI_DEVICE_LOAD && args.op == KI_DEVICE_PREMUL) {                                       \
            EACH1(RAW, f32, prod_f32(widen_##X(x), scalar))                                                            \
        } else if (args.step == KI_DEVICE_LOAD && args.op == KITH_AVG) {                                               \
            EACH1(RAW, f32, widen_##X(x) * share)                                                                      \
        } else if (args.step == KI_DEVICE_LOAD) {                                                                      \
            EACH1(RAW, f32, widen_##X(x))                                                                              \
        } else if (args.op == KITH_AVG) {                                                                              \
            EACH1(f32, RAW, narrow_##X(x / ranks))                                                                     \
        } else {                                                                                                       \
            EACH1(f32, RAW, narrow_##X(x))                                                                             \
        }                                                                                                              \
    }
SMALL_KERNEL(f16, u16, 1.0f)
SMALL_KERNEL(bf16, u16, bf16_share((unsigned)args.ranks))
SMALL_KERNEL(f8e4m3, u8, 1.0f)
SMALL_KERNEL(f8e5m2, u8, 1.0f)

/* ---- integers ---- */

/* S: the type that compares, U: the unsigned type of its width, WIDE: that of exact sums. */
#define INTEGER_KERNEL(NAME, S, U, WIDE)                                                                               \
    KI_KERNEL(ki_reduce_##NAME, ki_reduce_args)                                                                        \
    {                                                                                                                  \
        const U scalar = (U)args.int_scalar;                                                                           \
        const WIDE ranks = (WIDE)args.ranks;                                                                           \
        if (args.step == KI_DEVICE_LOAD) {                                                                             \
            if (args.op == KITH_AVG) {                                                                                 \
                EACH1(S, WIDE, (WIDE)x)                                                                                \
            } else if (args.op == KI_DEVICE_PREMUL) {                                                                  \
                EACH1(U, U, prod_##U(x, scalar))                                                                       \
            } else {                                                                                                   \
                EACH1(U, U, x)                                                                                         \
            }                                                                                                          \
            return;                                                                                                    \
        }                                                                                                              \
        if (args.step == KI_DEVICE_STORE) {                                                                            \
            if (args.op == KITH_AVG) {                                                                                 \
                EACH1(WIDE, S, (S)(x / ranks))                                                                         \
            } else {                                                                                                   \
                EACH1(U, U, x)                                                                                         \
            }                                                                                                          \
            return;                                                                                                    \
        }                                                                                                              \
        switch (args.op) {                                                                                             \
        case KITH_PROD:                                                                                                \
            EACH2(U, prod_##U(x, y))                                                                                   \
            break;                                                                                                     \
        case KITH_MIN:                                                                                                 \
            EACH2(S, min_##S(x, y))                                                                                    \
            break;                                                                                                     \
        case KITH_MAX:                                                                                                 \
            EACH2(S, max_##S(x, y))                                                                                    \
            break;                                                                                                     \
        case KITH_AVG:                                                                                                 \
            EACH2(WIDE, sum_##WIDE(x, y))                                                                              \
            break;                                                                                                     \
        case KITH_BAND:                                                                                                \
            EACH2(U, band_##U(x, y))                                                                                   \
            break;                                                                                                     \
        case KITH_BOR:                                                                                                 \
            EACH2(U, bor_##U(x, y))                                                                                    \
            break;                                                                                                     \
        case KITH_BXOR:                                                                                                \
            EACH2(U, bxor_##U(x, y))                                                                                   \
            break;                                                                                                     \
        default:                                                                                                       \
            EACH2(U, sum_##U(x, y))                                                                                    \
            break;                                                                                                     \
        }                                                                                                              \
    }
INTEGER_KERNEL(int8, i8, u8, i64)
INTEGER_KERNEL(uint8, u8, u8, i64)
INTEGER_KERNEL(int16, i16, u16, i64)
INTEGER_KERNEL(uint16, u16, u16, i64)
INTEGER_KERNEL(int32, i32, u32, i64)
INTEGER_KERNEL(uint32, u32, u32, i64)
INTEGER_KERNEL(int64, i64, u64, i128)
INTEGER_KERNEL(uint64, u64, u64, i128)
