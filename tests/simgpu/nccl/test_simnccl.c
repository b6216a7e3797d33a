/* tests/simgpu/nccl/test_simnccl.c - the simulated NCCL by itself: each rule of sim.h is broken once.
 *
 * Both ranks are this thread's: communicators do not block, and streams run by themselves.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "../sim_test.h"

#include <nccl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

static const char *const two_devices[] = { "KITH_SIMGPU_DEVICES=2", NULL };
static const char *const async_error[] = { "KITH_SIMGPU_DEVICES=2", "KITH_SIMGPU_FAULT=nccl_async:1:1", NULL };

static ncclComm_t comms[2];
static cudaStream_t streams[2];
static float *buffers[2];

static void settle(int rank, ncclResult_t wanted)
{
    ncclResult_t state = ncclInProgress;
    for (int i = 0; i < 20000 && state == ncclInProgress; i++) {
        ncclResult_t other;
        must_be(ncclCommGetAsyncError(comms[rank], &state), ncclSuccess);
        must_be(ncclCommGetAsyncError(comms[1 - rank], &other), ncclSuccess);
        usleep(100);
    }
    must_be(state, wanted);
}

static void begin(void)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclUniqueId id;
    config.blocking = 0;
    must_be(ncclGetUniqueId(&id), ncclSuccess);
    for (int r = 0; r < 2; r++) {
        ok(cudaSetDevice(r));
        must_be(ncclCommInitRankConfig(&comms[r], 2, id, r, &config), ncclInProgress);
        streams[r] = new_stream();
        buffers[r] = device_floats_with(1024, (float)(r + 1));
    }
    settle(0, ncclSuccess);
    settle(1, ncclSuccess);
}

static void end(void)
{
    settle(0, ncclSuccess);
    settle(1, ncclSuccess);
    for (int r = 0; r < 2; r++)
        ok(cudaStreamSynchronize(streams[r]));
    for (int r = 0; r < 2; r++)
        must_be(ncclCommFinalize(comms[r]), ncclInProgress);
    settle(0, ncclSuccess);
    settle(1, ncclSuccess);
    for (int r = 0; r < 2; r++) {
        must_be(ncclCommDestroy(comms[r]), ncclSuccess);
        ok(cudaSetDevice(r));
        ok(cudaStreamDestroy(streams[r]));
        ok(cudaFree(buffers[r]));
    }
}

static void all_reduce(int rank, size_t count, ncclDataType_t type, ncclRedOp_t op)
{
    must_be(ncclAllReduce(buffers[rank], buffers[rank], count, type, op, comms[rank], streams[rank]), ncclInProgress);
}

/* ---- what works ---- */

static void works(void)
{
    begin();
    for (int r = 0; r < 2; r++)
        all_reduce(r, 1024, ncclFloat32, ncclSum);
    settle(0, ncclSuccess);
    settle(1, ncclSuccess);
    for (int r = 0; r < 2; r++) { /* two messages each way, as a group */
        ncclGroupStart();
        for (int i = 0; i < 2; i++) {
            ncclSend(buffers[r] + 256 * i, 100, ncclFloat32, 1 - r, comms[r], streams[r]);
            ncclRecv(buffers[r] + 512 + 256 * i, 100, ncclFloat32, 1 - r, comms[r], streams[r]);
        }
        must_be(ncclGroupEnd(), ncclInProgress);
    }
    settle(0, ncclSuccess);
    settle(1, ncclSuccess);
    for (int r = 0; r < 2; r++) {
        ok(cudaStreamSynchronize(streams[r]));
        check_floats(buffers[r], 1024, 3);
    }
    end();
}

static void test_works(void **state)
{
    (void)state;
    case_passes(works, two_devices);
}

