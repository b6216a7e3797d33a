/* tests/topology/test_join.c - several descriptions together: nodes and switches, names, domains, choices of nodes.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "json_machines.h"
#include <kith/placement.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define TREE                                                                                                           \
    "SwitchName=spine Switches=leaf[1-2]\nSwitchName=leaf1 Nodes=gpu[001-002]\nSwitchName=leaf2 Nodes=gpu[003-004]\n"

static char folder[64];

static int setup(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/kith-join-XXXXXX");
    return mkdtemp(folder) != NULL ? 0 : -1;
}

static int teardown(void **state)
{
    char command[96];
    (void)state;
    snprintf(command, sizeof command, "rm -rf %s", folder);
    return system(command);
}

static const char *file_of(const char *name, const char *text)
{
    static char paths[8][128];
    static int next;
    char *path = paths[next++ % 8];
    snprintf(path, sizeof paths[0], "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
    return path;
}

static kith_topology *load(const char *a, const char *b, const char *c, const kith_topology_options *options)
{
    const char *paths[] = { a, b, c };
    kith_topology *t = NULL;
    kith_status status = kith_topology_load(paths, c != NULL ? 3 : b != NULL ? 2 : 1, options, &t);
    if (status != KITH_OK)
        fail_msg("%s: %s", kith_status_name(status), kith_error_detail());
    return t;
}

static void refuses(const char *a, const char *b, const char *c, const kith_topology_options *options, const char *word)
{
    const char *paths[] = { a, b, c };
    kith_topology *t = NULL;
    assert_int_not_equal(kith_topology_load(paths, c != NULL ? 3 : b != NULL ? 2 : 1, options, &t), KITH_OK);
    if (strstr(kith_error_detail(), word) == NULL)
        fail_msg("wanted '%s' in '%s'", word, kith_error_detail());
}

static void one_description_serves_all_nodes(void **state)
{
    (void)state;
    kith_topology *t = load(file_of("topology.conf", TREE), "8 H100 on NVSwitch, 8 NICs of NDR", NULL, NULL);
    assert_int_equal(kith_topology_node_count(t), 4);
    assert_int_equal(kith_topology_gpu_count(t), 32);
    assert_string_equal(kith_topology_node(t, 2)->name, "gpu003");
    const kith_switch *leaf = kith_topology_switch(t, kith_topology_node(t, 2)->leaf);
    assert_string_equal(leaf->name, "leaf2");
    assert_string_equal(kith_topology_switch(t, leaf->parent)->name, "spine");
    assert_int_equal(kith_topology_link(t, 0, 8).type, KITH_LINK_NET);
    assert_int_equal(kith_topology_first_gpu(t, 3), 24);
    int node, gpu;
    assert_true(kith_topology_locate(t, 31, &node, &gpu));
    assert_int_equal(node, 3);
    assert_int_equal(gpu, 7);
    assert_false(kith_topology_locate(t, 32, &node, &gpu));
    kith_topology_destroy(t);
}

static void descriptions_are_found_by_name(void **state)
{
    (void)state;
    const char *tree = file_of("topology.conf", "SwitchName=leaf1 Nodes=gpu[001-002]\n");
    const char *one = file_of("gpu001-topo.json", "{\"kith_topology\": 1, \"gpus\": [{\"index\": 0}, {\"index\": 1}]}");
    const char *two = file_of("gpu002.json", "{\"kith_topology\": 1, \"gpus\": [{\"index\": 0}]}");
    kith_topology *t = load(tree, one, two, NULL);
    assert_int_equal(kith_topology_kind(t, kith_topology_node(t, 0)->kind)->gpu_count, 2);
    assert_int_equal(kith_topology_kind(t, kith_topology_node(t, 1)->kind)->gpu_count, 1);
    assert_int_equal(kith_topology_gpu_count(t), 3);
    kith_topology_destroy(t);
    const char *plain = "{\"kith_topology\": 1, \"gpus\": [{\"index\": 0}]}";
    refuses(tree, file_of("a.json", plain), file_of("b.json", plain), NULL, "gpu001");
}

static void switches_alone_are_nodes_of_unknown_content(void **state)
{
    (void)state;
    kith_topology *t = load(file_of("topology.conf", TREE), NULL, NULL, NULL);
    assert_int_equal(kith_topology_node_count(t), 4);
    assert_int_equal(kith_topology_gpu_count(t), 0);
    assert_non_null(find_doubt(t, "node-unknown"));
    kith_topology_destroy(t);
}

static void fabric_query_joins_nodes(void **state)
{
    (void)state;
    const char *query = file_of("fabric.csv", "50000000-0000-0000-0000-000000000001, 32766\n"
                                              "50000000-0000-0000-0000-000000000001, 32766\n");
    kith_topology *t = load("2 nodes of 4 GB200 on NVSwitch", query, NULL, NULL);
    assert_int_equal(kith_topology_domain_count(t), 1);
    assert_true(kith_topology_domain(t, 0)->is_nvlink);
    assert_int_equal(kith_topology_domain(t, 0)->node_count, 2);
    kith_link link = kith_topology_link(t, 0, 7);
    assert_int_equal(link.type, KITH_LINK_NVLINK);
    assert_float_equal(link.gbps, 721.8, 1e-6); /* 18 links of NVLink 5 */
    kith_placement_options options = KITH_PLACEMENT_OPTIONS_INIT;
    options.tp = 8;
    kith_placement *p = NULL;
    assert_int_equal(kith_place(t, &options, &p), KITH_OK);
    assert_false(kith_placement_axis(p, "tp")->leaves_nvlink);
    kith_placement_destroy(p);
    kith_topology_destroy(t);
}

