/* tests/conformance/cases_data.c - uneven blocks, messages that match oddly, deadlines, and many repetitions.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#define _GNU_SOURCE
#include "cases.h"

#include <string.h>
#include <time.h>
#include <unistd.h>

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- blocks ---- */

enum { TOTAL = 73 };

/* 73 numbers over four ranks in several cuts. */
static void case_uneven_blocks(rank_info *info)
{
    static const size_t cuts[][4] = { { 18, 19, 18, 18 }, { 0, 73, 0, 0 }, { 73, 0, 0, 0 }, { 1, 0, 71, 1 } };
    REQUIRE(info->size == 4);
    for (size_t c = 0; c < sizeof cuts / sizeof cuts[0]; c++) {
        int send[TOTAL], recv[TOTAL + 1], whole[TOTAL], first = 0, own = (int)cuts[c][info->rank];
        for (int r = 0; r < info->rank; r++)
            first += (int)cuts[c][r];
        for (int i = 0; i < TOTAL; i++)
            send[i] = 100 * i + info->rank;
        recv[own] = -1;
        REQUIRE_OK(kith_reduce_scatter_v(info->world, send, recv, cuts[c], KITH_INT32, KITH_SUM));
        for (int i = 0; i < own; i++)
            REQUIRE(recv[i] == 400 * (first + i) + 6);
        REQUIRE(recv[own] == -1);
        REQUIRE_OK(kith_all_gather_v(info->world, recv, whole, cuts[c], NULL, KITH_INT32));
        for (int i = 0; i < TOTAL; i++)
            REQUIRE(whole[i] == 400 * i + 6);
        /* the same blocks in the opposite order, in place */
        size_t displs[4], end = TOTAL;
        for (int r = 0; r < 4; r++)
            displs[r] = end -= cuts[c][r];
        memset(whole, 0, sizeof whole);
        memcpy(whole + displs[info->rank], recv, (size_t)own * sizeof(int));
        REQUIRE_OK(kith_all_gather_v(info->world, whole + displs[info->rank], whole, cuts[c], displs, KITH_INT32));
        for (int r = 0, from = 0; r < 4; from += (int)cuts[c][r++])
            for (int i = 0; i < (int)cuts[c][r]; i++)
                REQUIRE(whole[(int)displs[r] + i] == 400 * (from + i) + 6);
    }
}

/* Rank 0 sends rank 1 other than rank 1 expects, and nobody checks: an error or a deadline, and no byte outside. */
static void disagree(const rank_info *info, size_t sent, size_t expected)
{
    enum { ROOM = 64, GUARD = 0x5a };
    kith_group *group = NULL;
    REQUIRE_OK(kith_group_dup(info->world, NULL, &group));
    REQUIRE_OK(kith_group_set_timeout(group, 700));
    unsigned char send[ROOM * 4], recv[ROOM * 4 + ROOM];
    size_t out[8], in[8], displs[8], end = 0;
    memset(send, 1 + info->rank, sizeof send);
    memset(recv, GUARD, sizeof recv);
    for (int r = 0; r < info->size; r++) {
        out[r] = info->rank == 0 && r == 1 ? sent : 2;
        in[r] = info->rank == 1 && r == 0 ? expected : 2;
        displs[r] = end;
        end += in[r] + 3;
    }
    kith_status status = kith_all_to_all_v(group, send, out, NULL, recv, in, displs, KITH_UINT8);
    bool may_notice = status == KITH_ERR_TIMEOUT || status == KITH_ERR_TRUNCATED || status == KITH_ERR_ABORTED ||
                      status == KITH_ERR_PEER_FAILED || status == KITH_ERR_MISMATCH;
    bool must_notice = info->rank == 1 && expected > 0; /* who expects nothing may see nothing */
    if (!may_notice && (must_notice || status != KITH_OK))
        rank_fail(__FILE__, __LINE__, "%zu sent, %zu expected: got %s: %s", sent, expected, kith_status_name(status),
                  kith_error_detail());
    REQUIRE(status == KITH_OK || kith_error_detail()[0] != '\0');
    for (int r = 0; r < info->size; r++)
        for (int i = 0; i < 3; i++)
            REQUIRE(recv[displs[r] + in[r] + (size_t)i] == GUARD);
    usleep(900000); /* the slowest rank's deadline */
    REQUIRE_OK(kith_group_destroy(group));
    int one = 1;
    REQUIRE_OK(kith_all_reduce(info->world, &one, &one, 1, KITH_INT32, KITH_SUM));
    REQUIRE(one == info->size);
}

static void case_uneven_pairs(rank_info *info)
{
    REQUIRE(info->size >= 2 && info->size <= 8);
    disagree(info, 0, 8);
    disagree(info, 8, 0);
    disagree(info, 5, 4);
}

