/* tests/layers/layer_place.c - tensors, memory and gradients of a place: what is refused, and what does not pile up.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "layer_cases.h"

#include <string.h>

static void check_views(void)
{
    double six[6] = { 0, 1, 2, 3, 4, 5 };
    kith_tensor flat = kith_tensor_view(six, KITH_F64, 1, (const int64_t[]){ 6 });
    kith_tensor none = kith_tensor_view(six, KITH_F64, 2, (const int64_t[]){ 2, 0 });
    REQUIRE(kith_tensor_is_contiguous(&none) == 1);
    flat.layout = KITH_SPLIT; // along 0, which the rows of [2, 3] cut elsewhere
    kith_tensor rows = kith_tensor_reshape(&flat, 2, (const int64_t[]){ 2, 3 });
    REQUIRE(rows.dim_count == 2 && rows.layout == KITH_LAYOUT_UNKNOWN);
    kith_tensor deep = kith_tensor_view(six, KITH_F64, 3, (const int64_t[]){ 3, 1, 2 });
    deep.layout = KITH_SPLIT, deep.split_dim = 2;
    kith_tensor wide = kith_tensor_reshape(&deep, 2, (const int64_t[]){ 3, 2 });
    REQUIRE(wide.layout == KITH_SPLIT && wide.split_dim == 1);
    deep.split_dim = 0;
    wide = kith_tensor_reshape(&deep, 2, (const int64_t[]){ 3, 2 });
    REQUIRE(wide.layout == KITH_SPLIT && wide.split_dim == 0);
    deep.split_dim = 1;
    wide = kith_tensor_reshape(&deep, 2, (const int64_t[]){ 3, 2 });
    REQUIRE(wide.layout == KITH_LAYOUT_UNKNOWN);
    REQUIRE(kith_tensor_narrow(&flat, 0, 3, 4).dim_count == 0);
    REQUIRE(kith_tensor_narrow(&flat, 0, -1, 2).dim_count == 0);
    REQUIRE(kith_tensor_view(six, KITH_F64, 2, (const int64_t[]){ INT64_MAX, 3 }).dim_count == 0);
    int64_t first = 7, count = 7;
    kith_split_range(5, 0, 0, &first, &count);
    REQUIRE(first == 0 && count == 0);
}

static void check_refusals(kith_layers *layers)
{
    kith_tensor nothing = kith_tensor_view(NULL, KITH_F64, 2, (const int64_t[]){ 2, 2 }), y;
    REQUIRE_STATUS(kith_tensor_all_reduce(layers, KITH_PHASE_FORWARD, &nothing, &y), KITH_ERR_INVALID_ARG);
    REQUIRE_DETAIL("has no data");
    REQUIRE_STATUS(kith_tensor_split(layers, 0, 1, &nothing, &y), KITH_ERR_INVALID_ARG);
    double four[4] = { 0, 0, 0, 0 };
    kith_tensor x = kith_tensor_view(four, KITH_F64, 2, (const int64_t[]){ 2, 2 });
    for (int phase = -1; phase < 100; phase += 4) {
        if (phase >= 0 && phase < KITH_PHASES)
            continue;
        REQUIRE_STATUS(kith_tensor_all_reduce(layers, (kith_layers_phase)phase, &x, &y), KITH_ERR_INVALID_ARG);
        REQUIRE_DETAIL("wanted 0 to 2");
    }
    REQUIRE(kith_layers_tp_size(NULL) == -1 && kith_layers_tp_rank(NULL) == -1);
    kith_layers_get_traffic(NULL, NULL);
    kith_layers_reset_traffic(NULL);
    kith_layers_get_memory(NULL, NULL);
    kith_layers_reset_memory_peak(NULL);
}

void case_place_misuse(rank_info *info)
{
    check_views();
    kith_layers *layers = layers_over(info, info->size, KITH_F64, 0);
    check_refusals(layers);
    kith_linear_options options = KITH_LINEAR_OPTIONS_INIT;
    options.in_features = options.out_features = 4;
    kith_linear *linear;
    REQUIRE_OK(kith_linear_create(layers, &options, &linear));
    kith_tensor nothing = kith_tensor_view(NULL, KITH_F64, 2, (const int64_t[]){ 4, 4 });
    REQUIRE_STATUS(kith_param_load(kith_linear_weight(linear, 0), &nothing), KITH_ERR_INVALID_ARG);
    REQUIRE_STATUS(kith_param_gather(kith_linear_weight(linear, 0), KITH_PARAM_VALUE, &nothing), KITH_ERR_INVALID_ARG);
    REQUIRE_OK(kith_layers_destroy(layers));
}

/* Sequences that grow by little leave buffers behind that are too small for the next: they must not pile up. */
void case_place_memory(rank_info *info)
{
    (void)info;
    enum { FEATURES = 16, LONGEST = 512 };
    kith_layers *layers = layers_alone(KITH_F32);
    kith_mlp_options options = KITH_MLP_OPTIONS_INIT;
    options.features = FEATURES, options.inner_features = 4 * FEATURES;
    kith_mlp *mlp;
    REQUIRE_OK(kith_mlp_create(layers, &options, &mlp));
    load_params(layers, fraction);
    kith_layers_memory memory;
    for (int64_t sequence = 4; sequence <= LONGEST; sequence += 4) {
        kith_tape *tape = tape_of(layers, sequence, 1);
        kith_tensor x = numbers(KITH_F32, sequence, FEATURES, 1, fraction), y, dx;
        REQUIRE_OK(kith_mlp_forward(mlp, tape, &x, &y));
        REQUIRE_OK(kith_mlp_backward(mlp, tape, &x, &dx));
        kith_tensor_release(&y), kith_tensor_release(&dx);
        kith_tape_destroy(tape);
        free(x.data);
    }
    kith_layers_get_memory(layers, &memory);
    REQUIRE(memory.tensors == 0 && memory.tensors_peak > 0);
    if (memory.cached > 3 * memory.tensors_peak)
        rank_fail(__FILE__, __LINE__, "%llu bytes are kept, at most %llu were alive at once",
                  (unsigned long long)memory.cached, (unsigned long long)memory.tensors_peak);
    REQUIRE_OK(kith_layers_destroy(layers));
}

