/* tests/core/boot/test_store.c - what every kind of store does: keys, gathers, deadlines, events, leaving.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "boot_test.h"

static const char *kind;

static void fresh(char url[512])
{
    make_url(kind, url, 512);
}

/* ---- keys ---- */

static void keys_body(rank_run *run)
{
    void *value;
    size_t nbytes;
    char key[32], text[32];
    snprintf(key, sizeof key, "key %d", run->rank);
    snprintf(text, sizeof text, "value %d", run->rank);
    RANK_CHECK(ki_store_set(run->store, key, text, strlen(text) + 1) == KITH_OK);
    for (int r = 0; r < run->size; r++) {
        snprintf(key, sizeof key, "key %d", r);
        snprintf(text, sizeof text, "value %d", r);
        RANK_CHECK(ki_store_get(run->store, key, ki_deadline_after_ms(20000), &value, &nbytes) == KITH_OK);
        RANK_CHECK(nbytes == strlen(text) + 1 && strcmp(value, text) == 0);
        free(value);
    }
}

static void test_keys(void **state)
{
    (void)state;
    char url[512];
    for (int size = 1; size <= 5; size += 2) {
        fresh(url);
        run_ranks(url, size, keys_body, NULL);
    }
}

static void replace_body(rank_run *run)
{
    void *value;
    size_t nbytes;
    static const char zeros[100000];
    if (run->rank == 0) {
        RANK_CHECK(ki_store_set(run->store, "k", "old", 3) == KITH_OK);
        RANK_CHECK(ki_store_set(run->store, "k", "", 0) == KITH_OK);
        RANK_CHECK(ki_store_set(run->store, "large", zeros, sizeof zeros) == KITH_OK);
        RANK_CHECK(ki_store_set(run->store, "ready", NULL, 0) == KITH_OK);
    }
    RANK_CHECK(ki_store_get(run->store, "ready", 0, &value, &nbytes) == KITH_OK);
    free(value);
    RANK_CHECK(ki_store_get(run->store, "k", 1, &value, &nbytes) == KITH_OK);
    RANK_CHECK(nbytes == 0);
    free(value);
    RANK_CHECK(ki_store_get(run->store, "large", 1, &value, &nbytes) == KITH_OK);
    RANK_CHECK(nbytes == sizeof zeros && memcmp(value, zeros, nbytes) == 0);
    free(value);
}

static void test_replace_and_large(void **state)
{
    (void)state;
    char url[512];
    fresh(url);
    run_ranks(url, 3, replace_body, NULL);
}

static void deadline_body(rank_run *run)
{
    void *value;
    size_t nbytes;
    int64_t began = ki_now_ns();
    RANK_CHECK(ki_store_get(run->store, "never", 1, &value, &nbytes) == KITH_ERR_TIMEOUT);
    RANK_CHECK(strstr(kith_error_detail(), "never"));
    RANK_CHECK(ki_store_get(run->store, "never", ki_deadline_after_ms(200), &value, &nbytes) == KITH_ERR_TIMEOUT);
    RANK_CHECK(ki_now_ns() - began >= 200000000);
    RANK_CHECK(ki_store_set(run->store, "later", "x", 1) == KITH_OK); /* the handle still works */
    RANK_CHECK(ki_store_get(run->store, "later", ki_deadline_after_ms(20000), &value, &nbytes) == KITH_OK);
    free(value);
}

static void test_get_deadline(void **state)
{
    (void)state;
    char url[512];
    fresh(url);
    run_ranks(url, 2, deadline_body, NULL);
}

