/* bench/drivers/growth.c
 *
 * Times are medians of the slowest rank, memory is that of the rank which has most. Four kinds of memory, of the whole
 * process since before kith_init() and of one more group of all ranks:
 *
 *   heap       what the library holds through its allocator
 *   resident   pages of this process alone, as the kernel counts them (Private_* of smaps_rollup)
 *   shared     pages of shared memory that were touched, each divided among the processes that touched it (groups only)
 *   mapped     address space that is shared with other ranks: what the transport asked for, touched or not
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "../engine/clock.h"
#include "../engine/stats.h"
#include "allocations.h"
#include "commands.h"
#include "kith_calls.h"
#include "trials.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CALLS 50 /* in one batch */
#define ROUNDS 11
#define GROUPS 5

enum { JOIN_MS, GROUP_US, HEAP, GROUP_HEAP, RESIDENT, GROUP_RESIDENT, GROUP_SHARED, GROUP_MAPPED, FIGURES };
static const char *const names[FIGURES] = { "join_ms",
                                            "group_us",
                                            "heap_nbytes",
                                            "group_heap_nbytes",
                                            "resident_nbytes",
                                            "group_resident_nbytes",
                                            "group_shared_nbytes",
                                            "group_mapped_nbytes" };

static kith_status sum_batch(void *self)
{
    kith_group *group = self;
    double value[1] = { 1 };
    kith_status status = KITH_OK;
    for (int i = 0; i < CALLS && status == KITH_OK; i++) {
        status = kith_all_reduce(group, value, value, 1, KITH_F64, KITH_MAX);
    }
    return status;
}

static kith_status barrier_batch(void *self)
{
    kith_status status = KITH_OK;
    for (int i = 0; i < CALLS && status == KITH_OK; i++) {
        status = kith_barrier(self);
    }
    return status;
}

/* Sum in bytes of the lines of a smaps file that start with one of two words. */
static double read_memory(const char *path, const char *first, const char *second)
{
    char line[512];
    double kib = 0;
    FILE *file = fopen(path, "r");
    while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
        bool is_wanted = strncmp(line, first, strlen(first)) == 0 || strncmp(line, second, strlen(second)) == 0;
        const char *colon = strchr(line, ':');
        kib += is_wanted && colon != NULL ? strtod(colon + 1, NULL) : 0;
    }
    if (file != NULL) {
        fclose(file);
    }
    return kib * 1024;
}

static double resident_nbytes(void)
{
    return read_memory("/proc/self/smaps_rollup", "Private_Clean:", "Private_Dirty:");
}

static double shared_nbytes(void)
{
    return read_memory("/proc/self/smaps_rollup", "Pss_Shmem:", "Pss_Shmem:");
}

/* Writable shared mappings ("rw-s" in the second column of maps). */
static double mapped_nbytes(void)
{
    char line[512], mode[8];
    unsigned long long from, to;
    double sum = 0;
    FILE *file = fopen("/proc/self/maps", "r");
    while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
        if (sscanf(line, "%llx-%llx %7s", &from, &to, mode) == 3 && strcmp(mode, "rw-s") == 0) {
            sum += (double)(to - from);
        }
    }
    if (file != NULL) {
        fclose(file);
    }
    return sum;
}

/* Makes GROUPS groups, one after the other, each used once; then their memory, per group. */
static kith_status make_groups(kith_group *world, bench_peers *peers, double *figures)
{
    kith_group *groups[GROUPS] = { NULL };
    double *ns = peers->segment->ns[peers->rank];
    double heap = (double)bench_allocated_nbytes(), resident = resident_nbytes(), mapped = mapped_nbytes();
    double shared = shared_nbytes();
    for (int i = 0; i < GROUPS; i++) {
        uint64_t start = bench_release(peers);
        kith_status status = kith_group_dup(world, NULL, &groups[i]);
        uint64_t end = bench_ticks();
        status = status != KITH_OK ? status : barrier_batch(groups[i]);
        if (status != KITH_OK) {
            bench_kith_complain("kith_group_dup", status);
            return status;
        }
        ns[i] = end > start ? bench_ticks_to_ns(end - start) : 0;
    }
    figures[GROUP_HEAP] = ((double)bench_allocated_nbytes() - heap) / GROUPS;
    figures[GROUP_RESIDENT] = (resident_nbytes() - resident) / GROUPS;
    figures[GROUP_SHARED] = (shared_nbytes() - shared) / GROUPS;
    figures[GROUP_MAPPED] = (mapped_nbytes() - mapped) / GROUPS;
    bench_barrier(peers);
    double worst[GROUPS];
    bench_max_over_ranks(&peers->segment->ns[0][0], BENCH_MAX_ITERATIONS, peers->size, GROUPS, worst);
    figures[GROUP_US] = bench_summarize(worst, GROUPS).median * 1e-3;
    bench_barrier(peers); /* nobody writes new times before all have read these */
    for (int i = 0; i < GROUPS; i++) {
        kith_group_destroy(groups[i]);
    }
    return KITH_OK;
}

int bench_growth(kith_group *world, bench_peers *peers, double joined_ms, uint64_t heap_before,
                 const bench_options *options)
{
    double figures[FIGURES] = { 0 };
    bench_trials trials = { .run = { sum_batch, barrier_batch }, .self = world, .way_count = 2 };
    trials.rounds = bench_trials_rounds(options, ROUNDS);
    kith_status status = bench_trials_run(&trials, peers, world);
    figures[JOIN_MS] = joined_ms;
    figures[HEAP] = (double)(bench_allocated_nbytes() - heap_before);
    figures[RESIDENT] = resident_nbytes();
    status = status != KITH_OK ? status : make_groups(world, peers, figures);
    status = status != KITH_OK ? status : kith_all_reduce(world, figures, figures, FIGURES, KITH_F64, KITH_MAX);
    if (status != KITH_OK) {
        return 1;
    }
    json_t *row = json_pack("{s:i, s:f, s:f}", "ranks", peers->size, "all_reduce_us", trials.median_us[0] / CALLS,
                            "barrier_us", trials.median_us[1] / CALLS);
    for (int i = 0; i < FIGURES; i++) {
        json_object_set_new(row, names[i], json_real(figures[i]));
    }
    if (peers->rank == 0) {
        char *text = json_dumps(row, JSON_REAL_PRECISION(6));
        printf("%s\n", text != NULL ? text : "");
        free(text);
    }
    json_t *rows = json_array();
    json_array_append_new(rows, row);
    bool is_written = bench_trials_write(options->json_path, "kith-bench-growth-1", world, rows);
    json_decref(rows);
    return is_written ? 0 : 1;
}
