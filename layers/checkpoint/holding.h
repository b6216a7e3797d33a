/* layers/checkpoint/holding.h - what a caller wants saved or loaded, checked; and what of it this rank has.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_CHECKPOINT_HOLDING_H
#define KI_CHECKPOINT_HOLDING_H

#include "catalog.h"
#include "layers/layers.h"
#include "part.h"
#include <kith/checkpoint.h>

typedef struct ki_holding {
    const char *function; /* for texts */
    kith_group *group;    /* NULL: this rank alone */
    kith_group *data, *expert_data;
    kith_layers *layers;
    kith_optim *optim;              /* NULL: weights alone */
    kith_transformer_config config; /* full */
    ki_catalog weights;
    ki_part *parts; /* [part_count] all values of this rank's parameters */
    size_t part_count;
} ki_holding;

/* Takes the caller's place, makes the catalog and the parts, and agrees over the group: every rank has the same status,
 * and nothing is left behind after a failure. Collective. */
kith_status ki_holding_open(const char *function, const kith_checkpoint_place *given, ki_holding *holding);
void ki_holding_close(ki_holding *holding);

/* The ranks that have the same part of a parameter and other data; NULL: this one alone. */
kith_group *ki_holding_replicas(const ki_holding *holding, const kith_param *param);

/* Number of this rank, 0 without a group; and how many there are. */
int ki_holding_rank(const ki_holding *holding);
int ki_holding_size(const ki_holding *holding);

#endif
