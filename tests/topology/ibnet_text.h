/* tests/topology/ibnet_text.h - writes a fabric as `ibnetdiscover` would print it, for tests that need one of a certain
 * shape. Devices and links are added, then ibnet_print() writes every link from both ends.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef IBNET_TEXT_H
#define IBNET_TEXT_H

#include "core/text.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

enum { IBNET_DEVICES = 4096, IBNET_LINKS = 16384 };

typedef struct ibnet_device {
    char kind; /* 'S', 'H' */
    char description[96];
    int port_count;
} ibnet_device;

typedef struct ibnet_link {
    int device[2], port[2];
    char rate[8];
} ibnet_link;

typedef struct ibnet {
    ibnet_device devices[IBNET_DEVICES];
    ibnet_link links[IBNET_LINKS];
    int device_count, link_count;
} ibnet;

static inline ibnet *ibnet_new(void)
{
    return (ibnet *)calloc(1, sizeof(ibnet));
}

static inline int ibnet_add(ibnet *net, char kind, const char *description)
{
    assert(net->device_count < IBNET_DEVICES);
    ibnet_device *device = &net->devices[net->device_count];
    device->kind = kind;
    snprintf(device->description, sizeof device->description, "%s", description);
    return net->device_count++;
}

static inline void ibnet_link_at(ibnet *net, int a, int b, const char *rate)
{
    assert(net->link_count < IBNET_LINKS);
    ibnet_link *link = &net->links[net->link_count++];
    link->device[0] = a;
    link->device[1] = b;
    link->port[0] = ++net->devices[a].port_count;
    link->port[1] = ++net->devices[b].port_count;
    snprintf(link->rate, sizeof link->rate, "%s", rate);
}

static inline void ibnet_links(ibnet *net, int a, int b, int count, const char *rate)
{
    for (int i = 0; i < count; i++)
        ibnet_link_at(net, a, b, rate);
}

static inline void ibnet_print_port(ki_text *out, const ibnet *net, const ibnet_link *link, int end)
{
    int peer = link->device[1 - end];
    const ibnet_device *me = &net->devices[link->device[end]], *other = &net->devices[peer];
    if (me->kind == 'S')
        ki_text_add(out, "[%d]\t\"%c-%016x\"[%d]", link->port[end], other->kind, peer + 0xe0d000, link->port[1 - end]);
    else
        ki_text_add(out, "[%d](%016x) \t\"%c-%016x\"[%d]", link->port[end], link->device[end] + 0xe0d000, other->kind,
                    peer + 0xe0d000, link->port[1 - end]);
    if (other->kind == 'H')
        ki_text_add(out, "(%016x) ", peer + 0xe0d000);
    ki_text_add(out, "\t\t# %s\"%s\" lid %d %s\n", me->kind == 'H' ? "lid 9 lmc 0 " : "", other->description, peer + 1,
                link->rate);
}

static inline void ibnet_print_device(ki_text *out, const ibnet *net, int d)
{
    const ibnet_device *device = &net->devices[d];
    ki_text_add(out, "\nvendid=0x2c9\ndevid=0xd2f2\nsysimgguid=0x%x\n%sguid=0x%x\n", d + 0xe0d000,
                device->kind == 'S' ? "switch" : "ca", d + 0xe0d000);
    ki_text_add(out, "%s\t%d \"%c-%016x\"\t\t# \"%s\"%s\n", device->kind == 'S' ? "Switch" : "Ca", 64, device->kind,
                d + 0xe0d000, device->description, device->kind == 'S' ? " enhanced port 0 lid 73 lmc 0" : "");
}

/* The whole text, to be freed with ki_text_fini(). */
static inline ki_text ibnet_print(const ibnet *net)
{
    ki_text out = { 0 };
    /* The links of each device in the order of its ports: those of one device are rising in links[] already. */
    int *first = (int *)malloc(sizeof(int) * IBNET_DEVICES), *next = (int *)malloc(sizeof(int) * 2 * IBNET_LINKS);
    for (int d = 0; d < net->device_count; d++)
        first[d] = -1;
    for (int l = 2 * net->link_count - 1; l >= 0; l--) {
        int d = net->links[l / 2].device[l % 2];
        next[l] = first[d];
        first[d] = l;
    }
    ki_text_add(&out, "#\n# Topology file: drawn for a test\n#\n");
    for (int d = 0; d < net->device_count; d++) {
        ibnet_print_device(&out, net, d);
        for (int l = first[d]; l >= 0; l = next[l])
            ibnet_print_port(&out, net, &net->links[l / 2], l % 2);
    }
    free(first);
    free(next);
    return out;
}

#endif
