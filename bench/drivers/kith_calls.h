/* bench/drivers/kith_calls.h - the operations as calls of the public API.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef BENCH_KITH_CALLS_H
#define BENCH_KITH_CALLS_H

#include "../engine/driver.h"

#include <kith/kith.h>

#define BENCH_KITH_VARIANTS 3

/* Where the buffers of a variant lie. */
typedef enum bench_kith_buffers {
    BENCH_KITH_ORDINARY,  /* malloc */
    BENCH_KITH_MAPPED,    /* kith_mem_alloc() on the group */
    BENCH_KITH_REGISTERED /* malloc, then kith_mem_register() */
} bench_kith_buffers;

typedef struct bench_kith {
    kith_group *group;
    bench_kith_buffers buffers;
} bench_kith;

/* Fills the variants "ordinary", "mapped" and "registered" of a group; selves is their storage. */
void bench_kith_variants(kith_group *group, bench_kith selves[BENCH_KITH_VARIANTS],
                         bench_variant variants[BENCH_KITH_VARIANTS]);

/* All ranks of the group map a new segment. */
bool bench_kith_meet(kith_group *group, bench_segment **segment);

/* Prints what failed and why, on one line of stderr. */
void bench_kith_complain(const char *what, kith_status status);

#endif
