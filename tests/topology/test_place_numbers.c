/* tests/topology/test_place_numbers.c - what a placement costs does not depend on the numbers of GPUs.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "core/base/fault.h"
#include "machines.h"
#include "numbers.h"
#include <kith/placement.h>
#include <kith/status.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

enum { SEEDS = 4 };

typedef struct drawn {
    const char *name;
    int gpu_count;
    const char *matrix;
    const int *numas; /* NULL: unknown */
} drawn;

static const int two_sockets[] = { 0, 0, 0, 0, 1, 1, 1, 1 };
static const int uneven_sockets[] = { 0, 0, 0, 0, 1, 1 };

static const drawn machines[] = {
    { "cube mesh of single and double links", 8,
      "X NV1 NV1 NV2 NV2 SYS SYS SYS  NV1 X NV2 NV1 SYS NV2 SYS SYS  NV1 NV2 X NV2 SYS SYS NV1 SYS "
      "NV2 NV1 NV2 X SYS SYS SYS NV1  NV2 SYS SYS SYS X NV1 NV1 NV2  SYS NV2 SYS SYS NV1 X NV2 NV1 "
      "SYS SYS NV1 SYS NV1 NV2 X NV2  SYS SYS SYS NV1 NV2 NV1 NV2 X",
      two_sockets },
    { "cube mesh of single links", 8,
      "X NV1 NV1 NV1 NV1 SYS SYS SYS  NV1 X NV1 NV1 SYS NV1 SYS SYS  NV1 NV1 X NV1 SYS SYS NV1 SYS "
      "NV1 NV1 NV1 X SYS SYS SYS NV1  NV1 SYS SYS SYS X NV1 NV1 NV1  SYS NV1 SYS SYS NV1 X NV1 NV1 "
      "SYS SYS NV1 SYS NV1 NV1 X NV1  SYS SYS SYS NV1 NV1 NV1 NV1 X",
      two_sockets },
    { "pairs of bridges", 4, "X SYS SYS NV4 SYS X NV4 SYS SYS NV4 X SYS NV4 SYS SYS X", NULL },
    { "four behind one switch, two behind another", 6,
      "X PXB PXB PXB SYS SYS  PXB X PXB PXB SYS SYS  PXB PXB X PIX SYS SYS "
      "PXB PXB PIX X SYS SYS  SYS SYS SYS SYS X PIX  SYS SYS SYS SYS PIX X",
      uneven_sockets },
    { "pairs behind switches, two sockets", 8,
      "X PIX NODE NODE SYS SYS SYS SYS  PIX X NODE NODE SYS SYS SYS SYS  NODE NODE X PIX SYS SYS SYS SYS "
      "NODE NODE PIX X SYS SYS SYS SYS  SYS SYS SYS SYS X PIX NODE NODE  SYS SYS SYS SYS PIX X NODE NODE "
      "SYS SYS SYS SYS NODE NODE X PIX  SYS SYS SYS SYS NODE NODE PIX X",
      two_sockets },
    { "one bridge is missing", 6,
      "X NV4 PHB SYS SYS SYS  NV4 X PHB SYS SYS SYS  PHB PHB X SYS SYS SYS "
      "SYS SYS SYS X NV4 PHB  SYS SYS SYS NV4 X PHB  SYS SYS SYS PHB PHB X",
      NULL },
};

static kith_topology *make_drawn(const void *arg)
{
    const drawn *d = (const drawn *)arg;
    return machine_of_matrix(d->gpu_count, d->matrix, d->numas);
}

static void test_drawn_machines(void **state)
{
    (void)state;
    int failures = 0;
    for (size_t i = 0; i < sizeof machines / sizeof machines[0]; i++) {
        int failed = numbers_check(machines[i].name, make_drawn, &machines[i], SEEDS);
        assert_true(failed >= 0);
        failures += failed;
    }
    assert_int_equal(failures, 0);
}

static void test_fixtures(void **state)
{
    (void)state;
    char folder[1024];
    int failures = 0, machine_count, all = 0;
    const char *source = getenv("KITH_SOURCE_DIR");
    static const char *const folders[][2] = { { "fixtures/matrix", ".txt" }, { "fixtures", ".xml" } };
    for (int i = 0; i < 2; i++) {
        snprintf(folder, sizeof folder, "%s/tests/topology/%s", source != NULL ? source : ".", folders[i][0]);
        failures += numbers_check_folder(folder, folders[i][1], 2, &machine_count);
        all += machine_count;
    }
    if (all < 20)
        fail_msg("wanted 20 machines and more, got %d", all);
    assert_int_equal(failures, 0);
}

/* Two numberings of a machine are told apart: the test of tests. */
static void test_renumbering(void **state)
{
    (void)state;
    kith_topology *t = make_drawn(&machines[2]);
    static const int number[] = { 2, 0, 3, 1 };
    machine_renumber(t, 0, number);
    const kith_link *links = kith_topology_kind(t, 0)->links;
    assert_int_equal(links[2 * 4 + 1].type, KITH_LINK_NVLINK); /* 0 and 3 of before */
    assert_int_equal(links[0 * 4 + 3].type, KITH_LINK_NVLINK); /* 1 and 2 of before */
    assert_int_equal(links[0 * 4 + 1].type, KITH_LINK_SYS);
    assert_int_equal(kith_topology_kind(t, 0)->gpus[2].index, 0);
    kith_topology_destroy(t);
}

/* Allocations fail one after the other while every order is looked at: an error, nothing leaked (sanitizers look). */
static void test_no_memory(void **state)
{
    (void)state;
    kith_topology *t = make_drawn(&machines[1]);
    kith_placement_options o = KITH_PLACEMENT_OPTIONS_INIT;
    kith_placement *p = NULL;
    int failures = 0;
    o.tp = 2;
    o.pp = 2;
    for (int nth = 1; p == NULL && nth < 1000000; nth += 1 + nth / 32) {
        char rule[32];
        snprintf(rule, sizeof rule, "alloc:%d", nth);
        setenv("KITH_FAULT", rule, 1);
        assert_int_equal(ki_fault_configure(0), KITH_OK);
        kith_status status = kith_place(t, &o, &p);
        assert_int_equal(status, p != NULL ? KITH_OK : KITH_ERR_NO_MEMORY);
        failures += p == NULL;
    }
    unsetenv("KITH_FAULT");
    assert_int_equal(ki_fault_configure(0), KITH_OK);
    assert_true(p != NULL && failures > 20);
    kith_placement_destroy(p);
    kith_topology_destroy(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_renumbering), cmocka_unit_test(test_drawn_machines),
                                        cmocka_unit_test(test_no_memory), cmocka_unit_test(test_fixtures) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
