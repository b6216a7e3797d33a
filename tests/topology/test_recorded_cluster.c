/* tests/topology/test_recorded_cluster.c - topology.conf, topology.yaml, cluster models and ibnetdiscover as people
 * publish them. What must come out is counted here a second time, by simpler means than the readers', or by comparing
 * two files about one cluster.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "cluster_help.h"
#include "topology/reader.h"

#include <dirent.h>

static const char *folder; /* KITH_SHARED_DIR */

static char *path_of(const char *name)
{
    static char path[2][1024];
    static int turn;
    turn = 1 - turn;
    snprintf(path[turn], sizeof path[turn], "%s/topologies/%s", folder, name);
    return path[turn];
}

static char *text_of(const char *path, size_t *nbytes)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        fail_msg("%s cannot be opened", path);
    char *text = (char *)malloc(4 << 20);
    *nbytes = fread(text, 1, (4 << 20) - 1, file);
    text[*nbytes] = '\0';
    fclose(file);
    return text;
}

static kith_topology *load(const char *name)
{
    const char *const paths[] = { path_of(name) };
    kith_topology *t = NULL;
    if (kith_topology_load(paths, 1, NULL, &t) != KITH_OK)
        fail_msg("%s", kith_error_detail());
    if (ki_topology_check(t) != KITH_OK)
        fail_msg("%s: %s", name, kith_error_detail());
    return t;
}

/* Calls each() for every file of a folder of topologies/, by its name there. */
static int each_file(const char *sub_folder, const char *end, void (*each)(const char *name))
{
    int count = 0;
    DIR *dir = opendir(path_of(sub_folder));
    if (dir == NULL)
        fail_msg("%s cannot be opened", path_of(sub_folder));
    for (const struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        size_t length = strlen(entry->d_name), tail = strlen(end);
        if (entry->d_type == DT_DIR || length < tail || strcmp(entry->d_name + length - tail, end) != 0)
            continue;
        char name[512];
        snprintf(name, sizeof name, "%s/%s", sub_folder, entry->d_name);
        each(name);
        count++;
    }
    closedir(dir);
    return count;
}

/* ---- topology.conf ---- */

/* How many names "a[1-3,5],b" has. Only for lists with one bracket a name. */
static int count_names(const char *list)
{
    int count = 0;
    bool is_inside = false;
    for (const char *c = list; *c > ' '; c++) {
        int from, to;
        if (*c == '[')
            is_inside = true;
        if (*c == ']')
            is_inside = false;
        if (is_inside && (*c == '[' || *c == ','))
            count += sscanf(c + 1, "%d-%d", &from, &to) == 2 ? to - from + 1 : 1;
        if (!is_inside && *c != ']' && (c[1] <= ' ' || c[1] == ','))
            count++; /* a name without brackets ends */
    }
    return count;
}

static int nodes_on(const kith_topology *t, int leaf)
{
    int count = 0;
    for (int n = 0; n < kith_topology_node_count(t); n++)
        count += kith_topology_node(t, n)->leaf == leaf;
    return count;
}

static int children_of(const kith_topology *t, int parent)
{
    int count = 0;
    for (int s = 0; s < kith_topology_switch_count(t); s++)
        count += kith_topology_switch(t, s)->parent == parent;
    return count;
}

/* Line by line: each switch and block has what its line says. */
static void check_conf(const char *name)
{
    size_t nbytes;
    char *text = text_of(path_of(name), &nbytes);
    kith_topology *t = load(name);
    int switches = 0, blocks = 0, nodes = 0;
    for (char *line = strtok(text, "\n"); line != NULL; line = strtok(NULL, "\n")) {
        const char *list = strstr(line, " Nodes="), *children = strstr(line, " Switches=");
        char label[128];
        if (list != NULL && line[0] != '#')
            nodes += count_names(list + 7);
        if (sscanf(line, "SwitchName=%127s", label) == 1) {
            int s = find_switch(t, label);
            switches++;
            assert_int_equal(nodes_on(t, s), list != NULL ? count_names(list + 7) : 0);
            assert_int_equal(children_of(t, s), children != NULL ? count_names(children + 10) : 0);
            assert_int_equal(kith_topology_switch(t, s)->level > 0, children != NULL);
        } else if (sscanf(line, "BlockName=%127s", label) == 1) {
            const kith_domain *block = kith_topology_domain(t, blocks++);
            assert_string_equal(block->name, label);
            assert_int_equal(block->node_count, count_names(list + 7));
            assert_false(block->is_nvlink);
        }
    }
    assert_int_equal(kith_topology_switch_count(t), switches);
    assert_int_equal(kith_topology_domain_count(t), blocks);
    assert_int_equal(kith_topology_node_count(t), nodes);
    assert_true(nodes >= 32);
    assert_int_equal(find_doubt(t, "block-domain") != NULL, blocks > 0);
    kith_topology_destroy(t);
    free(text);
}

