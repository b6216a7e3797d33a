/* tests/simgpu/test_kernels.cu - kernels for the simulator's own tests, right ones and wrong ones.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "core/device/cuda/kernel.h"
#include "tests/simgpu/test_kernels.h"

KI_KERNEL(test_add, test_add_args)
{
    for (int64_t i = ki_grid_thread(); i < args.count; i += ki_grid_threads())
        ki_store(args.y + i, ki_load(args.x + i) + args.value);
}

KI_KERNEL(test_add16, test_add_args)
{
    for (int64_t i = ki_grid_thread(); i < args.count / 4; i += ki_grid_threads()) {
        struct four {
            float x[4];
        } v = ki_load16<four>(args.x + 4 * i);
        for (float &x : v.x)
            x += args.value;
        ki_store16(args.y + 4 * i, v);
    }
}

KI_KERNEL(test_bytes, test_bytes_args)
{
    for (int64_t i = ki_grid_thread(); i < args.count; i += ki_grid_threads())
        ki_store(args.y + i, (uint8_t)(ki_load(args.y + i) + 1));
}

/* Passes values over memory again and again: x += 1, `times` times. */
KI_KERNEL(test_again, test_again_args)
{
    for (int time = 0; time < args.times; time++)
        for (int64_t i = ki_grid_thread(); i < args.count; i += ki_grid_threads())
            ki_store(args.x + i, ki_load(args.x + i) + 1.0f);
}

static inline float sum_of_warp(float value)
{
    for (uint32_t mask = 16; mask > 0; mask /= 2)
        value += ki_warp_shuffle_xor(value, mask);
    return value;
}

/* sums[block] = sum of its row of `columns` values */
KI_BLOCK_KERNEL(test_sum, test_sum_args)
{
    KI_SHARED(float, part, 32);
    float sum = 0;
    for (int64_t i = ki_thread(); i < args.columns; i += ki_threads())
        sum += ki_load(args.x + (int64_t)ki_block() * args.columns + i);
    sum = sum_of_warp(sum);
    if (ki_thread() % 32 == 0)
        part[ki_thread() / 32] = sum;
    ki_block_sync();
    if (ki_thread() == 0) {
        for (uint32_t i = 1; i < ki_threads() / 32; i++)
            sum += part[i];
        ki_store(args.sums + ki_block(), sum);
    }
}

/* Reads shared memory that nobody wrote, so NaN comes out. */
KI_BLOCK_KERNEL(test_unwritten, test_sum_args)
{
    KI_SHARED(float, part, 32);
    ki_block_sync();
    if (ki_thread() == 0)
        ki_store(args.sums + ki_block(), part[ki_threads() / 32]);
}

KI_BLOCK_KERNEL(test_two_places, test_sum_args)
{
    if (ki_thread() < 32)
        ki_block_sync();
    else
        ki_block_sync();
    ki_store(args.sums + ki_thread(), 1.0f);
}

KI_BLOCK_KERNEL(test_ends_early, test_sum_args)
{
    if (ki_thread() == 5)
        return;
    ki_block_sync();
    ki_store(args.sums + ki_thread(), 1.0f);
}

KI_BLOCK_KERNEL(test_half_warp, test_sum_args)
{
    float value = 1;
    if (ki_thread() % 32 < 16)
        value = ki_warp_shuffle_xor(value, 1);
    ki_store(args.sums + ki_thread(), value);
}

KI_KERNEL(test_meets_by_mistake, test_sum_args)
{
    ki_block_sync();
    ki_store(args.sums + ki_thread(), 1.0f);
}
