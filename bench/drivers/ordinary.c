/* bench/drivers/ordinary.c
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "ordinary.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool bench_allocate_ordinary(void *self, size_t nbytes, void **send, void **recv)
{
    (void)self;
    if (posix_memalign(send, BENCH_BUFFER_ALIGNMENT, nbytes) != 0 ||
        posix_memalign(recv, BENCH_BUFFER_ALIGNMENT, nbytes) != 0) {
        fprintf(stderr, "bench: no memory for two buffers of %zu bytes\n", nbytes);
        return false;
    }
    memset(*send, 0, nbytes);
    memset(*recv, 0, nbytes);
    return true;
}