static void test_conf_files(void **state)
{
    (void)state;
    assert_int_equal(count_names("a[1-3,5],b,c[01] "), 6);
    assert_true(each_file("slurm", ".topology.conf", check_conf) >= 8);
}

static void test_topology_yaml(void **state)
{
    (void)state;
    kith_topology *t = load("slurm/example.topology.yaml");
    assert_int_equal(kith_topology_node_count(t), 16);
    assert_int_equal(kith_topology_switch_count(t), 3);
    assert_int_equal(nodes_on(t, find_switch(t, "leaf2")), 8);
    expect_switch(t, "leaf1", "spine", 0);
    expect_doubt(t, "other-topologies", "nvl72");
    kith_topology_destroy(t);
}

/* ---- models against the .conf of the same cluster ---- */

/* Is every node in a and in b, and are two nodes under one parent in a exactly when they are in b? up: steps above the
 * leaf. */
static void expect_same_groups(const kith_topology *a, const kith_topology *b, int up)
{
    assert_int_equal(kith_topology_node_count(a), kith_topology_node_count(b));
    int count = kith_topology_switch_count(a);
    assert_int_equal(count, kith_topology_switch_count(b));
    int *partner = (int *)malloc(sizeof(int) * (size_t)count), *back = (int *)malloc(sizeof(int) * (size_t)count);
    for (int s = 0; s < count; s++)
        partner[s] = back[s] = -1;
    for (int n = 0; n < kith_topology_node_count(a); n++) {
        int x = kith_topology_node(a, n)->leaf;
        int y = find_node(b, kith_topology_node(a, n)->name)->leaf;
        for (int i = 0; i < up; i++) {
            x = kith_topology_switch(a, x)->parent;
            y = kith_topology_switch(b, y)->parent;
        }
        assert_true(x >= 0 && y >= 0);
        partner[x] = partner[x] < 0 ? y : partner[x];
        back[y] = back[y] < 0 ? x : back[y];
        assert_int_equal(partner[x], y);
        assert_int_equal(back[y], x);
    }
    free(partner);
    free(back);
}

static void test_model_and_its_conf(void **state)
{
    (void)state;
    kith_topology *tree = load("slurm/topograph-tree.topology.conf"),
                  *model = load("fabric/topograph-model-large.yaml");
    kith_topology *blocks = load("slurm/topograph-block.topology.conf");
    for (int up = 0; up < 3; up++)
        expect_same_groups(tree, model, up);
    assert_int_equal(kith_topology_domain_count(model), kith_topology_domain_count(blocks));
    for (int n = 0; n < kith_topology_node_count(model); n++) {
        const kith_node *node = kith_topology_node(model, n);
        assert_true(kith_topology_domain(model, node->domain)->is_nvlink);
        assert_int_equal(node->domain, find_node(blocks, node->name)->domain); /* both in the order of racks */
    }
    kith_topology *regular = load("fabric/topograph-model-dual-xclr-regular.yaml");
    expect_same_groups(model, regular, 1);
    assert_int_equal(kith_topology_domain_count(regular), 2);
    assert_int_equal(kith_topology_domain(regular, 0)->node_count, 48);
    expect_doubt(regular, "sub-domain", "sub-domains");
    kith_topology_destroy(regular);
    kith_topology_destroy(blocks);
    kith_topology_destroy(model);
    kith_topology_destroy(tree);
}