/* Gradients are summed once a step, and not before they are all there. */
void case_place_finish(rank_info *info)
{
    int64_t sequence = 2 * info->size;
    kith_layers *layers = layers_over(info, info->size, KITH_F64, 1);
    kith_linear_options options = KITH_LINEAR_OPTIONS_INIT;
    options.kind = KITH_LINEAR_WHOLE, options.in_features = 3, options.out_features = 2;
    kith_linear *linear;
    REQUIRE_OK(kith_linear_create(layers, &options, &linear));
    load_params(layers, whole_number);
    kith_tape *tape = tape_of(layers, sequence, 1);
    REQUIRE_OK(kith_tape_set_split_backward(tape, 1));
    kith_tensor x = numbers(KITH_F64, sequence, 3, 1, whole_number),
                dy = numbers(KITH_F64, sequence, 2, 2, whole_number);
    kith_tensor x_mine = shard_of(layers, &x, sequence, 1, 1), dy_mine = shard_of(layers, &dy, sequence, 1, 1), y, dx;
    if (info->size > 1) { // with all positions on every rank its gradient would be counted once for each
        REQUIRE_STATUS(kith_linear_forward(linear, tape, &x, &y), KITH_ERR_INVALID_ARG);
        REQUIRE_DETAIL("rows");
    }
    for (int step = 0; step < 2; step++) {
        REQUIRE_OK(kith_layers_zero_grads(layers));
        REQUIRE_OK(kith_linear_forward(linear, tape, &x_mine, &y));
        REQUIRE_OK(kith_linear_backward(linear, tape, &dy_mine, &dx));
        kith_tensor_release(&y), kith_tensor_release(&dx);
        REQUIRE_STATUS(kith_layers_finish_grads(layers), KITH_ERR_INVALID_ARG);
        REQUIRE_DETAIL("kith_tape_weight_grads()");
        REQUIRE_OK(kith_tape_weight_grads(tape));
        REQUIRE_OK(kith_layers_finish_grads(layers));
        REQUIRE_STATUS(kith_layers_finish_grads(layers), KITH_ERR_INVALID_ARG);
        REQUIRE_DETAIL("kith_layers_zero_grads()");
        const kith_tensor *grad = &kith_linear_weight(linear, 0)->grad;
        for (int64_t i = 0; i < 6; i++) {
            double wanted = 0;
            for (int64_t t = 0; t < sequence; t++)
                wanted += element(&dy, t * 2 + i / 3) * element(&x, t * 3 + i % 3);
            REQUIRE(element(grad, i) == wanted);
        }
    }
    kith_tape_destroy(tape);
    free(x.data), free(dy.data);
    REQUIRE_OK(kith_layers_destroy(layers));
}
