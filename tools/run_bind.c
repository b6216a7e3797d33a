/* tools/run_bind.c - which processors each rank gets.
 *
 * What may be used is what this process may use: its affinity, which cpusets and an outer `kith run` have narrowed
 * already. The C usable cores, in the machine's order (packages, memory nodes, caches), are cut into one contiguous
 * share for each of the n ranks, all of the same size: share i begins at core i*C/n and has floor(C/n) cores, so that
 * the cores left over are spread and shares begin at packages where they can. With more ranks than cores the same is
 * done with hardware threads; with more ranks than these, neighbours share one.
 *
 *   compact   rank i has share i: neighbouring ranks are neighbours on the machine
 *   spread    the same shares, dealt out over packages, then memory nodes and caches, then cores: neighbouring ranks
 *             are far apart
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "run.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef KITH_HAVE_HWLOC
#include <hwloc.h>
#endif

#define AFFINITY_MAX_NBYTES 8192 /* 65536 processors */

/* Processors that this process may use; 0 when the kernel does not tell. */
static int usable_processors(void)
{
    for (size_t nbytes = sizeof(cpu_set_t); nbytes <= AFFINITY_MAX_NBYTES; nbytes *= 2) {
        cpu_set_t *set = calloc(1, nbytes);
        if (set == NULL) return 0;
        int count = sched_getaffinity(0, nbytes, set) == 0 ? CPU_COUNT_S(nbytes, set) : 0;
        bool is_too_small = count == 0 && errno == EINVAL;
        free(set);
        if (!is_too_small) return count;
    }
    return 0;
}

#ifdef KITH_HAVE_HWLOC

/* The machine as this process may use it. NULL on failure. */
static hwloc_topology_t topology_load(void)
{
    hwloc_topology_t topology;
    if (hwloc_topology_init(&topology) != 0) return NULL;
    hwloc_bitmap_t mine = hwloc_bitmap_alloc();
    bool is_loaded = mine != NULL && hwloc_topology_load(topology) == 0 &&
                     hwloc_get_cpubind(topology, mine, HWLOC_CPUBIND_PROCESS) == 0 &&
                     hwloc_topology_restrict(topology, mine, 0) == 0;
    hwloc_bitmap_free(mine);
    if (is_loaded) return topology;
    hwloc_topology_destroy(topology);
    return NULL;
}

/* Adds the hardware threads of units [begin, begin + count) to a share. */
static void share_fill(hwloc_topology_t topology, int depth, unsigned begin, unsigned count, cpu_set_t *share,
                       size_t nbytes)
{
    for (unsigned i = begin; i < begin + count; i++) {
        hwloc_obj_t unit = hwloc_get_obj_by_depth(topology, depth, i);
        int cpu;
        hwloc_bitmap_foreach_begin(cpu, unit->cpuset) CPU_SET_S((size_t)cpu, nbytes, share);
        hwloc_bitmap_foreach_end();
    }
}

/* Order of shares that takes turns between the children of each object. Writes the numbers of the shares whose first
 * unit lies in object into order; returns how many. first[i]: hardware thread (machine's order) at which share i
 * begins. */
static int deal(hwloc_topology_t topology, hwloc_obj_t object, const unsigned *first, int share_count, int *order)
{
    if (object->arity == 0 || object->type == HWLOC_OBJ_PU) {
        int count = 0;
        for (int i = 0; i < share_count; i++)
            if (hwloc_get_obj_by_type(topology, HWLOC_OBJ_PU, first[i]) == object) order[count++] = i;
        return count;
    }
    int **lists = calloc(object->arity, sizeof(*lists));
    int *counts = calloc(object->arity, sizeof(*counts));
    int total = 0;
    bool is_complete = lists != NULL && counts != NULL;
    for (unsigned c = 0; is_complete && c < object->arity; c++) {
        lists[c] = malloc((size_t)share_count * sizeof(**lists));
        is_complete = lists[c] != NULL;
        if (is_complete) counts[c] = deal(topology, object->children[c], first, share_count, lists[c]);
        is_complete = is_complete && counts[c] >= 0;
    }
    for (int turn = 0; is_complete && turn < share_count; turn++)
        for (unsigned c = 0; c < object->arity; c++)
            if (turn < counts[c]) order[total++] = lists[c][turn];
    for (unsigned c = 0; lists != NULL && c < object->arity; c++)
        free(lists[c]);
    free(lists);
    free(counts);
    return is_complete ? total : -1;
}

