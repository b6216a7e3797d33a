/* layers/compute/cuda/elements.c - the table's fill, copy, add, scale and biases (elements.cu).
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "launch.h"
#include <assert.h>

static ki_kernel fill_kernel = { .in = KI_IN_ELEMENTS, .name = "fill", .suffix = KI_TYPED };
static ki_kernel copy_kernel = { .in = KI_IN_ELEMENTS, .name = "copy", .suffix = KI_MIXED };
static ki_kernel add_kernel = { .in = KI_IN_ELEMENTS, .name = "add", .suffix = KI_MIXED };
static ki_kernel scale_kernel = { .in = KI_IN_ELEMENTS, .name = "scale", .suffix = KI_TYPED };
static ki_kernel bias_add_kernel = { .in = KI_IN_ELEMENTS, .name = "bias_add", .suffix = KI_TYPED };
static ki_kernel group_sums_kernel = { .in = KI_IN_ELEMENTS, .name = "group_sums", .suffix = KI_TYPED };
static ki_kernel carry_sums_kernel = { .in = KI_IN_ELEMENTS, .name = "carry_sums", .suffix = KI_TYPED };

static ki_grid chunks(ki_mat m, kith_dtype narrowest)
{
    return ki_grid_of_chunks(m, ki_chunk_of(narrowest, narrowest));
}

static kith_status fill(ki_compute *self, ki_mat y, double value)
{
    ki_flatten(1, (ki_mat *const[]){ &y });
    const ki_fill_args args = { y, value };
    return ki_launch(ki_device_of(self), &fill_kernel, y.dtype, y.dtype, chunks(y, y.dtype), &args);
}

static kith_status launch_pair(ki_compute *self, ki_kernel *kernel, double alpha, ki_mat x, ki_mat y)
{
    assert(x.rows == y.rows && x.cols == y.cols);
    ki_flatten(2, (ki_mat *const[]){ &x, &y });
    const ki_pair_args args = { x, y, alpha };
    return ki_launch(ki_device_of(self), kernel, x.dtype, y.dtype, ki_grid_of_chunks(y, ki_chunk_of(x.dtype, y.dtype)),
                     &args);
}

static kith_status copy(ki_compute *self, ki_mat x, ki_mat y)
{
    return launch_pair(self, &copy_kernel, 1, x, y);
}

static kith_status add(ki_compute *self, double alpha, ki_mat x, ki_mat y)
{
    return launch_pair(self, &add_kernel, alpha, x, y);
}

static kith_status scale(ki_compute *self, double alpha, ki_mat y)
{
    ki_flatten(1, (ki_mat *const[]){ &y });
    const ki_scale_args args = { y, alpha };
    return ki_launch(ki_device_of(self), &scale_kernel, y.dtype, y.dtype, chunks(y, y.dtype), &args);
}

static kith_status bias_add(ki_compute *self, ki_mat bias, ki_mat y)
{
    assert(bias.cols == y.cols);
    const ki_bias_args args = { bias, y };
    const kith_status status = ki_expect("bias_add", y.dtype, 1, &bias);
    return status != KITH_OK
               ? status
               : ki_launch(ki_device_of(self), &bias_add_kernel, y.dtype, y.dtype, chunks(y, y.dtype), &args);
}

kith_status ki_add_groups(ki_device_compute *self, ki_mat sums, ki_mat grad)
{
    const ki_carry_args args = { sums, grad };
    return ki_launch(self, &carry_sums_kernel, grad.dtype, grad.dtype, ki_grid_of(grad.cols), &args);
}

int64_t ki_groups_of(int64_t rows)
{
    return (rows + KI_GROUP_ROWS - 1) / KI_GROUP_ROWS;
}

static kith_status bias_grad(ki_compute *self, ki_mat dy, ki_mat grad)
{
    ki_device_compute *const device = ki_device_of(self);
    void *scratch;
    const kith_dtype real = ki_accumulator_of(dy.dtype);
    ki_group_args args = { dy, { NULL, ki_groups_of(dy.rows), dy.cols, dy.cols, real } };
    assert(grad.cols == dy.cols);
    if (dy.rows == 0 || dy.cols == 0)
        return KITH_OK;
    kith_status status = ki_expect("bias_grad", real, 1, &grad);
    if (status == KITH_OK)
        status = ki_device_scratch(device, (size_t)args.sums.rows * (size_t)dy.cols * ki_nbytes_of(real), &scratch);
    if (status != KITH_OK)
        return status;
    args.sums.data = scratch;
    status = ki_launch(device, &group_sums_kernel, dy.dtype, dy.dtype, chunks(args.sums, dy.dtype), &args);
    return status == KITH_OK ? ki_add_groups(device, args.sums, grad) : status;
}

void ki_fill_elements(ki_compute_ops *ops)
{
    ops->fill = fill;
    ops->copy = copy;
    ops->add = add;
    ops->scale = scale;
    ops->bias_add = bias_add;
    ops->bias_grad = bias_grad;
}
