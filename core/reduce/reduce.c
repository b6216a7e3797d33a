/* core/reduce/reduce.c - a reduction over all contributions: which loop runs, and the evaluation of any order in
 * blocks.
 *
 * Three ways to the same bits, fastest first:
 *   1. two ranks: one pass over both contributions (kernel->pair);
 *   2. three to eight ranks in the flat order whose accumulator is the element: one pass over all (kernel->nary);
 *   3. everything else: the order's stack program over blocks that stay in the first-level cache. A stack entry is a
 *      contribution itself where loading is a copy, else a slot of the scratch memory.
 *
 * Scratch memory is a fixed array on the stack: nothing is allocated, and blocks get shorter as the program needs more
 * slots. A destination may be a source: the results of a block are written after the last contribution to it was read,
 * or element by element in the last operation.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "../base/error.h"
#include "kernels.h"
#include <math.h>
#include <string.h>

#define SCRATCH_NBYTES 32768
#define SLOT_NBYTES_MOST 4096 /* a block of one accumulator: several fit into a 32 KiB cache */
#define DEPTH_MOST 72         /* 2^31 ranks on two levels need fewer */

/* ---- user-defined operators ---- */

static void user_combine(const ki_reducer *self, const void *left, const void *right, void *out, size_t count)
{
    const ki_op *op = self->op;
    size_t nbytes = self->base.nbytes;
    if (out != left) {
        if (out != right) memcpy(out, right, count * nbytes);
        op->fn(left, out, count, self->dtype, op->arg);
        return;
    }
    /* The function overwrites its right operand, and here the result belongs into the left one. */
    unsigned char block[SLOT_NBYTES_MOST] __attribute__((aligned(64)));
    for (size_t begin = 0, some; begin < count; begin += some) {
        some = sizeof block / nbytes < count - begin ? sizeof block / nbytes : count - begin;
        memcpy(block, (const unsigned char *)right + begin * nbytes, some * nbytes);
        op->fn((const unsigned char *)left + begin * nbytes, block, some, self->dtype, op->arg);
        memcpy((unsigned char *)out + begin * nbytes, block, some * nbytes);
    }
}

static void user_pair(const ki_reducer *self, const void *left, const void *right, void *first, void *second,
                      size_t count)
{
    user_combine(self, left, right, first, count);
    if (second != NULL) memcpy(second, first, count * self->base.nbytes);
}

#define USER_KERNEL(nbytes)                                                                                            \
    {                                                                                                                  \
        NULL, user_combine, NULL, user_pair, NULL, { NULL }, nbytes                                                    \
    }

static const ki_kernel *user_kernel(size_t nbytes)
{
    static const ki_kernel kernels[] = { USER_KERNEL(1), USER_KERNEL(2), USER_KERNEL(4), USER_KERNEL(8) };
    return &kernels[__builtin_ctzl(nbytes)];
}

/* ---- blocks ---- */

/* One call of reduce(), cut into blocks. */
typedef struct block_job {
    const ki_reducer *self;
    const void *const *src;
    int src_count;
    size_t slot_nbytes;
    unsigned char *scratch; /* slots of the program's stack */
} block_job;

static inline const void *at(const void *base, size_t nbytes)
{
    return (const unsigned char *)base + nbytes;
}

/* Runs the order's program over count elements from begin on. last: where the last merge shall write, NULL for a slot
 * of the scratch memory. Returns where the result stands. */
static const void *run_program(const block_job *job, size_t begin, size_t count, void *last)
{
    const ki_reducer *self = job->self;
    const ki_order *order = self->order;
    const void *stack[DEPTH_MOST];
    int top = 0;
    for (int i = 0; i < order->length; i++) {
        int rank = order->program[i];
        if (rank >= 0) {
            const void *raw = at(job->src[rank], begin * self->base.nbytes);
            void *slot = job->scratch + (size_t)top * job->slot_nbytes;
            if (self->kernel->load != NULL) self->kernel->load(self, raw, slot, count);
            stack[top++] = self->kernel->load != NULL ? slot : raw;
            continue;
        }
        top--;
        void *out = job->scratch + (size_t)(top - 1) * job->slot_nbytes;
        if (last != NULL && i == order->length - 1) out = last;
        self->kernel->combine(self, stack[top - 1], stack[top], out, count);
        stack[top - 1] = out;
    }
    return stack[0];
}

