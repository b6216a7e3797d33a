/* bench/gpu/passing.c - device memory that passes through the host beside host memory of the same group: what the way
 * over the bus costs. Several ranks may use one card.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "reduce.h"

#include <stdlib.h>

enum { CARD, HOST, PLACES };

static double seconds_of_calls(const reduce *r, int calls)
{
    must(kith_barrier(r->world), "barrier");
    const double start = seconds_now();
    for (int i = 0; i < calls; i++)
        must(kith_all_reduce(r->world, r->send, r->recv, r->count, KITH_F32, KITH_SUM), "kith_all_reduce");
    return (seconds_now() - start) / calls;
}

/* The least of several turns, in which both places take part. */
static void measure(reduce places[PLACES], float *local, size_t nbytes)
{
    gpu *g = places[CARD].g;
    const int calls = nbytes >= (size_t)1 << 20 ? 2 : g->is_quick ? 2 : 30, turns = g->is_quick ? 1 : 5;
    double seconds[PLACES] = { 1e30, 1e30 };
    for (int p = 0; p < PLACES; p++) {
        places[p].count = nbytes / sizeof(float);
        reduce_fill(&places[p], local, p == CARD);
        (void)seconds_of_calls(&places[p], 1);
        reduce_check(&places[p], local, p == CARD, p == CARD ? "all_reduce on the card" : "all_reduce on the host");
    }
    for (int turn = 0; turn < turns; turn++) {
        for (int p = 0; p < PLACES; p++) {
            const double took = seconds_of_calls(&places[p], calls);
            seconds[p] = took < seconds[p] ? took : seconds[p];
        }
    }
    reduce_largest(&places[HOST], seconds, PLACES);
    if (places[CARD].rank == 0)
        report(words("all_reduce, f32, %s", size_words(nbytes)),
               words("%s, %.1f GB/s", time_words(seconds[CARD]), 1e-9 * (double)nbytes / seconds[CARD]),
               words("host memory %s", time_words(seconds[HOST])), words("%.2f x", seconds[CARD] / seconds[HOST]));
}

void bench_passing(gpu *g)
{
    int sizes_count;
    const size_t *sizes = reduce_sizes(g, &sizes_count);
    const size_t most = sizes[sizes_count - 1];
    kith_group *world = kith_world(g->ctx);
    const char *carrier = kith_group_device_backend(world);
    reduce places[PLACES] = { { .g = g, .world = world, .rank = kith_rank(g->ctx), .size = kith_size(g->ctx) } };
    places[HOST] = places[CARD];
    float *const local = (float *)malloc(most);
    places[CARD].send = (float *)gpu_alloc(g, most);
    places[CARD].recv = (float *)gpu_alloc(g, most);
    places[HOST].send = (float *)malloc(most);
    places[HOST].recv = (float *)malloc(most);
    must(local && places[HOST].send && places[HOST].recv ? KITH_OK : KITH_ERR_NO_MEMORY, "memory");
    report_part("%s, %s, %d ranks", kith_group_backend(world), carrier != NULL ? carrier : "no device",
                kith_size(g->ctx));
    for (int i = 0; i < sizes_count && sizes[i] <= (size_t)64 << 20; i++)
        measure(places, local, sizes[i]);
    gpu_free(g, places[CARD].send);
    gpu_free(g, places[CARD].recv);
    free(places[HOST].send);
    free(places[HOST].recv);
    free(local);
}
