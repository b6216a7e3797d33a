/* tests/topology/test_recorded_numbers.c - what a placement costs does not depend on the numbers of GPUs: recorded
 * machines.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "numbers.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

static const char *shared;

static void check(const char *folder, const char *ending, int least_machines)
{
    char path[1024];
    int machine_count;
    snprintf(path, sizeof path, "%s/topologies/%s", shared, folder);
    int failures = numbers_check_folder(path, ending, 2, &machine_count);
    if (machine_count == 0)
        skip(); /* a folder without recorded machines */
    if (machine_count < least_machines || failures > 0)
        fail_msg("%d machines in %s, wanted %d; %d layouts failed", machine_count, folder, least_machines, failures);
}

static void test_matrices(void **state)
{
    (void)state;
    check("nvidia_smi_topo", ".txt", 50);
}

static void test_nccl_files(void **state)
{
    (void)state;
    check("nccl_xml", ".xml", 8);
}

static void test_hwloc_files(void **state)
{
    (void)state;
    check("hwloc", ".xml", 1);
}

int main(void)
{
    shared = getenv("KITH_SHARED_DIR");
    if (shared == NULL) {
        printf("KITH_SHARED_DIR is not set: no recorded machines\n");
        return 77;
    }
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_matrices), cmocka_unit_test(test_nccl_files),
                                        cmocka_unit_test(test_hwloc_files) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
