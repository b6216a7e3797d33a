/* tests/core/device/test_device_messages.c - messages on device memory: through the host, and over NCCL.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "core/device/ways.h"

enum { COUNT = 3001, RANKS = 4 };

typedef struct work {
    kith_group *group;
    gpu gpu;
    int rank, size, next, before;
    bool is_nccl;
    float host[COUNT];
    float *a, *b; /* [COUNT], on the device */
} work;

static void fill(work *w, int from, int round)
{
    for (int i = 0; i < COUNT; i++)
        w->host[i] = (float)(from * 100000 + round * 10000 + i);
}

static void load(work *w, int round)
{
    fill(w, w->rank, round);
    gpu_put(&w->gpu, w->a, w->host, sizeof w->host, true);
    memset(w->host, 0xab, sizeof w->host);
    gpu_put(&w->gpu, w->b, w->host, sizeof w->host, true);
}

/* w->b holds `count` elements of the message and is untouched behind. */
static void check(work *w, int from, int round, size_t count)
{
    static float got[RANKS][COUNT];
    float untouched;
    memset(&untouched, 0xab, sizeof untouched);
    gpu_get(&w->gpu, got[w->rank], w->b, sizeof w->host);
    fill(w, from, round);
    for (size_t i = 0; i < COUNT; i++) {
        const float *wanted = i < count ? &w->host[i] : &untouched;
        if (memcmp(&got[w->rank][i], wanted, sizeof *wanted) != 0)
            rank_fail(__FILE__, __LINE__, "round %d from %d: element %zu is %g, wanted %g", round, from, i,
                      (double)got[w->rank][i], (double)*wanted);
    }
}

static void test_blocking(work *w, int round)
{
    load(w, round);
    REQUIRE_OK(kith_sendrecv(w->group, w->a, COUNT, w->next, 5, w->b, COUNT, w->before, 5, KITH_F32));
    check(w, w->before, round, COUNT);
    load(w, round + 1);
    if (w->rank % 2 == 0) {
        size_t received = 0;
        REQUIRE_OK(kith_send(w->group, w->a, COUNT, KITH_F32, w->next, 6));
        REQUIRE_OK(kith_recv(w->group, w->b, COUNT, KITH_F32, w->before, 6, &received));
        REQUIRE(received == COUNT);
    } else {
        REQUIRE_OK(kith_recv(w->group, w->b, COUNT, KITH_F32, w->before, 6, NULL));
        REQUIRE_OK(kith_send(w->group, w->a, COUNT, KITH_F32, w->next, 6));
    }
    check(w, w->before, round + 1, COUNT);
}

static void test_started(work *w, int round)
{
    kith_request *requests[2];
    load(w, round);
    REQUIRE_OK(kith_send_start(w->group, w->a, COUNT, KITH_F32, w->next, 7, &requests[0]));
    REQUIRE_OK(kith_recv_start(w->group, w->b, COUNT, KITH_F32, w->before, 7, &requests[1]));
    REQUIRE_OK(kith_wait_all(requests, 2));
    check(w, w->before, round, COUNT);
    /* the stream goes on behind them without the host */
    load(w, round + 1);
    const kith_p2p_args members[2] = { { 1, w->a, COUNT, KITH_F32, w->next, 8 },
                                       { 0, w->b, COUNT, KITH_F32, w->before, 8 } };
    REQUIRE_OK(kith_batch_start(w->group, members, 2, requests));
    REQUIRE_OK(kith_request_stream_wait(&requests[0], w->gpu.stream));
    REQUIRE_OK(kith_request_stream_wait(&requests[1], w->gpu.stream));
    REQUIRE(requests[0] == NULL && requests[1] == NULL);
    check(w, w->before, round + 1, COUNT);
}

static void test_persistent(work *w, int round)
{
    kith_request *requests[2];
    REQUIRE_OK(kith_send_init(w->group, w->a, COUNT, KITH_F32, w->next, 9, &requests[0]));
    REQUIRE_OK(kith_recv_init(w->group, w->b, COUNT, KITH_F32, w->before, 9, &requests[1]));
    for (int i = 0; i < 3; i++) {
        load(w, round + i);
        REQUIRE_OK(kith_request_start(requests[0]));
        REQUIRE_OK(kith_request_start(requests[1]));
        REQUIRE_OK(kith_wait_all(requests, 2));
        check(w, w->before, round + i, COUNT);
    }
    REQUIRE_OK(kith_request_free(&requests[0]));
    REQUIRE_OK(kith_request_free(&requests[1]));
}

