/* tests/topology/test_lint.c - each doubt on a machine that has the trouble, and none on the one that has not; and what
 * differs between two nodes.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "json_machines.h"
#include <math.h>
#include <stdio.h>

enum { TEXT_NBYTES = 16384 };

/* Eight H100 on NVSwitch with a NIC each; cell(i, j) may differ. */
typedef struct recipe {
    const char *model;
    int links[8];      /* NVLinks of each GPU; 0: PIX and the like instead */
    int numa[8];       /* -1: unknown */
    int nic_of[8];     /* the NIC that is PIX; -1: all SYS */
    const char *extra; /* more members of GPU 3 */
    const char *top;   /* more members of the kind */
    const char *numas;
    bool is_pair_broken; /* 2 and 6 see each other over SYS */
} recipe;

static const recipe healthy = {
    .model = "NVIDIA H100 80GB HBM3",
    .links = { 18, 18, 18, 18, 18, 18, 18, 18 },
    .numa = { 0, 0, 0, 0, 1, 1, 1, 1 },
    .nic_of = { 0, 1, 2, 3, 4, 5, 6, 7 },
    .numas = "{\"os_index\": 0, \"cpus\": \"0-55\"}, {\"os_index\": 1, \"cpus\": \"56-111\"}",
};

static char *add(char *at, const char *text)
{
    return at + sprintf(at, "%s", text);
}

static kith_topology *build(const recipe *r)
{
    static char text[TEXT_NBYTES];
    char *at = add(text, "{\"kith_topology\": 1, \"name\": \"hgx\", \"nvlink\": \"known\"");
    at += sprintf(at, "%s%s, \"numa_nodes\": [%s], \"gpus\": [", r->top != NULL ? ", " : "",
                  r->top != NULL ? r->top : "", r->numas);
    for (int g = 0; g < 8; g++) {
        at += sprintf(at, "%s{\"index\": %d, \"name\": \"%s\"", g > 0 ? ", " : "", g, r->model);
        if (r->numa[g] >= 0)
            at += sprintf(at, ", \"numa\": %d", r->numa[g]);
        if (g == 3 && r->extra != NULL)
            at += sprintf(at, ", %s", r->extra);
        at = add(at, "}");
    }
    at = add(at, "], \"nics\": [");
    for (int n = 0; n < 8; n++)
        at +=
            sprintf(at, "%s{\"name\": \"mlx5_%d\", \"gbps\": 48, \"gbps_certainty\": \"known\"}", n > 0 ? ", " : "", n);
    at = add(at, "], \"links\": [");
    for (int i = 0; i < 8; i++) {
        at = add(at, i > 0 ? ", [" : "[");
        for (int j = 0; j < 8; j++) {
            int count = r->links[i] < r->links[j] ? r->links[i] : r->links[j];
            if (r->is_pair_broken && i + j == 8 && (i == 2 || j == 2))
                count = 0;
            at = add(at, j > 0 ? ", " : "");
            at += i == j ? sprintf(at, "\"X\"") : count > 0 ? sprintf(at, "\"NV%d\"", count) : sprintf(at, "\"SYS\"");
        }
        at = add(at, "]");
    }
    at = add(at, "], \"nic_links\": [");
    for (int g = 0; g < 8; g++) {
        at = add(at, g > 0 ? ", [" : "[");
        for (int n = 0; n < 8; n++)
            at += sprintf(at, "%s\"%s\"", n > 0 ? ", " : "", r->nic_of[g] == n ? "PIX" : "SYS");
        at = add(at, "]");
    }
    at = add(at, "]}");
    assert_true(at - text < TEXT_NBYTES);
    return machine_of(text);
}

static void wants(const recipe *r, const char *code, const char *word)
{
    kith_topology *t = build(r);
    const kith_doubt *doubt = find_doubt(t, code);
    if (doubt == NULL)
        fail_msg("no doubt '%s'", code);
    if (strstr(doubt->text, word) == NULL)
        fail_msg("wanted '%s' in '%s'", word, doubt->text);
    kith_topology_destroy(t);
}

