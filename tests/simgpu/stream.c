/* tests/simgpu/stream.c - streams: queues whose operations run in order, each stream in a thread of its own.
 *
 * Putting an operation in takes up what the host knows. Running it waits for the marks of what it must come after: the
 * default stream and the blocking streams of its device, as the legacy default stream has it, and events. Its clock is
 * then the host's at the call, joined with that of the operation before it and with those of what it waited for; an
 * operation that is over is in its own clock. The host knows what it has waited for, or asked about and found done.
 * One clock stands for all threads of the program, since how these are ordered among each other is not seen here.
 *
 * A stream's slot in the clocks is used again after its end, counting on, so that an old stream's operations are before
 * a new one's.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "engine.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char stream_kind[] = "a stream";

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t something_done = PTHREAD_COND_INITIALIZER;
static sim_stream *streams;   /* all that have work or a handle, default ones too */
static sim_stream *graveyard; /* of destroyed ones, whose memory stays theirs */
static sim_stream *defaults[SIM_MAX_DEVICES];
static sim_clock departed[SIM_MAX_DEVICES]; /* of streams that are gone */
static sim_clock host;
static uint32_t slot_seq[SIM_MAX_SLOTS]; /* where the next user of a slot counts on */
static bool slot_taken[SIM_MAX_SLOTS];
static int numbered;
static __thread sim_op *running;

sim_op *sim_running(void)
{
    return running;
}

/* ---- marks ---- */

static void release(sim_mark *mark)
{
    if (mark != NULL && --mark->refs == 0) {
        sim_clock_free(&mark->clock);
        free(mark);
    }
}

void sim_mark_hold(sim_mark *mark)
{
    pthread_mutex_lock(&lock);
    mark->refs++;
    pthread_mutex_unlock(&lock);
}

void sim_mark_release(sim_mark *mark)
{
    pthread_mutex_lock(&lock);
    release(mark);
    pthread_mutex_unlock(&lock);
}

void sim_mark_wait(sim_mark *mark)
{
    pthread_mutex_lock(&lock);
    while (!mark->is_done)
        pthread_cond_wait(&something_done, &lock);
    sim_clock_join(&host, &mark->clock);
    pthread_mutex_unlock(&lock);
}

bool sim_mark_is_done(sim_mark *mark)
{
    if (mark == NULL)
        return true;
    pthread_mutex_lock(&lock);
    const bool is_done = mark->is_done;
    if (is_done)
        sim_clock_join(&host, &mark->clock);
    pthread_mutex_unlock(&lock);
    return is_done;
}

sim_mark *sim_stream_newest(sim_stream *stream)
{
    pthread_mutex_lock(&lock);
    sim_mark *mark = stream->newest;
    if (mark != NULL)
        mark->refs++;
    pthread_mutex_unlock(&lock);
    return mark;
}

/* ---- operations ---- */

static void *must(void *memory)
{
    if (memory == NULL)
        abort();
    return memory;
}

sim_op *sim_op_new(const char *what, void (*run)(void *arg), void *arg)
{
    sim_op *op = must(calloc(1, sizeof *op));
    op->what = what;
    op->run = run;
    op->arg = arg;
    op->mark = must(calloc(1, sizeof *op->mark));
    op->mark->refs = 1;
    return op;
}

static void wait_for(sim_op *op, sim_mark *mark)
{
    if (mark == NULL)
        return;
    op->waits = must(realloc(op->waits, (op->wait_count + 1) * sizeof *op->waits));
    op->waits[op->wait_count++] = mark;
    mark->refs++;
}

void sim_op_wait(sim_op *op, sim_mark *mark)
{
    pthread_mutex_lock(&lock);
    wait_for(op, mark);
    pthread_mutex_unlock(&lock);
}

static void free_op(sim_op *op)
{
    for (uint32_t i = 0; i < op->wait_count; i++)
        release(op->waits[i]);
    release(op->mark);
    sim_clock_free(&op->clock);
    free(op->waits);
    free(op->arg);
    free(op);
}