/* Operations without elements between others, behind a queue on one rank and alone on the others: all stay in step. */
static void case_nothing_between(rank_info *info)
{
    int x = 1, sum = 0, none = -1;
    kith_request *request = NULL;
    for (int late = 0; late < info->size; late++) {
        if (info->rank == late)
            usleep(100000); /* one rank is late in each round */
        if (info->rank % 2 == 0) {
            REQUIRE_OK(kith_all_reduce_start(info->world, &x, &sum, 1, KITH_INT32, KITH_SUM, &request));
            REQUIRE_OK(kith_all_reduce(info->world, &x, &none, 0, KITH_INT32, KITH_SUM));
            REQUIRE_OK(kith_broadcast(info->world, &none, 0, KITH_INT32, 0));
            REQUIRE_OK(kith_wait(&request));
        } else {
            REQUIRE_OK(kith_all_reduce(info->world, &x, &sum, 1, KITH_INT32, KITH_SUM));
            REQUIRE_OK(kith_all_reduce(info->world, &x, &none, 0, KITH_INT32, KITH_SUM));
            REQUIRE_OK(kith_broadcast_start(info->world, &none, 0, KITH_INT32, 0, &request));
            REQUIRE_OK(kith_wait(&request));
        }
        REQUIRE(sum == info->size && none == -1);
        for (int i = 0; i < 5; i++) {
            sum = i + late;
            REQUIRE_OK(kith_all_reduce(info->world, &sum, &sum, 1, KITH_INT32, KITH_SUM));
            REQUIRE(sum == (i + late) * info->size);
        }
    }
}

/* ---- messages ---- */

/* One side batches what the other side calls one by one; then a batch with a member that nobody matches. */
static void case_batch_alone(rank_info *info)
{
    enum { COUNT = 300000 };
    if (info->size < 2 || info->rank > 1)
        return;
    int *out = (int *)malloc(COUNT * sizeof *out), *in = (int *)malloc(COUNT * sizeof *in), peer = 1 - info->rank;
    for (int i = 0; i < COUNT; i++)
        out[i] = i + info->rank;
    kith_request *requests[2] = { NULL, NULL };
    const kith_p2p_args both[2] = { { 1, out, COUNT, KITH_INT32, 1, 4 }, { 0, in, COUNT, KITH_INT32, 1, 4 } };
    if (info->rank == 0) {
        REQUIRE_OK(kith_batch_start(info->world, both, 2, requests));
        REQUIRE_OK(kith_wait_all(requests, 2));
    } else {
        REQUIRE_OK(kith_send(info->world, out, COUNT, KITH_INT32, 0, 4));
        REQUIRE_OK(kith_recv(info->world, in, COUNT, KITH_INT32, 0, 4, NULL));
    }
    for (int i = 0; i < COUNT; i++)
        REQUIRE(in[i] == i + peer);
    int kept = in[0];
    if (info->rank == 0) {
        const kith_p2p_args odd[2] = { { 0, in, 1, KITH_INT32, 1, 5 }, { 1, out, COUNT, KITH_INT32, 1, 6 } };
        REQUIRE_OK(kith_batch_start(info->world, odd, 2, requests));
        REQUIRE_OK(kith_wait(&requests[1]));
        REQUIRE_STATUS(kith_wait_timeout(&requests[0], 300), KITH_ERR_TIMEOUT);
        REQUIRE_DETAIL("rank 1 has no matching send");
        REQUIRE(in[0] == kept);
    } else {
        REQUIRE_OK(kith_recv(info->world, in, COUNT, KITH_INT32, 0, 6, NULL));
        REQUIRE(in[COUNT - 1] == COUNT - 1);
    }
    free(out);
    free(in);
}

/* The first send on a fresh group starts without its peer, which sleeps. One of several must be as quick as it is on an
 * idle machine. */
static void case_send_start(rank_info *info)
{
    enum { GROUPS = 5 };
    static const size_t sizes[GROUPS] = { 8, 1 << 12, 1 << 16, 1 << 20, 1 << 24 };
    kith_group *groups[GROUPS];
    kith_request *requests[GROUPS];
    REQUIRE(info->size >= 2);
    for (int g = 0; g < GROUPS; g++)
        REQUIRE_OK(kith_group_dup(info->world, NULL, &groups[g]));
    unsigned char *buffer = (unsigned char *)malloc(sizes[GROUPS - 1]);
    memset(buffer, 7 + info->rank, sizes[GROUPS - 1]);
    REQUIRE_OK(kith_barrier(info->world));
    if (info->rank == 0) {
        double best = 1e9;
        for (int g = 0; g < GROUPS; g++) {
            double start = seconds();
            REQUIRE_OK(kith_send_start(groups[g], buffer, sizes[g], KITH_UINT8, 1, 0, &requests[g]));
            double took = seconds() - start;
            best = took < best ? took : best;
            if (took > 1.0)
                rank_fail(__FILE__, __LINE__, "starting to send %zu bytes took %.3f s", sizes[g], took);
        }
        REQUIRE(best < 0.001);
        REQUIRE_OK(kith_wait_all(requests, GROUPS));
    } else if (info->rank == 1) {
        sleep(2);
        for (int g = GROUPS - 1; g >= 0; g--) {
            memset(buffer, 0, sizes[g]);
            REQUIRE_OK(kith_recv(groups[g], buffer, sizes[g], KITH_UINT8, 0, 0, NULL));
            REQUIRE(buffer[0] == 7 && buffer[sizes[g] - 1] == 7);
        }
    }
    REQUIRE_OK(kith_barrier(info->world));
    free(buffer);
}

