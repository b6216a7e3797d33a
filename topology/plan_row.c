/* topology/plan_row.c - one kind of communication: what a rank sends, and how long it takes on each class of link.
 *
 * Ring, n ranks, S bytes, latency a of a step, bandwidth B:
 *
 *     all_reduce                    2(n-1) a + 2(n-1)/n S/B
 *     reduce_scatter, all_gather     (n-1) a +  (n-1)/n S/B
 *     all_to_all                     (n-1) a +  (n-1)/n S/B
 *     send_recv, shift                     a +          S/B
 *
 * The classes are what one H100 has of each: 18 NVLink 4, PCIe 5 x16, one NDR port. B is the effective column of the
 * table of constants, so a file with measured constants changes them.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "model.h"
#include "plan_parts.h"

#include <string.h>

static const struct {
    const char *name, *key;
    double count, nominal_gbps;
} classes[KITH_PLAN_LINKS] = {
    [KITH_PLAN_NVLINK] = { "nvlink", "nvlink4", 18, 900 },
    [KITH_PLAN_PCIE] = { "pcie", "pcie5", 1, 64 },
    [KITH_PLAN_IB] = { "ib", "ndr", 1, 50 },
};

static const struct {
    const char *op;
    kith_cost_op cost_op;
    double passes; /* how often (n-1)/n of the vector passes a rank; 0: the whole once */
} ops[] = {
    { "all_reduce", KITH_COST_ALL_REDUCE, 2 }, { "reduce_scatter", KITH_COST_REDUCE_SCATTER, 1 },
    { "all_gather", KITH_COST_ALL_GATHER, 1 }, { "all_to_all", KITH_COST_ALL_TO_ALL, 1 },
    { "send_recv", KITH_COST_SEND_RECV, 0 },   { "shift", KITH_COST_SHIFT, 0 },
};

const char *kith_plan_link_name(kith_plan_link link)
{
    return (unsigned)link < KITH_PLAN_LINKS ? classes[link].name : "?";
}

double kith_plan_link_nominal_gbps(kith_plan_link link)
{
    return (unsigned)link < KITH_PLAN_LINKS ? classes[link].nominal_gbps : 0;
}

static size_t op_index(const char *op)
{
    size_t i = 0;
    while (i + 1 < sizeof ops / sizeof ops[0] && strcmp(ops[i].op, op) != 0)
        i++;
    return i;
}

kith_cost_op ki_layout_cost_op(const char *op)
{
    return ops[op_index(op)].cost_op;
}

double ki_layout_wire(const char *op, int group_size, double nbytes)
{
    double passes = ops[op_index(op)].passes;
    return passes > 0 ? passes * (group_size - 1) / group_size * nbytes : nbytes;
}

double ki_layout_link_gbps(const kith_topology *topology, kith_plan_link link)
{
    return classes[link].count * ki_constant(topology, classes[link].key)->effective_gbps;
}

double ki_layout_link_time(const kith_topology *topology, kith_plan_link link, const char *op, int group_size,
                           double nbytes)
{
    const kith_constant *constant = ki_constant(topology, classes[link].key);
    double passes = ops[op_index(op)].passes;
    double steps = passes > 0 ? passes * (group_size - 1) : 1;
    double bytes_per_s = ki_layout_link_gbps(topology, link) * 1e9;
    return steps * constant->latency_us * 1e-6 + ki_layout_wire(op, group_size, nbytes) / bytes_per_s;
}

void ki_layout_add_row(kith_plan *plan, const kith_topology *topology, kith_plan_traffic_row row)
{
    if (row.group_size <= 1 || !(row.ops > 0) || !(row.message_nbytes > 0) || plan->row_count == KITH_PLAN_MAX_ROWS)
        return;
    if (row.group == NULL)
        row.group = row.axis;
    if (!(row.group_ops > 0))
        row.group_ops = row.ops;
    row.wire_nbytes = ki_layout_wire(row.op, row.group_size, row.message_nbytes);
    for (int link = 0; link < KITH_PLAN_LINKS; link++)
        row.time_s[link] =
            row.ops * ki_layout_link_time(topology, (kith_plan_link)link, row.op, row.group_size, row.message_nbytes);
    row.placed_s = -1;
    plan->rows[plan->row_count++] = row;
}
