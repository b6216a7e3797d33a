/* tests/topology/test_acs.c - what PCIe bridges do to peer-to-peer traffic: configuration spaces, whole and damaged,
 * and a made-up /sys with GPUs and NICs below two switches.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "xml_help.h"

#include "made_up_sys.h"
#include "topology/sysfs.h"

/* ---- configuration spaces ---- */

static void expect_acs(const char *what, const unsigned char *config, size_t nbytes, ki_acs wanted, unsigned bits)
{
    unsigned got_bits = 99;
    ki_acs got = ki_acs_of_config(config, nbytes, &got_bits);
    if (got != wanted || got_bits != bits)
        fail_msg("%s: wanted state %d and bits 0x%x, got %d and 0x%x", what, wanted, bits, got, got_bits);
}

static void test_each_bit(void **state)
{
    (void)state;
    config_space config;
    for (unsigned bit = 0; bit < 16; bit++) {
        bool is_redirecting = bit == 0 || bit == 2 || bit == 3 || bit == 4;
        make_bridge(config, 1u << bit);
        expect_acs("one bit", config, sizeof config, is_redirecting ? KI_ACS_ON : KI_ACS_OFF,
                   is_redirecting ? 1u << bit : 0);
    }
    make_bridge(config, 0);
    expect_acs("clear", config, sizeof config, KI_ACS_OFF, 0);
    make_bridge(config, LSPCI_DEFAULT);
    expect_acs("as Linux sets it", config, sizeof config, KI_ACS_ON, 0x1d);
}

static void test_bridges_without_acs(void **state)
{
    (void)state;
    config_space config;
    make_bridge(config, LSPCI_DEFAULT);
    write_capability(config, 0x100, 0x0001, 0xb70); /* past it */
    expect_acs("not in the list", config, sizeof config, KI_ACS_OFF, 0);
    memset(config + 0x100, 0, sizeof config - 0x100);
    expect_acs("an empty list", config, sizeof config, KI_ACS_OFF, 0);
}

/* The order of the list is the maker's; here it is as long as it can be, and ACS comes last. */
static void test_long_list(void **state)
{
    (void)state;
    config_space config;
    make_bridge(config, LSPCI_DEFAULT);
    memset(config + 0x100, 0, sizeof config - 0x100);
    for (size_t at = 0x100; at < 0xff8; at += 4)
        write_capability(config, at, 0x0001, (unsigned)at + 4);
    write_capability(config, 0xff8, 0x000d, 0);
    write16(config, 0xff8 + 6, KI_ACS_COMPLETION_REDIRECT);
    expect_acs("at the end", config, sizeof config, KI_ACS_ON, KI_ACS_COMPLETION_REDIRECT);
    write16(config, 0xff8 + 6, 0);
    expect_acs("at the end, clear", config, sizeof config, KI_ACS_OFF, 0);
}

/* Whatever is cut off or damaged is not known; it is never taken for off. */
static void test_short_files(void **state)
{
    (void)state;
    config_space config;
    make_bridge(config, LSPCI_DEFAULT);
    for (size_t nbytes = 0; nbytes < ACS_AT + 8; nbytes++)
        expect_acs("short", config, nbytes, KI_ACS_UNCHECKED, 0);
    expect_acs("just enough", config, ACS_AT + 8, KI_ACS_ON, 0x1d);
    write_capability(config, 0x100, 0x0001, 0xffc); /* the last words: no room for the control register */
    write_capability(config, 0xffc, 0x000d, 0);
    expect_acs("at the end", config, sizeof config, KI_ACS_UNCHECKED, 0);
}

