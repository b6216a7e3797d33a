/* core/reduce/kernels_stream.h - streaming (non-temporal) stores: they write whole cache lines without reading them
 * first and without displacing others, which pays when the destination is large and not read soon by this core.
 *
 * They need aligned addresses: what lies before the first whole line and after the last is stored the ordinary way.
 * Whoever streams calls the table's fence() once before it tells anybody that the data is there.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_REDUCE_KERNELS_STREAM_H
#define KI_REDUCE_KERNELS_STREAM_H

#include "kernels_ops.h"
#include <string.h>

#ifdef __x86_64__
#include <immintrin.h>

#if defined(__AVX512F__)
typedef __m512i vector;
#define LOAD_VECTOR(p) _mm512_loadu_si512(p)
#define STREAM_VECTOR(p, v) _mm512_stream_si512((void *)(p), v)
#elif defined(__AVX2__)
typedef __m256i vector;
#define LOAD_VECTOR(p) _mm256_loadu_si256((const __m256i *)(p))
#define STREAM_VECTOR(p, v) _mm256_stream_si256((__m256i *)(p), v)
#else
typedef __m128i vector;
#define LOAD_VECTOR(p) _mm_loadu_si128((const __m128i *)(p))
#define STREAM_VECTOR(p, v) _mm_stream_si128((__m128i *)(p), v)
#endif

#define LINE_NBYTES 64 /* of the cache; a multiple of every vector */

static void fence_stream(void)
{
    _mm_sfence();
}

/* Bytes from p to the next line. */
static inline size_t to_line(const void *p)
{
    return (size_t)(-(uintptr_t)p & (LINE_NBYTES - 1));
}

static void copy_stream(void *dst, const void *src, size_t nbytes)
{
    unsigned char *d = dst;
    const unsigned char *s = src;
    size_t head = to_line(d);
    if (head > nbytes) head = nbytes;
    memcpy(d, s, head);
    size_t done = head;
    for (; nbytes - done >= LINE_NBYTES; done += LINE_NBYTES) {
        for (size_t k = 0; k < LINE_NBYTES; k += sizeof(vector))
            STREAM_VECTOR(d + done + k, LOAD_VECTOR(s + done + k));
    }
    memcpy(d + done, s + done, nbytes - done);
}

/* sum and avg of two ranks in one pass. Both destinations are whole elements away from a line's begin, and equally far
 * (the caller has looked). The elements outside of whole lines are left to the ordinary loop. */
#define STREAM_PAIR(NAME, T, BITS, NAN_BITS, FACTOR)                                                                   \
    static inline vector stream_value_##NAME(const T##_mem *left, const T##_mem *right)                                \
    {                                                                                                                  \
        typedef T lanes __attribute__((vector_size(sizeof(vector))));                                                  \
        typedef BITS lane_bits __attribute__((vector_size(sizeof(vector))));                                           \
        lanes sum = (lanes)LOAD_VECTOR(left) + (lanes)LOAD_VECTOR(right);                                              \
        lane_bits is_nan = (lane_bits)(sum != sum);                                                                    \
        lane_bits bits = ((lane_bits)(sum * FACTOR) & ~is_nan) | (is_nan & NAN_BITS);                                  \
        return (vector)bits;                                                                                           \
    }                                                                                                                  \
    static void stream_##NAME(const ki_reducer *self, const void *left, const void *right, void *first, void *second,  \
                              size_t count)                                                                            \
    {                                                                                                                  \
        const T##_mem *l = left, *r = right;                                                                           \
        T##_mem *o = first, *o2 = second;                                                                              \
        size_t i = to_line(first) / sizeof(T) < count ? to_line(first) / sizeof(T) : count;                            \
        pair_##NAME(self, l, r, o, o2, i);                                                                             \
        for (; count - i >= LINE_NBYTES / sizeof(T); i += LINE_NBYTES / sizeof(T)) {                                   \
            for (size_t k = 0; k < LINE_NBYTES / sizeof(T); k += sizeof(vector) / sizeof(T)) {                         \
                vector value = stream_value_##NAME(l + i + k, r + i + k);                                              \
                STREAM_VECTOR(o + i + k, value);                                                                       \
                if (o2 != NULL) STREAM_VECTOR(o2 + i + k, value);                                                      \
            }                                                                                                          \
        }                                                                                                              \
        pair_##NAME(self, l + i, r + i, o + i, o2 != NULL ? o2 + i : NULL, count - i);                                 \
    }
#define STREAM_PAIRS                                                                                                   \
    STREAM_PAIR(sum_f32, f32, i32, 0x7fc00000, 1)                                                                      \
    STREAM_PAIR(avg_f32, f32, i32, 0x7fc00000, 0.5f)                                                                   \
    STREAM_PAIR(sum_f64, f64, i64, 0x7ff8000000000000, 1)                                                              \
    STREAM_PAIR(avg_f64, f64, i64, 0x7ff8000000000000, 0.5)
#define STREAMED(NAME) stream_##NAME

#else

#define STREAM_PAIRS
#define STREAMED(NAME) NULL

static void fence_stream(void)
{
}

static void copy_stream(void *dst, const void *src, size_t nbytes)
{
    memcpy(dst, src, nbytes);
}

#endif

#endif
