/* tests/topology/test_cost_links.c - a machine with one link fewer is never cheaper, and no order of the ranks is
 * cheaper than what is reported for it.
 *
 * Machines are matrices as `nvidia-smi topo -m` prints them, made here: GPUs on PCI switches and sockets, with direct
 * links between random pairs. Without its links a pair has what PCIe gives it, and nothing else changes: the model of
 * the GPUs is told, so it is not guessed from the links. Links of a pair are wider than PCIe: the bytes of a pair take
 * its direct links even where those are narrower (a single NVLink beside PCIe 4), as CUDA has it.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include <kith/context.h>
#include <kith/placement.h>
#include <kith/status.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MOST_GPUS = 8, MACHINES = 300, TEXT = 4096, MOST_LINKS = 12 /* more would be a switch */ };

/* Sets of rings that carry as much may differ by some latencies. */
#define LATENCIES 0.01

typedef struct machine {
    int gpus, on_switch, on_socket; /* GPUs of a switch, of a socket */
    int links[MOST_GPUS][MOST_GPUS];
} machine;

static unsigned next_random(unsigned *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 8;
}

static int below(unsigned *seed, int limit)
{
    return (int)(next_random(seed) % (unsigned)limit);
}

static machine random_machine(unsigned seed)
{
    static const int widths[] = { 2, 3, 4 };
    machine m = { .gpus = 3 + below(&seed, MOST_GPUS - 2), .on_switch = 1 + below(&seed, 4) };
    m.on_socket = m.on_switch * (1 + below(&seed, 3));
    int tenths = 2 + below(&seed, 9); /* of the pairs have links */
    int used[MOST_GPUS] = { 0 };
    for (int i = 0; i < m.gpus; i++)
        for (int j = 0; j < i; j++) {
            int width = widths[below(&seed, 3)];
            if (below(&seed, 10) >= tenths || used[i] + width > MOST_LINKS || used[j] + width > MOST_LINKS)
                continue;
            m.links[i][j] = m.links[j][i] = width;
            used[i] += width;
            used[j] += width;
        }
    return m;
}

static machine cube_mesh(void)
{
    static const int links[MOST_GPUS][MOST_GPUS] = {
        { 0, 1, 1, 2, 2, 0, 0, 0 }, { 1, 0, 2, 1, 0, 2, 0, 0 }, { 1, 2, 0, 2, 0, 0, 1, 0 }, { 2, 1, 2, 0, 0, 0, 0, 1 },
        { 2, 0, 0, 0, 0, 1, 1, 2 }, { 0, 2, 0, 0, 1, 0, 2, 1 }, { 0, 0, 1, 0, 1, 2, 0, 2 }, { 0, 0, 0, 1, 2, 1, 2, 0 },
    };
    machine m = { .gpus = MOST_GPUS, .on_switch = 2, .on_socket = 4 };
    memcpy(m.links, links, sizeof links);
    return m;
}

static const char *class_of(const machine *m, int i, int j)
{
    return i / m->on_switch == j / m->on_switch ? "PIX" : i / m->on_socket == j / m->on_socket ? "NODE" : "SYS";
}

static kith_topology *parse(const machine *m, const char *gpu)
{
    char text[TEXT] = "";
    size_t used = 0;
    for (int i = 0; i < m->gpus; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "\tGPU%d", i);
    used += (size_t)snprintf(text + used, sizeof text - used, "\tCPU Affinity\tNUMA Affinity\n");
    for (int i = 0; i < m->gpus; i++) {
        used += (size_t)snprintf(text + used, sizeof text - used, "GPU%d", i);
        for (int j = 0; j < m->gpus; j++)
            if (m->links[i][j] > 0)
                used += (size_t)snprintf(text + used, sizeof text - used, "\tNV%d", m->links[i][j]);
            else
                used += (size_t)snprintf(text + used, sizeof text - used, "\t%s", i == j ? " X " : class_of(m, i, j));
        used += (size_t)snprintf(text + used, sizeof text - used, "\t%d-%d\t%d\n", i / m->on_socket * 32,
                                 i / m->on_socket * 32 + 31, i / m->on_socket);
    }
    kith_topology_options o = KITH_TOPOLOGY_OPTIONS_INIT;
    kith_topology *t;
    o.gpu = gpu;
    if (kith_topology_parse("matrix", text, used, &o, &t) != KITH_OK)
        fail_msg("%s\n%s", kith_error_detail(), text);
    return t;
}

typedef struct layout {
    int tp, dp, pp;
} layout;

static kith_placement *place(const kith_topology *t, layout l)
{
    kith_placement_options o = KITH_PLACEMENT_OPTIONS_INIT;
    kith_placement *p;
    o.tp = l.tp;
    o.dp = l.dp;
    o.pp = l.pp;
    if (kith_place(t, &o, &p) != KITH_OK)
        fail_msg("tp %d, dp %d, pp %d: %s", l.tp, l.dp, l.pp, kith_error_detail());
    return p;
}

/* What is reported for an axis is not above the price of its groups in the order of the ranks. */
static void check_rank_order(const char *name, const kith_topology *t, const kith_placement *p, const char *axis_name)
{
    const kith_axis_report *axis = kith_placement_axis(p, axis_name);
    kith_cost cost;
    if (axis->size == 1)
        return;
    assert_int_equal(kith_cost_collective(t, KITH_COST_ALL_REDUCE, NULL, axis->groups, axis->size, axis->group_count,
                                          64.0 * 1024 * 1024, &cost),
                     KITH_OK);
    if (axis->cost.time_s > cost.time_s * (1 + 1e-9))
        fail_msg("%s, %s of %d: reported %.9g s by %s, in the order of the ranks %.9g s by %s", name, axis_name,
                 axis->size, axis->cost.time_s, axis->cost.algorithm, cost.time_s, cost.algorithm);
}