static void test_bad_keys(void **state)
{
    (void)state;
    char url[512], key[400];
    memset(key, 'k', sizeof key - 1);
    key[sizeof key - 1] = '\0';
    fresh(url);
    rank_run run = { .size = 1, .url = url, .timeout_ms = 20000 };
    assert_status(open_rank(&run), KITH_OK);
    assert_status(ki_store_set(run.store, "", "x", 1), KITH_ERR_INVALID_ARG);
    assert_status(ki_store_set(run.store, key, "x", 1), KITH_ERR_INVALID_ARG);
    assert_status(ki_store_set(run.store, "k", "x", (size_t)1 << 40), KITH_ERR_INVALID_ARG);
    assert_status(ki_store_gather(run.store, "g", 1, 1, NULL, "x", 1, key, 0, NULL), KITH_ERR_INVALID_ARG);
    assert_status(ki_store_gather(run.store, "g", 0, 0, NULL, "x", 1, key, 0, NULL), KITH_ERR_INVALID_ARG);
    assert_status(ki_store_gather(run.store, "g", 0, 1 << 20, NULL, "x", 1000, key, 0, NULL), KITH_ERR_INVALID_ARG);
    ki_store_close(run.store, true, 0);
    ki_store_close(NULL, true, 0);
}

/* ---- gathers ---- */

static void gather_body(rank_run *run)
{
    int *all = calloc((size_t)run->size, sizeof *all), *ranks = calloc((size_t)run->size, sizeof *ranks);
    char key[32];
    for (int i = 0; i < run->size; i++)
        ranks[i] = i;
    for (int round = 0; round < 20; round++) {
        int mine = run->rank * 1000 + round;
        snprintf(key, sizeof key, "gather %d", round);
        RANK_CHECK(ki_store_gather(run->store, key, run->rank, run->size, round % 2 ? ranks : NULL, &mine, sizeof mine,
                                   all, 0, NULL) == KITH_OK);
        for (int i = 0; i < run->size; i++)
            RANK_CHECK(all[i] == i * 1000 + round);
    }
    RANK_CHECK(ki_store_gather(run->store, "empty", run->rank, run->size, NULL, NULL, 0, NULL, 0, NULL) == KITH_OK);
    free(all);
    free(ranks);
}

static void test_gather(void **state)
{
    (void)state;
    char url[512];
    for (int size = 1; size <= 9; size += 4) {
        fresh(url);
        run_ranks(url, size, gather_body, NULL);
    }
}

/* Groups of two next to each other, and a large contribution. */
static void pairs_body(rank_run *run)
{
    enum { NBYTES = 300000 };
    char key[32], *mine = malloc(NBYTES), *both = malloc(2 * NBYTES);
    int ranks[2] = { run->rank & ~1, run->rank | 1 };
    snprintf(key, sizeof key, "pair %d", run->rank / 2);
    memset(mine, run->rank + 1, NBYTES);
    RANK_CHECK(ki_store_gather(run->store, key, run->rank % 2, 2, ranks, mine, NBYTES, both, 0, NULL) == KITH_OK);
    for (int i = 0; i < 2 * NBYTES; i++)
        RANK_CHECK(both[i] == ranks[i / NBYTES] + 1);
    free(mine);
    free(both);
}

static void test_gather_in_pairs(void **state)
{
    (void)state;
    char url[512];
    fresh(url);
    run_ranks(url, 6, pairs_body, NULL);
}

/* Rank 2 never comes: all others learn that it is the one. */
static void missing_body(rank_run *run)
{
    int ranks[4] = { 0, 1, 2, 3 };
    unsigned char missing[4];
    char out[4], mine = 'x';
    int64_t began = ki_now_ns();
    if (run->rank != 2) {
        kith_status s =
            ki_store_gather(run->store, "m", run->rank, 4, ranks, &mine, 1, out, ki_deadline_after_ms(1500), missing);
        RANK_CHECK(s == KITH_ERR_TIMEOUT);
        RANK_CHECK(!missing[0] && !missing[1] && missing[2] && !missing[3]);
        RANK_CHECK(strstr(kith_error_detail(), "missing ranks 2"));
        RANK_CHECK(ki_now_ns() - began >= 1500000000);
    }
    int number = run->rank,
        all[4]; /* and the store is as good as before; nobody leaves before the others are through */
    RANK_CHECK(ki_store_gather(run->store, "end", run->rank, 4, ranks, &number, sizeof number, all,
                               ki_deadline_after_ms(20000), NULL) == KITH_OK);
}

