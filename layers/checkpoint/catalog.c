/* layers/checkpoint/catalog.c - see catalog.h.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "catalog.h"

#include "core/base/error.h"
#include "core/base/fault.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SLOTS_MOST ((size_t)1 << 22)

/* ---- growing ---- */

static kith_status grow(void **items, size_t *room, size_t count, size_t nbytes)
{
    if (count < *room)
        return KITH_OK;
    size_t wanted = *room == 0 ? 64 : 2 * *room;
    void *grown = wanted > SLOTS_MOST || ki_fault(KI_FAULT_ALLOC) ? NULL : realloc(*items, wanted * nbytes);
    if (grown == NULL)
        return ki_fail(KITH_ERR_NO_MEMORY, "checkpoint: no memory for the names of %zu tensors (at most %zu)", wanted,
                       SLOTS_MOST);
    *items = grown;
    *room = wanted;
    return KITH_OK;
}

static kith_status add_entry(ki_catalog *catalog, const ki_entry *entry)
{
    kith_status status =
        grow((void **)&catalog->entries, &catalog->entry_room, catalog->entry_count, sizeof *catalog->entries);
    if (status == KITH_OK) {
        catalog->entries[catalog->entry_count] = *entry;
        catalog->entries[catalog->entry_count].number = catalog->entry_count;
        catalog->entry_count++;
    }
    return status;
}

static kith_status add_slot(ki_catalog *catalog, const ki_slot *slot)
{
    kith_status status =
        grow((void **)&catalog->slots, &catalog->slot_room, catalog->slot_count, sizeof *catalog->slots);
    if (status == KITH_OK)
        catalog->slots[catalog->slot_count++] = *slot;
    return status;
}

/* ---- order ---- */

static int by_entry_name(const void *a, const void *b)
{
    return strcmp(((const ki_entry *)a)->name, ((const ki_entry *)b)->name);
}

static int by_slot_name(const void *a, const void *b)
{
    return strcmp(((const ki_slot *)a)->name, ((const ki_slot *)b)->name);
}

static kith_status sort(ki_catalog *catalog)
{
    size_t *places = ki_fault(KI_FAULT_ALLOC) ? NULL : malloc((catalog->entry_count + 1) * sizeof *places);
    if (places == NULL)
        return ki_fail(KITH_ERR_NO_MEMORY, "checkpoint: no memory for the names of %zu tensors", catalog->entry_count);
    if (catalog->entry_count > 0)
        qsort(catalog->entries, catalog->entry_count, sizeof *catalog->entries, by_entry_name);
    for (size_t i = 0; i < catalog->entry_count; i++)
        places[catalog->entries[i].number] = i;
    for (size_t i = 0; i < catalog->slot_count; i++)
        catalog->slots[i].entry = places[catalog->slots[i].entry];
    if (catalog->slot_count > 0)
        qsort(catalog->slots, catalog->slot_count, sizeof *catalog->slots, by_slot_name);
    free(places);
    return KITH_OK;
}

/* ---- weights ---- */

typedef struct maker {
    const kith_transformer_config *config;
    const ki_family *family;
    ki_catalog *catalog;
    const ki_name_row *open; /* row of the entry that may grow by the next one's part */
} maker;

static int64_t size_of(const kith_transformer_config *c, ki_size size)
{
    switch (size) {
    case KI_HIDDEN:
        return c->hidden;
    case KI_INNER:
        return c->inner;
    case KI_QUERIES:
        return c->heads * c->head_dim;
    case KI_KEYS:
        return c->kv_heads * c->head_dim;
    case KI_HEAD:
        return c->head_dim;
    case KI_WORDS:
        return c->vocabulary;
    case KI_POSITIONS:
        return c->positions;
    case KI_EXPERTS:
        return c->experts;
    default:
        return 1;
    }
}

static bool is_there(const kith_transformer_config *c, ki_when when)
{
    switch (when) {
    case KI_WITH_QKV_BIAS:
        return c->has_qkv_bias;
    case KI_WITH_HEAD_NORMS:
        return c->has_head_norms;
    case KI_WITH_OWN_HEAD:
        return !c->is_tied;
    case KI_WHEN_DENSE:
        return c->experts == 0;
    case KI_WITH_EXPERTS:
        return c->experts > 0;
    default:
        return true;
    }
}

