/* layers/checkpoint/holding.c - see holding.h.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "holding.h"

#include "core/base/fault.h"
#include "header.h"

#include <stdlib.h>

int ki_holding_rank(const ki_holding *holding)
{
    return holding->group != NULL ? kith_group_rank(holding->group) : 0;
}

int ki_holding_size(const ki_holding *holding)
{
    return holding->group != NULL ? kith_group_size(holding->group) : 1;
}

/* As the optimizer has it: where ep is one rank experts are like everything else. */
kith_group *ki_holding_replicas(const ki_holding *holding, const kith_param *param)
{
    if (!param->is_expert || (holding->expert_data == NULL && holding->layers->ep_size == 1))
        return holding->data;
    return holding->expert_data;
}

static kith_status take(const kith_checkpoint_place *given, ki_holding *holding)
{
    kith_checkpoint_place taken = KITH_CHECKPOINT_PLACE_INIT;
    kith_transformer_config config = KITH_TRANSFORMER_CONFIG_INIT;
    if (!ki_options_copy(&taken, sizeof taken, given, sizeof given->struct_size))
        return ki_fail(KITH_ERR_INVALID_ARG, "%s: place was not made with KITH_CHECKPOINT_PLACE_INIT",
                       holding->function);
    holding->group = taken.group;
    holding->data = taken.data;
    holding->expert_data = taken.expert_data;
    holding->layers = taken.layers;
    holding->optim = taken.optim;
    if (taken.layers == NULL)
        return ki_fail(KITH_ERR_INVALID_ARG, "%s: place.layers must not be NULL", holding->function);
    if (taken.layers->is_dry)
        return ki_fail(KITH_ERR_INVALID_ARG, "%s: layers are a dry run, which has no numbers", holding->function);
    kith_status status = ki_config_take(holding->function, taken.config, &config);
    holding->config = ki_config_full(&config);
    return status;
}

static kith_status check_shape(const ki_holding *holding, const kith_param *param, const ki_slot *slot)
{
    char there[KI_SHAPE_NBYTES], here[KI_SHAPE_NBYTES];
    bool is_same = param->dim_count == slot->dim_count;
    for (int d = 0; d < slot->dim_count && is_same; d++)
        is_same = param->global_shape[d] == slot->shape[d];
    if (is_same)
        return KITH_OK;
    return ki_fail(KITH_ERR_INVALID_ARG, "%s: layers have %s of %s, the configuration has %s", holding->function,
                   param->name, ki_shape_text(param->global_shape, param->dim_count, here),
                   ki_shape_text(slot->shape, slot->dim_count, there));
}

static kith_status make_parts(ki_holding *holding)
{
    size_t count = kith_layers_param_count(holding->layers);
    holding->parts = ki_fault(KI_FAULT_ALLOC) ? NULL : calloc(count + 1, sizeof *holding->parts);
    if (holding->parts == NULL)
        return ki_fail(KITH_ERR_NO_MEMORY, "%s: no memory for a list of %zu parameters", holding->function, count);
    for (size_t i = 0; i < count; i++) {
        const kith_param *param = kith_layers_param(holding->layers, i);
        const ki_slot *slot = ki_catalog_find(&holding->weights, param->name, NULL);
        if (slot == NULL)
            return ki_fail(KITH_ERR_INVALID_ARG,
                           "%s: layers have a parameter %s, for which the configuration has no place",
                           holding->function, param->name);
        kith_status status = check_shape(holding, param, slot);
        if (status != KITH_OK)
            return status;
        holding->parts[holding->part_count++] = ki_part_of(param, slot, &holding->weights.entries[slot->entry]);
    }
    return KITH_OK;
}

kith_status ki_holding_open(const char *function, const kith_checkpoint_place *given, ki_holding *holding)
{
    ki_holding made = { .function = function };
    if (given == NULL)
        return ki_fail(KITH_ERR_INVALID_ARG, "%s: place must not be NULL", function);
    kith_status status = take(given, &made);
    if (status == KITH_OK)
        status = ki_catalog_weights(function, &made.config, &made.weights);
    if (status == KITH_OK)
        status = make_parts(&made);
    status = ki_agree(made.group, status);
    if (status == KITH_OK)
        *holding = made;
    else
        ki_holding_close(&made);
    return status;
}

void ki_holding_close(ki_holding *holding)
{
    ki_catalog_fini(&holding->weights);
    free(holding->parts);
    holding->parts = NULL;
}
