/* bench/drivers/trials.c
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "trials.h"

#include "../engine/clock.h"
#include "../engine/stats.h"
#include "kith_calls.h"

#include <stdio.h>
#include <sys/resource.h>

int bench_trials_rounds(const bench_options *options, int wanted)
{
    return options->limits.max_iterations < wanted ? options->limits.max_iterations : wanted;
}

static double processor_us(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1e6 +
           (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

static kith_status run_rounds(bench_trials *trials, bench_peers *peers)
{
    double(*ns)[BENCH_MAX_ITERATIONS] = &peers->segment->ns[peers->rank];
    for (int round = -1; round < trials->rounds; round++) {
        for (int k = 0; k < trials->way_count; k++) {
            int way = (k + round + 1) % trials->way_count;
            uint64_t start = bench_release(peers);
            double cpu = processor_us();
            kith_status status = trials->run[way](trials->self);
            uint64_t end = bench_ticks();
            if (status != KITH_OK) {
                bench_kith_complain("a trial", status);
                return status;
            }
            if (round >= 0) {
                trials->cpu_us[way] += (processor_us() - cpu) / trials->rounds;
                (*ns)[way * trials->rounds + round] = end > start ? bench_ticks_to_ns(end - start) : 0;
            }
        }
    }
    return KITH_OK;
}

/* Rank r's times are in the segment; every rank computes the same medians from them. */
static void summarize(bench_trials *trials, bench_peers *peers)
{
    static double worst[BENCH_MAX_ITERATIONS];
    size_t rounds = (size_t)trials->rounds;
    for (int way = 0; way < trials->way_count; way++) {
        bench_max_over_ranks(&peers->segment->ns[0][(size_t)way * rounds], BENCH_MAX_ITERATIONS, peers->size, rounds,
                             worst);
        trials->median_us[way] = bench_summarize(worst, rounds).median * 1e-3;
    }
}

kith_status bench_trials_run(bench_trials *trials, bench_peers *peers, kith_group *world)
{
    for (int way = 0; way < trials->way_count; way++) {
        trials->cpu_us[way] = 0;
    }
    kith_status status = run_rounds(trials, peers);
    if (status != KITH_OK) {
        return status;
    }
    bench_barrier(peers);
    summarize(trials, peers);
    bench_barrier(peers); /* nobody writes new times before all have read these */
    return kith_all_reduce(world, trials->cpu_us, trials->cpu_us, (size_t)trials->way_count, KITH_F64, KITH_SUM);
}

bool bench_trials_write(const char *path, const char *format, kith_group *world, json_t *rows)
{
    if (path == NULL || kith_group_rank(world) != 0) {
        return true;
    }
    json_t *document = json_pack("{s:s, s:i, s:s, s:O}", "format", format, "ranks", kith_group_size(world), "backend",
                                 kith_group_backend(world), "rows", rows);
    bool is_written = document != NULL && json_dump_file(document, path, JSON_INDENT(1) | JSON_REAL_PRECISION(6)) == 0;
    json_decref(document);
    if (!is_written) {
        fprintf(stderr, "kith-bench: cannot write %s\n", path);
    }
    return is_written;
}
