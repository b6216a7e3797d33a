/* tests/topology/simgrid/cases.h - what is predicted and simulated, read from one file by both programs.
 *
 * A file has lines
 *     machine NODES NICS LEAF UPLINKS       HGX H100 nodes of 8 GPUs; LEAF nodes on a leaf switch with UPLINKS of
 *                                           48 GB/s (0 0: no switches)
 *     case NAME                             begins a case: its phases follow each other without a pause
 *     phase CALLS OP ALGORITHM NBYTES SIZE COUNT STRIDE GROUP_STRIDE ORDER
 *                                           CALLS times, COUNT groups of SIZE at the same time; member i of group g
 *                                           is GPU ORDER[g * GROUP_STRIDE + i * STRIDE]
 * Orders: identity, across (GPU g of all nodes, then g + 1), halves, pairs (4 or 2 neighbours of a node together),
 * shuffled (a fixed pseudo-random order).
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef TESTS_SIMGRID_CASES_H
#define TESTS_SIMGRID_CASES_H

#include <kith/topology.h>
#include <stdbool.h>

typedef struct case_phase {
    char op[24], algorithm[32], order[16];
    double nbytes;
    int calls, size, count, stride, group_stride;
} case_phase;

enum { CASE_MOST_PHASES = 8 };

typedef struct case_item {
    char name[64];
    case_phase phases[CASE_MOST_PHASES];
    int phase_count;
} case_item;

typedef struct case_list {
    int nodes, nics, leaf, uplinks;
    case_item *items;
    int count;
} case_list;

/* False with a message on stderr. */
bool cases_read(const char *path, case_list *list);
void cases_free(case_list *list);

/* groups[size * count] of a phase; the caller frees. */
int *cases_groups(const case_list *list, const case_phase *phase);

/* The machine. */
kith_topology *cases_machine(const case_list *list);

#endif
