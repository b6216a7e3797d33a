/* tools/bench/table.c - rows as lines for people.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "bench.h"

#include <math.h>
#include <string.h>

/* Whether a row stands under the same heading as the one before. */
static bool is_alike(const bench_row *row, const bench_row *before)
{
    return before != NULL && strcmp(row->backend, before->backend) == 0 && strcmp(row->group, before->group) == 0 &&
           row->memory == before->memory && row->mode == before->mode && row->ranks == before->ranks;
}

static void print_heading(FILE *out, const bench_row *row)
{
    fprintf(out, "# backend %s, %s memory, %s, group %s: %d rank%s", row->backend, row->memory, row->mode, row->group,
            row->ranks, row->ranks == 1 ? "" : "s");
    if (row->group_count > 1)
        fprintf(out, " in each of %d groups at once", row->group_count);
    fprintf(out, ", %d host%s\n", row->hosts, row->hosts == 1 ? "" : "s");
    fprintf(out, "# %-16s %12s %7s %5s %5s %11s %11s %11s %11s %11s %9s %9s %7s%s%s\n", "op", "bytes", "dtype", "redop",
            "place", "median us", "p95 us", "p99 us", "min us", "max us", "algbw", "busbw", "wrong",
            strcmp(row->mode, bench_mode_name(BENCH_OVERLAP)) == 0 ? "  hidden" : "",
            row->cores[0] != '\0' ? "   cores" : "");
}

/* A group of another backend whose collectives take the shared memory of its host. */
static bool is_beside(const bench_row *row)
{
    return strcmp(row->algorithm, "shm") == 0 && strcmp(row->backend, "shm") != 0;
}

static void print_us(FILE *out, double us)
{
    fprintf(out, us < 1000 ? " %11.2f" : " %11.1f", us);
}

void bench_table_row(FILE *out, const bench_row *row, const bench_row *before)
{
    char name[32];
    if (!is_alike(row, before))
        print_heading(out, row);
    if (is_beside(row) && (!is_alike(row, before) || !is_beside(before)))
        fprintf(out,
                "# collectives of this group go through shared memory beside %s; KITH_HIER=off measures %s alone\n",
                row->backend, row->backend);
    snprintf(name, sizeof name, row->src >= 0 ? "%s %d-%d" : "%s", row->op, row->src, row->dst);
    fprintf(out, "  %-16s %12zu %7s %5s %5s", name, row->nbytes, row->dtype, row->redop, row->place);
    if (row->us.is_reliable)
        print_us(out, row->us.median);
    else
        fprintf(out, " %11s", "?");
    print_us(out, row->us.p95);
    print_us(out, row->us.p99);
    print_us(out, row->us.min);
    print_us(out, row->us.max);
    if (row->us.is_reliable)
        fprintf(out, " %9.3f %9.3f", row->algbw_gbps, row->busbw_gbps);
    else
        fprintf(out, " %9s %9s", "?", "?");
    if (row->errors >= 0)
        fprintf(out, " %7lld", (long long)row->errors);
    else
        fprintf(out, " %7s", "-");
    if (isfinite(row->hidden_percent) && row->us.is_reliable)
        fprintf(out, " %6.0f %%", row->hidden_percent);
    else if (strcmp(row->mode, bench_mode_name(BENCH_OVERLAP)) == 0)
        fprintf(out, " %8s", "-");
    if (row->cores[0] != '\0')
        fprintf(out, " %7s", row->cores);
    if (!row->us.is_reliable)
        fprintf(out, "  no median: half of the samples lie between %.2f and %.2f us", row->us.p25, row->us.p75);
    fputc('\n', out);
}
