/* layers/checkpoint/catalog.h - all tensors that a file of a model has, and where in them each parameter lies.
 *
 * It follows from the configuration alone, so every rank has the same one, with the tensors that only others hold.
 *
 *     entries   tensors as the file has them, in the order of their names, which is their order in the file
 *     slots     parameters; several may be parts of one entry (GPT-2's q, k, v), and an entry may be two parameters
 *               (a tied head is a copy of the embedding)
 *
 * Element (r, c) of a parameter [rows, cols] is element (first + r, c) of its entry, or (c, first + r) where the entry
 * is transposed. Row numbers are those of the whole, without padding.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_CHECKPOINT_CATALOG_H
#define KI_CHECKPOINT_CATALOG_H

#include "family.h"
#include <stddef.h>

enum { KI_NAME_NBYTES = 96, KI_STATE_NBYTES = 16 }; /* of a name with the state behind it, and of the state */

typedef struct ki_entry {
    char name[KI_NAME_NBYTES];
    const char *bare; /* of the name, what is behind the family's prefix */
    int dim_count;
    int64_t shape[2];
    bool is_transposed;
    size_t number; /* in the order of making */
} ki_entry;

typedef struct ki_slot {
    char name[KI_NAME_NBYTES]; /* of the parameter; with the state behind it in a file of an optimizer */
    size_t entry;
    int64_t first;
    int dim_count;
    int64_t shape[2]; /* of the parameter */
    bool is_copy;     /* another slot has the same elements, and writes them */
} ki_slot;

typedef struct ki_catalog {
    ki_entry *entries; /* [entry_count], sorted by name */
    size_t entry_count;
    ki_slot *slots; /* [slot_count], sorted by name */
    size_t slot_count;
    size_t entry_room, slot_room;
} ki_catalog;

/* Of weights, under Hugging Face's names. config: full. */
kith_status ki_catalog_weights(const char *function, const kith_transformer_config *config, ki_catalog *catalog);

/* Of an optimizer: "<parameter>.<state>" for each of the states, in the parameters' own shapes. */
kith_status ki_catalog_states(const ki_catalog *weights, const char *const *states, size_t count, ki_catalog *catalog);

void ki_catalog_fini(ki_catalog *catalog);

/* NULL when there is none. state NULL: of weights. */
const ki_slot *ki_catalog_find(const ki_catalog *catalog, const char *param, const char *state);

/* Elements. */
int64_t ki_entry_count(const ki_entry *entry);

#endif
