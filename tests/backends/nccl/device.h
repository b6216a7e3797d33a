/* tests/backends/nccl/device.h - device memory for tests of the bare module.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef TEST_NCCL_DEVICE_H
#define TEST_NCCL_DEVICE_H

#include "../stub/stub.h"
#include "core/device/cuda/runtime.h"

/* The runtime that KITH_CUDART_LIBRARY names; the program ends without it. */
const ki_cuda *device_cuda(void);

/* stub_device_memory for this process: copies in a stream of the rank's device, which the backend orders itself
 * behind. */
void device_begin(int ordinal);
void device_end(void);

int *device_ints(size_t count, int value);                /* device memory, all of one value */
void device_read(int *to, const int *from, size_t count); /* in the stream, then waits */
void device_free(void *ptr);

#define CUDA(call) CHECK_EQUAL(device_cuda()->call, cudaSuccess)

#endif
