/* tests/backends/shm/test_faults.c - ranks that die, abort, or never come; shared memory that is short or refused.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "harness.h"
#include <dirent.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#define COUNT 200000
#define LATE_NS INT64_C(5000000000)

typedef struct fault {
    kith_coll_kind kind;
    bool is_mapped;
} fault;

static void *buffer_of(harness_rank *me, size_t nbytes, bool is_mapped)
{
    void *data = NULL;
    if (!is_mapped)
        return calloc(1, nbytes);
    HARNESS_CHECK(me, me->backend->mem_alloc(me->group, nbytes, &data) == KITH_OK);
    return data;
}

static void fill_coll(harness_rank *me, kith_be_coll *coll, kith_be_reducer *reducer, kith_coll_kind kind, size_t count,
                      float *send, float *recv)
{
    static const size_t counts[HARNESS_RANKS] = { 7000, 8000, 9000, 10000 };
    static const size_t displs[HARNESS_RANKS] = { 0, 10000, 20000, 30000 };
    harness_reducer(reducer, KITH_F32, KITH_SUM);
    bool is_reducing =
        kind == KITH_ALL_REDUCE || kind == KITH_REDUCE || kind == KITH_REDUCE_SCATTER || kind == KITH_REDUCE_SCATTER_V;
    *coll = (kith_be_coll){ .kind = kind,
                            .dtype = KITH_F32,
                            .op = KITH_SUM,
                            .root = me->size - 1,
                            .send = send,
                            .recv = recv,
                            .count = count,
                            .nbytes = 4,
                            .send_counts = counts,
                            .send_displs = displs,
                            .recv_counts = counts,
                            .recv_displs = displs,
                            .reducer = is_reducing ? reducer : NULL };
    if (kind == KITH_BROADCAST)
        coll->send = recv;
    if (kind == KITH_GATHER_V || kind == KITH_SCATTER_V)
        coll->count = counts[me->rank];
    if (kind == KITH_ALL_TO_ALL_V) { /* every pair the same */
        static const size_t equal[HARNESS_RANKS] = { 9000, 9000, 9000, 9000 };
        coll->send_counts = coll->recv_counts = equal;
    }
}

/* Tests until the operation ends in one way or the other; false when it does not. */
static bool ends(harness_rank *me, kith_be_slot *slot, kith_status *status)
{
    int64_t until = harness_now_ns() + LATE_NS;
    for (;;) {
        int is_done = 0;
        *status = me->backend->coll_test(me->group, slot, &is_done);
        if (is_done || *status != KITH_OK)
            return true;
        if (harness_now_ns() > until)
            return false;
        me->backend->idle(me->be, 1000000);
    }
}

static void die_in_the_middle(harness_rank *me)
{
    const fault *f = me->user;
    size_t elements = (size_t)COUNT * (size_t)me->size;
    float *send = buffer_of(me, elements * 4, f->is_mapped), *recv = buffer_of(me, elements * 4, f->is_mapped);
    kith_be_coll coll;
    kith_be_reducer reducer;
    kith_status status = KITH_OK;
    for (int round = 0; status == KITH_OK; round++) {
        kith_be_slot slot = { { 0 } };
        fill_coll(me, &coll, &reducer, f->kind, round % 2 == 0 ? COUNT : COUNT / 1000, send, recv);
        if (round == 5 && me->rank == 1) {
            me->backend->coll_start(me->group, &coll, &slot);
            raise(SIGKILL);
        }
        status = me->backend->coll_start(me->group, &coll, &slot);
        if (status == KITH_OK && !ends(me, &slot, &status)) {
            harness_fail(me, "%s hangs after rank 1 died", kith_coll_name(f->kind));
            break;
        }
        /* A rank that needs nothing from the dead one learns of it sooner or later. */
        if (status == KITH_OK && round > 100000)
            break;
    }
    me->backend->coll_cancel(me->group, &(kith_be_slot){ { 0 } });
    /* Nobody leaves before all have found the dead one, or they would find each other. */
    int *left = me->notes;
    __atomic_fetch_add(left, 1, __ATOMIC_SEQ_CST);
    for (int64_t until = harness_now_ns() + LATE_NS;
         __atomic_load_n(left, __ATOMIC_SEQ_CST) < me->size - 1 && harness_now_ns() < until;)
        usleep(1000); /* between looks: the others need the cores */
    HARNESS_CHECK(me, status == KITH_OK || status == KITH_ERR_PEER_FAILED);
    HARNESS_CHECK(me, status != KITH_ERR_PEER_FAILED || me->failed_peer == 1);
    if (!f->is_mapped) {
        free(send);
        free(recv);
    }
}

