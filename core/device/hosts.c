/* core/device/hosts.c - see hosts.h.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "hosts.h"

#include "../base/error.h"
#include "../base/log.h"
#include "../coll.h"
#include "../dispatch.h"
#include "../exchange.h"
#include "../group.h"
#include "../progress.h"
#include "../request.h"
#include "facts.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MOST_PHASES 5

typedef struct phase {
    kith_group *group;
    kith_coll_args args;
} phase;

struct ki_device_hosts {
    phase phases[MOST_PHASES];
    int count, next;
    kith_request *child;
};

/* ---- which groups ---- */

static bool has_own_device(const kith_group *group, int rank)
{
    const struct ki_device_fact *facts = group->ctx->device_facts;
    const struct ki_device_fact *own = &facts[group->world_ranks[rank]];
    for (int i = 0; i < rank; i++)
        if (group->node_of[i] == group->node_of[rank] && facts[group->world_ranks[i]].identity == own->identity)
            return false;
    return own->has_device && own->can_nccl;
}

/* The same number on every host, two or more. */
static bool is_even(const kith_group *group)
{
    int first = 0;
    for (int node = 0; node < group->node_count; node++) {
        int members = 0;
        for (int i = 0; i < group->size; i++)
            members += group->node_of[i] == node;
        if (node == 0)
            first = members;
        if (members != first)
            return false;
    }
    return first >= 2;
}

static bool is_possible(const kith_group *group)
{
    for (int i = 0; i < group->size; i++)
        if (!has_own_device(group, i))
            return false;
    return is_even(group);
}

static bool is_wanted(const kith_group *group)
{
    const char *mode = ki_config_get(group->ctx->config, "device_hier");
    const struct ki_group_device *device = group->device;
    if (device == NULL || group->is_internal || group->node_count < 2 || strcmp(mode, "off") == 0)
        return false;
    return strcmp(mode, "on") == 0 || device->has_tried;
}

/* ---- making them ---- */

static int place_in_host(const kith_group *group, int rank)
{
    int place = 0;
    for (int i = 0; i < rank; i++)
        place += group->node_of[i] == group->node_of[rank];
    return place;
}

static kith_status build_part(kith_group *group, bool is_inside, kith_group **part)
{
    const char *suffix = is_inside ? "inside" : "across";
    int count = 0, mine = 0, place = place_in_host(group, group->rank);
    int *ranks = group->node_of + group->size; /* room that every group has (group_build.c) */
    for (int i = 0; i < group->size; i++) {
        bool is_in = is_inside ? group->node_of[i] == group->node_of[group->rank] : place_in_host(group, i) == place;
        if (!is_in)
            continue;
        if (i == group->rank)
            mine = count;
        ranks[count++] = group->world_ranks[i];
    }
    return ki_group_build_part(group, suffix, is_inside ? "nccl" : group->backend->name, ranks, count, mine, part);
}

/* All members end up with both, or with none. */
kith_status ki_device_hosts_open(kith_group *group)
{
    if (!is_wanted(group))
        return KITH_OK;
    bool is_forced = strcmp(ki_config_get(group->ctx->config, "device_hier"), "on") == 0;
    if (!is_possible(group)) {
        if (is_forced)
            ki_log(KITH_LOG_INFO,
                   "group '%s': device_hier=on needs the same number of ranks on each host, two at least, each with a "
                   "device of its own and NCCL: its all_reduces go otherwise",
                   group->name);
        return KITH_OK;
    }
    struct ki_group_device *device = group->device;
    kith_status status = build_part(group, true, &device->inside);
    kith_status among = build_part(group, false, &device->across);
    if (status == KITH_OK)
        status = among;
    status = ki_group_exchange(group, "all_reduce inside hosts and between them", status, NULL, 0, NULL);
    if (status == KITH_OK) {
        ki_log(KITH_LOG_INFO, "group '%s': all_reduce on device memory goes over nccl inside hosts and %s between them",
               group->name, group->backend->name);
        return KITH_OK;
    }
    ki_device_hosts_close(group);
    if (is_forced)
        return status;
    ki_log(KITH_LOG_WARN, "group '%s': all_reduce on device memory is not split by hosts: %s", group->name,
           kith_error_detail());
    return KITH_OK;
}

void ki_device_hosts_close(kith_group *group)
{
    struct ki_group_device *device = group->device;
    ki_group_dispose(device->inside);
    ki_group_dispose(device->across);
    device->inside = device->across = NULL;
}

void ki_device_hosts_fail(kith_group *group)
{
    kith_group *parts[] = { group->device->inside, group->device->across };
    for (size_t i = 0; i < 2; i++)
        if (parts[i] != NULL)
            ki_group_fail(parts[i], group->status, "%s", group->reason);
}

void ki_device_hosts_abort(kith_group *group)
{
    kith_group *parts[] = { group->device->inside, group->device->across };
    for (size_t i = 0; i < 2; i++)
        if (parts[i] != NULL)
            kith_group_abort(parts[i]);
}

/* ---- one operation ---- */

static bool has_inside(const kith_group *inside, const kith_be_coll *coll, kith_coll_kind kind, const ki_op *op)
{
    kith_be_coll part = *coll;
    part.kind = kind;
    return ki_dispatch_is_native(inside, &part, op, true);
}

static bool is_float(kith_dtype dtype)
{
    return dtype == KITH_F16 || dtype == KITH_BF16 || dtype == KITH_F32 || dtype == KITH_F64 || dtype == KITH_F8E4M3 ||
           dtype == KITH_F8E5M2;
}