static void test_damaged_files(void **state)
{
    (void)state;
    config_space config;
    static const unsigned bad_next[] = { 0x100, 0x0fc, 0x040, 0x14a };
    for (size_t i = 0; i < sizeof bad_next / sizeof bad_next[0]; i++) {
        make_bridge(config, 0);
        write_capability(config, 0x100, 0x0001, bad_next[i]); /* itself: a circle; into the first 256 bytes; askew */
        expect_acs("next", config, sizeof config, KI_ACS_UNCHECKED, 0);
    }
    make_bridge(config, 0);
    write_capability(config, ACS_AT, 0x0003, 0x100);
    expect_acs("a circle of two", config, sizeof config, KI_ACS_UNCHECKED, 0);
    make_bridge(config, 0xffff);
    expect_acs("all ones", config, sizeof config, KI_ACS_UNCHECKED, 0);
    make_bridge(config, 0);
    config[0x0e] = 0; /* a device, no bridge */
    expect_acs("no bridge", config, sizeof config, KI_ACS_UNCHECKED, 0);
    make_bridge(config, 0);
    memset(config + 0x100, 0xff, sizeof config - 0x100);
    expect_acs("no extended space", config, sizeof config, KI_ACS_UNCHECKED, 0);
    memset(config, 0xff, sizeof config);
    expect_acs("gone", config, sizeof config, KI_ACS_UNCHECKED, 0);
    memset(config, 0, sizeof config);
    expect_acs("zeros", config, sizeof config, KI_ACS_UNCHECKED, 0);
    unsigned seed = 7;
    for (int round = 0; round < 2000; round++) { /* nothing is read beyond nbytes; sanitizers look */
        unsigned bits;
        for (size_t i = 0; i < sizeof config; i++)
            config[i] = (unsigned char)((seed = seed * 1103515245u + 12345u) >> 16);
        size_t nbytes = (seed >> 8) % (sizeof config + 1);
        ki_acs got = ki_acs_of_config(config, nbytes, &bits);
        assert_true(got == KI_ACS_ON ? bits != 0 && (bits & ~0x1du) == 0 : bits == 0);
    }
}

/* ---- a made-up /sys ---- */

#define SWITCH "pci0000:15/0000:15:01.0/0000:16:00.0/"
#define OTHER "pci0000:c0/0000:c0:01.1/"

/* What each bridge has in its control register; how much of the files can be read. */
typedef struct ports {
    unsigned root, up, down[3], other_root;
    size_t nbytes;
} ports;

/* Two GPUs and a NIC below one switch, another GPU below a root port of its own. */
static void add_tree(const ports *p)
{
    add_device("pci0000:15/0000:15:01.0", p->root, p->nbytes);
    add_device("pci0000:15/0000:15:01.0/0000:16:00.0", p->up, p->nbytes);
    add_device(SWITCH "0000:17:00.0", p->down[0], p->nbytes);
    add_device(SWITCH "0000:17:01.0", p->down[1], p->nbytes);
    add_device(SWITCH "0000:17:02.0", p->down[2], p->nbytes);
    add_device(SWITCH "0000:17:00.0/0000:18:00.0", 0, 64);
    add_device(SWITCH "0000:17:01.0/0000:19:00.0", 0, 64);
    add_device(SWITCH "0000:17:02.0/0000:1a:00.0", 0, 64);
    add_device("pci0000:c0/0000:c0:01.1", p->other_root, p->nbytes);
    add_device(OTHER "0000:c1:00.0", 0, 64);
}

static const int gpu_buses[] = { 0x18, 0x19, 0xc1 };

/* The kind that discovery would make of it. gpu_count 2: only those below the switch. */
static kith_topology *look(int gpu_count, bool has_nic, kith_link_type between)
{
    kith_topology *t = NULL;
    assert_int_equal(ki_topology_create(NULL, &t), KITH_OK);
    ki_kind *kind = ki_topology_add_kind(t, "host", "live");
    for (int i = 0; i < gpu_count; i++)
        ki_kind_add_gpu(t, kind)->pci = (kith_pci_address){ .is_known = true, .bus = (uint8_t)gpu_buses[i] };
    if (has_nic)
        ki_kind_add_nic(t, kind)->pci = (kith_pci_address){ .is_known = true, .bus = 0x1a };
    ki_kind_make_links(t, kind);
    for (int i = 0; i < gpu_count; i++) {
        for (int j = 0; j < i; j++)
            ki_kind_set_link(kind, i, j, i == 2 ? KITH_LINK_SYS : between, 0, KITH_KNOWN);
        if (has_nic)
            ki_kind_nic_link(kind, i, 0)->type = i == 2 ? KITH_LINK_SYS : KITH_LINK_PIX;
    }
    ki_acs_check(t, kind, true);
    assert_int_equal(ki_topology_status(t), KITH_OK);
    return t;
}

