/* tests/conformance/memory.h - where the buffers of a suite lie.
 *
 * On the host, or - KITH_TEST_DEVICE=cuda - on the rank's device. Then each block that a test fills and looks at is a
 * mirror on the host of one that lies there: operations are given memory_at(pointer), memory_push() copies the
 * mirrors to the device before an operation and memory_pull() back after it. Without a device these do nothing, and
 * blocks come from malloc(), so that sanitizers watch them.
 *
 * memory_push() writes every block, so nothing may be under way when it is called.
 *
 * What NCCL carries has no tags and no lengths, and is added in its order: suites ask memory_is_nccl() and leave out,
 * with the reason, what only messages and sums of Kith's own have. What is staged has all of it.
 *
 * Each rank has its own blocks, also when it is a thread.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef CONFORMANCE_MEMORY_H
#define CONFORMANCE_MEMORY_H

#include "harness.h"

/* At the beginning and the end of a suite that uses the rest. */
void memory_begin(const rank_info *info);
void memory_end(void);

bool memory_is_device(void);
/* Blocks lie on a device, and NCCL carries them. */
bool memory_is_nccl(void);
void *memory_alloc(size_t nbytes);
void memory_free(void *mirror);

/* The address that operations take for a pointer into a block; NULL and pointers elsewhere stay what they are. */
void *memory_at(const void *mirror);
void memory_push(void);
void memory_pull(void);

#endif