/* ---- deadlines ---- */

/* A deadline belongs to a group or to one wait; 0 is none, also when the group has one. */
static void case_deadlines(rank_info *info)
{
    bool is_late = info->rank == info->size - 1;
    kith_group *group = NULL, *other = NULL;
    kith_group_options options = KITH_GROUP_OPTIONS_INIT;
    kith_request *request = NULL;
    int x = 1, y = 0;
    REQUIRE(info->size >= 2);
    options.timeout_ms = 300;
    REQUIRE_OK(kith_group_dup(info->world, &options, &group));
    REQUIRE_OK(kith_group_dup(info->world, NULL, &other));
    if (is_late)
        usleep(900000);
    /* one wait without a deadline on a group that has one */
    REQUIRE_OK(kith_all_reduce_start(group, &x, &y, 1, KITH_INT32, KITH_SUM, &request));
    REQUIRE_OK(kith_wait_timeout(&request, KITH_TIMEOUT_NONE));
    REQUIRE(y == info->size);
    /* the group's deadline taken away */
    REQUIRE_OK(kith_group_set_timeout(group, 0));
    if (is_late)
        usleep(900000);
    REQUIRE_OK(kith_barrier(group));
    /* a deadline of one wait alone: the operation is over, and so is its group; others live */
    if (!is_late) {
        REQUIRE_OK(kith_all_reduce_start(group, &x, &y, 1, KITH_INT32, KITH_SUM, &request));
        REQUIRE_STATUS(kith_wait_timeout(&request, 200), KITH_ERR_TIMEOUT);
        REQUIRE(request == NULL);
        REQUIRE_DETAIL("within 200 ms");
        REQUIRE_STATUS(kith_barrier(group), KITH_ERR_TIMEOUT);
        REQUIRE_STATUS(kith_send(group, &x, 1, KITH_INT32, 0, 0), KITH_ERR_TIMEOUT);
    }
    REQUIRE_OK(kith_barrier(other));
    REQUIRE_STATUS(kith_group_set_timeout(other, -1), KITH_ERR_INVALID_ARG);
    REQUIRE_STATUS(kith_wait_timeout(&request, -2), KITH_OK); /* nothing to wait for */
    REQUIRE_OK(kith_barrier_start(other, &request));
    REQUIRE_STATUS(kith_wait_timeout(&request, -2), KITH_ERR_INVALID_ARG);
    REQUIRE_OK(kith_wait(&request));
}

/* ---- repetition ---- */

/* Each result is that of its own iteration, looked at the moment that a test or a wait says it is done. */
static void repeat(const rank_info *info, int steps)
{
    enum { LONG = 600 };
    int n = info->size, small, all[LONG];
    kith_request *request = NULL;
    for (int i = 0; i < steps; i++) {
        small = i;
        if (i % 2 == 0) {
            REQUIRE_OK(kith_all_reduce(info->world, &small, &small, 1, KITH_INT32, KITH_SUM));
        } else {
            int is_done = 0;
            REQUIRE_OK(kith_all_reduce_start(info->world, &small, &small, 1, KITH_INT32, KITH_SUM, &request));
            while (!is_done)
                REQUIRE_OK(kith_test(&request, &is_done));
        }
        if (small != i * n)
            rank_fail(__FILE__, __LINE__, "iteration %d: wanted %d, got %d", i, i * n, small);
        if (i % 4 != 0)
            continue;
        for (int k = 0; k < LONG; k++)
            all[k] = info->rank == i / 4 % n ? i + k : -1;
        REQUIRE_OK(kith_broadcast(info->world, all, LONG, KITH_INT32, i / 4 % n));
        REQUIRE(all[0] == i && all[LONG - 1] == i + LONG - 1);
    }
}

static void case_repeat(rank_info *info)
{
    repeat(info, 100000);
}

const conformance_case cases_data[] = {
    { "uneven_blocks", case_uneven_blocks, NULL },
    { "uneven_pairs", case_uneven_pairs, NULL },
    { "nothing_between", case_nothing_between, NULL },
    { "batch_alone", case_batch_alone, NULL },
    { "send_start", case_send_start, NULL },
    { "deadlines", case_deadlines, NULL },
    { "repeat", case_repeat, NULL },
    { NULL, NULL, NULL },
};