static double cost_of(const char *name, const machine *m, const char *gpu, layout l)
{
    kith_topology *t = parse(m, gpu);
    kith_placement *p = place(t, l);
    double cost = kith_placement_cost(p);
    if (cost > kith_placement_identity_cost(p) * (1 + 1e-9))
        fail_msg("%s: placed %.9g, in the order of the numbers %.9g", name, cost, kith_placement_identity_cost(p));
    check_rank_order(name, t, p, "tp");
    check_rank_order(name, t, p, "dp");
    kith_placement_destroy(p);
    kith_topology_destroy(t);
    return cost;
}

/* Returns how many removals made it cheaper; each is told. */
static int check_removal(const char *name, machine m, const char *gpu, layout l, int i, int j)
{
    double with = cost_of(name, &m, gpu, l);
    m.links[i][j] = m.links[j][i] = 0;
    double without = cost_of(name, &m, gpu, l);
    if (without >= with * (1 - LATENCIES))
        return 0;
    print_error("%s, %d GPUs, tp %d, dp %d, pp %d: wanted at least %.9g without the link %d-%d, got %.9g\n", name,
                m.gpus, l.tp, l.dp, l.pp, with, i, j, without);
    return 1;
}

/* A tp of 2, 3, 4 or 8: which ranks of another number should meet first in exchanges of pairs is not searched. */
static layout random_layout(unsigned *seed, int gpus)
{
    switch (below(seed, gpus >= 4 ? 5 : 2)) {
    case 0:
        return (layout){ 2, 1, 1 };
    case 1:
        return (layout){ 3, 1, 1 };
    case 2:
        return (layout){ 2, gpus / 2, 1 };
    case 3:
        return (layout){ 2, 1, 2 };
    default:
        return (layout){ gpus == MOST_GPUS ? MOST_GPUS : 4, 1, 1 };
    }
}

static double ring_cost(const machine *m, const char *algorithm, const int *order)
{
    kith_topology *t = parse(m, "A100");
    kith_cost cost;
    if (kith_cost_collective(t, KITH_COST_ALL_REDUCE, algorithm, order, m->gpus, 1, 64.0 * 1024 * 1024, &cost) !=
        KITH_OK)
        fail_msg("%s: %s", algorithm, kith_error_detail());
    kith_topology_destroy(t);
    return cost.time_s;
}

/* Rings through all GPUs, of every number: with a link fewer not cheaper, and one ring in some order not either. */
static int check_rings(const char *name, machine m, unsigned seed, int i, int j)
{
    int order[MOST_GPUS];
    for (int g = 0; g < m.gpus; g++)
        order[g] = g;
    double with = ring_cost(&m, "multi_ring", order);
    for (int g = m.gpus - 1; g > 0; g--) {
        int other = below(&seed, g + 1), gpu = order[g];
        order[g] = order[other];
        order[other] = gpu;
    }
    double one = ring_cost(&m, "ring", order);
    m.links[i][j] = m.links[j][i] = 0;
    double without = ring_cost(&m, "multi_ring", order);
    if (without >= with * (1 - LATENCIES) && one >= with * (1 - 1e-9))
        return 0;
    print_error("%s, %d GPUs: multi_ring takes %.9g; without the link %d-%d %.9g, one ring %.9g\n", name, m.gpus, with,
                i, j, without, one);
    return 1;
}

static void test_random(void **state)
{
    (void)state;
    int failures = 0, checked = 0;
    for (unsigned n = 1; n <= MACHINES; n++) {
        unsigned seed = n * 2654435761u;
        machine m = random_machine(seed);
        char name[32];
        snprintf(name, sizeof name, "machine %u", n);
        int pairs[MOST_GPUS * MOST_GPUS][2], count = 0;
        for (int i = 0; i < m.gpus; i++)
            for (int j = 0; j < i; j++)
                if (m.links[i][j] > 0) {
                    pairs[count][0] = i;
                    pairs[count++][1] = j;
                }
        if (count == 0)
            continue;
        int pair = below(&seed, count);
        failures += check_removal(name, m, "A100", random_layout(&seed, m.gpus), pairs[pair][0], pairs[pair][1]);
        failures += check_rings(name, m, seed, pairs[pair][0], pairs[pair][1]);
        checked++;
    }
    if (failures > 0 || checked < MACHINES * 9 / 10)
        fail_msg("%d of %d machines got cheaper; wanted none of at least %d", failures, checked, MACHINES * 9 / 10);
}

static void test_cube_mesh(void **state)
{
    (void)state;
    static const layout layouts[] = { { 2, 1, 1 }, { 4, 1, 1 }, { 8, 1, 1 }, { 4, 2, 1 }, { 2, 1, 2 }, { 7, 1, 1 } };
    const machine m = cube_mesh();
    int failures = 0;
    for (size_t l = 0; l < sizeof layouts / sizeof layouts[0]; l++)
        for (int i = 0; i < m.gpus; i++)
            for (int j = 0; j < i; j++)
                if (m.links[i][j] > 0)
                    failures += check_removal("cube mesh", m, "V100", layouts[l], i, j);
    assert_int_equal(failures, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_random), cmocka_unit_test(test_cube_mesh) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