/* Which nodes of a cluster are in the domain that one of them is in, nobody has said. */
static void fabric_query_of_one_node_says_nothing_of_a_cluster(void **state)
{
    (void)state;
    const char *query = file_of("fabric.csv", "50000000-0000-0000-0000-000000000001, 32766\n");
    kith_topology *t = load(file_of("topology.conf", TREE), "4 GB200 on NVSwitch", query, NULL);
    assert_non_null(find_doubt(t, "domain-unplaced"));
    assert_int_equal(kith_topology_link(t, 0, 15).type, KITH_LINK_NET);
    kith_topology_destroy(t);
    const char *other = file_of("other.csv", "60000000-0000-0000-0000-000000000001, 1\n");
    refuses("2 nodes of 4 GB200 on NVSwitch", query, other, NULL, "2 NVLink domains");
}

static void unused_description_is_told(void **state)
{
    (void)state;
    const char *plain = "{\"kith_topology\": 1, \"gpus\": [{\"index\": 0}]}";
    kith_topology *t = load(file_of("topology.conf", "SwitchName=leaf Nodes=n1\n"), file_of("n1.json", plain),
                            file_of("zz9.json", plain), NULL);
    const kith_doubt *doubt = find_doubt(t, "description-unused");
    assert_non_null(doubt);
    assert_non_null(strstr(doubt->text, "zz9.json"));
    kith_topology_destroy(t);
}

/* Two machines in words are two nodes, not one host twice; a host that two files describe is an error. */
static void names_are_unique(void **state)
{
    (void)state;
    kith_topology *t = load("8 H100 on NVSwitch", "8 A100 on NVSwitch", NULL, NULL);
    assert_int_equal(kith_topology_node_count(t), 2);
    assert_string_not_equal(kith_topology_node(t, 0)->name, kith_topology_node(t, 1)->name);
    assert_non_null(find_doubt(t, "nic-assumed"));
    kith_topology_destroy(t);
    const char *one = "{\"kith_topology\": 1, \"gpus\": [{\"index\": 0}], \"nodes\": [{\"name\": \"a\", \"kind\": 0}]}";
    refuses(file_of("a.json", one), file_of("b.json", one), NULL, NULL, "node a is described twice");
}

static void blocks_of_trays_are_domains(void **state)
{
    (void)state;
    const char *blocks =
        file_of("topology.conf", "BlockName=b1 Nodes=t[1-2]\nBlockName=b2 Nodes=t[3-4]\nBlockSizes=2\n");
    kith_topology *t = load(blocks, "4 GB200 on NVSwitch", NULL, NULL);
    assert_true(kith_topology_domain(t, 0)->is_nvlink);
    assert_int_equal(kith_topology_link(t, 0, 4).type, KITH_LINK_NVLINK);
    assert_int_equal(kith_topology_link(t, 0, 8).type, KITH_LINK_NET);
    kith_topology_destroy(t);
    t = load(blocks, "4 H100 on NVSwitch", NULL, NULL);
    assert_false(kith_topology_domain(t, 0)->is_nvlink);
    assert_int_equal(kith_topology_link(t, 0, 4).type, KITH_LINK_NET);
    kith_topology_destroy(t);
}

