/* tests/backends/stub/messages.c - what every backend's messages must do, on the bare table.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "stub.h"

#include <string.h>
#include <time.h>

#define MESSAGES 60

typedef struct planned {
    int from, to;
    uint64_t tag;
    size_t nbytes;
    unsigned char *buffer;
    kith_be_slot slot;
    kith_be_msg msg;
    uint64_t seed;
    bool is_done;
} planned;

static const size_t sizes[] = { 0, 1, 7, 40, 512, 4000, 8191, 8192, 8193, 20000, 65536, 65537, 300000, 1 << 20 };

/* The bytes of a message are a function of its seed. */
static void fill_bytes(unsigned char *buffer, size_t nbytes, uint64_t seed)
{
    for (size_t i = 0; i < nbytes; i++)
        buffer[i] = (unsigned char)((seed + i * 167 + (i >> 8)) & 0xff);
}

static bool is_bytes(const unsigned char *buffer, size_t nbytes, uint64_t seed)
{
    for (size_t i = 0; i < nbytes; i++)
        if (buffer[i] != (unsigned char)((seed + i * 167 + (i >> 8)) & 0xff))
            return false;
    return true;
}

static void *bytes(size_t nbytes)
{
    void *ptr = malloc(nbytes > 0 ? nbytes : 1);
    CHECK(ptr != NULL);
    memset(ptr, 0xEE, nbytes);
    return ptr;
}

/* All ranks make the same plan. Few tags, so that many messages share one and depend on the order. */
static void make_plan(planned *plan, int size, uint64_t seed)
{
    for (int i = 0; i < MESSAGES; i++) {
        plan[i] = (planned){ .from = (int)(stub_random(&seed) % (unsigned)size),
                             .to = (int)(stub_random(&seed) % (unsigned)size),
                             .tag = (stub_random(&seed) % 3) << 40 | 0xF000000000000001u,
                             .seed = stub_random(&seed) };
        size_t base = sizes[stub_random(&seed) % (sizeof sizes / sizeof *sizes)];
        plan[i].nbytes = stub_random(&seed) % 3 == 0 ? base : (size_t)(stub_random(&seed) % (base + 1));
    }
}

/* Starts what this rank has in the plan: sends in order; receives in order inside a (peer, tag), else shuffled. */
static void start_plan(stub_group *group, planned *plan, uint64_t *mine)
{
    int order[MESSAGES];
    for (int i = 0; i < MESSAGES; i++)
        order[i] = i;
    for (int i = MESSAGES - 1; i > 0; i--) {
        int j = (int)(stub_random(mine) % (unsigned)(i + 1)), kept = order[i];
        bool may_swap = true;
        int low = j < i ? j : i, high = j < i ? i : j;
        for (int k = low; k <= high && may_swap; k++) /* no two of one (from, to, tag) may change places */
            for (int m = k + 1; m <= high && may_swap; m++) {
                const planned *a = &plan[order[k]], *b = &plan[order[m]];
                may_swap = !(a->from == b->from && a->to == b->to && a->tag == b->tag) || (k != low && m != high);
            }
        if (may_swap) {
            order[i] = order[j];
            order[j] = kept;
        }
    }
    for (int i = 0; i < MESSAGES; i++) {
        planned *p = &plan[order[i]];
        p->is_done = true;
        if (p->from == group->info.rank && p->to == group->info.rank) {
            continue; /* to self: below, sends and receives at the same place of the order */
        } else if (p->from == group->info.rank) {
            p->buffer = (unsigned char *)bytes(p->nbytes);
            fill_bytes(p->buffer, p->nbytes, p->seed);
            stub_send_start(group, p->buffer, p->nbytes, p->to, p->tag, &p->slot, &p->msg);
        } else if (p->to == group->info.rank) {
            p->buffer = (unsigned char *)bytes(p->nbytes + 5);
            stub_recv_start(group, p->buffer, p->nbytes + 5, p->from, p->tag, &p->slot, &p->msg);
        } else {
            continue;
        }
        p->is_done = false;
        if (stub_random(mine) % 4 == 0 && group->owner->backend->progress != NULL)
            group->owner->backend->progress(group->owner->be);
    }
}

