/* tests/tools/rank_trainer.c - a rank that uses the library, to see that what `kith run` sets is what kith_init()
 * needs.
 *
 *     rank_trainer sum              all_reduce of rank + 1; prints "rank R of N: SUM"
 *     rank_trainer behind FOLDER    4 ranks: rank 2 skips the second collective; flight records go to FOLDER
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include <kith/kith.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int fail(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, kith_error_detail());
    return 1;
}

static int sum(kith_ctx *ctx)
{
    int64_t x = kith_rank(ctx) + 1;
    if (kith_all_reduce(kith_world(ctx), &x, &x, 1, KITH_INT64, KITH_SUM) != KITH_OK) return fail("all_reduce");
    printf("rank %d of %d: %lld\n", kith_rank(ctx), kith_size(ctx), (long long)x);
    return 0;
}

/* Until the other ranks have written their records: leaving before would abort the group on them. */
static void wait_for_records(const char *folder, int size)
{
    char path[512];
    for (int rank = 0, waits = 0; rank < size && waits < 10000; rank += access(path, F_OK) == 0) {
        if (waits++ > 0) usleep(2000);
        snprintf(path, sizeof(path), "%s/record-%d.jsonl", folder, rank);
    }
}

static int behind(kith_ctx *ctx, const char *folder)
{
    char path[512];
    float x[6] = { 0 }, y[24];
    kith_group *world = kith_world(ctx);
    snprintf(path, sizeof(path), "%s/record-%%r.jsonl", folder);
    kith_group_set_timeout(world, 1000);
    if (kith_all_reduce(world, x, x, 6, KITH_F32, KITH_MAX) != KITH_OK) return fail("all_reduce");
    if (kith_rank(ctx) != 2 && kith_all_gather(world, x, y, 6, KITH_F32) != KITH_ERR_TIMEOUT)
        return fail("all_gather without rank 2 did not time out");
    if (kith_group_dump(world, path) != KITH_OK) return fail("dump");
    wait_for_records(folder, kith_size(ctx));
    return 0;
}

int main(int argc, char **argv)
{
    kith_ctx *ctx;
    if (kith_init(NULL, &ctx) != KITH_OK) return fail("kith_init");
    if (argc == 3 && strcmp(argv[1], "behind") == 0) {
        int status = behind(ctx, argv[2]);
        kith_abandon(ctx);
        return status;
    }
    int status = sum(ctx);
    if (kith_finalize(ctx) != KITH_OK) return fail("kith_finalize");
    return status;
}
