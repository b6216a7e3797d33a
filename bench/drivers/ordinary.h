/* bench/drivers/ordinary.h - buffers as a program gets them from malloc: page-aligned, touched, private.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef BENCH_ORDINARY_H
#define BENCH_ORDINARY_H

#include "../engine/driver.h"

#define BENCH_BUFFER_ALIGNMENT 4096

/* For bench_variant.allocate; self is not used. */
bool bench_allocate_ordinary(void *self, size_t nbytes, void **send, void **recv);

#endif
