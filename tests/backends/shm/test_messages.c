/* tests/backends/shm/test_messages.c - messages of every size on every way: order, early ones, self, cancel.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "harness.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

typedef struct message {
    kith_be_slot slot;
    kith_be_msg msg;
    unsigned seed;
    bool is_send;
} message;

static unsigned char byte_of(unsigned seed, size_t index)
{
    return (unsigned char)(seed * 31u + (unsigned)index * 7u + (unsigned)(index >> 8));
}

static void start_message(harness_rank *me, message *m, bool is_send, int peer, uint64_t tag, unsigned char *buffer,
                          size_t nbytes, unsigned seed)
{
    memset(m, 0, sizeof *m);
    m->msg = (kith_be_msg){ .peer = peer, .tag = tag, .buffer = buffer, .nbytes = nbytes };
    m->is_send = is_send;
    m->seed = seed;
    for (size_t i = 0; i < nbytes; i++)
        buffer[i] = is_send ? byte_of(seed, i) : 0xee;
    kith_status status = is_send ? me->backend->send_start(me->group, &m->msg, &m->slot)
                                 : me->backend->recv_start(me->group, &m->msg, &m->slot);
    if (status != KITH_OK)
        harness_fail(me, "start: %s", me->detail);
}

static void finish_message(harness_rank *me, message *m)
{
    size_t nbytes = 0;
    kith_status status = harness_wait_msg(me, &m->slot, &nbytes);
    if (status != KITH_OK) {
        harness_fail(me, "%s of %zu bytes, peer %d tag %d: status %d, %s", m->is_send ? "send" : "recv", m->msg.nbytes,
                     m->msg.peer, (int)m->msg.tag, status, me->detail);
        return;
    }
    if (m->is_send)
        return;
    if (nbytes != m->msg.nbytes)
        harness_fail(me, "received %zu bytes, wanted %zu", nbytes, m->msg.nbytes);
    const unsigned char *data = m->msg.buffer;
    for (size_t i = 0; i < nbytes; i++) {
        if (data[i] != byte_of(m->seed, i)) {
            harness_fail(me, "recv from %d tag %d: byte %zu of %zu is %d, wanted %d", m->msg.peer, (int)m->msg.tag, i,
                         nbytes, data[i], byte_of(m->seed, i));
            return;
        }
    }
}

static const size_t sizes[] = { 0,    1,    8,     40,    41,    64,     65,     1000,   4096,   8191,
                                8192, 8193, 16384, 32768, 32769, 100000, 262144, 262145, 700001, 3000000 };
#define SIZE_COUNT (sizeof sizes / sizeof sizes[0])

/* Each size goes to every rank, the own included, as two messages with the same tag: order must hold. */
static void every_size(harness_rank *me)
{
    unsigned char *buffers[2 * HARNESS_RANKS * 2];
    message *messages = calloc((size_t)me->size * 4, sizeof *messages);
    for (int k = 0; k < me->size * 4; k++)
        buffers[k] = malloc(sizes[SIZE_COUNT - 1] + 1);
    for (size_t s = 0; s < SIZE_COUNT && harness_failures(me) == 0; s++) {
        int k = 0;
        for (int copy = 0; copy < 2; copy++)
            for (int r = 0; r < me->size; r++, k++)
                start_message(me, &messages[k], true, r, s, buffers[k], sizes[s],
                              (unsigned)(me->rank * 100 + r * 10 + copy));
        for (int copy = 0; copy < 2; copy++)
            for (int r = 0; r < me->size; r++, k++)
                start_message(me, &messages[k], false, r, s, buffers[k], sizes[s],
                              (unsigned)(r * 100 + me->rank * 10 + copy));
        for (int i = 0; i < k; i++)
            finish_message(me, &messages[s % 2 == 0 ? i : k - 1 - i]);
    }
    for (int k = 0; k < me->size * 4; k++)
        free(buffers[k]);
    free(messages);
}