static void healthy_machine_has_no_doubts(void **state)
{
    (void)state;
    kith_topology *t = build(&healthy);
    for (int i = 0; i < kith_topology_doubt_count(t); i++)
        if (!kith_topology_doubt(t, i)->is_assumption)
            fail_msg("%s: %s", kith_topology_doubt(t, i)->code, kith_topology_doubt(t, i)->text);
    assert_true(kith_topology_kind(t, 0)->has_nvswitch);
    assert_float_equal(kith_topology_link(t, 0, 7).gbps, 370.8, 1e-9);
    kith_topology_destroy(t);
}

static void each_trouble_is_found(void **state)
{
    (void)state;
    recipe r = healthy;
    r.links[5] = 17;
    wants(&r, "nvlink-degraded", "GPU 5 has 17");
    kith_topology *degraded = build(&r); /* still a switch, of which one GPU has a link less */
    assert_true(kith_topology_kind(degraded, 0)->has_nvswitch);
    assert_int_equal(kith_topology_kind(degraded, 0)->gpus[0].link_count, 18);
    assert_int_equal(kith_topology_kind(degraded, 0)->gpus[5].link_count, 17);
    assert_true(fabs(kith_topology_link(degraded, 0, 5).gbps - 17 * 20.6) < 1e-9);
    assert_true(fabs(kith_topology_link(degraded, 0, 1).gbps - 18 * 20.6) < 1e-9);
    kith_topology_destroy(degraded);
    r = healthy;
    r.is_pair_broken = true;
    wants(&r, "nvlink-pair-broken", "GPUs 2 and 6");
    r = healthy;
    r.links[3] = 0;
    r.extra = "\"is_lost\": true";
    degraded = build(&r);
    assert_true(kith_topology_kind(degraded, 0)->has_nvswitch);
    kith_topology_destroy(degraded);
    r = healthy;
    memset(r.links, 0, sizeof r.links);
    r.model = "NVIDIA A100-SXM4-80GB";
    wants(&r, "sxm-without-nvlink", "8 GPUs");
    wants(&r, "sxm-without-nvlink", "is the fabric manager running");
    wants(&r, "sxm-without-nvlink", "shared NVSwitch mode"); /* one of several virtual machines */
    r.model = "NVIDIA A100 80GB PCIe";
    kith_topology *t = build(&r);
    assert_null(find_doubt(t, "sxm-without-nvlink"));
    kith_topology_destroy(t);
    r = healthy;
    r.links[3] = 0;
    r.extra = "\"is_mig\": true";
    wants(&r, "mig-parent", "GPU 3");
    r.extra = "\"is_lost\": true";
    wants(&r, "gpu-lost", "GPU 3");
    r.extra = NULL;
    wants(&r, "nvlink-partial", "1 of 8");
    r = healthy;
    r.numas = "{\"os_index\": 0, \"cpus\": \"0-60\"}, {\"os_index\": 1, \"cpus\": \"56-111\"}";
    wants(&r, "numa-overlap", "0-60");
    r.numas = "{\"os_index\": 0, \"cpus\": \"0-51\"}, {\"os_index\": 1, \"cpus\": \"56-111\"}";
    r.top = "\"packages\": [{\"os_index\": 0, \"cpus\": \"0-55\"}, {\"os_index\": 1, \"cpus\": \"56-111\"}]";
    wants(&r, "numa-gap", "4 CPUs of the packages are in no NUMA node (52-55)");
    r.numas = healthy.numas;
    kith_topology *covered = build(&r);
    assert_null(find_doubt(covered, "numa-gap"));
    kith_topology_destroy(covered);
    r.numas = "{\"os_index\": 0, \"cpus\": \"0-51\"}, {\"os_index\": 2, \"cpus\": \"56-111\"}"; /* 1 is hidden */
    covered = build(&r);
    assert_null(find_doubt(covered, "numa-gap"));
    kith_topology_destroy(covered);
    r.numas = healthy.numas;
    r = healthy;
    for (int i = 0; i < 8; i++)
        r.nic_of[i] = 7 - i;
    wants(&r, "nic-order-reversed", "falling");
    r = healthy;
    for (int i = 0; i < 8; i++)
        r.numa[i] = 3 - i / 2;
    wants(&r, "numa-order-reversed", "falling");
    r = healthy;
    memset(r.numa, 0xff, sizeof r.numa);
    wants(&r, "numa-unknown", "no GPU");
    r.numa[0] = 0;
    wants(&r, "gpu-without-cpus", "GPU 1");
    r = healthy;
    r.nic_of[2] = -1;
    wants(&r, "nic-far", "1 of 8");
    r = healthy;
    r.numas = "{\"os_index\": 0, \"cpus\": \"0-55\", \"allowed_cpus\": \"\"}, {\"os_index\": 1, \"cpus\": \"56-111\"}";
    r.extra = NULL;
    wants(&r, "gpu-far-from-cpu", "GPU 0");
    r = healthy;
    memset(r.links, 0, sizeof r.links);
    r.top = "\"socket_gbps\": 10";
    t = build(&r);
    assert_non_null(find_doubt(t, "sxm-without-nvlink"));
    kith_topology_destroy(t);
}

