/* tests/topology/machine.c - see machine.h.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "machine.h"

#include <stdio.h>

static int socket_of(const machine_spec *spec, int i, int count)
{
    return spec->sockets > 1 ? i * spec->sockets / count : 0;
}

static kith_link_type pci_class(const machine_spec *spec, int a_socket, int b_socket)
{
    return spec->sockets > 1 && a_socket != b_socket ? KITH_LINK_SYS : KITH_LINK_NODE;
}

static void add_devices(kith_topology *t, ki_kind *kind, const machine_spec *spec)
{
    for (int s = 0; s < (spec->sockets > 0 ? spec->sockets : 1); s++) {
        ki_kind_add_package(t, kind);
        ki_kind_add_numa(t, kind)->package = s;
    }
    for (int s = 0; spec->has_pci_switches && s < spec->nics; s++)
        ki_kind_add_switch(t, kind)->host_bridge = s;
    for (int g = 0; g < spec->gpus; g++) {
        kith_gpu *gpu = ki_kind_add_gpu(t, kind);
        gpu->name = spec->gpu;
        ki_gpu_set_numas(t, gpu, ki_topology_format(t, "%d", socket_of(spec, g, spec->gpus)), "test");
        gpu->pci_switch = spec->has_pci_switches ? g * spec->nics / spec->gpus : -1;
    }
    for (int n = 0; n < spec->nics; n++) {
        kith_nic *nic = ki_kind_add_nic(t, kind);
        nic->name = ki_topology_format(t, "NIC%d", n);
        nic->gbps = spec->nic_gbps;
        nic->gbps_certainty = KITH_KNOWN;
        nic->numa = socket_of(spec, n, spec->nics);
        nic->pci_switch = spec->has_pci_switches ? n : -1;
    }
}

static void link_devices(kith_topology *t, ki_kind *kind, const machine_spec *spec)
{
    ki_kind_make_links(t, kind);
    for (int a = 0; a < spec->gpus; a++) {
        int socket = socket_of(spec, a, spec->gpus);
        for (int b = 0; b < a; b++) {
            kith_link_type type =
                spec->nvlinks > 0 ? KITH_LINK_NVLINK : pci_class(spec, socket, socket_of(spec, b, spec->gpus));
            if (type == KITH_LINK_NODE && spec->has_pci_switches &&
                a * spec->nics / spec->gpus == b * spec->nics / spec->gpus)
                type = KITH_LINK_PIX;
            ki_kind_set_link(kind, a, b, type, spec->nvlinks, KITH_KNOWN);
        }
        for (int n = 0; n < spec->nics; n++) {
            kith_link *link = ki_kind_nic_link(kind, a, n);
            link->type = n == a * spec->nics / spec->gpus ? KITH_LINK_PIX
                                                          : pci_class(spec, socket, socket_of(spec, n, spec->nics));
            link->certainty = KITH_KNOWN;
        }
    }
    kind->view.nvlink = KITH_KNOWN;
    kind->view.has_nvswitch = spec->nvlinks > 0 && !spec->is_direct;
    kind->view.socket_gbps = spec->socket_gbps;
}

static void add_network(kith_topology *t, const machine_spec *spec)
{
    if (spec->nodes_of_leaf == 0)
        return;
    int blocks = (spec->nodes + spec->nodes_of_leaf - 1) / spec->nodes_of_leaf,
        rails = spec->has_rails ? spec->nics : 1;
    ki_topology_add_switch(t, "root", -1)->level = 1;
    for (int i = 0; i < blocks * rails; i++) {
        kith_switch *leaf = ki_topology_add_switch(t, ki_topology_format(t, "leaf%d", i), 0);
        leaf->uplink_count = spec->uplinks;
        leaf->uplink_gbps = spec->uplink_gbps;
    }
}

static void add_nodes(kith_topology *t, const machine_spec *spec)
{
    for (int n = 0; n < spec->nodes; n++) {
        kith_node *node = ki_topology_add_node(t, ki_topology_format(t, "node%d", n), 0);
        int rails = spec->has_rails ? spec->nics : 1, block = spec->nodes_of_leaf > 0 ? n / spec->nodes_of_leaf : 0;
        if (spec->nodes_of_leaf > 0)
            node->leaf = 1 + block * rails;
        if (spec->nodes_of_leaf > 0 && spec->has_rails) {
            int *leaves = (int *)ki_topology_alloc(t, (size_t)spec->nics, sizeof *leaves);
            for (int i = 0; i < spec->nics; i++)
                leaves[i] = 1 + block * rails + i;
            node->rails = leaves;
            node->rail_count = spec->nics;
        }
        if (spec->nodes_of_domain > 0)
            node->domain = n / spec->nodes_of_domain;
    }
    for (int d = 0; spec->nodes_of_domain > 0 && d * spec->nodes_of_domain < spec->nodes; d++)
        ki_topology_add_domain(t, ki_topology_format(t, "domain%d", d), true)->gbps = spec->domain_gbps;
}

kith_topology *machine_create(const machine_spec *spec)
{
    kith_topology *t;
    if (ki_topology_create(NULL, &t) != KITH_OK)
        return NULL;
    ki_kind *kind = ki_topology_add_kind(t, "test machine", "test");
    kind->view.cpu_vendor = "intel";
    add_devices(t, kind, spec);
    link_devices(t, kind, spec);
    if (spec->edit != NULL)
        spec->edit(t, kind);
    add_network(t, spec);
    add_nodes(t, spec);
    kith_status status = ki_topology_finish(t);
    if (status == KITH_OK)
        status = ki_topology_check(t);
    if (status == KITH_OK)
        return t;
    fprintf(stderr, "machine: %s: %s\n", kith_status_name(status), kith_error_detail());
    kith_topology_destroy(t);
    return NULL;
}

const machine_spec machine_hgx_h100 = {
    .gpu = "NVIDIA H100", .nodes = 1, .gpus = 8, .nics = 8, .sockets = 2, .nvlinks = 18, .nic_gbps = 48
};

/* Two squares with their diagonals, joined by four links; the double links are those of NVIDIA's drawing. */
static void link_dgx_1v(kith_topology *t, ki_kind *kind)
{
    static const unsigned char links[][3] = { { 0, 1, 1 }, { 0, 2, 1 }, { 0, 3, 2 }, { 0, 4, 2 },
                                              { 1, 2, 2 }, { 1, 3, 1 }, { 1, 5, 2 }, { 2, 3, 2 },
                                              { 2, 6, 1 }, { 3, 7, 1 }, { 4, 5, 1 }, { 4, 6, 1 },
                                              { 4, 7, 2 }, { 5, 6, 2 }, { 5, 7, 1 }, { 6, 7, 2 } };
    (void)t;
    for (int a = 0; a < 8; a++)
        for (int b = 0; b < a; b++)
            ki_kind_set_link(kind, a, b, a / 4 != b / 4 ? KITH_LINK_SYS : KITH_LINK_NODE, 0, KITH_KNOWN);
    for (size_t i = 0; i < sizeof links / sizeof links[0]; i++)
        ki_kind_set_link(kind, links[i][0], links[i][1], KITH_LINK_NVLINK, links[i][2], KITH_KNOWN);
}

const machine_spec machine_dgx_1v = { .gpu = "Tesla V100-SXM2",
                                      .nodes = 1,
                                      .gpus = 8,
                                      .nics = 4,
                                      .sockets = 2,
                                      .nvlinks = 1,
                                      .is_direct = true,
                                      .nic_gbps = 12,
                                      .edit = link_dgx_1v };

void machine_groups(int *groups, int size, int group_count, int stride, int group_stride)
{
    for (int g = 0; g < group_count; g++)
        for (int i = 0; i < size; i++)
            groups[g * size + i] = g * group_stride + i * stride;
}
