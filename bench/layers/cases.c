/* bench/layers/cases.c - see cases.h.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "cases.h"

#include <kith/kith.h>
#include <stdlib.h>

#define OPS b->compute->ops
#define CASE(name, ...)                                                                                                \
    static kith_status run_##name(bench_data *b)                                                                       \
    {                                                                                                                  \
        return OPS->__VA_ARGS__;                                                                                       \
    }

static const ki_mat none;

CASE(fill, fill(b->compute, b->y, 1))
CASE(copy, copy(b->compute, b->x, b->y))
CASE(add, add(b->compute, 0.5, b->x, b->y))
CASE(scale, scale(b->compute, 1.0, b->y))
CASE(bias_add, bias_add(b->compute, b->bias, b->y))
CASE(bias_grad, bias_grad(b->compute, b->x, b->bias_grad))
CASE(gelu, activation(b->compute, KI_GELU_EXACT, b->x, b->bias, b->y))
CASE(gelu_grad, activation_grad(b->compute, KI_GELU_EXACT, b->x, b->bias, b->z, b->y))
CASE(gelu_tanh, activation(b->compute, KI_GELU_TANH, b->x, b->bias, b->y))
CASE(gelu_tanh_grad, activation_grad(b->compute, KI_GELU_TANH, b->x, b->bias, b->z, b->y))
CASE(silu, activation(b->compute, KI_SILU, b->x, none, b->y))
CASE(gated, gated(b->compute, KI_SILU, b->x, b->z, b->y))
CASE(gated_grad, gated_grad(b->compute, KI_SILU, b->x, b->z, b->y, b->u, b->v))
CASE(dropout_add, dropout_add(b->compute, &b->dropout, b->x, b->bias, b->z, b->y))
CASE(dropout_grad, dropout_grad(b->compute, &b->dropout, b->x, b->y))
CASE(layer_norm, layer_norm(b->compute, 1e-5, b->x, b->weight, b->bias, b->y, b->mean, b->rstd))
CASE(layer_norm_grad,
     layer_norm_grad(b->compute, b->x, b->weight, b->mean, b->rstd, b->z, b->y, b->weight_grad, b->bias_grad))
CASE(rms_norm, rms_norm(b->compute, 1e-5, b->x, b->weight, b->y, b->rstd))
CASE(rms_norm_grad, rms_norm_grad(b->compute, b->x, b->weight, b->rstd, b->z, b->y, b->weight_grad))
CASE(gather_rows, gather_rows(b->compute, b->ids, 0, b->x, b->y))
CASE(scatter_rows, scatter_rows(b->compute, b->ids, 0, b->x, b->a))
CASE(row_max, row_max(b->compute, b->x, b->mean))
CASE(loss_sums, loss_sums(b->compute, b->x, b->ids, 0, b->mean, b->sums))
CASE(loss_grad, loss_grad(b->compute, b->x, b->ids, 0, -1, 0.1, b->cols, 1, b->mean, b->sums, b->y))
CASE(softmax, softmax(b->compute, b->x, b->a))
CASE(top_k, top_k(b->compute, b->a, 2, b->sums, b->columns))
CASE(row_dots, row_dots(b->compute, b->x, b->z, b->mean))
CASE(normal, normal(b->compute, 1, 2, 0, 0, b->cols, 1, b->y))
CASE(sum_squares, sum_squares(b->compute, b->x, &b->sum))

static kith_status run_adamw(bench_data *b)
{
    const ki_adamw how = { 1e-3, 0.9, 0.999, 1e-8, 0.01, 10, 1 };
    return OPS->adamw(b->compute, &how, b->a, b->b, b->c, b->d, b->dtype == b->wide ? none : b->x);
}

static kith_status run_sgd(bench_data *b)
{
    return OPS->sgd(b->compute, 1e-3, 0.9, 0, 1, b->a, b->b, b->d, none);
}

const bench_case bench_cases[] = {
    { "copy", run_copy, 2, 0 },
    { "fill", run_fill, 1, 0 },
    { "add", run_add, 3, 0 },
    { "scale", run_scale, 2, 0 },
    { "bias_add", run_bias_add, 2, 0 },
    { "bias_grad", run_bias_grad, 1, 0 },
    { "gelu", run_gelu, 2, 0 },
    { "gelu_grad", run_gelu_grad, 3, 0 },
    { "gelu_tanh", run_gelu_tanh, 2, 0 },
    { "gelu_tanh_grad", run_gelu_tanh_grad, 3, 0 },
    { "silu", run_silu, 2, 0 },
    { "gated", run_gated, 3, 0 },
    { "gated_grad", run_gated_grad, 5, 0 },
    { "dropout_add", run_dropout_add, 3, 0 },
    { "dropout_grad", run_dropout_grad, 2, 0 },
    { "layer_norm", run_layer_norm, 2, 0 },
    { "layer_norm_grad", run_layer_norm_grad, 3, 0 },
    { "rms_norm", run_rms_norm, 2, 0 },
    { "rms_norm_grad", run_rms_norm_grad, 3, 0 },
    { "row_max", run_row_max, 1, 0 },
    { "loss_sums", run_loss_sums, 1, 0 },
    { "loss_grad", run_loss_grad, 2, 0 },
    { "softmax", run_softmax, 1, 1 },
    { "top_k", run_top_k, 0, 1 },
    { "gather_rows", run_gather_rows, 2, 0 },
    { "scatter_rows", run_scatter_rows, 1, 2 },
    { "row_dots", run_row_dots, 2, 0 },
    { "sum_squares", run_sum_squares, 1, 0 },
    { "normal", run_normal, 1, 0 },
    { "adamw", run_adamw, 0, 7 },
    { "sgd", run_sgd, 0, 5 },
};

const size_t bench_case_count = sizeof bench_cases / sizeof bench_cases[0];

/* ---- data ---- */

