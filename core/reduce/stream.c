/* core/reduce/stream.c - copies that bypass the caches when they are big enough for it to pay.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "kernels.h"
#include <stdatomic.h>
#include <string.h>

/* Below this a copy likely fits into the caches next to what else is in use. */
static _Atomic size_t threshold = (size_t)2 << 20;

size_t ki_stream_threshold(void)
{
    return atomic_load_explicit(&threshold, memory_order_relaxed);
}

void ki_set_stream_threshold(size_t nbytes)
{
    atomic_store_explicit(&threshold, nbytes, memory_order_relaxed);
}

void ki_copy_stream(void *dst, const void *src, size_t nbytes)
{
    if (nbytes == 0 || dst == src) return;
    if (nbytes < ki_stream_threshold()) {
        memcpy(dst, src, nbytes);
        return;
    }
    const ki_kernels *kernels = ki_kernels_get();
    kernels->copy_stream(dst, src, nbytes);
    kernels->fence();
}
