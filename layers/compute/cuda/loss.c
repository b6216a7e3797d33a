/* layers/compute/cuda/loss.c - the table's cross entropy and softmax (loss.cu).
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "launch.h"
#include <assert.h>

static ki_kernel row_max_kernel = { .in = KI_IN_LOSS, .name = "row_max", .suffix = KI_TYPED };
static ki_kernel loss_sums_kernel = { .in = KI_IN_LOSS, .name = "loss_sums", .suffix = KI_TYPED };
static ki_kernel losses_kernel = { .in = KI_IN_LOSS, .name = "losses", .suffix = KI_TYPED };
static ki_kernel loss_grad_kernel = { .in = KI_IN_LOSS, .name = "loss_grad", .suffix = KI_TYPED };
static ki_kernel softmax_kernel = { .in = KI_IN_LOSS, .name = "softmax", .suffix = KI_TYPED };
static ki_kernel softmax_grad_kernel = { .in = KI_IN_LOSS, .name = "softmax_grad", .suffix = KI_TYPED };

static kith_status launch_rows(ki_compute *self, ki_kernel *kernel, kith_dtype dtype, int64_t rows, int count,
                               const ki_mat *sums, const void *args)
{
    kith_status status = ki_storage_of(dtype) < 0 ? ki_refuse(kernel->name, dtype)
                                                  : ki_expect(kernel->name, ki_accumulator_of(dtype), count, sums);
    return status != KITH_OK ? status
                             : ki_launch(ki_device_of(self), kernel, dtype, dtype, ki_grid_of_rows(rows), args);
}

static kith_status row_max(ki_compute *self, ki_mat x, ki_mat max)
{
    const ki_rows_args args = { x, max };
    return launch_rows(self, &row_max_kernel, x.dtype, x.rows, 1, &max, &args);
}

static kith_status loss_sums(ki_compute *self, ki_mat logits, const int32_t *targets, int64_t first, ki_mat max,
                             ki_mat sums)
{
    const ki_loss_sums_args args = { logits, max, sums, targets, first };
    assert((sums.cols == 2 || sums.cols == 3) && sums.rows == logits.rows);
    return launch_rows(self, &loss_sums_kernel, logits.dtype, logits.rows, 2, (const ki_mat[]){ max, sums }, &args);
}

static kith_status losses(ki_compute *self, ki_mat sums, const int32_t *targets, int32_t ignored, double smoothing,
                          int64_t vocabulary, ki_mat losses)
{
    const ki_losses_args args = {
        .sums = sums,
        .losses = losses,
        .targets = targets,
        .ignored = ignored,
        .has_smoothing = smoothing != 0,
        .of_target = 1 - smoothing,
        .of_all = smoothing / (double)vocabulary,
    };
    assert((sums.cols == 3 || (sums.cols == 2 && smoothing == 0)) && sums.rows == losses.rows);
    const kith_status status = ki_expect("losses", sums.dtype, 1, &losses);
    return status != KITH_OK
               ? status
               : ki_launch(ki_device_of(self), &losses_kernel, sums.dtype, sums.dtype, ki_grid_of(losses.rows), &args);
}

static kith_status loss_grad(ki_compute *self, ki_mat logits, const int32_t *targets, int64_t first, int32_t ignored,
                             double smoothing, int64_t vocabulary, double scale, ki_mat max, ki_mat sums,
                             ki_mat dlogits)
{
    const kith_dtype dtype = logits.dtype;
    const ki_loss_grad_args args = {
        .logits = logits,
        .max = max,
        .sums = sums,
        .dlogits = dlogits,
        .targets = targets,
        .first = first,
        .ignored = ignored,
        .scale = scale,
        .of_target = scale * (1 - smoothing),
        .of_all = scale * smoothing / (double)vocabulary,
    };
    assert(dlogits.rows == logits.rows && dlogits.cols == logits.cols && sums.rows == logits.rows);
    kith_status status = ki_expect("loss_grad", dtype, 1, &dlogits);
    if (status == KITH_OK)
        status = ki_expect("loss_grad", ki_accumulator_of(dtype), 2, (const ki_mat[]){ max, sums });
    return status != KITH_OK ? status
                             : ki_launch(ki_device_of(self), &loss_grad_kernel, dtype, dtype,
                                         ki_grid_of_chunks(dlogits, ki_chunk_of(dtype, dtype)), &args);
}

static kith_status softmax(ki_compute *self, ki_mat x, ki_mat y)
{
    const ki_rows_args args = { x, y };
    assert(x.rows == y.rows && x.cols == y.cols);
    return launch_rows(self, &softmax_kernel, x.dtype, x.cols > 0 ? x.rows : 0, 1, &y, &args);
}

static kith_status softmax_grad(ki_compute *self, ki_mat y, ki_mat dy, ki_mat dx)
{
    const ki_softmax_grad_args args = { y, dy, dx };
    assert(y.rows == dy.rows && y.cols == dy.cols && dx.rows == dy.rows && dx.cols == dy.cols);
    return launch_rows(self, &softmax_grad_kernel, dx.dtype, y.cols > 0 ? y.rows : 0, 2, (const ki_mat[]){ y, dy },
                       &args);
}

void ki_fill_losses(ki_compute_ops *ops)
{
    ops->row_max = row_max;
    ops->loss_sums = loss_sums;
    ops->losses = losses;
    ops->loss_grad = loss_grad;
    ops->softmax = softmax;
    ops->softmax_grad = softmax_grad;
}
