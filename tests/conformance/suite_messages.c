/* tests/conformance/suite_messages.c - messages: order, tags, sizes, batches, self, truncation, cancel by deadline.
 *
 * Buffers lie where memory.h says. Over NCCL both sides name the same size and messages match in the order of posting:
 * there lengths and truncation are left out, and tags and the message that nobody sends are asked for NCCL's answer.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "harness.h"
#include "memory.h"

#include <stdint.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static void fill(unsigned char *buffer, size_t nbytes, unsigned salt)
{
    for (size_t i = 0; i < nbytes; i++)
        buffer[i] = (unsigned char)(salt * 37u + i * 11u + (i >> 8));
}

static unsigned char *filled(size_t nbytes, unsigned salt)
{
    unsigned char *buffer = (unsigned char *)memory_alloc(nbytes);
    fill(buffer, nbytes, salt);
    return buffer;
}

static void check(const unsigned char *buffer, size_t nbytes, unsigned salt, const char *what)
{
    for (size_t i = 0; i < nbytes; i++)
        if (buffer[i] != (unsigned char)(salt * 37u + i * 11u + (i >> 8)))
            rank_fail(__FILE__, __LINE__, "%s (message %u of %zu bytes): byte %zu is %u", what, salt, nbytes, i,
                      buffer[i]);
}

/* One message around the ring; the receive has room for `spare` bytes more. */
static void send_around(const rank_info *info, size_t nbytes, size_t spare)
{
    int to = (info->rank + 1) % info->size, from = (info->rank + info->size - 1) % info->size;
    unsigned char *out = filled(nbytes + 1, (unsigned)info->rank), *in = (unsigned char *)memory_alloc(nbytes + 100);
    kith_request *request = NULL;
    size_t got = 12345;
    memset(in, 0xee, nbytes + 100);
    memory_push();
    REQUIRE_OK(kith_send_start(info->world, memory_at(out), nbytes, KITH_UINT8, to, 1, &request));
    REQUIRE_OK(kith_recv(info->world, memory_at(in), nbytes + spare, KITH_UINT8, from, 1, &got));
    REQUIRE(got == nbytes);
    REQUIRE_OK(kith_wait(&request));
    REQUIRE(request == NULL);
    memory_pull();
    check(in, nbytes, (unsigned)from, "test_sizes");
    REQUIRE(in[nbytes] == 0xee && in[nbytes + 99] == 0xee);
    memory_free(out);
    memory_free(in);
}

/* Every size class, both directions at once, sizes that are known to the sender alone - but to both where the carrier
 * has no lengths. */
static void test_sizes(const rank_info *info)
{
    static const size_t sizes[] = { 0, 1, 7, 40, 56, 57, 64, 1000, 4096, 8191, 65536, 65537, 300000, 1048577, 5000003 };
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++)
        send_around(info, sizes[s], memory_is_nccl() ? 0 : 99);
}

/* Two messages of 4k bytes to every rank, self included, in one batch; the same pair keeps its order. */
static void test_batch(const rank_info *info)
{
    enum { ROOM = 256 };
    kith_p2p_args members[4 * 16];
    kith_request *requests[4 * 16];
    int n = info->size < 16 ? info->size : 16;
    size_t count = 0;
    if (info->rank >= n)
        return;
    size_t blocks = 2 * (size_t)n;
    unsigned char *out = (unsigned char *)memory_alloc(blocks * ROOM),
                  *in = (unsigned char *)memory_alloc(blocks * ROOM);
    memset(in, 0, blocks * ROOM);
    for (int k = 0; k < 2; k++) {
        for (int r = 0; r < n; r++) {
            size_t nbytes = 4 * (size_t)(r + 1 + k), own = 4 * (size_t)(info->rank + 1 + k), at = count / 2 * ROOM;
            fill(out + at, ROOM, (unsigned)(info->rank * 16 + r + 256 * k));
            members[count++] = (kith_p2p_args){ 1, memory_at(out + at), nbytes, KITH_UINT8, r, 4 };
            members[count++] = (kith_p2p_args){ 0, memory_at(in + at), own, KITH_UINT8, r, 4 };
        }
    }
    memory_push();
    REQUIRE_OK(kith_batch_start(info->world, members, count, requests));
    for (size_t left = count; left > 0; left--) {
        size_t index = count;
        REQUIRE_OK(kith_wait_any(requests, count, &index));
        REQUIRE(index < count && requests[index] == NULL);
    }
    memory_pull();
    for (size_t i = 1; i < count; i += 2) {
        unsigned k = (unsigned)(i / 2 / (unsigned)n);
        check(in + i / 2 * ROOM, members[i].count, (unsigned)(members[i].peer * 16 + info->rank) + 256 * k,
              "test_batch");
    }
    memory_free(out);
    memory_free(in);
}

