/* core/device/cuda/kernel.h - how kernels are written, so that nvcc and a host compiler read the same source.
 *
 *     typedef struct scale_args { float *y; int64_t count; float alpha; } scale_args;
 *     KI_KERNEL(ki_scale_f32, scale_args)                       // the struct is `args` in the body
 *     {
 *         for (int64_t i = ki_grid_thread(); i < args.count; i += ki_grid_threads())
 *             ki_store(args.y + i, args.alpha * ki_load(args.y + i));
 *     }
 *
 * A kernel takes one struct by value and has a C name. Its threads are independent (KI_KERNEL), or work together
 * through what is marked "block kernels" below (KI_BLOCK_KERNEL). Blocks are ranges of threads in x, of a multiple of
 * 32 in block kernels, at most KI_MAX_THREADS; grids have x and y.
 *
 * It touches global memory through ki_load() and ki_store() (one element: 1, 2, 4 or 8 bytes) and ki_load16() and
 * ki_store16() (16 bytes at a 16-byte boundary) alone, and shared memory through KI_SHARED. nvcc turns these into plain
 * accesses and instructions. The simulated GPU of the tests (KI_SIMGPU) compiles the same file for the host: there an
 * access is looked up among the live allocations, noted for the race detector, and goes to where the simulated memory
 * really lies. Kernels of independent threads run there as plain loops, block kernels as coroutines which switch where
 * threads meet. Pointers in args are addresses of the device: to add to them is fine, to follow them is not.
 *
 * All threads of a block must reach a ki_block_sync() together, all 32 of a warp a ki_warp_...().
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_DEVICE_CUDA_KERNEL_H
#define KI_DEVICE_CUDA_KERNEL_H

#include <stdint.h>
#include <string.h>

#define KI_WARP 32
#define KI_MAX_THREADS 256

#ifdef KI_SIMGPU

#include "tests/simgpu/kernel_sim.h" /* gives all that stands below for nvcc */

#ifndef ki_warp_sync
#define ki_warp_sync() ((void)ki_warp_shuffle_xor<uint32_t>(0u, 1u))
#endif

#else

#define KI_DEVICE static __device__ __forceinline__

/* Two blocks of a multiprocessor leave a thread 128 registers; without saying so, ptxas stops at 64 and spills. */
#define KI_KERNEL(name, args_type)                                                                                     \
    extern "C" __global__ void __launch_bounds__(KI_MAX_THREADS, 2) name(const __grid_constant__ args_type args)
#define KI_BLOCK_KERNEL(name, args_type) KI_KERNEL(name, args_type)

/* An array of shared memory, of the block, not initialised; inside a function of a block kernel. */
#define KI_SHARED(type, name, count) __shared__ __align__(16) type name[count]

/* ---- where a thread is: its number in the block and the block's size, the block's number and their number ---- */

KI_DEVICE uint32_t ki_thread(void)
{
    return threadIdx.x;
}

KI_DEVICE uint32_t ki_threads(void)
{
    return blockDim.x;
}

KI_DEVICE uint32_t ki_block(void)
{
    return blockIdx.x;
}

KI_DEVICE uint32_t ki_blocks(void)
{
    return gridDim.x;
}

KI_DEVICE uint32_t ki_block_y(void)
{
    return blockIdx.y;
}

KI_DEVICE uint32_t ki_blocks_y(void)
{
    return gridDim.y;
}

/* The thread's number in the grid's x, and how many there are. */
KI_DEVICE int64_t ki_grid_thread(void)
{
    return (int64_t)ki_block() * ki_threads() + ki_thread();
}

KI_DEVICE int64_t ki_grid_threads(void)
{
    return (int64_t)ki_blocks() * ki_threads();
}

/* ---- global memory ---- */

template <class T> KI_DEVICE T ki_load(const T *from)
{
    return *from;
}

template <class T> KI_DEVICE void ki_store(T *to, T value)
{
    *to = value;
}

/* A struct of 16 bytes at a 16-byte boundary: ki_load16<V>(elements). */
template <class V, class T> KI_DEVICE V ki_load16(const T *from)
{
    static_assert(sizeof(V) == 16, "16 bytes");
    union room {
        uint4 words;
        V value;
        __device__ room()
        {
        }
    } r;
    r.words = *(const uint4 *)from;
    return r.value;
}

/* In PTX: written plainly, the compiler takes it apart into words where it does not see that they may go together. */
template <class V, class T> KI_DEVICE void ki_store16(T *to, V value)
{
    static_assert(sizeof(V) == 16, "16 bytes");
    uint32_t w[4];
    memcpy(w, &value, sizeof w);
    asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};"
                 :
                 : "l"(__cvta_generic_to_global(to)), "r"(w[0]), "r"(w[1]), "r"(w[2]), "r"(w[3])
                 : "memory");
}

/* ---- block kernels ---- */

/* Threads of the block meet: what was written to memory before is seen after. */
KI_DEVICE void ki_block_sync(void)
{
    __syncthreads();
}

/* The same for the 32 threads of a warp. */
KI_DEVICE void ki_warp_sync(void)
{
    __syncwarp();
}

/* The value of the thread whose number in the warp differs by `mask`: int, unsigned, float, double, int64_t. */
template <class T> KI_DEVICE T ki_warp_shuffle_xor(T value, uint32_t mask)
{
    return __shfl_xor_sync(0xffffffffu, value, (int)mask);
}

#endif
#endif