static void finish_plan(stub_group *group, planned *plan, uint64_t *mine)
{
    int left = 0;
    for (int i = 0; i < MESSAGES; i++)
        left += !plan[i].is_done;
    for (; left > 0; left--) {
        int pick = (int)(stub_random(mine) % MESSAGES);
        while (plan[pick].is_done)
            pick = (pick + 1) % MESSAGES;
        planned *p = &plan[pick];
        size_t nbytes = 0;
        CHECK_EQUAL(stub_wait(group, &p->slot, &nbytes), KITH_OK);
        CHECK_EQUAL(nbytes, p->nbytes);
        if (p->to == group->info.rank) {
            CHECK(is_bytes(p->buffer, p->nbytes, p->seed));
            for (int k = 0; k < 5; k++)
                CHECK_EQUAL(p->buffer[p->nbytes + (size_t)k], 0xEE);
        }
        free(p->buffer);
        p->is_done = true;
    }
}

static void stress(stub *s)
{
    static planned plan[MESSAGES];
    uint64_t mine = 77 + (uint64_t)s->host.rank;
    int all[STUB_RANKS];
    for (int r = 0; r < s->host.size; r++)
        all[r] = s->host.size - 1 - r;
    stub_group *reversed = stub_group_make(s, all, s->host.size);
    for (uint64_t round = 0; round < 30; round++) {
        stub_group *group = round % 3 == 0 ? reversed : s->world;
        make_plan(plan, s->host.size, round + 1);
        start_plan(group, plan, &mine);
        finish_plan(group, plan, &mine);
    }
    stub_barrier(s);
    stub_group_free(reversed);
}

/* Sends of all sizes with one tag, received by large buffers: the order of sending decides, whatever path they take. */
static void fifo(stub *s)
{
    enum { COUNT = 28 };
    static kith_be_slot slots[COUNT];
    static kith_be_msg msgs[COUNT];
    unsigned char *buffers[COUNT];
    int rank = s->world->info.rank, size = s->world->info.size, to = (rank + 1) % size, from = (rank + size - 1) % size;
    for (int i = 0; i < COUNT; i++) {
        size_t nbytes = sizes[(size_t)(i * 5 + 13) % (sizeof sizes / sizeof *sizes)];
        buffers[i] = (unsigned char *)bytes(nbytes);
        fill_bytes(buffers[i], nbytes, (uint64_t)i);
        stub_send_start(s->world, buffers[i], nbytes, to, 5, &slots[i], &msgs[i]);
    }
    unsigned char *in = (unsigned char *)bytes(1 << 20);
    for (int i = 0; i < COUNT; i++) {
        kith_be_slot slot;
        kith_be_msg msg;
        size_t nbytes = 0;
        stub_recv_start(s->world, in, 1 << 20, from, 5, &slot, &msg);
        CHECK_EQUAL(stub_wait(s->world, &slot, &nbytes), KITH_OK);
        CHECK_EQUAL(nbytes, sizes[(size_t)(i * 5 + 13) % (sizeof sizes / sizeof *sizes)]);
        CHECK(is_bytes(in, nbytes, (uint64_t)i));
    }
    for (int i = 0; i < COUNT; i++) {
        CHECK_EQUAL(stub_wait(s->world, &slots[i], NULL), KITH_OK);
        free(buffers[i]);
    }
    free(in);
    stub_barrier(s);
}

