/* tools/tune/pairs.c - see pairs.h.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "pairs.h"
#include "fit.h"

#include <kith/topology.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- what is expected, and who stays below ---- */

tune_pair_class tune_pairs_class(const tune_pair *pairs, size_t count, const char *link)
{
    tune_pair_class found = { .link = link, .median_gbps = NAN, .expected_gbps = NAN };
    double *values = calloc(count + 1, sizeof *values);
    for (size_t i = 0; i < count; i++) {
        if (strcmp(pairs[i].link, link) != 0)
            continue;
        found.count++;
        if (!isnan(pairs[i].expected_gbps)) {
            found.is_known = true;
            found.expected_gbps = pairs[i].expected_gbps;
        }
        if (values != NULL && !isnan(pairs[i].gbps))
            values[found.measured++] = pairs[i].gbps;
    }
    if (found.measured > 0)
        found.median_gbps = tune_median(values, found.measured);
    if (!found.is_known && found.measured >= TUNE_PAIRS_ENOUGH)
        found.expected_gbps = found.median_gbps;
    free(values);
    return found;
}

bool tune_pair_is_slow(const tune_pair *pair, const tune_pair_class *of_class)
{
    double expected = isnan(pair->expected_gbps) ? of_class->expected_gbps : pair->expected_gbps;
    return pair->gbps < TUNE_PAIR_SHARE * expected; /* false where either is NaN */
}

static void print_slow(FILE *out, const tune_pair *pairs, size_t count, const tune_pair_class *of_class)
{
    size_t slow = 0;
    fprintf(out, "; below %.0f %% of it:", 100 * TUNE_PAIR_SHARE);
    for (size_t i = 0; i < count; i++) {
        if (strcmp(pairs[i].link, of_class->link) != 0 || !tune_pair_is_slow(&pairs[i], of_class))
            continue;
        fprintf(out, "%s %d-%d (%.4g)", slow > 0 ? "," : "", pairs[i].src, pairs[i].dst, pairs[i].gbps);
        slow++;
    }
    fputs(slow > 0 ? "" : " none", out);
    if (of_class->measured < of_class->count)
        fprintf(out, "; %zu without a reliable median", of_class->count - of_class->measured);
    fputc('\n', out);
}

static bool is_first_of_link(const tune_pair *pairs, size_t index)
{
    for (size_t i = 0; i < index; i++)
        if (strcmp(pairs[i].link, pairs[index].link) == 0)
            return false;
    return true;
}

void tune_pairs_report(FILE *out, const tune_pair *pairs, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (!is_first_of_link(pairs, i))
            continue;
        tune_pair_class c = tune_pairs_class(pairs, count, pairs[i].link);
        fprintf(out, "# %s: %zu pair%s, ", c.link, c.count, c.count == 1 ? "" : "s");
        if (c.measured == 0)
            fputs("none with a reliable median\n", out);
        else if (isnan(c.expected_gbps))
            fprintf(out, "median %.4g GB/s; no expectation\n", c.median_gbps);
        else {
            if (c.is_known)
                fprintf(out, "median %.4g GB/s, expected of the link %.4g", c.median_gbps, c.expected_gbps);
            else
                fprintf(out, "no figure is known; median %.4g GB/s", c.median_gbps);
            print_slow(out, pairs, count, &c);
        }
    }
}

/* ---- where ranks sit ---- */

typedef struct seat {
    char pci[32]; /* of the GPU; "": none */
} seat;

static kith_status gather_seats(kith_ctx *ctx, kith_group *control, seat *seats)
{
    seat own = { "" };
    kith_device_info info = KITH_DEVICE_INFO_INIT;
    kith_device *device = kith_ctx_device(ctx);
    if (device != NULL && kith_device_describe(device, &info) == KITH_OK)
        snprintf(own.pci, sizeof own.pci, "%s", info.pci);
    return kith_all_gather(control, &own, seats, sizeof own, KITH_INT8);
}

/* The link between two GPUs of this host; false: the topology does not show it. */
static bool find_link(const kith_topology *topology, const seat *a, const seat *b, tune_pair *pair)
{
    int from = kith_topology_find_gpu(topology, NULL, a->pci), to = kith_topology_find_gpu(topology, NULL, b->pci);
    if (from < 0 || to < 0 || from == to)
        return false;
    kith_link link = kith_topology_link(topology, from, to);
    kith_link_name(&link, pair->link, sizeof pair->link);
    pair->expected_gbps = link.gbps > 0 ? link.gbps : NAN;
    return true;
}

