/* tests/topology/simgrid/predict.c - Kith's side of the comparison: the platform for SimGrid, and what is predicted.
 *
 *     predict platform CASES > platform.xml     the machine of the case file with the links of topology/paths.h
 *     predict hosts CASES > hostfile            one rank on each GPU, in their order
 *     predict times CASES                       NAME SECONDS of each case
 *
 * Platform: each node is a zone whose hosts are GPUs; a route is the list of resources that topology/paths.h gives,
 * each a link of its own with its bandwidth, in its direction. The latency of a class is a link that is never full.
 * The way of a GPU to the network is its route to the zone's gateway. Kith's latencies are those of a step; its three
 * messages take a third each (wires.h).
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "cases.h"

#include "topology/paths.h"
#include "wires.h"
#include <kith/placement.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GPUS = 8 };

static int fail(const char *what)
{
    fprintf(stderr, "predict: %s\n", what);
    return 1;
}

/* ---- platform ---- */

static ki_paths *paths_of(const kith_topology *t)
{
    int count = kith_topology_gpu_count(t), *all = (int *)malloc(sizeof *all * (size_t)count);
    ki_paths *paths = NULL;
    for (int i = 0; all != NULL && i < count; i++)
        all[i] = i;
    if (all == NULL || ki_paths_create(t, all, (size_t)count, &paths) != KITH_OK)
        exit(fail(kith_error_detail()));
    free(all);
    return paths;
}

static void write_links(const ki_paths *paths, int node)
{
    for (int r = 0; r < ki_paths_resource_count(paths); r++) {
        char name[64];
        int owner;
        ki_resource resource = ki_paths_resource(paths, r, &owner);
        if (owner == node)
            printf("<link id=\"%s\" bandwidth=\"%.6fBps\" latency=\"0s\"/>\n",
                   ki_paths_name(paths, r, name, sizeof name), resource.gbps * 1e9);
    }
}

/* The hops of a route that are those of one node (-1: of the network). */
static void write_hops(const ki_paths *paths, const ki_route *route, int node)
{
    for (int i = 0; i < route->hop_count; i++) {
        char name[64];
        int owner;
        ki_paths_resource(paths, route->hops[i].resource, &owner);
        if (owner != node)
            continue;
        if (route->hops[i].share < 1)
            exit(fail("a GPU with several NICs cannot be written as a route of SimGrid"));
        printf("<link_ctn id=\"%s\"/>", ki_paths_name(paths, route->hops[i].resource, name, sizeof name));
    }
}

static void find_route(ki_paths *paths, int from, int to, ki_route *route)
{
    if (ki_paths_route(paths, from, to, route) != KITH_OK)
        exit(fail(kith_error_detail()));
}

static void write_node(ki_paths *paths, int node, int other)
{
    ki_route route;
    printf("<zone id=\"node%d\" routing=\"Full\">\n", node);
    for (int g = 0; g < GPUS; g++)
        printf("<host id=\"gpu%d\" speed=\"1Gf\"/>\n", node * GPUS + g);
    printf("<router id=\"gate%d\"/>\n", node);
    write_links(paths, node);
    for (int pair = 0; pair < GPUS * GPUS; pair++) { /* links stand before routes */
        int from = node * GPUS + pair / GPUS, to = node * GPUS + pair % GPUS;
        if (from == to)
            continue;
        find_route(paths, from, to, &route);
        printf("<link id=\"wire%d-%d\" bandwidth=\"1e18Bps\" latency=\"%.12fs\" sharing_policy=\"FATPIPE\"/>\n", from,
               to, route.latency_s / WIRES_TRIPS);
    }
    for (int a = 0; a < GPUS; a++) {
        int from = node * GPUS + a;
        for (int b = 0; b < GPUS; b++) {
            if (a == b)
                continue;
            find_route(paths, from, node * GPUS + b, &route);
            printf("<route src=\"gpu%d\" dst=\"gpu%d\" symmetrical=\"NO\">", from, node * GPUS + b);
            write_hops(paths, &route, node);
            printf("<link_ctn id=\"wire%d-%d\"/></route>\n", from, node * GPUS + b);
        }
        if (other == node)
            continue;
        find_route(paths, from, other * GPUS, &route);
        printf("<route src=\"gpu%d\" dst=\"gate%d\" symmetrical=\"NO\">", from, node);
        write_hops(paths, &route, node);
        printf("</route>\n");
        find_route(paths, other * GPUS, from, &route);
        printf("<route src=\"gate%d\" dst=\"gpu%d\" symmetrical=\"NO\">", node, from);
        write_hops(paths, &route, node);
        printf("</route>\n");
    }
    printf("</zone>\n");
}