/* Any number active: all sends of a batch first, receives posted and waited for in another order. */
static void storm(harness_rank *me)
{
    enum { COUNT = 60 };
    message *messages = calloc(2 * COUNT, sizeof *messages);
    unsigned char *buffers[2 * COUNT];
    int order[COUNT];
    unsigned state = 12345; /* the same sequence on all ranks */
    for (int round = 0; round < 6 && harness_failures(me) == 0; round++) {
        int to = (me->rank + 1 + round) % me->size, from = (me->rank + me->size * 8 - 1 - round) % me->size;
        size_t nbytes[COUNT];
        for (int i = 0; i < COUNT; i++) {
            state = state * 1103515245u + 12345u;
            nbytes[i] = sizes[(state >> 16) % (SIZE_COUNT - 1)];
            order[i] = i;
        }
        for (int i = COUNT - 1; i > 0; i--) {
            state = state * 1103515245u + 12345u;
            int j = (int)((state >> 16) % (unsigned)(i + 1)), swap = order[i];
            order[i] = order[j];
            order[j] = swap;
        }
        for (int i = 0; i < 2 * COUNT; i++)
            buffers[i] = malloc(nbytes[i % COUNT] + 1);
        for (int i = 0; i < COUNT; i++)
            start_message(me, &messages[i], true, to, (uint64_t)i, buffers[i], nbytes[i],
                          (unsigned)(me->rank * 1000 + i));
        for (int i = 0; i < COUNT; i++) {
            int k = COUNT + order[i];
            start_message(me, &messages[k], false, from, (uint64_t)order[i], buffers[k], nbytes[order[i]],
                          (unsigned)(from * 1000 + order[i]));
            if (round % 2 == 0)
                finish_message(me, &messages[k]); /* one at a time */
        }
        for (int i = COUNT - 1; round % 2 == 1 && i >= 0; i--)
            finish_message(me, &messages[COUNT + order[i]]);
        for (int i = 0; i < COUNT; i++)
            finish_message(me, &messages[order[i]]);
        for (int i = 0; i < 2 * COUNT; i++)
            free(buffers[i]);
    }
    free(messages);
}

/* Thousands of messages before the first receive; the last one is wanted first. */
static void flood(harness_rank *me)
{
    enum { COUNT = 5000 };
    message *sends = calloc(COUNT, sizeof *sends), *recv = calloc(1, sizeof *recv);
    unsigned char *data = malloc(COUNT * 64), incoming[64];
    int to = (me->rank + 1) % me->size, from = (me->rank + me->size - 1) % me->size;
    for (int i = 0; i < COUNT; i++)
        start_message(me, &sends[i], true, to, (uint64_t)i, data + i * 64, (size_t)(i % 64), (unsigned)i);
    for (int i = COUNT - 1; i >= 0; i -= i < 100 ? 1 : 50) {
        start_message(me, recv, false, from, (uint64_t)i, incoming, (size_t)(i % 64), (unsigned)i);
        finish_message(me, recv);
    }
    for (int i = 0; i < COUNT; i++)
        finish_message(me, &sends[i]);
    free(sends);
    free(recv);
    free(data);
    harness_barrier(me);
}

static void truncation(harness_rank *me)
{
    if (me->rank > 1)
        return;
    for (size_t s = 1; s < SIZE_COUNT; s++) {
        message m, next;
        unsigned char *data = malloc(sizes[s] + 64), small[8];
        if (me->rank == 0) {
            start_message(me, &m, true, 1, 5, data, sizes[s], 9);
            start_message(me, &next, true, 1, 5, small, sizeof small, 4);
            finish_message(me, &m);
        } else {
            memset(&m, 0, sizeof m);
            memset(data, 0x77, sizes[s] + 64);
            m.msg = (kith_be_msg){ .tag = 5, .buffer = data, .nbytes = sizes[s] / 2 };
            HARNESS_CHECK(me, me->backend->recv_start(me->group, &m.msg, &m.slot) == KITH_OK);
            HARNESS_CHECK(me, harness_wait_msg(me, &m.slot, NULL) == KITH_ERR_TRUNCATED);
            HARNESS_CHECK(me, data[sizes[s] / 2] == 0x77);
            start_message(me, &next, false, 0, 5, small, sizeof small, 4);
        }
        finish_message(me, &next);
        free(data);
    }
}

/* What was cancelled is not touched and does not disturb what comes after. */
static void cancelling(harness_rank *me)
{
    if (me->rank > 1)
        return;
    for (size_t s = 0; s < SIZE_COUNT; s++) {
        unsigned char *first = malloc(sizes[s] + 1), *second = malloc(sizes[s] + 1);
        message m, kept;
        if (me->rank == 0) {
            bool is_long = sizes[s] > 65536;
            if (is_long) {
                start_message(me, &m, true, 1, 1, first, sizes[s], 1);
                me->backend->msg_cancel(me->group, &m.slot); /* nobody has taken it */
                memset(first, 0, sizes[s]);
            }
            start_message(me, &kept, true, 1, 1, second, sizes[s], 2);
            finish_message(me, &kept);
        } else {
            start_message(me, &m, false, 0, 77, first, sizes[s], 3);
            me->backend->msg_cancel(me->group, &m.slot);
            usleep(1000);
            start_message(me, &kept, false, 0, 1, second, sizes[s], 2);
            finish_message(me, &kept);
            for (size_t i = 0; i < sizes[s]; i++)
                if (first[i] != 0xee) {
                    harness_fail(me, "a cancelled receive was written to");
                    break;
                }
        }
        free(first);
        free(second);
    }
}

