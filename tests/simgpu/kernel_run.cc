/* tests/simgpu/kernel_run.cc - runs a kernel: the slow way of an access, shared memory, and the order of blocks.
 *
 * Compiled into each library of kernels.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "kernel_sim.h"
#include <string.h>

ki_sim_state ki_sim;

/* ---- accesses ---- */

static int next_window;
static char sink[16]; /* where an access goes that failed */

static ki_sim_window *window_of(const void *ptr, size_t nbytes, int is_write)
{
    for (ki_sim_window &window : ki_sim.windows) {
        const size_t offset = (uintptr_t)ptr - window.range.from;
        if (offset < window.range.nbytes && offset + nbytes <= window.range.nbytes)
            return &window;
    }
    ki_sim_range range;
    if (sim_kernel_range(ptr, nbytes, is_write, &range))
        return nullptr;
    ki_sim_window *window = &ki_sim.windows[next_window];
    next_window = (next_window + 1) % KI_SIM_WINDOWS;
    window->range = range;
    for (int i = 0; i < 2; i++)
        window->seen[i] = window->next[i] = UINT32_MAX; /* no state has this number */
    return window;
}

void *ki_sim_access_slow(const void *ptr, size_t nbytes, int is_write)
{
    if ((uintptr_t)ptr % nbytes != 0) {
        sim_kernel_fail("%p is not aligned to the %zu bytes of an access", ptr, nbytes);
        return sink;
    }
    ki_sim_window *window = window_of(ptr, nbytes, is_write);
    if (window == nullptr)
        return sink;
    const size_t offset = (uintptr_t)ptr - window->range.from;
    sim_kernel_touch(&window->range, offset, nbytes, is_write, &window->seen[is_write], &window->next[is_write]);
    return window->range.alias + offset;
}

/* ---- shared memory: arrays in the order in which a block first comes to them ---- */

enum { SHARED_NBYTES = 48 << 10, DYNAMIC_NBYTES = 227 << 10, MAX_ARRAYS = 64 };

static struct {
    const void *key;
    size_t offset;
} arrays[MAX_ARRAYS];
static int array_count;
static size_t shared_used, shared_dirty;
alignas(16) static char shared[SHARED_NBYTES + 16], dynamic_shared[DYNAMIC_NBYTES];

void *ki_sim_shared(const void *key, size_t nbytes)
{
    for (int i = 0; i < array_count; i++)
        if (arrays[i].key == key)
            return shared + arrays[i].offset;
    const size_t offset = (shared_used + 15) / 16 * 16;
    if (offset + nbytes > SHARED_NBYTES || array_count == MAX_ARRAYS) {
        sim_kernel_fail("more than %d bytes of shared memory, or than %d arrays", (int)SHARED_NBYTES, (int)MAX_ARRAYS);
        return shared; /* of a kernel that does not fit; tests of the simulator alone come here */
    }
    arrays[array_count].key = key;
    arrays[array_count++].offset = offset;
    shared_used = offset + nbytes;
    if (shared_used > shared_dirty)
        shared_dirty = shared_used;
    return shared + offset;
}

void *ki_sim_dynamic(void)
{
    return dynamic_shared;
}

/* ---- blocks ---- */

void ki_sim_block_begins(uint32_t number)
{
    const ki_sim_launch *launch = ki_sim.launch;
    const uint32_t blocks = launch->grid[0] * launch->grid[1] * launch->grid[2];
    const uint32_t first = (uint32_t)(launch->seed % blocks);
    const uint32_t block = number < blocks - first ? number + first : number - (blocks - first);
    ki_sim.block[0] = block % launch->grid[0];
    ki_sim.block[1] = block / launch->grid[0] % launch->grid[1];
    ki_sim.block[2] = block / launch->grid[0] / launch->grid[1];
    memset(shared, 0xff, shared_dirty);
    if (launch->shared_nbytes > 0)
        memset(dynamic_shared, 0xff, launch->shared_nbytes);
}

static const ki_sim_listed *listed; /* filled while the library is loaded */

ki_sim_listed::ki_sim_listed(const ki_sim_kernel *of) : kernel(of), next(listed)
{
    listed = this;
}

extern "C" __attribute__((visibility("default"))) const ki_sim_kernel *ki_sim_kernel_at_v1(unsigned number);

const ki_sim_kernel *ki_sim_kernel_at_v1(unsigned number)
{
    const ki_sim_listed *one = listed;
    for (; one != NULL && number > 0; number--)
        one = one->next;
    return one == NULL ? NULL : one->kernel;
}

extern "C" __attribute__((visibility("default"))) void ki_sim_run_v1(const ki_sim_launch *launch);

void ki_sim_run_v1(const ki_sim_launch *launch)
{
    memset(&ki_sim, 0, sizeof ki_sim);
    memset(shared, 0xff, shared_dirty);
    memcpy(ki_sim.threads, launch->block, sizeof ki_sim.threads);
    memcpy(ki_sim.blocks, launch->grid, sizeof ki_sim.blocks);
    ki_sim.launch = launch;
    array_count = 0;
    shared_used = shared_dirty = 0;
    next_window = 0;
    launch->kernel->loop(launch);
}
