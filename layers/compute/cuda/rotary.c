/* layers/compute/cuda/rotary.c - the table's rotary positions (attention.cu).
 *
 * Cosines and sines of f64 are slow on a device and need memory of each thread for large angles. So libm makes those of
 * the positions of a span and of every span's first one, on the host, and the device the rest by the addition theorems
 * - the same way, and the same bits, as the host (rotary.c of layers/compute). The table of angles stays on the device
 * for the next call, which most often wants the same.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "launch.h"
#include <assert.h>
#include <stdlib.h>

static ki_kernel angles_kernel = { .in = KI_IN_ATTENTION, .name = "angles", .suffix = KI_TYPED };
static ki_kernel rotary_kernel = { .in = KI_IN_ATTENTION, .name = "rotary", .suffix = KI_TYPED };

void ki_drop_angles(ki_device_compute *self)
{
    if (self->angles.memory != NULL)
        (void)ki_give_memory(self, self->angles.memory);
    self->angles = (ki_angles){ 0 };
}

/* Rows of [cosines, sines] of positions 0, step, 2 * step, ... */
static void write_rows(double base, int64_t half, int64_t step, int64_t rows, double *row)
{
    for (int64_t r = 0; r < rows; r++, row += 2 * half)
        for (int64_t i = 0; i < half; i++) {
            const double angle = (double)(r * step) * pow(base, -(double)i / (double)half);
            row[i] = cos(angle);
            row[half + i] = sin(angle);
        }
}

/* To the device's scratch: coarse rows, then KI_ROTARY_SPAN fine ones. */
static kith_status upload(ki_device_compute *self, double base, int64_t half, int64_t spans, double **coarse)
{
    const size_t rows = (size_t)spans + KI_ROTARY_SPAN, nbytes = rows * 2 * (size_t)half * sizeof(double);
    double *host = (double *)malloc(nbytes);
    void *scratch;
    if (host == NULL)
        return ki_cuda_host->fail(KITH_ERR_NO_MEMORY, "layers: %zu bytes for rotary angles", nbytes);
    write_rows(base, half, KI_ROTARY_SPAN, spans, host);
    write_rows(base, half, 1, KI_ROTARY_SPAN, host + spans * 2 * half);
    kith_status status = ki_device_scratch(self, nbytes, &scratch);
    if (status == KITH_OK)
        status = ki_cuda_copy(self->ordinal, self->stream, scratch, host, nbytes);
    if (status == KITH_OK) /* where the device reads ordinary memory by itself, it may do so later */
        status = ki_wait_for_stream(self);
    free(host);
    *coarse = (double *)scratch;
    return status;
}

static kith_status make_room(ki_device_compute *self, size_t nbytes)
{
    if (nbytes <= self->angles.nbytes)
        return KITH_OK;
    ki_drop_angles(self);
    const kith_status status = ki_take_memory(self, nbytes, &self->angles.memory);
    if (status == KITH_OK)
        self->angles.nbytes = nbytes;
    return status;
}

static bool has_angles(const ki_angles *have, double base, int64_t half, int64_t positions, kith_dtype real)
{
    return have->positions >= positions && have->base == base && have->half == half && have->real == real;
}

static kith_status make_angles(ki_device_compute *self, double base, int64_t half, int64_t positions, kith_dtype real)
{
    const int64_t spans = (positions + KI_ROTARY_SPAN - 1) / KI_ROTARY_SPAN;
    double *coarse = NULL;
    if (has_angles(&self->angles, base, half, positions, real))
        return KITH_OK;
    kith_status status = make_room(self, (size_t)positions * 2 * (size_t)half * ki_nbytes_of(real));
    if (status == KITH_OK)
        status = upload(self, base, half, spans, &coarse);
    self->angles.positions = 0;
    if (status != KITH_OK)
        return status;
    const ki_angles_args args = { coarse, coarse + spans * 2 * half, self->angles.memory, positions, (int32_t)half };
    const ki_mat shape = { NULL, positions, half, half, real };
    status = ki_launch(self, &angles_kernel, real, real, ki_grid_of_chunks(shape, 1), &args);
    if (status != KITH_OK)
        return status;
    self->angles.base = base;
    self->angles.half = half;
    self->angles.real = real;
    self->angles.positions = positions;
    return KITH_OK;
}

static kith_status rotary(ki_compute *self, double base, int64_t head_dim, int64_t batch, bool is_inverse, ki_mat x)
{
    ki_device_compute *const device = ki_device_of(self);
    const int64_t half = head_dim / 2, positions = batch > 0 ? (x.rows + batch - 1) / batch : 0;
    const kith_dtype real = ki_accumulator_of(x.dtype);
    assert(head_dim > 0 && head_dim % 2 == 0 && x.cols % head_dim == 0);
    if (ki_storage_of(x.dtype) < 0)
        return ki_refuse("rotary", x.dtype);
    if (positions == 0 || x.cols == 0)
        return KITH_OK;
    const kith_status status = make_angles(device, base, half, positions, real);
    if (status != KITH_OK)
        return status;
    const ki_rotary_args args = { x, device->angles.memory, batch, (int32_t)half, is_inverse };
    ki_mat turned = x;
    turned.cols = x.cols / 2;
    return ki_launch(device, &rotary_kernel, x.dtype, x.dtype, ki_grid_of_chunks(turned, ki_chunk_of(x.dtype, x.dtype)),
                     &args);
}

void ki_fill_rotary(ki_compute_ops *ops)
{
    ops->rotary = rotary;
}
