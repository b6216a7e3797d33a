/* tests/simgpu/test_kernels.h - arguments of the kernels of test_kernels.cu.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef SIMGPU_TEST_KERNELS_H
#define SIMGPU_TEST_KERNELS_H

#include <stdint.h>

typedef struct test_add_args {
    const float *x;
    float *y;
    int64_t count;
    float value;
} test_add_args;

typedef struct test_bytes_args {
    uint8_t *y;
    int64_t count;
} test_bytes_args;

typedef struct test_again_args {
    float *x;
    int64_t count;
    int times;
} test_again_args;

typedef struct test_sum_args {
    const float *x;
    float *sums;
    int64_t columns;
} test_sum_args;

#endif