static bool has_nary(const ki_reducer *self, int src_count)
{
    return src_count >= KI_NARY_FIRST && src_count <= KI_NARY_LAST && self->order->is_flat &&
           self->kernel->nary[src_count - KI_NARY_FIRST] != NULL;
}

/* dst = the reduction of count elements from begin on. */
static void reduce_block(const block_job *job, size_t begin, size_t count, void *dst)
{
    const ki_reducer *self = job->self;
    const ki_kernel *kernel = self->kernel;
    size_t offset = begin * self->base.nbytes;
    const void *result = dst;
    if (job->src_count == 1 && self->op->builtin != KI_OP_PREMUL_SUM) {
        memmove(dst, at(job->src[0], offset), count * self->base.nbytes);
        return; /* one contribution is its own sum, and its own average */
    }
    if (job->src_count == 2) {
        kernel->pair(self, at(job->src[0], offset), at(job->src[1], offset), dst, NULL, count);
        return;
    }
    if (has_nary(self, job->src_count)) {
        const void *src[KI_NARY_LAST];
        for (int r = 0; r < job->src_count; r++)
            src[r] = at(job->src[r], offset);
        kernel->nary[job->src_count - KI_NARY_FIRST](src, dst, count);
    } else {
        result = run_program(job, begin, count, kernel->acc_nbytes == self->base.nbytes ? dst : NULL);
    }
    if (kernel->store != NULL)
        kernel->store(self, result, dst, count);
    else if (result != dst)
        memcpy(dst, result, count * self->base.nbytes);
}

/* Slots: the stack's, and one for the block's result when that is then streamed to the destinations. */
static void reduce_blocks(const ki_reducer *self, const void *const *src, int src_count, void *const *dst,
                          int dst_count, size_t count, bool is_streaming)
{
    unsigned char scratch[SCRATCH_NBYTES] __attribute__((aligned(64)));
    size_t nbytes = self->base.nbytes;
    size_t slots = (src_count > 2 ? (size_t)self->order->depth : 1) + 1;
    size_t slot_nbytes = SCRATCH_NBYTES / slots / 64 * 64;
    if (slot_nbytes > SLOT_NBYTES_MOST) slot_nbytes = SLOT_NBYTES_MOST;
    size_t most = slot_nbytes / (self->kernel->acc_nbytes > nbytes ? self->kernel->acc_nbytes : nbytes);
    block_job job = { self, src, src_count, slot_nbytes, scratch + slot_nbytes };
    for (size_t begin = 0, some; begin < count; begin += some) {
        some = most < count - begin ? most : count - begin;
        void *first = is_streaming ? (void *)scratch : (unsigned char *)dst[0] + begin * nbytes;
        reduce_block(&job, begin, some, first);
        for (int k = is_streaming ? 0 : 1; k < dst_count; k++) {
            void *other = (unsigned char *)dst[k] + begin * nbytes;
            if (is_streaming)
                self->kernels->copy_stream(other, first, some * nbytes);
            else
                memcpy(other, first, some * nbytes);
        }
    }
    if (is_streaming) self->kernels->fence();
}

/* Whole elements lead to the begin of a cache line, as many in each destination. Else results go through a block. */
static bool can_stream(void *const *dst, int dst_count, size_t nbytes)
{
    uintptr_t first = (uintptr_t)dst[0], last = (uintptr_t)dst[dst_count - 1];
    return first % nbytes == 0 && (first ^ last) % 64 == 0;
}

static void reduce(const kith_be_reducer *base, const void *const *src, int src_count, void *const *dst, int dst_count,
                   size_t count, unsigned flags)
{
    const ki_reducer *self = (const ki_reducer *)base;
    const ki_kernel *kernel = self->kernel;
    bool is_streaming = (flags & KITH_BE_REDUCE_STREAM) != 0;
    if (__builtin_expect(src_count == 2 && dst_count <= 2 && dst_count > 0, 1)) {
        void *second = dst_count == 2 ? dst[1] : NULL;
        if (!is_streaming) {
            kernel->pair(self, src[0], src[1], dst[0], second, count);
            return;
        }
        if (kernel->pair_stream != NULL && can_stream(dst, dst_count, self->base.nbytes)) {
            kernel->pair_stream(self, src[0], src[1], dst[0], second, count);
            self->kernels->fence();
            return;
        }
    }
    if (dst_count > 0 && count > 0) reduce_blocks(self, src, src_count, dst, dst_count, count, is_streaming);
}

