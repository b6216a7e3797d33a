/* tests/simgpu/copy.c - copies and fills.
 *
 * Ordinary memory of the host is read when the call returns: its bytes travel with the operation. A copy into ordinary
 * memory blocks the host until it is done. Between pinned and device memory, and within either, the call returns at
 * once, and the bytes are read and written when the stream comes there.
 *
 * cudaMemcpy() is the same in the default stream. Only a copy that touches host memory blocks, and one from ordinary
 * host memory to the device may return before the bytes have arrived, so the host knows nothing of it then.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "engine.h"
#include <stdlib.h>
#include <string.h>

typedef struct copy {
    void *to;
    const void *from; /* NULL: from the bytes behind this struct, packed */
    size_t to_pitch, from_pitch, row_nbytes, rows;
    bool is_to_host; /* `to` is ordinary memory */
    char bytes[];
} copy;

static void run_copy(void *arg)
{
    copy *c = arg;
    if (sim_fault("copy")) {
        sim_device_broken(sim_running()->stream->device, cudaErrorIllegalAddress);
        return;
    }
    for (size_t i = 0; i < c->rows; i++) {
        const char *from = c->bytes + i * c->row_nbytes;
        char *to = (char *)c->to + i * c->to_pitch;
        if (c->from != NULL)
            from = sim_access_any((const char *)c->from + i * c->from_pitch, c->row_nbytes, SIM_READ);
        if (!c->is_to_host)
            to = sim_access_any(to, c->row_nbytes, SIM_WRITE);
        if (from == NULL || to == NULL)
            return;
        memmove(to, from, c->row_nbytes);
    }
}

static const char *name_of(sim_kind to, sim_kind from)
{
    static const char *const names[3][3] = {
        { "copy host to host", "copy device to host", "copy pinned to host" },
        { "copy host to device", "copy device to device", "copy pinned to device" },
        { "copy host to pinned", "copy device to pinned", "copy pinned to pinned" },
    };
    return names[to][from];
}

/* 0 when the caller's word for the direction is right. */
static int check_kind(enum cudaMemcpyKind kind, sim_kind to, sim_kind from, const char *api)
{
    static const char *const names[] = { "host to host", "host to device", "device to host", "device to device" };
    if (kind == cudaMemcpyDefault)
        return 0;
    const unsigned real = (to == SIM_DEVICE ? 1u : 0u) + (from == SIM_DEVICE ? 2u : 0u);
    if ((unsigned)kind == real)
        return 0;
    sim_fail("%s: said to be %s and is %s", api, (unsigned)kind < 4 ? names[kind] : "of no kind", names[real]);
    return 1;
}

/* The kind of memory; bounds are checked when the copy runs, of what is live at the call already here. */
static sim_kind kind_at(const void *ptr, size_t nbytes, const char *api, int *failed)
{
    sim_place place;
    char text[256];
    if (!sim_place_find(ptr, &place)) {
        if (ptr == NULL || sim_memory_is_ours(ptr)) {
            sim_fail("%s: %p: %s", api, ptr, sim_memory_explain(ptr, nbytes, text, sizeof text));
            *failed = 1;
        }
        return SIM_HOST;
    }
    if (nbytes > place.nbytes - ((uintptr_t)ptr - place.from)) {
        sim_fail("%s: %p: %s", api, ptr, sim_memory_explain(ptr, nbytes, text, sizeof text));
        *failed = 1;
    }
    return place.kind;
}

typedef enum blocking { NEVER_MORE, IF_HOST } blocking;