static void unknown_nvlink_is_not_none(void **state)
{
    (void)state;
    kith_topology *t = machine_of("{\"kith_topology\": 1, \"name\": \"mp\", \"nvlink\": \"unknown\", \"gpus\": "
                                  "[{\"index\": 0}, {\"index\": 1}], \"links\": [[\"X\", \"SYS\"], [\"SYS\", \"X\"]]}");
    int island[2];
    assert_int_equal(kith_nvlink_islands(kith_topology_kind(t, 0), island), -1);
    assert_non_null(find_doubt(t, "nvlink-unknown"));
    char *text = NULL;
    assert_int_equal(kith_topology_print(t, KITH_FORMAT_JSON, &text), KITH_OK);
    assert_non_null(strstr(text, "\"nvlink_islands\": null"));
    kith_free(text);
    kith_topology_destroy(t);
}

static void difference(const recipe *r, int wanted, const char *word)
{
    kith_topology *a = build(&healthy), *b = build(r);
    char *text = NULL;
    int count = -1;
    assert_int_equal(kith_topology_diff(a, b, &text, &count), KITH_OK);
    if (count != wanted || strstr(text, word) == NULL)
        fail_msg("wanted %d differences and '%s', got %d:\n%s", wanted, word, count, text);
    kith_free(text);
    kith_topology_destroy(a);
    kith_topology_destroy(b);
}

static void nodes_are_compared(void **state)
{
    (void)state;
    recipe r = healthy;
    difference(&r, 0, "");
    r.nic_of[6] = 7;
    r.nic_of[7] = 6;
    difference(&r, 2, "GPU 6: the nearest NIC is PIX mlx5_6 in hgx, PIX mlx5_7 in hgx");
    r = healthy;
    r.numa[1] = 1;
    difference(&r, 1, "GPU 1: the NUMA node is 0");
    r = healthy;
    r.extra = "\"is_mig\": true";
    difference(&r, 1, "MIG");
    r = healthy; /* masks that are exchanged look good by themselves */
    r.numas = "{\"os_index\": 0, \"cpus\": \"56-111\"}, {\"os_index\": 1, \"cpus\": \"0-55\"}";
    kith_topology *t = build(&r);
    assert_null(find_doubt(t, "numa-overlap"));
    kith_topology_destroy(t);
    difference(&r, 2, "NUMA node 0: the CPU set is 0-55 in hgx, 56-111 in hgx");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(healthy_machine_has_no_doubts),
        cmocka_unit_test(each_trouble_is_found),
        cmocka_unit_test(unknown_nvlink_is_not_none),
        cmocka_unit_test(nodes_are_compared),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
