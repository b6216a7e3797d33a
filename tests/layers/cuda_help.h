/* tests/layers/cuda_help.h - what the tests of a GPU's table share: the same call on the host's table and on the
 * device's, with the same numbers, and a comparison of everything that was or was not written.
 *
 * A twin is a matrix of the host and one of the device, with gaps between rows whose bytes must survive. f16, which
 * the host need not have, is f32 there with numbers of f16, and what comes out is rounded before it is compared.
 *
 * Kernels follow the host's order of summation and its arithmetic, so bits are equal where the comment in the .cu
 * file says so. A comparison names what it may not be:
 *
 *   CUDA_SAME    the same bits, always
 *   CUDA_FUSED   the same bits where the host's loops have fused multiply-adds, else `units` roundings
 *   CUDA_LIBM    as CUDA_FUSED on the simulated GPU; on a real one, `units` roundings: its libm is another
 *   CUDA_NEAR    `units` roundings: sums in another order
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef TESTS_LAYERS_CUDA_HELP_H
#define TESTS_LAYERS_CUDA_HELP_H

#include "core/device/module.h"
#include "layers/compute/compute.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

typedef struct twin {
    ki_mat host, device;
} twin;

typedef struct twin_ids {
    int32_t *host, *device;
    int64_t count;
} twin_ids;

typedef enum cuda_exactness { CUDA_SAME, CUDA_FUSED, CUDA_LIBM, CUDA_NEAR } cuda_exactness;

/* One type and shape. gap: elements between rows; 0 and multiples of 8 allow 16-byte accesses, 3 does not. */
typedef struct cuda_case {
    ki_compute *host, *gpu;
    kith_dtype dtype, wide; /* T and A(T), of the device */
    int64_t rows, cols, gap;
} cuda_case;

/* Opens the module, a device and both tables; skips the program where there is none. Group set-up and teardown. */
int cuda_setup(void **state);
int cuda_teardown(void **state);

/* The module's table, and the last sentence that it failed with. */
const ki_device_ops *cuda_module(void);
const char *cuda_sentence(void);
/* A table of the module by itself: only opened, not asked for a device. NULL when it is not built. */
const ki_device_ops *cuda_open_module(void);

/* Runs check for f32, f64, bf16 and f16, for shapes around the widths of accesses, warps and blocks and without rows or
 * columns, with each gap. */
void cuda_everywhere(void (*check)(const cuda_case *c));
void cuda_shape(int64_t rows, int64_t cols, int64_t gap, void (*check)(const cuda_case *c));

/* Matrices are freed after the check. */
twin twin_random(const cuda_case *c, kith_dtype dtype, int64_t rows, int64_t cols, double deviation);
twin twin_zeros(const cuda_case *c, kith_dtype dtype, int64_t rows, int64_t cols);
twin twin_none(void);
/* The same numbers, elsewhere. */
twin twin_copy(const cuda_case *c, twin t);
/* Writes an element of both. */
void twin_set(twin t, int64_t row, int64_t col, double value);
double twin_host_at(twin t, int64_t row, int64_t col);

/* Numbers in [low, high). */
twin_ids ids_random(int64_t count, int64_t low, int64_t high);
twin_ids ids_of(int64_t count, const int32_t *ids);
void ids_same(const cuda_case *c, const char *what, twin_ids ids);

/* Both must be KITH_OK. */
void cuda_both(const cuda_case *c, const char *what, kith_status host, kith_status gpu);
/* Compares all elements, and that gaps are as they were. */
void cuda_compare(const cuda_case *c, const char *what, twin got, cuda_exactness exactness, double units);

/* A function of either table. */
#define HOST(c, function, ...) (c)->host->ops->function((c)->host, __VA_ARGS__)
#define GPU(c, function, ...) (c)->gpu->ops->function((c)->gpu, __VA_ARGS__)

/* Random 32-bit word. */
uint32_t cuda_word(void);

#endif
