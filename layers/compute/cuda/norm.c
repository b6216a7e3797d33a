/* layers/compute/cuda/norm.c - the table's norms (norm.cu).
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "launch.h"
#include <assert.h>

static ki_kernel norm_kernel = { .in = KI_IN_NORM, .name = "norm", .suffix = KI_TYPED };
static ki_kernel norm_sums_kernel = { .in = KI_IN_NORM, .name = "norm_sums", .suffix = KI_TYPED };
static ki_kernel norm_grad_kernel = { .in = KI_IN_NORM, .name = "norm_grad", .suffix = KI_TYPED };

static kith_status norm(ki_compute *self, double epsilon, ki_mat x, ki_mat weight, ki_mat bias, ki_mat y, ki_mat mean,
                        ki_mat rstd)
{
    const ki_norm_args args = { x, weight, bias, y, mean, rstd, epsilon };
    assert(x.rows == y.rows && x.cols == y.cols && weight.cols == x.cols);
    if (x.rows == 0 || x.cols == 0)
        return KITH_OK;
    kith_status status = ki_expect("norm", x.dtype, 3, (const ki_mat[]){ weight, bias, y });
    if (status == KITH_OK)
        status = ki_expect("norm", ki_accumulator_of(x.dtype), 2, (const ki_mat[]){ mean, rstd });
    return status != KITH_OK
               ? status
               : ki_launch(ki_device_of(self), &norm_kernel, x.dtype, x.dtype, ki_grid_of_rows(x.rows), &args);
}

static kith_status layer_norm(ki_compute *self, double epsilon, ki_mat x, ki_mat weight, ki_mat bias, ki_mat y,
                              ki_mat mean, ki_mat rstd)
{
    return norm(self, epsilon, x, weight, bias, y, mean, rstd);
}

static kith_status rms_norm(ki_compute *self, double epsilon, ki_mat x, ki_mat weight, ki_mat y, ki_mat rstd)
{
    return norm(self, epsilon, x, weight, (ki_mat){ 0 }, y, (ki_mat){ 0 }, rstd);
}

/* The gradients of weight and bias read dy before dx may be written over it. */
static kith_status launch_grad(ki_device_compute *self, const ki_norm_grad_args *args, ki_mat weight_grad,
                               ki_mat bias_grad)
{
    const kith_dtype dtype = args->x.dtype;
    kith_status status = ki_launch(self, &norm_sums_kernel, dtype, dtype,
                                   ki_grid_of_chunks(args->weight_sums, ki_chunk_of(dtype, dtype)), args);
    if (status == KITH_OK)
        status = ki_launch(self, &norm_grad_kernel, dtype, dtype, ki_grid_of_rows(args->x.rows), args);
    if (status == KITH_OK)
        status = ki_add_groups(self, args->weight_sums, weight_grad);
    if (status == KITH_OK && bias_grad.data != NULL)
        status = ki_add_groups(self, args->bias_sums, bias_grad);
    return status;
}

static kith_status layer_norm_grad(ki_compute *self, ki_mat x, ki_mat weight, ki_mat mean, ki_mat rstd, ki_mat dy,
                                   ki_mat dx, ki_mat weight_grad, ki_mat bias_grad)
{
    ki_device_compute *const device = ki_device_of(self);
    const kith_dtype real = ki_accumulator_of(x.dtype);
    const int64_t groups = ki_groups_of(x.rows);
    const size_t nbytes = (size_t)groups * (size_t)x.cols * ki_nbytes_of(real);
    const ki_mat sums = { NULL, groups, x.cols, x.cols, real };
    ki_norm_grad_args args = { x, weight, mean, rstd, dy, dx, sums, sums };
    void *scratch;
    assert(x.rows == dx.rows && x.cols == dx.cols && dy.rows == dx.rows && dy.cols == dx.cols);
    if (x.rows == 0 || x.cols == 0)
        return KITH_OK;
    kith_status status = ki_expect("norm_grad", x.dtype, 3, (const ki_mat[]){ weight, dy, dx });
    if (status == KITH_OK)
        status = ki_expect("norm_grad", real, 4, (const ki_mat[]){ mean, rstd, weight_grad, bias_grad });
    if (status == KITH_OK)
        status = ki_device_scratch(device, bias_grad.data != NULL ? 2 * nbytes : nbytes, &scratch);
    if (status != KITH_OK)
        return status;
    args.weight_sums.data = scratch;
    args.bias_sums.data = bias_grad.data != NULL ? (char *)scratch + nbytes : NULL;
    weight_grad.cols = bias_grad.cols = x.cols;
    return launch_grad(device, &args, weight_grad, bias_grad);
}

static kith_status rms_norm_grad(ki_compute *self, ki_mat x, ki_mat weight, ki_mat rstd, ki_mat dy, ki_mat dx,
                                 ki_mat weight_grad)
{
    return layer_norm_grad(self, x, weight, (ki_mat){ 0 }, rstd, dy, dx, weight_grad, (ki_mat){ 0 });
}

void ki_fill_norms(ki_compute_ops *ops)
{
    ops->layer_norm = layer_norm;
    ops->layer_norm_grad = layer_norm_grad;
    ops->rms_norm = rms_norm;
    ops->rms_norm_grad = rms_norm_grad;
}
