/* layers/compute/host.c - the host's table: looks at a call's dtype and passes it to the loops for it (loops.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "blas.h"
#include "compute.h"
#include "core/base/error.h"
#include "core/base/mem.h"
#include "gemm.h"
#include "ids.h"
#include "loops.h"
#include <string.h>

/* The loops in which a matrix of this type is computed. */
static const ki_compute_ops *loops_of(const ki_compute *self, kith_dtype dtype)
{
    if (dtype == KITH_F32 || dtype == KITH_BF16)
        return &self->loops->f32;
    return dtype == KITH_F64 ? &self->loops->f64 : NULL;
}

static kith_status refuse(const char *function, kith_dtype dtype)
{
    return ki_fail(KITH_ERR_UNSUPPORTED, "layers: %s of %s: the host computes with f32, f64 and bf16", function,
                   kith_dtype_name(dtype));
}

/* DISPATCH(function, dtype that decides, parameters, arguments) */
#define DISPATCH(function, decides, parameters, ...)                                                                   \
    static kith_status host_##function parameters                                                                      \
    {                                                                                                                  \
        const ki_compute_ops *loops = loops_of(self, decides);                                                         \
        return loops != NULL ? loops->function(self, __VA_ARGS__) : refuse(#function, decides);                        \
    }

/* A conversion from or to f64 is computed in f64. */
static kith_dtype wider(kith_dtype a, kith_dtype b)
{
    return b == KITH_F64 ? b : a;
}

/* What is always computed in f64, whatever it is stored in. */
static kith_dtype in_f64(kith_dtype stored)
{
    return stored == KITH_F32 || stored == KITH_BF16 ? KITH_F64 : stored;
}

DISPATCH(fill, y.dtype, (ki_compute * self, ki_mat y, double value), y, value)
DISPATCH(copy, wider(x.dtype, y.dtype), (ki_compute * self, ki_mat x, ki_mat y), x, y)
DISPATCH(add, y.dtype, (ki_compute * self, double alpha, ki_mat x, ki_mat y), alpha, x, y)
DISPATCH(scale, y.dtype, (ki_compute * self, double alpha, ki_mat y), alpha, y)
DISPATCH(bias_add, y.dtype, (ki_compute * self, ki_mat bias, ki_mat y), bias, y)
DISPATCH(bias_grad, grad.dtype, (ki_compute * self, ki_mat dy, ki_mat grad), dy, grad)
DISPATCH(activation, x.dtype, (ki_compute * self, ki_activation kind, ki_mat x, ki_mat bias, ki_mat y), kind, x, bias,
         y)
DISPATCH(activation_grad, x.dtype, (ki_compute * self, ki_activation kind, ki_mat x, ki_mat bias, ki_mat dy, ki_mat dx),
         kind, x, bias, dy, dx)
DISPATCH(gated, gate.dtype, (ki_compute * self, ki_activation kind, ki_mat gate, ki_mat up, ki_mat y), kind, gate, up,
         y)
DISPATCH(gated_grad, gate.dtype,
         (ki_compute * self, ki_activation kind, ki_mat gate, ki_mat up, ki_mat dy, ki_mat dgate, ki_mat dup), kind,
         gate, up, dy, dgate, dup)
DISPATCH(dropout_add, y.dtype,
         (ki_compute * self, const ki_dropout *dropout, ki_mat x, ki_mat bias, ki_mat residual, ki_mat y), dropout, x,
         bias, residual, y)
DISPATCH(dropout_grad, dx.dtype, (ki_compute * self, const ki_dropout *dropout, ki_mat dy, ki_mat dx), dropout, dy, dx)
DISPATCH(layer_norm, x.dtype,
         (ki_compute * self, double epsilon, ki_mat x, ki_mat weight, ki_mat bias, ki_mat y, ki_mat mean, ki_mat rstd),
         epsilon, x, weight, bias, y, mean, rstd)
DISPATCH(layer_norm_grad, x.dtype,
         (ki_compute * self, ki_mat x, ki_mat weight, ki_mat mean, ki_mat rstd, ki_mat dy, ki_mat dx,
          ki_mat weight_grad, ki_mat bias_grad),
         x, weight, mean, rstd, dy, dx, weight_grad, bias_grad)
DISPATCH(rms_norm, x.dtype, (ki_compute * self, double epsilon, ki_mat x, ki_mat weight, ki_mat y, ki_mat rstd),
         epsilon, x, weight, y, rstd)
DISPATCH(rms_norm_grad, x.dtype,
         (ki_compute * self, ki_mat x, ki_mat weight, ki_mat rstd, ki_mat dy, ki_mat dx, ki_mat weight_grad), x, weight,
         rstd, dy, dx, weight_grad)
DISPATCH(gather_rows, y.dtype, (ki_compute * self, const int32_t *ids, int64_t first, ki_mat table, ki_mat y), ids,
         first, table, y)
DISPATCH(scatter_rows, grad.dtype, (ki_compute * self, const int32_t *ids, int64_t first, ki_mat dy, ki_mat grad), ids,
         first, dy, grad)
DISPATCH(row_max, max.dtype, (ki_compute * self, ki_mat x, ki_mat max), x, max)
DISPATCH(loss_sums, sums.dtype,
         (ki_compute * self, ki_mat logits, const int32_t *targets, int64_t first, ki_mat max, ki_mat sums), logits,
         targets, first, max, sums)
DISPATCH(losses, losses.dtype,
         (ki_compute * self, ki_mat sums, const int32_t *targets, int32_t ignored, double smoothing, int64_t vocabulary,
          ki_mat losses),
         sums, targets, ignored, smoothing, vocabulary, losses)
DISPATCH(loss_grad, sums.dtype,
         (ki_compute * self, ki_mat logits, const int32_t *targets, int64_t first, int32_t ignored, double smoothing,
          int64_t vocabulary, double scale, ki_mat max, ki_mat sums, ki_mat dlogits),
         logits, targets, first, ignored, smoothing, vocabulary, scale, max, sums, dlogits)
DISPATCH(softmax, y.dtype, (ki_compute * self, ki_mat x, ki_mat y), x, y)
DISPATCH(softmax_grad, y.dtype, (ki_compute * self, ki_mat y, ki_mat dy, ki_mat dx), y, dy, dx)
DISPATCH(top_k, x.dtype, (ki_compute * self, ki_mat x, int64_t k, ki_mat values, int32_t *columns), x, k, values,
         columns)
DISPATCH(pick_rows, y.dtype, (ki_compute * self, const int32_t *rows, ki_mat weights, ki_mat x, ki_mat y), rows,
         weights, x, y)
DISPATCH(add_rows, y.dtype, (ki_compute * self, const int32_t *rows, ki_mat weights, ki_mat x, ki_mat y), rows, weights,
         x, y)
DISPATCH(row_dots, dots.dtype, (ki_compute * self, ki_mat a, ki_mat b, ki_mat dots), a, b, dots)
DISPATCH(normal, in_f64(y.dtype),
         (ki_compute * self, uint64_t seed, uint32_t site, int64_t first_row, int64_t first_col, int64_t global_cols,
          double deviation, ki_mat y),
         seed, site, first_row, first_col, global_cols, deviation, y)
DISPATCH(sum_elements, in_f64(x.dtype), (ki_compute * self, ki_mat x, double *sum), x, sum)
DISPATCH(sum_squares, in_f64(x.dtype), (ki_compute * self, ki_mat x, double *sum), x, sum)
DISPATCH(adamw, weight.dtype,
         (ki_compute * self, const ki_adamw *how, ki_mat grad, ki_mat m, ki_mat v, ki_mat weight, ki_mat stored), how,
         grad, m, v, weight, stored)
DISPATCH(sgd, weight.dtype,
         (ki_compute * self, double learning_rate, double momentum, double decay, double grad_scale, ki_mat grad,
          ki_mat m, ki_mat weight, ki_mat stored),
         learning_rate, momentum, decay, grad_scale, grad, m, weight, stored)

DISPATCH(attention, q.dtype,
         (ki_compute * self, const ki_attention *how, ki_mat q, ki_mat k, ki_mat v, ki_mat out, ki_mat lse), how, q, k,
         v, out, lse)
DISPATCH(attention_grad, q.dtype,
         (ki_compute * self, const ki_attention *how, ki_mat q, ki_mat k, ki_mat v, ki_mat out, ki_mat lse, ki_mat dout,
          ki_mat dq, ki_mat dk, ki_mat dv),
         how, q, k, v, out, lse, dout, dq, dk, dv)
DISPATCH(rotary, x.dtype, (ki_compute * self, double base, int64_t head_dim, int64_t batch, bool is_inverse, ki_mat x),
         base, head_dim, batch, is_inverse, x)

#define ROW(function) .function = host_##function

static const ki_compute_ops host_ops = {
    .name = "host",
    .gemm = ki_gemm,
    .check_ids = ki_check_ids,
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
    ROW(attention),
    ROW(attention_grad),
    ROW(rotary),
};

kith_status ki_compute_open_host(int blas_threads, ki_compute **compute)
{
    const ki_blas *blas;
    kith_status status = ki_blas_get(&blas);
    if (status != KITH_OK)
        return status;
    ki_compute *host = (ki_compute *)ki_calloc(NULL, 1, sizeof *host);
    if (host == NULL)
        return KITH_ERR_NO_MEMORY;
    *host = (ki_compute){ .ops = &host_ops, .blas = blas, .loops = ki_loops_choose() };
    if (blas_threads > 0)
        ki_blas_set_threads(blas, blas_threads);
    *compute = host;
    return KITH_OK;
}

bool ki_compute_select_loops(ki_compute *compute, const char *isa)
{
    const ki_loops *loops;
    for (size_t i = 0; (loops = ki_loops_at(i)) != NULL; i++) {
        if (strcmp(loops->isa, isa) == 0) {
            compute->loops = loops;
            return true;
        }
    }
    return false;
}