static void delay(uint64_t *random)
{
    const sim_settings *settings = sim_settings_get();
    if (settings->delay_us == 0)
        return;
    const uint64_t us = sim_random(random) % (settings->delay_us + 1u);
    const struct timespec time = { (time_t)(us / 1000000u), (long)(us % 1000000u) * 1000 };
    nanosleep(&time, NULL);
}

static int64_t now_ns(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

/* Without the lock. On a device that is broken nothing runs any more. */
static void run_one(sim_op *op)
{
    running = op;
    if (op->run != NULL && sim_device_error(op->stream->device) == cudaSuccess)
        op->run(op->arg);
    running = NULL;
}

/* The first operation, when all that it waits for is over; with the lock. */
static void step(sim_stream *stream, uint64_t *random)
{
    sim_op *op = stream->first;
    for (uint32_t i = 0; i < op->wait_count; i++)
        while (!op->waits[i]->is_done)
            pthread_cond_wait(&something_done, &lock);
    sim_clock_join(&op->clock, &stream->clock);
    for (uint32_t i = 0; i < op->wait_count; i++)
        sim_clock_join(&op->clock, &op->waits[i]->clock);
    sim_clock_set(&op->clock, op->slot, op->seq);
    pthread_mutex_unlock(&lock);
    delay(random);
    run_one(op);
    pthread_mutex_lock(&lock);
    sim_clock_join(&stream->clock, &op->clock);
    sim_clock_join(&op->mark->clock, &op->clock);
    op->mark->time_ns = now_ns();
    op->mark->is_done = true;
    stream->first = op->next;
    if (stream->first == NULL)
        stream->last = NULL;
    free_op(op);
    pthread_cond_broadcast(&something_done);
}

/* A stream without handle and work; with the lock. */
static void bury(sim_stream *stream)
{
    for (sim_stream **at = &streams; *at != NULL; at = &(*at)->next)
        if (*at == stream) {
            *at = stream->next;
            break;
        }
    sim_clock_join(&departed[stream->device], &stream->clock);
    slot_seq[stream->slot] = stream->seq;
    slot_taken[stream->slot] = false;
    release(stream->newest);
    stream->newest = NULL;
    sim_clock_free(&stream->clock);
    stream->next = graveyard;
    graveyard = stream;
}

static void *work(void *arg)
{
    sim_stream *stream = arg;
    uint64_t random =
        sim_settings_get()->seed * 0x100000001b3u + (uint64_t)stream->number * 977u + (uint64_t)stream->device;
    pthread_mutex_lock(&lock);
    for (;;) {
        if (stream->first != NULL)
            step(stream, &random);
        else if (stream->is_closing)
            break;
        else
            pthread_cond_wait(&stream->work, &lock);
    }
    bury(stream);
    pthread_mutex_unlock(&lock);
    return NULL;
}

static void start_thread(sim_stream *stream)
{
    pthread_t thread;
    pthread_attr_t attributes;
    if (stream->has_thread)
        return;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    if (pthread_create(&thread, &attributes, work, stream) != 0) {
        fprintf(stderr, "simgpu: no thread for a stream\n");
        abort();
    }
    pthread_attr_destroy(&attributes);
    stream->has_thread = true;
}

static bool is_blocking(const sim_stream *stream)
{
    return (stream->flags & cudaStreamNonBlocking) == 0;
}

/* What the legacy default stream means. */
static void wait_for_default(sim_stream *stream, sim_op *op)
{
    if (stream->number == 0) {
        sim_clock_join(&op->clock, &departed[stream->device]);
        for (sim_stream *other = streams; other != NULL; other = other->next)
            if (other != stream && other->device == stream->device && is_blocking(other))
                wait_for(op, other->newest);
    } else if (is_blocking(stream) && defaults[stream->device] != NULL) {
        wait_for(op, defaults[stream->device]->newest);
    }
}

void sim_stream_put(sim_stream *stream, sim_op *op, sim_mark **mark)
{
    pthread_mutex_lock(&lock);
    op->stream = stream;
    op->slot = stream->slot;
    op->seq = ++stream->seq;
    sim_clock_join(&op->clock, &host);
    wait_for_default(stream, op);
    if (mark != NULL) {
        *mark = op->mark;
        op->mark->refs++;
    }
    release(stream->newest);
    stream->newest = op->mark;
    op->mark->refs++;
    if (stream->last == NULL)
        stream->first = op;
    else
        stream->last->next = op;
    stream->last = op;
    start_thread(stream);
    pthread_cond_signal(&stream->work);
    pthread_mutex_unlock(&lock);
}

/* ---- streams ---- */

/* With the lock. */
static sim_stream *stream_new(int device, unsigned flags, int priority, bool is_default)
{
    sim_stream *stream = must(calloc(1, sizeof *stream));
    uint32_t slot = 0;
    while (slot < SIM_MAX_SLOTS && slot_taken[slot])
        slot++;
    if (slot == SIM_MAX_SLOTS) {
        fprintf(stderr, "simgpu: more than %d streams\n", SIM_MAX_SLOTS);
        abort();
    }
    slot_taken[slot] = true;
    *stream = (sim_stream){ .next = streams,
                            .device = device,
                            .number = is_default ? 0 : ++numbered,
                            .flags = flags,
                            .priority = priority,
                            .slot = slot,
                            .seq = slot_seq[slot] };
    pthread_cond_init(&stream->work, NULL);
    streams = stream;
    return stream;
}

static sim_stream *default_of(int device)
{
    pthread_mutex_lock(&lock);
    if (defaults[device] == NULL)
        defaults[device] = stream_new(device, 0, 0, true);
    sim_stream *stream = defaults[device];
    pthread_mutex_unlock(&lock);
    return stream;
}

sim_stream *sim_stream_of(cudaStream_t handle, const char *api)
{
    if (handle == NULL || handle == cudaStreamLegacy)
        return default_of(sim_current_device());
    if (handle == cudaStreamPerThread) {
        sim_fail("%s: cudaStreamPerThread is not simulated", api);
        return NULL;
    }
    if (!sim_handle_known(stream_kind, handle)) {
        sim_fail("%s: %p is no stream: it was destroyed or never made", api, (void *)handle);
        return NULL;
    }
    return (sim_stream *)handle;
}

void sim_device_wait(int device, bool host_knows)
{
    pthread_mutex_lock(&lock);
    for (bool again = true; again;) {
        again = false;
        for (sim_stream *stream = streams; stream != NULL && !again; stream = stream->next)
            if (stream->device == device && stream->newest != NULL && !stream->newest->is_done) {
                sim_mark *mark = stream->newest;
                mark->refs++;
                while (!mark->is_done)
                    pthread_cond_wait(&something_done, &lock);
                release(mark);
                again = true; /* the list may be another one now */
            }
    }
    for (sim_stream *stream = streams; stream != NULL && host_knows; stream = stream->next)
        if (stream->device == device)
            sim_clock_join(&host, &stream->clock);
    if (host_knows)
        sim_clock_join(&host, &departed[device]);
    pthread_mutex_unlock(&lock);
}

bool sim_stream_is_idle(sim_stream *stream)
{
    bool is_idle = true;
    pthread_mutex_lock(&lock);
    for (sim_stream *other = streams; other != NULL; other = other->next)
        if (other == stream || (stream->number == 0 && other->device == stream->device && is_blocking(other)))
            is_idle = is_idle && (other->newest == NULL || other->newest->is_done);
    for (sim_stream *other = streams; other != NULL && is_idle; other = other->next)
        if (other == stream || (stream->number == 0 && other->device == stream->device && is_blocking(other)))
            sim_clock_join(&host, &other->clock);
    pthread_mutex_unlock(&lock);
    return is_idle;
}

/* ---- handles ---- */

sim_stream *sim_stream_open(int device, unsigned flags, int priority)
{
    pthread_mutex_lock(&lock);
    sim_stream *stream = stream_new(device, flags, priority, false);
    pthread_mutex_unlock(&lock);
    sim_handle_add(stream_kind, stream);
    return stream;
}

int sim_stream_close(sim_stream *stream)
{
    if (sim_handle_remove(stream_kind, stream))
        return 1;
    pthread_mutex_lock(&lock);
    stream->is_closing = true;
    if (stream->has_thread)
        pthread_cond_signal(&stream->work);
    else
        bury(stream);
    pthread_mutex_unlock(&lock);
    return 0;
}