/* Names are at most 62 characters: eight for the prefix, six digits each for block and expert. */
static void fill_in(const char *pattern, int64_t block, int64_t expert, char *name, size_t room)
{
    size_t used = strlen(name);
    for (; *pattern != '\0' && used + 1 < room; pattern++) {
        if (*pattern == '#' || *pattern == '@')
            used += (size_t)snprintf(name + used, room - used, "%lld", (long long)(*pattern == '#' ? block : expert));
        else
            name[used++] = *pattern;
        name[used < room ? used : room - 1] = '\0';
    }
}

static kith_status add_row(maker *make, const ki_name_row *row, int64_t block, int64_t expert)
{
    ki_catalog *catalog = make->catalog;
    ki_slot slot = { .dim_count = row->cols == KI_NONE ? 1 : 2 };
    ki_entry entry = { .dim_count = slot.dim_count, .is_transposed = row->is_transposed };
    slot.shape[0] = size_of(make->config, row->rows);
    slot.shape[1] = size_of(make->config, row->cols);
    fill_in(row->param, block, expert, slot.name, sizeof slot.name);
    ki_entry *last = catalog->entry_count > 0 ? &catalog->entries[catalog->entry_count - 1] : NULL;
    if (last != NULL && make->open != NULL && strcmp(make->open->tensor, row->tensor) == 0) {
        int dim = row->is_transposed ? 1 : 0;
        slot.entry = catalog->entry_count - 1;
        slot.first = last->shape[dim];
        last->shape[dim] += slot.shape[0];
        return add_slot(catalog, &slot);
    }
    slot.entry = catalog->entry_count;
    entry.shape[0] = row->is_transposed ? slot.shape[1] : slot.shape[0];
    entry.shape[1] = row->is_transposed ? slot.shape[0] : slot.shape[1];
    fill_in(row->has_prefix ? make->family->prefix : "", 0, 0, entry.name, sizeof entry.name);
    fill_in(row->tensor, block, expert, entry.name, sizeof entry.name);
    make->open = row;
    kith_status status = add_entry(catalog, &entry);
    return status == KITH_OK ? add_slot(catalog, &slot) : status;
}

/* Rows of blocks are repeated for each, those of experts for each of them. */
static kith_status add_rows(maker *make)
{
    const kith_transformer_config *c = make->config;
    kith_status status = KITH_OK;
    for (const ki_name_row *row = make->family->rows; row->param != NULL; row++) {
        if (!is_there(c, row->when) || strchr(row->param, '#') != NULL)
            continue;
        make->open = NULL;
        if ((status = add_row(make, row, 0, 0)) != KITH_OK)
            return status;
    }
    for (int64_t block = 0; block < c->blocks; block++) {
        make->open = NULL;
        for (const ki_name_row *row = make->family->rows; row->param != NULL; row++) {
            if (!is_there(c, row->when) || strchr(row->param, '#') == NULL)
                continue;
            int64_t experts = strchr(row->param, '@') != NULL ? c->experts : 1;
            for (int64_t expert = 0; expert < experts; expert++) {
                make->open = experts > 1 ? NULL : make->open;
                if ((status = add_row(make, row, block, expert)) != KITH_OK)
                    return status;
            }
        }
    }
    return status;
}

static kith_status add_tied_head(ki_catalog *catalog)
{
    for (size_t i = 0; i < catalog->slot_count; i++)
        if (strcmp(catalog->slots[i].name, "embedding.weight") == 0) {
            ki_slot slot = catalog->slots[i];
            snprintf(slot.name, sizeof slot.name, "head.weight");
            slot.is_copy = true;
            return add_slot(catalog, &slot);
        }
    return KITH_OK;
}

static void note_bare_names(ki_catalog *catalog, const ki_family *family)
{
    size_t nbytes = strlen(family->prefix);
    for (size_t i = 0; i < catalog->entry_count; i++) {
        ki_entry *entry = &catalog->entries[i];
        entry->bare = entry->name + (strncmp(entry->name, family->prefix, nbytes) == 0 ? nbytes : 0);
    }
}