static void test_gather_names_missing(void **state)
{
    (void)state;
    char url[512];
    fresh(url);
    run_ranks(url, 4, missing_body, NULL);
}

static void mismatch_body(rank_run *run)
{
    char out[64], mine[8] = "";
    int number = 0, all[2];
    if (run->rank == 0) {
        RANK_CHECK(ki_store_gather(run->store, "shape", 0, 2, NULL, mine, 4, out, ki_deadline_after_ms(300), NULL) ==
                   KITH_ERR_TIMEOUT);
        RANK_CHECK(ki_store_set(run->store, "shaped", NULL, 0) == KITH_OK);
    } else {
        void *value;
        size_t nbytes;
        RANK_CHECK(ki_store_get(run->store, "shaped", ki_deadline_after_ms(20000), &value, &nbytes) == KITH_OK);
        free(value);
        kith_status s = ki_store_gather(run->store, "shape", 1, 2, NULL, mine, 8, out, ki_deadline_after_ms(300), NULL);
        RANK_CHECK(s == KITH_ERR_MISMATCH || (s == KITH_ERR_TIMEOUT && strncmp(run->url, "file", 4) == 0));
        s = ki_store_gather(run->store, "shape", 0, 2, NULL, mine, 4, out, ki_deadline_after_ms(300), NULL);
        RANK_CHECK(s == KITH_ERR_MISMATCH || (s == KITH_ERR_TIMEOUT && strncmp(run->url, "file", 4) == 0));
    }
    RANK_CHECK(ki_store_gather(run->store, "end", run->rank, 2, NULL, &number, sizeof number, all, 0, NULL) == KITH_OK);
}

static void test_gather_mismatch(void **state)
{
    (void)state;
    char url[512];
    fresh(url);
    run_ranks(url, 2, mismatch_body, NULL);
}

/* ---- events ---- */

static bool wait_event(ki_store *store, ki_event *event, int64_t timeout_ms)
{
    int64_t deadline = ki_deadline_after_ms(timeout_ms);
    while (!ki_store_poll_event(store, event)) {
        if (ki_deadline_passed(deadline))
            return false;
        ki_sleep_ns(1000000);
    }
    return true;
}

static void abort_body(rank_run *run)
{
    int number = 0, all[3];
    ki_event event;
    RANK_CHECK(ki_store_gather(run->store, "begin", run->rank, 3, NULL, &number, sizeof number, all, 0, NULL) ==
               KITH_OK);
    if (run->rank == 1) {
        for (uint64_t i = 0; i < 100; i++)
            ki_store_announce(run->store, i % 2 == 0 ? KI_EVENT_ABORT : KI_EVENT_FAILURE, 7000 + i);
    } else {
        for (uint64_t i = 0; i < 100; i++) {
            RANK_CHECK(wait_event(run->store, &event, 20000));
            RANK_CHECK(event.kind == (i % 2 == 0 ? KI_EVENT_ABORT : KI_EVENT_FAILURE));
            RANK_CHECK(event.rank == 1 && event.value == 7000 + i);
        }
    }
    RANK_CHECK(ki_store_gather(run->store, "end", run->rank, 3, NULL, &number, sizeof number, all, 0, NULL) == KITH_OK);
    RANK_CHECK(!ki_store_poll_event(run->store, &event));
}

static void test_abort_event(void **state)
{
    (void)state;
    char url[512];
    fresh(url);
    run_ranks(url, 3, abort_body, NULL);
}

/* Rank 1 closes without order while the others wait for it in a gather. */
static void death_body(rank_run *run)
{
    int number = 0, all[3], ranks[3] = { 0, 1, 2 };
    ki_event event;
    RANK_CHECK(ki_store_gather(run->store, "begin", run->rank, 3, ranks, &number, sizeof number, all, 0, NULL) ==
               KITH_OK);
    if (run->rank == 1) {
        ki_store_close(run->store, false, 0);
        run->store = NULL;
        return;
    }
    kith_status s = ki_store_gather(run->store, "next", run->rank, 3, ranks, &number, sizeof number, all,
                                    ki_deadline_after_ms(20000), NULL);
    RANK_CHECK(s == KITH_ERR_PEER_FAILED);
    RANK_CHECK(strstr(kith_error_detail(), "rank 1"));
    RANK_CHECK(wait_event(run->store, &event, 20000));
    RANK_CHECK(event.kind == KI_EVENT_RANK_DIED && event.rank == 1);
    ranks[1] = 2; /* the living go on among themselves */
    RANK_CHECK(ki_store_gather(run->store, "two", run->rank / 2, 2, ranks, &number, sizeof number, all,
                               ki_deadline_after_ms(20000), NULL) == KITH_OK);
}