static void place(kith_ctx *ctx, const kith_topology *topology, const seat *seats, bool is_of_devices, tune_pair *pair)
{
    int node = kith_node_of(ctx, pair->src);
    bool is_inside = node == kith_node_of(ctx, pair->dst), is_here = node == kith_node_of(ctx, kith_rank(ctx));
    pair->expected_gbps = NAN;
    if (is_of_devices && is_inside && is_here && find_link(topology, &seats[pair->src], &seats[pair->dst], pair))
        return;
    snprintf(pair->link, sizeof pair->link, "%s",
             !is_inside      ? "between hosts"
             : is_of_devices ? "GPUs of a host"
                             : "shared memory");
}

/* ---- rows ---- */

static size_t largest_size(const bench_rows *rows, const char *memory)
{
    size_t largest = 0;
    for (size_t i = 0; i < rows->count; i++)
        if (rows->list[i].src >= 0 && rows->list[i].memory == memory && rows->list[i].nbytes > largest)
            largest = rows->list[i].nbytes;
    return largest;
}

/* pairs: of the rows of that size and memory, in their order. */
static void note_in_rows(bench_rows *rows, const char *memory, size_t nbytes, const tune_pair *pairs, size_t count)
{
    size_t next = 0;
    for (size_t i = 0; i < rows->count && next < count; i++) {
        bench_row *row = &rows->list[i];
        if (row->src < 0 || row->memory != memory || row->nbytes != nbytes)
            continue;
        const tune_pair *pair = &pairs[next++];
        tune_pair_class of_class = tune_pairs_class(pairs, count, pair->link);
        snprintf(row->pair_link, sizeof row->pair_link, "%s", pair->link);
        row->expected_gbps = isnan(pair->expected_gbps) ? of_class.expected_gbps : pair->expected_gbps;
        row->is_below = tune_pair_is_slow(pair, &of_class);
    }
}

static void print_memory(kith_ctx *ctx, const seat *seats, bench_rows *rows, const char *memory, FILE *out)
{
    size_t largest = largest_size(rows, memory), count = 0;
    bool is_of_devices = strcmp(memory, bench_memory_name(BENCH_DEVICE)) == 0;
    tune_pair *pairs = calloc(rows->count + 1, sizeof *pairs);
    kith_topology *topology = NULL;
    char size[32];
    if (pairs == NULL)
        return;
    if (is_of_devices)
        kith_topology_detect(NULL, &topology); /* without one no link is known */
    for (size_t i = 0; i < rows->count; i++) {
        const bench_row *row = &rows->list[i];
        if (row->src < 0 || row->memory != memory || row->nbytes != largest)
            continue;
        pairs[count] = (tune_pair){ .src = row->src, .dst = row->dst, .gbps = row->algbw_gbps };
        place(ctx, topology, seats, is_of_devices, &pairs[count++]);
    }
    bench_size_print(largest, size, sizeof size);
    note_in_rows(rows, memory, largest, pairs, count);
    if (out != NULL) {
        fprintf(out, "\n# pairs of %s memory at %s beside what their links let expect\n", memory, size);
        tune_pairs_report(out, pairs, count);
    }
    kith_topology_destroy(topology);
    free(pairs);
}

kith_status tune_pairs_print(kith_ctx *ctx, kith_group *control, bench_rows *rows, FILE *out)
{
    bool has_pairs = false;
    for (size_t i = 0; i < rows->count; i++)
        has_pairs |= rows->list[i].src >= 0;
    if (!has_pairs)
        return KITH_OK;
    seat *seats = calloc((size_t)kith_size(ctx), sizeof *seats);
    kith_status status = kith_agree(control, seats != NULL ? KITH_OK : KITH_ERR_NO_MEMORY);
    if (status == KITH_OK)
        status = gather_seats(ctx, control, seats);
    for (int m = 0; status == KITH_OK && kith_rank(ctx) == 0 && m < BENCH_MEMORY_COUNT; m++)
        if (largest_size(rows, bench_memory_name((bench_memory)m)) > 0)
            print_memory(ctx, seats, rows, bench_memory_name((bench_memory)m), out);
    free(seats);
    return status;
}