/* Tags are independent: received in another order than sent; inside a tag in order. Over NCCL, which has none, they are
 * received as they were sent. */
static void test_tags(const rank_info *info)
{
    enum { COUNT = 30 };
    static const int tags[3] = { 0, 1, KITH_TAG_MAX };
    kith_request *requests[COUNT];
    if (info->size < 2 || info->rank > 1)
        return;
    int *values = (int *)memory_alloc(COUNT * sizeof *values);
    for (int i = 0; i < COUNT; i++)
        values[i] = info->rank == 0 ? i : -1;
    memory_push();
    for (int i = 0; info->rank == 0 && i < COUNT; i++)
        REQUIRE_OK(kith_send_start(info->world, memory_at(&values[i]), 1, KITH_INT32, 1, tags[i % 3], &requests[i]));
    if (info->rank == 0)
        REQUIRE_OK(kith_wait_all(requests, COUNT));
    for (int k = 0; info->rank == 1 && k < COUNT; k++) {
        int i = memory_is_nccl() ? k : k % 10 * 3 + 2 - k / 10;
        REQUIRE_OK(kith_recv(info->world, memory_at(&values[i]), 1, KITH_INT32, 0, tags[i % 3], NULL));
    }
    memory_pull();
    for (int i = 0; i < COUNT; i++)
        REQUIRE(values[i] == i);
    memory_free(values);
}

static void truncate_one(const rank_info *info, size_t nbytes)
{
    size_t got = 0;
    unsigned char *buffer = filled(nbytes, 5);
    if (info->rank == 0) {
        kith_request *requests[2] = { NULL, NULL };
        memory_push();
        REQUIRE_OK(kith_send_start(info->world, memory_at(buffer), nbytes, KITH_UINT8, 1, 8, &requests[0]));
        REQUIRE_OK(kith_send_start(info->world, memory_at(buffer), nbytes, KITH_UINT8, 1, 8, &requests[1]));
        kith_wait(&requests[0]); /* the sender may hear of it or not */
        REQUIRE_OK(kith_wait(&requests[1]));
    } else {
        memset(buffer, 0, nbytes);
        memory_push();
        REQUIRE_STATUS(kith_recv(info->world, memory_at(buffer), 8, KITH_UINT8, 0, 8, &got), KITH_ERR_TRUNCATED);
        memory_pull();
        for (size_t i = 8; i < nbytes; i++)
            REQUIRE(buffer[i] == 0);
        REQUIRE_OK(kith_recv(info->world, memory_at(buffer), nbytes, KITH_UINT8, 0, 8, &got));
        REQUIRE(got == nbytes);
        memory_pull();
        check(buffer, nbytes, 5, "after truncation");
    }
    memory_free(buffer);
}

/* Too long a message is an error of that receive alone. */
static void test_truncation(const rank_info *info)
{
    if (info->size < 2 || info->rank > 1)
        return;
    if (memory_is_nccl()) /* NCCL sends no lengths: sizes that differ are undefined there */
        return;
    truncate_one(info, 16);
    truncate_one(info, 5000);
    truncate_one(info, 2000000);
}

typedef struct cells {
    int a, b, never, late;
} cells;

/* A receive that nobody serves ends at its deadline; the matched ones still complete; the buffer stays untouched. */
static void test_unmatched(const rank_info *info)
{
    if (info->size < 2 || info->rank > 1 || memory_is_nccl()) /* test_unmatched_nccl() */
        return;
    cells *c = (cells *)memory_alloc(sizeof *c);
    *c = (cells){ .a = info->rank, .b = -1, .never = -7 };
    kith_request *requests[3] = { NULL, NULL, NULL };
    int peer = 1 - info->rank;
    memory_push();
    REQUIRE_OK(kith_send_start(info->world, memory_at(&c->a), 1, KITH_INT32, peer, 1, &requests[0]));
    REQUIRE_OK(kith_recv_start(info->world, memory_at(&c->b), 1, KITH_INT32, peer, 1, &requests[1]));
    if (info->rank == 0) {
        REQUIRE_OK(kith_recv_start(info->world, memory_at(&c->never), 1, KITH_INT32, peer, 77, &requests[2]));
        REQUIRE_STATUS(kith_wait_timeout(&requests[2], 200), KITH_ERR_TIMEOUT);
        REQUIRE(strstr(kith_error_detail(), "rank 1 has no matching send") != NULL && requests[2] == NULL);
    }
    REQUIRE_OK(kith_wait_all(requests, 2));
    memory_pull();
    REQUIRE(c->b == peer);
    /* a message that comes late on the abandoned tag is for the next receive */
    int go = 0;
    if (info->rank == 0)
        REQUIRE_OK(kith_send(info->world, &go, 1, KITH_INT32, 1, 78));
    if (info->rank == 1) {
        REQUIRE_OK(kith_recv(info->world, &go, 1, KITH_INT32, 0, 78, NULL));
        REQUIRE_OK(kith_send(info->world, memory_at(&c->a), 1, KITH_INT32, 0, 77));
    } else {
        REQUIRE_OK(kith_recv(info->world, memory_at(&c->late), 1, KITH_INT32, 1, 77, NULL));
        memory_pull();
        REQUIRE(c->late == 1 && c->never == -7);
    }
    memory_free(c);
}

