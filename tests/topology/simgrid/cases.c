/* tests/topology/simgrid/cases.c - see cases.h.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "cases.h"

#include "tests/topology/machine.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GPUS = 8 };

static bool wrong(const char *path, int line, const char *what)
{
    fprintf(stderr, "%s:%d: %s\n", path, line, what);
    return false;
}

static bool read_line(case_list *list, const char *path, int number, const char *line)
{
    case_item item = { 0 };
    case_phase p;
    if (line[0] == '#' || line[strspn(line, " \t\n")] == '\0')
        return true;
    if (sscanf(line, "machine %d %d %d %d", &list->nodes, &list->nics, &list->leaf, &list->uplinks) == 4)
        return list->nodes > 0 && list->nodes <= 4096 && list->nics > 0 ? true : wrong(path, number, "odd machine");
    if (sscanf(line, "case %63s", item.name) == 1) {
        case_item *items = (case_item *)realloc(list->items, sizeof *items * ((size_t)list->count + 1));
        if (items == NULL)
            return wrong(path, number, "no memory");
        list->items = items;
        list->items[list->count++] = item;
        return true;
    }
    if (sscanf(line, "phase %d %23s %31s %lf %d %d %d %d %15s", &p.calls, p.op, p.algorithm, &p.nbytes, &p.size,
               &p.count, &p.stride, &p.group_stride, p.order) != 9)
        return wrong(path, number, "neither machine, case nor phase");
    if (list->count == 0 || list->items[list->count - 1].phase_count == CASE_MOST_PHASES)
        return wrong(path, number, "a phase outside a case, or too many");
    int last = (p.count - 1) * p.group_stride + (p.size - 1) * p.stride;
    if (p.calls < 1 || p.size < 1 || p.count < 1 || p.stride < 0 || p.group_stride < 0 || last >= list->nodes * GPUS)
        return wrong(path, number, "groups beyond the machine");
    case_item *now = &list->items[list->count - 1];
    now->phases[now->phase_count++] = p;
    return true;
}

bool cases_read(const char *path, case_list *list)
{
    *list = (case_list){ 0 };
    FILE *file = fopen(path, "r");
    if (file == NULL)
        return wrong(path, 0, "cannot be opened");
    char line[256];
    bool is_good = true;
    for (int number = 1; is_good && fgets(line, sizeof line, file) != NULL; number++)
        is_good = read_line(list, path, number, line);
    fclose(file);
    return is_good;
}

void cases_free(case_list *list)
{
    free(list->items);
}

static int block_order(int i, int gpus, int block)
{
    int nodes_together = GPUS / block, group = i / GPUS % nodes_together, start = i / GPUS / nodes_together;
    int node = start * nodes_together + i % GPUS / block;
    return (node * GPUS + group * block + i % block) % gpus;
}

static void shuffle(int *order, int gpus)
{
    unsigned long state = 12345;
    for (int i = gpus - 1; i > 0; i--) {
        state = state * 6364136223846793005UL + 1442695040888963407UL;
        int j = (int)((state >> 33) % (unsigned long)(i + 1)), other = order[j];
        order[j] = order[i];
        order[i] = other;
    }
}

static int *make_order(const char *name, int nodes)
{
    int gpus = nodes * GPUS, *order = (int *)malloc(sizeof *order * (size_t)gpus);
    for (int i = 0; order != NULL && i < gpus; i++) {
        order[i] = i;
        if (strcmp(name, "across") == 0)
            order[i] = i % nodes * GPUS + i / nodes;
        else if (strcmp(name, "halves") == 0)
            order[i] = block_order(i, gpus, 4);
        else if (strcmp(name, "pairs") == 0)
            order[i] = block_order(i, gpus, 2);
    }
    if (order != NULL && strcmp(name, "shuffled") == 0)
        shuffle(order, gpus);
    return order;
}

int *cases_groups(const case_list *list, const case_phase *p)
{
    int *order = make_order(p->order, list->nodes);
    int *groups = (int *)malloc(sizeof *groups * (size_t)p->size * (size_t)p->count);
    if (order == NULL || groups == NULL)
        abort(); /* a program for measuring, not the library */
    machine_groups(groups, p->size, p->count, p->stride, p->group_stride);
    for (int i = 0; i < p->size * p->count; i++)
        groups[i] = order[groups[i]];
    free(order);
    return groups;
}

kith_topology *cases_machine(const case_list *list)
{
    machine_spec spec = machine_hgx_h100;
    spec.nodes = list->nodes;
    spec.nics = list->nics;
    spec.nodes_of_leaf = list->leaf;
    spec.uplinks = list->uplinks;
    spec.uplink_gbps = 48;
    return machine_create(&spec);
}
