/* tools/bench/overlap.c - something to compute while an operation travels.
 *
 * A linear layer of one rank (kith/layers.h), as often as it takes to last as long as the operation. Each begins with
 * kith_progress(), as layers of a trainer do that way, so communication moves on between products and not within one.
 * On a device products are ordered in the layers' stream and the host waits at the end.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "bench.h"

#include <math.h>
#include <stdlib.h>

#define TOKENS 64
#define FEATURES 128 /* a product of some ten microseconds on a core */
#define FIRST_PRODUCTS 8
#define TRIALS 21

struct bench_overlap {
    kith_layers *layers;
    kith_linear *linear;
    kith_tape *tape;
    kith_tensor x;
    int64_t products;
};

static kith_status make_layer(bench_overlap *overlap)
{
    kith_linear_options options = KITH_LINEAR_OPTIONS_INIT;
    kith_batch batch = KITH_BATCH_INIT;
    const int64_t shape[] = { TOKENS, FEATURES };
    options.in_features = options.out_features = FEATURES;
    batch.sequence = TOKENS;
    batch.batch = 1;
    batch.is_training = 0;
    kith_status status = kith_linear_create(overlap->layers, &options, &overlap->linear);
    if (status == KITH_OK)
        status = kith_param_fill(kith_linear_weight(overlap->linear, 0), 0.5);
    if (status == KITH_OK)
        status = kith_tape_create(overlap->layers, &overlap->tape);
    if (status == KITH_OK)
        status = kith_tape_begin(overlap->tape, &batch);
    if (status == KITH_OK)
        status = kith_tensor_create(overlap->layers, KITH_F32, 2, shape, &overlap->x);
    static const float zeros[TOKENS * FEATURES];
    return status == KITH_OK ? kith_tensor_write(overlap->layers, &overlap->x, zeros, sizeof zeros) : status;
}

kith_status bench_overlap_compute(bench_overlap *overlap)
{
    kith_status status = KITH_OK;
    for (int64_t i = 0; status == KITH_OK && i < overlap->products; i++) {
        kith_tensor y;
        status = kith_linear_forward(overlap->linear, overlap->tape, &overlap->x, &y);
        if (status == KITH_OK)
            kith_tensor_release(&y);
    }
    return status == KITH_OK ? kith_layers_synchronize(overlap->layers) : status;
}

/* Trials of all the products, each as long as on its slowest rank. */
static kith_status time_compute(bench_overlap *overlap, kith_group *control, bench_summary *us)
{
    double trials[TRIALS];
    for (int i = 0; i < TRIALS; i++) {
        kith_status status = kith_barrier(control);
        double start = bench_now_us();
        if (status == KITH_OK)
            status = bench_overlap_compute(overlap);
        if (status != KITH_OK)
            return status;
        trials[i] = bench_now_us() - start;
    }
    kith_status status = kith_all_reduce(control, trials, trials, TRIALS, KITH_F64, KITH_MAX);
    *us = bench_summarize(trials, TRIALS);
    return status;
}

kith_status bench_overlap_make(bench_overlap **result, kith_ctx *ctx, kith_device *device)
{
    bench_overlap *overlap = calloc(1, sizeof *overlap);
    kith_layers_options options = KITH_LAYERS_OPTIONS_INIT;
    options.progress = ctx;
    options.device = device;
    *result = overlap;
    kith_status status = overlap != NULL ? kith_layers_create(&options, &overlap->layers) : KITH_ERR_NO_MEMORY;
    if (status == KITH_OK)
        status = make_layer(overlap);
    return status;
}

kith_status bench_overlap_fit(bench_overlap *overlap, kith_group *control, double us, bench_summary *compute)
{
    overlap->products = FIRST_PRODUCTS;
    kith_status status = time_compute(overlap, control, compute);
    if (status != KITH_OK)
        return status;
    double each = compute->median / (double)overlap->products;
    overlap->products = each > 0 && us > each ? (int64_t)llround(us / each) : 1;
    return time_compute(overlap, control, compute);
}

void bench_overlap_free(bench_overlap *overlap)
{
    if (overlap == NULL)
        return;
    kith_tensor_release(&overlap->x);
    kith_tape_destroy(overlap->tape);
    kith_layers_destroy(overlap->layers);
    free(overlap);
}