/* NCCL has the receive already and gives it back with its communicator alone: the group is over for this rank, as after
 * a collective's deadline. On a group of its own. */
static void test_unmatched_nccl(const rank_info *info)
{
    if (info->size < 2 || !memory_is_nccl())
        return;
    kith_group *group = NULL;
    REQUIRE_OK(kith_group_dup(info->world, NULL, &group));
    if (info->rank < 2) {
        kith_request *request = NULL;
        int peer = 1 - info->rank;
        cells *c = (cells *)memory_alloc(sizeof *c);
        *c = (cells){ .a = info->rank, .b = -1, .never = -7 };
        memory_push();
        REQUIRE_OK(kith_sendrecv(group, memory_at(&c->a), 1, peer, 1, memory_at(&c->b), 1, peer, 1, KITH_INT32));
        if (info->rank == 0) {
            REQUIRE_OK(kith_recv_start(group, memory_at(&c->never), 1, KITH_INT32, 1, 77, &request));
            REQUIRE_STATUS(kith_wait_timeout(&request, 200), KITH_ERR_TIMEOUT);
            REQUIRE_DETAIL("rank 1 has no matching send");
            REQUIRE(request == NULL);
            REQUIRE_STATUS(kith_group_status(group), KITH_ERR_TIMEOUT);
        }
        memory_pull();
        REQUIRE(c->b == peer && c->never == -7);
        memory_free(c);
    }
    REQUIRE_OK(kith_barrier(info->world));
    REQUIRE_OK(kith_group_destroy(group));
}

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Starting a send does not wait for the receiver, however long the message is. */
static void test_start_is_quick(const rank_info *info)
{
    if (info->size < 2 || info->rank > 1)
        return;
    /* where blocks are pinned at the call, a simulated device pays for each byte of them */
    size_t nbytes = memory_is_device() ? 4u << 20 : 16u << 20;
    unsigned char *buffer = (unsigned char *)memory_alloc(nbytes);
    memset(buffer, info->rank, nbytes);
    memory_push();
    if (info->rank == 0) {
        kith_request *request = NULL;
        double start = seconds();
        REQUIRE_OK(kith_send_start(info->world, memory_at(buffer), nbytes, KITH_UINT8, 1, 2, &request));
        REQUIRE(seconds() - start < 0.3);
        REQUIRE_OK(kith_wait(&request));
    } else {
        usleep(500000);
        REQUIRE_OK(kith_recv(info->world, memory_at(buffer), nbytes, KITH_UINT8, 0, 2, NULL));
        memory_pull();
        REQUIRE(buffer[0] == 0 && buffer[nbytes - 1] == 0);
    }
    memory_free(buffer);
}

/* A size up to 400000 that a salt gives. */
static size_t size_of(unsigned salt)
{
    return (size_t)(salt * 2654435761u >> (8 + salt % 12)) % 400000;
}

typedef struct storm {
    unsigned char *out, *in;
    unsigned sent, received; /* salts */
    kith_request *requests[2];
} storm;

static void wait_in_random_order(storm *pairs, size_t count, unsigned state)
{
    for (size_t left = count; left > 0; left--) {
        state = state * 1103515245u + 12345u;
        size_t i = (state >> 8) % count;
        while (pairs[i / 2].requests[i % 2] == NULL)
            i = (i + 1) % count;
        REQUIRE_OK(kith_wait(&pairs[i / 2].requests[i % 2]));
    }
}

