/* layers/compute/rotary.c - rotary positions (Su et al., 2021), pairs half a head apart.
 *
 * Angles, cosines and sines are f64 whatever is turned. A cosine from libm costs more than the turn that it is for, so
 * position = SPAN * coarse + fine has its cosine and sine from those of the two by the addition theorems: one table of
 * SPAN rows for the call, and one row that changes every SPAN positions. Threads take SPAN positions at a time.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "attention.h"
#include "core/base/mem.h"
#include "loops.h"
#include "pool.h"
#include <assert.h>
#include <math.h>

enum { SPAN = 32 };

/* Scratch of a call. Rows of head_dim f64: cosines of half of them, sines of the other half. */
typedef struct tables {
    int half;
    double *frequencies; /* [half] */
    double *fine;        /* [SPAN, 2 * half] */
    double *rows;        /* [threads, 2, 2 * half]: what a thread has in hand */
} tables;

static void write_angles(const tables *t, int64_t position, double *row)
{
    for (int i = 0; i < t->half; i++) {
        const double angle = (double)position * t->frequencies[i];
        row[i] = cos(angle);
        row[t->half + i] = sin(angle);
    }
}

static kith_status begin(ki_compute *self, double base, int half, int64_t positions, tables *t)
{
    void *scratch;
    const size_t rows = 1 + 2 * (SPAN + 2 * (size_t)ki_pool_threads(self->pool)); /* of half f64 */
    kith_status status = ki_compute_scratch(self, rows * (size_t)half * sizeof(double), &scratch);
    if (status != KITH_OK)
        return status;
    t->half = half;
    t->frequencies = (double *)scratch;
    t->fine = t->frequencies + half;
    t->rows = t->fine + (size_t)SPAN * 2 * (size_t)half;
    for (int i = 0; i < half; i++)
        t->frequencies[i] = pow(base, -(double)i / half);
    for (int p = 0; p < SPAN && p < positions; p++)
        write_angles(t, p, t->fine + (size_t)p * 2 * (size_t)half);
    return KITH_OK;
}

/* One call; a part is SPAN positions. */
typedef struct rotary_call {
    const ki_attention_loops *loops;
    tables tables;
    int64_t heads, batch, positions;
    bool is_inverse;
    ki_mat x;
} rotary_call;

static void turn_part(const void *call, int64_t part, int worker)
{
    const rotary_call *c = (const rotary_call *)call;
    const size_t width = 2 * (size_t)c->tables.half, row_nbytes = (size_t)c->x.stride * kith_dtype_nbytes(c->x.dtype);
    double *coarse = c->tables.rows + (size_t)worker * 2 * width; /* of the first position */
    double *angles = coarse + width;                              /* of one position, as A */
    write_angles(&c->tables, part * SPAN, coarse);
    for (int64_t position = part * SPAN; position < (part + 1) * SPAN && position < c->positions; position++) {
        const double *fine = c->tables.fine + (size_t)(position % SPAN) * width;
        c->loops->add_angles(c->tables.half, coarse, fine, c->is_inverse, angles);
        for (int64_t row = position * c->batch; row < (position + 1) * c->batch && row < c->x.rows; row++)
            c->loops->turn(c->x.dtype, c->heads, c->tables.half, angles, (char *)c->x.data + (size_t)row * row_nbytes);
    }
}

kith_status ki_host_rotary(ki_compute *self, double base, int64_t head_dim, int64_t batch, bool is_inverse, ki_mat x)
{
    assert(head_dim > 0 && head_dim % 2 == 0 && x.cols % head_dim == 0);
    rotary_call call = {
        .loops = x.dtype == KITH_F64 ? &self->loops->attention_f64 : &self->loops->attention_f32,
        .heads = x.cols / head_dim,
        .batch = batch,
        .positions = batch > 0 ? (x.rows + batch - 1) / batch : 0,
        .is_inverse = is_inverse,
        .x = x,
    };
    kith_status status = begin(self, base, (int)(head_dim / 2), call.positions, &call.tables);
    if (status == KITH_OK)
        ki_pool_run(ki_pool_if_worth(self->pool, 2.0 * (double)x.rows * (double)x.cols),
                    (call.positions + SPAN - 1) / SPAN, turn_part, &call);
    return status;
}
