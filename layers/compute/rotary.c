/* layers/compute/rotary.c - rotary positions (Su et al., 2021), pairs half a head apart.
 *
 * Angles, cosines and sines are f64 whatever is turned. A cosine from libm costs more than the turn that it is for, so
 * position = SPAN * coarse + fine has its cosine and sine from those of the two by the addition theorems: one table of
 * SPAN rows for the call, and one row that changes every SPAN positions.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "attention.h"
#include "core/base/mem.h"
#include "loops.h"
#include <assert.h>
#include <math.h>

enum { SPAN = 32 };

/* Scratch of a call. Rows of head_dim f64: cosines of half of them, sines of the other half. */
typedef struct tables {
    int half;
    double *frequencies; /* [half] */
    double *fine;        /* [SPAN, 2 * half] */
    double *coarse;      /* [2 * half] */
    double *angles;      /* [2 * half]: of one position, as A */
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
    const size_t rows = 1 + 2 * (SPAN + 2); /* of half f64 */
    kith_status status = ki_compute_scratch(self, rows * (size_t)half * sizeof(double), &scratch);
    if (status != KITH_OK)
        return status;
    t->half = half;
    t->frequencies = (double *)scratch;
    t->fine = t->frequencies + half;
    t->coarse = t->fine + (size_t)SPAN * 2 * (size_t)half;
    t->angles = t->coarse + 2 * (size_t)half;
    for (int i = 0; i < half; i++)
        t->frequencies[i] = pow(base, -(double)i / half);
    for (int p = 0; p < SPAN && p < positions; p++)
        write_angles(t, p, t->fine + (size_t)p * 2 * (size_t)half);
    return KITH_OK;
}

kith_status ki_host_rotary(ki_compute *self, double base, int64_t head_dim, int64_t batch, bool is_inverse, ki_mat x)
{
    assert(head_dim > 0 && head_dim % 2 == 0 && x.cols % head_dim == 0);
    const int half = (int)(head_dim / 2);
    const size_t row_nbytes = (size_t)x.stride * kith_dtype_nbytes(x.dtype);
    const ki_attention_loops *loops = x.dtype == KITH_F64 ? &self->loops->attention_f64 : &self->loops->attention_f32;
    const int64_t positions = batch > 0 ? (x.rows + batch - 1) / batch : 0;
    tables t;
    kith_status status = begin(self, base, half, positions, &t);
    if (status != KITH_OK)
        return status;
    for (int64_t position = 0; position < positions; position++) {
        if (position % SPAN == 0)
            write_angles(&t, position, t.coarse);
        loops->add_angles(half, t.coarse, t.fine + (size_t)(position % SPAN) * 2 * (size_t)half, is_inverse, t.angles);
        for (int64_t row = position * batch; row < (position + 1) * batch && row < x.rows; row++)
            loops->turn(x.dtype, x.cols / head_dim, half, t.angles, (char *)x.data + (size_t)row * row_nbytes);
    }
    return KITH_OK;
}