static void expect_found(int gpu_count, bool has_nic, kith_link_type between, const char *redirect,
                         const char *unchecked)
{
    kith_topology *t = look(gpu_count, has_nic, between);
    redirect != NULL ? expect_doubt(t, "acs-redirect", redirect) : expect_no_doubt(t, "acs-redirect");
    unchecked != NULL ? expect_doubt(t, "acs-unchecked", unchecked) : expect_no_doubt(t, "acs-unchecked");
    for (int i = 0; i < kith_topology_doubt_count(t); i++) { /* what is unchecked is no fault; what redirects is */
        const kith_doubt *doubt = kith_topology_doubt(t, i);
        assert_int_equal(doubt->is_assumption, strcmp(doubt->code, "acs-unchecked") == 0);
    }
    kith_topology_destroy(t);
}

static void test_all_off(void **state)
{
    (void)state;
    add_tree(&(ports){ .nbytes = 4096 });
    expect_found(3, true, KITH_LINK_PIX, NULL, NULL);
}

static void test_downstream_ports(void **state)
{
    (void)state;
    add_tree(&(ports){ .down = { 0, LSPCI_DEFAULT, 0 }, .nbytes = 4096 });
    expect_found(2, false, KITH_LINK_PIX, "1 of 2 PCIe bridges", NULL);
    expect_found(2, false, KITH_LINK_PIX, "ACS of 0000:17:01.0: SrcValid, ReqRedir, CmpltRedir, UpstreamFwd", NULL);
    expect_found(1, false, KITH_LINK_PIX, NULL, NULL);    /* one GPU has no peer */
    expect_found(2, false, KITH_LINK_NVLINK, NULL, NULL); /* nothing goes over PCIe */
}

/* A bridge that both devices are below is not passed. */
static void test_shared_bridges_do_not_matter(void **state)
{
    (void)state;
    add_tree(&(ports){ .root = LSPCI_DEFAULT, .up = LSPCI_DEFAULT, .nbytes = 4096 });
    expect_found(2, true, KITH_LINK_PIX, NULL, NULL);
    expect_found(3, true, KITH_LINK_PIX, "2 of 6 PCIe bridges", NULL); /* with a GPU elsewhere they are */
    expect_found(3, true, KITH_LINK_PIX, "ACS of 0000:15:01.0", NULL);
}

static void test_ports_of_nics(void **state)
{
    (void)state;
    add_tree(&(ports){ .down = { 0, 0, KI_ACS_REQUEST_REDIRECT }, .nbytes = 4096 });
    expect_found(2, false, KITH_LINK_NVLINK, NULL, NULL);
    expect_found(2, true, KITH_LINK_NVLINK, "1 of 3 PCIe bridges", NULL);
    expect_found(2, true, KITH_LINK_NVLINK, "ACS of 0000:17:02.0: ReqRedir)", NULL);
}

static void test_ordinary_users(void **state)
{
    (void)state;
    add_tree(&(ports){ .down = { LSPCI_DEFAULT, LSPCI_DEFAULT, LSPCI_DEFAULT }, .nbytes = 64 });
    expect_found(2, false, KITH_LINK_PIX, NULL, "unchecked for 2 of 2");
    expect_found(3, true, KITH_LINK_PIX, NULL, "unchecked for 6 of 6");
}

static void test_some_can_be_read(void **state)
{
    (void)state;
    add_tree(&(ports){ .down = { LSPCI_DEFAULT, 0, 0 }, .nbytes = 4096 });
    write_file("sys/devices/" SWITCH "0000:17:01.0/config", "garbage", 7);
    expect_found(2, false, KITH_LINK_PIX, "ACS of 0000:17:00.0", "unchecked for 1 of 2");
}

