/* tests/simgpu/kernel_sim.h - the simulated side of core/device/cuda/kernel.h: kernels compiled for the host.
 *
 * A .cu file is compiled as C++ with -DKI_SIMGPU into libsimkernels.so, with the files kernel_run.cc and
 * kernel_block.cc. A kernel becomes one exported descriptor under its name. One kernel runs at a time in a process, in
 * the thread of its stream, so what it needs to know lies in one global, ki_sim.
 *
 *   - KI_KERNEL: threads know nothing of each other. They are a loop over blocks and threads around the body, which
 *     the compiler sees through. Calling ki_block_sync() or a shuffle in one is a failure.
 *   - KI_BLOCK_KERNEL: threads of a block meet. Each is a coroutine with a stack of its own; ki_block_sync() and
 *     shuffles switch. Threads that wait for others which have returned, or that meet at two different places, are a
 *     failure.
 *   - An access finds its allocation among a few windows that were found before, compares the shadow cell of each byte
 *     with the one that was seen last, and is done: a few nanoseconds. All else is the slow way, in libsimcudart.so.
 *   - Shared memory starts as 0xff bytes in each block (NaN in every floating type); threads and blocks run in an order
 *     that KITH_SIMGPU_DELAY's seed changes.
 *
 * The cost of a launch is about 5 ns for each thread of the grid, so launch what the work needs, not what fills a GPU.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef SIMGPU_KERNEL_SIM_H
#define SIMGPU_KERNEL_SIM_H

#ifndef __cplusplus
#error "kernels are C++"
#endif

#include "kernel_host.h"
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define KI_SIM_INLINE static inline __attribute__((always_inline))
#define KI_SIM_HIDDEN __attribute__((visibility("hidden")))

/* ---- between kernels and kernel_run.cc, kernel_block.cc ---- */

enum { KI_SIM_WINDOWS = 8 };

/* An allocation that was found, and the last cell of it that was seen and what an access of this kernel made of it: for
 * reads [0] and writes [1]. */
struct ki_sim_window {
    ki_sim_range range;
    uint32_t seen[2], next[2];
};

/* The kernel that runs. */
struct ki_sim_state {
    uint32_t thread[3], block[3];   /* numbers */
    uint32_t threads[3], blocks[3]; /* how many */
    ki_sim_window windows[KI_SIM_WINDOWS];
    const ki_sim_launch *launch;
};

extern KI_SIM_HIDDEN ki_sim_state ki_sim;

/* kernel_run.cc */
KI_SIM_HIDDEN void *ki_sim_access_slow(const void *ptr, size_t nbytes, int is_write);
KI_SIM_HIDDEN void *ki_sim_shared(const void *key, size_t nbytes);
KI_SIM_HIDDEN void *ki_sim_dynamic(void);
KI_SIM_HIDDEN void ki_sim_block_begins(uint32_t number);
/* kernel_block.cc; nbytes <= 16, lane: whose value is wanted */
KI_SIM_HIDDEN void ki_sim_run_blocks(const ki_sim_launch *launch);
KI_SIM_HIDDEN void ki_sim_block_sync(const char *where);
KI_SIM_HIDDEN void ki_sim_warp_exchange(const void *mine, void *theirs, size_t nbytes, uint32_t lane,
                                        const char *where);

template <void (*BODY)(const void *)> static void ki_sim_loop(const ki_sim_launch *launch)
{
    const uint32_t blocks = launch->grid[0] * launch->grid[1] * launch->grid[2]; /* below 2^31, checked at the launch */
    for (uint32_t i = 0; i < blocks; i++) {
        ki_sim_block_begins(i);
        for (uint32_t z = 0; z < launch->block[2]; z++)
            for (uint32_t y = 0; y < launch->block[1]; y++)
                for (uint32_t x = 0; x < launch->block[0]; x++) {
                    ki_sim.thread[0] = x;
                    ki_sim.thread[1] = y;
                    ki_sim.thread[2] = z;
                    BODY(launch->args);
                }
    }
}

/* Kernels of the library, so that they can be counted (cudaLibraryEnumerateKernels). */
struct ki_sim_listed {
    const ki_sim_kernel *kernel;
    const ki_sim_listed *next;
    explicit ki_sim_listed(const ki_sim_kernel *kernel);
};