kith_status ki_catalog_weights(const char *function, const kith_transformer_config *config, ki_catalog *catalog)
{
    ki_catalog made = { 0 };
    maker make = { .config = config, .catalog = &made };
    kith_status status = ki_family_find(function, config, &make.family);
    if (status == KITH_OK)
        status = add_rows(&make);
    if (status == KITH_OK && config->is_tied)
        status = add_tied_head(&made);
    if (status == KITH_OK)
        status = sort(&made);
    if (status == KITH_OK) {
        note_bare_names(&made, make.family);
        *catalog = made;
    } else {
        ki_catalog_fini(&made);
    }
    return status;
}

/* ---- states of an optimizer ---- */

/* The original of a copy stands before it: "embedding.weight" comes before "head.weight". */
static size_t find_original(const ki_catalog *catalog, const ki_slot *original, const char *state)
{
    char name[KI_NAME_NBYTES];
    snprintf(name, sizeof name, "%.*s.%.15s", KI_NAME_NBYTES - KI_STATE_NBYTES - 1, original->name, state);
    size_t i = 0;
    while (i < catalog->slot_count && strcmp(catalog->slots[i].name, name) != 0)
        i++;
    return i < catalog->slot_count ? catalog->slots[i].entry : 0;
}

static const ki_slot *original_of(const ki_catalog *weights, const ki_slot *copy)
{
    const ki_slot *slot = weights->slots;
    while (slot->is_copy || slot->entry != copy->entry)
        slot++;
    return slot;
}

static kith_status add_state(const ki_catalog *weights, const ki_slot *param, const char *state, ki_catalog *catalog)
{
    ki_slot slot = *param;
    slot.first = 0;
    snprintf(slot.name, sizeof slot.name, "%.*s.%.15s", KI_NAME_NBYTES - KI_STATE_NBYTES - 1, param->name, state);
    if (param->is_copy) {
        slot.entry = find_original(catalog, original_of(weights, param), state);
        return add_slot(catalog, &slot);
    }
    ki_entry entry = { .dim_count = param->dim_count, .shape = { param->shape[0], param->shape[1] } };
    memcpy(entry.name, slot.name, sizeof entry.name);
    slot.entry = catalog->entry_count;
    kith_status status = add_entry(catalog, &entry);
    return status == KITH_OK ? add_slot(catalog, &slot) : status;
}

kith_status ki_catalog_states(const ki_catalog *weights, const char *const *states, size_t count, ki_catalog *catalog)
{
    ki_catalog made = { 0 };
    kith_status status = KITH_OK;
    for (size_t i = 0; i < weights->slot_count && status == KITH_OK; i++)
        for (size_t s = 0; s < count && status == KITH_OK; s++)
            status = add_state(weights, &weights->slots[i], states[s], &made);
    if (status == KITH_OK)
        status = sort(&made);
    for (size_t i = 0; i < made.entry_count; i++)
        made.entries[i].bare = made.entries[i].name;
    if (status == KITH_OK)
        *catalog = made;
    else
        ki_catalog_fini(&made);
    return status;
}

void ki_catalog_fini(ki_catalog *catalog)
{
    free(catalog->entries);
    free(catalog->slots);
    *catalog = (ki_catalog){ 0 };
}

const ki_slot *ki_catalog_find(const ki_catalog *catalog, const char *param, const char *state)
{
    ki_slot wanted = { .entry = 0 };
    if (strlen(param) > KI_NAME_NBYTES - KI_STATE_NBYTES - 1)
        return NULL;
    snprintf(wanted.name, sizeof wanted.name, "%s%s%.15s", param, state != NULL ? "." : "", state != NULL ? state : "");
    return catalog->slot_count == 0
               ? NULL
               : bsearch(&wanted, catalog->slots, catalog->slot_count, sizeof wanted, by_slot_name);
}

int64_t ki_entry_count(const ki_entry *entry)
{
    return entry->dim_count == 1 ? entry->shape[0] : entry->shape[0] * entry->shape[1];
}
