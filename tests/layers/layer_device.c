/* tests/layers/layer_device.c - layers on a device: who does not come, and memory of the wrong side. Nothing without
 * one.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "layer_cases.h"

enum { IN = 4, OUT = 3, TOKENS = 2 };

static kith_linear *make_row(kith_layers *layers)
{
    kith_linear_options options = KITH_LINEAR_OPTIONS_INIT;
    options.name = "row", options.kind = KITH_LINEAR_ROW, options.in_features = IN, options.out_features = OUT;
    kith_linear *linear;
    REQUIRE_OK(kith_linear_create(layers, &options, &linear));
    load_params(layers, whole_number);
    return linear;
}

/* A sum over the ranks is ordered on the device, where rank 1 does not come: whoever waits for its result gets the
 * deadline of the group, and the world goes on. */
void case_device_late(rank_info *info)
{
    if (kith_ctx_device(info->ctx) == NULL)
        return;
    kith_group *pair;
    kith_layers *layers;
    kith_layers_options options = KITH_LAYERS_OPTIONS_INIT;
    REQUIRE_OK(kith_group_split(info->world, 0, info->rank, NULL, &pair));
    REQUIRE_OK(kith_group_set_timeout(pair, 500));
    options.dtype = KITH_F64, options.tp = pair;
    put_on_device(info, &options);
    REQUIRE_OK(kith_layers_create(&options, &layers));
    kith_linear *linear = make_row(layers);
    kith_tape *tape = tape_of(layers, TOKENS, 1);
    if (info->rank == 0) {
        int64_t first, count;
        kith_split_range(IN, info->size, 0, &first, &count);
        kith_tensor own = numbers(KITH_F64, TOKENS, count, 1, whole_number), x = brought(layers, &own), y = { 0 };
        kith_status status = kith_linear_forward(linear, tape, &x, &y);
        if (status == KITH_OK)
            status = kith_layers_synchronize(layers);
        REQUIRE_STATUS(status, KITH_ERR_TIMEOUT);
        kith_tensor_release(&y), kith_tensor_release(&x);
        free(own.data);
    }
    REQUIRE_OK(kith_barrier(info->world)); // rank 1 comes here while the others wait
    REQUIRE(info->rank != 0 || kith_group_status(pair) == KITH_ERR_TIMEOUT);
    kith_tape_destroy(tape);
    REQUIRE_OK(kith_layers_destroy(layers));
}

/* A dry run has no device, tensors of the host are refused with a sentence, whole parameters are not. */
void case_device_misuse(rank_info *info)
{
    if (kith_ctx_device(info->ctx) == NULL)
        return;
    kith_layers *layers = layers_over(info, info->size, KITH_F32, 0), *none;
    kith_linear *linear = make_row(layers);
    kith_tape *tape = tape_of(layers, TOKENS, 1);
    kith_tensor x = numbers(KITH_F32, TOKENS, IN, 1, whole_number), y;
    int64_t first, count;
    kith_split_range(IN, info->size, info->rank, &first, &count);
    kith_tensor mine = numbers(KITH_F32, TOKENS, count, 1, whole_number);
    REQUIRE_STATUS(kith_linear_forward(linear, tape, &mine, &y), KITH_ERR_INVALID_ARG);
    REQUIRE_DETAIL("lies in the host's memory, and the layers compute on a device");
    kith_layers_options dry = KITH_LAYERS_OPTIONS_INIT;
    put_on_device(info, &dry);
    dry.dry_tp = 2;
    REQUIRE_STATUS(kith_layers_create(&dry, &none), KITH_ERR_INVALID_ARG);
    REQUIRE_DETAIL("takes no device");
    kith_layers_options lost = KITH_LAYERS_OPTIONS_INIT;
    put_on_device(info, &lost);
    lost.device = NULL;
    REQUIRE_STATUS(kith_layers_create(&lost, &none), KITH_ERR_INVALID_ARG);
    REQUIRE_DETAIL("a stream without its device");
    REQUIRE_STATUS(kith_tensor_read(layers, &x, NULL, 1), KITH_ERR_INVALID_ARG);
    kith_tape_destroy(tape);
    REQUIRE_OK(kith_layers_destroy(layers));
    free(x.data), free(mine.data);
}
