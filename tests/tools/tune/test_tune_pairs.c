/* tests/tools/tune/test_tune_pairs.c - pairs of all_pairs beside what is expected of them.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "tools/tune/links.h"
#include "tools/tune/pairs.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>

/* pairs.c names memories; what they are called is the engine's. */
const char *bench_memory_name(bench_memory memory)
{
    static const char *const names[] = { "host", "mapped", "device" };
    return names[memory];
}

static void reports(const tune_pair *pairs, size_t count, const char *wanted)
{
    char *text = NULL;
    size_t nbytes;
    FILE *out = open_memstream(&text, &nbytes);
    tune_pairs_report(out, pairs, count);
    fclose(out);
    assert_string_equal(text, wanted);
    free(text);
}

static void test_a_known_link_is_the_measure(void **state)
{
    (void)state;
    const tune_pair pairs[] = { { 0, 1, "NV18", 360, 370.8 },
                                { 0, 2, "NV18", 200, 370.8 },
                                { 1, 2, "NV18", NAN, 370.8 } };
    reports(pairs, 3,
            "# NV18: 3 pairs, median 280 GB/s, expected of the link 370.8; below 70 % of it: 0-2 (200); "
            "1 without a reliable median\n");
    reports(pairs, 1, "# NV18: 1 pair, median 360 GB/s, expected of the link 370.8; below 70 % of it: none\n");
}

static void test_others_are_compared_with_their_like(void **state)
{
    (void)state;
    const tune_pair pairs[] = {
        { 0, 1, "shared memory", 10, NAN },  { 0, 2, "between hosts", 1, NAN },   { 0, 3, "between hosts", 1.2, NAN },
        { 1, 2, "between hosts", 0.5, NAN }, { 1, 3, "between hosts", 1.1, NAN }, { 2, 3, "shared memory", 3, NAN },
    };
    reports(pairs, 6,
            "# shared memory: 2 pairs, median 6.5 GB/s; no expectation\n"
            "# between hosts: 4 pairs, no figure is known; median 1.05 GB/s; below 70 % of it: 1-2 (0.5)\n");
}

static void test_nothing_reliable_says_nothing(void **state)
{
    (void)state;
    const tune_pair pairs[] = { { 0, 1, "shared memory", NAN, NAN } };
    reports(pairs, 1, "# shared memory: 1 pair, none with a reliable median\n");
}

/* Lines as NCCL 2 writes them. */
static void test_the_way_that_nccl_took(void **state)
{
    (void)state;
    static const struct {
        const char *log;
        bool is_p2p, is_shm, is_net;
    } cases[] = {
        { "h:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM/read\n", true, false, false },
        { "h:1:2 [0] NCCL INFO Channel 01 : 1[1] -> 0[0] via SHM/direct/direct\n", false, true, false },
        { "h:1:2 [0] NCCL INFO Channel 00/0 : 1[1] -> 0[0] [receive] via NET/Socket/0\n", false, false, true },
        { "x via P2P/IPC\nx via SHM/direct/direct\n", false, false, false },
        { "h:1:2 [0] NCCL INFO Bootstrap: Using eth0\n", true, true, true }, /* says nothing */
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        tune_ways ways = { 0, 0, 0 };
        char reason[128] = "";
        tune_ways_read(cases[i].log, &ways);
        assert_int_equal(tune_ways_fit(&ways, "nccl-p2p", reason, sizeof reason), cases[i].is_p2p);
        assert_int_equal(tune_ways_fit(&ways, "nccl-shm", reason, sizeof reason), cases[i].is_shm);
        assert_int_equal(tune_ways_fit(&ways, "nccl-net", reason, sizeof reason), cases[i].is_net);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_known_link_is_the_measure),
        cmocka_unit_test(test_others_are_compared_with_their_like),
        cmocka_unit_test(test_nothing_reliable_says_nothing),
        cmocka_unit_test(test_the_way_that_nccl_took),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