static void test_death(void **state)
{
    (void)state;
    char url[512];
    fresh(url);
    run_ranks(url, 3, death_body, NULL);
}

/* Rank 0 goes without order: for the TCP store the server goes with it. */
static void server_death_body(rank_run *run)
{
    int number = 0, all[3], ranks[3] = { 0, 1, 2 };
    ki_event event;
    RANK_CHECK(ki_store_gather(run->store, "begin", run->rank, 3, ranks, &number, sizeof number, all, 0, NULL) ==
               KITH_OK);
    if (run->rank == 0) {
        ki_store_close(run->store, false, 0);
        run->store = NULL;
        return;
    }
    kith_status s = ki_store_gather(run->store, "next", run->rank, 3, ranks, &number, sizeof number, all,
                                    ki_deadline_after_ms(20000), NULL);
    RANK_CHECK(s == KITH_ERR_PEER_FAILED);
    RANK_CHECK(strstr(kith_error_detail(), "rank 0"));
    RANK_CHECK(wait_event(run->store, &event, 20000));
    RANK_CHECK(event.kind == KI_EVENT_RANK_DIED && event.rank == 0);
}

static void test_death_of_rank_0(void **state)
{
    (void)state;
    char url[512];
    fresh(url);
    run_ranks(url, 3, server_death_body, NULL);
}

/* An orderly leave is no death, but who waits for the one that left does not wait for ever. */
static void leave_body(rank_run *run)
{
    int number = 0, all[2], ranks[2] = { 0, 1 };
    ki_event event;
    if (run->rank == 1)
        return;
    while (true) { /* until rank 1 has come and gone */
        char key[32];
        static int round;
        snprintf(key, sizeof key, "left %d", round++);
        kith_status s =
            ki_store_gather(run->store, key, 0, 2, ranks, &number, sizeof number, all, ki_deadline_after_ms(300), NULL);
        RANK_CHECK(s == KITH_ERR_PEER_FAILED || s == KITH_ERR_TIMEOUT);
        if (s == KITH_ERR_PEER_FAILED)
            break;
        RANK_CHECK(round < 100);
    }
    RANK_CHECK(!ki_store_poll_event(run->store, &event));
}

static void test_leaving_is_no_death(void **state)
{
    (void)state;
    char url[512];
    fresh(url);
    run_ranks(url, 2, leave_body, NULL);
}

/* One job after another in the same place, as a program does that calls kith_init() twice. */
static void again_body(rank_run *run)
{
    for (int job = 0; job < 5; job++) {
        int number = run->rank + 10 * job, all[3];
        RANK_CHECK(ki_store_gather(run->store, "g", run->rank, 3, NULL, &number, sizeof number, all,
                                   ki_deadline_after_ms(20000), NULL) == KITH_OK);
        for (int i = 0; i < 3; i++)
            RANK_CHECK(all[i] == i + 10 * job);
        ki_store_close(run->store, true, ki_deadline_after_ms(20000));
        run->store = NULL;
        RANK_CHECK(job == 4 || open_rank(run) == KITH_OK);
    }
}

static void test_same_place_again(void **state)
{
    (void)state;
    char url[512];
    fresh(url);
    run_ranks(url, 3, again_body, NULL);
}

