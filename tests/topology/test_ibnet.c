/* tests/topology/test_ibnet.c - ibnetdiscover: trees of switches, nodes with rails, and what a fabric has wrong.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "cluster_help.h"
#include "ibnet_text.h"

/* Rail-optimised: `nodes` nodes of `rails` CAs, CA r on leaf r, each leaf with `uplinks` links to each of the spines,
 * and a SHARP CA on every switch. */
static ibnet *rail_fabric(int spines, int rails, int nodes, int uplinks)
{
    ibnet *net = ibnet_new();
    char name[96];
    for (int s = 0; s < spines + rails; s++) {
        snprintf(name, sizeof name, "MF0;%s-%02d:MQM9700/U1", s < spines ? "SPINE" : "LEAF",
                 s < spines ? s : s - spines);
        ibnet_add(net, 'S', name);
    }
    for (int n = 0; n < nodes; n++)
        for (int r = 0; r < rails; r++) {
            snprintf(name, sizeof name, "gpu%03d mlx5_%d", n + 1, 3 * r); /* mlx5_9 comes after mlx5_6 */
            ibnet_link_at(net, ibnet_add(net, 'H', name), spines + r, "4xNDR");
        }
    for (int s = 0; s < spines + rails; s++)
        ibnet_link_at(net, ibnet_add(net, 'H', "Mellanox Technologies Aggregation Node"), s, "4xNDR");
    for (int r = 0; r < rails; r++)
        for (int s = 0; s < spines; s++)
            ibnet_links(net, spines + r, s, uplinks, "4xNDR");
    return net;
}

/* Device of the CA r of node n in rail_fabric(). */
static int ca_of(int spines, int rails, int n, int r)
{
    return spines + rails + n * rails + r;
}

static kith_topology *read_fabric(ibnet *net)
{
    ki_text text = ibnet_print(net);
    kith_topology *t = read_text(text.chars);
    ki_text_fini(&text);
    free(net);
    return t;
}

static void expect_fabric_refused(ibnet *net, const char *reason)
{
    ki_text text = ibnet_print(net);
    expect_refused(text.chars, reason);
    ki_text_fini(&text);
    free(net);
}

static void expect_rails(const kith_topology *t, const char *node, const char *wanted)
{
    const kith_node *n = find_node(t, node);
    ki_text got = { 0 };
    for (int r = 0; r < n->rail_count; r++)
        ki_text_add(&got, "%s%s", r > 0 ? " " : "", n->rails[r] < 0 ? "-" : kith_topology_switch(t, n->rails[r])->name);
    assert_string_equal(ki_text_chars(&got), wanted);
    ki_text_fini(&got);
}

static void test_rails(void **state)
{
    (void)state;
    kith_topology *t = read_fabric(rail_fabric(2, 4, 8, 4));
    assert_int_equal(kith_topology_switch_count(t), 5);
    assert_int_equal(kith_topology_node_count(t), 8);
    expect_switch(t, "SPINE-00 and 1 more", "", 1);
    expect_switch(t, "LEAF-03", "SPINE-00 and 1 more", 0);
    const kith_switch *leaf = kith_topology_switch(t, find_switch(t, "LEAF-00"));
    assert_int_equal(leaf->uplink_count, 8);
    assert_true(leaf->uplink_gbps > 47.9 && leaf->uplink_gbps < 48.1);
    expect_leaf(t, "gpu008", "LEAF-00");
    expect_rails(t, "gpu008", "LEAF-00 LEAF-01 LEAF-02 LEAF-03");
    static const char *const none[] = { "oversubscribed", "uplink-missing", "rail-crossed", "ca-without-host",
                                        "nic-missing",    "nic-count",      "link-rate",    "leaf-to-leaf" };
    for (size_t i = 0; i < sizeof none / sizeof none[0]; i++)
        expect_no_doubt(t, none[i]);
    kith_topology_destroy(t);
}

