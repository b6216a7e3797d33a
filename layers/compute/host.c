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
#include "pool.h"
#include <string.h>

/* The loops in which a matrix of this type is computed. */
static const ki_compute_ops *loops_of(const ki_compute *self, kith_dtype dtype)
{
    if (dtype == KITH_F32 || dtype == KITH_BF16 || dtype == KITH_F16)
        return &self->loops->f32;
    return dtype == KITH_F64 ? &self->loops->f64 : NULL;
}

static kith_status refuse(const char *function, kith_dtype dtype)
{
    return ki_fail(KITH_ERR_UNSUPPORTED, "layers: %s of %s: the host computes with f32, f64, bf16 and f16", function,
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
    return stored == KITH_F32 || stored == KITH_BF16 || stored == KITH_F16 ? KITH_F64 : stored;
}

DISPATCH(layer_norm_grad, x.dtype,
         (ki_compute * self, ki_mat x, ki_mat weight, ki_mat mean, ki_mat rstd, ki_mat dy, ki_mat dx,
          ki_mat weight_grad, ki_mat bias_grad),
         x, weight, mean, rstd, dy, dx, weight_grad, bias_grad)
DISPATCH(rms_norm_grad, x.dtype,
         (ki_compute * self, ki_mat x, ki_mat weight, ki_mat rstd, ki_mat dy, ki_mat dx, ki_mat weight_grad), x, weight,
         rstd, dy, dx, weight_grad)
DISPATCH(losses, losses.dtype,
         (ki_compute * self, ki_mat sums, const int32_t *targets, int32_t ignored, double smoothing, int64_t vocabulary,
          ki_mat losses),
         sums, targets, ignored, smoothing, vocabulary, losses)
DISPATCH(top_k, x.dtype, (ki_compute * self, ki_mat x, int64_t k, ki_mat values, int32_t *columns), x, k, values,
         columns)
DISPATCH(sum_elements, in_f64(x.dtype), (ki_compute * self, ki_mat x, double *sum), x, sum)

DISPATCH(attention, q.dtype,
         (ki_compute * self, const ki_attention *how, ki_mat q, ki_mat k, ki_mat v, ki_mat out, ki_mat lse), how, q, k,
         v, out, lse)
DISPATCH(attention_grad, q.dtype,
         (ki_compute * self, const ki_attention *how, ki_mat q, ki_mat k, ki_mat v, ki_mat out, ki_mat lse, ki_mat dout,
          ki_mat dq, ki_mat dk, ki_mat dv),
         how, q, k, v, out, lse, dout, dq, dk, dv)
DISPATCH(rotary, x.dtype, (ki_compute * self, double base, int64_t head_dim, int64_t batch, bool is_inverse, ki_mat x),
         base, head_dim, batch, is_inverse, x)

#include "host_parts.h"

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

/* A worker's own word to the BLAS: those on OpenMP keep the number for each thread. */
static void keep_blas_to_caller(void)
{
    const ki_blas *blas;
    if (ki_blas_get(&blas) == KITH_OK)
        ki_blas_set_threads(blas, 1);
}

kith_status ki_compute_open_host(int threads, ki_compute **compute)
{
    const ki_blas *blas;
    kith_status status = ki_blas_get(&blas);
    if (status != KITH_OK)
        return status;
    ki_compute *host = (ki_compute *)ki_calloc(NULL, 1, sizeof *host);
    if (host == NULL)
        return KITH_ERR_NO_MEMORY;
    *host = (ki_compute){ .ops = &host_ops, .blas = blas, .loops = ki_loops_choose() };
    if (threads > 1 && (status = ki_pool_create(threads, keep_blas_to_caller, &host->pool)) != KITH_OK) {
        ki_compute_close(host);
        return status;
    }
    if (threads > 0)
        ki_blas_set_threads(blas, 1);
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