static void test_double_rank(void **state)
{
    (void)state;
    char url[512];
    fresh(url);
    rank_run first = { .size = 3, .url = url, .timeout_ms = 20000 },
             second = { .rank = 1, .size = 3, .url = url, .timeout_ms = 20000 },
             third = { .rank = 1, .size = 3, .url = url, .timeout_ms = 1000 };
    assert_status(open_rank(&first), KITH_OK);
    assert_status(open_rank(&second), KITH_OK);
    assert_int_not_equal(open_rank(&third), KITH_OK);
    assert_has(kith_error_detail(), "rank 1 of 3");
    assert_has(kith_error_detail(), "already");
    ki_store_close(second.store, true, 0);
    ki_store_close(first.store, true, ki_deadline_after_ms(20000));
}

static void test_sizes_differ(void **state)
{
    (void)state;
    char url[512];
    fresh(url);
    rank_run first = { .size = 2, .url = url, .timeout_ms = 20000 },
             second = { .rank = 1, .size = 3, .url = url, .timeout_ms = 700 };
    assert_status(open_rank(&first), KITH_OK);
    assert_status(open_rank(&second), KITH_ERR_MISMATCH);
    assert_has(kith_error_detail(), "2");
    assert_has(kith_error_detail(), "3");
    ki_store_close(first.store, true, ki_deadline_after_ms(20000));
}

static void test_bad_urls(void **state)
{
    (void)state;
    static const char *const urls[] = { "http://x:1",
                                        "tcp://",
                                        "tcp://host",
                                        "tcp://:1",
                                        "tcp://host:",
                                        "tcp://host:65536",
                                        "tcp://host:12a",
                                        "tcp://::1:5",
                                        "tcp://[::1]5",
                                        "tcp://[::1",
                                        "tcp://h:0?file=relative",
                                        "tcp://h:0?port=3",
                                        "tcp://h:1?token=xyz",
                                        "file://",
                                        "file:///",
                                        "file://relative",
                                        "inproc://",
                                        "host:1",
                                        "tcp://10.0.0.300:5" };
    for (size_t i = 0; i < sizeof urls / sizeof urls[0]; i++) {
        rank_run run = { .size = 1, .url = urls[i], .timeout_ms = 1000 };
        kith_status s = open_rank(&run);
        if (s != KITH_ERR_INVALID_ARG)
            fail_msg("%s: got %s (%s)", urls[i], kith_status_name(s), kith_error_detail());
    }
    rank_run run = { .rank = 3, .size = 3, .url = "inproc://x", .timeout_ms = 1000 };
    assert_status(open_rank(&run), KITH_ERR_INVALID_ARG);
}

static const char *const kinds[] = { "inproc", "tcp", "file" };
enum { KINDS = sizeof kinds / sizeof kinds[0] };

static int set_kind(void **state)
{
    kind = *state;
    return 0;
}

int main(void)
{
    static const struct {
        const char *name;
        CMUnitTestFunction function;
    } all[] = {
#define TEST(f) { #f, f }
        TEST(test_keys),
        TEST(test_replace_and_large),
        TEST(test_get_deadline),
        TEST(test_bad_keys),
        TEST(test_gather),
        TEST(test_gather_in_pairs),
        TEST(test_gather_names_missing),
        TEST(test_gather_mismatch),
        TEST(test_abort_event),
        TEST(test_death),
        TEST(test_death_of_rank_0),
        TEST(test_leaving_is_no_death),
        TEST(test_same_place_again),
        TEST(test_double_rank),
        TEST(test_sizes_differ),
#undef TEST
    };
    enum { COUNT = sizeof all / sizeof all[0] };
    static char names[KINDS * COUNT][64];
    static struct CMUnitTest tests[KINDS * COUNT + 1];
    for (int k = 0; k < KINDS; k++) {
        for (int i = 0; i < COUNT; i++) {
            int at = k * COUNT + i;
            snprintf(names[at], sizeof names[at], "%s %s", kinds[k], all[i].name);
            tests[at] = (struct CMUnitTest){ names[at], all[i].function, set_kind, NULL, (void *)(uintptr_t)kinds[k] };
        }
    }
    tests[KINDS * COUNT] = (struct CMUnitTest)cmocka_unit_test(test_bad_urls);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
