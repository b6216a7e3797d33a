/* tests/conformance/suite_messages.c - messages: order, tags, sizes, batches, self, truncation, cancel by deadline.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "harness.h"

#include <stdint.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define MEMBERS 64

static void fill(unsigned char *buffer, size_t nbytes, unsigned salt)
{
    for (size_t i = 0; i < nbytes; i++)
        buffer[i] = (unsigned char)(salt * 37u + i * 11u + (i >> 8));
}

static void check(const unsigned char *buffer, size_t nbytes, unsigned salt, const char *what)
{
    for (size_t i = 0; i < nbytes; i++)
        if (buffer[i] != (unsigned char)(salt * 37u + i * 11u + (i >> 8)))
            rank_fail(__FILE__, __LINE__, "%s (message %u of %zu bytes): byte %zu is %u", what, salt, nbytes, i,
                      buffer[i]);
}

/* Every size class, both directions at once, sizes that are known to the sender alone. */
static void test_sizes(const rank_info *info)
{
    static const size_t sizes[] = { 0, 1, 7, 40, 56, 57, 64, 1000, 4096, 8191, 65536, 65537, 300000, 1048577, 5000003 };
    int to = (info->rank + 1) % info->size, from = (info->rank + info->size - 1) % info->size;
    for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
        size_t nbytes = sizes[s], got = 12345;
        unsigned char *out = (unsigned char *)malloc(nbytes + 1), *in = (unsigned char *)malloc(nbytes + 100);
        kith_request *request = NULL;
        fill(out, nbytes, (unsigned)info->rank);
        memset(in, 0xee, nbytes + 100);
        REQUIRE_OK(kith_send_start(info->world, out, nbytes, KITH_UINT8, to, 1, &request));
        REQUIRE_OK(kith_recv(info->world, in, nbytes + 99, KITH_UINT8, from, 1, &got));
        REQUIRE(got == nbytes);
        check(in, nbytes, (unsigned)from, "test_sizes");
        REQUIRE(in[nbytes] == 0xee && in[nbytes + 99] == 0xee);
        REQUIRE_OK(kith_wait(&request));
        REQUIRE(request == NULL);
        free(out);
        free(in);
    }
}

/* Two messages of 4k bytes to every rank, self included, in one batch; the same pair keeps its order. */
static void test_batch(const rank_info *info)
{
    kith_p2p_args members[4 * 16];
    kith_request *requests[4 * 16];
    static unsigned char out[2][16][256], in[2][16][256];
    int n = info->size < 16 ? info->size : 16;
    size_t count = 0;
    if (info->rank >= n)
        return;
    for (int k = 0; k < 2; k++) {
        for (int r = 0; r < n; r++) {
            size_t nbytes = 4 * (size_t)(r + 1 + k);
            unsigned char *send = info->is_thread ? (unsigned char *)malloc(256) : out[k][r];
            unsigned char *recv = info->is_thread ? (unsigned char *)malloc(256) : in[k][r];
            fill(send, 256, (unsigned)(info->rank * 16 + r + 256 * k));
            members[count] = (kith_p2p_args){ 1, send, nbytes, KITH_UINT8, r, 4 };
            members[count + 1] = (kith_p2p_args){ 0, recv, 4 * (size_t)(info->rank + 1 + k), KITH_UINT8, r, 4 };
            count += 2;
        }
    }
    REQUIRE_OK(kith_batch_start(info->world, members, count, requests));
    for (size_t left = count; left > 0; left--) {
        size_t index = count;
        REQUIRE_OK(kith_wait_any(requests, count, &index));
        REQUIRE(index < count && requests[index] == NULL);
    }
    for (size_t i = 1; i < count; i += 2) {
        unsigned k = (unsigned)(i / 2 / (unsigned)n);
        check((unsigned char *)members[i].buffer, members[i].count,
              (unsigned)(members[i].peer * 16 + info->rank) + 256 * k, "test_batch");
    }
    for (size_t i = 0; info->is_thread && i < count; i++)
        free(members[i].buffer);
}

/* Tags are independent: received in another order than sent; inside a tag in order. */
static void test_tags(const rank_info *info)
{
    if (info->size < 2 || info->rank > 1)
        return;
    int value;
    if (info->rank == 0) {
        kith_request *requests[30];
        int values[30];
        for (int i = 0; i < 30; i++) {
            values[i] = i;
            REQUIRE_OK(kith_send_start(info->world, &values[i], 1, KITH_INT32, 1, i % 3 == 2 ? KITH_TAG_MAX : i % 3,
                                       &requests[i]));
        }
        REQUIRE_OK(kith_wait_all(requests, 30));
        return;
    }
    for (int tag = 2; tag >= 0; tag--) {
        for (int i = tag; i < 30; i += 3) {
            REQUIRE_OK(kith_recv(info->world, &value, 1, KITH_INT32, 0, tag == 2 ? KITH_TAG_MAX : tag, NULL));
            REQUIRE(value == i);
        }
    }
}

