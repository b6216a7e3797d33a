/* examples/all_reduce.c - averaging gradients in place, over memory that all ranks map.
 *
 *     kith run -n 4 -- all_reduce [count]
 *
 * The buffer comes from kith_mem_alloc(): on backends that can map it, each rank reduces its share straight out of the
 * others' buffers. With malloc() the call is the same. Every rank checks every element; the values are small
 * integers, so the average is exact and is compared with ==.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "example.h"
#include <inttypes.h>
#include <string.h>

/* Count of elements from the command line; 0 when it is no positive number. */
static size_t parse_count(const char *text)
{
    char *end;
    uintmax_t value = strtoumax(text, &end, 10);
    return *end == '\0' && value <= SIZE_MAX / sizeof(float) ? (size_t)value : 0;
}

/* Gradient of element i on a rank: its average over ranks 0..size-1 is i % 64 + (size - 1) / 2. */
static float gradient(size_t i, int rank)
{
    return (float)(i % 64) + (float)rank;
}

static size_t count_wrong(const float *average, size_t count, int size)
{
    size_t wrong = 0;
    for (size_t i = 0; i < count; i++)
        wrong += average[i] != (float)(i % 64) + (float)(size - 1) / 2;
    return wrong;
}

int main(int argc, char **argv)
{
    size_t count = argc > 1 ? parse_count(argv[1]) : 1 << 20;
    if (count == 0) return fprintf(stderr, "usage: all_reduce [count > 0]\n"), EXIT_FAILURE;

    kith_ctx *ctx;
    must(kith_init(NULL, &ctx), "kith_init");
    kith_group *world = kith_world(ctx);
    int rank = kith_rank(ctx), size = kith_size(ctx);

    void *memory;
    must(kith_mem_alloc(world, count * sizeof(float), &memory), "kith_mem_alloc");
    float *gradients = memory;
    for (size_t i = 0; i < count; i++)
        gradients[i] = gradient(i, rank);

    must(kith_all_reduce(world, gradients, gradients, count, KITH_F32, KITH_AVG), "kith_all_reduce");

    size_t wrong = count_wrong(gradients, count, size);
    if (rank == 0) {
        const char *algorithm = "?";
        must(kith_coll_algorithm(world, KITH_ALL_REDUCE, count, KITH_F32, KITH_AVG, &algorithm, NULL),
             "kith_coll_algorithm");
        printf("averaged %zu f32 over %d ranks on %s (%s): %zu wrong\n", count, size, kith_group_backend(world),
               algorithm, wrong);
    }
    must(kith_mem_free(world, memory), "kith_mem_free");
    must(kith_finalize(ctx), "kith_finalize");
    return wrong == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
