/* layers/checkpoint/stream.c - see stream.h.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "stream.h"

#include "convert.h"
#include "core/base/error.h"
#include "core/base/fault.h"

#include <stdlib.h>
#include <string.h>

#define BUFFER_NBYTES ((size_t)4 << 20)
#define SHORT_NBYTES ((size_t)16 << 10) /* a run below this is read with what lies around it */

kith_status ki_stream_init(ki_stream *stream, int fd, const char *path, int64_t file_nbytes)
{
    *stream = (ki_stream){ .fd = fd, .path = path, .file_nbytes = file_nbytes };
    stream->buffer = ki_fault(KI_FAULT_ALLOC) ? NULL : malloc(BUFFER_NBYTES);
    return stream->buffer != NULL ? KITH_OK : ki_fail(KITH_ERR_NO_MEMORY, "%s: no memory for a buffer of 4 MiB", path);
}

void ki_stream_fini(ki_stream *stream)
{
    free(stream->buffer);
    stream->buffer = NULL;
}

kith_status ki_stream_flush(ki_stream *stream)
{
    size_t nbytes = stream->used;
    stream->used = 0;
    return nbytes == 0 ? KITH_OK : ki_disk_write(stream->fd, stream->path, stream->buffer, nbytes, stream->at);
}

kith_status ki_stream_write(ki_stream *stream, int64_t at, const ki_stretch *run, kith_dtype dtype)
{
    int64_t width = (int64_t)kith_dtype_nbytes(dtype), done = 0;
    while (done < run->count) {
        int64_t here = at + done * width;
        bool is_next = stream->used > 0 && stream->at + (int64_t)stream->used == here;
        if (!is_next || stream->used + (size_t)width > BUFFER_NBYTES) {
            kith_status status = ki_stream_flush(stream);
            if (status != KITH_OK)
                return status;
            stream->at = here;
        }
        int64_t room = (int64_t)(BUFFER_NBYTES - stream->used) / width;
        int64_t count = run->count - done < room ? run->count - done : room;
        ki_convert(run->data + done * run->stride * width, dtype, run->stride, stream->buffer + stream->used, dtype, 1,
                   count);
        stream->used += (size_t)(count * width);
        done += count;
    }
    return KITH_OK;
}

/* Bytes [at, at + nbytes) in the buffer, nbytes <= BUFFER_NBYTES. */
static kith_status load(ki_stream *stream, int64_t at, size_t nbytes)
{
    if (at >= stream->at && at + (int64_t)nbytes <= stream->at + (int64_t)stream->used)
        return KITH_OK;
    size_t window = nbytes;
    if (nbytes < SHORT_NBYTES) {
        int64_t left = stream->file_nbytes - at;
        window = left < (int64_t)BUFFER_NBYTES ? (size_t)left : BUFFER_NBYTES;
    }
    stream->used = 0;
    kith_status status = ki_disk_read(stream->fd, stream->path, stream->buffer, window, at);
    if (status == KITH_OK) {
        stream->at = at;
        stream->used = window;
    }
    return status;
}

kith_status ki_stream_read(ki_stream *stream, int64_t at, const ki_stretch *run, kith_dtype stored, kith_dtype dtype)
{
    int64_t width = (int64_t)kith_dtype_nbytes(stored), memory_width = (int64_t)kith_dtype_nbytes(dtype);
    int64_t most = (int64_t)BUFFER_NBYTES / width;
    for (int64_t done = 0; done < run->count; done += most) {
        int64_t count = run->count - done < most ? run->count - done : most;
        kith_status status = load(stream, at + done * width, (size_t)(count * width));
        if (status != KITH_OK)
            return status;
        ki_convert(stream->buffer + (at + done * width - stream->at), stored, 1,
                   run->data + done * run->stride * memory_width, dtype, run->stride, count);
    }
    return KITH_OK;
}