/* An error that nobody asked for: the rank is told, its operation does not end, an abort ends it. */
static void async_ends(void)
{
    begin();
    for (int r = 0; r < 2; r++)
        all_reduce(r, 8, ncclFloat32, ncclSum);
    settle(0, ncclSuccess);
    settle(1, ncclRemoteError);
    usleep(10000);
    must_be(cudaStreamQuery(streams[0]), cudaErrorNotReady);
    for (int r = 0; r < 2; r++) {
        must_be(ncclCommAbort(comms[r]), ncclSuccess);
        ok(cudaStreamSynchronize(streams[r]));
        check_floats(buffers[r], 1024, (float)(r + 1));
        ok(cudaSetDevice(r));
        ok(cudaStreamDestroy(streams[r]));
        ok(cudaFree(buffers[r]));
    }
}

static void test_async(void **state)
{
    (void)state;
    case_passes(async_ends, async_error);
}

/* Two communicators whose other ranks do not come: aborted alone, one waits for the other's kernel; in a group none
 * does. */
static void *abort_first(void *arg)
{
    must_be(ncclCommAbort(comms[0]), ncclSuccess);
    atomic_store((atomic_int *)arg, 1);
    return NULL;
}

static void stand(ncclComm_t *comm, cudaStream_t *stream, float *x)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    ncclUniqueId id;
    ncclComm_t other;
    ncclResult_t state = ncclInProgress;
    config.blocking = 0;
    must_be(ncclGetUniqueId(&id), ncclSuccess);
    ok(cudaSetDevice(1));
    must_be(ncclCommInitRankConfig(&other, 2, id, 1, &config), ncclInProgress);
    ok(cudaSetDevice(0));
    must_be(ncclCommInitRankConfig(comm, 2, id, 0, &config), ncclInProgress);
    comms[0] = *comm;
    comms[1] = other;
    settle(0, ncclSuccess);
    settle(1, ncclSuccess);
    *stream = new_stream();
    must_be(ncclSend(x, 8, ncclFloat32, 1, *comm, *stream), ncclInProgress);
    ok(cudaSetDevice(1));
    cudaStream_t there = new_stream();
    float *y = device_floats_with(8, 0);
    must_be(ncclSend(y, 8, ncclFloat32, 0, other, there), ncclInProgress); /* and no receive */
    settle(0, ncclSuccess);
    settle(1, ncclSuccess);
    must_be(ncclCommAbort(other), ncclSuccess);
    ok(cudaStreamDestroy(there));
    ok(cudaFree(y));
    ok(cudaSetDevice(0));
    for (int i = 0; i < 100 && state == ncclInProgress; i++)
        must_be(ncclCommGetAsyncError(*comm, &state), ncclSuccess);
    must_be(state, ncclSuccess);
}

static void aborts(void)
{
    ncclComm_t two[2];
    cudaStream_t of[2];
    pthread_t thread;
    atomic_int is_back = 0;
    ok(cudaSetDevice(0));
    float *x = device_floats_with(8, 1);
    for (int i = 0; i < 2; i++)
        stand(&two[i], &of[i], x);
    comms[0] = two[0];
    must_be(pthread_create(&thread, NULL, abort_first, &is_back), 0);
    usleep(50000); /* long enough for an abort that waits for nothing */
    must_be(atomic_load(&is_back), 0);
    must_be(cudaStreamQuery(of[0]), cudaSuccess); /* its own kernel is gone */
    must_be(ncclCommAbort(two[1]), ncclSuccess);
    must_be(pthread_join(thread, NULL), 0);
    for (int i = 0; i < 2; i++)
        ok(cudaStreamDestroy(of[i]));
    for (int i = 0; i < 2; i++)
        stand(&two[i], &of[i], x);
    must_be(ncclGroupStart(), ncclSuccess);
    for (int i = 0; i < 2; i++)
        must_be(ncclCommAbort(two[i]), ncclSuccess);
    must_be(ncclGroupEnd(), ncclSuccess);
    for (int i = 0; i < 2; i++)
        ok(cudaStreamDestroy(of[i]));
    ok(cudaFree(x));
}