/* Names of CAs are ordered by number, hosts too: mlx5_10 is behind mlx5_9, gpu10 behind gpu9. */
static void test_order_of_names(void **state)
{
    (void)state;
    ibnet *net = ibnet_new();
    int a = ibnet_add(net, 'S', "MF0;A:MQM8700/U1"), b = ibnet_add(net, 'S', "MF0;B:MQM8700/U1");
    ibnet_link_at(net, ibnet_add(net, 'H', "gpu10 mlx5_10"), b, "4xHDR");
    ibnet_link_at(net, ibnet_add(net, 'H', "gpu10 mlx5_9"), a, "4xHDR");
    ibnet_link_at(net, ibnet_add(net, 'H', "gpu9 mlx5_9"), a, "4xHDR");
    ibnet_link_at(net, ibnet_add(net, 'H', "gpu9 mlx5_10"), b, "4xHDR");
    ibnet_links(net, a, ibnet_add(net, 'S', "MF0;S:MQM8700/U1"), 2, "2xHDR");
    ibnet_links(net, b, 6, 2, "2xHDR");
    kith_topology *t = read_fabric(net);
    assert_string_equal(kith_topology_node(t, 0)->name, "gpu9");
    expect_rails(t, "gpu9", "A B");
    expect_rails(t, "gpu10", "A B");
    expect_switch(t, "A", "S", 0);
    double gbps = kith_topology_switch(t, find_switch(t, "A"))->uplink_gbps;
    assert_true(gbps > 11.9 && gbps < 12.1); /* two lanes of HDR */
    expect_doubt(t, "oversubscribed", "A (2.00:1), B (2.00:1)");
    expect_no_doubt(t, "rail-crossed");
    kith_topology_destroy(t);
}

static void test_crossed_cable(void **state)
{
    (void)state;
    ibnet *net = rail_fabric(2, 4, 8, 4);
    /* The cables of CA 1 and CA 2 of node 5 are exchanged at their leaves. */
    ibnet_link *one = NULL, *two = NULL;
    for (int l = 0; l < net->link_count; l++) {
        one = net->links[l].device[0] == ca_of(2, 4, 5, 1) ? &net->links[l] : one;
        two = net->links[l].device[0] == ca_of(2, 4, 5, 2) ? &net->links[l] : two;
    }
    int device = one->device[0];
    one->device[0] = two->device[0];
    two->device[0] = device;
    kith_topology *t = read_fabric(net);
    expect_rails(t, "gpu006", "LEAF-00 LEAF-02 LEAF-01 LEAF-03");
    expect_doubt(t, "rail-crossed", "2 NICs hang on another leaf");
    expect_doubt(t, "rail-crossed", "NIC 1 of gpu006 is on LEAF-02 (7 of 8 are on LEAF-01)");
    expect_doubt(t, "rail-crossed", "NIC 2 of gpu006 is on LEAF-01 (7 of 8 are on LEAF-02)");
    expect_doubt(t, "rail-crossed", "NCCL_CROSS_NIC=0 keeps rings on rails");
    kith_topology_destroy(t);
}

static void test_missing_ca(void **state)
{
    (void)state;
    ibnet *net = rail_fabric(2, 4, 8, 4);
    strcpy(net->devices[ca_of(2, 4, 3, 1)].description, "MT4129 ConnectX7   Mellanox Technologies");
    kith_topology *t = read_fabric(net);
    expect_rails(t, "gpu004", "LEAF-00 - LEAF-02 LEAF-03"); /* the others keep their positions */
    expect_doubt(t, "nic-missing", "1 nodes lack channel adapters that most nodes have: gpu004 has 3 of 4");
    expect_doubt(t, "ca-without-host", "1 channel adapters do not tell their host");
    expect_doubt(t, "ca-without-host", "on LEAF-01");
    expect_no_doubt(t, "rail-crossed");
    kith_topology_destroy(t);
}

static void test_hosts_without_names(void **state)
{
    (void)state;
    ibnet *net = rail_fabric(1, 2, 4, 4);
    strcpy(net->devices[ca_of(1, 2, 0, 0)].description, "localhost mlx5_0");
    strcpy(net->devices[ca_of(1, 2, 0, 1)].description, "MT4129 ConnectX7   Mellanox Technologies");
    strcpy(net->devices[ca_of(1, 2, 1, 0)].description, "twin mlx5_0");
    strcpy(net->devices[ca_of(1, 2, 1, 1)].description, "twin mlx5_3");
    strcpy(net->devices[ca_of(1, 2, 2, 0)].description, "twin mlx5_0");
    strcpy(net->devices[ca_of(1, 2, 2, 1)].description, "twin mlx5_3");
    kith_topology *t = read_fabric(net);
    assert_int_equal(kith_topology_node_count(t), 1);
    expect_doubt(t, "ca-without-host", "2 channel adapters");
    expect_doubt(t, "ca-name-twice", "1 host names belong to several machines");
    expect_doubt(t, "ca-name-twice", "twin");
    kith_topology_destroy(t);
}