/* Many messages of random sizes and tags to everybody, waited for in random order. */
static void test_storm(const rank_info *info)
{
    enum { ROUNDS = 12 };
    int n = info->size;
    size_t count = (size_t)n * ROUNDS;
    storm *pairs = (storm *)calloc(count, sizeof *pairs);
    for (size_t i = 0; i < count; i++) {
        int k = (int)i / n, r = (int)i % n;
        storm *s = &pairs[i];
        s->sent = (unsigned)(info->rank * 1000 + r * 30 + k);
        s->received = (unsigned)(r * 1000 + info->rank * 30 + k);
        s->out = filled(size_of(s->sent) + 1, s->sent);
        s->in = filled(size_of(s->received) + 1, ~s->received);
    }
    memory_push();
    for (size_t i = 0; i < count; i++) {
        int k = (int)i / n, r = (int)i % n;
        storm *s = &pairs[i];
        REQUIRE_OK(
            kith_send_start(info->world, memory_at(s->out), size_of(s->sent), KITH_UINT8, r, k % 3, &s->requests[0]));
        REQUIRE_OK(kith_recv_start(info->world, memory_at(s->in), size_of(s->received), KITH_UINT8, r, k % 3,
                                   &s->requests[1]));
    }
    wait_in_random_order(pairs, 2 * count, 99u + (unsigned)info->rank);
    memory_pull();
    for (size_t i = 0; i < count; i++) {
        check(pairs[i].in, size_of(pairs[i].received), pairs[i].received, "test_storm");
        memory_free(pairs[i].out);
        memory_free(pairs[i].in);
    }
    free(pairs);
}

static void test_persistent(const rank_info *info)
{
    int to = (info->rank + 1) % info->size, from = (info->rank + info->size - 1) % info->size;
    cells *c = (cells *)memory_alloc(sizeof *c);
    kith_request *send = NULL, *recv = NULL;
    size_t nbytes = 0;
    REQUIRE_OK(kith_send_init(info->world, memory_at(&c->a), 1, KITH_INT32, to, 6, &send));
    REQUIRE_OK(kith_recv_init(info->world, memory_at(&c->b), 1, KITH_INT32, from, 6, &recv));
    for (int i = 0; i < 20; i++) {
        *c = (cells){ .a = info->rank * 100 + i, .b = -1 };
        memory_push();
        REQUIRE_OK(kith_request_start(recv));
        REQUIRE_OK(kith_request_start(send));
        REQUIRE_STATUS(kith_request_start(send), KITH_ERR_BUSY);
        REQUIRE_OK(kith_wait(&send));
        REQUIRE_OK(kith_wait_received(&recv, &nbytes));
        REQUIRE(nbytes == sizeof c->b);
        memory_pull();
        REQUIRE(c->b == from * 100 + i);
        REQUIRE_OK(kith_request_received(recv, &nbytes));
        REQUIRE(nbytes == sizeof c->b);
    }
    REQUIRE_OK(kith_request_free(&send));
    REQUIRE_OK(kith_request_free(&recv));
    REQUIRE(send == NULL && recv == NULL);
    memory_free(c);
}

static void test_bad_arguments(const rank_info *info)
{
    int *mirror = (int *)memory_alloc(sizeof *mirror), *x = (int *)memory_at(mirror);
    kith_request *request = NULL;
    REQUIRE_STATUS(kith_send(info->world, x, 1, KITH_INT32, info->size, 0), KITH_ERR_INVALID_ARG);
    REQUIRE_STATUS(kith_send(info->world, x, 1, KITH_INT32, 0, -1), KITH_ERR_INVALID_ARG);
    REQUIRE_STATUS(kith_send(info->world, NULL, 1, KITH_INT32, 0, 0), KITH_ERR_INVALID_ARG);
    REQUIRE_STATUS(kith_send(info->world, x, SIZE_MAX / 2, KITH_INT32, 0, 0), KITH_ERR_INVALID_ARG);
    REQUIRE_STATUS(kith_recv(info->world, x, 1, (kith_dtype)99, 0, 0, NULL), KITH_ERR_INVALID_ARG);
    REQUIRE_STATUS(kith_send_start(info->world, x, 1, KITH_INT32, 0, 0, NULL), KITH_ERR_INVALID_ARG);
    REQUIRE_STATUS(kith_sendrecv(info->world, x, 1, 0, 0, x, 1, 0, 0, KITH_INT32), KITH_ERR_INVALID_ARG);
    REQUIRE_OK(kith_wait(&request));
    REQUIRE_STATUS(kith_wait(NULL), KITH_ERR_INVALID_ARG);
    memory_free(mirror);
}

void suite_messages(rank_info *info)
{
    memory_begin(info);
    test_sizes(info);
    REQUIRE_OK(kith_barrier(info->world));
    test_batch(info);
    test_tags(info);
    REQUIRE_OK(kith_barrier(info->world));
    test_truncation(info);
    test_unmatched(info);
    test_unmatched_nccl(info);
    test_start_is_quick(info);
    REQUIRE_OK(kith_barrier(info->world));
    test_storm(info);
    test_persistent(info);
    test_bad_arguments(info);
    REQUIRE_OK(kith_barrier(info->world));
    memory_end();
}