/* From here on the kernel refuses this process what it allowed when the group was made. */
static void forbid_remote(harness_rank *me)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 1, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_writev, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = { sizeof code / sizeof code[0], code };
    HARNESS_CHECK(me, prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    HARNESS_CHECK(me, prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
}

/* Whoever is refused says so, and nobody waits for it. */
static void refuse_in_the_middle(harness_rank *me)
{
    const fault *f = me->user;
    size_t elements = (size_t)COUNT * (size_t)me->size;
    float *send = buffer_of(me, elements * 4, false), *recv = buffer_of(me, elements * 4, false);
    kith_status status = KITH_OK;
    for (int round = 0; status == KITH_OK && round < 20; round++) {
        kith_be_slot slot = { { 0 } };
        kith_be_coll coll;
        kith_be_reducer reducer;
        if (round == 3 && me->rank == 1)
            forbid_remote(me);
        fill_coll(me, &coll, &reducer, f->kind, COUNT, send, recv);
        status = me->backend->coll_start(me->group, &coll, &slot);
        if (status == KITH_OK && !ends(me, &slot, &status))
            harness_fail(me, "%s hangs after rank 1 was refused", kith_coll_name(f->kind));
    }
    me->backend->coll_cancel(me->group, &(kith_be_slot){ { 0 } });
    HARNESS_CHECK(me, status == (me->rank == 1 ? KITH_ERR_PEER_FAILED : KITH_ERR_ABORTED));
    harness_barrier(me);
    free(send);
    free(recv);
}

static void test_refusal(void **state)
{
    (void)state;
    static const harness_setting remote[] = { { "shm_cma", "always" }, { NULL, NULL } };
    for (int size = 2; size <= 3; size++) {
        fault reduce = { KITH_ALL_REDUCE, false }, gather = { KITH_ALL_GATHER, false };
        harness_options options = { .size = size, .settings = remote, .timeout_s = 60 };
        assert_int_equal(harness_run(&options, refuse_in_the_middle, &reduce), 0);
        assert_int_equal(harness_run(&options, refuse_in_the_middle, &gather), 0);
    }
}

static void test_death(void **state)
{
    (void)state;
    for (int kind = 0; kind < KITH_COLL_COUNT; kind++) {
        fault f = { (kith_coll_kind)kind, kind % 2 == 1 };
        for (int size = 2; size <= 4; size += 2) {
            harness_options options = { .size = size, .killed_rank = 2, .timeout_s = 60 };
            assert_int_equal(harness_run(&options, die_in_the_middle, &f), 0);
        }
    }
}

static void *abort_later(void *group)
{
    usleep(50000); /* until the ranks wait inside the operation */
    ki_shm_backend()->group_abort(group);
    return NULL;
}

/* Rank 0 aborts from a second thread while all but the last wait for it. */
static void abort_all(harness_rank *me)
{
    float send[64] = { 0 }, recv[64];
    kith_be_slot slot = { { 0 } }, recv_slot = { { 0 } };
    kith_be_coll coll;
    kith_be_reducer reducer;
    pthread_t thread;
    fill_coll(me, &coll, &reducer, KITH_ALL_REDUCE, 64, send, recv);
    harness_barrier(me);
    if (me->rank == 0)
        HARNESS_CHECK(me, pthread_create(&thread, NULL, abort_later, me->group) == 0);
    if (me->rank < me->size - 1) {
        kith_status status = me->backend->coll_start(me->group, &coll, &slot);
        HARNESS_CHECK(me, status == KITH_OK && ends(me, &slot, &status) && status == KITH_ERR_ABORTED);
        kith_be_msg msg = { .peer = me->size - 1, .tag = 3, .buffer = recv, .nbytes = sizeof recv };
        HARNESS_CHECK(me, me->backend->recv_start(me->group, &msg, &recv_slot) == KITH_OK);
        HARNESS_CHECK(me, harness_wait_msg(me, &recv_slot, NULL) == KITH_ERR_ABORTED);
        me->backend->msg_cancel(me->group, &recv_slot);
    }
    if (me->rank == 0)
        pthread_join(thread, NULL);
}

static void test_abort(void **state)
{
    (void)state;
    harness_options processes = { .size = 3 }, threads = { .size = 3, .is_threads = true };
    assert_int_equal(harness_run(&processes, abort_all, NULL), 0);
    assert_int_equal(harness_run(&threads, abort_all, NULL), 0);
}

/* The last rank comes after the others have given up; it must not write into their buffers. */
static void come_late(harness_rank *me)
{
    const fault *f = me->user;
    size_t nbytes = (size_t)COUNT * (size_t)me->size * 4;
    float *send = buffer_of(me, nbytes, f->is_mapped), *recv = buffer_of(me, nbytes, f->is_mapped);
    kith_be_slot slot = { { 0 } };
    kith_be_coll coll;
    kith_be_reducer reducer;
    unsigned char is_missing[HARNESS_RANKS] = { 0 };
    int is_done = 0;
    fill_coll(me, &coll, &reducer, f->kind, COUNT, send, recv);
    bool is_late = me->rank == me->size - 1;
    if (!is_late) {
        HARNESS_CHECK(me, me->backend->coll_start(me->group, &coll, &slot) == KITH_OK);
        for (int64_t until = harness_now_ns() + 20000000; harness_now_ns() < until && !is_done;)
            HARNESS_CHECK(me, me->backend->coll_test(me->group, &slot, &is_done) == KITH_OK);
        harness_barrier(me);
        me->backend->coll_missing(me->group, &slot, is_missing);
        for (int r = 0; r < me->size; r++)
            if (is_missing[r] != (r == me->size - 1))
                harness_fail(me, "%s: rank %d is %s", kith_coll_name(f->kind), r,
                             is_missing[r] ? "missing" : "not missing");
        me->backend->coll_cancel(me->group, &slot);
        memset(send, 0x11, nbytes);
        memset(recv, 0x22, nbytes);
    } else {
        harness_barrier(me);
    }
    harness_barrier(me);
    if (is_late) {
        HARNESS_CHECK(me, me->backend->coll_start(me->group, &coll, &slot) == KITH_OK);
        for (int64_t until = harness_now_ns() + 20000000; harness_now_ns() < until && !is_done;)
            me->backend->coll_test(me->group, &slot, &is_done);
        me->backend->coll_cancel(me->group, &slot);
    }
    harness_barrier(me);
    for (size_t i = 0; !is_late && i < nbytes; i++)
        if (((unsigned char *)send)[i] != 0x11 || ((unsigned char *)recv)[i] != 0x22) {
            harness_fail(me, "%s: a buffer changed after coll_cancel", kith_coll_name(f->kind));
            break;
        }
    harness_barrier(me);
    if (!f->is_mapped) {
        free(send);
        free(recv);
    }
}

static void test_late(void **state)
{
    (void)state;
    static const kith_coll_kind kinds[] = { KITH_ALL_REDUCE, KITH_REDUCE_SCATTER, KITH_ALL_GATHER,
                                            KITH_ALL_TO_ALL, KITH_BROADCAST,      KITH_SCATTER };
    static const harness_setting remote[] = { { "shm_cma", "always" }, { NULL, NULL } };
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        for (int way = 0; way < 4; way++) {
            fault f = { kinds[k], way % 2 == 1 };
            harness_options options = { .size = 2 + way, .settings = way >= 2 ? remote : NULL };
            assert_int_equal(harness_run(&options, come_late, &f), 0);
        }
    }
}

