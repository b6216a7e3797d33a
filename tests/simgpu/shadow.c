/* tests/simgpu/shadow.c - the detector of races.
 *
 * Each byte of simulated memory has a cell, the number of a state: the operation that wrote the byte last and those
 * that have read it since (of reads that come one after the other, the last). State 0 is a byte that nobody has touched
 * since it was allocated. States never change; an access makes of a state the next one,
 *
 *     read by X:  same writer, readers that X does not come after, and X
 *     write by X: writer X, no readers
 *
 * and an access is right when X comes after the writer and, if it writes, after all readers. What comes after what is
 * known from vector clocks (stream.c), so it does not matter which of two operations ran first. The outcome for each
 * pair of operation and state is looked up in a cache, so that a copy of a megabyte thinks once.
 *
 * States and records are kept until the process ends: some 50 bytes for each operation.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "engine.h"
#include "kernel_host.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CACHE = 1 << 14 };

typedef struct record {
    uint32_t slot, seq;
    int device, stream; /* for sentences */
    const char *what;
} record;

typedef struct state {
    uint32_t writer;                /* a record, 0: none */
    uint32_t readers, reader_count; /* in pool */
} state;

typedef struct known {
    uint32_t record, from, to;
    int is_write; /* 0 or 1; a record of 0 is an empty entry */
} known;

pthread_mutex_t sim_shadow_lock = PTHREAD_MUTEX_INITIALIZER;

static record *records;
static state *states;
static uint32_t *pool;
static uint32_t record_count = 1, state_count = 1, pool_count = 1; /* number 0 is none */
static uint32_t record_room, state_room, pool_room;
static known cache[CACHE];

static void *grown(void *array, uint32_t *room, uint32_t count, size_t element_nbytes)
{
    if (count < *room)
        return array;
    *room = *room == 0 ? 4096 : 2 * *room;
    array = realloc(array, *room * element_nbytes);
    if (array == NULL)
        abort();
    return array;
}

static uint32_t record_of(sim_op *op)
{
    if (op->record == 0) {
        records = grown(records, &record_room, record_count, sizeof *records);
        records[record_count] = (record){ op->slot, op->seq, op->stream->device, op->stream->number, op->what };
        op->record = record_count++;
    }
    return op->record;
}

static uint32_t state_new(uint32_t writer, uint32_t readers, uint32_t reader_count)
{
    states = grown(states, &state_room, state_count, sizeof *states);
    if (state_count == 1)
        states[0] = (state){ 0, 0, 0 };
    states[state_count] = (state){ writer, readers, reader_count };
    return state_count++;
}

static bool is_after(const sim_op *op, uint32_t number)
{
    return number == 0 || sim_clock_has(&op->clock, records[number].slot, records[number].seq);
}

/* "'ki_add_f32' in stream 3 of device 0" */
static const char *name_of(const record *r, char *text, size_t text_nbytes)
{
    if (r->stream == 0)
        snprintf(text, text_nbytes, "'%s' in the default stream of device %d", r->what, r->device);
    else
        snprintf(text, text_nbytes, "'%s' in stream %d of device %d", r->what, r->stream, r->device);
    return text;
}

static void report(const sim_op *op, uint32_t other, bool other_writes, bool is_write, const sim_place *place,
                   size_t offset)
{
    char mine[160], theirs[160];
    sim_fail("race: %s %s and %s %s byte %zu of a buffer of %zu bytes (%p, %s), and neither is ordered after the other",
             name_of(&records[op->record], mine, sizeof mine), is_write ? "writes" : "reads",
             name_of(&records[other], theirs, sizeof theirs), other_writes ? "writes" : "reads", offset, place->nbytes,
             (void *)place->from, place->kind == SIM_PINNED ? "pinned memory" : "device memory");
}

/* An operation's second read, and its read of what it wrote itself, change nothing. */
static uint32_t after_read(sim_op *op, uint32_t number, state from)
{
    const uint32_t first = pool_count;
    bool is_known = from.writer == op->record;
    for (uint32_t i = 0; i < from.reader_count; i++)
        is_known = is_known || pool[from.readers + i] == op->record;
    if (is_known)
        return number;
    for (uint32_t i = 0; i < from.reader_count; i++) {
        const uint32_t reader = pool[from.readers + i];
        if (is_after(op, reader))
            continue;
        pool = grown(pool, &pool_room, pool_count, sizeof *pool);
        pool[pool_count++] = reader;
    }
    pool = grown(pool, &pool_room, pool_count, sizeof *pool);
    pool[pool_count++] = op->record;
    return state_new(from.writer, first, pool_count - first);
}

static uint32_t after_write(sim_op *op)
{
    if (op->written == 0)
        op->written = state_new(op->record, 0, 0);
    return op->written;
}

/* What one access makes of a cell; where: for the sentence. */
static uint32_t next_of(sim_op *op, uint32_t number, int is_write, const sim_place *place, size_t offset)
{
    const uint32_t mine = record_of(op);
    known *slot = &cache[(number * 0x9e3779b1u + mine * 0x85ebca6bu + (unsigned)is_write) >> 18];
    if (slot->record == mine && slot->from == number && slot->is_write == is_write)
        return slot->to;
    const state from = number == 0 ? (state){ 0, 0, 0 } : states[number];
    if (!is_after(op, from.writer))
        report(op, from.writer, true, is_write != 0, place, offset);
    for (uint32_t i = 0; is_write && i < from.reader_count; i++)
        if (!is_after(op, pool[from.readers + i]))
            report(op, pool[from.readers + i], false, true, place, offset);
    const uint32_t next = is_write ? after_write(op) : after_read(op, number, from);
    *slot = (known){ mine, number, next, is_write };
    return next;
}

/* Runs of cells in the same state are found and changed as such. */
static void touch(sim_op *op, const sim_place *place, size_t offset, size_t nbytes, int is_write)
{
    uint32_t *cell = place->cells + offset, *const end = cell + nbytes;
    while (cell < end) {
        const uint32_t number = *cell;
        const uint32_t next = next_of(op, number, is_write, place, (size_t)(cell - place->cells));
        for (; end - cell >= 16; cell += 16) {
            uint32_t different = 0;
            for (int i = 0; i < 16; i++)
                different |= cell[i] ^ number;
            if (different != 0)
                break;
            for (int i = 0; i < 16; i++)
                cell[i] = next;
        }
        for (; cell < end && *cell == number; cell++)
            *cell = next;
    }
}

void sim_shadow_touch(sim_op *op, const sim_place *place, size_t offset, size_t nbytes, int mode)
{
    if (mode & SIM_READ)
        touch(op, place, offset, nbytes, 0);
    if (mode & SIM_WRITE)
        touch(op, place, offset, nbytes, 1);
}
