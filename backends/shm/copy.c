/* backends/shm/copy.c - copying, with streaming stores where they win.
 *
 * A buffer much larger than the cache is written around it: the lines need not be read first, and what the cache holds
 * stays there. Below that size it is the other way round, the reader finds the lines in the shared cache.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "internal.h"
#if defined(__x86_64__)
#include <emmintrin.h>
#endif

#if defined(__x86_64__)
static void copy_streaming(unsigned char *to, const unsigned char *from, size_t nbytes)
{
    size_t head = (size_t)(-(uintptr_t)to) & 63;
    head = shm_min(head, nbytes);
    memcpy(to, from, head);
    size_t at = head;
    for (; at + 64 <= nbytes; at += 64) {
        __builtin_prefetch(from + at + 512);
        __m128i a = _mm_loadu_si128((const __m128i *)(const void *)(from + at));
        __m128i b = _mm_loadu_si128((const __m128i *)(const void *)(from + at + 16));
        __m128i c = _mm_loadu_si128((const __m128i *)(const void *)(from + at + 32));
        __m128i d = _mm_loadu_si128((const __m128i *)(const void *)(from + at + 48));
        _mm_stream_si128((__m128i *)(void *)(to + at), a);
        _mm_stream_si128((__m128i *)(void *)(to + at + 16), b);
        _mm_stream_si128((__m128i *)(void *)(to + at + 32), c);
        _mm_stream_si128((__m128i *)(void *)(to + at + 48), d);
    }
    memcpy(to + at, from + at, nbytes - at);
    _mm_sfence();
}
#endif

void shm_copy(const shm_group *group, void *to, const void *from, size_t nbytes, size_t total_nbytes)
{
#if defined(__x86_64__)
    if (total_nbytes >= group->stream_nbytes) {
        copy_streaming(to, from, nbytes);
        return;
    }
#else
    (void)group;
    (void)total_nbytes;
#endif
    if (nbytes != 0)
        memcpy(to, from, nbytes);
}
