/* tests/topology/test_yaml.c - Slurm's topology.yaml and topograph's models.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "cluster_help.h"

static const char several[] = "# two of them\n"
                              "---\n"
                              "- topology: racks\n"
                              "  cluster_default: false\n"
                              "  block:\n"
                              "    block_sizes: [2, 4]\n"
                              "    blocks:\n"
                              "      - {block: r1, nodes: \"tray[1-2]\"}\n"
                              "      - {block: r2, nodes: \"tray[3-4]\"}\n"
                              "- topology: fabric\n"
                              "  cluster_default: true\n"
                              "  tree:\n"
                              "    switches:\n"
                              "      - switch: spine\n"
                              "        children: leaf[1-2]\n"
                              "      - switch: leaf1\n"
                              "        nodes: gpu[001-002]\n"
                              "      - switch: leaf2\n"
                              "        nodes: 0101,0102\n"
                              "- topology: all\n"
                              "  flat: true\n";

static void test_default_of_several(void **state)
{
    (void)state;
    kith_topology *t = read_text(several);
    assert_int_equal(kith_topology_switch_count(t), 3);
    assert_int_equal(kith_topology_node_count(t), 4);
    assert_int_equal(kith_topology_domain_count(t), 0);
    expect_switch(t, "leaf2", "spine", 0);
    expect_leaf(t, "0101", "leaf2");
    expect_doubt(t, "other-topologies", "topology fabric is used; the file has 2 more: racks, all");
    kith_topology_destroy(t);
}

static void test_first_without_default(void **state)
{
    (void)state;
    kith_topology *t = read_text("- topology: racks\n  block:\n    block_sizes: [3]\n    blocks:\n"
                                 "      - block: 7\n        nodes: 1001\n"
                                 "- topology: t\n  tree: {switches: [{switch: a, nodes: b}]}\n");
    assert_int_equal(kith_topology_domain_count(t), 1);
    assert_string_equal(kith_topology_domain(t, 0)->name, "7");
    assert_false(kith_topology_domain(t, 0)->is_nvlink);
    assert_string_equal(kith_topology_node(t, 0)->name, "1001");
    expect_doubt(t, "other-topologies", "none is cluster_default, it is the first");
    expect_doubt(t, "block-domain", "NVLink");
    expect_doubt(t, "block-size", "1 of 1 blocks");
    kith_topology_destroy(t);
}

static const char model[] = "# drawing\n"
                            "switches:\n"
                            "  core:\n"
                            "    labels: {region: east}\n"
                            "    switches:\n"
                            "    - spine-1\n"
                            "    - spine-2\n"
                            "  spine-1: {switches: [leaf-1]}\n"
                            "  spine-2:\n"
                            "    switches: \"leaf-[2-3]\"\n"
                            "blocks:\n"
                            "- switch: leaf-1\n"
                            "  nodes: [\"I[21-22]\", I25]\n"
                            "  annotations:\n"
                            "    accelerator.example.org/domain: nvl1\n"
                            "- switch: leaf-2\n"
                            "  nodes: \"[1101-1102]\"\n"
                            "  annotations:\n"
                            "    color: red\n"
                            "    accelerator.example.org/domain: 7\n"
                            "- switch: leaf-3\n"
                            "  nodes: x\n";

static void test_model(void **state)
{
    (void)state;
    kith_topology *t = read_text(model);
    assert_int_equal(kith_topology_switch_count(t), 6);
    assert_int_equal(kith_topology_node_count(t), 6);
    assert_int_equal(kith_topology_domain_count(t), 2);
    expect_switch(t, "core", "", 2);
    expect_switch(t, "leaf-3", "spine-2", 0);
    expect_leaf(t, "I25", "leaf-1");
    expect_leaf(t, "1102", "leaf-2");
    assert_true(kith_topology_domain(t, 0)->is_nvlink);
    assert_string_equal(kith_topology_domain(t, 1)->name, "7");
    assert_int_equal(find_node(t, "I22")->domain, 0);
    assert_int_equal(find_node(t, "1101")->domain, 1);
    assert_int_equal(find_node(t, "x")->domain, -1);
    expect_no_doubt(t, "sub-domain");
    kith_topology_destroy(t);
}

static void test_domain_of_several_leaves(void **state)
{
    (void)state;
    kith_topology *t =
        read_text("blocks:\n"
                  "- {switch: a, nodes: n1, annotations: {accelerator/domain: d, accelerator/sub-domain: r1}}\n"
                  "- {switch: b, nodes: n2, annotations: {accelerator/domain: d, accelerator/sub-domain: r2}}\n");
    assert_int_equal(kith_topology_domain_count(t), 1);
    assert_int_equal(kith_topology_domain(t, 0)->node_count, 2);
    expect_doubt(t, "sub-domain", "sub-domains");
    expect_switch(t, "a", "", 0);
    kith_topology_destroy(t);
}

static void test_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text, *reason;
    } wrong[] = {
        { "- topology: a\n  tree:\n    switches:\n      - switch: s\n        children: x\n",
          "text:5: switch x is listed" },
        { "- topology: a\n  tree: {switches: [{switch: s, nodes: n1}, {switch: s, nodes: n2}]}\n",
          "switch s is there" },
        { "- topology: a\n  tree: {switches: [{switch: s, nodes: [n1]}]}\n", "text:2: 'nodes' must be a word" },
        { "- topology: a\n  tree: {switches: [{switch: s, node: n1}]}\n", "text:2: unknown key 'node'; valid: switch" },
        { "- topology: a\n  tree: {switches: {switch: s}}\n", "'switches' must be a" },
        { "- topology: a\n  tree: {switches: [{switch: s, nodes: n1, nodes: n2}]}\n", "'nodes' is there twice" },
        { "- topology: a\n  ring: {}\n", "unknown key 'ring'; valid: topology, cluster_default, tree, block, flat" },
        { "- topology: a\n", "must be one of: tree, block, flat" },
        { "- topology: a\n  flat: false\n", "must be one of: tree, block, flat" },
        { "- topology: a\n  flat: true\n  tree: {switches: []}\n", "must be one of" },
        { "- topology: a\n  flat: true\n", "describe no node" },
        { "- topology: a\n  cluster_default: true\n  flat: true\n- topology: b\n  cluster_default: true\n  flat: "
          "true\n",
          "text:4: topology b is cluster_default, and so is the one in line 1" },
        { "- topology: a\n  cluster_default: maybe\n  flat: true\n", "'cluster_default' must be a" },
        { "- cluster_default: true\n", "text:1: 'topology' is missing" },
        { "- topology: a\n  block: {block_sizes: [0], blocks: []}\n", "block_sizes must be whole numbers" },
        { "- topology: a\n  block: {block_sizes: [1.5], blocks: []}\n", "block_sizes must be whole numbers" },
        { "- topology: a\n  block: {block_sizes: [4]}\n", "'blocks' is missing" },
        { "- topology: a\n  block: {blocks: [{block: b}]}\n", "'nodes' is missing" },
        { "- topology: a\n  block: {blocks: [{block: b, nodes: n1}, {block: c, nodes: n1}]}\n",
          "node n1 is in b and in c" },
        { "switches:\n  a: {switches: [b]}\n", "text:1: 'blocks' is missing" },
        { "switches:\n  a: {labels: {}}\nblocks: []\n", "text:2: switch a has no 'switches'" },
        { "switches:\n  a: {switches: [b]}\nblocks:\n- {switch: c, nodes: n}\n", "switch b is listed under a" },
        { "switches:\n  a: {switches: [b]}\n  a: {switches: [c]}\nblocks: []\n", "switch a is there twice" },
        { "switches:\n  a: {switches: [a]}\nblocks: []\n", "switch a is above or below itself" },
        { "blocks:\n- {switch: a}\n", "a block has no 'nodes'" },
        { "blocks:\n- {switch: a, nodes: {n: 1}}\n", "'nodes' must be names" },
        { "blocks:\n- {nodes: n1}\n", "'switch' is missing" },
        { "blocks:\n- {switch: a, nodes: [n1, n1]}\n", "node n1 is on switch a and on a" },
        { "blocks:\n- {switch: a, nodes: n1, annotations: {accelerator.a/domain: x, accelerator.b/domain: y}}\n",
          "a second annotation" },
        { "blocks: [\n", "YAML" },
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        expect_refused(wrong[i].text, wrong[i].reason);
}

static void test_damage(void **state)
{
    (void)state;
    damage_and_read(several, 4000, 0x5851f42d4c957f2du);
    damage_and_read(model, 4000, 0x14057b7ef767814fu);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_default_of_several),
        cmocka_unit_test(test_first_without_default),
        cmocka_unit_test(test_model),
        cmocka_unit_test(test_domain_of_several_leaves),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_damage),
    };
    kith_topology *t = NULL;
    if (kith_topology_parse("text", several, strlen(several), NULL, &t) == KITH_ERR_UNSUPPORTED) {
        printf("skipped: %s\n", kith_error_detail());
        return 77;
    }
    kith_topology_destroy(t);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
