/* layers/checkpoint/lift.h - parts whose elements are on a device, walked on the host.
 *
 * Files are written from the host's memory and read into it. Parts that are there are walked where they lie; those on a
 * device go through a buffer, in pieces, so that no more than one piece is there twice.
 *
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef KI_CHECKPOINT_LIFT_H
#define KI_CHECKPOINT_LIFT_H

#include "part.h"

/* ki_part_walk() where `each` reads elements. */
kith_status ki_lift_out(const ki_part *part, ki_stretch_fn each, void *arg);
/* The same where it writes them, all that are real; padding becomes zero. */
kith_status ki_lift_in(const ki_part *part, ki_stretch_fn each, void *arg);

#endif
