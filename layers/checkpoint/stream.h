/* layers/checkpoint/stream.h - runs of elements to a file and from it, with few calls to the system.
 *
 * Neighbouring runs are written together. Short runs that lie apart (columns of a matrix) are read by the window that
 * they lie in, long ones by themselves.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_CHECKPOINT_STREAM_H
#define KI_CHECKPOINT_STREAM_H

#include "disk.h"
#include "part.h"

typedef struct ki_stream {
    int fd;
    const char *path;
    char *buffer;
    size_t used; /* bytes of the file that buffer holds, from `at` on */
    int64_t at;
    int64_t file_nbytes; /* reading: no window goes beyond */
} ki_stream;

/* fd and path stay the caller's. */
kith_status ki_stream_init(ki_stream *stream, int fd, const char *path, int64_t file_nbytes);
void ki_stream_fini(ki_stream *stream);

/* A run of elements of dtype from memory to byte `at` of the file. */
kith_status ki_stream_write(ki_stream *stream, int64_t at, const ki_stretch *run, kith_dtype dtype);
/* What is still in the buffer. */
kith_status ki_stream_flush(ki_stream *stream);

/* From the file, where numbers are of `stored`, to memory, where they are of `dtype`. */
kith_status ki_stream_read(ki_stream *stream, int64_t at, const ki_stretch *run, kith_dtype stored, kith_dtype dtype);

#endif