static void test_aborts(void **state)
{
    (void)state;
    case_passes(aborts, two_devices);
}

/* The keys turn the ranks round; rank 1 of the second split is in no group. */
static void splits(void)
{
    ncclComm_t made[2], alone[2];
    int rank = -1;
    begin();
    for (int r = 0; r < 2; r++)
        must_be(ncclCommSplit(comms[r], 5, 1 - r, &made[r], NULL), ncclInProgress);
    settle(0, ncclSuccess);
    settle(1, ncclSuccess);
    for (int r = 0; r < 2; r++)
        must_be(ncclCommSplit(comms[r], r == 0 ? 0 : NCCL_SPLIT_NOCOLOR, 0, &alone[r], NULL), ncclInProgress);
    settle(0, ncclSuccess);
    settle(1, ncclSuccess);
    must_be(alone[1] == NULL, 1);
    must_be(ncclCommAbort(alone[0]), ncclSuccess);
    for (int r = 0; r < 2; r++) {
        must_be(ncclCommUserRank(made[r], &rank), ncclSuccess);
        must_be(rank, 1 - r);
        must_be(ncclBroadcast(buffers[r], buffers[r], 1024, ncclFloat32, 0, made[r], streams[r]), ncclInProgress);
    }
    for (int r = 0; r < 2; r++)
        comms[r] = (ncclCommAbort(comms[r]), made[r]);
    settle(0, ncclSuccess);
    settle(1, ncclSuccess);
    for (int r = 0; r < 2; r++) {
        ok(cudaStreamSynchronize(streams[r]));
        check_floats(buffers[r], 1024, 2); /* of the second rank, which is first now */
    }
    end();
}

static void test_splits(void **state)
{
    (void)state;
    case_passes(splits, two_devices);
}

static void split_under_way(void)
{
    ncclComm_t made;
    begin();
    ncclSend(buffers[0], 8, ncclFloat32, 1, comms[0], streams[0]);
    ncclSend(buffers[1], 8, ncclFloat32, 0, comms[1], streams[1]); /* and no receive */
    settle(0, ncclSuccess);
    ncclCommSplit(comms[0], 0, 0, &made, NULL);
}

static void used_while_split(void)
{
    ncclComm_t made;
    begin();
    must_be(ncclCommSplit(comms[0], 0, 0, &made, NULL), ncclInProgress);
    all_reduce(0, 8, ncclFloat32, ncclSum);
}

/* A blocking communicator: a call does not return before the others have come to one of its sort, and is ended by a
 * revoke from outside, which frees nothing. */
static ncclComm_t blocking[2];
static atomic_int calls_back;

static void *make_blocking(void *arg)
{
    ncclUniqueId *id = (ncclUniqueId *)arg;
    ok(cudaSetDevice(1));
    must_be(ncclCommInitRank(&blocking[1], 2, *id, 1), ncclSuccess);
    return NULL;
}

static void *call_blocking(void *arg)
{
    int rank = *(int *)arg;
    ok(cudaSetDevice(rank));
    ncclResult_t result =
        ncclAllReduce(buffers[rank], buffers[rank], 8, ncclFloat32, ncclSum, blocking[rank], streams[rank]);
    atomic_fetch_add(&calls_back, 1);
    return (void *)(uintptr_t)result;
}

static void begin_blocking(void)
{
    ncclUniqueId id;
    pthread_t thread;
    must_be(ncclGetUniqueId(&id), ncclSuccess);
    must_be(pthread_create(&thread, NULL, make_blocking, &id), 0);
    ok(cudaSetDevice(0));
    must_be(ncclCommInitRank(&blocking[0], 2, id, 0), ncclSuccess);
    must_be(pthread_join(thread, NULL), 0);
    for (int r = 0; r < 2; r++) {
        ok(cudaSetDevice(r));
        streams[r] = new_stream();
        buffers[r] = device_floats_with(8, 1);
    }
}