static void write_between(ki_paths *paths, int nodes)
{
    ki_route route;
    if (nodes < 2)
        return;
    find_route(paths, 0, GPUS, &route);
    printf("<link id=\"network\" bandwidth=\"1e18Bps\" latency=\"%.12fs\" sharing_policy=\"FATPIPE\"/>\n",
           route.latency_s / WIRES_TRIPS);
    write_links(paths, -1);
    for (int a = 0; a < nodes; a++)
        for (int b = 0; b < nodes; b++) {
            if (a == b)
                continue;
            find_route(paths, a * GPUS, b * GPUS, &route);
            printf("<zoneRoute src=\"node%d\" dst=\"node%d\" gw_src=\"gate%d\" gw_dst=\"gate%d\" symmetrical=\"NO\">",
                   a, b, a, b);
            write_hops(paths, &route, -1);
            printf("<link_ctn id=\"network\"/></zoneRoute>\n");
        }
}

static void write_platform(const kith_topology *t, int nodes)
{
    ki_paths *paths = paths_of(t);
    printf("<?xml version='1.0'?>\n<!DOCTYPE platform SYSTEM \"https://simgrid.org/simgrid.dtd\">\n"
           "<platform version=\"4.1\">\n<zone id=\"world\" routing=\"Full\">\n");
    for (int n = 0; n < nodes; n++)
        write_node(paths, n, n == 0 ? (nodes > 1 ? 1 : 0) : 0);
    write_between(paths, nodes);
    printf("</zone>\n</platform>\n");
    ki_paths_destroy(paths);
}

/* ---- times ---- */

static int find_op(const char *name)
{
    static const char *const names[] = { "all_reduce", "reduce_scatter", "all_gather",
                                         "all_to_all", "send_recv",      "broadcast" };
    for (int i = 0; i < 6; i++)
        if (strcmp(names[i], name) == 0)
            return i;
    exit(fail(name));
}

static int write_times(const case_list *list, const kith_topology *t)
{
    for (int i = 0; i < list->count; i++) {
        double total_s = 0;
        for (int k = 0; k < list->items[i].phase_count; k++) {
            const case_phase *p = &list->items[i].phases[k];
            int *groups = cases_groups(list, p);
            kith_cost cost;
            if (kith_cost_collective(t, (kith_cost_op)find_op(p->op), p->algorithm, groups, p->size, p->count,
                                     p->nbytes, &cost) != KITH_OK)
                return fail(kith_error_detail());
            total_s += p->calls * cost.time_s;
            free(groups);
        }
        printf("%s %.9f\n", list->items[i].name, total_s);
    }
    return 0;
}

int main(int argc, char **argv)
{
    case_list list;
    if (argc != 3)
        return fail("usage: predict platform|hosts|times CASES");
    if (!cases_read(argv[2], &list))
        return 1;
    kith_topology *t = cases_machine(&list);
    int status = t == NULL;
    if (status == 0 && strcmp(argv[1], "platform") == 0)
        write_platform(t, list.nodes);
    else if (status == 0 && strcmp(argv[1], "hosts") == 0)
        for (int i = 0; i < list.nodes * GPUS; i++)
            printf("gpu%d\n", i);
    else if (status == 0)
        status = write_times(&list, t);
    kith_topology_destroy(t);
    cases_free(&list);
    return status;
}
