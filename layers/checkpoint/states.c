/* layers/checkpoint/states.c - see states.h.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "states.h"

#include "core/base/fault.h"

#include <stdio.h>
#include <stdlib.h>

static const char *const known[KI_STATES] = { "m", "v", KI_MASTER };
enum { MASTER_BIT = 1 << 2 };

static int64_t kind_of(const char *state)
{
    for (int i = 0; i < KI_STATES; i++)
        if (strcmp(known[i], state) == 0)
            return i;
    return -1;
}

/* Bit i: there is state known[i]; above them the dtype, which all ranks have alike. */
static kith_status look_through(const ki_holding *holding, int64_t *kinds)
{
    for (size_t i = 0; i < kith_optim_piece_count(holding->optim); i++) {
        kith_optim_piece piece;
        kith_status status = kith_optim_get_piece(holding->optim, i, &piece);
        if (status != KITH_OK)
            return status;
        int64_t kind = kind_of(piece.state);
        if (kind < 0)
            return ki_fail(KITH_ERR_INTERNAL, "%s: a state %s of the optimizer, which files have no place for",
                           holding->function, piece.state);
        *kinds |= INT64_C(1) << kind | (int64_t)piece.dtype << KI_STATES;
    }
    return KITH_OK;
}

static kith_status add_part(const ki_holding *holding, ki_states *states, size_t index)
{
    kith_optim_piece piece;
    kith_status status = kith_optim_get_piece(holding->optim, index, &piece);
    if (status != KITH_OK)
        return status;
    const ki_slot *slot = ki_catalog_find(&states->catalog, piece.param->name, piece.state);
    if (slot == NULL && states->lacks_masters && strcmp(piece.state, KI_MASTER) == 0)
        return KITH_OK;
    if (slot == NULL)
        return ki_fail(KITH_ERR_INVALID_ARG, "%s: the optimizer has a parameter %s, for which the model has no place",
                       holding->function, piece.param->name);
    int64_t units, unit;
    ki_part_units(piece.param, &units, &unit);
    states->is_counted[states->part_count] = piece.is_counted;
    states->parts[states->part_count++] = (ki_part){ .param = piece.param,
                                                     .slot = slot,
                                                     .entry = &states->catalog.entries[slot->entry],
                                                     .dtype = piece.dtype,
                                                     .data = piece.data,
                                                     .row_stride = piece.param->dim_count == 1 ? units : unit,
                                                     .first = piece.first,
                                                     .count = piece.count };
    return KITH_OK;
}

static kith_status make_parts(const ki_holding *holding, ki_states *states)
{
    size_t count = kith_optim_piece_count(holding->optim);
    states->parts = ki_fault(KI_FAULT_ALLOC) ? NULL : calloc(count + 1, sizeof *states->parts);
    states->is_counted = ki_fault(KI_FAULT_ALLOC) ? NULL : calloc(count + 1, sizeof *states->is_counted);
    if (states->parts == NULL || states->is_counted == NULL)
        return ki_fail(KITH_ERR_NO_MEMORY, "%s: no memory for a list of %zu states", holding->function, count);
    kith_status status = KITH_OK;
    for (size_t i = 0; i < count && status == KITH_OK; i++)
        status = add_part(holding, states, i);
    return status;
}

/* With another dtype of weights training goes on from masters, or with new ones. */
static int64_t adjust(const ki_holding *holding, const ki_archive *file, int64_t kinds, ki_states *states)
{
    char name[KI_NAME_NBYTES];
    if (file == NULL || holding->weights.slot_count == 0)
        return kinds;
    snprintf(name, sizeof name, "%.80s." KI_MASTER, holding->weights.slots[0].name);
    bool has_masters = ki_archive_find(file, name) != NULL;
    states->lacks_masters = !has_masters && (kinds & MASTER_BIT) != 0;
    states->gives_masters = has_masters && (kinds & MASTER_BIT) == 0;
    return has_masters ? kinds | MASTER_BIT : kinds & ~(int64_t)MASTER_BIT;
}

static kith_status make(const ki_holding *holding, int64_t kinds, const ki_archive *file, ki_states *states)
{
    states->dtype = (kith_dtype)(kinds >> KI_STATES);
    kinds = adjust(holding, file, kinds, states);
    for (int i = 0; i < KI_STATES; i++)
        if (kinds >> i & 1)
            states->names[states->count++] = known[i];
    kith_status status = ki_catalog_states(&holding->weights, states->names, states->count, &states->catalog);
    return status == KITH_OK ? make_parts(holding, states) : status;
}

kith_status ki_states_open(const ki_holding *holding, kith_status mine, const ki_archive *file, ki_states *states)
{
    ki_states made = { 0 };
    int64_t kinds = 0;
    if (mine == KITH_OK && holding->optim != NULL)
        mine = look_through(holding, &kinds);
    kith_status status = ki_agree(holding->group, mine);
    if (status == KITH_OK && holding->group != NULL && ki_holding_size(holding) > 1)
        status = kith_all_reduce(holding->group, &kinds, &kinds, 1, KITH_INT64, KITH_BOR);
    if (status == KITH_OK)
        status = ki_agree(holding->group, holding->optim != NULL ? make(holding, kinds, file, &made) : KITH_OK);
    if (status == KITH_OK)
        *states = made;
    else
        ki_states_close(&made);
    return status;
}

void ki_states_close(ki_states *states)
{
    ki_catalog_fini(&states->catalog);
    free(states->parts);
    free(states->is_counted);
    *states = (ki_states){ 0 };
}
