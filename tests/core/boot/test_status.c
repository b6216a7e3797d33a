/* tests/core/boot/test_status.c - statuses, detail texts, memory and injected faults.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "boot_test.h"

#include "core/base/mem.h"

static void test_names(void **state)
{
    (void)state;
    static const struct {
        kith_status status;
        int number;
        const char *name;
    } table[] = {
        { KITH_OK, 0, "ok" },
        { KITH_ERR_INVALID_ARG, -1, "invalid argument" },
        { KITH_ERR_UNSUPPORTED, -2, "unsupported" },
        { KITH_ERR_NO_MEMORY, -3, "no memory" },
        { KITH_ERR_NO_RESOURCE, -4, "no resource" },
        { KITH_ERR_TIMEOUT, -5, "timeout" },
        { KITH_ERR_ABORTED, -6, "aborted" },
        { KITH_ERR_MISMATCH, -7, "mismatch" },
        { KITH_ERR_TRUNCATED, -8, "truncated" },
        { KITH_ERR_PEER_FAILED, -9, "peer failed" },
        { KITH_ERR_UNREACHABLE, -10, "unreachable" },
        { KITH_ERR_IO, -11, "input/output" },
        { KITH_ERR_INTERNAL, -12, "internal" },
        { KITH_ERR_BUSY, -13, "busy" },
    };
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        assert_int_equal(table[i].status, table[i].number);
        assert_string_equal(kith_status_name(table[i].status), table[i].name);
        assert_true(strlen(kith_status_sentence(table[i].status)) > 5 || table[i].status == KITH_OK);
    }
    assert_string_equal(kith_status_name((kith_status)-999), "unknown status");
    assert_string_equal(kith_status_name((kith_status)7), "unknown status");
    assert_non_null(kith_status_sentence((kith_status)-999));
}

static void *other_thread(void *arg)
{
    bool *is_fine = arg;
    *is_fine = kith_error_detail()[0] == '\0';
    ki_fail_quiet(KITH_ERR_IO, "of the other thread");
    *is_fine = *is_fine && strcmp(kith_error_detail(), "of the other thread") == 0;
    return NULL;
}

static void test_detail_is_the_threads_own(void **state)
{
    (void)state;
    bool is_fine = false;
    pthread_t thread;
    assert_int_equal(ki_fail_quiet(KITH_ERR_TIMEOUT, "rank %d is late", 3), KITH_ERR_TIMEOUT);
    assert_int_equal(pthread_create(&thread, NULL, other_thread, &is_fine), 0);
    pthread_join(thread, NULL);
    assert_true(is_fine);
    assert_string_equal(kith_error_detail(), "rank 3 is late");
}

static void test_context_and_long_texts(void **state)
{
    (void)state;
    char text[3000];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    ki_fail_quiet(KITH_ERR_IO, "inner");
    assert_int_equal(ki_fail_context(KITH_ERR_IO, "group '%s'", "tp"), KITH_ERR_IO);
    assert_string_equal(kith_error_detail(), "group 'tp': inner");
    ki_fail_quiet(KITH_ERR_IO, "again: %s", kith_error_detail()); /* its own text as an argument */
    assert_string_equal(kith_error_detail(), "again: group 'tp': inner");
    ki_fail_quiet(KITH_ERR_IO, "%s", text);
    assert_int_equal(strlen(kith_error_detail()), KI_DETAIL_NBYTES - 1);
    ki_fail_context(KITH_ERR_IO, "%s", text);
    assert_int_equal(strlen(kith_error_detail()), KI_DETAIL_NBYTES - 1);
    ki_fail_quiet(KITH_ERR_IO, "short");
    ki_fail_context(KITH_ERR_IO, "%s", text);
    assert_int_equal(strlen(kith_error_detail()), KI_DETAIL_NBYTES - 1);
}

static void test_failing_logs_once(void **state)
{
    (void)state;
    start_capture(KITH_LOG_ERROR);
    ki_fail(KITH_ERR_NO_RESOURCE, "no %s", "socket");
    ki_fail_context(KITH_ERR_NO_RESOURCE, "outer");
    ki_fail_quiet(KITH_ERR_NO_RESOURCE, "unheard");
    stop_capture();
    assert_string_equal(captured_log, "1 no resource: no socket\n");
}

/* ---- memory ---- */

typedef struct counting {
    int live, calls;
    size_t alignment;
} counting;

static void *counting_alloc(void *arg, size_t nbytes, size_t alignment)
{
    counting *c = arg;
    void *ptr = NULL;
    c->calls++;
    c->live++;
    c->alignment = alignment;
    if (posix_memalign(&ptr, alignment, nbytes) != 0)
        return NULL;
    return memset(ptr, 0xaa, nbytes);
}

static void counting_free(void *arg, void *ptr)
{
    ((counting *)arg)->live--;
    free(ptr);
}

