/* tests/simgpu/access.c - memory for operations: bounds, devices, and notes for the detector of races.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "engine.h"
#include "kernel_host.h"
#include <stdarg.h>
#include <stdio.h>

/* Finds and checks; 0 when the range may be used by the running operation. */
static int find(const void *ptr, size_t nbytes, int mode, bool any_device, sim_place *place)
{
    const sim_op *op = sim_running();
    const char *verb = mode & SIM_WRITE ? "writes" : "reads";
    char text[256];
    if (op == NULL) {
        sim_fail("sim_access(%p, %zu): outside of an operation", ptr, nbytes);
        return 1;
    }
    if (!sim_place_find(ptr, place) || nbytes > place->nbytes - ((uintptr_t)ptr - place->from)) {
        sim_fail("'%s' on device %d %s %zu bytes at %p: %s", op->what, op->stream->device, verb, nbytes, ptr,
                 sim_memory_explain(ptr, nbytes, text, sizeof text));
        return 1;
    }
    if (place->kind == SIM_DEVICE && place->device != op->stream->device && !any_device) {
        sim_fail("'%s' on device %d %s %zu bytes at %p, which is memory of device %d", op->what, op->stream->device,
                 verb, nbytes, ptr, place->device);
        return 1;
    }
    return 0;
}

static void *access_as(const void *ptr, size_t row_nbytes, size_t pitch, size_t rows, int mode, bool any_device)
{
    sim_place place;
    if (row_nbytes == 0 || rows == 0)
        return NULL;
    if (find(ptr, pitch * (rows - 1) + row_nbytes, mode, any_device, &place))
        return NULL;
    const size_t offset = (uintptr_t)ptr - place.from;
    pthread_mutex_lock(&sim_shadow_lock);
    for (size_t i = 0; i < rows; i++)
        sim_shadow_touch(sim_running(), &place, offset + i * pitch, row_nbytes, mode);
    pthread_mutex_unlock(&sim_shadow_lock);
    return place.alias + offset;
}

void *sim_access(const void *ptr, size_t nbytes, int mode)
{
    return access_as(ptr, nbytes, nbytes, 1, mode, false);
}

void *sim_access_2d(const void *ptr, size_t row_nbytes, size_t pitch, size_t rows, int mode)
{
    if (pitch == row_nbytes)
        return access_as(ptr, row_nbytes * rows, 0, 1, mode, false);
    return access_as(ptr, row_nbytes, pitch, rows, mode, false);
}

void *sim_access_any(const void *ptr, size_t nbytes, int mode)
{
    return access_as(ptr, nbytes, nbytes, 1, mode, true);
}

/* ---- kernels; the lock of the cells is held ---- */

int sim_kernel_range(const void *ptr, size_t nbytes, int is_write, ki_sim_range *range)
{
    sim_place place;
    if (find(ptr, nbytes, is_write ? SIM_WRITE : SIM_READ, false, &place))
        return 1;
    *range = (ki_sim_range){ place.from, place.nbytes, place.alias, place.cells };
    return 0;
}

void sim_kernel_touch(const ki_sim_range *range, size_t offset, size_t nbytes, int is_write, uint32_t *seen,
                      uint32_t *next)
{
    const sim_place place = { .kind = range->alias == (char *)range->from ? SIM_PINNED : SIM_DEVICE,
                              .from = range->from,
                              .nbytes = range->nbytes,
                              .alias = range->alias,
                              .cells = range->cells };
    *seen = range->cells[offset];
    sim_shadow_touch(sim_running(), &place, offset, nbytes, is_write ? SIM_WRITE : SIM_READ);
    *next = range->cells[offset];
}

void sim_kernel_fail(const char *format, ...)
{
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    sim_fail("'%s' on device %d: %s", sim_running()->what, sim_running()->stream->device, text);
}