/* Too long a message is an error of that receive alone. */
static void test_truncation(const rank_info *info)
{
    if (info->size < 2 || info->rank > 1)
        return;
    static const size_t sizes[] = { 16, 5000, 2000000 };
    for (size_t s = 0; s < 3; s++) {
        size_t nbytes = sizes[s], got = 0;
        unsigned char *buffer = (unsigned char *)malloc(nbytes);
        if (info->rank == 0) {
            kith_request *requests[2] = { NULL, NULL };
            fill(buffer, nbytes, 5);
            REQUIRE_OK(kith_send_start(info->world, buffer, nbytes, KITH_UINT8, 1, 8, &requests[0]));
            REQUIRE_OK(kith_send_start(info->world, buffer, nbytes, KITH_UINT8, 1, 8, &requests[1]));
            kith_wait(&requests[0]); /* the sender may hear of it or not */
            REQUIRE_OK(kith_wait(&requests[1]));
        } else {
            memset(buffer, 0, nbytes);
            REQUIRE_STATUS(kith_recv(info->world, buffer, 8, KITH_UINT8, 0, 8, &got), KITH_ERR_TRUNCATED);
            for (size_t i = 8; i < nbytes; i++)
                REQUIRE(buffer[i] == 0);
            REQUIRE_OK(kith_recv(info->world, buffer, nbytes, KITH_UINT8, 0, 8, &got));
            REQUIRE(got == nbytes);
            check(buffer, nbytes, 5, "after truncation");
        }
        free(buffer);
    }
}

/* A receive that nobody serves ends at its deadline; the matched ones still complete; the buffer stays untouched. */
static void test_unmatched(const rank_info *info)
{
    if (info->size < 2 || info->rank > 1)
        return;
    int a = info->rank, b = -1, never = -7;
    kith_request *requests[3] = { NULL, NULL, NULL };
    int peer = 1 - info->rank;
    REQUIRE_OK(kith_send_start(info->world, &a, 1, KITH_INT32, peer, 1, &requests[0]));
    REQUIRE_OK(kith_recv_start(info->world, &b, 1, KITH_INT32, peer, 1, &requests[1]));
    if (info->rank == 0) {
        REQUIRE_OK(kith_recv_start(info->world, &never, 1, KITH_INT32, peer, 77, &requests[2]));
        REQUIRE_STATUS(kith_wait_timeout(&requests[2], 200), KITH_ERR_TIMEOUT);
        REQUIRE(strstr(kith_error_detail(), "rank 1 has no matching send") != NULL && requests[2] == NULL);
    }
    REQUIRE_OK(kith_wait_all(requests, 2));
    REQUIRE(b == peer);
    /* a message that comes late on the abandoned tag is for the next receive */
    int go = 0;
    if (info->rank == 0)
        REQUIRE_OK(kith_send(info->world, &go, 1, KITH_INT32, 1, 78));
    if (info->rank == 1) {
        REQUIRE_OK(kith_recv(info->world, &go, 1, KITH_INT32, 0, 78, NULL));
        REQUIRE_OK(kith_send(info->world, &a, 1, KITH_INT32, 0, 77));
    } else {
        int late = 0;
        REQUIRE_OK(kith_recv(info->world, &late, 1, KITH_INT32, 1, 77, NULL));
        REQUIRE(late == 1 && never == -7);
    }
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
    size_t nbytes = 16u << 20;
    unsigned char *buffer = (unsigned char *)malloc(nbytes);
    memset(buffer, info->rank, nbytes);
    if (info->rank == 0) {
        kith_request *request = NULL;
        double start = seconds();
        REQUIRE_OK(kith_send_start(info->world, buffer, nbytes, KITH_UINT8, 1, 2, &request));
        REQUIRE(seconds() - start < 0.3);
        REQUIRE_OK(kith_wait(&request));
    } else {
        usleep(500000);
        REQUIRE_OK(kith_recv(info->world, buffer, nbytes, KITH_UINT8, 0, 2, NULL));
        REQUIRE(buffer[0] == 0 && buffer[nbytes - 1] == 0);
    }
    free(buffer);
}

