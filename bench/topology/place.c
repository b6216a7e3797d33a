/* bench/topology/place.c - how long kith_place() takes on large machines.
 *
 *     bench-place                        512 and 2048 nodes of 8 GPUs: even switches, uneven switches, nodes missing
 *     bench-place PATH... [--tp N] [--pp N]       one machine, as for kith_topology_load()
 *
 * Prints a row for each machine: ranks, seconds for reading, placing and writing JSON (the best of three), the cost of
 * a step found, in the order of the numbers, and the lower bound.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include <kith/context.h>
#include <kith/placement.h>
#include <kith/status.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { ROUNDS = 3, MOST_PATHS = 16 };

static double now_s(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static int fail(const char *what)
{
    fprintf(stderr, "bench-place: %s: %s\n", what, kith_error_detail());
    return 1;
}

/* One machine, several times: the fastest round counts. */
static int measure(const char *name, const char *const *paths, size_t path_count, int tp, int pp)
{
    double load_s = 1e9, place_s = 1e9, print_s = 1e9;
    kith_placement_options options = KITH_PLACEMENT_OPTIONS_INIT;
    options.tp = tp;
    options.pp = pp;
    for (int round = 0; round < ROUNDS; round++) {
        kith_topology *t;
        kith_placement *p;
        char *text;
        double start = now_s();
        if (kith_topology_load(paths, path_count, NULL, &t) != KITH_OK)
            return fail(name);
        double loaded = now_s();
        if (kith_place(t, &options, &p) != KITH_OK) {
            kith_topology_destroy(t);
            return fail(name);
        }
        double placed = now_s();
        if (kith_placement_print(t, p, KITH_FORMAT_JSON, &text) == KITH_OK)
            kith_free(text);
        double printed = now_s();
        load_s = loaded - start < load_s ? loaded - start : load_s;
        place_s = placed - loaded < place_s ? placed - loaded : place_s;
        print_s = printed - placed < print_s ? printed - placed : print_s;
        if (round == ROUNDS - 1)
            printf("%-32s %7d ranks  read %8.4f s  place %8.4f s  write %8.4f s  step %.4g s, by number %.4g s, bound "
                   "%.4g s\n",
                   name, kith_placement_rank_count(p), load_s, place_s, print_s, kith_placement_cost(p),
                   kith_placement_identity_cost(p), kith_placement_lower_bound(p));
        kith_placement_destroy(p);
        kith_topology_destroy(t);
    }
    return 0;
}

/* A Slurm topology.conf of leaves with so many nodes each, eight leaves to a spine; each `hole`th node is missing. */
static int write_switches(const char *path, int nodes, int per_leaf, int hole)
{
    FILE *file = fopen(path, "w");
    if (file == NULL)
        return -1;
    int leaves = (nodes + per_leaf - 1) / per_leaf, spines = (leaves + 7) / 8;
    for (int leaf = 0; leaf < leaves; leaf++) {
        fprintf(file, "SwitchName=leaf%d Nodes=", leaf);
        for (int n = leaf * per_leaf, first = 1; n < (leaf + 1) * per_leaf && n < nodes; n++)
            if (hole == 0 || n % hole != hole - 1) {
                fprintf(file, "%sgpu%d", first ? "" : ",", n);
                first = 0;
            }
        fprintf(file, "\n");
    }
    for (int spine = 0; spine < spines; spine++) {
        int last = spine * 8 + 7 < leaves ? spine * 8 + 7 : leaves - 1;
        fprintf(file, "SwitchName=spine%d Switches=leaf[%d-%d]\n", spine, spine * 8, last);
    }
    fprintf(file, "SwitchName=root Switches=spine[0-%d]\n", spines - 1);
    return fclose(file);
}

static int measure_built_in(int nodes, int per_leaf, int hole)
{
    char name[64], path[] = "/tmp/bench-place-XXXXXX";
    int descriptor = mkstemp(path);
    if (descriptor < 0 || close(descriptor) != 0 || write_switches(path, nodes, per_leaf, hole) != 0) {
        fprintf(stderr, "bench-place: %s cannot be written\n", path);
        return 1;
    }
    snprintf(name, sizeof name, "%d nodes, %d on a switch%s", nodes, per_leaf, hole > 0 ? ", holes" : "");
    const char *const paths[] = { "1 node of 8 H100 on NVSwitch, 8 NICs", path };
    int failed = measure(name, paths, 2, 8, 8);
    unlink(path);
    return failed;
}

int main(int argc, char **argv)
{
    const char *paths[MOST_PATHS];
    size_t count = 0;
    int tp = 8, pp = 0, failed = 0;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--tp") == 0 && i + 1 < argc)
            tp = atoi(argv[++i]);
        else if (strcmp(argv[i], "--pp") == 0 && i + 1 < argc)
            pp = atoi(argv[++i]);
        else if (count < MOST_PATHS)
            paths[count++] = argv[i];
    }
    if (count > 0)
        return measure(paths[0], paths, count, tp, pp);
    for (int nodes = 512; nodes <= 2048; nodes *= 4) {
        failed |= measure_built_in(nodes, 32, 0);
        failed |= measure_built_in(nodes, 18, 0);
        failed |= measure_built_in(nodes, 32, 20);
    }
    return failed;
}