/* Cuts the units at depth into equal shares, in the order of the ranks. */
static bool cut(hwloc_topology_t topology, ki_bind_kind kind, int depth, ki_bind_plan *plan)
{
    size_t unit_count = (size_t)hwloc_get_nbobjs_by_depth(topology, depth), ranks = (size_t)plan->share_count;
    unsigned per_share = unit_count > ranks ? (unsigned)(unit_count / ranks) : 1;
    unsigned *first = calloc(ranks, sizeof(*first));
    int *order = calloc(ranks, sizeof(*order));
    bool is_done = first != NULL && order != NULL;
    for (size_t i = 0; is_done && i < ranks; i++) {
        hwloc_obj_t unit = hwloc_get_obj_by_depth(topology, depth, (unsigned)(i * unit_count / ranks));
        hwloc_obj_t thread = hwloc_get_obj_inside_cpuset_by_type(topology, unit->cpuset, HWLOC_OBJ_PU, 0);
        first[i] = thread->logical_index;
        order[i] = (int)i;
    }
    if (is_done && kind == KI_BIND_SPREAD)
        is_done = deal(topology, hwloc_get_root_obj(topology), first, plan->share_count, order) == plan->share_count;
    for (size_t rank = 0; is_done && rank < ranks; rank++) {
        unsigned begin = (unsigned)((size_t)order[rank] * unit_count / ranks);
        cpu_set_t *share = (cpu_set_t *)((char *)plan->shares + rank * plan->share_nbytes);
        share_fill(topology, depth, begin, per_share, share, plan->share_nbytes);
    }
    plan->threads = (int)per_share;
    free(first);
    free(order);
    return is_done;
}

static bool plan_shares(ki_bind_kind kind, int rank_count, ki_bind_plan *plan, char *error, size_t error_nbytes)
{
    hwloc_topology_t topology = topology_load();
    if (topology == NULL) {
        snprintf(error, error_nbytes, "hwloc cannot read this machine: %s; --bind none does without", strerror(errno));
        return false;
    }
    int core_depth = hwloc_get_type_or_below_depth(topology, HWLOC_OBJ_CORE);
    int thread_depth = hwloc_get_type_depth(topology, HWLOC_OBJ_PU);
    int depth = rank_count <= (int)hwloc_get_nbobjs_by_depth(topology, core_depth) ? core_depth : thread_depth;
    int last = hwloc_bitmap_last(hwloc_topology_get_topology_cpuset(topology));
    plan->share_count = rank_count;
    plan->share_nbytes = CPU_ALLOC_SIZE((size_t)last + 1);
    plan->shares = calloc((size_t)rank_count, plan->share_nbytes);
    bool is_done = plan->shares != NULL && cut(topology, kind, depth, plan);
    if (!is_done) snprintf(error, error_nbytes, "memory is short");
    hwloc_topology_destroy(topology);
    return is_done;
}

#else

static bool plan_shares(ki_bind_kind kind, int rank_count, ki_bind_plan *plan, char *error, size_t error_nbytes)
{
    (void)kind, (void)rank_count, (void)plan;
    snprintf(error, error_nbytes, "this kith was built without hwloc: only --bind none is there");
    return false;
}

#endif

bool ki_bind_plan_create(ki_bind_kind kind, int rank_count, ki_bind_plan *plan, char *error, size_t error_nbytes)
{
    int usable = usable_processors();
    *plan = (ki_bind_plan){ .threads = usable > rank_count ? usable / rank_count : 1 };
    if (kind == KI_BIND_NONE || (kind == KI_BIND_DEFAULT && rank_count > usable)) return true;
    ki_bind_plan bound = *plan;
    if (plan_shares(kind, rank_count, &bound, error, error_nbytes)) {
        *plan = bound;
        return true;
    }
    ki_bind_plan_destroy(&bound);
    return kind == KI_BIND_DEFAULT; /* nobody asked: run unbound */
}

void ki_bind_plan_destroy(ki_bind_plan *plan)
{
    free(plan->shares);
    plan->shares = NULL;
    plan->share_count = 0;
}

const cpu_set_t *ki_bind_plan_share(const ki_bind_plan *plan, int rank)
{
    if (plan->share_count == 0) return NULL;
    const cpu_set_t *share = (const cpu_set_t *)((const char *)plan->shares + (size_t)rank * plan->share_nbytes);
    return CPU_COUNT_S(plan->share_nbytes, share) > 0 ? share : NULL;
}
