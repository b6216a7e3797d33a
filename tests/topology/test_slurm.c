/* tests/topology/test_slurm.c - topology.conf: trees, blocks, Slurm's lexical rules, and what is refused.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "cluster_help.h"

static const char two_leaves[] = "SwitchName=spine Switches=leaf[1-2]\n"
                                 "SwitchName=leaf1 Nodes=gpu[001-003]\n"
                                 "SwitchName=leaf2 Nodes=gpu[004-006]\n";

static void test_tree(void **state)
{
    (void)state;
    kith_topology *t = read_text(two_leaves);
    assert_int_equal(kith_topology_switch_count(t), 3);
    assert_int_equal(kith_topology_node_count(t), 6);
    assert_int_equal(kith_topology_domain_count(t), 0);
    expect_switch(t, "spine", "", 1);
    expect_switch(t, "leaf1", "spine", 0);
    expect_switch(t, "leaf2", "spine", 0);
    expect_leaf(t, "gpu001", "leaf1");
    expect_leaf(t, "gpu003", "leaf1");
    expect_leaf(t, "gpu004", "leaf2");
    assert_string_equal(kith_topology_node(t, 5)->name, "gpu006"); /* in the order of the file */
    kith_topology_destroy(t);
}

/* Children may be declared before parents, the parents still come first. */
static void test_order_does_not_matter(void **state)
{
    (void)state;
    kith_topology *t = read_text("SwitchName=b Nodes=n[3-4]\nSwitchName=top Switches=mid\nSwitchName=a Nodes=n[1-2]\n"
                                 "SwitchName=mid Switches=a,b\n");
    expect_switch(t, "top", "", 2);
    expect_switch(t, "mid", "top", 1);
    expect_switch(t, "a", "mid", 0);
    assert_true(find_switch(t, "top") < find_switch(t, "mid") && find_switch(t, "mid") < find_switch(t, "b"));
    assert_true(find_switch(t, "a") < find_switch(t, "b")); /* siblings as their parent lists them */
    kith_topology_destroy(t);
}

static void test_forest_and_unbalanced(void **state)
{
    (void)state;
    kith_topology *t = read_text("SwitchName=g1 Switches=l[1-2]\nSwitchName=l1 Nodes=a\nSwitchName=l2 Nodes=b\n"
                                 "SwitchName=alone Nodes=c\n");
    expect_switch(t, "g1", "", 1);
    expect_switch(t, "alone", "", 0);
    kith_topology_destroy(t);
    t = read_text("SwitchName=root Switches=im[0],l3\nSwitchName=im0 Switches=l[1-2]\nSwitchName=l1 Nodes=a\n"
                  "SwitchName=l2 Nodes=b\nSwitchName=l3 Nodes=c\n");
    expect_switch(t, "root", "", 2);
    expect_switch(t, "l3", "root", 0);
    expect_switch(t, "l1", "im0", 0);
    kith_topology_destroy(t);
}

static void test_lexical_rules(void **state)
{
    (void)state;
    kith_topology *t = read_text("\xef\xbb\xbf# spine=real-name\r\n"
                                 "\r\n"
                                 "  SWITCHNAME = spine   sWitches = leaf1,\\  \r\n"
                                 "leaf2 LinkSpeed=400000 # Nodes=wrong\r\n"
                                 "switchname=leaf1 nodes=\"a1, a2\"\r\n"
                                 "# a comment does not go on \\\r\n"
                                 "SwitchName=leaf2 \\\r\n\tNodes=b[1-2]");
    assert_int_equal(kith_topology_switch_count(t), 3);
    assert_int_equal(kith_topology_node_count(t), 4);
    expect_switch(t, "leaf2", "spine", 0);
    expect_leaf(t, "a2", "leaf1");
    expect_leaf(t, "b1", "leaf2");
    kith_topology_destroy(t);
}