bool ki_device_hosts_can(const kith_group *group, const kith_be_coll *coll, const ki_op *op)
{
    const kith_group *inside = group->device != NULL ? group->device->inside : NULL;
    if (inside == NULL || coll->kind != KITH_ALL_REDUCE || op->builtin == KI_OP_USER ||
        ki_select_forced(group->ctx->select, coll->kind) != NULL)
        return false;
    if (op->builtin == KITH_AVG && !is_float(coll->dtype))
        return false;
    return has_inside(inside, coll, KITH_REDUCE_SCATTER, op) && has_inside(inside, coll, KITH_REDUCE, op) &&
           has_inside(inside, coll, KITH_ALL_GATHER, NULL) && has_inside(inside, coll, KITH_BROADCAST, NULL);
}

static void add(ki_device_hosts *hosts, kith_group *group, kith_coll_args args)
{
    args.struct_size = sizeof args;
    if (args.count > 0)
        hosts->phases[hosts->count++] = (phase){ group, args };
}

/* part: what each rank of the host takes; rest: what the last takes beside it. */
static void plan(const kith_request *request, ki_device_hosts *hosts)
{
    const kith_be_coll *coll = &request->coll;
    kith_group *inside = request->group->device->inside;
    size_t ranks = (size_t)inside->size, part = coll->count / ranks, rest = coll->count % ranks;
    const unsigned char *send = (const unsigned char *)coll->send;
    unsigned char *recv = (unsigned char *)coll->recv, *own = recv + (size_t)inside->rank * part * coll->nbytes;
    size_t behind = ranks * part * coll->nbytes;
    int last = inside->size - 1;
    kith_op among = request->reducer.op->builtin == KI_OP_PREMUL_SUM ? KITH_SUM : request->op_number;
    const kith_coll_args same = { .dtype = coll->dtype, .op = request->op_number, .root = last };
    kith_coll_args reduce_scatter = same, reduce = same, all_reduce = same, all_gather = same, broadcast = same;
    reduce_scatter.kind = KITH_REDUCE_SCATTER, reduce_scatter.count = part;
    reduce_scatter.send = send, reduce_scatter.recv = own;
    reduce.kind = KITH_REDUCE, reduce.count = rest;
    reduce.send = send + behind, reduce.recv = recv + behind;
    all_reduce.kind = KITH_ALL_REDUCE, all_reduce.count = part + (inside->rank == last ? rest : 0);
    all_reduce.send = all_reduce.recv = own, all_reduce.op = among;
    all_gather.kind = KITH_ALL_GATHER, all_gather.count = part;
    all_gather.send = own, all_gather.recv = recv;
    broadcast.kind = KITH_BROADCAST, broadcast.count = rest;
    broadcast.recv = recv + behind;
    add(hosts, inside, reduce_scatter);
    add(hosts, inside, reduce);
    add(hosts, request->group->device->across, all_reduce);
    add(hosts, inside, all_gather);
    add(hosts, inside, broadcast);
}

kith_status ki_device_hosts_start(kith_request *request, ki_device_hosts **hosts)
{
    *hosts = (ki_device_hosts *)calloc(1, sizeof **hosts);
    if (*hosts == NULL)
        return ki_fail(KITH_ERR_NO_MEMORY, "no memory for an all_reduce over several hosts");
    plan(request, *hosts);
    return KITH_OK;
}

static kith_status start_phase(ki_device_hosts *hosts, const phase *now)
{
    kith_status status = ki_coll_make(now->group, &now->args, false, &hosts->child);
    if (status == KITH_OK)
        status = ki_device_classify(hosts->child);
    return status == KITH_OK ? ki_coll_post(hosts->child) : status;
}

kith_status ki_device_hosts_step(ki_device_hosts *hosts, bool *is_done)
{
    for (;;) {
        if (hosts->child != NULL) {
            if (hosts->child->state != KI_STATE_DONE)
                return KITH_OK;
            kith_request *child = hosts->child;
            hosts->child = NULL;
            kith_status status = ki_request_collect(child);
            if (status != KITH_OK)
                return status;
        }
        if (hosts->next == hosts->count)
            break;
        kith_status status = start_phase(hosts, &hosts->phases[hosts->next++]);
        if (status != KITH_OK)
            return status;
    }
    *is_done = true;
    return KITH_OK;
}

void ki_device_hosts_cancel(kith_request *request, ki_device_hosts *hosts)
{
    kith_group *group = request->group;
    kith_request *child = hosts != NULL ? hosts->child : NULL;
    if (group->ctx->store != NULL && !group->is_abort_told) {
        group->is_abort_told = true;
        ki_store_announce(group->ctx->store, KI_EVENT_ABORT, group->id);
    }
    if (child == NULL)
        return;
    hosts->child = NULL;
    if (child->way == KI_WAY_DEVICE) /* what is on the device ends with its group */
        ki_group_fail(child->group, KITH_ERR_ABORTED, "an all_reduce of group '%s' ended early", group->name);
    if (child->state == KI_STATE_IDLE) { /* was not posted */
        ki_dispatch_finish(child);
        ki_request_release(child);
        return;
    }
    if (child->state != KI_STATE_DONE)
        ki_request_cancel(child, KITH_ERR_ABORTED);
    ki_request_collect(child);
}

void ki_device_hosts_free(ki_device_hosts *hosts)
{
    free(hosts);
}