/* A node with one CA among nodes with four: told, and not compared with their rails. */
static void test_other_nodes(void **state)
{
    (void)state;
    ibnet *net = rail_fabric(1, 4, 4, 4);
    ibnet_link_at(net, ibnet_add(net, 'H', "ufm01 mlx5_0"), 1 + 2, "4xNDR");
    kith_topology *t = read_fabric(net);
    expect_rails(t, "ufm01", "LEAF-02");
    expect_doubt(t, "nic-count", "1 nodes do not have 4 channel adapters in this fabric as most have: ufm01 (1)");
    expect_no_doubt(t, "rail-crossed");
    expect_doubt(t, "oversubscribed",
                 "1 of 4 leaves have less bandwidth upwards than to their hosts: LEAF-02 (1.25:1)");
    kith_topology_destroy(t);
}

static void test_missing_uplink(void **state)
{
    (void)state;
    ibnet *net = rail_fabric(2, 4, 8, 4);
    net->link_count--; /* the last: LEAF-03 to SPINE-01 */
    kith_topology *t = read_fabric(net);
    expect_doubt(t, "uplink-missing",
                 "1 of 4 leaves have fewer links upwards than others beside them: LEAF-03 (7 of 8)");
    expect_doubt(t, "oversubscribed", "LEAF-03 (1.14:1)");
    kith_topology_destroy(t);
}

/* Pods of two leaves and two spines below two cores: three levels, one group of spines for each pod. */
static void test_three_levels(void **state)
{
    (void)state;
    ibnet *net = ibnet_new();
    char name[96];
    int core[2], spine[4], leaf[4];
    for (int i = 0; i < 2; i++) {
        snprintf(name, sizeof name, "MF0;CORE-%d:MQM9700/U1", i);
        core[i] = ibnet_add(net, 'S', name);
    }
    for (int i = 0; i < 4; i++) {
        snprintf(name, sizeof name, "MF0;SP-%d:MQM9700/U1", i);
        spine[i] = ibnet_add(net, 'S', name);
        snprintf(name, sizeof name, "MF0;LF-%d:MQM9700/U1", i);
        leaf[i] = ibnet_add(net, 'S', name);
        snprintf(name, sizeof name, "node%d mlx5_0", i);
        ibnet_link_at(net, ibnet_add(net, 'H', name), leaf[i], "4xNDR");
    }
    for (int i = 0; i < 4; i++)
        for (int k = 0; k < 2; k++) {
            ibnet_link_at(net, leaf[i], spine[i / 2 * 2 + k], "4xNDR");
            ibnet_links(net, spine[i], core[k], 3, "4xNDR");
        }
    kith_topology *t = read_fabric(net);
    assert_int_equal(kith_topology_switch_count(t), 7);
    expect_switch(t, "CORE-0 and 1 more", "", 2);
    expect_switch(t, "SP-0 and 1 more", "CORE-0 and 1 more", 1);
    expect_switch(t, "SP-2 and 1 more", "CORE-0 and 1 more", 1);
    expect_switch(t, "LF-1", "SP-0 and 1 more", 0);
    expect_switch(t, "LF-2", "SP-2 and 1 more", 0);
    assert_int_equal(kith_topology_switch(t, find_switch(t, "SP-2 and 1 more"))->uplink_count, 12);
    kith_topology_destroy(t);
}

/* Two planes that share no switch are two trees. */
static void test_planes(void **state)
{
    (void)state;
    ibnet *net = ibnet_new();
    char name[96];
    for (int i = 0; i < 4; i++) {
        snprintf(name, sizeof name, "MF0;P%d-%s:MQM9700/U1", i / 2, i % 2 == 0 ? "LEAF" : "SPINE");
        ibnet_add(net, 'S', name);
    }
    for (int i = 0; i < 4; i++) {
        snprintf(name, sizeof name, "n%d mlx5_%d", i / 2, i % 2);
        ibnet_link_at(net, ibnet_add(net, 'H', name), i % 2 * 2, "4xNDR");
    }
    ibnet_links(net, 0, 1, 2, "4xNDR");
    ibnet_links(net, 2, 3, 2, "4xNDR");
    kith_topology *t = read_fabric(net);
    expect_switch(t, "P0-SPINE", "", 1);
    expect_switch(t, "P1-SPINE", "", 1);
    expect_switch(t, "P1-LEAF", "P1-SPINE", 0);
    expect_rails(t, "n1", "P0-LEAF P1-LEAF");
    expect_no_doubt(t, "rail-crossed");
    kith_topology_destroy(t);
}