#define KI_SIM_KERNEL(name, args_type, is_block_kernel, loop)                                                          \
    static inline void name##_body(const args_type &args);                                                             \
    static void name##_thread(const void *args)                                                                        \
    {                                                                                                                  \
        name##_body(*(const args_type *)args);                                                                         \
    }                                                                                                                  \
    extern "C" {                                                                                                       \
    extern __attribute__((visibility("default"))) const ki_sim_kernel name;                                            \
    const ki_sim_kernel name = { KI_SIM_ABI, is_block_kernel, sizeof(args_type), #name, loop, name##_thread };         \
    }                                                                                                                  \
    static const ki_sim_listed name##_listed(&name);                                                                   \
    static inline void name##_body(const args_type &args)

/* NBYTES at ptr; cells are compared two at a time. They are in the state that was seen last, or this kernel has
 * changed them before. */
template <int IS_WRITE, size_t NBYTES> KI_SIM_INLINE void *ki_sim_access(const void *ptr)
{
    static_assert(NBYTES == 1 || NBYTES == 2 || NBYTES == 4 || NBYTES == 8 || NBYTES == 16, "an access of the device");
    constexpr size_t PAIRS = NBYTES == 1 ? 1 : NBYTES / 2;
    const uintptr_t at = (uintptr_t)ptr;
    for (int i = 0; i < KI_SIM_WINDOWS && at % NBYTES == 0; i++) {
        const ki_sim_window &window = ki_sim.windows[i];
        const size_t offset = at - window.range.from;
        if (offset >= window.range.nbytes || offset + NBYTES > window.range.nbytes)
            continue;
        uint32_t *cells = window.range.cells + offset;
        const uint32_t seen = window.seen[IS_WRITE], next = window.next[IS_WRITE];
        if (NBYTES == 1) {
            if (*cells != seen && *cells != next)
                break;
            *cells = next;
            return window.range.alias + offset;
        }
        const uint64_t two_seen = (uint64_t)seen << 32 | seen, two_next = (uint64_t)next << 32 | next;
        uint64_t from_seen = 0, from_next = 0;
        for (size_t j = 0; j < PAIRS; j++) {
            uint64_t two;
            memcpy(&two, cells + 2 * j, sizeof two);
            from_seen |= two ^ two_seen;
            from_next |= two ^ two_next;
        }
        if (from_next == 0)
            return window.range.alias + offset;
        if (from_seen != 0)
            break;
        for (size_t j = 0; j < PAIRS; j++)
            memcpy(cells + 2 * j, &two_next, sizeof two_next);
        return window.range.alias + offset;
    }
    return ki_sim_access_slow(ptr, NBYTES, IS_WRITE);
}

/* ---- what kernels use ---- */

#define KI_KERNEL(name, args_type) KI_SIM_KERNEL(name, args_type, 0, ki_sim_loop<name##_thread>)
#define KI_BLOCK_KERNEL(name, args_type) KI_SIM_KERNEL(name, args_type, 1, ki_sim_run_blocks)

/* A function that kernels call. */
#define KI_DEVICE static inline

/* `type name[count]` of the block; count is a constant. */
#define KI_SHARED(type, name, count)                                                                                   \
    static char name##_key;                                                                                            \
    type *const name = (type *)ki_sim_shared(&name##_key, sizeof(type) * (count))

/* The shared memory that the launch asked for. 16-byte aligned. */
KI_SIM_INLINE void *ki_shared_dynamic(void)
{
    return ki_sim_dynamic();
}

KI_SIM_INLINE uint32_t ki_thread(void) /* threadIdx.x */
{
    return ki_sim.thread[0];
}
KI_SIM_INLINE uint32_t ki_threads(void) /* blockDim.x */
{
    return ki_sim.threads[0];
}
KI_SIM_INLINE uint32_t ki_block(void) /* blockIdx.x */
{
    return ki_sim.block[0];
}
KI_SIM_INLINE uint32_t ki_blocks(void) /* gridDim.x */
{
    return ki_sim.blocks[0];
}
KI_SIM_INLINE uint32_t ki_block_y(void)
{
    return ki_sim.block[1];
}
KI_SIM_INLINE uint32_t ki_blocks_y(void)
{
    return ki_sim.blocks[1];
}
KI_SIM_INLINE uint32_t ki_block_z(void)
{
    return ki_sim.block[2];
}
KI_SIM_INLINE uint32_t ki_blocks_z(void)
{
    return ki_sim.blocks[2];
}
KI_SIM_INLINE int64_t ki_grid_thread(void)
{
    return (int64_t)ki_sim.block[0] * ki_sim.threads[0] + ki_sim.thread[0];
}
KI_SIM_INLINE int64_t ki_grid_threads(void)
{
    return (int64_t)ki_sim.blocks[0] * ki_sim.threads[0];
}

/* T of 1, 2, 4, 8 or 16 bytes, aligned to its size (16: one access of the device). */
template <typename T> KI_SIM_INLINE T ki_load(const T *from)
{
    T value;
    memcpy(&value, ki_sim_access<0, sizeof(T)>(from), sizeof value);
    return value;
}

template <typename T> KI_SIM_INLINE void ki_store(T *to, T value)
{
    memcpy(ki_sim_access<1, sizeof(T)>(to), &value, sizeof value);
}

/* A V of 16 bytes (a struct of 4 floats, of 8 halves) at an address of elements. */
template <typename V, typename T> KI_SIM_INLINE V ki_load16(const T *from)
{
    static_assert(sizeof(V) == 16, "16 bytes");
    V value;
    memcpy(&value, ki_sim_access<0, 16>(from), sizeof value);
    return value;
}

template <typename V, typename T> KI_SIM_INLINE void ki_store16(T *to, V value)
{
    static_assert(sizeof(V) == 16, "16 bytes");
    memcpy(ki_sim_access<1, 16>(to), &value, sizeof value);
}

#define KI_SIM_TEXT2(line) #line
#define KI_SIM_TEXT(line) KI_SIM_TEXT2(line)

/* __syncthreads(); __syncwarp() and __shfl_xor_sync() of a whole warp. */
#define ki_block_sync() ki_sim_block_sync(__FILE__ ":" KI_SIM_TEXT(__LINE__))
#define ki_warp_sync() ki_sim_warp_exchange(nullptr, nullptr, 0, 0, __FILE__ ":" KI_SIM_TEXT(__LINE__))

template <typename T> KI_SIM_INLINE T ki_warp_shuffle_xor(T value, uint32_t mask)
{
    static_assert(sizeof(T) <= 16, "a register or a few");
    T theirs;
    ki_sim_warp_exchange(&value, &theirs, sizeof value, (ki_sim.thread[0] & 31u) ^ mask, "ki_warp_shuffle_xor");
    return theirs;
}

#endif