/* ---- what algorithms use ---- */

static void copy_raw(const ki_reducer *self, const void *from, void *to, size_t count)
{
    if (from != to && count > 0) memmove(to, from, count * self->base.nbytes);
}

/* A whole number that passed ki_op_check() as the bits of a 64-bit integer. */
static int64_t scalar_bits(double scalar)
{
    return scalar < 0x1p63 ? (int64_t)scalar : (int64_t)(uint64_t)scalar;
}

static bool is_float(kith_dtype dtype)
{
    return dtype >= KITH_F16;
}

void ki_reducer_init(ki_reducer *reducer, kith_dtype dtype, const ki_op *op, const ki_order *order)
{
    const ki_kernels *kernels = ki_kernels_get();
    size_t nbytes = kith_dtype_nbytes(dtype);
    const ki_kernel *kernel = op->builtin == KI_OP_USER         ? user_kernel(nbytes)
                              : op->builtin == KI_OP_PREMUL_SUM ? &kernels->table[dtype][KI_KERNEL_PREMUL]
                                                                : &kernels->table[dtype][op->builtin];
    *reducer = (ki_reducer){
        .base = { .reduce = reduce,
                  .nbytes = nbytes,
                  .is_commutative = op->builtin != KI_OP_USER || op->is_commutative },
        .acc_nbytes = kernel->acc_nbytes,
        .is_identity = kernel->load == NULL && kernel->store == NULL,
        .load = kernel->load != NULL ? kernel->load : copy_raw,
        .combine = kernel->combine,
        .store = kernel->store != NULL ? kernel->store : copy_raw,
        .kernels = kernels,
        .kernel = kernel,
        .order = order,
        .op = op,
        .dtype = dtype,
    };
    if (op->builtin == KI_OP_PREMUL_SUM) {
        reducer->base.scalar = op->scalar;
        if (!is_float(dtype)) reducer->base.int_scalar = scalar_bits(op->scalar);
    }
}

/* Is scalar a whole number in the range of the integer dtype? */
static bool holds(kith_dtype dtype, double scalar)
{
    bool is_signed = dtype == KITH_INT8 || dtype == KITH_INT16 || dtype == KITH_INT32 || dtype == KITH_INT64;
    int bits = (int)(8 * kith_dtype_nbytes(dtype)) - (is_signed ? 1 : 0);
    double end = ldexp(1.0, bits);
    return scalar == floor(scalar) && scalar < end && scalar >= (is_signed ? -end : 0.0);
}

kith_status ki_op_check(const ki_op *op, kith_dtype dtype)
{
    if (kith_dtype_nbytes(dtype) == 0)
        return ki_fail(KITH_ERR_INVALID_ARG, "dtype %d is unknown; valid are 0 to %d", (int)dtype,
                       KITH_DTYPE_COUNT - 1);
    if (op->builtin == KI_OP_USER)
        return op->fn != NULL ? KITH_OK : ki_fail(KITH_ERR_INVALID_ARG, "operator %s has no function", op->name);
    if (op->builtin == KI_OP_PREMUL_SUM) {
        if (is_float(dtype) || holds(dtype, op->scalar)) return KITH_OK;
        return ki_fail(KITH_ERR_INVALID_ARG, "premul_sum of %s needs a whole scalar that %s holds, not %.17g",
                       kith_dtype_name(dtype), kith_dtype_name(dtype), op->scalar);
    }
    if (kith_op_is_defined(op->builtin, dtype)) return KITH_OK;
    if (op->builtin < 0 || op->builtin >= KITH_OP_BUILTIN_COUNT)
        return ki_fail(KITH_ERR_INVALID_ARG, "operator %d is unknown", op->builtin);
    return ki_fail(KITH_ERR_INVALID_ARG, "operator %s is not defined on %s: it needs an integer dtype", op->name,
                   kith_dtype_name(dtype));
}
