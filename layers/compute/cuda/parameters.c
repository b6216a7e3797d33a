/* layers/compute/cuda/parameters.c - the table's initial weights, sums to the host, and optimizers (parameters.cu).
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "launch.h"
#include <assert.h>

static ki_kernel normal_kernel = { .in = KI_IN_PARAMETERS, .name = "normal", .suffix = KI_TYPED };
static ki_kernel sum_kernel = { .in = KI_IN_PARAMETERS, .name = "sum", .suffix = KI_TYPED };
static ki_kernel adamw_kernel = { .in = KI_IN_PARAMETERS, .name = "adamw", .suffix = KI_TYPED };
static ki_kernel sgd_kernel = { .in = KI_IN_PARAMETERS, .name = "sgd", .suffix = KI_TYPED };

static kith_status normal(ki_compute *self, uint64_t seed, uint32_t site, int64_t first_row, int64_t first_col,
                          int64_t global_cols, double deviation, ki_mat y)
{
    const ki_normal_args args = { y, seed, first_row, first_col, global_cols, deviation, site };
    return ki_storage_of(y.dtype) < 0 ? ki_refuse("normal", y.dtype)
                                      : ki_launch(ki_device_of(self), &normal_kernel, y.dtype, y.dtype,
                                                  ki_grid_of_chunks(y, ki_chunk_of(y.dtype, y.dtype)), &args);
}

/* The device sums blocks of elements, the host these: those of a row first for squares, all in turn for elements. */
static kith_status sum(ki_compute *self, ki_mat x, bool is_squares, double *result)
{
    ki_device_compute *const device = ki_device_of(self);
    const int64_t blocks = (x.cols + KI_SUM_BLOCK - 1) / KI_SUM_BLOCK;
    const size_t nbytes = (size_t)x.rows * (size_t)blocks * sizeof(double);
    const void *host = NULL;
    void *scratch;
    double all = 0;
    kith_status status = KITH_OK;
    if (nbytes > 0)
        status = ki_device_scratch(device, nbytes, &scratch);
    if (nbytes > 0 && status == KITH_OK) {
        const ki_sum_args args = { x, (double *)scratch, blocks, is_squares };
        status = ki_launch(device, &sum_kernel, x.dtype, x.dtype, ki_grid_of_rows(x.rows * blocks), &args);
        if (status == KITH_OK)
            status = ki_read_back(device, scratch, nbytes, &host);
    }
    if (status != KITH_OK)
        return status;
    for (int64_t row = 0; row < x.rows; row++) {
        double of_row = is_squares ? 0 : all;
        for (int64_t block = 0; block < blocks; block++)
            of_row += ((const double *)host)[row * blocks + block];
        all = is_squares ? all + of_row : of_row;
    }
    *result = all;
    return KITH_OK;
}

static kith_status sum_elements(ki_compute *self, ki_mat x, double *result)
{
    return sum(self, x, false, result);
}

static kith_status sum_squares(ki_compute *self, ki_mat x, double *result)
{
    return sum(self, x, true, result);
}

/* The type whose kernel writes `stored`: weights that are kept in it, or without a copy. */
static kith_status storage(const char *function, ki_mat weight, ki_mat stored, int count, const ki_mat *others,
                           kith_dtype *dtype)
{
    *dtype = stored.data != NULL ? stored.dtype : weight.dtype;
    if (ki_storage_of(*dtype) < 0)
        return ki_refuse(function, *dtype);
    const kith_status status = ki_expect(function, ki_accumulator_of(*dtype), 1, &weight);
    return status == KITH_OK ? ki_expect(function, weight.dtype, count, others) : status;
}

static kith_status adamw(ki_compute *self, const ki_adamw *how, ki_mat grad, ki_mat m, ki_mat v, ki_mat weight,
                         ki_mat stored)
{
    kith_dtype dtype;
    ki_mat none = { NULL, weight.rows, weight.cols, weight.cols, weight.dtype };
    assert(grad.rows == weight.rows && grad.cols == weight.cols && m.cols == weight.cols && v.cols == weight.cols);
    const kith_status status = storage("adamw", weight, stored, 3, (const ki_mat[]){ grad, m, v }, &dtype);
    if (status != KITH_OK)
        return status;
    ki_flatten(5, (ki_mat *const[]){ &grad, &m, &v, &weight, stored.data != NULL ? &stored : &none });
    const ki_adamw_args args = { grad, m, v, weight, stored, ki_adamw_step_of(how) };
    return ki_launch(ki_device_of(self), &adamw_kernel, dtype, dtype,
                     ki_grid_of_chunks(weight, ki_chunk_of(dtype, dtype)), &args);
}

static kith_status sgd(ki_compute *self, double learning_rate, double momentum, double decay, double grad_scale,
                       ki_mat grad, ki_mat m, ki_mat weight, ki_mat stored)
{
    kith_dtype dtype;
    ki_mat none = { NULL, weight.rows, weight.cols, weight.cols, weight.dtype }, no_m = none;
    assert(grad.rows == weight.rows && grad.cols == weight.cols && (m.data == NULL || m.cols == weight.cols));
    const kith_status status = storage("sgd", weight, stored, 2, (const ki_mat[]){ grad, m }, &dtype);
    if (status != KITH_OK)
        return status;
    ki_flatten(4,
               (ki_mat *const[]){ &grad, m.data != NULL ? &m : &no_m, &weight, stored.data != NULL ? &stored : &none });
    const ki_sgd_args args = { grad, m, weight, stored, learning_rate, momentum, decay, grad_scale };
    return ki_launch(ki_device_of(self), &sgd_kernel, dtype, dtype,
                     ki_grid_of_chunks(weight, ki_chunk_of(dtype, dtype)), &args);
}

void ki_fill_parameters(ki_compute_ops *ops)
{
    ops->normal = normal;
    ops->sum_elements = sum_elements;
    ops->sum_squares = sum_squares;
    ops->adamw = adamw;
    ops->sgd = sgd;
}
