/* tests/topology/test_cluster_faults.c - memory that runs out while the network between nodes is read: at every
 * allocation in turn. Each must end in KITH_ERR_NO_MEMORY, and the sanitizers see that nothing is left behind.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "cluster_help.h"
#include "core/base/fault.h"
#include "ibnet_text.h"

static void arm(int n)
{
    char text[32];
    snprintf(text, sizeof text, "alloc:%d", n);
    setenv("KITH_FAULT", text, 1);
    assert_int_equal(ki_fault_configure(-1), KITH_OK);
}

static void disarm(void)
{
    unsetenv("KITH_FAULT");
    assert_int_equal(ki_fault_configure(-1), KITH_OK);
}

static void fail_each(const char *text, int least)
{
    for (int n = 1; n < 10000; n++) {
        kith_topology *t = NULL;
        arm(n);
        kith_status status = kith_topology_parse("text", text, strlen(text), NULL, &t);
        disarm();
        if (status == KITH_OK) {
            if (n <= least)
                fail_msg("wanted: more than %d allocations; got: %d", least, n - 1);
            kith_topology_destroy(t);
            return;
        }
        if (status != KITH_ERR_NO_MEMORY)
            fail_msg("allocation %d: wanted: no memory; got: %s: %s", n, kith_status_name(status), kith_error_detail());
        assert_null(t);
    }
    fail_msg("it never ends");
}

static void test_slurm(void **state)
{
    (void)state;
    fail_each("SwitchName=s Switches=l[1-2]\nSwitchName=l1 Nodes=a[1-70]\nSwitchName=l2 Nodes=b[1-70]\n"
              "BlockName=x Nodes=a[1-4]\nBlockName=y Nodes=b[1-3]\nBlockSizes=4\n",
              10);
}

static void test_yaml(void **state)
{
    (void)state;
    fail_each(
        "switches:\n  s: {switches: [l1]}\nblocks:\n- {switch: l1, nodes: a, annotations: {accelerator/domain: d}}\n",
        20);
}

static void test_ibnet(void **state)
{
    (void)state;
    ibnet *net = ibnet_new();
    char name[32];
    ibnet_add(net, 'S', "MF0;spine:X/U1");
    for (int leaf = 1; leaf <= 2; leaf++) {
        ibnet_add(net, 'S', leaf == 1 ? "MF0;a:X/U1" : "MF0;b:X/U1");
        ibnet_links(net, 0, leaf, leaf, "4xNDR");
    }
    for (int n = 0; n < 140; n++) {
        snprintf(name, sizeof name, n == 7 ? "MT4129 ConnectX7 Card" : "n%03d mlx5_%d", n / 4, n % 4);
        ibnet_link_at(net, ibnet_add(net, 'H', name), 1 + n % 2, "4xNDR");
    }
    ki_text text = ibnet_print(net);
    free(net);
    fail_each(text.chars, 20);
    ki_text_fini(&text);
}

static void test_synthetic(void **state)
{
    (void)state;
    fail_each("4000 nodes of 8 H100 on NVSwitch, 8 NICs of NDR, 4 nodes a leaf, rails", 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_slurm),
        cmocka_unit_test(test_yaml),
        cmocka_unit_test(test_ibnet),
        cmocka_unit_test(test_synthetic),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