static void test_host_on_spine(void **state)
{
    (void)state;
    ibnet *net = rail_fabric(1, 2, 8, 8);
    ibnet_link_at(net, ibnet_add(net, 'H', "manager mlx5_0"), 0, "4xNDR");
    kith_topology *t = read_fabric(net);
    expect_switch(t, "SPINE-00", "", 1);
    expect_switch(t, "LEAF-00", "SPINE-00", 0);
    expect_switch(t, "SPINE-00 S-0000000000e0d000", "SPINE-00", 0);
    expect_leaf(t, "manager", "SPINE-00 S-0000000000e0d000");
    expect_doubt(t, "host-on-spine", "1 channel adapters of hosts hang on");
    kith_topology_destroy(t);
}

static void test_leaves_without_spine(void **state)
{
    (void)state;
    ibnet *net = rail_fabric(0, 2, 4, 0);
    ibnet_links(net, 0, 1, 3, "4xNDR");
    kith_topology *t = read_fabric(net);
    expect_switch(t, "links between 2 leaves", "", 1);
    expect_switch(t, "LEAF-01", "links between 2 leaves", 0);
    assert_int_equal(kith_topology_switch(t, find_switch(t, "LEAF-01"))->uplink_count, 3);
    kith_topology_destroy(t);
    net = rail_fabric(1, 2, 4, 4);
    ibnet_links(net, 1, 2, 2, "4xNDR");
    t = read_fabric(net);
    expect_switch(t, "LEAF-01", "SPINE-00", 0);
    expect_doubt(t, "leaf-to-leaf", "2 links join leaves directly");
    kith_topology_destroy(t);
}

static void test_rates(void **state)
{
    (void)state;
    static const struct {
        const char *rate;
        double gbps;
    } rates[] = { { "4xFDR", 6 },  { "4xEDR", 12 }, { "4xHDR", 24 },   { "2xHDR", 12 }, { "4xNDR", 48 },
                  { "4xXDR", 96 }, { "1xNDR", 12 }, { "4xQDR", 3.84 }, { "8xNDR", 96 }, { "4xFDR10", 4.8 },
                  { "4xZDR", 0 },  { "NDR", 0 },    { "0xNDR", 0 },    { "4xNDRx", 0 } };
    for (size_t i = 0; i < sizeof rates / sizeof rates[0]; i++) {
        ibnet *net = ibnet_new();
        int leaf = ibnet_add(net, 'S', "MF0;L:X/U1"), spine = ibnet_add(net, 'S', "no model");
        ibnet_link_at(net, ibnet_add(net, 'H', "n mlx5_0"), leaf, "4xEDR");
        ibnet_links(net, leaf, spine, 2, rates[i].rate);
        kith_topology *t = read_fabric(net);
        double got = kith_topology_switch(t, find_switch(t, "L"))->uplink_gbps;
        if (got < rates[i].gbps - 0.01 || got > rates[i].gbps + 0.01)
            fail_msg("%s: wanted %.2f, got %.2f", rates[i].rate, rates[i].gbps, got);
        expect_switch(t, "no model", "", 1);
        assert_true((find_doubt(t, "link-rate") != NULL) == (rates[i].gbps <= 0));
        kith_topology_destroy(t);
    }
}

/* Chassis: boards are switches of their own; equal names get their GUID. */
static void test_names_of_switches(void **state)
{
    (void)state;
    ibnet *net = ibnet_new();
    ibnet_add(net, 'S', "MF0;director:CS8500/L01/U1");
    ibnet_add(net, 'S', "MF0;director:CS8500/L02/U1");
    ibnet_add(net, 'S', "Infiniscale-IV Mellanox Technologies");
    ibnet_add(net, 'S', "Infiniscale-IV Mellanox Technologies");
    char name[32];
    for (int i = 0; i < 4; i++) {
        snprintf(name, sizeof name, "n%d mlx4_0", i);
        ibnet_link_at(net, ibnet_add(net, 'H', name), i, "4xQDR");
    }
    kith_topology *t = read_fabric(net);
    expect_leaf(t, "n0", "director/L01/U1");
    expect_leaf(t, "n1", "director/L02/U1");
    expect_leaf(t, "n2", "Infiniscale-IV Mellanox Technologies");
    expect_leaf(t, "n3", "Infiniscale-IV Mellanox Technologies S-0000000000e0d003");
    kith_topology_destroy(t);
}

