/* layers/dropout.h - which random numbers belong to an element.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_LAYERS_DROPOUT_H
#define KI_LAYERS_DROPOUT_H

#include "layers.h"

#define KI_DROPOUT_SITES 65536

/* probability in [0, 1), site in 0 .. KI_DROPOUT_SITES - 1. what: "<layer>" or "<function>". */
kith_status ki_dropout_check(const char *what, double probability, int site);

/* The dropout of a tensor whose first row is position 0 of the microbatch; probability 0 without training. Fails where
 * samples are beyond what masks are keyed by. */
kith_status ki_dropout_make(const kith_tape *tape, const char *what, double probability, int site, ki_dropout *dropout);

#endif