static void test_blocks(void **state)
{
    (void)state;
    kith_topology *t = read_text("# rack11=nvl-1-1\nBlockName=rack11 Nodes=srv[1-4]\nBlockName=rack12 Nodes=srv[5-8]\n"
                                 "BlockSizes=4,8\n");
    assert_int_equal(kith_topology_domain_count(t), 2);
    assert_int_equal(kith_topology_node_count(t), 8);
    assert_string_equal(kith_topology_domain(t, 0)->name, "rack11");
    assert_false(kith_topology_domain(t, 0)->is_nvlink);
    assert_int_equal(kith_topology_domain(t, 1)->node_count, 4);
    assert_int_equal(find_node(t, "srv5")->domain, 1);
    assert_int_equal(find_node(t, "srv5")->leaf, -1);
    expect_doubt(t, "block-domain", "NVLink domains");
    expect_no_doubt(t, "block-size");
    kith_topology_destroy(t);
    t = read_text("BlockName=a Nodes=n[1-4]\nBlockName=b Nodes=n[5-7]\nBlockSizes=4,8\n");
    expect_doubt(t, "block-size", "1 of 2 blocks do not have the 4 nodes");
    kith_topology_destroy(t);
}

static void test_tree_and_blocks(void **state)
{
    (void)state;
    char text[512];
    snprintf(text, sizeof text, "%sBlockName=b1 Nodes=gpu[001-002]\n", two_leaves);
    kith_topology *t = read_text(text);
    assert_int_equal(kith_topology_node_count(t), 6);
    assert_int_equal(find_node(t, "gpu002")->domain, 0);
    assert_int_equal(find_node(t, "gpu003")->domain, -1);
    expect_leaf(t, "gpu002", "leaf1");
    kith_topology_destroy(t);
}

static void test_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text, *reason;
    } wrong[] = {
        { "SwitchName=a Nodes=n1\nSwitchName=a Nodes=n2\n", "text:2: switch a is there twice, first in line 1" },
        { "SwitchName=a Nodes=n[1-2]\n\nSwitchName=b Nodes=n[2-3]\n", "text:3: node n2 is on switch a and on b" },
        { "SwitchName=a Nodes=n1,n1\n", "text:1: node n1 is on switch a and on a" },
        { "SwitchName=s Switches=a,b\nSwitchName=a Nodes=n1\n", "text:1: switch b is listed under s" },
        { "SwitchName=s Switches=a,a\nSwitchName=a Nodes=n1\n", "text:1: switch a is listed under s and again" },
        { "SwitchName=s Switches=a\nSwitchName=r Switches=a\nSwitchName=a Nodes=n1\n", "switch a is listed under" },
        { "SwitchName=s Switches=r\nSwitchName=r Switches=s\n", "text:1: switch s is above or below itself" },
        { "SwitchName=s Switches=s\n", "switch s is above or below itself" },
        { "SwitchName=a Nodes=n1\nSwitchName=s Switches=r\nSwitchName=r Switches=s\n", "text:2: switch s is above" },
        { "SwitchName=a Nodes=n1 Switches=b\nSwitchName=b Nodes=n2\n", "text:1: switch a has both" },
        { "SwitchName=a\n", "text:1: switch a has neither" },
        { "SwitchName=a Nodes=n[1-\n", "text:1: host list" },
        { "SwitchName=a Nodes=n[3-1]\n", "backwards" },
        { "SwitchName=a Nodes=n1 Nodes=n2\n", "text:1: Nodes is there twice" },
        { "SwitchName=a Nodes=n1 Color=red\n", "text:1: unknown key 'Color' behind SwitchName; valid: Switches" },
        { "SwitchName=a Nodes=n1 LinkSpeed=fast\n", "text:1: LinkSpeed: expected whole numbers" },
        { "SwitchName=a Nodes=\n", "text:1: a value is empty" },
        { "SwitchName=a Nodes=\"n1\n", "text:1: a quote is not closed" },
        { "SwitchName=a Nodes=\"n1\"x\n", "right behind a quote" },
        { "SwitchName=a n1\n", "text:1: expected Key=value" },
        { "SwitchName=a Nodes=n1\nNodeName=n1\n", "text:2: a line begins with 'NodeName'; valid: SwitchName" },
        { "SwitchName=a Nodes=n1\nInclude other.conf\n", "text:2: Include is not followed" },
        { "SwitchName=a Nodes=n[0-99999999]\n", "more than" },
        { "BlockName=a Nodes=n1\nBlockName=a Nodes=n2\n", "text:2: block a is there twice" },
        { "BlockName=a Nodes=n1\nBlockName=b Nodes=n1\n", "text:2: node n1 is in a and in b" },
        { "BlockName=a\n", "text:1: block a has no Nodes" },
        { "BlockName=a Nodes=n1\nBlockSizes=0\n", "text:2: BlockSizes: a number is 0" },
        { "BlockName=a Nodes=n1\nBlockSizes=4,,8\n", "text:2: BlockSizes: expected" },
        { "BlockSizes=4\nBlockSizes=8\nBlockName=a Nodes=n1\n", "text:2: BlockSizes is there twice, first in line 1" },
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        expect_refused(wrong[i].text, wrong[i].reason);
    kith_topology *t = NULL;
    assert_int_equal(kith_topology_parse("text", "SwitchName=a Nodes=n1\n\0x", 24, NULL, &t), KITH_ERR_INVALID_ARG);
    assert_non_null(strstr(kith_error_detail(), "zero byte"));
}