static void end_blocking(void)
{
    for (int r = 0; r < 2; r++) {
        must_be(ncclCommAbort(blocking[r]), ncclSuccess);
        ok(cudaSetDevice(r));
        ok(cudaStreamDestroy(streams[r]));
        ok(cudaFree(buffers[r]));
    }
}

static void blocks(void)
{
    static int ranks[] = { 0, 1 };
    pthread_t threads[2];
    void *result;
    begin_blocking();
    must_be(pthread_create(&threads[0], NULL, call_blocking, &ranks[0]), 0);
    usleep(20000); /* long enough for a call that waits for nothing */
    must_be(atomic_load(&calls_back), 0);
    must_be(pthread_create(&threads[1], NULL, call_blocking, &ranks[1]), 0);
    for (int r = 0; r < 2; r++) {
        must_be(pthread_join(threads[r], &result), 0);
        must_be((int)(uintptr_t)result, ncclSuccess);
    }
    must_be((int)(uintptr_t)call_blocking(&ranks[0]), ncclSuccess); /* connected: it does not wait for rank 1 */
    must_be((int)(uintptr_t)call_blocking(&ranks[1]), ncclSuccess);
    for (int r = 0; r < 2; r++) {
        ok(cudaStreamSynchronize(streams[r]));
        must_be(ncclCommRevoke(blocking[r], NCCL_REVOKE_DEFAULT), ncclSuccess);
        must_be((int)(uintptr_t)call_blocking(&ranks[r]), ncclInvalidUsage);
    }
    end_blocking();
    begin_blocking();
    must_be(pthread_create(&threads[0], NULL, call_blocking, &ranks[0]), 0);
    usleep(20000); /* until it is inside */
    must_be(ncclCommRevoke(blocking[0], NCCL_REVOKE_DEFAULT), ncclSuccess);
    must_be(pthread_join(threads[0], &result), 0);
    must_be((int)(uintptr_t)result, ncclInternalError);
    end_blocking();
}

static void abort_inside(void)
{
    static int rank = 0;
    pthread_t thread;
    begin_blocking();
    must_be(pthread_create(&thread, NULL, call_blocking, &rank), 0);
    usleep(20000); /* until it is inside */
    ncclCommAbort(blocking[0]);
}

static void test_blocks(void **state)
{
    (void)state;
    case_passes(blocks, two_devices);
}

/* ---- what ends the test ---- */

static void other_count(void)
{
    begin();
    all_reduce(0, 8, ncclFloat32, ncclSum);
    all_reduce(1, 16, ncclFloat32, ncclSum);
    end();
}

static void other_type(void)
{
    begin();
    all_reduce(0, 8, ncclFloat32, ncclSum);
    all_reduce(1, 8, ncclInt32, ncclSum);
    end();
}

static void other_operator(void)
{
    begin();
    all_reduce(0, 8, ncclFloat32, ncclMax);
    all_reduce(1, 8, ncclFloat32, ncclSum);
    end();
}

static void other_kind(void)
{
    begin();
    all_reduce(0, 8, ncclFloat32, ncclSum);
    ncclBroadcast(buffers[1], buffers[1], 8, ncclFloat32, 0, comms[1], streams[1]);
    end();
}

static void other_root(void)
{
    begin();
    for (int r = 0; r < 2; r++)
        ncclBroadcast(buffers[r], buffers[r], 8, ncclFloat32, r, comms[r], streams[r]);
    end();
}

static void other_length(void)
{
    begin();
    ncclSend(buffers[0], 8, ncclFloat32, 1, comms[0], streams[0]);
    ncclRecv(buffers[1], 4, ncclFloat32, 0, comms[1], streams[1]);
    end();
}

static void other_device(void)
{
    begin();
    ncclAllReduce(buffers[0], buffers[0], 8, ncclFloat32, ncclSum, comms[0], streams[1]);
}

