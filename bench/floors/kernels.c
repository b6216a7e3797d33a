/* bench/floors/kernels.c
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "kernels.h"

#include <stdint.h>
#include <string.h>

#if defined(__AVX512F__)
#include <immintrin.h>
#define HAS_STREAM 1
#define LANES 16
typedef __m512 vector;
#define vector_load(p) _mm512_loadu_ps(p)
#define vector_add(a, b) _mm512_add_ps(a, b)
#define vector_stream(p, v) _mm512_stream_ps(p, v)
#elif defined(__AVX__)
#include <immintrin.h>
#define HAS_STREAM 1
#define LANES 8
typedef __m256 vector;
#define vector_load(p) _mm256_loadu_ps(p)
#define vector_add(a, b) _mm256_add_ps(a, b)
#define vector_stream(p, v) _mm256_stream_ps(p, v)
#else
#define HAS_STREAM 0
#endif

static void add_plain(float *dst, const float *a, const float *b, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        dst[i] = a[i] + b[i];
    }
}

static void add_twice_plain(float *restrict first, float *restrict second, const float *a, const float *b, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        float sum = a[i] + b[i];
        first[i] = sum;
        second[i] = sum;
    }
}

#if HAS_STREAM
/* Elements before dst is aligned to a whole vector. */
static size_t head_count(const float *dst, size_t count)
{
    size_t misaligned = ((uintptr_t)dst / sizeof(float)) % LANES;
    size_t head = misaligned != 0 ? LANES - misaligned : 0;
    return head < count ? head : count;
}

static void add_streaming(float *dst, const float *a, const float *b, size_t count)
{
    size_t i = head_count(dst, count);
    add_plain(dst, a, b, i);
    for (; i + LANES <= count; i += LANES) {
        vector_stream(dst + i, vector_add(vector_load(a + i), vector_load(b + i)));
    }
    add_plain(dst + i, a + i, b + i, count - i);
    _mm_sfence();
}

/* Needs first and second with the same alignment. */
static void add_twice_streaming(float *first, float *second, const float *a, const float *b, size_t count)
{
    size_t i = head_count(first, count);
    add_twice_plain(first, second, a, b, i);
    for (; i + LANES <= count; i += LANES) {
        vector sum = vector_add(vector_load(a + i), vector_load(b + i));
        vector_stream(first + i, sum);
        vector_stream(second + i, sum);
    }
    add_twice_plain(first + i, second + i, a + i, b + i, count - i);
    _mm_sfence();
}

static void copy_streaming(float *dst, const float *src, size_t count)
{
    size_t i = head_count(dst, count);
    memcpy(dst, src, i * sizeof(float));
    for (; i + 4 * LANES <= count; i += 4 * LANES) {
        for (size_t k = 0; k < 4 * LANES; k += LANES) {
            vector_stream(dst + i + k, vector_load(src + i + k));
        }
    }
    memcpy(dst + i, src + i, (count - i) * sizeof(float));
    _mm_sfence();
}
#endif

void floor_add(float *dst, const float *a, const float *b, size_t count, bool is_streaming)
{
#if HAS_STREAM
    if (is_streaming) {
        add_streaming(dst, a, b, count);
        return;
    }
#endif
    (void)is_streaming;
    add_plain(dst, a, b, count);
}

void floor_add_twice(float *first, float *second, const float *a, const float *b, size_t count, bool is_streaming)
{
#if HAS_STREAM
    if (is_streaming && ((uintptr_t)first - (uintptr_t)second) % sizeof(vector) == 0) {
        add_twice_streaming(first, second, a, b, count);
        return;
    }
#endif
    (void)is_streaming;
    add_twice_plain(first, second, a, b, count);
}

void floor_copy(void *dst, const void *src, size_t nbytes, bool is_streaming)
{
#if HAS_STREAM
    if (is_streaming && nbytes % sizeof(float) == 0) {
        copy_streaming(dst, src, nbytes / sizeof(float));
        return;
    }
#endif
    (void)is_streaming;
    memcpy(dst, src, nbytes);
}