/* The blocks of one file name domains of nodes that the tree of another has placed. */
static void test_tree_and_blocks_together(void **state)
{
    (void)state;
    const char *const paths[] = { path_of("slurm/topograph-tree.topology.conf"),
                                  path_of("slurm/topograph-block.topology.conf") };
    kith_topology *t = NULL;
    assert_int_equal(kith_topology_load(paths, 2, NULL, &t), KITH_OK);
    assert_int_equal(kith_topology_node_count(t), 96);
    for (int n = 0; n < 96; n++)
        assert_true(kith_topology_node(t, n)->leaf >= 0 && kith_topology_node(t, n)->domain >= 0);
    kith_topology_destroy(t);
}

static void test_small_models(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int nodes, switches, domains;
    } models[] = { { "fabric/topograph-model-small-tree.yaml", 6, 3, 2 },
                   { "fabric/topograph-model-medium.yaml", 8, 7, 4 },
                   { "fabric/topograph-model-nvl72.yaml", 72, 7, 4 } };
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++) {
        kith_topology *t = load(models[i].name);
        assert_int_equal(kith_topology_node_count(t), models[i].nodes);
        assert_int_equal(kith_topology_switch_count(t), models[i].switches);
        assert_int_equal(kith_topology_domain_count(t), models[i].domains);
        assert_int_equal(children_of(t, -1), 1);
        kith_topology_destroy(t);
    }
}

/* ---- ibnetdiscover ---- */

enum { MOST_HOSTS = 1024, MOST_LEAVES = 128 };

/* What the lines say, counted without looking at links' other ends. */
typedef struct tally {
    char hosts[MOST_HOSTS][64];
    int cas[MOST_HOSTS];
    int host_count, nameless;
    int uplinks[MOST_LEAVES]; /* of switches that have hosts, sorted */
    int leaf_count, spine_count;
} tally;

static void tally_ca(tally *c, const char *description)
{
    char host[64], name[64], more[64];
    if (strstr(description, "Aggregation Node") != NULL)
        return;
    if (sscanf(description, "%63[^ \"] %63[^ \"] %63[^ \"]", host, name, more) != 2 || strcmp(host, "localhost") == 0) {
        c->nameless++;
        return;
    }
    int h = 0;
    while (h < c->host_count && strcmp(c->hosts[h], host) != 0)
        h++;
    if (h == c->host_count)
        strcpy(c->hosts[c->host_count++], host);
    c->cas[h]++;
}

static int compare_ints(const void *a, const void *b)
{
    return *(const int *)a - *(const int *)b;
}

static void count_fabric(char *text, tally *c)
{
    int hosts = 0, uplinks = 0;
    bool is_switch = false;
    char *end = text + strlen(text);
    for (char *line = text, *next; line < end; line = next) {
        next = strchr(line, '\n');
        next = next != NULL ? next + 1 : end;
        next[-1] = '\0';
        if (line[0] == '\0' && is_switch) {
            if (hosts > 0)
                c->uplinks[c->leaf_count++] = uplinks;
            else
                c->spine_count++;
            hosts = uplinks = 0;
            is_switch = false;
        }
        is_switch = is_switch || strncmp(line, "Switch\t", 7) == 0;
        if (is_switch && line[0] == '[') {
            uplinks += strstr(line, "\"S-") != NULL;
            hosts += strstr(line, "\"H-") != NULL && strstr(line, "Aggregation Node") == NULL;
        }
        if (strncmp(line, "Ca\t", 3) == 0)
            tally_ca(c, strstr(line, "# \"") + 3);
    }
    qsort(c->uplinks, (size_t)c->leaf_count, sizeof(int), compare_ints);
}

