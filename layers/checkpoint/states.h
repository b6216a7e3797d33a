/* layers/checkpoint/states.h - what an optimizer keeps, as tensors of a file.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_CHECKPOINT_STATES_H
#define KI_CHECKPOINT_STATES_H

#include "archive.h"
#include "holding.h"

#define KI_MASTER "master"
enum { KI_STATES = 3 };

typedef struct ki_states {
    const char *names[KI_STATES]; /* [count] kinds of state: "m", "v", "master" */
    size_t count;
    kith_dtype dtype;
    ki_catalog catalog;
    ki_part *parts;   /* [part_count] this rank's pieces */
    bool *is_counted; /* [part_count] this rank writes it */
    size_t part_count;
    bool lacks_masters; /* the optimizer has masters, the file that is loaded has none */
    bool gives_masters; /* the file has masters, the optimizer, whose weights are precise by themselves, has none */
} ki_states;

/* Of the holding's optimizer, or nothing where there is none. Ranks whose shards are empty learn the kinds from the
 * others. file: what is to be loaded, NULL when saving: masters are in the catalog when the file has them. mine: what
 * happened on this rank before; all get one status. Collective. */
kith_status ki_states_open(const ki_holding *holding, kith_status mine, const ki_archive *file, ki_states *states);
void ki_states_close(ki_states *states);

#endif
