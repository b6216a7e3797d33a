/* tests/simgpu/kernel_block.cc - blocks whose threads meet: each thread is a coroutine with a stack of its own.
 *
 * The threads of a warp run one after the other, each until it meets others or ends; then comes the next warp. When all
 * 32 of a warp wait in a shuffle, their values are exchanged and they go on; when all of the block wait in
 * ki_block_sync(), all go on. When neither can happen the kernel is wrong, and the sentence says how.
 *
 * Switching stacks is a dozen instructions on x86-64 and swapcontext() elsewhere. AddressSanitizer and ThreadSanitizer
 * are told of every switch.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "kernel_sim.h"
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#ifndef __x86_64__
#include <ucontext.h>
#endif

#if defined(__SANITIZE_ADDRESS__)
#define WITH_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define WITH_ASAN 1
#endif
#endif
#if defined(__SANITIZE_THREAD__)
#define WITH_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define WITH_TSAN 1
#endif
#endif
#ifdef WITH_ASAN
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef WITH_TSAN
#include <sanitizer/tsan_interface.h>
#endif

enum { MAX_THREADS = 1024, WARP = 32, STACK_NBYTES = 256 << 10 };

enum thread_state { READY, IN_BLOCK, IN_WARP, ENDED };

struct context {
#ifdef __x86_64__
    void *stack_pointer;
#else
    ucontext_t machine;
#endif
    void *fake_stack; /* AddressSanitizer's */
    void *fiber;      /* ThreadSanitizer's */
};

struct gpu_thread {
    context own;
    char *stack;
    uint32_t number[3];
    thread_state state;
    const char *where; /* it waits; for sentences */
    const void *mine;  /* in a shuffle: its value, where the other's is wanted, and whose */
    void *theirs;
    size_t nbytes;
    uint32_t lane;
};

static gpu_thread threads[MAX_THREADS];
static context scheduler;
#ifdef WITH_ASAN
static const void *scheduler_bottom; /* of its stack */
static size_t scheduler_nbytes;
#endif
static uint32_t count, current;
static bool is_block_kernel; /* runs now */

/* ---- switching ---- */

#ifdef __x86_64__
extern "C" KI_SIM_HIDDEN void ki_sim_switch(void **save, void *load);
__asm__(".text\n"
        ".globl ki_sim_switch\n"
        ".hidden ki_sim_switch\n"
        ".type ki_sim_switch, @function\n"
        "ki_sim_switch:\n"
        "pushq %rbp\n"
        "pushq %rbx\n"
        "pushq %r12\n"
        "pushq %r13\n"
        "pushq %r14\n"
        "pushq %r15\n"
        "movq %rsp, (%rdi)\n"
        "movq %rsi, %rsp\n"
        "popq %r15\n"
        "popq %r14\n"
        "popq %r13\n"
        "popq %r12\n"
        "popq %rbx\n"
        "popq %rbp\n"
        "ret\n"
        ".size ki_sim_switch, . - ki_sim_switch\n");
#endif

static void jump(context *from, context *to)
{
#ifdef WITH_TSAN
    __tsan_switch_to_fiber(to->fiber, 0);
#endif
#ifdef __x86_64__
    ki_sim_switch(&from->stack_pointer, to->stack_pointer);
#else
    swapcontext(&from->machine, &to->machine);
#endif
}

/* From a thread to the scheduler; for_ever: the thread has ended. */
static void to_scheduler(gpu_thread *thread, bool for_ever)
{
#ifdef WITH_ASAN
    __sanitizer_start_switch_fiber(for_ever ? nullptr : &thread->own.fake_stack, scheduler_bottom, scheduler_nbytes);
#endif
    (void)for_ever;
    jump(&thread->own, &scheduler);
#ifdef WITH_ASAN
    __sanitizer_finish_switch_fiber(thread->own.fake_stack, &scheduler_bottom, &scheduler_nbytes);
#endif
}

static void to_thread(uint32_t number)
{
    gpu_thread *thread = &threads[number];
    current = number;
    memcpy(ki_sim.thread, thread->number, sizeof ki_sim.thread);
#ifdef WITH_ASAN
    __sanitizer_start_switch_fiber(&scheduler.fake_stack, thread->stack, STACK_NBYTES);
#endif
    jump(&scheduler, &thread->own);
#ifdef WITH_ASAN
    __sanitizer_finish_switch_fiber(scheduler.fake_stack, nullptr, nullptr);
#endif
}

/* The first function on a thread's stack. */
static void thread_main(void)
{
    gpu_thread *thread = &threads[current];
#ifdef WITH_ASAN
    __sanitizer_finish_switch_fiber(nullptr, &scheduler_bottom, &scheduler_nbytes);
#endif
    ki_sim.launch->kernel->thread(ki_sim.launch->args);
    thread->state = ENDED;
    to_scheduler(thread, true);
    abort(); /* nobody comes back */
}