/* ---- shared memory that is short ---- */

static bool is_empty(const char *folder)
{
    DIR *dir = opendir(folder);
    int entries = 0;
    for (struct dirent *entry; dir != NULL && (entry = readdir(dir)) != NULL;)
        entries += entry->d_name[0] != '.';
    if (dir != NULL)
        closedir(dir);
    return entries == 0;
}

static void reduce_a_little(harness_rank *me)
{
    float *send = calloc(COUNT, 4), *recv = calloc(COUNT, 4);
    kith_be_coll coll;
    kith_be_reducer reducer;
    for (size_t count = 1; count <= COUNT; count *= 7) {
        for (size_t i = 0; i < count; i++)
            send[i] = (float)(me->rank + (int)(i % 5));
        fill_coll(me, &coll, &reducer, KITH_ALL_REDUCE, count, send, recv);
        HARNESS_CHECK(me, harness_coll(me, &coll) == KITH_OK);
        float ranks = (float)(me->size * (me->size - 1) / 2);
        for (size_t i = 0; i < count; i++)
            HARNESS_CHECK(me, recv[i] == ranks + (float)(me->size * (int)(i % 5)));
    }
    free(send);
    free(recv);
}

static void create_fails(harness_rank *me)
{
    HARNESS_CHECK(me, me->status == KITH_ERR_NO_RESOURCE);
    if (me->rank == 0) {
        HARNESS_CHECK(me, strstr(me->detail, "/kith-") != NULL);
        HARNESS_CHECK(me, strstr(me->detail, "needs") != NULL && strstr(me->detail, "are free") != NULL);
    }
}

