/* tools/run_output.c - output of all ranks, line by line, each with its rank in front.
 *
 *     ranks --pipes--> streams (one line in the making each) --whole lines--> sinks (bytes in order) --> stdout, stderr
 *
 * A line is passed on when it is complete, or when its stream has ended; so lines never mix. A line longer than
 * LINE_MAX_NBYTES is broken. A sink that is full stops the reading of its streams, which stops the ranks: memory stays
 * bounded whatever they write. Nothing here blocks: sinks are written in pieces of at most PIPE_BUF bytes after poll()
 * said that there is room, as the descriptors are shared with other processes and must not be made non-blocking.
 *
 * When stdout and stderr are the same file, both streams feed one sink, else half lines of the two could meet there.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "run.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LINE_MAX_NBYTES ((size_t)1 << 20)
#define SINK_HIGH_NBYTES ((size_t)1 << 20) /* above this no more is read for the sink */
#define READ_NBYTES ((size_t)1 << 16)
#define WRITES_AT_ONCE 64
#define PREFIX_NBYTES 16

typedef struct bytes {
    char *data;
    size_t begin, end, capacity;
} bytes;

typedef struct sink {
    int fd;
    bool is_broken; /* the reader has gone: what comes is dropped */
    bytes queue;
} sink;

typedef struct stream {
    int fd; /* -1: closed */
    int rank;
    sink *sink;
    bytes line;
} stream;

struct ki_run_output {
    const char *name;
    int rank_count, digits;
    sink sinks[2];
    int sink_count;
    stream *streams; /* [2 * rank_count] */
    char *scratch;   /* [READ_NBYTES] */
    size_t *polled;  /* stream of each entry of the last poll after those of the sinks */
    size_t polled_sinks;
};

/* Appends; false when memory is short. */
static bool bytes_append(bytes *to, const char *data, size_t nbytes)
{
    if (nbytes == 0) return true; /* data may be NULL */
    if (to->capacity - to->end < nbytes && to->begin > 0) {
        memmove(to->data, to->data + to->begin, to->end - to->begin);
        to->end -= to->begin;
        to->begin = 0;
    }
    if (to->capacity - to->end < nbytes) {
        size_t capacity = (to->end + nbytes) * 2;
        char *larger = realloc(to->data, capacity);
        if (larger == NULL) return false;
        to->data = larger;
        to->capacity = capacity;
    }
    memcpy(to->data + to->end, data, nbytes);
    to->end += nbytes;
    return true;
}

static size_t bytes_used(const bytes *b)
{
    return b->end - b->begin;
}

static void sink_append(sink *to, const char *data, size_t nbytes)
{
    if (!to->is_broken && !bytes_append(&to->queue, data, nbytes)) to->is_broken = true;
}

/* Writes while there is room. */
static void sink_flush(sink *from)
{
    for (int i = 0; i < WRITES_AT_ONCE && bytes_used(&from->queue) > 0 && !from->is_broken; i++) {
        struct pollfd room = { from->fd, POLLOUT, 0 };
        if (poll(&room, 1, 0) <= 0) return;
        size_t nbytes = bytes_used(&from->queue) < PIPE_BUF ? bytes_used(&from->queue) : PIPE_BUF;
        ssize_t written = write(from->fd, from->queue.data + from->queue.begin, nbytes);
        if (written >= 0)
            from->queue.begin += (size_t)written;
        else if (errno != EINTR && errno != EAGAIN)
            from->is_broken = true;
    }
    if (bytes_used(&from->queue) == 0 || from->is_broken) from->queue.begin = from->queue.end = 0;
}

static void stream_close(stream *self)
{
    close(self->fd);
    self->fd = -1;
    free(self->line.data);
    self->line = (bytes){ 0 };
}

/* Prefix, what has been kept of the line, the rest, newline. */
static void stream_emit(ki_run_output *output, stream *self, const char *rest, size_t rest_nbytes)
{
    char prefix[PREFIX_NBYTES];
    int nbytes = snprintf(prefix, sizeof(prefix), "[%*d] ", output->digits, self->rank);
    sink_append(self->sink, prefix, (size_t)nbytes);
    sink_append(self->sink, self->line.data, bytes_used(&self->line));
    sink_append(self->sink, rest, rest_nbytes);
    sink_append(self->sink, "\n", 1);
    self->line.begin = self->line.end = 0;
}

static void stream_take(ki_run_output *output, stream *self, const char *data, size_t nbytes)
{
    while (nbytes > 0) {
        const char *newline = memchr(data, '\n', nbytes);
        if (newline != NULL) {
            size_t line_nbytes = (size_t)(newline - data);
            stream_emit(output, self, data, line_nbytes);
            data += line_nbytes + 1;
            nbytes -= line_nbytes + 1;
            continue;
        }
        if (bytes_used(&self->line) + nbytes > LINE_MAX_NBYTES || !bytes_append(&self->line, data, nbytes))
            stream_emit(output, self, data, nbytes);
        return;
    }
}

/* Reads once; false when there was nothing to read. */
static bool stream_advance(ki_run_output *output, stream *self)
{
    ssize_t nbytes = read(self->fd, output->scratch, READ_NBYTES);
    if (nbytes < 0) return errno == EINTR;
    if (nbytes > 0) {
        stream_take(output, self, output->scratch, (size_t)nbytes);
        return true;
    }
    if (bytes_used(&self->line) > 0) stream_emit(output, self, "", 0);
    stream_close(self);
    return false;
}