/* A fabric with two adapters for each node, nodes that are described with eight NICs, and a placement over both. */
static void unequal_rails_are_not_matched(void **state)
{
    (void)state;
    const char *machine = file_of(
        "fabric.json", "{\"kith_topology\": 1, \"name\": \"node\", \"gpus\": [{\"index\": 0}, {\"index\": 1}],\n"
                       "\"nics\": [{\"name\": \"a\"}, {\"name\": \"b\"}, {\"name\": \"c\"}],\n"
                       "\"links\": [[\"X\", \"PIX\"], [\"PIX\", \"X\"]],\n"
                       "\"nic_links\": [[\"PIX\", \"SYS\", \"SYS\"], [\"SYS\", \"SYS\", \"PIX\"]],\n"
                       "\"switches\": [{\"name\": \"l0\"}, {\"name\": \"l1\"}],\n"
                       "\"nodes\": [{\"name\": \"n0\", \"kind\": 0, \"leaf\": 0, \"rails\": [0, 1]},\n"
                       "           {\"name\": \"n1\", \"kind\": 0, \"leaf\": 0, \"rails\": [0, 1]}]}");
    kith_topology *t = load(machine, NULL, NULL, NULL);
    assert_non_null(find_doubt(t, "rails-unmatched"));
    assert_null(kith_topology_node(t, 0)->rails);
    kith_placement_options options = KITH_PLACEMENT_OPTIONS_INIT;
    kith_placement *p = NULL;
    assert_int_equal(kith_place(t, &options, &p), KITH_OK);
    assert_int_equal(kith_placement_rank_count(p), 4);
    kith_placement_destroy(p);
    kith_topology_destroy(t);
}

static void nodes_are_chosen(void **state)
{
    (void)state;
    const char *tree = file_of("topology.conf", TREE);
    kith_topology_options options = KITH_TOPOLOGY_OPTIONS_INIT;
    options.nodes = "gpu[002-003]";
    kith_topology *t = load(tree, "2 A100 on PCIe", NULL, &options);
    assert_int_equal(kith_topology_node_count(t), 2);
    assert_string_equal(kith_topology_node(t, 0)->name, "gpu002");
    kith_topology_destroy(t);
    options.nodes = "gpu[002-009]";
    refuses(tree, "2 A100 on PCIe", NULL, &options, "gpu005");
    options.nodes = "gpu[009-002]";
    refuses(tree, "2 A100 on PCIe", NULL, &options, "backwards");
    options.nodes = NULL;
    options.node_count = 3;
    t = load(file_of("box.json", "{\"kith_topology\": 1, \"gpus\": [{\"index\": 0}, {\"index\": 1}]}"), NULL, NULL,
             &options);
    assert_int_equal(kith_topology_node_count(t), 3);
    assert_int_equal(kith_topology_gpu_count(t), 6);
    kith_topology_destroy(t);
    options.node_count = -1;
    refuses(tree, NULL, NULL, &options, "node_count");
}

static void paths_that_cannot_be_read(void **state)
{
    (void)state;
    refuses("/nonexistent/file", NULL, NULL, NULL, "cannot be opened");
    refuses(folder, NULL, NULL, NULL, "folder");
    refuses(file_of("empty", ""), NULL, NULL, NULL, "not recognized");
    refuses(file_of("noise", "\001\002\003 nothing of this kind\n"), NULL, NULL, NULL, "not recognized");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_description_serves_all_nodes),
        cmocka_unit_test(descriptions_are_found_by_name),
        cmocka_unit_test(switches_alone_are_nodes_of_unknown_content),
        cmocka_unit_test(fabric_query_joins_nodes),
        cmocka_unit_test(fabric_query_of_one_node_says_nothing_of_a_cluster),
        cmocka_unit_test(unused_description_is_told),
        cmocka_unit_test(names_are_unique),
        cmocka_unit_test(blocks_of_trays_are_domains),
        cmocka_unit_test(unequal_rails_are_not_matched),
        cmocka_unit_test(nodes_are_chosen),
        cmocka_unit_test(paths_that_cannot_be_read),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
