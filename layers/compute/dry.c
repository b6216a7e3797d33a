/* layers/compute/dry.c - the table that computes nothing, for counting the memory and the messages of shapes that no
 * machine here could hold. Matrices may have data NULL; nothing is read or written, but for the numbers that
 * sums and check_ids hand to their callers.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "compute.h"
#include "core/base/mem.h"

/* Parameters are there for the signature. */
#define NOTHING(function, ...)                                                                                         \
    static kith_status dry_##function(__VA_ARGS__)                                                                     \
    {                                                                                                                  \
        return KITH_OK;                                                                                                \
    }

#pragma GCC diagnostic ignored "-Wunused-parameter"

NOTHING(gemm, ki_compute *self, ki_transpose of_a, ki_transpose of_b, double alpha, ki_mat a, ki_mat b, double beta,
        ki_mat c)
NOTHING(fill, ki_compute *self, ki_mat y, double value)
NOTHING(copy, ki_compute *self, ki_mat x, ki_mat y)
NOTHING(add, ki_compute *self, double alpha, ki_mat x, ki_mat y)
NOTHING(scale, ki_compute *self, double alpha, ki_mat y)
NOTHING(bias_add, ki_compute *self, ki_mat bias, ki_mat y)
NOTHING(bias_grad, ki_compute *self, ki_mat dy, ki_mat grad)
NOTHING(activation, ki_compute *self, ki_activation kind, ki_mat x, ki_mat bias, ki_mat y)
NOTHING(activation_grad, ki_compute *self, ki_activation kind, ki_mat x, ki_mat bias, ki_mat dy, ki_mat dx)
NOTHING(gated, ki_compute *self, ki_activation kind, ki_mat gate, ki_mat up, ki_mat y)
NOTHING(gated_grad, ki_compute *self, ki_activation kind, ki_mat gate, ki_mat up, ki_mat dy, ki_mat dgate, ki_mat dup)
NOTHING(dropout_add, ki_compute *self, const ki_dropout *dropout, ki_mat x, ki_mat bias, ki_mat residual, ki_mat y)
NOTHING(dropout_grad, ki_compute *self, const ki_dropout *dropout, ki_mat dy, ki_mat dx)
NOTHING(layer_norm, ki_compute *self, double epsilon, ki_mat x, ki_mat weight, ki_mat bias, ki_mat y, ki_mat mean,
        ki_mat rstd)
NOTHING(layer_norm_grad, ki_compute *self, ki_mat x, ki_mat weight, ki_mat mean, ki_mat rstd, ki_mat dy, ki_mat dx,
        ki_mat weight_grad, ki_mat bias_grad)
NOTHING(rms_norm, ki_compute *self, double epsilon, ki_mat x, ki_mat weight, ki_mat y, ki_mat rstd)
NOTHING(rms_norm_grad, ki_compute *self, ki_mat x, ki_mat weight, ki_mat rstd, ki_mat dy, ki_mat dx, ki_mat weight_grad)
NOTHING(attention, ki_compute *self, const ki_attention *how, ki_mat q, ki_mat k, ki_mat v, ki_mat out, ki_mat lse)
NOTHING(attention_grad, ki_compute *self, const ki_attention *how, ki_mat q, ki_mat k, ki_mat v, ki_mat out, ki_mat lse,
        ki_mat dout, ki_mat dq, ki_mat dk, ki_mat dv)
NOTHING(rotary, ki_compute *self, double base, int64_t head_dim, int64_t batch, bool is_inverse, ki_mat x)
NOTHING(gather_rows, ki_compute *self, const int32_t *ids, int64_t first, ki_mat table, ki_mat y)
NOTHING(scatter_rows, ki_compute *self, const int32_t *ids, int64_t first, ki_mat dy, ki_mat grad)
NOTHING(row_max, ki_compute *self, ki_mat x, ki_mat max)
NOTHING(loss_sums, ki_compute *self, ki_mat logits, const int32_t *targets, int64_t first, ki_mat max, ki_mat sums)
NOTHING(losses, ki_compute *self, ki_mat sums, const int32_t *targets, int32_t ignored, double smoothing,
        int64_t vocabulary, ki_mat losses)
NOTHING(loss_grad, ki_compute *self, ki_mat logits, const int32_t *targets, int64_t first, int32_t ignored,
        double smoothing, int64_t vocabulary, double scale, ki_mat max, ki_mat sums, ki_mat dlogits)
NOTHING(softmax, ki_compute *self, ki_mat x, ki_mat y)
NOTHING(softmax_grad, ki_compute *self, ki_mat y, ki_mat dy, ki_mat dx)
NOTHING(top_k, ki_compute *self, ki_mat x, int64_t k, ki_mat values, int32_t *columns)
NOTHING(pick_rows, ki_compute *self, const int32_t *rows, ki_mat weights, ki_mat x, ki_mat y)
NOTHING(add_rows, ki_compute *self, const int32_t *rows, ki_mat weights, ki_mat x, ki_mat y)
NOTHING(row_dots, ki_compute *self, ki_mat a, ki_mat b, ki_mat dots)
NOTHING(normal, ki_compute *self, uint64_t seed, uint32_t site, int64_t first_row, int64_t first_col,
        int64_t global_cols, double deviation, ki_mat y)
NOTHING(adamw, ki_compute *self, const ki_adamw *how, ki_mat grad, ki_mat m, ki_mat v, ki_mat weight, ki_mat stored)
NOTHING(sgd, ki_compute *self, double learning_rate, double momentum, double decay, double grad_scale, ki_mat grad,
        ki_mat m, ki_mat weight, ki_mat stored)

static kith_status dry_check_ids(ki_compute *self, const int32_t *ids, int64_t rows, int64_t limit, int32_t ignored,
                                 ki_ids_found *found)
{
    *found = (ki_ids_found){ .counted = rows, .row = -1 };
    return KITH_OK;
}

static kith_status dry_sum_elements(ki_compute *self, ki_mat x, double *sum)
{
    *sum = 0;
    return KITH_OK;
}

static kith_status dry_sum_squares(ki_compute *self, ki_mat x, double *sum)
{
    *sum = 0;
    return KITH_OK;
}

#define ROW(function) .function = dry_##function

static const ki_compute_ops dry_ops = {
    .name = "dry",
    ROW(gemm),
    ROW(fill),
    ROW(copy),
    ROW(add),
    ROW(scale),
    ROW(bias_add),
    ROW(bias_grad),
    ROW(activation),
    ROW(activation_grad),
    ROW(gated),
    ROW(gated_grad),
    ROW(dropout_add),
    ROW(dropout_grad),
    ROW(layer_norm),
    ROW(layer_norm_grad),
    ROW(rms_norm),
    ROW(rms_norm_grad),
    ROW(attention),
    ROW(attention_grad),
    ROW(rotary),
    ROW(check_ids),
    ROW(gather_rows),
    ROW(scatter_rows),
    ROW(row_max),
    ROW(loss_sums),
    ROW(losses),
    ROW(loss_grad),
    ROW(softmax),
    ROW(softmax_grad),
    ROW(top_k),
    ROW(pick_rows),
    ROW(add_rows),
    ROW(row_dots),
    ROW(normal),
    ROW(sum_elements),
    ROW(sum_squares),
    ROW(adamw),
    ROW(sgd),
};

kith_status ki_compute_open_dry(ki_compute **compute)
{
    ki_compute *dry = (ki_compute *)ki_calloc(NULL, 1, sizeof *dry);
    if (dry == NULL)
        return KITH_ERR_NO_MEMORY;
    dry->ops = &dry_ops;
    *compute = dry;
    return KITH_OK;
}