/* The second message is host memory and could leave at once: the first is behind work of a stream. */
static void test_order(work *w)
{
    static const float second[3] = { 7, 8, 9 };
    kith_request *sends[2];
    float got[3] = { 0 };
    fill(w, w->rank, 3);
    REQUIRE_OK(kith_group_set_stream(w->group, w->gpu.stream));
    for (int i = 0; i < 20; i++)
        REQUIRE_OK(kith_stream_fill(w->gpu.stream, w->b, 0xab, sizeof w->host));
    gpu_put(&w->gpu, w->a, w->host, sizeof w->host, false);
    REQUIRE_OK(kith_send_start(w->group, w->a, COUNT, KITH_F32, w->next, 4, &sends[0]));
    REQUIRE_OK(kith_send_start(w->group, second, 3, KITH_F32, w->next, 4, &sends[1]));
    REQUIRE_OK(kith_recv(w->group, w->b, COUNT, KITH_F32, w->before, 4, NULL));
    check(w, w->before, 3, COUNT);
    REQUIRE_OK(kith_recv(w->group, got, 3, KITH_F32, w->before, 4, NULL));
    REQUIRE(memcmp(got, second, sizeof got) == 0);
    REQUIRE_OK(kith_wait_all(sends, 2));
    REQUIRE_OK(kith_group_set_stream(w->group, NULL));
}

static void test_sizes(work *w)
{
    kith_request *send;
    size_t received = 0;
    load(w, 2);
    REQUIRE_OK(kith_send_start(w->group, w->a, 100, KITH_F32, w->next, 1, &send));
    REQUIRE_OK(kith_recv(w->group, w->b, COUNT, KITH_F32, w->before, 1, &received));
    REQUIRE(received == 100);
    REQUIRE_OK(kith_wait(&send));
    check(w, w->before, 2, 100);
    /* too long: refused at the receiver, the next one is whole */
    load(w, 3);
    REQUIRE_OK(kith_send_start(w->group, w->a, COUNT, KITH_F32, w->next, 1, &send));
    REQUIRE_STATUS(kith_recv(w->group, w->b, 10, KITH_F32, w->before, 1, NULL), KITH_ERR_TRUNCATED);
    REQUIRE_OK(kith_wait(&send));
    REQUIRE_OK(kith_sendrecv(w->group, w->a, COUNT, w->next, 1, w->b, COUNT, w->before, 1, KITH_F32));
    check(w, w->before, 3, COUNT);
    /* nothing at all */
    REQUIRE_OK(kith_sendrecv(w->group, w->a, 0, w->next, 1, w->b, 0, w->before, 1, KITH_F32));
}

/* Device memory on one side of a message alone, shorter and longer than what is sent at once; and to oneself. */
static void test_mixed(work *w, int count)
{
    static float got[RANKS][COUNT];
    size_t nbytes = (size_t)count * sizeof(float);
    const size_t elements = (size_t)count;
    load(w, 5);
    REQUIRE_OK(kith_sendrecv(w->group, w->a, elements, w->next, 2, got[w->rank], elements, w->before, 2, KITH_F32));
    fill(w, w->before, 5);
    REQUIRE(memcmp(got[w->rank], w->host, nbytes) == 0);
    fill(w, w->rank, 6);
    memcpy(got[w->rank], w->host, nbytes);
    REQUIRE_OK(kith_sendrecv(w->group, got[w->rank], elements, w->next, 2, w->b, elements, w->before, 2, KITH_F32));
    check(w, w->before, 6, elements);
    load(w, 7);
    REQUIRE_OK(kith_sendrecv(w->group, w->a, elements, w->rank, 3, w->b, elements, w->rank, 3, KITH_F32));
    check(w, w->rank, 7, elements);
}

static void body(rank_info *info)
{
    work *w = (work *)calloc(1, sizeof *w);
    REQUIRE(w != NULL && info->size <= RANKS);
    *w = (work){ .group = info->world, .rank = info->rank, .size = info->size };
    w->next = (w->rank + 1) % w->size;
    w->before = (w->rank + w->size - 1) % w->size;
    w->is_nccl = way_begin(info, &w->gpu);
    w->a = (float *)gpu_alloc(&w->gpu, sizeof w->host);
    w->b = (float *)gpu_alloc(&w->gpu, sizeof w->host);
    for (int pass = 0; pass < 2; pass++) {
        REQUIRE_OK(kith_group_set_stream(w->group, pass == 1 ? w->gpu.stream : NULL));
        if (w->size > 1)
            test_blocking(w, 0);
        test_started(w, 2);
        test_persistent(w, 4);
    }
    REQUIRE_OK(kith_group_set_stream(w->group, NULL));
    if (!w->is_nccl) { /* NCCL has no sizes of messages, and takes no turns with the host */
        test_order(w);
        test_sizes(w);
        test_mixed(w, 17);
        test_mixed(w, COUNT);
    }
    way_end(&w->gpu, w->group, w->a, w->b);
    free(w);
}

int main(int argc, char **argv)
{
    static way ways[] = {
        { "one_rank", LAUNCH_FORK, 1, "shm", "staged", NULL },
        { "two_processes", LAUNCH_FORK, 2, "shm", "staged", NULL },
        { "nccl_processes", LAUNCH_FORK, 2, NULL, "nccl", NULL },
        { "four_threads", LAUNCH_THREADS, 4, "shm", "staged", NULL },
        { "nccl_threads", LAUNCH_THREADS, 4, "nccl", "nccl", NULL },
    };
    return run_ways(argc, argv, ways, sizeof ways / sizeof ways[0], body);
}
