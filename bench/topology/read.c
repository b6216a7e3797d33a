/* bench/topology/read.c - how long it takes to read a description of a machine.
 *
 *     bench-topology fabric.out "2048 nodes of 8 H100 on NVSwitch, 8 NICs of NDR, 32 nodes a leaf, rails"
 *
 * Each argument is a path or a description, as kith_topology_load() takes it, and is read again and again for a second
 * (at least 5 times). One line each: the fastest and the median time, and what it describes.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include <kith/kith.h>
#include <kith/topology.h>

#include "../engine/clock.h"
#include <stdio.h>
#include <stdlib.h>

enum { LEAST = 5, MOST = 10000 };

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* Reads it once; milliseconds, or below 0 after a failure. */
static double read_once(const char *path, int *nodes, int *switches)
{
    const char *const paths[] = { path };
    kith_topology *t = NULL;
    uint64_t begin = bench_system_ns();
    if (kith_topology_load(paths, 1, NULL, &t) != KITH_OK)
        return -1;
    double milliseconds = (double)(bench_system_ns() - begin) / 1e6;
    *nodes = kith_topology_node_count(t);
    *switches = kith_topology_switch_count(t);
    kith_topology_destroy(t);
    return milliseconds;
}

static int measure(const char *path)
{
    static double times[MOST];
    int count = 0, nodes = 0, switches = 0;
    double total = 0;
    while (count < MOST && (count < LEAST || total < 1000)) {
        times[count] = read_once(path, &nodes, &switches);
        if (times[count] < 0) {
            fprintf(stderr, "bench-topology: %s\n", kith_error_detail());
            return 1;
        }
        total += times[count++];
    }
    qsort(times, (size_t)count, sizeof *times, compare);
    printf("%8.3f ms fastest %8.3f ms median of %5d: %d nodes, %d switches: %s\n", times[0], times[count / 2], count,
           nodes, switches, path);
    return 0;
}

int main(int count, char **arguments)
{
    int failed = 0;
    if (count < 2) {
        fprintf(stderr, "usage: bench-topology FILE|DESCRIPTION...\n");
        return 2;
    }
    for (int i = 1; i < count; i++)
        failed |= measure(arguments[i]);
    return failed;
}