static void foreign_memory(void)
{
    static float host[8];
    begin();
    ncclAllReduce(host, host, 8, ncclFloat32, ncclSum, comms[0], streams[0]);
    all_reduce(1, 8, ncclFloat32, ncclSum);
    end();
}

static void overlap(void)
{
    begin();
    ncclAllGather(buffers[0] + 1, buffers[0], 8, ncclFloat32, comms[0], streams[0]);
}

static void in_progress(void)
{
    begin();
    all_reduce(0, 8, ncclFloat32, ncclSum);
    all_reduce(0, 8, ncclFloat32, ncclSum);
}

static void destroyed_operator(void)
{
    ncclRedOp_t op;
    float two = 2;
    begin();
    must_be(ncclRedOpCreatePreMulSum(&op, &two, ncclFloat32, ncclScalarHostImmediate, comms[0]), ncclSuccess);
    must_be(ncclRedOpDestroy(op, comms[0]), ncclSuccess);
    ncclAllReduce(buffers[0], buffers[0], 8, ncclFloat32, op, comms[0], streams[0]);
}

static void destroyed_communicator(void)
{
    begin();
    must_be(ncclCommAbort(comms[0]), ncclSuccess);
    ncclAllReduce(buffers[0], buffers[0], 8, ncclFloat32, ncclSum, comms[0], streams[0]);
}

static void left_behind(void)
{
    begin();
    for (int r = 0; r < 2; r++) {
        ok(cudaSetDevice(r));
        ok(cudaStreamDestroy(streams[r]));
        ok(cudaFree(buffers[r]));
    }
}

/* A send and the work after it on one stream race with nobody; a copy on another stream does. */
static void race(void)
{
    begin();
    for (int r = 0; r < 2; r++)
        all_reduce(r, 1024, ncclFloat32, ncclSum);
    settle(0, ncclSuccess);
    settle(1, ncclSuccess);
    ok(cudaSetDevice(0));
    cudaStream_t other = new_stream();
    ok(cudaMemsetAsync(buffers[0], 0, 16, other));
    ok(cudaStreamSynchronize(other));
    end();
}

static void test_rules(void **state)
{
    (void)state;
    case_fails(other_count, two_devices, "AllReduce(8 of float32, sum", "AllReduce(16 of float32, sum");
    case_fails(other_type, two_devices, "8 of float32", "8 of int32");
    case_fails(other_operator, two_devices, "max", "sum");
    case_fails(other_kind, two_devices, "AllReduce(8", "Broadcast(8");
    case_fails(other_root, two_devices, "root 0", "root 1");
    case_fails(other_length, two_devices, "rank 0 sends 32 bytes to rank 1, which receives 16");
    case_fails(other_device, two_devices, "the stream belongs to device 1, the communicator to device 0");
    case_fails(foreign_memory, two_devices, "AllReduce");
    case_fails(overlap, two_devices, "AllGather on rank 0", "overlap");
    case_fails(in_progress, two_devices, "is used while the call before is in progress");
    case_fails(destroyed_operator, two_devices, "operator 5 was not made", "or was destroyed");
    case_fails(destroyed_communicator, two_devices, "AllReduce: this is no communicator, or one that was destroyed");
    case_fails(split_under_way, two_devices, "ncclCommSplit on rank 0: 1 operations of the parent are not done");
    case_fails(used_while_split, two_devices, "is used while", "in progress");
    case_fails(abort_inside, two_devices, "ncclCommAbort on rank 0", "another thread is inside");
    case_fails(left_behind, two_devices, "an NCCL communicator");
    case_fails(race, two_devices, "AllReduce");
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_works),  cmocka_unit_test(test_async),
                                        cmocka_unit_test(test_aborts), cmocka_unit_test(test_blocks),
                                        cmocka_unit_test(test_splits), cmocka_unit_test(test_rules) };
    return cmocka_run_group_tests_name("simulated NCCL", tests, NULL, NULL);
}