/* Many messages of random sizes and tags to everybody, waited for in random order. */
static void test_storm(const rank_info *info)
{
    enum { ROUNDS = 12 };
    int n = info->size;
    size_t count = (size_t)n * ROUNDS * 2;
    kith_request **requests = (kith_request **)calloc(count, sizeof *requests);
    unsigned char **buffers = (unsigned char **)calloc(count, sizeof *buffers);
    size_t *sizes = (size_t *)calloc(count, sizeof *sizes);
    unsigned state = 99u + (unsigned)info->rank;
    for (int k = 0; k < ROUNDS; k++) {
        for (int r = 0; r < n; r++) {
            size_t s = ((size_t)k * (size_t)n + (size_t)r) * 2;
            unsigned out = (unsigned)(info->rank * 1000 + r * 30 + k), in = (unsigned)(r * 1000 + info->rank * 30 + k);
            sizes[s] = (size_t)(out * 2654435761u >> (8 + out % 12));
            sizes[s + 1] = (size_t)(in * 2654435761u >> (8 + in % 12));
            sizes[s] %= 400000;
            sizes[s + 1] %= 400000;
            buffers[s] = (unsigned char *)malloc(sizes[s] + 1);
            buffers[s + 1] = (unsigned char *)malloc(sizes[s + 1] + 1);
            fill(buffers[s], sizes[s], out);
            REQUIRE_OK(kith_send_start(info->world, buffers[s], sizes[s], KITH_UINT8, r, k % 3, &requests[s]));
            REQUIRE_OK(
                kith_recv_start(info->world, buffers[s + 1], sizes[s + 1], KITH_UINT8, r, k % 3, &requests[s + 1]));
        }
    }
    for (size_t left = count; left > 0; left--) {
        state = state * 1103515245u + 12345u;
        size_t i = (state >> 8) % count;
        while (requests[i] == NULL)
            i = (i + 1) % count;
        REQUIRE_OK(kith_wait(&requests[i]));
    }
    for (int k = 0; k < ROUNDS; k++) {
        for (int r = 0; r < n; r++) {
            size_t s = ((size_t)k * (size_t)n + (size_t)r) * 2 + 1;
            check(buffers[s], sizes[s], (unsigned)(r * 1000 + info->rank * 30 + k), "test_storm");
        }
    }
    for (size_t i = 0; i < count; i++)
        free(buffers[i]);
    free(requests);
    free(buffers);
    free(sizes);
}

static void test_persistent(const rank_info *info)
{
    int out = 0, in = -1, to = (info->rank + 1) % info->size, from = (info->rank + info->size - 1) % info->size;
    kith_request *send = NULL, *recv = NULL;
    size_t nbytes = 0;
    REQUIRE_OK(kith_send_init(info->world, &out, 1, KITH_INT32, to, 6, &send));
    REQUIRE_OK(kith_recv_init(info->world, &in, 1, KITH_INT32, from, 6, &recv));
    for (int i = 0; i < 20; i++) {
        out = info->rank * 100 + i;
        REQUIRE_OK(kith_request_start(recv));
        REQUIRE_OK(kith_request_start(send));
        REQUIRE_STATUS(kith_request_start(send), KITH_ERR_BUSY);
        REQUIRE_OK(kith_wait(&send));
        REQUIRE_OK(kith_wait_received(&recv, &nbytes));
        REQUIRE(nbytes == sizeof in);
        REQUIRE(in == from * 100 + i);
        REQUIRE_OK(kith_request_received(recv, &nbytes));
        REQUIRE(nbytes == sizeof in);
    }
    REQUIRE_OK(kith_request_free(&send));
    REQUIRE_OK(kith_request_free(&recv));
    REQUIRE(send == NULL && recv == NULL);
}

static void test_bad_arguments(const rank_info *info)
{
    int x = 0;
    kith_request *request = NULL;
    REQUIRE_STATUS(kith_send(info->world, &x, 1, KITH_INT32, info->size, 0), KITH_ERR_INVALID_ARG);
    REQUIRE_STATUS(kith_send(info->world, &x, 1, KITH_INT32, 0, -1), KITH_ERR_INVALID_ARG);
    REQUIRE_STATUS(kith_send(info->world, NULL, 1, KITH_INT32, 0, 0), KITH_ERR_INVALID_ARG);
    REQUIRE_STATUS(kith_send(info->world, &x, SIZE_MAX / 2, KITH_INT32, 0, 0), KITH_ERR_INVALID_ARG);
    REQUIRE_STATUS(kith_recv(info->world, &x, 1, (kith_dtype)99, 0, 0, NULL), KITH_ERR_INVALID_ARG);
    REQUIRE_STATUS(kith_send_start(info->world, &x, 1, KITH_INT32, 0, 0, NULL), KITH_ERR_INVALID_ARG);
    REQUIRE_STATUS(kith_sendrecv(info->world, &x, 1, 0, 0, &x, 1, 0, 0, KITH_INT32), KITH_ERR_INVALID_ARG);
    REQUIRE_OK(kith_wait(&request));
    REQUIRE_STATUS(kith_wait(NULL), KITH_ERR_INVALID_ARG);
}

void suite_messages(rank_info *info)
{
    test_sizes(info);
    REQUIRE_OK(kith_barrier(info->world));
    test_batch(info);
    test_tags(info);
    REQUIRE_OK(kith_barrier(info->world));
    test_truncation(info);
    test_unmatched(info);
    test_start_is_quick(info);
    REQUIRE_OK(kith_barrier(info->world));
    test_storm(info);
    test_persistent(info);
    test_bad_arguments(info);
    REQUIRE_OK(kith_barrier(info->world));
}