static void test_fabric(void **state)
{
    (void)state;
    static const char name[] = "fabric/ibnetdiscover-dgx-h100-ndr.out";
    size_t nbytes;
    char *text = text_of(path_of(name), &nbytes);
    tally *c = (tally *)calloc(1, sizeof *c);
    count_fabric(text, c);
    kith_topology *t = load(name);
    assert_int_equal(kith_topology_node_count(t), c->host_count);
    for (int h = 0; h < c->host_count; h++) {
        const kith_node *node = find_node(t, c->hosts[h]);
        int rails = 0;
        for (int r = 0; r < node->rail_count; r++)
            rails += node->rails[r] >= 0;
        assert_int_equal(rails, c->cas[h]);
        assert_true(node->leaf >= 0);
    }
    char words[64];
    snprintf(words, sizeof words, "%d channel adapters", c->nameless);
    expect_doubt(t, "ca-without-host", words);
    /* All leaves below one switch that stands for the spines. */
    assert_int_equal(kith_topology_switch_count(t), c->leaf_count + 1);
    assert_int_equal(children_of(t, 0), c->leaf_count);
    snprintf(words, sizeof words, "and %d more", c->spine_count - 1);
    assert_non_null(strstr(kith_topology_switch(t, 0)->name, words));
    int uplinks[MOST_LEAVES];
    for (int s = 1; s <= c->leaf_count; s++) {
        uplinks[s - 1] = kith_topology_switch(t, s)->uplink_count;
        assert_true(kith_topology_switch(t, s)->uplink_gbps > 47.9 && kith_topology_switch(t, s)->uplink_gbps < 48.1);
    }
    qsort(uplinks, (size_t)c->leaf_count, sizeof(int), compare_ints);
    assert_memory_equal(uplinks, c->uplinks, sizeof(int) * (size_t)c->leaf_count);
    expect_doubt(t, "rail-crossed", "2 NICs hang on another leaf"); /* two cables of one node are exchanged */
    kith_topology_destroy(t);
    free(c);
    free(text);
}

/* ---- what is none of these ---- */

static void expect_not_read(const char *name)
{
    const char *const paths[] = { path_of(name) };
    kith_topology *t = NULL;
    kith_status status = kith_topology_load(paths, 1, NULL, &t);
    if (status != KITH_ERR_UNSUPPORTED && status != KITH_ERR_INVALID_ARG)
        fail_msg("%s: wanted: refused; got: %s", name, kith_status_name(status));
    if (strncmp(kith_error_detail(), paths[0], strlen(paths[0])) != 0)
        fail_msg("the reason does not name the file: %s", kith_error_detail());
    assert_null(t);
}

static void test_other_files_are_refused(void **state)
{
    (void)state;
    expect_not_read("fabric/netq-computeNodes.json");
    expect_not_read("fabric/netq-topologyGraph.json");
    expect_not_read("slurm/example.rankfile");
}

static void expect_no_probe(const char *name)
{
    static const ki_reader *const readers[] = { &ki_reader_slurm, &ki_reader_yaml, &ki_reader_ibnet,
                                                &ki_reader_synthetic };
    size_t nbytes;
    char *text = text_of(path_of(name), &nbytes);
    ki_source source = { name, text, nbytes };
    for (size_t i = 0; i < sizeof readers / sizeof readers[0]; i++)
        if (readers[i]->probe(&source) != 0)
            fail_msg("%s is taken for %s", name, readers[i]->format);
    free(text);
}

static void test_probes_leave_others_alone(void **state)
{
    (void)state;
    static const char *const folders[] = { "nvidia_smi_topo", "hwloc", "hwloc/v3", "nccl_xml",
                                           "nccl_xml/rccl",   "sim",   "other" };
    int count = 0;
    for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++)
        count += each_file(folders[i], "", expect_no_probe);
    assert_true(count > 150);
}

static void damage_file(const char *name)
{
    size_t nbytes;
    char *text = text_of(path_of(name), &nbytes);
    if (nbytes < 8192)
        damage_and_read(text, 300, 0xabcdefu + nbytes);
    free(text);
}

static void test_damaged_files(void **state)
{
    (void)state;
    each_file("slurm", "", damage_file);
    each_file("fabric", ".yaml", damage_file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_conf_files),
        cmocka_unit_test(test_topology_yaml),
        cmocka_unit_test(test_model_and_its_conf),
        cmocka_unit_test(test_tree_and_blocks_together),
        cmocka_unit_test(test_small_models),
        cmocka_unit_test(test_fabric),
        cmocka_unit_test(test_other_files_are_refused),
        cmocka_unit_test(test_probes_leave_others_alone),
        cmocka_unit_test(test_damaged_files),
    };
    folder = getenv("KITH_SHARED_DIR");
    if (folder == NULL || folder[0] == '\0') {
        printf("skipped: KITH_SHARED_DIR is not set\n");
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