/* To self: small and large, receive first and send first, and truncated. */
static void self(stub *s)
{
    int rank = s->world->info.rank;
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++)
        for (int is_receive_first = 0; is_receive_first < 2; is_receive_first++) {
            kith_be_slot out, in;
            kith_be_msg out_msg, in_msg;
            size_t nbytes = 0;
            unsigned char *a = (unsigned char *)bytes(sizes[k]), *b = (unsigned char *)bytes(sizes[k]);
            fill_bytes(a, sizes[k], k);
            if (is_receive_first)
                stub_recv_start(s->world, b, sizes[k], rank, k, &in, &in_msg);
            stub_send_start(s->world, a, sizes[k], rank, k, &out, &out_msg);
            if (!is_receive_first)
                stub_recv_start(s->world, b, sizes[k], rank, k, &in, &in_msg);
            CHECK_EQUAL(stub_wait(s->world, &in, &nbytes), KITH_OK);
            CHECK_EQUAL(nbytes, sizes[k]);
            CHECK_EQUAL(stub_wait(s->world, &out, NULL), KITH_OK);
            CHECK(is_bytes(b, sizes[k], k));
            free(a);
            free(b);
        }
    kith_be_slot out, in;
    kith_be_msg out_msg, in_msg;
    unsigned char large[100000] = { 0 }, little[10];
    stub_send_start(s->world, large, sizeof large, rank, 9, &out, &out_msg);
    stub_recv_start(s->world, little, sizeof little, rank, 9, &in, &in_msg);
    CHECK_EQUAL(stub_wait(s->world, &in, NULL), KITH_ERR_TRUNCATED);
    CHECK_EQUAL(stub_wait(s->world, &out, NULL), KITH_OK);
    stub_barrier(s);
}

static void truncation(stub *s)
{
    int rank = s->world->info.rank, size = s->world->info.size, to = (rank + 1) % size, from = (rank + size - 1) % size;
    static const size_t nbytes_of[] = { 100, 20000, 300000 };
    for (size_t k = 0; k < 3; k++) {
        kith_be_slot out[2], in;
        kith_be_msg out_msg[2], in_msg;
        size_t got = 0;
        unsigned char *a = (unsigned char *)bytes(nbytes_of[k]), *b = (unsigned char *)bytes(nbytes_of[k]);
        fill_bytes(a, nbytes_of[k], k);
        stub_send_start(s->world, a, nbytes_of[k], to, 3, &out[0], &out_msg[0]);
        stub_send_start(s->world, a, nbytes_of[k], to, 3, &out[1], &out_msg[1]);
        stub_recv_start(s->world, b, nbytes_of[k] - 1, from, 3, &in, &in_msg);
        CHECK_EQUAL(stub_wait(s->world, &in, NULL), KITH_ERR_TRUNCATED);
        CHECK(strstr(stub_error(), "tag 3") != NULL);
        stub_recv_start(s->world, b, nbytes_of[k], from, 3, &in, &in_msg); /* the next one is whole */
        CHECK_EQUAL(stub_wait(s->world, &in, &got), KITH_OK);
        CHECK_EQUAL(got, nbytes_of[k]);
        CHECK(is_bytes(b, got, k));
        CHECK_EQUAL(stub_wait(s->world, &out[0], NULL), KITH_OK);
        CHECK_EQUAL(stub_wait(s->world, &out[1], NULL), KITH_OK);
        free(a);
        free(b);
    }
    stub_barrier(s);
}

/* A receive that nobody serves and sends that nobody takes are cancelled; their buffers are reused; later messages
 * work, and a message with the same tag sent afterwards is the one that arrives. */
