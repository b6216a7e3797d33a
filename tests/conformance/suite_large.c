/* tests/conformance/suite_large.c - one real run beyond 2^31 elements, when memory allows.
 *
 * 2^31 + 5 int8 elements on every rank, reduced in place; afterwards an all_gather of the halves. Skipped (exit 77)
 * with less than 12 GiB free.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "harness.h"

#include <string.h>

static size_t free_nbytes(void)
{
    FILE *file = fopen("/proc/meminfo", "r");
    char line[200];
    size_t kib = 0;
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        if (sscanf(line, "MemAvailable: %zu kB", &kib) == 1)
            break;
    if (file != NULL)
        fclose(file);
    return kib * 1024;
}

void suite_large(rank_info *info)
{
    const size_t count = ((size_t)1 << 31) + 5;
    int has_room = free_nbytes() > (size_t)12 << 30;
    REQUIRE_OK(kith_all_reduce(info->world, &has_room, &has_room, 1, KITH_INT32, KITH_MIN));
    if (!has_room) {
        if (info->rank == 0)
            fprintf(stderr, "suite_large SKIPPED: less than 12 GiB of memory are free\n");
        return;
    }
    signed char *x = (signed char *)malloc(count);
    REQUIRE(x != NULL);
    memset(x, info->rank + 1, count);
    x[count - 1] = (signed char)(10 + info->rank);
    x[(size_t)1 << 31] = (signed char)(20 + info->rank);
    REQUIRE_OK(kith_all_reduce(info->world, x, x, count, KITH_INT8, KITH_SUM));
    int n = info->size, ranks = n * (n - 1) / 2;
    signed char plain = (signed char)(ranks + n);
    for (size_t i = 0; i < count - 1; i++)
        if (x[i] != plain && i != (size_t)1 << 31)
            rank_fail(__FILE__, __LINE__, "element %zu: wanted %d, got %d", i, plain, x[i]);
    REQUIRE(x[count - 1] == 10 * n + ranks && x[(size_t)1 << 31] == 20 * n + ranks);
    size_t part = count / (size_t)n;
    memset(x + part * (size_t)info->rank, 50 + info->rank, part);
    REQUIRE_OK(kith_all_gather(info->world, x + part * (size_t)info->rank, x, part, KITH_INT8));
    for (int r = 0; r < n; r++)
        for (size_t i = 0; i < part; i += 4093)
            REQUIRE(x[part * (size_t)r + i] == 50 + r);
    REQUIRE(x[part * (size_t)n - 1] == 50 + n - 1);
    free(x);
}