/* ---- damage ---- */

static void expect_changed_refused(const char *from, const char *to, const char *reason)
{
    ibnet *net = rail_fabric(1, 2, 2, 2);
    ki_text text = ibnet_print(net), changed = { 0 };
    free(net);
    char *at = strstr(text.chars, from);
    assert_non_null(at);
    ki_text_add(&changed, "%.*s%s%s", (int)(at - text.chars), text.chars, to, at + strlen(from));
    expect_refused(changed.chars, reason);
    ki_text_fini(&changed);
    ki_text_fini(&text);
}

static void test_refused(void **state)
{
    (void)state;
    expect_changed_refused("[1]\t\"H-", "[1]\t\"H", "the line of a port is damaged");
    expect_changed_refused("4xNDR", "4xHDR", "tells another rate");
    expect_changed_refused("\"gpu001 mlx5_0\" lid", "\"gpu009 mlx5_0\" lid", "has another description");
    expect_changed_refused("Switch\t64", "Switch\tx", "the number of ports is missing");
    expect_changed_refused("\"S-0000000000e0d000\"\t\t# \"MF0;SPINE", "\"S-0000000000e0d001\"\t\t# \"MF0;SPINE",
                           "a GUID has two sections");
    expect_changed_refused("[1]\t", "[7]\t", "the numbers of the ports do not rise");
    expect_changed_refused("[1]\t", "[300]\t", "not between 1 and 255");
    expect_changed_refused("vendid=0x2c9\n", "vendid=0x2c9\nhello\n", "text:6: this is no line of ibnetdiscover");
    expect_changed_refused("\nvendid", "\n[1]\t\"S-1\"[1]\t# \"a\" lid 1 4xNDR\nvendid", "before any switch");
    expect_changed_refused("# \"gpu002 mlx5_3\"\n", "# \"gpu002 mlx5_3\n",
                           "description in quotes is missing or cut off");
    ibnet *net = rail_fabric(1, 2, 2, 2);
    net->links[0].port[0] = 9; /* the CA's end has moved, the leaf's line still says 1 */
    ki_text text = ibnet_print(net);
    char *line = strstr(text.chars, "[9](");
    assert_non_null(line);
    line[1] = '8';
    expect_refused(text.chars, "which does not lead back");
    ki_text_fini(&text);
    net->device_count--; /* the last device has no section, but a switch leads to it */
    expect_fabric_refused(net, "which has no section of its own; is the file cut off?");
}

/* A cut at the end of any line is seen, unless what is missing has nothing to do with what is there. */
static void test_cut_off(void **state)
{
    (void)state;
    ibnet *net = rail_fabric(1, 2, 4, 2);
    ki_text text = ibnet_print(net);
    free(net);
    size_t first_switch = (size_t)(strstr(text.chars, "\n[1]") - text.chars);
    for (size_t i = first_switch + 10; i + 1 < text.length; i++) {
        if (text.chars[i] != '\n')
            continue;
        kith_topology *t = NULL;
        if (kith_topology_parse("text", text.chars, i, NULL, &t) == KITH_OK)
            assert_int_equal(i + 1, text.length);
        kith_topology_destroy(t);
    }
    ki_text_fini(&text);
}

static void test_damage(void **state)
{
    (void)state;
    ibnet *net = rail_fabric(2, 2, 3, 2);
    ki_text text = ibnet_print(net);
    free(net);
    damage_and_read(text.chars, 6000, 0xda3e39cb94b95bdbu);
    ki_text_fini(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rails),
        cmocka_unit_test(test_order_of_names),
        cmocka_unit_test(test_crossed_cable),
        cmocka_unit_test(test_missing_ca),
        cmocka_unit_test(test_hosts_without_names),
        cmocka_unit_test(test_other_nodes),
        cmocka_unit_test(test_missing_uplink),
        cmocka_unit_test(test_three_levels),
        cmocka_unit_test(test_planes),
        cmocka_unit_test(test_host_on_spine),
        cmocka_unit_test(test_leaves_without_spine),
        cmocka_unit_test(test_rates),
        cmocka_unit_test(test_names_of_switches),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_cut_off),
        cmocka_unit_test(test_damage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
