/* examples/overlap.c - reducing gradient buckets while the backward pass goes on.
 *
 *     kith run -n 4 -- overlap
 *
 * The backward pass fills buckets from the last layer to the first. A full bucket is reduced at once, as a request;
 * while later ones are computed, kith_progress() between layers keeps the messages moving. The requests are
 * persistent: made once, started again in every step, freed at the end.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "example.h"

enum { LAYERS = 8, BUCKET = 16384, STEPS = 3 };

static float gradients[LAYERS][BUCKET];

/* The "backward pass" of one layer; small integers, so that sums are exact. */
static void backward(int layer, int rank, int step)
{
    for (int i = 0; i < BUCKET; i++)
        gradients[layer][i] = (float)(layer + rank + step + i % 8);
}

static int count_wrong(int size, int step)
{
    int wrong = 0;
    for (int layer = 0; layer < LAYERS; layer++)
        for (int i = 0; i < BUCKET; i++)
            wrong += gradients[layer][i] != (float)(size * (layer + step + i % 8) + size * (size - 1) / 2);
    return wrong;
}

static void make_requests(kith_group *group, kith_request **requests)
{
    for (int layer = 0; layer < LAYERS; layer++) {
        kith_coll_args args = KITH_COLL_ARGS_INIT;
        args.kind = KITH_ALL_REDUCE;
        args.send = args.recv = gradients[layer];
        args.count = BUCKET;
        args.dtype = KITH_F32;
        args.op = KITH_SUM;
        must(kith_coll_init(group, &args, &requests[layer]), "kith_coll_init");
    }
}

int main(void)
{
    kith_ctx *ctx;
    must(kith_init(NULL, &ctx), "kith_init");
    kith_group *world = kith_world(ctx);
    kith_request *requests[LAYERS];
    make_requests(world, requests);

    int wrong = 0;
    for (int step = 0; step < STEPS; step++) {
        for (int layer = LAYERS - 1; layer >= 0; layer--) {
            backward(layer, kith_rank(ctx), step);
            must(kith_request_start(requests[layer]), "kith_request_start");
            must(kith_progress(ctx), "kith_progress");
        }
        must(kith_wait_all(requests, LAYERS), "kith_wait_all");
        wrong += count_wrong(kith_size(ctx), step);
    }
    for (int layer = 0; layer < LAYERS; layer++)
        must(kith_request_free(&requests[layer]), "kith_request_free");

    must(kith_agree(world, wrong == 0 ? KITH_OK : KITH_ERR_INTERNAL), "a gradient is wrong");
    if (kith_rank(ctx) == 0)
        printf("%d steps of %d buckets, %d ranks on %s\n", STEPS, LAYERS, kith_size(ctx), kith_group_backend(world));
    must(kith_finalize(ctx), "kith_finalize");
    return EXIT_SUCCESS;
}
