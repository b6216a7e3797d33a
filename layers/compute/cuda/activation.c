/* layers/compute/cuda/activation.c - the table's activations, gated units and dropout (activation.cu).
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "launch.h"
#include <assert.h>

static ki_kernel activation_kernel = { .in = KI_IN_ACTIVATION, .name = "activation", .suffix = KI_TYPED };
static ki_kernel activation_grad_kernel = { .in = KI_IN_ACTIVATION, .name = "activation_grad", .suffix = KI_TYPED };
static ki_kernel gated_kernel = { .in = KI_IN_ACTIVATION, .name = "gated", .suffix = KI_TYPED };
static ki_kernel gated_grad_kernel = { .in = KI_IN_ACTIVATION, .name = "gated_grad", .suffix = KI_TYPED };
static ki_kernel dropout_kernel = { .in = KI_IN_ACTIVATION, .name = "dropout", .suffix = KI_TYPED };

static kith_status launch(ki_compute *self, ki_kernel *kernel, ki_mat like, int count, const ki_mat *matrices,
                          const void *args)
{
    const kith_status status = ki_expect(kernel->name, like.dtype, count, matrices);
    return status != KITH_OK ? status
                             : ki_launch(ki_device_of(self), kernel, like.dtype, like.dtype,
                                         ki_grid_of_chunks(like, ki_chunk_of(like.dtype, like.dtype)), args);
}

static kith_status activation(ki_compute *self, ki_activation kind, ki_mat x, ki_mat bias, ki_mat y)
{
    assert(x.rows == y.rows && x.cols == y.cols && (bias.data == NULL || bias.cols == x.cols));
    if (bias.data == NULL)
        ki_flatten(2, (ki_mat *const[]){ &x, &y });
    const ki_activation_args args = { x, bias, y, (int)kind };
    return launch(self, &activation_kernel, y, 2, (const ki_mat[]){ x, bias }, &args);
}

static kith_status activation_grad(ki_compute *self, ki_activation kind, ki_mat x, ki_mat bias, ki_mat dy, ki_mat dx)
{
    assert(x.rows == dx.rows && x.cols == dx.cols && dy.rows == dx.rows && dy.cols == dx.cols);
    if (bias.data == NULL)
        ki_flatten(3, (ki_mat *const[]){ &x, &dy, &dx });
    const ki_activation_grad_args args = { x, bias, dy, dx, (int)kind };
    return launch(self, &activation_grad_kernel, dx, 3, (const ki_mat[]){ x, bias, dy }, &args);
}

static kith_status gated(ki_compute *self, ki_activation kind, ki_mat gate, ki_mat up, ki_mat y)
{
    assert(gate.rows == y.rows && gate.cols == y.cols && up.rows == y.rows && up.cols == y.cols);
    ki_flatten(3, (ki_mat *const[]){ &gate, &up, &y });
    const ki_gated_args args = { gate, up, y, (int)kind };
    return launch(self, &gated_kernel, y, 2, (const ki_mat[]){ gate, up }, &args);
}

static kith_status gated_grad(ki_compute *self, ki_activation kind, ki_mat gate, ki_mat up, ki_mat dy, ki_mat dgate,
                              ki_mat dup)
{
    assert(gate.rows == dy.rows && gate.cols == dy.cols && up.rows == dy.rows && up.cols == dy.cols);
    assert(dgate.rows == dy.rows && dgate.cols == dy.cols && dup.rows == dy.rows && dup.cols == dy.cols);
    ki_flatten(5, (ki_mat *const[]){ &gate, &up, &dy, &dgate, &dup });
    const ki_gated_grad_args args = { gate, up, dy, dgate, dup, (int)kind };
    return launch(self, &gated_grad_kernel, dy, 4, (const ki_mat[]){ gate, up, dgate, dup }, &args);
}

/* Rows are looked at as such where a row's number counts: for a bias, and for the mask. */
static kith_status dropout_add(ki_compute *self, const ki_dropout *dropout, ki_mat x, ki_mat bias, ki_mat residual,
                               ki_mat y)
{
    assert(x.rows == y.rows && x.cols == y.cols && (residual.data == NULL || residual.rows == y.rows));
    if (bias.data == NULL && dropout->probability == 0) {
        ki_mat none = { NULL, x.rows, x.cols, x.cols, x.dtype };
        ki_flatten(3, (ki_mat *const[]){ &x, residual.data != NULL ? &residual : &none, &y });
    }
    const ki_dropout_args args = { x, bias, residual, y, *dropout };
    return launch(self, &dropout_kernel, y, 3, (const ki_mat[]){ x, bias, residual }, &args);
}

static kith_status dropout_grad(ki_compute *self, const ki_dropout *dropout, ki_mat dy, ki_mat dx)
{
    return dropout_add(self, dropout, dy, (ki_mat){ 0 }, (ki_mat){ 0 }, dx);
}

void ki_fill_activations(ki_compute_ops *ops)
{
    ops->activation = activation;
    ops->activation_grad = activation_grad;
    ops->gated = gated;
    ops->gated_grad = gated_grad;
    ops->dropout_add = dropout_add;
    ops->dropout_grad = dropout_grad;
}