/* Cancelling while the peer may be moving pieces. */
static void cancel_midway(harness_rank *me)
{
    enum { NBYTES = 3000000 };
    if (me->rank > 1)
        return;
    unsigned char *data = malloc(NBYTES), after;
    for (unsigned round = 0; round < 60; round++) {
        message m, mark;
        start_message(me, &m, me->rank == 0, 1 - me->rank, round, data, NBYTES, round);
        int is_done = 0;
        for (unsigned polls = 0; polls < round % 7 && !is_done; polls++)
            me->backend->msg_test(me->group, &m.slot, &is_done, NULL);
        bool is_canceller = (round % 2 == 0) == (me->rank == 0);
        if (is_canceller) {
            me->backend->msg_cancel(me->group, &m.slot);
            memset(data, 0x3c, NBYTES);
            /* The other one ends too: complete, or told that it was taken back; or it never matched. */
        }
        harness_barrier(me);
        if (!is_canceller) {
            for (unsigned polls = 0; polls < 2000 && !is_done; polls++)
                if (me->backend->msg_test(me->group, &m.slot, &is_done, NULL) != KITH_OK)
                    is_done = 1;
            if (!is_done)
                me->backend->msg_cancel(me->group, &m.slot);
        }
        start_message(me, &mark, me->rank == 0, 1 - me->rank, 1000 + round, &after, 1, round);
        finish_message(me, &mark);
        for (size_t i = 0; is_canceller && i < NBYTES; i++)
            if (data[i] != 0x3c) {
                harness_fail(me, "round %u: the buffer of a cancelled %s changed at %zu", round,
                             me->rank == 0 ? "send" : "recv", i);
                break;
            }
        harness_barrier(me);
    }
    free(data);
}

/* A test that fails ends the message: its slot is the caller's again, whatever comes for it later. */
static void over_after_failure(harness_rank *me)
{
    unsigned char data[100];
    message m;
    if (me->rank > 1)
        return;
    if (me->rank == 0)
        start_message(me, &m, false, 1, 5, data, sizeof data, 1);
    harness_barrier(me);
    if (me->rank == 1)
        me->backend->group_abort(me->group);
    harness_barrier(me);
    if (me->rank == 0) {
        HARNESS_CHECK(me, harness_wait_msg(me, &m.slot, NULL) == KITH_ERR_ABORTED);
        memset(&m, 0xff, sizeof m);
    }
    harness_barrier(me);
    if (me->rank == 1)
        start_message(me, &m, true, 0, 5, data, sizeof data, 1);
    harness_barrier(me);
    for (int i = 0; i < 100; i++)
        me->backend->progress(me->be);
    harness_barrier(me);
}

static void run_all_ways(harness_body body, int size)
{
    static const harness_setting pieces[] = { { "shm_cma", "off" }, { NULL, NULL } };
    static const harness_setting tiny[] = { { "shm_cma", "off" }, { "shm_memfd", "off" }, { NULL, NULL } };
    static const harness_setting remote[] = { { "shm_cma", "always" }, { NULL, NULL } };
    const harness_setting *ways[] = { NULL, pieces, tiny, remote };
    for (int w = 0; w < 4; w++) {
        harness_options options = { .size = size, .settings = ways[w], .timeout_s = 120 };
        assert_int_equal(harness_run(&options, body, NULL), 0);
    }
    harness_options threads = { .size = size, .is_threads = true, .timeout_s = 120 };
    assert_int_equal(harness_run(&threads, body, NULL), 0);
}

static void test_every_size(void **state)
{
    (void)state;
    for (int size = 1; size <= 5; size++)
        run_all_ways(every_size, size);
}

static void test_storm(void **state)
{
    (void)state;
    run_all_ways(storm, 1);
    run_all_ways(storm, 2);
    run_all_ways(storm, 5);
}

static void test_flood(void **state)
{
    (void)state;
    run_all_ways(flood, 1);
    run_all_ways(flood, 2);
    run_all_ways(flood, 8);
}

static void test_truncation(void **state)
{
    (void)state;
    run_all_ways(truncation, 2);
}

static void test_cancel(void **state)
{
    (void)state;
    run_all_ways(cancelling, 2);
    run_all_ways(cancel_midway, 2);
    run_all_ways(over_after_failure, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_size), cmocka_unit_test(test_storm),  cmocka_unit_test(test_flood),
        cmocka_unit_test(test_truncation), cmocka_unit_test(test_cancel),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