static void cancel(stub *s)
{
    const kith_backend *backend = s->backend;
    int rank = s->world->info.rank, size = s->world->info.size, to = (rank + 1) % size, from = (rank + size - 1) % size;
    enum { NBYTES = 400000 };
    unsigned char *a = (unsigned char *)bytes(NBYTES), *b = (unsigned char *)bytes(NBYTES);
    kith_be_slot out, in;
    kith_be_msg out_msg, in_msg;
    stub_recv_start(s->world, b, NBYTES, from, 11, &in, &in_msg);
    backend->msg_cancel(s->world->group, &in);
    fill_bytes(a, NBYTES, 1);
    stub_send_start(s->world, a, NBYTES, to, 12, &out, &out_msg); /* large: the peer must not get it any more */
    backend->msg_cancel(s->world->group, &out);
    memset(a, 0xAA, NBYTES);
    memset(b, 0xBB, NBYTES);
    stub_barrier(s);
    fill_bytes(a, NBYTES, 2);
    stub_send_start(s->world, a, NBYTES, to, 12, &out, &out_msg);
    for (int i = 0; i < NBYTES; i++)
        CHECK_EQUAL(b[i], 0xBB);
    stub_recv_start(s->world, b, NBYTES, from, 12, &in, &in_msg);
    CHECK_EQUAL(stub_wait(s->world, &in, NULL), KITH_OK);
    CHECK_EQUAL(stub_wait(s->world, &out, NULL), KITH_OK);
    CHECK(is_bytes(b, NBYTES, 2));
    /* to a cancelled receive: an unexpected message that the next receive takes */
    stub_send_start(s->world, a, 1000, to, 11, &out, &out_msg);
    stub_recv_start(s->world, b, NBYTES, from, 11, &in, &in_msg);
    CHECK_EQUAL(stub_wait(s->world, &in, NULL), KITH_OK);
    CHECK_EQUAL(stub_wait(s->world, &out, NULL), KITH_OK);
    stub_barrier(s);
    free(a);
    free(b);
}

static void poll_a_while(stub *s, int polls)
{
    for (int i = 0; i < polls; i++)
        if (s->backend->progress != NULL)
            s->backend->progress(s->be);
}

/* Cancels at random moments of large transfers, on both sides; nothing after that may write into the buffer. */
static void cancel_race(stub *s)
{
    const kith_backend *backend = s->backend;
    int rank = s->world->info.rank, size = s->world->info.size, to = (rank + 1) % size, from = (rank + size - 1) % size;
    enum { NBYTES = 3000000 };
    unsigned char *a = (unsigned char *)bytes(NBYTES), *b = (unsigned char *)bytes(NBYTES);
    uint64_t seed = 5 + (uint64_t)rank;
    for (int round = 0; round < 40; round++) {
        kith_be_slot out, in;
        kith_be_msg out_msg, in_msg;
        uint64_t tag = 100 + (uint64_t)round;
        fill_bytes(a, NBYTES, tag);
        memset(b, 0xEE, NBYTES);
        stub_recv_start(s->world, b, NBYTES, from, tag, &in, &in_msg);
        stub_send_start(s->world, a, NBYTES, to, tag, &out, &out_msg);
        poll_a_while(s, (int)(stub_random(&seed) % 400));
        backend->msg_cancel(s->world->group, &in);
        memset(b, 0xBB, NBYTES);
        poll_a_while(s, (int)(stub_random(&seed) % 400));
        backend->msg_cancel(s->world->group, &out);
        memset(a, 0xAA, NBYTES);
        poll_a_while(s, 1000);
        stub_barrier(s);
        for (int i = 0; i < NBYTES; i++)
            CHECK_EQUAL(b[i], 0xBB);
    }
    /* and the connection still works */
    kith_be_slot out, in;
    kith_be_msg out_msg, in_msg;
    fill_bytes(a, NBYTES, 3);
    stub_recv_start(s->world, b, NBYTES, from, 1, &in, &in_msg);
    stub_send_start(s->world, a, NBYTES, to, 1, &out, &out_msg);
    CHECK_EQUAL(stub_wait(s->world, &in, NULL), KITH_OK);
    CHECK_EQUAL(stub_wait(s->world, &out, NULL), KITH_OK);
    CHECK(is_bytes(b, NBYTES, 3));
    stub_barrier(s);
    free(a);
    free(b);
}