static void test_allocator_hooks(void **state)
{
    (void)state;
    counting c = { 0, 0, 0 };
    kith_allocator user = { counting_alloc, counting_free, &c }, allocator;
    ki_allocator_init(&allocator, &user);
    unsigned char *p = ki_calloc(&allocator, 10, 10);
    assert_non_null(p);
    assert_int_equal((uintptr_t)p % 64, 0);
    assert_int_equal(c.alignment, 64);
    for (int i = 0; i < 100; i++)
        assert_int_equal(p[i], 0);
    char *text = ki_strdup(&allocator, "text");
    assert_string_equal(text, "text");
    ki_free(&allocator, text);
    ki_free(&allocator, p);
    ki_free(&allocator, NULL);
    assert_int_equal(c.live, 0);
    assert_int_equal(c.calls, 2);
    ki_allocator_init(&allocator, NULL);
    p = ki_calloc(&allocator, 0, 8);
    assert_non_null(p);
    ki_free(&allocator, p);
}

static void test_allocation_overflow(void **state)
{
    (void)state;
    size_t out;
    assert_null(ki_calloc(NULL, SIZE_MAX / 4, 8));
    assert_has(kith_error_detail(), "8 bytes");
    assert_false(ki_mul(SIZE_MAX, 2, &out));
    assert_false(ki_add(SIZE_MAX, 1, &out));
    assert_true(ki_mul(1 << 20, 1 << 20, &out) && out == (size_t)1 << 40);
    assert_true(ki_add(SIZE_MAX - 1, 1, &out) && out == SIZE_MAX);
    assert_int_equal(ki_hash(KI_HASH_INIT, "a", 1), UINT64_C(0xaf63dc4c8601ec8c)); /* FNV-1a's published value */
}

/* ---- faults ---- */

static void set_faults(const char *text, int rank)
{
    setenv("KITH_FAULT", text, 1);
    assert_int_equal(ki_fault_configure(rank), KITH_OK);
}

static void test_nth_call_fails(void **state)
{
    (void)state;
    set_faults("alloc:3,socket:1", 0);
    assert_false(ki_fault(KI_FAULT_ALLOC));
    assert_true(ki_fault(KI_FAULT_SOCKET));
    assert_false(ki_fault(KI_FAULT_SOCKET));
    assert_false(ki_fault(KI_FAULT_ALLOC));
    assert_true(ki_fault(KI_FAULT_ALLOC));
    assert_false(ki_fault(KI_FAULT_ALLOC));
    assert_false(ki_fault(KI_FAULT_SHM));
    assert_false(ki_fault(KI_FAULT_OPEN));
    set_faults("shm:1,open:2", 0);
    assert_true(ki_fault(KI_FAULT_SHM));
    assert_false(ki_fault(KI_FAULT_OPEN));
    assert_true(ki_fault(KI_FAULT_OPEN));
    set_faults("", 0);
    assert_false(ki_fault(KI_FAULT_SHM));
}

/* The counters go on over a second kith_init() with the same text. */
static void test_same_text_goes_on(void **state)
{
    (void)state;
    set_faults("alloc:2", -1);
    assert_false(ki_fault(KI_FAULT_ALLOC));
    set_faults("alloc:2", 5);
    assert_true(ki_fault(KI_FAULT_ALLOC));
    set_faults("", 0);
}

static void test_fault_of_a_rank(void **state)
{
    (void)state;
    set_faults("shm:2@2", 1);
    for (int i = 0; i < 5; i++)
        assert_false(ki_fault(KI_FAULT_SHM));
    ki_fault_set_rank(2);
    assert_false(ki_fault(KI_FAULT_SHM));
    assert_true(ki_fault(KI_FAULT_SHM));
    set_faults("", 0);
}

static void test_malformed_faults(void **state)
{
    (void)state;
    static const char *const wrong[] = { "alloc",     "alloc:",   "alloc:0", "alloc:x",    "alloc:1@",
                                         "alloc:1@x", "alloc:1x", "disk:1",  "alloc:1@-2", "alloc:1@2x" };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        setenv("KITH_FAULT", wrong[i], 1);
        assert_int_equal(ki_fault_configure(0), KITH_ERR_INVALID_ARG);
        assert_has(kith_error_detail(), wrong[i]);
        assert_has(kith_error_detail(), "alloc:N");
        for (int n = 0; n < 3; n++)
            assert_false(ki_fault(KI_FAULT_ALLOC));
    }
    set_faults("", 0);
}

static void test_injected_allocation(void **state)
{
    (void)state;
    set_faults("alloc:1", 0);
    assert_null(ki_calloc(NULL, 1, 123));
    assert_has(kith_error_detail(), "123 bytes");
    set_faults("", 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_detail_is_the_threads_own),
        cmocka_unit_test(test_context_and_long_texts),
        cmocka_unit_test(test_failing_logs_once),
        cmocka_unit_test(test_allocator_hooks),
        cmocka_unit_test(test_allocation_overflow),
        cmocka_unit_test(test_nth_call_fails),
        cmocka_unit_test(test_same_text_goes_on),
        cmocka_unit_test(test_fault_of_a_rank),
        cmocka_unit_test(test_malformed_faults),
        cmocka_unit_test(test_injected_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