static kith_status matrix(bench_data *b, kith_dtype dtype, int64_t rows, int64_t cols, double deviation, ki_mat *m)
{
    const size_t nbytes = (size_t)(rows * cols) * kith_dtype_nbytes(dtype);
    *m = (ki_mat){ b->alloc(b, (nbytes + 63) / 64 * 64), rows, cols, cols, dtype };
    return m->data == NULL ? KITH_ERR_NO_MEMORY
                           : OPS->normal(b->compute, 1, (uint32_t)(rows + cols), 0, 0, cols, deviation, *m);
}

size_t bench_matrices(bench_data *b, ki_mat *list[BENCH_MATRICES])
{
    ki_mat *const all[BENCH_MATRICES] = { &b->x,    &b->y,    &b->z,           &b->u,        &b->v,    &b->a,
                                          &b->b,    &b->c,    &b->d,           &b->weight,   &b->bias, &b->mean,
                                          &b->rstd, &b->sums, &b->weight_grad, &b->bias_grad };
    for (size_t i = 0; i < BENCH_MATRICES; i++)
        list[i] = all[i];
    return BENCH_MATRICES;
}

static kith_status make_matrices(bench_data *b)
{
    ki_mat *const stored[] = { &b->x, &b->y, &b->z, &b->u, &b->v }, *const wide[] = { &b->a, &b->b, &b->c, &b->d };
    kith_status status = KITH_OK;
    for (size_t i = 0; i < sizeof stored / sizeof stored[0] && status == KITH_OK; i++)
        status = matrix(b, b->dtype, b->rows, b->cols, 1, stored[i]);
    for (size_t i = 0; i < sizeof wide / sizeof wide[0] && status == KITH_OK; i++)
        status = matrix(b, b->wide, b->rows, b->cols, 1e-2, wide[i]);
    const struct {
        ki_mat *m;
        kith_dtype dtype;
        int64_t rows, cols;
    } small[] = { { &b->mean, b->wide, b->rows, 1 },     { &b->rstd, b->wide, b->rows, 1 },
                  { &b->sums, b->wide, b->rows, 3 },     { &b->weight, b->dtype, 1, b->cols },
                  { &b->bias, b->dtype, 1, b->cols },    { &b->weight_grad, b->wide, 1, b->cols },
                  { &b->bias_grad, b->wide, 1, b->cols } };
    for (size_t i = 0; i < sizeof small / sizeof small[0] && status == KITH_OK; i++)
        status = matrix(b, small[i].dtype, small[i].rows, small[i].cols, 1, small[i].m);
    return status;
}

/* Ids that jump through the rows, so that no two neighbours are read from one place. */
static kith_status make_ids(bench_data *b)
{
    const size_t nbytes = (size_t)b->rows * sizeof *b->ids;
    b->ids = (int32_t *)b->alloc(b, nbytes);
    b->columns = (int32_t *)b->alloc(b, 2 * nbytes);
    int32_t *const ids = (int32_t *)malloc(nbytes);
    kith_status status = b->ids != NULL && b->columns != NULL && ids != NULL ? KITH_OK : KITH_ERR_NO_MEMORY;
    for (int64_t i = 0; i < b->rows && status == KITH_OK; i++)
        ids[i] = (int32_t)(i * 7919 % b->rows);
    if (status == KITH_OK)
        status = b->put(b, b->ids, ids, nbytes);
    free(ids);
    return status;
}

kith_status bench_make_data(bench_data *b)
{
    b->wide = ki_accumulator_of(b->dtype);
    b->dropout = (ki_dropout){ .probability = 0.1, .seed = 7, .site = 1, .batch = 1 };
    kith_status status = make_matrices(b);
    if (status == KITH_OK)
        status = make_ids(b);
    if (status == KITH_OK) /* second moments are not negative */
        status = OPS->fill(b->compute, b->c, 1e-4);
    if (status == KITH_OK)
        status = OPS->row_max(b->compute, b->x, b->mean);
    return status;
}
