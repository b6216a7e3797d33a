/* tests/simgpu/kernel_host.h - what libsimkernels.so and libsimcudart.so ask of each other.
 *
 * libsimcudart.so opens the kernels' library, finds a kernel's descriptor under its name, and calls ki_sim_run_v1() in
 * the thread of a stream, holding the lock of all shadow cells.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef SIMGPU_KERNEL_HOST_H
#define SIMGPU_KERNEL_HOST_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { KI_SIM_ABI = 1 };

typedef struct ki_sim_launch ki_sim_launch;

typedef struct ki_sim_kernel {
    uint32_t abi;
    uint32_t is_block; /* its threads meet */
    size_t args_nbytes;
    const char *name;
    void (*loop)(const ki_sim_launch *launch); /* all threads */
    void (*thread)(const void *args);          /* one thread */
} ki_sim_kernel;

struct ki_sim_launch {
    const ki_sim_kernel *kernel;
    const void *args;
    uint32_t grid[3], block[3];
    size_t shared_nbytes; /* dynamic */
    uint64_t seed;        /* of the order of blocks and threads; 0: as numbered */
};

/* One allocation: where the program sees it, where it lies, and its cells. */
typedef struct ki_sim_range {
    uintptr_t from;
    size_t nbytes;
    char *alias;
    uint32_t *cells;
} ki_sim_range;

typedef void (*ki_sim_run_fn)(const ki_sim_launch *launch);
#define KI_SIM_RUN "ki_sim_run_v1"

/* The library's kernels by number, NULL after the last. */
typedef const ki_sim_kernel *(*ki_sim_kernel_at_fn)(unsigned number);
#define KI_SIM_KERNEL_AT "ki_sim_kernel_at_v1"

/* ---- in libsimcudart.so, for a kernel that runs ---- */

/* The allocation in which [ptr, ptr + nbytes) lies, for the running kernel; 1 after a failure. */
__attribute__((visibility("default"))) int sim_kernel_range(const void *ptr, size_t nbytes, int is_write,
                                                            ki_sim_range *range);
/* Notes an access to nbytes cells and says what the first one was and became. */
__attribute__((visibility("default"))) void sim_kernel_touch(const ki_sim_range *range, size_t offset, size_t nbytes,
                                                             int is_write, uint32_t *seen, uint32_t *next);
__attribute__((visibility("default"))) void sim_kernel_fail(const char *format, ...)
    __attribute__((format(printf, 1, 2)));

#ifdef __cplusplus
}
#endif
#endif