/* A container without /sys, or a device that is not there. */
static void test_nothing_can_be_seen(void **state)
{
    (void)state;
    expect_found(2, false, KITH_LINK_PIX, NULL, "does not show the bridges");
    expect_found(2, false, KITH_LINK_NVLINK, NULL, NULL);
    char loop[128];
    snprintf(loop, sizeof loop, "%s/sys/bus/pci/devices/0000:18:00.0", root_path);
    assert_int_equal(symlink("../../somewhere/else", loop), 0);
    expect_found(2, false, KITH_LINK_PIX, NULL, "does not show the bridges");
}

/* Below a volume management device there are host bridges of their own. */
static void test_chain_below_a_device(void **state)
{
    (void)state;
    kith_pci_address bridges[KI_SYSFS_MOST_BRIDGES], gpu = { .is_known = true, .domain = 0x10000, .bus = 1 };
    add_device("pci0000:00/0000:00:0e.0/pci10000:00/10000:00:02.0/10000:01:00.0", 0, 64);
    assert_int_equal(ki_sysfs_bridges(&gpu, bridges), 1);
    assert_int_equal(bridges[0].domain, 0x10000);
    assert_int_equal(bridges[0].device, 2);
    gpu.bus = 2;
    assert_int_equal(ki_sysfs_bridges(&gpu, bridges), -1);
}

static void expect_depth(int depth, int wanted)
{
    char path[512] = "pci0000:00";
    kith_pci_address bridges[KI_SYSFS_MOST_BRIDGES];
    kith_pci_address device = { .is_known = true, .domain = (uint32_t)depth, .bus = (uint8_t)depth };
    for (int i = 0; i <= depth; i++)
        snprintf(path + strlen(path), sizeof path - strlen(path), "/%04x:%02x:00.0", (unsigned)depth, (unsigned)i);
    add_device(path, 0, 64);
    int got = ki_sysfs_bridges(&device, bridges);
    if (got != wanted)
        fail_msg("%d bridges: wanted %d, got %d", depth, wanted, got);
}

static void test_deep_chains(void **state)
{
    (void)state;
    expect_depth(1, 1);
    expect_depth(KI_SYSFS_MOST_BRIDGES, KI_SYSFS_MOST_BRIDGES);
    expect_depth(KI_SYSFS_MOST_BRIDGES + 1, -1);
    expect_depth(KI_SYSFS_MOST_BRIDGES + 3, -1);
}

/* Descriptions in files cannot show it: two GPUs below one switch are no promise. */
static void test_files_cannot_show_it(void **state)
{
    (void)state;
    static const char pix[] = "\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tPIX\t0-7\nGPU1\tPIX\t X \t0-7\n\nLegend:\n";
    static const char nvlink[] = "\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tNV4\t0-7\nGPU1\tNV4\t X \t0-7\n\nLegend:\n";
    kith_topology *t = NULL;
    assert_int_equal(kith_topology_parse("pix.txt", pix, strlen(pix), NULL, &t), KITH_OK);
    expect_doubt(t, "acs-unchecked", "promise no peer-to-peer");
    kith_topology_destroy(t);
    assert_int_equal(kith_topology_parse("nv.txt", nvlink, strlen(nvlink), NULL, &t), KITH_OK);
    expect_no_doubt(t, "acs-unchecked");
    kith_topology_destroy(t);
}

#define IN_TREE(test) cmocka_unit_test_setup_teardown(test, open_root, close_root)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_bit),
        cmocka_unit_test(test_bridges_without_acs),
        cmocka_unit_test(test_long_list),
        cmocka_unit_test(test_short_files),
        cmocka_unit_test(test_damaged_files),
        IN_TREE(test_all_off),
        IN_TREE(test_downstream_ports),
        IN_TREE(test_shared_bridges_do_not_matter),
        IN_TREE(test_ports_of_nics),
        IN_TREE(test_ordinary_users),
        IN_TREE(test_some_can_be_read),
        IN_TREE(test_nothing_can_be_seen),
        IN_TREE(test_chain_below_a_device),
        IN_TREE(test_deep_chains),
        cmocka_unit_test(test_files_cannot_show_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