static bool is_same_file(int a, int b)
{
    struct stat of_a, of_b;
    return fstat(a, &of_a) == 0 && fstat(b, &of_b) == 0 && of_a.st_dev == of_b.st_dev && of_a.st_ino == of_b.st_ino;
}

ki_run_output *ki_run_output_create(const char *name, int rank_count)
{
    ki_run_output *output = calloc(1, sizeof(*output));
    if (output == NULL) return NULL;
    size_t stream_count = 2 * (size_t)rank_count;
    output->name = name;
    output->rank_count = rank_count;
    output->digits = snprintf(NULL, 0, "%d", rank_count > 0 ? rank_count - 1 : 0);
    output->streams = calloc(stream_count + 1, sizeof(*output->streams));
    output->polled = calloc(stream_count + 1, sizeof(*output->polled));
    output->scratch = malloc(READ_NBYTES);
    if (output->streams == NULL || output->polled == NULL || output->scratch == NULL) {
        ki_run_output_destroy(output);
        return NULL;
    }
    output->sinks[0].fd = STDOUT_FILENO;
    output->sinks[1].fd = STDERR_FILENO;
    output->sink_count = is_same_file(STDOUT_FILENO, STDERR_FILENO) ? 1 : 2;
    for (size_t i = 0; i < stream_count; i++)
        output->streams[i] = (stream){ -1, (int)(i / 2), &output->sinks[output->sink_count == 1 ? 0 : i % 2], { 0 } };
    return output;
}

void ki_run_output_destroy(ki_run_output *output)
{
    if (output == NULL) return;
    for (size_t i = 0; output->streams != NULL && i < 2 * (size_t)output->rank_count; i++)
        if (output->streams[i].fd >= 0) stream_close(&output->streams[i]);
    for (int i = 0; i < 2; i++)
        free(output->sinks[i].queue.data);
    free(output->streams);
    free(output->polled);
    free(output->scratch);
    free(output);
}

int ki_run_output_open(ki_run_output *output, int rank, int write_fds[2])
{
    stream *streams = &output->streams[2 * (size_t)rank];
    for (int i = 0; i < 2; i++) {
        int fds[2];
        if (pipe2(fds, O_CLOEXEC) != 0) {
            int cause = errno;
            if (i == 1) {
                close(write_fds[0]);
                stream_close(&streams[0]);
            }
            errno = cause;
            return -1;
        }
        fcntl(fds[0], F_SETFL, O_NONBLOCK); /* this end is ours alone */
        streams[i].fd = fds[0];
        write_fds[i] = fds[1];
    }
    return 0;
}

void ki_run_output_message(ki_run_output *output, const char *format, ...)
{
    char line[512];
    size_t used = (size_t)snprintf(line, sizeof(line), "kith %s: ", output->name);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line + used, sizeof(line) - used - 1, format, arguments);
    va_end(arguments);
    size_t nbytes = strlen(line);
    line[nbytes++] = '\n';
    if (output->rank_count > 0)
        sink_append(&output->sinks[output->sink_count - 1], line, nbytes);
    else if (write(STDERR_FILENO, line, nbytes) < 0)
        return; /* nowhere else to say it */
}

size_t ki_run_output_poll_max(const ki_run_output *output)
{
    return 2 + 2 * (size_t)output->rank_count;
}

size_t ki_run_output_poll(ki_run_output *output, struct pollfd *fds)
{
    size_t count = 0, stream_count = 2 * (size_t)output->rank_count;
    for (int i = 0; i < output->sink_count; i++)
        if (bytes_used(&output->sinks[i].queue) > 0) fds[count++] = (struct pollfd){ output->sinks[i].fd, POLLOUT, 0 };
    output->polled_sinks = count;
    for (size_t i = 0; i < stream_count; i++) {
        const stream *s = &output->streams[i];
        if (s->fd < 0 || bytes_used(&s->sink->queue) > SINK_HIGH_NBYTES) continue;
        output->polled[count - output->polled_sinks] = i;
        fds[count++] = (struct pollfd){ s->fd, POLLIN, 0 };
    }
    return count;
}

void ki_run_output_advance(ki_run_output *output, const struct pollfd *fds, size_t count)
{
    for (size_t i = output->polled_sinks; i < count; i++) {
        stream *s = &output->streams[output->polled[i - output->polled_sinks]];
        if (fds[i].revents != 0) stream_advance(output, s);
        if (s->fd >= 0 && s->sink->is_broken) stream_close(s); /* the rank learns it as it would without us: SIGPIPE */
    }
    for (int i = 0; i < output->sink_count; i++)
        sink_flush(&output->sinks[i]);
}

void ki_run_output_drain(ki_run_output *output)
{
    for (size_t i = 0; i < 2 * (size_t)output->rank_count; i++) {
        stream *s = &output->streams[i];
        while (s->fd >= 0 && stream_advance(output, s))
            continue;
        if (s->fd >= 0 && bytes_used(&s->line) > 0) stream_emit(output, s, "", 0);
        if (s->fd >= 0) stream_close(s);
    }
}

bool ki_run_output_is_empty(const ki_run_output *output)
{
    for (int i = 0; i < output->sink_count; i++)
        if (bytes_used(&output->sinks[i].queue) > 0 && !output->sinks[i].is_broken) return false;
    return true;
}