/* Other sorts of text must not be taken for this one. */
static void test_probe(void **state)
{
    (void)state;
    static const char *const others[] = { "",
                                          "# SwitchName=a Nodes=n1\n",
                                          "rank 0=gpu001 slot=0:0-4\nSwitchName=a Nodes=b\n",
                                          "switches:\n  a:\n",
                                          "[{\"SwitchName\": 1}]",
                                          "SwitchNames=a\n",
                                          "<SwitchName=a/>" };
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        kith_topology *t = NULL;
        assert_int_not_equal(kith_topology_parse("text", others[i], strlen(others[i]), NULL, &t), KITH_OK);
        assert_null(t);
    }
}

static void test_damage(void **state)
{
    (void)state;
    damage_and_read(two_leaves, 4000, 0x9e3779b97f4a7c15u);
    damage_and_read("SwitchName=r Switches=\"g[1-2]\" LinkSpeed=4\nSwitchName=g1 Switches=l[1-2],\\\nl3\n"
                    "SwitchName=g2 Nodes=z[1-2]a[01-03] # end\nSwitchName=l1 Nodes=a1\nSwitchName=l2 Nodes=b\n"
                    "SwitchName=l3 Nodes=c\nBlockName=x Nodes=a1,b\nBlockName=y Nodes=c\nBlockSizes=2,4\n",
                    6000, 0x1234567u);
}

/* 2^16 leaves: no step may be quadratic. */
static void test_large(void **state)
{
    (void)state;
    enum { LEAVES = 65536, ROOM = 4 << 20 };
    char *text = (char *)malloc(ROOM);
    size_t used = (size_t)snprintf(text, ROOM, "SwitchName=root Switches=l[0-%d]\n", LEAVES - 1);
    for (int i = 0; i < LEAVES; i++)
        used += (size_t)snprintf(text + used, ROOM - used, "SwitchName=l%d Nodes=n[%d-%d]\n", i, 2 * i, 2 * i + 1);
    kith_topology *t = read_text(text);
    free(text);
    assert_int_equal(kith_topology_switch_count(t), LEAVES + 1);
    assert_int_equal(kith_topology_node_count(t), 2 * LEAVES);
    kith_topology_destroy(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tree),
        cmocka_unit_test(test_order_does_not_matter),
        cmocka_unit_test(test_forest_and_unbalanced),
        cmocka_unit_test(test_lexical_rules),
        cmocka_unit_test(test_blocks),
        cmocka_unit_test(test_tree_and_blocks),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_probe),
        cmocka_unit_test(test_damage),
        cmocka_unit_test(test_large),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