static void prepare(gpu_thread *thread)
{
    if (thread->stack == nullptr) {
        void *stack =
            mmap(nullptr, STACK_NBYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (stack == MAP_FAILED) {
            fprintf(stderr, "simgpu: no memory for the stack of a thread of a block\n");
            abort();
        }
        thread->stack = (char *)stack;
#ifdef WITH_TSAN
        thread->own.fiber = __tsan_create_fiber(0);
#endif
    }
    const uint32_t number = (uint32_t)(thread - threads);
    thread->number[0] = number % ki_sim.threads[0];
    thread->number[1] = number / ki_sim.threads[0] % ki_sim.threads[1];
    thread->number[2] = number / ki_sim.threads[0] / ki_sim.threads[1];
    thread->state = READY;
#ifdef __x86_64__
    /* What ki_sim_switch() takes from a stack: six registers, and where to return to. Tops lie at different lines of
     * their pages, or all would meet in one set of the cache. */
    void **top = (void **)(thread->stack + STACK_NBYTES - 64 - number % 32 * 128);
    memset(top - 6, 0, 6 * sizeof *top);
    void (*entry)(void) = thread_main;
    memcpy(top, &entry, sizeof entry);
    thread->own.stack_pointer = top - 6;
#else
    getcontext(&thread->own.machine);
    thread->own.machine.uc_stack.ss_sp = thread->stack;
    thread->own.machine.uc_stack.ss_size = STACK_NBYTES;
    thread->own.machine.uc_link = nullptr;
    makecontext(&thread->own.machine, thread_main, 0);
#endif
}

/* ---- meeting ---- */

static gpu_thread *wait_as(thread_state state, const char *where)
{
    if (!is_block_kernel) {
        sim_kernel_fail("%s: threads of a KI_KERNEL do not meet; KI_BLOCK_KERNEL is for those", where);
        return nullptr;
    }
    gpu_thread *thread = &threads[current];
    thread->state = state;
    thread->where = where;
    return thread;
}

void ki_sim_block_sync(const char *where)
{
    gpu_thread *thread = wait_as(IN_BLOCK, where);
    if (thread != nullptr)
        to_scheduler(thread, false);
}

void ki_sim_warp_exchange(const void *mine, void *theirs, size_t nbytes, uint32_t lane, const char *where)
{
    gpu_thread *thread = wait_as(IN_WARP, where);
    if (thread == nullptr) {
        if (nbytes > 0)
            memcpy(theirs, mine, nbytes);
        return;
    }
    thread->mine = mine;
    thread->theirs = theirs;
    thread->nbytes = nbytes;
    thread->lane = lane;
    to_scheduler(thread, false);
}

/* ---- the scheduler ---- */

/* True when all 32 wait in a shuffle of the same size; they are ready then. */
static bool exchange(uint32_t first)
{
    gpu_thread *warp = threads + first;
    for (int i = 0; i < WARP; i++)
        if (warp[i].state != IN_WARP || warp[i].nbytes != warp[0].nbytes)
            return false;
    for (int i = 0; i < WARP; i++) {
        if (warp[i].nbytes > 0)
            memcpy(warp[i].theirs, warp[warp[i].lane % WARP].mine, warp[i].nbytes);
        warp[i].state = READY;
    }
    return true;
}

static void run_warp(uint32_t first, uint32_t turn)
{
    do {
        for (uint32_t i = 0; i < WARP; i++) {
            const uint32_t number = first + (i + turn) % WARP;
            if (threads[number].state == READY)
                to_thread(number);
        }
    } while (exchange(first));
}

static uint32_t how_many(thread_state state)
{
    uint32_t many = 0;
    for (uint32_t i = 0; i < count; i++)
        many += threads[i].state == state;
    return many;
}

/* All wait for the block at one place: they are ready then. Else false, after a sentence. */
static bool release_block(void)
{
    const char *where = nullptr;
    for (uint32_t i = 0; i < count; i++) {
        const gpu_thread *thread = &threads[i];
        if (thread->state == IN_WARP) {
            sim_kernel_fail("thread %u of a block waits for its warp at %s, and others of the warp are not there", i,
                            thread->where);
            return false;
        }
        if (thread->state == IN_BLOCK && where == nullptr)
            where = thread->where;
        if (thread->state == IN_BLOCK && strcmp(thread->where, where) != 0) {
            sim_kernel_fail("threads of one block wait at two places, %s and %s", where, thread->where);
            return false;
        }
    }
    if (how_many(ENDED) > 0) {
        sim_kernel_fail("threads of a block wait at %s, and %u of %u have ended without", where, how_many(ENDED),
                        count);
        return false;
    }
    for (uint32_t i = 0; i < count; i++)
        threads[i].state = READY;
    return true;
}

/* False after a sentence: the rest of the block is given up. */
static bool run_block(const ki_sim_launch *launch)
{
    const uint32_t warps = count / WARP, turn = (uint32_t)(launch->seed >> 32);
    for (uint32_t i = 0; i < count; i++)
        prepare(&threads[i]);
    for (;;) {
        for (uint32_t i = 0; i < warps; i++)
            run_warp((i + turn) % warps * WARP, turn >> 8);
        if (how_many(ENDED) == count)
            return true;
        if (!release_block())
            return false;
    }
}

void ki_sim_run_blocks(const ki_sim_launch *launch)
{
    const uint32_t blocks = launch->grid[0] * launch->grid[1] * launch->grid[2];
    count = launch->block[0] * launch->block[1] * launch->block[2];
    if (count % WARP != 0) {
        sim_kernel_fail("blocks of %u threads: a KI_BLOCK_KERNEL wants a multiple of %d", count, (int)WARP);
        return;
    }
#ifdef WITH_TSAN
    scheduler.fiber = __tsan_get_current_fiber();
#endif
    is_block_kernel = true;
    for (uint32_t i = 0; i < blocks; i++) {
        ki_sim_block_begins(i);
        if (!run_block(launch))
            break;
    }
    is_block_kernel = false;
}