static void die_all(harness_rank *me)
{
    reduce_a_little(me);
    raise(SIGKILL);
}

static void test_small_folder(void **state)
{
    (void)state;
    char folder[] = "/tmp/kith-test-XXXXXX";
    assert_non_null(mkdtemp(folder));
    const harness_setting settings[] = { { "shm_memfd", "off" }, { "shm_dir", folder }, { NULL, NULL } };
    if (mount("tmpfs", folder, "tmpfs", 0, "size=1m") != 0) {
        rmdir(folder);
        print_message("test_small_folder skipped: mounting a file system is not permitted here\n");
        skip();
    }
    int failures = 0;
    for (int size = 2; size <= 8; size += 3) {
        harness_options options = { .size = size, .settings = settings };
        failures += harness_run(&options, reduce_a_little, NULL);
        failures += !is_empty(folder);
    }
    umount(folder);
    int mounted = mount("tmpfs", folder, "tmpfs", 0, "size=16k");
    harness_options options = { .size = 4, .settings = settings, .may_fail_create = true };
    failures += harness_run(&options, create_fails, NULL);
    failures += !is_empty(folder);
    umount(folder);
    rmdir(folder);
    assert_int_equal(mounted, 0);
    assert_int_equal(failures, 0);
}

static void test_nothing_left(void **state)
{
    (void)state;
    char folder[] = "/tmp/kith-test-XXXXXX";
    assert_non_null(mkdtemp(folder));
    const harness_setting settings[] = { { "shm_memfd", "off" }, { "shm_dir", folder }, { NULL, NULL } };
    harness_options options = { .size = 2, .settings = settings, .killed_rank = -1 };
    assert_int_equal(harness_run(&options, die_all, NULL), 0);
    assert_true(is_empty(folder));
    assert_int_equal(rmdir(folder), 0);
}

static void folder_fails(harness_rank *me)
{
    HARNESS_CHECK(me, me->status == KITH_ERR_NO_RESOURCE);
    HARNESS_CHECK(me, me->rank != 0 || strstr(me->detail, "/nonexistent/kith-") != NULL);
}

static void test_bad_folder(void **state)
{
    (void)state;
    const harness_setting settings[] = { { "shm_memfd", "off" }, { "shm_dir", "/nonexistent" }, { NULL, NULL } };
    harness_options options = { .size = 3, .settings = settings, .may_fail_create = true };
    assert_int_equal(harness_run(&options, folder_fails, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_death),      cmocka_unit_test(test_refusal),      cmocka_unit_test(test_abort),
        cmocka_unit_test(test_late),       cmocka_unit_test(test_small_folder), cmocka_unit_test(test_nothing_left),
        cmocka_unit_test(test_bad_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