static cudaError_t put(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t row_nbytes, size_t rows,
                       enum cudaMemcpyKind kind, cudaStream_t into, blocking blocks, const char *api)
{
    sim_stream *stream = sim_stream_of(into, api);
    if (stream == NULL)
        return cudaErrorInvalidResourceHandle;
    if (row_nbytes == 0 || rows == 0)
        return cudaSuccess;
    if (rows > 1 && (to_pitch < row_nbytes || from_pitch < row_nbytes))
        return cudaErrorInvalidValue;
    int failed = 0;
    const sim_kind to_kind = kind_at(to, to_pitch * (rows - 1) + row_nbytes, api, &failed);
    const sim_kind from_kind = kind_at(from, from_pitch * (rows - 1) + row_nbytes, api, &failed);
    if (failed || check_kind(kind, to_kind, from_kind, api))
        return cudaErrorInvalidValue;
    const bool travels = from_kind == SIM_HOST;
    copy *c = malloc(sizeof *c + (travels ? row_nbytes * rows : 0));
    if (c == NULL)
        return cudaErrorMemoryAllocation;
    *c = (copy){ to, travels ? NULL : from, to_pitch, from_pitch, row_nbytes, rows, to_kind == SIM_HOST };
    for (size_t i = 0; i < rows && travels; i++)
        memcpy(c->bytes + i * row_nbytes, (const char *)from + i * from_pitch, row_nbytes);
    sim_mark *mark;
    sim_stream_put(stream, sim_op_new(name_of(to_kind, from_kind), run_copy, c), &mark);
    const bool touches_host = to_kind != SIM_DEVICE || from_kind == SIM_PINNED;
    if (to_kind == SIM_HOST || (blocks == IF_HOST && touches_host))
        sim_mark_wait(mark);
    sim_mark_release(mark);
    return to_kind == SIM_HOST ? sim_device_error(stream->device) : cudaSuccess;
}

SIM_API cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t nbytes, enum cudaMemcpyKind kind,
                                    cudaStream_t into)
{
    SIM_ENTER(cudaMemcpyAsync);
    return sim_leave(put(to, nbytes, from, nbytes, nbytes, 1, kind, into, NEVER_MORE, "cudaMemcpyAsync"));
}

SIM_API cudaError_t cudaMemcpy(void *to, const void *from, size_t nbytes, enum cudaMemcpyKind kind)
{
    SIM_ENTER(cudaMemcpy);
    return sim_leave(put(to, nbytes, from, nbytes, nbytes, 1, kind, NULL, IF_HOST, "cudaMemcpy"));
}

SIM_API cudaError_t cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t row_nbytes,
                                      size_t rows, enum cudaMemcpyKind kind, cudaStream_t into)
{
    SIM_ENTER(cudaMemcpy2DAsync);
    return sim_leave(
        put(to, to_pitch, from, from_pitch, row_nbytes, rows, kind, into, NEVER_MORE, "cudaMemcpy2DAsync"));
}

/* ---- fills ---- */

typedef struct fill {
    void *to;
    size_t nbytes;
    int byte;
} fill;

static void run_fill(void *arg)
{
    const fill *f = arg;
    void *to = sim_access_any(f->to, f->nbytes, SIM_WRITE);
    if (to != NULL)
        memset(to, f->byte, f->nbytes);
}

static cudaError_t put_fill(void *to, int byte, size_t nbytes, cudaStream_t into, const char *api)
{
    sim_stream *stream = sim_stream_of(into, api);
    int failed = 0;
    if (stream == NULL)
        return cudaErrorInvalidResourceHandle;
    if (nbytes == 0)
        return cudaSuccess;
    const sim_kind kind = kind_at(to, nbytes, api, &failed);
    if (failed)
        return cudaErrorInvalidValue;
    if (kind == SIM_HOST) {
        sim_fail("%s: %p is memory of the host that CUDA does not know", api, to);
        return cudaErrorInvalidValue;
    }
    fill *f = malloc(sizeof *f);
    if (f == NULL)
        return cudaErrorMemoryAllocation;
    *f = (fill){ to, nbytes, byte };
    sim_stream_put(stream, sim_op_new("fill", run_fill, f), NULL);
    return cudaSuccess;
}

SIM_API cudaError_t cudaMemsetAsync(void *to, int byte, size_t nbytes, cudaStream_t into)
{
    SIM_ENTER(cudaMemsetAsync);
    return sim_leave(put_fill(to, byte, nbytes, into, "cudaMemsetAsync"));
}

SIM_API cudaError_t cudaMemset(void *to, int byte, size_t nbytes)
{
    SIM_ENTER(cudaMemset);
    return sim_leave(put_fill(to, byte, nbytes, NULL, "cudaMemset"));
}