static void large(stub *s)
{
    size_t nbytes = (size_t)40 << 20;
    int rank = s->world->info.rank, size = s->world->info.size, to = (rank + 1) % size, from = (rank + size - 1) % size;
    unsigned char *a = (unsigned char *)bytes(nbytes), *b = (unsigned char *)bytes(nbytes);
    kith_be_slot out, in;
    kith_be_msg out_msg, in_msg;
    size_t got = 0;
    fill_bytes(a, nbytes, (uint64_t)rank);
    stub_send_start(s->world, a, nbytes, to, 1, &out, &out_msg);
    stub_recv_start(s->world, b, nbytes, from, 1, &in, &in_msg);
    CHECK_EQUAL(stub_wait(s->world, &in, &got), KITH_OK);
    CHECK_EQUAL(got, nbytes);
    CHECK_EQUAL(stub_wait(s->world, &out, NULL), KITH_OK);
    CHECK(is_bytes(b, nbytes, (uint64_t)from));
    stub_barrier(s);
    free(a);
    free(b);
}

static void aborting(stub *s)
{
    int rank = s->world->info.rank, size = s->world->info.size, from = (rank + size - 1) % size, all[STUB_RANKS];
    unsigned char b[100];
    kith_be_slot in;
    kith_be_msg in_msg;
    for (int r = 0; r < size; r++)
        all[r] = r;
    stub_group *group = stub_group_make(s, all, size);
    stub_recv_start(group, b, sizeof b, from, 1, &in, &in_msg);
    s->backend->group_abort(group->group);
    CHECK_EQUAL(stub_wait(group, &in, NULL), KITH_ERR_ABORTED);
    stub_group_free(group);
    /* the world is not touched by it */
    kith_be_slot out;
    kith_be_msg out_msg;
    stub_send_start(s->world, b, 10, (rank + 1) % size, 1, &out, &out_msg);
    stub_recv_start(s->world, b + 50, 10, from, 1, &in, &in_msg);
    CHECK_EQUAL(stub_wait(s->world, &in, NULL), KITH_OK);
    CHECK_EQUAL(stub_wait(s->world, &out, NULL), KITH_OK);
    stub_barrier(s);
}

/* Half round-trip times, printed; nothing is asserted about them. */
static void ping_pong(stub *s)
{
    static const size_t of[] = { 8, 1024, 16384, 65536, 1 << 20, 4 << 20 };
    stub_group *world = s->world;
    unsigned char *buffer = (unsigned char *)bytes(4 << 20);
    if (world->info.size != 2 || getenv("KITH_STUB_TIMES") == NULL) {
        free(buffer);
        return;
    }
    for (size_t k = 0; k < sizeof of / sizeof *of; k++) {
        int rounds = of[k] > 100000 ? 200 : 5000;
        struct timespec a, b;
        stub_barrier(s);
        clock_gettime(CLOCK_MONOTONIC, &a);
        for (int i = 0; i < rounds * 2; i++) {
            kith_be_slot slot;
            kith_be_msg msg;
            if (i % 2 == world->info.rank)
                stub_send_start(world, buffer, of[k], 1 - world->info.rank, 1, &slot, &msg);
            else
                stub_recv_start(world, buffer, of[k], 1 - world->info.rank, 1, &slot, &msg);
            CHECK_EQUAL(stub_wait(world, &slot, NULL), KITH_OK);
        }
        clock_gettime(CLOCK_MONOTONIC, &b);
        double us = ((double)(b.tv_sec - a.tv_sec) * 1e6 + (double)(b.tv_nsec - a.tv_nsec) * 1e-3) / rounds / 2;
        if (world->info.rank == 0)
            printf("ping-pong %8zu bytes: %8.2f us\n", of[k], us);
    }
    stub_barrier(s);
    free(buffer);
}

const stub_scenario stub_message_scenarios[] = {
    { "stress", stress },       { "fifo", fifo },   { "self", self },         { "truncation", truncation },
    { "cancel", cancel },       { "large", large }, { "aborting", aborting }, { "cancel race", cancel_race },
    { "ping pong", ping_pong }, { NULL, NULL },
};
