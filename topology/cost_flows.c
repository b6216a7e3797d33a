/* topology/cost_flows.c - how long transfers take that move at the same time; see cost.h.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "cost.h"

#include "core/base/mem.h"

enum { MOST_KEPT = 1 << 14, HOPS_OF_ROUTE = 6 /* about */ };

kith_status ki_flows_create(ki_paths *paths, size_t transfers, ki_flows **flows)
{
    size_t kept = transfers < MOST_KEPT ? transfers : MOST_KEPT;
    size_t count = (size_t)ki_paths_resource_count(paths) + 1;
    ki_flows *f = (ki_flows *)ki_calloc(NULL, 1, sizeof *f);
    if (f == NULL)
        return KITH_ERR_NO_MEMORY;
    f->paths = paths;
    f->load = (double *)ki_calloc(NULL, count, sizeof *f->load);
    f->touched = (int *)ki_calloc(NULL, count, sizeof *f->touched);
    f->kept = (ki_kept_route *)ki_calloc(NULL, kept + 1, sizeof *f->kept);
    f->hops = (ki_hop *)ki_calloc(NULL, HOPS_OF_ROUTE * kept + 1, sizeof *f->hops);
    f->kept_room = (int)kept;
    f->hop_room = HOPS_OF_ROUTE * (int)kept;
    if (f->load == NULL || f->touched == NULL || f->kept == NULL || f->hops == NULL) {
        ki_flows_destroy(f);
        return KITH_ERR_NO_MEMORY;
    }
    *flows = f;
    return KITH_OK;
}

void ki_flows_destroy(ki_flows *f)
{
    if (f == NULL)
        return;
    ki_free(NULL, f->load);
    ki_free(NULL, f->touched);
    ki_free(NULL, f->kept);
    ki_free(NULL, f->hops);
    ki_free(NULL, f);
}

void ki_flows_clear(ki_flows *f)
{
    for (int i = 0; i < f->touched_count; i++)
        f->load[f->touched[i]] = 0;
    f->touched_count = f->kept_count = f->hop_count = f->next = 0;
}

static void keep(ki_flows *f, int from, int to, const ki_route *route)
{
    if (f->kept_count == f->kept_room || f->hop_count + route->hop_count > f->hop_room)
        return;
    f->kept[f->kept_count++] = (ki_kept_route){ from, to, f->hop_count, *route };
    for (int i = 0; i < route->hop_count; i++)
        f->hops[f->hop_count++] = route->hops[i];
}

static bool recall(ki_flows *f, int from, int to, ki_route *route)
{
    if (f->next == f->kept_count || f->kept[f->next].from != from || f->kept[f->next].to != to)
        return false;
    const ki_kept_route *kept = &f->kept[f->next++];
    *route = kept->route;
    route->hops = f->hops + kept->first_hop;
    return true;
}

static bool find_route(ki_flows *f, int from, int to, ki_route *route)
{
    kith_status status = ki_paths_route(f->paths, from, to, route);
    if (f->status == KITH_OK && status != KITH_OK) {
        f->status = status;
        f->unknown_from = from;
        f->unknown_to = to;
    }
    return status == KITH_OK;
}

void ki_flows_add(ki_flows *f, int from, int to, double nbytes)
{
    ki_route route;
    if (from == to || !(nbytes > 0) || !find_route(f, from, to, &route))
        return;
    keep(f, from, to, &route);
    for (int i = 0; i < route.hop_count; i++) {
        double *load = &f->load[route.hops[i].resource];
        if (*load <= 0)
            f->touched[f->touched_count++] = route.hops[i].resource;
        *load += nbytes * (double)route.hops[i].share;
    }
}

ki_hop_time ki_flows_time(ki_flows *f, int from, int to, double nbytes)
{
    ki_hop_time time = { .type = KITH_LINK_SELF, .gbps = __builtin_inf() };
    ki_route route;
    if (from == to || (!recall(f, from, to, &route) && !find_route(f, from, to, &route)))
        return time;
    const double *gbps = ki_paths_gbps(f->paths);
    double alone_s = nbytes / route.gbps, slowest_s = alone_s;
    int slowest = -1;
    for (int i = 0; i < route.hop_count; i++) {
        int resource = route.hops[i].resource;
        double resource_s = f->load[resource] / gbps[resource];
        if (resource_s > slowest_s * (1 + 1e-6)) {
            slowest_s = resource_s;
            slowest = resource;
        }
    }
    time.type = route.type;
    time.latency_s = route.latency_s;
    time.transfer_s = slowest_s * 1e-9;
    time.alone_s = alone_s * 1e-9;
    time.gbps = nbytes > 0 ? nbytes / slowest_s : route.gbps;
    time.is_shared = slowest >= 0 && ki_paths_is_common(f->paths, slowest);
    return time;
}

void ki_price_see(ki_price *price, const ki_hop_time *hop, int from, int to, double share)
{
    double gbps = hop->gbps / share;
    if (!(gbps < price->gbps * (1 - 1e-6)))
        return;
    price->gbps = gbps;
    price->slowest = hop->type;
    price->from = from;
    price->to = to;
    price->is_shared = hop->is_shared;
}

void ki_price_add(ki_price *price, const ki_price *next)
{
    double time_s = price->time_s + next->time_s, latency_s = price->latency_s + next->latency_s;
    if (next->gbps < price->gbps)
        *price = *next;
    price->time_s = time_s;
    price->latency_s = latency_s;
}
